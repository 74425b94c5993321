"""Fig. 2 of Cowsik et al. (2024): the loss of trained models against ratio, p and size, beside the rug's."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....theory import rug as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ...reference.read import read_runs, stored_facts
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent
from ...training.schedule import CONVERGED
from ..drawing import draw_means, finish_axes, plot_function, size_axis
from .grids import PANELS
from .models import (
    FULL_MODELS,
    INTERVALS,
    QUICK_MODELS,
    RATIOS,
    format_mean,
    means_table,
    models_frame,
    run_trained,
    with_theory,
)

# Where theory's curves are drawn.
CURVES = {
    "p": np.unique(np.concatenate([np.geomspace(1e-4, 1, 81), PANELS])),
    "ratio": np.unique(np.concatenate([np.geomspace(1e-4, 0.1, 80), np.linspace(0.1, 1, 91)])),
}


# Stored runs of the figures: from 128 features on, to the stopping rule and further, and, with seeds from 5
# on, trained on at a slower rate. Other seeds were trained to judge claims.
REFERENCE_FILTER: dict[str, Any] = {
    "experiment": "training.grid",
    "steps": [8000, 16_000],
    "n_features": lambda n_features: n_features >= 128,
    "seeds": lambda seeds: seeds[0] in (0, 5),
}


MARKERS = (
    "Every seed is shown, at the source's stopping rule (open) and after further steps (filled). Models of "
    "this run were evaluated exactly, the reference runs on 2^19 samples, with standard errors mostly below "
    "the marker's size. "
)


@as_annotated
def run_theory(p: npt.ArrayLike, ratio: npt.ArrayLike) -> xr.Dataset:
    """Compute the loss of the macroscopic optimum and of its limiting cases on the product p × ratio.

    The macroscopic optimum is the rug of least loss in the limit of many features (Cowsik et al. 2024), see
    `solvers.rug.optimum`; ratio is n_hidden/n_features.

    Returns
    -------
    xarray.Dataset
        Of (p, ratio): ``loss`` per feature, scale ``a`` and bias ``b`` of the optimum; ``sigma``, the
        standard deviation of the interference over a; ``linear_loss``, of the best affine model;
        ``asymptotic_loss``, the closed form for p -> 0. Of (p): ``zero_ratio_loss``, the loss at ratio 0;
        ``crossover_ratio``, at which the optimal bias changes sign.
    """
    p, ratio = validation.numbers_or_repeat("p", p), validation.numbers_or_repeat("ratio", ratio)
    best = solvers.optimum(p[:, None], ratio)
    columns = {name: getattr(best, name) for name in ("loss", "a", "b", "sigma")}
    columns["linear_loss"] = theory.linear_loss(p[:, None], ratio)
    columns["asymptotic_loss"] = theory.asymptotic_loss(p[:, None], ratio)
    ds = xr.Dataset({name: (("p", "ratio"), values) for name, values in columns.items()})
    return ds.assign(
        zero_ratio_loss=("p", theory.zero_ratio_loss(p)), crossover_ratio=("p", solvers.crossover_ratio(p))
    ).assign_coords(p=p, ratio=ratio)


@as_annotated
def run_reference(folder: str | Path = "") -> xr.Dataset:
    """Return stored models of 128 features and more, of the project or of a folder, in one dataset.

    The models are trained autoencoders of the dataset "training", in `folder`, or in ``validate/reference``
    if none is given. Training may end by a stopping rule, after further steps, or at both; a run's entries at
    ends that it lacks are nan.

    Returns
    -------
    xarray.Dataset
        Of (model) and (end of training, model), as from `with_theory`: sizes, losses, statistics of the
        weights, and the rug's loss (``optimum``). The attribute ``provenance`` (JSON) has for each run its
        name, sizes, device, settings and wall time; ``stored_file``, ``stored_date``, ``stored_device`` are
        those of all.
    """
    datasets = read_runs("training", folder=folder, **REFERENCE_FILTER)
    facts = ("device_name", "torch_version", "steps", "batch_size", "wall_time_seconds", "finished")
    provenance = [
        {"run": name, "n_features": int(ds["n_features"]), "models": ds.sizes["model"]}
        | {fact: ds.attrs[fact] for fact in facts}
        for name, ds in datasets.items()
    ]
    runs = [with_theory(ds, "reference") for ds in datasets.values()]
    ends = list(dict.fromkeys(end for ds in runs for end in ds["end"].values))
    trained = xr.concat(runs, "model", join="outer", combine_attrs="drop").sel(end=ends).drop_encoding()
    provenance_json = json.dumps(provenance, default=lambda number: number.item())
    return trained.assign_attrs(provenance=provenance_json, **stored_facts("training.nc", provenance))


@plot_function
def loss_curves(trained: xr.Dataset, curves: xr.Dataset | None = None) -> xr.Dataset:
    """Return theory on a fine grid with the losses of all trained models, over the loss at ratio 0.

    Parameters
    ----------
    trained : xarray.Dataset
        Models, from `run_reference` or `run_trained`, or several of these datasets in one.
    curves : xarray.Dataset, optional
        Losses of the rug over (p, ratio), from `run_theory`; on the grid of the report's figures if not
        given.

    Returns
    -------
    xarray.Dataset
        `curves` with added variables. Of (end, model): ``trained``, losses over the loss at ratio 0, and
        ``excess``, (loss)/(rug's loss) - 1. Of (model): ``n_features``, ``n_hidden``, ``seed``, ``origin``,
        ``model_p`` and ``model_ratio``.
    """
    per_model = {name: trained[name] for name in ("n_features", "n_hidden", "seed", "origin", "excess")}
    per_model["trained"] = trained["loss"] / trained["zero_ratio_loss"]
    per_model |= {"model_p": trained["p"], "model_ratio": trained["ratio"]}
    return (run_theory(**CURVES) if curves is None else curves).assign(per_model)


# Marker and colour of a model's size (Okabe and Ito).
STYLES = {
    64: ("v", "C4"), 128: ("o", "C1"), 256: ("s", "C2"), 512: ("D", "C3"), 1024: ("^", "C5"),
    2048: ("<", "C6"), 4096: ("P", "C2"), 8192: ("X", "C5"),
}  # fmt: skip


COLOURS = ("C1", "C2", "C3", "C4", "C5", "C6")


def _draw_models(ax: Axes, ds: xr.Dataset, x: str, sizes: np.ndarray | None) -> None:
    """Draw losses of models against `x`: open markers at the stopping rule, filled ones after further steps.

    Losses are over the loss at ratio 0; `ds` is from `loss_curves`, `x` a variable of it, such as "model_p".
    The legend names all `sizes` (n_features), even those without a marker; None gives no legend.
    """
    for n in np.unique(ds["n_features"]):
        marker, colour = STYLES.get(int(n), ("x", "C6"))
        models = ds.isel(model=ds["n_features"].values == n)
        for end in range(models.sizes["end"]):
            face = colour if end == models.sizes["end"] - 1 else "none"
            style: dict[str, Any] = {"color": colour, "markerfacecolor": face, "alpha": 0.85}
            style |= {"markersize": 3.6, "markeredgewidth": 0.8}
            ax.plot(models[x], models["trained"].isel(end=end), marker, **style)
    for n in () if sizes is None else np.unique(sizes):
        marker, colour = STYLES.get(int(n), ("x", "C6"))
        ax.plot([], [], marker, color=colour, markersize=3.6, label=f"n = {n}")


def _draw_limits(ax: Axes, line: xr.Dataset, x: str) -> None:
    """Draw the losses of the rug (the best random code) and of the affine optimum, over the loss at ratio 0.

    `line` is from `run_theory`, at one value of the other coordinate; x is the coordinate of the axis, "p" or
    "ratio".
    """
    zero = line["zero_ratio_loss"]
    ax.plot(line[x], line["loss"] / zero, color="C0", label="Persian rug")
    ax.plot(line[x], line["linear_loss"] / zero, color="0.5", linestyle="--", label="affine optimum")
    ax.set(yscale="log", ylabel="loss / loss at ratio 0")


@plot_function
def plot_loss_against_ratio(ds: xr.Dataset, ax: Axes, p: float, legend: bool = False) -> Axes:
    """Draw the loss against n_hidden/n_features at one p: theory, affine optimum, trained models.

    `ds` is from `loss_curves`; the plot is Fig. 2 of Cowsik et al. (2024). With `legend` lines are named.
    """
    line = ds.sel(p=p)
    _draw_limits(ax, line, "ratio")
    ax.axvline(p, color="0.8", linewidth=0.8, zorder=0)
    models = ds.isel(model=np.isclose(ds["model_p"], p))
    _draw_models(ax, models, "model_ratio", ds["n_features"].values if legend else None)
    rug = float((line["loss"] / line["zero_ratio_loss"]).sel(ratio=0.9, method="nearest"))
    low = np.fmin.reduce([rug, 0.3, *models["trained"].values.ravel()])
    ax.set(ylim=(0.6 * low, 1.6), xlim=(0, 1), xlabel="ratio n_hidden / n_features")
    return finish_axes(ax, "lower left" if legend else None, title=f"p = {p:g}")


@plot_function
def plot_loss_against_p(ds: xr.Dataset, ax: Axes, ratio: float, legend: bool = False) -> Axes:
    """Draw the loss against p near one ratio: lines at the ratio, trained models within 5 % of it.

    `ds` is from `loss_curves`; with `legend` lines are named.
    """
    line = ds.sel(ratio=ratio, method="nearest")
    _draw_limits(ax, line, "p")
    small = (line["asymptotic_loss"] / line["zero_ratio_loss"]).where(ds["p"] < 0.03)
    ax.plot(ds["p"], small, color="C6", linestyle=":", linewidth=2, label="small-p law")
    models = ds.isel(model=np.abs(ds["model_ratio"].values / ratio - 1) < 0.05)
    _draw_models(ax, models, "model_p", ds["n_features"].values if legend else None)
    location, title = "lower right" if legend else None, f"ratio ≈ {ratio:g}"
    return finish_axes(ax, location, xscale="log", xlabel="feature probability p", title=title)


@plot_function
def plot_onset(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss against ratio/p, where the ratio is n_hidden / n_features: it drops near ratio = p.

    `ds` is from `loss_curves`; a mark shows where the optimal bias changes sign.
    """
    for p, colour in zip((0.001, 0.01, 0.05, 0.1, 0.4), COLOURS, strict=False):
        line = ds.sel(p=p, method="nearest")
        zero = float(line["zero_ratio_loss"])
        ax.plot(ds["ratio"] / p, line["loss"] / zero, color=colour, label=f"p = {p:g}")
        cross = float(line["crossover_ratio"])
        height = np.interp(cross, ds["ratio"], line["loss"] / zero)
        ax.plot(cross / p, height, "|", color=colour, markersize=12)
        has_p = np.isclose(ds["model_p"], p)
        if has_p.any():
            models = ds.isel(model=has_p, end=-1)
            ax.plot(models["model_ratio"] / p, models["trained"], "o", color=colour, markersize=3, alpha=0.8)
    ax.axvline(1, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xscale="log", xlim=(0.1, 10), ylim=(0, 1.05))
    return finish_axes(ax, xlabel="ratio / p", ylabel="loss / loss at ratio 0")


@plot_function
def plot_excess(ds: xr.Dataset, ax: Axes, ratio: float) -> Axes:
    """Draw (trained loss) / (rug's loss) against n_features near one ratio: means over seeds, with intervals.

    `ds` is from `loss_curves`; models have n_hidden/n_features within 5 % of `ratio`. Ends of training that a
    run did not reach are left out.
    """
    sizes = np.unique(ds["n_features"])
    near = np.abs(ds["model_ratio"].values / ratio - 1) < 0.05
    for p, colour in zip(np.unique(ds["model_p"]), COLOURS, strict=False):
        for end in range(ds.sizes["end"]):
            filled = end == ds.sizes["end"] - 1
            has_p = near & (ds["model_p"].values == p)
            over = 1 + ds["excess"].values[end]
            rows = [np.where(has_p & (ds["n_features"].values == n), over, np.nan) for n in sizes]
            if np.isfinite(rows).sum(axis=1).max() < 2:
                continue
            style: dict[str, Any] = {"color": colour, "markerfacecolor": colour if filled else "white"}
            style |= {"fmt": "o-" if filled else "o:", "markersize": 4, "linewidth": 1, "capsize": 0}
            draw_means(ax, sizes, rows, label=f"p = {p:g}" if filled else None, **style)
    ax.axhline(1, color="C0")
    size_axis(ax, sizes, yscale="log")
    return finish_axes(ax, ylabel="trained loss / rug's optimum", title=f"ratio ≈ {ratio:g}")


def _show_losses(reference: xr.Dataset, fresh: xr.Dataset, curves: xr.Dataset) -> TopicContent:
    """Return figures, tables and headline of the report's part "losses": trained models beside theory.

    Figures have losses against the ratio, against p, against ratio/p and against n_features; tables have mean
    excess over the random code's loss, weight statistics, and where stored models come from. `reference` has
    stored models, from `run_reference`, `fresh` has models trained for the report, from `run_trained`, and
    `curves` the theory, from `run_theory`.
    """
    fresh = fresh.reindex(end=reference["end"])  # a short run has one end only
    trained = xr.concat([reference, fresh], "model", combine_attrs="drop")
    losses = loss_curves(trained, curves)
    wide: dict[str, Any] = {"columns": 3, "size": (3.6, 3.1)}
    by_ratio = [partial(plot_loss_against_ratio, p=p, legend=p == PANELS[-1]) for p in PANELS]
    by_p = [partial(plot_loss_against_p, ratio=r, legend=r == RATIOS[0]) for r in RATIOS]
    by_size = [partial(plot_excess, ratio=ratio) for ratio in RATIOS]
    of_ratio = (
        f"{MARKERS}n = {int(fresh['n_features'][0])} is of this run, other sizes are of reference runs."
    )
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
        Figure("onset", onset, of_onset, losses, plot_onset, size=(5.6, 3.8)),
        Figure("excess", trend, of_size, losses, by_size, **wide),
    ]
    frame = models_frame(trained)
    title = "Relative excess of trained models over the rug"
    caption = (
        "loss / rug's macroscopic optimum at the true ratio, less 1. Sizes may differ in budget, see the "
        "table of reference runs."
    )
    excess = means_table(title, frame, {"excess": "+.1%"}, ["p", "ratio ≈", "n_features"], caption)
    caption = "Trained beforehand with `superposition run`; validate/reference/README.md gives the commands."
    provenance = Table.of("Reference runs", pd.DataFrame(json.loads(reference.attrs["provenance"])), caption)
    tables = [excess, _weights_table(frame), provenance]
    return TopicContent("", figures, tables, _headline(frame, curves))


