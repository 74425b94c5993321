r"""The exact loss of independent features that have finitely many values, from sums over two halves of them.

The interference of an output, nu = sum_j m_j x_j, is the sum of that of two halves of the features. A half of
k binary features has 2^k sums. For each sum of the first half the sums of the second that turn the output on
are a tail of the sorted list, and the mean of (x - y)^2 over a tail follows from its mass and its first two
moments. So n features cost 2^(n/2) n in place of 2^n.

A half with too many sums has neighbours merged into their mean; the likeliest stay alone. A merged sum keeps
its variance V, so that a pair of sums far from the kink at y = 0 is still exact. A pair whose pre-activation
may be on both sides of the kink is off by V + |x| sqrt(V) at most, by Jensen's inequality and Cauchy's: these
are summed.

Derivatives come by backpropagation through the merging. Given a sum s of the first half, the derivative of
the loss by s is a mean over the second, and away from the kink linear in s. So each merged sum passes its
level and its slope on to the sums that it was made of, one feature after the other, and pairs far from the
kink stay exact here too. Loss and derivatives take 1.3 to 2 times what the loss does
to the same tolerance, and more at a loose one, where derivatives need more sums.
"""

from itertools import product
from math import comb, prod
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.compile.kernels import kernel
from ....theory.validation import FloatArray, IntArray
from ...parallel import parallel_map
from ..problem import Accuracy, Law, LossProblem, Outputs
from . import enumeration

__all__ = ["ESTIMATE", "estimated_seconds", "has_few_states", "solve", "terms"]

ESTIMATE = (
    "proved: bounds of rounding, and of what merged sums change near the kink; that of derivatives is "
    "heuristic, as if pairs near the kink were on independent sides of it, never exceeded in tests"
)

UNIT = 2.0**-53  # rounding
# Sums of a half up to which nothing need be merged.
MOST_SUMS = 2**17
# Sums that are left where neighbours are merged: the first try, and the last.
FIRST_SUMS = 2**11
MOST_MERGED = 2**15
# Errors, over the square of the largest pre-activation, that the first try may reach.
FIRST_TOLERANCE = 1e-10
# Error of derivatives, in units of E x^2, above which less is merged.
SLOPE_TOLERANCE = 5e-3
# Distances from the kink, over the largest at which merging matters, between which the share of a pair
# on the other side is bounded.
SHELLS = 4.0 ** np.arange(-4, 1)
# States of a group at most.
MOST_STATES = 2**12
# Seconds for each sum of both halves, measured, and for each merged sum and feature.
SECONDS_PER_SUM = 5e-7
SECONDS_PER_MERGED_SUM = 1e-7
# A sum with more than this share of the mass, over the number of sums that are left, is not merged.
LIKELY = 4.0
# Masses below have no inverse.
LEAST_MASS = 1e-307
# Standard errors of a derivative: what pairs near the kink would change if each were on a random side.
ERRORS = 4.0

# Cumulative sums are taken in the longest floating-point numbers there are.
Long = npt.NDArray[np.longdouble]


class Block(NamedTuple):
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
    """Variance within each merged sum, 0 of those that were not merged."""
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


def blocks_of(law: Law) -> list[Block]:
    """Return a `Block` for each group of dependent features and for each feature outside all groups.

    A block lists the joint values of its members, (states, members), with their probabilities and the number
    of members that are on in each. The law of values must have atoms only.
    """
    atoms = law.values.atoms
    blocks = []
    for members, patterns, weights in enumeration.blocks(law.features):
        states, chances, counts = [], [], []
        for pattern, weight in zip(patterns, weights, strict=True):
            choices = [atoms if on else ((0.0, 1.0),) for on in pattern]
            for state in product(*choices) if weight > 0.0 else ():
                states.append([x for x, _ in state])
                chances.append(float(weight) * prod(chance for _, chance in state))
                counts.append(int(pattern.sum()))
        blocks.append(Block(members, np.array(states, float), np.array(chances), np.array(counts, np.int64)))
    return blocks


