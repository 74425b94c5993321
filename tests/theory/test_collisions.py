"""Formulas of meeting encodings against SymPy, 50 digits, enumeration and sampling."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

from superposition.theory import collisions as theory

# Same formula by another route: a few hundred roundings.
ROUNDING = 1e-13


# --- Initialisation ----------------------------------------------------------------------------------------


def test_initial_means_are_the_derived_ones():
    for n, m, s in [(1, 1, 0.3), (2, 3, 0.5), (256, 1024, 0.9 / 32), (7, 5, 0.0)]:
        moments = theory.derive_initial_moments().evaluate({"m": m, "s": s})
        overlap, square, fourth = map(float, moments)
        benefit, interference = theory.initial_forces(n, m, s)
        assert interference == pytest.approx((n - 1) * overlap / 2, rel=ROUNDING, abs=0)
        # The difference of two terms of size m s^2.
        assert benefit == pytest.approx(square - fourth, abs=ROUNDING * (1 + square + fourth))


# --- Overlaps ----------------------------------------------------------------------------------------------


def test_overlap_rates_are_the_derived_ones():
    derived = theory.derive_overlap()
    _, interference, turning = derived.expression
    a, b, x = sympy.symbols("a b x", positive=True)
    assert sympy.simplify(interference + a + b) == 0  # the source's, without feature benefit
    assert sympy.simplify(turning + (a + b) * (1 - x**2 / (a * b))) == 0
    for p, q, r in [(0.2, 0.3, 0.1), (1.0, 1.0, 0.5), (0.9, 0.1, 0.05)]:
        rate, _, turning = map(float, derived.evaluate({"a": p, "b": q, "x": r}))
        assert theory.overlap_rate(p, q) == pytest.approx(rate, rel=ROUNDING, abs=0)
        assert theory.overlap_rate(p, q, r / math.sqrt(p * q)) == pytest.approx(turning, rel=ROUNDING, abs=0)


def velocity(W):
    G = W @ W.T
    C = np.diag(1 - np.diag(G)) - np.maximum(G - np.diag(np.diag(G)), 0)
    return C @ W


def test_pair_flow_solves_the_flow():
    times = [1e-9, 0.1, 1.0, 4.0]
    for sign in (1, -1):
        W0 = np.array([[0.5, 0.2, 0.0], [0.3 * sign, -0.1 * sign, 0.6 * sign]])

        def flow(_, w):
            return velocity(w.reshape(2, 3)).ravel()

        run = solve_ivp(flow, (0, 4), W0.ravel(), "DOP853", t_eval=times, rtol=1e-12, atol=1e-14)
        for t, want in zip(times, run.y.T, strict=True):
            # DOP853's error at these tolerances, a hundred times over.
            np.testing.assert_allclose(theory.pair_flow(W0, t), want.reshape(2, 3), atol=1e-10)
        np.testing.assert_allclose(theory.pair_flow(W0, 0.0), W0, atol=1e-15)


def test_pair_flow_ends_orthonormal_and_survives_long_times_and_parallel_rows():
    W = theory.pair_flow([[0.8, 0.3], [0.5, 0.4]], 1e6)
    np.testing.assert_allclose(W @ W.T, np.eye(2), atol=1e-12)
    # Parallel rows are one weight on two: w^2 + w^2 = 1.
    W = theory.pair_flow([[0.3, 0.0], [0.3, 0.0]], 100.0)
    np.testing.assert_allclose(W, [[math.sqrt(0.5), 0], [math.sqrt(0.5), 0]], atol=1e-12)
    np.testing.assert_array_equal(theory.pair_flow(np.zeros((2, 2)), 3.0), np.zeros((2, 2)))


# --- One neuron --------------------------------------------------------------------------------------------


def test_shared_neuron_derivation():
    ratio, gap = theory.derive_shared_neuron().expression
    w1, w2, lam = sympy.symbols("w1 w2 lam", positive=True)
    assert sympy.simplify(ratio + lam * (1 - w2 / w1) / w1) == 0
    assert ratio.subs(lam, 0) == 0
    assert sympy.simplify(gap - (1 - w1**2 - w2**2)) == 0


def test_shared_drop_time_is_its_integral():
    for r in (0.0, 1e-9, 0.3, 0.8, 0.999, 1 - 1e-12):
        with mpmath.workdps(50):
            exact = mpmath.quad(lambda x: 1 / ((1 - x) * mpmath.sqrt(1 + x * x)), [0, r / 2, r])
        # Near 0 a difference of two numbers near 0.88, hence the absolute part.
        assert theory.shared_drop_time(r) == pytest.approx(float(exact), rel=1e-12, abs=1e-15)


def test_rest_points_are_roots():
    for lam in (0.0, 1e-12, 1e-3, 0.1, 0.3, 0.38):
        with mpmath.workdps(50):
            stable, unstable = (
                mpmath.findroot(lambda w, lam=lam: w * (1 - w * w) - mpmath.mpf(lam), start)
                for start in theory.resting_weights(lam)
            )
            assert unstable <= mpmath.sqrt(mpmath.mpf(1) / 3) <= stable
        assert theory.resting_weights(lam) == pytest.approx(
            (float(stable), float(unstable)), rel=4e-15, abs=0
        )


def test_critical_lam():
    for q in (1, 2, 5):
        w = sympy.Symbol("w", positive=True)
        height = w * (1 - q * w**2)
        best = sympy.solve(sympy.diff(height, w), w)[0]
        assert theory.critical_lam(q) == pytest.approx(float(height.subs(w, best)), rel=ROUNDING, abs=0)
    top = theory.critical_lam()
    # A double root: rounding of lam moves it by its square root.
    stable, unstable = theory.resting_weights(top)
    assert stable == pytest.approx(unstable, abs=1e-7)


def test_conflict_derivation_and_outcome():
    x1, x2, y1, y2 = sympy.symbols("x1 x2 y1 y2", positive=True)
    assert sympy.simplify(theory.derive_conflict().expression - y2**2 + y1**2) == 0
    # On the unit spheres, by the interference less its part along the encoding, (1 - x1^2)/(1 - x2^2) rests.
    u1, u2 = (-2 * x1**2 * x2**2 * (1 - x**2) for x in (x1, x2))
    q = (1 - x1**2) / (1 - x2**2)
    assert sympy.simplify(sympy.diff(q, x1) * u1 / (2 * x1) + sympy.diff(q, x2) * u2 / (2 * x2)) == 0

    def slope(_, x):
        return [-x[0] * x[1] ** 2 * (1 - x[0] ** 2), -x[1] * x[0] ** 2 * (1 - x[1] ** 2)]

    for x1, x2 in [(0.8, 0.6), (0.3, 0.7), (0.5, 0.5)]:
        # The loser decays at a rate of the winner's square; ties decay like 1/sqrt(t).
        run = solve_ivp(slope, (0, 1e3), [x1, x2], "LSODA", rtol=1e-11, atol=1e-13)
        kept = theory.kept_after_conflict(x1, x2)
        np.testing.assert_allclose(kept, run.y[:, -1], atol=1e-9 if x1 != x2 else 0.03)


# --- Counts ------------------------------------------------------------------------------------------------


def test_counts_are_enumerated():
    """By listing all arrangements: the neurons with both places taken, and pairs that share a neuron."""
    for n, m in [(1, 1), (2, 1), (1, 3), (2, 2), (3, 2), (4, 2), (3, 3), (4, 3), (5, 3)]:
        places = range(2 * m)
        for exclusive in (True, False):
            ways = itertools.permutations(places, n) if exclusive else itertools.product(places, repeat=n)
            ways = list(ways)
            counts = [sum({2 * k, 2 * k + 1} <= set(way) for k in range(m)) for way in ways]
            found = theory.expected_polysemantic(n, m, exclusive=exclusive)
            assert found == pytest.approx(float(Fraction(sum(counts), len(counts))), abs=1e-14)
            if exclusive:
                count, probability = theory.polysemantic_pmf(n, m)
                exact = [counts.count(x) / len(counts) for x in count]
                np.testing.assert_allclose(probability, exact, rtol=1e-12)
        pairs = sum(a // 2 == b // 2 for way in ways for a, b in itertools.combinations(way, 2))
        assert theory.expected_collisions(n, m) == pytest.approx(pairs / len(ways), rel=1e-12, abs=0)


def test_counts_at_50_digits():
    for n, m in [(2, 10**8), (256, 256), (256, 4096), (10, 10**6), (1000, 500)]:
        with mpmath.workdps(50):
            q = mpmath.mpf(1) / (2 * m)
            independent = m * (1 - 2 * (1 - q) ** n + (1 - 2 * q) ** n)
            exclusive = m * mpmath.binomial(2 * m - 2, n - 2) / mpmath.binomial(2 * m, n)
        assert theory.expected_polysemantic(n, m) == pytest.approx(float(exclusive), rel=ROUNDING, abs=0)
        got = theory.expected_polysemantic(n, m, exclusive=False)
        # The two parts differ by a factor n, so at n = 2 they cancel to a half.
        assert got == pytest.approx(float(independent), rel=ROUNDING, abs=0)
    for n, m in [(64, 64), (64, 1024), (512, 300)]:
        count, probability = theory.polysemantic_pmf(n, m)
        # Log-gamma functions of numbers up to 1000: absolute errors of their size times 2^-53.
        assert probability.sum() == pytest.approx(1, abs=1e-11)
        assert count @ probability == pytest.approx(theory.expected_polysemantic(n, m), rel=1e-10)


def test_counts_tend_to_the_quoted_ones():
    m, n = np.array([1e3, 1e5, 1e7]), np.array([1e2, 1e4, 1e6])
    quoted = theory.quoted_polysemantic(n, m)
    for exclusive, slack in ((True, 2 / n), (False, 2 / n + n / m)):  # what the exact forms expand to
        assert np.all(np.abs(theory.expected_polysemantic(n, m, exclusive=exclusive) / quoted - 1) < slack)
