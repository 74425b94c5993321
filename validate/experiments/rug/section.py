"""The rug's part of the report."""

import json
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from ....solvers.statistics import student
from ...runner.declarations import Figure, Run, Section, Table, Topic, TopicContent
from ...training.schedule import CONVERGED
from ..drawing import plot_function
from . import plots, runs
from .runs import RATIOS, nearest_ratio

# The six panels of Fig. 2.
PANELS = (0.001, 0.01, 0.05, 0.1, 0.4, 0.6)
# Where theory's curves are drawn.
CURVES = {
    "p": np.unique(np.concatenate([np.geomspace(1e-4, 1, 81), PANELS])),
    "ratio": np.unique(np.concatenate([np.geomspace(1e-4, 0.1, 80), np.linspace(0.1, 1, 91)])),
}
PLANE = {"p": np.geomspace(1e-6, 1, 121), "ratio": np.geomspace(1e-6, 1, 121)}
PROFILE = {"p": 0.05, "ratio": [0.005, 0.02, 0.032, 0.05, 0.1, 0.3], "shift": np.linspace(-5, 6, 221)}

TEXT = """
A ReLU autoencoder of sparse data keeps n_hidden numbers for n_features features. If its weights are
statistically symmetric, the other features act on each output like Gaussian noise, and the loss depends on
three numbers alone: the scale a, the bias b and the standard deviation sigma of that noise, which the ratio
n_hidden/n_features bounds from below. The Persian rug attains the bound. Lines in the figures are its loss at
the optimal a and b, computed without sampling; markers are models that were really trained.

The bound on sigma is a theorem about one choice of weights, not about what training finds. The tables give
the relative excess of trained models over the rug; negative numbers are models that beat it.
"""
MARKERS = (
    "Every seed is shown, at the source's stopping rule (open) and after further steps (filled). Models of "
    "this run were evaluated exactly, the reference runs on 2^19 samples, with standard errors mostly below "
    "the marker's size. "
)
INTERVALS = "± and bars: Student's 95 % interval of the mean over seeds."


@plot_function
def loss_curves(trained: xr.Dataset, curves: xr.Dataset | None = None) -> xr.Dataset:
    """Put all trained losses, relative to the loss at ratio 0, beside theory on a fine grid.

    Parameters
    ----------
    trained : xarray.Dataset
        From `run_reference` or `run_trained`, or several of them in one.
    curves : xarray.Dataset, optional
        From `run_theory`; on the grid of the report's figures if not given.

    Returns
    -------
    xarray.Dataset
        That of `run_theory`, with the models' losses ``trained`` and what names them.
    """
    per_model = {name: trained[name] for name in ("n_features", "n_hidden", "seed", "origin", "excess")}
    per_model["trained"] = trained["loss"] / trained["zero_ratio_loss"]
    per_model |= {"model_p": trained["p"], "model_ratio": trained["ratio"]}
    return (runs.run_theory(**CURVES) if curves is None else curves).assign(per_model)


def _mean(values: npt.ArrayLike, digits: str = "+.1%") -> str:
    if np.size(values) == 1:
        return f"{np.ravel(values)[0]:{digits}}"
    mean, half = student(values)
    return f"{mean:{digits}} ± {half:{digits.removeprefix('+')}}"


def _frame(trained: xr.Dataset) -> pd.DataFrame:
    """Return a row for each model at each end, for the ratios that are tabulated."""
    frame = trained.to_dataframe().reset_index()
    frame["ratio ≈"] = nearest_ratio(frame["ratio"])
    return frame.dropna(subset=["ratio ≈"])


def _means(title: str, frame: pd.DataFrame, values: dict[str, str], by: list[str], caption: str) -> Table:
    """Tabulate means over seeds with their intervals, a column for each value, in its format, and end."""
    said = {name: partial(_mean, digits=digits) for name, digits in values.items()}
    means = frame.dropna(subset=["loss"]).pivot_table(list(values), by, "end", aggfunc=said)
    means.columns = [f"{name}, {end}" for name, end in means.columns]
    return Table.of(title, means.fillna("–").reset_index(), f"{caption} {INTERVALS}")


