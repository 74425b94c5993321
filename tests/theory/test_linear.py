"""Critical points: gradients vanish there and nowhere else; losses, inertia and rates are as predicted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superposition.theory import linear as theory
from superposition.theory import rug
from superposition.theory.features import Features, SparseUniform


def rotated(eigenvalues, seed):
    """Return a covariance with these eigenvalues in a random basis."""
    n = len(eigenvalues)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    return (Q * np.asarray(eigenvalues, dtype=float)) @ Q.T


def velocity(rule, sigma, X, hidden):
    """Flow of flattened weights, written out for complex numbers: transposes, no conjugates."""
    n = len(sigma)
    if rule == "pair":
        A, B = X[: n * hidden].reshape(n, hidden), X[n * hidden :].reshape(hidden, n)
        rest = sigma - A @ B @ sigma
        return np.concatenate([(rest @ B.T).ravel(), (A.T @ rest).ravel()])
    W = X.reshape(n, hidden)
    rest = np.eye(n) - W @ W.T
    parts = {"encoder": sigma @ rest @ W, "decoder": rest @ sigma @ W}
    return (parts[rule] if rule in parts else parts["encoder"] + parts["decoder"]).ravel()


def jacobian(rule, sigma, X, hidden):
    """Complex-step Jacobian, exact to rounding; for the pair and the tied flow minus half the Hessian."""
    h = 1e-30
    steps = 1j * h * np.eye(X.size)
    return np.stack([velocity(rule, sigma, X + step, hidden).imag / h for step in steps], axis=1)


def test_a_law_stands_for_its_covariance():
    groups = [([0, 1], [[1, 0], [0, 1]], [0.3, 0.7])]
    law = Features(4, [0.1, 0.2, 0.3, 0.9], scale=[1.0, 2.0, 1.0, 0.5], groups=groups)
    sigma, W = law.covariance(), np.random.default_rng(0).normal(size=(4, 2))
    assert theory.critical_loss(law, [0, 1]) == theory.critical_loss(sigma, [0, 1])
    assert theory.critical_hessian(law, [1, 2]) == theory.critical_hessian(sigma, [1, 2])
    assert theory.reconstruction_loss(W, W.T, law) == theory.reconstruction_loss(W, W.T, sigma)
    assert theory.weighted_optimum(law, np.ones(4), 2) == theory.weighted_optimum(sigma, np.ones(4), 2)
    np.testing.assert_array_equal(theory.growth_rates(law, [0]), theory.growth_rates(sigma, [0]))
    np.testing.assert_array_equal(theory.critical_point(law, [0])[0], theory.critical_point(sigma, [0])[0])
    with pytest.raises(ValueError, match=r"`covariance` must have shape \(3, 3\); got \(4, 4\)"):
        theory.reconstruction_loss(W[:3], W[:3].T, law)


# Small integers: eigenvalues coincide often, and then exactly.
SPECTRA = st.lists(st.integers(1, 5), min_size=1, max_size=5)


@st.composite
def points(draw):
    values = draw(SPECTRA)
    n = len(values)
    kept = draw(st.sets(st.integers(0, n - 1)))
    hidden = draw(st.integers(max(len(kept), 1), n))
    return values, sorted(kept), hidden, draw(st.integers(0, 1000))


def random_filling(seed, size, hidden, smallest):
    """Return a well-conditioned C, so that rounding stays small; None instead of others."""
    C = np.random.default_rng(seed).normal(size=(size, hidden)) * 0.3 + np.eye(size, hidden)
    return C if size and np.linalg.svd(C)[1][-1] > smallest else None


@given(points(), st.booleans())
def test_critical_points_are_critical(point, balanced):
    values, kept, hidden, seed = point
    sigma = rotated(values, seed)
    C = None if balanced else random_filling(seed, len(kept), hidden, 0.2)
    A, B = theory.critical_point(sigma, kept, hidden, C)
    gradient, P = velocity("pair", sigma, np.concatenate([A.ravel(), B.ravel()]), hidden), A @ B
    for zero in (gradient, P @ P - P, P - P.T, P @ sigma - sigma @ P):
        np.testing.assert_allclose(zero, 0, atol=1e-11)
    expected = (sum(values) - sum(sorted(values, reverse=True)[i] for i in kept)) / len(values)
    assert theory.critical_loss(sigma, kept) == pytest.approx(expected, abs=1e-12)
    assert theory.reconstruction_loss(A, B, sigma) == pytest.approx(expected, abs=1e-11)


@given(points())
def test_no_product_of_that_rank_beats_the_largest(point):
    values, _, hidden, seed = point
    sigma, rng = rotated(values, seed), np.random.default_rng(seed)
    least = theory.critical_loss(sigma, range(hidden))
    A, B = theory.critical_point(sigma, range(hidden))
    for size in (1e-4, 1e-2, 1.0):
        W, V = A + size * rng.normal(size=A.shape), B + size * rng.normal(size=B.shape)
        assert theory.reconstruction_loss(W, V, sigma) >= least - 1e-13
        assert theory.reconstruction_loss(W, W.T, sigma) >= least - 1e-13


@given(points())
def test_inertia(point):
    values, kept, hidden, seed = point
    sigma = rotated(values, seed)
    # Any C: index and nullity do not depend on it.
    A, B = theory.critical_point(sigma, kept, hidden, random_filling(seed + 1, len(kept), hidden, 0.3))
    tied_point = theory.critical_point(sigma, kept, hidden)[0].ravel()
    for rule, X in (("pair", np.concatenate([A.ravel(), B.ravel()])), ("tied", tied_point)):
        predicted = theory.critical_hessian(sigma, kept, hidden, tied=rule == "tied")
        rates = np.linalg.eigvalsh(jacobian(rule, sigma, X, hidden))
        # Rates of index directions are gaps of integers, shortened by at most cond(C)^2 or so.
        assert np.count_nonzero(rates > 1e-8) == predicted.index
        assert np.count_nonzero(np.abs(rates) <= 1e-8) == predicted.nullity
        least = theory.critical_loss(sigma, range(hidden))
        assert predicted.is_minimum == (theory.critical_loss(sigma, kept) <= least + 1e-9)
        assert predicted.rank == len(kept)


@given(points(), st.sampled_from(theory.RULES))
def test_rates(point, rule):
    values, kept, hidden, seed = point
    sigma = rotated(values, seed)
    A, B = theory.critical_point(sigma, kept, hidden)
    X = np.concatenate([A.ravel(), B.ravel()]) if rule == "pair" else A.ravel()
    rates = np.sort_complex(np.linalg.eigvals(jacobian(rule, sigma, X, hidden)))[::-1]
    # Multiple eigenvalues of a matrix that is not symmetric may be off by the root of rounding.
    np.testing.assert_allclose(rates, theory.growth_rates(sigma, kept, hidden, rule), atol=1e-6)
    if rule in ("pair", "tied"):
        found = theory.critical_hessian(sigma, kept, hidden, tied=rule == "tied")
        assert found.escape_rate == max(theory.growth_rates(sigma, kept, hidden, rule)[0], 0)


def test_rates_of_rotations_and_of_the_slowest_decay():
    """Rates of escape and of change of basis are compared with Jacobians above."""
    sigma = np.diag([5.0, 3.0, 1.0])
    # 3 -> 5 and 1 -> 5; Prop. 3's rotation has half of the gap, the steepest descent more.
    assert theory.critical_hessian(sigma, [1, 2]).rotation_rate == 2.0
    # A spare neuron takes up the largest direction left; no rotation helps.
    assert theory.critical_hessian(sigma, [0], 2).rotation_rate == 0.0
    # Small gaps: half of the tied rate, to first order.
    close = np.diag([1.0, 1.0 - 1e-6])
    pair, tied = (theory.critical_hessian(close, [1], tied=tied).escape_rate for tied in (False, True))
    assert pair / tied == pytest.approx(0.5, abs=1e-6)
    best = theory.critical_hessian(sigma, [0, 1])
    assert best.rotation_rate == 0.0
    # The slowest decay is that of the pair (3, 1).
    assert best.slowest_rate == pytest.approx(2 - np.sqrt(2), rel=1e-14, abs=0)
    assert theory.critical_hessian([[2.0]], [0]).slowest_rate == 4.0


def test_expected_sparse_data_have_two_eigenspaces():
    n, hidden, x = 6, 3, SparseUniform(0.2)
    sigma = x.second_moment_matrix(n)
    assert theory.spectrum(sigma).multiplicities.tolist() == [1, n - 1]
    with_mean, without = theory.critical_hessian(sigma, [0, 2, 4]), theory.critical_hessian(sigma, [1, 2, 5])
    assert with_mean.is_minimum
    # Beyond the 9 changes of basis: two of five equal directions kept, three of five.
    assert with_mean.nullity == hidden**2 + 2 * 3
    assert (without.index, without.nullity) == (hidden, hidden**2 + 3 * 2)
    # With centred data it is the rug's linear loss.
    linear = float(rug.linear_loss(0.2, hidden / n))
    assert theory.critical_loss(x.covariance(n), range(hidden)) == pytest.approx(linear, rel=1e-14, abs=0)


def test_numbers_far_from_one():
    for scale in (1e-200, 1e200):
        sigma = scale * np.diag([3.0, 1.0])
        found = theory.critical_hessian(sigma, [1])
        assert found.escape_rate / scale == pytest.approx(np.sqrt(10) - 2, rel=1e-14, abs=0)
        assert theory.critical_loss(sigma, [0]) == pytest.approx(scale / 2, rel=1e-14, abs=0)
    assert theory.critical_loss(np.zeros((2, 2)), [0]) == 0.0
    assert theory.critical_loss([[1.0, 1.0], [1.0, 1.0]], [0]) == pytest.approx(0.0, abs=1e-15)
    # Rounding below zero is no negative eigenvalue, nor rounding beside the diagonal an asymmetry.
    v = np.random.default_rng(0).normal(size=(30, 4))
    assert theory.critical_loss(v @ v.T + 1e-15 * np.triu(np.ones((30, 30))), range(4)) < 1e-13
