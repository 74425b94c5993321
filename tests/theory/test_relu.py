"""Class losses against the derived vertex sums at high precision; solvers compare them with exact losses."""

from math import comb

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from superposition.theory import relu
from superposition.theory.loss.cube import pattern_gradient, pattern_loss

# Digits lost by the vertex sum: weights down to 1e-18 of the largest, up to the power k.
DIGITS = 200


@pytest.fixture(scope="module")
def oracle():
    """Loss of a pattern as derived by SymPy, evaluated by mpmath; `own` is None for an output that is off."""
    functions = {}
    for k in range(1, 6):
        derived = relu.derive_class_loss(k)
        functions[k] = [sp.lambdify(derived.symbols, e, "mpmath") for e in derived.expression]

    def evaluate(g, b, own):
        on = own is not None
        first = [g[own]] if on else []
        return functions[len(g)][on](b, *first, *[x for j, x in enumerate(g) if j != own])

    return evaluate


def random_pattern(rng, k):
    """Weights spread over 18 decades, of both signs, a bias of any size among them, an own place or None."""
    g = rng.choice([-1, 1], k) * 10.0 ** rng.uniform(-rng.choice([0.5, 3, 18]), 0, k)
    b = float(rng.normal() * rng.choice([1e-12, 1e-6, 0.3, 1]) * np.abs(g).max())
    own = int(rng.integers(-1, k))
    return g, b, None if own < 0 else own


def kernel_loss(g, b, own):
    return pattern_loss(g, b, -1 if own is None else own, np.zeros((3, 3**g.size)))


def test_pattern_loss_is_the_derived_one(oracle):
    with mp.workdps(DIGITS):
        for k in (1, 2, 3, 4, 5):
            rng = np.random.default_rng(k)
            for _ in range(80 if k < 5 else 25):
                g, b, own = random_pattern(rng, k)
                exact = oracle([mp.mpf(x) for x in g], mp.mpf(b), own)
                scale = (abs(b) + np.abs(g).sum()) ** 2 + (own is not None)
                assert abs(kernel_loss(g, b, own) - exact) <= 2e-15 * scale
        # All terms are positive: even a corner of the cube that is 1e-3 wide comes out with all its digits.
        for k in (2, 3, 4):
            g = np.full(k, 1.0 / k)
            b = -(g.sum() - 2.0**-10)
            exact = oracle([mp.mpf(x) for x in g], mp.mpf(b), None)
            # rounding of b + sum g moves the corner by 1e-16 of 1e-3, which enters to the power k + 2
            assert abs(kernel_loss(g, b, None) / exact - 1) < 1e-12


def test_pattern_gradient_is_the_derivative(oracle):
    step = mp.mpf(10) ** -60
    with mp.workdps(DIGITS):
        for k in (1, 2, 3, 4):
            rng, work, slope = np.random.default_rng(10 + k), np.zeros((2 * k + 4, 3**k)), np.empty(k)
            for _ in range(25):
                g, b, own = random_pattern(rng, k)
                error = pattern_gradient(g, b, -1 if own is None else own, work, slope)
                assert not work.any()
                point = [mp.mpf(b), *map(mp.mpf, g)]
                for j, value in enumerate([error, *slope]):
                    up, down = ([x + s * step * (i == j) for i, x in enumerate(point)] for s in (1, -1))
                    difference = oracle(up[1:], up[0], own) - oracle(down[1:], down[0], own)
                    scale = abs(b) + np.abs(g).sum() + 1
                    assert abs(-2 * value - difference / (2 * step)) <= 2e-15 * scale


def arrays(n, m, low=-1.5, high=1.5):
    values = st.floats(low, high, allow_subnormal=False)
    return st.lists(values, min_size=n * m, max_size=n * m).map(lambda x: np.reshape(x, (n, m)))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4])
def test_loss_rises_by_the_integral_of_its_slope(k):
    """Between two models far apart, by quadrature: the gradient by W and b, with importances."""
    rng, importance = np.random.default_rng(40 + k), np.array([1.0, 0.3, 0.0, 2.0])
    (W, V), (b, c) = rng.normal(size=(2, 4, 2)), rng.normal(size=(2, 4)) * 0.3

    def slope(s):
        by_W, by_b = relu.class_loss(W + s * V, b + s * c, k, importance, gradient=True)
        return (by_W * V).sum() + (by_b * c).sum()

    rise = relu.class_loss(W + V, b + c, k, importance) - relu.class_loss(W, b, k, importance)
    # asked for 1e-9, which QUADPACK estimates and does not bound where the slope has kinks
    integral, _ = integrate.quad(slope, 0, 1, epsabs=1e-9, epsrel=1e-9, limit=200)
    assert abs(rise - integral) < 1e-7 * (1 + abs(rise))


