"""How often a hidden neuron is on, given which features are: one feature, pairs, or every pattern."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....theory.validation import ComplexArray, FloatArray
from .halves import on_moments, rounding_of_neuron
from .jumps import blur, gaussian_taper
from .neuron_means import _FALL, MOST, HiddenNeuron, _all_patterns, _none_and_one, _taper
from .pair_exact import by_patterns

__all__ = ["Firing", "firing", "on_in_patterns"]


class Firing(NamedTuple):
    """Probabilities that a neuron is on."""

    active: float
    given: FloatArray
    """(n,): given that feature j is on; nan if it never is."""
    given_pairs: FloatArray
    """(n, n): given that j and k are on, nan if they never are; the diagonal is `given`."""
    error: float


def on_in_patterns(unit: HiddenNeuron, on: FloatArray) -> FloatArray:
    """Return the probability that a neuron is on, h > 0, in each pattern (r, n) of few features heard.

    At its threshold a neuron is off. The kernel takes the middle there without a threshold, so the neuron is
    shifted to one.
    """
    setting, heard = unit.setting, np.flatnonzero(unit.w)
    w = np.zeros((2, heard.size))
    w[0] = unit.w[heard]
    shift = 0.0 if unit.t > 0.0 else float(np.abs(w[0]).max(initial=0.0)) or 1.0
    found = np.zeros((len(on), 5))
    spherical = setting.law.values == "normal"
    rows = np.ascontiguousarray(on[:, heard], np.float64)
    b, t = np.array([unit.b + shift, 1.0]), np.array([unit.t + shift, 0.0])
    slack = np.array([rounding_of_neuron(setting, w[0], b[0], t[0]), 0.0])
    by_patterns(
        setting.table, setting.spans, setting.atoms, rows, np.ones(len(on)), w, b, t, slack, False,
        np.full(heard.size, np.nan), spherical, found, np.zeros(w.shape),
    )  # fmt: skip
    return np.clip(found[:, 1] - found[:, 3], 0.0, 1.0)


def firing(unit: HiddenNeuron, pairs: bool = False) -> Firing:
    """Return how often a neuron is on; with `pairs` also given that two features are.

    Few features are taken pattern by pattern, and more where values are atoms. Otherwise patterns in which at
    most one feature, or the pair alone, is heard are exact; for the others the transforms of the features are
    summed over a lattice of frequencies.
    """
    setting, heard = unit.setting, unit.heard
    listed = setting.law.values.discrete and not setting.exact(heard.size, targets=False)
    moments = on_moments(unit, True) if listed else None
    error = 2.0**-44
    if moments is not None:
        active, given, given_pairs = _from_moments(unit, moments[0])
    elif setting.exact(heard.size, targets=False):
        active, given, given_pairs = _by_all_patterns(unit)
    else:
        active, given, given_pairs, error = _by_lattice(unit, pairs)
    n = setting.law.n
    found = np.full(n, active)
    found[heard] = given
    every = np.broadcast_to(found, (n, n)).copy()  # a feature that is not heard tells nothing
    every[heard] = given[:, None]
    every[:, heard] = np.where(np.isin(np.arange(n), heard)[:, None], every[:, heard], given)
    if pairs:
        every[np.ix_(heard, heard)] = given_pairs
    np.fill_diagonal(every, found)
    return Firing(float(active), found, every, error)


def _by_all_patterns(unit: HiddenNeuron) -> tuple[float, FloatArray, FloatArray]:
    """Return how often a neuron is on, given features heard, and given pairs of them."""
    p, heard = unit.p, unit.heard
    patterns, chances = _all_patterns(unit.setting, p)
    whole = np.zeros((len(patterns), unit.setting.law.n))
    whole[:, heard] = patterns
    on = on_in_patterns(unit, whole)
    each, joint = ((patterns.T * one) @ patterns for one in (chances, chances * on))
    joint = np.divide(joint, each, out=np.full(each.shape, np.nan), where=each > 0.0)
    return float(chances @ on), joint.diagonal().copy(), joint


def _from_moments(unit: HiddenNeuron, on: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return the same from probabilities that the neuron is on together with one feature, and with two."""
    chances = np.outer(unit.p, unit.p)
    np.fill_diagonal(chances, unit.p)
    return float(on[0, 0]), on[0, 1:] / unit.p, on[1:, 1:] / chances


