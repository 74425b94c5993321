"""Maker of the certificate that the regular pentagon is best for one active feature."""

import math
from fractions import Fraction
from pathlib import Path

from scipy.optimize import brentq

from ....theory.annotations import as_annotated
from .check_pentagon import KIND
from .make import save

__all__ = ["pentagon_certificate"]

# Around the minimum at u = 0.794 and the angle 1.257: here 12 c D (T + B f - A) is strictly convex. The
# ends are met by halving [0, 1] and [0, 3/2].
REGION = [Fraction(49, 64), Fraction(7, 8), Fraction(39, 32), Fraction(165, 128)]
FINEST = Fraction(1, 512)  # side along u of boxes in there


@as_annotated
def pentagon_certificate(*, path: str | Path) -> float:
    """Write the certificate that a regular pentagon is best for five features on two neurons (MAIS-O42).

    Exactly one of the five features is on, each with the same probability, uniform on [0, 1]. The file `path`
    holds bounds of the only critical point and a tree of boxes, in which the loss of two neighbours is
    bounded from below, as ``check_pentagon.py`` explains. Both are found in floats, and then checked. Return
    the least loss: squared error summed over the five outputs, to 1e-12.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # some seconds, most of them for the check
    ...     round(pentagon_certificate(path=folder + "/pentagon.json"), 10)
    0.0158256271
    """
    angle = 2 * math.pi / 5
    c = math.cos(angle)
    u = float(brentq(lambda u: _slope(u, c), 0.75, 0.9, xtol=1e-15))
    v = c - 1 + u
    P, square = c * u**3 + 2 * v**3, u**2 * (3 - u)
    T = 1 / 3 - c * square**2 / (12 * P)
    B = square**2 * math.sin(angle) * v**2 * (3 * c - v) / (6 * P**2)
    a = c * square / (2 * P)
    boxes = _box_tree((Fraction(0), Fraction(1), Fraction(0), Fraction(3, 2)), T + B * angle, B)
    proof = {"boxes": boxes, "critical": _fractions_around(u, 10**14), "f": REGION[2:], "u": REGION[:2]}
    statement = {
        "kind": KIND,
        "bias": _fractions_around((u - 1) * a, 10**12),
        "loss": _fractions_around(T, 10**12),
        "squared_length": _fractions_around(a, 10**12),
    }
    save(path, "pentagon_certificate", statement, proof)
    return T


def _slope(u: float, c: float) -> float:
    """Return a positive multiple of -dT/du at u, with c the cosine of the angle between neighbours.

    T is the loss of two neighbours at the angle 2 pi/5 with biases (u - 1) times their squared length, at the
    best length: T = 1/3 - u^4 (3 - u)^2 / (12 D), D = u^3 + 2 v^3 / c, v = c - 1 + u > 0.
    """
    v = c - 1 + u
    return (12 - 6 * u) * (c * u**3 + 2 * v**3) - u * (3 - u) * (3 * c * u**2 + 6 * v**2)


def _fractions_around(value: float, denominator: int) -> list[Fraction]:
    """Return two fractions of this denominator, below and above a value."""
    return [Fraction(round(value * denominator) + k, denominator) for k in (-1, 1)]


def _box_tree(box: tuple[Fraction, ...], A: float, B: float, along_angle: bool = True) -> str:
    """Return a tree of boxes as text: "0" is a box; "u" or "f", then two subtrees, is a box halved in it.

    `box` is (u0, u1, f0, f1), ranges of u = 1 + bias / (squared length) and of the angle f between two
    neighbours. It is halved, first in f if `along_angle`, until a box inside `REGION`, around the pentagon,
    is small, or T(u, f) + B f > A holds on a box outside. T is the loss of the two neighbours at the best
    squared length, and A - B f its tangent in f at the pentagon (f = 2 pi/5).
    """
    u0, u1, f0, f1 = box
    if REGION[0] <= u0 and u1 <= REGION[1] and REGION[2] <= f0 and f1 <= REGION[3]:
        done = u1 - u0 <= FINEST
    else:
        is_outside = u1 <= REGION[0] or REGION[1] <= u0 or f1 <= REGION[2] or REGION[3] <= f0
        c, h = math.cos(f1), 4 - 12 * A + 12 * B * f0
        lift = 2 * max(1 - (1 - c) / u0, 0) ** 3 / c if u0 else 0
        done = B * f0 > A + 1e-9 or (is_outside and h * (1 + lift) > u1 * (3 - u1) ** 2 + 1e-9)
    if done:
        return "0"
    if along_angle:
        middle = (f0 + f1) / 2
        halves, mark = ((u0, u1, f0, middle), (u0, u1, middle, f1)), "f"
    else:
        middle = (u0 + u1) / 2
        halves, mark = ((u0, middle, f0, f1), (middle, u1, f0, f1)), "u"
    return mark + "".join(_box_tree(half, A, B, not along_angle) for half in halves)
