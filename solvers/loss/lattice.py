r"""Kernels of the exact loss and its gradient for bounded values, by a sum over a lattice of frequencies.

Patterns in which at most one other feature is on and heard are integrated piece by piece (`few`): they make
the atom of the interference and the jumps of its density. For the others, Poisson's formula turns the
integral of `sweep` into a sum over s_k = c + 2 pi i k / P, c = kappa/P. The images of the loss on the right
count e^-kappa. Those on the left need y > P, which Chernoff's bound makes as rare. What is cut off above a
frequency omega is bounded by |phi| <= min(phi(c m), (1 + e^(c m))/(omega |m|)).
"""

import numpy as np
import numpy.typing as npt

from ...theory.kernels import kernel
from .few import BINARY, SYMMETRIC, one_on, pointwise
from .sweep import Units, accumulate, fill, sweep

__all__ = ["SILENT", "case", "independent", "plan"]

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

BLOCK = 32  # frequencies whose transforms are kept together
KAPPA = 34.0  # e^-34 is 2e-15
RARE = 71.0  # an image on the left has weight e^34 and must stay below rounding
GROWTH = 9.0  # terms of the sum may outgrow it by e^9 before the period is widened
SILENT = 1e-12  # smaller entries count as 0; the loss changes by less than this
UNIT = 2.0**-53  # rounding


@kernel
def _bounds(kind: int, m: FloatArray, real: float, radius: float, phi: ComplexArray) -> None:
    """Write bounds of |phi_0(s m_j)| for Re s = real and |s| >= radius; for radius = 0, phi_0 at s = real."""
    for j in range(m.size):
        x = real * m[j]
        if kind == BINARY:
            phi[j] = np.exp(x)
            continue
        if kind == SYMMETRIC:
            value = np.sinh(x) / x if abs(x) > 1e-4 else 1.0
            edges = np.cosh(x)
        else:
            value = np.expm1(x) / x if x != 0.0 else 1.0
            edges = 1.0 + np.exp(x)
        if radius > 0.0 and edges < value * radius * abs(m[j]):
            value = edges / (radius * abs(m[j]))
        phi[j] = value


@kernel
def _own_bounds(kind: int, a: float, own: float, c: float, omega: float) -> float:
    """Bound the integral of |K(s)| above the frequency omega; times omega it is that of |s K(s)|."""
    total = (1.0 - own) / omega**2
    if own > 0.0:
        rise = np.exp(abs(c * a))
        square, product = rise, rise
        if a != 0.0 and kind != BINARY:
            unit = omega * abs(a)
            square = min(square, (1.0 + rise) / unit)
            product = min(product, (rise + square) / unit)
        total += own * (square / omega**2 + 2.0 * product / omega)
    return total


@kernel
def _lattice(
    kind: int,
    m: FloatArray,
    a: float,
    b: float,
    own: float,
    units: Units,
    heard: BoolArray,
    counted: bool,
    total: int,
    allowed: float,
    most: float,
    states: ComplexArray,
) -> tuple[float, float, int, float]:
    """Return c, the spacing, the number of blocks, and a bound on what is left out of the loss."""
    n = m.size
    phi, unused = np.empty(n, np.complex128), np.empty(n, np.complex128)
    start = abs(b) + (abs(a) if own > 0.0 else 0.0)
    reach, longest = 0.0, 0.0
    for x in m:
        reach += max(x, 0.0) if kind != SYMMETRIC else abs(x)
        longest = max(longest, abs(x))
    period = start + reach
    theta = 1.0 / (start + reach)
    while theta * longest < 500.0:
        _bounds(kind, m, theta, 0.0, phi)
        mean = sweep(units, heard, counted, 2, total, 2, phi, states, unused).real
        if not mean < 1e250:
            break
        period = min(period, start + (np.log(mean + 1e-300) + RARE) / theta)
        theta *= 1.3
    for _ in range(60):
        _bounds(kind, m, KAPPA / period, 0.0, phi)
        mean = sweep(units, heard, counted, 2, total, 2, phi, states, unused).real
        if np.log(mean + 1e-300) + KAPPA * start / period <= GROWTH:
            break
        period *= 1.2
    c, h = KAPPA / period, 2.0 * np.pi / period
    blocks = 1.0
    while True:
        omega = h * (BLOCK * blocks - 1.0)
        _bounds(kind, m, c, omega, phi)
        majorant = abs(sweep(units, heard, counted, 2, total, 2, phi, states, unused))
        cut = np.exp(c * b) / np.pi * _own_bounds(kind, a, own, c, omega) * majorant
        if cut <= allowed or blocks >= most:
            break
        blocks = min(np.ceil(1.25 * blocks), most)
    phi[:] = 1.0
    share = sweep(units, heard, counted, 2, total, 2, phi, states, unused).real
    images = 4.0 * np.exp(-KAPPA) * share * (2.0 * period + start) * (2.0 * period + start + 1.0)
    return c, h, int(blocks), cut + images


