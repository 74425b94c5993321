"""Check that a regular pentagon is best for five features on two neurons: ``python check_pentagon.py FILE``.

Only the standard library is used, and no code that made the file; nothing in a file is executed.
The model is ReLU(W W' x + b), W of shape (5, 2). One feature is on, any of the five alike, uniform on [0, 1].
L is the mean of the squared error summed over outputs. Stated is: L is least, and within the stated ends,
where the rows of W are a regular pentagon of one squared length and one bias within theirs, and nowhere else.
By the page problem-pentagon of the documentation this follows if, with f* = 2 pi/5, c = cos f, v = c - 1 + u,

    T(u, f) + B f >= A  for 0 < u <= 1 and 0 <= f < pi/2,  equality at (u*, f*) alone,  5 T* < 1/6,  A < 1/3,
    T(u, f) = 1/3 - u^4 (3 - u)^2 / (12 D),   D = u^3 + 2 max(v, 0)^3 / c,

where T(., f*) is critical at u*, T* its value, B = -dT/df there, A = T* + B f*, h = 4 - 12 A + 12 B f. A box
shows B f > A (T >= 0); or h (1 + 2 max(v/u, 0)^3 / c) > u (3 - u)^2 (sides increase in h, c, u); or, in one
rectangle around (u*, f*), v > 0 and that 12 c D (T + B f - A) = h P - c u^4 (3 - u)^2 is strictly convex.
"""

import functools
import hashlib
import json
import sys
from fractions import Fraction as Q
from math import factorial
from typing import Any

FORMAT = "superposition certificate, version 1"
KIND = "the regular pentagon alone has the least loss on one active feature"
TOP, UNIT, MOST_BYTES = Q(3, 2), 2**60, 1_000_000


class Rejected(ValueError):
    """Raised with the reason if a certificate proves nothing."""


def need(holds: bool, reason: str) -> None:
    """Raise `Rejected` with a reason unless `holds`."""
    if not holds:
        raise Rejected(reason)


