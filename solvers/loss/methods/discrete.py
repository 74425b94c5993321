r"""The exact loss of independent features that have finitely many values, from sums over two halves of them.

The interference of an output, nu = sum_j m_j x_j, is the sum of that of two halves of the features. A half of
k binary features has 2^k sums. For each sum of the first half the sums of the second that turn the output on
are a tail of the sorted list, and the mean of (x - y)^2 over a tail follows from its mass and its first two
moments. So n features cost 2^(n/2) n in place of 2^n.

A half with too many sums has neighbours merged into their mean. A merged sum keeps its variance V, so that a
pair of sums far from the kink at y = 0 is still exact. A pair whose pre-activation may be on both sides of
the kink is off by V + |x| sqrt(V) at most, by Jensen's inequality and Cauchy's: these are summed.
"""

from itertools import product
from math import comb, prod
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.validation import FloatArray, IntArray
from ...parallel import parallel_map
from ..problem import Accuracy, Law, LossProblem, Outputs
from .enumeration import blocks

__all__ = ["ESTIMATE", "estimated_seconds", "has_few_states", "solve", "terms"]

ESTIMATE = "proved: bounds of rounding, and of what merged sums change near the kink"

UNIT = 2.0**-53  # rounding
# Sums of a half up to which nothing is merged.
MOST_SUMS = 2**17
# Sums that are left where neighbours are merged: the first try, and the last.
FIRST_SUMS = 2**11
MOST_MERGED = 2**15
# States of a group at most.
MOST_STATES = 2**12
# Sums of a half up to which there are derivatives: each has a row of values.
MOST_WITH_SLOPES = 2**16
# Seconds for each sum of both halves, measured.
SECONDS_PER_SUM = 5e-7

# Cumulative sums are taken in the longest floating-point numbers there are.
Long = npt.NDArray[np.longdouble]


class Unit(NamedTuple):
    """A group or a single feature: the joint values of its members, with their probabilities."""

    members: IntArray
    values: FloatArray
    """(states, members)."""
    chances: FloatArray
    n_active: IntArray
    """How many of the members are on."""


Side = Literal["left", "right"]  # of `numpy.searchsorted`


class Sums(NamedTuple):
    """Law of a sum of features times weights: its values `position`, in ascending order, and their mass."""

    position: FloatArray
    mass: FloatArray
    variance: FloatArray
    """Variance within each merged sum; empty if nothing was merged."""
    values: FloatArray
    """(sums, features): the features' values, empty unless asked for."""
    radius: float = 0.0
    """By how much merging moved a sum at most, with the variance that is known."""
    displacement: float = 0.0
    """By how much sums that are equal but for rounding were moved."""
    dropped_mass: float = 0.0
    """Mass that was left out."""


class Tail(NamedTuple):
    """Mass and moments of the sums from each place to the end, (sums + 1,) each."""

    mass: Long
    first: Long
    second: Long
    size: Long
    """First moment of the absolute value."""


def units_of(law: Law) -> list[Unit]:
    """Return a `Unit` for each group of dependent features and for each feature outside all groups.

    A unit lists the joint values of its members, (states, members), with their probabilities and the number
    of members that are on in each. The law of values must have atoms only.
    """
    atoms = law.values.atoms
    units = []
    for members, patterns, weights in blocks(law.features):
        states, chances, counts = [], [], []
        for pattern, weight in zip(patterns, weights, strict=True):
            choices = [atoms if on else ((0.0, 1.0),) for on in pattern]
            for state in product(*choices) if weight > 0.0 else ():
                states.append([x for x, _ in state])
                chances.append(float(weight) * prod(chance for _, chance in state))
                counts.append(int(pattern.sum()))
        units.append(Unit(members, np.array(states, float), np.array(chances), np.array(counts, np.int64)))
    return units


