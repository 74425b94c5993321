"""Closed forms of structured codes against SymPy, mpmath and exact losses; bounds against random models."""

from functools import cache

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given
from hypothesis import strategies as st

from superposition.solvers import rug
from superposition.theory import codes
from superposition.theory import rug as rug_theory

PAIR = np.array([[1.0, -1.0], [-1.0, 1.0]])
P = (1e-8, 1e-4, 0.01, 0.1, 0.4, 0.7, 0.95, 0.99999, 1.0)


# --- Pairs and dropping -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def antipodal():
    """Cross and square, the coefficients of the derived loss p/3 - 2 a cross + a² square."""
    found = codes.derive_antipodal_loss()
    p, a, beta = found.symbols
    loss = sp.Poly(found.expression, a)
    assert sp.expand(loss.coeff_monomial(1) - p / 3) == 0
    return {"cross": -loss.coeff_monomial(a) / 2, "square": loss.coeff_monomial(a**2), "symbols": (beta, p)}


@pytest.mark.parametrize("p", P)
def test_antipodal_optimum_is_the_derived_loss_at_its_minimum(antipodal, p):
    cross, square = (
        sp.lambdify(antipodal["symbols"], antipodal[name], "mpmath") for name in ("cross", "square")
    )
    with mpmath.workdps(50):
        exact = mpmath.mpf(p)

        def slope(x):
            return mpmath.diff(lambda y: cross(y, exact) ** 2 / square(y, exact), x)

        best = mpmath.findroot(slope, (0.09 * p**2, min(p, 0.12 * p**2 + p**3)), tol=1e-60, verify=False)
        least = exact / 3 - cross(best, exact) ** 2 / square(best, exact)
        scale = cross(best, exact) / square(best, exact)
        assert abs(codes.antipodal_loss(p) / least - 1) < 1e-12
        found_a, found_b = codes.antipodal_optimum(p)
        assert abs(found_a / scale - 1) < 1e-13
        assert abs(found_b / (scale * best) - 1) < 1e-12 + 1e-15 / p


def test_antipodal_slope_by_the_bias_changes_sign_once(antipodal):
    profile = sp.lambdify(antipodal["symbols"], antipodal["cross"] ** 2 / antipodal["square"], "numpy")
    shifts = np.geomspace(1e-6, 1.0, 4001)
    for p in (0.05, 0.3, 0.6, 0.9, 0.99):
        rises = np.diff(profile(shifts, p)) > 0
        assert np.count_nonzero(np.diff(rises.astype(int))) == 1


@pytest.mark.parametrize("p", P[1:])
def test_antipodal_loss_is_the_exact_loss_of_the_pair(p):
    a, b = codes.antipodal_optimum(p)
    exact = rug.exact_loss(a * PAIR, b, p)
    assert abs(codes.antipodal_loss(p) - exact.loss) <= exact.error_estimate + 1e-14 * p


def test_antipodal_loss_lies_below_both_printed_forms(antipodal):
    p = np.linspace(0.001, 1.0, 200)
    beta, symbol = antipodal["symbols"]
    cross, square = (antipodal[name].subs(beta, 0) for name in ("cross", "square"))
    printed = symbol**2 * (32 - 25 * symbol) / (48 * (4 - 3 * symbol))
    assert sp.simplify(symbol / 3 - cross**2 / square - printed) == 0
    assert sp.expand(symbol / 3 - 2 * cross + square - symbol**2 / 6) == 0
    unbiased = sp.lambdify(symbol, printed)(p)
    assert np.all(codes.antipodal_loss(p) < unbiased)
    assert np.all(unbiased < p**2 / 6)


def test_antipodal_pair_of_the_rarest_features_is_finite():
    for p in (5e-324, 1e-320, 1e-200, 1e-155):
        a, b = codes.antipodal_optimum(p)
        assert a == 1.0
        assert b == 0.0 or b == pytest.approx(5 * p * p / 48, rel=1e-9)
        assert codes.antipodal_loss(p) == pytest.approx(p * p / 6, abs=1e-320)


def test_antipodal_series():
    p = 1e-4
    assert (codes.antipodal_loss(p) / p**2 - 1 / 6) / p == pytest.approx(-1 / 192, rel=1e-3)
    a, b = codes.antipodal_optimum(p)
    assert (a - 1) / p == pytest.approx(1 / 8, rel=1e-3)
    assert b / p**2 == pytest.approx(5 / 48, rel=1e-3)


