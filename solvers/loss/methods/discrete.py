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
SECONDS_PER_SUM = 2e-7
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
    """(states, members): the value of each member, 0 where it is off. `chances` (states,) are
    probabilities."""
    chances: FloatArray
    n_active: IntArray
    """(states,): how many of the members are on."""


Side = Literal["left", "right"]  # of `numpy.searchsorted`


class Sums(NamedTuple):
    """Law of a sum of features times weights: its values `position`, in ascending order, and their mass."""

    position: FloatArray
    mass: FloatArray
    variance: FloatArray
    """Variance within each merged sum, 0 for those that were not merged."""
    radius: float = 0.0
    """Largest distance by which a sum moved when neighbours were merged; `variance` accounts for these
    moves."""
    displacement: float = 0.0
    """Largest distance by which a sum moved when sums that are equal but for rounding were merged."""
    dropped_mass: float = 0.0
    """Probability of the sums that were left out."""


class Tail(NamedTuple):
    """Mass, first and second moment of the sums from each index to the end, (sums + 1,) each.

    Moments are not divided by the mass; the last entries are 0.
    """

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
    """Addition of a block's term to a sum: how the distributions after it follow from its `parents`.

    Distributions are listed by the number of features that are on.
    """

    block: Block
    parents: list[Sums | None]
    pieces: list[list[tuple[int, IntArray]]]
    """For each number of features on after the step: (number before, indices of the block's states that add
    the rest)."""
    merged: list[IntArray]
    """For each number of features on after the step: index, in the distribution after, of each (state, sum
    before), piece by piece; -1 for those that were dropped."""


