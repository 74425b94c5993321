"""Fig. 4 of Lecomte et al. (2024): fourth norms under bipolar and normal noise against time."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import noise as solvers
from ....solvers.statistics import LEVEL, first_level, mean
from ....theory import noise as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ..drawing import finish_axes, plot_function
from .encodings import FOURTH_NORM, GREY, LARGE_STEP, NOISES, SPARSE, describe_sizes, draw_starts


@as_annotated
def run_fig4(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: Sequence[float] = (0.07, 0.1, 0.15),
    learning_rate: float = 0.02,
    steps: int = 100_000,
    runs: int = 5,
    *,
    averaged_runs: int = 1,
    averaged_time: float = 400.0,
    points: int = 40,
    seed: int = 0,
) -> xr.Dataset:
    """Follow fourth norms |W_i|_4^4 under bipolar and normal noise, beside the flow of the averaged loss.

    The average is over bipolar noise. One noise vector serves all inputs of a step, as in the authors' code.

    Parameters
    ----------
    n_features, n_hidden : int
        n, at least 2, and m, at least n - 1.
    noise_std, learning_rate : sequence of float, float
        Standard deviations of the noise, and learning rate of the printed loss, positive.
    steps, runs : int
        At least 2. Run r starts from the same weights under all noise.
    averaged_runs, averaged_time : int, float
        Number of the runs that also descend on the noise-averaged loss (bipolar noise), and the length of
        these descents, learning_rate * steps.
    points : int
        Approximate number of steps at which norms are kept, evenly spaced.
    seed : int
        Of first weights and noise.

    Returns
    -------
    xarray.Dataset
        Over (noise, noise_std, step, run), means over encodings: ``fourth_norm``, |W_i|_4^4, and ``shape``,
        |W_i|_4^4/|W_i|_2^4; ``t`` over step, learning_rate * steps; ``averaged``, |W_i|_4^4 on the
        noise-averaged loss, over (noise_std, step, averaged_run), nan beyond `averaged_time`; over noise_std:
        ``half_time``, at which the mean under bipolar noise passes 1/2 (nan if it does not), and
        ``predicted_time``, by :func:`theory.noise.sparsification_time`.

    References
    ----------
    Lecomte et al. (2024), Fig. 4; sizes and rates from the authors' code (`experiments/fourth_norm.py`).
    """
    n, runs, steps = validation.integers(n_features=(n_features, 2), runs=(runs, 2), steps=(steps, 2))
    m, points = validation.integers(n_hidden=(n_hidden, max(n - 1, 2)), points=(points, 1))
    averaged_runs = validation.integer("averaged_runs", averaged_runs, 0, runs)
    stds = validation.real("noise_std", noise_std, 0.0, brackets="()")
    rate = validation.number("learning_rate", learning_rate, 0.0, brackets="()")
    averaged_time = validation.number("averaged_time", averaged_time, 0.0)
    record = np.unique(np.linspace(0, steps, points + 1).astype(int))
    W0, t = draw_starts(n, m, runs, seed), record * rate
    rows = []
    for (l, noise), (k, std) in itertools.product(enumerate(NOISES), enumerate(stds)):
        rng = np.random.default_rng([seed, k, l])
        descent = solvers.descend(W0, noise, std, rate, steps, rng, shared_noise=True, record=record)
        norms = {"fourth_norm": descent.fourth_norm, "shape": descent.fourth_norm / descent.l2_norm**4}
        rows.append({name: (("step", "run"), norm.mean(axis=2).T) for name, norm in norms.items()})
    ds = from_rows(rows, noise=NOISES, noise_std=stds).assign_coords(step=record, t=("step", t))
    averaged = np.full((stds.size, record.size, averaged_runs), np.nan)
    large = max(rate, LARGE_STEP)
    flow_steps, inverse = np.unique(np.rint(t[t <= averaged_time] / large).astype(int), return_inverse=True)
    for k, std in enumerate(stds.tolist() if averaged_runs else ()):
        starts, last = W0[:averaged_runs], int(flow_steps[-1])
        flow = solvers.descend_averaged(starts, "bipolar", std, large, last, record=flow_steps)
        averaged[k, : inverse.size] = flow.fourth_norm.mean(axis=2).T[inverse]
    bipolar = ds["fourth_norm"].sel(noise="bipolar").values
    predicted = [theory.sparsification_time(n, m, std, -2.0, fourth_norm=SPARSE) for std in stds.tolist()]
    return ds.assign(
        averaged=(("noise_std", "step", "averaged_run"), averaged),
        half_time=("noise_std", [first_level(t, norms.mean(axis=1), SPARSE) for norms in bipolar]),
        predicted_time=("noise_std", predicted),
    ).assign_attrs(n_features=n, n_hidden=m, learning_rate=rate, seed=seed)


@plot_function
def plot_fig4(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw mean fourth norms |W_i|_4^4 against time, under both kinds of noise (Fig. 4).

    `ds` is from `run_fig4`.
    """
    t = ds["t"].values
    for k, std in enumerate(ds["noise_std"].values):
        runs = ds["fourth_norm"].isel(noise_std=k)
        colour = f"C{k + 1}"
        bipolar = runs.sel(noise="bipolar")
        ax.fill_between(t, bipolar.min("run"), bipolar.max("run"), color=colour, alpha=0.2, linewidth=0)
        ax.plot(t, bipolar.mean("run"), color=colour, label=f"bipolar, σ = {std:g}")
        ax.plot(t, runs.sel(noise="normal").mean("run"), color=colour, linewidth=0.8, linestyle="--")
        if ds.sizes["averaged_run"]:
            flow = ds["averaged"].isel(noise_std=k).mean("averaged_run")
            ax.plot(t, flow, color="C0", linewidth=1, label=None if k else "flow of averaged loss")
        if ds["predicted_time"][k] <= t[-1]:
            ax.plot(ds["predicted_time"][k], 0.5, "v", color=colour, markersize=6, markeredgecolor="C0")
    ax.plot([], [], color=GREY, linestyle="--", linewidth=0.8, label="normal, same colours")
    ax.plot([], [], "v", color="w", markeredgecolor="C0", label="predicted time to 1/2")
    ax.axhline(3 / ds.attrs["n_hidden"], color=GREY, linewidth=0.8, linestyle=":", label="3/m")
    legend = {"ncols": 2, "loc": "upper center"}
    return finish_axes(ax, legend, xlabel="learning rate × steps", ylabel=FOURTH_NORM, ylim=(0, 1.35))