def _merge_equal(sums: Sums, most: int, equal: float) -> Sums:
    """Return the distribution `sums` of a sum, with values that differ by less than `equal` merged.

    If more than `most` values would be left, the range is divided into `most` cells of one width. The values
    in a cell are merged into their mean, and their variance is stored.
    """
    position, mass, variance, values, radius, moved, dropped = sums
    new, width = np.append(True, np.diff(position) > equal), 0.0
    if int(new.sum()) > most:
        width = (position[-1] - position[0]) / most
        new = np.append(True, np.diff(np.floor((position - position[0]) / width)) > 0.0)
    if new.all():
        return sums
    start, group = np.flatnonzero(new), np.cumsum(new) - 1
    total = np.add.reduceat(mass, start)
    share = mass / total[group]
    mean = position[start] + np.add.reduceat(share * (position - position[start][group]), start)
    if width > 0.0:
        spread = (position - mean[group]) ** 2 + (variance if variance.size else 0.0)
        variance, radius = np.add.reduceat(share * spread, start), radius + width
    else:
        moved += float(np.abs(position - mean[group]).max())
        variance = np.add.reduceat(share * variance, start) if variance.size else variance
    if values.size:
        values = np.add.reduceat(share[:, None] * values, start)
    return Sums(mean, total, variance, values, radius, moved, dropped)


def _drop_rare(sums: Sums, least: float) -> Sums:
    """Return the distribution `sums` of a sum without its smallest and largest values.

    Fewer than 64 values all stay. Either end loses a mass of at most `least`/2.
    """
    if sums.mass.size < 64:
        return sums
    low = int(np.searchsorted(np.cumsum(sums.mass), 0.5 * least))
    high = sums.mass.size - int(np.searchsorted(np.cumsum(sums.mass[::-1]), 0.5 * least))
    part = slice(low, high)
    dropped = sums.dropped_mass + float(sums.mass[:low].sum() + sums.mass[high:].sum())
    variance = sums.variance[part] if sums.variance.size else sums.variance
    return sums._replace(
        position=sums.position[part], mass=sums.mass[part], variance=variance, dropped_mass=dropped
    )


def _convolve(pieces: list[tuple[Sums, IntArray]], row: FloatArray, unit: Unit) -> Sums:
    """Return the distribution of a sum of terms row_j x_j, with those of the features of `unit` added.

    `pieces` are pairs of a distribution of the sum so far and the indices of the states of `unit`, an
    independent group or single feature, that go with it.
    """
    parts = []
    for sums, states in pieces:
        step, count = unit.values[states] @ row[unit.members], sums.position.size
        variance = sums.variance if sums.variance.size else np.zeros(count)
        rows = sums.values
        if rows.ndim == 2:
            new = np.repeat(unit.values[states], count, axis=0)
            rows = np.hstack([np.tile(rows, (states.size, 1)), new])
        parts.append(
            (
                np.add.outer(step, sums.position).ravel(),
                np.multiply.outer(unit.chances[states], sums.mass).ravel(),
                np.tile(variance, states.size),
                rows,
            )
        )
    position, mass, variance, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(position, kind="stable")
    radius, moved = (max(getattr(sums, name) for sums, _ in pieces) for name in ("radius", "displacement"))
    dropped = sum(sums.dropped_mass for sums, _ in pieces)
    variance = variance[order] if any(sums.variance.size for sums, _ in pieces) else np.empty(0)
    rows = rows[order] if rows.ndim == 2 else rows
    return Sums(position[order], mass[order], variance, rows, radius, moved, dropped)


def _law_of_sum(
    row: FloatArray, units: list[Unit], limit: tuple[int, float, float], values: bool, total: int | None
) -> list[Sums | None]:
    """Return the distribution of the sum of a row's weights times the values of the features of some units.

    `limit` has the number of values of the sum from which neighbours are merged, the distance below which
    values count as equal, and the mass that may be left out at each step. If `values`, each has the features'
    values that make it, and none is left out. If `total` is not None, entry c of the list is the part with c
    features on, up to `total`, or None; else the list has one entry.
    """
    most, equal, least = limit
    empty = Sums(np.zeros(1), np.ones(1), np.empty(0), np.empty((1, 0)) if values else np.empty(0))
    by_count: list[Sums | None] = [empty] + [None] * (total or 0)
    for unit in units:
        on = np.zeros(unit.chances.size, np.int64) if total is None else unit.n_active
        extended: list[Sums | None] = []
        for count in range(len(by_count)):
            pieces = [
                (partial, np.flatnonzero(on == count - count_before))
                for count_before, partial in enumerate(by_count)
                if partial is not None and np.any(on == count - count_before)
            ]
            sums = _convolve(pieces, row, unit) if pieces else None
            if sums is not None:
                sums = _merge_equal(sums if values else _drop_rare(sums, least), most, equal)
            extended.append(sums)
        by_count = extended
    return by_count


