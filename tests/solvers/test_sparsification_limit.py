"""The limit law of sparsification: its limits, its spread, and arguments far from any use."""

from itertools import product

import numpy as np
import pytest
from scipy.special import erfcinv

from superposition.solvers.results import Status
from superposition.solvers.sparsification import limit_law, solve
from superposition.theory.sparsification import parametric_law


def test_limit_law_tends_to_the_parametric_law():
    # At a fixed place on the curve, lam sqrt(m) -> 0 at fixed lam sqrt(m) t: the transient of the length
    # costs a time of order 1 and balance a length of order lam |W|_1, both of first order in lam sqrt(m).
    m = 10**8
    curve = parametric_law(np.array([0.5, 1.5, 2.5]))
    gaps = []
    for strength in (1e-2, 1e-3, 1e-4):
        law = limit_law(curve.scaled_time / strength, strength / m**0.5, m, 0.5)
        off = law.nonzeros / m / curve.nonzero_share - 1, law.l1_norm / m**0.5 / curve.scaled_l1_norm - 1
        gaps.append(np.abs([*off, law.relative_variance - curve.relative_variance]).max(axis=1))
    np.testing.assert_allclose(np.diff(np.log10(gaps), axis=0), -1, atol=0.1)


def test_limit_law_at_the_ends():
    law = limit_law([[0.0, 1e8], [1e300, 1e8]], 1e-4, 10_000, 0.7)
    assert law.nonzeros.shape == (2, 2)
    assert law.nonzeros[0, 0] == 10_000
    assert law.l1_norm[0, 0] == pytest.approx(0.7 * np.sqrt(2 / np.pi * 10_000), rel=1e-12)
    # One is left, at the stable length of 1 - w^2 = lam/w; the quadrature rule may hold a tie or two.
    np.testing.assert_allclose(law.nonzeros[1], 1, atol=1e-3)
    np.testing.assert_allclose(law.l1_norm[1], 1 - 0.5e-4, atol=1e-3)
    np.testing.assert_array_equal(law.nonzeros[0, 1], law.nonzeros[1, 1])


def test_limit_law_without_and_with_too_much_force():
    t = np.array([0.0, 1.0, 50.0])
    free = limit_law(t, 0.0, 1000, 0.5)
    np.testing.assert_array_equal(free.nonzeros, 1000)
    length = 1 / np.sqrt(1 + (1 / 0.25 - 1) * np.exp(-2 * t))
    np.testing.assert_allclose(free.l1_norm, length * np.sqrt(2 / np.pi * 1000), rtol=1e-8)
    dead = limit_law(t, 0.5, 1000, 0.9)
    assert dead.nonzeros[-1] == 0
    assert dead.l1_norm[-1] == 0


def test_spread_begins_as_that_of_the_sample():
    # At t = 0 the l1 norm is a sum of m independent sizes, with variance scale^2 (1 - 2/pi).
    law = limit_law(0.0, 1e-5, 100_000, 0.9)
    assert law.nonzeros_std == 0
    assert law.l1_norm_std == pytest.approx(0.9 * np.sqrt(1 - 2 / np.pi), rel=1e-10)
    # In the tail the number is Poisson to this order (derived), 4/zeta^2 or so away at a finite threshold.
    tail = limit_law(np.array([2e-4, 1e-2]) / 1e-8, 1e-8, 10**12, 0.9)
    zeta = np.sqrt(2) * erfcinv(tail.nonzeros / 1e12)
    gap = (tail.nonzeros_std**2 / tail.nonzeros - 1) * zeta**2
    np.testing.assert_allclose(gap, -4, atol=1)


@pytest.mark.parametrize("m", [8, 13, 40])
def test_spread_of_very_few_weights(m):
    # Leading order in 1/m: at m = 8 within half of what runs show, until the last weights but one drop.
    lam, times = 1e-2, np.array([0.0, 5.0, 30.0, 100.0, 300.0])
    law = limit_law(times, lam, m, 0.9)
    late = limit_law([1e3, 1e9], lam, m, 0.9)
    assert np.all(np.isfinite([late.nonzeros_std, late.l1_norm_std]))
    rng = np.random.default_rng(m)
    runs = [solve(rng.normal(scale=0.9 / m**0.5, size=m), lam, times) for _ in range(200)]
    for name in ("nonzeros", "l1_norm"):
        spread = np.std([getattr(run, name) for run in runs], axis=0)
        found = getattr(law, f"{name}_std")
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found, spread, rtol=0.5, atol=0.1)


@pytest.mark.parametrize("m", [8, 10**15])
def test_absurd_sizes_give_finite_numbers(m):
    for scale, lam in [(1.0, 1e-3), *product((1e-6, 1e6), (0.0, 1e-12, 1e6))]:
        times = [0.0, 5e-324, 1e-200, 1e-50, 1e-9, 1.0, 1e9, 1e105, 1.7e308]
        law = limit_law(times, lam, m, scale)
        assert law.status is Status.REACHED
        assert "reached" in law.message
        for name in ("nonzeros", "l1_norm", "relative_variance", "nonzeros_std", "l1_norm_std"):
            assert np.all(np.isfinite(getattr(law, name))), name
        assert np.all((law.nonzeros >= 0) & (law.nonzeros <= m))
        assert law.nonzeros[0] == m
        assert np.all(np.diff(law.nonzeros) <= 1e-9 * m)