class Step(NamedTuple):
    """How the laws of a sum, by number of features on, follow from those before a block's term was added."""

    block: Block
    parents: list[Sums | None]
    pieces: list[list[tuple[int, IntArray]]]
    """For each number on after: (number on before, indices of the states of the block that add the rest)."""
    merged: list[IntArray]
    """For each number on after: index in the law after of each (state, sum before), piece by piece; -1 for
    those that were dropped."""


@kernel
def _merge_sorted(
    position: FloatArray, mass: FloatArray, variance: FloatArray, order: IntArray, most: int, equal: float
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, float, float]:
    """Return (positions, masses, variances, indices, width, displacement) of sums, with neighbours merged.

    `order` sorts `position`. Sums that differ from their neighbour by at most `equal` are merged into their
    mean. If more than `most` are left, those in the same one of `most` cells of one width are, but for the
    likeliest. `indices` (sums,) say which each became, `width` is 0 without cells.
    """
    count = order.size
    new_position, new_mass, new_variance = np.empty(count), np.empty(count), np.empty(count)
    indices, displacement, size, first = np.empty(count, np.int64), 0.0, 0, 0
    while first < count:
        k, end = order[first], first + 1
        start, total, spread, mean = position[k], mass[k], variance[k], position[k]
        indices[k], last = size, start
        if end < count and position[order[end]] - last <= equal:
            offset, spread = 0.0, total * spread
            while end < count and position[order[end]] - last <= equal:
                k = order[end]
                indices[k], last, end = size, position[k], end + 1
                offset += mass[k] * (last - start)
                spread += mass[k] * variance[k]
                total += mass[k]
            share = 1.0 / total if total > LEAST_MASS else 0.0  # all may underflow
            mean, spread = start + offset * share, spread * share
            displacement = max(displacement, mean - start, last - mean)
        new_position[size], new_mass[size], new_variance[size] = mean, total, spread
        size, first = size + 1, end
    if size <= most:
        return new_position[:size], new_mass[:size], new_variance[:size], indices, 0.0, displacement
    origin = new_position[0]
    width = (new_position[size - 1] - origin) / most
    per_width, likely = 1.0 / width, LIKELY * new_mass[:size].sum() / most
    cells, fewer, first = np.empty(size, np.int64), 0, 0
    while first < size:
        start, total, end = new_position[first], new_mass[first], first + 1
        mean, spread, edge = start, new_variance[first], np.floor((start - origin) * per_width) + 1.0
        cells[first] = fewer
        if total < likely:
            offset = 0.0
            while end < size and new_mass[end] < likely and (new_position[end] - origin) * per_width < edge:
                offset += new_mass[end] * (new_position[end] - start)
                total += new_mass[end]
                cells[end] = fewer
                end += 1
            if end > first + 1:
                share = 1.0 / total if total > LEAST_MASS else 0.0
                mean, spread = start + offset * share, 0.0
                for k in range(first, end):
                    spread += new_mass[k] * share * ((new_position[k] - mean) ** 2 + new_variance[k])
        new_position[fewer], new_mass[fewer], new_variance[fewer] = mean, total, spread
        fewer, first = fewer + 1, end
    return new_position[:fewer], new_mass[:fewer], new_variance[:fewer], cells[indices], width, displacement


def _convolve(
    parents: list[Sums | None],
    pieces: list[tuple[int, IntArray]],
    block: Block,
    row: FloatArray,
    limit: tuple[int, float, float],
) -> tuple[Sums, IntArray]:
    """Return (law of a sum with a block's term added, index in it of each sum before, -1 if dropped).

    `parents` has the laws of the sum so far by number of features on, `pieces` those to take, each with the
    indices of the block's states that go with it. `row` are the weights, and `limit` has the number of values
    from which neighbours are merged, the distance below which values are equal, and the mass that may be
    left out: half of it of the least sums, half of the largest. Fewer than 64 sums all stay.
    """
    most, equal, least = limit
    parts, radius, displacement, dropped = [], 0.0, 0.0, 0.0
    for count, states in pieces:
        sums = parents[count]
        assert sums is not None
        step = block.values[states] @ row[block.members]
        position, mass = (
            np.add.outer(step, sums.position),
            np.multiply.outer(block.chances[states], sums.mass),
        )
        parts.append((position.ravel(), mass.ravel(), np.tile(sums.variance, states.size)))
        radius, displacement = max(radius, sums.radius), max(displacement, sums.displacement)
        dropped += sums.dropped_mass
    position, mass, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(position, kind="stable")
    position, mass, variance, indices, width, change = _merge_sorted(
        position, mass, variance, order, most, equal
    )
    if least > 0.0 and mass.size >= 64:
        low = int(np.searchsorted(np.cumsum(mass), 0.5 * least))
        high = mass.size - int(np.searchsorted(np.cumsum(mass[::-1]), 0.5 * least))
        dropped += float(mass[:low].sum() + mass[high:].sum())
        indices = np.where((indices >= low) & (indices < high), indices - low, -1)
        position, mass, variance = position[low:high], mass[low:high], variance[low:high]
    return Sums(position, mass, variance, radius + width, displacement + change, dropped), indices