def _tail_moments(sums: Sums) -> Tail:
    """Return sums from each of the values s_k on: of mass w_k, of w s, w E s^2 and w |s|, (values + 1,) each.

    They are not divided by the mass; the last entries are 0. E s^2 has the variance of merged values too.
    """

    def tail(x: FloatArray) -> Long:
        """Return the sums of x from each entry to the end."""
        return np.append(np.cumsum(x[::-1], dtype=np.longdouble)[::-1], np.longdouble(0.0))

    position, mass = sums.position, sums.mass
    second = position**2 if sums.variance.size == 0 else position**2 + sums.variance
    return Tail(tail(mass), tail(mass * position), tail(mass * second), tail(mass * np.abs(position)))


class LossPart(NamedTuple):
    """Loss of an output, given the value of its target or in all, with bounds of two errors."""

    loss: float
    rounding: float
    merging: float


def _loss_given_target(left: Sums, right: Sums, tail: Tail, t: float, x: float) -> LossPart:
    """Return E (x - ReLU(t + nu))^2 for the target's value x, nu being the interference.

    nu is a sum of `left` plus one of `right`, the sums over either half of the other features. `tail` has the
    `_tail_moments` of `right`; t is the bias and the term of the target's group. Mass that was dropped does
    not count.
    """
    y = t + left.position
    edge = np.searchsorted(right.position, -y, side="right")
    mass, first, second, size = (part[edge] for part in tail)
    residual = x - y
    variance = 0.0 if left.variance.size == 0 else left.variance
    below = np.append(np.longdouble(0.0), np.cumsum(right.mass, dtype=np.longdouble))
    off = below[edge]  # not one less the mass above, which would cancel
    on = (residual * residual + variance) * mass - 2.0 * residual * first + second
    sizes = (np.abs(x) + np.abs(y)) ** 2 * mass + 2.0 * (np.abs(x) + np.abs(y)) * size + second
    loss = np.sum(left.mass * (on + x * x * off))
    additions = 2.0 * (left.mass.size + right.mass.size)
    relative = additions * float(np.finfo(np.longdouble).eps) + 12.0 * UNIT
    rounding = relative * float(np.sum(left.mass * (sizes + x * x * off)))
    return LossPart(float(loss), rounding, _merging_error(left, right, y, x))


def _merging_error(left: Sums, right: Sums, y: FloatArray, x: float) -> float:
    """Return a bound of the change of `_loss_given_target` by merging neighbouring sums of the halves.

    That is E (x - ReLU(y + r))^2 for the target's value x, over the sums y, those of the `left` half of the
    other features plus t (bias and term of the target's group), and r of the `right` half. The bound is a sum
    over the pairs for which y + r is near the kink.
    """
    reach = left.radius + right.radius
    if reach == 0.0:
        return 0.0

    def mass_between(weights: FloatArray) -> FloatArray:
        """Return, for each sum of the left half, the sum of `weights` of right sums near the kink."""
        total = np.append(0.0, np.cumsum(weights))
        first, last = (np.searchsorted(right.position, -y + side, side=name) for side, name in edges)
        return np.asarray(np.maximum(total[last] - total[first], 0.0))

    edges: tuple[tuple[float, Side], ...] = ((-reach, "left"), (reach, "right"))
    mass, bound = mass_between(right.mass), np.zeros(y.size)
    for variance, times in ((left.variance, mass), (right.variance, None)):
        if variance.size:
            change = variance + abs(x) * np.sqrt(variance)
            bound += change * times if times is not None else mass_between(right.mass * change)
    return float(np.sum(left.mass * bound)) * (1.0 + 1e-6) + 1e-300


