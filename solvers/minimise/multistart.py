"""Descents on the exact loss from many starts, whose best end is taken as the global minimum.

Arguments that several functions share: `aim`, the `Objective` that is minimised, and `cheap`, one that takes
less time; `judge`, one whose values compare ends; `begin`, the starts of descents; `steps` and `tol`, the
most steps of a descent and the norm of the gradient at which it has converged, or both as `limits`;
`reset_dead`, whether outputs that are never positive are reset (`_revive`); `metric`, that of
`descent.lbfgs`; `count`, how many random starts there are; `needed`, whether one descent is made even after
the deadline.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ...theory import validation
from ...theory.codes import decoder_bound, relu_bound
from ...theory.features import Features, as_features
from ...theory.unequal import loss_bound
from ...theory.validation import FloatArray
from ..deadline import Deadline, DeadlineOver, deadline_of, work_seconds
from ..parallel import parallel_map, single_blas_thread
from ..progress import call_progress, report_progress, status, time_left
from ..results import Status
from . import descent
from .descent import DescentResult, Round, distinct, successive_elimination
from .local_search import local_search
from .objective import Objective, Penalty
from .result import Certificate, Local, Minimum
from .sampled_loss import Samples
from .starts import Model, group_starts, ordered_starts, perturbed_model, random_starts

__all__ = ["descend", "lower_bound", "minimise"]

_MOST_FEATURES = 64  # of a search; beyond, starts no longer reach the global minimum
_MOST_FEATURES_DESCENT = 1024  # of one descent
_LARGEST_WEIGHT = 1e20  # of a start: the loss holds fourth powers of it
_HESSIAN_SECONDS = 10.0  # of a Hessian by differences at most: two gradients for each variable
# Largest step of these differences: outputs of dropped features bend where a weight moves by their bias.
_HESSIAN_STEP = 5e-8
# Least step of a bias, which otherwise is a tenth of it: the loss bends at bias 0.
_LEAST_BIAS_STEP = 1e-10
_REFINED_STEPS = (30, 5)  # of descents by four times the frequencies, and by 16 times
_KICK = 0.05  # length of the step off a saddle
_SADDLE_CURVATURE = -1e-6  # least curvature, in units of the zero model, below which an end is a saddle
_SHORT_ENCODING = 0.1  # encodings shorter than this count as dropped when their biases are set
_OBJECTIVE_ROUNDING = 1e-12  # in units of the zero model
_LEAST_P = 1e-100  # rarer features have no bound
# Objectives, in units of the zero model, that count as the same minimum.
_SAME_OBJECTIVE = 1e-6
# Relative difference of the invariants of M and b of the same minimum.
_SAME_INVARIANTS = 1e-3
_AGREEING_ROUNDS = 2  # of a race that end at the best: then no further round is made
_MAX_ROUNDS = 4  # of further starts where too few ended at the best
_ROUND_SHARE = 0.5  # of the seconds taken so far that must be left for another round


@dataclass(frozen=True)
class _Screening:
    """Settings of `_Search.screen`: descents on samples, then short ones on the loss itself."""

    samples: int = 2048
    judge_frequencies: int = 256
    """Frequencies of the loss by which ends on samples are compared."""
    steps: int = 300
    """Most steps of a descent on samples."""
    gradient_norm: float = 1e-3
    """Norm of the gradient at which a descent by levels ends."""
    sampled_gradient_norm: float = 3e-3
    """Norm of the gradient at which a descent on samples ends."""
    search_steps_per_start: int = 300
    """Steps of the local search from the best ends, for each random start."""
    most_search_starts: int = 20
    """Random starts at most for which there are such steps."""
    free_factor: int = 3
    """Factor on these steps if the decoder is free, where descents take longer."""
    moves_per_start: int = 6
    """Random moves of the best ends on samples, for each random start."""
    moves_batch: int = 8
    """Number of moves after which the ends are sorted again."""
    bases: int = 3
    """Best ends from which moves start."""
    batch: int = 14
    """Number of starts that descend together."""
    finalists: int = 6
    """Distinct ends from which there are descents on the loss itself."""
    short_steps: int = 8
    """Steps of the first descents from the finalists on the loss."""
    margin: float = 3e-5
    """Finalists go on if (objective - least)/(loss of the zero model) is at most this; two always do."""
    coarse_gradient_norm: float = 1e-4
    """Norm of the gradient at which descents with few frequencies end, if there is no metric."""
    same_objective: float = 1e-4
    same_invariants: float = 1e-2
    starts_share: float = 0.4
    """Share of a budget of seconds after which the descents from all starts end."""
    moves_share: float = 0.6
    """Share of a budget of seconds after which the moves of features end."""
    metrics_share: float = 0.3
    """Share of the remaining seconds that computing the metrics may take."""
    most_metric_variables: int = 500
    """Largest number of variables for which the Hessian on samples is the metric of descents."""
    metric_step: float = 1e-4
    """Step of the finite differences that give the Hessian on samples."""
    least_metric_curvature: float = 1e-3
    """Least curvature of the metric, in units of its largest."""


_SCREENING = _Screening()


def _descent(
    aim: Objective, x: FloatArray, steps: int, tol: float, metric: FloatArray | None = None
) -> DescentResult:
    """Return the end of L-BFGS-B on the objective `aim` from x, after at most `steps` steps.

    Its status is CONVERGED if the gradient's norm plus its error is at most `tol`. With a matrix T as
    `metric` steps are taken in y, x = T y, without bounds; by default biases take smaller steps than weights.
    """
    count = x.size - aim.biases
    l1 = np.where(np.arange(x.size) < count, aim.l1, 0.0) if aim.l1 else None
    settings: Any = {"l1": l1, "steps": steps, "deadline": aim.deadline}
    if metric is not None:
        result = descent.lbfgs(
            aim.smooth, x, metric=metric, gtol=1e-16, gradient_norm_tol=0.5 * tol, **settings
        )
    else:
        top = aim.largest
        bounds: list[Any] = [(None if top is None else -top, top)] * count
        bounds += [(None, 0.0 if aim.limit else None)] * aim.biases
        if isinstance(aim.loss, Samples):  # it bends too often for more digits
            settings["gradient_norm_tol"] = tol
        result = descent.lbfgs(aim.smooth, x, bounds=bounds, metric=_metric(aim), gtol=0.01 * tol, **settings)
    if result.status is Status.DIVERGED:
        return result
    if aim.l1 or aim.limit or aim.largest is not None:  # the gradient is not all that counts
        result = replace(result, value=aim.value(result.x), slope=float(np.linalg.norm(aim.slope(result.x))))
    still = result.slope <= tol and not aim.deadline.is_over()
    still = still and result.slope + aim.slope_error(result.x) <= tol
    return replace(result, status=Status.CONVERGED if still else result.status)


def _revive(aim: Objective, x: FloatArray) -> FloatArray | None:
    """Return the vector x with dead outputs reset to weights 0 and bias E[feature]; None if none is dead.

    Dead outputs are never positive, or have a bias of at most 0 and decoder weights shorter than 0.1. Return
    None also if biases are not free, or in the limit of rare features.
    """
    if aim.bias is not True or aim.limit:
        return None
    W_out, W_in, b = aim.split(x)
    M = np.ascontiguousarray(W_out @ W_in)
    _, by_M, by_b = aim.loss(M, b, aim.accuracy)
    # The gradient of an output without errors is 0 too, but that one answers to its feature.
    top = aim.features.values.support[1] * aim.features.scale
    diagonal = np.maximum(np.diag(M), 0.0)
    answer = np.where(diagonal > 0.0, diagonal * top, 0.0) if np.isfinite(top).all() else diagonal
    dead = (by_b == 0.0) & ~by_M.any(axis=1) & (answer + b <= 0.0)
    dead = (
        (b <= 0.0)
        & (dead | (np.linalg.norm(W_out, axis=1) < _SHORT_ENCODING))
        & (aim.features.importance > 0.0)
    )
    if not dead.any():
        return None
    return aim.join(
        np.where(dead[:, None], 0.0, W_out),
        np.where(dead, 0.0, W_in) if aim.tied else W_in,
        np.where(dead, aim.mean, b),
    )


def _descend_together(
    aim: Objective, vectors: list[FloatArray], steps: int, tol: float, workers: int | None
) -> list[DescentResult]:
    """Return the ends of descents on `aim` from all `vectors`, by `workers` threads.

    A descent ends after at most `steps` steps, or where the gradient's norm is at most `tol`.
    """
    if aim.l1 or aim.limit or aim.largest is not None:
        return parallel_map(lambda k: _descent(aim, vectors[k], steps, tol), len(vectors), workers)
    return descent.descend_together(
        lambda points: aim.smooth_of_many(points, workers),
        vectors,
        metric=_metric(aim),
        steps=steps,
        gradient_norm_tol=tol,
        deadline=aim.deadline,
    )


def _with_value_of(judge: Objective, end: DescentResult) -> DescentResult:
    """Return `end` with the value of the objective `judge`; inf if the old or the new value is not finite."""
    value = judge.value(end.x) if np.isfinite(end.value) else np.inf
    return replace(end, value=value if np.isfinite(value) else np.inf)


def _metric(aim: Objective) -> FloatArray:
    """Return the metric of descents on `aim`, a vector that is 1 for weights and smaller for biases.

    A bias b > 0 costs b² on inputs where its feature is off, some 1/p times as many as those where it is on.
    """
    return np.where(np.arange(aim.size) < aim.size - aim.biases, 1.0, aim.unit**0.25)


def _descend_and_revive(
    aim: Objective,
    x: FloatArray,
    steps: int,
    tol: float,
    metric: FloatArray | None = None,
    reset_dead: bool = True,
) -> DescentResult:
    """Return the end of a descent on `aim` from x, or a lower one after dead outputs are reset.

    The second descent, with the dead outputs reset by `_revive`, is made only if `reset_dead`. `steps`, `tol`
    and `metric` are those of each descent: most steps, norm of the gradient at which it has converged, and
    T of the steps in y, x = T y.
    """
    end = _descent(aim, x, steps, tol, metric)
    # Samples may be a poor metric.
    if metric is not None and tol < end.slope < np.inf and not aim.deadline.is_over():
        other = _descent(aim, end.x, steps, tol)
        end = replace(min(end, other, key=lambda result: result.value), steps=end.steps + other.steps)
    possible = reset_dead and np.isfinite(end.value) and not aim.deadline.is_over()
    again = _revive(aim, end.x) if possible else None
    if again is None:
        return end
    other = _descent(aim, again, steps, tol, metric)
    return replace(min(end, other, key=lambda result: result.value), steps=end.steps + other.steps)


def _polish(
    aim: Objective, end: DescentResult, steps: int, tol: float, reset_dead: bool = True
) -> DescentResult:
    """Return `end` refined by Newton's method and steps off saddles, or by a loss of more frequencies.

    Frequencies are refined if the loss of `aim` is a truncated sum over them. `end` is returned unchanged
    with an l1 penalty, if the Hessian is too expensive, or after the deadline. Descents off saddles have at
    most `steps` steps, have converged where the gradient's norm is at most `tol`, and reset dead outputs if
    `reset_dead`.
    """
    if not aim.exact:
        return _refine(aim, end, tol)
    seconds = 2.0 * aim.size * aim.loss.seconds  # of a Hessian by differences
    expensive = seconds > min(_HESSIAN_SECONDS, aim.deadline.seconds_left())
    if expensive or aim.l1 or not np.isfinite(end.value):
        return end
    try:
        return _newton_and_kicks(aim, end, steps, tol, reset_dead)
    except DeadlineOver:
        return end


def _newton_and_kicks(
    aim: Objective, end: DescentResult, steps: int, tol: float, reset_dead: bool
) -> DescentResult:
    """Return `end` after Newton's method on `aim` and, at a saddle, descents from both sides of it.

    Both are repeated up to three times. Descents have at most `steps` steps, have converged where the
    gradient's norm is at most `tol`, and reset dead outputs if `reset_dead`.
    """
    for _ in range(3):
        end, vector = _newton(aim, end, tol)
        if end.curvature is None or end.curvature > _SADDLE_CURVATURE or vector is None:
            return end
        kicked = [end.x + side * _KICK * vector for side in (1.0, -1.0)]
        tries = [_descend_and_revive(aim, x, steps, tol, reset_dead=reset_dead) for x in kicked]
        best = min(tries, key=lambda result: result.value)
        if not best.value < end.value:
            return end
        end = replace(best, steps=end.steps + sum(result.steps for result in tries), starts=end.starts)
    return _newton(aim, end, tol)[0]


def _refine(aim: Objective, end: DescentResult, tol: float) -> DescentResult:
    """Return `end`, or the end of further descents if more frequencies are needed to see convergence.

    A descent has converged where the norm of the gradient of `aim` plus its error is at most `tol`. More
    frequencies are needed if only the error prevents that.
    """
    for steps in _REFINED_STEPS:
        if end.status is Status.CONVERGED or not np.isfinite(end.value) or aim.deadline.is_over():
            break
        start = work_seconds()
        hidden = end.slope <= tol + aim.slope_error(end.x)
        # A gradient with four times the frequencies takes four times as long as the one of this error.
        if not hidden or 8.0 * (work_seconds() - start) > aim.deadline.seconds_left():
            break
        aim.refine()
        further = _descent(aim, end.x, steps, tol, end.metric)
        end = replace(further, steps=end.steps + further.steps, starts=end.starts, metric=end.metric)
    return end


def _difference_hessian(
    gradient: Callable[[FloatArray], FloatArray], aim: Objective, x: FloatArray
) -> FloatArray | None:
    """Return the Hessian of `aim` at x by differences of its `gradient`; None at a kink."""
    step = np.full(aim.size, _HESSIAN_STEP)
    if aim.biases:
        step[-aim.biases :] = np.clip(0.1 * np.abs(x[-aim.biases :]), _LEAST_BIAS_STEP, _HESSIAN_STEP)
    return descent.fd_hessian(gradient, x, step)


def _newton(aim: Objective, end: DescentResult, tol: float) -> tuple[DescentResult, FloatArray | None]:
    """Return (end after Newton steps on `aim`, direction of least curvature); (`end`, None) at a kink.

    The point stays if the steps raise the objective. The end has converged where the gradient's norm plus its
    error is at most `tol`.
    """

    def gradient(x: FloatArray) -> FloatArray:
        """Return the gradient at x of the objective without its l1 penalty."""
        aim.deadline.check()
        return aim.smooth(x)[1]

    H = _difference_hessian(gradient, aim, end.x)
    if H is None:
        return replace(end, curvature=None), None
    turns, at_bound, count = aim.symmetries(end.x), aim.at_bound(end.x), aim.size - aim.biases
    if at_bound.any() and turns.size:  # the symmetries that leave the weights at their bounds where they are
        turns = turns @ linalg.null_space(turns[at_bound], rcond=1e-9)
    fixed = np.hstack([turns, np.eye(aim.size)[:, at_bound]])

    def slope(x: FloatArray) -> float:
        """Return the norm of the objective's gradient at x."""
        outside = aim.largest is not None and np.abs(x[:count]).max() > aim.largest
        return np.inf if outside else float(np.linalg.norm(aim.slope(x)))

    x, curvature, vector = descent.newton(gradient, end.x, H, fixed, slope)
    if aim.value(x) > end.value + 1e-12:
        x = end.x
    result = replace(
        end, x=x, value=aim.value(x), slope=float(np.linalg.norm(aim.slope(x))), curvature=curvature
    )
    still = result.slope <= tol and result.slope + aim.slope_error(x) <= tol
    return replace(result, status=Status.CONVERGED if still else end.status), vector