def _law_of_sum(
    row: FloatArray, blocks: list[Block], limit: tuple[int, float, float], total: int | None, with_steps: bool
) -> tuple[list[Sums | None], list[Step]]:
    """Return (law of the sum of a row's weights times the values of the features of some blocks, its steps).

    `limit` is that of `_convolve`. If `total` is not None, entry c of the law is the part with c features on,
    up to `total`, or None; else it has one entry. A step belongs to each block, `with_steps`; they hold all
    laws on the way, which derivatives need.
    """
    empty = Sums(np.zeros(1), np.ones(1), np.zeros(1))
    by_count: list[Sums | None] = [empty] + [None] * (total or 0)
    steps = []
    for block in blocks:
        on = np.zeros(block.chances.size, np.int64) if total is None else block.n_active
        step = Step(block, by_count, [], [])
        by_count = []
        for count in range(len(step.parents)):
            pieces = [
                (parent_count, np.flatnonzero(on == count - parent_count))
                for parent_count, partial in enumerate(step.parents)
                if partial is not None and np.any(on == count - parent_count)
            ]
            sums, indices = (
                _convolve(step.parents, pieces, block, row, limit)
                if pieces
                else (None, np.empty(0, np.int64))
            )
            by_count.append(sums)
            step.pieces.append(pieces)
            step.merged.append(indices)
        if with_steps:
            steps.append(step)
    return by_count, steps


def _tail_moments(sums: Sums) -> Tail:
    """Return sums from each of the values s_k on: of mass w_k, of w s, w E s^2 and w |s|, (values + 1,) each.

    They are not divided by the mass; the last entries are 0. E s^2 has the variance of merged values too.
    """

    def tail(x: FloatArray) -> Long:
        """Return the sums of x from each entry to the end."""
        return np.append(np.cumsum(x[::-1], dtype=np.longdouble)[::-1], np.longdouble(0.0))

    position, mass = sums.position, sums.mass
    second = position**2 + sums.variance
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
    below = np.append(np.longdouble(0.0), np.cumsum(right.mass, dtype=np.longdouble))
    off = below[edge]  # not one less the mass above, which would cancel
    on = (residual * residual + left.variance) * mass - 2.0 * residual * first + second
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
    change, left_change = (sums.variance + abs(x) * np.sqrt(sums.variance) for sums in (right, left))
    mass, changes = _near_kink(y, right, reach, np.stack([right.mass, right.mass * change]))
    return float(np.sum(left.mass * (left_change * mass + changes))) * (1.0 + 1e-6) + 1e-300


def _near_kink(y: FloatArray, right: Sums, reach: float, terms: FloatArray) -> FloatArray:
    """Return, (k, y), sums of `terms`, (k, sums), over the sums r of `right` with |y + r| <= `reach`."""
    totals = np.concatenate([np.zeros((len(terms), 1)), np.cumsum(terms, axis=1)], axis=1)
    first = np.searchsorted(right.position, -y - reach, side="left")
    last = np.searchsorted(right.position, -y + reach, side="right")
    return np.asarray(np.maximum(totals[:, last] - totals[:, first], 0.0))


class Slopes(NamedTuple):
    """Derivative of an output's loss by the sum over one half of the features, at each value of that sum."""

    level: FloatArray
    """The derivative at the mean of each merged sum."""
    slope: FloatArray
    """Its derivative within a merged sum, where the other half decides nothing."""


