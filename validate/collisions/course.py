"""When interference changes who shares a neuron: the count that the weights of each moment would give."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ...solvers import collisions as solvers
from ...theory import arguments
from ...theory import collisions as theory
from ..drawing import check_axes
from ..statistics import student
from .fig3 import first_weights

__all__ = ["plot_course", "run_course"]

# Times in 1/lam: from the end of the first conflict, which takes a time of order 1, to one-hot encodings.
_TIMES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 6.0)
_RTOL = 1e-4


def run_course(
    n_features: int = 32,
    n_hidden: int = 64,
    runs: int = 64,
    lam: float = 3e-3,
    times: Sequence[float] = _TIMES,
    *,
    scale: float = 0.9,
    seed: int = 0,
) -> xr.Dataset:
    """Stop the flow at several times, and give places to its weights as if interference ended there.

    If the count of :func:`superposition.solvers.collisions.assign` at some time is already the final one,
    interference has done its part by then.

    Parameters
    ----------
    n_features, n_hidden : int
        n at least 2, m at least n/2.
    runs : int
        Initialisations, at least 2.
    lam : float
        l1 strength in the normal form (constants 4 dropped), positive.
    times : sequence of float
        Sorted flow times in units of 1/lam, not negative.
    scale : float
        Standard deviation of the first weights times sqrt(m).
    seed : int
        The runs are those of :func:`run_fig3` with the same seed and sizes.

    Returns
    -------
    xarray.Dataset
        Over (time, run): ``count``, polysemantic neurons if places are given out then; ``held``, share of
        the pairs of features whose overlap is positive, that is, held down by interference; ``nonzeros`` of
        an encoding. Attribute ``expected``: the count if chance alone decides.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> ds = run_course(8, 8, runs=4, lam=0.02)
    >>> ds["count"].dims, ds["count"].shape
    (('time', 'run'), (10, 4))
    """
    n = arguments.integer("n_features", n_features, 2)
    m = arguments.integer("n_hidden", n_hidden, (n + 1) // 2)
    runs = arguments.integer("runs", runs, 2)
    lam = arguments.number("lam", lam, 0.0, brackets="(]")
    scale = arguments.number("scale", scale, 0.0, brackets="(]")
    stops = arguments.vector("times", arguments.real("times", times, 0.0))
    if np.any(np.diff(stops) < 0):
        raise ValueError(f"`times` must be sorted; got {stops.tolist()}.")
    W = first_weights(n, m, runs, scale, seed)
    others = ~np.eye(n, dtype=bool)
    at, rows = 0.0, []
    for stop in stops:
        if stop > at:
            W = solvers.flow(W, lam, (stop - at) / lam, tol=_RTOL).W
            at = stop
        overlaps = np.einsum("rik,rjk->rij", W, W)[:, others]
        rows.append(
            {
                "count": solvers.assign(W).polysemantic,
                "held": np.mean(overlaps > 1e-9, axis=1),
                "nonzeros": np.mean(np.sum(W != 0, axis=2), axis=1),
            }
        )
    return xr.Dataset(
        {name: (("time", "run"), np.array([row[name] for row in rows], dtype=float)) for name in rows[0]},
        {"time": stops, "run": range(runs)},
        {
            "n_features": n,
            "n_hidden": m,
            "lam": lam,
            "scale": scale,
            "seed": seed,
            "expected": float(theory.expected_polysemantic(n, m)),
        },
    )


def plot_course(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the count over the chance value against time, and the share of overlaps that are held down."""
    check_axes(ax)
    runs = ds.sizes["run"]
    ratio = ds["count"] / ds.attrs["expected"]
    ax.axhline(1.0, color="0.5", linestyle="--", label="chance alone")
    ax.errorbar(
        ds["time"],
        *student(ratio.transpose("time", "run")),
        fmt="o-",
        color="C1",
        markersize=4,
        capsize=2,
        label=f"count at that time, 95 % interval, {runs} runs",
    )
    ax.plot(ds["time"], ds["held"].mean("run"), ".:", color="C3", label="overlaps held at zero, share")
    ax.set(
        xlabel="λt",
        ylabel="count over chance; share",
        title=f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, λ = {ds.attrs['lam']:g}",
        ylim=(0.0, 1.6),
    )
    # Logarithmic from the end of the first conflict on, with room for time 0.
    ax.set_xscale("symlog", linthresh=0.03, linscale=0.3)
    ticks = [0.0, 0.03, 0.1, 0.3, 1.0, 3.0]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(-0.01, 1.2 * float(ds["time"].max()))
    ax.legend(loc="upper left")
    return ax
