"""Small models in several dimensions: losses by a second exact method, known corners, polygons."""

from functools import partial

import numpy as np
import pytest

from superposition.solvers.loss import exact_loss
from superposition.solvers.minimise import minimise
from superposition.solvers.relu import best_polygon, named_groups, polygons
from superposition.solvers.relu.arrangement import shapes
from superposition.solvers.relu.pair.diagram import phase_diagram
from superposition.solvers.results import Status
from superposition.theory.features import Features

from ..oracles import differences


def test_the_third_feature_shares_a_dimension_with_its_like():
    """3 features in 2 dimensions, r below 1: one is alone, the others are the best pair of a dimension."""
    for r in (0.2, 0.6):
        model = minimise(3, 2, Features(3, 0.1, importance=[1.0, 1.0, r]), starts=4)
        assert named_groups(model.W) in ("antipodal pair 0-2, single 1", "single 0, antipodal pair 1-2")
        assert model.loss * 3 == pytest.approx(2 * phase_diagram([0.1], [r]).loss[0, 0], rel=1e-9)


def test_three_equal_features_are_a_triangle_only_if_dense():
    """The triangle beats an antipodal pair and one alone above p = 0.52184, where the exact losses cross."""
    assert named_groups(minimise(3, 2, 0.53, starts=3).W) == "triangle 0-1-2"
    assert "antipodal" in named_groups(minimise(3, 2, 0.51, starts=3).W)


@pytest.mark.parametrize(
    ("p", "wanted"),
    [
        (0.05, "pentagon 0-1-2-3-4"),
        pytest.param(0.4, None, marks=pytest.mark.slow),
        pytest.param(0.8, None, marks=pytest.mark.slow),
    ],
)
def test_five_features_in_the_plane(p, wanted):
    """They are a pentagon, a square with one dropped, or a triangle with two dropped."""
    model = minimise(5, 2, p, starts=3)
    gains = {k: best_polygon(k, p).gain for k in (3, 4, 5)}
    best = max(gains, key=gains.get)
    assert best == {0.05: 5, 0.4: 4, 0.8: 3}[p]
    dropped = p / 3 - p * p / 4
    assert model.loss * 5 == pytest.approx(5 * dropped - gains[best], rel=1e-7)
    if wanted:
        assert named_groups(model.W) == wanted


def test_a_square_is_two_antipodal_pairs():
    square, pair = best_polygon(4, 0.2), phase_diagram([0.2], [1.0])
    assert square.loss == pytest.approx(pair.loss[0, 0], rel=1e-8)
    assert square.a == pytest.approx(pair.W[0, 0, 0, 0] ** 2, abs=1e-3)
    assert best_polygon(2, 0.2).loss == pytest.approx(square.loss, rel=1e-8)


@pytest.mark.parametrize("p", [0.02, 0.6])
def test_a_polygon_that_is_not_finished_says_so(monkeypatch, p):
    """Its loss and gradient are those of the exact loss of the whole model, by differences."""
    monkeypatch.setattr(polygons, "lbfgs", partial(polygons.lbfgs, steps=2))
    found, angles = best_polygon(5, p), 2 * np.pi * np.arange(5) / 5
    M = np.cos(angles[:, None] - angles)

    def loss(log_a, b):
        return exact_loss(np.exp(log_a) * M, np.full(5, b), p).loss

    log_a = np.log(found.a)
    by = differences(lambda x: loss(*x), [log_a, found.b], 1e-5)
    assert found.gradient_norm == pytest.approx(np.hypot(*by) / p, rel=1e-5)
    assert found.gradient_norm > 1e-4
    assert found.status is Status.STALLED
    assert found.loss == pytest.approx(loss(log_a, found.b), rel=1e-9)
    assert found.gain == pytest.approx(5 * (p / 3 - p * p / 4 - found.loss), rel=1e-12)


def test_rarer_features_make_larger_polygons():
    for p, best in ((0.005, 7), (0.02, 6), (0.1, 5), (0.3, 4), (0.75, 3)):
        gains = [best_polygon(k, p).gain for k in range(best - 1, best + 2)]
        assert max(gains) == gains[1]


def test_rare_features_of_a_triangle_are_exact():
    """Obtuse angles with zero bias: inputs with one feature on are exact, so the loss is of order p^2."""
    found = best_polygon(3, 1e-4)
    assert found.loss < 0.2 * 1e-8
    assert found.a == pytest.approx(1, abs=1e-3)


def test_structure():
    angles = 2 * np.pi * np.arange(6) / 6
    hexagon = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert named_groups(hexagon) == "hexagon 0-1-2-3-4-5"
    assert named_groups(1.3 * hexagon[:3]) == "3 in 2 0-1-2"
    assert named_groups([[1.0], [0.4], [-0.3]]) == "3 in 1 at 2 positions 0-1-2"
    assert named_groups([[1.0], [0.4], [0.0]]) == "2 x single 0-1, dropped 2"
    assert named_groups(np.eye(4) - 0.25) == "tetrahedron 0-1-2-3"
    assert named_groups(np.eye(2)) == "single 0, single 1"
    assert named_groups(np.zeros((2, 1))) == "dropped 0, dropped 1"
    # The least length of an encoding is in its own units, whatever those of the longest one.
    for size in (0.01, 100.0):
        rows = [[size, 0.0], [0.0, 0.0011], [0.0, 0.0009]]
        assert named_groups(rows) == "single 0, single 1, dropped 2"
    # two pairs, interleaved, one twice as long, beside a feature alone
    W = [[1, 0, 0], [0, 2, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0]]
    assert named_groups(W) == "antipodal pair 0-3, antipodal pair 1-4, single 2"
    assert shapes(np.eye(4, 2)) == "2 singles, 2 dropped"
    assert shapes(np.zeros((4, 2))) == "4 dropped"
