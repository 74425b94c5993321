r"""The loss of many independent features and its gradient by a lattice sum of fixed length, for descents.

Output i is ReLU(a x_i + b + nu), nu = sum_j m_j x_j. With g(t) = E (x_i - ReLU(a x_i + t))^2 its loss is
E g(b + nu). Patterns with at most one other feature on are integrated exactly. For the others the transform
of g - p/3,

    K(s) = 2 ((1-p) + p phi_0(a s)) / s^3 - 2 p phi_1(a s) / s^2,   phi_r(z) = int_0^1 u^r e^(z u) du,

with p = p_i is summed over s_k = c + 2 pi i k / P, c = KAPPA/P. Derivatives pass under the sum: d/db gives a
factor s, d/dm_j a factor s p_j phi_1(s m_j) in place of 1 - p_j + p_j phi_0(s m_j). So value and gradient
belong together. What is left out falls like frequencies^-4 in the loss and frequencies^-3 in the gradient.

`solvers.loss` does the same with a proved bound on the error, for which it needs more frequencies where
weights are almost 0: at 16 features near antipodal pairs 0.4 s to 8 s, here 0.2 s.
"""

import numpy as np
import numpy.typing as npt
from numba import prange

from ...theory.kernels import kernel, parallel_kernel
from ..loss.few import UNIFORM, one_on, pointwise

__all__ = ["lattice_loss"]

FloatArray = npt.NDArray[np.float64]

KAPPA = 34.0  # e^-34 is 2e-15: what the images on the right count
SILENT = 1e-12  # smaller entries count as 0; the loss changes by less than this
GONE = 1e-18  # where the transform is smaller, no higher frequency counts
RARE = 71.0  # an image on the left has weight e^34 and must stay below rounding


@kernel
def _moments(z: complex, growth: complex) -> tuple[complex, complex, complex]:
    """Return phi_0, phi_1 and phi_2 at z, `growth` being e^z."""
    if abs(z) > 0.5:
        zero = (growth - 1.0) / z
        one = (growth - zero) / z
        return zero, one, (growth - 2.0 * one) / z
    zero, one, two, term = 0.0j, 0.0j, 0.0j, 1.0 + 0.0j
    terms = 14 if abs(z) > 0.05 else 8  # 0.5^14/15! and 0.05^8/9! are below rounding
    for k in range(terms):
        zero += term / (k + 1)
        one += term / (k + 2)
        two += term / (k + 3)
        term *= z / (k + 1)
    return zero, one, two


@kernel
def _period(m: FloatArray, a: float, b: float, chance: FloatArray) -> float:
    """Return a period beyond which a + b + nu strays too rarely to count."""
    start = abs(b) + abs(a)
    spread = np.sum(chance * m * m) / 3.0
    best = start + np.sum(np.maximum(m, 0.0))
    theta = 1.0 / np.sqrt(spread + 1e-300)
    for _ in range(40):
        cumulant = 0.0
        for j in range(m.size):
            p, z = chance[j], theta * m[j]
            cumulant += np.log1p(p * (np.expm1(z) / z - 1.0)) if abs(z) > 1e-8 else 0.5 * p * z
        if not cumulant < 1e3:
            break
        best = min(best, start + (cumulant + RARE) / theta)
        theta *= 1.3
    # a wider period keeps e^(c y) small for the y that are common
    return float(max(best, 4.0 * (start + np.sqrt(spread)), 1e-3))


@kernel
def _row(
    row: FloatArray, i: int, b: float, chances: FloatArray, frequencies: int, by: FloatArray
) -> tuple[float, float]:
    """Return loss and derivative by b of one output; write those by its row to `by`."""
    a, p = row[i], chances[i]
    heard = np.abs(row) > SILENT
    heard[i] = False
    m, chance = row[heard], chances[heard]
    size = m.size
    # the probabilities that no other feature is on, and that feature j alone is
    alone, none = np.ones(size), 1.0
    for j in range(size):
        alone[j] *= none
        none *= 1.0 - chance[j]
    later = 1.0
    for j in range(size - 1, -1, -1):
        alone[j] *= later * chance[j]
        later *= 1.0 - chance[j]
    all_alone = alone.sum()
    here = pointwise(b, a, p, UNIFORM)
    loss, by_b, by_a = none * (here[0] - p / 3.0), none * here[1], none * here[2]
    by_m = np.zeros(size)
    for j in range(size):
        here, slopes = one_on(b, m[j], a, p, UNIFORM)
        loss += alone[j] * (here[0] - p / 3.0)
        by_b += alone[j] * here[1]
        by_a += alone[j] * here[2]
        by_m[j] = alone[j] * slopes[0]
    span = _period(m, a, b, chance)
    c, h = KAPPA / span, 2.0 * np.pi / span
    zeros, ones = np.empty(size, np.complex128), np.empty(size, np.complex128)
    behind = np.empty(size + 1, np.complex128)
    growth, turn = np.exp(c * m) + 0.0j, np.exp(1j * h * m)
    for k in range(frequencies):
        s = complex(c, h * k)
        one_is_on = 0.0j
        behind[size] = 1.0
        for j in range(size - 1, -1, -1):
            f0, f1, _ = _moments(s * m[j], growth[j])
            growth[j] *= turn[j]
            zeros[j], ones[j] = 1.0 - chance[j] + chance[j] * f0, f1
            one_is_on += alone[j] * f0
            behind[j] = behind[j + 1] * zeros[j]
        f0, f1, f2 = _moments(s * a, np.exp(s * a))
        phase = np.exp(s * b) / span * (1.0 if k == 0 else 2.0)
        K = phase * (2.0 * ((1.0 - p) + p * f0) / s - 2.0 * p * f1) / (s * s)
        rest = behind[0] - none - one_is_on
        loss += (K * rest).real
        by_b += (s * K * rest).real
        by_a += (phase * 2.0 * p * (f1 / s - f2) / s * rest).real
        ahead, sK = 1.0 + 0.0j, s * K
        for j in range(size):
            by_m[j] += (sK * ones[j] * (chance[j] * ahead * behind[j + 1] - alone[j])).real
            ahead *= zeros[j]
        if abs(behind[0]) + none + all_alone < GONE:
            break
    # a feature of weight 0 is independent of the output's noise
    by[:] = 0.5 * chances * by_b
    by[heard] = by_m
    by[i] = by_a
    return p / 3.0 + loss, by_b


@parallel_kernel
def lattice_loss(
    M: FloatArray, b: FloatArray, p: FloatArray, frequencies: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each output's loss, the derivatives of their sum by M, and by b."""
    n = b.size
    losses, by_M, by_b = np.empty(n), np.empty((n, n)), np.empty(n)
    for i in prange(n):
        losses[i], by_b[i] = _row(M[i], i, b[i], p, frequencies, by_M[i])
    return losses, by_M, by_b
