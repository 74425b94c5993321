"""Check a certificate on networks of nearly pure neurons with fractions: ``python check_alignment.py FILE``.

Only the standard library is used. To believe a statement one has to believe Python's fractions, this file,
and the formula below.

The network is ReLU(V ReLU(W x + beta) + c). Features x_i are independent, on with probability p, then uniform
on [0, 1]. The loss is the sum over i of E (x_i - y_i)^2, and v = p (4 - 3p)/12 that of a dropped feature. A
neuron's alignment is the largest squared weight of its row of W, over the sum of these squares.

Where beta and the negative weights of a row sum to 0 at least, the neuron is never off, and ReLU(h) = h. So
the outputs are ReLU(y_i) with y = a x + b, a = V W and b = V beta + c. With F_k(y) = max(y, 0)^k / k! one has
ReLU^2 = 2 F_2, and the mean of F_k over a feature of weight w is folded out of values without it:

    E F_k(y + w x) = (1 - p) F_k(y) + p (F_(k+1)(y + w) - F_(k+1)(y)) / w
    E x F_k(y + w x) = p (F_(k+1)(y + w) / w - (F_(k+2)(y + w) - F_(k+2)(y)) / w^2)
"""

import functools
import hashlib
import json
import math
import sys
from fractions import Fraction as Q
from typing import Any

FORMAT, KIND = "superposition certificate, version 1", "a network of aligned neurons has a loss below"
MOST_FEATURES, MOST_DIGITS, MOST_BYTES, MOST_WORK = 8, 60, 100_000, 600_000


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


@functools.cache
def mean(k: int, y: Q, weights: tuple[Q, ...], p: Q, target: int | None) -> Q:
    """Return E F_k(y + sum of w x) over the weights w; if `target` is an index, E x_target F_k.

    F_k(y) = max(y, 0)^k / k!; features x are on with probability p, then uniform on [0, 1].
    """
    if not weights:
        return max(y, Q(0)) ** k / math.factorial(k)
    *rest, w = weights
    inner = None if target == len(rest) else target

    def fold(order: int, z: Q) -> Q:
        """Return the mean of F_order(z + w . x) over all features but the last."""
        return mean(order, z, tuple(rest), p, inner)

    if target == len(rest):
        change = (
            fold(k + 1, y + w) / w - (fold(k + 2, y + w) - fold(k + 2, y)) / w**2 if w else fold(k, y) / 2
        )
        return p * change
    return (1 - p) * fold(k, y) + p * (fold(k + 1, y + w) - fold(k + 1, y)) / w if w else fold(k, y)


def loss(W: Any, beta: Any, V: Any, c: Any, p: Q) -> Q:
    """Return the loss of a network (W, beta, V, c) of neurons that are never off; else raise `Rejected`."""
    for row, bias in zip(W, beta, strict=True):
        need(bias + sum(min(w, Q(0)) for w in row) >= 0, "a neuron can be off")
    total = Q(0)
    for i, (out, at) in enumerate(zip(V, c, strict=True)):
        a = tuple(
            sum((v * w for v, w in zip(out, column, strict=True)), Q(0)) for column in zip(*W, strict=True)
        )
        b = at + sum((v * bias for v, bias in zip(out, beta, strict=True)), Q(0))
        mean.cache_clear()
        total += p / 3 - 2 * mean(1, b, a, p, i) + 2 * mean(2, b, a, p, None)
    return total


def alignment(row: list[Q]) -> Q:
    """Return a neuron's alignment: the largest square in its `row` of W over the sum of squares.

    It is 1 for a neuron that reads one feature, and if all weights are 0, as in the problem.
    """
    squares = [w * w for w in row]
    return max(squares) / sum(squares, Q(0)) if any(squares) else Q(1)


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
        need((len(record), len(statement), len(proof)) == (5, 6, 4), "it has other parts")
        n, k = statement["n_features"], statement["n_hidden"]
        need(type(n) is int and type(k) is int and 1 <= k < n <= MOST_FEATURES, "its sizes are not allowed")
        p, delta, bound = (fractions(statement[name], name) for name in ("p", "delta", "bound"))
        W, V = fractions(proof["W"], "W", k, n), fractions(proof["V"], "V", n, k)
        beta, c = fractions(proof["beta"], "beta", k), fractions(proof["c"], "c", n)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Rejected(f"it is no whole certificate of aligned neurons: {error}") from None
    need(0 < p <= 1 and 0 <= delta < 1, "p is not in (0, 1], or delta not in [0, 1)")
    need(min(map(alignment, W)) >= 1 - delta, "a neuron's alignment is less than 1 - delta")
    characters = sum(len(str(x)) for x in (p, *beta, *c, *(x for row in (*W, *V) for x in row)))
    need(2**n * characters <= MOST_WORK, f"{characters} characters of fractions would take minutes to check")
    pure, value = (n - k) * p * (4 - 3 * p) / 12, loss(W, beta, V, c, p)
    need(value < bound, f"the loss of its network is {float(value):.9g}, not below {float(bound):.9g}")
    need(bound <= pure, f"its bound {float(bound):.9g} is above what pure neurons lose, {float(pure):.9g}")
    where = f"of {n} features, {k} hidden neurons, p = {p}, alignment at least 1 - {delta}"
    return f"{KIND} {float(bound):.9g}, {where}: {float(value):.9g}. Pure neurons lose {float(pure):.9g}."


if __name__ == "__main__":
    try:
        print("accepted:", proved(sys.argv[1])) if sys.argv[1:] else sys.exit(__doc__)
    except (Rejected, OSError) as error:
        sys.exit(f"rejected: {error}")
