"""Small models in several dimensions: losses by a second exact method, known corners, polygons."""

import numpy as np
import pytest

from superposition.solvers.minimise import minimise
from superposition.solvers.relu import best_polygon, geometry, named_groups
from superposition.solvers.relu.arrangement import shapes
from superposition.solvers.relu.pair.diagram import phase_diagram
from superposition.solvers.rug import exact_loss
from superposition.theory.features import Features


@pytest.mark.parametrize(("n", "h", "p"), [(3, 2, 0.05), (4, 2, 0.8), (3, 1, 0.2)])
def test_the_loss_is_that_of_the_model(n, h, p):
    importance = np.linspace(1, 0.5, n)
    model = minimise(n, h, Features(n, p, importance=importance), starts=2)
    exact = exact_loss(model.W @ model.W.T, model.b, p)
    assert model.loss == pytest.approx(np.mean(importance * exact.per_feature), rel=1e-11)
    assert model.certificate.gap == model.loss - model.certificate.lower_bound


@pytest.mark.parametrize(("p", "r"), [(0.1, 0.5), (0.6, 0.9), (0.9, 0.3)])
@pytest.mark.parametrize("bias", [True, False])
def test_two_features_in_one_dimension_by_both_solvers(p, r, bias):
    here = minimise(2, 1, Features(2, p, importance=[1.0, r]), bias=bias, starts=10)
    there = phase_diagram([p], [r], bias=bias)
    assert here.loss == pytest.approx(there.loss[0, 0], rel=1e-9)


@pytest.mark.parametrize("r", [0.2, 0.6])
def test_the_third_feature_shares_a_dimension_with_its_like(r):
    """3 features in 2 dimensions, r below 1: one is alone, the others are the best pair of a dimension."""
    model = minimise(3, 2, Features(3, 0.1, importance=[1.0, 1.0, r]), starts=4)
    pair = phase_diagram([0.1], [r])
    assert named_groups(model.W) in ("antipodal pair 0-2, single 1", "single 0, antipodal pair 1-2")
    assert model.loss * 3 == pytest.approx(2 * pair.loss[0, 0], rel=1e-9)


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


@pytest.mark.parametrize(
    ("p", "best", "others"),
    [
        (0.005, 7, (6, 8)),
        (0.1, 5, (4, 6)),
        *(
            pytest.param(p, best, range(3, 9), marks=pytest.mark.slow)
            for p, best in [(0.005, 7), (0.02, 6), (0.1, 5), (0.3, 4), (0.75, 3)]
        ),
    ],
)
def test_rarer_features_make_larger_polygons(p, best, others):
    gain = best_polygon(best, p).gain
    assert all(best_polygon(k, p).gain < gain for k in others if k != best)


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
    # two pairs, interleaved, one twice as long, beside a feature alone
    W = [[1, 0, 0], [0, 2, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0]]
    assert named_groups(W) == "antipodal pair 0-3, antipodal pair 1-4, single 2"
    assert shapes(np.eye(4, 2)) == "2 singles, 2 dropped"
    assert shapes(np.zeros((4, 2))) == "4 dropped"


@pytest.mark.parametrize("n", [5, 6, 8, 9, 12])
def test_both_descriptions_use_the_same_words(n):
    """What hangs together gets one name, with its features or without."""
    rng = np.random.default_rng(n)
    angles = 2 * np.pi * np.arange(n) / n
    polygon = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    W = np.block([[polygon, np.zeros((n, 2))], [np.zeros((2, 2)), np.array([[1, 0], [-2, 0]])]]) @ turn
    name = {5: "pentagon", 6: "hexagon"}.get(n, f"{n}-gon")
    assert geometry(W).parts == tuple(sorted([name, "antipodal pair"]))
    features = "-".join(map(str, range(n)))
    assert named_groups(W) == f"{name} {features}, antipodal pair {n}-{n + 1}"
