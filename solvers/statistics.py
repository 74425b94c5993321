"""Estimates from samples with their limits, and families of tests that share one false-alarm rate.

Every interval of the report and the ledger comes from here. A limit is one-sided: it is wrong by chance at a
stated rate. Where several limits decide one question they form a `Family`, which shares the rate among them
(Bonferroni), so that the rate of the family is that of any of its limits being wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from ..theory.annotations import as_annotated
from ..theory.validation import FloatArray, integer, number, real, vector

__all__ = [
    "LEVEL",
    "Estimate",
    "Family",
    "crossing",
    "first_level",
    "from_standard_error",
    "growth_power",
    "jackknife",
    "line",
    "mean",
    "mean_within",
    "more_often",
    "share",
    "student",
]  # fmt: skip

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number estimated from samples, between its limits.

    Parameters
    ----------
    value : float
        The estimate; nan where the samples have none.
    low, high : float
        Limits of the interval. Each by itself is wrong at the rate (1 - level)/2.
    level : float
        Confidence of the interval from `low` to `high`.
    runs : int
        Number of independent samples.
    alarm : float or None
        Rate at which any limit of the estimate's `Family` is wrong; None if it belongs to none.
    """

    value: float
    low: float
    high: float
    level: float
    runs: int
    alarm: float | None = None

    def __format__(self, digits: str) -> str:
        """Return the estimate and its limits as text, each number in the format `digits`.

        Examples
        --------
        >>> f"{Estimate(1.0, 0.5, 1.5, 0.95, 3):.2f}"
        '1.00 [0.50, 1.50]'
        """
        digits = digits or ".3g"
        return f"{self.value:{digits}} [{self.low:{digits}}, {self.high:{digits}}]"

    def divided_by(self, scale: float) -> "Estimate":
        """Return the estimate and its limits divided by `scale`, which is positive."""
        return replace(self, value=self.value / scale, low=self.low / scale, high=self.high / scale)


def _checked_level(level: float) -> float:
    """Return a confidence level as a float; ValueError unless it is between 0 and 1."""
    return number("level", level, 0.0, 1.0, brackets="()")


def _symmetric_estimate(value: float, half: float, level: float, runs: int) -> Estimate:
    """Return the `Estimate` `value` ± `half`, of confidence `level`, from `runs` independent runs."""
    return Estimate(value, value - half, value + half, level, runs)


@dataclass(frozen=True)
class Family:
    """Confidence limits that are tested together, with Bonferroni's correction.

    Each is wrong at the rate alarm/limits, so that any of them is wrong at most at the rate `alarm`.

    Parameters
    ----------
    alarm : float
        False-alarm rate of the family, in (0, 1).
    limits : int
        How many one-sided limits it has.

    Examples
    --------
    >>> family = Family(alarm=1e-3, limits=4)
    >>> family.level
    0.9995
    >>> family.of(mean, [1.0, 2.0, 3.0]).alarm
    0.001
    """

    alarm: float
    limits: int

    def __post_init__(self) -> None:
        number("alarm", self.alarm, 0.0, 1.0, brackets="()")
        integer("limits", self.limits, 1)

    @property
    def level(self) -> float:
        """Confidence of a two-sided interval, 1 - 2 alarm/limits: each end is wrong at alarm/limits."""
        return 1 - 2 * self.alarm / self.limits

    @as_annotated
    def of(self, statistic: Callable[..., Estimate], *samples: object, **options: object) -> Estimate:
        """Return the `Estimate` ``statistic(*samples, …)`` with level and rate of the family."""
        return replace(statistic(*samples, level=self.level, **options), alarm=self.alarm)


