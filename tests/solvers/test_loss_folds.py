"""Folded means against the sum over patterns, which shares no formula with them."""

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.methods.patterns import by_patterns, chances
from superposition.theory.features import Features
from superposition.theory.features.values import named


def apart(M, b, law):
    """Return by how much losses, and derivatives by rows and biases, are off."""
    n = law.n_features
    true = by_patterns(M, np.arange(n), b, chances(law), named("values", "uniform").parts)
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


@pytest.mark.parametrize("kind", KINDS)
def test_folds_are_the_sum_over_patterns(kind):
    """A hundred roundings of outputs that reach 10 at most; a bias of 0 lies on the kink."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        n = int(rng.integers(1, 6))
        law = Features(n, rng.uniform(0.01, 1.0, n))
        b = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 0, n) * (rng.random(n) < 0.8)
        assert max(apart(KINDS[kind](rng, n), b, law)) < 1e-13


def test_a_wrong_probability_is_seen():
    rng = np.random.default_rng(1)
    M, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    one, two = (evaluator(p, method="folds")((M, b)).per_feature for p in (0.3, 0.3 * (1 + 1e-9)))
    assert np.abs(one - two).max() > 1e-11
