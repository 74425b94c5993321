"""The part of the report on linear autoencoders."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from ...runner.declarations import Figure, Run, Section, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, post_hoc
from .descent import LABELS
from .flows import (
    NAMES,
    lags,
    plot_angles,
    plot_escape,
    plot_losses,
    plot_plateaus,
    run_flows,
    run_plateaus,
)
from .representation import plot_gain, plot_shares, run_representation
from .saddles import plot_subspaces, run_saddles, run_subspaces

# What counts as having found the leading subspace, and as represented.
ALIGNED = Criterion("angle from the leading subspace in degrees", "<", post_hoc(1.0))
KEPT = Criterion("share of a feature", ">", post_hoc(0.01))

TEXT = """
A linear autoencoder x → ABx has a saddle of its loss for every set of eigenvectors of the inputs' second
moments that is not the leading one, and from small weights it passes by those that keep 0, 1, 2, … of the
leading directions. Losses and growth rates there follow from the eigenvalues alone. Time is that of the
flows in normal form: a step of gradient descent on the loss summed over features, at the learning rate η,
is 2η. Models are trained in float64 on all inputs at each step; “expected loss” is the loss over the
distribution, exactly. Ranges are the smallest and the largest value of all starts.
"""


def _listed(ds: xr.Dataset) -> str:
    return ", ".join(f"{value:g}" for value in ds.attrs["eigenvalues"])


def _span_of_runs(values: xr.DataArray, digits: str) -> xr.DataArray:
    options: dict[str, Any] = {"input_core_dims": [["run"]], "vectorize": True, "output_dtypes": [object]}
    texts: xr.DataArray = xr.apply_ufunc(partial(span, digits=digits), values, **options)
    return texts


def _show_plateaus(ds: xr.Dataset) -> TopicContent:
    flow, trained = (ds["escape"].sel(route=route, drop=True) for route in ("flow", "trained"))
    law = float(np.abs(ds["law_loss"] - ds["loss"].sel(route="flow")).max() / ds["level"].max())
    ends = ds["population_loss"].sel(route="trained", data="samples")
    lost = ends / ds["level"].sel(data="expected").isel(kept=-1) - 1
    text = (
        "Escape times: each direction grows by itself, starting from the part of its row of the first "
        "weights that is orthogonal to the rows of larger eigenvalues. In the exact flow the loss is "
        f"halfway to the next saddle at {span(flow / ds['predicted'], '.3f')} times the time so predicted "
        f"({ds.sizes['run']} starts, tied and untied, expected loss and samples); the closed form of the "
        f"whole course, a sum of such modes, differs from the flow by at most {law:.1e} of the loss at the "
        f"origin. Trained models are late by {span((trained / flow - 1).mean('run'), '.1%')} at learning "
        f"rate {ds.attrs['learning_rate']:g}: a step grows by 1 + 2ηr where the flow grows by exp(2ηr), "
        f"which accounts for {span(lags(ds), '.1%')}. The expected loss of models trained on "
        f"{ds.attrs['samples']} samples ends {span(lost, '.1%')} above the minimum."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}, first weights of standard deviation "
        f"{ds.attrs['initial']:g}. Markers are trained models, lines exact flows. Dotted: critical losses. "
        "Bars: when the loss is predicted to be halfway to the next saddle, from the growth rate at the "
        "saddle and the start. Right: measured over predicted, all starts."
    )
    panels = (plot_plateaus, partial(plot_plateaus, data="samples"), plot_escape)
    title = "From small weights the loss rests at the saddles"
    figure = Figure("plateaus", title, caption, ds, panels, columns=3)
    columns = {
        "critical loss": ds["level"].isel(kept=slice(-1)).rename(kept="saddle"),
        "growth rate": ds["rate"],
        "predicted escape": _span_of_runs(ds["predicted"], ".4g"),
        "flow / predicted": _span_of_runs(flow / ds["predicted"], ".4f"),
        "PyTorch / predicted": _span_of_runs(trained / ds["predicted"], ".4f"),
    }
    names = {"model": "weights", "data": "trained on", "saddle": "directions kept"}
    headline = (
        "Linear autoencoders trained from small weights rest at the saddles of the loss and leave them at "
        f"{span(trained / ds['predicted'], '.2f')} times the time that eigenvalues and start predict."
    )
    return TopicContent(text, [figure], [_table("Escapes from the saddles", columns, names)], headline)


def _table(title: str, columns: dict[str, xr.DataArray], names: dict[str, str], caption: str = "") -> Table:
    """Return a table with a row for each entry of the columns, whose dimensions get names."""
    rows = xr.Dataset(columns).to_dataframe(list(names)).reset_index()
    return Table.of(title, rows.replace(LABELS).rename(columns=names), caption)


def _show_flows(ds: xr.Dataset) -> TopicContent:
    last, end = ds.isel(time=-1), float(ds["time"][-1])
    angles = last["angle"].sel(route="flow")
    aligned = ALIGNED.satisfied(angles).sum("run")
    counts = "; ".join(f"{name}: {int(aligned.sel(rule=rule))}" for rule, name in NAMES.items())
    flow, trained = (ds["loss"].sel(route=route) / ds["loss"].max() for route in ("flow", "trained"))
    own = abs(trained - flow).max(["run", "time"])
    other = float(abs(trained.sel(rule="tied") - flow.sel(rule="encoder")).max())
    stuck = last["loss"].sel(route="flow", rule="encoder") / ds["optimum"]
    text = (
        "With A = B' the encoder's part of Eqs. 20 and 21 is Eq. 22, the decoder's is Oja's flow, and their "
        f"sum is the flow of the tied loss. Of {ds.sizes['run']} starts, those that are within {ALIGNED:g}° "
        f"of the leading subspace at t = {end:g}: {counts}. Under Eq. 22 the angle ends at "
        f"{span(angles.sel(rule='encoder'), '.0f')}° and the loss at {span(stuck, '.2f')} times its minimum. "
        "Decoder and encoder of the pair, equal at the start, differ by up to "
        f"{span(ds['parting'].max('time'), '.2f')} on the way. The loss of models with shared weights that "
        f"autograd trains is within {float(own.sel(rule='tied')):.2g} (in units of the largest loss, at "
        f"learning rate {ds.attrs['learning_rate']:g}) of that of the tied flow, and as far as {other:.2g} "
        f"from that of Eq. 22; the other training rules are within {span(own.drop_sel(rule='tied'), '.2g')} "
        "of their flows."
    )
    caption = (
        f"Eigenvalues {_listed(ds)}; d = {ds.attrs['n_hidden']}; A = B' at the start, a random frame of "
        f"length {ds.attrs['length']:g}. Lines are exact flows, markers gradient descent; “encoder alone” is "
        "trained by the gradient of the encoder, with the decoder as a copy."
    )
    figure = Figure("flows", "Four flows from the same start", caption, ds, (plot_losses, plot_angles))
    headline = (
        f"Eq. 22 of the Notes is not what tied training does: of {ds.sizes['run']} starts it leads "
        f"{int(aligned.sel(rule='encoder'))} within {ALIGNED:g}° of the leading eigenvectors by t = {end:g}, "
        f"the gradient flow of the tied loss {int(aligned.sel(rule='tied'))}."
    )
    return TopicContent(text, [figure], headline=headline)


def _show_saddles(ds: xr.Dataset) -> TopicContent:
    off = abs(ds["measured"] / ds["predicted"] - 1)
    full = ds.where(ds["rank"] == ds.attrs["n_hidden"], drop=True).sel(model="pair")
    eta = 2 * ds.attrs["learning_rate"]
    rotation = np.log1p(eta * full["rotation_rate"]) / eta
    text = (
        f"Started beside each saddle, at a distance of {ds.attrs['deviation']:g}, models leave it at a rate "
        f"that differs from the predicted one by at most {float(off.max()):.1e}, relative; steps at the "
        "learning rate η have log(1 + 2ηr)/(2η). Untied models that keep as many directions as they can "
        f"leave {span(full['measured'] / rotation, '.2f')} times as fast as along Prop. 3's rotation, which "
        "is not the steepest way down."
    )
    columns = {
        "index": ds["index"],
        "best rotation": ds["rotation_rate"],
        "steepest descent": ds["flow_rate"],
        "the same in steps": ds["predicted"],
        "measured": ds["measured"].mean("run"),
        "largest relative difference": _span_of_runs(off, ".1e"),
    }
    columns = {name: values.assign_coords(saddle=ds["kept"].values) for name, values in columns.items()}
    caption = (
        f"Eigenvalues {_listed(ds)}; d = {ds.attrs['n_hidden']}. Rates of the flow along the best rotation "
        "(Prop. 3) and of steepest descent, the latter in steps of this length, and measured in training. "
        "Index: dimensions in which the loss falls. Of equal eigenvalues one choice stands for all."
    )
    title = "Growth rates at the saddles"
    table = _table(title, columns, {"saddle": "directions kept", "model": "weights"}, caption)
    return TopicContent(text, (), [table])


def _show_subspaces(ds: xr.Dataset) -> TopicContent:
    trained = ds.sel(route="trained")
    expected, samples = (trained.sel(data=data).isel(time=-1) for data in ("expected", "samples"))
    drawn = trained.sel(data="samples")
    changed = (drawn["angle_samples"] < drawn["angle_start"]).idxmax("time")
    text = (
        f"Sparse inputs have one large second-moment eigenvalue and {ds.attrs['n_features'] - 1} equal ones, "
        "so all subspaces with the large direction have the same, least loss. Trained on the expected loss, "
        "models find the large direction and the span that the first weights give besides it, to "
        f"{span(expected['angle_start'], '.2g')}° ({ds.sizes['run']} starts, which end "
        f"{span(expected['angle_samples'], '.0f')}° from the samples' subspace). With {ds.attrs['samples']} "
        f"samples chance makes the eigenvalues unequal: from t × eigenvalue = {span(changed, '.2g')} on the "
        "models are nearer to the samples' own leading subspace, and end "
        f"{span(samples['angle_samples'], '.2g')}° from it. In expected loss that costs "
        f"{span(samples['excess'], '.2%')}."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, d = {ds.attrs['n_hidden']}, p = {ds.attrs['p']:g}, tied weights, "
        f"first weights of standard deviation {ds.attrs['initial']:g}. Markers: PyTorch; lines: exact flows."
    )
    panels = (plot_subspaces, partial(plot_subspaces, data="samples"))
    title = "Equal eigenvalues: the start decides, or the samples do"
    figure = Figure("subspaces", title, caption, ds, panels)
    return TopicContent(text, [figure])


def _show_representation(ds: xr.Dataset) -> TopicContent:
    d, total = ds.attrs["n_hidden"], ds["share"].sum("feature")
    represented = KEPT.satisfied(ds["share"].sel(importance="falling")).sum("feature")
    shared = ds["share"].sel(bias="bias", importance="equal")
    gains, excess = 1 - ds["optimum"] / ds["dedicated"], ds["loss"] / ds["optimum"] - 1
    special = (ds["model"] == "tied") & (ds["bias"] == "no bias") & (ds["importance"] == "falling")
    text = (
        f"Shares of the features, |W_i|² or (AB)_ii, add up to at most {float(total.max()):.5f} in all "
        f"{total.size} trained models (d = {d}). With a bias and unequal importance "
        f"{span(represented.sel(bias='bias'), '.0f')} features are represented (share above {KEPT:g}); at "
        f"equal importance single shares are {span(shared, '.2f')}, the features share the dimensions in "
        f"many ways. Weighted PCA gains at most {gains.sel(bias='bias').values.max():.0e} of the loss of the "
        "best dedicated features. Without a bias inputs that are not centred count as correlated: at unequal "
        f"importance {span(represented.sel(bias='no bias'), '.0f')} features are represented, and weighted "
        f"PCA gains {span(gains.sel(bias='no bias'), '.1%')}. Trained models end within "
        f"{float(excess.where(~special).max()):.0e} of weighted PCA's loss, relative, but for tied weights "
        "without bias at unequal importance: the optimal product is not symmetric there, and tied weights "
        f"stay {span(excess.where(special, drop=True), '.2%')} above it."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, d = {d}; importance {ds.attrs['decay']:g}^i. Markers are trained "
        f"models ({ds.sizes['run']} starts), lines weighted PCA. With a bias the inputs count as centred."
    )
    panels = (plot_shares, partial(plot_shares, model="pair"), plot_gain)
    title = "What linear models keep of each feature"
    figure = Figure("representation", title, caption, ds, panels, columns=3)
    return TopicContent(text, [figure])


WIDE = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)
LARGE, LONG = {"n_features": 12, "n_hidden": 4}, {"eigenvalues": WIDE, "n_hidden": 5, "initial": 1e-4}
QUICK: dict[str, dict[str, Any]] = {
    "plateaus": {"rate": 0.004},
    "flows": {"rate": 0.008, "end": 10.0, "points": 50},
    # Two equal eigenvalues, as the second moments of sparse inputs have.
    "saddles": {"eigenvalues": (3.0, 2.0, 1.0, 1.0), "step": 0.1},
    "subspaces": {"end": 40.0, "step": 0.07, "points": 60},
    "representation": {"steps": 400},
}
FULL: dict[str, dict[str, Any]] = {
    "plateaus": {**LONG, "samples": 200, "runs": 16, "rate": 5e-4},
    "flows": {"eigenvalues": WIDE[1:7], "n_hidden": 3, "end": 40.0, "runs": 32, "rate": 0.002},
    "saddles": {"eigenvalues": (4.0, 3.0, 2.0, 1.0, 1.0), "n_hidden": 3, "runs": 16, "step": 0.02},
    "subspaces": {**LARGE, "samples": 2000, "initial": 1e-4, "runs": 8},
    "representation": {**LARGE, "runs": 16, "steps": 4000},
}
SECTION = Section(
    "linear",
    "Linear autoencoders",
    TEXT,
    {
        "plateaus": Run(run_plateaus, QUICK["plateaus"], FULL["plateaus"], torch=True, seconds=4),
        "flows": Run(run_flows, QUICK["flows"], FULL["flows"], torch=True, seconds=3),
        "saddles": Run(run_saddles, QUICK["saddles"], FULL["saddles"], torch=True, seconds=2),
        "subspaces": Run(run_subspaces, QUICK["subspaces"], FULL["subspaces"], torch=True, seconds=6),
        "representation": Run(
            run_representation, QUICK["representation"], FULL["representation"], torch=True, seconds=2
        ),
    },
    [
        Topic("plateaus", ["plateaus"], _show_plateaus, claims=["B2", "B3"]),
        Topic("flows", ["flows"], _show_flows, claims=["B10", "B13"]),
        Topic("saddles", ["saddles"], _show_saddles, claims=["B5"]),
        Topic("subspaces", ["subspaces"], _show_subspaces, claims=["B8"]),
        Topic("representation", ["representation"], _show_representation, claims=["E1", "E2"]),
    ],
)