def _slopes_given_target(
    left: Sums, right: Sums, tail: Tail, t: float, x: float, tie: float
) -> tuple[float, FloatArray, float]:
    """Return (derivative by t, those by the weights of the `left` half, size of their terms) of the loss.

    It is E (x - ReLU(t + nu))^2 given the target's value x, the interference nu being a sum of `left`, which
    has the features' values, plus one of `right`; `tail` has the `_tail_moments` of `right`, t is the bias
    and the term of the target's group. Where the output is 0, which it is if it differs from 0 by at most
    `tie`, the derivative is the mean of the one-sided ones.
    """
    y = t + left.position
    push, size = np.zeros(y.size), np.zeros(y.size)
    edges: tuple[tuple[float, Side], ...] = ((-tie, "left"), (tie, "right"))
    for side, name in edges:
        edge = np.searchsorted(right.position, -y + side, side=name)
        push -= np.asarray((x - y) * tail.mass[edge] - tail.first[edge], np.float64)
        size += np.asarray((np.abs(x) + np.abs(y)) * tail.mass[edge] + tail.size[edge], np.float64)
    push *= left.mass
    return float(push.sum()), push @ left.values, float(left.mass @ size)


class State(NamedTuple):
    """Joint values of an output's target and the features that depend on it, with their probability.

    `x` is the target's value, `n_active` the number of these features that are on.
    """

    values: FloatArray
    x: float
    chance: float
    n_active: int


class HalvedOutput(NamedTuple):
    """An output: weights and bias, the unit of its target with its states, other units in two halves."""

    row: FloatArray
    b: float
    target_unit: Unit
    states: list[State]
    halves: tuple[list[Unit], list[Unit]]
    reach: float
    """The largest pre-activation there may be, and the largest value."""
    total: int | None
    """How many features are on, if that is given."""


def _make_task(row: FloatArray, i: int, b: float, law: Law) -> HalvedOutput:
    """Return the `HalvedOutput` of the output with weights `row` and bias b whose target is feature i.

    That holds what a solution needs: the states of the group of feature i, and all others in two halves.
    """
    units, total = law.cache["units"], law.features.exactly
    largest = max(abs(x) for x, _ in law.values.atoms)
    (target_unit,) = (unit for unit in units if i in unit.members)
    at = int(np.flatnonzero(target_unit.members == i)[0])
    states = [
        State(values, float(values[at]), float(chance), int(on))
        for values, chance, on in zip(
            target_unit.values, target_unit.chances, target_unit.n_active, strict=True
        )
    ]
    # What has no weight counts only where the number of features that are on is given.
    others = [
        unit for unit in units if unit is not target_unit and (total is not None or row[unit.members].any())
    ]
    others.sort(key=lambda unit: float(np.abs(row[unit.members]).max()))
    reach = abs(b) + largest * float(np.abs(row).sum() + 1.0)
    return HalvedOutput(row, b, target_unit, states, (others[::2], others[1::2]), reach, total)


class Pair(NamedTuple):
    """A state of the target's unit with a law of sums of either half, and the tails of each."""

    state: State
    sums: tuple[Sums, Sums]
    tails: tuple[Tail, Tail]


def _pairs(task: HalvedOutput, halves: list[list[Sums | None]]) -> list[Pair]:
    """Return a `Pair` for each state of the target's unit: the state, and a law of sums of either half.

    `task` is the output. If the number of features that are on is fixed, there is a pair for each way to
    split it between the halves; entry c of `halves[0]` and of `halves[1]` then has the sums with c on.
    """
    tails = [[None if sums is None else _tail_moments(sums) for sums in half] for half in halves]
    pairs = []
    for state in task.states:
        left = 0 if task.total is None else task.total - state.n_active
        for count in range(left + 1):
            first_half, second_half = halves[0][count], halves[1][left - count]
            first, second = tails[0][count], tails[1][left - count]
            if (
                first_half is not None
                and second_half is not None
                and first is not None
                and second is not None
            ):
                pairs.append(Pair(state, (first_half, second_half), (first, second)))
    return pairs


