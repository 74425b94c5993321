"""Losses at any weights, the weighted optimum, and aligned starts in closed form."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from superposition.theory.features import Features, SparseUniform
from superposition.theory.linear import (
    aligned_mode,
    aligned_pair,
    critical_loss,
    reconstruction_loss,
    sparse_loss,
    weighted_optimum,
)

from ..oracles import patterns


def by_patterns(M, b, p, importance):
    """Mean of the weighted squared error over all patterns of features that are on, exact moments each."""
    rest, total = np.eye(len(M)) - M, 0.0
    for on, chance in patterns(Features(len(M), p)):
        moments = np.outer(on, on) / 4 + np.diag(on) / 12
        error = np.einsum("ij,jk,ik->i", rest, moments, rest) - 2 * b * (rest @ on) / 2 + b**2
        total += chance * np.dot(importance, error)
    return total / len(M)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.floats(0.01, 1))
def test_sparse_loss_is_the_mean_over_patterns(seed, n, hidden, p):
    rng = np.random.default_rng(seed)
    W, importance = rng.normal(size=(n, hidden)), rng.uniform(0, 2, n)
    M = W @ W.T
    best = (np.eye(n) - M) @ np.full(n, p / 2)  # the mean of what is left
    for bias, b in (("none", np.zeros(n)), ("best", best)):
        exact = by_patterns(M, b, p, importance)
        assert sparse_loss(W, p, importance, bias) == pytest.approx(exact, rel=1e-11, abs=1e-13)
    assert by_patterns(M, best + 0.01 * rng.normal(size=n), p, importance) >= sparse_loss(W, p, importance)


def test_many_neurons_cost_the_small_gram_matrix():
    W = np.random.default_rng(0).normal(size=(3, 10**5)) / 300
    square = (np.eye(3) - W @ W.T) ** 2
    assert sparse_loss(W, 1.0) == pytest.approx(np.sum(square) / 36, rel=1e-12, abs=0)


@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_weighted_optimum_is_one(seed, n, correlated):
    rng = np.random.default_rng(seed)
    hidden = int(rng.integers(1, n + 1))
    root = rng.normal(size=(n, n)) if correlated else np.diag(rng.uniform(0.1, 2, n))
    sigma, importance = root @ root.T, rng.uniform(0, 2, n)
    best = weighted_optimum(sigma, importance, hidden)
    assert reconstruction_loss(best.A, best.B, sigma, importance) == pytest.approx(best.loss, abs=1e-11)
    for size in (1e-3, 0.1, 1.0):
        trial = (X + size * rng.normal(size=X.shape) for X in (best.A, best.B))
        assert reconstruction_loss(*trial, sigma, importance) >= best.loss - 1e-12
    dropped = np.sort(importance * np.diag(sigma))[: n - hidden].sum() / n
    assert best.dedicated == pytest.approx(dropped, abs=1e-12)
    assert best.loss <= best.dedicated + 1e-12
    if not correlated:
        assert best.gain == pytest.approx(0.0, abs=1e-13)
        assert best.tied
        # The product keeps features whole or not at all.
        np.testing.assert_allclose(best.A @ best.B, np.diag(np.diag(best.A @ best.B).round()), atol=1e-12)


def test_weighted_optimum_against_search():
    p, importance = 0.5, np.array([1.0, 0.7, 0.4])
    sigma = SparseUniform(p).second_moment_matrix(3)
    best = weighted_optimum(sigma, importance, 1)
    rng = np.random.default_rng(0)

    def searched(loss, size):
        return min(optimize.minimize(loss, rng.normal(size=size), tol=1e-12).fun for _ in range(4))

    pair = searched(lambda x: reconstruction_loss(x[:3, None], x[None, 3:], sigma, importance), 6)
    tied = searched(lambda x: sparse_loss(x[:, None], p, importance, "none"), 3)
    assert pair == pytest.approx(best.loss, rel=1e-9)
    assert not best.tied
    assert best.loss < tied < best.dedicated
    equal = weighted_optimum(sigma, np.ones(3), 1)
    assert equal.tied
    assert equal.loss == pytest.approx(critical_loss(sigma, [0]), rel=1e-14, abs=0)
    # An importance of zero: nothing is spent on that feature.
    free = weighted_optimum(sigma, [1.0, 1.0, 0.0], 2)
    assert free.loss == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_array_equal(free.A[2], 0.0)


STARTS = [0.0, 1e-200, 1e-8, -0.3, 0.999, 1.0, 3.0, 1e60]
EXPONENTS = [0.0, 1e-12, 0.1, 3.0, 30.0, 500.0, 1e6]


def test_mode_at_fifty_digits():
    mp.mp.dps = 50
    for w, exponent in itertools.product(STARTS, EXPONENTS):
        for rule, c in (("tied", 2), ("encoder", 1), ("decoder", 1)):
            decay = mp.exp(-2 * c * mp.mpf(exponent))
            expected = mp.mpf(w) / mp.sqrt(mp.mpf(w) ** 2 * (1 - decay) + decay)
            # The exponential of a rounded exponent, until the weight has grown to 1 or the exponent ended it.
            assert aligned_mode(w, exponent, 1.0, rule) == pytest.approx(
                float(expected), rel=4e-16 * (4 + c * min(exponent, 460)), abs=0.0
            )


def test_pair_at_fifty_digits():
    mp.mp.dps = 50
    for a, b, exponent in itertools.product(STARTS, STARTS, EXPONENTS):
        plus, minus = mp.mpf(a) + mp.mpf(b), mp.mpf(a) - mp.mpf(b)
        k = plus * minus
        root = mp.sqrt(4 + k * k)
        decay = mp.exp(-mp.mpf(exponent) * root)

        def square(q, up, down, k=k, decay=decay):
            bottom = q * (1 - decay) + up * decay - down
            return (q * (up - down * decay) + k * k * (1 - decay)) / bottom if bottom else mp.mpf(0)

        with mp.workdps(300):  # roots of opposite sign cancel
            plus = mp.sign(plus) * mp.sqrt(square(plus**2, 2 + root, 2 - root))
            minus = mp.sign(minus) * mp.sqrt(square(minus**2, root - 2, -2 - root))
        expected = float((plus + minus) / 2), float((plus - minus) / 2)
        found = aligned_pair(a, b, 1.0, exponent)
        allowed = 4e-16 * (8 + 2 * min(exponent, 460)) * max(abs(x) for x in expected) + 1e-160
        assert max(abs(x - y) for x, y in zip(found, expected, strict=True)) <= allowed, (a, b, exponent)
