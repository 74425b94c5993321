"""Outputs as integrals of a transform, for the kernels `fourier` and `contour`."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....theory.features.counts import IndependentGroup
from ....theory.validation import BoolArray
from ...parallel import parallel_map
from ..problem import Accuracy, LossProblem, Outputs
from .enumeration import blocks
from .transform_sums import OtherFeatures, coefficient_with_slopes, independent_features

__all__ = ["SILENT", "by_transforms", "pack_units"]

SILENT = 1e-12  # smaller entries count as 0 where values have bounds; the loss changes by less than this

# From output k's number, weights m of the others, weight a of its own feature, bias b, that feature's
# probability, the law of the others, and their probabilities: what `integrate_output` of a kernel returns.
IntegrateOutput = Callable[..., Any]


def pack_units(units: list[IndependentGroup], has_weight: BoolArray, total: int | None) -> OtherFeatures:
    """Return the law of n features as `OtherFeatures`, arrays for kernels.

    `units` are its independent groups and single features; unless `total` is None, exactly so many of their
    features are on. `has_weight` (n,) says which have a weight in the output or neuron: kernels count only
    these as inputs.
    """
    patterns, active = [0], []
    for unit in units:
        patterns.append(patterns[-1] + len(unit.patterns))
        active += [unit.members[row > 0] for row in np.asarray(unit.patterns)]
    first = np.cumsum([0, *(row.size for row in active)], dtype=np.int64)
    arrays = np.array(patterns), first, np.concatenate([np.empty(0, np.int64), *active])
    chance = np.concatenate([np.empty(0), *(unit.weights for unit in units)])
    has_total = np.full(has_weight.size, total is not None)
    return OtherFeatures(*arrays, chance, has_weight, has_total, total or 0, np.empty(0))


def _target_states(
    exactly: int | None, units: list[IndependentGroup], i: int, has_weight: BoolArray
) -> Iterator[tuple[float, float, OtherFeatures]]:
    """Yield (probability, 1 if i is on or 0, law of the other features) of each state of target i's unit.

    `units` are the independent groups and single features of the law; a state says which members of a unit
    are on. If `exactly` is not None, that many features are on in all. `has_weight` says which of the others,
    in order, have a weight in the output; kernels that take the yielded law count only these.
    """
    (target_unit,) = (unit for unit in units if i in unit.members)
    others = [
        IndependentGroup(unit.members - (unit.members > i), unit.patterns, unit.weights)
        for unit in units
        if unit is not target_unit
    ]
    for pattern, chance in zip(target_unit.patterns, target_unit.weights, strict=True):
        on = int(pattern[target_unit.members == i][0])
        total = None if exactly is None else exactly - on
        if chance > 0.0 and (total is None or total >= 0):
            with_it = target_unit.members[(pattern == 1) & (target_unit.members != i)]
            certain = IndependentGroup(
                with_it - (with_it > i), np.ones((1, with_it.size), np.int64), np.ones(1)
            )
            yield float(chance), float(on), pack_units([*others, certain], has_weight, total)


def by_transforms(
    problem: LossProblem, accuracy: Accuracy, integrate_output: IntegrateOutput, bounded: bool
) -> Outputs:
    """Return the `Outputs` of a problem, each output by calls of the kernel `integrate_output`.

    They hold what the kernel integrates: the loss, or the loss minus a term that the caller adds back. The
    kernel takes the output's number, weights m of the other features, weight a of its target, bias b, the
    probability that the target is on, the law of the others, and their probabilities. It returns [loss, by b,
    by a, …], derivatives by m, and [rounding, truncation, an estimate of truncation, error of derivatives].
    If features are independent and values have bounds (`bounded`), there is one call for an output; otherwise
    one for each state of the target's unit. With `accuracy.max_frequencies` the error of the loss has the
    estimate of truncation where that is less than the bound.
    """
    law, M, features, b = problem.law, problem.weights, problem.target, problem.biases
    count, n = M.shape
    mean, exactly = law.moment(1), law.features.exactly
    losses, errors, by_M, by_b = np.zeros(count), np.zeros(count), np.zeros((count, n)), np.zeros(count)
    slope_errors = np.zeros(count)
    is_independent, share = law.independent, 1.0
    units = [] if is_independent else blocks(law.features)
    if exactly is not None:
        every = pack_units(units, np.ones(n, np.bool_), exactly)
        share = coefficient_with_slopes(every, 0, 0, np.ones(n, np.complex128))[0].real

    def solve(k: int) -> None:
        """Add loss, derivatives and errors of output k to the arrays."""
        i = int(features[k])
        is_input, p_target_active = np.arange(n) != i, float(law.features.p[i])
        largest = min(max(abs(b[k]), float(np.abs(M[k]).max())), 1.0)
        has_weight = np.abs(M[k]) > (SILENT * largest if bounded else 0.0)
        if is_independent:  # a feature of weight 0 is independent of the output: E x_j d/db is its derivative
            is_input &= has_weight
        m, a, p = M[k, is_input], float(M[k, i]), law.features.p[is_input]
        if not is_independent:
            cases = list(_target_states(exactly, units, i, has_weight[is_input]))
        else:
            states = (
                [(1.0, p_target_active)]
                if bounded
                else [(1.0 - p_target_active, 0.0), (p_target_active, 1.0)]
            )
            cases = [(chance, on, independent_features(p)) for chance, on in states]
        slope = np.zeros(m.size)
        for chance, on, others in cases:
            integrals, by_m, error = integrate_output(k, m, a, b[k], on, others, p)
            weight = chance / share
            losses[k] += weight * integrals[0]
            by_b[k] += weight * integrals[1]
            by_M[k, i] += weight * integrals[2]
            if by_m.size:
                slope += weight * by_m
            sums, cut, change, slope_error = error
            errors[k] += weight * (sums + (cut if accuracy.max_frequencies is None else min(cut, change)))
            slope_errors[k] += weight * slope_error
        left = np.abs(M[k, ~has_weight & (np.arange(n) != i)])
        if left.any():  # Cauchy and Schwarz: E (2 e d + d^2) for the error e and what is left out, d
            length = float(left @ np.sqrt(law.p[~has_weight & (np.arange(n) != i)]))
            errors[k] += length * (2.0 * np.sqrt(abs(losses[k]) + errors[k]) + length)
        rest = ~is_input
        rest[i] = False
        by_M[k, is_input], by_M[k, rest] = slope, mean * law.features.p[rest] * by_b[k]

    parallel_map(solve, count, accuracy.workers)
    return Outputs(losses, errors, by_M, by_b, slope_errors)
