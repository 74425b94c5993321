"""Probabilities that a hidden neuron is on: in all, given one feature, given two, or given a pattern."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....theory.validation import ComplexArray, FloatArray
from .halves import on_moments, rounding_of_neuron
from .jumps import blur_series, gaussian_taper
from .neuron_means import _FALL, MOST, HiddenNeuron, _all_patterns, _frequency_taper, _p_none_and_one
from .pair_exact import add_pattern_means

__all__ = ["Firing", "firing", "p_on_in_patterns"]


class Firing(NamedTuple):
    """Probabilities that a neuron is on: `active` in all, and given that features are on."""

    active: float
    given: FloatArray
    """(n,): given that feature j is on; nan if it never is."""
    given_pairs: FloatArray
    """(n, n): given that j and k are on, nan if they never are; the diagonal is `given`."""
    error: float


def p_on_in_patterns(unit: HiddenNeuron, on: FloatArray) -> FloatArray:
    """Return the probability that a neuron is on, h > 0, given each of the patterns `on` (r, n): (r,).

    At its threshold a neuron counts as off. The kernel counts half of it if the threshold is 0, so bias and
    threshold are both raised then, which changes no state.
    """
    context, inputs = unit.context, np.flatnonzero(unit.w)
    w = np.zeros((2, inputs.size))
    w[0] = unit.w[inputs]
    shift = 0.0 if unit.t > 0.0 else float(np.abs(w[0]).max(initial=0.0)) or 1.0
    probabilities = np.zeros((len(on), 5))
    spherical = context.law.values == "normal"
    rows = np.ascontiguousarray(on[:, inputs], np.float64)
    b, t = np.array([unit.b + shift, 1.0]), np.array([unit.t + shift, 0.0])
    slack = np.array([rounding_of_neuron(context, w[0], b[0], t[0]), 0.0])
    add_pattern_means(
        context.table, context.spans, context.atoms, rows, np.ones(len(on)), w, b, t, slack, False,
        np.full(inputs.size, np.nan), spherical, probabilities, np.zeros(w.shape),
    )  # fmt: skip
    return np.clip(probabilities[:, 1] - probabilities[:, 3], 0.0, 1.0)


def firing(unit: HiddenNeuron, pairs: bool = False) -> Firing:
    """Return the probabilities that a neuron is on: in all, given each feature, given two (if `pairs`).

    Few features are taken pattern by pattern, and more where values are atoms. Otherwise patterns in which at
    most one feature, or the pair alone, is an input are exact; the rest is a sum over frequencies.
    """
    context, inputs = unit.context, unit.inputs
    listed = context.law.values.discrete and not context.exact(inputs.size, targets=False)
    moments = on_moments(unit, True) if listed else None
    error = 2.0**-44
    if moments is not None:
        active, p_active_given, p_active_given_pairs = _from_moments(unit, moments[0])
    elif context.exact(inputs.size, targets=False):
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
    return Firing(float(active), p_active_given_all, every, error)


def _by_all_patterns(unit: HiddenNeuron) -> tuple[float, FloatArray, FloatArray]:
    """Return probabilities that a neuron is on: in all, given each of k inputs (k,), given two (k, k)."""
    p, inputs = unit.p, unit.inputs
    patterns, chances = _all_patterns(unit.context, p)
    all_patterns = np.zeros((len(patterns), unit.context.law.n))
    all_patterns[:, inputs] = patterns
    on = p_on_in_patterns(unit, all_patterns)
    p_pairs, joint = ((patterns.T * first) @ patterns for first in (chances, chances * on))
    joint = np.divide(joint, p_pairs, out=np.full(p_pairs.shape, np.nan), where=p_pairs > 0.0)
    return float(chances @ on), joint.diagonal().copy(), joint


def _from_moments(unit: HiddenNeuron, on: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return probabilities that a neuron is on: in all, given each of k inputs (k,), given two (k, k).

    `on` is E 1(z > t) u u' with u = (1, indicators that the inputs are on), as from `on_moments`.
    """
    chances = np.outer(unit.p, unit.p)
    np.fill_diagonal(chances, unit.p)
    return float(on[0, 0]), on[0, 1:] / unit.p, on[1:, 1:] / chances


def _by_frequencies(unit: HiddenNeuron, pairs: bool) -> tuple[float, FloatArray, FloatArray, float]:
    """Return probabilities that a neuron is on: in all, given each input, given two; and their error.

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
    off = 1.0 - p
    none, ones = _p_none_and_one(p)
    others = np.array([np.prod(np.delete(off, j)) for j in range(count)])
    both = (
        np.outer(others, 1.0 / np.where(off > 0.0, off, 1.0))
        if np.all(off > 0.0)
        else _p_off_without_two(off)
    )
    active, p_active_given = (
        none * exact[0] + float(ones @ exact[1 : count + 1]),
        others * exact[1 : count + 1],
    )
    given_pairs = np.zeros((count, count))
    if pairs:
        given_pairs[i, k] = given_pairs[k, i] = both[i, k] * exact[count + 1 :]

    def sums(step: ComplexArray, phi: ComplexArray) -> FloatArray:
        """Return, in one array, the probabilities to be on: in all, given each input, given two.

        `step` are Fourier coefficients of the step 1(z > t), `phi` the inputs' E e^{isv w} at the same
        frequencies s.
        """
        factors = off[:, None] + p[:, None] * phi
        factors = np.where(factors == 0.0, 1e-100, factors)  # whose square is a double
        product = np.prod(factors, axis=0)
        share = phi / factors
        by_one = product * share - others[:, None] * phi
        sums_now = np.r_[
            np.sum(step * (product - none - ones @ phi)).real, np.sum((step * by_one).real, axis=1)
        ]
        if pairs:
            joint = _real_products(step * product * share, share) - both * _real_products(step * phi, phi)
            sums_now = np.r_[sums_now, joint[i, k]]
        return np.asarray(sums_now, np.float64)

    now, error = _sum_until_converged(unit, sums)
    active, p_active_given = active + now[0], p_active_given + now[1 : count + 1]
    if pairs:
        given_pairs[i, k] += now[count + 1 :]
        given_pairs[k, i] = given_pairs[i, k]
    return active, p_active_given, given_pairs, error


def _sum_until_converged(
    unit: HiddenNeuron, sums: Callable[[ComplexArray, ComplexArray], FloatArray]
) -> tuple[FloatArray, float]:
    """Return (sums, their error), `sums` being called with doubled frequencies until it converges."""
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


def _p_off_without_two(off: FloatArray) -> FloatArray:
    """Return the probability that all but features j and k are off, (n, n), from those to be off."""
    return np.array([[np.prod(np.delete(off, [j, k])) for k in range(off.size)] for j in range(off.size)])
