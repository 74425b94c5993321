"""Closed forms of the macroscopic loss against the derived expressions at high precision."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from superposition.theory import rug
from superposition.theory.rug import derive
from superposition.theory.rug.closed import slope_kernel


# Digits to work with, so that 50 are left: at most 60 cancel for sigma = 1e-8 (sigma³ times cubes of
# 1/sigma), and the tail at the shift z is smaller than the terms around it by exp(-z²/2).
def digits(a, b, sigma):
    return int(110 + 0.22 * min(float(b) / (float(a) * float(sigma)), 40) ** 2)


# The bar of the project: 1e-12 relative. Conditioning alone costs 3e-13 at the shift -36, where one
# rounding of b/(a sigma) moves exp(-z²/2) by z² times 1e-16.
BAR = 1e-12

SIZE = 60


@pytest.fixture(scope="module")
def oracle():
    """Off- and on-loss as derived by SymPy, evaluated by mpmath on the exact binary arguments."""
    a, b, sigma, p = derive.symbols()
    functions = {
        part: sp.lambdify(names, derive.derive_loss(part).expression, "mpmath", cse=True)
        for part, names in (("off", (a, b, sigma)), ("on", (a, b, sigma)), ("loss", (a, b, sigma, p)))
    }

    def evaluate(name, *arguments):
        with mp.workdps(digits(*arguments[:3])):
            return functions[name](*(mp.mpf(float(x)) for x in arguments))

    return evaluate


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


def test_losses_reach_the_bar_on_the_whole_domain(oracle):
    a, b, sigma, p = domain(0, SIZE)
    values = {
        "off": rug.off_loss(a, b, sigma),
        "on": rug.on_loss(a, b, sigma),
        "loss": rug.loss(a, b, sigma, p),
    }
    for name, value in values.items():
        columns = (a, b, sigma, p) if name == "loss" else (a, b, sigma)
        rows = zip(*columns, strict=True)
        errors = [relative_error(v, oracle(name, *row)) for v, row in zip(value, rows, strict=True)]
        worst = int(np.argmax(errors))
        assert errors[worst] < BAR, (name, errors[worst], [column[worst] for column in columns])


@pytest.mark.slow
def test_losses_reach_the_bar_on_a_dense_sweep(oracle, random_seed):
    a, b, sigma, p = domain(random_seed, 6000)
    value = rug.loss(a, b, sigma, p)
    rows = zip(a, b, sigma, p, strict=True)
    errors = [relative_error(v, oracle("loss", *row)) for v, row in zip(value, rows, strict=True)]
    assert max(errors) < BAR, (random_seed, max(errors))


def test_the_textbook_form_would_miss_the_bar(oracle):
    """Canary: in doubles the derived expression itself loses all digits where the sweep looks."""
    a, b, sigma, _ = derive.symbols()
    from scipy import special

    plain = sp.lambdify(
        (a, b, sigma), derive.derive_loss("off").expression, ["numpy", {"erfc": special.erfc}]
    )
    point = (1.0, -9.0, 1.0)
    assert relative_error(plain(*point), oracle("off", *point)) > 1e-3
    assert relative_error(rug.off_loss(*point), oracle("off", *point)) < BAR


def test_without_interference_the_loss_is_that_of_a_line():
    """No interference, against SciPy's quadrature of the clipped line; and the limit sigma → 0 reaches it."""
    from scipy.integrate import quad

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


def test_monte_carlo():
    """The definition, sampled: 2e6 draws at 6 points; a false alarm has chance 4e-5."""
    rng = np.random.default_rng(5)
    size = 2_000_000
    nu, u, on = rng.standard_normal(size), rng.random(size), rng.random(size)
    for a, b, sigma, p in [
        (1.2, -0.3, 0.2, 0.05),
        (0.9, 0.1, 1.5, 0.5),
        (2.0, -2.0, 0.5, 1.0),
        (1.0, -0.1, 0.05, 0.3),
        (0.3, 0.2, 3.0, 0.9),
        (1.5, -0.8, 0.3, 0.01),
    ]:
        x = np.where(on < p, u, 0.0)
        squares = (x - np.maximum(a * (x + sigma * nu) + b, 0)) ** 2
        gap = squares.mean() - rug.loss(a, b, sigma, p)
        error = squares.std() / np.sqrt(size)
        assert abs(gap) < 4.5 * error
        # Canary: without the interference the theory must be rejected.
        assert abs(squares.mean() - rug.loss(a, b, 0.0, p)) > 4.5 * error


