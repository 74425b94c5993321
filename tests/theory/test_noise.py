"""Moments of hidden noise, the step and the drift, against enumeration, 50 digits and sampling."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy

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
def test_derivations_are_enumerated(points, m):
    w, eta = WEIGHTS[m], sympy.Rational(1, 7)
    mu = [sum(p * x**k for x, p in points) for k in (2, 4, 6, 8)]
    at = values_of(w, mu) | {sympy.Symbol("eta"): eta}
    moments = [(1, 0), (2, 0), (4, 0), (6, 0), (8, 0), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (0, 2), (0, 3)]
    exact, square, loss = dict.fromkeys(moments, 0), 0, 0
    for xi, p in states(points, m):
        u, R = sum(x * y for x, y in zip(w, xi, strict=True)), sum(x * x for x in xi)
        for a, b in moments:
            exact[a, b] += p * u**a * R**b
        error = sum(x * x for x in w) + u - 1
        after = [x - 2 * eta * error * (2 * x + y) for x, y in zip(w, xi, strict=True)]
        length = sum(x**2 for x in after)
        square += p * length
        loss += p * ((length - 1) ** 2 + mu[0] * length)
    for (a, b), value in exact.items():
        assert theory.derive_moment(a, b).expression.subs(at) == value
    assert theory.derive_next_step_square().expression.subs(at) == square
    assert theory.derive_next_step_loss().expression.subs(at) == loss


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
    assert theory.derive_random_fourth_norm().expression == 3 / (sympy.Symbol("m") + 2)


def test_only_sympy_is_an_expression(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for bad in ("u", "__import__('pathlib').Path('x').touch()", None, [1], 0.5):
        with pytest.raises(ValueError, match=r"`expression` must be a SymPy polynomial in u and R; got"):
            theory.expectation(bad)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("noise", "kurtosis"), FAMILIES)
def test_family_moments_are_those_of_the_density(noise, kurtosis):
    got = theory.noise_moments(noise, 0.7, excess_kurtosis=kurtosis)
    with mpmath.workdps(30):
        s = mpmath.mpf(0.7)
        density = {
            "uniform": lambda x: 1 / (2 * s * mpmath.sqrt(3)),
            "normal": lambda x: mpmath.npdf(x, 0, s),
            "laplace": lambda x: mpmath.exp(-mpmath.sqrt(2) * abs(x) / s) / (s * mpmath.sqrt(2)),
        }.get(noise)
        end = s * mpmath.sqrt(3) if noise == "uniform" else mpmath.inf
        for k, value in enumerate(got, 1):
            if density:
                exact = 2 * mpmath.quad(lambda x, k=k: x ** (2 * k) * density(x), [0, s, end])
            else:
                size, share = (1.0, 1.0) if noise == "bipolar" else three_point(kurtosis)
                exact = share * (size * 0.7) ** (2 * k)
            assert value == pytest.approx(float(exact), rel=ROUNDING, abs=0)
    wanted = theory.excess_kurtosis(noise) if kurtosis is None else kurtosis
    assert got[1] / got[0] ** 2 - 3 == pytest.approx(wanted, abs=1e-14)


def test_fourth_moment_at_50_digits():
    rng = np.random.default_rng(0)
    for scale in (1e-60, 1.0, 1e60):
        w = rng.normal(size=9) * scale
        for ratio in (1.0, 1.8, 3.0, 40.0):
            with mpmath.workdps(50):
                s, squares = mpmath.mpf(0.3), [mpmath.mpf(float(x)) ** 2 for x in w]
                fourth = sum(x**2 for x in squares)
                exact = 3 * s**4 * sum(squares) ** 2 + (mpmath.mpf(ratio * 0.3**4) - 3 * s**4) * fourth
            assert theory.fourth_moment(w, 0.3, ratio * 0.3**4) == pytest.approx(
                float(exact), rel=ROUNDING, abs=0
            )
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
    xi, p = np.moveaxis(np.array(list(itertools.product(points, repeat=3))), 2, 0)
    gaps = []
    for eta in (1e-3, 5e-4):
        after = w - 2 * eta * (w @ w - 1 + xi @ w)[:, None] * (2 * w + xi)
        change = np.sum(after**4, axis=1) / np.sum(after**2, axis=1) ** 2 - np.sum(w**4) / np.sum(w**2) ** 2
        drift = theory.fourth_norm_drift(w, noise, std, eta, excess_kurtosis=kurtosis)
        gaps.append(p.prod(axis=1) @ change - drift)
    # What is left is of order eta^3: it falls by 8 when eta is halved.
    assert gaps[0] / gaps[1] == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize(("noise", "kurtosis"), FAMILIES)
def test_drift_is_the_derived_one(noise, kurtosis):
    drift, eta = theory.derive_fourth_norm_drift(), sympy.Symbol("eta")
    assert drift.expression.coeff(eta, 1) == 0
    w, std = np.array([0.7, 0.5, -0.3, 0.2]), 0.3
    at = values_of([sympy.Rational(x) for x in w], theory.noise_moments(noise, std, excess_kurtosis=kurtosis))
    got = theory.fourth_norm_drift(w, noise, std, 1.0, excess_kurtosis=kurtosis)
    assert got == pytest.approx(float(drift.expression.subs(at | {eta: 1})), rel=1e-12, abs=0)
