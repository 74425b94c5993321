"""The fast Walsh-Hadamard transform beside NumPy and a dense product."""

import numpy as np
import pytest
from scipy import linalg

from superposition.solvers.rug.hadamard import walsh_hadamard


def with_numpy(x):
    """Transform with one pass of whole-array operations for each level, as one would without a compiler."""
    y = x.copy()
    half = 1
    while half < y.size:
        pairs = y.reshape(-1, 2, half)
        y = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return y.ravel()


def relative_error(transform, x):
    """Give the error of a transform there and back, which multiplies by n."""
    return float(linalg.norm(transform(transform(x)) / x.size - x) / linalg.norm(x))


@pytest.mark.parametrize("m", [8, 12, 16, 20, 22])
def test_transform(race, m):
    x = np.random.default_rng(0).standard_normal(2**m)
    beside = {"whole arrays of NumPy": with_numpy}
    if m <= 12:
        H = linalg.hadamard(2**m, dtype=np.float64)
        beside["dense product"] = lambda x: H @ x
    errors = {name: relative_error(way, x) for name, way in beside.items()}
    race(
        "Walsh-Hadamard transform", f"n = 2^{m}", lambda: walsh_hadamard(x),
        {name: lambda way=way: way(x) for name, way in beside.items()},
        errors={"ours": relative_error(walsh_hadamard, x), **errors}, size=2**m,
    )  # fmt: skip
