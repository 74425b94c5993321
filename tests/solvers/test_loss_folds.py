"""Folded means against the sum over patterns, which shares no formula with them."""

import numpy as np
import pytest

from superposition.solvers.loss.folds import by_folds
from superposition.solvers.loss.patterns import by_patterns, chances
from superposition.theory.features import Features
from superposition.theory.features.values import named


def apart(M, b, law):
    """Return by how much losses, and derivatives by rows and biases, are off."""
    n = law.n_features
    true = by_patterns(M, np.arange(n), b, chances(law), named("values", "uniform").parts)
    found = by_folds(M, np.arange(n), b, law.p)
    assert np.all(np.abs(found[0] - true[0]) <= found[1])
    return [float(np.abs(found[k] - true[k]).max()) for k in (0, 2, 3)]


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
    one, two = (by_folds(M, np.arange(4), b, Features(4, p).p) for p in (0.3, 0.3 * (1 + 1e-9)))
    assert np.abs(one[0] - two[0]).max() > 1e-11
