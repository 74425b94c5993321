"""The exact derivatives of the loss of a row, against differences of the exact loss."""

import numpy as np
import pytest

from superposition.solvers.loss import row_hessian
from superposition.solvers.loss import row_loss as exact_row_loss
from superposition.solvers.rug import row_loss
from superposition.theory.features import Features


@pytest.mark.parametrize(("p", "zeros"), [(0.1, 0), (0.05, 4), (0.6, 0)])
def test_row_derivatives_are_those_of_the_exact_loss(p, zeros):
    rng = np.random.default_rng(1)
    row = 0.3 * rng.standard_normal(12)
    row[:zeros] = 0.0
    row[5], b = 1.2, -0.15
    found = row_hessian(row, 5, b, p)
    assert abs(found.loss - row_loss(row, 5, b, p).loss) < 1e-11
    z, h = np.append(row, b), 1e-3
    for _ in range(3):
        v = rng.standard_normal(13)
        v /= np.linalg.norm(v)
        if zeros:
            # a weight that leaves 0 makes a kink of the third derivative, which fourth differences feel
            v[:zeros] = 0.0
        values = [row_loss(z[:-1] + s * h * v[:-1], 5, z[-1] + s * h * v[-1], p).loss for s in range(-2, 3)]
        slope = np.dot([1, -8, 0, 8, -1], values) / (12 * h)
        bend = np.dot([-1, 16, -30, 16, -1], values) / (12 * h * h)
        assert abs(slope - v @ found.gradient) < 1e-9
        assert abs(bend - v @ found.hessian @ v) < 1e-6


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
