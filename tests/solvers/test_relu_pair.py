"""Two features in one dimension: kernels against 50 digits, minima against brute force, phases."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from superposition.solvers.relu import certify, solve_pair
from superposition.solvers.relu.pair import certificates, diagram, kernels
from superposition.solvers.relu.pair.diagram import PHASES, families, phase_diagram
from superposition.solvers.rug import exact_loss
from superposition.theory.relu import steep_bound

ANTIPODAL, SAME = PHASES.index("antipodal"), PHASES.index("same sign")


def quadrature(a, m, b, p):
    """Integrate the loss of output 1 over x2 between its kinks, exact for cubics, and over x1 by hand."""

    def given_other(t):
        low = min(max(-t / a, mpmath.mpf(0)), mpmath.mpf(1)) if a else mpmath.mpf(0 if t > 0 else 1)

        def primitive(u):
            return ((1 - a) * u - t) ** 3 / (3 * (1 - a)) if a != 1 else t * t * u

        return (1 - p) * max(t, mpmath.mpf(0)) ** 2 + p * (
            low**3 / 3 + primitive(mpmath.mpf(1)) - primitive(low)
        )

    cuts = sorted(c for c in ([-b / m, -(a + b) / m] if m else []) if 0 < c < 1)
    mean = mpmath.quad(lambda v: given_other(b + m * v), [0, *cuts, 1], method="gauss-legendre", maxdegree=3)
    return (1 - p) * given_other(b) + p * mean


CASES = [
    (1.0, -1.0, 0.0, 0.1), (0.7, 0.4, -0.3, 0.5), (1.3, -0.8, 0.2, 0.9), (0.0, -0.5, 0.3, 0.3),
    (0.0, 0.0, 0.0, 0.3), (1e-9, 3e-5, -1e-5, 0.02), (1e-14, -1e-7, 1e-8, 0.02), (1.0, 1e-13, -5e-14, 0.6),
    (3.0, -9.0, -1.7, 1.0), (2.5, 0.0, -0.4, 0.01),
]  # fmt: skip


def test_the_loss_against_50_digits():
    out = np.empty(10)
    for case in CASES:
        kernels.output_loss(*case, out)
        with mpmath.workdps(50):
            true = float(quadrature(*map(mpmath.mpf, case)))
        assert out[0] == pytest.approx(true, rel=1e-13, abs=1e-18)


@pytest.mark.parametrize("case", [*CASES[1:3], *CASES[8:]])
def test_first_and_second_derivatives_against_50_digits(case):
    """Central differences with step 1e-12 err by 1e-24; b = 0 is left out, where the second ones jump."""
    out = np.empty(10)
    kernels.output_loss(*case, out)
    with mpmath.workdps(50):
        *point, p = map(mpmath.mpf, case)
        h = mpmath.mpf(10) ** -12

        def at(shift):
            return quadrature(*[x + h * int(s) for x, s in zip(point, shift, strict=True)], p)

        units = np.eye(3, dtype=int)
        first = [(at(u) - at(-u)) / (2 * h) for u in units]
        pairs = [(units[s] + units[t], units[s] - units[t]) for s in range(3) for t in range(s, 3)]
        second = [(at(u) + at(-u) - at(v) - at(-v)) / (4 * h * h) for u, v in pairs]
    np.testing.assert_allclose(out[1:4], [float(x) for x in first], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(out[4:], [float(x) for x in second], rtol=1e-9, atol=1e-10)


@given(a=st.floats(0, 4), m=st.floats(-3, 3), p=st.floats(0.01, 1))
def test_the_best_bias_is_the_global_one(a, m, p):
    _, least = kernels.least_over_bias(a, a, m, m, p)
    out, scan = np.empty(10), []
    for b in np.linspace(-a - abs(m) - 0.1, abs(m) + 1.0, 400):
        kernels.output_loss(a, m, b, p, out)
        scan.append(out[0])
    assert least <= min(scan) * (1 + 1e-13)


@given(
    ends=st.tuples(*[st.floats(0, 3)] * 2, *[st.floats(-2, 2)] * 2),
    inside=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    p=st.floats(0.01, 1),
)
def test_the_bound_of_a_box_holds(ends, inside, p):
    (a0, a1), (m0, m1) = sorted(ends[:2]), sorted(ends[2:])
    a, m = a0 + inside[0] * (a1 - a0), m0 + inside[1] * (m1 - m0)
    assert kernels.least_over_bias(a0, a1, m0, m1, p)[1] <= kernels.least_over_bias(a, a, m, m, p)[1] + 1e-14


@pytest.mark.parametrize(
    ("p", "r", "bias"),
    [(0.58, 0.8, False), (0.3, 0.1, False), (0.05, 0.02, True), (0.5, 0.6, True), (0.9, 1.0, True)],
)
def test_the_minimum_against_differential_evolution(p, r, bias):
    """Another search on another exact method."""

    def objective(x):
        losses = exact_loss(np.outer(x[:2], x[:2]), x[2:] if bias else 0.0, p, tol=1e-10).per_feature
        return 0.5 * (losses[0] + r * losses[1]) / p

    bounds = [(0, 1.5), (-1.5, 1.5)] + ([(-1, 1)] * 2 if bias else [])
    found = optimize.differential_evolution(objective, bounds, rng=1, popsize=12, maxiter=30, tol=1e-10)
    best = phase_diagram([p], [r], bias=bias).loss[0, 0] / p
    assert best * (1 - 1e-12) <= found.fun <= best * (1 + 1e-4)


@settings(max_examples=20)
@given(p=st.floats(0.01, 1), log_r=st.floats(-1, 1))
def test_the_minimum_is_a_minimum_and_a_model_of_its_loss(p, log_r):
    r = 10**log_r
    found = phase_diagram([p], [r])
    W, b = found.W[0, 0], found.b[0, 0]
    losses = exact_loss(W @ W.T, b, p).per_feature
    assert 0.5 * (losses[0] + r * losses[1]) == pytest.approx(found.loss[0, 0], rel=1e-10, abs=0)
    for i in range(4):
        for step in (-1e-4, 1e-4):
            x = np.concatenate([W[:, 0], b])
            x[i] += step
            near = kernels.derivatives(x, 1.0, p, np.empty(4), np.empty((4, 4)))
            assert 0.5 * (near[0] + r * near[1]) >= found.loss[0, 0] * (1 - 1e-13)


def test_rare_features_are_stored_antipodally():
    """As p falls, the pair with biases 0 loses E min(u, v)^2 = 1/6 on inputs with both features on."""
    found = phase_diagram([1e-3], [0.5, 1.0])
    assert np.all(found.phase == ANTIPODAL)
    np.testing.assert_allclose(found.loss[0], 1e-6 / 6 * np.array([0.75, 1.0]), rtol=5e-3)


def test_dense_features_are_those_of_pca():
    """At p = 1 the model keeps the feature of larger weighted variance; clipping gains near a tie."""
    found = phase_diagram([1.0], [0.1, 0.5, 2.0, 10.0])
    np.testing.assert_array_equal(found.phase, [[0, 0, 1, 1]])
    np.testing.assert_allclose(found.loss[0], 0.5 * np.array([0.1, 0.5, 1, 1]) / 12, rtol=1e-13)
    # at p = 1, x2 -> 1 - x2 turns the signs around: the two families tie
    tied = phase_diagram([1.0], [0.995])
    assert tied.family_loss[0, 0, 0] == pytest.approx(tied.family_loss[0, 0, 2], rel=1e-13, abs=0)
    assert tied.loss[0, 0] < 0.995 / 24


def test_without_biases_equal_features_change_sign_where_the_closed_forms_cross():
    """At importance 1: antipodal p (8 - 5p)^2/48(4 - 3p) and same-sign p (4 + 3p)/24 gained on p/3."""
    p = (40 - 4 * np.sqrt(14)) / 43
    found = phase_diagram([p - 1e-3, p + 1e-3], [1.0], bias=False)
    np.testing.assert_array_equal(found.phase[:, 0], [ANTIPODAL, SAME])
    for x, loss in zip(found.p, found.loss[:, 0], strict=True):
        gains = x * (8 - 5 * x) ** 2 / (48 * (4 - 3 * x)), x * (4 + 3 * x) / 24
        assert loss == pytest.approx(x / 3 - max(gains), rel=1e-12, abs=0)


def test_the_result_does_not_depend_on_the_workers():
    one = phase_diagram([0.3, 0.6], [0.2, 1.0], workers=1)
    diagram._output_losses_on_lattice.cache_clear()
    all_of_them = phase_diagram([0.3, 0.6], [0.2, 1.0])
    np.testing.assert_array_equal(one.W, all_of_them.W)
    np.testing.assert_array_equal(one.loss, all_of_them.loss)


def test_families():
    W = [[1, -1], [1, 0], [0.5, 0.5], [1, 1e-7]]
    np.testing.assert_array_equal(families(np.array(W), True), [0, 1, 2, 1])
    np.testing.assert_array_equal(families(np.array(W), False), [0, 1, 2, 2])


@pytest.mark.parametrize("bias", [True, False])
def test_the_certificate_closes(bias):
    for p, r in ((0.01, 0.1), (0.1, 0.5), (0.5, 1.0)):
        model = solve_pair(p, r, bias=bias, gap=1e-2)
        assert model.certificate.gap <= 1e-2 * model.loss
        assert model.certificate.lower_bound + model.certificate.gap == pytest.approx(model.loss)
        assert model.certificate.kind == ("branch and bound" if bias else "branch and bound, zero bias")


def test_the_certificate_of_a_poor_model_stays_open():
    """Canary: the loss of the best same-sign model, a local minimum 9 times as high, is not certified."""
    found = phase_diagram([0.1], [1.0])
    poor = certify(found.family_loss[0, 0, 2], 0.1, gap=1e-2, most_boxes=10_000)
    assert poor.lower_bound <= found.loss[0, 0]
    assert poor.gap > 0.8 * found.family_loss[0, 0, 2]


def test_the_certificate_of_some_imbalances():
    """At p = 1/2 the best pair is balanced: what is unbalanced is far above, and a range with it is not."""
    best = solve_pair(0.5, gap=1e-2).loss
    apart = certify(1.02 * best, 0.5, gap=1e-2, imbalance=(0.3, 100))
    assert apart.lower_bound > best
    assert certify(1.02 * best, 0.5, gap=1e-2, imbalance=(0, 0.3), most_boxes=10_000).lower_bound <= best
    # No model is that unbalanced and as good: all boxes are left out.
    assert certify(best, 0.5, imbalance=(1e3, 1e6)).gap == 0


@pytest.mark.parametrize("importance", [0.3, 1.0, 4.0])
def test_beyond_the_first_box_an_output_alone_loses_more_than_the_model(importance, monkeypatch):
    seen = []
    monkeypatch.setattr(certificates, "bound_below", lambda *known: seen.append(known[5]) or (0.0, 1))
    p, loss = 0.1, 0.002
    certify(loss, p, importance)
    (edges,) = seen
    assert np.array([1.0, importance]) * steep_bound(edges**2, p) / 2 == pytest.approx([loss, loss], rel=1e-9)
