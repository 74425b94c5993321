"""The explicit stepper: its tableau, order, honesty and statuses, on problems with exact solutions."""

import math

import numpy as np
import pytest

from superposition.solvers.flow import integrate
from superposition.solvers.results import Status
from superposition.theory.compile.kernels import kernel


@kernel
def logistic(t, y, parameters, out):
    for i in range(y.size):
        out[i] = parameters[0] * y[i] * (1 - y[i])


@kernel
def oscillator(t, y, parameters, out):
    out[0] = y[1]
    out[1] = -(parameters[0] ** 2) * y[0]


@kernel
def driven(t, y, parameters, out):
    out[0] = -y[0] + math.cos(t)


@kernel
def decay(t, y, parameters, out):
    out[:] = -parameters * y


@kernel
def squared(t, y, parameters, out):
    out[:] = y * y


@kernel
def growing(t, y, parameters, out):
    out[:] = y


@kernel
def half_undefined(t, y, parameters, out):
    out[0] = 1.0 if t < 1.0 else np.nan
    out[1] = 1.0


# velocity, start, parameters, exact solution
PROBLEMS = {
    "logistic": (logistic, [0.1], [2.0], lambda t: [1 / (1 + 9 * np.exp(-2 * t))]),
    "oscillator": (oscillator, [1.0, 0.0], [3.0], lambda t: [np.cos(3 * t), -3 * np.sin(3 * t)]),
    "driven": (driven, [1.0], [0.0], lambda t: [(np.cos(t) + np.sin(t) + np.exp(-t)) / 2]),
}


def solved(name, times, **options):
    velocity, start, parameters, exact = PROBLEMS[name]
    found = integrate(velocity, start, times, parameters=parameters, **options)
    return found, np.array([exact(t) for t in found.t])


