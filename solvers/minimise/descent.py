"""Descents of any objective and eliminations among many starts, which all minimisers share."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import linalg, optimize

from ...theory.validation import FloatArray
from ..deadline import Deadline, DeadlineOver
from ..parallel import parallel_map, single_blas_thread
from ..results import Status

__all__ = [
    "DescentResult",
    "Round",
    "descend_together",
    "distinct",
    "fd_hessian",
    "lbfgs",
    "newton",
    "successive_elimination",
    "trust_region",
]

_FLAT = 1e-8  # curvatures below this share of the largest one are flat: differences do not resolve them
# Differences to both sides that disagree by this share of the largest curvature are those of a kink.
_KINK = 1e-2
_PAIRS = 10  # of steps and changes of the gradient that `descend_together` stores
_MOST_CUTS = 12  # of the length of a step
_SUFFICIENT = 1e-4  # share of the descent that the gradient promises (Armijo's condition)
_LEAST_CURVATURE = 1e-10  # cosine between a step and the change of the gradient


@dataclass
class DescentResult:
    """The point `x` at which a descent ended, with its value, gradient norm, steps and status."""

    x: FloatArray
    value: float
    slope: float
    """Norm of the (projected) gradient."""
    steps: int
    status: Status
    curvature: float | None = None
    starts: tuple[int, ...] = ()
    """Indices of the starts whose descents ended here."""
    metric: FloatArray | None = None
    """Change of variables for further descents from `x`, as in `lbfgs`; None for none."""

    @classmethod
    def at(cls, x: Any, *starts: int) -> "DescentResult":
        """Return a result of 0 steps at `x`, with value inf; `starts` are the indices of its starts."""
        return cls(np.asarray(x, dtype=np.float64), np.inf, np.inf, 0, Status.STALLED, starts=starts)


class _Variables:
    """Change of variables of a descent: x = T z, where z_i is y_i, or y_i - y'_i if x_i has an l1 term.

    Both y_i and y'_i are at least 0, so that the l1 term is linear in them. `l1` has the l1 strengths of x,
    `metric` is T; None stands for no l1 term and the identity. The vector y is all y_i, then all y'_i.
    """

    def __init__(self, x: FloatArray, l1: FloatArray | None, metric: FloatArray | None):
        self.size, self.metric = x.size, np.ones(x.size) if metric is None else metric
        self.kinks = np.zeros(0, np.intp) if l1 is None else np.flatnonzero(l1)
        y = np.linalg.solve(self.metric, x) if self.metric.ndim == 2 else x / self.metric
        self.first = np.concatenate([y, np.maximum(-y[self.kinks], 0.0)])
        if l1 is not None:
            self.first[self.kinks] = np.maximum(y[self.kinks], 0.0)
            self.price = l1[self.kinks] * self.metric[self.kinks]

    def x_of(self, y: FloatArray) -> FloatArray:
        """Return x = T z for the variables y."""
        z = y[: self.size].copy()
        z[self.kinks] -= y[self.size :]
        return self.metric @ z if self.metric.ndim == 2 else z * self.metric

    def with_l1_term(self, y: FloatArray, value: float, by: FloatArray) -> tuple[float, FloatArray]:
        """Return (value with the l1 term, its gradient with respect to y), at y.

        `value` is the value without the l1 term, and `by` its gradient with respect to x.
        """
        by = by @ self.metric if self.metric.ndim == 2 else by * self.metric
        if not self.kinks.size:
            return value, by
        value += float(self.price @ (y[self.kinks] + y[self.size :]))
        by_parts = np.concatenate([by, self.price - by[self.kinks]])
        by_parts[self.kinks] += self.price
        return value, by_parts

    def scipy_bounds(self, bounds: Sequence[Any] | None) -> list[Any] | None:
        """Return the list of (lower, upper) for each entry of y, from `bounds` of x; None if none is bounded.

        The two entries of y for an x with an l1 term are at least 0.
        """
        if bounds is None and not self.kinks.size:
            return None
        limits: list[Any] = [(None, None)] * self.size
        for k, bound in enumerate(bounds or ()):
            limits[k] = tuple(None if end is None else end / self.metric[k] for end in bound)
        for k in self.kinks.tolist():
            limits[k] = 0.0, limits[k][1]
        return limits + [limits[k] for k in self.kinks.tolist()]


class _Evaluations:
    """Function of a descent's variables y that stores the best point; raises DeadlineOver after `deadline`.

    function(x) is the value, or (value, gradient) if `gradient`; `variables` map y to x.
    """

    def __init__(
        self, function: Callable[[FloatArray], Any], variables: _Variables, gradient: bool, deadline: Deadline
    ):
        self.function, self.variables, self.gradient, self.deadline = function, variables, gradient, deadline
        self.best, self.value, self.iterations, self.count = variables.first, np.inf, 0, 0
        self.least = self.slope = self.last_slope = np.inf

    def __call__(self, y: FloatArray) -> Any:
        """Return the value at y, or (value, gradient with respect to y) if the function has a gradient."""
        if self.count:
            self.deadline.check()
        values = self.function(self.variables.x_of(y))
        self.count += 1
        if self.gradient:
            self.last_slope = float(np.linalg.norm(values[1]))
            if values[0] < self.least:
                self.least, self.slope = values[0], self.last_slope
            values = self.variables.with_l1_term(y, *values)
        value = float(values[0] if self.gradient else values)
        if value < self.value:
            self.best, self.value = y.copy(), value
        return values

    def end(self) -> DescentResult:
        """Return the best point so far, with status STEPS, or DIVERGED if no value was finite."""
        status = Status.STEPS if np.isfinite(self.value) else Status.DIVERGED
        return DescentResult(self.variables.x_of(self.best), self.value, self.slope, self.iterations, status)


@single_blas_thread()
def lbfgs(
    function: Callable[[FloatArray], Any],
    x: FloatArray,
    *,
    gradient: bool = True,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    l1: FloatArray | None = None,
    metric: FloatArray | None = None,
    steps: int = 1000,
    gtol: float = 1e-8,
    ftol: float = 1e-16,
    gradient_norm_tol: float = 0.0,
    deadline: Deadline | None = None,
) -> DescentResult:
    """Return the end of L-BFGS-B from `x`: of status STALLED, STEPS or, if it is not finite, DIVERGED.

    `function` returns (value, gradient); with `gradient` False it returns the value alone, and gradients are
    finite differences. `l1`, (x.size,), adds the term sum(l1 |x|). `metric` T, a vector or (without bounds
    and l1) a matrix, is a change of variables: steps are taken in y with x = T y. The descent stops after
    `steps` steps, where the gradient's norm is at most `gradient_norm_tol`, or by SciPy's `gtol` and `ftol`.
    After `deadline` it stops too, but not before the first evaluation.
    """
    variables, deadline = _Variables(x, l1, metric), deadline or Deadline()
    seen = _Evaluations(function, variables, gradient, deadline)

    def watched(x: FloatArray) -> None:  # SciPy 1.17 prints callbacks that take an `intermediate_result`
        """Count an iteration, and stop the descent where the norm is at most `gradient_norm_tol`."""
        seen.iterations += 1
        if seen.last_slope <= gradient_norm_tol:
            raise StopIteration

    options: Any = {"maxiter": steps, "maxfun": 3 * steps, "maxcor": 30, "ftol": ftol, "gtol": gtol}
    if not gradient:
        options |= {"finite_diff_rel_step": 1e-6, "maxfun": 3 * steps * (x.size + 1), "maxcor": 10}
    settings: Any = {"jac": True if gradient else "2-point", "bounds": variables.scipy_bounds(bounds)}
    minimize: Any = optimize.minimize  # its stubs know no objective that returns its gradient too
    try:
        fit = minimize(
            seen, variables.first, method="L-BFGS-B", options=options, callback=watched, **settings
        )
    except DeadlineOver:
        return seen.end()
    if not np.isfinite(fit.fun):
        return DescentResult(x, np.inf, np.inf, int(fit.nit), Status.DIVERGED)
    ran_out = fit.nit >= steps or fit.nfev >= options["maxfun"] or deadline.is_over()
    status = Status.STEPS if ran_out else Status.STALLED
    return DescentResult(variables.x_of(np.asarray(fit.x)), float(fit.fun), seen.slope, int(fit.nit), status)


def _lbfgs(
    x: FloatArray, metric: FloatArray, steps: int, gradient_norm_tol: float
) -> Generator[FloatArray, tuple[float, FloatArray] | None, DescentResult]:
    """Yield the points x at which L-BFGS needs (value, gradient), to be sent; return the end.

    The descent ends where None is sent, after `steps` steps, or where the gradient's norm is at most
    `gradient_norm_tol`. Steps are taken in y, with x = `metric` y entry by entry; a step that does not lower
    the value enough is shortened.
    """
    y, pairs, status = x / metric, deque[tuple[FloatArray, FloatArray, float]](maxlen=_PAIRS), Status.STALLED
    answer = yield x
    value, by = answer or (np.inf, np.full(x.size, np.inf))
    taken, length, is_better = 0, 1.0, answer is not None and bool(np.isfinite(value))
    while is_better and np.linalg.norm(by) > gradient_norm_tol:
        if taken >= steps:
            status = Status.STEPS
            break
        direction, shares = -by * metric, []
        for moved, gradient_change, inverse in reversed(pairs):
            shares.append(inverse * (moved @ direction))
            direction = direction - shares[-1] * gradient_change
        if pairs:
            moved, gradient_change, inverse = pairs[-1]
            direction = direction / (inverse * (gradient_change @ gradient_change))
        for (moved, gradient_change, inverse), share in zip(pairs, reversed(shares), strict=True):
            direction = direction + (share - inverse * (gradient_change @ direction)) * moved
        down = float((by * metric) @ direction)
        length, is_better = 1.0 if pairs else min(1.0, 1.0 / float(np.linalg.norm(by * metric))), False
        for _ in range(_MOST_CUTS if down < 0.0 else 0):
            answer = yield (y + length * direction) * metric
            if answer is None:
                return DescentResult(y * metric, value, float(np.linalg.norm(by)), taken, Status.STEPS)
            is_better = answer[0] <= value + _SUFFICIENT * length * down
            if is_better:
                break
            rise = answer[0] - value - length * down
            length *= min(max(-0.5 * length * down / rise, 0.1), 0.5) if np.isfinite(rise) else 0.1
        if is_better and answer is not None:
            moved, gradient_change = length * direction, (answer[1] - by) * metric
            curvature = float(moved @ gradient_change)
            if curvature > _LEAST_CURVATURE * np.linalg.norm(moved) * np.linalg.norm(gradient_change):
                pairs.append((moved, gradient_change, 1.0 / curvature))
            y, (value, by), taken = y + moved, answer, taken + 1
    return DescentResult(y * metric, value, float(np.linalg.norm(by)), taken, status)


def descend_together(
    function: Callable[[list[FloatArray]], Sequence[tuple[float, FloatArray]]],
    starts: Sequence[FloatArray],
    *,
    metric: FloatArray,
    steps: int,
    gradient_norm_tol: float,
    deadline: Deadline,
) -> list[DescentResult]:
    """Return the ends of descents by L-BFGS from all `starts`, which are evaluated together.

    `function` returns (value, gradient) for each of a list of points, one of each descent. Steps are taken in
    y, with x = `metric` y entry by entry. A descent ends after `steps` steps, where the gradient's norm is at
    most `gradient_norm_tol`, or at the deadline.
    """
    descents, ends = [_lbfgs(x, metric, steps, gradient_norm_tol) for x in starts], dict[int, DescentResult]()
    points = {k: next(descent) for k, descent in enumerate(descents)}
    while points:
        is_over = bool(deadline.is_over())
        answers = [None] * len(points) if is_over else function(list(points.values()))
        for k, answer in zip(list(points), answers, strict=True):
            try:
                points[k] = descents[k].send(answer)
            except StopIteration as end:
                ends[k] = end.value
                del points[k]
    return [ends[k] for k in range(len(descents))]


@single_blas_thread()
def trust_region(
    function: Callable[[FloatArray], tuple[float, FloatArray, FloatArray]],
    x: FloatArray,
    *,
    radius: float,
    steps: int,
    gtol: float,
) -> DescentResult:
    """Return the end of SciPy's trust-exact from `x` and of three Newton steps from there.

    `function` returns (value, gradient, Hessian); `radius` is the initial trust radius, `steps` the most
    steps before the Newton steps. The status is CONVERGED if the gradient's norm is below `gtol`, else
    STALLED.
    """

    @lru_cache(1)  # the search asks for value, gradient and Hessian one by one
    def known(y: bytes) -> tuple[float, FloatArray, FloatArray]:
        """Return value, gradient and Hessian at the vector with these bytes, cached."""
        return function(np.frombuffer(y))

    def part(k: int, y: FloatArray) -> Any:
        """Return the value, the gradient or the Hessian at y: number k of these."""
        return known(y.tobytes())[k]

    value, jac, hess = (partial(part, k) for k in range(3))
    options: Any = {"gtol": gtol, "maxiter": steps, "initial_trust_radius": radius}
    minimize: Any = optimize.minimize  # its stubs know no method that takes these functions
    fit = minimize(value, x, jac=jac, hess=hess, method="trust-exact", options=options)
    x = np.asarray(fit.x)
    for _ in range(3):
        x = x - np.linalg.solve(hess(x), jac(x))
    slope = float(np.linalg.norm(jac(x)))
    status = Status.CONVERGED if slope < gtol else Status.STALLED
    return DescentResult(x, float(value(x)), slope, int(fit.nit), status)


@dataclass(frozen=True)
class Round:
    """A round of `successive_elimination`: its descent from a start, and how many of the ends go on."""

    descend: Callable[[DescentResult], DescentResult]
    n_kept: int = 1
    margin: float = np.inf
    """Ends that exceed the least value by more than this are eliminated, except the second lowest."""


def distinct(
    ends: Sequence[DescentResult],
    is_same: Callable[[DescentResult, DescentResult], bool] | None = None,
    n_kept: int = 2**30,
    margin: float = np.inf,
) -> list[DescentResult]:
    """Return at most `n_kept` distinct ends, lowest value first.

    Among ends for which is_same(end, other) is true only the lowest remains, with the starts and steps of
    all. Ends of value nan are left out, and so are those above the lowest by more than `margin`; the second
    lowest always remains.
    """
    unique: list[DescentResult] = []
    for end in sorted((end for end in ends if not np.isnan(end.value)), key=lambda end: end.value):
        for k, known in enumerate(unique if is_same else ()):
            if is_same is not None and is_same(known, end):
                unique[k] = replace(known, starts=known.starts + end.starts, steps=known.steps + end.steps)
                break
        else:
            unique.append(end)
    return [end for k, end in enumerate(unique[:n_kept]) if k < 2 or end.value <= unique[0].value + margin]


@single_blas_thread()
def successive_elimination(
    field: Sequence[DescentResult],
    rounds: Sequence[Round],
    is_same: Callable[[DescentResult, DescentResult], bool] | None = None,
    *,
    workers: int | None = 1,
    keep_all: bool = False,
) -> tuple[list[DescentResult], list[DescentResult]]:
    """Return (best distinct ends of the last round, lowest value first; ends that were eliminated).

    The first of `rounds` descends from `field`, each other one from the best distinct ends of the round
    before it. Ends are merged where is_same(end, other) is true. `workers` threads share the descents. With
    `keep_all` only the first round is made, and all its ends but those of value nan are returned, in the
    order of `field`.
    """
    field, eliminated = list(field), []
    for elimination in rounds:

        def further(
            k: int, elimination: Round = elimination, field: list[DescentResult] = field
        ) -> DescentResult:
            """Return the end of a round's descent from end k of the field, with the steps of both."""
            end = elimination.descend(field[k])
            return replace(end, steps=field[k].steps + end.steps, starts=field[k].starts)

        ends = parallel_map(further, len(field), workers)
        if keep_all:
            return [end for end in ends if not np.isnan(end.value)], []
        ends = distinct(ends, is_same)
        field = distinct(ends, None, elimination.n_kept, elimination.margin)
        eliminated += ends[len(field) :]
    return field, eliminated


