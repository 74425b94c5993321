"""The exact solution against integrations that know nothing of its reduction, and its laws."""

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from superposition.solvers.sparsification import solve, weights_at

# What is promised is 1e-9. Measured against the oracles below: 2e-12, most of it theirs
# (DOP853 at rtol 1e-13).
PROMISED = 1e-9
ORACLE = 1e-11


def normal_weights(seed, m, scale=0.9):
    return np.random.default_rng(seed).normal(scale=scale / np.sqrt(m), size=m)


def integrate(w0, lam, t):
    """All m equations by DOP853, restarted at each drop; weights at t and drop times."""
    w = np.abs(w0)
    alive = np.flatnonzero(w)
    drops = np.where(w > 0, np.inf, 0.0)
    out, now, w = np.zeros((len(t), w.size)), 0.0, w[alive]

    def slope(_, w):
        return (1 - w @ w) * w - lam

    def smallest(_, w):
        return w.min()

    smallest.terminal = True
    while alive.size:
        run = solve_ivp(
            slope, (now, t[-1]), w, "DOP853", rtol=1e-13, atol=1e-17, events=smallest, dense_output=True
        )
        here = (t >= now) & (t <= run.t[-1])
        if here.any():
            out[np.ix_(here, alive)] = run.sol(t[here]).T
        if run.status == 0:
            break
        now, w = run.t[-1], run.y[:, -1]
        now, w = now + w.min() / lam, w + slope(now, w) * w.min() / lam  # the last 1e-14 to the event
        gone = w < 1e-12
        drops[alive[gone]] = now
        alive, w = alive[~gone], w[~gone]
    return out, drops


def march_weight_by_weight(w0, lam):
    """Drop times of all but the largest weight from the scalar equation, RK4 from each weight to the next."""
    v = np.sort(np.abs(w0))
    gaps = np.diff(v, prepend=0.0)
    n = np.arange(v.size, 0, -1.0)
    # Sums over the weights from k on, relative to v[k]: recurrences of positive terms, from the top down.
    one, two = np.zeros(v.size), np.zeros(v.size)
    for k in range(v.size - 2, -1, -1):
        one[k] = one[k + 1] + n[k + 1] * gaps[k + 1]
        two[k] = two[k + 1] + gaps[k + 1] * (2 * one[k + 1] + n[k + 1] * gaps[k + 1])
    g, time, times = 1.0, 0.0, np.full(v.size, np.inf)
    for k in range(v.size - 1):

        def slopes(d, g, k=k):
            q = two[k] + d * (2 * one[k] + n[k] * d)
            return (q / g**2 - 1) / lam, 1 / (lam * g)

        rate = 2 / (lam * g) * max(1.0, (two[k] + gaps[k] * (2 * one[k] + n[k] * gaps[k])) / g**2)
        rate = max(rate, 30 / (gaps[k] + one[k] / n[k]))
        steps = math.ceil(rate * gaps[k] / 4e-3)
        h, d = gaps[k] / steps, gaps[k]
        for _ in range(steps):
            a = slopes(d, g)
            b = slopes(d - h / 2, g + h / 2 * a[0])
            c = slopes(d - h / 2, g + h / 2 * b[0])
            e = slopes(d - h, g + h * c[0])
            g += h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + e[0])
            time += h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + e[1])
            d -= h
        times[k] = time
    return times


@pytest.mark.parametrize(
    ("m", "lam", "scale"),
    [
        (2, 0.05, 0.9),
        (8, 0.05, 0.9),
        (20, 0.02, 0.1),  # the length grows first
        (20, 0.02, 3.0),  # or shrinks
        (12, 0.3, 1.0),
        (12, 0.5, 1.0),  # all die
    ],
)
def test_agrees_with_the_full_system(m, lam, scale):
    w0 = normal_weights(m, m, scale)
    w0[4:5] = 0
    t = np.sort(np.append(0, np.random.default_rng(1).uniform(0, 3 / lam, 15)))
    w, drops = integrate(w0, lam, t)
    result = solve(w0, lam, t)
    seen = drops < t[-1]
    np.testing.assert_allclose(result.drop_times[seen], drops[seen], rtol=ORACLE)
    assert np.all(result.drop_times[~seen] > t[-1])
    np.testing.assert_array_equal(result.nonzeros, np.sum(w > 0, axis=1))
    np.testing.assert_allclose(result.l1_norm, w.sum(axis=1), rtol=ORACLE)
    np.testing.assert_allclose(result.l2_norm, np.linalg.norm(w, axis=1), rtol=ORACLE)
    np.testing.assert_allclose(weights_at(w0, lam, t[7]), np.sign(w0) * w[7], rtol=ORACLE, atol=1e-15)
    # Canary: the same comparison sees a strength that is off by a millionth.
    off = solve(w0, lam * (1 + 1e-6), t).drop_times
    assert not np.allclose(off[seen & (w0 != 0)], drops[seen & (w0 != 0)], rtol=PROMISED)


