"""Closed forms of the macroscopic loss against the derived expressions at high precision."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

from superposition.solvers.rug import optimum
from superposition.theory import rug
from superposition.theory.rug import derive


# Digits to work with, so that 50 are left: at most 60 cancel for sigma = 1e-8 (sigma³ times cubes of
# 1/sigma), and the tail at the shift z is smaller than the terms around it by exp(-z²/2).
@cache
def derived(name):
    """Return what SymPy derives, as a function of mpmath's numbers."""
    a, b, sigma, p = derive.symbols()
    if name in ("off", "on", "loss"):
        symbols = (a, b, sigma, p) if name == "loss" else (a, b, sigma)
        return sp.lambdify(symbols, derive.derive_loss(name).expression, "mpmath", cse=True)
    if name in ("scale", "least"):
        scale, least = derive.derive_optimal_scale().expression
        return sp.lambdify((b, sigma, p), {"scale": scale, "least": least}[name], "mpmath", cse=True)
    return sp.lambdify(derive.symbols(), derive.derive_gradient(name).expression, "mpmath", cse=True)


# Digits to work with, so that 50 are left: at most 60 cancel for sigma = 1e-8 (sigma³ times cubes of
# 1/sigma), and the tail at the shift z is smaller than the terms around it by exp(-z²/2).
def digits(a, b, sigma):
    return int(110 + 0.22 * min(float(b) / (float(a) * float(sigma)), 40) ** 2)


# The bar of the project: 1e-12 relative. Conditioning alone costs 3e-13 at the shift -36, where one
# rounding of b/(a sigma) moves exp(-z²/2) by z² times 1e-16.
BAR = 1e-12


def relative_error(value, exact):
    """Relative error, 0 where the exact value is so small that gradual underflow is allowed."""
    if abs(exact) < mp.mpf("1e-290"):
        return float(abs(mp.mpf(float(value)) - exact) > mp.mpf("1e-290"))
    with mp.workdps(50):
        return float(abs(mp.mpf(float(value)) / exact - 1))