def _slopes_given_target(
    left: Sums, right: Sums, tail: Tail, t: float, x: float, tie: float
) -> tuple[Slopes, float, float]:
    """Return (derivatives by the sum over the `left` half, size of their terms, variance of their errors).

    The loss is E (x - ReLU(t + nu))^2 given the target's value x, the interference nu being a sum of `left`
    plus one of `right`; `tail` has the `_tail_moments` of `right`, t is the bias and the term of the target's
    group. Where the output is 0, which it is if it differs from 0 by at most `tie`, the derivative is the
    mean of the one-sided ones. The size is a mean over the left half. The variance is that of the mean of the
    derivative if the pairs of merged sums near the kink are on independent sides of it.
    """
    y, reach = t + left.position, left.radius + right.radius
    level, slope, size = np.zeros((3, y.size))
    edges: tuple[tuple[float, Side], ...] = ((-tie, "left"), (tie, "right"))
    for side, name in edges:
        edge = np.searchsorted(right.position, -y + side, side=name)
        level -= np.asarray((x - y) * tail.mass[edge] - tail.first[edge], np.float64)
        slope += np.asarray(tail.mass[edge], np.float64)
        size += np.asarray((np.abs(x) + np.abs(y)) * tail.mass[edge] + tail.size[edge], np.float64)
    # Differences of cumulative sums of squares are off by rounding.
    near = np.full(y.size, UNIT * float(right.mass @ right.mass) if reach > 0.0 else 0.0)
    inner, previous = np.zeros((2, y.size)), 0.0
    for radius in reach * SHELLS if reach > 0.0 else ():
        sums = _near_kink(y, right, radius, np.stack([right.mass**2, (right.mass * right.variance) ** 2]))
        every, merged = sums - inner
        # By Chebyshev's inequality no larger share of a pair is on the other side than its mean.
        shares = 2.0 * (left.variance**2 * every + merged) / previous**4 if previous else every
        near += np.minimum(every, shares)
        previous, inner = radius, sums
    variance = float(left.mass**2 @ near) * (2.0 * (abs(x) + 2.0 * reach)) ** 2
    return Slopes(level, slope), float(left.mass @ size), variance


class State(NamedTuple):
    """Joint values of an output's target and the features that depend on it, with their probability.

    `x` is the target's value, `n_active` the number of these features that are on.
    """

    values: FloatArray
    x: float
    chance: float
    n_active: int


class HalvedOutput(NamedTuple):
    """An output: weights and bias, the block of its target with its states, other blocks in two halves."""

    row: FloatArray
    b: float
    target_block: Block
    states: list[State]
    halves: tuple[list[Block], list[Block]]
    reach: float
    """The largest pre-activation there may be, and the largest value."""
    total: int | None
    """How many features are on, if that is given."""


def _make_task(row: FloatArray, i: int, b: float, law: Law) -> HalvedOutput:
    """Return the `HalvedOutput` of the output with weights `row` and bias b whose target is feature i.

    That holds what a solution needs: the states of the group of feature i, and all others in two halves.
    """
    blocks, total = law.cache["blocks"], law.features.exactly
    largest = max(abs(x) for x, _ in law.values.atoms)
    (target_block,) = (block for block in blocks if i in block.members)
    at = int(np.flatnonzero(target_block.members == i)[0])
    states = [
        State(values, float(values[at]), float(chance), int(on))
        for values, chance, on in zip(
            target_block.values, target_block.chances, target_block.n_active, strict=True
        )
    ]
    # What has no weight counts only where the number of features that are on is given.
    others = [
        block
        for block in blocks
        if block is not target_block and (total is not None or row[block.members].any())
    ]
    others.sort(key=lambda block: float(np.abs(row[block.members]).max()))
    reach = abs(b) + largest * float(np.abs(row).sum() + 1.0)
    return HalvedOutput(row, b, target_block, states, (others[::2], others[1::2]), reach, total)


Half = tuple[list[Sums | None], list[Step]]


