"""The exact derivatives of the loss of a row, against differences of the exact loss."""

import numpy as np
import pytest

from superposition.solvers.loss import row_hessian
from superposition.solvers.loss import row_loss as exact_row_loss
from superposition.theory.features import Features

from ..oracles import differences


def test_derivatives_by_silent_weights_are_the_limits_of_small_ones():
    row = np.array([1.1, 0.0, 0.0, 0.4, -0.3, 0.2])
    at_zero = row_hessian(row, 0, -0.1, 0.2, frequencies=2**15)
    row[1:3] = 1e-5, -1e-5
    near = row_hessian(row, 0, -0.1, 0.2, frequencies=2**15)
    assert np.abs(at_zero.gradient - near.gradient).max() < 1e-5
    assert np.abs(at_zero.hessian - near.hessian)[np.ix_([0, 1, 3, 6], [0, 1, 3, 6])].max() < 1e-3


def test_an_output_that_is_never_on_loses_its_feature():
    """Its interference has no mass above 0: a sum over frequencies would have no period."""
    assert row_hessian(np.array([0.0, -0.5, -0.3]), 0, 0.0, 0.1).loss == pytest.approx(0.1 / 3.0, rel=1e-14)


@pytest.mark.parametrize("frequencies", [1, 16, 1024])
def test_what_few_frequencies_leave_is_stated(frequencies):
    """One frequency gave a loss of -.0181 without a word; row losses take another route."""
    rows = ([1.0, -0.2, 0.1, -0.1], -0.1, "uniform"), ([0.8, 0.5, -0.4], 0.05, "symmetric")
    for row, bias, values in rows:
        law = Features(len(row), 0.1, values)
        true, best = exact_row_loss(row, 0, bias, law), row_hessian(row, 0, bias, law, frequencies=2**16)
        found = row_hessian(row, 0, bias, law, frequencies=frequencies)
        assert found.loss >= 0.0
        assert abs(found.loss - true.loss) <= found.error_estimate + true.error_estimate
        assert np.abs(found.gradient - best.gradient).max() <= found.gradient_error + best.gradient_error
        assert np.abs(found.hessian - best.hessian).max() <= found.hessian_error + best.hessian_error
        if frequencies == 1:
            assert found.error_estimate > found.loss
    assert row_hessian([1.0, -0.2, 0.1, -0.1], 0, -0.1, 0.1).error_estimate < 1e-7


def test_differences_state_their_error():
    row, pair = np.array([0.8, 0.3, -0.2]), [[0, 0], [1, 0], [0, 1], [1, 1]]
    closed = row_hessian(row, 0, -0.1, 0.2, frequencies=2**16)
    # The same law, written as a group.
    found = row_hessian(row, 0, -0.1, Features(3, 0.2, groups=[([1, 2], pair, [0.64, 0.16, 0.16, 0.04])]))
    assert abs(found.loss - closed.loss) <= found.error_estimate + closed.error_estimate
    assert np.abs(found.hessian - closed.hessian).max() <= found.hessian_error + closed.hessian_error
    assert found.hessian_error < 1e-4


def test_derivatives_are_in_the_units_of_the_features():
    """By differences of fourth order of the exact loss: of the loss, and of the gradient for the Hessian."""
    law, at = Features(3, [0.2, 0.3, 0.1], scale=[2.0, 0.5, 3.0]), [0.9, 0.4, -0.2, -0.1]

    def loss(at):
        return exact_row_loss(at[:3], 0, float(at[3]), law).loss

    def derivatives(at):
        return row_hessian(at[:3], 0, float(at[3]), law, frequencies=2**12)

    found = derivatives(at)
    assert found.gradient == pytest.approx(differences(loss, at, 1e-3, order=4), abs=1e-7)
    by_slope = differences(lambda at: derivatives(at).gradient, at, 1e-3, order=4)
    np.testing.assert_allclose(found.hessian, by_slope, atol=1e-5)


def test_an_own_weight_near_0_has_the_curvature_of_differences():
    """Then the third moment of the own feature is a series; elsewhere it follows from the second one."""
    row = [0.01, -0.2, 0.3, -0.1]
    by_slope = differences(lambda row: row_hessian(row, 0, 0.1, 0.3).gradient, row, 1e-3, order=4)
    np.testing.assert_allclose(row_hessian(row, 0, 0.1, 0.3).hessian[0], by_slope[0], atol=1e-5)
