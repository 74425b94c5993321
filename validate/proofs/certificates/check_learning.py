"""Check the local learning coefficient of a minimum, in intervals: ``python check_learning.py FILE``.

Only the standard library is used. To believe a statement one has to believe Python's integers, this file, and
the theorem below.

The model is ReLU(W_out W_in x + b). Features x_i are uniform on [low, 1] where they are on, low = 0 or -1,
and on independently with probabilities p, or one at a time. The loss L is the sum over i of
importance_i E (x_i - y_i)^2. Parameters are (W_out, W_in, b), or (W, b) if tied: W_in is then W' and W_out
is W.

Theorem. Take a box around a point c with half sides `radius`, and d parameters, some of them fixed. Let

(1) the gradient of L be Lipschitz in the box, and almost all its Hessians, without the rows and columns of
    fixed parameters, be at least mu > 0;
(2) the gradient at c, without its fixed entries, be shorter than mu radius;
(3) L be constant along group orbits, and along parameters that nothing depends on, whose directions have full
    rank in the fixed entries, in the whole box.

Then the box holds a local minimum. Its local learning coefficient is (d - number of fixed parameters) / 2,
with multiplicity 1. Proof: with fixed entries as at c, L is strongly convex, and by (2) its minimum lies
inside. By (3) each point near is moved, smoothly, to one with these entries, and L stays. So {L <= min + eps}
has a volume between multiples of eps to that power.

Means are those of F_k(y) = max(y, 0)^k / k!: by parts, x^a F_k(y + w x) over [low, 1] has the integral
([x^a F[k+1](y + w x)] - a times the integral of x^(a-1) F[k+1](y + w x)) / w. The derivatives of
E (x_i - ReLU(z))^2 by u_j are 2 E x_j F_1 - 2 E x_i x_j F_0, with x_n = 1 for the bias, and the second ones
2 E x_j x_k F_0 - 2 E x_i x_j x_k F[-1], where F[-1] is the density at z = 0. Where z may be 0 with a positive
probability, F_0 is taken as 0: what that leaves out of the Hessian is positive semidefinite.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import factorial
from typing import Any

FORMAT, KIND = "superposition certificate, version 1", "the local learning coefficient of a minimum"
MOST_FEATURES, MOST_DIGITS, MOST_BYTES = 10, 200, 1_000_000
BITS = 512
UNIT = 1 << BITS


class Rejected(ValueError):
    """Raised with the reason if a certificate proves nothing."""


def need(holds: bool, reason: str) -> None:
    """Raise `Rejected` with a reason unless `holds`."""
    if not holds:
        raise Rejected(reason)


class Interval:
    """An interval of numbers between low and high, both over 2^BITS, rounded outwards."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: "Interval") -> "Interval":
        ends = self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high
        return Interval(min(ends) >> BITS, -(-max(ends) >> BITS))

    def __truediv__(self, other: "Interval") -> "Interval":
        need(other.low > 0 or other.high < 0, "a number that divides may be 0")
        ends = [(x << BITS, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(x // y for x, y in ends), max(-(-x // y) for x, y in ends))

    def ramp(self, k: int) -> "Interval":
        """Return the interval of F_k(y) = max(y, 0)^k / k! for y in this interval; k is at least 1."""
        power = Interval(max(self.low, 0), max(self.high, 0))
        total = power
        for _ in range(k - 1):
            total = total * power
        return Interval(total.low // factorial(k), -(-total.high // factorial(k)))


def exact(q: Fraction | int) -> Interval:
    """Return the least interval that contains a number."""
    over = Fraction(q) * UNIT
    return Interval(over.numerator // over.denominator, -(-over.numerator // over.denominator))


NONE, TINY = Interval(0, 0), UNIT // 10**20
Mean = Callable[[int, tuple[int, ...]], Interval]


def independent(row: Sequence[Interval], b: Interval, p: Sequence[Fraction], low: int) -> Mean:
    """Return a function of (k, powers a) whose interval contains E x^a F_k(row . x + b).

    F_k(y) = max(y, 0)^k / k!; features x are on independently with probabilities p, then uniform on [low, 1].
    """
    chance, rest_chance = [exact(q) for q in p], [exact(1 - q) for q in p]
    cache: dict[Any, Interval] = {}

    def mean(k: int, y: Interval, path: tuple[int, ...], powers: tuple[int, ...]) -> Interval:
        """Return E x^powers F_k(y + w x) over the first features, as many as `powers` has.

        F_k(y) = max(y, 0)^k / k!. `path` tells which case each later feature is in: off, on, or at an end of
        its range.
        """
        key = k, path, powers
        if key not in cache:
            cache[key] = leaf(k, y, path) if not powers else last_feature(k, y, path, powers)
        return cache[key]

    def leaf(k: int, y: Interval, path: tuple[int, ...]) -> Interval:
        """Return F_k(y), no feature being left to average; raise `Rejected` at a kink where values end.

        F_k(y) = max(y, 0)^k / k!. `path` has the cases of the features, as for `mean`.
        """
        if k > 0:
            return y.ramp(k)
        at_zero = y.low <= 0 <= y.high
        # F_0 of a mean of F_-1: at an end of the values of one feature; else z is 0 with a probability.
        need(not at_zero or (k == 0 and 3 not in path), "a pre-activation is at a kink where values end")
        return exact(1) if k == 0 and y.low > 0 else NONE

    def last_feature(k: int, y: Interval, path: tuple[int, ...], powers: tuple[int, ...]) -> Interval:
        """Return E x^powers F_k(y + w x) over the first features, one for each power; the last is on or off.

        `path` has the cases of the features behind it, as for `mean`.
        """
        w, a, rest, at = row[len(powers) - 1], powers[-1], powers[:-1], len(powers) - 1
        off = rest_chance[at] * mean(k, y, (*path, 0), rest) if a == 0 else NONE
        if max(-w.low, w.high) < TINY:  # w x lies in an interval, and so does what it moves
            moved = Interval(min(y.low, y.low + w.low, y.low - w.high * -low), 0)
            moved.high = max(y.high, y.high + w.high, y.high - w.low * -low)
            value = mean(k, moved, (*path, 1), rest)
            spread = Interval(value.low - value.high, value.high - value.low)
            on = exact(Fraction(1 - low ** (a + 1), (a + 1) * (1 - low))) * value + spread
        else:
            on = by_parts(k, a, y, w, path, rest)
        return off + chance[at] * on

    def by_parts(
        k: int, a: int, y: Interval, w: Interval, path: tuple[int, ...], rest: tuple[int, ...]
    ) -> Interval:
        """Return the mean of x^a F_k(y + w x) over a feature x that is on, and over those before it.

        F_k(y) = max(y, 0)^k / k!. `rest` has the powers of the features before it, `path` the cases of those
        behind it.
        """
        mark = 3 if k < 0 else 2  # a place where F_0 stands for a density
        total = mean(k + 1, y + w, (*path, mark, 1), rest)
        if low or a == 0:
            end = mean(k + 1, y + w * exact(low), (*path, mark, 0), rest)
            total = total - end * exact(low**a)
        if a:
            total = total - by_parts(k + 1, a - 1, y, w, path, rest) * exact(a * (1 - low))
        return total / (w * exact(1 - low))

    return lambda k, powers: mean(k, b, (), powers)


def one_at_a_time(row: Sequence[Interval], b: Interval, p: Sequence[Fraction], low: int) -> Mean:
    """Return a function of (k, powers a) whose interval contains E x^a F_k(row . x + b).

    F_k(y) = max(y, 0)^k / k!; exactly one feature is on, feature j with probability p_j, uniform on [low, 1].
    """
    means = [independent([w], b, [Fraction(1)], low) for w in row]

    def mean(k: int, powers: tuple[int, ...]) -> Interval:
        """Return E x^powers F_k(row . x + b), for a product of features, x^powers; 0 if it has several."""
        total = NONE
        for j, q in enumerate(p):
            if powers[j] == sum(powers):
                total = total + exact(q) * means[j](k, (powers[j],))
        return total

    return mean


def dot(xs: Sequence[Interval], ys: Sequence[Interval]) -> Interval:
    """Return the scalar product of two vectors of intervals."""
    total = NONE
    for x, y in zip(xs, ys, strict=True):
        if x is not NONE and y is not NONE:
            total = total + x * y
    return total


class Model:
    """A box of a model's parameters, with the gradient and Hessian of its loss as intervals."""

    def __init__(self, statement: dict[str, Any], law: dict[str, Any], radius: Fraction) -> None:
        n, m = self.n, self.m = int(statement["n"]), int(statement["m"])
        self.tied, self.law = bool(statement["tied"]), law
        side = exact(radius).high
        box = [Interval(x.low - side, x.high + side) for x in map(exact, statement["at"])]
        self.d = len(box)
        self.W_out = [box[i * m : i * m + m] for i in range(n)]
        flat = [box[i * m + a] for a in range(m) for i in range(n)] if self.tied else box[n * m : 2 * n * m]
        self.W_in = [flat[a * n : a * n + n] for a in range(m)]
        self.b = box[-n:]
        self.M = [[dot(row, [u[j] for u in self.W_in]) for j in range(n)] for row in self.W_out]

    def decoder(self, i: int, a: int) -> int:
        """Return the index of the parameter W_out[i, a]."""
        return i * self.m + a

    def encoder(self, a: int, j: int) -> int:
        """Return the index of the parameter W_in[a, j]."""
        return j * self.m + a if self.tied else self.n * self.m + a * self.n + j

    def rows(self, second: bool) -> Any:
        """Return the derivatives of each output's error by (M_i, b_i), or if `second` the second derivatives.

        M_i is row i of W_out W_in, b_i the bias. The error of output i is its importance times its mean
        squared error.
        """
        n = self.n
        mean_of = one_at_a_time if self.law["one"] else independent
        derivatives: list[Any] = []
        for i in range(n):
            E = mean_of(self.M[i], self.b[i], self.law["p"], self.law["low"])
            double = exact(2 * self.law["importance"][i])

            def powers(*indices: int) -> tuple[int, ...]:
                """Return how often each feature is among `indices`: the exponents of their product."""
                return tuple(indices.count(j) for j in range(n))

            if second:
                H: list[list[Interval]] = [[NONE] * (n + 1) for _ in range(n + 1)]
                for j in range(n + 1):
                    for k in range(j + 1):
                        H[j][k] = H[k][j] = double * (E(0, powers(j, k)) - E(-1, powers(i, j, k)))
                derivatives.append(H)
            else:
                derivatives.append([double * (E(1, powers(j)) - E(0, powers(i, j))) for j in range(n + 1)])
        return derivatives

    def steps(self, i: int) -> list[list[tuple[int, Interval]]]:
        """Return for each entry of row i of (W_out W_in, b) its derivatives, (index of parameter, value)."""
        n, m = self.n, self.m
        steps: list[list[tuple[int, Interval]]] = []
        for j in range(n):
            pairs = [(self.decoder(i, a), self.W_in[a][j]) for a in range(m)]
            steps.append(pairs + [(self.encoder(a, j), self.W_out[i][a]) for a in range(m)])
        return [*steps, [(self.d - n + i, exact(1))]]

    def gradient(self) -> list[Interval]:
        """Return intervals that contain the derivatives of the loss by the parameters, (d,)."""
        total = [NONE] * self.d
        for i, row in enumerate(self.rows(False)):
            for g, pairs in zip(row, self.steps(i), strict=True):
                for at, step in pairs:
                    total[at] = total[at] + g * step
        return total

    def hessian(self) -> list[list[Interval]]:
        """Return intervals that contain the second derivatives of the loss by the parameters, (d, d)."""
        H = [[NONE] * self.d for _ in range(self.d)]
        gradients = self.rows(False)
        for i, of_row in enumerate(self.rows(True)):
            steps = self.steps(i)
            # First the product with the steps from one side, then from the other.
            half = [[NONE] * self.d for _ in range(self.n + 1)]
            for j in range(self.n + 1):
                for k in range(self.n + 1):
                    for at, step in steps[k]:
                        half[j][at] = half[j][at] + of_row[j][k] * step
            for j in range(self.n + 1):
                for at, step in steps[j]:
                    H[at] = [x if y is NONE else x + step * y for x, y in zip(H[at], half[j], strict=True)]
            for j in range(self.n):
                for a in range(self.m):
                    row, column = self.decoder(i, a), self.encoder(a, j)
                    H[row][column] = H[row][column] + gradients[i][j]
                    H[column][row] = H[column][row] + gradients[i][j]
        return H

    def unused(self) -> set[int]:
        """Return the indices of parameters without effect on the loss: those of outputs that stay off."""
        n, m, low = self.n, self.m, self.law["low"]
        rises = [[max(0, w.high, w.low * low) for w in row] for row in self.M]
        if not self.law["one"]:
            rises = [[sum(row)] * n for row in rises]
        active = [[self.b[i].high + rise >= 0 for rise in rises[i]] for i in range(n)]
        column = [any(row[j] for row in active) for j in range(n)]
        off = {i for i in range(n) if not any(active[i])}
        free = {self.d - n + i for i in off}
        free |= {self.decoder(i, a) for i in off for a in range(m) if not (self.tied and column[i])}
        if not self.tied:
            free |= {self.encoder(a, j) for j in range(n) if not column[j] for a in range(m)}
        return free

    def turns(self) -> list[list[Interval]]:
        """Return directions of the parameters along which rotations (untied: linear maps) of neurons act."""
        directions = []
        for a in range(self.m):
            for c in range(a if self.tied else self.m):
                direction = [NONE] * self.d
                for i in range(self.n):
                    direction[self.decoder(i, c)] = self.W_out[i][a]
                    back = direction[self.encoder(a, i)]
                    direction[self.encoder(a, i)] = back - self.W_in[c][i]
                directions.append(direction)
        return directions


def positive_definite(A: list[list[Interval]]) -> bool:
    """Return whether elimination proves that all symmetric matrices in A are positive definite."""
    A = [list(row) for row in A]
    for k in range(len(A)):
        if A[k][k].low <= 0:
            return False
        for i in range(k + 1, len(A)):
            factor = A[i][k] / A[k][k]
            for j in range(k + 1, i + 1):
                A[i][j] = A[j][i] = A[i][j] - factor * A[k][j]
    return True


def full_rank(rows: list[list[Interval]]) -> bool:
    """Return whether elimination proves that the rows of all matrices in `rows` are independent."""
    rows = [list(row) for row in rows]
    for k, row in enumerate(rows):
        sizes = [max(x.low, -x.high) for x in row]
        pivot = max(range(len(row)), key=sizes.__getitem__) if row else 0
        if not row or sizes[pivot] <= 0:
            return False
        for other in rows[k + 1 :]:
            factor = other[pivot] / row[pivot]
            for j, x in enumerate(row):
                other[j] = NONE if j == pivot else other[j] - factor * x
    return True


def fractions(content: Any, name: str, count: int) -> list[Fraction]:
    """Return a list of `count` texts like -3/7 as fractions; raise `Rejected`, naming `name`, for others."""
    need(type(content) is list and len(content) == count, f"{name} does not have {count} entries")
    values = []
    for text in content:
        short = type(text) is str and len(text) <= MOST_DIGITS and set(text) <= set("-/0123456789")
        need(short, f"{name} has what is no short fraction")
        try:
            values.append(Fraction(text))
        except (ValueError, ZeroDivisionError):
            raise Rejected(f"{name} has what is no fraction: {text!r}") from None
        need(str(values[-1]) == text, f"{name} has a fraction that is not in lowest terms: {text!r}")
    return values


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
        need((len(record), len(statement), len(proof)) == (5, 12, 2), "it has other parts")
        n, m, tied, is_single = (
            statement[name] for name in ("n_features", "n_hidden", "tied", "one_at_a_time")
        )
        need(type(n) is int and type(m) is int and 1 <= m <= n <= MOST_FEATURES, "its sizes are not allowed")
        is_known = type(tied) is bool and type(is_single) is bool and statement["low"] in ("0", "-1")
        need(is_known, "its law is not known")
        d = n * m * (1 if tied else 2) + n
        law = {"one": is_single, "low": int(statement["low"])}
        law |= {name: fractions(statement[name], name, n) for name in ("p", "importance")}
        at, k = fractions(statement["parameters"], "parameters", d), statement["codimension"]
        coefficient, radius = fractions([statement["coefficient"], statement["radius"]], "the statement", 2)
        (mu,), fixed = fractions([proof["mu"]], "mu", 1), proof["fixed"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Rejected(f"it is no whole certificate of a learning coefficient: {error}") from None
    total = sum(law["p"]) if is_single else 1
    need(min(law["p"]) > 0 and max(law["p"]) <= 1 and total == 1, "p is no probability")
    need(min(law["importance"]) >= 0 and radius > 0 and mu > 0, "a number that must be positive is not")
    is_list = type(fixed) is list and all(type(x) is int and 0 <= x < d for x in fixed)
    need(is_list and sorted(set(fixed)) == fixed, "`fixed` is no list of parameters in order")
    need(k == d - len(fixed), f"the codimension is {d - len(fixed)}, not {k}")
    need(coefficient == Fraction(k, 2), f"the coefficient is {Fraction(k, 2)}, not {coefficient}")
    model = {"n": n, "m": m, "tied": tied, "at": at}
    box, moving = Model(model, law, radius), [j for j in range(d) if j not in set(fixed)]
    unused = box.unused()
    need(unused <= set(fixed), "a parameter that nothing depends on is not fixed")
    others = [j for j in fixed if j not in unused]
    moves = [[turn[j] for turn in box.turns()] for j in others]
    need(full_rank(moves), "the symmetries do not move all that is fixed")
    slope = Model(model, law, Fraction(0)).gradient()
    square = sum(max(-slope[j].low, slope[j].high) ** 2 for j in moving)
    need(Fraction(square, UNIT**2) < (mu * radius) ** 2, "the gradient is too large for a minimum in the box")
    H = box.hessian()
    block = [[H[i][j] - (exact(mu) if i == j else NONE) for j in moving] for i in moving]
    need(positive_definite(block), f"the Hessian is not above {float(mu):.3g} across the flat dimensions")
    kind, times = "tied" if tied else "free", "one at a time" if is_single else "independent"
    what = f"{n} features, {times}, {m} hidden neurons, {kind} weights"
    return f"{KIND} of {what}: {coefficient}, multiplicity 1, {len(fixed)} of {d} dimensions are flat."


if __name__ == "__main__":
    try:
        print("accepted:", proved(sys.argv[1])) if sys.argv[1:] else sys.exit(__doc__)
    except (Rejected, OSError) as error:
        sys.exit(f"rejected: {error}")
