"""Check a certificate with fractions alone: ``python check.py FILE``, or `superposition check FILE`.

Only the standard library is used, and no code that made the file; nothing in a file is executed. To believe
a statement one has to believe Python's fractions, this file, and the formula below.

The model is ReLU(W W' x + b). Features x_i are independent, on with probability p, then uniform on [0, 1].
The loss is the sum over i of importance_i E (x_i - ReLU(y_i))^2. With F_k(y) = max(y, 0)^k / k! one has
ReLU^2 = 2 F_2, and the mean of F_k over a feature of weight w is folded out of values without it:

    E F_k(y + w x) = (1 - p) F_k(y) + p (F_(k+1)(y + w) - F_(k+1)(y)) / w
    E x F_k(y + w x) = p (F_(k+1)(y + w) / w - (F_(k+2)(y + w) - F_(k+2)(y)) / w^2)
"""

import functools
import hashlib
import json
import math
import sys
from fractions import Fraction
from typing import Any

FORMAT = "superposition certificate, version 1"
KIND = "a model has a loss below"
PENTAGON = "the regular pentagon alone has the least loss on one active feature"
WIRED, WIRING = "one nonzero entry in each row of W", "conjectured least loss of MAIS-O49"
MOST_FEATURES, MOST_DIGITS, MOST_BYTES, MOST_WORK = 10, 60, 1_000_000, 600_000


class Rejected(ValueError):
    """Raised with the reason if a certificate proves nothing."""


def need(holds: bool, reason: str) -> None:
    """Raise `Rejected` with a reason unless `holds`."""
    if not holds:
        raise Rejected(reason)


def fraction(text: Any, name: str) -> Fraction:
    """Return the fraction of a text in lowest terms, like -3/7 or 2; raise `Rejected` for other content."""
    short = isinstance(text, str) and len(text) <= MOST_DIGITS and text.isascii()
    need(short and "e" not in text.lower(), f"{name} is no short fraction")  # 1e999999999 would take for ever
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Rejected(f"{name} is no fraction: {text!r}") from None
    need(str(value) == text, f"{name} is not in lowest terms: {text!r}")
    return value


def fractions(content: Any, name: str, shape: tuple[int, ...]) -> list[Any]:
    """Return texts in nested lists of `shape` as fractions; raise `Rejected`, naming `name`, for others."""
    need(isinstance(content, list) and len(content) == shape[0], f"{name} does not have {shape[0]} entries")
    read_item = fraction if len(shape) == 1 else lambda row, at: fractions(row, at, shape[1:])
    return [read_item(entry, f"{name}[{k}]") for k, entry in enumerate(content)]


@functools.cache
def mean(k: int, y: Fraction, weights: tuple[Fraction, ...], p: Fraction, target: int | None) -> Fraction:
    """Return E F_k(y + w . x), F_k(y) = max(y, 0)^k / k!, for weights w; with `target`, E x_target F_k."""
    if not weights:
        return max(y, Fraction(0)) ** k / math.factorial(k)
    rest, w, at = weights[:-1], weights[-1], len(weights) - 1

    def fold(order: int, z: Fraction) -> Fraction:
        """Return the mean of F_order(z + w . x) over all features but the last."""
        return mean(order, z, rest, p, None if target == at else target)

    if w == 0:
        return p * fold(k, y) / 2 if target == at else fold(k, y)
    if target != at:
        return (1 - p) * fold(k, y) + p * (fold(k + 1, y + w) - fold(k + 1, y)) / w
    return p * (fold(k + 1, y + w) / w - (fold(k + 2, y + w) - fold(k + 2, y)) / w**2)


def loss(W: Any, b: Any, p: Fraction, importance: Any, penalty: Fraction) -> Fraction:
    """Return the exact loss of ReLU(W W' x + b), by `importance`, plus `penalty` times squared overlaps."""
    total = Fraction(0)
    for i, row in enumerate(W):
        weights = tuple(sum((x * y for x, y in zip(row, other, strict=True)), Fraction(0)) for other in W)
        mean.cache_clear()
        squared = p / 3 - 2 * mean(1, b[i], weights, p, i) + 2 * mean(2, b[i], weights, p, None)
        total += importance[i] * squared + penalty * sum(x * x for j, x in enumerate(weights) if j != i)
    return total


