"""Fig. 3 of Lecomte et al. (2024) by the flow itself: how many neurons end polysemantic."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import collisions as solvers
from ....solvers.collisions.counts import ON
from ....solvers.collisions.displaced import first_weights, fitted_preference
from ....theory import collisions as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import ReproductionCheck, Run
from ..drawing import finish_axes, plot_function, size_axis
from .labels import OPTIMISER_LABELS, draw_runs

# Flow time times lam. All but a few in ten thousand encodings are one-hot by then, and the rest nearly so.
T_END = 6.0
# Standard deviation of the first weights times sqrt(m), as in the source's Fig. 2.
SCALE = 0.9
# Error of a step. Owners at 1e-3, 1e-4, 1e-5 and 1e-7 were the same for all 640 features of 20 runs.
RTOL = 1e-4
# Of how many of a feature's largest first weights the winners are counted.
RANKS = 8


@as_annotated
def run_fig3(
    n_features: int = 32,
    n_hidden: Sequence[int] = (32, 64, 128, 256),
    runs: int = 16,
    lam: float = 3e-3,
    *,
    scale: float = SCALE,
    seed: int = 0,
    workers: int = 1,
) -> xr.Dataset:
    """Run the gradient flow with an l1 term from many initialisations, and count polysemantic neurons.

    Parameters
    ----------
    n_features, n_hidden : int, sequence of int
        n, at least 2, and values of m, at least n/2 each.
    runs : int
        Initialisations for each m, at least 2.
    lam : float
        l1 strength in the normal form of Lecomte et al. (2024), a quarter of that in their loss; positive.
    scale : float
        Standard deviation of the first weights times sqrt(m).
    seed, workers : int
        Run r of size m starts from ``default_rng([seed, n_features, m, r])``, whatever else is run. `workers`
        is the number of threads, which does not change results.

    Returns
    -------
    xarray.Dataset
        Over (n_hidden, run): ``polysemantic`` (neurons), ``stayed`` (share of the features that end on the
        neuron of their largest first weight), ``stayed_pairs`` (polysemantic neurons with two of these),
        ``dead`` (features on no neuron), ``unfinished`` (encodings with more than one nonzero weight). Over
        (n_hidden, run, rank): ``won``, the share of the features that end on the neuron of their largest,
        second largest, ... first weight. Over n_hidden, expected counts: ``quoted`` = n^2/(4m), and two from
        :func:`theory.expected_polysemantic`, where each feature takes a place, a neuron and a sign:
        ``exclusive`` (all places differ) and ``independent`` (places drawn independently). ``preference`` is
        (odds of the free place on a neuron with another feature) / (odds of a place on an empty neuron),
        fitted so that :func:`solvers.collisions.displaced_polysemantic` has the mean count (nan if none
        fits).

    Examples
    --------
    >>> ds = run_fig3(8, (8, 16), runs=3, lam=0.02)
    >>> ds["polysemantic"].shape, float(ds["quoted"][1])
    ((2, 3), 1.0)
    """
    n, runs = validation.integers(n_features=(n_features, 2), runs=(runs, 2))
    sizes = [validation.integer("n_hidden", m, (n + 1) // 2) for m in n_hidden]
    if not sizes:
        raise ValueError("`n_hidden` must hold one number or more; got [].")
    validation.real("lam", lam, 0.0, brackets="(]")
    validation.real("scale", scale, 0.0, brackets="(]")
    columns = [_count_ends(first_weights(n, m, runs, scale, seed), lam, workers) for m in sizes]
    ds = xr.concat(columns, "n_hidden")
    ds = ds.assign_coords(n_hidden=sizes, run=range(runs), rank=range(1, RANKS + 1))
    m, means = np.array(sizes), (ds[name].mean("run").values.tolist() for name in ("stayed", "polysemantic"))
    return ds.assign(
        quoted=("n_hidden", theory.quoted_polysemantic(n, m)),
        exclusive=("n_hidden", theory.expected_polysemantic(n, m)),
        independent=("n_hidden", theory.expected_polysemantic(n, m, exclusive=False)),
        preference=("n_hidden", [fitted_preference(n, *row) for row in zip(sizes, *means, strict=True)]),
    ).assign_attrs(n_features=n, lam=lam, scale=scale, threshold=ON, seed=seed)


def _count_ends(W0: FloatArray, lam: float, workers: int) -> xr.Dataset:
    """Run the flow from W0 (run, n, m); return, by run, polysemantic neurons and where features end.

    `lam` is the flow's l1 strength, `workers` the number of threads. Of (run): ``polysemantic`` neurons;
    ``stayed``, the share of features that end on the neuron of their largest first weight; ``stayed_pairs``,
    neurons with two of these; ``dead`` features; ``unfinished`` ones, with several nonzero weights. Of (run,
    rank): ``won``, the share of features that end on the neuron of their largest (rank 1), second largest,
    ... first weight.
    """
    m = W0.shape[-1]
    result = solvers.flow(W0, lam, T_END / lam, tol=RTOL, workers=workers)
    neuron, _ = solvers.owners(result.W)
    size = np.abs(W0)
    ends = np.take_along_axis(size, np.maximum(neuron, 0)[..., None], axis=2)
    larger = np.where(neuron < 0, m, np.sum(size > ends, axis=2))  # a feature on no neuron has no rank
    pairs = [np.sum(np.bincount(k[s == 0], minlength=m) >= 2) for k, s in zip(neuron, larger, strict=True)]
    return xr.Dataset(
        {
            "polysemantic": ("run", result.polysemantic[:, -1]),
            "stayed": ("run", np.mean(larger == 0, axis=1)),
            "won": (("run", "rank"), np.mean(larger[..., None] == np.arange(RANKS), axis=1)),
            "stayed_pairs": ("run", pairs),
            "dead": ("run", np.sum(neuron < 0, axis=1)),
            "unfinished": ("run", np.sum(result.nonzeros[:, -1] > 1, axis=1)),
        }
    )


def _draw_against_m(ds: xr.Dataset, ax: Axes, ratio: bool) -> tuple[Axes, float]:
    """Draw polysemantic neurons against m, over n^2/(4m) if `ratio`; return (axes, least positive count).

    Lines are predictions: n^2/(4m) and `expected_polysemantic`, where each feature takes a pair (neuron,
    sign), one that no other feature has or any. `ds` has ``polysemantic`` (n_hidden, run), with or without an
    axis ``optimiser``, as from `run_fig3` or `run_trained`.
    """
    n, m = ds.attrs["n_features"], ds["n_hidden"].values
    fine = np.unique(np.geomspace(m.min(), m.max(), 100).astype(int))
    quoted = theory.quoted_polysemantic(n, fine)
    unit = quoted if ratio else 1.0
    ax.plot(fine, quoted / unit, color="0.5", linestyle="--", label="n²/(4m)")
    ax.plot(fine, theory.expected_polysemantic(n, fine) / unit, color="C0", label="one place a feature")
    alone = theory.expected_polysemantic(n, fine, exclusive=False) / unit
    ax.plot(fine, alone, color="C0", linestyle=":", label="independent choice")
    has_optimisers = "optimiser" in ds["polysemantic"].dims
    counts = ds["polysemantic"].assign_coords(scale=ds["quoted"] if ratio else 1.0)
    counts = counts if has_optimisers else counts.expand_dims(optimiser=["flow"])
    least = np.inf
    for k, name in enumerate(map(str, counts["optimiser"].values)):
        row = counts.sel(optimiser=name).transpose("n_hidden", "run").dropna("n_hidden", how="all")
        values = (row / row["scale"]).values
        # Side by side, so that bars do not overlap.
        x = row["n_hidden"].values * 1.03 ** (k - (counts.sizes["optimiser"] - 1) / 2)
        if not ratio:
            ax.plot(np.repeat(x, values.shape[1]), values.ravel(), ".", color=f"C{k + 1}", alpha=0.25)
        runs = np.isfinite(values).sum(axis=1)
        many = f"{runs.min()} to {runs.max()}" if np.ptp(runs) else f"{runs[0]}"
        draw_runs(ax, x, values, k, f"{OPTIMISER_LABELS.get(name, name)}, {many} runs")
        least = min(least, values[values > 0].min(initial=np.inf))
    kind = "printed loss" if has_optimisers else "normal form"
    size_axis(ax, m, xlabel="hidden neurons m", title=f"n = {n}, λ = {ds.attrs['lam']:g} ({kind})")
    return ax, least


@plot_function
def plot_fig3(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw polysemantic neurons against m: runs as dots, means with intervals, predictions as lines.

    `ds` is from `run_fig3`, `run_trained` or `run_printed`.
    """
    ax, least = _draw_against_m(ds, ax, ratio=False)
    ax.set_yscale("log")
    if np.isfinite(least):
        ax.set_ylim(bottom=least / 7)  # room for the legend below the data
    return finish_axes(ax, "lower left", ylabel="polysemantic neurons")


