r"""Means of neurons where values are atoms, from the lists of sums of two halves of the features.

A pre-activation z = b + w x then has finitely many values. Those of one half of the features, and those of
the other, are listed: :math:`\sqrt{N}` each where the features have N patterns. A neuron's means follow from
sorted sums (for each of one half, all above a place of the other), a product of two neurons from all pairs.
Where many sums coincide, as with weights of 1 and -1, they are merged.

A pre-activation that differs from its threshold by less than rounding (`rounding_of_sum`) is *at* it: off.

A neuron is h = z 1(z > t), with the bias b and the threshold t; `context` is its `NeuronContext`.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....theory.compile.kernels import check_interrupt, kernel
from ....theory.features.counts import IndependentGroup
from ....theory.model import rounding_of_sum
from ....theory.validation import FloatArray, IntArray

if TYPE_CHECKING:
    from .neuron_means import HiddenNeuron, NeuronContext

__all__ = ["Half", "list_halves", "merged_product", "on_moments", "pair_product", "rounding_of_neuron"]

MOST_PATTERNS = 2.0**28  # of all features, for means of a neuron: two lists of 2^14
MOST_PAIRS = 2.0**26  # of patterns of both halves, for a product of two neurons: a tenth of a second
MOST_SUMS = 2**13  # of half the features, where equal ones are merged
# Sums that differ by less than that share of their terms are merged; sums in binary digits are exact.
MERGE = 2.0**-48
NEGLIGIBLE = 2.0**-80  # sums that are less likely are left out of a list of merged ones


class Half(NamedTuple):
    """Half of a neuron's inputs, with all joint values that they may have and their probabilities."""

    features: IntArray
    """(m,): indices of the inputs in this half."""
    values: FloatArray
    """(patterns, m), in units of the scales; 0 where a feature is off."""
    chances: FloatArray
    """(patterns,)."""


def _outcomes(context: "NeuronContext", block: IndependentGroup) -> tuple[FloatArray, FloatArray]:
    """Return (all joint values of a block's features, (outcomes, members), 0 where off; their probabilities).

    The values of a feature when on are the atoms of `context`.
    """
    atoms, shares = context.atoms[:, 0], context.atoms[:, 1]
    values, chances = [], []
    for pattern, chance in zip(block.patterns, block.weights, strict=True):
        if chance == 0.0:
            continue
        on = np.flatnonzero(pattern)
        which = np.indices((atoms.size,) * on.size).reshape(on.size, atoms.size**on.size)
        of_pattern = np.zeros((which.shape[1], pattern.size))
        of_pattern[:, on] = atoms[which.T]
        values.append(of_pattern)
        chances.append(chance * shares[which].prod(axis=0))
    return np.concatenate(values), np.concatenate(chances)


