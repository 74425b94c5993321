"""Fig. 3 of Lecomte et al. (2024) by the flow itself: polysemantic neurons against hidden neurons."""

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from scipy import stats

from ...solvers import collisions as solvers
from ...theory import arguments
from ...theory import collisions as theory
from ..drawing import check_axes
from ..statistics import student

__all__ = ["FIG3", "first_weights", "plot_fig3", "plot_ratio", "quoted_p_values", "run_fig3"]

# The source's sizes take minutes, the small ones seconds. Its l1 strength is not given; this one is below
# 1/sqrt(m) for all sizes, as its section 2.1 asks.
FIG3: dict[str, dict[str, object]] = {
    "quick": {"n_features": 32, "n_hidden": (32, 64, 128, 256), "runs": 16, "lam": 3e-3},
    "full": {"n_features": 256, "n_hidden": (256, 512, 1024, 2048, 4096), "runs": 16, "lam": 3e-3},
}

# Initial s.d. times sqrt(m), as in the source's Fig. 2.
_SCALE = 0.9
# Flow time times lam. All but a few in ten thousand encodings are one-hot by then, and the rest nearly so.
_UNTIL = 6.0
# Error of a step. Owners at 1e-3, 1e-4, 1e-5 and 1e-7 were the same for all 640 features of 20 runs.
_RTOL = 1e-4
# Of how many of a feature's largest initial weights the winners are counted.
_RANKS = 4


