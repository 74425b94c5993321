"""Row statistics against exact fractions, samples of the interference and the exact mean over random rugs."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import linalg

from superposition.solvers.rug.hadamard import RugMatrix, random_projector, rug_matrix
from superposition.solvers.rug.rows import row_statistics

P = 0.1
VARIANCE = (4 * P - 3 * P**2) / 12


SETS = [(2, [1]), (4, [0, 3]), (8, [1, 2, 4]), (16, [0, 3, 5, 6, 15]), (64, list(range(1, 60, 3)))]


def test_statistics_of_a_rug_match_exact_fractions():
    for n, rows in SETS:
        H = linalg.hadamard(n)
        entries = [Fraction(int(H[0, rows] @ H[rows, j]), len(rows)) for j in range(1, n)]
        total, squares, cubes = sum(entries), sum(x**2 for x in entries), sum(abs(x) ** 3 for x in entries)
        assert squares == Fraction(n, len(rows)) - 1  # equality in Eq. 6
        found = row_statistics(RugMatrix(n, rows), P)
        for name, expected in {
            "diagonal": 1, "mean": total / (n - 1), "sum_of_squares": squares, "sum_of_absolute_cubes": cubes,
            "lyapunov_ratio": float(cubes) / float(squares) ** 1.5, "interference_mean": P / 2 * total,
            "interference_variance": VARIANCE * squares,
        }.items():  # fmt: skip
            assert getattr(found, name) == pytest.approx(float(expected), rel=1e-14, abs=0), name


def test_sums_of_a_large_rug_are_exact():
    rug = row_statistics(rug_matrix(2**18, 2**13, rng=0), P)
    assert (rug.diagonal, rug.sum_of_squares) == (1, 31)
    assert rug.interference_mean == -P / 2


def test_statistics_of_any_matrix_row_by_row():
    M = np.random.default_rng(0).standard_normal((5, 5))
    M.flags.writeable = False
    found = row_statistics(M, P)
    for i in range(5):
        off = np.delete(M[i], i)
        for name, expected in {
            "diagonal": M[i, i], "mean": off.mean(), "sum_of_squares": off @ off,
            "sum_of_absolute_cubes": np.sum(np.abs(off) ** 3),
            "lyapunov_ratio": np.sum(np.abs(off) ** 3) / linalg.norm(off) ** 3,
            "interference_mean": P / 2 * off.sum() / M[i, i],
            "interference_variance": VARIANCE * off @ off / M[i, i] ** 2,
        }.items():  # fmt: skip
            # A sum of 4 numbers rounds to a few 2^-53 of its terms.
            assert getattr(found, name)[i] == pytest.approx(expected, rel=1e-14, abs=1e-15), name


def test_a_grid_of_p_stands_in_front():
    R, p = RugMatrix(8, [1, 2, 4]), np.array([[0.1, 0.2, 1.0]])
    rug, dense = row_statistics(R, p), row_statistics(R.todense(), p)
    assert rug.interference_variance.shape == (1, 3)
    assert dense.interference_variance.shape == (1, 3, 8)
    assert dense.sum_of_squares.shape == (8,)
    one = row_statistics(R, 0.2)
    assert rug.interference_variance[0, 1] == one.interference_variance
    assert rug.interference_mean[0, 1] == one.interference_mean


def test_projectors_attain_the_bound_if_their_diagonal_is_one():
    M = random_projector(40, 10, rng=0)
    found = row_statistics(M, P)
    # M² = 4 M: the squares of row i sum to 4 M_ii. 1e-13: hundreds of roundings.
    assert found.interference_variance == pytest.approx(VARIANCE * (4 / found.diagonal - 1), rel=1e-13, abs=0)
    assert found.interference_variance.mean() > VARIANCE * 3 * 1.01
    unit = row_statistics(random_projector(40, 10, rng=0, unit_diagonal=True), P)
    assert unit.interference_variance == pytest.approx(np.full(40, VARIANCE * 3), rel=1e-13, abs=0)


def test_rows_without_signal_or_interference():
    found = row_statistics([[0.0, 1.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], P)
    assert np.array_equal(found.interference_variance[:2], [np.inf, 0])
    assert np.isnan(found.interference_variance[2])
    assert found.lyapunov_ratio[0] == pytest.approx(2**-0.5)
    assert np.all(np.isnan(found.lyapunov_ratio[1:]))
    identity = row_statistics(rug_matrix(8, 8, rng=0), P)
    assert (identity.diagonal, identity.mean, identity.interference_variance) == (1, 0, 0)
    assert np.isnan(identity.lyapunov_ratio)
