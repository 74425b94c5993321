"""Sorting inside of kernels: `theory.compile.kernels` says why NumPy's must not be used there."""

import numpy as np

from ..compile.kernels import inlined
from ..validation import FloatArray, IntArray

__all__ = ["ascending"]


@inlined
def ascending(x: FloatArray) -> IntArray:
    """Return the indices that sort x in ascending order, stably, as `np.argsort` does."""
    order, merged = np.empty(x.size, np.int64), np.empty(x.size, np.int64)
    for k in range(x.size):
        order[k] = k
    width = 1
    while width < x.size:
        for start in range(0, x.size, 2 * width):
            middle = min(start + width, x.size)
            end = min(middle + width, x.size)
            i, j = start, middle
            for k in range(start, end):
                if j == end or (i < middle and x[order[i]] <= x[order[j]]):
                    merged[k] = order[i]
                    i += 1
                else:
                    merged[k] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    return order