@plot_function
def plot_ratio(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw mean numbers of polysemantic neurons, divided by n^2/(4m), against m, beside the predictions.

    `ds` is from `run_fig3`, `run_trained` or `run_printed`.
    """
    ax, _ = _draw_against_m(ds, ax, ratio=True)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom - 0.45 * (top - bottom), top)
    return finish_axes(ax, {"loc": "lower right", "ncols": 2}, ylabel="polysemantic neurons / (n²/4m)")


# Seeds that nothing has used: the runs of L18 had been raised after a look.
FRESH = {"n_features": 32, "n_hidden": [64], "runs": 400, "seed": 1801}
PRINTED_SIZES = {"n_features": 256, "n_hidden": [256, 512, 1024, 2048, 4096], "runs": 64}
_CHECK = ReproductionCheck({"n_hidden": [256], "runs": 2}, ["polysemantic", "stayed", "stayed_pairs", "dead"])
RUNS = {
    "fig3": Run(
        run_fig3,
        quick={"n_features": 32, "n_hidden": (32, 64, 128), "runs": 96},
        full={"n_features": 128, "n_hidden": (128, 256, 512, 1024), "runs": 64},
        seconds=10,
    ),
    "fresh": Run.shipped("collisions_fig3", "new runs for L18", run_fig3, FRESH, seconds=60.0),
    "long": Run.shipped(
        "collisions_fig3", "Fig. 3 of Lecomte et al. by the flow", run_fig3, PRINTED_SIZES, check=_CHECK
    ),
}