# The finest grids whose errors are still well above rounding: 1e-13, 1e-8 and 1e-12 before the last halving.
@pytest.mark.parametrize(("name", "coarse"), [("logistic", 160), ("oscillator", 80), ("driven", 40)])
def test_order_five(name, coarse):
    errors = []
    for steps in (coarse, 2 * coarse, 4 * coarse):
        # Times so close that every step ends at one of them: steps of equal length.
        found, exact = solved(name, np.linspace(0, 4, steps + 1), rtol=1e-2, min_scale=10.0)
        assert (found.steps, found.rejected) == (steps, 0)
        errors.append(np.abs(found.y - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.1)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_error_is_a_multiple_of_the_tolerance(name):
    for rtol in (1e-3, 1e-6, 1e-9, 1e-12):
        found, exact = solved(name, [0.0, 1.0, 5.0, 20.0], rtol=rtol, min_scale=1.0)
        assert found.status is Status.REACHED
        assert (found.t_end, found.rejected < found.steps) == (20.0, True)
        # Each step may be off by rtol; these flows do not enlarge it. A rounding a step is the floor.
        assert np.abs(found.y - exact).max() <= found.steps * (rtol + 1e-16)


def test_compiled_and_python_velocities_agree():
    for name, (velocity, start, parameters, _) in PROBLEMS.items():
        one = integrate(velocity, start, [0.5, 3.0], parameters=parameters, min_scale=1.0)
        two = integrate(velocity.py_func, start, [0.5, 3.0], parameters=parameters, min_scale=1.0)
        np.testing.assert_allclose(one.y, two.y, rtol=1e-13, err_msg=name)
        assert one.steps == two.steps


def test_entries_keep_their_own_scale_and_groups_share_one():
    rates = [1.0, 0.0, 40.0]
    start = np.array([1.0, 1e-30, 1e-3])
    exact = start * np.exp(-np.array(rates))
    # A floor says below which size only the absolute error counts.
    own, shared, low = (
        integrate(decay, start, 1.0, parameters=rates, rtol=1e-9, **given)
        for given in ({}, {"group": [0, 0, 0]}, {"min_scale": 1.0})
    )
    np.testing.assert_allclose(own.y[0], exact, rtol=1e-7)
    np.testing.assert_allclose(shared.y[0], exact, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(low.y[0], exact, atol=1e-8)
    assert shared.steps < own.steps / 2


def test_shapes_and_times():
    start = np.arange(1.0, 7.0).reshape(2, 3)
    found = integrate(decay, start, [0.0, 0.0, 0.3], parameters=np.ones((2, 3)))
    assert found.y.shape == (3, 2, 3)
    np.testing.assert_array_equal(found.y[:2], [start, start])
    np.testing.assert_allclose(found.y[2], start * math.exp(-0.3), rtol=1e-9)
    assert not found.y.flags.writeable
    start[:] = 0.0
    assert found.y[0, 0, 0] == 1.0
    assert integrate(decay, [1.0], 0.0, parameters=[1.0]).steps == 0
    rest = integrate(decay, [1.0], 1e300, parameters=[0.0])
    assert (rest.y[0, 0], rest.status) == (1.0, Status.REACHED)


def test_budget():
    found = integrate(growing, [1.0], [1.0, 2.0, 1e6], rtol=1e-6, steps=40)
    assert found.status is Status.STEPS
    assert "budget" in found.message
    assert found.steps + found.rejected == 40
    assert 2.0 < found.t_end < 1e6
    np.testing.assert_allclose(found.y[:2, 0], np.exp([1.0, 2.0]), rtol=1e-5)
    assert np.isnan(found.y[2, 0])


def test_divergence():
    # exp(t) leaves the range of doubles at t = 709.78.
    found = integrate(growing, [1.0], [700.0, 800.0], rtol=1e-6)
    assert found.status is Status.DIVERGED
    assert 705 < found.t_end < math.log(np.finfo(float).max)  # the stages of a step are larger than its end
    assert found.y[0, 0] == pytest.approx(math.exp(700), rel=1e-3)
    # 1/(1 - t) has a pole, where steps become shorter than the rounding of t.
    pole = integrate(squared, [1.0], [0.5, 2.0])
    assert pole.status in (Status.STALLED, Status.DIVERGED)
    assert pole.t_end == pytest.approx(1.0, abs=1e-8)
    assert pole.y[0, 0] == pytest.approx(2.0, rel=1e-8)


@pytest.mark.parametrize("velocity", [half_undefined, half_undefined.py_func])
@pytest.mark.parametrize("group", [[0, 1], [0, 0]])
def test_velocities_that_are_not_finite(velocity, group):
    """One entry is enough."""
    found = integrate(velocity, [1.0, 1.0], [0.5, 2.0], group=group)
    assert found.status is Status.DIVERGED
    assert found.t_end == pytest.approx(1.0, abs=1e-12)
    assert found.y[0] == pytest.approx([1.5, 1.5])
    assert np.isnan(found.y[1]).all()


def test_a_velocity_too_fast_for_any_step():
    nowhere = integrate(decay, [1.0], 1.0, parameters=[1e300])
    assert nowhere.status in (Status.STALLED, Status.DIVERGED, Status.STEPS)
    assert nowhere.t_end < 1e-290
    assert nowhere.steps + nowhere.rejected <= 30_000


def broken(t, y, parameters, out):
    out[0] = {"rate": 1.0}["speed"]


def divides(t, y, parameters, out):
    out[:] = 1 / int(parameters[0])


@pytest.mark.parametrize(
    ("velocity", "parameters", "kind"),
    [
        (broken, [1.0, 1.0], KeyError), (divides, [0.0], ZeroDivisionError),
        (decay.py_func, [1.0] * 3, ValueError), (decay, [1.0] * 3, ValueError),
    ],
)  # fmt: skip
def test_what_a_velocity_raises_itself_is_passed_on(velocity, parameters, kind):
    with pytest.raises(kind) as found:
        integrate(velocity, [1.0, 2.0], 1.0, parameters=parameters)
    assert "must" not in str(found.value)
    note = f"Raised by `velocity` at the start, from {len(parameters)} `parameters`."
    assert found.value.__notes__ == [note]
