"""Hidden noise's part of the report."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ....solvers.statistics import LEVEL, growth_power, jackknife, mean, share
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Section, Table, Topic, TopicContent
from . import plots
from .fig6 import run_fig6, run_stuck
from .mechanism import judge_mechanism, run_mechanism
from .runs import WEAK_LAM, growth, onset, run_agreement, run_drop, run_fig4, run_fig5

TEXT = """
Without the l1 term, noise on the hidden neurons sparsifies encodings if its excess kurtosis is negative. The
source infers this from the loss after one step, an effect of second order in the learning rate for encodings
that do not interfere. Theory here finds that the second order does not drive encodings there, and that
another effect of first order does: noise carries overlaps of encodings over the threshold of the ReLU, and
how often it does so depends on the shapes of the encodings. At first order only learning rate × steps counts,
and the flow of the noise-averaged loss has all of it. Figures show that flow in black next to training.

Learning rates and l1 strengths are those of the printed loss, a sum over inputs and outputs.
"""
BARS = f"bars are intervals of {LEVEL:.0%}."


def _sizes(ds: xr.Dataset) -> str:
    return f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}"


def _show_mechanism(ds: xr.Dataset) -> TopicContent:
    found, std, lone_std = judge_mechanism(ds), ds.attrs["noise_std"], ds.attrs["lone_std"]
    at = ds.sel(learning_rate=ds.attrs["source_rate"], method="nearest")
    grown, printed, true = (float(at[name].mean()) for name in ("by_rate", "regulariser", "drift"))
    text = (
        f"At the source's settings (learning rate {float(at['learning_rate']):g}, σ = {std:g}) encodings "
        f"that descended the printed regulariser would have grown by {printed:.2g}, {printed / grown:.1%} of "
        f"the {grown:.2g} measured; the true second-order effect without interference would have "
        f"changed them by {true:.2g}."
    )
    flow = f"flow less this: {found['gap']:.2g}" if "gap" in found else "not computed"
    alone = f"{float(ds['lone_predicted'].mean()):.3g} (second order)"
    rows = [
        ("power of the learning rate", found["power"], "0", "1"),
        ("growth at learning rate 0", found["first"], flow, "0"),
        ("the same over that at the source's rate", found["share"], "1", "0"),
        (f"change of a lone encoding, σ = {lone_std:g}", found["lone"], alone, "above 0"),
        ("growth under normal noise", found["normal"], "0", "0"),
        ("kurtosis at which growth changes sign", found["crossing"], "0 to first order", "0"),
    ]
    caption = (
        f"m = {ds.attrs['n_hidden']}, {ds.sizes['run']} runs ({ds.sizes['averaged_run']} for the flow), "
        f"{ds.sizes['lone_run']} lone encodings; growth beyond normal noise's, for the kurtosis."
    )
    columns = ("", f"measured, {LEVEL:.0%}", "effective potential", "printed regulariser")
    table = Table("Which mechanism", columns, [[f"{cell}" for cell in row] for row in rows], caption)
    caption = (
        f"m = {ds.attrs['n_hidden']}, bipolar noise, σ = {std:g} unless said otherwise, learning rate × "
        f"steps = {ds.attrs['time']:g}. Growth is that of the mean of |W_i|_4^4/|W_i|_2^4 beyond the same "
        f"descent without noise; {BARS}"
    )
    draw = (plots.plot_rates, plots.plot_number, plots.plot_kurtosis)
    figure = Figure("mechanism", "First or second order?", caption, ds, draw, columns=3, size=(3.6, 3.2))
    headline = (
        "At equal learning rate × steps, growth of sparsity under hidden noise goes with the power "
        f"{found['power']:.2f} of the learning rate, where first order has 0 and the source's regulariser 1."
    )
    return TopicContent(text, [figure], [table], headline)


def _show_fig4(ds: xr.Dataset) -> TopicContent:
    runs, never = ds.sizes["averaged_run"], f"not by {float(ds['t'][-1]):.0f}"
    text = ""
    if runs:
        trained = ds["fourth_norm"].sel(noise="bipolar").isel(run=slice(runs)).mean("run")
        gap = np.abs(trained - ds["averaged"].mean("averaged_run", skipna=False))
        text = (
            f"The flow of the averaged loss differs from training with the same first weights ({runs} of "
            f"{ds.sizes['run']}) by {float(gap.mean()):.3f} on average over σ and times, and by "
            f"{float(gap.max()):.2f} at most, where norms rise fastest."
        )
    caption = (
        f"{_sizes(ds)}, learning rate {ds.attrs['learning_rate']:g}, as in the authors' code. Bands: range "
        f"of {ds.sizes['run']} runs. The flow of the averaged loss is that of {runs} of these starts. "
        "Triangles: predicted times, in which no constant is fitted."
    )
    title = "Fig. 4: sparsification under bipolar and normal noise"
    figure = Figure("fig4", title, caption, ds, plots.plot_fig4, size=(7.0, 3.8))
    last = ds["fourth_norm"].isel(step=-1)
    lasts = {
        f"last, {name}": [f"{mean(row):.2f}" for row in last.sel(noise=name)] for name in ds["noise"].values
    }
    halves = [f"{time:.0f}" if np.isfinite(time) else never for time in ds["half_time"].values]
    predicted = [f"{time:.0f}" for time in ds["predicted_time"].values]
    stds = [f"{std:g}" for std in ds["noise_std"].values]
    frame = pd.DataFrame({"σ": stds, **lasts, "time to 1/2": halves, "predicted": predicted})
    caption = (
        f"Fourth norms with intervals of {LEVEL:.0%}; time is learning rate × steps, under bipolar noise. "
        "The prediction has encodings at the overlaps of a simplex from the start, and does not know that "
        "bounded noise stops acting."
    )
    return TopicContent(
        text, [figure], [Table.of("Last fourth norms, and times to a mean of 1/2", frame, caption)]
    )


def _show_fig5(ds: xr.Dataset, drop: xr.Dataset) -> TopicContent:
    stds, at = ds["noise_std"].values, drop.isel(noise_std=-1)
    weak = growth(ds.sel(lam=list(WEAK_LAM)), "by_lam", 1)
    onsets = "; ".join(
        f"σ = {jackknife(growth(ds, 'by_noise', k), onset(stds)):.3f} after {steps} steps"
        for k, steps in enumerate(ds["step"].values)
    )
    by_rate = "; ".join(
        f"rate {float(rate):g}: shape {mean(at['shape'].sel(learning_rate=rate).values):.2f}, squared length "
        f"{mean(at['square'].sel(learning_rate=rate).values):.2f}"
        for rate in at["learning_rate"]
    )
    text = (
        f"For λ up to {WEAK_LAM[-1]:g} growth after {int(ds['step'][1])} steps goes with the power "
        f"{jackknife(weak, growth_power(WEAK_LAM))} of λ; the print has 1. For σ, where it has the power 4, "
        "theory has an onset, as noise has to carry overlaps over the threshold. Growth reaches 0.1 at "
        f"{onsets}. Below σ = {ds.attrs['silent_std']:.3f} encodings of random l1 norm can lie where bipolar "
        "noise switches no wrong output on. The source puts the drop at strong noise down to lengths. "
        "Lengths and shapes |W_i|_4^4/|W_i|_2^4 at equal learning rate × steps, σ = "
        f"{float(at['noise_std']):g}: {by_rate}. What depends on the rate is of second order, noise in the "
        "gradient that turns encodings about at random."
    )
    caption = (
        f"{_sizes(ds)}, steps of {ds.attrs['learning_rate']:g}, {ds.sizes['run']} runs; {BARS} Black: fourth "
        "norm of one-hot encodings, shortened by the l1 force, or by noise from the inputs of others."
    )
    strong = (
        f"{_sizes(ds)}, bipolar noise, learning rate × steps = {drop.attrs['time']:g}, {drop.sizes['run']} "
        f"runs; {BARS}"
    )
    draw, why = (plots.plot_fig5_lam, plots.plot_fig5_noise), "Fig. 5: why fourth norms drop at strong noise"
    figures = [
        Figure("fig5", "Fig. 5: after a fixed number of steps", caption, ds, draw),
        Figure("drop", why, strong, drop, plots.plot_drop),
    ]
    return TopicContent(text, figures)


def _show_fig6(ds: xr.Dataset) -> TopicContent:
    having, runs = int(ds["found"]), ds.attrs["runs"]
    text = (
        "An encoding counts as stuck if |W_i|_4^4/|W_i|_2^4 is below 1/2 while it is above for more than "
        f"half of its run's encodings: {having} of {runs} runs have one, a share of "
        f"{share(having, runs):.2f}. "
    )
    if having:
        text += (
            f"In the first of these, which is shown, it keeps {float(ds['owned']):.0%} of its squared length "
            "on neurons that others own. The flow of the averaged loss leaves "
            f"{int(ds['still_stuck'].sum())} stuck, at a gradient of length {float(ds['slope']):.1g} and "
            f"with a smallest curvature of {float(ds['curvature']):.2g}; positive is a strict minimum. Its "
            f"loss is {float(ds['loss']):.4f}. "
        )
    text += (
        "The symmetric minimum in which one encoding opposes all others at once has a loss of "
        f"{float(ds['loss_spread']):.4f}, with a fourth norm of {float(ds['spread_norm']):.3f} for this "
        f"encoding, near 1/(n-1); that in which all are near one-hot has {float(ds['loss_sparse']):.4f}. The "
        "source has the spread encoding kept from a better place, and the figure at σ = 0.01."
    )
    caption = f"{_sizes(ds)}, σ = {ds.attrs['noise_std']:g}, learning rate {ds.attrs['learning_rate']:g}."
    draw = (plots.plot_fig6, plots.plot_weights)
    figure = Figure("fig6", "Fig. 6: an encoding that stays spread", caption, ds, draw)
    headline = (
        f"Hidden noise leaves one encoding spread over the neurons of all others in {having} of {runs} runs; "
        "in the first, the smallest curvature of the noise-averaged loss there is "
        f"{float(ds['curvature']):.2g}."
    )
    return TopicContent(text, [figure], (), headline if having else "")


def _show_stuck(ds: xr.Dataset) -> TopicContent:
    n, m, runs = ds["n_features"].values, ds.attrs["n_hidden"], ds.sizes["run"]
    sparse, having = 2 * ds["sparse"] > ds["n_features"], ds["stuck"] > 0
    inside = ds["n_features"] <= m
    both, some = (int(x.where(inside, False).sum()) for x in (sparse & having, sparse))

    def shares(hits: xr.DataArray) -> list[str]:
        return [f"{share(int(count), runs):.2f}" for count in hits.sum("run")]

    frame = pd.DataFrame(
        {
            "n": n,
            "n/m": [f"{k / m:.2f}" for k in n],
            "runs that sparsified": shares(sparse),
            "runs with a stuck one": shares(having),
            "its fourth norm": [f"{x:.3f}" if np.isfinite(x) else "none" for x in ds["norm"].values],
            "1/(n-1)": [f"{1 / (k - 1):.3f}" for k in n],
        }
    )
    caption = (
        f"m = {m}, σ = {ds.attrs['noise_std']:g}, learning rate × steps = {ds.attrs['time']:g}, {runs} runs "
        f"each; shares with exact binomial intervals of {LEVEL:.0%}."
    )
    figure = Figure("stuck", "Fig. 6: how often", caption, ds, plots.plot_stuck)
    text = f"With n up to m, {both} of {some} runs that sparsified have a stuck encoding."
    return TopicContent(text, [figure], [Table.of("Stuck encodings", frame, caption)])


def _show_agreement(ds: xr.Dataset) -> TopicContent:
    frame = ds["fourth_norm"].to_dataframe().groupby(["noise", "engine"])["fourth_norm"]
    cells = frame.apply(lambda values: f"{mean(values):.3f}").unstack().reset_index()
    caption = (
        f"Mean fourth norms after {ds.attrs['steps']} steps of {ds.attrs['learning_rate']:g} at σ = "
        f"{ds.attrs['noise_std']:g}, with intervals of {LEVEL:.0%}; {ds.sizes['run']} runs each with first "
        "weights and noise of their own."
    )
    return TopicContent("", (), [Table.of("The same by the compiled solver and by PyTorch", cells, caption)])


# Of the quick profile; the ledger's rows read some of these.
KURTOSES = (-2.0, -1.0, -0.3, 0.3, 3.0)
QUICK_LAM = (*WEAK_LAM, 1e-3, 5e-3, 0.03, 0.1, 0.4, 1.0, 1.4, 2.0)
QUICK_STD = (0.01, 0.02, 0.04, 0.06, 0.08, 0.09, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5, 0.8)
QUICK: dict[str, dict[str, Any]] = {
    "mechanism": {"runs": 20, "lone_runs": 800, "averaged_runs": 0, "excess_kurtosis": KURTOSES},
    "fig4": {"runs": 20, "steps": 30_000, "points": 30, "averaged_time": 200.0},
    "fig5": {"lam": QUICK_LAM, "noise_std": QUICK_STD, "runs": 12},
    "drop": {"noise_std": (0.2, 0.4), "runs": 12},
    "fig6": {"runs": 24},
    "stuck": {"n_features": (3, 4, 5, 6, 8, 10, 12), "runs": 12},
    "agreement": {"steps": 1200, "runs": 24},
}
FULL: dict[str, dict[str, Any]] = {
    "mechanism": {"runs": 100, "lone_runs": 5000, "averaged_runs": 20},
    "fig4": {"runs": 40, "averaged_runs": 10, "averaged_time": 2000.0},
    "fig5": {"runs": 64, "steps": (4_000, 20_000, 100_000)},
    "drop": {"runs": 64, "learning_rate": (0.02, 0.01, 0.005, 0.0025), "noise_std": (0.2, 0.3, 0.4)},
    "fig6": {"runs": 100},
    "stuck": {"n_features": range(4, 25, 2), "n_hidden": 16, "noise_std": 0.15, "runs": 100},
    "agreement": {"steps": 4000, "runs": 200},
}


# Seeds that nothing has used: the runs of L31 had been raised after a look.
FRESH: dict[str, Any] = {"runs": 100, "averaged_runs": 0, "lone_runs": 4000, "seed": 3102}
FRESH |= {"excess_kurtosis": [-2.0, -1.0, -0.3, 0.3, 3.0]}
LONE = ReproductionCheck(
    {"excess_kurtosis": [-2.0], "averaged_runs": 0},
    ["lone", "by_normal", "by_kurtosis", "by_rate"],
    1e-12,
    SUMS,
)
SECTION = Section(
    "noise",
    "Sparsity from hidden noise",
    TEXT,
    {
        "mechanism": Run(run_mechanism, QUICK["mechanism"], FULL["mechanism"], seconds=12),
        "fresh": Run.shipped(
            "noise_mechanism", "new runs for L31", run_mechanism, FRESH, seconds=120, check=LONE
        ),
        "fig4": Run(run_fig4, QUICK["fig4"], FULL["fig4"], seconds=6),
        "fig5": Run(run_fig5, QUICK["fig5"], FULL["fig5"], seconds=9),
        "drop": Run(run_drop, QUICK["drop"], FULL["drop"], seconds=4),
        "fig6": Run(run_fig6, QUICK["fig6"], FULL["fig6"], seconds=3),
        "stuck": Run(run_stuck, QUICK["stuck"], FULL["stuck"], seconds=3),
        "agreement": Run(run_agreement, QUICK["agreement"], FULL["agreement"], torch=True, seconds=5),
    },
    [
        Topic("mechanism", ["mechanism"], _show_mechanism, claims=["L30", "L31"]),
        Topic("fig4", ["fig4"], _show_fig4, claims=["L34"]),
        Topic("fig5", ["fig5", "drop"], _show_fig5, claims=["L35"]),
        Topic("fig6", ["fig6"], _show_fig6, claims=["L36"]),
        Topic("stuck", ["stuck"], _show_stuck),
        Topic("agreement", ["agreement"], _show_agreement),
    ],
)
