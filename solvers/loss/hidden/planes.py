r"""Kernel of the mean of two hidden neurons' product where many features may be on: a sum over a lattice.

An activation is an integral over frequencies, at Re s = c > 0:

.. math:: z\,1(z > t) = \frac{1}{2 \pi i} \int e^{s (z - t)} \left(\frac{1}{s^2} + \frac{t}{s}\right) ds

So the mean of a product is a double integral of the features' transforms at s u_i + t u_j. Poisson's formula
makes it a sum over a lattice, as in `methods.lattice`. Where a neuron receives at most one feature that is
on, the transform does not fall off: these patterns are left out here, and added exactly elsewhere.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.arguments import FloatArray
from ....theory.features.values.parts import transforms
from ....theory.kernels import kernel, shared

__all__ = ["Axis", "add_block"]

ComplexArray = npt.NDArray[np.complex128]


class Axis(NamedTuple):
    """One neuron along its frequencies, those of negative index by conjugation."""

    s: ComplexArray
    """(N,): s_k = c + 2 pi i k/P, k >= 0."""
    weight: ComplexArray
    """(N,): e^{s (b - t)} (1/s^2 + t/s)/P."""
    whole: ComplexArray
    """(N,): product of the factors of features that this neuron alone hears."""
    one: ComplexArray
    """(N,): the part of it where one of these is on."""
    none: float
    """The part where none is."""
    threshold: float


@shared
def _shared_transforms(
    transform: tuple[int, float],
    sides: int,
    z: complex,
    growth: complex,
) -> tuple[complex, complex]:
    """Return E e^{zv} and E v e^{zv}; of values uniform on [0, 1] or [-1, 1] from `growth` = e^z."""
    if sides > 0 and abs(z.real) + abs(z.imag) > 0.5:
        inverse = 1.0 / z
        if sides == 1:
            value = (growth - 1.0) * inverse
            return value, (growth - value) * inverse
        back = 1.0 / growth
        value = 0.5 * (growth - back) * inverse
        return value, (0.5 * (growth + back) - value) * inverse
    value, slope, _ = transforms(transform, z)
    return value, slope


@shared
def _at(axis: Axis, l: int) -> tuple[complex, complex, complex, complex]:
    """Return s, weight, whole and one at a frequency; of negative index by conjugation."""
    s, weight, whole, one = axis.s[abs(l)], axis.weight[abs(l)], axis.whole[abs(l)], axis.one[abs(l)]
    if l < 0:
        return s.conjugate(), weight.conjugate(), whole.conjugate(), one.conjugate()
    return s, weight, whole, one


@shared
def _per_flux(threshold: float, s: complex) -> complex:
    """Return what a term of the mean is multiplied with for the flux at the threshold."""
    return 0j if threshold == 0.0 else threshold / (1.0 / (s * s) + threshold / s)


@shared
def _add_along(along: ComplexArray, at: int, s: complex, t: complex, x: complex, y: complex) -> None:
    """Add what derivatives by features that one neuron alone hears need; s is this neuron's frequency."""
    along[0, at] += s * x
    along[1, at] += s * y
    along[2, at] += t * x
    along[3, at] += t * y


@shared
def _over_features(
    transform: tuple[int, float],
    sides: int,
    s: complex,
    t: complex,
    w: FloatArray,
    p: FloatArray,
    lone: FloatArray,
    factor: ComplexArray,
    other: ComplexArray,
    phi: ComplexArray,
    slope: ComplexArray,
) -> tuple[complex, complex, complex]:
    """Return the product over features, its part where one is on, and the products of two such parts."""
    both, alone, pairs = 1.0 + 0j, 0j, 0j
    for c in range(p.size):
        growth = factor[c] * other[c] if sides > 0 else 0j
        phi[c], slope[c] = _shared_transforms(transform, sides, s * w[0, c] + t * w[1, c], growth)
        both *= 1.0 - p[c] + p[c] * phi[c]
        part = lone[c] * phi[c]
        pairs += part * alone  # not from squares, of which one feature's may be all but equal to the sum's
        alone += part
    return both, alone, pairs


@kernel
def add_block(
    transform: tuple[int, float],
    sides: int,
    one: Axis,
    two: Axis,
    w: FloatArray,
    p: FloatArray,
    none: float,
    lone: FloatArray,
    twos: bool,
    slopes: bool,
    found: FloatArray,
    by_w: FloatArray,
    along: ComplexArray,
) -> None:
    """Add all frequencies of both neurons.

    w (2, n) and p (n,) are weights and probabilities of the features that both hear, `none` and `lone` (n,)
    the probabilities that none or one alone of them is on. With `twos` patterns of two are left out as well,
    where no feature is heard by one neuron alone. To `found` are added the value, the derivatives by
    the biases, minus those by the thresholds, and the sum of absolute terms; to `by_w` the derivatives by the
    weights. In `along` (2, 4, N) are the sums over the other neuron's frequencies that derivatives by the
    other features need, times s of neuron 1 or 2.
    """
    n, many = p.size, one.s.size
    e2 = np.empty((n, 2 * many - 1), np.complex128)
    phi, slope, factor = np.empty(n, np.complex128), np.empty(n, np.complex128), np.empty(n, np.complex128)
    if sides > 0:
        for l in range(1 - many, many):
            t, _, _, _ = _at(two, l)
            for c in range(n):
                e2[c, l + many - 1] = np.exp(t * w[1, c])
    for k in range(many):
        s, weight1, whole1, one1 = _at(one, k)
        share = 1.0 if k == 0 else 2.0
        for c in range(n):
            factor[c] = np.exp(s * w[0, c]) if sides > 0 else 0j
        for l in range(1 - many, many):
            t, weight2, whole2, one2 = _at(two, l)
            both, alone, pairs = _over_features(
                transform, sides, s, t, w, p, lone, factor, e2[:, l + many - 1], phi, slope
            )
            first = one.none * (none + alone) + one1 * none  # at most one that neuron 1 hears
            second = two.none * (none + alone) + one2 * none
            rest = whole1 * whole2 * both - first * whole2 - second * whole1
            rest += none * (one.none + one1) * (two.none + one2) + one.none * two.none * alone
            if twos:
                rest -= pairs / none
            weight = share * weight1 * weight2
            term = weight * rest
            found[0] += term.real
            found[5] += abs(weight) * (abs(rest) + abs(whole1 * whole2 * both))  # what rounds
            if not slopes:
                continue
            found[1] += (s * term).real
            found[2] += (t * term).real
            found[3] += (term * _per_flux(one.threshold, s)).real
            found[4] += (term * _per_flux(two.threshold, t)).real
            product = whole1 * whole2 * both
            other = one.none * whole2 + two.none * whole1 - one.none * two.none
            for c in range(n):
                f = 1.0 - p[c] + p[c] * phi[c]
                left = p[c] * product / (f if f != 0.0 else 1e-200 + 0j) - lone[c] * other
                if twos:
                    left -= lone[c] * (alone - lone[c] * phi[c]) / none
                term = weight * slope[c] * left
                by_w[0, c] += (s * term).real
                by_w[1, c] += (t * term).real
            # By features that neuron 1 alone hears: whole1 -> its part without the feature, one1 -> none.
            x, y = weight * (whole2 * both - second), weight * none * (two.none + one2 - whole2)
            _add_along(along[0], k, s, t, x, y)
            x, y = weight * (whole1 * both - first), weight * none * (one.none + one1 - whole1)
            if l < 0:
                _add_along(along[1], -l, t.conjugate(), s.conjugate(), x.conjugate(), y.conjugate())
            else:
                _add_along(along[1], l, t, s, x, y)
