"""Codes along p: between the values that were solved they have the loss of those that are solved there."""

import numpy as np
import pytest

from superposition.solvers import codes
from superposition.solvers.loss import row_loss
from superposition.theory.rug import zero_ratio_loss


@pytest.fixture(scope="module")
def line():
    """Return the shifted hexagon, whose best parameters jump at p = 0.18 or so."""
    return codes.lines(["hexagon"], low=0.15, high=0.25, tol=3e-5)[1]


def test_losses_in_between_are_those_of_blocks(line):
    for p in (0.157, 0.19, 0.233):
        alone = codes.blocks([p], ["hexagon"])[1][0].loss
        assert line.at(p).loss <= alone * (1.0 + 1e-4)
        if not 0.17 < p < 0.21:  # there `blocks` may end at another optimum
            assert line.at(p).loss >= alone * (1.0 - 1e-4)


def test_a_line_goes_through_what_was_solved(line):
    assert np.all(np.diff(line.p) > 0.0)
    assert (line.p[0], line.p[-1]) == pytest.approx((0.15, 0.25))
    for k in (0, 3, line.p.size - 1):
        one = line.at(line.p[k])
        assert (one.name, one.shifted, one.n_hidden) == ("hexagon shifted", True, 3)
        found = one.loss, one.a, one.b, one.shift
        assert found == pytest.approx((line.loss[k], line.a[k], line.b[k], line.shift[k]), rel=1e-9)
    assert np.all(line.loss < zero_ratio_loss(line.p))


def test_losses_are_those_of_the_parameters(line):
    """The output of the first feature stands for all; G has the products of unit vectors in the plane."""
    G = np.cos(np.pi / 3 * np.arange(6))
    for k in (0, line.p.size // 2, line.p.size - 1):
        row = line.a[k] * (G - line.shift[k]) / (1 - line.shift[k])
        assert row_loss(row, 0, line.b[k], line.p[k]).loss == pytest.approx(line.loss[k], rel=1e-6)
    for p in (0.152, 0.24):
        one = line.at(p)
        row = one.a * (G - one.shift) / (1 - one.shift)
        assert row_loss(row, 0, one.b, p).loss == pytest.approx(one.loss, rel=1e-3)


def test_values_are_added_around_the_jump(line):
    """Where the parameters jump the loss has a kink, which no polynomial crosses."""
    steps = np.diff(np.log(line.p))
    jump = np.argmax(np.abs(np.diff(line.shift)))
    assert steps[jump] < 0.1 * np.median(steps)