def run_fig3(
    n_features: int = 32,
    n_hidden: Sequence[int] = (32, 64, 128, 256),
    runs: int = 16,
    lam: float = 3e-3,
    *,
    scale: float = _SCALE,
    threshold: float = 0.5,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = 1,
) -> xr.Dataset:
    """Run the flow from many initialisations and count.

    Parameters
    ----------
    n_features : int
        n, at least 2.
    n_hidden : sequence of int
        Values of m, at least n/2 each.
    runs : int
        Initialisations for each m, at least 2.
    lam : float
        l1 strength in the normal form (constants 4 dropped), positive.
    scale : float
        Standard deviation of the initial weights times sqrt(m).
    threshold : float
        Weight above which a neuron represents a feature.
    confidence : float
        Coverage of the intervals, in (0, 1).
    seed : int
        Run r of size m starts from ``default_rng([seed, n_features, m, r])``: the same whatever else is run.
    workers : int
        Threads that share the runs.

    Returns
    -------
    xarray.Dataset
        Over (n_hidden, run): ``polysemantic`` (neurons), ``stayed`` (share of the features that end on the
        neuron of their largest initial weight), ``stayed_pairs`` (polysemantic neurons with two of these),
        ``dead`` (features on no neuron), ``unfinished`` (encodings with more than one nonzero weight). Over
        (n_hidden, run, rank): ``won``, the share of the features that end on the neuron of their largest,
        second largest, ... initial weight (``rank`` 1, 2, ...). Over n_hidden: ``mean`` with its
        Student interval ``low``, ``high``; the exact Poisson interval of the same mean, ``poisson_low``,
        ``poisson_high``, which is conservative as the ``dispersion`` (variance over mean) is below 1; the
        predictions ``quoted`` = n^2/(4m), ``exclusive`` and ``independent``; and ``preference``, fitted to
        the mean, of :func:`theory.displaced_polysemantic` (nan if none fits).

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> ds = run_fig3(8, (8, 16), runs=3, lam=0.02)
    >>> ds["polysemantic"].shape, float(ds["quoted"][1])
    ((2, 3), 1.0)
    """
    n = arguments.integer("n_features", n_features, 2)
    sizes = [arguments.integer("n_hidden", m, (n + 1) // 2) for m in n_hidden]
    runs = arguments.integer("runs", runs, 2)
    arguments.real("lam", lam, 0.0, brackets="(]")
    arguments.real("scale", scale, 0.0, brackets="(]")
    arguments.real("confidence", confidence, 0.0, 1.0, brackets="()")
    found = [_runs(n, m, runs, lam, scale, threshold, seed, workers) for m in sizes]
    axes = ("n_hidden", "run", "rank")
    measured = {
        name: (axes[: first.ndim + 1], np.array([one[name] for one in found]))
        for name, first in found[0].items()
    }
    ds = xr.Dataset(
        measured,
        {"n_hidden": sizes, "run": range(runs), "rank": range(1, _RANKS + 1)},
        {
            "n_features": n,
            "lam": lam,
            "scale": scale,
            "threshold": threshold,
            "confidence": confidence,
            "seed": seed,
        },
    )
    return _judged(ds, confidence)


def first_weights(n: int, m: int, runs: int, scale: float, seed: int) -> npt.NDArray[np.float64]:
    """Draw the first weights of all runs: run r is the same however many there are."""
    rngs = (np.random.default_rng([seed, n, m, r]) for r in range(runs))
    return np.stack([rng.normal(scale=scale / np.sqrt(m), size=(n, m)) for rng in rngs])


def _runs(
    n: int, m: int, runs: int, lam: float, scale: float, threshold: float, seed: int, workers: int
) -> dict[str, npt.NDArray[np.float64]]:
    W0 = first_weights(n, m, runs, scale, seed)
    result = solvers.flow(W0, lam, _UNTIL / lam, tol=_RTOL, threshold=threshold, workers=workers)
    neuron, _ = solvers.owners(result.W, threshold)
    size = np.abs(W0)
    ends = np.take_along_axis(size, np.maximum(neuron, 0)[..., None], axis=2)
    larger = np.where(neuron < 0, m, np.sum(size > ends, axis=2))
    stayed = larger == 0
    pairs = [np.sum(np.bincount(k[s], minlength=m) >= 2) for k, s in zip(neuron, stayed, strict=True)]
    return {
        "polysemantic": result.polysemantic[:, -1],
        "stayed": np.mean(stayed, axis=1),
        "won": np.mean(larger[..., None] == np.arange(_RANKS), axis=1),
        "stayed_pairs": np.array(pairs),
        "dead": np.sum(neuron < 0, axis=1),
        "unfinished": np.sum(result.nonzeros[:, -1] > 1, axis=1),
    }


def _judged(ds: xr.Dataset, confidence: float) -> xr.Dataset:
    counts, runs, n = ds["polysemantic"], ds.sizes["run"], ds.attrs["n_features"]
    m = ds["n_hidden"].values
    mean, half = student(counts.transpose("n_hidden", "run"), confidence)
    total, tail = counts.sum("run").values, (1 - confidence) / 2
    stayed = ds["stayed"].mean("run").values
    return ds.assign(
        mean=("n_hidden", mean),
        low=("n_hidden", mean - half),
        high=("n_hidden", mean + half),
        poisson_low=("n_hidden", stats.chi2.ppf(tail, 2 * total) / 2 / runs * (total > 0)),
        poisson_high=("n_hidden", stats.chi2.isf(tail, 2 * total + 2) / 2 / runs),
        dispersion=counts.var("run", ddof=1) / mean,
        quoted=("n_hidden", theory.quoted_polysemantic(n, m)),
        exclusive=("n_hidden", theory.expected_polysemantic(n, m)),
        independent=("n_hidden", theory.expected_polysemantic(n, m, exclusive=False)),
        preference=(
            "n_hidden",
            [_preference(n, int(k), s, c) for k, s, c in zip(m, stayed, mean, strict=True)],
        ),
    )


def _preference(n: int, m: int, stayed: float, count: float) -> float:
    """Fit the preference that gives this count, by bisection: the count grows with it."""
    low, high = 0.0, 4.0
    ends = [theory.displaced_polysemantic(n, m, stayed=stayed, preference=x) for x in (low, high)]
    if not ends[0] <= count <= ends[1]:
        return float("nan")
    for _ in range(40):
        middle = (low + high) / 2
        if theory.displaced_polysemantic(n, m, stayed=stayed, preference=middle) < count:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def quoted_p_values(ds: xr.Dataset) -> tuple[npt.NDArray[np.float64], float, float]:
    """Test whether the counts have the means n^2/(4m), and whether any one constant fits all m.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_fig3`.

    Returns
    -------
    each : (n_hidden,) ndarray of float64
        Two-sided p-value of Student's test, for each m, that the mean is n^2/(4m).
    together : float
        Fisher's combination of them.
    same : float
        p-value of Alexander and Govern's test that the mean over n^2/(4m) is the same for all m, whatever it
        is; it allows for variances that differ.

    Notes
    -----
    An m whose runs all have the same count cannot be tested: nan, and left out of the other two, which are
    nan if nothing (``same``: one m only) is left. The tests take means of counts as normal.
    """
    each, groups = np.full(ds.sizes["n_hidden"], np.nan), []
    for k in range(each.size):
        ratios = ds["polysemantic"].values[k] / float(ds["quoted"][k])
        if np.ptp(ratios) > 0:
            each[k] = stats.ttest_1samp(ratios, 1.0).pvalue
            groups.append(ratios)
    together = float(stats.combine_pvalues(each[np.isfinite(each)]).pvalue) if groups else float("nan")
    same = float("nan")
    if len(groups) > 1:
        # SciPy warns of lost precision where means agree to rounding; the p-value is 1 then, as it should.
        with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):
            same = float(stats.alexandergovern(*groups).pvalue)
    return each, together, same


def _axes(ax: Axes) -> None:
    check_axes(ax)


def _title(ds: xr.Dataset) -> str:
    return f"n = {ds.attrs['n_features']}, λ = {ds.attrs['lam']:g} (normal form)"


def plot_fig3(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw counts against m: runs as dots, means with their intervals, predictions as lines."""
    _axes(ax)
    n, m = ds.attrs["n_features"], ds["n_hidden"].values
    fine = np.unique(np.geomspace(m.min(), m.max(), 100).astype(int))
    ax.plot(fine, theory.quoted_polysemantic(n, fine), color="0.5", linestyle="--", label="n²/(4m)")
    ax.plot(fine, theory.expected_polysemantic(n, fine), color="C0", label="one place a feature")
    ax.plot(
        fine,
        theory.expected_polysemantic(n, fine, exclusive=False),
        color="C0",
        linestyle=":",
        label="independent choice",
    )
    ax.plot(np.repeat(m, ds.sizes["run"]), ds["polysemantic"].values.ravel(), ".", color="C1", alpha=0.25)
    error = [ds["mean"] - ds["low"], ds["high"] - ds["mean"]]
    text = f"flow: mean, {100 * ds.attrs['confidence']:g} % interval, {ds.sizes['run']} runs"
    ax.errorbar(m, ds["mean"], error, fmt="o", color="C1", markersize=4, capsize=2, label=text)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="hidden neurons m",
        ylabel="polysemantic neurons",
        title=_title(ds),
    )
    ax.set_xticks(m, [str(k) for k in m])
    ax.minorticks_off()
    # Room for the legend below the data.
    counts = ds["polysemantic"].values
    if counts.any():
        ax.set_ylim(bottom=counts[counts > 0].min() / 7)
    ax.legend(loc="lower left")
    return ax


def plot_ratio(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw mean counts over n^2/(4m) against m with their intervals, and the predictions over the same."""
    _axes(ax)
    n, m = ds.attrs["n_features"], ds["n_hidden"].values
    fine = np.unique(np.geomspace(m.min(), m.max(), 100).astype(int))
    quoted = theory.quoted_polysemantic(n, fine)
    ax.axhline(1, color="0.5", linestyle="--", label="n²/(4m)")
    ax.plot(fine, theory.expected_polysemantic(n, fine) / quoted, color="C0", label="one place a feature")
    ax.plot(
        fine,
        theory.expected_polysemantic(n, fine, exclusive=False) / quoted,
        color="C0",
        linestyle=":",
        label="independent choice",
    )
    mean, low, high = ((ds[name] / ds["quoted"]).values for name in ("mean", "low", "high"))
    text = f"flow: mean, {100 * ds.attrs['confidence']:g} % interval"
    ax.errorbar(m, mean, [mean - low, high - mean], fmt="o", color="C1", markersize=4, capsize=2, label=text)
    ax.set(xscale="log", xlabel="hidden neurons m", ylabel="polysemantic neurons / (n²/4m)", title=_title(ds))
    ax.set_xticks(m, [str(k) for k in m])
    ax.minorticks_off()
    # Room for the legend below the data.
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom - 0.35 * (top - bottom), top)
    ax.legend(loc="lower right", ncols=2)
    return ax