def _by_lattice(unit: HiddenNeuron, pairs: bool) -> tuple[float, FloatArray, FloatArray, float]:
    """Return the same, and the error, by the transforms of the features."""
    setting, heard, p = unit.setting, unit.heard, unit.p
    n, count = setting.law.n, heard.size
    i, k = np.triu_indices(count, 1)
    alone = np.concatenate([np.zeros((1, n)), np.eye(n)[heard]])
    two = np.zeros((i.size if pairs else 0, n))
    if pairs:
        two[np.arange(i.size), heard[i]] = two[np.arange(i.size), heard[k]] = 1.0
    exact = on_in_patterns(unit, np.concatenate([alone, two]))
    off = 1.0 - p
    none, ones = _none_and_one(p)
    others = np.array([np.prod(np.delete(off, j)) for j in range(count)])
    both = np.outer(others, 1.0 / np.where(off > 0.0, off, 1.0)) if np.all(off > 0.0) else _without_two(off)
    active, given = none * exact[0] + float(ones @ exact[1 : count + 1]), others * exact[1 : count + 1]
    given_pairs = np.zeros((count, count))
    if pairs:
        given_pairs[i, k] = given_pairs[k, i] = both[i, k] * exact[count + 1 :]

    def sums(step: ComplexArray, phi: ComplexArray) -> FloatArray:
        """Return the mean of a function of z with these coefficients, and given one or two features."""
        factors = off[:, None] + p[:, None] * phi
        factors = np.where(factors == 0.0, 1e-100, factors)  # whose square is a double
        whole = np.prod(factors, axis=0)
        share = phi / factors
        by_one = whole * share - others[:, None] * phi
        found = np.r_[np.sum(step * (whole - none - ones @ phi)).real, np.sum((step * by_one).real, axis=1)]
        if pairs:
            joint = _real_products(step * whole * share, share) - both * _real_products(step * phi, phi)
            found = np.r_[found, joint[i, k]]
        return np.asarray(found, np.float64)

    now, error = _converged(unit, sums)
    active, given = active + now[0], given + now[1 : count + 1]
    if pairs:
        given_pairs[i, k] += now[count + 1 :]
        given_pairs[k, i] = given_pairs[i, k]
    return active, given, given_pairs, error


def _converged(
    unit: HiddenNeuron, sums: Callable[[ComplexArray, ComplexArray], FloatArray]
) -> tuple[FloatArray, float]:
    """Return sums over as many frequencies as they need, and the error."""
    if unit.series is not None:
        step = unit.series.step
        return sums(step, unit.series.phi[0]), unit.series.rounding * float(np.abs(step).sum()) + 2.0**-44
    atoms = unit.setting.atoms.size
    size, before, last = 32, np.full(1, np.inf), np.full(1, np.inf)
    while True:
        s, phi = unit.frequencies(size)
        now = sums(unit.step(s) * (gaussian_taper(size) if atoms else _taper(size)), phi[0])
        difference = np.abs(now - before) if before.size == now.size else np.full(now.size, np.inf)
        change, last = np.maximum(difference, last / _FALL), difference
        if change.max() <= unit.setting.tol or size >= MOST:
            break
        before, size = now, 2 * size
    error = float(change.max()) + unit.chance_beyond + 2.0**-44
    if atoms:  # what is near the threshold, with any features on
        phi, coefficients = blur(unit, size)
        error += float(np.max(sums(coefficients, phi)))
    return now, error


def _real_products(one: ComplexArray, two: ComplexArray) -> FloatArray:
    """Return the real part of products of rows, for half of what the whole takes."""
    return np.asarray(np.hstack([one.real, -one.imag]) @ np.hstack([two.real, two.imag]).T)


def _without_two(off: FloatArray) -> FloatArray:
    return np.array([[np.prod(np.delete(off, [j, k])) for k in range(off.size)] for j in range(off.size)])
