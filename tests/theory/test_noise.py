"""Moments of hidden noise, the step and the drift, against enumeration, 50 digits and sampling."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from superposition.theory import noise as theory

# Same formula by another route: a few hundred roundings.
ROUNDING = 1e-13
FAMILIES = [("bipolar", None), ("uniform", None), ("normal", None), ("laplace", None), ("three-point", -0.5)]
P2 = sympy.Symbol("p2")


def values_of(w, mu):
    """Values of all symbols of the derivations for exact weights w and moments mu2, mu4, ..."""
    named = {f"mu{2 * k + 2}": value for k, value in enumerate(mu)}
    named |= {f"p{k}": sum(x**k for x in w) for k in range(2, 14, 2)}
    return {sympy.Symbol(name): value for name, value in {**named, "m": len(w)}.items()}


def three_point(kurtosis):
    """Size and probability of the nonzero values of the noise of unit variance on (-c, 0, c)."""
    return math.sqrt(kurtosis + 3), 1 / (kurtosis + 3)


def states(points, m):
    """All noise vectors of m neurons and their probabilities, exactly."""
    for choice in itertools.product(points, repeat=m):
        yield [x for x, _ in choice], sympy.prod([p for _, p in choice])


BIPOLAR = [(sympy.Rational(s, 3), sympy.Rational(1, 2)) for s in (-1, 1)]
THREE = [(sympy.Rational(s, 2), sympy.Rational(3 if s == 0 else 1, 5)) for s in (-1, 0, 1)]
WEIGHTS = {2: [sympy.Rational(2, 3), sympy.Rational(-1, 2)], 3: [sympy.Rational(k, 5) for k in (3, -2, 1)]}


@pytest.mark.parametrize("points", [BIPOLAR, THREE], ids=["bipolar", "three-point"])
@pytest.mark.parametrize("m", [2, 3])
def test_derived_moments_are_enumerated(points, m):
    w = WEIGHTS[m]
    mu = [sum(p * x**k for x, p in points) for k in (2, 4, 6, 8)]
    for a, b in [
        (1, 0),
        (2, 0),
        (4, 0),
        (6, 0),
        (8, 0),
        (2, 1),
        (3, 1),
        (4, 1),
        (2, 2),
        (4, 2),
        (0, 2),
        (0, 3),
    ]:
        exact = sum(
            p * sum(x * y for x, y in zip(w, xi, strict=True)) ** a * sum(x * x for x in xi) ** b
            for xi, p in states(points, m)
        )
        derived = theory.derive_moment(a, b).expression
        assert (derived == 0) if exact == 0 else (derived.subs(values_of(w, mu)) == exact)


@pytest.mark.parametrize("points", [BIPOLAR, THREE], ids=["bipolar", "three-point"])
@pytest.mark.parametrize("m", [2, 3])
def test_step_and_next_loss_are_enumerated(points, m):
    eta, w = sympy.Rational(1, 7), WEIGHTS[m]
    mu = [sum(p * x**k for x, p in points) for k in (2, 4, 6, 8)]
    at = values_of(w, mu) | {sympy.Symbol("eta"): eta}
    square = loss = 0
    for xi, p in states(points, m):
        error = sum(x * (x + y) for x, y in zip(w, xi, strict=True)) - 1
        after = [x - 2 * eta * error * (2 * x + y) for x, y in zip(w, xi, strict=True)]
        length = sum(x**2 for x in after)
        square += p * length
        loss += p * ((length - 1) ** 2 + mu[0] * length)
    assert theory.derive_next_step_square().expression.subs(at) == square
    assert theory.derive_next_step_loss().expression.subs(at) == loss


def test_new_noise_is_averaged_too():
    """The split over old and new noise, by enumerating both."""
    w, eta = [sympy.Rational(3, 5), sympy.Rational(4, 5)], sympy.Rational(1, 50)
    total = 0
    for xi, p in states(BIPOLAR, 2):
        e = sum(x * (x + y) for x, y in zip(w, xi, strict=True)) - 1
        after = [x - 2 * eta * e * (2 * x + y) for x, y in zip(w, xi, strict=True)]
        for new, q in states(BIPOLAR, 2):
            total += p * q * (sum(x * (x + y) for x, y in zip(after, new, strict=True)) - 1) ** 2
    at = values_of(w, [sympy.Rational(1, 9) ** k for k in range(1, 5)]) | {sympy.Symbol("eta"): eta}
    assert theory.derive_next_step_loss().expression.subs(at) == total


def test_the_loss_after_a_step_splits_into_the_old_error_and_the_new_noise():
    square = theory.derive_squared_norm().expression
    error = theory.expectation((square - 1) ** 2)
    parts = error + sympy.Symbol("mu2") * theory.derive_next_step_square().expression
    assert sympy.expand(theory.derive_next_step_loss().expression - parts) == 0


@pytest.mark.parametrize(("n", "m"), [(3, 3), (2, 4), (1, 1)])
def test_derived_gradient(n, m):
    gradient = theory.derive_gradient(n, m).expression
    W, xi = (sympy.Matrix(1, m, lambda _, j, s=s: sympy.Symbol(f"{s}{j}", real=True)) for s in ("W_0", "xi_"))
    step = 2 * (W.dot(W) - 1 + W.dot(xi)) * (2 * W + xi)
    assert (gradient.row(0) - step).applyfunc(sympy.expand) == sympy.zeros(1, m)
    assert gradient[1:, :] == sympy.zeros(n - 1, m)


def test_derived_norm():
    eta, u, R = sympy.symbols("eta u R")
    printed = 1 - 4 * eta * u * (2 + u) + 4 * eta**2 * u**2 * (4 + 4 * u + R)
    assert sympy.expand(theory.derive_squared_norm().expression.subs(P2, 1) - printed) == 0
    assert theory.expectation(u**2 * R - u**3) == theory.derive_moment(2, 1).expression
    assert theory.expectation(3) == 3


@pytest.mark.parametrize("bad", ["u", "__import__('pathlib').Path('x').touch()", None, [1], 0.5])
def test_only_sympy_is_an_expression(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"`expression` must be a SymPy polynomial in u and R; got"):
        theory.expectation(bad)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("noise", "kurtosis"), FAMILIES)
def test_family_moments_are_those_of_the_density(noise, kurtosis):
    std = 0.7
    got = theory.noise_moments(noise, std, excess_kurtosis=kurtosis)
    with mpmath.workdps(30):
        s = mpmath.mpf(std)
        density = {
            "uniform": lambda x: 1 / (2 * s * mpmath.sqrt(3)),
            "normal": lambda x: mpmath.npdf(x, 0, s),
            "laplace": lambda x: mpmath.exp(-mpmath.sqrt(2) * abs(x) / s) / (s * mpmath.sqrt(2)),
        }
        for k, value in enumerate(got, 1):
            if noise in density:
                end = s * mpmath.sqrt(3) if noise == "uniform" else mpmath.inf
                exact = 2 * mpmath.quad(lambda x, k=k: x ** (2 * k) * density[noise](x), [0, s, end])
            else:
                size, share = (1.0, 1.0) if noise == "bipolar" else three_point(kurtosis)
                exact = share * (size * std) ** (2 * k)
            assert value == pytest.approx(float(exact), rel=ROUNDING)
    if noise != "three-point":
        assert theory.excess_kurtosis(noise) == pytest.approx(got[1] / got[0] ** 2 - 3, abs=1e-14)
    else:
        assert got[1] / got[0] ** 2 - 3 == pytest.approx(kurtosis, abs=1e-14)


def draw(rng, noise, shape, kurtosis=None):
    """Unit-variance noise from NumPy's own generators."""
    if noise == "bipolar":
        return rng.choice([-1.0, 1.0], size=shape)
    if noise == "three-point":
        size, share = math.sqrt(kurtosis + 3), 1 / (kurtosis + 3)
        return rng.choice([-size, 0.0, size], p=[share / 2, 1 - share, share / 2], size=shape)
    return {
        "uniform": lambda: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
        "normal": lambda: rng.normal(size=shape),
        "laplace": lambda: rng.laplace(scale=1 / math.sqrt(2), size=shape),
    }[noise]()


