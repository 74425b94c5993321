"""Smooth flows: Dormand and Prince's pair of orders 5 and 4 with control of the error, group by group."""

import functools
import inspect
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core.errors import NumbaError
from numba.extending import is_jitted

from ...theory import validation
from ...theory.compile.kernels import check_interrupt, kernel
from ...theory.validation import FloatArray, IntArray
from ..results import Status, frozen, result

__all__ = ["Trajectory", "checked_times", "integrate"]


# Dormand and Prince (1980): stages, weights of order 5 (the last stage begins the next step), and their
# difference from the embedded weights of order 4.
_STAGES = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
_NODES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])

# Step-size control, as usual: a margin of 0.9, changes between 0.2 and 5.
_MARGIN, _LEAST, _MOST = 0.9, 0.2, 5.0
# Groups below this are held to an absolute error whatever the caller says: they have decayed for good.
_NOTHING = 1e-150

ENDS = (Status.REACHED, Status.STEPS, Status.STALLED, Status.DIVERGED)


@result
class Trajectory:
    """States `y`, of shape (n_times,) + that of the start, at the times `t`; see :func:`integrate`.

    The integration ended at the time `t_end`, after so many accepted `steps` and `rejected` ones; `status`
    says why. States not reached are nan.
    """

    t: FloatArray
    y: FloatArray
    t_end: float
    steps: int
    rejected: int
    status: Status


@kernel
def _error_ratio(
    y: FloatArray, end: FloatArray, error: FloatArray, group: IntArray, sizes: FloatArray
) -> float:
    """Return max |error[k]|/sizes[group[k]], after raising each group's size to its largest |y| and |end|.

    `sizes`, one for each group, holds the least sizes before and is overwritten. The result is nan if one
    error is.
    """
    for k in range(y.size):
        g = group[k]
        sizes[g] = max(sizes[g], abs(y[k]), abs(end[k]))
    return float(np.max(np.abs(error) / sizes[group]))


def _integrate_to_times(
    velocity: Any,
    y: FloatArray,
    parameters: FloatArray,
    group: IntArray,
    min_scale: float,
    times: FloatArray,
    rtol: float,
    max_steps: int,
    path: FloatArray,
) -> tuple[float, int, int, int]:
    """Integrate y in place, write it to row k of `path` at times[k]; return t, steps, rejected steps, status.

    The status is an index of `ENDS`; velocity(t, y, parameters, out) writes dy/dt to `out`. In a step entry k
    may have the error `rtol` times the largest |y| with the same number in `group`, or times `min_scale` if
    that is larger. `max_steps` limits accepted and rejected steps together.
    """
    t, accepted, rejected = 0.0, 0, 0
    slopes = np.zeros((7, y.size))
    sizes = np.empty(np.max(group) + 1)
    velocity(t, y, parameters, slopes[0])
    size, speed = max(np.max(np.abs(y)), min_scale), np.max(np.abs(slopes[0]))
    h = rtol**0.2 * size / speed if speed > 0.0 else np.inf
    for time_index in range(times.size):
        t_end = times[time_index]
        while t < t_end:
            if accepted + rejected >= max_steps:
                return t, accepted, rejected, 1
            check_interrupt((accepted + rejected) % 64 == 63)
            last = t + h >= t_end
            step = t_end - t if last else h
            end = y
            for stage in range(6):
                end = y + step * np.dot(_STAGES[stage, : stage + 1], slopes[: stage + 1])
                velocity(t + _NODES[stage] * step, end, parameters, slopes[stage + 1])
            sizes[:] = min_scale
            ratio = _error_ratio(y, end, step * np.dot(_ERROR, slopes), group, sizes) / rtol
            factor = _LEAST
            if ratio == 0.0:
                factor = _MOST
            elif ratio > 0.0:
                factor = min(_MOST, max(_LEAST, _MARGIN * ratio**-0.2))
            if not ratio <= 1.0:
                rejected += 1
                h = step * factor
                if t + h == t:  # no step is small enough
                    return t, accepted, rejected, 2 if np.isfinite(ratio) else 3
                continue
            accepted += 1
            t = t_end if last else t + step
            h = max(h, step * factor) if last else step * factor
            y[:] = end
            slopes[0] = slopes[6]
        path[time_index] = y
    return t, accepted, rejected, 0


_VECTOR = types.float64[::1]
_VELOCITY = types.void(types.float64, _VECTOR, _VECTOR, _VECTOR)


@functools.cache
def _compiled_integrator() -> Any:
    """Return `_integrate_to_times`, compiled once for all velocities that are compiled functions."""
    compiled: Any = kernel(_integrate_to_times)
    state = types.FunctionType(_VELOCITY), _VECTOR, _VECTOR, types.int64[::1], types.float64
    compiled.compile((*state, _VECTOR, types.float64, types.int64, types.float64[:, ::1]))
    compiled.disable_compile()
    return compiled