@given(arrays(5, 2), arrays(1, 5), st.floats(0.01, 1), st.integers(0, 5))
def test_truncation_stays_within_its_bounds(W, b, p, up_to):
    b = b[0]
    full, cut = relu.mixture_loss(W, b, p), relu.mixture_loss(W, b, p, up_to=up_to)
    rest = full.terms[up_to + 1 :].sum()
    assert full.left_out == 0
    assert full.total == pytest.approx(cut.total + rest, rel=1e-12, abs=1e-300)
    assert rest <= cut.left_out + 1e-14 * full.total
    norm, bias = np.linalg.norm(W, axis=1).max(), max(b.max(), 0)
    assert rest <= relu.worst_dropped_bound(5, p, up_to, norm, bias) + 1e-14 * full.total
    weights = np.array([0, 1, 0, 2, 0.5])
    rest = relu.mixture_loss(W, b, p, weights).terms[up_to + 1 :].sum()
    assert rest <= relu.dropped_bound(W @ W.T, b, p, up_to, weights) + 1e-13 * full.total


def test_bounds_are_attained():
    """Outputs that are never negative attain the bound of the weights; equal encodings the worst."""
    n, p = 6, 0.01
    M = np.full((n, n), 0.3)
    full = relu.mixture_loss(M, 0.1, p, of_map=True)
    for up_to in range(n):
        rest = full.terms[up_to + 1 :].sum()
        assert relu.dropped_bound(M, 0.1, p, up_to) == pytest.approx(rest, rel=1e-9, abs=0)
    rest = relu.mixture_loss(np.ones((n, 1)), 0, p).terms[2:].sum()
    silent = n * p / 3 * (1 - (1 - p) ** (n - 1))  # the term x_i² of an output that is too small
    assert relu.worst_dropped_bound(n, p, 1) == pytest.approx(rest + silent, rel=1e-9)
    rest = relu.mixture_loss(np.full((n, 1), 1.5), 0, p).terms[2:].sum()
    assert rest <= relu.worst_dropped_bound(n, p, 1, norm=1.5) < 1.1 * rest


def test_mixture_gradient_is_that_of_its_classes():
    rng, p = np.random.default_rng(4), 0.3
    W, b, importance = rng.normal(size=(4, 2)), rng.normal(size=4), rng.random(4)
    parts = [relu.class_loss(W, b, k, importance, gradient=True) for k in range(4)]
    for k in range(4):
        of_map = relu.class_loss(W @ W.T, b, k, importance, of_map=True)
        assert of_map == relu.class_loss(W, b, k, importance)
    for i, found in enumerate(relu.mixture_loss(W, b, p, importance, 3, gradient=True)):
        assert found == pytest.approx(sum(p**k * (1 - p) ** (4 - k) * parts[k][i] for k in range(4)))


def test_a_row_of_zeros_without_bias_has_the_mean_of_both_slopes():
    """Below 0 the output is off, so it is half the slope above, where the loss is the mean of (x_0 - b)^2."""
    h = 1e-4
    for k in (1, 2):
        by_b = relu.class_loss([[0.0], [1.0]], 0.0, k, gradient=True)[1]
        above = [relu.class_loss([[0.0], [1.0]], [s, 0.0], k) for s in (0.0, h, 2 * h)]
        slope = (-3 * above[0] + 4 * above[1] - above[2]) / (2 * h)  # of a parabola, exact
        assert by_b[0] == pytest.approx(0.5 * slope, rel=1e-9)


def test_extreme_entries():
    """No overflow, underflow or warning; the scale is exact in powers of two."""
    g = np.array([[0.7, -0.3, 1e-9], [-0.3, 0.2, 0.1], [0.4, 0.4, 0.0]])
    b = np.array([-0.2, 0.1, -0.5])

    def losses(exponent, k):
        return relu.class_loss(g * 2.0**exponent, b * 2.0**exponent, k, of_map=True, per_feature=True)

    for k in (1, 2, 3):
        assert losses(-1000, k) == pytest.approx(np.full(3, comb(2, k - 1) / 3))
        assert losses(160, k) * 2.0**-320 == pytest.approx(
            losses(100, k) * 2.0**-200, rel=1e-13, abs=1e-60
        )  # the targets, 2^-320 and 2^-200 of 1/3, scale otherwise
        assert np.isfinite(relu.class_loss(g * 2.0**160, b, k, of_map=True, gradient=True)[0]).all()
    assert relu.class_loss([[0.0]], 5e-324, 1) == pytest.approx(1 / 3)
    assert relu.class_loss([[5e-324]], -5e-324, 1, of_map=True) == pytest.approx(1 / 3)