@pytest.mark.parametrize(("m", "lam", "scale"), [(2500, 0.01, 0.9), (4000, 0.01, 0.9), (1500, 0.01, 0.4)])
def test_strides_over_many_weights_lose_nothing(m, lam, scale):
    # Steps stride over weights while more than some 1250 are left. RK4's own error here is 2e-13
    # (from halving its step), theirs 2e-12.
    w0 = normal_weights(2, m, scale)
    drops = solve(w0, lam, [1.0]).drop_times
    np.testing.assert_allclose(np.sort(drops), march_weight_by_weight(w0, lam), rtol=1e-11)


@pytest.mark.parametrize("distance", [1e-3, 1e-12])
def test_two_weights_that_nearly_tie(distance):
    # In the smaller weight and the logarithm of the difference the full system keeps all digits.
    lam, w, t = 0.01, 0.6, 2000.0

    def slope(_, y):
        small, large = y[0], y[0] + np.exp(y[1])
        free = 1 - small**2 - large**2
        return [free * small - lam, free]

    def drop(_, y):
        return y[0]

    drop.terminal = True
    large = w + distance
    start = [w, np.log(large - w)]
    run = solve_ivp(slope, (0, t), start, "DOP853", rtol=1e-13, atol=1e-15, events=drop)
    result = solve([w, -large], lam, [t])
    # The logarithm, about -28, is known to 4e-15 from the two weights; t follows it with 1/lam.
    assert result.drop_times[0] == pytest.approx(run.t[-1], rel=1e-10)
    assert result.drop_times[1] == np.inf


