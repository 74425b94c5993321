"""First weights, times and table columns of the experiments on one encoding."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers.sparsification import Sparsification
from ....theory.validation import FloatArray, check_fits, finite, integer, number, real, vector

# Of Figs. 2 and 7 of Lecomte et al. (2024).
M = 100_000  # weights
LAM = 1e-5  # strength of the l1 force
SCALE = 0.9  # length of the first weights


def initial_weights(m: int, scale: float, seed: int, run: int) -> FloatArray:
    """Return the m first weights of a run, normal of s.d. scale/sqrt(m); they depend on seed and run only."""
    check_fits("m", m, 8.0 * m)  # the weights in their order, and sums over them
    return np.random.default_rng([seed, run]).normal(scale=scale / m**0.5, size=m)


def flow_times(times: npt.ArrayLike | None, m: int, lam: float) -> FloatArray:
    """Return validated flow times as a vector; ValueError if one is negative.

    None stands for the 120 `default_times` of m weights under the l1 strength `lam`.
    """
    return default_times(m, lam) if times is None else vector("times", real("times", times, 0))


@finite
def default_times(m: int = M, lam: float = LAM, count: int = 120) -> FloatArray:
    """Return `count` times, from long before the first of m weights reaches 0 to long after the last but one.

    Times are evenly spaced in log t; m is at least 8, the strength lam of the l1 force positive.

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


def stack_results(*results: Sparsification) -> dict[str, npt.NDArray[Any]]:
    """Return statistics of several runs by name, each of shape (run, time).

    Names are "nonzeros" (number of nonzero weights), "l1_norm", "l2_norm" and "relative_variance" (variance
    of the nonzero |weights| over their squared mean).
    """
    names = ("nonzeros", "l1_norm", "l2_norm", "relative_variance")
    columns = {name: np.array([getattr(result, name) for result in results]) for name in names}
    return {**columns, "nonzeros": columns["nonzeros"].astype(np.int32)}


SYMBOLS = {"nonzeros": "m'", "l1_norm": "|W|_1"}


TABLE_TIMES = (1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)  # times of the tables, in 1/lam


def describe_settings(ds: xr.Dataset) -> str:
    """Return m, lam and the scale, attributes of `ds`, as text."""
    m, lam, scale = (ds.attrs[k] for k in ("m", "lam", "scale"))
    return f"m = {m}, lam = {lam:g}, first weights of standard deviation {scale:g}/sqrt(m)"


def table_columns(*head: str) -> tuple[str, ...]:
    """Return headings of a table's columns: the time, then each of `head` for nonzeros and the l1 norm."""
    return ("lam t", *(f"{label}: {h}" for label in SYMBOLS.values() for h in head))
