"""Probabilities that a hidden neuron is on: in all, given one feature, given two, or given a pattern.

In all functions `unit` is the neuron; its inputs are the features that it reads, or on which these depend.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....theory.features.counts import IndependentGroup
from ....theory.validation import BoolArray, ComplexArray, FloatArray, IntArray
from .groups import none_and_ones
from .halves import on_moments, rounding_of_neuron
from .jumps import blur_series, gaussian_taper
from .neuron_means import _FALL, MOST, HiddenNeuron, _all_patterns, _frequency_taper, _p_none_and_one
from .pair_exact import add_pattern_means

__all__ = ["Firing", "firing", "p_on_in_patterns"]


_NUMBERS = 2**22  # of a group, at all frequencies that are taken at a time


class Firing(NamedTuple):
    """Probabilities that a neuron is on: `active` in all, and given that features are on."""

    active: float
    p_given: FloatArray
    """(n,): given that feature j is on; nan if it never is."""
    p_given_pairs: FloatArray
    """(n, n): given that j and k are on, nan if they never are; the diagonal is `p_given`."""
    error: float
    """Largest error of these probabilities."""


def p_on_in_patterns(unit: HiddenNeuron, on: FloatArray) -> FloatArray:
    """Return the probability that `unit` is on, h > 0, given each of the patterns `on` (r, n): (r,).

    At its threshold a neuron counts as off, also if that is 0.
    """
    context, inputs = unit.context, np.flatnonzero(unit.w)
    w = np.zeros((2, inputs.size))
    w[0] = unit.w[inputs]
    # The kernel would count a pattern at a threshold of 0 half: bias and threshold are both raised then.
    shift = 0.0 if unit.t > 0.0 else float(np.abs(w[0]).max(initial=0.0)) or 1.0
    probabilities = np.zeros((len(on), 5))
    spherical = context.law.values == "normal"
    rows = np.ascontiguousarray(on[:, inputs], np.float64)
    b, t = np.array([unit.b + shift, 1.0]), np.array([unit.t + shift, 0.0])
    slack = np.array([rounding_of_neuron(context, w[0], b[0], t[0]), 0.0])
    add_pattern_means(
        context.table, context.spans, context.atoms, rows, np.ones(len(on)), w, b, t, slack, False,
        spherical, probabilities, np.zeros(w.shape),
    )  # fmt: skip
    return np.clip(probabilities[:, 1] - probabilities[:, 3], 0.0, 1.0)


def firing(unit: HiddenNeuron, pairs: bool = False) -> Firing:
    """Return the probabilities that `unit` is on: in all, given each feature, given each two (if `pairs`).

    All patterns are summed if inputs are few, or a moderate number where values are atoms. Otherwise patterns
    with at most one input on, or with only the two given ones on, are exact; the rest is a sum over
    frequencies.
    """
    context, inputs = unit.context, unit.inputs
    exact = context.is_exact(inputs, targets=False)
    listed = context.law.values.discrete and not exact
    moments = on_moments(unit, True) if listed else None
    error = 2.0**-44
    if moments is not None:
        active, p_active_given, p_active_given_pairs = _from_moments(unit, moments[0])
    elif exact:
        active, p_active_given, p_active_given_pairs = _by_all_patterns(unit)
    else:
        active, p_active_given, p_active_given_pairs, error = _by_frequencies(unit, pairs)
    n = context.law.n
    p_active_given_all = np.full(n, active)
    p_active_given_all[inputs] = p_active_given
    every = np.broadcast_to(
        p_active_given_all, (n, n)
    ).copy()  # a feature without weight is independent of it
    every[inputs] = p_active_given[:, None]
    every[:, inputs] = np.where(np.isin(np.arange(n), inputs)[:, None], every[:, inputs], p_active_given)
    if pairs:
        every[np.ix_(inputs, inputs)] = p_active_given_pairs
    np.fill_diagonal(every, p_active_given_all)
    if context.dependent is not None:
        every[context.law.features.pair_probability() == 0.0] = np.nan
        p_active_given_all = every.diagonal().copy()
    return Firing(float(active), p_active_given_all, every, error)


def _by_all_patterns(unit: HiddenNeuron) -> tuple[float, FloatArray, FloatArray]:
    """Return probabilities that `unit` is on: in all, given each of k inputs (k,), given two (k, k)."""
    inputs = unit.inputs
    patterns, chances = _all_patterns(unit.context, inputs)
    all_patterns = np.zeros((len(patterns), unit.context.law.n))
    all_patterns[:, inputs] = patterns
    on = p_on_in_patterns(unit, all_patterns)
    p_pairs, joint = ((patterns.T * first) @ patterns for first in (chances, chances * on))
    joint = np.divide(joint, p_pairs, out=np.zeros(p_pairs.shape), where=p_pairs > 0.0)
    return float(chances @ on), joint.diagonal().copy(), joint


def _from_moments(unit: HiddenNeuron, on: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return probabilities that `unit` is on: in all, given each of k inputs (k,), given two (k, k).

    `on`, (1 + k, 1 + k), has the probability that the neuron and inputs i and j are on at [1 + i, 1 + j];
    index 0 stands for no input.
    """
    joint = _p_pairs(unit)
    given_pairs = np.divide(on[1:, 1:], joint, out=np.zeros(joint.shape), where=joint > 0.0)
    return float(on[0, 0]), given_pairs.diagonal().copy(), given_pairs


