"""Descents on the exact loss from many starts: the global minimum, as far as starts can tell."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.codes import decoder_bound
from ...theory.codes import loss_bound as code_bound
from ...theory.features import as_features
from ...theory.unequal import loss_bound
from ..results import Status
from .objective import Objective, Penalty
from .result import Certificate, Local, Minimum
from .starts import Model, moved, ordered, random

__all__ = ["descend", "lower_bound", "minimise"]

_MOST_FEATURES, _LARGEST = 64, 1024
# Largest weight that is given: the loss holds fourth powers of it.
_HUGE = 1e20
# Steps of 50 ns in a Hessian by differences: two gradients for each free weight.
_WORK = 2e8
# Steps of these differences: of the weights, and of a bias relative to it, since the loss bends at bias 0.
_STEP, _LEAST_STEP = 1e-5, 1e-10
# Differences to both sides that disagree by this share of the largest curvature are those of a kink.
_KINK = 1e-2
# Curvatures below this share of the largest one are flat: the differences do not resolve them.
_FLAT = 1e-8
# Steps by four times the frequencies, and by 16 times.
_FINER = (30, 5)
# Length of the step off a saddle.
_KICK = 0.05
# Encodings shorter than this count as dropped when their biases are set.
_SMALL = 0.1
# Where starts race: gradients at which they stop; of the ends, so many and all within so much of the best, in
# units of the zero model, are descended further.
_RACED, _FINALISTS, _NEAR = 1e-4, 3, 1e-4
# Shares of a budget of seconds after which the race ends, and the moves of features.
_STARTS, _MOVES = 0.6, 0.8
# Rarer features have no bound.
_LEAST_P = 1e-100
# Objectives, in units of the zero model, and invariants of M and b that count as the same.
_SAME, _ALIKE = 1e-6, 1e-3


@dataclass
class _End:
    """Where a descent stands."""

    x: FloatArray
    value: float
    slope: float
    steps: int
    status: Status
    curvature: float | None = None
    drawn: bool = True
    """Whether it began at a start that was not given."""
    start: bool = True
    """Whether it began at a start, not at the end of another descent whose features were moved."""


def _descent(aim: Objective, x: FloatArray, steps: int, tol: float) -> _End:
    """Run L-BFGS-B; with an l1 penalty on the positive and negative parts of the weights.

    Biases are scaled: above 0 they cost b² on the many inputs without features, a stiffness of 1/p.
    """
    scale = np.ones(x.size)
    scale[x.size - aim.biases :] = aim.unit**0.25
    minimize: Any = optimize.minimize  # its stubs know no objective that returns its gradient too
    options = {"maxiter": steps, "maxfun": 3 * steps, "maxcor": 30, "ftol": 1e-16, "gtol": 0.01 * tol}
    count = x.size - aim.biases

    def whole(y: FloatArray) -> FloatArray:
        """Return the vector; with an l1 penalty y holds positive parts of the weights, then negative ones."""
        return (np.concatenate([y[:count] - y[count : 2 * count], y[2 * count :]]) if aim.l1 else y) * scale

    def value(y: FloatArray) -> tuple[float, FloatArray]:
        level, by = aim.smooth(whole(y))
        by = by * scale
        if not aim.l1:
            return level, by
        level += aim.l1 * float(y[: 2 * count].sum())
        return level, np.concatenate([by[:count] + aim.l1, aim.l1 - by[:count], by[count:]])

    y = x / scale
    top = aim.largest
    least = None if top is None else -top
    bounds: list[Any] = [(0.0, top)] * (2 * count) if aim.l1 else [(least, top)] * count
    bounds += [(None, 0.0 if aim.limit else None)] * aim.biases
    if aim.l1:
        y = np.concatenate([np.maximum(y[:count], 0.0), np.maximum(-y[:count], 0.0), y[count:]])

    def watched(intermediate_result: Any) -> None:
        if time.perf_counter() > aim.until:
            raise StopIteration

    found = minimize(value, y, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=watched)
    end = whole(np.asarray(found.x))
    if not np.isfinite(found.fun):
        return _End(x, np.inf, np.inf, int(found.nit), Status.DIVERGED)
    slope = float(np.linalg.norm(aim.slope(end)))
    still = slope <= tol and slope + aim.slope_error(end) <= tol
    ran_out = found.nit >= steps or found.nfev >= 3 * steps or time.perf_counter() > aim.until
    status = Status.CONVERGED if still else Status.STEPS if ran_out else Status.STALLED
    return _End(end, aim.value(end), slope, int(found.nit), status)


def _revive(aim: Objective, x: FloatArray) -> FloatArray | None:
    """Give outputs that are never positive the best constant, the mean; None if there is no such output."""
    if aim.bias is not True or aim.limit:
        return None
    W_out, W_in, b = aim.split(x)
    _, by_M, by_b = aim.loss(np.ascontiguousarray(W_out @ W_in), b)
    silent = (by_b == 0.0) & ~by_M.any(axis=1)
    dead = (b <= 0.0) & (silent | (np.linalg.norm(W_out, axis=1) < _SMALL)) & (aim.features.importance > 0.0)
    if not dead.any():
        return None
    return aim.join(
        np.where(dead[:, None], 0.0, W_out),
        np.where(dead, 0.0, W_in) if aim.tied else W_in,
        np.where(dead, aim.mean, b),
    )


def _from(aim: Objective, x: FloatArray, steps: int, tol: float) -> _End:
    """Descend, and once more with dead outputs revived if that ends lower."""
    end = _descent(aim, x, steps, tol)
    again = _revive(aim, end.x) if np.isfinite(end.value) and time.perf_counter() < aim.until else None
    if again is None:
        return end
    other = _descent(aim, again, steps, tol)
    other.steps += end.steps
    end.steps = other.steps
    return other if other.value < end.value else end


def _bend(aim: Objective, x: FloatArray) -> FloatArray | None:
    """Return the Hessian by differences of the gradient, or None at a kink."""
    middle = aim.smooth(x)[1]
    step = np.full(x.size, _STEP)
    if aim.biases:
        step[-aim.biases :] = np.clip(0.1 * np.abs(x[-aim.biases :]), _LEAST_STEP, _STEP)
    left, right = np.empty((x.size, x.size)), np.empty((x.size, x.size))
    for j, h in enumerate(step):
        moved = x.copy()
        moved[j] = x[j] + h
        right[j] = (aim.smooth(moved)[1] - middle) / h
        moved[j] = x[j] - h
        left[j] = (middle - aim.smooth(moved)[1]) / h
    if np.abs(right - left).max() > _KINK * max(np.abs(right).max(), np.abs(left).max()):
        return None
    whole = 0.5 * (left + right)
    return np.asarray(0.5 * (whole + whole.T))


def _polish(aim: Objective, end: _End, steps: int, tol: float) -> _End:
    """Finish by Newton's method where the objective is smooth, and leave saddles."""
    if not aim.exact:
        return _refined(aim, end, tol)
    dear = 2.0 * aim.size * aim.work > _WORK or time.perf_counter() > aim.until
    if dear or aim.l1 or not np.isfinite(end.value):
        return end
    for _ in range(3):
        end, vector = _newton(aim, end, tol)
        if end.curvature is None or end.curvature > -1e-6 or vector is None:
            return end
        tries = [_from(aim, end.x + side * _KICK * vector, steps, tol) for side in (1.0, -1.0)]
        best = min(tries, key=lambda one: one.value)
        if not best.value < end.value:
            return end
        best.steps = end.steps + sum(one.steps for one in tries)
        end = best
    return _newton(aim, end, tol)[0]


