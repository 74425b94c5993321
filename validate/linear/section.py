"""The part of the report on linear autoencoders."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from ..experiment import Figure, Section, Table
from ..training.engine import load_torch
from .flows import NAMES, plot_angles, plot_losses, run_flows
from .plateaus import plot_escape, plot_plateaus, run_plateaus
from .representation import plot_gain, plot_shares, run_representation
from .saddles import plot_subspaces, run_saddles, run_subspaces
from .tables import escape_table, flows_table, rates_table, representation_table, span, starts

__all__ = ["report_section"]

# Sizes that fit each profile; the quick one takes some ten seconds of one core.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {
        "plateaus": {"rate": 0.004},
        "flows": {"rate": 0.008, "end": 10.0, "points": 50},
        "saddles": {"step": 0.1},
        "degenerate": {"step": 0.1},
        "subspaces": {"end": 40.0, "step": 0.07, "points": 60},
        "representation": {"steps": 400},
    },
    "full": {
        "plateaus": {
            "eigenvalues": (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625),
            "n_hidden": 5,
            "initial": 1e-4,
            "samples": 200,
            "runs": 16,
            "rate": 0.0005,
            "points": 300,
        },
        "flows": {
            "eigenvalues": (4.0, 3.0, 2.0, 1.0, 0.5, 0.25),
            "n_hidden": 3,
            "end": 40.0,
            "runs": 32,
            "rate": 0.002,
        },
        "saddles": {"eigenvalues": (4.0, 3.0, 2.0, 1.0, 0.5), "n_hidden": 3, "runs": 4, "step": 0.02},
        "degenerate": {"runs": 16, "step": 0.02},
        "subspaces": {"n_features": 12, "n_hidden": 4, "samples": 2000, "initial": 1e-4, "runs": 8},
        "representation": {"n_features": 12, "n_hidden": 4, "runs": 16, "steps": 4000},
    },
}
# One large and three equal eigenvalues, as the second moments of sparse inputs have.
DEGENERATE = (2.5, 1.0, 1.0, 1.0)
ALIGNED = 1.0  # degrees: what counts as having found the leading subspace
KEPT = 0.01  # share of a feature that counts as represented

TEXT = """
A linear autoencoder x → ABx has a saddle of its loss for every set of eigenvectors of the inputs' second
moments that is not the leading one, and from small weights it passes by those that keep 0, 1, 2, … of the
leading directions. Losses and growth rates there follow from the eigenvalues alone. Time is that of the
flows in normal form: a step of gradient descent on the loss summed over features, at the learning rate η,
is 2η. Models are trained in float64 on all inputs at each step; “expected loss” is the loss over the
distribution, exactly.
"""
NO_TORCH = """
PyTorch is not installed on this machine, so nothing could be trained: the figures show flows and predictions
alone, and the rates at saddles, subspaces at equal eigenvalues and importance are left out.
"""

Part = tuple[list[str], list[Figure], list[Table]]


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the experiments on linear autoencoders and return their part of the report.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Seed of everything random here.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
        Without what needs training if PyTorch is not installed: the text says so.
    """
    sizes = {name: {**given, "seed": seed} for name, given in SIZES[profile].items()}
    try:
        load_torch()
        trained = True
    except ImportError:
        trained = False
    progress("linear: plateaus and flows")
    plateaus = run_plateaus(**sizes["plateaus"], trained=trained)
    flows = run_flows(**sizes["flows"], trained=trained)
    said = [TEXT, *_plateaus_said(plateaus), *_flows_said(flows)]
    figures = [_plateaus_figure(plateaus), _flows_figure(flows)]
    tables = [escape_table(plateaus), flows_table(flows)]
    if trained:
        for part in (_saddles, _subspaces, _representation):
            words, drawn, listed = part(sizes, progress)
            said, figures, tables = said + words, figures + drawn, tables + listed
    else:
        said.append(NO_TORCH)
    return Section("linear", "Linear autoencoders", "\n\n".join(said), figures, tables)


# --- Plateaus
# -----------------------------------------------------------------------------


def _plateaus_figure(ds: xr.Dataset) -> Figure:
    beside = "Markers are trained models, lines exact flows." if "trained_loss" in ds else "Exact flows."
    return Figure(
        "plateaus",
        "From small weights the loss rests at the saddles",
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}, first weights of standard deviation "
        f"{ds.attrs['initial']:g}. {beside} Dotted: critical losses. Bars: when the loss is predicted to be "
        "halfway to the next saddle, from the growth rate at the saddle and the start. Right: measured over "
        "predicted, all starts.",
        ds,
        (plot_plateaus, partial(plot_plateaus, data="samples"), plot_escape),
        columns=3,
    )