def _p_pairs(unit: HiddenNeuron) -> FloatArray:
    """Return the probabilities that inputs j and k of `unit` are both on, (inputs, inputs)."""
    pairs = np.outer(unit.p, unit.p)
    np.fill_diagonal(pairs, unit.p)
    if unit.context.dependent is not None:
        for members, patterns, weights in unit.context.blocks(unit.inputs):
            pairs[np.ix_(members, members)] = (patterns.T * weights) @ patterns
    return pairs


def _by_frequencies(unit: HiddenNeuron, pairs: bool) -> tuple[float, FloatArray, FloatArray, float]:
    """Return probabilities that `unit` is on: in all, given each input, given each two; and their error.

    They are sums over frequencies. Without `pairs` the probabilities given two are 0.
    """
    context, inputs, p = unit.context, unit.inputs, unit.p
    n, count = context.law.n, inputs.size
    i, k = np.triu_indices(count, 1)
    alone = np.concatenate([np.zeros((1, n)), np.eye(n)[inputs]])
    second = np.zeros((i.size if pairs else 0, n))
    if pairs:
        second[np.arange(i.size), inputs[i]] = second[np.arange(i.size), inputs[k]] = 1.0
    exact = p_on_in_patterns(unit, np.concatenate([alone, second]))
    none, ones = _p_none_and_one(p) if context.dependent is None else none_and_ones(unit.input_law)
    blocks, joint_p = context.blocks(inputs), _p_pairs(unit)
    others, both = _p_others_off(blocks, unit.w[inputs] != 0.0, joint_p)
    active, p_active_given = (
        none * exact[0] + float(ones @ exact[1 : count + 1]),
        others * exact[1 : count + 1],
    )
    given_pairs = np.zeros((count, count))
    if pairs:
        given_pairs[i, k] = given_pairs[k, i] = both[i, k] * exact[count + 1 :]

    columns = max(_NUMBERS // max(block.members.size**2 + len(block.weights) for block in blocks), 16)

    def part(step: ComplexArray, phi: ComplexArray) -> FloatArray:
        """Return what some frequencies add to the probabilities: in all, given each input, given each two.

        They are in one array; `step` are coefficients of 1(z > t), `phi` the inputs' transforms.
        """
        product, share, group_shares = _shares(blocks, joint_p, phi)
        by_one = product * share - others[:, None] * phi
        sums_now = np.r_[
            np.sum(step * (product - none - ones @ phi)).real, np.sum((step * by_one).real, axis=1)
        ]
        if pairs:
            joint = _real_products(step * product * share, share)
            for members, of_pairs in group_shares:
                joint[np.ix_(members, members)] = (of_pairs @ (step * product)).real
            joint -= both * _real_products(step * phi, phi)
            sums_now = np.r_[sums_now, joint[i, k]]
        return np.asarray(sums_now, np.float64)

    def sums(step: ComplexArray, phi: ComplexArray) -> FloatArray:
        """Return the sum of `part` over all frequencies, some at a time."""
        parts = [slice(at, at + columns) for at in range(0, step.size, columns)]
        return np.asarray(np.sum([part(step[at], phi[:, at]) for at in parts], axis=0))

    now, error = _sum_until_converged(unit, sums)
    active, p_active_given = active + now[0], p_active_given + now[1 : count + 1]
    if pairs:
        given_pairs[i, k] += now[count + 1 :]
        given_pairs[k, i] = given_pairs[i, k]
    return active, p_active_given, given_pairs, error


def _shares(
    blocks: list[IndependentGroup], joint_p: FloatArray, phi: ComplexArray
) -> tuple[ComplexArray, ComplexArray, list[tuple[IntArray, ComplexArray]]]:
    """Return (product of all units' transforms, ratios given a feature, ratios given two of a group).

    `blocks` are the units, groups and single features. A unit's transform is the mean of the product of phi_j
    over its features j that are on; phi is (n, K). Their product, (K,), times a ratio is its mean given that
    a feature is on: (n, K) ratios. Given that two are on there are ratios for each group, (members, (m, m,
    K)). `joint_p` (n, n) are the probabilities that two features are on.
    """
    inverse = np.divide(1.0, joint_p, out=np.zeros(joint_p.shape), where=joint_p > 0.0)
    group_shares: list[tuple[IntArray, ComplexArray]] = []
    share: ComplexArray = np.empty(phi.shape, np.complex128)
    singles = np.array([block.members[0] for block in blocks if block.members.size == 1], np.int64)
    p = joint_p[singles, singles][:, None]
    factors = _not_zero(1.0 - p + p * phi[singles])
    product: ComplexArray = np.prod(factors, axis=0)
    share[singles] = phi[singles] / factors
    for members, patterns, weights in (block for block in blocks if block.members.size > 1):
        terms = np.repeat(weights[:, None] + 0j, phi.shape[1], axis=1)
        for c, j in enumerate(members):
            terms[patterns[:, c] > 0] *= phi[j]
        factor = _not_zero(terms.sum(axis=0))
        product *= factor
        pairs = (patterns[:, :, None] * patterns[:, None, :]).reshape(len(patterns), -1)
        of_pairs: ComplexArray = (pairs.T @ terms).reshape(members.size, members.size, -1) / factor
        of_pairs *= inverse[np.ix_(members, members)][:, :, None]
        share[members] = of_pairs[np.arange(members.size), np.arange(members.size)]
        group_shares.append((members, of_pairs))
    return product, share, group_shares


def _not_zero(factors: ComplexArray) -> ComplexArray:
    """Return `factors` as divisors: those smaller than 1e-100, whose square is a double, become that."""
    return np.asarray(np.where(np.abs(factors) < 1e-100, 1e-100, factors), np.complex128)


def _p_others_off(
    blocks: list[IndependentGroup], has_weight: BoolArray, joint_p: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the probability that all other features with a weight are off, given that one or two are on.

    The first array, (n,), is given each feature, the second, (n, n), given each two. `blocks` are the law of
    n features, `has_weight` (n,) says which have a weight, and `joint_p` (n, n) are the probabilities that
    two are on.
    """
    n = has_weight.size
    none, unit = np.empty(len(blocks)), np.empty(n, np.int64)
    alone, same_group = np.zeros(n), np.zeros((n, n))  # in their own unit
    for u, (members, patterns, weights) in enumerate(blocks):
        is_input = 1 * has_weight[members]
        size = patterns @ is_input
        of_size = [weights * (size == count) for count in range(3)]
        none[u], unit[members] = of_size[0].sum(), u
        # As many inputs on as there are among the one or two features themselves.
        alone[members] = np.choose(is_input, [part @ patterns for part in of_size[:2]])
        pairs = [(patterns.T * part) @ patterns for part in of_size]
        same_group[np.ix_(members, members)] = np.choose(np.add.outer(is_input, is_input), pairs)
    p = joint_p.diagonal()
    np.divide(alone, p, out=alone, where=p > 0.0)
    np.divide(same_group, joint_p, out=same_group, where=joint_p > 0.0)
    is_zero, divisor = none == 0.0, np.where(none == 0.0, 1.0, none)
    product, zeros = np.prod(divisor), np.count_nonzero(is_zero)
    others = np.where(zeros == is_zero[unit], product / divisor[unit], 0.0)
    of_two = product / np.outer(divisor[unit], divisor[unit])
    of_two = np.where(zeros == np.add.outer(1 * is_zero[unit], is_zero[unit]), of_two, 0.0)
    both = np.where(unit[:, None] == unit, same_group * others, np.outer(alone, alone) * of_two)
    return np.asarray(alone * others), np.asarray(both)


def _sum_until_converged(
    unit: HiddenNeuron, sums: Callable[[ComplexArray, ComplexArray], FloatArray]
) -> tuple[FloatArray, float]:
    """Return (sums(coefficients, transforms), its error), for as many frequencies as it takes to converge.

    Their number is doubled each time. The coefficients (K,) are those of 1(z > t), pre-activation above
    threshold, of the neuron `unit`, the transforms (inputs, K) are E e^{i s w v} of its inputs at the K
    frequencies s.
    """
    if unit.series is not None:
        step = unit.series.step
        return sums(step, unit.series.phi[0]), unit.series.rounding * float(np.abs(step).sum()) + 2.0**-44
    atoms = unit.context.atoms.size
    size, previous, last = 32, np.full(1, np.inf), np.full(1, np.inf)
    while True:
        s, phi = unit.frequencies(size)
        now = sums(
            unit.step_coefficients(s) * (gaussian_taper(size) if atoms else _frequency_taper(size)), phi[0]
        )
        difference = np.abs(now - previous) if previous.size == now.size else np.full(now.size, np.inf)
        change, last = np.maximum(difference, last / _FALL), difference
        if change.max() <= unit.context.tol or size >= MOST:
            break
        previous, size = now, 2 * size
    error = float(change.max()) + unit.chance_beyond + 2.0**-44
    if atoms:  # what is near the threshold, with any features on
        phi, coefficients = blur_series(unit, size)
        error += float(np.max(sums(coefficients, phi)))
    return now, error


def _real_products(left: ComplexArray, right: ComplexArray) -> FloatArray:
    """Return the real part of left @ right.T by one real product."""
    return np.asarray(np.hstack([left.real, -left.imag]) @ np.hstack([right.real, right.imag]).T)
