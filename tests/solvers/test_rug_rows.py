"""Row statistics against exact fractions, samples of the interference and the exact mean over random rugs."""

import dataclasses
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
from hypothesis import assume, given
from scipy import linalg, stats

from superposition.solvers.rug.hadamard import RugMatrix, random_projector, rug_matrix
from superposition.solvers.rug.rows import row_statistics
from superposition.theory.rug import edgeworth_correction
from superposition.validate.proofs.properties import models

P = 0.1
VARIANCE = (4 * P - 3 * P**2) / 12


def agrees(theory, samples, resolution, alpha=1e-6):
    """Whether the mean of independent samples fits; `resolution` is the relative error that must be seen."""
    samples = np.asarray(samples, dtype=np.float64)
    se = samples.std(ddof=1) / np.sqrt(samples.size)
    band = stats.t.ppf(1 - alpha / 2, samples.size - 1) * se
    assert band + 2.33 * se <= resolution * abs(theory), "too few samples for this claim"
    return abs(samples.mean() - theory) <= band


def brute_force(n, rows):
    """Sum R_0j, R_0j² and |R_0j|³ over j > 0 as exact fractions, from SciPy's matrix."""
    H = linalg.hadamard(n)
    entries = [Fraction(sum(int(H[0, k] * H[k, j]) for k in rows), len(rows)) for j in range(1, n)]
    return tuple(sum(abs(e) ** k if k > 1 else e for e in entries) for k in (1, 2, 3))


SETS = [(2, [1]), (4, [0, 3]), (8, [1, 2, 4]), (16, [0, 3, 5, 6, 15]), (64, list(range(1, 60, 3)))]


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("n", "rows"), SETS)
def test_statistics_of_a_rug_match_exact_fractions(n, rows, dense):
    total, squares, cubes = brute_force(n, rows)
    assert squares == Fraction(n, len(rows)) - 1  # equality in Eq. 6
    assert total == (Fraction(n, len(rows)) if 0 in rows else 0) - 1
    R = RugMatrix(n, rows)
    found = row_statistics(R.todense() if dense else R, P)
    close = {"rtol": 1e-14, "atol": 1e-14 if dense else 0}  # sums of up to 63 rounded entries of at most 1
    for name, expected in {
        "diagonal": 1,
        "mean": total / (n - 1),
        "sum_of_squares": squares,
        "sum_of_absolute_cubes": cubes,
        "lyapunov_ratio": float(cubes) / float(squares) ** 1.5,
        "interference_mean": P / 2 * total,
        "interference_variance": VARIANCE * squares,
    }.items():
        value = getattr(found, name)
        assert np.shape(value) == ((n,) if dense else ())
        np.testing.assert_allclose(value, float(expected), **close, err_msg=name)


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
        # A sum of 4 numbers rounds to a few 2^-53 of its terms.
        close = {"rtol": 1e-14, "atol": 1e-15}
        np.testing.assert_allclose(found.diagonal[i], M[i, i])
        np.testing.assert_allclose(found.mean[i], off.mean(), **close)
        np.testing.assert_allclose(found.sum_of_squares[i], off @ off, **close)
        np.testing.assert_allclose(found.sum_of_absolute_cubes[i], np.sum(np.abs(off) ** 3), **close)
        lyapunov = np.sum(np.abs(off) ** 3) / linalg.norm(off) ** 3
        np.testing.assert_allclose(found.lyapunov_ratio[i], lyapunov, **close)
        np.testing.assert_allclose(found.interference_mean[i], P / 2 * off.sum() / M[i, i], **close)
        np.testing.assert_allclose(
            found.interference_variance[i], VARIANCE * off @ off / M[i, i] ** 2, **close
        )


def test_a_grid_of_p_stands_in_front():
    R, p = RugMatrix(8, [1, 2, 4]), np.array([[0.1, 0.2, 1.0]])
    rug, dense = row_statistics(R, p), row_statistics(R.todense(), p)
    assert rug.interference_variance.shape == (1, 3)
    assert dense.interference_variance.shape == (1, 3, 8)
    assert dense.sum_of_squares.shape == (8,)
    one = row_statistics(R, 0.2)
    assert rug.interference_variance[0, 1] == one.interference_variance
    assert rug.interference_mean[0, 1] == one.interference_mean


@given(models((2, 4), (1, 4), tied=False, bias=False))
def test_no_matrix_of_that_rank_is_below_the_bound(model):
    diagonal = np.abs(np.diag(model.M))
    assume(np.all(diagonal > 1e-3 * np.abs(model.M).max()))
    found = row_statistics(model.M, P).interference_variance.mean()
    # The interference is relative to the diagonal, so Eq. 6 holds for any. 1e-13: hundreds of roundings.
    assert found >= VARIANCE * ((model.n_features / model.n_hidden - 1) * (1 - 1e-13) - 1e-13)