def _show_fig4(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "fig4", from `ds` of `run_fig4`.

    The figure has fourth norms |W_i|_4^4 against time under bipolar and normal noise. The table has, by
    standard deviation of the noise, the last fourth norms, and the time to reach 1/2 with its prediction.
    """
    runs, no_time = ds.sizes["averaged_run"], f"not by {float(ds['t'][-1]):.0f}"
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
        f"{describe_sizes(ds)}, learning rate {ds.attrs['learning_rate']:g}, as in the authors' code. Bands: "
        f"range of {ds.sizes['run']} runs. The flow of the averaged loss is that of {runs} of these starts. "
        "Triangles: predicted times, in which no constant is fitted."
    )
    title = "Fig. 4: sparsification under bipolar and normal noise"
    figure = Figure("fig4", title, caption, ds, plot_fig4, size=(7.0, 3.8))
    last = ds["fourth_norm"].isel(step=-1)
    lasts = {
        f"last, {name}": [f"{mean(row):.2f}" for row in last.sel(noise=name)] for name in ds["noise"].values
    }
    halves = [f"{time:.0f}" if np.isfinite(time) else no_time for time in ds["half_time"].values]
    predicted = [f"{time:.0f}" for time in ds["predicted_time"].values]
    stds = [f"{std:g}" for std in ds["noise_std"].values]
    frame = pd.DataFrame({"σ": stds, **lasts, "time to 1/2": halves, "predicted": predicted})
    caption = (
        f"Fourth norms with intervals of {LEVEL:.0%}; time is learning rate × steps, under bipolar noise. "
        "The prediction has encodings at the overlaps of a simplex from the start, and does not know that "
        "bounded noise stops acting."
    )
    table = Table.of("Last fourth norms, and times to a mean of 1/2", frame, caption)
    return TopicContent(text, [figure], [table])


QUICK = {"runs": 20, "steps": 30_000, "points": 30, "averaged_time": 200.0}
FULL = {"runs": 40, "averaged_runs": 10, "averaged_time": 2000.0}
RUNS = {"fig4": Run(run_fig4, QUICK, FULL, seconds=6)}
TOPICS = [Topic("fig4", ["fig4"], _show_fig4, claims=["L34"])]