def fd_hessian(
    gradient: Callable[[FloatArray], FloatArray], x: FloatArray, step: FloatArray
) -> FloatArray | None:
    """Return the Hessian at x by central differences of `gradient` with steps step[j]; None at a kink.

    A kink is where forward and backward differences are far apart.
    """
    middle = gradient(x)
    left, right = np.empty((x.size, x.size)), np.empty((x.size, x.size))
    for j, h in enumerate(step):
        moved = x.copy()
        moved[j] = x[j] + h
        right[j] = (gradient(moved) - middle) / h
        moved[j] = x[j] - h
        left[j] = (middle - gradient(moved)) / h
    if np.abs(right - left).max() > _KINK * max(np.abs(right).max(), np.abs(left).max()):
        return None
    central = 0.5 * (left + right)
    return np.asarray(0.5 * (central + central.T))


@single_blas_thread()
def newton(
    gradient: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    hessian: FloatArray,
    fixed: FloatArray,
    slope: Callable[[FloatArray], float],
    steps: int = 4,
) -> tuple[FloatArray, float | None, FloatArray | None]:
    """Return (point, least curvature, its direction) after Newton steps from x orthogonal to `fixed`.

    `fixed` has a direction in each column. All steps use the same `hessian`, that at x; they stop after
    `steps` of them, or where slope(point), the norm of the gradient, no longer halves. Curvature and
    direction are the least eigenvalue of `hessian` orthogonal to `fixed` and its vector; None if `fixed`
    spans the whole space.
    """
    complement = linalg.null_space(fixed.T, rcond=1e-9) if fixed.size else np.eye(x.size)
    if not complement.size:
        return x, None, None
    values, vectors = np.linalg.eigh(complement.T @ hessian @ complement)
    vectors = complement @ vectors
    firm = np.abs(values) > _FLAT * np.abs(values).max()
    least = slope(x)
    for _ in range(steps):
        by = vectors.T @ gradient(x)
        new = x - vectors @ np.where(firm, by / np.where(firm, values, 1.0), 0.0)
        new_slope = slope(new)
        if not new_slope < 0.5 * least:
            break
        x, least = new, new_slope
    return x, float(values[0]), vectors[:, 0]
