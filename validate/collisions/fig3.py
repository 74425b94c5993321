"""Fig. 3 of Lecomte et al. (2024) by the flow itself: polysemantic neurons against hidden neurons."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from scipy import stats

from ...solvers import collisions as solvers
from ...theory import arguments
from ...theory import collisions as theory

__all__ = ["FIG3", "plot_fig3", "run_fig3"]

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
        n_hidden: ``mean`` with its Student interval ``low``, ``high``; the exact Poisson interval of the
        same mean, ``poisson_low``, ``poisson_high``, which is conservative as the ``dispersion`` (variance
        over mean) is below 1; the predictions ``quoted`` = n^2/(4m), ``exclusive`` and ``independent``, and
        ``preference``, fitted to the mean, of :func:`theory.displaced_polysemantic` (nan if none fits).

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
    measured = {name: (("n_hidden", "run"), np.array([one[name] for one in found])) for name in found[0]}
    ds = xr.Dataset(
        measured,
        {"n_hidden": sizes, "run": range(runs)},
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


def _runs(
    n: int, m: int, runs: int, lam: float, scale: float, threshold: float, seed: int, workers: int
) -> dict[str, npt.NDArray[np.float64]]:
    W0 = np.stack(
        [
            np.random.default_rng([seed, n, m, r]).normal(scale=scale / np.sqrt(m), size=(n, m))
            for r in range(runs)
        ]
    )
    result = solvers.flow(W0, lam, _UNTIL / lam, rtol=_RTOL, threshold=threshold, workers=workers)
    neuron, _ = solvers.owners(result.W, threshold)
    stayed = neuron == np.argmax(np.abs(W0), axis=2)
    pairs = [np.sum(np.bincount(k[s], minlength=m) >= 2) for k, s in zip(neuron, stayed, strict=True)]
    return {
        "polysemantic": result.polysemantic[:, -1],
        "stayed": np.mean(stayed, axis=1),
        "stayed_pairs": np.array(pairs),
        "dead": np.sum(neuron < 0, axis=1),
        "unfinished": np.sum(result.nonzeros[:, -1] > 1, axis=1),
    }


def _judged(ds: xr.Dataset, confidence: float) -> xr.Dataset:
    counts, runs, n = ds["polysemantic"], ds.sizes["run"], ds.attrs["n_features"]
    m = ds["n_hidden"].values
    mean, spread = counts.mean("run"), counts.std("run", ddof=1)
    half = stats.t.ppf(0.5 + confidence / 2, runs - 1) * spread / np.sqrt(runs)
    total, tail = counts.sum("run").values, (1 - confidence) / 2
    stayed = ds["stayed"].mean("run").values
    return ds.assign(
        mean=mean,
        low=mean - half,
        high=mean + half,
        poisson_low=("n_hidden", stats.chi2.ppf(tail, 2 * total) / 2 / runs * (total > 0)),
        poisson_high=("n_hidden", stats.chi2.isf(tail, 2 * total + 2) / 2 / runs),
        dispersion=spread**2 / mean,
        quoted=("n_hidden", theory.quoted_polysemantic(n, m)),
        exclusive=("n_hidden", theory.expected_polysemantic(n, m)),
        independent=("n_hidden", theory.expected_polysemantic(n, m, exclusive=False)),
        preference=(
            "n_hidden",
            [_preference(n, int(k), s, c) for k, s, c in zip(m, stayed, mean.values, strict=True)],
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


def plot_fig3(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw counts against m: runs as dots, means with their intervals, predictions as lines."""
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be a matplotlib Axes; got {type(ax).__name__}.")
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
        title=f"n = {n}, λ = {ds.attrs['lam']:g}",
    )
    ax.legend()
    return ax