def _invariants(aim: Objective, x: FloatArray) -> FloatArray:
    """Return sums over M = W_out W_in and b that do not change if features of the same law are exchanged.

    The shape is (11,), or (13,) for a law with groups; `aim` splits the vector x into W_out, W_in and b.
    """
    W_out, W_in, b = aim.split(x)
    M, law = W_out @ W_in, aim.features
    kind, same_group = _group_kinds(law)
    _, label = np.unique(np.stack([law.p, law.scale, law.importance, kind]), axis=1, return_inverse=True)
    label = label.ravel()
    feature_weights = np.cos(1.0 + label)
    target_weights = np.where(law.importance > 0.0, np.cos(2.0 + label), 0.0)
    powers = [target_weights @ M**k @ feature_weights for k in range(1, 5)] + [
        target_weights @ np.diag(M) ** k for k in range(1, 4)
    ]
    within_groups = (
        [target_weights @ (M * same_group) ** k @ feature_weights for k in (1, 2)] if law.groups else []
    )
    return np.array(
        [
            *powers,
            *within_groups,
            *(target_weights @ b**k for k in range(1, 4)),
            target_weights @ (M * M) @ (target_weights * b),
        ]
    )


def _group_kinds(law: Features) -> tuple[FloatArray, FloatArray]:
    """Return (a number for each feature, a matrix that is 1 for two features of the same group and else 0).

    Two features have equal numbers if the groups of the law do not distinguish them.
    """
    kinds, same, tables = np.zeros(law.n_features), np.zeros((law.n_features, law.n_features)), []
    for members, patterns, chances in law.groups:
        table = np.shape(patterns), np.asarray(patterns).tobytes(), np.asarray(chances).tobytes()
        if table not in tables:
            tables.append(table)
        sums, size = np.sum(patterns, axis=1), len(members)
        # All on together, or one at a time and equally often.
        is_exchangeable = np.all((sums == 0) | (sums == size))
        is_exchangeable |= np.all(sums <= 1) and np.ptp(law.p[np.asarray(members)]) == 0.0
        offsets = np.zeros(size) if is_exchangeable else np.arange(size)
        kinds[np.asarray(members)] = 1.0 + tables.index(table) * law.n_features + offsets
        same[np.ix_(members, members)] = 1.0
    return kinds, same