def test_gradient_matches_differences(oracle):
    point = (1.1, -0.2, 0.3, 0.05)
    h = mp.mpf("1e-30")
    derived = loss_oracle()
    with mp.workdps(100):
        for k, name in enumerate(("a", "b", "sigma")):
            exact = slope_oracle(name)(*map(mp.mpf, point))
            steps = [[mp.mpf(x) + (i == k) * sign * h for i, x in enumerate(point)] for sign in (1, -1)]
            difference = (derived(*steps[0]) - derived(*steps[1])) / (2 * h)
            # Central differences err by h² times the third derivative, here of order 1e-57.
            assert abs(exact - difference) < mp.mpf("1e-55")


@cache
def loss_oracle():
    return sp.lambdify(derive.symbols(), derive.derive_loss().expression, "mpmath", cse=True)


@cache
def slope_oracle(name):
    return sp.lambdify(derive.symbols(), derive.derive_gradient(name).expression, "mpmath", cse=True)


@cache
def scale_oracle():
    scale, least = derive.derive_optimal_scale().expression
    _, b, sigma, p = derive.symbols()
    return sp.lambdify((b, sigma, p), scale, "mpmath", cse=True), sp.lambdify((b, sigma, p), least, "mpmath")


def test_optimal_scale_reaches_its_bar():
    scale, _ = scale_oracle()
    rng = np.random.default_rng(3)
    sigma = 10 ** rng.uniform(-8, 3, SIZE)
    shift = rng.uniform(-36, 40, SIZE)
    p = 10 ** rng.uniform(-12, 0, SIZE)
    value = rug.optimal_scale(shift * sigma, sigma, p)
    for a, *row in zip(value, shift * sigma, sigma, p, strict=True):
        # Twice the digits of the losses: numerator and denominator both are that small.
        with mp.workdps(2 * digits(1.0, *row[:2])):
            exact = scale(*(mp.mpf(float(x)) for x in row))
        assert exact > 0
        assert relative_error(a, exact) < BAR


def test_derived_scale_is_the_minimum():
    """The derivation takes the loss to be quadratic in a: its least value must be the loss at its scale."""
    scale, least = scale_oracle()
    loss = loss_oracle()
    for row in [("-0.3", "0.2", "0.05"), ("0.1", "2.5", "0.7"), ("-0.9", "0.3", "1"), ("0.5", "0.01", "0.2")]:
        with mp.workdps(80):
            beta, sigma, p = map(mp.mpf, row)
            a = scale(beta, sigma, p)
            assert abs(loss(a, a * beta, sigma, p) - least(beta, sigma, p)) < mp.mpf("1e-60")


@given(shift=st.floats(-6, 6), log_sigma=st.floats(-5, 2), log_p=st.floats(-6, 0))
def test_slope_is_the_derivative_by_the_bias(shift, log_sigma, log_p):
    """slope_kernel against the derived gradient at 60 digits, relative to its largest term."""
    sigma, p = 10**log_sigma, 10**log_p
    scale, _ = scale_oracle()
    with mp.workdps(80):
        row = (mp.mpf(shift) * mp.mpf(sigma), mp.mpf(sigma), mp.mpf(p))
        a = scale(*row)
        exact = slope_oracle("b")(a, a * row[0], row[1], row[2]) / (2 * row[1])
    size = float(a) * (1 + abs(shift)) + p * sigma
    assert float(slope_kernel(shift, sigma, p)) == pytest.approx(float(exact), abs=1e-13 * size + 1e-13 * p)


def test_zero_ratio_limit():
    derived = derive.derive_zero_ratio_limit()
    (limit, infimum), z = derived.expression, derived.symbols[0]
    p = derive.symbols()[3]
    assert sp.simplify(infimum - (p / 3 - p**2 / 4)) == 0
    assert rug.zero_ratio_loss(0.3) == pytest.approx(float(infimum.subs(p, sp.Rational(3, 10))), rel=1e-15)
    # At a large sigma the loss at the optimal scale is the limit, up to O(1/sigma).
    for shift in (-2.0, 0.0, 1.5):
        sigma = 1e7
        a = rug.optimal_scale(shift * sigma, sigma, 0.3)
        exact = float(limit.subs({p: sp.Rational(3, 10), z: shift}).evalf())
        assert rug.loss(a, a * shift * sigma, sigma, 0.3) == pytest.approx(exact, rel=1e-6)
    # The printed bound p/3 - p²/9 is not one: the constant output p/2 does better.
    assert rug.zero_ratio_loss(0.3) < 0.1 - 0.09 / 9