def _show_picture(ds: xr.Dataset) -> TopicContent:
    n, m = ds.sizes["row"], ds.attrs["n_hidden"]
    title = f"Fig. 1: the rug, n_features = {n}, n_hidden = {m}"
    caption = (
        f"Decoder times encoder, built from {m} random rows of the Hadamard matrix; the diagonal is 1 "
        "(beyond the colour scale)."
    )
    return TopicContent("", [Figure("image", title, caption, ds, plots.plot_rug, size=(5.2, 4.4))])


def _show_losses(reference: xr.Dataset, here: xr.Dataset, curves: xr.Dataset) -> TopicContent:
    here = here.reindex(end=reference["end"])  # a short run has one end only
    trained = xr.concat([reference, here], "model", combine_attrs="drop")
    losses = loss_curves(trained, curves)
    wide: dict[str, Any] = {"columns": 3, "size": (3.6, 3.1)}
    by_ratio = [partial(plots.plot_loss_against_ratio, p=p, legend=p == PANELS[-1]) for p in PANELS]
    by_p = [partial(plots.plot_loss_against_p, ratio=r, legend=r == RATIOS[0]) for r in RATIOS]
    by_size = [partial(plots.plot_excess, ratio=ratio) for ratio in RATIOS]
    of_ratio = f"{MARKERS}n = {int(here['n_features'][0])} is of this run, other sizes are of reference runs."
    of_p = f"{MARKERS}The dotted line is the closed small-p law, which has no free constant."
    of_onset = (
        "Lines: macroscopic optimum; bars: where its bias changes sign; dots: models after further steps, "
        "all sizes and seeds."
    )
    of_size = (
        "Means over seeds (open, dotted: stopping rule; filled: after further steps). Below 1 the trained "
        f"model beats the rug. {INTERVALS}"
    )
    onset, trend = "The drop sets in around ratio = p", "Trained models over the rug, and its trend with size"
    figures = [
        Figure("loss-against-ratio", "Fig. 2: loss against the ratio", of_ratio, losses, by_ratio, **wide),
        Figure("loss-against-p", "Loss against p at fixed ratio", of_p, losses, by_p, **wide),
        Figure("onset", onset, of_onset, losses, plots.plot_onset, size=(5.6, 3.8)),
        Figure("excess", trend, of_size, losses, by_size, **wide),
    ]
    frame = _frame(trained)
    title = "Relative excess of trained models over the rug"
    caption = (
        "loss / rug's macroscopic optimum at the true ratio, less 1. Sizes may differ in budget, see the "
        "table of reference runs."
    )
    excess = _means(title, frame, {"excess": "+.1%"}, ["p", "ratio ≈", "n_features"], caption)
    caption = "Trained beforehand with `superposition run`; validate/reference/README.md gives the commands."
    made = Table.of("Reference runs", pd.DataFrame(json.loads(reference.attrs["provenance"])), caption)
    tables = [excess, _weights_table(frame), made]
    return TopicContent("", figures, tables, _headline(frame, curves))


def _headline(frame: pd.DataFrame, curves: xr.Dataset) -> str:
    """Say what the largest models do in the middle of the plane."""
    last = frame[frame["end"] == CONVERGED].dropna(subset=["loss"])
    off = np.abs(np.log(last["p"] / 0.05)) + np.abs(np.log(last["ratio ≈"] / 0.25))
    models = last[off == off.min()]
    models = models[models["n_features"] == models["n_features"].max()]
    one = models.iloc[0]
    affine = float(curves["linear_loss"].sel(p=one["p"]).interp(ratio=one["ratio"]))
    return (
        f"Trained autoencoders of {one['n_features']} features (p = {one['p']:g}, ratio {one['ratio']:g}) "
        f"have {_mean(models['loss'] / models['optimum'], '.3f')} times the loss of the Persian rug and "
        f"{models['loss'].mean() / affine:.2f} times that of the best affine model."
    )


