"""Experiments on the ReLU output model: what they return agrees with other methods; the map of phases."""

from itertools import pairwise, product

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from superposition.solvers import relu as solvers
from superposition.solvers.rug import exact_loss
from superposition.theory.relu import mixture_loss, onset_importance, polygon_energy
from superposition.validate.experiments import relu
from superposition.validate.experiments.relu import phases, truncation


@pytest.fixture(scope="module")
def pair():
    return relu.run_phases(8, 3, reach=10.0, gap=0.2)


# Two features in one dimension


def test_all_phases_are_on_the_map(pair):
    free, zero = (set(np.unique(pair["phase"].sel(model=name))) for name in relu.MODELS)
    assert free == {0, 1, 2}
    assert zero == {2, 3}


@pytest.mark.parametrize("bias", [True, False])
def test_patterns_have_the_loss_of_another_method(pair, bias):
    one = pair.isel(model=0 if bias else 1)
    for j in (0, 3, 7):
        p, losses = float(pair["p"][j]), []
        for W in np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]]):
            b = np.where(W == 0, p / 2, 0.0) if bias else 0.0
            losses.append(exact_loss(np.outer(W, W), b, p).per_feature)
        total = 0.5 * np.array(losses) @ np.stack([np.ones(8), pair["importance"].values])
        np.testing.assert_allclose(one["pattern_loss"].values[j], total.min(axis=0), rtol=1e-8)
        np.testing.assert_array_equal(one["pattern"].values[j], total.argmin(axis=0))
    assert (one["loss"] <= one["pattern_loss"] * (1 + 1e-12)).all()


def test_equal_norms_end_where_the_closed_form_says():
    assert phases.symmetric_until(False) == pytest.approx((40 - 4 * np.sqrt(14)) / 43, abs=2e-6)


def test_continuous_transitions_are_the_onset(pair):
    smooth = ~pair["is_jump"].values & (pair["transition_model"].values == 0)
    p, found = (pair[f"transition_{name}"].values[smooth] for name in ("p", "importance"))
    assert p.size > 0
    # An encoding counts from 1e-5 on, which makes the importance late.
    np.testing.assert_allclose(found, onset_importance(p, -1), rtol=1e-3)


def test_certificates_are_below_the_losses(pair):
    assert (pair["point_lower"] <= pair["point_loss"]).all()
    assert (1 - pair["point_lower"] / pair["point_loss"] <= 0.2 + 1e-12).all()


# Polygons


def test_winners_change_at_the_crossings():
    plane = relu.run_polygons([0.15, 0.3, 0.8], [3, 5], [3, 5], starts=1)
    below, above = plane["crossing_below"].values.tolist(), plane["crossing_above"].values.tolist()
    assert [*below, above[-1]] == ["pentagon", "2 antipodal pairs", "triangle"]
    assert below[1:] == above[:-1]
    for at, low, high in zip(plane["crossing_p"].values, (5, 4), (4, 3), strict=True):
        for p, winner, loser in ((at * 0.99, low, high), (at * 1.01, high, low)):
            assert solvers.best_polygon(winner, p).gain > solvers.best_polygon(loser, p).gain


# Classes of inputs


@pytest.fixture(scope="module")
def few():
    return relu.run_truncation([4, 8], [0.05, 0.5], 0.25, [[3, 2], [5, 2]], [0.1], starts=4)


@pytest.mark.parametrize("kind", truncation.KINDS)
def test_shares_are_those_of_the_mixture(few, kind):
    for n, on in product((4, 8), (0.05, 0.5)):
        M, b = truncation.make_model(kind, n, on / n, 0.25, 0)
        mixture = mixture_loss(M, b, on / n, of_map=True)
        share, one = mixture.terms[2:].sum() / mixture.total, few.sel(kind=kind, n_features=n, on=on)
        assert float(one["share"]) == pytest.approx(share, abs=1e-8)
        assert float(one["bound"]) >= share - 1e-9


def test_what_is_left_out_bounds_the_regret(few):
    # A truncated minimiser is worse than the best by at most what it leaves out.
    assert (few["regret"] >= -1e-9).all()
    assert (few["regret"] <= few["small_left_out"]).all()
    # Three features in two dimensions: the inputs with one on cannot tell models apart that differ a lot.
    assert float(few["regret"].sel(small="3 in 2")[0]) > float(few["regret"].sel(small="5 in 2")[0])


# The sphere picture


def test_sphere_losses_fall_as_more_is_free():
    sphere = relu.run_thomson([(4, 2), (5, 2), (6, 2), (6, 3)], starts=4)
    polygon_losses = polygon_energy(np.array([5, 6])) / 3
    np.testing.assert_allclose(sphere["unit"].values[1:3], polygon_losses, rtol=1e-9)
    for less, more in pairwise(relu.sphere.LOSSES):
        assert (sphere[more] <= sphere[less] + 1e-9).all()
    assert sphere["sphere"].values.tolist()[:2] == ["2 antipodal pairs", "pentagon"]


@pytest.mark.parametrize("model", [0, 1])
def test_phase_figure_has_the_boundaries_and_the_names(pair, model):
    """Each transition is a dot, and has its mirror image."""
    ax = relu.plot_phases(pair, Canvas().subplots(), model)
    names = {solvers.PHASES[k] for k in np.unique(pair["phase"][model])}
    assert {text.get_text() for text in ax.texts} == names
    drawn = np.concatenate([np.log(line.get_ydata()) for line in ax.lines])
    assert drawn.size == 2 * np.sum(pair["transition_model"].values == model)
    np.testing.assert_allclose(np.sort(drawn), np.sort(-drawn), atol=1e-9)
    above = 100 * (pair["pattern_loss"] / pair["loss"] - 1).isel(model=model).transpose("importance", "p")
    mesh = relu.plot_pattern_excess(pair, Canvas().subplots(), model).collections[0]
    np.testing.assert_allclose(np.ravel(mesh.get_array()), np.ravel(above), rtol=1e-9)  # p runs to the right