def test_linear_optimum():
    a, b, loss = derive.derive_linear_optimum().expression
    p, ratio = derive.symbols()[3], sp.Symbol("ratio", positive=True)
    assert sp.simplify(loss - (p / 3 - p**2 / 4) * (1 - ratio)) == 0
    assert sp.simplify(b - (1 - a) * p / 2) == 0
    assert rug.linear_loss(0.2, 0.3) == pytest.approx(float(loss.subs({p: 0.2, ratio: 0.3})), rel=1e-14)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), p=st.floats(0.01, 1))
def test_no_matrix_beats_the_variance_bound(seed, n, p):
    """Random matrices of low rank with unit diagonal, not symmetric: the mean row variance is larger."""
    rng = np.random.default_rng(seed)
    n_hidden = int(rng.integers(1, n + 1))
    M = rng.standard_normal((n, n_hidden)) @ rng.standard_normal((n_hidden, n))
    M /= np.diagonal(M)[:, None]
    variance = p / 3 - p * p / 4
    mean = variance * (np.sum(M**2) - n) / n
    # Entries can be large where a diagonal element was small: rounding relative to the sum of squares.
    assert mean >= rug.sigma(p, n_hidden / n) ** 2 - 1e-12 * variance * np.sum(M**2)


def test_edgeworth_correction_is_the_first_edgeworth_term():
    """Its derivatives by the bias against those of the derived loss at 60 digits."""
    point = ("1.2", "-0.3", "0.25", "0.1")
    with mp.workdps(60):
        at = [*map(mp.mpf, point)]
        third, fourth = (mp.diff(lambda bias: loss_oracle()(at[0], bias, *at[2:]), at[1], k) for k in (3, 4))
    a, b, sigma, p = map(float, point)
    # Cumulants of x by brute force from its moments p/(k+1): kappa_3 and kappa_4 in central moments.
    moments = np.array([1, *(p / (k + 1) for k in range(1, 5))])
    mean = moments[1]
    central3 = moments[3] - 3 * mean * moments[2] + 2 * mean**3
    central4 = moments[4] - 4 * mean * moments[3] + 6 * mean**2 * moments[2] - 3 * mean**4
    variance = moments[2] - mean**2
    expected = a**3 * central3 * 0.7 / 6 * float(third) + a**4 * (
        central4 - 3 * variance**2
    ) * 0.2 / 24 * float(fourth)
    assert rug.edgeworth_correction(a, b, sigma, p, 0.7, 0.2) == pytest.approx(expected, rel=1e-11)


def test_asymptotic_law_has_its_rate():
    """Relative error over (t sigma)² stays bounded, and the loss over the law tends to 1."""
    from superposition.solvers.rug import optimum

    for ratio in (0.03, 0.25, 0.8):
        p = 10.0 ** -np.arange(2.0, 11.0)
        error = rug.asymptotic_loss(p, ratio) / optimum(p, ratio).loss - 1
        small = rug.asymptotic_shift(p) * rug.sigma(p, ratio)
        valid = small < 0.3
        # The stated bound. From p = 1e-3 on the measured constant lies between -0.2 and -0.42.
        assert np.all(np.abs(error[valid]) < 2 * small[valid] ** 2)
        assert np.all(np.diff(np.abs(error[valid])) < 0)
        # Canary: the law without its correction of order sigma has a larger error.
        s, t = rug.sigma(p, ratio), rug.asymptotic_shift(p)
        leading = s**2 * p * (1 + t**2 / 4 + (1 - p) / p * 2 * rug.off_loss(1.0, -t, 1.0) / 2)
        assert np.any(np.abs(leading / optimum(p, ratio).loss - 1)[valid] > 2 * small[valid] ** 2)


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


def test_broadcasting_and_types():
    assert isinstance(rug.loss(1.0, 0.0, 1.0, 0.5), float)
    assert rug.loss(np.ones((3, 1)), 0.0, np.ones(4), 0.5).shape == (3, 4)
    assert isinstance(rug.sigma(0.5, 0.5), float)
