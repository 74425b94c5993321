"""Predictions of how long hidden noise takes to sparsify, against integration and the exact averaged loss."""

import math

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

from superposition.theory import noise as theory

from ..oracles import spread_simplex


@pytest.mark.parametrize("n", [2, 4])
def test_the_derived_quartic_flow_solves_its_equation(n):
    derived = theory.derive_quartic_flow(n)
    (tau, *free), (clock, *x) = derived.symbols, derived.expression
    square, speed = sum(y**2 for y in x), sympy.diff(clock, tau)
    for one, begin in zip(x, [*free, 1 - sum(free)], strict=True):
        assert sympy.simplify(one.subs(tau, 0) - begin) == 0
    # dx_j/d(Bt) = 2 x_j (x_j - sum_k x_k^2), for one of them; the others follow by symmetry.
    assert sympy.simplify(sympy.diff(x[0], tau) / speed - 2 * x[0] * (x[0] - square)) == 0


def test_quartic_flow_is_the_solution():
    rng, times = np.random.default_rng(9), np.array([0.0, 0.3, 2.0, 6.0])
    for m, length in ((2, 1.0), (6, 1.0), (30, 0.8)):
        w = rng.normal(size=m)
        w *= length / np.linalg.norm(w)

        def flow(_, x):
            return x**3 - np.sum(x**4) * x / (x @ x)

        run = solve_ivp(flow, (0, 6), w, "DOP853", t_eval=times, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(theory.quartic_flow(w, times), run.y.T, atol=1e-9)
        level = float(np.sum(run.y[:, 2] ** 4) / length**4)
        assert theory.quartic_time(w, level) == pytest.approx(2.0, rel=1e-7)


def test_quartic_flow_at_its_ends():
    w = np.array([0.5, 0.5, -0.7, 0.1])
    np.testing.assert_array_equal(theory.quartic_flow(w, 1e-300), theory.quartic_flow(w, 0.0))
    np.testing.assert_allclose(theory.quartic_flow(w, 0.0), w, rtol=1e-14)
    np.testing.assert_allclose(theory.quartic_flow(w, 1e9), [0, 0, -1, 0], atol=1e-30)
    np.testing.assert_allclose(theory.quartic_flow([1.0, 1.0], [[1.0, 5.0]]), np.ones((1, 2, 2)), rtol=1e-12)
    assert theory.quartic_time([1.0, 1.0], 0.6) == math.inf
    assert theory.quartic_time([1.0, 0.1], 0.6) == 0


@pytest.mark.parametrize(("n", "std"), [(2, 0.1), (5, 0.3), (8, 0.15), (8, 0.6)])
def test_simplex_is_where_normal_noise_leads(n, std):
    W = math.sqrt(theory.simplex_square(n, std)) * spread_simplex(n, n + 2)
    np.testing.assert_allclose(theory.noise_averaged_gradient(W, "normal", std), 0, atol=1e-6)
    rng, start = np.random.default_rng(n), theory.noise_averaged_loss(W, "normal", std)
    for scale in (1e-2, 0.1, 0.5):
        other = W + scale * rng.normal(size=W.shape) / math.sqrt(n + 2)
        assert theory.noise_averaged_loss(other, "normal", std) > start
    rate = theory.simplex_rate(n, std, -2.0)
    np.testing.assert_allclose(theory.sparsifying_rate(W, std, -2.0), rate, rtol=1e-6)


def test_scalings():
    time = theory.sparsification_time(8, 64, 0.4, -2.0)
    assert theory.sparsification_time(8, 64, 0.4, -1.0) == pytest.approx(2 * time, rel=1e-9)
    # While (n - 1) sigma > 1 and n sigma^2 < 1: close to linear in sigma, nearly free of n.
    rate = theory.simplex_rate(1001, 0.01, -2.0)
    assert rate / theory.simplex_rate(1001, 0.005, -2.0) == pytest.approx(2, rel=0.05)
    assert rate / theory.simplex_rate(2001, 0.01, -2.0) == pytest.approx(1, abs=0.05)
    assert theory.simplex_rate(8, 0.01, -2.0) < 1e-30
    assert theory.sparsification_time(8, 64, 0.4, 1.0) == math.inf
    assert theory.simplex_rate(8, 0.4, 1.0) == pytest.approx(-theory.simplex_rate(8, 0.4, -2.0) / 2, rel=1e-9)
    assert theory.regulariser_rate(0.2, 0.1, -2.0) == pytest.approx(64 * 0.01 * 0.0016 * 2, rel=1e-12, abs=0)


def test_time_to_sparsify_is_that_of_a_usual_random_encoding():
    """Within the quartiles of the times that random encodings of the simplex's length take."""
    n, m, std, rng = 8, 64, 0.4, np.random.default_rng(5)
    W = rng.normal(size=(300, m))
    W *= math.sqrt(theory.simplex_square(n, std)) / np.linalg.norm(W, axis=1)[:, None]
    rate = theory.simplex_rate(n, std, -2.0)
    for level in (0.2, 0.5):
        low, high = np.quantile([theory.quartic_time(w, level) / rate for w in W], [0.25, 0.75])
        assert low < theory.sparsification_time(n, m, std, -2.0, fourth_norm=level) < high


@pytest.mark.parametrize(("noise", "size"), [("bipolar", 1.0), ("uniform", math.sqrt(3))])
def test_states_without_interference_keep_the_bound(noise, size):
    """Encodings that the noise cannot reach: no force but on the length, and short enough in l1."""
    W = (np.eye(4) - 1 / 4) / math.sqrt(1 - 1 / 4)
    std = 0.9 * float(-(W @ W.T)[0, 1] / np.sum(np.abs(W[0])) / size)
    W = W * math.sqrt(1 - std**2 / 2)
    assert np.mean(np.abs(W).sum(axis=1)) <= theory.interference_free_l1_norm(4, noise, std)
    np.testing.assert_allclose(theory.noise_averaged_gradient(W, noise, std), 0, atol=1e-9)
    # The same overlaps, turned: louder in l1 than the bound, so that noise must disturb them.
    turned, loud = W @ np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0], 1.3 * std
    assert np.mean(np.abs(turned).sum(axis=1)) > theory.interference_free_l1_norm(4, noise, loud)
    assert np.abs(theory.noise_averaged_gradient(turned, noise, loud)).max() > 1e-6
    assert theory.interference_free_l1_norm(4, "normal", 0.1) == 0
    bound = theory.interference_free_l1_norm(3, "three-point", 0.1, excess_kurtosis=1.0)
    assert bound == pytest.approx(0.995 / 0.4)
