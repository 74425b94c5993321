r"""Kernels of the exact loss of one output and its derivatives by the output's own weights and bias.

Output i is ReLU(a x_i + b + nu), nu = sum_j m_j x_j, a = M_ii. With g(t, a) = E (x_i - ReLU(a x_i + t))^2
its loss is E g(b + nu, a). Patterns with at most one other feature on are integrated piece by piece
(`few`): they make the atom of nu and the jumps of its density. For the others, the transform of
g - p/3, which vanishes far to the left,

    K(s) = 2 ((1-p) + p phi_0(a s)) / s^3 - 2 p phi_1(a s) / s^2,   phi_r(z) = int_0^1 u^r e^(z u) du,

is summed over the lattice s_k = c + 2 pi i k / P, c = kappa/P, Poisson's formula again: the images of g
on the right count e^-kappa, those on the left need b + a + nu > P, which Chernoff makes as rare.
Derivatives pass under the sum: d/db gives a factor s, d/dm_j a factor s p phi_1(s m_j) in place
of A_j = 1 - p + p phi_0(s m_j), and K has derivatives by a. So gradient and Hessian are those of the
truncated sum itself, to rounding.
"""

import numpy as np
import numpy.typing as npt
from numba import prange

from ...theory.kernels import kernel, parallel_kernel

__all__ = ["GONE", "KAPPA", "SILENT", "few", "loss_and_gradient", "moments", "period"]

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
Six = tuple[float, float, float, float, float, float]

KAPPA = 34.0  # e^-34 is 2e-15
SILENT = 1e-12  # smaller entries count as 0; the loss changes by less than this
GONE = 1e-18  # where the transform is smaller, no higher frequency counts
RARE = 71.0  # an image on the left has weight e^34 and must stay below rounding

# Gauss-Legendre nodes and weights on [0, 1]; four are exact up to degree 7, and 5 occurs.
NODES = np.array([0.06943184420297371, 0.33000947820757187, 0.6699905217924281, 0.9305681557970263])
WEIGHTS = np.array([0.17392742256872692, 0.32607257743127307, 0.32607257743127307, 0.17392742256872692])


@kernel
def _moments(z: complex, growth: complex) -> tuple[complex, complex, complex, complex]:
    """Return phi_0 .. phi_3 at z, `growth` being e^z."""
    if abs(z) > 0.5:
        zero = (growth - 1.0) / z
        one = (growth - zero) / z
        two = (growth - 2.0 * one) / z
        return zero, one, two, (growth - 3.0 * two) / z
    zero, one, two, three, term = 0.0j, 0.0j, 0.0j, 0.0j, 1.0 + 0.0j
    terms = 14 if abs(z) > 0.05 else 8  # 0.5^14/15! and 0.05^8/9! are below rounding
    for k in range(terms):
        zero += term / (k + 1)
        one += term / (k + 2)
        two += term / (k + 3)
        three += term / (k + 4)
        term *= z / (k + 1)
    return zero, one, two, three


@kernel
def moments(s: ComplexArray, m: FloatArray) -> ComplexArray:
    """Return phi_r(s_k m_j), shape (4, s.size, m.size)."""
    found = np.empty((4, s.size, m.size), np.complex128)
    for k in range(s.size):
        for j in range(m.size):
            z = s[k] * m[j]
            found[0, k, j], found[1, k, j], found[2, k, j], found[3, k, j] = _moments(z, np.exp(z))
    return found


@kernel
def _pointwise(t: float, a: float, p: float) -> Six:
    """Return g - p/3 and its derivatives by t, a, tt, ta, aa."""
    low, high, edge = 0.0, 0.0, 0.0  # the values u that make a u + t positive; u^r delta(a u + t)
    if a > 0.0:
        low, high = min(max(-t / a, 0.0), 1.0), 1.0
    elif a < 0.0:
        high = min(max(-t / a, 0.0), 1.0)
    elif t > 0.0:
        high = 1.0
    root = 0.0
    if a != 0.0 and 0.0 < -t / a < 1.0:
        root, edge = -t / a, 1.0 / abs(a)
    m0, m1 = high - low, (high**2 - low**2) / 2.0
    m2 = (high**3 - low**3) / 3.0
    ramp, step = max(t, 0.0), 1.0 if t > 0.0 else 0.0
    value = (1.0 - p) * ramp * ramp + p * (a * (a - 2.0) * m2 + 2.0 * (a - 1.0) * t * m1 + t * t * m0)
    return (
        value,
        2.0 * (1.0 - p) * ramp + 2.0 * p * ((a - 1.0) * m1 + t * m0),
        2.0 * p * ((a - 1.0) * m2 + t * m1),
        2.0 * (1.0 - p) * step + 2.0 * p * (m0 - root * edge),
        2.0 * p * (m1 - root**2 * edge),
        2.0 * p * (m2 - root**3 * edge),
    )