def _headline(frame: pd.DataFrame, curves: xr.Dataset) -> str:
    """Return a sentence on the largest models' loss near p = 0.05, ratio 0.25, over two predictions.

    The predictions are the losses of the random code ("rug") and of the affine model. `frame` has a row for
    each trained model and end of training; `curves` is from `run_theory`.
    """
    last = frame[frame["end"] == CONVERGED].dropna(subset=["loss"])
    distance = np.abs(np.log(last["p"] / 0.05)) + np.abs(np.log(last["ratio ≈"] / 0.25))
    models = last[distance == distance.min()]
    models = models[models["n_features"] == models["n_features"].max()]
    first = models.iloc[0]
    relative = format_mean(models["loss"] / models["optimum"], ".3f")
    affine = float(curves["linear_loss"].sel(p=first["p"]).interp(ratio=first["ratio"]))
    return (
        f"Trained autoencoders of {first['n_features']} features (p = {first['p']:g}, "
        f"ratio {first['ratio']:g}) have {relative} times the loss of the Persian rug and "
        f"{models['loss'].mean() / affine:.2f} times that of the best affine model."
    )


def _weights_table(frame: pd.DataFrame) -> Table:
    """Return a table of weight statistics of the largest models in `frame`, a row for each (p, ratio, end).

    `frame` has a row for each trained model and end of training. The table has means over seeds of the mean
    and standard deviation of the diagonal of W_out W_in and of the bias, both beside the rug's values; of the
    largest Lyapunov ratio of a row (Eq. 3 of Cowsik et al. 2024); and of the share of features dropped.
    """
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


RUNS = {
    "curves": Run(run_theory, CURVES, CURVES, seconds=3),
    "reference": Run(run_reference),
    "trained": Run(
        run_trained,
        {**QUICK_MODELS, "p": PANELS[1:5], "ratio": (0.125, 0.25, 0.5)},
        {**FULL_MODELS, "p": PANELS, "ratio": (0.06, 0.125, 0.25, 0.5, 0.75)},
        split_by="seeds",
        concat_dim="model",
        torch=True,
        seconds=22,
    ),
}
TOPICS = [Topic("losses", ["reference", "trained", "curves"], _show_losses, claims=["C26", "C27"])]