def _solve_output(task: HalvedOutput, tolerance: float, slopes: bool) -> tuple[LossPart, list[Pair]]:
    """Return (loss of the output `task`, its pairs of sums), merged no more than `tolerance` allows.

    With `slopes` sums have the features' values, which derivatives need, and are not merged.
    """
    row, b, target_unit, _, halves, reach, total = task
    equal = 4.0 * UNIT * reach
    least = 0.0 if slopes or total is not None else 0.01 * tolerance / (row.size * reach**2)
    most = MOST_SUMS if slopes or _count_states(halves[0]) <= MOST_SUMS else FIRST_SUMS
    while True:
        pairs = _pairs(task, [_law_of_sum(row, half, (most, equal, least), slopes, total) for half in halves])
        parts, mass, dropped = np.zeros(3), np.longdouble(0.0), 0.0
        for (values, x, chance, _), (first_half, second_half), tails in pairs:
            t = b + float(row[target_unit.members] @ values)
            parts += chance * np.array(_loss_given_target(first_half, second_half, tails[1], t, x))
            mass += chance * tails[0].mass[0] * tails[1].mass[0]
            dropped = max(dropped, first_half.dropped_mass + second_half.dropped_mass)
        if total is not None:
            parts /= float(mass)
        loss, rounding, merging = parts.tolist()
        if merging <= 0.5 * tolerance or most >= MOST_MERGED:
            break
        # Merging changes the loss by the square of the distance of sums.
        wanted = np.log2(most * np.sqrt(merging / (0.25 * tolerance)))
        most = int(min(2 ** np.ceil(min(wanted, 60.0)), MOST_MERGED))
    if total is not None:
        share = 1.0 / float(mass)
        pairs = [pair._replace(state=pair.state._replace(chance=pair.state.chance * share)) for pair in pairs]
    return LossPart(loss, rounding, merging + dropped * reach**2), pairs


def _input_rounding(task: HalvedOutput, law: Law, part: LossPart, moved: float) -> float:
    """Return a bound of the loss's error by the rounding of probabilities and of pre-activations.

    `part` is the loss of the output `task` as computed, `moved` by how much equal sums were moved when they
    were merged. A pre-activation is off by at most (n + 5) units of the sum S of its terms' absolute
    values: by scaling of weights, by products and by sums. It is not off where nothing is on. A change d
    changes E e^2 by at most 2 sqrt(E e^2 E d^2) + E d^2. A mass is a product, off by 2 (n + 1) units, and so
    is what it is divided by.
    """
    row, b, loss = task.row, task.b, part.loss + part.rounding
    p, weights = law.p, np.abs(row)
    absolute = sum(abs(x) * chance for x, chance in law.values.atoms)
    mean, p_any = absolute * float(p @ weights), min(float(p.sum()), 1.0)
    # E S^2 is at most that of features that are on together, by Cauchy's inequality.
    if law.independent:
        square = mean * mean + law.moment(2) * float(p @ weights**2)
    else:
        square = law.moment(2) * float(np.sqrt(p) @ weights) ** 2
    size = p_any * b * b + 2.0 * abs(b) * mean + square
    change = (row.size + 5.0) * UNIT * np.sqrt(size) + moved * np.sqrt(p_any)
    at_none = 4.0 * UNIT * max(b, 0.0) ** 2
    masses = 4.0 * (row.size + 1.0) * UNIT * loss
    return float(2.0 * np.sqrt(loss) * change + change * change + at_none + masses)


def _output_derivatives(task: HalvedOutput, pairs: list[Pair]) -> tuple[FloatArray, float, float]:
    """Return (derivatives (n,) of the loss of the output `task` by its row, by b, bound of their errors).

    Each of `pairs` is a state of the target and the features that depend on it, with the laws of the sums of
    weights times values over two halves of the other features, which have the values that make each sum, and
    those sums' tails.
    """
    row, b, target_unit, _, halves, reach, _ = task
    by_row, by_b, size, tie, longest = np.zeros(row.size), 0.0, 0.0, 4.0 * UNIT * reach, 1
    for (values, x, chance, _), sums, tails in pairs:
        t = b + float(row[target_unit.members] @ values)
        for first, side in ((0, 1), (1, 0)):
            by_t, by, terms_size = _slopes_given_target(sums[first], sums[side], tails[side], t, x, tie)
            members = np.concatenate([np.empty(0, np.int64), *(unit.members for unit in halves[first])])
            by_row[members] += chance * by
            size, longest = size + chance * terms_size, max(longest, sums[first].mass.size)
            if first == 0:
                by_b += chance * by_t
                by_row[target_unit.members] += chance * by_t * values
    largest = max(1.0, *(float(np.abs(unit.values).max()) for unit in (target_unit, *halves[0], *halves[1])))
    relative = (4.0 * row.size + 32.0) * UNIT + 2.0 * UNIT * np.sqrt(float(longest))
    return by_row, by_b, relative * size * largest