@kernel
def _merge_sorted(
    position: FloatArray, mass: FloatArray, variance: FloatArray, order: IntArray, most: int, equal: float
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, float, float]:
    """Return (positions, masses, variances, indices, width, displacement) of sums with neighbours merged.

    `position`, `mass` and `variance` (sums,) are the sums' values, probabilities, and variances from earlier
    mergers; `order` sorts `position`. Neighbours at most `equal` apart are merged into their mean;
    `displacement` is the largest distance that this moves one. If more than `most` are left, the range is cut
    into `most` cells of one `width`, and the sums of a cell are merged, except for the likeliest; else
    `width` is 0. `indices` (sums,) say which of the sums returned each became.
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
    """Return (distribution of a sum with a block's term added, index in it of each sum before, or -1).

    `parents` has the distributions before, by number of features on. `pieces` lists those to take: (number
    on, indices of the block's states to combine them with). `row` are the weights. `limit` is (number of
    values above which neighbours are merged, distance up to which values count as equal, probability that may
    be left out, half of it at either end). Fewer than 64 sums all stay.
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
    """Return (distribution of sum_j row_j x_j over the features in some blocks, the `Step`s that built it).

    `limit` is that of `_convolve`: (most values, distance of equal ones, probability to leave out). If
    `total` is not None, entry c of the distribution is the part with c features on, up to `total`, or None if
    there is no such pattern; else there is one entry. Derivatives need the steps, one for each block; there
    are none unless `with_steps`.
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
    """Return the `Tail` of a distribution: its mass and moments summed from each of its values to the end.

    The second moment has the variance of merged values, too.
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
    """Return E (x - ReLU(t + nu))^2, with errors, for the target's value x and the interference nu.

    nu is a sum of `left` plus one of `right`: distributions of the sums over two halves of the other
    features. `tail` has the `_tail_moments` of `right`; t is the bias plus the terms of the target's group.
    Mass that was dropped does not count.
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
    """Return a bound of the change of E (x - ReLU(y + r))^2 by merging neighbouring sums of the halves.

    x is the target's value; y are the sums of the `left` half of the other features plus the bias and the
    terms of the target's group, r those of the `right` half. The bound is a sum over pairs with y + r near
    the kink.
    """
    reach = left.radius + right.radius
    if reach == 0.0:
        return 0.0
    change, left_change = (sums.variance + abs(x) * np.sqrt(sums.variance) for sums in (right, left))
    mass, changes = _near_kink(y, right, reach, np.stack([right.mass, right.mass * change]))
    return float(np.sum(left.mass * (left_change * mass + changes))) * (1.0 + 1e-6) + 1e-300


def _near_kink(y: FloatArray, right: Sums, reach: float, terms: FloatArray) -> FloatArray:
    """Return sums of `terms` (k, sums) over those sums r of `right` with |y + r| <= `reach`, (k, y.size)."""
    totals = np.concatenate([np.zeros((len(terms), 1)), np.cumsum(terms, axis=1)], axis=1)
    first = np.searchsorted(right.position, -y - reach, side="left")
    last = np.searchsorted(right.position, -y + reach, side="right")
    return np.asarray(np.maximum(totals[:, last] - totals[:, first], 0.0))


class Slopes(NamedTuple):
    """Derivative of an output's loss by the sum over one half of the features, at each value of that sum."""

    level: FloatArray
    """The derivative at the mean of each merged sum."""
    slope: FloatArray
    """The derivative of `level` by the sum, with no pair of sums moving across the kink."""


def _slopes_given_target(
    left: Sums, right: Sums, tail: Tail, t: float, x: float, tie: float
) -> tuple[Slopes, float, float]:
    """Return (derivatives by the sum over the `left` half, size of their terms, variance of their errors).

    The loss is E (x - ReLU(t + nu))^2 given the target's value x; the interference nu is a sum of `left` plus
    one of `right`, whose `_tail_moments` are `tail`; t is the bias plus the terms of the target's group.
    Where |t + nu| <= `tie` the derivative is the mean of the one-sided ones. The size is a mean over the left
    half. The variance is that of the mean derivative if each pair of merged sums near the kink were on a
    random side of it.
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
    """Bound of |pre-activation| + |target|."""
    total: int | None
    """How many features are on, or None if that is not fixed."""


def _halve_output(row: FloatArray, i: int, b: float, law: Law) -> HalvedOutput:
    """Return the `HalvedOutput` of the output with weights `row` and bias b whose target is feature i.

    The other features' blocks go to the two halves by turns, in order of their largest weight.
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
    """How many features are on in either half; 0 if the number of features that are on is not fixed."""
    sums: tuple[Sums, Sums]
    tails: tuple[Tail, Tail]


def _pairs(output: HalvedOutput, halves: list[Half]) -> list[Pair]:
    """Return a `Pair` for each state of the target's block, with the distributions of both halves' sums.

    `halves` has (distributions, steps) of each half's sum, from `_law_of_sum`. If the number of features that
    are on is fixed, there is a pair for each way to split it between the halves.
    """
    tails = [[None if sums is None else _tail_moments(sums) for sums in laws] for laws, _ in halves]
    pairs = []
    for state in output.states:
        left = 0 if output.total is None else output.total - state.n_active
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


def _input_rounding(output: HalvedOutput, law: Law, part: LossPart, displacement: float) -> float:
    """Return a bound of the loss's error by the rounding of probabilities and of pre-activations.

    `part` is the computed loss, `displacement` the largest change of a sum by merging. With u = 2^-53 and the
    sum S of its terms' absolute values, a pre-activation is off by at most (n + 5) u S, and exact where
    nothing is on. A change d of the output changes E e^2 by at most 2 sqrt(E e^2 E d^2) + E d^2. A
    probability is a product, off by a factor 1 + 2 (n + 1) u, and so is its divisor.
    """
    row, b, loss = output.row, output.b, part.loss + part.rounding
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
    """Return levels and slopes by the sums before a step, and levels by these plus a state's term.

    Levels are the derivatives of the loss by a sum, slopes those of the levels. A step adds a block, whose
    states have the probabilities `chances`; `level` and `slope` are given at the merged sums after it. For
    each state and sum before the step, `indices` (states, sums) is the index of the merged sum, -1 if
    dropped, and `distance` (states, sums) is how far the unmerged sum lies from it.
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
    output: HalvedOutput, laws: list[Sums | None], steps: list[Step], slopes: dict[int, Slopes]
) -> FloatArray:
    """Return the derivatives (n,) of a loss by the weights of the features in one half of an output.

    `laws` are the distributions of the half's sum, by number of features on, and `steps` the `Step`s that
    built them; `slopes` has the derivatives of the loss by the sum, by number on.
    """
    by_row = np.zeros(output.row.size)
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
                step = block.values[states] @ output.row[block.members]
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
    output: HalvedOutput, pairs: list[Pair], steps: list[list[Step]]
) -> tuple[FloatArray, float, float]:
    """Return derivatives of an output's loss by weights (n,) and by bias, and an estimate of their errors.

    `pairs` are those of `_pairs`. For each of the two halves of the other features, `steps` has the `Step`s
    that built the distribution of its sum.
    """
    row, b, target_block, _, halves, reach, _ = output
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
        by_row += _pull_back_half(output, laws, steps[first], by_count)
    largest = max(
        1.0, *(float(np.abs(block.values).max()) for block in (target_block, *halves[0], *halves[1]))
    )
    relative = (8.0 * row.size + 64.0) * UNIT + 2.0 * UNIT * np.sqrt(float(longest))
    error = relative * size + ERRORS * np.sqrt(variance) + 4.0 * dropped * reach
    return by_row, by_b, float(error * largest)


class Solution(NamedTuple):
    """Loss of an output, with its derivatives, and the largest move of sums that count as equal."""

    part: LossPart
    by_row: FloatArray
    by_b: float
    slope_error: float
    displacement: float


def _solve_output(output: HalvedOutput, tolerance: float, slope_tolerance: float) -> Solution:
    """Return the `Solution` of an output: its loss, and derivatives by weights and bias, with errors.

    Sums are merged less and less until the loss is good to about `tolerance` and derivatives to
    `slope_tolerance`, or the largest number of sums is reached. Derivatives are 0 if `slope_tolerance` is
    inf.
    """
    row, b, target_block, _, halves, reach, total = output
    equal = 4.0 * UNIT * reach
    least = 0.0 if total is not None else 0.01 * tolerance / (row.size * reach**2)
    states = _count_states(halves[0])
    largest = MOST_SUMS if states <= MOST_SUMS else MOST_MERGED
    is_coarse = states > MOST_MERGED and tolerance > FIRST_TOLERANCE * reach**2
    most, has_slopes = FIRST_SUMS if is_coarse else largest, slope_tolerance < np.inf
    by_row, by_b, slope_error = np.zeros(row.size), 0.0, 0.0
    while True:
        laws = [_law_of_sum(row, half, (most, equal, least), total, has_slopes) for half in halves]
        pairs = _pairs(output, laws)
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
            by_row, by_b, slope_error = _output_derivatives(output, pairs, [steps for _, steps in laws])
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

    The groups and features are made as `Block`s, and stored in the law's cache.
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

    Each feature that is on has one of the atoms of the law of values in a state; a density does not count.
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
        return times * (4e-4 + SECONDS_PER_SUM * 2.0 * exact)
    return times * SECONDS_PER_MERGED_SUM * float(MOST_MERGED) * problem.law.n


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem to `accuracy.tol`; derivatives are 0 unless `gradient`.

    The error of derivatives, an estimate, is about max(`SLOPE_TOLERANCE`, accuracy.tol) E x^2 at most, unless
    the largest number of sums is too small for that.
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
        output = _halve_output(M[k], int(features[k]), float(b[k]), law)
        solution = _solve_output(
            output, float(tolerance[k]), float(slope_tolerance[k]) if gradient else np.inf
        )
        losses[k] = solution.part.loss
        rounding = _input_rounding(output, law, solution.part, solution.displacement)
        errors[k] = solution.part.rounding + solution.part.merging + rounding
        if gradient:
            by_M[k], by_b[k], slope_errors[k] = solution.by_row, solution.by_b, solution.slope_error
            silent = np.ones(n, np.bool_)  # a feature without weight is independent of the output
            for block in (output.target_block, *output.halves[0], *output.halves[1]):
                silent[block.members] = False
            by_M[k, silent] = law.mean[silent] * by_b[k]

    parallel_map(solve_output, count, accuracy.workers)
    return Outputs(losses, errors, by_M, by_b, slope_errors)
