"""Confidence intervals of means, the same for all plots and tables."""

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["LEVEL", "mean_and_error", "power", "student"]

LEVEL = 0.95


def student(
    values: npt.ArrayLike, level: float = LEVEL, axis: int = -1
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return means and half the widths of their two-sided Student intervals.

    Parameters
    ----------
    values : array_like
        Independent runs along `axis`, two or more.
    level : float, optional
        Confidence of the interval.
    axis : int, optional

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
    sample = np.asarray(values, dtype=np.float64)
    half = stats.t.ppf((1 + level) / 2, sample.shape[axis] - 1) * stats.sem(sample, axis=axis)
    return sample.mean(axis=axis), np.asarray(half)


def power(x: npt.ArrayLike, values: npt.ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Return the power of `x` with which positive values go, and half the width of its interval.

    Parameters
    ----------
    x, values : (n,) array_like of float
        Positive, three or more.
    level : float, optional
        Confidence of the interval.

    Returns
    -------
    slope, half : float
        Of the straight line through log `values` against log `x`.

    Examples
    --------
    >>> slope, half = power([1, 2, 4, 8], [1.0, 0.5, 0.25, 0.125])
    >>> round(slope, 12), half < 1e-6
    (-1.0, True)
    """
    log_x = np.log(np.asarray(x, dtype=np.float64))
    fit = stats.linregress(log_x, np.log(np.asarray(values, dtype=np.float64)))
    return float(fit.slope), float(stats.t.ppf((1 + level) / 2, log_x.size - 2) * fit.stderr)


def mean_and_error(values: npt.NDArray[np.float64], form: str = "+.1%") -> str:
    """Write a relative mean, in the form given, and its standard error.

    Examples
    --------
    >>> mean_and_error(np.array([0.01, 0.02, 0.03]))
    '+2.0% ± 0.6%'
    """
    error = stats.sem(values) if values.size > 1 else np.nan
    return f"{values.mean():{form}} ± {error:.1%}"