# --- The method --------------------------------------------------------------------------------------------


def _count_states(units: list[Unit]) -> float:
    """Return the number of joint states of some units, at most e^600."""
    return float(np.exp(min(sum(np.log(unit.chances.size) for unit in units), 600.0)))


def _count_sums_of_half(law: Law) -> float:
    """Return the most values that the sum over half of the independent groups and single features may have.

    It also stores these, as `Unit`s, in the law's cache.
    """
    if "units" not in law.cache:
        law.cache["units"] = units_of(law)
    sizes = sorted(unit.chances.size for unit in law.cache["units"])
    every = float(np.exp(min(float(np.log(sizes[::-2]).sum()), 600.0)))
    total, half = law.features.exactly, (law.n + 1) // 2
    if total is None or total >= half or law.features.groups:
        return every
    choices = float(len(law.values.atoms))
    return min(every, sum(float(comb(half, k)) * min(choices**k, 1e100) for k in range(total + 1)))


def has_few_states(law: Law) -> bool:
    """Return whether each group of dependent features has at most `MOST_STATES` joint states.

    A state has an atom of the law of values for each feature that is on; densities are not considered.
    """
    atoms = float(len(law.values.atoms))
    return all(np.sum(atoms ** patterns.sum(axis=1)) <= MOST_STATES for _, patterns, _ in law.features.groups)


def has_slopes(law: Law) -> bool:
    """Return whether `solve` gives derivatives at this law: that is where no sums need be merged."""
    return _count_sums_of_half(law) <= MOST_WITH_SLOPES


def terms(law: Law) -> float:
    """Return the cost of an output: the number of values of its sums over both halves of the features."""
    return 2.0 * min(_count_sums_of_half(law), float(MOST_SUMS))


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output."""
    exact = _count_sums_of_half(problem.law)
    if exact <= MOST_SUMS:
        return 1e-3 + SECONDS_PER_SUM * 2.0 * exact
    return SECONDS_PER_SUM * float(MOST_MERGED) * problem.law.n


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem to `accuracy.tol`; derivatives are 0 unless `gradient`."""
    law, M, features, b = problem.law, problem.weights, problem.target, problem.biases
    count, n = M.shape
    losses, errors, by_M, by_b = np.zeros(count), np.zeros(count), np.zeros((count, n)), np.zeros(count)
    slope_errors = np.zeros(count)
    tolerance = np.maximum(accuracy.tol * law.aim[features], np.finfo(np.float64).tiny)
    _count_sums_of_half(law)  # makes the units

    def solve_output(k: int) -> None:
        """Write losses, derivatives and errors of output k."""
        task = _make_task(M[k], int(features[k]), float(b[k]), law)
        part, pairs = _solve_output(task, float(tolerance[k]), gradient)
        losses[k] = part.loss
        moved = max((sums[0].displacement + sums[1].displacement for _, sums, _ in pairs), default=0.0)
        errors[k] = part.rounding + part.merging + _input_rounding(task, law, part, moved)
        if gradient:
            by_M[k], by_b[k], slope_errors[k] = _output_derivatives(task, pairs)
            silent = np.ones(n, np.bool_)  # a feature without weight is independent of the output
            for unit in (task.target_unit, *task.halves[0], *task.halves[1]):
                silent[unit.members] = False
            by_M[k, silent] = law.mean[silent] * by_b[k]

    parallel_map(solve_output, count, accuracy.workers)
    return Outputs(losses, errors, by_M, by_b, slope_errors)