def _refined(aim: Objective, end: _End, tol: float) -> _End:
    """Descend by more frequencies where their error hides whether the gradient is within `tol`."""
    for steps in _FINER:
        hidden = end.status is not Status.CONVERGED and end.slope <= tol + aim.slope_error(end.x)
        if not hidden or not np.isfinite(end.value) or time.perf_counter() > aim.until:
            break
        aim.refine()
        further = _descent(aim, end.x, steps, tol)
        end = replace(further, steps=end.steps + further.steps)
    return end


def _newton(aim: Objective, end: _End, tol: float) -> tuple[_End, FloatArray | None]:
    """Take Newton steps while the gradient shrinks; return also the direction of least curvature."""
    H = _bend(aim, end.x)
    if H is None:
        return replace(end, curvature=None), None
    turns, held = aim.symmetries(end.x), aim.held(end.x)
    if held.any() and turns.size:  # the symmetries that leave the weights at their bounds where they are
        turns = turns @ linalg.null_space(turns[held], rcond=1e-9)
    fixed = np.hstack([turns, np.eye(end.x.size)[:, held]])
    kept = linalg.null_space(fixed.T, rcond=1e-9) if fixed.size else np.eye(end.x.size)
    if not kept.size:  # every weight is at its bound
        return replace(end, curvature=None), None
    values, vectors = np.linalg.eigh(kept.T @ H @ kept)
    vectors = kept @ vectors
    firm = np.abs(values) > _FLAT * np.abs(values).max()
    x, slope = end.x, end.slope
    for _ in range(4):
        by = vectors.T @ aim.smooth(x)[1]
        step = np.where(firm, by / np.where(firm, values, 1.0), 0.0)
        new = x - vectors @ step
        less = float(np.linalg.norm(aim.slope(new)))
        count = new.size - aim.biases
        outside = aim.largest is not None and np.abs(new[:count]).max() > aim.largest
        if outside or not less < 0.5 * slope:
            break
        x, slope = new, less
    value = aim.value(x)
    if value > end.value + 1e-12:
        x, value, slope = end.x, end.value, end.slope
    still = slope <= tol and slope + aim.slope_error(x) <= tol
    status = Status.CONVERGED if still else end.status
    return _End(x, value, slope, end.steps, status, float(values[0])), vectors[:, 0]


