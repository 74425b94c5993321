r"""Kernels of the exact loss and its gradient for values without bounds, by an integral along a contour.

The transforms of half-normal, exponential and normal values are bounded between the directions of 45 and 90
degrees (of other laws between another angle and 90), and e^(s b) decays on the right there if b <= 0. So the
path of the integral of `transform_sums` may be bent to

    s(u) = c cosh(u + i theta)/cos(theta),     theta = 67.5 degrees.

Its nodes are spaced evenly in log |s| far out: weights that differ by any factor cost a few nodes for each
decade. The trapezoidal rule with the step h converges like exp(-2 pi d/h) if the integrand is analytic for
|Im u| < d, which is 22.5 degrees here. The constant is the integral of its absolute value along both edges.

For b > 0, e^(s b) decays on the left, between 90 and 135 degrees, where the transforms are bounded as well:

    s(u) = c (1 + sin(i u - theta)),     theta = 22.5 degrees,

passes s = 0 on its right. Where y is nearly x, much would cancel. There the other half of y is taken away:
(x - R(y))^2 = (x - y)^2 - 2 x R(-y) - R(-y)^2 with R = ReLU, and -y has the bias -b.
"""

from dataclasses import fields
from typing import Any

import numpy as np

from ....theory.compile.kernels import kernel
from ....theory.features.values.parts import KernelLaw
from ....theory.validation import FloatArray
from ..problem import Accuracy, Law, LossProblem, Outputs
from .affine import affine_outputs, zero_where_off
from .transform_sums import ComplexArray, OtherFeatures, add_nodes
from .transforms import by_transforms

__all__ = ["ESTIMATE", "estimated_seconds", "integrate_output", "solve", "terms"]

STRIP_SHARE = 0.34 / (0.125 * np.pi)  # half the width of the strip is a little less than half the angle
FALL = 39.0  # e^-39 is 1e-17
LEAST_FALL = 6.0  # with any tolerance
BEYOND = 3.0  # e^-(fall + 3) is left beyond the last node
SPARE = 10.0  # the error aimed at is what is allowed over this
EDGE_STEP = 0.44  # of the sizes along both edges
EDGE_END = 12.0  # where e^-12 of the sizes is left
UNIT = 2.0**-53  # rounding


@kernel
def _contour(u: ComplexArray, c: complex, half: float, left: bool) -> tuple[ComplexArray, ComplexArray]:
    """Return a hyperbola s(u) in the complex plane, the path of integration, and its derivative by u.

    u is real. The path crosses the real axis at c > 0 and bends to the right; if `left`, it crosses at c (1 -
    sin half) and bends to the left. `half` is half the width of the strip of u in which the integrand is
    analytic.
    """
    if left:
        curve = c * np.sin(1j * u - half)
        return curve + c, 1j * c * np.cos(1j * u - half)
    angle = 0.5 * np.pi - half
    wide = c / np.cos(angle)
    return wide * np.cosh(u + 1j * angle), wide * np.sinh(u + 1j * angle)


