r"""Kernels of the exact loss by transforms: independent features, groups of them, exactly k of them.

Features that are independent of all others, and groups, are units. A unit has patterns of on and off with
probabilities. With phi_j = E exp(s m_j v_j) for the value v_j of feature j, the transform of the interference
nu = sum_j m_j x_j is a product over units of

    u(z, y) = sum over patterns of  probability * z^(number on) * prod over the features on of (y_j phi_j),

where z counts what is on, if exactly k are to be, and y_j = y counts what is on and has a weight m_j. One
sweep through the units carries the coefficients of y^h z^t, those of all y^h with h >= top together. A sweep
back gives the derivatives by every phi_j. Nothing is subtracted.

The loss is E (x - ReLU(y))^2, y = a x + b + nu. Off and on, its transform is

    K(s) = 2/s^3  and  K(s) = 2 phi_0(a s)/s^3 - 2 phi_1(a s)/s^2   (+ E x^2),   phi_r(z) = E v^r e^(z v),

and the loss is the integral of K(s) D(s) e^(s b) ds / (2 pi i) over any path from below to above on the right
of s = 0. Derivatives pass under the integral: d/db gives a factor s, d/dm_j turns phi_j into s phi_1(s m_j).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.compile.kernels import check_interrupt, inner, kernel
from ....theory.features.values.parts import transforms
from ....theory.validation import BoolArray, FloatArray, IntArray

__all__ = [
    "OtherFeatures",
    "add_nodes",
    "coefficient",
    "coefficient_of_single_features",
    "coefficient_with_slopes",
    "independent_features",
]

ComplexArray = npt.NDArray[np.complex128]


class OtherFeatures(NamedTuple):
    """The law of the features other than an output's target, in arrays for kernels.

    Unit u, a group or a single feature, has the patterns patterns[u], ..., patterns[u + 1] - 1. Pattern q has
    the probability chance[q], and the features active[first[q]], ..., active[first[q + 1] - 1] on. If any
    features are `is_counted`, exactly `total` of these are on. If all units are single features with a weight
    and nothing is counted, `single_p` has their probabilities; else it is empty.
    """

    patterns: IntArray
    first: IntArray
    active: IntArray
    chance: FloatArray
    has_weight: BoolArray
    is_counted: BoolArray
    total: int
    single_p: FloatArray


def independent_features(p: FloatArray) -> OtherFeatures:
    """Return the law of independent features, on with probabilities p, as arrays for kernels.

    All have a weight, and how many are on is not fixed. Feature j has two patterns: off (2 j), on (2 j + 1).
    """
    pairs = np.stack([1.0 - p, p], axis=1).ravel()
    first = np.arange(2 * p.size + 1) // 2  # the first pattern of a feature has none on, the second itself
    steps, has_weight = np.arange(p.size + 1), np.ones(p.size, np.bool_)
    return OtherFeatures(2 * steps, first, steps[:-1].copy(), pairs, has_weight, ~has_weight, 0, p)


@inner
def _pattern_weight(others: OtherFeatures, q: int, phi: ComplexArray) -> tuple[complex, int, int]:
    """Return (a pattern's probability times phi_j of features j on, number of inputs on, number counted).

    The pattern is number q of `others`, and phi_j = E e^(s m_j v) for a feature with weight m_j and value v.
    Inputs are features with a weight; counted are the features on that are in `others.is_counted`.
    """
    weight, n_active_inputs, on = complex(others.chance[q], 0.0), 0, 0
    for at in range(others.first[q], others.first[q + 1]):
        j = others.active[at]
        weight *= phi[j]
        n_active_inputs += 1 if others.has_weight[j] else 0
        on += 1 if others.is_counted[j] else 0
    return weight, n_active_inputs, on


@inner
def _add_weight_slopes(
    others: OtherFeatures, q: int, by_weight: complex, phi: ComplexArray, slope: ComplexArray
) -> None:
    """Add the derivatives by phi through the weight of pattern q of `others` to `slope`.

    The weight is the pattern's probability times phi_j of each feature j that is on in it; `by_weight` is the
    derivative of the sum over all patterns by it. `slope` and phi have an entry for each feature.
    """
    first, last = others.first[q], others.first[q + 1]
    for at in range(first, last):
        weight = complex(others.chance[q], 0.0)
        for rest in range(first, last):
            if rest != at:
                weight *= phi[others.active[rest]]
        slope[others.active[at]] += by_weight * weight


@inner
def coefficient_of_single_features(
    p: FloatArray, top: int, phi: ComplexArray, slope: ComplexArray | None
) -> complex:
    """Return the sum of the coefficients of y^h, h >= top, in the product of 1 - p_j + p_j phi_j y over j.

    `top` is 0, 1 or 2, and p_j the probability that feature j is on. The derivatives of the sum by phi are
    written to `slope`, which may be phi itself, unless it is None or empty.
    """
    n = p.size
    states = np.empty((0 if slope is None else n, 3), np.complex128)
    coefficient_none, coefficient_one, coefficient_above = (
        1.0,
        0.0j,
        0.0j,
    )  # prod (1-p), coefficient of y, all above (of all from `top` on)
    if top == 0:
        coefficient_above = 1.0 + 0.0j
    for j in range(n):
        if slope is not None:
            states[j, 0], states[j, 1], states[j, 2] = coefficient_none, coefficient_one, coefficient_above
        off, on = 1.0 - p[j], p[j] * phi[j]
        if top == 2:
            coefficient_above = coefficient_above * (off + on) + coefficient_one * on
            coefficient_one = coefficient_one * off + coefficient_none * on
        elif top == 1:
            coefficient_above = coefficient_above * (off + on) + coefficient_none * on
        else:
            coefficient_above *= off + on
        coefficient_none *= off
    if slope is None:
        return coefficient_above
    if slope.size == 0:
        return coefficient_above
    ahead, behind = 1.0 + 0.0j, 0.0j  # adjoints of `more` and of `one`
    for j in range(n - 1, -1, -1):
        off, on = 1.0 - p[j], p[j] * phi[j]
        meets = ahead * states[j, 2]
        if top == 2:
            meets += ahead * states[j, 1] + behind * states[j, 0]
            behind = behind * off + ahead * on
        elif top == 1:
            meets += ahead * states[j, 0]
        slope[j] = p[j] * meets
        ahead *= off + on
    return coefficient_above


@kernel
def coefficient(
    others: OtherFeatures, top: int, power: int, phi: ComplexArray, slope: ComplexArray
) -> complex:
    """Return the coefficient of y^power in the sum over all on/off patterns of the law `others`.

    A pattern adds its probability times, for each feature j that is on, its transform phi_j, and times y if
    the feature is an input (has a weight). For power = top the coefficients of all y^h, h >= top, are added.
    Exactly `others.total` of the features that are `others.is_counted` are on. Derivatives by phi are written
    to `slope`, unless that is empty.
    """
    if others.single_p.size > 0 and power == top:
        return coefficient_of_single_features(others.single_p, top, phi, slope)
    patterns, total = others.patterns, others.total
    number, wide = patterns.size - 1, total + 1
    size = (top + 1) * wide
    states = np.zeros((number + 1, size), np.complex128)
    states[0, 0] = 1.0
    for u in range(number):
        for q in range(patterns[u], patterns[u + 1]):
            weight, n_active_inputs, on = _pattern_weight(others, q, phi)
            for level in range(top + 1):
                up = min(level + n_active_inputs, top) * wide
                for t in range(wide - on):
                    states[u + 1, up + t + on] += weight * states[u, level * wide + t]
    value: complex = states[number, power * wide + total]
    if slope.size == 0:
        return value
    slope[:] = 0.0
    ahead, fresh = np.zeros(size, np.complex128), np.empty(size, np.complex128)  # adjoints, from the end on
    ahead[power * wide + total] = 1.0
    for u in range(number - 1, -1, -1):
        fresh[:] = 0.0
        for q in range(patterns[u], patterns[u + 1]):
            weight, n_active_inputs, on = _pattern_weight(others, q, phi)
            meets = 0.0j
            for level in range(top + 1):
                up = min(level + n_active_inputs, top) * wide
                for t in range(wide - on):
                    fresh[level * wide + t] += weight * ahead[up + t + on]
                    meets += ahead[up + t + on] * states[u, level * wide + t]
            _add_weight_slopes(others, q, meets, phi, slope)
        for t in range(size):  # Numba compiles messages of errors for a copy in one piece
            ahead[t] = fresh[t]
    return value


@kernel
def coefficient_with_slopes(
    others: OtherFeatures, top: int, power: int, phi: ComplexArray
) -> tuple[complex, ComplexArray]:
    """Return `coefficient` at `others`, `top`, `power` and phi, and its derivatives by phi, (phi.size,).

    This is the coefficient of y^power (for power = top of all y^h, h >= top) in the sum over patterns of the
    law `others` of their probabilities times phi_j of each feature j that is on, and y for each of these that
    has a weight.
    """
    slope = np.empty(phi.size, np.complex128)
    return coefficient(others, top, power, phi, slope), slope


@inner
def add_nodes(
    transform: tuple[int, float],
    nodes: ComplexArray,
    weights: ComplexArray,
    m: FloatArray,
    a: float,
    b: float,
    p_target_active: float,
    side: float,
    top: int,
    others: OtherFeatures,
    sums: FloatArray,
    by_m: FloatArray,
) -> None:
    """Add an output's integral over the nodes s to `sums`, and its derivatives by m to `by_m`.

    The integral is the loss minus E x^2 if side = 1. If side = -1 it is the loss minus E (x - y)^2, y being
    the pre-activation, and m, a and b are those of -y. `sums` is [loss, by b, by a, size of the loss's terms,
    size of the derivatives' terms]; sizes are sums of absolute values, for derivatives of the largest of all.
    If `by_m` is empty, derivatives by m are left out. `weights` are those of the quadrature. m are the
    weights of the features of the law `others`; the output's own feature has the weight a and is on with
    probability `p_target_active`; b is the bias. `transform` is (pointer to the compiled E v^r e^(z v) of a
    value v, r = 0, 1, 2; its shape parameter). Only patterns with `top` or more other inputs on count.
    """
    phi, first = np.empty(m.size, np.complex128), np.empty(m.size, np.complex128)
    slope = np.empty(by_m.size, np.complex128)
    for k in range(nodes.size):
        check_interrupt(k % 128 == 127)
        s = nodes[k]
        for j in range(m.size):
            phi[j], first[j], _ = transforms(transform, s * m[j])
        D = coefficient(others, top, top, phi, slope)
        inverse, largest = 1.0 / s, 0.0
        wave = weights[k] * np.exp(s * b)
        K = 2.0 * side * (1.0 - p_target_active) * wave * inverse * inverse * inverse
        if p_target_active > 0.0:
            order_0, order_1, order_2 = transforms(transform, s * a)
            factor = 2.0 * p_target_active * wave * inverse
            K += factor * inverse * (side * order_0 * inverse - order_1)
            by_a = factor * (side * order_1 * inverse - order_2) * D
            sums[2] += by_a.real
            largest = abs(by_a.real) + abs(by_a.imag)
        factor = s * K
        sums[0] += (K * D).real
        sums[1] += (factor * D).real
        sums[3] += abs(K * D) + abs(factor * D)
        largest = max(largest, abs(factor * D))
        for j in range(by_m.size):
            by = factor * first[j] * slope[j]
            by_m[j] += by.real
            largest = max(largest, abs(by.real) + abs(by.imag))
        sums[4] += largest
