"""Feature benefit, interference, bias and dimensionality against integrals and their inequalities."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from superposition.theory import relu
from superposition.theory.relu import derive, polytopes

REAL = st.floats(-3, 3, allow_subnormal=False)


def integral(function, slope, b):
    edge = -b / slope if slope else 0.5
    points = [edge] if 0 < edge < 1 else None
    return integrate.quad(function, 0, 1, points=points, epsabs=1e-13, epsrel=1e-13)[0]


@given(REAL, REAL)
def test_benefit_and_interference_are_their_integrals(slope, b):
    own = integral(lambda x: (x - max(slope * x + b, 0)) ** 2, slope, b)
    other = integral(lambda x: max(slope * x + b, 0) ** 2, slope, b)
    assert relu.feature_benefit(slope, b) == pytest.approx(1 / 3 - own, abs=1e-12)
    assert relu.interference(slope, b) == pytest.approx(other, abs=1e-12)


@given(st.lists(REAL, min_size=6, max_size=6), st.lists(REAL, min_size=3, max_size=3))
def test_first_class_is_benefit_and_interference(entries, b):
    W, b, importance = np.reshape(entries, (3, 2)), np.array(b), np.array([1.0, 0.5, 2.0])
    M = W @ W.T
    own = 1 / 3 - relu.feature_benefit(np.diag(M), b)
    others = [sum(relu.interference(M[i, j], b[i]) for j in range(3) if j != i) for i in range(3)]
    total = importance @ (own + others)
    assert relu.class_loss(W, b, 1, importance) == pytest.approx(total, rel=1e-12, abs=1e-14)


def test_corner_is_three_times_the_first_class_without_bias():
    W = np.random.default_rng(0).normal(size=(4, 2))
    corner = relu.corner_class_loss(W, 0.0, [1, 2, 0, 1])
    assert corner == pytest.approx(3 * relu.class_loss(W, 0.0, 1, [1, 2, 0, 1]), rel=1e-12)
    b = np.array([-0.2, 0.3, 0.1, -0.1])
    errors = [x - np.maximum(W @ W.T @ x + b, 0.0) for x in np.eye(4)]
    assert relu.corner_class_loss(W, b, [1, 2, 0, 1]) == pytest.approx(
        sum(np.dot([1, 2, 0, 1], error**2) for error in errors)
    )
    for k, W in ((1, np.eye(3)), (3, np.eye(3)), (1, [[1.0], [-1.0]])):  # sums of squares: zero exactly
        assert relu.class_loss(W, 0.0, k) == 0.0


def test_benefit_and_interference_are_the_derived_ones_at_50_digits():
    derived = derive.derive_bias_trade_off()
    rng = np.random.default_rng(6)
    for _ in range(60):
        t = 10 ** rng.uniform(-12, -0.001)
        c = t * (1 + 10 ** rng.uniform(-6, 12))
        own, kept, *_ = derived.evaluate({"t": t, "c": c, "m": c})
        # c - t is rounded before its third power is taken
        slack = 3 * 2.0**-53 * c / (c - t) + 1e-15
        assert abs(relu.interference(c, -t) / kept - 1) <= slack
        assert abs(1 / 3 - relu.feature_benefit(c, -t) - own) <= 1e-15 * (1 + c + t) ** 2
    assert relu.interference(0.2, -0.2) == 0.0


@pytest.mark.slow
@given(st.floats(0.001, 1), st.integers(1, 9))
def test_best_bias_of_a_feature_that_is_not_represented(p, n):
    """p/2 by all classes; the first two alone place it lower."""
    full, cut = map(float, derive.derive_truncated_bias().evaluate({"p": p, "n": n}))
    W = np.zeros((n, 1))
    _, slope = relu.mixture_loss(W, full, p, gradient=True)
    assert slope == pytest.approx(np.zeros(n), abs=1e-13)
    _, slope = relu.mixture_loss(W, cut, p, up_to=1, gradient=True)
    assert slope == pytest.approx(np.zeros(n), abs=1e-13)


def test_projection_holds_for_positive_inputs_only():
    derived = derive.derive_projection()
    gain, (x, z) = derived.expression, derived.symbols
    positive = sp.Symbol("positive", nonnegative=True)
    assert gain.subs(x, positive).is_positive
    assert gain.subs({x: -1, z: 1}) == -1


@given(st.lists(REAL, min_size=12, max_size=12))
def test_dimensionalities_add_up_to_the_rank_at_most(entries):
    W = np.reshape(entries, (4, 3))
    shares = relu.feature_dimensionality(W)
    assert np.all((shares >= 0) & (shares <= 1 + 1e-12))
    rank = sp.Matrix(4, 3, [sp.Rational(x) for x in entries]).rank()  # exactly: none is negligible
    assert shares.sum() <= rank + 1e-9
    assert relu.feature_dimensionality(W * 2.0**60) == pytest.approx(shares, rel=1e-12, abs=0)
    assert relu.feature_dimensionality(polytopes.polygon(7)) == pytest.approx(np.full(7, 2 / 7))
    assert relu.feature_dimensionality(np.zeros((2, 3))).tolist() == [0.0, 0.0]
