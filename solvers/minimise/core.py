"""Descents of any objective and races of many starts: what all minimisers of the package share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, optimize

from ...theory.arguments import FloatArray
from ..results import Status
from ..threads import each

__all__ = ["End", "Round", "bend", "descend", "distinct", "newton", "race"]

# Curvatures below this share of the largest one are flat: differences do not resolve them.
_FLAT = 1e-8
# Differences to both sides that disagree by this share of the largest curvature are those of a kink.
_KINK = 1e-2


@dataclass
class End:
    """Where a descent ended."""

    x: FloatArray
    value: float
    slope: float
    """Length of the gradient, or of what the caller takes for it."""
    steps: int
    status: Status
    curvature: float | None = None
    starts: tuple[int, ...] = ()
    """Which starts led here."""

    @classmethod
    def at(cls, x: Any, *starts: int) -> "End":
        """Return a start as an end of no steps."""
        return cls(np.asarray(x, dtype=np.float64), np.inf, np.inf, 0, Status.STALLED, starts=starts)


def descend(
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
    still: float = 0.0,
    until: float = np.inf,
) -> End:
    """Descend by L-BFGS-B from `x`.

    `function` returns value and gradient, or without `gradient` the value, which is then differenced in
    relative steps. `l1` adds a kink, the sum of l1 |x|: these variables are split into positive and negative
    parts. `metric` T, a vector or without bounds and kinks a matrix, makes the steps those of y with x = T y;
    the descent then stops where the gradient is shorter than `still`. `until` is a time of `perf_counter`.
    """
    size = x.size
    split = np.zeros(0, np.intp) if l1 is None else np.flatnonzero(l1)
    scale = np.ones(size) if metric is None else metric
    whole = scale.ndim == 2
    last, best = np.full(1, np.inf), np.full(2, np.inf)

    def outward(y: FloatArray) -> FloatArray:
        z = y[:size]
        if split.size:
            z = z.copy()
            z[split] -= y[size:]
        return scale @ z if whole else z * scale

    def value(y: FloatArray) -> Any:
        found = function(outward(y))
        if not gradient:
            return found
        level, by = found
        last[0] = np.linalg.norm(by)
        if level < best[0]:
            best[:] = level, last[0]
        by = by @ scale if whole else by * scale
        if l1 is None:
            return level, by
        price = l1[split] * scale[split]
        level += float(price @ (y[split] + y[size:]))
        parts = np.concatenate([by, price - by[split]])
        parts[split] += price
        return level, parts

    y = np.linalg.solve(scale, x) if whole else x / scale
    limits: Any = None if bounds is None else [tuple(bound) for bound in bounds]
    if split.size:
        limits = limits or [(None, None)] * size
        limits += [(0.0, limits[k][1]) for k in split]
        for k in split:
            limits[k] = (0.0, limits[k][1])
        y = np.concatenate([y, np.maximum(-y[split], 0.0)])
        y[split] = np.maximum(y[split], 0.0)

    def watched(intermediate_result: Any) -> None:
        if time.perf_counter() > until or last[0] <= still:
            raise StopIteration

    options: Any = {"maxiter": steps, "maxfun": 3 * steps, "maxcor": 30, "ftol": ftol, "gtol": gtol}
    if not gradient:
        options |= {"finite_diff_rel_step": 1e-6, "maxfun": 3 * steps * (size + 1), "maxcor": 10}
    jac: Any = True if gradient else "2-point"
    minimize: Any = optimize.minimize  # its stubs know no objective that returns its gradient too
    found = minimize(value, y, jac=jac, method="L-BFGS-B", bounds=limits, options=options, callback=watched)
    ran_out = found.nit >= steps or found.nfev >= options["maxfun"] or time.perf_counter() > until
    status = Status.STEPS if ran_out else Status.STALLED
    if not np.isfinite(found.fun):
        return End(x, np.inf, np.inf, int(found.nit), Status.DIVERGED)
    return End(outward(np.asarray(found.x)), float(found.fun), float(best[1]), int(found.nit), status)


# --- Races --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One round of a race: how each start of it descends, and how many distinct ends go on."""

    descend: Callable[[FloatArray], End]
    kept: int = 1
    near: float = np.inf
    """Ends that are above the least by more than this do not go on, but for the second."""


def distinct(
    ends: Sequence[End],
    alike: Callable[[End, End], bool] | None = None,
    kept: int = 2**30,
    near: float = np.inf,
) -> list[End]:
    """Return the distinct ends, best first; each has the starts of all that are like it."""
    found: list[End] = []
    for end in sorted((end for end in ends if np.isfinite(end.value)), key=lambda end: end.value):
        for k, other in enumerate(found if alike else ()):
            if alike is not None and alike(other, end):
                found[k] = replace(other, starts=other.starts + end.starts, steps=other.steps + end.steps)
                break
        else:
            found.append(end)
    return [end for k, end in enumerate(found[:kept]) if k < 2 or end.value <= found[0].value + near]


def race(
    field: Sequence[End],
    rounds: Sequence[Round],
    alike: Callable[[End, End], bool] | None = None,
    *,
    workers: int | None = 1,
    whole: bool = False,
) -> tuple[list[End], list[End]]:
    """Return the ends of the last round, best first, and those that were left behind on the way.

    All descend as the first round says, the best of their distinct ends as the next one says, and so on.
    `workers` threads share each round; the ends do not depend on their number.
    """
    field, lost = list(field), []
    for one in rounds:

        def further(k: int, one: Round = one, field: list[End] = field) -> End:
            end = one.descend(field[k].x)
            return replace(end, steps=field[k].steps + end.steps, starts=field[k].starts)

        ends = each(further, len(field), workers)
        if whole:
            return [end for end in ends if not np.isnan(end.value)], []
        ends = distinct(ends, alike)
        field = distinct(ends, None, one.kept, one.near)
        lost += ends[len(field) :]
    return field, lost


# --- Second derivatives -------------------------------------------------------------------------------------


def bend(gradient: Callable[[FloatArray], FloatArray], x: FloatArray, step: FloatArray) -> FloatArray | None:
    """Return the Hessian by differences of the gradient, or None at a kink."""
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
    whole = 0.5 * (left + right)
    return np.asarray(0.5 * (whole + whole.T))


def newton(
    gradient: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    hessian: FloatArray,
    fixed: FloatArray,
    slope: Callable[[FloatArray], float],
    steps: int = 4,
) -> tuple[FloatArray, float | None, FloatArray | None]:
    """Take Newton steps with one Hessian while `slope` halves, across the columns of `fixed`.

    These are directions of symmetries, along which nothing changes, and variables at bounds. Returned are the
    point, the least curvature and its direction; None where nothing is free.
    """
    kept = linalg.null_space(fixed.T, rcond=1e-9) if fixed.size else np.eye(x.size)
    if not kept.size:
        return x, None, None
    values, vectors = np.linalg.eigh(kept.T @ hessian @ kept)
    vectors = kept @ vectors
    firm = np.abs(values) > _FLAT * np.abs(values).max()
    least = slope(x)
    for _ in range(steps):
        by = vectors.T @ gradient(x)
        new = x - vectors @ np.where(firm, by / np.where(firm, values, 1.0), 0.0)
        less = slope(new)
        if not less < 0.5 * least:
            break
        x, least = new, less
    return x, float(values[0]), vectors[:, 0]