@kernel
def few(m: FloatArray, a: float, b: float, p: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what patterns with at most one other feature on add.

    First g - p/3 and its derivatives by b, a, bb, ba, aa; then for each j the derivative by m_j, and
    those by (m_j, m_j), (b, m_j) and (a, m_j).
    """
    n = m.size
    none, alone = (1.0 - p) ** n, p * (1.0 - p) ** (n - 1)
    whole, first, second = np.zeros(6), np.zeros(n), np.zeros((3, n))
    here = _pointwise(b, a, p)
    for k in range(6):
        whole[k] = none * here[k]
    for j in range(n):
        ends = np.array([0.0, 0.0, 0.0, 1.0])
        if m[j] != 0.0:
            ends[1], ends[2] = min(max(-b / m[j], 0.0), 1.0), min(max(-(a + b) / m[j], 0.0), 1.0)
            if ends[1] > ends[2]:
                ends[1], ends[2] = ends[2], ends[1]
        for piece in range(3):
            width = ends[piece + 1] - ends[piece]
            if width <= 0.0:
                continue
            for q in range(4):
                v = ends[piece] + width * NODES[q]
                weight = alone * width * WEIGHTS[q]
                here = _pointwise(b + m[j] * v, a, p)
                for k in range(6):
                    whole[k] += weight * here[k]
                first[j] += weight * v * here[1]
                second[0, j] += weight * v * v * here[3]
                second[1, j] += weight * v * here[3]
                second[2, j] += weight * v * here[4]
    return whole, first, second


@kernel
def period(m: FloatArray, a: float, b: float, p: float) -> float:
    """Return a period beyond which a + b + nu strays too rarely to count."""
    start = abs(b) + abs(a)
    hard, spread = start, 0.0
    for x in m:
        hard += max(x, 0.0)
        spread += p * x * x / 3.0
    best = hard
    theta = 1.0 / np.sqrt(spread + 1e-300)
    for _ in range(40):
        cumulant = 0.0
        for x in m:
            z = theta * x
            cumulant += np.log1p(p * (np.expm1(z) / z - 1.0)) if abs(z) > 1e-8 else 0.5 * p * z
        if not cumulant < 1e3:
            break
        best = min(best, start + (cumulant + RARE) / theta)
        theta *= 1.3
    # a wider period keeps e^(c y) small for the y that are common
    return float(max(best, 4.0 * (start + np.sqrt(spread)), 1e-3))


@kernel
def _row(
    row: FloatArray, i: int, b: float, p: float, frequencies: int, by: FloatArray
) -> tuple[float, float]:
    """Return loss and derivative by b of one output; write those by its row to `by`."""
    a = row[i]
    heard = np.abs(row) > SILENT
    heard[i] = False
    m = row[heard]
    whole, first, _ = few(m, a, b, p)
    span = period(m, a, b, p)
    c, h = KAPPA / span, 2.0 * np.pi / span
    size = m.size
    none, alone = (1.0 - p) ** size, p * (1.0 - p) ** (size - 1)
    zeros, ones = np.empty(size, np.complex128), np.empty(size, np.complex128)
    behind = np.empty(size + 1, np.complex128)
    growth, turn = np.exp(c * m) + 0.0j, np.exp(1j * h * m)
    loss, by_a, by_b = 0.0, 0.0, 0.0
    by_m = np.zeros(size)
    for k in range(frequencies):
        s = complex(c, h * k)
        one_on = 0.0j
        behind[size] = 1.0
        for j in range(size - 1, -1, -1):
            f0, f1, _, _ = _moments(s * m[j], growth[j])
            growth[j] *= turn[j]
            zeros[j], ones[j] = 1.0 - p + p * f0, f1
            one_on += f0
            behind[j] = behind[j + 1] * zeros[j]
        f0, f1, f2, _ = _moments(s * a, np.exp(s * a))
        phase = np.exp(s * b) / span * (1.0 if k == 0 else 2.0)
        K = phase * (2.0 * ((1.0 - p) + p * f0) / s - 2.0 * p * f1) / (s * s)
        rest = behind[0] - none - alone * one_on
        loss += (K * rest).real
        by_b += (s * K * rest).real
        by_a += (phase * 2.0 * p * (f1 / s - f2) / s * rest).real
        ahead, sK = 1.0 + 0.0j, s * K
        for j in range(size):
            by_m[j] += (sK * ones[j] * (p * ahead * behind[j + 1] - alone)).real
            ahead *= zeros[j]
        if abs(behind[0]) + none + alone * size < GONE:
            break
    # a feature of weight 0 is independent of the output's noise
    by[:] = 0.5 * p * (by_b + whole[1])
    by[heard] = by_m + first
    by[i] = by_a + whole[2]
    return p / 3.0 + loss + whole[0], by_b + whole[1]


@parallel_kernel
def loss_and_gradient(
    M: FloatArray, b: FloatArray, p: float, frequencies: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each output's loss, the derivatives of their sum by M, and by b."""
    n = b.size
    losses, by_M, by_b = np.empty(n), np.empty((n, n)), np.empty(n)
    for i in prange(n):
        losses[i], by_b[i] = _row(M[i], i, b[i], p, frequencies, by_M[i])
    return losses, by_M, by_b
