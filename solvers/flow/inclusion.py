r"""Flows with an l1 force, as differential inclusions: :math:`\dot w \in f(w) - \lambda\,\mathrm{sign}(w)`.

The sign of zero is the interval [-1, 1]: a weight that reaches zero rests there until its smooth force f
exceeds lam. Steps are those of Bogacki and Shampine's 3(2) pair, in which every weight keeps its sign. Events
within a step are then corrected weight by weight, right to second order: `_stop_at_zero` stops a weight that
crossed zero, or lets it go on with the other sign; `_start_from_zero` starts one at rest whose force came to
exceed lam. The other weights miss O(lam h^2) of such a change, so pairs of higher order would gain nothing.

Arrays that several functions share: the weights `w` of a step, a vector: a whole (n, m) matrix, flat, or a
list of those entries that move, column by column. `rows` holds the row of the matrix of each, `first` where
each column begins in the list, `lam`, (n,), the l1 strength of each row, f, (4, w.size), the forces at the
four stages; h is the length of the step. A force, called as force(w, first, rows, work, out), writes to
`out`; `work`, (n, n), is scratch.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numba.extending import is_jitted

from ...theory.compile.kernels import check_interrupt, inner, kernel
from ...theory.validation import FloatArray, IntArray
from ..results import Status
from .explicit import ENDS

__all__ = ["Force", "Progress", "advance"]


# Bogacki and Shampine (1989): nodes 0, 1/2, 3/4, 1; weights of the third-order result, and of its
# difference from the embedded second-order one.
_B1, _B2, _B3 = 2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0
_E1, _E2, _E3, _E4 = -5.0 / 72.0, 1.0 / 12.0, 1.0 / 9.0, -1.0 / 8.0

# Step-size control, as usual: an estimate of third order, a margin of 0.9, changes between 0.2 and 4.
_MARGIN, _LEAST, _MOST = 0.9, 0.2, 4.0
# An estimate may vanish by accident, above all that of a single weight, and a step far too long would follow.
# So the next step is chosen as if the error, over the cube of the step, fell at most to this share at a time.
_TRUST = 0.5

# Listed steps do about m (density n)^2 multiplications, one by one; dense ones do 3 n^2 m of them by BLAS,
# which is some 40 times faster at it. Measured at n = 256, m = 1024: equal at a density of 0.12. The list
# may then grow.
_LIST_BELOW, _LIST_UP_TO = 0.12, 0.20
# A weight at rest is listed when the force on it is above this share of lam: at 0.5 the list would be twice
# as long as the weights that move, at 0.9 forces outside the list pass lam within a few steps.
_WATCHED = 0.75
# Dense steps between two counts of the weights to be listed; a count costs a tenth of a step.
_COUNT_EVERY = 16

_REACHED, _STEPS, _STALLED, _DIVERGED = range(4)  # in the order of `ENDS`

Force = Callable[[FloatArray, IntArray, IntArray, FloatArray, FloatArray], None]
"""``force(w, first, rows, work, out)`` writes the smooth force on the n rows of a matrix.