# --- Telling minima apart ----------------------------------------------------------------------------------


def _invariants(aim: Objective, x: FloatArray) -> FloatArray:
    """Return numbers that tell matrices M and biases apart, whatever the order of alike features."""
    W_out, W_in, b = aim.split(x)
    M, law = W_out @ W_in, aim.features
    _, label = np.unique(np.stack([law.p, law.scale, law.importance]), axis=1, return_inverse=True)
    label = label.ravel()
    if law.groups:
        label = np.arange(aim.n)
    seen = np.cos(1.0 + label)
    told = np.where(law.importance > 0.0, np.cos(2.0 + label), 0.0)
    powers = [told @ M**k @ seen for k in range(1, 5)] + [told @ np.diag(M) ** k for k in range(1, 4)]
    return np.array([*powers, *(told @ b**k for k in range(1, 4)), told @ (M * M) @ (told * b)])


def _distinct(aim: Objective, ends: list[_End]) -> tuple[Local, ...]:
    groups: list[list[Any]] = []
    for end in sorted((end for end in ends if np.isfinite(end.value)), key=lambda end: end.value):
        marks = _invariants(aim, end.x)
        for group in groups:
            close = abs(end.value - group[0].value) <= _SAME
            if close and np.all(np.abs(marks - group[1]) <= _ALIKE * (1.0 + np.abs(marks))):
                group[2] += end.start
                break
        else:
            groups.append([end, marks, int(end.start)])
    return tuple(Local(end.value * aim.unit, hits, *aim.split(end.x)) for end, _, hits in groups)


def lower_bound(n_features: int, n_hidden: int, law: Any) -> float:
    """Return the best proved lower bound of the loss per feature of any model of this size.

    Parameters
    ----------
    n_features, n_hidden : int
    law : float or Features
        As for `minimise`.

    Returns
    -------
    float
        For any ReLU(M x + b) with rank(M) <= n_hidden: the largest of `theory.codes.decoder_bound` and
        `theory.codes.loss_bound`, of features that are alike, and `theory.unequal.loss_bound`, of uniform
        values. 0 where none holds.

    Raises
    ------
    ValueError
        If an argument is out of range, or the law has not so many features.

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> round(lower_bound(20, 5, Features(20, 0.05, importance=0.9 ** np.arange(20))), 6)
    0.000232
    """
    n, m = arguments.integer("n_features", n_features, 1), arguments.integer("n_hidden", n_hidden, 1)
    features = as_features(law, n)
    if m >= n:
        return 0.0
    p, weight, found = features.p, features.importance * features.scale**2, 0.0
    uniform = features.values.uniform and features.exactly is None
    if features.alike:
        found = float(decoder_bound(float(p[0]), m / n))
        if p[0] < 1.0:
            found = max(found, float(code_bound(float(p[0]), m / n)))
        found *= float(weight.min())
    if uniform and np.all((weight == 0.0) | (p >= _LEAST_P)):
        found = max(found, loss_bound(features, m))
    return found


