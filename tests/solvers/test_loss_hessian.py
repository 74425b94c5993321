"""The exact derivatives of the loss of a row, against differences of the exact loss."""

import numpy as np
import pytest

from superposition.solvers.loss import row_hessian
from superposition.solvers.loss import row_loss as exact_row_loss
from superposition.theory.features import Features


def test_derivatives_by_silent_weights_are_the_limits_of_small_ones():
    row = np.array([1.1, 0.0, 0.0, 0.4, -0.3, 0.2])
    at_zero = row_hessian(row, 0, -0.1, 0.2, frequencies=2**15)
    row[1:3] = 1e-5, -1e-5
    near = row_hessian(row, 0, -0.1, 0.2, frequencies=2**15)
    assert np.abs(at_zero.gradient - near.gradient).max() < 1e-5
    assert np.abs(at_zero.hessian - near.hessian)[np.ix_([0, 1, 3, 6], [0, 1, 3, 6])].max() < 1e-3


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
    law, at, h = Features(3, [0.2, 0.3, 0.1], scale=[2.0, 0.5, 3.0]), np.array([0.9, 0.4, -0.2, -0.1]), 1e-3

    def difference(of):
        return (8.0 * (of(h) - of(-h)) - (of(2.0 * h) - of(-2.0 * h))) / (12.0 * h)

    def derivatives(moved):
        return row_hessian(moved[:3], 0, float(moved[3]), law, frequencies=2**12)

    found = derivatives(at)
    for step, slope, curvature in zip(np.eye(4), found.gradient, found.hessian, strict=True):
        by_loss = difference(lambda t, step=step: exact_row_loss(*split(at + t * step), law).loss)
        by_slope = difference(lambda t, step=step: derivatives(at + t * step).gradient)
        assert slope == pytest.approx(by_loss, abs=1e-7)
        np.testing.assert_allclose(curvature, by_slope, atol=1e-5)


def test_an_own_weight_near_0_has_the_curvature_of_differences():
    """Then the third moment of the own feature is a series; elsewhere it follows from the second one."""
    row, h = np.array([0.01, -0.2, 0.3, -0.1]), 1e-3
    found = row_hessian(row, 0, 0.1, 0.3)
    moved = [row_hessian(row + k * h * np.eye(4)[0], 0, 0.1, 0.3).gradient for k in (2, 1, -1, -2)]
    difference = (8.0 * (moved[1] - moved[2]) - (moved[0] - moved[3])) / (12.0 * h)
    np.testing.assert_allclose(found.hessian[0], difference, atol=1e-5)


def split(at):
    return at[:3], 0, float(at[3])
