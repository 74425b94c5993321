"""Closed forms of structured codes against SymPy, mpmath and exact losses; bounds against random models."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from superposition.solvers import rug
from superposition.solvers.loss import value_and_gradient
from superposition.theory import codes
from superposition.theory.features import Features
from superposition.theory.relu import polygon, polytope

# --- Pairs and dropping -------------------------------------------------------------------------------------


def test_antipodal_optimum_is_the_derived_loss_at_its_minimum():
    """The derived loss p/3 - 2 a cross + a² square at its least, at 50 digits; and the exact loss."""
    derived = codes.derive_antipodal_loss()
    p, a, beta = derived.symbols
    loss = sp.Poly(derived.expression, a)
    assert sp.expand(loss.coeff_monomial(1) - p / 3) == 0
    symbolic = -loss.coeff_monomial(a) / 2, loss.coeff_monomial(a**2)
    cross, square = (sp.lambdify((beta, p), one, "mpmath") for one in symbolic)
    gain = sp.lambdify((beta, p), symbolic[0] ** 2 / symbolic[1], "numpy")
    for p in (1e-8, 1e-4, 0.01, 0.1, 0.4, 0.7, 0.95, 0.99999, 1.0):
        found_a, found_b = codes.antipodal_optimum(p)
        with mpmath.workdps(50):
            exact = mpmath.mpf(p)

            def slope(x, p=exact):
                return mpmath.diff(lambda y: cross(y, p) ** 2 / square(y, p), x)

            best = mpmath.findroot(slope, (0.09 * p**2, min(p, 0.12 * p**2 + p**3)), tol=1e-60, verify=False)
            scale = cross(best, exact) / square(best, exact)
            least = exact / 3 - cross(best, exact) * scale
            assert abs(codes.antipodal_loss(p) / least - 1) < 1e-12
            assert abs(found_a / scale - 1) < 1e-13
            assert abs(found_b / (scale * best) - 1) < 1e-12 + 1e-15 / p
        assert np.all(p / 3 - gain(np.geomspace(1e-6, 1.0, 400), p) >= float(least) - 1e-15)
        if p > 1e-8:
            exact = rug.exact_loss(found_a * np.array([[1.0, -1.0], [-1.0, 1.0]]), found_b, p)
            assert abs(codes.antipodal_loss(p) - exact.loss) <= exact.error_estimate + 1e-14 * p


@pytest.mark.parametrize(("p", "other"), [(0.1, 0.6), (0.7, 0.03)])
def test_of_an_antipodal_pair_of_unlike_features_it_is_the_loss_of_one_output_at_its_minimum(p, other):
    law, (a, b) = Features(2, [p, other]), codes.antipodal_optimum(p, other)
    found = value_and_gradient(a * np.array([[1.0, -1.0], [-1.0, 1.0]]), b, law, rows=[0], tol=1e-12)
    assert codes.antipodal_loss(p, other) == pytest.approx(found.loss, rel=1e-11)
    assert [found.by_M[0] @ [1.0, -1.0], found.by_b[0]] == pytest.approx([0.0, 0.0], abs=1e-11)


def test_antipodal_pair_of_the_rarest_features_is_finite():
    for p in (5e-324, 1e-320, 1e-200, 1e-155):
        a, b = codes.antipodal_optimum(p)
        assert a == 1.0
        assert b == 0.0 or b == pytest.approx(5 * p * p / 48, rel=1e-9, abs=0)
        assert codes.antipodal_loss(p) == pytest.approx(p * p / 6, abs=1e-320)


def test_skew_pair_beats_the_antipodal_pair():
    assert list(codes.derive_skew_pair().expression) == [sp.Rational(1, 3), sp.Rational(25, 162)]
    for p in (0.01, 0.3):
        exact = rug.exact_loss([[1.0, -1 / 3], [-3.0, 1.0]], 0.0, p).loss
        assert codes.skew_pair_loss(p) == pytest.approx(exact, rel=1e-11, abs=0)
        assert exact < codes.antipodal_loss(p)


# --- Interference without a positive part -------------------------------------------------------------------


def test_cut_polygon_has_rank_three_and_its_constant():
    for n in (3, 5, 12):
        M = codes.cut_polygon(n)
        assert np.linalg.matrix_rank(M, tol=1e-9) == 3
        assert np.all(np.diag(M) == 1)
        assert np.max(M - np.eye(n)) <= 0
        in_other_units = np.arange(1.0, n + 1.0)[:, None] * M  # each row by its own output
        assert codes.small_p_constant(in_other_units) == pytest.approx(codes.small_p_constant(M), rel=1e-13)
        assert rug.exact_loss(M, 0.0, 1e-6).loss / 1e-12 == pytest.approx(codes.small_p_constant(M), rel=1e-4)
        for p in (0.01, 0.3, 0.9):
            assert rug.exact_loss(M, 0.0, p).loss <= codes.collision_loss(p, n) * (1 + 1e-9)


# --- Priority codes -----------------------------------------------------------------------------------------


def test_priority_plane_loss_counts_silencing_features():
    p, n = 0.2, 6
    larger = np.array([0, 0, 1, 2, 3, 3])
    assert codes.priority_plane_loss(p, n) == pytest.approx(
        p / 3 * np.mean(1 - (1 - p) ** larger), rel=1e-14, abs=0
    )
    assert codes.priority_constant(n) == pytest.approx(larger.sum() / (3 * n), rel=1e-14, abs=0)
    assert codes.priority_plane_loss(1e-7, n) / 1e-14 == pytest.approx(codes.priority_constant(n), rel=1e-5)


# --- Overlaps -----------------------------------------------------------------------------------------------


def test_overlaps_belong_to_a_tight_set_of_unit_vectors():
    for name in [*codes.CODES, "simplex 5", "polygon 9", "quadrangle 7"]:
        code = codes.overlaps(name)
        assert sum(code.counts) == code.n_features - 1
        # The squares of a row of a projector times n/m add up to n/m.
        if name != "square antiprism":
            squares = 1 + np.array(code.counts) @ np.square(code.values)
            assert squares == pytest.approx(code.n_features / code.n_hidden, rel=1e-9), name


@pytest.mark.parametrize("name", ["pentagon", "icosahedron", "24-cell", "tetrahedron"])
def test_shifted_constant_is_that_of_the_matrix(name):
    """What is left of the interference when the largest positive one is subtracted everywhere."""
    W, code = polygon(5) if name == "pentagon" else polytope(name), codes.overlaps(name)
    mu = max(0.0, *code.values)
    M = (W @ W.T - mu) / (1 - mu)
    strength = np.maximum(mu - np.array(code.values), 0.0) / (1.0 - mu)
    assert np.linalg.matrix_rank(M, tol=1e-9) == code.n_hidden + (mu > 0.0)
    constant = np.dot(code.counts, codes.pair_cost(strength))
    assert codes.small_p_constant(M) == pytest.approx(constant, rel=1e-12, abs=0)


# --- Lower bounds -------------------------------------------------------------------------------------------


# For each family of weights: C, the factor of chi², h, and on which range which row of the derivation counts.
Q, REST = sp.Rational, sp.oo
FAMILIES = {
    "first": (Q(19, 5), Q(1, 6), Q(11, 3), [(0, 0, 1), (1, 1, Q(6, 5)), (5, Q(6, 5), REST)]),
    "second": (
        Q(81, 25), Q(0), Q(37, 2),
        [(2, 0, Q(1, 10)), (3, Q(1, 10), Q(1, 2)), (4, Q(1, 2), 1), (5, 1, REST)],
    ),
}  # fmt: skip


def _never_negative(expression, low, high):
    """Decide exactly whether a rational function is >= 0 on [low, high]: roots by Sturm, a sign between."""
    (c,) = expression.free_symbols
    above, below = sp.fraction(sp.together(expression))
    inside = low + 1 if high is sp.oo else (low + high) / sp.Integer(2)
    for factor, power in sp.factor_list(sp.expand(above * below), c)[1]:
        poly = sp.Poly(factor, c)
        ends = [end for end in (low, high) if end is not sp.oo and poly.eval(end) == 0]
        if power % 2 and poly.count_roots(low, None if high is sp.oo else high) > len(ends):
            return False
    return bool(expression.subs(c, inside) > 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_rows_are_what_the_proof_needs(family):
    C, part, h, ranges = FAMILIES[family]
    found = codes.derive_row_weights()
    (c,) = found.symbols
    chi = c**2 / (1 + c**2)
    for row, low, high in ranges:
        psi, start, steep = found.expression.row(row)
        for needed in (C * psi - chi - part * chi**2, sp.Rational(3, 2) - start, h - steep):
            assert _never_negative(needed, low, high), (row, needed)
    # The check can fail: with less interference to pay for, and just so for rounding.
    assert not _never_negative(sp.Rational(32, 10) * found.expression[row, 0] - chi, low, high)


def test_weights_of_rows_are_integrals():
    steps = 600  # the midpoint rule, whose error is of the order 1/steps at the jumps
    u = (np.arange(steps) + 0.5) / steps
    y = u[:, None]
    for row, c in [(0, 0.3), (1, 1.15), (2, 0.07), (3, 0.4), (4, 0.8), (5, 1.7)]:

        def Z(u, row=row, c=c):
            if row >= 3:
                return np.minimum(u, c * y)
            return y * (1 + ((7 * c - 1) * u**8 if row == 2 else (2 * c - 1) * u**2))

        reach = u + c * y
        slope = np.mean(np.where(reach < 1, Z(np.minimum(reach, 1)), 0) - Z(u), axis=0)
        mass, start = np.mean(Z(u) * np.minimum(u, c * y)), np.mean(np.where(u < c * y, Z(u), 0))
        found = codes.derive_row_weights().evaluate({"c": c}, digits=15)
        expected = [mass**2 / np.mean(Z(u) ** 2), start / mass, np.mean(slope**2) / mass**2]
        assert [float(one) for one in found[row, :]] == pytest.approx(expected, rel=0.01)


@given(st.integers(0, 2**32 - 1), st.floats(0.003, 0.9), st.integers(1, 7))
def test_relu_bounds_hold_for_models(seed, p, m):
    n = 8
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, m)) / np.sqrt(m)
    M = W @ (W.T + 0.5 * rng.standard_normal((m, n))) * rng.uniform(0.2, 1.2)
    loss = rug.exact_loss(M, rng.uniform(-0.5, 0.3, n), p, tol=1e-8).loss
    assert loss >= codes.relu_bound(p, m / n)
    assert loss >= codes.decoder_bound(p, m / n)


def test_bounds_lie_below_every_code_and_reach_their_limits():
    p = np.geomspace(1e-8, 0.9, 30)
    assert np.all(codes.relu_bound(p, 0.5) < codes.skew_pair_loss(p))
    for n in (5, 8, 40, 400):
        assert np.all(codes.relu_bound(p, 2 / n) < codes.priority_plane_loss(p, n))
        assert np.all(codes.decoder_bound(p, 2 / n) < codes.priority_plane_loss(p, n))
    tiny = 1e-13
    for ratio, limit in ((0.5, 25 / 162), (0.8, 5 / 81), (1e-6, 5e6 / 19 / np.e)):
        assert codes.relu_bound(tiny, ratio) / tiny**2 == pytest.approx(limit, rel=1e-5)
    assert codes.relu_bound(0.3, 1.0) == codes.decoder_bound(0.3, 0.3) == 0.0
    # A genie that tells which features are on leaves 1/12 of each; entropy gives 1/(2 pi e).
    assert codes.decoder_bound(0.3, 0.0) == pytest.approx(0.3 / (2 * np.pi * np.e), rel=1e-14, abs=0)