class Pair(NamedTuple):
    """A state of the target's block, with the distributions of the sums of both halves and their tails."""

    state: State
    counts: tuple[int, int]
    """How many features are on in either half, 0 where that is not given."""
    sums: tuple[Sums, Sums]
    tails: tuple[Tail, Tail]


def _pairs(task: HalvedOutput, halves: list[Half]) -> list[Pair]:
    """Return a `Pair` for each state of the target's block, with the distributions of both halves' sums.

    `task` is the output. If the number of features that are on is fixed, there is a pair for each way to
    split it between the halves; entry c of a half's list then has the sums with c features on.
    """
    tails = [[None if sums is None else _tail_moments(sums) for sums in laws] for laws, _ in halves]
    pairs = []
    for state in task.states:
        left = 0 if task.total is None else task.total - state.n_active
        for count in range(left + 1):
            counts = count, left - count
            first_half, second_half = (laws[k] for (laws, _), k in zip(halves, counts, strict=True))
            first, second = tails[0][count], tails[1][left - count]
            if (
                first_half is not None
                and second_half is not None
                and first is not None
                and second is not None
            ):
                pairs.append(Pair(state, counts, (first_half, second_half), (first, second)))
    return pairs


def _input_rounding(task: HalvedOutput, law: Law, part: LossPart, displacement: float) -> float:
    """Return a bound of the loss's error by the rounding of probabilities and of pre-activations.

    `part` is the loss of the output `task` as computed, `displacement` the largest change of a sum by
    merging. A pre-activation is off by at most (n + 5) units of the sum S of its terms' absolute values, by
    scaling of weights, products and sums, and exact where nothing is on. A change d of the output changes E
    e^2 by at most 2 sqrt(E e^2 E d^2) + E d^2. A probability is a product, off by 2 (n + 1) units, and so is
    its divisor.
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
    change = (row.size + 5.0) * UNIT * np.sqrt(size) + displacement * np.sqrt(p_any)
    at_none = 4.0 * UNIT * max(b, 0.0) ** 2
    masses = 4.0 * (row.size + 1.0) * UNIT * loss
    return float(2.0 * np.sqrt(loss) * change + change * change + at_none + masses)


@kernel
def _pull_back(
    level: FloatArray, slope: FloatArray, distance: FloatArray, indices: IntArray, chances: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return levels and slopes of derivatives by the sums before a step, and levels (states, sums) after it.

    A step adds a block, with `chances` (states,) of its states. `level` and `slope` are those at the merged
    sums after the step. For each state and each sum before the step, `indices` (states, sums) has the index
    of the merged sum, -1 if it was dropped, and `distance` (states, sums) the distance to the merged sum.
    """
    states, count = indices.shape
    levels = np.zeros((states, count))
    parent_level, parent_slope = np.zeros(count), np.zeros(count)
    for state in range(states):
        for k in range(count):
            index = indices[state, k]
            if index >= 0:
                levels[state, k] = level[index] + slope[index] * distance[state, k]
                parent_level[k] += chances[state] * levels[state, k]
                parent_slope[k] += chances[state] * slope[index]
    return parent_level, parent_slope, levels


def _pull_back_half(
    task: HalvedOutput, laws: list[Sums | None], steps: list[Step], slopes: dict[int, Slopes]
) -> FloatArray:
    """Return the derivatives (n,) of a loss by the weights of the features in one half of the output `task`.

    `laws` are the distributions of the half's sum by the number of features on, `steps` those in which they
    were built, one block a step; `slopes` has the derivatives of the loss by the sum, by number on.
    """
    by_row = np.zeros(task.row.size)
    for block, parents, pieces, merged in reversed(steps):
        earlier: dict[int, Slopes] = {}
        for count, at in slopes.items():
            sums, start = laws[count], 0
            assert sums is not None
            for parent_count, states in pieces[count]:
                partial = parents[parent_count]
                assert partial is not None
                size = partial.position.size
                indices = merged[count][start : start + states.size * size].reshape(states.size, size)
                start += states.size * size
                step = block.values[states] @ task.row[block.members]
                distance = np.add.outer(step, partial.position) - sums.position[indices]
                chances = block.chances[states]
                level, slope, levels = _pull_back(at.level, at.slope, distance, indices, chances)
                by_row[block.members] += (chances * (levels @ partial.mass)) @ block.values[states]
                if parent_count in earlier:
                    level, slope = level + earlier[parent_count].level, slope + earlier[parent_count].slope
                earlier[parent_count] = Slopes(level, slope)
        laws, slopes = parents, earlier
    return by_row


