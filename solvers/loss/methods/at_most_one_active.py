r"""Kernels of the exact loss where at most one other feature disturbs an output ReLU(a x + b + nu).

These patterns of on and off are the atom of the interference nu and the jumps of its density. With g(t) =
E (x - ReLU(a x + t))^2 they add g(b) and the means of g(b + m_j v) over the value v of feature j. Where the
density of values is a polynomial between places, g is one in t piece by piece: Gauss points between the
breakpoints give the means exactly.
"""

import numpy as np

from ....theory.compile.kernels import inlined, inner, kernel
from ....theory.features.values.parts import KernelLaw
from ....theory.validation import FloatArray

__all__ = ["loss_and_second_derivatives_none_on", "loss_and_second_derivatives_one_on", "require_bounded_law"]

Six = tuple[float, float, float, float, float, float]


@inner
def require_bounded_law(law: KernelLaw) -> None:
    """Raise ValueError unless values are bounded and have a transform, and atoms or a piecewise density.

    The transform of a value v is E e^(z v). These kernels need all of that.
    """
    if law.transform[0] == 0 or (law.atoms.shape[0] == 0 and law.ends.shape[0] == 0) or law.angle > 0.0:
        raise ValueError("`law` must be of values with bounds, atoms or pieces, and a transform.")


@inlined
def _add_scaled(u: Six, weight: float, v: Six) -> Six:
    """Return u + weight v, entry by entry."""
    return (
        u[0] + weight * v[0],
        u[1] + weight * v[1],
        u[2] + weight * v[2],
        u[3] + weight * v[3],
        u[4] + weight * v[4],
        u[5] + weight * v[5],
    )


@inlined
def _loss_target_off(t: float) -> Six:
    """Return ReLU(t)^2, the loss of the output ReLU(a x + t) where its target x is off, and five derivatives.

    They are by t, a, tt (twice by t), ta, aa; those that involve a are 0. At the kink t = 0 tt is 0.
    """
    ramp = max(t, 0.0)
    return ramp * ramp, 2.0 * ramp, 0.0, 2.0 if t > 0.0 else 0.0, 0.0, 0.0


@inlined
def _loss_at_value(a: float, t: float, x: float) -> Six:
    """Return (x - ReLU(a x + t))^2 at one value x, and its derivatives by t, a, tt, ta, aa.

    x is the target, a its weight, t the rest of the pre-activation; tt means twice by t. At the kink a x + t
    = 0 derivatives are means of the one-sided ones.
    """
    y = a * x + t
    error, step = x - max(y, 0.0), 2.0 if y > 0.0 else 1.0 if y == 0.0 else 0.0
    return error * error, -error * step, -error * step * x, step, step * x, step * x * x


@inlined
def _density_at(table: FloatArray, k: int, x: float) -> float:
    """Return the polynomial sum_j table[k, j] x^j, the density of a law's values on its piece k, at x."""
    value = table[k, table.shape[1] - 1]
    for power in range(table.shape[1] - 2, -1, -1):
        value = value * x + table[k, power]
    return float(value)


@inlined
def _loss_over_piece(a: float, t: float, k: int, law: KernelLaw) -> Six:
    """Return the integral of (x - ReLU(a x + t))^2 density(x) over piece k of the law, and five derivatives.

    x is the target, a its weight, t the rest of the pre-activation. The derivatives are by t, a, tt (twice by
    t), ta, aa. Piece k is an interval of values x on which the density is a polynomial. If a = t = 0,
    derivatives are means of the one-sided ones.
    """
    low, high, density = law.ends[k, 0], law.ends[k, 1], law.density
    root = -t / a if a != 0.0 else 0.0
    first, last, edge = low, low, 0.0  # where the output is on; density/|a| where it turns on
    if a > 0.0:
        first, last = min(max(root, low), high), high
    elif a < 0.0:
        last = min(max(root, low), high)
    elif t > 0.0:
        last = high
    if a != 0.0 and low < root < high:
        edge = _density_at(density, k, root) / abs(a)
    else:
        root = 0.0  # counts nowhere, and may be inf
    value, m0, m1, m2 = 0.0, 0.0, 0.0, 0.0
    half = a == 0.0 and t == 0.0
    width = high - low if half else last - first
    if density.shape[1] == 1:  # a constant, in closed form
        f, middle = density[k, 0], 0.5 * width + (low if half else first)
        value = first * first + first * low + low * low
        value = f / 3.0 * ((first - low) * value + (high - last) * (high * high + high * last + last * last))
        error, spread = (1.0 - a) * middle - t, width * width / 12.0
        value += 0.0 if half else f * width * (error * error + (1.0 - a) * (1.0 - a) * spread)
        m0 = f * width * (0.5 if half else 1.0)
        m1, m2 = m0 * middle, m0 * (middle * middle + spread)
    else:
        for start, wide in ((low, first - low), (last, high - last)):
            if wide > 0.0:
                for q in range(law.nodes.size):
                    x = start + wide * law.nodes[q]
                    value += wide * law.weights[q] * _density_at(density, k, x) * x * x
        for q in range(law.nodes.size):
            x = (low if half else first) + width * law.nodes[q]
            weight = width * law.weights[q] * _density_at(density, k, x)
            error = (1.0 - a) * x - t
            value += 0.0 if half else weight * error * error
            weight *= 0.5 if half else 1.0
            m0 += weight
            m1 += weight * x
            m2 += weight * x * x
    return (
        value,
        2.0 * ((a - 1.0) * m1 + t * m0),
        2.0 * ((a - 1.0) * m2 + t * m1),
        2.0 * (m0 - root * edge),
        2.0 * (m1 - root**2 * edge),
        2.0 * (m2 - root**3 * edge),
    )


