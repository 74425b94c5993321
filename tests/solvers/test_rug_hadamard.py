"""The fast transform and the rug against dense Hadamard matrices; projectors against Haar's moments."""

import numpy as np
import pytest
from scipy import linalg, stats
from scipy.sparse.linalg import eigsh

from superposition.solvers.rug.hadamard import RugMatrix, random_projector, rug_matrix, walsh_hadamard

ROUNDING = 2.0**-53


# --- the transform ------------------------------------------------------------------------------------------


def test_transform_of_unit_vectors_is_the_hadamard_matrix():
    for n in (1, 2, 4, 8, 16, 32, 64):
        by_definition = [[(-1) ** (i & j).bit_count() for j in range(n)] for i in range(n)]
        assert np.array_equal(walsh_hadamard(np.eye(n)), by_definition)
        assert np.array_equal(by_definition, linalg.hadamard(n))


# Below, at and above the size of a cache block (2^12), with even and odd numbers of levels on top of it.
def test_transform_is_exact_on_integers_whatever_the_blocking():
    for m in (7, 11, 12, 13, 14, 15, 16):
        # H of size 2^m is the Kronecker product of two smaller ones, which dense matrices can check.
        a, b = 2 ** (m // 2), 2 ** (m - m // 2)
        x = np.random.default_rng(m).integers(-(2**20), 2**20, (a, b)).astype(float)
        expected, before = linalg.hadamard(a) @ x @ linalg.hadamard(b), x.copy()
        assert np.array_equal(walsh_hadamard(x.ravel()), expected.ravel())
        assert np.array_equal(x, before)


def test_transform_rounds_no_more_than_promised():
    x = np.random.default_rng(1).standard_normal((20, 64))
    exact = x.astype(np.longdouble) @ linalg.hadamard(64).astype(np.longdouble)
    error = np.asarray(walsh_hadamard(x) - exact, dtype=np.float64)
    assert np.all(linalg.norm(error, axis=1) <= 6 * ROUNDING * linalg.norm(x, axis=1) * 8)  # log2(64) = 6


def test_transform_along_an_axis_leaves_its_argument_alone():
    x = np.asfortranarray(np.random.default_rng(2).integers(-9, 9, (4, 8, 16)))
    before = x.copy()
    for axis in range(-3, 3):
        expected = np.apply_along_axis(lambda v: linalg.hadamard(v.size) @ v, axis, x)
        result = walsh_hadamard(x, axis=axis)
        assert np.array_equal(result, expected)
        assert result.dtype == np.float64
        assert np.array_equal(x, before)


# --- the rug ------------------------------------------------------------------------------------------------

# The last two hold every row, so that the rug is the identity.
SETS = [(2, [0]), (2, [1]), (8, [1, 2, 4]), (16, [0, 3, 5, 15]), (64, list(range(1, 41, 2))), (2, [0, 1]),
        (16, list(range(16)))]  # fmt: skip


def test_rug_is_its_definition():
    for n, rows in SETS:
        H = linalg.hadamard(n)[rows]
        R, dense = RugMatrix(n, rows[::-1]), H.T @ H / len(rows)
        # Whole numbers divided once by n_hidden, on both sides: equal to the last bit.
        assert np.array_equal(R.todense(), dense)
        assert np.array_equal(np.array([R.row(i) for i in range(n)]), dense)
        assert np.array_equal(R @ np.eye(n), dense)
        assert np.array_equal(R.rows, rows)
        x = np.random.default_rng(n).integers(-1000, 1000, (n, 3)).astype(float)
        exact, before = H.T @ (H @ x) / len(rows), x.copy()
        for part in (slice(None), 0, slice(1)):
            assert np.array_equal(R @ x[:, part], exact[:, part])
        assert np.array_equal(x, before)


def test_rug_is_a_symmetric_operator():
    R = rug_matrix(256, 40, rng=3)
    x = np.random.default_rng(3).integers(-9, 9, (256, 2))
    expected = R @ x
    for other in (R.T @ x, R.H @ x, R.rmatmat(x), (x.T @ R).T, (2 * R - R) @ x):
        assert np.array_equal(other, expected)
    assert np.array_equal(R.rmatvec(x[:, 0]), expected[:, 0])
    # SciPy's Lanczos solver converges to machine precision; the largest eigenvalues are all 256/40.
    largest = eigsh(R, k=3, return_eigenvectors=False, v0=np.arange(256.0))
    assert largest == pytest.approx([6.4] * 3, rel=1e-12)


def test_rug_leaves_the_constant_row_out_unless_asked():
    # 400 draws of 3 rows of 8: each row is in with probability 3/7, or 3/8 if the constant one may be drawn.
    # Clopper-Pearson at 1e-6 over 16 counts: false alarms below 2e-5.
    def counts(**options):
        drawn = np.array([rug_matrix(8, 3, seed, **options).rows for seed in range(400)])
        return np.bincount(drawn.ravel(), minlength=8).tolist()

    without, with_it = counts(), counts(constant_row=True)
    assert without[0] == 0
    assert all(stats.binomtest(c, 400, 3 / 7).pvalue > 1e-6 for c in without[1:])
    assert all(stats.binomtest(c, 400, 3 / 8).pvalue > 1e-6 for c in with_it)
    # Canary: the same counts do not pass for one half.
    assert not all(stats.binomtest(c, 400, 1 / 2).pvalue > 1e-6 for c in with_it)


def test_same_seed_same_matrix():
    R = rug_matrix(64, 20, rng=7)
    assert np.array_equal(R.rows, rug_matrix(64, 20, np.random.default_rng(7)).rows)
    assert not np.array_equal(R.rows, rug_matrix(64, 20, rng=8).rows)
    assert not R.rows.flags.writeable
    for unit_diagonal in (False, True):
        a, b, c = (random_projector(8, 3, rng=s, unit_diagonal=unit_diagonal) for s in (1, 1, 2))
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)


# --- random projectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_projector_has_one_nonzero_eigenvalue(unit_diagonal):
    for n, n_hidden in ((2, 1), (3, 2), (17, 1), (48, 12), (48, 47), (5, 5)):
        M = random_projector(n, n_hidden, rng=1, unit_diagonal=unit_diagonal)
        slack = 8 * n * ROUNDING * n / n_hidden  # n roundings for each of the n rotations or products
        assert np.array_equal(M, M.T)
        assert abs(M.diagonal().mean() - 1) <= slack
        assert np.all(M.diagonal() == 1) or not unit_diagonal or n == n_hidden
        values = linalg.eigvalsh(M)
        assert np.all(np.abs(values[: n - n_hidden]) <= slack)
        assert np.all(np.abs(values[n - n_hidden :] - n / n_hidden) <= slack)


def test_projector_diagonal_scatters_as_haar_measure_says():
    # M_ii n_hidden/n is Beta(n_hidden/2, (n - n_hidden)/2). One mean a matrix: its entries hang together.
    n, n_hidden = 24, 6
    samples = [np.mean((random_projector(n, n_hidden, rng=s).diagonal() - 1) ** 2) for s in range(200)]
    variance = 2 * (n - n_hidden) / (n_hidden * (n + 2))
    se = np.std(samples, ddof=1) / np.sqrt(200)
    band = stats.t.ppf(1 - 5e-7, 199) * se  # false alarms: 1e-6
    assert band <= 0.25 * variance  # what the test promises to see
    assert abs(np.mean(samples) - variance) <= band
    assert abs(np.mean(samples) - variance / 2) > band  # canary: the factor 2 lost