def test_fourth_moment_by_sampling():
    """Corrected L28-L30 and L25 within standard errors; false alarms: 1e-4 for all together."""
    rng = np.random.default_rng(3)
    w, std = np.array([0.7, -0.5, 0.3, 0.2, 0.1]), 0.6
    limit = stats.norm.isf(1e-4 / (2 * 2 * len(FAMILIES)))
    for noise, kurtosis in FAMILIES:
        xi = std * draw(rng, noise, (200_000, w.size), kurtosis)
        mu = theory.noise_moments(noise, std, excess_kurtosis=kurtosis)
        u = xi @ w
        right = theory.fourth_moment(w, std, mu[1])
        mixed = float(theory.derive_moment(2, 1).expression.subs(values_of(w, mu)))
        for sample, mean in ((u**4, right), (u**2 * np.sum(xi**2, axis=1), mixed)):
            error = sample.std(ddof=1) / math.sqrt(sample.size)
            assert abs(sample.mean() - mean) < limit * error
        # The twin: the printed 6 for 3 in the first line of the print.
        pairs = np.sum(w**2) ** 2 - np.sum(w**4)
        assert abs(np.mean(u**4) - (right + 3 * std**4 * pairs)) > 20 * np.std(u**4) / math.sqrt(u.size)


def test_fourth_moment_at_50_digits():
    rng = np.random.default_rng(0)
    for scale in (1e-60, 1.0, 1e60):
        w = rng.normal(size=9) * scale
        for ratio in (1.0, 1.8, 3.0, 40.0):
            with mpmath.workdps(50):
                s, squares = mpmath.mpf(0.3), [mpmath.mpf(float(x)) ** 2 for x in w]
                fourth = sum(x**2 for x in squares)
                exact = 3 * s**4 * sum(squares) ** 2 + (mpmath.mpf(ratio * 0.3**4) - 3 * s**4) * fourth
            assert theory.fourth_moment(w, 0.3, ratio * 0.3**4) == pytest.approx(float(exact), rel=ROUNDING)
    table = theory.fourth_moment(np.ones((3, 2, 4)), [[0.1], [0.2], [0.3]], 1.0)
    assert table.shape == (3, 2)
    assert theory.fourth_moment([0.0, 0.0], 0.1, 1.0) == 0.0
    assert theory.fourth_moment([1.0, 2.0], 0.0, 0.0) == 0.0


