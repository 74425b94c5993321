"""Stages of training: heights and rates against exact losses, the stored run, permuted rates."""

import numpy as np
import pytest

from superposition.solvers.loss import exact_loss
from superposition.validate.experiments.relu import stages
from superposition.validate.reference import read


def test_heights_and_rates_are_those_of_the_exact_loss():
    """At the saddle of the first feature; c is small in a new dimension."""
    law, m = stages.MODELS["three"]
    heights, rates = stages.heights_and_rates(law)

    def loss(c):
        W = np.zeros((3, m))
        W[0, 0], W[:, 1] = 1.0, c
        b = np.append(0.0, law.mean[1:])
        return 3.0 * exact_loss(W @ W.T, b, law).loss

    at_saddle = loss(np.zeros(3))
    assert at_saddle == pytest.approx(heights[1], rel=1e-12, abs=0)
    for feature in (1, 2):
        gain = at_saddle - loss(1e-3 * np.eye(3)[feature])
        assert gain / 1e-6 == pytest.approx(rates[feature] / 2.0, rel=1e-3)


def test_a_weight_that_joins_a_used_dimension_is_driven():
    """The flow of a pair gives its second weight, 0 at first, the sign that is not the first one's."""
    law, _ = stages.MODELS["pair"]
    toy = stages.ToyLoss(stages.Model(np.ones((1, 2)), b=law.mean), law)
    for scale in (1e-3, 1e-5):
        start = np.array([[scale, 0.0, *law.mean], [-scale, 0.0, *law.mean]])
        weights, _ = stages.flow(toy, start, 100.0, 0.25)
        assert weights[:, 0] == pytest.approx([1.0, -1.0], abs=0.05)
        assert (weights[:, 1] * [-1.0, 1.0] > 1e-3).all()


@pytest.fixture(scope="module")
def stored():
    return read.read("relu_stages", run="relu.stages")


def test_the_stored_run_is_as_predicted(stored):
    assert stored.sizes["seed"] == 100
    assert all(finding.passed for finding in stages._judge(stored))


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_rates_that_are_two_percent_off_are_noticed(stored, factor):
    slope, *_ = stages._judge(stored.assign(predicted=factor * stored["predicted"]))
    assert not slope.passed