def domain(seed, size):
    """Points of the stated domain: log-uniform, its corners, and where losses are smallest."""
    rng = np.random.default_rng(seed)
    a = 10 ** rng.uniform(-3, 3, size)
    sigma = 10 ** rng.uniform(-8, 3, size)
    shift = rng.uniform(-36, 40, size)
    near = rng.random(size) < 0.3  # near the perfect output a = 1, b = 0 the on-loss is O(sigma²)
    a[near] = 1 + 10 ** rng.uniform(-14, 0, near.sum()) * rng.choice([-0.9, 1], near.sum())
    shift[near] = rng.normal(0, 3, near.sum())
    edge = rng.random(size) < 0.15  # the switch at pre-activation 0 near u = 1
    shift[edge] = np.clip(-1 / sigma[edge] * (1 + rng.normal(0, 0.01, edge.sum())), -36, 40)
    corners = np.array(np.meshgrid([1e-3, 1, 1e3], [1e-8, 1, np.nextafter(1, 2), 1e3], [-36, 0, 40]))
    a, sigma, shift = (
        np.concatenate(pair) for pair in zip((a, sigma, shift), corners.reshape(3, -1), strict=True)
    )
    p = 10 ** rng.uniform(-12, 0, a.size)
    p[:: a.size // 8] = 1.0
    p[1 :: a.size // 8] = 1e-12
    return a, shift * a * sigma, sigma, p


@pytest.mark.parametrize("size", [60, pytest.param(6000, marks=pytest.mark.slow)])
def test_losses_reach_the_bar_on_the_whole_domain(size, random_seed):
    seed = 0 if size == 60 else random_seed
    a, b, sigma, p = domain(seed, size)
    values = {"loss": rug.loss(a, b, sigma, p)}
    if size == 60:
        values |= {"off": rug.off_loss(a, b, sigma), "on": rug.on_loss(a, b, sigma)}
    for name, value in values.items():
        columns = (a, b, sigma, p) if name == "loss" else (a, b, sigma)
        for found, *row in zip(value, *columns, strict=True):
            with mp.workdps(digits(*row[:3])):
                exact = derived(name)(*(mp.mpf(float(x)) for x in row))
            assert relative_error(found, exact) < BAR, (seed, name, row)


def test_without_interference_the_loss_is_that_of_a_line():
    """No interference, against SciPy's quadrature of the clipped line; and the limit sigma → 0 reaches it."""
    for a, b in [(1.0, 0.0), (1.3, -0.2), (0.5, -0.6), (0.7, 0.1), (2.0, -1.0)]:
        kink = np.clip(-b / a, 0, 1)
        exact = sum(
            quad(lambda u, a=a, b=b: (u - max(a * u + b, 0.0)) ** 2, *ends, epsabs=1e-14)[0]
            for ends in [(0, kink), (kink, 1)]
        )
        assert rug.on_loss(a, b, 0.0) == pytest.approx(exact, rel=1e-12, abs=1e-15)
        assert rug.off_loss(a, b, 0.0) == max(b, 0.0) ** 2
        # The loss differs from its limit by O(sigma) at most.
        assert abs(rug.on_loss(a, b, 1e-8) - rug.on_loss(a, b, 0.0)) < 1e-7


def test_optimal_scale_reaches_its_bar():
    rng = np.random.default_rng(3)
    sigma, shift, p = 10 ** rng.uniform(-8, 3, 60), rng.uniform(-36, 40, 60), 10 ** rng.uniform(-12, 0, 60)
    for a, *row in zip(rug.optimal_scale(shift * sigma, sigma, p), shift * sigma, sigma, p, strict=True):
        # Twice the digits of the losses: numerator and denominator both are that small.
        with mp.workdps(2 * digits(1.0, *row[:2])):
            exact = derived("scale")(*(mp.mpf(float(x)) for x in row))
        assert exact > 0
        assert relative_error(a, exact) < BAR
    # The derivation takes the loss to be quadratic in a: its least value must be the loss at its scale.
    for row in [("-0.3", "0.2", "0.05"), ("0.1", "2.5", "0.7"), ("-0.9", "0.3", "1"), ("0.5", "0.01", "0.2")]:
        with mp.workdps(80):
            beta, sigma, p = map(mp.mpf, row)
            a, least = derived("scale")(beta, sigma, p), derived("least")(beta, sigma, p)
            assert abs(derived("loss")(a, a * beta, sigma, p) - least) < mp.mpf("1e-60")


def test_limits_at_ratio_0_and_of_linear_models():
    derived = derive.derive_zero_ratio_limit()
    (limit, infimum), z = derived.expression, derived.symbols[0]
    p = derive.symbols()[3]
    assert sp.simplify(infimum - (p / 3 - p**2 / 4)) == 0
    # At a large sigma the loss at the optimal scale is the limit, up to O(1/sigma).
    for shift in (-2.0, 0.0, 1.5):
        a = rug.optimal_scale(shift * 1e7, 1e7, 0.3)
        exact = float(limit.subs({p: sp.Rational(3, 10), z: shift}).evalf())
        assert rug.loss(a, a * shift * 1e7, 1e7, 0.3) == pytest.approx(exact, rel=1e-6)
    a, b, loss = derive.derive_linear_optimum().expression
    assert sp.simplify(loss - infimum * (1 - sp.Symbol("ratio", positive=True))) == 0
    assert sp.simplify(b - (1 - a) * p / 2) == 0


def test_edgeworth_correction_is_the_first_edgeworth_term():
    """Its derivatives by the bias against those of the derived loss at 60 digits."""
    point = a, _, _, p = 1.2, -0.3, 0.25, 0.1
    with mp.workdps(60):
        at = [*map(mp.mpf, map(str, point))]
        third, fourth = (
            float(mp.diff(lambda bias: derived("loss")(at[0], bias, *at[2:]), at[1], k)) for k in (3, 4)
        )
    # Cumulants of x by brute force from its moments p/(k+1): kappa_3 and kappa_4 in central moments.
    m1, m2, m3, m4 = (p / (k + 1) for k in range(1, 5))
    kappa3 = m3 - 3 * m1 * m2 + 2 * m1**3
    kappa4 = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4 - 3 * (m2 - m1**2) ** 2
    expected = a**3 * kappa3 * 0.7 / 6 * third + a**4 * kappa4 * 0.2 / 24 * fourth
    assert rug.edgeworth_correction(*point, 0.7, 0.2) == pytest.approx(expected, rel=1e-11, abs=0)


def test_asymptotic_law_has_its_rate():
    """Relative error over (t sigma)² stays bounded, and the loss over the law tends to 1."""
    p = 10.0 ** -np.arange(2.0, 11.0)
    for ratio in (0.03, 0.25, 0.8):
        error = np.abs(rug.asymptotic_loss(p, ratio) / optimum(p, ratio).loss - 1)
        small = rug.asymptotic_shift(p) * rug.sigma(p, ratio)
        valid = small < 0.3
        # The stated bound. From p = 1e-3 on the measured constant lies between -0.2 and -0.42.
        assert np.all(error[valid] < 2 * small[valid] ** 2)
        assert np.all(np.diff(error[valid]) < 0)


def test_asymptotic_laws_are_the_derived_ones():
    """At 50 digits; p = 1e-320 gave nan and a warning."""
    slope, loss = derive.derive_asymptotic_shift(), derive.derive_asymptotic_loss()
    f = sp.lambdify(slope.symbols, slope.expression, "mpmath")
    for p in (1e-2, 1e-4, 1e-8, 1e-30, 1e-100, 1e-300, 1e-320, 5e-324):
        t = rug.asymptotic_shift(p)
        with mp.workdps(400):  # the terms are larger than what is left by exp(t^2/2)
            # Newton's step from t to the zero: the stated error.
            step = f(mp.mpf(t), mp.mpf(p)) / mp.diff(lambda x, p=p: f(x, mp.mpf(p)), mp.mpf(t))
            assert abs(step) < 1e-6, p
        for ratio in (0.03, 0.25, 0.8):
            sigma = float(rug.sigma(p, ratio))
            exact = loss.evaluate({"t": t, "p": p, "sigma": sigma})
            if exact > 1e-290:
                assert relative_error(rug.asymptotic_loss(p, ratio), exact) < 1e-13 * max(1, t * t / 10)
            else:
                assert 0 <= rug.asymptotic_loss(p, ratio) < 1e-289