@inlined
def _loss_none_on(t: float, a: float, p_target_active: float, law: KernelLaw) -> Six:
    """Return (g, g_t, g_a, g_tt, g_ta, g_aa): the loss while no other feature is on, with derivatives.

    g = E (x - ReLU(a x + t))^2 is an output's loss. x is the target, a its weight and t the bias, or all else
    that adds to the pre-activation. x is on with probability `p_target_active`, in [0, 1], and then has the
    `law`, else 0. This copy is inlined; `loss_and_second_derivatives_none_on` is compiled by itself.
    """
    total = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if p_target_active < 1.0:
        total = _add_scaled(total, 1.0 - p_target_active, _loss_target_off(t))
    if p_target_active > 0.0:
        for k in range(law.atoms.shape[0]):
            total = _add_scaled(
                total, p_target_active * law.atoms[k, 1], _loss_at_value(a, t, law.atoms[k, 0])
            )
        for k in range(law.ends.shape[0]):
            total = _add_scaled(total, p_target_active, _loss_over_piece(a, t, k, law))
    return total


@kernel
def loss_and_second_derivatives_none_on(t: float, a: float, p_target_active: float, law: KernelLaw) -> Six:
    """Return (g, g_t, g_a, g_tt, g_ta, g_aa): the loss while no other feature is on, with derivatives.

    g = E (x - ReLU(a x + t))^2 is an output's loss. x is the target, a its weight and t the bias, or all else
    that adds to the pre-activation. x is on with probability `p_target_active`, in [0, 1], and then has the
    `law`, else 0.
    """
    return _loss_none_on(t, a, p_target_active, law)


@kernel
def loss_and_second_derivatives_one_on(
    b: float, m: float, a: float, p_target_active: float, law: KernelLaw
) -> tuple[Six, tuple[float, float, float, float]]:
    """Return the mean of g(b + m v) over v, with g(t) = E (x - ReLU(a x + t))^2, and its derivatives.

    x is the target, on with probability `p_target_active`, a its weight; v is the value of one other feature
    that is on, m its weight; b is the bias. When on, both have the `law`. The first tuple has the means of g
    and of its derivatives by t, a, tt (twice by t), ta, aa at t = b + m v, the second the derivatives of the
    mean of g by m, mm, bm and am.
    """
    total = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    d_m, d_mm, d_bm, d_am = 0.0, 0.0, 0.0, 0.0
    marks = np.empty(law.corners.size + 1)  # ends of the steps from the low end on
    for k in range(law.ends.shape[0] + law.atoms.shape[0]):
        atom = k - law.ends.shape[0]
        low, steps, points = 0.0, 1, 1
        if atom < 0:
            low, marks[0], steps, points = law.ends[k, 0], law.ends[k, 1], marks.size, law.nodes.size
            for i in range(law.corners.size):  # y = 0 at the corners of the own value, sorted in
                kink = -(a * law.corners[i] + b) / m if m != 0.0 else low
                kink, j = min(max(kink, low), law.ends[k, 1]), i + 1
                while j > 0 and marks[j - 1] > kink:
                    marks[j] = marks[j - 1]
                    j -= 1
                marks[j] = kink
        for step in range(steps):
            width = 1.0 if atom >= 0 else marks[step] - low
            if width <= 0.0:
                continue
            for q in range(points):
                if atom >= 0:
                    v, weight = law.atoms[atom, 0], law.atoms[atom, 1]
                else:
                    v = low + width * law.nodes[q]
                    weight = width * law.weights[q] * _density_at(law.density, k, v)
                terms = _loss_none_on(b + m * v, a, p_target_active, law)
                total = _add_scaled(total, weight, terms)
                d_m += weight * v * terms[1]
                d_mm += weight * v * v * terms[3]
                d_bm += weight * v * terms[3]
                d_am += weight * v * terms[4]
            if atom < 0:
                low = marks[step]
    return total, (d_m, d_mm, d_bm, d_am)