def list_halves(context: "NeuronContext", inputs: IntArray, most: float) -> tuple[Half, Half] | None:
    """Return two halves of the features `inputs`, each with all its joint values and their probabilities.

    None if all `inputs` together have more than `most` joint values. `context` has the law of the features.
    """
    blocks = context.blocks(inputs)
    kinds = [
        float(np.sum(len(context.atoms) ** (1.0 * block.patterns[block.weights > 0.0]).sum(axis=1)))
        for block in blocks
    ]
    if float(np.sum(np.log2(kinds))) > np.log2(most):
        return None
    key = "halves", inputs.tobytes()
    cache: dict[Any, Any] = context.law.cache
    if key not in cache:
        # The first half of the features, but for a block's that is cut.
        sizes = np.cumsum([block.members.size for block in blocks])
        middle = int(np.searchsorted(sizes, inputs.size // 2, side="right"))
        cache[key] = tuple(_list_half(context, half) for half in (blocks[:middle], blocks[middle:]))
    sums: tuple[Half, Half] = cache[key]
    return sums


def _list_half(context: "NeuronContext", blocks: list[IndependentGroup]) -> Half:
    """Return all joint values of the features in `blocks`, and their probabilities, as a `Half`.

    The values of a feature when on are the atoms of `context`.
    """
    values, chances = np.zeros((1, 0)), np.ones(1)
    for block in blocks:
        of_block, shares = _outcomes(context, block)
        count = len(values)
        columns = np.repeat(of_block, count, axis=0)
        values = np.hstack([np.tile(values, (shares.size, 1)), columns])
        chances = np.outer(shares, chances).ravel()
    return Half(
        np.concatenate([np.empty(0, np.int64), *(block.members for block in blocks)]), values, chances
    )


def rounding_of_neuron(context: "NeuronContext", w: FloatArray, b: float, t: float) -> float:
    """Return a bound of the rounding error of w.x + b - t, where each x_j is 0 or an atom of `context`.

    w (n,), b and t are a neuron's weights, bias and threshold. Atoms are the values that a feature has when
    on.
    """
    reach = float(np.abs(context.atoms[:, 0]).max(initial=0.0))
    return float(rounding_of_sum(abs(b) + abs(t) + reach * np.abs(w).sum(), int(np.count_nonzero(w))))


def _rounding_of_neurons(*units: "HiddenNeuron") -> FloatArray:
    """Return `rounding_of_neuron` of each of `units`, (len(units),)."""
    return np.array([rounding_of_neuron(unit.context, unit.w, unit.b, unit.t) for unit in units])


def on_moments(unit: "HiddenNeuron", indicators: bool) -> tuple[FloatArray, FloatArray] | None:
    """Return two matrices E 1(z > t) u u', (1 + n, 1 + n), with u = (1, inputs); None for too many patterns.

    z, t and the inputs are those of the neuron `unit`. With `indicators`, u has 1 where a feature is not 0.
    At z = t the neuron counts as off in the first matrix, and as half on in the second, which is for
    derivatives, if that is the kink of a ReLU (t = 0).
    """
    context, inputs = unit.context, unit.inputs
    both = list_halves(context, inputs, MOST_PATTERNS)
    if both is None:
        return None
    A, B = both
    w = unit.w[inputs]
    z_a, z_b = unit.b + A.values @ w[A.features], B.values @ w[B.features]
    order, slack = np.argsort(z_b, kind="stable"), _rounding_of_neurons(unit)[0]
    z_b = z_b[order]
    u_a, u_b = (
        np.column_stack([np.ones(len(values)), values != 0.0 if indicators else values])
        for values in (A.values, B.values[order])
    )
    above = np.searchsorted(z_b, unit.t - z_a + slack, side="right")
    strict = _moments_above(u_a, A.chances, u_b, B.chances[order], above, both)
    if unit.t > 0.0:
        return strict, strict
    at_least = np.searchsorted(z_b, -z_a - slack, side="left")
    if np.array_equal(above, at_least):
        return strict, strict
    return strict, 0.5 * (strict + _moments_above(u_a, A.chances, u_b, B.chances[order], at_least, both))


def _moments_above(
    u_a: FloatArray, p_a: FloatArray, u_b: FloatArray, p_b: FloatArray, first: IntArray,
    both: tuple[Half, Half],
) -> FloatArray:  # fmt: skip
    """Return E u u' over pairs of patterns: pattern k of half A with patterns first[k], … of half B.

    u is (1, inputs) of a neuron, in the inputs' order, so the shape is (1 + n, 1 + n). `u_a` and `u_b`,
    (patterns, 1 + members), have a 1 and the values of a half's features, `p_a` and `p_b` are their
    probabilities; `both` are the halves.
    """
    above = np.zeros((len(u_b) + 1, u_b.shape[1]))
    above[:-1] = np.cumsum((u_b * p_b[:, None])[::-1], axis=0)[::-1]
    of_b = above[first]
    of_a = np.cumsum(np.bincount(first, p_a, len(u_b) + 1))[:-1]
    within_a = (u_a.T * (p_a * of_b[:, 0])) @ u_a
    within_b = (u_b.T * (p_b * of_a)) @ u_b
    across = (u_a.T * p_a) @ of_b
    first_index, second_index = (np.r_[0, 1 + half.features] for half in both)
    moments = np.zeros((first_index.size + second_index.size - 1, first_index.size + second_index.size - 1))
    moments[np.ix_(second_index, second_index)] = within_b
    moments[np.ix_(first_index, second_index)] = across
    moments[np.ix_(second_index, first_index)] = across.T
    moments[np.ix_(first_index, first_index)] = within_a
    return moments


@kernel
def _add_products(
    first: FloatArray, p_first: FloatArray, second: FloatArray, p_second: FloatArray, t: FloatArray,
    slack: FloatArray, slopes: bool, by_first: FloatArray, by_second: FloatArray,
) -> float:  # fmt: skip
    """Return E h_1 h_2 of two neurons with z_i = first[i, a] + second[i, b], for independent a and b.

    `first` (2, count) are the sums w x of both neurons, with their biases, over one half of the features,
    `second` those over the other half; `p_first` and `p_second` are their probabilities. t (2,) are the
    thresholds; sums within `slack` of t count as equal to it. With `slopes`, E[1(z_1 > t_1) h_2 | a] and
    E[h_1 1(z_2 > t_2) | a] are added to `by_first` (2, count), and those given b to `by_second`; at the kink
    of a ReLU the indicator is 1/2.
    """
    total = 0.0
    low1, low2 = t[0] + slack[0], t[1] + slack[1]
    kink1 = t[0] - slack[0] if t[0] == 0.0 else low1
    kink2 = t[1] - slack[1] if t[1] == 0.0 else low2
    for a in range(p_first.size):
        check_interrupt(a % 256 == 255)
        part, part1, part2 = 0.0, 0.0, 0.0
        for b in range(p_second.size):
            z1, z2, p = first[0, a] + second[0, b], first[1, a] + second[1, b], p_second[b]
            h1 = z1 if z1 > low1 else 0.0
            h2 = z2 if z2 > low2 else 0.0
            part += p * h1 * h2
            if slopes:
                on1 = 1.0 if z1 > low1 else 0.5 if z1 >= kink1 and kink1 < low1 else 0.0
                on2 = 1.0 if z2 > low2 else 0.5 if z2 >= kink2 and kink2 < low2 else 0.0
                part1 += p * on1 * h2
                part2 += p * h1 * on2
                by_second[0, b] += p_first[a] * on1 * h2
                by_second[1, b] += p_first[a] * h1 * on2
        total += p_first[a] * part
        by_first[0, a] += part1
        by_first[1, a] += part2
    return total


def pair_product(
    context: "NeuronContext",
    first: "HiddenNeuron",
    second: "HiddenNeuron",
    either: IntArray,
    w: FloatArray,
    slopes: bool,
) -> tuple[FloatArray, FloatArray] | None:
    """Return (E h_1 h_2 and derivatives by b_1 and b_2, (3,); by weights, (2, n)); None if sums are too many.

    The sum over all pairs of joint values of two halves of the inputs is exact; values are atoms. The neurons
    are h_1 = `first` and h_2 = `second`, in `context`. `w` (2, n) are the weights of the features `either`,
    inputs of `first` or of `second`. Derivatives are 0 unless `slopes`.
    """
    both = list_halves(context, either, min(max(context.most, 1.0), MOST_PAIRS))
    if both is None:
        return None
    A, B = both
    t, slack = np.array([first.t, second.t]), _rounding_of_neurons(first, second)
    z_a = np.array([[first.b], [second.b]]) + w[:, A.features] @ A.values.T
    z_b = w[:, B.features] @ B.values.T
    by_a, by_b = np.zeros(z_a.shape), np.zeros(z_b.shape)
    z_a, z_b = np.ascontiguousarray(z_a), np.ascontiguousarray(z_b)
    value = _add_products(z_a, A.chances, z_b, B.chances, t, slack, slopes, by_a, by_b)
    by_w = np.zeros(w.shape)
    by_a *= A.chances
    by_b *= B.chances
    by_w[:, A.features], by_w[:, B.features] = by_a @ A.values, by_b @ B.values
    return np.r_[value, by_a.sum(axis=1)], by_w


def merged_product(
    context: "NeuronContext", first: "HiddenNeuron", second: "HiddenNeuron", either: IntArray, w: FloatArray
) -> tuple[float, float] | None:
    """Return (E h_1 h_2, its error) by merging equal sums w x; None without a lattice, or for too many sums.

    The neurons are h_1 = `first` and h_2 = `second`, in `context`, `w` (2, n) their weights of the features
    `either`. Each neuron's sums have to lie on a lattice of few points.
    """
    # A quarter of the points of both lattices, for half the features; with signs alone half of these.
    points = [first.s.size for first in (first.series, second.series) if first is not None]
    if len(points) < 2 or 0.5 * points[0] * points[1] > MOST_SUMS:
        return None
    blocks, sizes = context.blocks(either), np.array([first.size, second.size])
    scale = np.abs(w).sum(axis=1) * float(np.abs(context.atoms[:, 0]).max())
    parts = []
    for half in (blocks[::2], blocks[1::2]):
        part = _distribution_of_sums(context, w, half, scale)
        if part is None:
            return None
        parts.append(part)
    (z_a, p_a, lost_a), (z_b, p_b, lost_b) = parts
    if float(p_a.size) * p_b.size > context.most:
        return None
    z_a = np.ascontiguousarray(z_a + np.array([[first.b], [second.b]]))
    t, slack = np.array([first.t, second.t]), _rounding_of_neurons(first, second)
    nothing = np.zeros((2, p_a.size)), np.zeros((2, p_b.size))
    value = _add_products(z_a, p_a, z_b, p_b, t, slack, False, *nothing)
    # By Hoelder's inequality, from norms of exponent 8.
    return value, float(np.prod(sizes) * (lost_a + lost_b) ** 0.75)


def _distribution_of_sums(
    context: "NeuronContext", w: FloatArray, blocks: list[IndependentGroup], scale: FloatArray
) -> tuple[FloatArray, FloatArray, float] | None:
    """Return the distinct values (2, count) of w x, their probabilities, and the probability left out.

    w (2, n) are the weights of two neurons, x the features of the independent `blocks`, whose values when on
    are the atoms of `context`. Values that differ by less than `MERGE` times `scale` (2,) are merged; merged
    ones less likely than `NEGLIGIBLE` are left out. None if more than `MOST_SUMS` remain.
    """
    z, chances, lost = np.zeros(1, np.complex128), np.ones(1), 0.0
    grid = MERGE * np.where(scale > 0.0, scale, 1.0)
    for block in sorted(blocks, key=lambda block: tuple(np.abs(w[::-1, block.members]).max(axis=1))):
        values, shares = _outcomes(context, block)
        steps = values @ (w[0] + 1j * w[1])[block.members]
        z, chances = np.add.outer(steps, z).ravel(), np.outer(shares, chances).ravel()
        rounded = np.rint(z.real / grid[0]) + 1j * np.rint(z.imag / grid[1])
        _, at, group = np.unique(rounded, return_index=True, return_inverse=True)
        z, chances = z[at], np.asarray(np.bincount(group.ravel(), chances), np.float64)
        rare = chances < NEGLIGIBLE
        lost += float(chances[rare].sum())
        z, chances = z[~rare], chances[~rare]
        if z.size > MOST_SUMS:
            return None
    return np.ascontiguousarray([z.real, z.imag]), chances, lost
