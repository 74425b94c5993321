"""Experiments on one encoding without interference: exact solutions, the full flow, training with PyTorch."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import erfcinv

from ....solvers import collisions
from ....solvers.sparsification import Sparsification, limit_law, solve
from ....theory import sparsification
from ....theory.annotations import as_annotated
from ....theory.validation import (
    FloatArray,
    check_fits,
    choice,
    finite,
    integer,
    integers,
    number,
    real,
    vector,
)
from ...training.engine import load_torch
from ...training.loop import descend

# Number of weights, strength of the l1 force and initial length in Figs. 2 and 7 of Lecomte et al. (2024).
M, LAM, SCALE = 100_000, 1e-5, 0.9

# PyTorch: gradient descent with the sign of a weight near zero chatters by a step; twice that is nonzero.
CHATTER = 2.0


def _initial(m: int, scale: float, seed: int, run: int) -> FloatArray:
    """Draw the weights of a run: the same for the same seed, whatever else is computed."""
    check_fits("m", m, 8.0 * m)  # the weights in their order, and sums over them
    return np.random.default_rng([seed, run]).normal(scale=scale / m**0.5, size=m)


def ideal_weights(m: int, scale: float) -> FloatArray:
    """Return absolute weights at regular percentiles of the normal law, descending, for an initial length.

    The k-th has a tail of (k - 1/2)/m. The source (App. B, Fig. 7) does not say which percentiles are
    regular.

    Examples
    --------
    >>> ideal_weights(3, 1).round(3)
    array([0.798, 0.389, 0.121])
    """
    check_fits("m", m, 4 * m)
    return np.asarray(scale * (2 / m) ** 0.5 * erfcinv((np.arange(m) + 0.5) / m))


@finite
def default_times(m: int = M, lam: float = LAM, count: int = 120) -> FloatArray:
    """Return `count` times from long before the first of m weights drop to long after the last but one.

    Even in log t; m is at least 8, the strength lam of the l1 force positive.

    Examples
    --------
    >>> default_times(count=3).round(2)
    array([1.58100e+01, 2.81171e+03, 5.00000e+05])
    """
    m = integer("m", m, 8)
    lam = number("lam", lam, 0, brackets="()")
    times = integer("count", count, 2)
    check_fits("count", count, times)
    return np.geomspace(0.05 / (lam * m**0.5), 5 / lam, times)


def _times(times: npt.ArrayLike | None, m: int, lam: float) -> FloatArray:
    return default_times(m, lam) if times is None else vector("times", real("times", times, 0))


def _solved(*results: Sparsification) -> dict[str, npt.NDArray[Any]]:
    """Return the numbers of runs, stacked."""
    names = ("nonzeros", "l1_norm", "l2_norm", "relative_variance")
    found = {name: np.array([getattr(result, name) for result in results]) for name in names}
    return {**found, "nonzeros": found["nonzeros"].astype(np.int32)}


@as_annotated
def run_fig2(
    m: int = M,
    lam: float = LAM,
    scale: float = SCALE,
    times: npt.ArrayLike | None = None,
    runs: int = 16,
    seed: int = 0,
) -> xr.Dataset:
    """Solve several random initialisations exactly and put the limit law and the source's curves beside.

    Parameters
    ----------
    m, lam : int, float
        Number of weights, at least 8; strength of the l1 force, positive.
    scale : float
        Initial length; the weights are normal with standard deviation scale/sqrt(m).
    times : array_like of float, optional
        Flow times, sorted; `default_times` if not given.
    runs, seed : int
        Independent initialisations, at least 2; run r begins from ``default_rng([seed, r])``.

    Returns
    -------
    xarray.Dataset
        Over (run, time): `nonzeros`, `l1_norm`, `l2_norm`, `relative_variance`. Over time: the limit law
        (`law_nonzeros`, `law_l1_norm`, `law_relative_variance`, `law_nonzeros_std`, `law_l1_norm_std`) and
        the curves that the source draws, 1/(1/sqrt(m) + lam t) and its square (`source_l1_norm`,
        `source_nonzeros`).

    Examples
    --------
    >>> ds = run_fig2(1000, 1e-3, times=[10, 1000], runs=4)
    >>> ds["nonzeros"].dims
    ('run', 'time')
    """
    m, runs = integers(m=(m, 8), runs=(runs, 2))
    t = _times(times, m, lam)
    law = limit_law(t, lam, m, scale)
    # What the source's figure draws: App. B's solution with a relative variance of 1 at all times.
    drawn = 1 / (1 / m**0.5 + lam * t)
    found = _solved(*(solve(_initial(m, scale, seed, run), lam, t) for run in range(runs)))
    names = ("nonzeros", "l1_norm", "relative_variance", "nonzeros_std", "l1_norm_std")
    curves = {f"law_{name}": getattr(law, name) for name in names}
    curves |= {"source_nonzeros": drawn**2, "source_l1_norm": drawn}
    data: dict[str, Any] = {name: (("run", "time"), values) for name, values in found.items()}
    data |= {name: ("time", values) for name, values in curves.items()}
    coords = {"time": t, "run": np.arange(runs, dtype=np.int32)}
    return xr.Dataset(data, coords, {"m": m, "lam": lam, "scale": scale, "seed": seed})


@as_annotated
def run_fig7(
    m: int = M, lam: float = LAM, scale: float = SCALE, times: npt.ArrayLike | None = None, seed: int = 0
) -> xr.Dataset:
    """Follow the relative variance of the survivors of one run, between its bounds (App. B).

    Parameters
    ----------
    m, lam, scale, times, seed
        As in `run_fig2`, whose first run this is.

    Returns
    -------
    xarray.Dataset
        Over time: `nonzeros`, `relative_variance`, its bounds for the weights of the run (`lower`, `upper`)
        and for weights at regular percentiles (`ideal_lower`, `ideal_upper`) at the same number of survivors,
        and the limit for many weights (`limit`).

    Raises
    ------
    ValueError
        If an argument is outside its interval, or all weights die before the last time.

    Examples
    --------
    >>> ds = run_fig7(1000, 1e-3, times=[10, 1000])
    >>> bool(((ds["lower"] <= ds["relative_variance"]) & (ds["relative_variance"] <= ds["upper"])).all())
    True
    """
    m, scale = integer("m", m, 8), number("scale", scale, 0, brackets="()")
    t = _times(times, m, lam)
    w0 = _initial(m, scale, seed, 0)
    result = solve(w0, lam, t)
    left = result.nonzeros
    if left[-1] == 0:
        raise ValueError(f"`lam` must leave a weight to the end of `times`; got {lam}.")
    solved = _solved(result)
    found = {name: solved[name][0] for name in ("nonzeros", "relative_variance")}
    found["lower"], found["upper"] = sparsification.relative_variance_bounds(w0, left)
    ideal = ideal_weights(m, scale)
    found["ideal_lower"], found["ideal_upper"] = sparsification.relative_variance_bounds(ideal, left)
    found["limit"] = sparsification.limiting_relative_variance(left / m)
    data = {name: ("time", values) for name, values in found.items()}
    return xr.Dataset(data, {"time": t}, {"m": m, "lam": lam, "scale": scale, "seed": seed})


@as_annotated
def run_agreement(
    m: int = 1000,
    lam: float = 1e-3,
    scale: float = SCALE,
    times: npt.ArrayLike | None = None,
    runs: int = 16,
    seed: int = 0,
    learning_rate: float = 0.2,
    optimizer: str = "sgd",
) -> xr.Dataset:
    """Do the same by four routes: limit law, exact solution, full flow without interference, PyTorch.

    PyTorch minimises the loss of the normal form, (1 - |W|²)²/4 + lam |W|_1, with autograd, from the same
    first weights; its time is the learning rate times the number of steps. The sign that autograd gives a
    weight near zero makes it chatter by one step of the force, so weights below twice that count as zero.

    Parameters
    ----------
    m, lam, scale, times, runs, seed
        As in `run_fig2`; small, since training takes max(times)/learning_rate steps.
    learning_rate, optimizer : float, {"sgd", "adamw"}
        At most 1. Plain gradient descent follows the flow. AdamW divides each weight's gradient by its size,
        so that all weights move alike and the flow is left.

    Returns
    -------
    xarray.Dataset
        What `run_fig2` returns, and over (run, time) the flow (`flow_nonzeros`, `flow_l1_norm`) and the
        training (`trained_nonzeros`, `trained_l1_norm`).
    """
    rate = number("learning_rate", learning_rate, 1e-9, 1)
    choice("optimizer", optimizer, ("sgd", "adamw"))
    load_torch()  # before the other routes, not after
    ds = run_fig2(m, lam, scale, times, runs, seed)
    t = ds["time"].values
    first = np.array([_initial(m, scale, seed, run) for run in range(runs)])
    flow = collisions.flow(first[:, None, :], lam, t, interference=False)
    nonzeros, l1_norm = _train(first, lam, t, rate, optimizer)
    counts = {"flow_nonzeros": flow.nonzeros[..., 0], "trained_nonzeros": nonzeros}
    norms = {"flow_l1_norm": flow.l1_norm[..., 0], "trained_l1_norm": l1_norm}
    found = {name: values.astype(np.int32) for name, values in counts.items()} | norms
    ds = ds.assign({name: (("run", "time"), values) for name, values in found.items()})
    return ds.assign_attrs(learning_rate=rate, optimizer=optimizer)


def _train(
    first: FloatArray, lam: float, t: FloatArray, rate: float, optimizer: str
) -> tuple[FloatArray, FloatArray]:
    """Descend on all runs at once; return numbers above the chatter and l1 norms, shapes (run, time)."""
    torch = load_torch()
    W = torch.tensor(first, dtype=torch.float64, requires_grad=True)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer]
    method = kind([W], lr=rate)
    nonzeros, norms = np.empty((first.shape[0], t.size)), np.empty((first.shape[0], t.size))

    def loss() -> Any:
        return ((1 - (W**2).sum(dim=1)) ** 2 / 4 + lam * W.abs().sum(dim=1)).sum()

    for k, _ in enumerate(descend(method, loss, np.rint(t / rate).astype(int).tolist())):
        now = np.abs(W.detach().numpy())
        left = now > CHATTER * rate * lam
        nonzeros[:, k], norms[:, k] = left.sum(axis=1), np.where(left, now, 0).sum(axis=1)
    return nonzeros, norms
