"""How often an encoding gets stuck, against n/m."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL, share
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ..drawing import draw_estimates, finish_axes, plot_function
from .encodings import (
    LARGE_STEP,
    MOST_STEPS,
    SPARSE,
    descend_from,
    draw_starts,
    follow_averaged_flow,
    inverse_participation,
    is_stuck,
)


@as_annotated
def run_stuck(
    n_features: Sequence[int] = (3, 4, 5, 6, 7, 8, 9, 10, 12),
    n_hidden: int = 8,
    noise_std: float = 0.2,
    learning_rate: float = 0.05,
    time: float = 1000.0,
    runs: int = 20,
    *,
    settle: float = 25.0,
    seed: int = 0,
) -> xr.Dataset:
    """Count stuck encodings against n/m under bipolar noise.

    Parameters
    ----------
    n_features, n_hidden : sequence of int, int
        Values of n, at least 2, and m, at most 40.
    noise_std, learning_rate, time : float
        `time` is learning_rate * steps.
    runs, seed : int
        Number of runs for each n, and their seed.
    settle : float
        Time for which the flow of the averaged loss continues from the last weights before stuck encodings
        are counted: encodings that only gradient noise kept spread have become sparse by then.

    Returns
    -------
    xarray.Dataset
        Over (n_features, run): ``stuck``, the number of stuck encodings (:func:`is_stuck`), and ``sparse``,
        the number of encodings with a fourth norm of at least 1/2. ``norm`` (n_features): the mean fourth
        norm of stuck encodings (nan without any).
    """
    sizes = [validation.integer("n_features", n, 2) for n in n_features]
    m, runs = validation.integers(n_hidden=(n_hidden, 2, 40), runs=(runs, 1))
    std = validation.number("noise_std", noise_std, 0.0, brackets="()")
    learning_rate = validation.number("learning_rate", learning_rate, 0.0, brackets="(]")
    time = validation.number("time", time, 0.0, MOST_STEPS * learning_rate)
    settle = validation.number("settle", settle, 0.0, MOST_STEPS * LARGE_STEP)
    rows = []
    for n in sizes:
        rng = np.random.default_rng([seed, 600, n])
        W = descend_from(draw_starts(n, m, runs, seed), "bipolar", std, learning_rate, time, rng).W
        W = follow_averaged_flow(W, std, settle)
        stuck, norms = is_stuck(W), inverse_participation(W)
        counts = {"stuck": ("run", stuck.sum(axis=1)), "sparse": ("run", np.sum(norms >= SPARSE, axis=1))}
        rows.append({**counts, "norm": norms[stuck].mean() if stuck.any() else np.nan})
    ds = from_rows(rows, n_features=sizes).assign_coords(run=range(runs))
    settings = {"n_hidden": m, "noise_std": std, "learning_rate": learning_rate, "time": time, "seed": seed}
    return ds.assign_attrs(settings)


@plot_function
def plot_stuck(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of runs with a stuck encoding, and of runs whose encodings became sparse, against n/m.

    `ds` is from `run_stuck`.
    """
    ratio = ds["n_features"] / ds.attrs["n_hidden"]
    hits = {"most encodings sparse": 2 * ds["sparse"] > ds["n_features"], "with a stuck one": ds["stuck"] > 0}
    for k, (label, is_hit) in enumerate(hits.items()):
        shares = [share(int(count), ds.sizes["run"]) for count in is_hit.sum("run")]
        draw_estimates(ax, ratio * (0.99 + 0.02 * k), shares, fmt="o-", color=f"C{k + 1}", label=label)
    label = f"share of {ds.sizes['run']} runs"
    return finish_axes(ax, "upper left", xlabel="n/m", ylabel=label, ylim=(-0.05, 1.3))


def _show_stuck(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "stuck", from `ds` of `run_stuck`.

    Figure and table have, by n/m, the shares of runs that became sparse and of runs with a stuck encoding.
    The table also has the mean fourth norm |W_i|_4^4 of stuck encodings, beside 1/(n-1).
    """
    n, m, runs = ds["n_features"].values, ds.attrs["n_hidden"], ds.sizes["run"]
    is_sparse, has_stuck = 2 * ds["sparse"] > ds["n_features"], ds["stuck"] > 0
    n_both, n_sparse = (int(hits[n <= m].sum()) for hits in (is_sparse & has_stuck, is_sparse))

    def shares(hits: xr.DataArray) -> list[str]:
        """Return the share of runs in `hits` (run, n) at each n, as texts with intervals."""
        return [f"{share(int(count), runs):.2f}" for count in hits.sum("run")]

    frame = pd.DataFrame(
        {
            "n": n,
            "n/m": [f"{k / m:.2f}" for k in n],
            "runs that sparsified": shares(is_sparse),
            "runs with a stuck one": shares(has_stuck),
            "its fourth norm": [f"{x:.3f}" if np.isfinite(x) else "none" for x in ds["norm"].values],
            "1/(n-1)": [f"{1 / (k - 1):.3f}" for k in n],
        }
    )
    caption = (
        f"m = {m}, σ = {ds.attrs['noise_std']:g}, learning rate × steps = {ds.attrs['time']:g}, {runs} runs "
        f"each; shares with exact binomial intervals of {LEVEL:.0%}."
    )
    figure = Figure("stuck", "Fig. 6: how often", caption, ds, plot_stuck)
    text = f"With n up to m, {n_both} of {n_sparse} runs that sparsified have a stuck encoding."
    return TopicContent(text, [figure], [Table.of("Stuck encodings", frame, caption)])


QUICK = {"n_features": (3, 4, 5, 6, 8, 10, 12), "runs": 12}
FULL = {"n_features": range(4, 25, 2), "n_hidden": 16, "noise_std": 0.15, "runs": 100}
RUNS = {"stuck": Run(run_stuck, QUICK, FULL, seconds=3)}
TOPICS = [Topic("stuck", ["stuck"], _show_stuck)]
