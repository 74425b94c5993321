"""Check which pair of latents is better, with fractions alone: ``python check_pair.py FILE``.

Only the standard library is used, and no code that made the file; nothing in a file is executed. To believe
a statement one has to believe Python's fractions, this file, and the bound below.

Two binary features have unit directions f_1, f_2 in the plane; `tangent` is that of half the angle between
them. They are on alone with the probabilities `alone`, together with `both`. An autoencoder of two latents
h = ReLU(W a + b) and unit atoms d_1, d_2 reads a = x_1 f_1 + x_2 f_2. Its objective is, with w the weight of
the prefix, E (1 - w) |a - h_1 d_1 - h_2 d_2|^2 + w |a - h_1 d_1|^2 + l1 (h_1 + h_2). (Atoms of other lengths
change nothing, if l1 counts h_i |d_i|.) An atom is in the cone of a feature if its cosine with it is above
`cone`. A pair of atoms is "turned" if no cone has an atom, else "along"; it is "apart" if each cone has one,
else "shared". Stated is for two values of `both`: an autoencoder of the kind `better` costs at most `upper`,
and every one of the other kind, whatever its encoder, at least `lower`, which is larger.

The cost C of each pattern a with its best h >= 0 bounds that of any encoder. Where h is best, with
H = h_1 + h_2 and R^2 the weighted squared errors, C = R^2 + l1 H and R^2 + l1 H / 2 <= R |a|; the slopes in
the two angles add up to at most 2 H R in size. By the second this is 4 R^2 (|a| - R) / l1, at most
16 |a|^3 / (27 l1); by the first 2 R (C - R^2) / l1, at most sqrt(16/27) C^(3/2) / l1, so that 1 / sqrt(C)
changes by at most sqrt(4/27) / l1. So the cost in the middle of a box of angles bounds it in the box. Boxes
are pairs of arcs (1 - t^2, 2 t) / (1 + t^2) of t in [-1, 0] or [0, 1], or their negatives, 16 at first;
`trees` say of each in turn whether it is cut in 4 or not (1 or 0).
"""

import hashlib
import json
import math
import sys
from fractions import Fraction as Q
from typing import Any

FORMAT, KIND = (
    "superposition certificate, version 1",
    "pairs of latents of one kind cost less than all others",
)
# Each kind with the one that has all other pairs.
KINDS = {"turned": "along", "along": "turned", "apart": "shared", "shared": "apart"}
MOST_DIGITS, MOST_BYTES = 60, 1_000_000

# An atom (x, y).
Vector = tuple[Q, Q]
# An arc (sign, n, k) of sign times the atoms of t in [n / 2^k, (n + 1) / 2^k].
Arc = tuple[int, int, int]
# An atom (x, y, z) of integers: (x / z, y / z).
Whole = tuple[int, int, int]
UNIT = 2**60  # costs are rounded down to multiples of its reciprocal


class Rejected(ValueError):
    """Raised with the reason if a certificate proves nothing."""


def need(holds: bool, reason: str) -> None:
    """Raise `Rejected` with a reason unless `holds`."""
    if not holds:
        raise Rejected(reason)


def fractions(content: Any, name: str, *shape: int) -> Any:
    """Return nested lists of texts like -3/7 as fractions; raise `Rejected`, naming `name`, for others."""
    if shape:
        need(type(content) is list and len(content) == shape[0], f"{name} does not have {shape[0]} entries")
        return [fractions(item, name, *shape[1:]) for item in content]
    short = type(content) is str and len(content) <= MOST_DIGITS and set(content) <= set("-/0123456789")
    need(short, f"{name} has what is no short fraction")
    try:
        value = Q(content)
    except (ValueError, ZeroDivisionError):
        raise Rejected(f"{name} has what is no fraction: {content!r}") from None
    need(str(value) == content, f"{name} has a fraction that is not in lowest terms: {content!r}")
    return value