def checked_times(t: npt.ArrayLike) -> FloatArray:
    """Return t, a vector or one number, as a new vector; ValueError if it is unsorted or negative."""
    times = np.array(validation.numbers_or_repeat("t", validation.real("t", t, 0)))
    falls = np.flatnonzero(np.diff(times) < 0)
    if falls.size:
        raise ValueError(f"`t` must be sorted; got {times[falls[0] + 1]:g} after a larger one.")
    return times


def _check_call(velocity: Any) -> None:
    """Raise a ValueError unless `velocity` takes (t, y, parameters, out), and compiles if it is jitted."""
    try:
        parameters = inspect.signature(velocity.py_func if is_jitted(velocity) else velocity)
    except ValueError:  # a function in C need not say what it takes
        return
    try:
        parameters.bind(0.0, None, None, None)
    except TypeError as error:
        raise ValueError(f"`velocity` must take (t, y, parameters, out); got {parameters}.") from error
    if is_jitted(velocity):
        try:
            velocity.compile(_VELOCITY)
        except NumbaError as error:
            rule = "must compile for a number and three vectors, and return nothing"
            raise ValueError(f"`velocity` {rule}; got {validation.short_repr(str(error))}.") from error


def integrate(
    velocity: Any,
    y0: npt.ArrayLike,
    t: npt.ArrayLike,
    *,
    parameters: npt.ArrayLike = (),
    group: npt.ArrayLike | None = None,
    rtol: float = 1e-10,
    min_scale: float = 0.0,
    steps: int = 30_000,
) -> Trajectory:
    r"""Integrate :math:`\dot y = v(t, y)` from time 0, and return the states at the times `t`.

    Parameters
    ----------
    velocity : callable
        ``velocity(t, y, parameters, out)`` writes the velocity at the flat state y into the vector `out`. A
        Python function costs some 0.1 ms a step, one compiled by
        :func:`superposition.theory.compile.kernels.kernel` next to nothing.
    y0 : array_like of float
        The state at time 0, of any shape. Not modified.
    t : (n_times,) array_like of float
        Times at which the state is wanted, sorted, not negative; one number is one time. A step ends at each.
    parameters : array_like of float, optional
        Passed to the velocity as a flat vector.
    group : array_like of int, optional
        Of the shape of `y0`: entries with the same number share a scale. By default each has its own.
    rtol, min_scale : float, optional
        Error allowed in each step, from 1e-13 to 1e-2: the largest error of a group over its largest entry,
        or over `min_scale` if that is larger.
    steps : int, optional
        Steps after which the run stops with a status.

    Returns
    -------
    Trajectory
        Its status is `REACHED`; `STEPS` if the budget ran out; `DIVERGED` or `STALLED` if the shortest step
        was not finite or not accurate enough. The steps have order 5 (Dormand and Prince, J. Comput. Appl.
        Math. 6 (1980) 19). In the end the error is at most about (number of steps) times `rtol` times the
        factor by which the flow amplifies a deviation; where the flow contracts it stays near `rtol`.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or `velocity` takes other arguments. What it
        raises itself is passed on.

    Examples
    --------
    >>> def logistic(t, y, parameters, out):
    ...     out[:] = parameters[0] * y * (1 - y)
    >>> found = integrate(logistic, [0.1], [0.0, 2.0, 9.0], parameters=[1.0])
    >>> found.y[:, 0].round(6), found.status.name
    (array([0.1     , 0.450853, 0.998891]), 'REACHED')
    """
    if not callable(velocity):
        raise ValueError(f"`velocity` must be a function; got {velocity!r}.")
    start = validation.real("y0", y0)
    y = np.array(validation.vector("y0", start.ravel()))
    times = checked_times(t)
    validation.check_fits("t", times.size, times.size * y.size)
    constants = np.array(validation.real("parameters", parameters)).ravel()
    numbers = validation.whole_numbers("group", np.arange(y.size) if group is None else group, 0, y.size - 1)
    if numbers.size != y.size:
        raise ValueError(f"`group` must number the {y.size} entries of `y0`; got {numbers.size}.")
    groups = numbers.ravel().astype(np.int64)
    rtol = validation.number("rtol", rtol, 1e-13, 1e-2)
    min_scale = max(validation.number("min_scale", min_scale, 0.0, 1e300), _NOTHING)
    most = min(validation.integer("steps", steps, 1), 2**62)
    path = np.full((times.size, y.size), np.nan)
    integrator: Any = _compiled_integrator() if is_jitted(velocity) else _integrate_to_times
    _check_call(velocity)
    with np.errstate(over="ignore", invalid="ignore"):  # in steps that are not kept
        try:
            velocity(0.0, y.copy(), constants, np.empty_like(y))
        except Exception as error:
            error.add_note(f"Raised by `velocity` at the start, from {constants.size} `parameters`.")
            raise
        ends = integrator(velocity, y, constants, groups, min_scale, times, rtol, most, path)
    times_reached, accepted, rejected, end = ends
    states = frozen(path.reshape(times.size, *start.shape))
    return Trajectory(times, states, float(times_reached), accepted, rejected, ENDS[end])