def _certificate(aim: Objective, loss: float, work: int) -> Certificate:
    """Return the best bound that is known of all models, 0 if only some inputs are counted."""
    bound = lower_bound(aim.n, aim.m, aim.features) if aim.classes is None and not aim.limit else 0.0
    return Certificate("many starts", min(bound, loss), loss - min(bound, loss), work)


def _minimum(aim: Objective, best: _End, ends: list[_End], planned: int) -> Minimum:
    W_out, W_in, b = aim.split(best.x)
    loss, error = aim.loss.end(np.ascontiguousarray(W_out @ W_in), b)
    starts = [end for end in ends if end.start]
    return Minimum(
        W_out=W_out,
        W_in=W_in,
        b=b,
        loss=loss,
        error_estimate=error,
        objective=best.value * aim.unit,
        gradient_norm=best.slope,
        gradient_error=aim.slope_error(best.x) if np.isfinite(best.value) else np.inf,
        curvature=best.curvature,
        minima=_distinct(aim, ends),
        losses=np.sort([end.value * aim.unit for end in starts]),
        hits=sum(end.drawn and end.value <= best.value + _SAME for end in starts),
        starts=len(starts),
        planned=planned,
        arrived=sum(end.status is Status.CONVERGED for end in starts),
        steps=sum(end.steps for end in ends),
        status=best.status,
        certificate=_certificate(aim, loss, len(starts)),
    )


# --- Public ------------------------------------------------------------------------------------------------


def _checked(names: Sequence[str], model: Any, n: int, m: int) -> Model:
    W_out, W_in = arguments.matrix(names[0], model[0], (n, m)), arguments.matrix(names[1], model[1], (m, n))
    parts = W_out, W_in, arguments.vector(names[2], model[2], n)
    for name, part in zip(names, parts, strict=True):
        arguments.real(name, part, -_HUGE, _HUGE)
    return parts


