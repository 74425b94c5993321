"""Folded means against the sum over patterns, which shares no formula with them."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.methods import enumeration, folding
from superposition.solvers.loss.methods.enumeration import pattern_probabilities, rows_by_patterns
from superposition.solvers.loss.problem import Accuracy, Law, LossProblem
from superposition.theory.features import Features, exclusive


def apart(M, b, law):
    """Return by how much losses, and derivatives by rows and biases, are off."""
    n = law.n_features
    true = rows_by_patterns(M, np.arange(n), b, pattern_probabilities(law), law.values.parts)
    found = evaluator(law, method="folds")((M, b), gradient=True)
    assert np.all(np.abs(found.per_feature - true[0]) <= found.per_feature_error)
    parts = (found.per_feature, true[0]), (n * found.by_M, true[2]), (n * found.by_b, true[3])
    return [float(np.abs(one - other).max()) for one, other in parts]


KINDS = {
    "random": lambda rng, n: rng.normal(size=(n, n)),
    "tied": lambda rng, n: (lambda W: W @ W.T)(rng.normal(size=(n, 2))),
    "eight decades": lambda rng, n: rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-8, 0, (n, n)),
    "tiny off the diagonal": lambda rng, n: (
        np.eye(n) + rng.normal(size=(n, n)) * 10.0 ** -rng.integers(1, 30)
    ),
    "with zeros and ties": lambda rng, n: 0.5 * rng.integers(-2, 3, (n, n)),
}


@pytest.mark.parametrize("values", ["uniform", "symmetric"])
@pytest.mark.parametrize("kind", KINDS)
def test_folds_are_the_sum_over_patterns(kind, values):
    """A hundred roundings of outputs that reach 10 at most; a bias of 0 lies on the kink."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        n = int(rng.integers(1, 6 if values == "uniform" else 5))
        law = Features(n, rng.uniform(0.01, 1.0, n), values)
        b = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 0, n) * (rng.random(n) < 0.8)
        assert max(apart(KINDS[kind](rng, n), b, law)) < 1e-13


def test_symmetric_values_are_folded_up_to_13_features_and_with_derivatives_up_to_11():
    for n, gradient, method in ((11, True, "folds"), (12, True, "lattice"), (13, False, "folds")):
        M = np.random.default_rng(n).normal(size=(n, n))
        f = evaluator(Features(n, 0.1, "symmetric"))
        found = f((M, -0.5), gradient, rows=[0])
        assert found.method == method
        if method == "folds":
            other = evaluator(Features(n, 0.1, "symmetric"), tol=1e-9, method="lattice")((M, -0.5), rows=[0])
            assert abs(found.loss - other.loss) <= found.error_estimate + other.error_estimate


def test_equal_weights_whose_branches_end_late_are_not_folded():
    f = evaluator(Features(13, 0.1, "symmetric"))
    assert f((np.full((13, 13), 0.5), -0.1), rows=[0]).method == "lattice"


def vertex_sum(y, weights, chances, order, edge):
    """Return E F_k(y + sum of w x) as a sum over all corners of all cubes, in fractions."""
    if not weights:
        return max(y, Fraction(0)) ** order / factorial(order)
    (w, *others), (p, *rest) = weights, chances
    step = p / w / (1 - edge)
    places = [(y, order, 1 - p), (y + w, order + 1, step), (y + edge * w, order + 1, -step)]
    return sum(share * vertex_sum(z, others, rest, k, edge) for z, k, share in places if share)


@pytest.mark.parametrize(("values", "edge"), [("uniform", 0), ("symmetric", -1)])
@pytest.mark.parametrize("bias", [-3, -1, 0, 2])
def test_losses_are_the_sums_over_corners_in_fractions(values, edge, bias):
    """E x F_1 is integrated by parts over the value x of the target, feature 0."""
    rng = np.random.default_rng(bias + 3)
    row, chances = rng.integers(1, 16, 6) * rng.choice([-1, 1], 6) / 8, rng.integers(1, 8, 6) / 8
    law = Features(6, chances, values)
    found = evaluator(law, method="folds")((np.tile(row, (6, 1)), bias), rows=[0])
    w, *others = (Fraction(float(entry)) for entry in row)
    p, *rest = (Fraction(float(chance)) for chance in chances)
    two, three = (lambda z, k=k: vertex_sum(bias + z, others, rest, k, edge) for k in (2, 3))
    ends = two(w) - edge * two(edge * w) - (three(w) - three(edge * w)) / w
    square = (1 - p) * two(Fraction(0)) + p / w / (1 - edge) * (three(w) - three(edge * w))
    true = p / 3 + 2 * square - 2 * p / w / (1 - edge) * ends
    assert abs(Fraction(found.loss) - true) <= found.error_estimate
    assert found.loss == pytest.approx(float(true), rel=1e-13)


def test_derivatives_of_symmetric_values_are_differences_of_losses():
    rng = np.random.default_rng(2)
    M, b, step = rng.normal(size=(7, 7)), rng.normal(size=7), 1e-5
    f = evaluator(Features(7, 0.3, "symmetric"), method="folds")
    by_M = f((M, b), gradient=True).by_M
    for j in range(7):
        shift = np.zeros((7, 7))
        shift[:, j] = step
        slope = (f((M + shift, b)).per_feature - f((M - shift, b)).per_feature) / (2.0 * step)
        np.testing.assert_allclose(7 * by_M[:, j], slope, rtol=0, atol=1e-8)


@pytest.mark.parametrize("values", ["uniform", "symmetric"])
def test_features_that_are_never_on_are_folded(values):
    """As given a state of a group."""
    rng = np.random.default_rng(3)
    on = np.array([0.0, 1.0, 0.0, 0.1, 0.2, 0.3])
    law = Law(Features(6, 0.1, values)).given_on(on, np.arange(6))
    problem = LossProblem(law, rng.normal(size=(6, 6)), rng.normal(size=6), np.arange(6))
    found, true = (method.solve(problem, Accuracy(), True) for method in (folding, enumeration))
    for name in ("losses", "by_M", "by_b"):
        np.testing.assert_allclose(getattr(found, name), getattr(true, name), rtol=0, atol=1e-13)


def test_forbidden_patterns_take_no_time():
    """A group of one feature is none; of ten that exclude each other there are eleven patterns."""

    def seconds(groups):
        problem = LossProblem.of(np.eye(10), 0.0, Features(10, 0.05, groups=groups))
        return enumeration.estimated_seconds(problem, Accuracy(), False)

    assert seconds([exclusive([3], 0.05)]) == pytest.approx(seconds([]))
    assert seconds([exclusive(np.arange(10), 0.05)]) < 1e-4 * seconds([])


def test_a_wrong_probability_is_seen():
    rng = np.random.default_rng(1)
    M, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    one, two = (evaluator(p, method="folds")((M, b)).per_feature for p in (0.3, 0.3 * (1 + 1e-9)))
    assert np.abs(one - two).max() > 1e-11