@as_annotated
def student(values: npt.ArrayLike, level: float = LEVEL, axis: Any = -1) -> tuple[FloatArray, FloatArray]:
    """Return (means of runs along `axis`, half the widths of their two-sided Student intervals).

    Parameters
    ----------
    values : array_like
        Independent runs along `axis`, two or more.
    level : float, optional
        Confidence of the intervals.
    axis : int, optional
        Axis of the runs.

    Returns
    -------
    mean, half : ndarray
        Shape of `values` without `axis`; the interval is mean - half to mean + half.

    Examples
    --------
    >>> mean, half = student([1.0, 2.0, 3.0])
    >>> round(float(mean), 3), round(float(half), 3)
    (2.0, 2.484)
    """
    sample, level = real("values", values), _checked_level(level)
    axis = integer("axis", axis, -sample.ndim, sample.ndim - 1)
    if sample.shape[axis] < 2:
        raise ValueError(f"`values` must have two runs or more; got shape {sample.shape}.")
    half = scipy.stats.t.isf((1 - level) / 2, sample.shape[axis] - 1) * scipy.stats.sem(sample, axis=axis)
    return sample.mean(axis=axis), np.asarray(half)


@as_annotated
def more_often(first: int, second: int, runs: int) -> float:
    """Return Fisher's one-sided p-value for `first` hits in `runs` runs, against `second` hits in as many.

    Examples
    --------
    >>> round(more_often(3, 0, 3), 4)  # one of the 20 ways to choose three of six
    0.05
    """
    runs = integer("runs", runs, 1)
    counts = [integer(name, number, 0, runs) for name, number in (("first", first), ("second", second))]
    table = np.array([[count, runs - count] for count in counts])
    return float(scipy.stats.fisher_exact(table, alternative="greater").pvalue)


@as_annotated
def mean_within(values: npt.ArrayLike, errors: float) -> Estimate:
    """Return the mean of `values`, one for each run, ± `errors` standard errors.

    Examples
    --------
    >>> f"{mean_within([1.0, 2.0, 3.0], 3.0):.3f}"  # the standard error is 1/sqrt 3
    '2.000 [0.268, 3.732]'
    """
    errors, values = number("errors", errors, 1e-9, 1e9), vector("values", values)
    if values.size < 2:
        raise ValueError(f"`values` must be two or more; got {values.size}.")
    return mean(values, level=1 - 2 * float(scipy.stats.t.sf(errors, np.size(values) - 1)))


