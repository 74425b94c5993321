r"""Kernel of the mean of two hidden neurons' product where many features may be on: a sum over a lattice.

An activation is a sum over frequencies, z 1(z > t) = (1/2 pi i) int e^{s (z - t)} (1/s^2 + t/s) ds at Re s = c > 0,
so that the mean of a product is a double integral of the features' transforms at s u_i + t u_j. Poisson's formula
makes it a sum over a lattice, as in `methods.lattice`. Where a neuron hears at most one feature that is on, the
transform does not fall off: these patterns are left out here, and added exactly elsewhere.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.arguments import FloatArray
from ....theory.features.values.parts import transforms
from ....theory.kernels import kernel

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


@kernel
def add_block(
    transform: tuple[int, float],
    uniform: bool,
    one: Axis,
    two: Axis,
    w: FloatArray,
    p: FloatArray,
    none: float,
    lone: FloatArray,
    slopes: bool,
    found: FloatArray,
    by_w: FloatArray,
    along: ComplexArray,
) -> None:
    """Add all frequencies of both neurons.

    w (2, n) and p (n,) are weights and probabilities of the features that both hear, `none` and `lone` (n,) the
    probabilities that none or one alone of them is on. To `found` are added value, derivatives by the biases, and
    minus those by the thresholds; to `by_w` derivatives by the weights. In `along` (2, 4, N) are the sums over the other
    neuron's frequencies that derivatives by the other features need, times s of neuron 1 or 2.
    """
    n, many = p.size, one.s.size
    columns = 1 - many, many
    e2 = np.empty((n, columns[1] - columns[0]), np.complex128)
    phi, slope, factor = np.empty(n, np.complex128), np.empty(n, np.complex128), np.empty(n, np.complex128)
    sums = np.zeros((2, n))
    for at in range(columns[1] - columns[0]):
        l = columns[0] + at
        t = two.s[abs(l)]
        if l < 0:
            t = t.conjugate()
        if uniform:
            for c in range(n):
                e2[c, at] = np.exp(t * w[1, c])
    for k in range(many):
        s, weight1 = one.s[k], one.weight[k]
        share = 1.0 if k == 0 else 2.0
        whole1, one1 = one.whole[k], one.one[k]
        for c in range(n):
            factor[c] = np.exp(s * w[0, c]) if uniform else 0j
        for at in range(columns[1] - columns[0]):
            l = columns[0] + at
            t, weight2, whole2, one2 = two.s[abs(l)], two.weight[abs(l)], two.whole[abs(l)], two.one[abs(l)]
            if l < 0:
                t, weight2 = t.conjugate(), weight2.conjugate()
                whole2, one2 = whole2.conjugate(), one2.conjugate()
            both, alone = 1.0 + 0j, 0j
            for c in range(n):
                z = s * w[0, c] + t * w[1, c]
                if uniform and abs(z.real) + abs(z.imag) > 0.5:
                    growth = factor[c] * e2[c, at]
                    inverse = 1.0 / z
                    value = (growth - 1.0) * inverse
                    phi[c] = value
                    slope[c] = (growth - value) * inverse
                else:
                    phi[c], slope[c], _ = transforms(transform, z)
                both *= 1.0 - p[c] + p[c] * phi[c]
                alone += lone[c] * phi[c]
            first = one.none * (none + alone) + one1 * none  # at most one that neuron 1 hears
            second = two.none * (none + alone) + one2 * none
            rest = whole1 * whole2 * both - first * whole2 - second * whole1
            rest += none * (one.none + one1) * (two.none + one2) + one.none * two.none * alone
            weight = share * weight1 * weight2
            term = weight * rest
            found[0] += term.real
            if not slopes:
                continue
            found[1] += (s * term).real
            found[2] += (t * term).real
            if one.threshold != 0.0:
                found[3] += (term * one.threshold / (1.0 / (s * s) + one.threshold / s)).real
            if two.threshold != 0.0:
                found[4] += (term * two.threshold / (1.0 / (t * t) + two.threshold / t)).real
            product = whole1 * whole2 * both
            other = one.none * whole2 + two.none * whole1 - one.none * two.none
            for c in range(n):
                f = 1.0 - p[c] + p[c] * phi[c]
                if f == 0.0:
                    f = 1e-200 + 0j
                term = weight * slope[c] * (p[c] * product / f - lone[c] * other)
                sums[0, c] += (s * term).real
                sums[1, c] += (t * term).real
            # By features that neuron 1 alone hears: whole1 -> its part without the feature, one1 -> none.
            x = weight * (whole2 * both - second)
            y = weight * none * (two.none + one2 - whole2)
            along[0, 0, k] += s * x
            along[0, 1, k] += s * y
            along[0, 2, k] += t * x
            along[0, 3, k] += t * y
            x = weight * (whole1 * both - first)
            y = weight * none * (one.none + one1 - whole1)
            if l < 0:
                s_, t_ = s.conjugate(), t.conjugate()
                x, y = x.conjugate(), y.conjugate()
            else:
                s_, t_ = s, t
            along[1, 0, abs(l)] += t_ * x
            along[1, 1, abs(l)] += t_ * y
            along[1, 2, abs(l)] += s_ * x
            along[1, 3, abs(l)] += s_ * y
    by_w += sums
