r"""Kernels of the exact loss by transforms: independent features, groups of them, exactly k of them.

Features that are independent of all others, and groups, are units. A unit has patterns of on and off with
probabilities. With phi_j = E exp(s m_j v_j) for the value v_j of feature j, the transform of the interference
nu = sum_j m_j x_j is a product over units of

    u(z, y) = sum over patterns of  probability * z^(number on) * prod over the features on of (y_j phi_j),

where z counts what is on, if exactly k are to be, and y_j = y counts what is on and heard (m_j is not 0). One
sweep through the units carries the coefficients of y^h z^t, those of all y^h with h >= top together. A sweep
back gives the derivatives by every phi_j. Nothing is subtracted.

The loss is E (x - ReLU(y))^2, y = a x + b + nu. Off and on, its transform is

    K(s) = 2/s^3  and  K(s) = 2 phi_0(a s)/s^3 - 2 phi_1(a s)/s^2   (+ E x^2),   phi_r(z) = E v^r e^(z v),

and the loss is the integral of K(s) D(s) e^(s b) ds / (2 pi i) over any path from below to above on the right
of s = 0. Derivatives pass under the integral: d/db gives a factor s, d/dm_j turns phi_j into s phi_1(s m_j).
"""

import numpy as np
import numpy.typing as npt

from ...theory.kernels import kernel
from ...theory.special.values import transforms

__all__ = ["accumulate", "fill", "sweep"]

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Units = tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]


@kernel
def fill(kind: int, s: ComplexArray, m: FloatArray, phi: ComplexArray) -> None:
    """Write phi_r(s_k m_j) to phi[r, k, j] for r < phi.shape[0]."""
    for k in range(s.size):
        for j in range(m.size):
            zero, one, two = transforms(kind, s[k] * m[j])
            phi[0, k, j], phi[1, k, j] = zero, one
            if phi.shape[0] > 2:
                phi[2, k, j] = two


@kernel
def _weigh(
    units: Units, u: int, q: int, heard: BoolArray, counted: bool, phi: ComplexArray
) -> tuple[complex, int, int]:
    """Return the weight of pattern q of unit u, how many of it are heard, and how many are counted."""
    first, member, _, mask, chance = units
    weight, loud, on = complex(chance[q], 0.0), 0, 0
    for place in range(first[u + 1] - first[u]):
        if (mask[q] >> place) & 1:
            j = member[first[u] + place]
            weight *= phi[j]
            loud += 1 if heard[j] else 0
            on += 1 if counted else 0
    return weight, loud, on


@kernel
def _spread(units: Units, u: int, q: int, meets: complex, phi: ComplexArray, slope: ComplexArray) -> None:
    """Add to `slope` the derivatives of the weight of pattern q of unit u, times `meets`."""
    first, member, _, mask, chance = units
    for place in range(first[u + 1] - first[u]):
        if (mask[q] >> place) & 1:
            others = complex(chance[q], 0.0)
            for rest in range(first[u + 1] - first[u]):
                if rest != place and (mask[q] >> rest) & 1:
                    others *= phi[member[first[u] + rest]]
            slope[member[first[u] + place]] += meets * others


@kernel
def sweep(
    units: Units,
    heard: BoolArray,
    counted: bool,
    top: int,
    total: int,
    want: int,
    phi: ComplexArray,
    states: ComplexArray,
    slope: ComplexArray,
) -> complex:
    """Return the coefficient of y^want (all from `top` on together) and, if counted, z^total.

    Its derivatives by phi are written to `slope`. `states` is room for (units + 2, (top + 1)(total + 1)).
    """
    patterns = units[2]
    number, wide = units[0].size - 1, total + 1
    size = (top + 1) * wide
    states[0, :size] = 0.0
    states[0, 0] = 1.0
    for u in range(number):
        states[u + 1, :size] = 0.0
        for q in range(patterns[u], patterns[u + 1]):
            weight, loud, on = _weigh(units, u, q, heard, counted, phi)
            for level in range(top + 1):
                up = min(level + loud, top) * wide
                for t in range(wide - on):
                    states[u + 1, up + t + on] += weight * states[u, level * wide + t]
    answer = states[number, want * wide + total]
    ahead, fresh = states[number + 1], np.empty(size, np.complex128)  # adjoints, from the last unit on
    ahead[:size] = 0.0
    ahead[want * wide + total] = 1.0
    slope[:] = 0.0
    for u in range(number - 1, -1, -1):
        fresh[:] = 0.0
        for q in range(patterns[u], patterns[u + 1]):
            weight, loud, on = _weigh(units, u, q, heard, counted, phi)
            meets = 0.0j
            for level in range(top + 1):
                up = min(level + loud, top) * wide
                for t in range(wide - on):
                    fresh[level * wide + t] += weight * ahead[up + t + on]
                    meets += ahead[up + t + on] * states[u, level * wide + t]
            _spread(units, u, q, meets, phi, slope)
        ahead[:size] = fresh
    return complex(answer)


@kernel
def _sweep_alone(
    p: FloatArray, top: int, phi: ComplexArray, states: ComplexArray, slope: ComplexArray
) -> complex:
    """Return what `sweep` does for want = top where each feature is a unit, heard, and nothing is counted."""
    n = p.size
    none, one, more = 1.0, 0.0j, 0.0j  # prod (1-p), coefficient of y, all above (of all from `top` on)
    if top == 0:
        more = 1.0 + 0.0j
    for j in range(n):
        states[j, 0], states[j, 1], states[j, 2] = none, one, more
        off, on = 1.0 - p[j], p[j] * phi[j]
        if top == 2:
            more = more * (off + on) + one * on
            one = one * off + none * on
        elif top == 1:
            more = more * (off + on) + none * on
        else:
            more *= off + on
        none *= off
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
    return more


@kernel
def accumulate(
    s: ComplexArray,
    weight: ComplexArray,
    phi: ComplexArray,
    of_own: ComplexArray,
    own: float,
    side: float,
    b: float,
    alone: FloatArray,
    units: Units,
    heard: BoolArray,
    counted: bool,
    top: int,
    total: int,
    states: ComplexArray,
    found: FloatArray,
    by_m: FloatArray,
) -> None:
    """Add the integral over the nodes `s` to `found` = [loss, by b, by a, sizes] and to `by_m`.

    `phi` has phi_r(s_k m_j) for r <= 1, `of_own` has phi_r(s_k a) for r <= 2. The output's own feature is on
    with probability `own`. With side = -1 it is the loss less E (x - y)^2 for the output -y. The sizes
    are sums of absolute values.
    """
    n = phi.shape[2]
    slope = np.empty(n, np.complex128)
    for k in range(s.size):
        inverse = 1.0 / s[k]
        if alone.size > 0:
            D = _sweep_alone(alone, top, phi[0, k], states, slope)
        else:
            D = sweep(units, heard, counted, top, total, top, phi[0, k], states, slope)
        wave = weight[k] * np.exp(s[k] * b)
        K = 2.0 * side * (1.0 - own) * wave * inverse * inverse * inverse
        if own > 0.0:
            factor = 2.0 * own * wave * inverse
            K += factor * inverse * (side * of_own[0, k] * inverse - of_own[1, k])
            found[2] += (factor * (side * of_own[1, k] * inverse - of_own[2, k]) * D).real
        found[0] += (K * D).real
        found[1] += (s[k] * K * D).real
        found[3] += abs(K * D) + abs(s[k] * K * D)
        factor = s[k] * K
        for j in range(n):
            by_m[j] += (factor * phi[1, k, j] * slope[j]).real