@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(-5, 0.3), st.floats(-1.5, 0.7))
def test_laws(seed, m, log_lam, log_scale):
    rng = np.random.default_rng(seed)
    lam, w0 = 10**log_lam, normal_weights(rng, m, 10**log_scale)
    w0 = np.append(w0, rng.choice(w0, size=m // 2))  # ties
    w0 *= rng.choice([1, 1, -1, 0], size=w0.size)
    t = np.sort(rng.uniform(0, 2 / lam, 6))
    result = solve(w0, lam, t)

    # Order and signs do not matter.
    order = rng.permutation(w0.size)
    other = solve(-w0[order], lam, t)
    np.testing.assert_array_equal(other.drop_times, result.drop_times[order])
    np.testing.assert_array_equal(other.l1_norm, result.l1_norm)

    # The larger outlives the smaller, equal ones drop together, and the count is that of weights not dropped.
    rank = np.argsort(np.abs(w0), kind="stable")
    np.testing.assert_array_equal(np.sort(result.drop_times), result.drop_times[rank])
    same = np.diff(np.abs(w0)[rank]) == 0
    assert np.array_equal(result.drop_times[rank][1:][same], result.drop_times[rank][:-1][same])
    np.testing.assert_array_equal(result.nonzeros, [np.sum(result.drop_times > s) for s in t])
    assert result.died == bool(np.all(np.isfinite(result.drop_times)))

    # Stopping and going on is going on. (Near death the norms are good beside lam t, not beside themselves.)
    middle = weights_at(w0, lam, t[2])
    np.testing.assert_allclose(np.abs(middle).sum(), result.l1_norm[2], rtol=1e-12, atol=1e-13)
    rest = solve(middle, lam, t[2:] - t[2])
    np.testing.assert_allclose(rest.l2_norm, result.l2_norm[2:], rtol=PROMISED, atol=PROMISED)


def test_without_l1_the_length_is_logistic():
    w0, t = np.array([0.3, 0.0, -0.1]), np.array([0, 0.5, 3, 1e6])
    result = solve(w0, 0.0, t)
    np.testing.assert_allclose(result.l2_norm, 1 / np.sqrt(1 + 9 * np.exp(-2 * t)), rtol=1e-14)
    np.testing.assert_array_equal(result.nonzeros, 2)
    np.testing.assert_array_equal(result.drop_times, [np.inf, 0, np.inf])
    assert not result.died


def test_a_weight_alone_settles_or_dies():
    result = solve([-0.5], 0.1, [0, 1, 1e9])
    final = result.l2_norm[-1]
    assert (1 - final**2) * final == pytest.approx(0.1, rel=1e-14, abs=0)
    assert result.drop_times[0] == np.inf
    # Below the unstable equilibrium (about lam) it dies; above the largest possible strength always.
    assert solve([0.09], 0.1, [1.0]).died
    critical = 2 / 27**0.5
    assert not solve([0.9], critical * (1 - 1e-9), [1.0]).died
    # The double nearest to the critical strength is 1.47e-17 above it: the bottleneck takes 6e8.
    edge = solve([0.9], critical, [1e8])
    assert edge.l2_norm[0] == pytest.approx(3**-0.5, abs=1e-6)
    assert edge.drop_times[0] == pytest.approx(np.pi / np.sqrt(1.470724699460099e-17 * 3**0.5), rel=1e-3)


def elapsed_by_quadrature(start, end, kappa):
    """Time of dx/dt = x - x^3 - kappa from start to end, at 40 digits."""
    with mp.workdps(40):
        kappa = mp.mpf(kappa)
        points = sorted({mp.mpf(start), mp.mpf(end), *(x for x in STOPS if end < x < start)})
        return float(mp.quad(lambda x: -1 / (x - x**3 - kappa), points))


# Where the integrand is steep.
STOPS = [mp.mpf(10) ** k for k in range(-20, 160, 4)] + [
    1 / mp.sqrt(3) + d for d in (-1e-2, -1e-3, 0, 1e-3, 1e-2)
]


@pytest.mark.parametrize("start", [0.55, 1e-9])
def test_drop_times_near_the_critical_strength(start):
    for distance in (0.0, 1e-16, 1e-10, 1e-6, 1e-3, -1e-13, -1e-6, -1e-3):
        kappa = 2 / 27**0.5 * (1 + distance)
        found = solve([start], kappa, [10.0]).drop_times[0]
        assert found == pytest.approx(elapsed_by_quadrature(start, 0, kappa), rel=1e-13, abs=0)


def test_long_starts_keep_their_digits():
    starts = 3.0, 1e3, 1e20, 1e150
    for start, kappa, t in product(starts, (0.0009, 0.3, 0.5, 40.0), (1e-6, 1e-2, 0.03)):
        x = solve([start], kappa, [t]).l2_norm[0]
        if x > 0:
            # A rounding of x moves the time by its slope.
            slack = 1e-13 * t + 1e-15 * x / (x**3 - x + kappa)
            assert elapsed_by_quadrature(start, x, kappa) == pytest.approx(t, rel=0, abs=slack)
    for start, kappa in product(starts, (0.5, 40.0)):
        drop = solve([start], kappa, [0.0]).drop_times[0]
        assert drop == pytest.approx(elapsed_by_quadrature(start, 0, kappa), rel=1e-13, abs=0)
    assert solve([1e20], 1e-3, [1.0]).l2_norm[0] == pytest.approx(1.0750987329972252, rel=1e-14, abs=0)


def test_nothing_comes_of_nothing():
    result = solve([0.0, 0.0], 0.1, [0, 1])
    assert result.died
    np.testing.assert_array_equal([result.nonzeros, result.l1_norm, result.drop_times], 0)
    np.testing.assert_array_equal(weights_at([0.0, 0.0], 0.1, 3), 0)


def test_far_from_ordinary_sizes():
    # Tiny strengths (very stiff) and tiny weights (all die at once, at w/lam: nothing else acts).
    stiff = solve(normal_weights(3, 50), 1e-200, [1e100, 1e205])
    np.testing.assert_array_equal(stiff.nonzeros, [50, 1])
    tiny = solve([1e-120, 3e-120], 0.1, [0])
    np.testing.assert_allclose(tiny.drop_times, [1e-119, 3e-119], rtol=1e-10)  # the stated accuracy


def test_relative_variance_is_that_of_the_weights_left():
    w0, t = normal_weights(3, 40), np.array([10.0, 60.0, 1e4])
    found = solve(w0, 0.01, t)
    t[:] = 0.0  # arguments are copied
    assert solve(w0, 0.01, 60.0).l1_norm == found.l1_norm[1]
    for k, t in enumerate(found.t):
        left = np.abs(weights_at(w0, 0.01, t))
        left = left[left > 0]
        assert found.relative_variance[k] == pytest.approx(left.var() / left.mean() ** 2, rel=1e-7, abs=1e-12)
    assert np.isnan(solve([0.1, 0.1], 1.0, [100.0]).relative_variance[0])  # none is left


def test_a_tiny_weight_alone_grows_as_without_a_force_far_below_it():
    for size in (1e-18, 1e-104, 1e-150):
        t = -np.log(size) + np.linspace(-3.0, 3.0, 7)
        found = solve([size], size * 1e-60, t).l2_norm
        np.testing.assert_allclose(found, 1 / np.sqrt(1 + np.exp(-2 * np.log(size) - 2 * t)), rtol=1e-10)
