"""Closed forms at the onset of a second feature, against their SymPy derivation and the exact loss."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from superposition.solvers.rug import exact_loss, row_loss
from superposition.theory.relu import derive, pair

GRID = np.concatenate([np.geomspace(1e-6, 0.1, 6), np.linspace(0.2, 1, 9)])


@pytest.mark.parametrize("sign", [-1, 1])
def test_closed_forms_against_the_derivation(sign):
    """The cost is minimised numerically at 50 digits from the derived expression."""
    p, alpha, delta = sp.symbols("p alpha delta", real=True)
    cost, cubic, gain, drag = derive.derive_onset(sign).expression
    slopes = [sp.diff(cost, alpha), sp.diff(cost, delta)]
    with mpmath.workdps(50):
        for x in GRID:
            at = {p: sp.Float(float(x), 60)}
            guess = (0.3, 0.5 * float(x)) if sign < 0 else (0.2, -0.5)
            a, d = sp.nsolve([s.subs(at) for s in slopes], (alpha, delta), guess, prec=50)
            at |= {alpha: a, delta: d}
            importance = cost.subs(at) / gain.subs(at)
            assert pair.onset_importance(x, sign) == pytest.approx(float(importance), rel=1e-13, abs=0)
            wanted = float((cubic + importance * drag).subs(at))
            assert pair.onset_coefficient(x, sign) == pytest.approx(wanted, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_expansion_against_the_exact_loss(sign):
    """For random alpha, delta: twice the change of the loss, minus two orders, over eps^4 stays bounded."""
    onset, rng = derive.derive_onset(sign).expression, np.random.default_rng(3)
    symbols = sp.symbols("p alpha delta", real=True)
    for p in 4 * (0.2, 0.7, 1.0):
        alpha, delta = rng.uniform(-0.5, 0.5), rng.uniform(0.1, 0.9) * -sign
        at = dict(zip(symbols, (p, alpha, delta), strict=True))
        cost, cubic, gain, drag = (float(one.subs(at)) for one in onset)
        rests = []
        for eps in (1e-2, 5e-3):
            w = np.array([1 + alpha * eps, sign * eps])
            mean = p / 2 * (1 - eps**2 - sign * eps * w[0])
            losses = exact_loss(np.outer(w, w), [delta * eps, mean], p, tol=1e-14).per_feature
            change = losses[0] + 0.7 * (losses[1] - (p / 3 - p * p / 4))
            rests.append(change - eps**2 * (cost - 0.7 * gain) - eps**3 * (cubic + 0.7 * drag))
        assert abs(rests[0]) < 20 * 1e-8
        assert abs(rests[1]) < abs(rests[0]) / 8 + 1e-14


def test_the_tricritical_points_and_limits():
    points = [brentq(pair.onset_coefficient, *ends, args=(-1,)) for ends in ((0.4, 0.6), (0.7, 0.9))]
    np.testing.assert_allclose(points, [0.520247737, 0.837319580], atol=1e-8)
    assert pair.onset_importance(1e-9, -1) == pytest.approx(1e-9)
    assert pair.onset_importance(1e-9, 1) == pytest.approx(5 / 16)
    assert isinstance(pair.onset_importance(0.5, 1), float)
    assert pair.onset_coefficient(GRID, 1).shape == GRID.shape


@given(a=st.floats(1, 6), m=st.floats(-2, 2), b=st.floats(-6, 2), p=st.floats(1e-3, 1))
def test_no_output_beats_the_steep_bound(a, m, b, p):
    assert row_loss([a, m], 0, b, p).loss >= pair.steep_bound(a, p) - 1e-13


def test_the_steep_bound_is_attained():
    for steep in (1.5, 4.0):
        start = (steep - 1) / (steep + 1)
        attained = row_loss([steep], 0, -steep * start, 1.0).loss
        assert pair.steep_bound(steep, 1.0) == pytest.approx(attained, rel=1e-11, abs=0)
