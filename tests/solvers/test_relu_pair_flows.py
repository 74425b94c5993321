"""Transitions against closed forms, basins against symmetry and a general integrator."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import norm

from superposition.solvers.relu.pair import kernels
from superposition.solvers.relu.pair.basins import pair_basins
from superposition.solvers.relu.pair.diagram import PHASES, families, phase_diagram
from superposition.solvers.relu.pair.transitions import pair_transitions
from superposition.theory.relu import onset_coefficient, onset_importance

ALONE, ANTIPODAL, SAME = PHASES.index("first alone"), PHASES.index("antipodal"), PHASES.index("same sign")


def kink(p, importance, step=1e-5):
    """Return by how much the slope of the least loss in the importance falls there, by differences."""
    below, at, above = phase_diagram([p], importance * (1 + step * np.arange(-1.0, 2.0))).loss[0]
    return (2 * at - below - above) / (step * importance)


def test_a_rare_feature_jumps_in_before_its_onset():
    found = pair_transitions([0.2], lowest=0.05)
    assert (found.phase_before[0], found.phase_after[0], found.is_jump.tolist()) == (ALONE, ANTIPODAL, [True])
    assert found.importance[0] < 0.6 * onset_importance(0.2, -1)
    # at the jump both models have the same loss
    near = phase_diagram([0.2], [found.importance[0]])
    assert near.family_loss[0, 0, 0] == pytest.approx(near.family_loss[0, 0, 1], rel=1e-8)
    assert found.slope_drop[0] == pytest.approx(kink(0.2, found.importance[0]), rel=1e-4)


@pytest.mark.slow
def test_between_the_tricritical_points_it_enters_continuously_at_the_onset():
    """It enters weakly at p = 0.6, then jumps to a strong pair, and joins the mirror image smoothly at 1."""
    found = pair_transitions([0.6], lowest=0.4)
    assert found.is_jump.tolist() == [False, True]
    assert found.importance[0] == pytest.approx(onset_importance(0.6, -1), rel=1e-4)
    assert found.phase_before.tolist() == [ALONE, ANTIPODAL]
    assert found.slope_drop[1] > 100 * found.slope_drop[0]


def test_two_jumps_close_to_each_other_are_told_apart():
    """Just below the lower tricritical point the feature enters in a tiny jump, and soon in a large one."""
    found = pair_transitions([0.512], lowest=0.5)
    assert found.is_jump[:2].tolist() == [True, True]
    assert found.jump[0] < 0.01 < 0.5 < found.jump[1]
    assert found.importance[1] / found.importance[0] == pytest.approx(1.0006, abs=2e-4)


def test_dense_features_jump_again():
    found = pair_transitions([0.95], lowest=0.5)
    assert found.is_jump.all()
    assert found.importance[0] < onset_importance(0.95, -1)
    assert found.importance[1] == 1.0
    assert found.slope_drop[1] == pytest.approx(kink(0.95, 1.0), rel=1e-3)
    assert onset_coefficient(0.95, -1) < 0 < onset_coefficient(0.7, -1)


def test_without_biases_the_sign_flips_in_a_jump():
    found = pair_transitions([0.3], bias=False, lowest=0.1)
    assert [found.phase_before[0], found.phase_after[0], *found.is_jump] == [SAME, ANTIPODAL, True]
    np.testing.assert_allclose(found.importance, 0.152689706, rtol=1e-7)


@pytest.mark.parametrize("bias", [True, False])
def test_the_flow_ends_where_a_general_integrator_ends(bias):
    """SciPy's LSODA on the exact gradient, from starts off the borders of the basins."""
    p, r, free = 0.3, 0.5, 4 if bias else 2
    starts = np.array([[0.5, -0.4, 0, 0], [0.7, 0.5, 0, 0], [-0.2, 0.6, 0, 0]])
    ends = starts.copy()
    losses, reached = kernels.follow_flows(ends, r, p, bias, 20_000)
    assert reached.all()
    grad, hess = np.empty(4), np.empty((4, 4))

    def slope(_t, x):
        kernels.derivatives(x, r, p, grad, hess)
        return np.concatenate([-grad[:free], np.zeros(4 - free)])

    for start, end, loss in zip(starts, ends, losses, strict=True):
        x = solve_ivp(slope, (0, 4000), start, method="LSODA", rtol=1e-8, atol=1e-10).y[:, -1]
        first, second = kernels.derivatives(x, r, p, grad, hess)
        assert 0.5 * (first + r * second) == pytest.approx(loss, rel=1e-6)
        np.testing.assert_allclose(x[:2], end[:2], atol=2e-3)


def test_half_of_the_starts_have_the_wrong_sign():
    """At p = 0.1 the encodings keep their signs: best with probability 1/2. False alarm: one in 15,000."""
    found = pair_basins(0.1, 1.0, starts=400, rng=5)
    assert abs(found.best - 200) <= 4 * 0.5 * np.sqrt(400)
    assert found.best == found.antipodal
    assert found.antipodal + found.dropped + found.same_sign + found.unresolved == 400
    assert found.low < found.fraction < found.high


def test_the_interval_is_wilsons():
    found = pair_basins(0.3, 0.25, starts=200, rng=1, confidence=0.9)
    z, f = norm.ppf(0.95), found.fraction
    middle = (f + z * z / 400) / (1 + z * z / 200)
    half = z / (1 + z * z / 200) * np.sqrt(f * (1 - f) / 200 + z * z / 160_000)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))


def test_basins_are_reproducible():
    one, two = (pair_basins(0.5, 0.6, starts=50, rng=rng) for rng in (3, np.random.default_rng(3)))
    np.testing.assert_array_equal(one.W, two.W)
    assert np.all(one.loss >= phase_diagram([0.5], [0.6]).loss[0, 0] * (1 - 1e-12))
    assert np.sum(families(one.W, True) == 0) == one.antipodal
