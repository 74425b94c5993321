r"""The exact loss and its gradient for values without bounds, by an integral along a wedge.

The transforms of half-normal, exponential and normal values are bounded between the directions of 45 and 90
degrees, and e^(s b) decays on the right there if b <= 0. So the path of `sweep`'s integral may be bent to

    s(u) = c cosh(u + i theta)/cos(theta),     theta = 67.5 degrees.

Its nodes are spaced evenly in log |s| far out: weights that differ by any factor cost a few nodes for each
decade. The trapezoidal rule with the step h converges like exp(-2 pi d/h) if the integrand is analytic for
|Im u| < d, which is 22.5 degrees here. The constant is the integral of its absolute value along both edges.
For b > 0, (x - R(y))^2 = (x - y)^2 - 2 x R(-y) - R(-y)^2 with R = ReLU, and -y has the bias -b.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from ...theory.arguments import FloatArray
from .sweep import Units, accumulate

__all__ = ["case", "transforms"]

ComplexArray = npt.NDArray[np.complex128]

ANGLE = 0.375 * np.pi
WIDTH = 0.34  # of the strip, a little less than pi/8
STEP = 2.0 * np.pi * WIDTH / 39.0  # e^-39 is 1e-17
FAR = 42.0  # e^-42 is 6e-19
SILENT = 1e-300
UNIT = 2.0**-53


def transforms(values: str, z: ComplexArray) -> ComplexArray:
    """Return phi_r(z) = E v^r e^(z v) for r = 0, 1, 2, stacked in front."""
    if values == "exponential":
        zero = 1.0 / (1.0 - z)
        return np.stack([zero, zero**2, 2.0 * zero**3])
    growth = np.exp(0.5 * z * z)
    if values == "normal":
        return np.stack([growth, z * growth, (1.0 + z * z) * growth])
    root = np.sqrt(2.0 / np.pi)
    zero = special.wofz(-1j * z / np.sqrt(2.0))
    one = z * zero + root
    found = np.stack([zero, one, zero + z * one])
    far = np.abs(z) > 8.5  # there the last two cancel; their series ends below rounding
    if far.any():
        z, growth = z[far], np.where(z[far].real > 0.0, 2.0 * growth[far], 0.0)
        series = np.zeros((3, z.size), np.complex128)
        term = root / z
        for k in range(24):
            series += np.stack([-term, (2 * k + 1) * term / z, -(2 * k + 1) * (2 * k + 2) * term / z**2])
            term = -(2 * k + 1) * term / z**2
        found[:, far] = series + np.stack([growth, z * growth, (1.0 + z * z) * growth])
    return found


def case(
    values: str,
    m: FloatArray,
    a: float,
    b: float,
    on: bool,
    alone: FloatArray,
    units: Units,
    counted: bool,
    total: int,
    marginal: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:
    """Return [loss, by b, by a], the derivatives by m, and the error of the loss.

    For b <= 0 it is the loss less E x^2, for b > 0 less E (x - y)^2. The other features make up the `units`,
    `total` of which are on if `counted`; `marginal` has their probabilities.
    """
    side = 1.0 if b <= 0.0 else -1.0
    m, a, b = side * m, side * a, side * b
    weights = np.append(np.abs(m), abs(a) if on else 0.0)
    spread = np.sqrt(np.sum(np.append(marginal, 1.0) * weights**2))
    found, by_m = np.zeros(4), np.zeros(m.size)
    if not spread > 0.0:
        return found[:3], by_m, 0.0
    c = 0.5 / max(float(weights.max()), float(spread))
    end = min(FAR, float(np.arccosh(max(45.0 / (abs(b) * c + 1e-300), 1.0))) + STEP)
    heard = np.abs(m) > SILENT
    top = 1 if side > 0.0 and not on else 0
    states = np.empty((units[0].size + 1, (top + 1) * (total + 1) + 2), np.complex128)

    def add(angle: float, step: float, found: FloatArray, by_m: FloatArray) -> None:
        u = np.arange(0.0, end, step)
        s = c / np.cos(ANGLE) * np.cosh(u + 1j * angle)
        weight = step / np.pi * c / np.cos(ANGLE) * np.sinh(u + 1j * angle) / 1j
        weight[0] *= 0.5
        for start in range(0, s.size, 128):
            here = s[start : start + 128]
            phi = transforms(values, here[:, None] * m)[:2]
            own: Any = transforms(values, here * a)
            accumulate(
                here,
                weight[start : start + 128],
                phi,
                own,
                float(on),
                side,
                b,
                alone,
                units,
                heard,
                counted,
                top,
                total,
                states,
                found,
                by_m,
            )

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        add(ANGLE, STEP, found, by_m)
        edges, unused = np.zeros(4), np.zeros(m.size)
        for angle in (ANGLE - WIDTH, ANGLE + WIDTH):
            add(angle, 8.0 * STEP, edges, unused)
    error = 2.0 * edges[3] / np.expm1(2.0 * np.pi * WIDTH / STEP)
    error += UNIT * (16.0 + 4.0 * np.sqrt(m.size)) * found[3] + np.exp(-FAR) * found[3]
    return found[:3] * np.array([1.0, side, side]), side * by_m, float(error)