def _output_derivatives(
    task: HalvedOutput, pairs: list[Pair], steps: list[list[Step]]
) -> tuple[FloatArray, float, float]:
    """Return derivatives of an output's loss by weights (n,) and by bias, and an estimate of their errors.

    `task` is the output, `pairs` are those of `_pairs`, and `steps` holds for each of the two halves of the
    other features the steps in which the distribution of its sum was built.
    """
    row, b, target_block, _, halves, reach, _ = task
    by_row, by_b, size, tie, longest, variance = np.zeros(row.size), 0.0, 0.0, 4.0 * UNIT * reach, 1, 0.0
    dropped = 0.0
    for first, side in ((0, 1), (1, 0)):
        laws: list[Sums | None] = [None] * (len(steps[first][-1].parents) if steps[first] else 1)
        by_count: dict[int, Slopes] = {}
        for (values, x, chance, _), counts, sums, tails in pairs:
            t = b + float(row[target_block.members] @ values)
            slopes, terms_size, errors = _slopes_given_target(sums[first], sums[side], tails[side], t, x, tie)
            size, longest = size + chance * terms_size, max(longest, sums[first].mass.size)
            variance += chance**2 * errors
            dropped = max(dropped, sums[first].dropped_mass)
            if first == 0:
                by_t = float(sums[first].mass @ slopes.level)
                by_b += chance * by_t
                by_row[target_block.members] += chance * by_t * values
            # The mass of the other half is in `tails`.
            count = counts[first]
            earlier = by_count.get(count, Slopes(np.zeros(1), np.zeros(1)))
            by_count[count] = Slopes(
                earlier.level + chance * slopes.level, earlier.slope + chance * slopes.slope
            )
            laws[count] = sums[first]
        by_row += _pull_back_half(task, laws, steps[first], by_count)
    largest = max(
        1.0, *(float(np.abs(block.values).max()) for block in (target_block, *halves[0], *halves[1]))
    )
    relative = (8.0 * row.size + 64.0) * UNIT + 2.0 * UNIT * np.sqrt(float(longest))
    error = relative * size + ERRORS * np.sqrt(variance) + 4.0 * dropped * reach
    return by_row, by_b, float(error * largest)


class Solution(NamedTuple):
    """Loss of an output, with its derivatives, and by how much sums that count as equal were moved."""

    part: LossPart
    by_row: FloatArray
    by_b: float
    slope_error: float
    displacement: float


def _solve_output(task: HalvedOutput, tolerance: float, slope_tolerance: float) -> Solution:
    """Return the loss of the output `task` with its derivatives by weights and bias.

    Sums are merged no more than `tolerance` of the loss and `slope_tolerance` of the largest derivative
    allow; that is inf if there need be no derivatives, which are 0 then.
    """
    row, b, target_block, _, halves, reach, total = task
    equal = 4.0 * UNIT * reach
    least = 0.0 if total is not None else 0.01 * tolerance / (row.size * reach**2)
    states = _count_states(halves[0])
    largest = MOST_SUMS if states <= MOST_SUMS else MOST_MERGED
    is_coarse = states > MOST_MERGED and tolerance > FIRST_TOLERANCE * reach**2
    most, has_slopes = FIRST_SUMS if is_coarse else largest, slope_tolerance < np.inf
    by_row, by_b, slope_error = np.zeros(row.size), 0.0, 0.0
    while True:
        laws = [_law_of_sum(row, half, (most, equal, least), total, has_slopes) for half in halves]
        pairs = _pairs(task, laws)
        parts, mass, dropped, displacement = np.zeros(3), np.longdouble(0.0), 0.0, 0.0
        for (values, x, chance, _), _, (first_half, second_half), tails in pairs:
            t = b + float(row[target_block.members] @ values)
            parts += chance * np.array(_loss_given_target(first_half, second_half, tails[1], t, x))
            mass += chance * tails[0].mass[0] * tails[1].mass[0]
            dropped = max(dropped, first_half.dropped_mass + second_half.dropped_mass)
            displacement = max(displacement, first_half.displacement + second_half.displacement)
        if total is not None:
            share = 1.0 / float(mass)
            parts *= share
            pairs = [
                pair._replace(state=pair.state._replace(chance=pair.state.chance * share)) for pair in pairs
            ]
        loss, rounding, merging = parts.tolist()
        # The loss changes by the square of the distance of sums.
        growth = np.sqrt(merging / (0.25 * tolerance))
        if has_slopes and (merging <= 0.5 * tolerance or most >= largest):
            by_row, by_b, slope_error = _output_derivatives(task, pairs, [steps for _, steps in laws])
            growth = max(growth, (slope_error / slope_tolerance) ** (2.0 / 3.0))
        if growth <= np.sqrt(2.0) or most >= largest:
            break
        most = int(min(most * 2 ** np.ceil(np.log2(min(growth, 1e9))), largest))
    return Solution(
        LossPart(loss, rounding, merging + dropped * reach**2), by_row, by_b, slope_error, displacement
    )


