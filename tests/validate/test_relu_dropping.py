"""The mixture of the classes against the exact loss by another method; shares; what dropping costs."""

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
    assert total.total == pytest.approx(n * exact.loss, rel=1e-9)


def test_shares_of_a_small_model():
    rng = np.random.default_rng(3)
    W, b, importance, p = rng.normal(size=(6, 2)), rng.normal(size=6) * 0.2, rng.random(6), 0.2
    mixture = relu.mixture_loss(W, b, p, importance)
    found = class_shares(W @ W.T, b, p, 2, importance)
    assert 6 * found.loss == pytest.approx(mixture.total, rel=1e-10)
    want = np.r_[mixture.terms[:3], mixture.terms[3:].sum()] / mixture.total
    assert np.all(np.abs(found.shares - want) <= found.error_estimate + 1e-12)
    assert found.shares[-1] <= found.bound <= 1
    assert found.probabilities.sum() == pytest.approx(1)


def test_shares_of_many_features():
    """Antipodal pairs: all of the loss is in the rest, however rare two features of one pair are."""
    n, p = 400, 1e-5
    W = np.vstack([np.eye(n // 2), -np.eye(n // 2)])
    found = class_shares(W @ W.T, 0.0, p)
    # E min(u, v)² = 1/6 for each of the two outputs of a pair, whose features are both on
    assert found.loss == pytest.approx(p**2 / 6, rel=1e-9)
    assert found.shares == pytest.approx([0, 0, 1], abs=1e-9)
    nothing = class_shares(np.eye(2), 0.0, 0.1)
    assert nothing.loss == 0
    assert nothing.shares.tolist() == [0, 0, 0]


def test_dropping_does_not_matter_beyond_twice_the_dimension():
    """One hidden neuron, three features: the regret falls with p², and is below its rigorous bound."""
    found = [cost_of_dropping(3, 1, p, starts=3, rng=1) for p in (0.1, 0.01)]
    for one in found:
        assert -1e-7 < one.regret <= one.left_out / one.best.loss + 1e-9
        assert one.truncated <= one.loss <= one.truncated + one.left_out
    assert found[1].regret < 0.03 * found[0].regret


def test_dropping_cannot_tell_apart_models_without_first_class():
    """Three features in the plane: 2 L_2 tells a pair and a single feature from a triangle."""
    angles = 2 * np.pi * np.arange(3) / 3
    triangle = np.c_[np.cos(angles), np.sin(angles)]
    pair = np.array([[1.0, 0], [-1, 0], [0, 1]])
    for W in (triangle, pair):
        assert relu.class_loss(W, 0.0, 0) + relu.class_loss(W, 0.0, 1) < 1e-30
    assert relu.class_loss(pair, 0.0, 2) == pytest.approx(1 / 3)
    assert relu.class_loss(triangle, 0.0, 2) == pytest.approx(3 / 8)


def test_dropping_is_repeatable_and_takes_importance():
    importance = [1.0, 0.5]
    first, second = (cost_of_dropping(2, 1, 0.2, 1, importance, starts=2, rng=7) for _ in range(2))
    assert first.loss == second.loss
    assert np.array_equal(first.W, second.W)
    assert first == second
    total = relu.mixture_loss(first.best.W, first.best.b, 0.2, importance).total
    assert 2 * first.best.loss == pytest.approx(total, rel=1e-13)
    assert first.hits >= 1
