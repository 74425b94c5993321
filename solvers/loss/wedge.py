r"""Kernels of the exact loss and its gradient for values without bounds, by an integral along a wedge.

The transforms of half-normal, exponential and normal values are bounded between the directions of 45 and 90
degrees, and e^(s b) decays on the right there if b <= 0. So the path of `sweep`'s integral may be bent to

    s(u) = c cosh(u + i theta)/cos(theta),     theta = 67.5 degrees.

Its nodes are spaced evenly in log |s| far out: weights that differ by any factor cost a few nodes for each
decade. The trapezoidal rule with the step h converges like exp(-2 pi d/h) if the integrand is analytic for
|Im u| < d, which is 22.5 degrees here. The constant is the integral of its absolute value along both edges.
For b > 0, (x - R(y))^2 = (x - y)^2 - 2 x R(-y) - R(-y)^2 with R = ReLU, and -y has the bias -b.
"""

import numpy as np
import numpy.typing as npt

from ...theory.kernels import kernel
from ...theory.special import VALUES
from .sweep import Units, accumulate, fill

__all__ = ["case"]

FloatArray = npt.NDArray[np.float64]

NORMAL = VALUES.index("normal")
ANGLE = 0.375 * np.pi
WIDTH = 0.34  # of the strip, a little less than pi/8
STEP = 2.0 * np.pi * WIDTH / 39.0  # e^-39 is 1e-17
FAR = 42.0  # e^-42 is 6e-19
BLOCK = 32  # nodes whose transforms are kept together
UNIT = 2.0**-53  # rounding


@kernel
def case(
    kind: int,
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
    `total` of which are on if `counted`; `marginal` has their probabilities. `alone` is as in `lattice`.
    """
    n = m.size
    side = 1.0 if b <= 0.0 else -1.0
    turned, a, b = side * m, side * a, side * b
    own = 1.0 if on else 0.0
    # only what makes y larger bounds c: on the right the transforms of negative weights decay
    both = kind == NORMAL
    rise = abs(a) if both else max(a, 0.0)
    longest, square = own * rise, own * rise * rise
    for j in range(n):
        rise = abs(turned[j]) if both else max(turned[j], 0.0)
        longest = max(longest, rise)
        square += marginal[j] * rise * rise
    found, by_m = np.zeros(4), np.zeros(n)
    if not longest > 0.0:  # y is never positive
        return found[:3], by_m, 0.0
    c = 0.5 / max(longest, np.sqrt(square))
    end = min(FAR, np.arccosh(max(45.0 / (abs(b) * c + 1e-300), 1.0)) + STEP)
    heard = m != 0.0
    top = 1 if side > 0.0 and not on else 0
    states = np.empty((units[0].size + 1, max((top + 1) * (total + 1), 3)), np.complex128)
    phi, of_own = np.empty((2, BLOCK, n), np.complex128), np.empty((3, BLOCK, 1), np.complex128)
    s, weight = np.empty(BLOCK, np.complex128), np.empty(BLOCK, np.complex128)
    edges, unused = np.zeros(4), np.zeros(n)
    for turn in range(3):  # the integral itself, and its size along both edges of the strip
        angle = ANGLE + (0.0, -WIDTH, WIDTH)[turn]
        step = STEP if turn == 0 else 8.0 * STEP
        for start in range(0, int(np.ceil(end / step)), BLOCK):
            for k in range(BLOCK):
                u = step * (start + k) + 1j * angle
                s[k] = c / np.cos(ANGLE) * np.cosh(u)
                weight[k] = step / np.pi * c / np.cos(ANGLE) * np.sinh(u) / 1j
                if u.real > end:
                    weight[k] = 0.0
            if start == 0:
                weight[0] *= 0.5
            fill(kind, s, turned, phi)
            fill(kind, s, np.array([a]), of_own)
            accumulate(
                s,
                weight,
                phi,
                of_own[:, :, 0],
                own,
                side,
                b,
                alone,
                units,
                heard,
                counted,
                top,
                total,
                states,
                found if turn == 0 else edges,
                by_m if turn == 0 else unused,
            )
    error = 2.0 * edges[3] / np.expm1(2.0 * np.pi * WIDTH / STEP)
    error += (UNIT * (16.0 + 4.0 * np.sqrt(n)) + np.exp(-FAR)) * found[3]
    found[1:3] *= side
    return found[:3], side * by_m, error