# --- The method --------------------------------------------------------------------------------------------


def _count_states(blocks: list[Block]) -> float:
    """Return the number of joint states of some blocks, at most e^600."""
    return float(np.exp(min(sum(np.log(block.chances.size) for block in blocks), 600.0)))


def _count_sums_of_half(law: Law) -> float:
    """Return the most values that the sum over half of the independent groups and single features may have.

    It also stores these, as `Block`s, in the law's cache.
    """
    if "blocks" not in law.cache:
        law.cache["blocks"] = blocks_of(law)
    sizes = sorted(block.chances.size for block in law.cache["blocks"])
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


def terms(law: Law) -> float:
    """Return the cost of an output: the number of values of its sums over both halves of the features."""
    return 2.0 * min(_count_sums_of_half(law), float(MOST_SUMS))


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output."""
    exact, times = _count_sums_of_half(problem.law), 2.0 if gradient else 1.0
    if exact <= MOST_SUMS:
        return times * (1e-3 + SECONDS_PER_SUM * 2.0 * exact)
    return times * SECONDS_PER_MERGED_SUM * float(MOST_MERGED) * problem.law.n


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem to `accuracy.tol`; derivatives are 0 unless `gradient`.

    Derivatives are good to `SLOPE_TOLERANCE` or `accuracy.tol`, in units of E x^2, or to what the largest
    number of sums gives; their error is an estimate.
    """
    law, M, features, b = problem.law, problem.weights, problem.target, problem.biases
    count, n = M.shape
    losses, errors, by_M, by_b = np.zeros(count), np.zeros(count), np.zeros((count, n)), np.zeros(count)
    slope_errors = np.zeros(count)
    tolerance = np.maximum(accuracy.tol * law.aim[features], np.finfo(np.float64).tiny)
    _count_sums_of_half(law)  # makes the blocks

    slope_tolerance = np.maximum(tolerance, SLOPE_TOLERANCE * law.aim[features])

    def solve_output(k: int) -> None:
        """Write losses, derivatives and errors of output k."""
        task = _make_task(M[k], int(features[k]), float(b[k]), law)
        solution = _solve_output(task, float(tolerance[k]), float(slope_tolerance[k]) if gradient else np.inf)
        losses[k] = solution.part.loss
        rounding = _input_rounding(task, law, solution.part, solution.displacement)
        errors[k] = solution.part.rounding + solution.part.merging + rounding
        if gradient:
            by_M[k], by_b[k], slope_errors[k] = solution.by_row, solution.by_b, solution.slope_error
            silent = np.ones(n, np.bool_)  # a feature without weight is independent of the output
            for block in (task.target_block, *task.halves[0], *task.halves[1]):
                silent[block.members] = False
            by_M[k, silent] = law.mean[silent] * by_b[k]

    parallel_map(solve_output, count, accuracy.workers)
    return Outputs(losses, errors, by_M, by_b, slope_errors)
