"""Shares of the classes of inputs against the mixture of their losses; what dropping them costs."""

import numpy as np
import pytest
from hypothesis import given

from superposition.solvers.relu.dropping import class_shares, cost_of_dropping
from superposition.solvers.rug import exact_loss
from superposition.theory import relu
from superposition.validate.proofs.properties import models, numbers


@given(models((1, 6), (1, 3), tied=False), numbers(1e-4, 1))
def test_mixture_is_the_exact_loss(model, p):
    """Vertex sums over patterns against the integrated law of the pre-activation: one number."""
    n, M, b = model.n_features, model.M, model.b
    exact = exact_loss(M, b, p)
    ours = sum(
        p**k * (1 - p) ** (n - k) * relu.class_loss(M, b, k, of_map=True, per_feature=True)
        for k in range(n + 1)
    )
    # rounding of ours: see class_loss
    scale = 1e-14 * ((np.abs(M).sum(axis=1) + np.abs(b)) ** 2 + 1)
    assert np.all(np.abs(ours - exact.per_feature) <= exact.per_feature_error + scale)
    total = relu.mixture_loss(M, b, p, of_map=True)
    assert total.total == pytest.approx(n * exact.loss, rel=1e-9, abs=0)


def test_shares_of_a_small_model():
    rng = np.random.default_rng(3)
    W, b, p = rng.normal(size=(6, 2)), rng.normal(size=6) * 0.2, 0.2
    mixture = relu.mixture_loss(W, b, p)
    classes = class_shares(W @ W.T, b, p)
    assert 6 * classes.loss == pytest.approx(mixture.total, rel=1e-10)
    want = np.r_[mixture.terms[:2], mixture.terms[2:].sum()] / mixture.total
    assert np.all(np.abs(classes.shares - want) <= classes.error_estimate + 1e-12)
    assert classes.shares[-1] <= classes.upper_bound <= 1
    assert classes.probabilities.sum() == pytest.approx(1)


def test_shares_of_many_features():
    """Antipodal pairs: all of the loss is in the rest, however rare two features of one pair are."""
    n, p = 400, 1e-5
    W = np.vstack([np.eye(n // 2), -np.eye(n // 2)])
    classes = class_shares(W @ W.T, 0.0, p)
    # E min(u, v)² = 1/6 for each of the two outputs of a pair, whose features are both on
    assert classes.loss == pytest.approx(p**2 / 6, rel=1e-9, abs=0)
    assert classes.shares == pytest.approx([0, 0, 1], abs=1e-9)
    nothing = class_shares(np.eye(2), 0.0, 0.1)
    assert nothing.loss == 0
    assert nothing.shares.tolist() == [0, 0, 0]


def test_dropping_does_not_matter_beyond_twice_the_dimension():
    """One hidden neuron, three features: the regret falls with p², and is below its rigorous bound."""
    costs = [cost_of_dropping(3, 1, p, starts=3, rng=1) for p in (0.1, 0.01)]
    for cost in costs:
        assert -1e-7 < cost.regret <= cost.left_out / cost.best.loss + 1e-9
        assert cost.truncated <= cost.loss <= cost.truncated + cost.left_out
    assert costs[1].regret < 0.03 * costs[0].regret
    assert cost_of_dropping(3, 1, 0.1, starts=3, rng=1) == costs[0]