@kernel
def integrate_output(
    law: KernelLaw,
    m: FloatArray,
    a: float,
    b: float,
    p_target_active: float,
    others: OtherFeatures,
    marginal: FloatArray,
    near: bool,
    tolerance: float,
    with_slopes: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (loss of an output minus E x^2, derivatives by m, errors), by an integral along a contour.

    x is the target and y the pre-activation; with `near`, for b > 0 only, E (x - y)^2 is subtracted instead
    of E x^2. The first array is [loss, by b, by a, size of the loss's terms, size of the derivatives' terms].
    The second is empty unless `with_slopes`. The third is [error of the loss, 0, 0, error of the
    derivatives].

    b is the bias. a is the target's weight and `p_target_active` the probability that it is on, 0 or 1. m are
    the weights of the other features, with the joint law `others`, on with the probabilities `marginal`.
    `law` is that of the value of a feature that is on, without bounds. `tolerance` is the error of the loss
    to aim at.
    """
    if law.transform[0] == 0 or not law.angle > 0.0:
        raise ValueError("`law` must be of values without bounds, with a transform and a wedge.")
    half = 0.5 * (0.5 * np.pi - law.angle)  # the path is in the middle between the angle and a right one
    width = STRIP_SHARE * half
    side = -1.0 if near else 1.0
    signed_m, a, b = side * m, side * a, side * b
    left = b > 0.0
    longest, square = 0.0, 0.0
    for j in range(m.size + 1):
        rise, chance = (signed_m[j], marginal[j]) if j < m.size else (p_target_active * a, 1.0)
        if law.low >= 0.0:  # only what makes y larger bounds c: the transforms of negative weights decay
            rise = max(rise, 0.0)
        longest, square = max(longest, abs(rise)), square + chance * rise * rise
    longest, square = longest * law.size, square * law.size * law.size
    integrals, by_m, errors = np.zeros(5), np.zeros(m.size if with_slopes else 0), np.zeros(4)
    if not left and not longest > 0.0:  # y is never positive
        return integrals, by_m, errors
    c = 1.0 / max(2.0 * longest, 2.0 * np.sqrt(square), b)
    falls = 45.0 / (abs(b) * c + 1e-300)
    if left:
        falls = (falls + 1.0) / np.sin(half)
    last = np.arccosh(max(falls, 1.0)) + EDGE_STEP  # nothing is left beyond
    # The loss is the integral of s K(s) du and its derivatives are those of s^2 K(s) du. These are like 1/s^2
    # and 1/s if the own feature is off. If it is on, they are like phi_1(a s)/s and phi_1(a s), and phi_1(z)
    # falls like 1/z^2.
    flat, power = 0.0, 1.0 if with_slopes or p_target_active > 0.0 else 2.0
    if p_target_active > 0.0 and a != 0.0:
        flat, power = np.log(max(2.0 / (c * abs(a)), 1.0)), 2.0 if with_slopes else 3.0
    top = 1 if b <= 0.0 and (p_target_active == 0.0 or a == 0.0) else 0  # without others y is never positive
    edges, tail, unused = np.zeros(5), np.zeros(5), np.zeros(by_m.size)
    fall, step, end = FALL, EDGE_STEP, EDGE_END
    for turn in range(3):  # the sizes along both edges of the strip, then the integral itself
        if turn == 2:
            fall = min(max(np.log1p(2.0 * SPARE * edges[3] / tolerance), LEAST_FALL), FALL)
            step, end = 2.0 * np.pi * width / fall, fall + BEYOND
        u_end = flat + end / power if with_slopes else min(end, flat + max(end - flat, 0.0) / power)
        u = step * np.arange(int(min(u_end, last) / step) + 1) + 1j * (width, -width, 0.0)[turn]
        s, slope = _contour(u.astype(np.complex128), c, half, left)
        weights = step / np.pi * slope / 1j
        weights[0] *= 0.5
        sums, slopes = (integrals, by_m) if turn == 2 else (edges, unused)
        add_nodes(law.transform, s, weights, signed_m, a, b, p_target_active, side, top, others, sums, slopes)
        if turn == 2:  # the last node shows what is left beyond it
            weights /= step
            add_nodes(
                law.transform,
                s[-1:],
                weights[-1:],
                signed_m,
                a,
                b,
                p_target_active,
                side,
                top,
                others,
                tail,
                unused,
            )
    spacing, rounding = 2.0 / np.expm1(fall), UNIT * (16.0 + 4.0 * np.sqrt(m.size))
    errors[0] = spacing * edges[3] + (rounding + np.exp(-fall - BEYOND)) * integrals[3] + abs(tail[0])
    errors[3] = spacing * edges[4] + rounding * integrals[4] + tail[4]
    integrals[1:3] *= side
    return integrals, side * by_m, errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = (
    "heuristic: the derived bound of the trapezoidal rule, with a constant from quadrature, and rounding; "
    "never exceeded in tests by exact arithmetic"
)

# For b > 0 it is the loss less E (x - y)^2 that is integrated, not less E x^2, while that is at most so many
# E x^2.
NEAR = 4.0


def terms(law: Law) -> float:
    """Return the least cost of an output: the number of nodes s on the contour times features.

    Each feature has a transform E e^(s v) at each node s.
    """
    return 1024.0 * law.n


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output.

    Dependent features take twice the time.
    """
    law = problem.law
    return 3e-4 * (law.n + 2.0) * (1.0 if law.independent else 2.0)


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem: integrals of `integrate_output`, plus E x^2 or E (x - y)^2.

    `integrate_output` gives the loss minus one of these, x being the target and y the pre-activation: minus E
    (x - y)^2 for outputs with b > 0 where that is at most 4 E x^2, minus E x^2 for all others. `accuracy.tol`
    is aimed at; derivatives are set if `gradient`.
    """
    law, affine_part = problem.law, affine_outputs(problem)
    parts = law.values.parts
    tolerance = np.maximum(accuracy.tol * law.aim[problem.target], np.finfo(np.float64).tiny)
    near = (problem.biases > 0.0) & (affine_part.losses <= NEAR * law.square[problem.target])

    def integrate(
        k: int, m: FloatArray, a: float, b: float, p_active: float, others: OtherFeatures, p: FloatArray
    ) -> Any:
        """Return the kernel's loss, derivatives and errors of output k, whose weights on the others are m.

        Its own feature has weight a and is on with probability `p_active`, the others with p; b is its bias.
        """
        return integrate_output(parts, m, a, b, p_active, others, p, near[k], tolerance[k], gradient)

    part = by_transforms(problem, accuracy, integrate, False)
    rest = zero_where_off(problem, affine_part, near)
    return Outputs(*(getattr(part, field.name) + getattr(rest, field.name) for field in fields(Outputs)))
