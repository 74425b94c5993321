"""Kernels of the exact loss where at most one other feature disturbs an output ReLU(a x + b + nu).

These patterns are the atom of the interference nu and the discontinuous part of its density. With g(t) =
E (x - ReLU(a x + t))^2, piecewise cubic in t, they add g(b) and means of g(b + m_j v) over v in [0, 1]:
two Gauss points between the breakpoints give them exactly, as sums of squares.
"""

import numpy as np
import numpy.typing as npt
from numba import prange

from ...theory.kernels import kernel, parallel_kernel
from .output import NEGLIGIBLE

__all__ = ["few_on"]

FloatArray = npt.NDArray[np.float64]

UNIT = 2.0**-53  # rounding


@kernel
def _pointwise(a: float, t: float, p: float) -> float:
    """Return g(t) = E (x - ReLU(a x + t))^2, a sum of squares."""
    lower, upper = 0.0, 0.0  # the values u that make a u + t positive
    if a > 0.0:
        lower, upper = min(max(-t / a, 0.0), 1.0), 1.0
    elif a < 0.0:
        upper = min(max(-t / a, 0.0), 1.0)
    elif t > 0.0:
        upper = 1.0
    loss = (lower**3 + (1.0 - upper) * (1.0 + upper + upper * upper)) / 3.0
    middle, half = 0.5 * (upper + lower), 0.5 * (upper - lower)
    node = half / np.sqrt(3.0)
    left, right = (1.0 - a) * (middle - node) - t, (1.0 - a) * (middle + node) - t
    loss += half * (left * left + right * right)
    return float((1.0 - p) * max(t, 0.0) ** 2 + p * loss)


@kernel
def _single(a: float, b: float, m: float, p: float) -> float:
    """Return the mean of g(b + m v) over v in [0, 1]: cubic between the breakpoints, two nodes each."""
    first = min(max(-b / m, 0.0), 1.0)
    second = min(max(-(a + b) / m, 0.0), 1.0)
    ends = (0.0, min(first, second), max(first, second), 1.0)
    total = 0.0
    for i in range(3):
        middle, half = 0.5 * (ends[i + 1] + ends[i]), 0.5 * (ends[i + 1] - ends[i])
        if half > 0.0:
            node = half / np.sqrt(3.0)
            total += half * _pointwise(a, b + m * (middle - node), p)
            total += half * _pointwise(a, b + m * (middle + node), p)
    return total


@kernel
def _all_off(count: int, p: float) -> float:
    """Return (1 - p)^count."""
    if count == 0:
        return 1.0
    return float(np.exp(count * np.log1p(-p))) if p < 1.0 else 0.0


@kernel
def _few_on(row: FloatArray, a: float, b: float, p: float) -> tuple[float, float]:
    """Return the part of the loss from patterns with at most one of `row` on, and its rounding error."""
    size, largest = 0, 0.0
    total, lost = 0.0, 0.0  # compensated: thousands of equal terms would round alike
    for x in row:
        if abs(x) > NEGLIGIBLE:
            step = _single(a, b, x, p) - lost
            new = total + step
            lost = (new - total) - step
            total = new
            size += 1
            largest = max(largest, abs(x))
    loss = _all_off(size, p) * _pointwise(a, b, p)
    if size > 0:
        loss += p * _all_off(size - 1, p) * total
    return loss, 16.0 * UNIT * (loss + p * (1.0 + abs(a) + abs(b) + largest))


@parallel_kernel
def few_on(
    M: FloatArray, features: npt.NDArray[np.int64], b: FloatArray, p: float
) -> tuple[FloatArray, FloatArray]:
    """Return what patterns with at most one other feature on add to the losses, and the errors.

    Row i of `M` and b[i] make the output that wants features[i].
    """
    losses, errors = np.empty(b.size), np.empty(b.size)
    for i in prange(b.size):
        row = M[i].copy()
        a = row[features[i]]
        row[features[i]] = 0.0
        losses[i], errors[i] = _few_on(row, a, b[i], p)
    return losses, errors