def _plateaus_said(ds: xr.Dataset) -> list[str]:
    law = float(np.abs(ds["law_loss"] - ds["flow_loss"]).max() / ds["level"].max())
    said = (
        "Escape times: each direction grows by itself, from what Gram and Schmidt leave of its row of the "
        "first weights once the rows of larger eigenvalues are taken out. In the exact flow the loss is "
        f"halfway to the next saddle at {span(ds['escape'] / ds['predicted'])} times the time so predicted "
        f"({starts(ds)}, tied and untied, expected loss and samples); the closed form of the whole course, a "
        f"sum of such modes, differs from the flow by at most {law:.1e} of the loss at the origin."
    )
    if "trained_loss" not in ds:
        return [said]
    growth = 2 * ds.attrs["learning_rate"] * ds["rate"]
    lag = growth / np.log1p(growth) - 1
    behind = (ds["trained_escape"] / ds["escape"] - 1).mean("run")
    lost = (ds["population_loss"] / ds["level"].sel(data="expected").isel(kept=-1) - 1).sel(data="samples")
    return [
        f"{said} Trained models are late by {span(behind, '.1%')} at learning rate "
        f"{ds.attrs['learning_rate']:g}: a step grows by 1 + 2ηr where the flow grows by exp(2ηr), which "
        f"accounts for {span(lag, '.1%')}. Models trained on {ds.attrs['samples']} samples rest at the "
        f"critical losses of those samples; their expected loss ends {span(lost, '.1%')} above the minimum."
    ]


# --- Flows
# -----------------------------------------------------------------------------


def _flows_figure(ds: xr.Dataset) -> Figure:
    return Figure(
        "flows",
        "Four flows from the same start",
        f"Eigenvalues {', '.join(f'{v:g}' for v in ds.attrs['eigenvalues'])}; d = {ds.attrs['n_hidden']}; "
        f"A = B' at the start, a random frame of length {ds.attrs['length']:g}. Lines are exact flows"
        + (
            ", markers gradient descent; “encoder alone” is trained by the gradient of the encoder, with the "
            "decoder as a copy."
            if "trained_loss" in ds
            else "."
        ),
        ds,
        (plot_losses, plot_angles),
    )


def _flows_said(ds: xr.Dataset) -> list[str]:
    last = ds.isel(time=-1)
    found = {str(rule): last["angle"].sel(rule=rule) for rule in ds["rule"].values}
    aligned = {rule: int((angle < ALIGNED).sum()) for rule, angle in found.items()}
    said = (
        "Eqs. 20 and 21 with A = B' are not Eq. 22: the encoder's part alone is, the decoder's is Oja's "
        "flow, and their sum is that of the tied loss. From the same starts, within "
        f"{ALIGNED:g}° of the leading subspace at t = {float(ds['time'][-1]):g}: "
        + ", ".join(f"{NAMES[rule]} {count} of {ds.sizes['run']}" for rule, count in aligned.items())
        + f". Under Eq. 22 the angle ends at {span(found['encoder'], '.0f')}° and the loss "
        f"{span(last['loss'].sel(rule='encoder') / ds['optimum'], '.2f')} times its minimum. Decoder and "
        f"encoder of the pair, equal at the start, differ by up to {span(ds['parting'].max('time'), '.2f')} "
        "on the way."
    )
    if "trained_loss" in ds:
        own = abs(ds["trained_loss"] - ds["loss"]).max(["run", "time"]) / ds["loss"].max()
        tied = ds["trained_loss"].sel(rule="tied")
        other = float(np.abs(tied - ds["loss"].sel(rule="encoder")).max() / ds["loss"].max())
        said += (
            " A model with shared weights that is trained by autograd follows the tied flow (largest "
            f"difference {float(own.sel(rule='tied')):.2g} of the first loss at learning rate "
            f"{ds.attrs['learning_rate']:g}) and not Eq. 22 ({other:.2g}); the other three training rules "
            f"follow theirs to {span(own.drop_sel(rule='tied'), '.2g')}."
        )
    return [said]


# --- Saddles
# -----------------------------------------------------------------------------


def _saddles(sizes: dict[str, Any], progress: Callable[[str], None]) -> Part:
    progress("linear: escape rates")
    both = [run_saddles(**sizes["saddles"]), run_saddles(DEGENERATE, 2, **sizes["degenerate"])]
    off = max(float(np.abs(ds["measured"] / ds["predicted"] - 1).max()) for ds in both)
    count = sum(ds.sizes["saddle"] for ds in both)
    full = both[0].where(both[0]["rank"] == both[0].attrs["n_hidden"], drop=True).sel(model="pair")
    rotation = np.log1p(2 * full.attrs["learning_rate"] * full["rotation_rate"])
    rotation = rotation / (2 * full.attrs["learning_rate"])
    text = (
        f"Started beside a saddle, at a distance of {both[0].attrs['deviation']:g}, models leave it at the "
        f"predicted rate: over {count} saddles, tied and untied, the largest relative difference is "
        f"{off:.1e}, with log(1 + 2ηr)/(2η) for steps at the learning rate η. Untied models that keep as "
        f"many directions as they can leave {span(full['measured'] / rotation, '.2f')} times as fast as "
        "along Prop. 3's rotation, which is not the steepest way down."
    )
    return [text], [], [rates_table(both)]