def _weights_table(frame: pd.DataFrame) -> Table:
    names = ["diagonal_mean", "diagonal_sd", "optimum_a", "bias_mean", "bias_sd", "optimum_b", "lyapunov_max"]
    frame = frame.dropna(subset=["loss"])
    n = frame["n_features"].max()
    frame = frame[frame["n_features"] == n]
    return Table.of(
        f"What trained weights look like, n_features = {n}",
        frame.groupby(["p", "ratio ≈", "end"])[[*names, "dropped"]].mean().reset_index(),
        "Means over seeds; standard deviations are over the features of a model. optimum_a and optimum_b are "
        "the rug's, b for interference of mean zero. The Lyapunov ratio (Eq. 3) is the maximum over rows: "
        f"about {np.sqrt(8 / (np.pi * n)):.3f} for Gaussian rows of this length, and 1 if one other feature "
        "makes all the interference, as in an antipodal pair. Dropped: share of features without a diagonal.",
    )


def _show_first_weights(aligned: xr.Dataset, linear: xr.Dataset) -> TopicContent:
    kinds = {"W_out = W_in'": _frame(aligned), "independent (source)": _frame(linear)}
    frame = pd.concat(kinds, names=["first weights"]).reset_index("first weights")
    both = frame[frame["p"].isin(linear["p"].values) & frame["ratio"].isin(linear["ratio"].values)]
    title = "What the first weights decide"
    caption = (
        f"n_features = {int(linear['n_features'][0])}, trained in this run. With independent first weights "
        "half of the diagonal starts negative; `dropped` is the share of features that end with a diagonal "
        "below a tenth of the largest one."
    )
    table = _means(
        title, both, {"excess": "+.1%", "dropped": ".1%"}, ["p", "ratio", "first weights"], caption
    )
    return TopicContent("", (), [table])


def _show_finite(*finite: xr.Dataset) -> TopicContent:
    cases = [one.assign(p=one.attrs["p"], ratio=one.attrs["ratio"]) for one in finite]
    case = xr.concat(cases, "case", combine_attrs="drop")
    draws = finite[0].sizes["draw"]
    title = "The rug at finite size tends to the macroscopic loss"
    caption = (
        "Scale and bias from the macroscopic optimum, the bias corrected for the interference's exact mean; "
        f"{draws} random rugs at each size, each simulated (bars: 95 % interval) and exact."
    )
    panels = [partial(plots.plot_finite_size, case=k) for k in range(len(cases))]
    figure = Figure("finite-size", title, caption, case, panels, size=(4.2, 3.2))
    frame = case.to_dataframe().reset_index()
    for name in ("exact", "predicted", "simulated"):
        frame[f"{name}, excess"] = frame[name] / frame["macroscopic"] - 1
    cells = frame.groupby(["p", "ratio", "n_features"])
    means = cells[[name for name in frame if name.endswith("excess")]].agg(_mean)
    title = "The rug's exact loss tends to the macroscopic one"
    caption = (
        f"Means over {draws} random rugs with Student's 95 % interval; predicted: the first Edgeworth "
        "correction."
    )
    table = Table.of(title, means.assign(macroscopic=cells["macroscopic"].first()).reset_index(), caption)
    largest = frame[frame["n_features"] == frame["n_features"].max()].groupby(["p", "ratio"])["exact, excess"]
    means = largest.agg(partial(_mean, digits="+.2%"))
    said = [f"{mean} (p = {p:g}, ratio {ratio:g})" for (p, ratio), mean in means.items()]
    headline = (
        f"At n_features = {frame['n_features'].max()} the rug's exact loss differs from the macroscopic "
        f"formula by {' and '.join(said)}."
    )
    return TopicContent("", [figure], [table], headline)


def _show_bias(profile: xr.Dataset, plane: xr.Dataset) -> TopicContent:
    sparse = float(plane["crossover_ratio"][0] / plane["p"][0])
    moves = "One minimum, which moves through zero bias: a crossover, not a jump"
    signs = "Where the optimal bias is negative (sparse regime) and positive (almost affine)"
    of_profile = "Macroscopic loss over the shift, the scale optimal at each; dots mark the minimum."
    of_signs = f"The bias vanishes on the black line; for small p it is ratio = {sparse:.3f} p."
    figures = [
        Figure("profile", moves, of_profile, profile, plots.plot_profile, size=(5.2, 3.6)),
        Figure("bias", signs, of_signs, plane, plots.plot_bias_map, size=(5.2, 3.8)),
    ]
    return TopicContent("", figures)