def unit(t: Q) -> Vector:
    """Return the unit vector at the angle whose half has the tangent t."""
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def atom(sign: int, n: int, k: int) -> Whole:
    """Return sign times the unit vector of t = n / 2^k as integers."""
    return sign * (4**k - n * n), sign * (n << k + 1), 4**k + n * n


def dot(x: Vector, y: Vector) -> Q:
    """Return the inner product of two vectors."""
    return x[0] * y[0] + x[1] * y[1]


class Problem:
    """Two features and an objective: patterns with their probabilities, l1, prefix weight and cone."""

    def __init__(self, tangent: Q, alone: list[Q], both: Q, l1: Q, prefix_weight: Q, cone: Q) -> None:
        need(tangent > 0, "its tangent is not above 0")
        need(
            min(*alone, both) >= 0 and sum(alone) + both <= 1,
            "its probabilities are below 0 or sum to more than 1",
        )
        need(0 < l1 < 2 and 0 <= prefix_weight < 1, "l1 is not in (0, 2), or the prefix weight not in [0, 1)")
        need(0 < cone < 1, "its cone is not in (0, 1)")
        self.l1, self.w, self.cone = l1, prefix_weight, cone
        f, g = self.features = unit(Q(0)), unit(tangent)
        self.patterns = list(zip((*alone, both), (f, g, (f[0] + g[0], f[1] + g[1])), strict=True))
        scale = 10**12  # roots are rounded up
        roots = [Q(math.isqrt(math.ceil(dot(a, a) * scale**2)) + 1, scale) for _, a in self.patterns]
        self.slopes = [math.ceil(UNIT * 16 * root**3 / (27 * l1)) for root in roots]
        self.squares = [math.floor(UNIT * dot(a, a)) for _, a in self.patterns]
        self.root_slope = Q(77, 200) / l1  # (77/200)^2 > 4/27
        self.whole = math.lcm(*(q.denominator for q, _ in self.patterns))
        self.shares = [int(self.whole * q) for q, _ in self.patterns]
        # All numbers as integers over N.
        parts = [*g, l1 / 2, 1 - prefix_weight, cone]
        self.N = N = math.lcm(*(x.denominator for x in parts))
        x, y, self.half, self.m, self.edge = (int(N * x) for x in parts)
        self.directions = (N, 0), (x, y)
        self.sums = (N, 0), (x, y), (N + x, y)

    def gains(self, d: Whole, e: Whole) -> list[int]:
        """Return |a|^2 less the cost of each pattern a with its best activations, times UNIT, rounded up.

        `d` and `e` are both atoms, d_1 = (x, y) / z and d_2 = (s, t) / u. With the weight w of the prefix and
        the strength l1 the cost is |a|^2 - 2 b h_1 - 2 c h_2 + h_1^2 + 2 i h_1 h_2 + m h_2^2, for m = 1 - w,
        b = a d_1 - l1/2, c = m a d_2 - l1/2 and i = m d_1 d_2; its minimum is at h = m b - i c and
        k = c - i b, both over m - i^2. Here b, c, i, these two and m - i^2 are integers over N z, N^2 u,
        N z u, N^3 z u^2, N^2 z^2 u and (N z u)^2.
        """
        N, m, gains = self.N, self.m, []
        (x, y, z), (s, t, u) = d, e
        i = m * (x * s + y * t)
        left = m * N * (z * u) ** 2 - i * i
        for p, q in self.sums:
            b, c = p * x + q * y - self.half * z, m * (p * s + q * t) - self.half * N * u
            h, k = m * b * N * u * u - i * c, c * z * z - i * b
            if left > 0 and h > 0 and k > 0:
                gains.append(-(-(h * b + k * c) * UNIT // (N * N * left)))
            else:  # a convex quadratic without a minimum inside has it at the boundary
                first, second = (
                    -(-(max(b, 0) ** 2) * UNIT // (N * z) ** 2),
                    -(-(max(c, 0) ** 2) * UNIT // (N**3 * u * u * m)),
                )
                gains.append(max(first, second))
        return gains

    def objective(self, atoms: list[Vector], W: list[list[Q]], bias: list[Q]) -> Q:
        """Return the objective of an autoencoder with unit atoms."""
        (d, e), m = atoms, 1 - self.w
        rest = 1 - sum((q for q, _ in self.patterns), Q(0))
        total = Q(0)
        for q, a in (*self.patterns, (rest, (Q(0), Q(0)))):
            h, k = (max(row[0] * a[0] + row[1] * a[1] + at, Q(0)) for row, at in zip(W, bias, strict=True))
            r = a[0] - h * d[0], a[1] - h * d[1]
            s = r[0] - k * e[0], r[1] - k * e[1]
            total += q * (m * dot(s, s) + self.w * dot(r, r) + self.l1 * (h + k))
        return total

    def is_of(self, kind: str, atoms: list[Vector]) -> bool:
        """Return whether a pair of atoms is of a `kind`: "turned", "along", "apart" or "shared"."""
        has_atom = [any(dot(d, f) > self.cone for d in atoms) for f in self.features]
        if kind in ("along", "turned"):
            return any(has_atom) == (kind == "along")
        return all(has_atom) == (kind == "apart")

    def is_excluded(self, box: tuple[Arc, Arc], kind: str) -> bool:
        """Return True only if a box of pairs of angles has no pair of atoms of this `kind`.

        Without a prefix, atoms may be swapped: of two boxes that differ by a swap, one counts as excluded.
        """
        if self.w == 0 and box[0] > box[1]:
            return True
        ends = [[atom(sign, n + end, k) for end in (0, 1)] for sign, n, k in box]
        near = [
            [[p * x + q * y > self.edge * z for x, y, z in arc] for p, q in self.directions] for arc in ends
        ]
        if kind in ("turned", "shared"):
            # An arc is in a cone if its ends are, as both are less than half the circle.
            has_atom = [any(all(arc[f]) for arc in near) for f in (0, 1)]
            return any(has_atom) if kind == "turned" else all(has_atom)
        # An arc no longer than half a cone does not contain one; so it is outside where its ends are.
        if not all((x * s + y * t) * self.N >= self.edge * z * u for (x, y, z), (s, t, u) in ends):
            return False
        has_none = [not any(any(arc[f]) for arc in near) for f in (0, 1)]
        return all(has_none) if kind == "along" else any(has_none)

    def bound(self, box: tuple[Arc, Arc]) -> Q:
        """Return a lower bound of the objective of all pairs of atoms in a box."""
        d, e = (atom(sign, 2 * n + 1, k + 1) for sign, n, k in box)
        # The angle changes 2 / (1 + t^2) times as much as t, and ends are 2^-k / 2 from the middle.
        change = max(Q(2**k, 4**k + min(n * n, (n + 1) ** 2)) for _, n, k in box)
        change_top, change_bottom = (self.root_slope * change).as_integer_ratio()
        total = 0
        for share, square, slope, gain in zip(
            self.shares, self.squares, self.slopes, self.gains(d, e), strict=True
        ):
            cost = max(square - gain, 0)
            by_length = cost - math.ceil(slope * change)
            root = math.isqrt(cost * UNIT) + 1  # of the cost, times UNIT
            by_cost = cost * (change_bottom * UNIT) ** 2 // (change_bottom * UNIT + change_top * root) ** 2
            total += share * max(by_length, by_cost)
        return Q(total, self.whole * UNIT)


def roots() -> list[tuple[Arc, Arc]]:
    """Return the 16 boxes that cover all pairs of atoms."""
    quarters = [(sign, n, 0) for sign in (1, -1) for n in (-1, 0)]
    return [(first, second) for first in quarters for second in quarters]


def parts(box: tuple[Arc, Arc]) -> list[tuple[Arc, Arc]]:
    """Return the 4 boxes into which a box is cut."""
    first, second = ([(sign, 2 * n + half, k + 1) for half in (0, 1)] for sign, n, k in box)
    return [(left, right) for left in first for right in second]


def prove_lower(problem: Problem, kind: str, lower: Q, tree: Any) -> None:
    """Raise `Rejected` unless `tree` proves that all pairs of atoms of a `kind` cost at least `lower`.

    The boxes of pairs of angles in `roots` cover all pairs. `tree` has a letter for each box in turn, the
    last box first: "1" cuts the box in 4 (`parts`), "0" states that the bound holds in the box or that it has
    no pair of the kind.
    """
    need(type(tree) is str, "its tree is no text")
    boxes = roots()
    for letter in tree:
        need(len(boxes) > 0, "its tree has more boxes than it cuts")
        box = boxes.pop()
        if letter == "1":
            boxes += parts(box)
        else:
            need(letter == "0", "its tree has other letters than 0 and 1")
            is_proved = problem.is_excluded(box, kind) or problem.bound(box) >= lower
            need(is_proved, f"in a box, pairs that are {kind} may cost less than {float(lower):.9g}")
    need(not boxes, "its tree leaves boxes out")


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
        need((record["format"], statement["kind"]) == (FORMAT, KIND), "it is of another kind")
        need((len(record), len(statement), len(proof)) == (5, 10, 4), "it has other parts")
        tangent, l1, w, cone = (
            fractions(statement[name], name) for name in ("tangent", "l1", "prefix_weight", "cone")
        )
        alone, both, lower, upper = (
            fractions(statement[name], name, 2) for name in ("alone", "both", "lower", "upper")
        )
        better, trees = statement["better"], proof["trees"]
        is_pair = type(better) is list and len(better) == 2 and all(type(kind) is str for kind in better)
        need(
            is_pair and KINDS.get(better[0]) == better[1],
            "it does not name a kind, and the one of all other pairs, as better",
        )
        need(type(trees) is list and len(trees) == 2, "it does not have two trees")
        tangents, W, b = (
            fractions(proof["tangents"], "tangents", 2, 2),
            fractions(proof["W"], "W", 2, 2, 2),
            fractions(proof["b"], "b", 2, 2),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Rejected(f"it is no whole certificate of pairs of latents: {error}") from None
    sentences = []
    for k, kind in enumerate(better):
        problem = Problem(tangent, alone, both[k], l1, w, cone)
        atoms = [unit(t) for t in tangents[k]]
        value = problem.objective(atoms, W[k], b[k])
        need(problem.is_of(kind, atoms), f"its autoencoder is not {kind}")
        need(value <= upper[k], f"its autoencoder costs {float(value):.9g}, not {float(upper[k]):.9g}")
        need(upper[k] < lower[k], "its lower bound is not above the upper one")
        other = KINDS[kind]
        prove_lower(problem, other, lower[k], trees[k])
        least, most = float(lower[k]), float(upper[k])
        best, rest = (
            f"one that is {kind} costs at most {most:.12g}",
            f"each that is {other} at least {least:.12g}",
        )
        sentences.append(f"{both[k]} {best}, {rest}")
    where = f"with the cosine {unit(tangent)[0]}, alone with probability {alone[0]} and {alone[1]}"
    what = f"of autoencoders of two latents for two features {where}, l1 {l1}, prefix weight {w}"
    near = f"feature has an atom with a cosine above {cone}"
    meaning = f"apart if each {near}" if "apart" in better else f"turned if no {near}"
    return f"{what}, where both are on with probability {', with '.join(sentences)} ({meaning})."


if __name__ == "__main__":
    try:
        print("accepted:", proved(sys.argv[1])) if sys.argv[1:] else sys.exit(__doc__)
    except (Rejected, OSError) as error:
        sys.exit(f"rejected: {error}")
