"""Folded means against sums over patterns, which share no formula with them."""

from fractions import Fraction

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.methods import enumeration, folding
from superposition.solvers.loss.methods.enumeration import pattern_probabilities, rows_by_patterns
from superposition.solvers.loss.problem import Accuracy, Law, LossProblem
from superposition.theory.features import Features

from .loss_oracle import brute_force, slope

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
        M = KINDS[kind](rng, n)
        true = rows_by_patterns(M, np.arange(n), b, pattern_probabilities(law), law.values.parts)
        found = evaluator(law, method="folding")((M, b), gradient=True)
        assert np.all(np.abs(found.per_feature - true[0]) <= found.per_feature_error)
        for one, other in zip(
            (found.per_feature, n * found.by_M, n * found.by_b), (true[0], *true[2:4]), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


def test_symmetric_values_are_folded_up_to_13_features_and_with_derivatives_up_to_11():
    for n, gradient, method in ((11, True, "folding"), (12, True, "fourier"), (13, False, "folding")):
        M = np.random.default_rng(n).normal(size=(n, n))
        f = evaluator(Features(n, 0.1, "symmetric"))
        found = f((M, -0.5), gradient, rows=[0])
        assert found.method == method
        if method == "folding":
            other = evaluator(Features(n, 0.1, "symmetric"), tol=1e-9, method="fourier")((M, -0.5), rows=[0])
            assert abs(found.loss - other.loss) <= found.error_estimate + other.error_estimate


@pytest.mark.parametrize("values", ["uniform", "symmetric"])
@pytest.mark.parametrize("bias", [-3, -1, 0, 2])
def test_losses_are_the_sums_over_corners_in_fractions(values, bias):
    rng = np.random.default_rng(bias + 3)
    row, chances = rng.integers(1, 16, 6) * rng.choice([-1, 1], 6) / 8, rng.integers(1, 8, 6) / 8
    law = Features(6, chances, values)
    found = evaluator(law, method="folding")((np.tile(row, (6, 1)), bias), gradient=True, rows=[0])
    true = brute_force(law, row, 0, bias)
    assert abs(Fraction(found.loss) - true) <= min(found.error_estimate, 1e-13 * true)
    by = np.append(found.by_M[0], found.by_b)
    for place in (0, 1, 6):
        assert by[place] == pytest.approx(float(slope(law, row, 0, bias, place)), rel=0, abs=1e-13)


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