@as_annotated
def mean(values: npt.ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the mean of `values`, one an independent run, with Student's interval of confidence `level`.

    Examples
    --------
    >>> f"{mean([1.0, 2.0, 3.0]):.2f}"
    '2.00 [-0.48, 4.48]'
    """
    sample = vector("values", values)
    middle, half = student(sample, level)
    return _symmetric_estimate(float(middle), float(half), level, sample.size)


@as_annotated
def from_standard_error(value: float, error: float, level: float = LEVEL) -> Estimate:
    """Return the `Estimate` of `value` with the normal interval of its standard error `error`.

    `level` is the interval's confidence.

    Examples
    --------
    >>> f"{from_standard_error(1.0, 0.1):.2f}"
    '1.00 [0.80, 1.20]'
    """
    level, error = _checked_level(level), number("error", error, 0.0)
    return _symmetric_estimate(float(value), float(scipy.stats.norm.isf((1 - level) / 2) * error), level, 1)


@as_annotated
def share(hits: int, trials: int, level: float = LEVEL) -> Estimate:
    """Return hits/trials with its exact interval (Clopper and Pearson); nan with [0, 1] for 0 trials.

    `level` is the interval's confidence.

    Examples
    --------
    >>> f"{share(5, 10):.3f}"
    '0.500 [0.187, 0.813]'
    """
    hits, level = integer("hits", hits, 0, trials), _checked_level(level)
    if trials == 0:
        return Estimate(float("nan"), 0.0, 1.0, level, 0)
    interval = scipy.stats.binomtest(int(hits), int(trials)).proportion_ci(level, method="exact")
    return Estimate(hits / trials, float(interval.low), float(interval.high), level, int(trials))


@as_annotated
def line(x: npt.ArrayLike, values: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return (intercepts, slopes) of least-squares lines, one for each column of `values`, (x.size, ...).

    Raises
    ------
    ValueError
        If all numbers in `x` are equal, or `values` has another length.

    Examples
    --------
    >>> low, slope = line([0, 1, 2], [[1.0, 5.0], [3.0, 5.0], [5.0, 5.0]])
    >>> low.round(12), slope.round(12)
    (array([1., 5.]), array([2., 0.]))
    """
    x_values, y_values = vector("x", x), np.asarray(values, np.float64)
    off = x_values - x_values.mean()
    if not off.any():
        raise ValueError(f"`x` must have two different numbers or more; got {x_values.tolist()!r:.80}.")
    if y_values.shape[:1] != x_values.shape:
        raise ValueError(
            f"`values` must have the length of `x`, {x_values.size}; got the shape {y_values.shape}."
        )
    slope = np.asarray(np.tensordot(off, y_values, (0, 0)) / (off @ off))
    return np.asarray(y_values.mean(axis=0) - slope * x_values.mean()), slope


@as_annotated
def growth_power(x: npt.ArrayLike) -> Callable[[FloatArray], float]:
    """Return the function of values, (runs, x.size), that fits x^k to their mean over runs and returns k."""
    logarithm = np.log(real("x", vector("x", x), 0, brackets="(]"))
    return lambda runs: float(line(logarithm, np.log(np.maximum(runs.mean(axis=0), 1e-9)))[1])


@as_annotated
def jackknife(
    samples: FloatArray, statistic: Callable[[FloatArray], float], level: float = LEVEL
) -> Estimate:
    """Return statistic(samples) with Student's interval, from the jackknife's standard error over runs.

    Parameters
    ----------
    samples : (runs, ...) ndarray
        The first axis is that of the independent runs.
    statistic : callable
        Maps (runs, ...) to a number; smooth in means over runs.
    level : float, optional

    Examples
    --------
    >>> found = jackknife(np.array([1.0, 2.0, 3.0]), np.mean)
    >>> f"{found:.2f}"  # of a mean, Student's interval itself
    '2.00 [-0.48, 4.48]'
    """
    level = _checked_level(level)
    if samples.ndim == 0 or len(samples) < 2:
        raise ValueError(f"`samples` must have two runs or more; got shape {samples.shape}.")
    runs, full_statistic = len(samples), float(statistic(samples))
    without = [statistic(np.delete(samples, run, axis=0)) for run in range(runs)]
    half = float(scipy.stats.t.isf((1 - level) / 2, runs - 1) * np.std(without) * np.sqrt(runs - 1))
    return _symmetric_estimate(full_statistic, half, level, runs)


@as_annotated
def first_level(x: npt.ArrayLike, values: npt.ArrayLike, level: float) -> float:
    """Return the least x at which `values` reach `level`, interpolated linearly; nan if they never do.

    Examples
    --------
    >>> first_level([0.0, 1.0, 2.0], [0.0, 0.4, 0.8], 0.5)
    1.25
    """
    x = vector("x", x)
    values = vector("values", values, x.size)
    indices = np.flatnonzero(values >= level)
    if not indices.size:
        return float("nan")
    k = int(indices[0])
    if k == 0:
        return float(x[0])
    part = (level - values[k - 1]) / (values[k] - values[k - 1])
    return float(x[k - 1] + part * (x[k] - x[k - 1]))


@as_annotated
def crossing(x: npt.ArrayLike, samples: FloatArray, level: float = LEVEL) -> Estimate:
    """Return the first x at which the mean over runs of `samples`, (runs, x.size), falls through 0; else nan.

    `x` ascends, and the mean is interpolated linearly; the interval is the jackknife's, of confidence
    `level`.
    """
    at = vector("x", x)
    if samples.ndim != 2 or samples.shape[1] != at.size:
        raise ValueError(f"`samples` must have shape (any, {at.size}), as `x` has; got {samples.shape}.")

    def first_crossing(chosen: FloatArray) -> float:
        """Return the first x at which the mean over these runs falls through 0, or nan."""
        means = chosen.mean(axis=0)
        falls = np.flatnonzero((means[:-1] > 0) & (means[1:] <= 0))
        if not falls.size:
            return float("nan")
        k = int(falls[0])
        return float(np.interp(0.0, -means[k : k + 2], at[k : k + 2]))

    return jackknife(samples, first_crossing, level)
