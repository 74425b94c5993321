"""Which methods compute a loss, in which order they are tried, and the loop that tries them.

Functions share the arguments `problem`, outputs at a law with their targets; `accuracy`, what to aim at; and
`gradient`, whether derivatives are needed.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import comb, prod
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from ...theory.features import Features
from ...theory.features.values.law import require
from ...theory.validation import BoolArray, FloatArray, IntArray
from .methods import affine, contour, discrete, enumeration, exactly_k, folding, fourier, uniform_fourier
from .methods.uniform_levels import NEGLIGIBLE
from .problem import Accuracy, Law, LossProblem, Outputs

__all__ = ["EXACT", "METHODS", "NAMES", "average_at_kinks", "choose", "refuse_uncovered", "solve"]

METHODS: dict[str, ModuleType] = {
    method.__name__.rpartition(".")[2]: method
    for method in (exactly_k, affine, folding, enumeration, discrete, uniform_fourier, fourier, contour)
}
NAMES: dict[ModuleType, str] = {method: name for name, method in METHODS.items()}
# Their error is rounding alone, whatever the tolerance.
EXACT: tuple[ModuleType, ...] = (exactly_k, folding, enumeration)
# Sums over all states, which see outputs that are exactly 0.
OVER_STATES = (*EXACT, discrete)
# Nodes of a fold up to which it takes the place of a sum over a number of frequencies that is asked for, as
# descents do: Hessians by differences of more take many seconds. 14 features on [0, 1], 9 on [-1, 1].
MOST_NODES_WITHOUT_FREQUENCIES = 2.0**15
# Joint states of groups at most that are conditioned on.
MOST_STATES = 2**12
# Seconds for each of them, whatever the number of outputs.
SECONDS_PER_STATE = 1e-3
# An error estimate above this share of the loss, or of a row's derivatives, and of the largest E x^2 means
# that digits are lost.
REJECT_RTOL = 0.01
# Above this share of the loss or of E x^2 the error of a method gives way to that of the next one.
FALLBACK_RTOL = 1e-4
# Losses below this share of the largest E x^2 are as good as 0.
_LEAST_SIZE = 1e-9
# Bias to both sides of a kink: it moves no output that is not 0.
KINK_OFFSET = 1e-250


def choose(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> dict[ModuleType, BoolArray]:
    """Return {method: mask (k,) of the k outputs that it covers}, in the order in which methods are tried.

    The quickest method by estimate, to this `accuracy` and with derivatives if `gradient`, is first. The next
    ones replace it where it loses digits.
    """
    law, values, n, auto = problem.law, problem.law.values, problem.law.n, accuracy.method == "auto"
    # A problem with a number of frequencies asks for a sum over them, unless few features make one needless.
    has_limit = accuracy.max_frequencies is not None
    most_nodes = MOST_NODES_WITHOUT_FREQUENCIES if has_limit else folding.MOST_NODES_WITH_SLOPES
    is_whole, is_relu = law.classes is None, problem.activation == "relu"
    has_sum = is_relu and is_whole
    table: dict[ModuleType, Any] = {
        # Few features on, or one: the only one that has that limit.
        exactly_k: is_relu and not is_whole and exactly_k.covers(problem),
        # Outputs that never bend: two moments.
        affine: is_whole and (auto or accuracy.method == NAMES[affine]) and affine.never_bends(problem),
        # Few independent features of uniform values: 2^n or, with two sides, 3^n at worst, and derivatives at
        # the same cost.
        folding: has_sum
        and law.independent
        and n <= folding.MOST.get(values.sides, 0)
        and (not (has_limit or gradient) or folding.terms(law) <= most_nodes),
        # Few features whose values have one or two sides: 2^n, 5^n, with any dependence. In the limit of rare
        # features patterns have no probabilities.
        enumeration: is_relu and law.classes != 0 and n <= enumeration.MOST[values.sides],
        # Finitely many values: 2^(n/2), then sums that are merged; groups are units like features.
        discrete: has_sum and values.discrete and discrete.has_few_states(law),
        # Independent uniform features: levels of weights of all sizes. Its terms have no end within a budget.
        uniform_fourier: has_sum
        and law.independent
        and values.uniform
        and not (auto and accuracy.budget is not None),
        # Values with bounds: its frequencies grow with the ratio of the weights and as the tolerance falls.
        fourier: has_sum and values.bounded and values.transform is not None,
        # Values without bounds: the same few nodes for all weights.
        contour: has_sum and not values.bounded and bool(values.wedge and values.transform),
    }
    coverage: dict[ModuleType, BoolArray] = {}
    for method, is_covered in table.items():
        if (auto or accuracy.method == NAMES[method]) and np.any(is_covered):
            coverage[method] = np.full(problem.biases.size, is_covered)
    if len(coverage) < 2:
        return coverage
    seconds: dict[ModuleType, float] = {}
    for method in coverage:
        is_quick = not has_limit and max(seconds.values(), default=np.inf) < fourier.SECONDS
        if method is fourier and (uniform_fourier in coverage or is_quick):
            # It takes longer, 10 to 100 times than levels; counting its frequencies takes seconds to compile.
            seconds[method] = np.inf
        else:
            seconds[method] = float(method.estimated_seconds(problem, accuracy, gradient))
    if affine in seconds:
        over_states = min((seconds[method] for method in OVER_STATES if method in seconds), default=0.0)
        seconds[affine] = max(1.001 * over_states, seconds[affine])
    return {method: coverage[method] for method in sorted(coverage, key=seconds.__getitem__)}


def refuse_uncovered(law: Law, accuracy: Accuracy, gradient: bool, over_budget: dict[str, float]) -> NoReturn:
    """Raise the ValueError that no method covers the outputs at this law and accuracy.

    `gradient` says whether derivatives were requested. `over_budget` maps the names of methods that need more
    terms than the budget to the number of terms they need.
    """
    if over_budget:
        name = min(over_budget, key=lambda method: over_budget[method])
        rule = f"at least {over_budget[name]:.3g} terms for the method {name!r}"
        raise ValueError(f"`budget` must be {rule}; got {accuracy.budget:g}.")
    if law.classes is not None:
        count = sum(comb(law.n, k) for k in range(law.classes + 1))
        raise ValueError(
            f"`classes` must be None for this law, or leave at most {exactly_k.PATTERNS} patterns of at "
            f"most {exactly_k.MOST_ON} alike uniform features; got {law.classes!r}, {count:,} patterns."
        )
    if accuracy.method != "auto":
        what = "derivatives" if gradient else "losses"
        rule = f"one that has {what} of all these outputs at {law.n} features with {law.values!r} values"
        raise ValueError(f"`method` must be {rule}; got {accuracy.method!r}.")
    if not law.values.bounded:
        part = "bounds and `pieces`, or a transform that is bounded along a wedge"
        require(law.values, "law", "wedge", part)
    require(law.values, "law", "transform")
    raise AssertionError  # else a method covers all


# --- The outputs of a problem ------------------------------------------------------------------------------


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> tuple[Outputs, str]:
    """Return (outputs of `problem` in the features' own units, names of methods used, with commas between).

    The `problem` has y_i / scale_i and x_j / scale_j in place of outputs y_i and features x_j; the `Outputs`
    returned are for y_i and x_j, with derivatives if `gradient`. `accuracy` is aimed at. Inputs with
    negligible weight in all rows are dropped. Their gradient is E[x_j] dL/db_i, as x_j is independent of
    output i. Raises ValueError if no method covers the outputs, or if digits are lost.
    """
    law, reduced, has_weight = problem.law, problem, None
    if law.independent and law.classes is None:
        has_weight = np.abs(problem.weights).max(axis=0) > NEGLIGIBLE
        has_weight[problem.target] = True
        if not has_weight.all():
            weights, target = problem.weights[:, has_weight], (np.cumsum(has_weight) - 1)[problem.target]
            reduced = replace(
                problem, law=law.without(has_weight), weights=np.ascontiguousarray(weights), target=target
            )
    scaled, methods = average_at_kinks(reduced, accuracy, gradient)
    units = law.scale[problem.target]
    losses = np.maximum(scaled.losses, 0.0) * units**2  # by rounding they may be below 0
    errors = scaled.errors * units**2
    if accuracy.refuse_lost:
        _refuse_lost("loss of", losses, errors, law, accuracy)
    if not gradient:
        return replace(scaled, losses=losses, errors=errors), methods
    by_M = scaled.by_M
    if reduced is not problem:
        by_M = scaled.by_b[:, None] * law.mean
        by_M[:, has_weight] = scaled.by_M
    scales = np.outer(units, law.scale)
    by_M, slope_errors = by_M * scales, scaled.slope_errors * scales.max(axis=1)
    if accuracy.refuse_lost:
        _refuse_lost("derivatives by", np.abs(by_M).max(axis=1), slope_errors, law, accuracy)
    slope_errors = np.maximum(slope_errors, scaled.slope_errors * units)
    return Outputs(losses, errors, by_M, scaled.by_b * units, slope_errors), methods


def _refuse_lost(name: str, sizes: FloatArray, errors: FloatArray, law: Law, accuracy: Accuracy) -> None:
    """Raise ValueError if errors of losses or derivatives are too large relative to their sizes.

    `sizes` (k,) are the absolute values of the k outputs' losses, or of the largest derivative by each
    output's row of M; `errors` (k,) are their errors. Allowed is max(0.01, 2 accuracy.tol) (size + max_j E
    x_j^2), for x_j of the `law`. `name` is "loss of" or "derivatives by", for the message.
    """
    least = max(REJECT_RTOL, 2.0 * accuracy.tol)
    lost = ~(errors <= least * (np.abs(sizes) + (law.square * law.scale**2).max()))
    if np.any(lost):
        k, most = int(np.flatnonzero(lost)[0]), accuracy.max_frequencies
        remedy = "" if most is None else f", or more `frequencies` than {most}"
        raise ValueError(
            f"`M` must have entries that double precision can tell apart{remedy}; the {name} row {k}, "
            f"{sizes[k]:.3g}, would be off by up to {errors[k]:.3g}."
        )


def average_at_kinks(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> tuple[Outputs, str]:
    """Return (outputs of a problem, names of methods); at kinks derivatives are means of the one-sided ones.

    At a kink the pre-activation of an output vanishes unless other features than its target are on.
    Derivatives are set if `gradient`; `accuracy` is aimed at.
    """
    outputs, methods = _try_methods(problem, accuracy, gradient)
    has_kinks = gradient and problem.activation == "relu" and problem.law.classes is None
    if not has_kinks or problem.biases.all():
        return outputs, methods
    kink = problem.at_kinks()
    if kink.any():
        at_kink, values = problem.picked(kink), problem.law.values
        offset = np.full(at_kink.biases.size, KINK_OFFSET)
        if values.atoms and not values.bounded:  # others may be 0, and e^(s b) must fall
            sizes = np.abs(at_kink.weights)
            smallest_weight = np.where(sizes != 0.0, sizes, np.inf).min(axis=1)
            offset = np.where(np.isfinite(smallest_weight), 1e-12 * smallest_weight, KINK_OFFSET)
        on, off = (
            _try_methods(replace(at_kink, biases=side), accuracy, True)[0] for side in (offset, -offset)
        )
        outputs.by_M[kink], outputs.by_b[kink] = 0.5 * (on.by_M + off.by_M), 0.5 * (on.by_b + off.by_b)
        outputs.slope_errors[kink] = np.maximum(on.slope_errors, off.slope_errors)
    return outputs, methods


def _try_methods(
    problem: LossProblem, accuracy: Accuracy, gradient: bool, *, first_only: bool = False
) -> tuple[Outputs, str]:
    """Return (outputs of a problem, names of methods), each output by the quickest method that covers it.

    The next method replaces it where the error of the loss, or with `gradient` that of derivatives, is too
    large for `accuracy.tol`; with `first_only`, only where that error is infinite. Derivatives are set if
    `gradient`. Raises ValueError if an error stays infinite.
    """
    law, count = problem.law, problem.biases.size
    if accuracy.budget is not None:
        accuracy = replace(accuracy, max_terms=accuracy.budget / count)
    candidates = choose(problem, accuracy, gradient)
    outputs: Outputs | None = None
    used: list[str] = []
    over_budget: dict[str, float] = {}
    if (
        law.features.groups
        and candidates
        and _is_conditioning_quicker(problem, accuracy, gradient, next(iter(candidates)))
    ):
        outputs, name = _condition_on_groups(problem, accuracy, gradient)
        used.append(name)
    for method, coverage in candidates.items():
        name, which = NAMES[method], coverage
        if outputs is not None:  # a loss near 0 has no size of its own
            rtol = np.inf if first_only else getattr(method, "FALLBACK_RTOL", FALLBACK_RTOL)
            size = np.maximum(np.abs(outputs.losses), _LEAST_SIZE * law.square.max())
            is_accurate = outputs.errors <= max(accuracy.tol, rtol) * size
            if gradient and not first_only:
                largest = np.abs(outputs.by_M).max(axis=1) + law.square.max()
                is_accurate &= outputs.slope_errors <= REJECT_RTOL * largest
            which = coverage & (~is_accurate | np.isinf(outputs.errors))
        if not which.any():
            continue
        if accuracy.budget is not None and count * method.terms(law) > accuracy.budget:
            over_budget[name] = count * method.terms(law)
            continue
        used.append(name)
        part = method.solve(problem if which.all() else problem.picked(which), accuracy, gradient)
        if outputs is None and which.all():
            if first_only or not accuracy.refuse_lost:
                return part, name
            outputs = part
        else:
            outputs = _replace_less_accurate(outputs, part, which)
    if outputs is None or np.isinf(outputs.errors).any():
        refuse_uncovered(law, accuracy, gradient, over_budget)
    return outputs, ", ".join(used)


def _replace_less_accurate(outputs: Outputs | None, part: Outputs, which: BoolArray) -> Outputs:
    """Return `outputs`, with each output replaced by that of `part` if its error there is smaller.

    `part` has only the outputs in the mask `which`. If `outputs` is None, the other outputs get infinite
    errors.
    """
    if outputs is None:
        count, n = which.size, part.by_M.shape[1]
        none = np.zeros((2, count))
        outputs = Outputs(np.zeros(count), np.full(count, np.inf), np.zeros((count, n)), *none)
    is_better = part.errors < outputs.errors[which]
    for field, values in vars(part).items():
        if values.size and getattr(outputs, field).size:
            getattr(outputs, field)[np.flatnonzero(which)[is_better]] = values[is_better]
    return outputs


# --- Groups ------------------------------------------------------------------------------------------------


def _is_conditioning_quicker(
    problem: LossProblem, accuracy: Accuracy, gradient: bool, first: ModuleType
) -> bool:
    """Return whether a sum over the states of groups takes less than half the time of the method `first`.

    A group is a set of dependent features; its state says which of them are on. Given the states of all
    groups features are independent, and each joint state takes one call of the quickest method for
    independent ones. The times are estimates for this `problem` and `accuracy`, with derivatives if
    `gradient`.
    """
    law = problem.law
    features = law.features
    if features.exactly is not None or law.classes is not None:
        return False
    states = float(np.prod([float(np.count_nonzero(chances)) for _, _, chances in features.groups]))
    if accuracy.budget is not None or accuracy.method != "auto" or states > MOST_STATES:
        return False
    direct = float(first.estimated_seconds(problem, accuracy, gradient))
    alone = replace(problem, law=law.given_on(features.p, np.arange(law.n)))
    quickest = next(iter(choose(alone, accuracy, gradient)), first)
    seconds = float(quickest.estimated_seconds(alone, accuracy, gradient))
    seconds += SECONDS_PER_STATE / problem.biases.size
    return 2.0 * states * seconds < direct  # both are rough


def _condition_on_groups(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> tuple[Outputs, str]:
    """Return (outputs of a problem, names of methods), as means over the joint states of all groups.

    A group is a set of dependent features; its state says which of them are on. Given all states, features
    are independent. The quickest method at this `accuracy` solves each joint state, with derivatives if
    `gradient`; another one follows only where its error is infinite.
    """
    law, (count, n) = problem.law, problem.weights.shape
    sums = [np.zeros(count, np.longdouble) for _ in range(4)]
    by_M, methods_used = np.zeros((count, n), np.longdouble), set()
    for chance, on in _joint_states(law.features):
        for which in _group_outputs_by_target(on, problem.target):
            # A feature that is off counts only as the target of an output.
            members = np.flatnonzero((on > 0.0) | (np.arange(n) == problem.target[which[0]]))
            new_index = np.cumsum(np.isin(np.arange(n), members)) - 1
            key = ("given", on.tobytes(), members.tobytes())
            if key not in law.cache:
                law.cache[key] = law.given_on(on[members], members)
            part = LossProblem(
                law.cache[key],
                np.ascontiguousarray(problem.weights[np.ix_(which, members)]),
                problem.biases[which],
                new_index[problem.target[which]],
                problem.activation,
            )
            outputs, methods = _try_methods(part, accuracy, gradient, first_only=True)
            methods_used.update(methods.split(", "))
            terms = (outputs.losses, outputs.errors, outputs.by_b, outputs.slope_errors)
            for total, term in zip(sums, terms, strict=True):
                if term.size:
                    total[which] += chance * term
            if outputs.by_M.size:
                by_M[np.ix_(which, members)] += chance * outputs.by_M
    losses, errors, by_b, slope_errors = (np.asarray(total, np.float64) for total in sums)
    # Each probability of a joint state is a product of those of the groups.
    errors += 2.0**-52 * (len(law.features.groups) + 2) * np.abs(losses)
    outputs = Outputs(losses, errors, np.asarray(by_M, np.float64), by_b, slope_errors)
    return outputs, ", ".join(sorted(methods_used))


def _joint_states(features: Features) -> Iterator[tuple[float, FloatArray]]:
    """Yield (probability of a joint state of all groups, (n,) probabilities that features are on given it).

    A group is a set of dependent features; its state says which of them are on. Given the state these have
    probability 1, the others of the group 0, and features outside all groups their own.
    """
    states = [
        [
            (members, pattern, chance)
            for pattern, chance in zip(patterns, chances, strict=True)
            if chance > 0.0
        ]
        for members, patterns, chances in features.groups
    ]
    for state in product(*states):
        on = np.array(features.p)
        for members, pattern, _ in state:
            on[members] = pattern
        yield prod(float(chance) for _, _, chance in state), on


def _group_outputs_by_target(on: FloatArray, targets: IntArray) -> list[IntArray]:
    """Return index arrays of outputs: one of all whose target may be on, one for each target that is off.

    `targets` has the target of each output, `on` the probability that each feature is on. A target is off if
    its probability is 0. Empty arrays are left out.
    """
    off = on[targets] == 0.0
    groups = [np.flatnonzero(~off), *(np.flatnonzero(targets == i) for i in np.unique(targets[off]))]
    return [group for group in groups if group.size]