def _subspaces(sizes: dict[str, Any], progress: Callable[[str], None]) -> Part:
    progress("linear: equal eigenvalues")
    ds = run_subspaces(**sizes["subspaces"])
    last = ds.isel(time=-1)
    expected, samples = (last.sel(data=data) for data in ("expected", "samples"))
    drawn = ds.sel(data="samples")
    changed = (drawn["angle_samples"] < drawn["angle_start"]).idxmax("time")
    text = (
        f"Sparse inputs have one large second-moment eigenvalue and {ds.attrs['n_features'] - 1} equal ones "
        "(distinct ones are an assumption of Prop. 1 that they break), so all subspaces with the large "
        "direction have the same, least loss. Which one is found? Trained on the expected loss: the large "
        "direction with the span that the first weights leave beside it, to "
        f"{span(expected['angle_start'], '.2g')}° at the end ({starts(ds)}, which end "
        f"{span(expected['angle_samples'], '.0f')}° from the samples' subspace; excess loss at most "
        f"{_rounded(expected['excess'])}). With {ds.attrs['samples']} samples chance makes the "
        f"eigenvalues unequal: from t × eigenvalue = {span(changed, '.2g')} on the models are nearer to the "
        f"samples' own leading subspace, and end {span(samples['angle_samples'], '.2g')}° from it. In "
        f"expected loss that costs {span(samples['excess'], '.2%')}."
    )
    figure = Figure(
        "subspaces",
        "Equal eigenvalues: the start decides, or the samples do",
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}, p = {ds.attrs['p']:g}, tied weights, "
        f"first weights of standard deviation {ds.attrs['initial']:g}. Markers: PyTorch; lines: exact flows.",
        ds,
        (plot_subspaces, partial(plot_subspaces, data="samples")),
    )
    return [text], [figure], []


# --- Representation
# -----------------------------------------------------------------------------


def _representation(sizes: dict[str, Any], progress: Callable[[str], None]) -> Part:
    progress("linear: sparse inputs and importance")
    ds = run_representation(**sizes["representation"])
    figure = Figure(
        "representation",
        "What linear models keep of each feature",
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}; importance {ds.attrs['decay']:g}^i. "
        f"Markers are trained models ({starts(ds)}), lines weighted PCA. With a bias the inputs count as "
        "centred.",
        ds,
        (plot_shares, partial(plot_shares, model="pair"), plot_gain),
        columns=3,
    )
    return [_representation_said(ds)], [figure], [representation_table(ds)]


def _representation_said(ds: xr.Dataset) -> str:
    d, total = ds.attrs["n_hidden"], ds["share"].sum("feature")
    falling = ds.sel(importance="falling")
    gains = 1 - ds["optimum"] / ds["dedicated"]
    excess = ds["loss"] / ds["optimum"] - 1
    represented = (falling["share"] > KEPT).sum("feature")
    others = falling["share"].sel(bias="bias", feature=slice(d, None))
    mixed = ds["share"].sel(bias="bias", importance="equal")
    tied_alone = {"model": "tied", "bias": "no bias", "importance": "falling"}
    special = (ds["model"] == "tied") & (ds["bias"] == "no bias") & (ds["importance"] == "falling")
    return (
        f"Shares of the features, |W_i|² or (AB)_ii, add up to at most {float(total.max()):.5f} in all "
        f"{total.size} trained models (d = {d}); untied to {span(total.sel(model='pair'), '.5f')}. With a "
        f"bias and unequal importance {span(represented.sel(bias='bias'), '.0f')} features are represented "
        f"(share above {KEPT:g}), and those after the first {d} to at most {_rounded(others)}; at equal "
        f"importance single shares are {span(mixed, '.2f')}, the features share the dimensions in many ways. "
        f"Weighted PCA gains at most {_rounded(gains.sel(bias='bias'))} of the loss of the best dedicated "
        "features. Without a bias inputs that are not centred count as correlated: at unequal importance "
        f"{span(represented.sel(bias='no bias'), '.0f')} features are represented, and weighted PCA gains "
        f"{span(gains.sel(bias='no bias'), '.1%')}. So the linear model “never gains by representing more "
        "features than dimensions” where the inputs are centred or the model has a bias.\n\n"
        f"Trained models end within {_rounded(excess.where(~special))} of weighted PCA's loss, relative, but "
        "for tied weights without bias at unequal importance: the optimal product is not symmetric there, "
        f"and tied weights stay {span(excess.sel(tied_alone), '.2%')} above it, with shares that add up to "
        f"{span(total.sel(tied_alone), '.3f')}."
    )


def _rounded(values: xr.DataArray) -> str:
    """Return the largest value; what rounding alone leaves is 1e-15 at least."""
    return f"{max(float(values.max()), 1e-15):.0e}"