def _show_checked(ds: xr.Dataset) -> TopicContent:
    digits = {"n_features": "d", "n_hidden": "d", "p": "g", "exact": ".9g", "error_estimate": ".1e"}
    digits |= {"sampled": ".9g", "sampled_se": ".1e", "z": "+.2f"}
    title = "Exact loss of trained models against samples"
    caption = (
        f"Trained in this run; {ds.attrs['samples']:.1e} fresh samples. Their float32 arithmetic errs by "
        "about 1e-7 relative; z is the difference in standard errors."
    )
    table = Table.formatted(title, ds, {name: f"{{{name}:{form}}}" for name, form in digits.items()}, caption)
    return TopicContent("", (), [table])


def _finite(p: float, ratio: float) -> Run:
    case, sizes = {"p": p, "ratio": ratio}, (64, 256, 1024, 4096)
    full = {**case, "n_features": (*sizes, 16384), "samples": 4000}
    return Run(runs.run_finite_size, {**case, "n_features": sizes}, full, seconds=4)


# The quick models: three seeds, for an interval; at four p and three ratios; converged only.
FAST = {"n_features": 64, "seeds": range(3), "steps": 1500, "schedule": "converged"}
LONG = {"n_features": 128, "seeds": range(5), "steps": 20_000}
DENSE, ONE = (0.001, 0.01, 0.1, 0.4), {"seeds": range(1)}
QUICK: dict[str, dict[str, Any]] = {
    "trained": {**FAST, "p": PANELS[1:5], "ratio": (0.125, 0.25, 0.5)},
    "linear_init": {**FAST, "p": (0.01, 0.1), "ratio": (0.25, 0.5), "init": "linear"},
    "checked": {"n_features": 32, "p": (0.01, 0.1, 0.4), "ratio": (0.25,), **ONE},
}
FULL: dict[str, dict[str, Any]] = {
    "trained": {**LONG, "p": PANELS, "ratio": (0.06, 0.125, 0.25, 0.5, 0.75)},
    "linear_init": {**LONG, "p": (0.01, 0.05, 0.1), "ratio": (0.25, 0.5), "init": "linear"},
    "checked": {"n_features": 128, "p": DENSE, "ratio": (0.125, 0.25), **ONE, "samples": 10**7},
}
SPLIT: dict[str, Any] = {"split_by": "seeds", "concat_dim": "model", "torch": True}

SECTION = Section(
    "rug",
    "The Persian rug",
    TEXT,
    {
        "picture": Run(runs.run_rug),
        "curves": Run(runs.run_theory, CURVES, CURVES, seconds=3),
        "plane": Run(runs.run_theory, PLANE, PLANE, seconds=3),
        "profile": Run(runs.run_bias, PROFILE, PROFILE),
        "reference": Run(runs.run_reference),
        "trained": Run(runs.run_trained, QUICK["trained"], FULL["trained"], seconds=22, **SPLIT),
        "linear_init": Run(runs.run_trained, QUICK["linear_init"], FULL["linear_init"], seconds=8, **SPLIT),
        "finite_sparse": _finite(0.05, 0.25),
        "finite_dense": _finite(0.4, 0.5),
        "checked": Run(runs.run_checked, QUICK["checked"], FULL["checked"], torch=True, seconds=8),
    },
    [
        Topic("losses", ["reference", "trained", "curves"], _show_losses, claims=["C26", "C27"]),
        Topic("picture", ["picture"], _show_picture, claims=["C11", "C12", "C13"]),
        Topic("first weights", ["trained", "linear_init"], _show_first_weights),
        Topic("finite sizes", ["finite_sparse", "finite_dense"], _show_finite, claims=["C6"]),
        Topic("bias", ["profile", "plane"], _show_bias, claims=["C18"]),
        Topic("check", ["checked"], _show_checked),
    ],
)