# --- Drift ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "kurtosis"), [("bipolar", None), ("three-point", -0.5), ("three-point", 4.0)]
)
def test_drift_is_the_limit_of_enumerated_steps(noise, kurtosis):
    w, std = np.array([0.7, 0.5, -0.3]), 0.3
    size, share = three_point(-2.0 if kurtosis is None else kurtosis)
    points = [(-size * std, share / 2), (0.0, 1 - share), (size * std, share / 2)]
    all_states = list(itertools.product(points, repeat=3))
    xi = np.array([[x for x, _ in state] for state in all_states])
    p = np.array([math.prod(q for _, q in state) for state in all_states])
    start = np.sum(w**4) / np.sum(w**2) ** 2
    gaps = []
    for eta in (1e-3, 5e-4):
        after = w - 2 * eta * (w @ w - 1 + xi @ w)[:, None] * (2 * w + xi)
        change = np.sum(after**4, axis=1) / np.sum(after**2, axis=1) ** 2 - start
        drift = theory.fourth_norm_drift(w, noise, std, eta, excess_kurtosis=kurtosis)
        gaps.append(p @ change - drift)
    # What is left is of order eta^3: it falls by 8 when eta is halved.
    assert gaps[0] / gaps[1] == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize(("noise", "kurtosis"), FAMILIES)
