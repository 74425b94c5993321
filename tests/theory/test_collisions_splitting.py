"""A neuron split in two, and untied weights: closed forms against integrations and counting."""

import mpmath
import numpy as np
import pytest
import sympy
from scipy import integrate, stats

from superposition.theory import collisions
from superposition.theory.collisions.neuron import critical_lam, shared_drop_time

LAM, W = sympy.symbols("lam w", positive=True)


# Two copies


def test_derived_rates_are_those_of_the_closed_form():
    rest, difference, total = collisions.derive_split().expression
    assert sympy.simplify(rest - W * difference) == 0
    for lam in (1e-6, 0.01, 0.2, 0.27):
        with mpmath.workdps(50):
            roots = mpmath.polyroots([-2, 0, 1, -mpmath.mpf(lam)], maxsteps=200, extraprec=200)
            w = max(mpmath.re(root) for root in roots)
            rate = mpmath.mpf(lam) / w
            assert abs(difference.subs(W, w) - rate) < 1e-40
            assert total.subs(W, w) < 0
    # Beyond the largest strength equal copies die: there the rest point is a double root.
    last = sympy.solve(sympy.diff(rest, W), W)[0]
    assert float(rest.subs(W, last)) == pytest.approx(critical_lam(2), rel=1e-15, abs=0)


@pytest.mark.parametrize(("rho", "left"), [(0.0, 0.0), (0.5, 0.02), (1.0, 0.3)])
def test_shares_agree_with_counting(rho, left):
    rng, draws, eps, lam = np.random.default_rng(1), 200_000, 0.02, 0.01
    shared, own = rng.standard_normal((2, 1, draws)), rng.standard_normal((2, 2, draws))
    noise = eps * (np.sqrt(rho) * shared + np.sqrt(1 - rho) * own)  # (copy, feature, draw)
    d = np.minimum(np.abs(noise[0] - noise[1]), 1.0)
    ratio = (np.sqrt(2 - d**2) - d) / (np.sqrt(2 - d**2) + d)
    same = np.prod(noise[0] - noise[1], axis=0) > 0
    for t in (150.0, 300.0, 500.0):
        apart, together = collisions.separated_share(t, lam, eps, correlation=rho, left=left)
        duration = shared_drop_time(ratio) - shared_drop_time(left / np.sqrt(1 - left**2))
        both = np.all(duration <= lam * t, axis=0)
        # Exact binomial tests, 18 of them, at a false-alarm rate of 1e-5 each.
        assert stats.binomtest(int((both & same).sum()), draws, apart).pvalue > 1e-5
        assert stats.binomtest(int((both & ~same).sum()), draws, together).pvalue > 1e-5


def test_in_the_end_half_part_and_shared_noise_parts_all():
    for rho in (0.0, 0.3, 0.9, 1.0):
        apart, together = collisions.separated_share(1e5, 0.01, 1e-3, correlation=rho)
        # Owen's T is good to about 1e-15; the sum of both is one.
        assert apart == pytest.approx(0.5 + np.arcsin(rho) / np.pi, abs=1e-12)
        assert apart + together == pytest.approx(1, abs=1e-12)
    assert collisions.separated_share(0.0, 0.01, 1e-3) == (0, 0)
    assert collisions.separated_share([1.0, 2.0], 0.01, 0.1)[0].shape == (2,)


# Untied weights


def test_derived_untied_dynamics():
    e1, e2 = sympy.symbols("e1 e2", positive=True)
    assert sympy.expand(collisions.derive_untied().expression - 2 * LAM * (e1 + e2)) == 0
    # D = u, E = 1/u on one neuron: d(u^2 - u^-2)/dt = 2 lam / u, and u^3/3 - 1/u is lam t up to a constant.
    u = sympy.Symbol("u", positive=True)
    speed = (2 * LAM / u) / sympy.diff(u**2 - u**-2, u)
    assert sympy.simplify(sympy.diff(u**3 / 3 - 1 / u, u) * speed - LAM) == 0


def test_untied_ratio_solves_its_equation_everywhere():
    clock = np.concatenate([[0.0], np.logspace(-12, 12, 49)])
    u = np.sqrt(collisions.untied_length_ratio(clock))
    for x, c in zip(u, clock, strict=True):
        with mpmath.workdps(50):
            gap = mpmath.mpf(x) ** 3 / 3 - 1 / mpmath.mpf(x) + mpmath.mpf(2) / 3 - mpmath.mpf(c)
        # A rounding of u of size eps moves the left side by eps (u^3 + 1/u); the square and its root add two.
        assert abs(gap) <= 4e-16 * 4 * (x**3 + 1)


def test_untied_ratio_agrees_with_the_flow_to_first_order():
    def ratio(lam):
        def flow(_, w):
            return [(1 - w[0] * w[1]) * w[1] - lam, (1 - w[0] * w[1]) * w[0]]

        end = integrate.solve_ivp(flow, (0, 3 / lam), [1.0, 1.0], method="LSODA", rtol=1e-9, atol=1e-12)
        return end.y[1, -1] / end.y[0, -1]

    gaps = [abs(ratio(lam) / collisions.untied_length_ratio(3.0) - 1) for lam in (0.04, 0.02, 0.01)]
    assert gaps[0] < 0.1
    # O(lam): halving.
    np.testing.assert_allclose([gaps[0] / gaps[1], gaps[1] / gaps[2]], 2, rtol=0.1)