@kernel
def _few_on(
    kind: int,
    m: FloatArray,
    a: float,
    b: float,
    own: float,
    units: Units,
    heard: BoolArray,
    counted: bool,
    total: int,
    states: ComplexArray,
    found: FloatArray,
    by_m: FloatArray,
) -> None:
    """Add the patterns with at most one other feature on and heard."""
    n = m.size
    phi, slope = np.ones(n, np.complex128), np.empty(n, np.complex128)
    mean = 1.0 if kind == BINARY else (0.0 if kind == SYMMETRIC else 0.5)
    here = pointwise(b, a, own, kind)
    none = sweep(units, heard, counted, 2, total, 0, phi, states, slope).real
    found[0] += none * here[0]
    found[1] += none * here[1]
    found[2] += none * here[2]
    for j in range(n):
        if not heard[j]:
            by_m[j] += mean * here[1] * slope[j].real
    sweep(units, heard, counted, 2, total, 1, phi, states, slope)
    for j in range(n):
        share = slope[j].real
        if heard[j] and share > 0.0:
            whole, push = one_on(b, m[j], a, own, kind)
            found[0] += share * whole[0]
            found[1] += share * whole[1]
            found[2] += share * whole[2]
            by_m[j] += share * push[0]
            phi[j] = whole[1]
    sweep(units, heard, counted, 2, total, 1, phi, states, slope)
    for j in range(n):
        if not heard[j]:
            by_m[j] += mean * slope[j].real


@kernel
def case(
    kind: int,
    m: FloatArray,
    a: float,
    b: float,
    own: float,
    alone: FloatArray,
    units: Units,
    counted: bool,
    total: int,
    allowed: float,
    work: float,
) -> tuple[FloatArray, FloatArray, float]:
    """Return [loss, by b, by a], the derivatives by m, and the error of the loss.

    The output's own feature is on with probability `own`. The units are all others, `total` of which are on
    if `counted`. Where they are single features and nothing is counted, `alone` has their probabilities, else
    it is empty. `allowed` is the error of the loss to aim at, `work` the number of factors at most.
    """
    n = m.size
    heard = np.abs(m) > SILENT
    found, by_m = np.zeros(4), np.zeros(n)
    states = np.empty((units[0].size + 1, 3 * (total + 1)), np.complex128)
    _few_on(kind, m, a, b, own, units, heard, counted, total, states, found, by_m)
    size = found[0]
    reach = abs(a) + abs(b)
    for x in m:
        reach += abs(x)
    phi_one, unused = np.ones(n, np.complex128), np.empty(n, np.complex128)
    share = sweep(units, heard, counted, 2, total, 2, phi_one, states, unused).real
    if share * (1.0 + reach) ** 2 < 1e-300:
        return found[:3], by_m, 16.0 * UNIT * size
    found[0] += own * share * (1.0 if kind == BINARY else 1.0 / 3.0)
    most = max(np.floor(work / (n * BLOCK)), 1.0)
    c, h, blocks, cut = _lattice(kind, m, a, b, own, units, heard, counted, total, allowed, most, states)
    phi, of_own = np.empty((2, BLOCK, n), np.complex128), np.empty((3, BLOCK, 1), np.complex128)
    s, weight = np.empty(BLOCK, np.complex128), np.full(BLOCK, h / np.pi + 0.0j)
    found[3] = 0.0
    for block in range(blocks):
        for k in range(BLOCK):
            s[k] = complex(c, h * (block * BLOCK + k))
        fill(kind, s, m, phi)
        fill(kind, s, np.array([a]), of_own)
        weight[0] = 0.5 * h / np.pi if block == 0 else h / np.pi
        accumulate(
            s,
            weight,
            phi,
            of_own[:, :, 0],
            own,
            1.0,
            b,
            alone,
            units,
            heard,
            counted,
            2,
            total,
            states,
            found,
            by_m,
        )
    return found[:3], by_m, 16.0 * UNIT * size + cut + UNIT * (16.0 + 4.0 * np.sqrt(n)) * found[3]


def independent(p: FloatArray) -> Units:
    """Return independent features, on with probability p, as units."""
    steps, pairs, mask = np.arange(p.size + 1), np.empty(2 * p.size), np.zeros(2 * p.size, np.int64)
    pairs[::2], pairs[1::2], mask[1::2] = 1.0 - p, p, 1
    return steps, steps[: p.size].copy(), 2 * steps, mask, pairs


def plan(kind: int, m: FloatArray, p: FloatArray, a: float, b: float, own: float) -> tuple[float, float]:
    """Return abscissa and spacing of the lattice for independent features with weights m and chances p."""
    states = np.empty((p.size + 2, 3), np.complex128)
    heard = np.ones(p.size, np.bool_)
    c, h, _, _ = _lattice(kind, m, a, b, own, independent(p), heard, False, 0, np.inf, 1.0, states)
    return float(c), float(h)