def minimise(
    n_features: int,
    n_hidden: int,
    law: Any,
    *,
    tied: bool = True,
    bias: bool | str = True,
    penalty: Penalty = None,
    classes: int | None = None,
    largest: float | None = None,
    starts: int = 20,
    steps: int = 1000,
    tol: float = 1e-6,
    first: Sequence[Any] | None = None,
    rng: np.random.Generator | int | None = 0,
    seconds: float | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> Minimum:
    r"""Find the model ReLU(W_out W_in x + b) of least expected loss, by descents from many starts.

    Parameters
    ----------
    n_features, n_hidden : int
        n from 1 to 64, m from 1 to 64.
    law : float or Features
        Probability that a feature is on, for independent features uniform on [0, 1], or any law. The number
        0 stands for the limit of rare features: the loss is then the limit of loss/p, L_1/n, and biases are
        not positive, because L_0 weighs infinitely more.
    tied : bool, optional
        Whether W_out is the transpose of W_in.
    bias : {True, False, "common"}, optional
        A bias for each output, none, or one for all.
    penalty : tuple or callable, optional
        ``("l1", lam)`` adds :math:`\frac{\lambda}{n} \sum |w|` over all free weights, ``("interference",
        lam)`` adds :math:`\frac{\lambda}{n} \sum_{i \ne j} M_{ij}^2` with M = W_out W_in. A function takes
        W_out, W_in, b and returns a value, which is added to the loss per feature, and its derivatives by
        the three; those of a tied model are added.
    classes : int, optional
        Count only inputs with at most so many features on. The loss is then the part of the expected loss
        that comes from them.
    largest : float, optional
        Bound of the absolute value of each weight; biases are free. Without it free weights of sparse
        features grow by many decades, and descents end on the way.
    starts : int, optional
        Random starts. Ordered ones are added to them: axes with antipodes, regular polygons, and orthogonal
        sets of the features that matter most, by importance times second moment.
    steps : int, optional
        Steps of each descent at most.
    tol : float, optional
        A descent has converged where `gradient_norm`, with its error, is at most this.
    first : sequence, optional
        More starts: matrices W (n_features, n_hidden), or models (W_out, W_in, b).
    rng : Generator, int or None, optional
        Generator, or seed of one, that draws the starts. None draws a fresh seed.
    seconds : float, optional
        Budget: after it descents stop, and the best model so far is returned; `message` says how many starts
        were made. What is found then depends on the speed of the machine. Without a budget, the default, the
        same seed gives the same numbers.
    progress : callable, optional
        Called after each descent with the number of descents so far, that of all, and the least objective.

    Returns
    -------
    Minimum

    Raises
    ------
    ValueError
        If an argument is out of range, or the law has not so many features.

    Notes
    -----
    L-BFGS-B from each start. An output that is never positive has no gradient: its bias becomes the mean of
    its feature, and the descent goes on. The best end is finished by Newton's method, which leaves saddles.
    The loss of up to 14 independent features with uniform values is folded (`solvers.loss.folds`); that of up
    to 8 others with bounded values, or of few classes, is summed over all patterns; of others it comes from
    `solvers.loss`.

    From 10 independent features on the starts race: all are descended to a gradient of 1e-4, with few terms
    of the sum of `solvers.loss`. Then features are moved in the best end, as often as there are random
    starts: two are exchanged, or one gets new weights. The best ends are descended to `tol`.

    Examples
    --------
    >>> found = minimise(5, 2, 0.05, starts=3)
    >>> round(found.loss, 6), found.curvature > 0, found.status.name
    (0.001781, True, 'CONVERGED')
    """
    n = arguments.integer("n_features", n_features, 1, _MOST_FEATURES)
    m = arguments.integer("n_hidden", n_hidden, 1, _MOST_FEATURES)
    count, most = arguments.integer("starts", starts, 0, 10**6), arguments.integer("steps", steps, 1, 10**6)
    tol = arguments.number("tol", tol, 0, brackets="()")
    generator = arguments.generator("rng", rng)
    aim = Objective(n, m, law, arguments.flag("tied", tied), bias, penalty, classes, largest)
    if first is not None and not isinstance(first, list | tuple):
        raise ValueError(f"`first` must be a list of models; got {arguments.shown(first)}.")
    models = [
        model if isinstance(model, tuple) and len(model) == 3 else (model, np.transpose(model), np.zeros(n))
        for model in first or ()
    ]
    given = [_checked(3 * ["first"], model, n, m) for model in models]
    mean = np.zeros(n) if aim.limit else aim.mean
    worth = aim.features.importance * aim.second
    arranged = ordered(n, m, worth, mean, aim.raced, generator)
    drawn = random(n, m, count, mean, generator)
    if aim.raced:  # a budget may end before the last: both kinds come early
        pairs = zip_longest(drawn, arranged)
        arranged, drawn = [], [model for pair in pairs for model in pair if model is not None]
    begin = [*given, *arranged, *drawn]
    budget = np.inf if seconds is None else arguments.number("seconds", seconds, 0, brackets="()")
    if progress is not None and not callable(progress):
        raise ValueError(f"`progress` must be a function; got {arguments.shown(progress)}.")
    clock = time.perf_counter()
    vectors = [aim.join(*model) for model in begin]
    moves = count if aim.raced and bias is True and aim.largest is None else 0

    def tell(done: int, value: float) -> None:
        if progress is not None:
            progress(done, len(begin) + moves, value * aim.unit)

    ends: list[_End] = []
    race, stop = (_RACED, clock + _STARTS * budget) if aim.raced else (tol, clock + budget)
    with aim.coarse():
        for k, x in enumerate(vectors):
            if ends and time.perf_counter() > stop:
                break
            aim.until = clock + budget
            ends.append(replace(_from(aim, x, most, race), drawn=k >= len(given)))
            tell(len(ends), min(end.value for end in ends))
        best = min(ends, key=lambda end: end.value)
        for k in range(moves):
            if time.perf_counter() > clock + _MOVES * budget:
                break
            x = aim.join(*moved(aim.split(best.x), bool(np.ptp(worth) == 0.0), generator))
            end = replace(_from(aim, x, most, race), drawn=False, start=False)
            if end.value < best.value:
                best = end
                ends.append(end)
            tell(len(begin) + k + 1, best.value)
    if aim.raced:
        ends = _final(aim, ends, most, tol)
    first_of = min(range(len(ends)), key=lambda k: ends[k].value)
    ends[first_of] = _polish(aim, ends[first_of], most, tol)
    return _minimum(aim, ends[first_of], ends, len(begin))


def _final(aim: Objective, ends: list[_End], steps: int, tol: float) -> list[_End]:
    """Descend to the end from where the best of a race stopped; give the others the loss itself."""
    found = []
    order = sorted((end for end in ends if np.isfinite(end.value)), key=lambda end: end.value)
    for k, end in enumerate(order):
        near = k < _FINALISTS or end.value <= order[0].value + _NEAR
        if near and (k == 0 or time.perf_counter() < aim.until):
            further = _from(aim, end.x, steps, tol)
            found.append(replace(further, drawn=end.drawn, start=end.start, steps=end.steps + further.steps))
        else:
            found.append(replace(end, value=aim.value(end.x), status=Status.STEPS))
    return [*found, *(end for end in ends if not np.isfinite(end.value))]


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
) -> Minimum:
    """Descend on the exact expected loss of ReLU(W_out W_in x + b) from given weights, free of noise.

    Parameters
    ----------
    W_out : (n_features, n_hidden) array_like of float
        Decoder. Not modified.
    W_in : (n_hidden, n_features) array_like of float
        Encoder; in a tied model it has to be the transpose of the decoder. Not modified.
    b : (n_features,) array_like of float
        Bias. Not modified.
    law, tied, bias, penalty, classes, largest, steps, tol
        As for `minimise`; n_features may be as large as 1024.

    Returns
    -------
    Minimum
        Never above the start, if that is within `largest`.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    Free weights are first balanced, W_out' W_out = W_in W_in', unless a penalty or bound weighs them: the
    descent is then the same for every split of one product. A step of 64 features takes a fifth of a second.

    Examples
    --------
    >>> W = np.array([[1.0], [-1.0], [0.1]])
    >>> found = descend(W, W.T, np.zeros(3), 0.1)
    >>> round(found.loss, 6), found.status.name
    (0.011303, 'CONVERGED')
    """
    W_out = arguments.matrix("W_out", W_out)
    n, m = W_out.shape
    arguments.integer("n_features", n, 1, _LARGEST)
    W_out, W_in, b = _checked(("W_out", "W_in", "b"), (W_out, W_in, b), n, m)
    most = arguments.integer("steps", steps, 1, 10**6)
    tol = arguments.number("tol", tol, 0, brackets="()")
    aim = Objective(n, m, law, arguments.flag("tied", tied), bias, penalty, classes, largest)
    if aim.tied and not np.allclose(W_in, W_out.T, rtol=1e-12, atol=0.0):
        raise ValueError("`W_in` must be the transpose of `W_out` in a tied model; got another matrix.")
    if not aim.tied and not aim.l1 and not callable(penalty) and aim.largest is None:
        left, sizes, right = np.linalg.svd(W_out @ W_in)
        width = min(n, m)
        root = np.sqrt(sizes[:width])
        W_out = np.pad(left[:, :width] * root, ((0, 0), (0, m - width)))
        W_in = np.pad(root[:, None] * right[:width], ((0, m - width), (0, 0)))
    end = _polish(aim, _from(aim, aim.join(W_out, W_in, b), most, tol), most, tol)
    return _minimum(aim, end, [end], 1)