def test_dropped_loss_is_the_exact_loss_of_a_constant():
    for p in (0.01, 0.3, 1.0):
        dropped = rug_theory.zero_ratio_loss(p)
        assert rug.exact_loss([[0.0]], p / 2, p).loss == pytest.approx(dropped, rel=1e-12)


def test_skew_pair_beats_the_antipodal_pair():
    assert list(codes.derive_skew_pair().expression) == [sp.Rational(1, 3), sp.Rational(25, 162)]
    for p in (0.01, 0.3):
        exact = rug.exact_loss([[1.0, -1 / 3], [-3.0, 1.0]], 0.0, p).loss
        assert codes.skew_pair_loss(p) == pytest.approx(exact, rel=1e-11)
        assert exact < codes.antipodal_loss(p)


# --- Interference without a positive part -------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5, 12])
def test_cut_polygon_has_rank_three_and_its_constant(n):
    M = codes.cut_polygon(n)
    assert np.linalg.matrix_rank(M, tol=1e-9) == (1 if n < 3 else 3)
    assert np.all(np.diag(M) == 1)
    assert np.max(M - np.eye(n)) <= 0
    p = 1e-6
    assert rug.exact_loss(M, 0.0, p).loss / p**2 == pytest.approx(codes.small_p_constant(M), rel=1e-4)
    for on in (0.01, 0.3, 0.9):
        assert rug.exact_loss(M, 0.0, on).loss <= codes.collision_loss(on, n) * (1 + 1e-9)


def test_collision_loss_at_ratio_proportional_to_p():
    p, c = 1e-6, 1.5
    limit = p / 3 * (1 - np.exp(-3 / c))
    assert codes.collision_loss(p, round(3 / (c * p))) == pytest.approx(limit, rel=1e-4)
    assert codes.collision_loss(0.3, 1) == 0.0


# --- Priority codes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 5, 6])
def test_priority_code_approaches_its_infimum(n):
    p = 0.1
    limit = codes.priority_plane_loss(p, n)
    excess = []
    for spread in (3.0, 10.0, 30.0):
        M = codes.priority_map(n, spread)
        assert np.linalg.matrix_rank(M / np.abs(M).max(axis=1, keepdims=True), tol=1e-9) == 2
        excess.append(rug.exact_loss(M, 0.0, p).loss - limit)
    assert abs(excess[2]) < 0.1 * p**2 / 6
    assert abs(excess[2]) < abs(excess[1]) < abs(excess[0])


def test_priority_plane_loss_counts_silencing_features():
    p, n = 0.2, 6
    larger = np.array([0, 0, 1, 2, 3, 3])
    assert codes.priority_plane_loss(p, n) == pytest.approx(p / 3 * np.mean(1 - (1 - p) ** larger), rel=1e-14)
    assert codes.priority_constant(n) == pytest.approx(larger.sum() / (3 * n), rel=1e-14)
    assert codes.priority_plane_loss(1e-7, n) / 1e-14 == pytest.approx(codes.priority_constant(n), rel=1e-5)


def test_priority_plane_loss_at_ratio_proportional_to_p():
    p, c = 1e-4, 0.8
    limit = p / 3 * (1 - c / 2 * (1 - np.exp(-2 / c)))
    assert codes.priority_plane_loss(p, round(2 / (c * p))) == pytest.approx(limit, rel=1e-3)


# --- Overlaps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*codes.CODES, "simplex 5", "polygon 9", "quadrangle 7"])
def test_overlaps_belong_to_a_tight_set_of_unit_vectors(name):
    code = codes.overlaps(name)
    values, counts = np.array(code.values), np.array(code.counts)
    assert counts.sum() == code.n_features - 1
    # The squares of a row of a projector times n/m add up to n/m.
    squares = 1 + counts @ values**2
    assert squares == pytest.approx(code.n_features / code.n_hidden, rel=1e-9) or name == "square antiprism"


def shifted(code):
    """Return the dimensions and F of a code whose positive interference is subtracted."""
    mu = max(0.0, *code.values)
    strength = np.maximum(mu - np.array(code.values), 0.0) / (1.0 - mu)
    return code.n_hidden + (mu > 0.0), np.dot(code.counts, codes.pair_cost(strength))