def _same_minimum_predicate(
    aim: Objective, same: float, close: float
) -> Callable[[DescentResult, DescentResult], bool]:
    """Return a function of two ends that is true if they are the same minimum of `aim` up to symmetries.

    It is true if the objectives differ by at most `same`, and each sum v of `_invariants` by at most
    close (1 + |v|).
    """

    @cache
    def marks(x: bytes) -> FloatArray:
        """Return sums over W_out W_in and b that no exchange of equal features changes, cached.

        x are the bytes of a model's vector.
        """
        return _invariants(aim, np.frombuffer(x))

    def are_equal(left: DescentResult, right: DescentResult) -> bool:
        """Return whether two ends have equal objectives and invariants."""
        if abs(left.value - right.value) > same:
            return False
        first, second = marks(left.x.tobytes()), marks(right.x.tobytes())
        return bool(np.all(np.abs(first - second) <= close * (1.0 + np.abs(second))))

    return are_equal


def lower_bound(n_features: int, n_hidden: int, law: Any) -> float:
    """Return the best proved lower bound of the loss per feature of any ReLU(M x + b), rank(M) <= n_hidden.

    The bound is the largest of `theory.codes.decoder_bound` and `theory.codes.relu_bound`, if all features
    are equal, and `theory.unequal.loss_bound`, if values are uniform; 0 where none holds.

    Parameters
    ----------
    n_features, n_hidden : int
        n and the largest rank of M.
    law : Features or float
        Law of the features, or the probability p of features that are uniform on [0, 1] when on.

    Returns
    -------
    float

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> round(lower_bound(20, 5, Features(20, 0.05, importance=0.9 ** np.arange(20))), 6)
    0.000232
    """
    n, m = validation.integer("n_features", n_features, 1), validation.integer("n_hidden", n_hidden, 1)
    return _lower_bound(n, m, as_features(law, n))