class Interval:
    """All numbers between two multiples of 1/UNIT, lo/UNIT and hi/UNIT."""

    def __init__(self, lo: Any, hi: Any, scale: int = 1) -> None:
        self.lo, self.hi = int(lo * scale // 1), int(-(-hi * scale // 1))

    def __add__(self, other: Any) -> "Interval":
        other = other if isinstance(other, Interval) else Interval(other, other, UNIT)
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def __mul__(self, other: Any) -> "Interval":
        other = other if isinstance(other, Interval) else Interval(other, other, UNIT)
        ends = [x * y for x in (self.lo, self.hi) for y in (other.lo, other.hi)]
        return Interval(min(ends) // UNIT, -(-max(ends) // UNIT))

    __radd__, __rmul__ = __add__, __mul__


@functools.cache
def cos_and_sin(f0: Q, f1: Q) -> tuple[Interval, Interval]:
    """Return intervals that enclose cos and sin on [f0, f1], within [0, 3/2], by their series."""
    terms = [[(-1) ** (k // 2) * x**k / factorial(k) for k in range(24)] for x in (f0, f1)]
    low, high = [[sorted((sum(y[at::2]), sum(y[at:22:2]))) for at in (0, 1)] for y in terms]
    return Interval(high[0][0], low[0][1], UNIT), Interval(low[1][0], high[1][1], UNIT)


def pentagon_values(u0: Q, u1: Q) -> list[Interval]:
    """Return f*, u*, T*, squared length, bias, A, B, defined at the head of this file; u0 < u* < u1."""
    f0, f1 = Q(31415926535897932, 10**16) * 2 / 5, Q(31415926535897933, 10**16) * 2 / 5
    (c, s), u, f = cos_and_sin(f0, f1), Interval(u0, u1, UNIT), Interval(f0, f1, UNIT)
    for end, sign in ((u0, 1), (u1, -1)):  # dT/du has the sign of -slope
        v = c + (end - 1)
        P, P_u = end**3 * c + 2 * v * v * v, 3 * end**2 * c + 6 * v * v
        slope = (12 - 6 * end) * P + -end * (3 - end) * P_u
        need(v.lo > 0 and (sign * slope).lo > 0, "nothing shows that T is critical between the ends")
    v, square = c + u + -1, u * u * (3 + -1 * u)
    P = c * u * u * u + 2 * v * v * v
    over = Interval(Q(UNIT, P.hi), Q(UNIT, P.lo), UNIT)
    T = Q(1, 3) + Q(-1, 12) * c * square * square * over
    B = Q(1, 6) * s * square * square * v * v * (3 * c + -1 * v) * over * over
    a = Q(1, 2) * c * square * over
    return [f, u, T, a, (u + -1) * a, T + B * f, B]


def is_convex(u: Interval, c: Interval, s: Interval, h: Interval, slope: Interval) -> bool:
    """Return whether 12 c D (T + B f - A) of the file's head is convex on a box; s = sin f, slope = dh/df."""
    v, w, square = c + u + -1, 3 + -1 * u, u * u
    P_c, P_cu = square * u + 6 * v * v, 3 * square + 12 * v  # derivatives of P; those of c are -s and -c
    uu = h * (6 * c * u + 12 * v) + -1 * c * square * (108 + -120 * u + 30 * square)
    uf = slope * (3 * c * square + 6 * v * v) + s * (square * u * (36 + -30 * u + 6 * square) + -1 * h * P_cu)
    ff = h * (12 * s * s * v + -1 * c * P_c) + -2 * slope * s * P_c + c * square * square * w * w
    return v.lo > 0 and uu.lo > 0 and ff.lo > 0 and uu.lo * ff.lo > max(-uf.lo, uf.hi) ** 2


def proof_holds(u0: Q, u1: Q, f0: Q, f1: Q, region: Any, A: Interval, B: Interval) -> bool:
    """Return whether a box proves T + B f > A of the file's head, or, in `region`, its convexity."""
    (c, s), h = cos_and_sin(f0, f1), 4 + -12 * A + 12 * B * Interval(f0, f1, UNIT)
    (low_f, high_f), (low_u, high_u), *_ = region
    if low_u <= u0 and u1 <= high_u and low_f <= f0 and f1 <= high_f:
        return is_convex(Interval(u0, u1, UNIT), c, s, h, 12 * B)
    is_disjoint = u1 <= low_u or high_u <= u0 or f1 <= low_f or high_f <= f0
    v = max(Q(c.lo, UNIT) - 1 + u0, Q(0))
    least = Q(h.lo, UNIT) * (1 + (Q(2 * UNIT, c.lo) * (v / u0) ** 3 if v else 0))
    return is_disjoint and least > u1 * (3 - u1) ** 2


def ends_of(content: Any) -> list[Q]:
    """Return the two ends of an interval, texts like -3/7 or 2, sorted; raise `Rejected` if they are none."""
    need(type(content) is list and len(content) == 2, "an interval has other than two ends")
    need(all(set(x) <= set("-/0123456789") for x in content), "an end of an interval is no fraction")
    return sorted(map(Q, content))


def proved(path: Any) -> str:
    """Return the statement that a certificate proves, in words; raise `Rejected` if it proves nothing."""
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    try:
        record = json.loads(content.decode("ascii"))
        del record["sha256"]
        record["sha256"] = hashlib.sha256(json.dumps(record, sort_keys=True, indent=1).encode()).hexdigest()
        need(content == (json.dumps(record, sort_keys=True, indent=1) + "\n").encode(), "it was changed")
        statement, proof = record["statement"], record["proof"]
        parts = (
            record["format"],
            statement["kind"],
            type(proof["boxes"]),
            len(record),
            len(statement),
            len(proof),
        )
        need(parts == (FORMAT, KIND, str, 5, 4, 4), "it is of another kind, or has other parts")
        claims = [ends_of({**statement, **proof}[x]) for x in ("f", "u", "loss", "squared_length", "bias")]
        *values, A, B = pentagon_values(*ends_of(proof["critical"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise Rejected(f"it is no whole certificate of the pentagon (check.py has others): {error}") from None
    near = all(lo * UNIT < x.lo and x.hi < hi * UNIT for (lo, hi), x in zip(claims, values, strict=True))
    small = 3 * A.hi < UNIT and A.hi < TOP * B.lo and 30 * values[2].hi < UNIT and values[4].hi < 0 < B.lo
    need(near and small, "a value is not within the stated ends, or not as the proof needs it")
    boxes = [(Q(0), Q(1), Q(0), TOP)]
    for mark in proof["boxes"]:  # 0 is a box; u and f mean that one is halved, and its lower half comes next
        need(0 < len(boxes) < 99 and mark in ("0", "u", "f"), "boxes are too many, too fine or of no mark")
        u0, u1, f0, f1 = boxes.pop()
        if mark == "u":
            boxes += [((u0 + u1) / 2, u1, f0, f1), (u0, (u0 + u1) / 2, f0, f1)]
        elif mark == "f":
            boxes += [(u0, u1, (f0 + f1) / 2, f1), (u0, u1, f0, (f0 + f1) / 2)]
        elif B.lo * f0 <= A.hi:
            need(proof_holds(u0, u1, f0, f1, claims, A, B), f"nothing is shown near u = {u0}, f = {f0}")
    need(not boxes, "boxes are missing")
    return f"{KIND}, which is {float(claims[2][0]):.12g} to {float(claims[2][1]):.12g}."


if __name__ == "__main__":
    try:
        print("accepted:", proved(sys.argv[1])) if sys.argv[1:] else sys.exit(__doc__)
    except (Rejected, OSError) as error:
        sys.exit(f"rejected: {error}")
