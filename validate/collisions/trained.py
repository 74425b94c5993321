"""Fig. 3 of Lecomte et al. (2024) by training: what the optimiser does to the number of collisions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ...solvers import collisions as solvers
from ...theory import arguments
from ...theory.collisions import quoted_polysemantic
from ..drawing import check_axes
from ..statistics import student
from .counts import ON, SHIFTED, collision_counts
from .training import merged, train_l1

__all__ = ["NAMES", "TRAINED", "plot_trained", "run_printed", "run_trained"]

# The full profile has the sizes of the source's figure and the l1 strength, learning rate, steps and scale of
# the authors' published code; it wants a GPU. AdamW moves weights by about its learning rate a step, whatever
# lam is: it takes some thousand steps until encodings are one-hot, 6000 in the small profile.
TRAINED: dict[str, dict[str, Any]] = {
    "quick": {
        "n_features": 32,
        "n_hidden": (32, 64, 128),
        "lam": 0.02,
        "adamw_steps": 6000,
        "seeds": range(16),
    },
    "full": {
        "n_features": 256,
        "n_hidden": (256, 512, 1024, 2048, 4096),
        "lam": 1e-3,
        "adamw_steps": 7500,
        "seeds": range(16),
    },
}

# Weights that the authors' code counts, in absolute value.
WINDOW = (0.8, 1.2)
# Error of a step of the flow, as in its own Fig. 3: smaller ones give the same owners.
FLOW_RTOL = 1e-4
NAMES = {"flow": "flow", "gd": "gradient descent", "sign": "gradient descent with sign(W)", "adamw": "AdamW"}


def run_trained(
    n_features: int = 32,
    n_hidden: Sequence[int] = (32, 64, 128),
    lam: float = 0.02,
    seeds: Sequence[int] = tuple(range(16)),
    *,
    optimisers: Sequence[str] = ("gd", "adamw"),
    time: float = 6.0,
    adamw_steps: int = 6000,
    scale: float = 1.0,
    confidence: float = 0.95,
    device: str = "auto",
) -> xr.Dataset:
    """Train by plain gradient descent and by AdamW from the same first weights, and count.

    Parameters
    ----------
    n_features : int
    n_hidden : sequence of int
        Values of m.
    lam : float
        l1 strength of the printed loss, positive: four times that of the normal form.
    seeds : sequence of int
        At least two runs.
    optimisers : sequence of {"flow", "gd", "sign", "adamw"}
        "flow" is no training but `solvers.collisions.flow` at lam/4, from the same first weights.
    time : float
        Length of the flow and of gradient descent in units of 1/lam_normal.
    adamw_steps : int
        Steps of AdamW.
    scale : float
        Standard deviation of the first weights times sqrt(m); 1 in the authors' code.
    confidence : float
        Coverage of the intervals, in (0, 1).
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (optimiser, n_hidden, run): what `collision_counts` gives, ``polysemantic_0.25`` and
        ``polysemantic_0.8`` at shifted thresholds, ``loss``, ``diverged``. Of (optimiser, n_hidden): ``mean``
        of the polysemantic neurons with its Student interval ``low``, ``high``. Of (n_hidden): ``quoted``,
        n^2/(4 m).

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Lecomte et al. (2024), §2.5, Fig. 3.

    Examples
    --------
    >>> ds = run_trained(8, [8], 0.1, range(4), optimisers=["gd"], device="cpu")
    >>> float(ds.quoted[0]), int(ds.dead.sum())
    (2.0, 0)
    """
    sizes = [arguments.integer("n_hidden", m, 1) for m in n_hidden]
    lam = float(arguments.real("lam", lam, 0, brackets="()"))
    time = float(arguments.real("time", time, 0, brackets="()"))
    confidence = float(arguments.real("confidence", confidence, 0, 1, brackets="()"))
    seeds = list(seeds)
    if len(seeds) < 2:
        raise ValueError(f"`seeds` must be at least two, for an interval; got {seeds}.")
    rows = []
    for optimiser in optimisers:
        columns = []
        for m in sizes:
            rate = 1e-3 if optimiser == "adamw" else 0.05
            common: dict[str, Any] = {"scale": scale, "device": device, "keep_weights": True}
            if optimiser == "flow":
                first = train_l1(n_features, m, lam, seeds, steps=0, **common)["W"].values[0]
                end = solvers.flow(first.astype(float), lam / 4, time / (lam / 4), tol=FLOW_RTOL).W
                # No step: the end of the flow, counted as the others are.
                ds = train_l1(n_features, m, lam, seeds, steps=0, start=end, **common)
            else:
                ds = train_l1(
                    n_features,
                    m,
                    lam,
                    seeds,
                    optimiser=optimiser,
                    learning_rate=rate,
                    steps=adamw_steps if optimiser == "adamw" else round(time / (lam * rate)),
                    **common,
                )
            ds = ds.isel(step=0, drop=True)
            for threshold in SHIFTED:
                shifted = collision_counts(ds["W"].values, threshold)["polysemantic"]
                ds[f"polysemantic_{threshold:g}"] = ("run", shifted)
            columns.append(
                ds.drop_vars([name for name in ("W", "t", "seed", "lam", "lam_normal") if name in ds])
            )
        rows.append(merged(columns, n_hidden=sizes))
    ds = merged(rows, optimiser=list(optimisers)).transpose("optimiser", "n_hidden", "run")
    counts = ds["polysemantic"]
    axes = ("optimiser", "n_hidden")
    mean, half = student(counts.transpose(*axes, "run"), confidence)
    ds["mean"], ds["low"], ds["high"] = (axes, mean), (axes, mean - half), (axes, mean + half)
    ds["quoted"] = ("n_hidden", np.atleast_1d(quoted_polysemantic(n_features, sizes)))
    ds = ds.assign_coords(seed=("run", seeds))
    ds.attrs = {
        "n_features": n_features,
        "lam": lam,
        "time": time,
        "adamw_steps": adamw_steps,
        "scale": scale,
        "threshold": ON,
        "confidence": confidence,
    }
    return ds


def run_printed(
    n_hidden: Sequence[int] = (256, 512, 1024, 2048, 4096),
    seeds: Sequence[int] = tuple(range(16)),
    *,
    n_features: int = 256,
    lam: float = 1e-3,
    steps: Sequence[int] = (2000, 4000, 6000, 7500),
    threads: int = 1,
    device: str = "auto",
) -> xr.Dataset:
    """Train what Fig. 3 shows, by the settings of the authors' published code, and count as it does.

    Parameters
    ----------
    n_hidden : sequence of int
        Values of m.
    seeds : sequence of int
        At least two runs.
    n_features : int
    lam : float
        l1 strength of the printed loss, positive.
    steps : increasing sequence of int
        Steps of AdamW at which to count; the published code makes 7500.
    threads : int
        As in `train_l1`.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Of (step, n_hidden, run): ``polysemantic``, neurons on which two or more features have weights between
        0.8 and 1.2 in absolute value; ``polysemantic_0.5``, with weights above `ON`; ``dead`` and
        ``nonzeros`` of `collision_counts`; ``loss``. Of (n_hidden): ``quoted``, n^2/(4 m). Coordinate
        ``seed``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Lecomte et al. (2024), §2.5, Fig. 3, and github.com/tmychow/accidental-polysemanticity,
       experiments/collisions.py: AdamW with learning rate 1e-3, lam = 1e-3, 7500 steps, s.d. 1/sqrt(m).

    Examples
    --------
    >>> ds = run_printed([8], range(4), n_features=8, lam=0.1, steps=[1500], device="cpu")
    >>> ds.polysemantic.dims, float(ds.quoted[0])
    (('step', 'n_hidden', 'run'), 2.0)
    """
    sizes = [arguments.integer("n_hidden", m, 1) for m in n_hidden]
    lam = float(arguments.real("lam", lam, 0, brackets="()"))
    seeds = list(seeds)
    if len(seeds) < 2:
        raise ValueError(f"`seeds` must be at least two, for an interval; got {seeds}.")
    columns = []
    for m in sizes:
        ds = train_l1(
            n_features,
            m,
            lam,
            seeds,
            optimiser="adamw",
            steps=steps,
            scale=1.0,
            threads=threads,
            device=device,
            keep_weights=True,
        )
        size = np.abs(ds["W"].values)
        among = np.sum((size >= WINDOW[0]) & (size <= WINDOW[1]), axis=-2)
        kept = ds[["polysemantic", "dead", "nonzeros", "loss"]].rename(polysemantic="polysemantic_0.5")
        columns.append(kept.assign(polysemantic=(("step", "run"), np.sum(among >= 2, axis=-1).astype(float))))
    found = merged(columns, n_hidden=sizes).transpose("step", "n_hidden", "run")
    found["quoted"] = ("n_hidden", np.atleast_1d(quoted_polysemantic(n_features, sizes)))
    return found.assign_coords(seed=("run", seeds)).assign_attrs(n_features=n_features, lam=lam, scale=1.0)


def plot_trained(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the mean count over n^2/(4m) against m, with its confidence interval, for each optimiser."""
    check_axes(ax)
    ax.axhline(1, color="C0", label="n²/(4m)")
    for k, name in enumerate(ds["optimiser"].values):
        some = ds.sel(optimiser=name) / ds["quoted"]
        shift = 1.02 ** (k - (ds.sizes["optimiser"] - 1) / 2)  # side by side, so that bars do not overlap
        ax.errorbar(
            ds["n_hidden"] * shift,
            some["mean"],
            [some["mean"] - some["low"], some["high"] - some["mean"]],
            fmt="osD^v"[k % 5],
            color=f"C{k + 1}",
            markersize=4,
            label=f"{NAMES[str(name)]}, {100 * ds.attrs['confidence']:g} % interval, {ds.sizes['run']} runs",
        )
    ax.set(
        xscale="log",
        xlabel="hidden neurons m",
        ylabel="polysemantic neurons / (n²/4m)",
        title=f"n = {ds.attrs['n_features']}, λ = {ds.attrs['lam']:g} (printed loss)",
    )
    m = ds["n_hidden"].values
    ax.set_xticks(m, [str(k) for k in m])
    ax.minorticks_off()
    ax.set_xlim(m.min() / 1.3, m.max() * 1.3)
    # Room for the legend below the data.
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom - 0.4 * (top - bottom), top)
    ax.legend(loc="lower left")
    return ax