@pytest.mark.parametrize("name", ["pentagon", "icosahedron", "24-cell", "tetrahedron"])
def test_shifted_constant_is_that_of_the_matrix(name):
    from superposition.theory.relu import polygon, polytope

    W = polygon(5) if name == "pentagon" else polytope(name)
    G = W @ W.T
    code = codes.overlaps(name)
    mu = max(0.0, *code.values)
    M = (G - mu) / (1 - mu)
    m, constant = shifted(code)
    assert np.linalg.matrix_rank(M, tol=1e-9) == m
    assert codes.small_p_constant(M) == pytest.approx(constant, rel=1e-12)


def test_quadrangles_tend_to_a_third():
    shares = []
    for q in (3, 9, 81, 729):
        code = codes.overlaps(f"quadrangle {q}")
        m, constant = shifted(code)
        shares.append(constant * m / code.n_features)
    assert shares[-1] == pytest.approx(1 / 3, rel=2e-3)


# --- Lower bounds -------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.data())
def test_the_mean_interference_has_the_bound_of_the_proof(seed, n, data):
    m = data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, m)) @ rng.standard_normal((m, n))
    size = np.exp(data.draw(st.floats(0, 5)) * rng.standard_normal(n))
    M = M * np.sign(np.diag(M))[:, None] * size / size[:, None]
    beside = M / np.diag(M)[:, None] - np.eye(n)
    chi = beside**2 / (1 + beside**2)
    r = m / n  # step 6 of the proof, all rows drawn with probability min(2 r, 1)
    assert chi.sum() / n >= (0.25 / r if r <= 0.5 else 1 - r) - 1e-9
    for theta in (0.2, 0.5, 0.9, 1.0):
        assert theta * np.prod(1 - theta * chi, axis=1).sum() <= m + 1e-9  # step 8 of the proof


# For each family of weights: C, the factor of chi², h, and on which range which row of the derivation counts.
HALF, REST = sp.Rational(1, 2), sp.oo
FAMILIES = {
    "first": (
        sp.Rational(19, 5),
        sp.Rational(1, 6),
        sp.Rational(11, 3),
        [(0, 0, 1), (1, 1, sp.Rational(6, 5)), (5, sp.Rational(6, 5), REST)],
    ),
    "second": (
        sp.Rational(81, 25),
        sp.Integer(0),
        sp.Rational(37, 2),
        [(2, 0, sp.Rational(1, 10)), (3, sp.Rational(1, 10), HALF), (4, HALF, 1), (5, 1, REST)],
    ),
}


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
        needed = {
            "psi": C * psi - chi - part * chi**2,
            "start": sp.Rational(3, 2) - start,
            "steep": h - steep,
        }
        for name, one in needed.items():
            assert _never_negative(one, low, high), (name, row)
    # The check can fail: with less interference to pay for, and just so for rounding.
    psi = found.expression[ranges[-1][0], 0]
    assert not _never_negative(sp.Rational(32, 10) * psi - chi, *ranges[-1][1:])


@pytest.mark.parametrize(("row", "c"), [(0, 0.3), (1, 1.15), (2, 0.07), (3, 0.4), (4, 0.8), (5, 1.7)])
def test_weights_of_rows_are_integrals(row, c):
    steps = 600  # the midpoint rule, whose error is of the order 1/steps at the jumps
    u = (np.arange(steps) + 0.5) / steps
    y = u[:, None]

    def Z(u):
        if row in (3, 4, 5):
            return np.minimum(u, c * y)
        return y * (1 + ((7 * c - 1) * u**8 if row == 2 else (2 * c - 1) * u**2))

    reach = u + c * y
    slope = np.mean(np.where(reach < 1, Z(np.minimum(reach, 1)), 0) - Z(u), axis=0)
    mass = np.mean(Z(u) * np.minimum(u, c * y))
    start = np.mean(np.where(u < c * y, Z(u), 0))
    found = codes.derive_row_weights().evaluate({"c": c}, digits=15)
    expected = [mass**2 / np.mean(Z(u) ** 2), start / mass, np.mean(slope**2) / mass**2]
    assert [float(one) for one in found[row, :]] == pytest.approx(expected, rel=0.01)
    assert np.all(np.diff(Z(u), axis=0) >= 0)
    assert np.all(Z(u) >= 0)