@lru_cache(64)
def _lower_bound(n: int, m: int, features: Features) -> float:
    """Return the `lower_bound` for n `features` and rank(M) <= m; arguments are not checked."""
    if m >= n:
        return 0.0
    p, weight, bound = features.p, features.importance * features.scale**2, 0.0
    uniform = features.values.uniform and features.exactly is None
    if features.has_equal_features:
        bound = float(decoder_bound(float(p[0]), m / n))
        if p[0] < 1.0:
            bound = max(bound, float(relu_bound(float(p[0]), m / n)))
        bound *= float(weight.min())
    if uniform and np.all((weight == 0.0) | (p >= _LEAST_P)):
        bound = max(bound, loss_bound(features, m))
    return bound


def _grouped_count(count: int) -> int:
    """Return the number of `group_starts` beside `count` random ones: half, but at least 3; 0 for 0."""
    return max(count // 2, 3) if count else 0


def _count_hits(ends: list[DescentResult], n_given: int) -> int:
    """Return how many starts of index `n_given` or more ended at the least objective, that of `ends[0]`."""
    value_by_start = {k: end.value for end in ends for k in end.starts}
    return sum(
        k >= n_given and value <= ends[0].value + _SAME_OBJECTIVE for k, value in value_by_start.items()
    )


def _agree(least_of_rounds: list[float]) -> bool:
    """Return whether two rounds of a race ended at the best, given the least objective of each."""
    least = min(least_of_rounds)
    return sum(value <= least + _SAME_OBJECTIVE for value in least_of_rounds) >= _AGREEING_ROUNDS


def _merge_minima(ends: list[DescentResult], further: list[DescentResult]) -> list[DescentResult]:
    """Return the `ends` of one search and the `further` ends of another in one list, the best first.

    Both lists have their best end first. The first of `further` counts as best only if it is better by more
    than rounding; the values of other ends are raised to that of the best where rounding makes them lower.
    """
    if not further:
        return ends
    best = further[0] if further[0].value < ends[0].value - _OBJECTIVE_ROUNDING else ends[0]
    others = [end for end in (*ends, *further) if end is not best]
    return [best, *(replace(end, value=max(end.value, best.value)) for end in others)]


def _make_minimum(
    aim: Objective, best: DescentResult, ends: list[DescentResult], planned: int, n_given: int = 0
) -> Minimum:
    """Return the `Minimum` of the search on `aim` whose best end is `best`, among all `ends`.

    `planned` is the number of starts that the search was to make; the caller gave the first `n_given`.
    """
    W_out, W_in, b = aim.split(best.x)
    loss, error = aim.end(np.ascontiguousarray(W_out @ W_in), b)
    known_error = np.isfinite(best.value) and (aim.exact or not aim.deadline.is_over())
    value_by_start = {k: end.value for end in ends for k in end.starts}
    has_bound = aim.classes is None and not aim.limit  # else no bound is known
    bound = min(lower_bound(aim.n, aim.m, aim.features) if has_bound else 0.0, loss)
    minima = distinct(
        [end for end in ends if np.isfinite(end.value)],
        _same_minimum_predicate(aim, _SAME_OBJECTIVE, _SAME_INVARIANTS),
    )
    return Minimum(
        W_out=W_out,
        W_in=W_in,
        b=b,
        loss=loss,
        error_estimate=error,
        objective=best.value * aim.unit,
        gradient_norm=best.slope,
        gradient_error=aim.slope_error(best.x) if known_error else np.inf,
        curvature=best.curvature,
        minima=tuple(Local(end.value * aim.unit, len(end.starts), *aim.split(end.x)) for end in minima),
        losses=np.sort([value * aim.unit for value in value_by_start.values()]),
        hits=_count_hits([best, *ends], n_given),
        starts=len(value_by_start),
        planned=planned + sum(k >= planned for k in value_by_start),
        arrived=sum(len(end.starts) for end in ends if end.status is Status.CONVERGED),
        steps=sum(end.steps for end in ends),
        status=best.status,
        certificate=Certificate("many starts", bound, loss - bound, len(value_by_start)),
    )


class _Search:
    """A search on `aim` from many starts, with its budget of seconds and its progress.

    `limits` are the most steps of a descent and the norm of the gradient at which it has converged, `workers`
    the number of threads (None: all). `progress` is called after each descent with (descents so far, descents
    in all, least objective); None stands for a status line, False for neither.
    """

    def __init__(self, aim: Objective, limits: tuple[int, float], workers: int | None, progress: Any):
        self.aim, self.workers, self.progress = aim, workers, progress
        self.steps, self.tol = limits
        self.start = work_seconds()
        self.lock, self.n_done, self.planned, self.least = threading.Lock(), 0, 0, np.inf

    def report_descent(self, end: DescentResult) -> None:
        """Count a descent that ended at `end`; report the counts and the least loss."""
        with self.lock:
            self.n_done, self.least = self.n_done + 1, min(self.least, end.value)
            least = self.least * self.aim.unit
            if callable(self.progress):
                call_progress(self.progress, self.n_done, self.planned, least)
                return
            if self.progress is None:
                taken, most = work_seconds() - self.start, self.aim.deadline.seconds_left()
                remaining = time_left(taken, self.n_done, self.planned, most)
                status(f"{self.n_done} of {self.planned} descents, least loss {least:.6g}{remaining}")

    def descend_all(
        self,
        aim: Objective,
        begin: list[DescentResult],
        limits: tuple[int, float],
        judge: Objective | None = None,
        needed: bool = True,
    ) -> list[DescentResult]:
        """Return the ends of descents on `aim` from the starts `begin`, in their order.

        Starts after the deadline of `aim` are left out, except the first one if `needed`; so are ends of
        value nan. `limits` are the most steps and the norm of the gradient at which a descent ends. Values
        are those of the objective `judge`, if there is one, else of `aim`.
        """

        def descend_one(start: DescentResult) -> DescentResult:
            """Return the end of a descent on `aim` from one start, with the value of `judge` if given."""
            if not (needed and start is begin[0]) and aim.deadline.is_over():
                return replace(start, value=np.nan)
            end = _descend_and_revive(aim, start.x, *limits)
            if judge is not None and np.isfinite(end.value):
                end = _with_value_of(judge, end)
            self.report_descent(end)
            return end

        return successive_elimination(begin, [Round(descend_one)], workers=self.workers, keep_all=True)[0]

    def descend_in_batches(
        self, aim: Objective, begin: list[DescentResult], limits: tuple[int, float], judge: Objective
    ) -> list[DescentResult]:
        """Return the ends of descents on `aim` from the starts `begin`, in their order, batch by batch.

        Batches after the deadline of `aim` are left out. Dead outputs are reset. `limits` are the most steps
        and the norm of the gradient at which a descent ends. Values are those of the objective `judge`.
        """
        ends = []
        for first in range(0, len(begin), _SCREENING.batch):
            if aim.deadline.is_over():
                break
            batch = begin[first : first + _SCREENING.batch]
            batch_ends = _descend_together(aim, [start.x for start in batch], *limits, self.workers)
            revived = {k: x for k, end in enumerate(batch_ends) if (x := _revive(aim, end.x)) is not None}
            others = _descend_together(aim, list(revived.values()), *limits, self.workers)
            for k, other in zip(revived, others, strict=True):
                lower = min(batch_ends[k], other, key=lambda end: end.value)
                batch_ends[k] = replace(lower, steps=batch_ends[k].steps + other.steps)
            for start, end in zip(batch, self.with_values_of(judge, batch_ends), strict=True):
                ends.append(replace(end, starts=start.starts))
                self.report_descent(ends[-1])
        return ends

    def with_values_of(self, judge: Objective, ends: list[DescentResult]) -> list[DescentResult]:
        """Return `ends` with the values of the objective `judge`, or inf where a value is not finite."""
        return parallel_map(lambda k: _with_value_of(judge, ends[k]), len(ends), self.workers)

    def has_time_left(self) -> bool:
        """Return whether the deadline leaves time for another round of starts."""
        taken = work_seconds() - self.start
        return self.aim.deadline.seconds_left() > _ROUND_SHARE * taken

    def ends(
        self, begin: list[DescentResult], count: int, rng: np.random.Generator, needed: bool = True
    ) -> list[DescentResult]:
        """Return the ends of descents from `begin`, the best one first and refined; [] if no time was left.

        If `needed`, there is at least one. `count` is the number of random starts in `begin`.
        """
        self.aim.restore()
        if self.aim.raced:
            moves = 0 if self.aim.loss.has_levels else _SCREENING.moves_per_start * count
            self.planned += len(begin) + moves
            ends = self.screen(begin, count, rng, needed)
        else:
            self.planned += len(begin)
            ends = self.descend_all(self.aim, begin, (self.steps, self.tol), needed=needed)
        if not ends:
            return []
        best = ends.pop(min(range(len(ends)), key=lambda k: ends[k].value))
        best = _polish(self.aim, best, self.steps, self.tol)
        # What others are below it is rounding: it has the smaller gradient.
        return [best, *(replace(end, value=max(end.value, best.value)) for end in ends)]

    def screen(
        self, begin: list[DescentResult], count: int, rng: np.random.Generator, needed: bool
    ) -> list[DescentResult]:
        """Return ends of descents on the exact loss from the best ends on a cheap loss, then all other ends.

        Descents on the cheap loss start from `begin`, with `count` random starts. The other ends have
        approximate values, raised above the least one, and the status STEPS. The list is empty if no descent
        was made in time; if `needed`, at least one is made.
        """
        aim, is_same = (
            self.aim,
            _same_minimum_predicate(self.aim, _SCREENING.same_objective, _SCREENING.same_invariants),
        )
        cheap, judge = copy(aim), aim.with_accuracy(max_frequencies=_SCREENING.judge_frequencies)
        judge.deadline = Deadline()
        levels = aim.loss.by_levels()
        if levels is not None:  # of uniform features, which take less time than so many samples
            cheap.loss, cheap.accuracy = levels, replace(aim.accuracy, workers=levels.workers)
        else:
            samples: Any = Samples(aim.features, rng, _SCREENING.samples)  # is called as the loss is
            cheap.loss = samples if samples.enough else aim.loss
        with cheap.coarse():
            ends = self.screen_on_samples(cheap, judge, begin, count, rng, needed)
            if not ends:
                return []
            eliminated = ends[_SCREENING.finalists :]
            cheap.deadline = aim.deadline.part(_SCREENING.metrics_share)
            pool = [
                replace(end, metric=_metric_from_samples(cheap, end.x))
                for end in ends[: _SCREENING.finalists]
            ]

        def descend_further(end: DescentResult, descend: Any, steps: int, tol: float) -> DescentResult:
            """Return the end of `descend` on the loss from `end`; after the deadline `end` itself."""
            if aim.deadline.is_over():  # its value is that of the judge
                return replace(end, steps=0, status=Status.STEPS)
            result: DescentResult = descend(aim, end.x, steps, tol, end.metric)
            return replace(result, metric=end.metric)

        if pool[0].metric is not None:
            short = Round(
                lambda end: descend_further(end, _descent, _SCREENING.short_steps, self.tol),
                _SCREENING.finalists,
                _SCREENING.margin,
            )
            survivors, left_behind = successive_elimination(pool, [short], is_same, workers=self.workers)
        else:
            with aim.coarse():
                short = Round(
                    lambda end: descend_further(
                        end, _descend_and_revive, self.steps, _SCREENING.coarse_gradient_norm
                    ),
                    _SCREENING.finalists,
                    _SCREENING.margin,
                )
                survivors, left_behind = successive_elimination(pool, [short], is_same, workers=self.workers)
        last = Round(lambda end: descend_further(end, _descend_and_revive, self.steps, self.tol))
        ends, _ = successive_elimination(survivors, [last], workers=self.workers, keep_all=True)
        least = min(end.value for end in ends)
        behind = [
            end for end in eliminated + left_behind if end.starts
        ]  # most losses of these come from few frequencies
        return ends + [
            replace(e, value=max(e.value, least + 2.0 * _SAME_OBJECTIVE), status=Status.STEPS) for e in behind
        ]

    def screen_on_samples(
        self,
        cheap: Objective,
        judge: Objective,
        begin: list[DescentResult],
        count: int,
        rng: np.random.Generator,
        needed: bool,
    ) -> list[DescentResult]:
        """Return distinct ends of descents on `cheap` from `begin` and of moves from the best of them.

        `cheap` is the loss with few frequencies, whose moves are those of `local_search`, or the loss on
        samples, whose moves are those of `move_on_samples`. Ends are sorted by the more exact loss `judge`;
        [] if no descent was made in time. `begin` has `count` random starts. If `needed`, the first start
        descends in any case.
        """
        aim, limits = self.aim, (min(_SCREENING.steps, self.steps), _SCREENING.gradient_norm)
        is_same = _same_minimum_predicate(aim, _SCREENING.same_objective, _SCREENING.same_invariants)
        cheap.deadline = aim.deadline.part(_SCREENING.starts_share)
        if not aim.loss.has_levels:
            return self.move_on_samples(cheap, judge, begin, count, rng, needed)
        first = self.descend_all(cheap, begin[:1], limits, judge, needed)
        pool = distinct([*first, *self.descend_in_batches(cheap, begin[1:], limits, judge)], is_same)
        if not pool:
            return []
        cheap.deadline = aim.deadline.part(_SCREENING.moves_share)
        minima = local_search(
            cheap,
            lambda vectors, steps: _descend_together(cheap, vectors, steps, limits[1], self.workers),
            pool,
            rng,
            min(count, _SCREENING.most_search_starts)
            * _SCREENING.search_steps_per_start
            * (1 if aim.tied else _SCREENING.free_factor),
            self.workers,
        )
        minima = sorted(self.with_values_of(judge, minima), key=lambda end: end.value)
        if minima and minima[0].value < pool[0].value:  # the best start has led to the best of these
            minima[0] = replace(minima[0], starts=pool[0].starts)
            pool[0] = replace(pool[0], starts=())
        return distinct([*pool, *minima], is_same)

    def move_on_samples(
        self,
        cheap: Objective,
        judge: Objective,
        begin: list[DescentResult],
        count: int,
        rng: np.random.Generator,
        needed: bool,
    ) -> list[DescentResult]:
        """Return distinct ends of descents on `cheap`, the loss on samples, sorted by the more exact `judge`.

        Descents start from `begin`, then six times `count`, the number of random starts in `begin`, from
        a `perturbed_model` of one of the ends of least `judge` so far. The list is empty if no descent was
        made in time; if `needed`, the first is made in any case.
        """
        aim, limits = self.aim, (min(_SCREENING.steps, self.steps), _SCREENING.sampled_gradient_norm)
        is_same = _same_minimum_predicate(aim, _SCREENING.same_objective, _SCREENING.same_invariants)
        moves, stages = _SCREENING.moves_per_start * count, aim.deadline.part(_SCREENING.moves_share)
        pool = distinct(self.descend_all(cheap, begin, limits, judge, needed), is_same)
        if not pool:
            return []
        cheap.deadline = stages
        same = bool(np.ptp(aim.features.importance * aim.second) == 0.0) and not aim.features.groups
        for done in range(0, moves, _SCREENING.moves_batch):
            if cheap.deadline.is_over():
                break
            tries = []
            for k in range(min(_SCREENING.moves_batch, moves - done)):
                x = aim.join(
                    *perturbed_model(aim.split(pool[k % min(_SCREENING.bases, len(pool))].x), same, rng)
                )
                if aim.largest is not None:
                    x[: x.size - aim.biases] = np.clip(x[: x.size - aim.biases], -aim.largest, aim.largest)
                tries.append(DescentResult.at(x))
            pool = distinct([*pool, *self.descend_all(cheap, tries, limits, judge, False)], is_same)
        return pool


def _metric_from_samples(cheap: Objective, x: FloatArray) -> FloatArray | None:
    """Return the matrix T with T T' the inverse of the Hessian at x of `cheap`, the loss on samples.

    T is a metric of descents. Return None if `cheap` has kinks, more than 500 variables or no samples, or
    after the deadline.
    """
    kinks = cheap.l1 or cheap.largest is not None or cheap.limit
    if (
        kinks
        or x.size > _SCREENING.most_metric_variables
        or not isinstance(cheap.loss, Samples)
        or cheap.deadline.is_over()
    ):
        return None
    H = np.empty((x.size, x.size))
    for row, step in zip(H, _SCREENING.metric_step * np.eye(x.size), strict=True):
        if cheap.deadline.is_over():
            return None
        row[:] = cheap.smooth(x + step)[1] - cheap.smooth(x - step)[1]
    values, vectors = np.linalg.eigh(0.25 / _SCREENING.metric_step * (H + H.T))
    return np.asarray(
        vectors
        / np.sqrt(np.maximum(np.abs(values), _SCREENING.least_metric_curvature * np.abs(values).max()))
    )


def _checked_model(names: Sequence[str], model: Any, n: int, m: int) -> Model:
    """Return `model` as arrays W_out (n, m), W_in (m, n), b (n,); a ValueError calls them by `names`."""
    W_out, W_in = validation.matrix(names[0], model[0], (n, m)), validation.matrix(names[1], model[1], (m, n))
    parts = W_out, W_in, validation.vector(names[2], model[2], n)
    for name, part in zip(names, parts, strict=True):
        validation.real(name, part, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
    return parts


@single_blas_thread()
def minimise(
    n_features: int, n_hidden: int, law: Any, *, tied: bool = True, bias: bool | str = True, penalty: Penalty
    = None, classes: int | None = None, largest: float | None = None, starts: int = 20, steps: int = 1000,
    tol: float = 1e-6, first: Sequence[Any] | None = None, rng: np.random.Generator | int | None = 0, seconds:
    float | Deadline | None = None, hits: int = 0, progress: Callable[[int, int, float], None] | bool | None =
    None, workers: int | None = None, importance: None = None,
) -> Minimum:  # fmt: skip
    r"""Return the model ReLU(W_out W_in x + b) of least expected loss, by descents from many starts.

    Descents are by L-BFGS-B on the loss of `solvers.loss.exact_loss`; the best end is refined by Newton's
    method, which leaves saddles. Where a gradient of the exact loss takes long, from 8 to 10
    features on, or none is known, the starts race: all descend on a cheaper loss first, and only the best
    ends go on. The cheaper loss has few frequencies where values are uniform, else it is a mean over 2048
    samples of the law. The page "Best models" of the documentation has the
    details.

    Parameters
    ----------
    n_features, n_hidden : int
        n from 1 to 64, m from 1 to 64.
    law : float or Features
        Probability that a feature is on, for independent features uniform on [0, 1], or any law. The number 0
        stands for the limit of rare features: the loss is then the limit of loss/p at p -> 0, from inputs
        with one feature on, with biases at most 0.
    tied, bias : bool, {True, False, "common"}, optional
        Whether W_out is the transpose of W_in; a bias for each output, none, or one for all.
    penalty : tuple or callable, optional
        ``("l1", lam)`` adds :math:`\frac{\lambda}{n} \sum |w|` over all free weights, ``("interference",
        lam)`` adds :math:`\frac{\lambda}{n} \sum_{i \ne j} M_{ij}^2` with M = W_out W_in. A function of
        W_out, W_in, b returns a value, which is added to the loss per feature, and its three derivatives.
    classes : int, optional
        Count only the part of the expected loss from inputs with at most so many features on.
    largest : float, optional
        Bound of the absolute value of each weight. Without it free weights of sparse features grow by many
        decades, and descents stop before they converge.
    starts, rng : int, Generator, int or None, optional
        Random starts, in addition to ordered ones, and what draws them.
    steps, tol : int, float, optional
        Steps of each descent at most; it has converged where `gradient_norm`, with its error, is at most
        `tol`.
    first : sequence, optional
        More starts: matrices W (n_features, n_hidden), or models (W_out, W_in, b).
    seconds : float or Deadline, optional
        Budget after which the best model so far is returned; compiling does not count. What is found then
        depends on the machine; without a budget the same seed gives the same numbers.
    hits : int, optional
        Number of starts that should end at the best model. While fewer do, and `seconds` allow, up to four
        more rounds of random starts follow. Where starts race, two hits are enough, or two rounds that end at
        the best. By default there is one round.
    progress : callable or False, optional
        Called after each descent with the number of descents so far, that of all, and the least objective.
        By default a search of more than two seconds shows a status line on standard error; with False it
        does not.
    workers : int, optional
        Threads that share the descents; all of Numba's by default. The result does not depend on it.
    importance : None, optional
        Refused, as it belongs to the law.

    Returns
    -------
    Minimum

    Raises
    ------
    ValueError
        If an argument is out of range, or the law has not so many features.

    Examples
    --------
    >>> found = minimise(5, 2, 0.05, starts=3)
    >>> round(found.loss, 6), found.curvature > 0, found.status.name
    (0.001781, True, 'CONVERGED')
    """
    n = validation.integer("n_features", n_features, 1, _MOST_FEATURES)
    m = validation.integer("n_hidden", n_hidden, 1, _MOST_FEATURES)
    count, max_steps = (
        validation.integer("starts", starts, 0, 10**6),
        validation.integer("steps", steps, 1, 10**6),
    )
    tol = validation.number("tol", tol, 0, brackets="()")
    generator = validation.generator("rng", rng)
    if importance is not None:
        rule = "be part of the law, Features(n_features, p, importance=...)"
        raise ValueError(f"`importance` must {rule}; got {validation.short_repr(importance)}.")
    aim = Objective(n, m, law, validation.flag("tied", tied), bias, penalty, classes, largest)
    if first is not None and not isinstance(first, list | tuple):
        raise ValueError(f"`first` must be a list of models; got {validation.short_repr(first)}.")
    models = [
        model if isinstance(model, tuple) and len(model) == 3 else (model, np.transpose(model), np.zeros(n))
        for model in first or ()
    ]
    given_models = [_checked_model(3 * ["first"], model, n, m) for model in models]
    mean = np.zeros(n) if aim.limit else aim.mean
    worth = aim.features.importance * aim.second
    arranged = ordered_starts(n, m, worth, mean, aim.raced, generator)
    drawn = random_starts(n, m, count, mean, generator)
    if aim.raced:  # a budget may end before the last: both kinds come early
        pairs = zip_longest(drawn, arranged)
        arranged, drawn = [], [model for pair in pairs for model in pair if model is not None]
    drawn += group_starts(n, m, aim.features, _grouped_count(count), mean, generator)
    begin = [
        DescentResult.at(aim.join(*model), k) for k, model in enumerate([*given_models, *arranged, *drawn])
    ]
    wanted = validation.integer("hits", hits, 0, 10**6)
    aim.deadline = deadline_of(seconds)
    if progress is not None and progress is not False and not callable(progress):
        raise ValueError(f"`progress` must be a function; got {validation.short_repr(progress)}.")
    threads = None if workers is None else validation.integer("workers", workers, 1)
    if callable(penalty):  # it may not be ready for several threads
        threads = 1
    with report_progress("minimise") if progress is None else nullcontext():
        search = _Search(aim, (max_steps, tol), threads, progress)
        ends = search.ends(begin, count, generator)
        least_of_rounds = [ends[0].value]
        for _ in range(_MAX_ROUNDS if count else 0):
            enough = min(wanted, _AGREEING_ROUNDS) if aim.raced else wanted
            is_found = _count_hits(ends, len(given_models)) >= enough
            if is_found or (aim.raced and _agree(least_of_rounds)) or not search.has_time_left():
                break
            drawn = random_starts(n, m, count, mean, generator)
            drawn += group_starts(n, m, aim.features, _grouped_count(count), mean, generator)
            n_made = 1 + max(k for end in ends for k in end.starts)
            further = [
                DescentResult.at(aim.join(*model), max(n_made, len(begin)) + k)
                for k, model in enumerate(drawn)
            ]
            round_ends = search.ends(further, count, generator, needed=False)
            least_of_rounds += [end.value for end in round_ends[:1]]
            ends = _merge_minima(ends, round_ends)
    return _make_minimum(aim, ends[0], ends, len(begin), len(given_models))


@single_blas_thread()
def descend(
    W_out: npt.ArrayLike,
    W_in: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    *,
    tied: bool = False,
    bias: bool | str = True,
    penalty: Penalty = None,
    classes: int | None = None,
    largest: float | None = None,
    steps: int = 500,
    tol: float = 1e-6,
    seconds: float | Deadline | None = None,
    reset_dead: bool = True,
) -> Minimum:
    """Return the end of a noise-free descent on the exact loss of ReLU(W_out W_in x + b) from given weights.

    Free weights are first balanced, W_out' W_out = W_in W_in', unless a penalty or bound depends on how
    the product is split: the descent is then the same for every split.

    Parameters
    ----------
    W_out, W_in, b : (n_features, n_hidden), (n_hidden, n_features), (n_features,) array_like of float
        Decoder, encoder (in a tied model the decoder's transpose) and biases. Not modified.
    law : float or Features
        Probability that a feature is on, for features uniform on [0, 1], or any law; 0 for the limit of rare
        features. n_features may be as large as 1024; otherwise errors are those of `minimise`.
    tied, bias : bool, {True, False, "common"}, optional
        Whether W_out is the transpose of W_in; a bias for each output, none, or one for all.
    penalty : tuple or callable, optional
        ``("l1", lam)`` or ``("interference", lam)``, or a function of W_out, W_in, b that returns a value to
        add and its three derivatives; see `minimise`.
    classes : int, optional
        Count only inputs with at most so many features on.
    largest : float, optional
        Bound of the absolute value of each weight.
    steps, tol : int, float, optional
        Most steps; norm of the gradient, plus its error, at which the descent has converged.
    seconds : float or Deadline, optional
        Budget after which the point reached so far is returned; 0 stops after the first gradient. Newton's
        method is left out where its Hessian would exceed the budget. Compiling does not count.
    reset_dead : bool, optional
        Whether an output that is never positive gets the mean of its feature as bias, if that ends lower. Its
        gradient is 0, so that a descent does not change it.

    Returns
    -------
    Minimum
        Never above the start, if that is within `largest`.

    Examples
    --------
    >>> W = np.array([[1.0], [-1.0], [0.1]])
    >>> found = descend(W, W.T, np.zeros(3), 0.1)
    >>> round(found.loss, 6), found.status.name
    (0.011303, 'CONVERGED')
    """
    W_out = validation.matrix("W_out", W_out)
    n, m = W_out.shape
    validation.integer("n_features", n, 1, _MOST_FEATURES_DESCENT)
    W_out, W_in, b = _checked_model(("W_out", "W_in", "b"), (W_out, W_in, b), n, m)
    max_steps = validation.integer("steps", steps, 1, 10**6)
    tol = validation.number("tol", tol, 0, brackets="()")
    aim = Objective(n, m, law, validation.flag("tied", tied), bias, penalty, classes, largest)
    aim.deadline, reset_dead = deadline_of(seconds), validation.flag("reset_dead", reset_dead)
    if aim.tied and not np.allclose(W_in, W_out.T, rtol=1e-12, atol=0.0):
        raise ValueError("`W_in` must be the transpose of `W_out` in a tied model; got another matrix.")
    if not aim.tied and not aim.l1 and not callable(penalty) and aim.largest is None:
        left, sizes, right = np.linalg.svd(W_out @ W_in)
        width = min(n, m)
        root = np.sqrt(sizes[:width])
        W_out = np.pad(left[:, :width] * root, ((0, 0), (0, m - width)))
        W_in = np.pad(root[:, None] * right[:width], ((0, m - width), (0, 0)))
    end = _descend_and_revive(aim, aim.join(W_out, W_in, b), max_steps, tol, reset_dead=reset_dead)
    end = replace(end, starts=(0,))
    if not aim.deadline.is_over():
        end = _polish(aim, end, max_steps, tol, reset_dead)
    return _make_minimum(aim, end, [end], 1)
