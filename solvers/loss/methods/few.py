r"""Kernels of the exact loss where at most one other feature disturbs an output ReLU(a x + b + nu).

These patterns of on and off are the atom of the interference nu and the jumps of its density. With g(t) =
E (x - ReLU(a x + t))^2 they add g(b) and the means of g(b + m_j v) over the value v of feature j. For values
that are uniform on [0, 1] or [-1, 1], g is piecewise cubic in t: Gauss points between the breakpoints give
the means exactly. A value that is uniform on [-1, 1] is a sign, plus or minus, times one on [0, 1].
"""

import numpy as np

from ....theory.kernels import kernel
from ....theory.special import VALUES

__all__ = ["BINARY", "SYMMETRIC", "UNIFORM", "known", "one_on", "pointwise"]

Six = tuple[float, float, float, float, float, float]

# Laws of values with bounds, as numbered in `theory.special`.
UNIFORM, BINARY, SYMMETRIC = VALUES.index("uniform"), VALUES.index("binary"), VALUES.index("symmetric")

# Gauss-Legendre nodes and weights on [0, 1]. Three points are exact up to degree 5, which occurs.
NODES = np.array([0.5 - np.sqrt(0.15), 0.5, 0.5 + np.sqrt(0.15)])
WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0


@kernel
def known(kind: int) -> None:
    """Refuse laws that these kernels do not have, which would pass for uniform ones."""
    if kind != UNIFORM and kind != BINARY and kind != SYMMETRIC:
        raise ValueError("`kind` must be the number of a law of values with bounds.")


@kernel
def _add(u: Six, weight: float, v: Six) -> Six:
    return (
        u[0] + weight * v[0],
        u[1] + weight * v[1],
        u[2] + weight * v[2],
        u[3] + weight * v[3],
        u[4] + weight * v[4],
        u[5] + weight * v[5],
    )


@kernel
def _off(t: float) -> Six:
    """Return ReLU(t)^2 and its derivatives by t, a, tt, ta, aa."""
    ramp = max(t, 0.0)
    return ramp * ramp, 2.0 * ramp, 0.0, 2.0 if t > 0.0 else 0.0, 0.0, 0.0


@kernel
def _point(a: float, t: float) -> Six:
    """Return (1 - ReLU(a + t))^2 and its derivatives by t, a, tt, ta, aa."""
    y = a + t
    error, step = 1.0 - max(y, 0.0), 2.0 if y > 0.0 else 1.0 if y == 0.0 else 0.0
    return error * error, -error * step, -error * step, step, step, step


@kernel
def _spread(a: float, t: float, sign: float) -> Six:
    """Return E (x - ReLU(a x + t))^2, x = sign * u and u uniform on [0, 1], and its derivatives.

    Those of an output that is 0 are the mean of on and off.

    The loss itself is a sum of squares, exact by two Gauss points.
    """
    slope = sign * a
    low, high, root, edge = 0.0, 0.0, 0.0, 0.0  # the u that make slope u + t positive; u^r delta(slope u + t)
    if slope > 0.0:
        low, high = min(max(-t / slope, 0.0), 1.0), 1.0
    elif slope < 0.0:
        high = min(max(-t / slope, 0.0), 1.0)
    elif t > 0.0:
        high = 1.0
    if slope != 0.0 and 0.0 < -t / slope < 1.0:
        root, edge = -t / slope, 1.0 / abs(slope)
    value = (low**3 + (1.0 - high) * (1.0 + high + high * high)) / 3.0
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    node = half / np.sqrt(3.0)
    left = (1.0 - a) * (middle - node) - sign * t
    right = (1.0 - a) * (middle + node) - sign * t
    value += half * (left * left + right * right)
    m0, m1, m2 = high - low, (high**2 - low**2) / 2.0, (high**3 - low**3) / 3.0
    if slope == 0.0 and t == 0.0:  # half on
        m0, m1, m2 = 0.5, 0.25, 1.0 / 6.0
    return (
        value,
        2.0 * (sign * (a - 1.0) * m1 + t * m0),
        2.0 * ((a - 1.0) * m2 + sign * t * m1),
        2.0 * (m0 - sign * root * edge),
        2.0 * (sign * m1 - root**2 * edge),
        2.0 * (m2 - sign * root**3 * edge),
    )


@kernel
def pointwise(t: float, a: float, own: float, kind: int) -> Six:
    """Return g(t) = E (x - ReLU(a x + t))^2 and its derivatives by t, a, tt, ta, aa.

    x is on with probability `own`; 1 and 0 are allowed.
    """
    total = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if own < 1.0:
        total = _add(total, 1.0 - own, _off(t))
    if own > 0.0:
        if kind == BINARY:
            total = _add(total, own, _point(a, t))
        elif kind == SYMMETRIC:
            total = _add(total, 0.5 * own, _spread(a, t, 1.0))
            total = _add(total, 0.5 * own, _spread(a, t, -1.0))
        else:
            total = _add(total, own, _spread(a, t, 1.0))
    return total


@kernel
def one_on(
    b: float, m: float, a: float, own: float, kind: int
) -> tuple[Six, tuple[float, float, float, float]]:
    """Return the means of `pointwise` at t = b + m v, and those of v g', v² g'', v g'' and v g'_a.

    The last four are the derivatives of the first mean by m, mm, bm and am.
    """
    whole = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    d_m, d_mm, d_bm, d_am = 0.0, 0.0, 0.0, 0.0
    if kind == BINARY:
        whole = pointwise(b + m, a, own, kind)
        return whole, (whole[1], whole[3], whole[3], whole[4])
    signs, share = (2, 0.5) if kind == SYMMETRIC else (1, 1.0)
    for k in range(signs):
        slope = m if k == 0 else -m
        # breakpoints: y = 0 where x = 0, x = 1 and, for symmetric values, x = -1
        first = min(max(-b / slope, 0.0), 1.0) if slope != 0.0 else 0.0
        second = min(max(-(a + b) / slope, 0.0), 1.0) if slope != 0.0 else 0.0
        third = min(max((a - b) / slope, 0.0), 1.0) if slope != 0.0 and signs == 2 else 0.0
        low, high = min(first, second, third), max(first, second, third)
        ends = (0.0, low, first + second + third - low - high, high, 1.0)
        for piece in range(4):
            width = ends[piece + 1] - ends[piece]
            if width <= 0.0:
                continue
            for q in range(3):
                v = ends[piece] + width * NODES[q]
                weight = share * width * WEIGHTS[q]
                here = pointwise(b + slope * v, a, own, kind)
                whole = _add(whole, weight, here)
                signed = v if k == 0 else -v
                d_m += weight * signed * here[1]
                d_mm += weight * v * v * here[3]
                d_bm += weight * signed * here[3]
                d_am += weight * signed * here[4]
    return whole, (d_m, d_mm, d_bm, d_am)