@cache
def _psis():
    found = codes.derive_row_weights()
    return [sp.lambdify(found.symbols, one) for one in found.expression[:, 0]]


def _psi(c, family):
    return next(_psis()[row](c) for row, _, high in FAMILIES[family][3] if c <= high)


@given(
    st.floats(1e-3, 0.95),
    st.floats(-1.5, 1.5),
    st.floats(-0.6, 0.6),
    st.lists(
        st.floats(-2.3, 2.3).flatmap(lambda log: st.sampled_from([np.exp(log), -np.exp(log)])), max_size=4
    ),
)
@example(p=2e-3, a=1.0, b=0.0, c=[-1.2])
@example(p=2e-3, a=1.0, b=0.0, c=[-3.0])
@example(p=0.2, a=0.3, b=0.0, c=[1.2, 1.2])
def test_no_row_loses_less_than_its_interference_costs(p, a, b, c):
    M, bias = np.zeros((len(c) + 1, len(c) + 1)), np.zeros(len(c) + 1)
    M[0], bias[0] = a * np.array([1.0, *c]), b
    loss = rug.exact_loss(M, bias, p, tol=1e-9).per_feature[0]
    for family in FAMILIES:
        dead, k = 1 / (float(FAMILIES[family][2]) / p + 9 / 4 / (1 - p)), p * p * (1 - p)
        q = sum(_psi(abs(one), family) for one in c)
        least = dead * k * q / (dead + k * q) if a > 0 else dead
        assert loss >= least * (1 - 1e-9) - 1e-12


@given(st.integers(0, 2**32 - 1), st.floats(0.003, 0.9), st.integers(1, 7))
def test_relu_bounds_hold_for_models(seed, p, m):
    n = 8
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, m)) / np.sqrt(m)
    M = W @ (W.T + 0.5 * rng.standard_normal((m, n))) * rng.uniform(0.2, 1.2)
    loss = rug.exact_loss(M, rng.uniform(-0.5, 0.3, n), p, tol=1e-8).loss
    assert loss >= codes.relu_bound(p, m / n)
    assert loss >= codes.decoder_bound(p, m / n)


def test_relu_bound_lies_below_every_code_and_reaches_its_limits():
    p = np.geomspace(1e-8, 0.9, 30)
    assert np.all(codes.relu_bound(p, 0.5) < codes.skew_pair_loss(p))
    for n in (5, 8, 40, 400):
        assert np.all(codes.relu_bound(p, 2 / n) < codes.priority_plane_loss(p, n))
        assert np.all(codes.decoder_bound(p, 2 / n) < codes.priority_plane_loss(p, n))
    tiny = 1e-13
    for ratio, limit in ((0.5, 25 / 162), (0.8, 5 / 81), (1e-6, 5e6 / 19 / np.e)):
        assert codes.relu_bound(tiny, ratio) / tiny**2 == pytest.approx(limit, rel=1e-5)
    assert codes.relu_bound(0.3, 1.0) == 0.0


@pytest.mark.parametrize("p", [1e-6, 1e-3, 0.01, 0.03, 0.05, 0.1])
def test_the_best_codes_are_less_than_three_times_the_relu_bound(p):
    n = np.arange(5, 30)  # priority codes, neighbours mixed, then skew pairs, then features kept exactly
    ratios, losses = [1.0, 0.5, *(2 / n)], [0.0, codes.skew_pair_loss(p), *codes.priority_plane_loss(p, n)]
    ratio = np.linspace(0.1, 0.99, 200)
    apart = np.interp(ratio, ratios[::-1], losses[::-1]) / codes.relu_bound(p, ratio)
    assert apart.min() > 1
    assert apart.max() < 3
    assert apart[ratio >= 0.5].max() < 1.5


def test_decoder_bound_at_no_measurement():
    # A genie that tells which features are on leaves 1/12 of each; entropy gives 1/(2 pi e).
    assert codes.decoder_bound(0.3, 0.0) == pytest.approx(0.3 / (2 * np.pi * np.e), rel=1e-14)
    assert codes.decoder_bound(0.3, 0.3) == 0.0
