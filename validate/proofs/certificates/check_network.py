"""Check a certificate on networks with a hidden layer with fractions: ``python check_network.py FILE``.

Only the standard library is used. To believe a statement one has to believe Python's fractions, this file,
and the theorem below.

Features x_i are independent, on with probability p, then uniform on [-1, 1]; targets t_i are ReLU(x_i), or
|x_i|. A network's outputs are y = V h + c with n numbers h that are *any* functions of the features, such as
ReLU(U x + beta); the loss is the sum over i of E (t_i - y_i)^2.

Theorem. Let P project on the complement of the span of V, of rank n_features - n_hidden or more. P y = P c is
constant, so the loss is at least E |P (t - c)|^2 >= trace P Cov(t), and Cov(t) is the variance v of a target
times the identity: no network loses less than (n_features - n_hidden) v, whatever c is. Hence `lower`.

`upper` is the loss of a network whose neurons read one feature each; it is computed here by Simpson's rule
between breakpoints, which is exact for the squares and products of straight lines.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Callable
from fractions import Fraction as Q
from typing import Any

FORMAT, KIND = "superposition certificate, version 1", "the least loss of networks with a hidden layer"
MOST_FEATURES, MOST_DIGITS, MOST_BYTES = 10, 60, 100_000
TARGETS: dict[str, Callable[[Q], Q]] = {"relu": lambda x: max(x, Q(0)), "abs": abs}

# A function of one feature, which one, and where it bends.
PiecewisePolynomial = tuple[int, Callable[[Q], Q], tuple[Q, ...]]


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


def average(p: Q, f: Callable[[Q], Q], kinks: tuple[Q, ...]) -> Q:
    """Return E f(x) over a feature x, for f of degree 2 at most between -1, the `kinks` and 1."""
    ends = sorted({Q(-1), Q(1), *(x for x in kinks if -1 < x < 1)})
    steps = itertools.pairwise(ends)
    whole = sum(((b - a) * (f(a) + 4 * f((a + b) / 2) + f(b)) / 6 for a, b in steps), Q(0))
    return (1 - p) * f(Q(0)) + p * whole / 2


def product(p: Q, left: PiecewisePolynomial, right: PiecewisePolynomial) -> Q:
    """Return E f g for functions (index of the feature, function, kinks), piecewise linear in one feature."""
    (i, f, kinks), (j, g, kinks_g) = left, right
    if i == j:
        return average(p, lambda x: f(x) * g(x), (*kinks, *kinks_g))
    return average(p, f, kinks) * average(p, g, kinks_g)


def neuron(row: list[Q], beta: Q) -> PiecewisePolynomial:
    """Return ReLU(row . x + beta) as (feature, function, kinks); raise `Rejected` for several features."""
    read = [k for k, w in enumerate(row) if w != 0]
    need(len(read) <= 1, "a neuron reads more than one feature")
    k = read[0] if read else 0
    return k, lambda x: max(row[k] * x + beta, Q(0)), (-beta / row[k],) if read else ()


def loss(U: Any, beta: Any, V: Any, c: Any, p: Q, target: str) -> Q:
    """Return the loss of V ReLU(U x + beta) + c at a target, "relu" or "abs", summed over outputs."""
    hidden = [neuron(row, at) for row, at in zip(U, beta, strict=True)]
    constant: PiecewisePolynomial = (0, lambda _: Q(1), ())
    total = Q(0)
    for k, weights in enumerate(V):
        terms = [(Q(1), (k, TARGETS[target], (Q(0),))), (-c[k], constant)]
        terms += [(-v, h) for v, h in zip(weights, hidden, strict=True)]
        total += sum((a * b * product(p, f, g) for a, f in terms for b, g in terms), Q(0))
    return total


def variance(p: Q, target: str) -> Q:
    """Return the variance of a target, "relu" or "abs", of one feature."""
    constant: PiecewisePolynomial = (0, TARGETS[target], (Q(0),))
    return product(p, constant, constant) - average(p, *constant[1:]) ** 2


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
        need((len(record), len(statement), len(proof)) == (5, 8, 4), "it has other parts")
        n, m, target, bias = (statement[name] for name in ("n_features", "n_hidden", "target", "output_bias"))
        need(type(n) is int and type(m) is int and 1 <= m < n <= MOST_FEATURES, "its sizes are not allowed")
        need(target in TARGETS and type(bias) is bool, "its target or output bias is not known")
        p, lower, upper = (fractions(statement[name], name) for name in ("p", "lower", "upper"))
        U, V = fractions(proof["U"], "U", m, n), fractions(proof["V"], "V", n, m)
        beta, c = fractions(proof["beta"], "beta", m), fractions(proof["c"], "c", n)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Rejected(f"it is no whole certificate of networks (check.py has others): {error}") from None
    need(0 < p <= 1, "p is not in (0, 1]")
    need(bias or not any(c), "its network has an output bias")
    bound, value = (n - m) * variance(p, target), loss(U, beta, V, c, p, target)
    need(lower <= bound, f"the least loss that is proved is {float(bound):.9g}, not {float(lower):.9g}")
    need(value <= upper, f"the loss of its network is {float(value):.9g}, not {float(upper):.9g}")
    what = "with" if bias else "without"
    where = f"of {n} {target} targets, {m} hidden neurons, p = {p}, {what} an output bias"
    bracket = f"is {lower}" if lower == upper else f"lies between {float(lower):.9g} and {float(upper):.9g}"
    return f"{KIND}, {where}, {bracket}."


if __name__ == "__main__":
    try:
        print("accepted:", proved(sys.argv[1])) if sys.argv[1:] else sys.exit(__doc__)
    except (Rejected, OSError) as error:
        sys.exit(f"rejected: {error}")
