"""Confidence intervals of means, the same for all plots and tables."""

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["LEVEL", "student"]

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
