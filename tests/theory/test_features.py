"""Moments, matrices and sparsity classes of the data against SymPy, exact fractions and 50-digit sums."""

from dataclasses import FrozenInstanceError
from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from superposition.theory.features import SparseUniform

ROUNDING = 2.0**-53
probabilities = st.one_of(st.floats(1e-12, 1), st.floats(-12, 0).map(lambda e: 10.0**e))


def relative_error(found, exact):
    with mp.workdps(50):
        return float(abs((mp.mpf(float(found)) - exact) / exact))


# --- moments and matrices -----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1e-12, 0.1, 1.0])
def test_matrices_have_these_eigenvalues(p):
    x, n = SparseUniform(p), 30
    matrix, values = x.second_moment_matrix(n), x.second_moment_eigenvalues(n)
    assert np.all(matrix.diagonal() == x.second_moment)
    assert np.all(matrix[~np.eye(n, dtype=bool)] == x.pair_moment)
    # LAPACK's error is a small multiple of n 2^-53 times the largest eigenvalue.
    assert np.linalg.eigvalsh(matrix)[::-1] == pytest.approx(values, abs=4 * n * ROUNDING * values[0], rel=0)
    assert np.array_equal(x.covariance(n), x.variance * np.eye(n))


# --- sparsity classes and tails -----------------------------------------------------------------------------


def exact_pmf(n, k, p):
    return mp.binomial(n, k) * mp.mpf(p) ** k * (1 - mp.mpf(p)) ** (n - k)


def exact_tail(n, k, p):
    """Sum the pmf outwards from k on the side where it falls, to 30 digits."""
    up = k > n * p
    if k == 0 or (p == 1 and k <= n):
        return mp.mpf(1)
    odds = mp.mpf(p) / (1 - mp.mpf(p))
    j = k if up else k - 1
    term = total = exact_pmf(n, j, p)
    while term > total * mp.mpf(10) ** -30:
        term = term * (n - j) / (j + 1) * odds if up else term * j / (n - j + 1) / odds
        j += 1 if up else -1
        total += term
    return total if up else 1 - total


@pytest.mark.parametrize("p", [1e-12, 1e-6, 0.001, 0.045, 0.5, 0.9, 1 - 1e-9, 1.0])
def test_pmf_and_tail_match_50_digits(p):
    for n in (1, 2, 30, 1000, 100_000):
        pmf = SparseUniform(p).sparsity_pmf(n)
        assert pmf.shape == (n + 1,)
        assert pmf.sum() == pytest.approx(1, rel=2e-14 * np.sqrt(n), abs=0)
        around = np.round(n * p + np.sqrt(n * p * (1 - p)) * np.array([-30, -6, -1, 0, 1, 6, 30]))
        classes = np.unique(np.clip([0, 1, 2, 3, n // 2, n - 1, n, *around], 0, n).astype(int)).tolist()
        with mp.workdps(50):
            for k, found in zip(classes, SparseUniform(p).tail(n, classes), strict=True):
                for value, exact in ((pmf[k], exact_pmf(n, k, p)), (found, exact_tail(n, k, p))):
                    # 2e-14 n^(1/2) is the docstring's word; the worst measured is 1e-14 n^(1/2), in a tail.
                    if exact > 1e-290:
                        assert relative_error(value, exact) <= 2e-14 * np.sqrt(n), (n, k)
                    else:
                        assert 0 <= value <= 1e-289, (n, k)


@given(probabilities, st.integers(1, 12))
@example(1.0, 1)
@example(1e-12, 12)
def test_chernoff_bound_is_never_below_the_exact_tail(p, n):
    terms = [comb(n, k) * Fraction(p) ** k * (1 - Fraction(p)) ** (n - k) for k in range(n + 1)]
    bound = SparseUniform(p).chernoff_bound(n, np.arange(n + 2))
    for k in range(n + 2):
        assert Fraction(float(bound[k])) >= sum(terms[k:], Fraction(0))


@given(probabilities, st.integers(1, 100_000), st.data())
def test_chernoff_bound_is_close_to_its_formula_and_above_the_tail(p, n, data):
    k = data.draw(st.one_of(st.integers(0, n), st.integers(0, min(n, int(n * p) + 50))))
    bound = SparseUniform(p).chernoff_bound(n, k)
    assert SparseUniform(p).tail(n, k) <= bound <= 1
    if k <= n * p:
        assert bound == 1
        return
    with mp.workdps(50):
        q, exact_p = mp.mpf(k) / n, mp.mpf(p)
        off = (1 - q) * mp.log((1 - q) / (1 - exact_p)) if k < n else 0
        formula = mp.exp(-n * (q * mp.log(q / exact_p) + off))
        assert mp.mpf(bound) >= formula
        if formula > 1e-290:
            # The rounding that is added: 4 eps (n + both parts of the exponent), the parts below 750 + n.
            assert mp.mpf(bound) <= formula * (1 + 8 * 2.3e-16 * (1500 + 3 * n))


def test_chernoff_bound_at_the_ends():
    x = SparseUniform(0.3)
    assert x.chernoff_bound(5, 0) == 1
    assert x.chernoff_bound(5, 6) == 0
    # Equal at k = n; four roundings for each unit of n and of the exponent, as in the code.
    assert x.chernoff_bound(5, 5) == pytest.approx(0.3**5, rel=4 * 2.3e-16 * (5 + 2 * 6.1), abs=0)
    assert np.array_equal(SparseUniform(1.0).chernoff_bound(4, np.arange(6)), [1, 1, 1, 1, 1, 0])
    deep = SparseUniform(1e-12)
    assert (deep.tail(100_000, 90_000), deep.chernoff_bound(100_000, 90_000)) == (0, np.finfo(float).tiny)


# --- the class ----------------------------------------------------------------------------------------------


def test_a_number_gives_numbers_and_a_law_cannot_be_changed():
    x = SparseUniform(np.float64(0.1))
    names = ("p", "mean", "second_moment", "variance", "pair_moment", "pair_zero_probability")
    values = [getattr(x, name) for name in names]
    values += [x.moment(3), x.tail(10, 2), x.chernoff_bound(10, 5), SparseUniform(1).tail(3, 3)]
    assert {type(v) for v in values} == {float}
    given = np.array([0.1, 0.2])
    law = SparseUniform(given)
    given[0] = 0.9
    assert law == SparseUniform([0.1, 0.2]) != SparseUniform([0.1, 0.3])
    with pytest.raises(ValueError, match="read-only"):
        law.p[0] = 0.5
    with pytest.raises(FrozenInstanceError, match="p"):
        law.p = 0.5


def test_a_grid_stands_in_front():
    p, k = np.array([[0.1, 0.2, 1.0], [1e-12, 0.5, 0.9]]), np.array([0, 2, 5])
    x = SparseUniform(p)
    for method, shape in {
        "covariance": (4, 4), "second_moment_matrix": (4, 4), "covariance_eigenvalues": (4,),
        "second_moment_eigenvalues": (4,), "sparsity_pmf": (5,),
    }.items():  # fmt: skip
        found = getattr(x, method)(4)
        assert found.shape == (2, 3, *shape)
        for at in np.ndindex(2, 3):
            assert np.array_equal(found[at], getattr(SparseUniform(p[at]), method)(4)), method
    for method in ("tail", "chernoff_bound"):
        expected = [[getattr(SparseUniform(p[i, j]), method)(4, k[j]) for j in range(3)] for i in range(2)]
        assert np.array_equal(getattr(x, method)(4, k), expected)
