"""Ramp moments of the normal law against their derivation and parabolic cylinder functions at 50 digits."""

import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from superposition.theory.special import ramp_moments
from superposition.theory.special.cut import cut
from superposition.theory.special.cut import ramps as cut_ramps
from superposition.theory.special.normal import all_tails, ramps, tails

ORDERS = (0, 1, 3, 7, 30)
EDGES = [0.0, 1e-300, 1e-12, 1.0, np.nextafter(1, 0), 1.5556, 2.0, np.nextafter(2, 0)]
X = np.concatenate([EDGES, np.negative(EDGES), np.linspace(-37, 37, 20), [1e3, 1e10, -39.0, -1e10]])


@cache
def exact(order, x):
    """E (Z + x)_+^order = order! exp(-x^2/4) D_(-order-1)(-x) / sqrt(2 pi)."""
    with mp.workdps(50):
        x = mp.mpf(float(x))
        return mp.factorial(order) * mp.exp(-x * x / 4) * mp.pcfd(-order - 1, -x) / mp.sqrt(2 * mp.pi)


def assert_close(found, want, x, bar):
    if want < 1e-290:
        assert 0 <= found <= 1e-289
    else:
        with mp.workdps(50):
            assert abs(mp.mpf(float(found)) / want - 1) <= bar * max(1.0, x * x if x < 0 else 1.0), (x, found)


@pytest.mark.parametrize("order", ORDERS)
def test_moments_reach_the_stated_error_everywhere(order):
    found = ramp_moments(X, order)
    assert found.shape == (X.size, order + 1)
    for row, x in zip(found, X, strict=True):
        if abs(x) < 100:
            assert_close(row[order], exact(order, x), x, 3e-15)
    # Far out: the ReLU is linear or off.
    for x in (1e3, 1e10):
        line = mp.fsum(
            mp.binomial(order, j) * mp.mpf(x) ** (order - j) * mp.fac2(j - 1) for j in range(0, order + 1, 2)
        )
        assert ramp_moments(x, order)[order] == pytest.approx(float(line), rel=3e-15, abs=0)
    assert np.all(ramp_moments(-1e10, order) == 0)


def test_kernels_agree_with_the_moments():
    """The four that the rug's kernels take: 1e-14, but 1e-13 for T_3 just below 2."""
    for x in X[np.abs(X) < 38]:
        for n, (ramp, tail) in enumerate(zip(ramps(x), tails(abs(x)), strict=True)):
            bar = 1e-13 if n == 3 else 2e-14
            assert_close(ramp * math.factorial(n), exact(n, x), x, bar)
            assert_close(tail * math.factorial(n), exact(n, -abs(x)), -abs(x), bar)


def test_many_tails_do_not_lose_digits_at_the_switch():
    """At 1.5556 the forward recurrence of T_20 lost four digits."""
    out = np.empty(21)
    all_tails(1.5556, out)
    assert_close(out[20] * math.factorial(20), exact(20, -1.5556), -1.5556, 3e-15)


def test_a_normal_variable_given_that_it_is_positive():
    """With the hazard h = n(x)/P(Z > -x) the mean is x + h, and the variance 1 - h (x + h)."""
    x = np.array([-1e6, -1e3, -100.0, -40.0, -31.0, -30.0, -29.9, -12.0, -3.0, -1e-9])
    x = np.concatenate([x, [0.0, 1e-9, 0.4, 3.0, 8.0, 25.0, 1e4, 1e8, 1e10]])
    with mp.workdps(80):
        for start, *found in zip(x, *cut(x), strict=True):
            at = mp.mpf(float(start))
            chance = mp.erfc(-at / mp.sqrt(2)) / 2
            mean = at + mp.npdf(at) / chance
            want = mp.log(chance), mean, 1 - mp.npdf(at) / chance * mean
            if start > -35:
                of_ramp = chance, mean * chance, (at * mean + 1) * chance
                assert [*cut_ramps(np.array(start))] == pytest.approx(
                    [float(one) for one in of_ramp], rel=1e-13
                )
            for one, exactly in zip(found, want, strict=True):
                assert abs(mp.mpf(float(one)) - exactly) <= 2e-15 * abs(exactly) + mp.mpf(2e-16) * (at > 0), (
                    at
                )