def test_drift_is_the_derived_one(noise, kurtosis):
    drift, eta = theory.derive_fourth_norm_drift(), sympy.Symbol("eta")
    assert drift.expression.coeff(eta, 1) == 0
    w, std = np.array([0.7, 0.5, -0.3, 0.2]), 0.3
    at = values_of([sympy.Rational(x) for x in w], theory.noise_moments(noise, std, excess_kurtosis=kurtosis))
    got = theory.fourth_norm_drift(w, noise, std, 1.0, excess_kurtosis=kurtosis)
    assert got == pytest.approx(float(drift.expression.subs(at | {eta: 1})), rel=1e-12)


def test_drift_has_the_sign_of_the_kurtosis_on_average():
    """Random unit encodings; false alarms 1e-4. The source infers the opposite sign."""
    m, k, mu2, mu4, eta = 16, *sympy.symbols("m mu2 mu4 eta")
    formula = 48 * eta**2 * k * (k - 1) * (mu4 - 3 * mu2**2) / ((k + 2) * (k + 4) * (k + 6))
    assert sympy.simplify(theory.derive_random_drift().expression - formula) == 0
    w = np.random.default_rng(8).normal(size=(20_000, m))
    w /= np.linalg.norm(w, axis=1)[:, None]
    for noise, sign in (("bipolar", -1), ("laplace", 1)):
        drift = theory.fourth_norm_drift(w, noise, 0.1, 0.01)
        mean = theory.random_fourth_norm_drift(m, noise, 0.1, 0.01)
        assert math.copysign(1, mean) == sign
        error = drift.std(ddof=1) / math.sqrt(drift.size)
        assert abs(drift.mean() - mean) < stats.norm.isf(1e-4 / 4) * error
        assert abs(drift.mean() + mean) > 10 * error
    assert theory.random_fourth_norm_drift(m, "normal", 0.1, 0.01) == 0
    assert theory.random_fourth_norm_drift([1, 16], "bipolar", 0.1, 0.01)[0] == 0


def test_flat_and_one_hot_encodings():
    """Bipolar noise does not move a flat pair; a one-hot encoding is left by isotropic diffusion alone."""
    pair = np.array([1.0, -1.0]) / math.sqrt(2)
    isotropic = theory.fourth_norm_drift(pair, "normal", 0.1, 0.1)
    assert theory.fourth_norm_drift(pair, "bipolar", 0.1, 0.1) == pytest.approx(0, abs=1e-12 * isotropic)
    one_hot = np.eye(16)[0]
    for noise, _ in FAMILIES[:4]:
        assert theory.fourth_norm_drift(one_hot, noise, 0.1, 0.1) == pytest.approx(
            -8 * 15 * 0.1**6, rel=1e-12
        )


@given(
    st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3), min_size=1, max_size=8),
    st.floats(-2, 30),
    st.floats(0.1, 10),
)
def test_drift_has_the_symmetries_of_the_noise(w, kurtosis, scale):
    unit = np.array(w) / np.linalg.norm(w)
    options = {"excess_kurtosis": kurtosis}
    # Permutations and signs are symmetries of noise that is independent on each neuron.
    for other in (unit[::-1], -unit):
        drift = theory.fourth_norm_drift(other, "three-point", 0.3, 0.1, **options)
        same = theory.fourth_norm_drift(unit, "three-point", 0.3, 0.1, **options)
        assert drift == pytest.approx(same, rel=1e-9, abs=1e-12)
    assert theory.fourth_moment(scale * unit, 0.3, (kurtosis + 3) * 0.3**4) == pytest.approx(
        scale**4 * theory.fourth_moment(unit, 0.3, (kurtosis + 3) * 0.3**4), rel=1e-9
    )


def test_random_fourth_norm():
    assert theory.derive_random_fourth_norm().expression == 3 / (sympy.Symbol("m") + 2)
    x = np.random.default_rng(4).normal(size=(20_000, 16))
    shape = np.sum(x**4, axis=1) / np.sum(x**2, axis=1) ** 2
    # False alarms 1e-4.
    error = shape.std(ddof=1) / math.sqrt(shape.size)
    assert abs(shape.mean() - 3 / 18) < stats.norm.isf(1e-4 / 2) * error
    assert abs(shape.mean() - 3 / 16) > 10 * error
