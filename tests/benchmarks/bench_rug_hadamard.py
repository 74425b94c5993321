"""The fast Walsh-Hadamard transform beside NumPy and a dense product, the rug as operator, compilation."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import linalg

from superposition.solvers.rug.hadamard import rug_matrix, walsh_hadamard
from superposition.solvers.rug.rows import row_statistics


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


@pytest.mark.parametrize("m", [10, 16, 20, 22, 24])
@pytest.mark.parametrize("way", ["ours", "numpy"])
def test_transform(benchmark, m, way):
    benchmark.group = f"walsh_hadamard, n = 2^{m}"
    transform = {"ours": walsh_hadamard, "numpy": with_numpy}[way]
    x = np.random.default_rng(0).standard_normal(2**m)
    benchmark.extra_info["relative_error"] = relative_error(transform, x)  # also compiles
    benchmark.pedantic(transform, (x,), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("m", [4, 6, 8, 10, 12])
@pytest.mark.parametrize("way", ["ours", "dense"])
def test_small_transform(benchmark, m, way):
    benchmark.group = f"walsh_hadamard beside scipy.linalg.hadamard(n) @ x, n = 2^{m}"
    H = linalg.hadamard(2**m, dtype=np.float64)
    transform = {"ours": walsh_hadamard, "dense": lambda x: H @ x}[way]
    x = np.random.default_rng(0).standard_normal(2**m)
    benchmark.extra_info["relative_error"] = relative_error(transform, x)
    benchmark(transform, x)


@pytest.mark.parametrize("m", [16, 20, 22])
def test_rug_product(benchmark, m):
    benchmark.group = "rug @ x"
    R = rug_matrix(2**m, 2 ** (m - 2), rng=0)
    x = np.random.default_rng(0).standard_normal(2**m)
    y = R @ x
    benchmark.extra_info["relative_error"] = float(linalg.norm(R @ y - 4 * y) / linalg.norm(4 * y))
    benchmark.pedantic(R.matvec, (x,), rounds=5, warmup_rounds=1)


def test_rug_statistics(benchmark):
    benchmark.group = "rug, n = 2^22: drawing it, its row statistics"
    R = rug_matrix(2**22, 2**20, rng=0)
    benchmark.extra_info["sum_of_squares_error"] = row_statistics(R, 0.01).sum_of_squares - 3
    benchmark.pedantic(row_statistics, (R, 0.01), rounds=5, warmup_rounds=1)


def test_rug_drawing(benchmark):
    benchmark.group = "rug, n = 2^22: drawing it, its row statistics"
    benchmark.pedantic(rug_matrix, (2**22, 2**20, 0), rounds=5, warmup_rounds=1)


def test_first_call_with_compilation(benchmark, tmp_path):
    benchmark.group = "first call in a new process, import and compilation included"
    code = "from superposition.solvers.rug.hadamard import walsh_hadamard; walsh_hadamard([1.0, 2.0])"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def first_call():
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        for compiled in tmp_path.rglob("*.nb?"):
            compiled.unlink()

    benchmark.pedantic(first_call, rounds=2)