def conjectured_loss(n: int, m: int, p: Fraction) -> Fraction:
    """Return the loss of the better of n - m dropped features and m antipodal pairs, the others dropped."""
    v = p * (4 - 3 * p) / 12
    return min((n - m) * v, m * p**2 / 3 + (n - 2 * m) * v)


def proved(path: Any) -> str:
    """Return the statement that a certificate proves, in words; raise `Rejected` if it proves nothing."""
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    try:
        record = json.loads(content.decode("ascii"))
        need(isinstance(record, dict), "it is no JSON object")
        digest = record.pop("sha256", None)
        canonical = json.dumps(record, sort_keys=True, indent=1)
    except (ValueError, RecursionError):
        raise Rejected("it is not whole, or no JSON") from None
    need(digest is not None, "it is no certificate: it has no sha256")
    need(digest == hashlib.sha256(canonical.encode()).hexdigest(), "it was changed: its checksum is another")
    whole = json.dumps({**record, "sha256": digest}, sort_keys=True, indent=1) + "\n"
    need(content == whole.encode(), "it was changed: it is not written as certificates are")
    need(set(record) == {"format", "made", "proof", "statement"}, "its parts are not those of a certificate")
    need(record["format"] == FORMAT, f"its format is not {FORMAT!r}")
    statement, proof = record["statement"], record["proof"]
    need(isinstance(statement, dict) and isinstance(proof, dict), "statement or proof is no JSON object")
    kind = statement.get("kind")
    need(kind != PENTAGON, "it is about the pentagon, which check_pentagon.py checks")
    need(kind == KIND, f"nothing is known of the kind {kind!r}")
    parts = {"bound", "constraint", "importance", "kind", "n_features", "n_hidden", "p", "penalty"}
    need(set(statement) == parts and set(proof) == {"W", "b"}, "statement or proof has other parts")
    n, m = statement["n_features"], statement["n_hidden"]
    need(type(n) is int and type(m) is int and 1 <= m <= n <= MOST_FEATURES, "its sizes are not allowed")
    p, penalty = fraction(statement["p"], "p"), fraction(statement["penalty"], "penalty")
    need(0 < p <= 1 and penalty >= 0, "p is not in (0, 1], or the penalty is negative")
    importance = fractions(statement["importance"], "importance", (n,))
    need(min(importance) >= 0, "an importance is negative")
    W, b = fractions(proof["W"], "W", (n, m)), fractions(proof["b"], "b", (n,))
    constraint = statement["constraint"]
    need(constraint in ("none", WIRED), f"nothing is known of the constraint {constraint!r}")
    need(
        constraint == "none" or all(sum(x != 0 for x in row) <= 1 for row in W),
        "W does not keep the constraint",
    )
    name = statement["bound"]
    if name == WIRING:
        need(
            constraint != "none" and penalty == 0 and set(importance) == {1} and n >= 2 * m,
            "that is of another problem",
        )
        bound = conjectured_loss(n, m, p)
    else:
        bound = fraction(name, "bound")
    characters = sum(len(str(x)) for x in (p, *b, *(x for row in W for x in row)))
    need(2**n * characters <= MOST_WORK, f"{characters} characters of fractions would take minutes to check")
    value = loss(W, b, p, importance, penalty)
    need(value < bound, f"the loss of its model is {float(value):.9g}, not below {float(bound):.9g}")
    what = (
        f"at p = {p} a model of {n} features and {m} hidden neurons, constraint: {constraint}, penalty: "
        f"{penalty}"
    )
    return f"{what}, has a loss of {float(value):.9g}, below {float(bound):.9g} ({name})."


if __name__ == "__main__":
    try:
        print("accepted:", proved(sys.argv[1])) if sys.argv[1:] else sys.exit(__doc__)
    except (Rejected, OSError) as error:
        sys.exit(f"rejected: {error}")