`w` has the whole matrix, row by row, or its listed entries column by column: those of column k are
``w[first[k]:first[k + 1]]``, in the given rows. `work` is scratch, (n, n).
"""


@dataclass
class Progress:
    """State of an integration, from which :func:`advance` continues."""

    h: float  # length of the next step
    tol: float  # error allowed in a step: the norm of a row's error over the larger of its own norm and 1
    most: int  # steps that may be made
    longest: float  # longest step, for stability
    t: float = 0.0
    curve: float = 0.0  # error of the last step over the cube of its length
    steps: int = 0  # that were kept
    rejected: int = 0
    code: int = _REACHED

    @property
    def steps_left(self) -> int:
        """Number of steps that may still be made."""
        return self.most - self.steps - self.rejected

    @property
    def status(self) -> Status:
        """Why the integration ended; `REACHED` while it is under way."""
        return ENDS[self.code]


@inner
def _sign_of_motion(w: float, force: float, lam: float) -> float:
    """Return the sign of w, or where w is 0 that of the force if |force| > lam, else 0."""
    if w > 0.0:
        return 1.0
    if w < 0.0:
        return -1.0
    if force > lam:
        return 1.0
    if force < -lam:
        return -1.0
    return 0.0


@inner
def _stop_at_zero(
    w: float, end: float, slope: float, f1: float, f3: float, s: float, lam: float, h: float
) -> float:
    """Return the weight after a step h: `end`, or corrected if it crossed zero on the way from w.

    s is the sign of the weight w before the step and `slope` its velocity there; f1 and f3 are the forces at
    nodes 0 and 3/4 of the step, `lam` is the l1 strength.
    """
    if end * s >= 0.0:
        return end
    a, c = h * slope, end - w - h * slope  # w + a x + c x^2 passes through both ends
    q = -0.5 * (a + math.copysign(math.sqrt(max(a * a - 4.0 * c * w, 0.0)), a))
    x = w / q if q != 0.0 else 0.0
    if w == 0.0 or not 0.0 <= x <= 1.0:
        x = q / c if c != 0.0 else 0.0
        if not 0.0 <= x <= 1.0:
            x = 0.0 if w == 0.0 else 1.0
    force = f1 + (f3 - f1) * (x / 0.75)
    if force * s >= -lam:
        return 0.0
    other = end + 2.0 * lam * s * (1.0 - x) * h
    return other if other * s < 0.0 else 0.0


@inner
def _start_from_zero(f1: float, f4: float, lam: float, h: float) -> float:
    """Return the weight after a step h from rest at zero: 0 unless the force came to exceed lam in the step.

    f1, at most lam in size, and f4 are the forces on the weight at the start and the end of the step.
    """
    excess = abs(f4) - lam
    if excess <= 0.0:
        return 0.0
    rise = abs(f4 - f1)
    return math.copysign(0.5 * excess * min(excess / rise, 1.0) * h, f4) if rise > 0.0 else 0.0


@kernel
def _next_step(h: float, error: float, tol: float, curve: float, longest: float) -> tuple[float, float]:
    """Return (length of the next step, error/h^3) after a step of length h with this error.

    `curve` is error/h^3 of the step before, `tol` the error allowed, `longest` the longest step.
    """
    if error <= tol:
        error = max(error, _TRUST * curve * h**3)
    if not error > 0.0:
        factor = _MOST if error == 0.0 else _LEAST
    else:
        factor = min(_MOST, max(_LEAST, _MARGIN * (tol / error) ** (1.0 / 3.0)))
    return min(h * factor, longest), error / h**3


@kernel
def _trial_step(
    w: FloatArray, f1: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray, h: float, out: FloatArray
) -> None:
    """Write w + h (f - lam sign) to `out`: weights after a trial step h at the forces f.

    The sign of each weight is that at the start of the step, where the forces are f1; weights at rest stay 0.
    Weight e is in row rows[e] of the matrix, and `lam` has the l1 strength of each row.
    """
    for e in range(w.size):
        pull = lam[rows[e]]
        s = _sign_of_motion(w[e], f1[e], pull)
        out[e] = w[e] + h * (f[e] - pull * s) if s != 0.0 else 0.0


@kernel
def _end_step(
    w: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray, h: float, out: FloatArray
) -> None:
    """Write the weights at the end of a step of length h to `out`, corrected where they crossed zero.

    w are the weights before the step, f, (4, w.size), the forces on them at its stages; weight e is in row
    rows[e] of the matrix, and lam has the l1 strength of each row.
    """
    for e in range(w.size):
        strength = lam[rows[e]]
        s = _sign_of_motion(w[e], f[0, e], strength)
        pull = strength * s
        out[e] = 0.0
        if s != 0.0:
            end = w[e] + h * (_B1 * f[0, e] + _B2 * f[1, e] + _B3 * f[2, e] - pull)
            out[e] = _stop_at_zero(w[e], end, f[0, e] - pull, f[0, e], f[2, e], s, strength, h)


@kernel
def _step_error(
    w: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray, h: float, out: FloatArray, work: FloatArray
) -> float:
    """Return the largest error of a row, |error|/max(1, |row|); move weights in `out` that left zero.

    w and `out` are the weights before and after the step h, f, (4, w.size), the forces at its stages. Weight
    e is in row rows[e] of the matrix, and lam has the l1 strength of each row. `work`, (2, n), is overwritten
    with the squares of the rows' errors over h, and of their lengths.
    """
    work[:] = 0.0
    for e in range(w.size):
        s = _sign_of_motion(w[e], f[0, e], lam[rows[e]])
        if s != 0.0:
            # lam*s drops out: the four coefficients add up to zero. A weight that was stopped at zero
            # counts too: a step far too long would throw all weights across it.
            work[0, rows[e]] += (_E1 * f[0, e] + _E2 * f[1, e] + _E3 * f[2, e] + _E4 * f[3, e]) ** 2
            work[1, rows[e]] += out[e] * out[e]
        else:
            out[e] = _start_from_zero(f[0, e], f[3, e], lam[rows[e]], h)
    worst = 0.0
    for i in range(lam.size):
        error = h * math.sqrt(work[0, i]) / max(1.0, math.sqrt(work[1, i]))
        if not error <= worst:  # so written that nan wins
            worst = error
    return worst


@kernel
def _count_movable(w: FloatArray, f: FloatArray, rows: IntArray, lam: FloatArray) -> int:
    """Return the number of weights that are not zero or have a force f[e] above 0.75 of the l1 strength.

    Weights w[e] at zero with such a force may soon leave it. Weight e is in row rows[e] of the matrix, and
    lam has the l1 strength of each row.
    """
    count = 0
    for e in range(w.size):
        if w[e] != 0.0 or abs(f[e]) > _WATCHED * lam[rows[e]]:
            count += 1
    return count


def _integrate_until(
    force: Any, w: FloatArray, first: IntArray, rows: IntArray, lam: FloatArray, work: FloatArray, t: float,
    t_end: float, h: float, curve: float, tol: float, longest: float, most: int, movable_limit: int,
) -> tuple[float, float, float, int, int, int]:  # fmt: skip
    """Integrate w in place from t to `t_end`; return (t, h, curve, accepted, rejected, status) at the end.

    The flow is dw/dt in f(w) - lam sign(w); force(w, first, rows, work, out) writes f(w) to `out`, with
    `work`, (n, n), as scratch. w holds entries of an (n, m) matrix: w[e] is in row rows[e] and has the l1
    strength lam[rows[e]]. If w does not hold all entries, those of column k are w[first[k]:first[k + 1]].

    h is the length of the next step, `curve` is error/length^3 of the last one; `tol` and `longest` are the
    largest error and length. The numbers of accepted and rejected steps are returned, and an index of `ENDS`
    as status. The integration ends early after `most` steps, or where `movable_limit` >= 0 and at most
    `movable_limit` weights can move. If steps of length `longest` return to earlier weights, a cycle, the
    rest of the time is skipped.
    """
    f, end, sums, seen = np.empty((4, w.size)), np.empty(w.size), np.empty((2, lam.size)), w.copy()
    f0, f1, f2, f3 = f[0], f[1], f[2], f[3]
    force(w, first, rows, work, f0)
    accepted, rejected, unchanged_steps = 0, 0, 0
    while t < t_end:
        if accepted + rejected >= most:
            return t, h, curve, accepted, rejected, _STEPS
        check_interrupt((accepted + rejected) % 64 == 63)
        if (
            movable_limit >= 0
            and accepted % _COUNT_EVERY == 0
            and _count_movable(w, f0, rows, lam) <= movable_limit
        ):
            break
        last = t + h >= t_end
        step = t_end - t if last else h
        _trial_step(w, f0, f0, rows, lam, 0.5 * step, end)
        force(end, first, rows, work, f1)
        _trial_step(w, f0, f1, rows, lam, 0.75 * step, end)
        force(end, first, rows, work, f2)
        _end_step(w, f, rows, lam, step, end)
        force(end, first, rows, work, f3)
        error = _step_error(w, f, rows, lam, step, end, sums)
        proposed, fresh = _next_step(step, error, tol, curve, longest)
        if not error <= tol:
            rejected += 1
            h = proposed
            if not t + h > t:
                return t, h, curve, accepted, rejected, _STALLED if np.isfinite(error) else _DIVERGED
            continue
        accepted += 1
        curve = max(curve, fresh) if last else fresh
        t = t_end if last else t + step
        h = max(h, proposed) if last else proposed
        w[:], f0[:] = end, f3
        if step < longest or proposed < longest:
            unchanged_steps = 0
        elif unchanged_steps > 0 and np.all(w == seen):
            t = t_end
        else:
            unchanged_steps += 1
            if (
                unchanged_steps & (unchanged_steps - 1) == 0
            ):  # a power of two, after Brent: cycles of any length are found
                seen[:] = w
    return t, h, curve, accepted, rejected, _REACHED


_VECTOR, _INDICES, _MATRIX = types.float64[::1], types.int64[::1], types.float64[:, ::1]
_FORCE = types.void(_VECTOR, _INDICES, _INDICES, _MATRIX, _VECTOR)


@functools.cache
def _compiled_integrator(listed: Any) -> Any:
    """Return `_integrate_until`, compiled once for all forces that are compiled functions.

    Also compile `listed`, the force on a list of the weights that can move, if it is not None.
    """
    if listed is not None:
        listed.compile(_FORCE)
        return _compiled_integrator(None)
    compiled: Any = kernel(_integrate_until)
    arrays = types.FunctionType(_FORCE), _VECTOR, _INDICES, _INDICES, _VECTOR, _MATRIX
    compiled.compile((*arrays, *(types.float64,) * 6, types.int64, types.int64))
    compiled.disable_compile()
    return compiled


def _advance_listed(
    W: FloatArray,
    t_end: float,
    at: Progress,
    lam: FloatArray,
    force: Force,
    work: FloatArray,
    listed: Force,
    wakes: bool,
) -> None:
    """Integrate the weights that can move, in place, to the time `t_end`, or until over 20 % of them can.

    Weights that can move are not zero, or have a force near lam, the l1 strength of their row of W. `force`
    writes the smooth force on all of W, `listed` that on those weights; `work`, (n, n), is scratch. `at` is
    the state of the integration, which is updated. The list of these weights is renewed on the way if
    `wakes`.
    """
    # The force on all others is checked after some steps. If one should have left zero so long ago that it
    # matters at the tolerance, the steps are taken back and fewer are made, with a new list.
    integrator = _compiled_integrator(listed) if is_jitted(listed) else _integrate_until
    F, strengths, unused = np.empty_like(W), lam[:, None], np.empty(0, dtype=np.int64)
    span = 8 if wakes else at.most

    def update_forces() -> None:
        """Write the smooth force on all weights W to F."""
        force(W.reshape(-1), unused, unused, work, F.reshape(-1))

    update_forces()
    while at.t < t_end and at.code == _REACHED:
        if at.steps_left <= 0:
            at.code = _STEPS
            return
        moving = (W != 0.0) | (np.abs(F) > _WATCHED * strengths)
        size = np.count_nonzero(moving)
        if size == 0:
            at.t = t_end  # there is no force on encodings that are all zero: nothing moves any more
            return
        if size > _LIST_UP_TO * W.size:
            return
        columns, rows = np.divmod(np.flatnonzero(moving.T), W.shape[0])  # column by column
        first = np.append(0, np.cumsum(np.count_nonzero(moving, axis=0)))
        W_start = W[rows, columns]
        w = W_start.copy()
        state = at.t, t_end, at.h, at.curve, at.tol, at.longest, min(span, at.steps_left), -1
        t, h, curve, steps, rejected, code = integrator(listed, w, first, rows, lam, work, *state)
        W[rows, columns] = w
        update_forces()
        rest = np.where(moving, 0.0, np.abs(F))
        excess = math.sqrt(np.max(np.sum(np.maximum(rest - strengths, 0.0) ** 2, axis=1)))
        # The force grew by that excess in the time passed: a weight missed at most half their product.
        if 0.5 * excess * (t - at.t) > at.tol:
            W[rows, columns] = W_start
            update_forces()
            at.h = 0.5 * (t - at.t) if steps == 1 else at.h
            at.rejected += steps + rejected
            span = max(1, span // 2)
            continue
        if np.all(rest < 0.5 * (1.0 + _WATCHED) * strengths):
            span *= 2
        at.t, at.h, at.curve = t, h, curve
        at.steps += steps
        at.rejected += rejected
        at.code = _REACHED if code == _STEPS else code  # more steps may be left


@np.errstate(over="ignore", invalid="ignore")  # trial steps may overflow, and are not kept
def advance(
    W: FloatArray,
    t_end: float,
    at: Progress,
    lam: FloatArray,
    force: Force,
    listed: Force | None = None,
    *,
    wakes: bool = True,
) -> None:
    """Integrate a matrix of weights in place to the time `t_end`, or until `at.status` is not good.

    `W` (n, m) is C-contiguous; it and `at` are changed. `lam` (n,) is the l1 strength of each row.
    force(w, first, rows, work, out) writes the smooth force on the flat matrix w to `out`; `work`, (n, n), is
    scratch. `listed` does the same for some of the weights, and is used while few can move: w[e] is in row
    rows[e] of W, and column k has w[first[k]:first[k + 1]]. Leave `listed` out if lam is 0, where any force
    moves a weight at rest. Set `wakes` to False only if a weight at rest never starts to move again; the list
    of weights that can move is then made once.

    Examples
    --------
    >>> W, at = np.array([[1.0, -1.0]]), Progress(h=0.1, tol=1e-8, most=1000, longest=1.0)
    >>> def push(w, first, rows, work, out):
    ...     out[:] = [0.5, 0.0]
    >>> advance(W, 3.0, at, np.array([0.75]), push)  # held by lam in the end
    >>> W.tolist(), at.status.name
    ([[0.25, 0.0]], 'REACHED')
    """
    movable_limit = -1 if listed is None else int(_LIST_BELOW * W.size)
    w, work = W.reshape(-1), np.empty((lam.size, lam.size))
    rows = np.repeat(np.arange(lam.size), w.size // lam.size)
    while at.t < t_end and at.code == _REACHED:
        state = at.t, t_end, at.h, at.curve, at.tol, at.longest, at.steps_left, movable_limit
        at.t, at.h, at.curve, steps, rejected, at.code = _integrate_until(
            force, w, rows, rows, lam, work, *state
        )
        at.steps += steps
        at.rejected += rejected
        if listed is not None and at.t < t_end and at.code == _REACHED:
            _advance_listed(W, t_end, at, lam, force, work, listed, wakes)