def test_the_bound_is_sharp_at_the_rug_and_only_there():
    R, bound = rug_matrix(32, 8, rng=0), VARIANCE * 3
    tilt = np.eye(32) + 0.01 * np.random.default_rng(0).standard_normal((32, 32))
    assert row_statistics(R, P).interference_variance == pytest.approx(bound, rel=1e-15)
    assert row_statistics(tilt @ R.todense(), P).interference_variance.mean() > bound * 1.0001


def test_projectors_attain_the_bound_if_their_diagonal_is_one():
    M = random_projector(40, 10, rng=0)
    found = row_statistics(M, P)
    # M² = 4 M: the squares of row i sum to 4 M_ii. 1e-13: hundreds of roundings.
    assert found.interference_variance == pytest.approx(VARIANCE * (4 / found.diagonal - 1), rel=1e-13)
    assert found.interference_variance.mean() > VARIANCE * 3 * 1.01
    unit = row_statistics(random_projector(40, 10, rng=0, unit_diagonal=True), P)
    assert unit.interference_variance == pytest.approx(np.full(40, VARIANCE * 3), rel=1e-13)


@pytest.mark.parametrize("constant_row", [False, True])
def test_lyapunov_ratio_has_its_exact_mean_over_random_rugs(constant_row):
    # Off the diagonal n_hidden R_0j = 2k - n_hidden, where k of the rows drawn have sign +1 in column j: k is
    # hypergeometric, and the sum of squares is always n/n_hidden - 1.
    n, n_hidden = 128, 24
    k = np.arange(n_hidden + 1)

    def expected(law):
        cubes = (n - 1) * law.pmf(k) @ np.abs(2 * k / n_hidden - 1) ** 3
        return cubes / (n / n_hidden - 1) ** 1.5

    samples = [
        row_statistics(rug_matrix(n, n_hidden, seed, constant_row=constant_row), P).lyapunov_ratio
        for seed in range(500)
    ]
    left_out = not constant_row
    right = stats.hypergeom(n - left_out, n // 2 - left_out, n_hidden)
    assert agrees(expected(right), samples, resolution=0.02)
    assert not agrees(expected(stats.binom(n_hidden, 0.5)), samples, resolution=0.02)  # canary: replacement


def test_interference_has_the_mean_and_variance_of_its_samples():
    R, p = rug_matrix(64, 16, rng=2), 0.3
    rng = np.random.default_rng(3)
    x = rng.random((64, 40_000)) * (rng.random((64, 40_000)) < p)
    nu = (R @ x - x)[5]
    found = row_statistics(R, p)
    assert agrees(found.interference_mean, nu, resolution=0.15)
    assert not agrees(3 * p / 2, nu, resolution=0.15)  # canary: the mean with the constant row
    squares = (nu - found.interference_mean) ** 2
    assert agrees(found.interference_variance, squares, resolution=0.1)
    assert not agrees(3 * p / 3, squares, resolution=0.1)  # canary: E x² in the place of Var x


def test_rows_without_signal_or_interference():
    found = row_statistics([[0.0, 1.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], P)
    assert np.array_equal(found.interference_variance[:2], [np.inf, 0])
    assert np.isnan(found.interference_variance[2])
    assert found.lyapunov_ratio[0] == pytest.approx(2**-0.5)
    assert np.all(np.isnan(found.lyapunov_ratio[1:]))
    identity = row_statistics(rug_matrix(8, 8, rng=0), P)
    assert (identity.diagonal, identity.mean, identity.interference_variance) == (1, 0, 0)
    assert np.isnan(identity.lyapunov_ratio)


def test_signed_and_absolute_cubes_have_names_of_their_own():
    """The correction at finite size is odd in the signed sum; the absolute one must not pass for it."""
    rng = np.random.default_rng(0)
    M = np.eye(32) + 0.1 * rng.choice([-1, 1], (32, 32)) * rng.random((32, 32))
    found, m = row_statistics(M, P), np.delete(M[0], 0)
    names = {field.name for field in dataclasses.fields(found)}
    asked = set(signature(edgeworth_correction).parameters)
    assert not names & {name for name in asked if "cubes" in name}
    assert found.sum_of_absolute_cubes[0] == pytest.approx(np.sum(np.abs(m) ** 3))
    assert found.sum_of_absolute_cubes[0] > 2 * abs(np.sum(m**3))
