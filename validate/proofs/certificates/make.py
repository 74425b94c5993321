"""Makers of certificates: weights rounded to fractions, their exact loss, and the file."""

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import factorial, prod
from pathlib import Path
from typing import Any

import numpy as np

from ....solvers.minimise import minimise
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.results import result
from ....theory.validation import is_list, number, short_repr
from ...reference.files import atomic_write, quoted_path
from . import check_alignment, check_learning, check_network, check_pair, check_pentagon
from .check import FORMAT, KIND, MOST_FEATURES, MOST_WORK, WIRED, WIRING, Rejected, conjectured_loss, proved

__all__ = ["CheckedCertificate", "certify", "check", "exact_total", "wiring_certificate"]


_LONGEST_TEXT = 1000  # characters of a fraction
# Checkers of certificates with a file of their own; `check.py` has all others.
_CHECKERS = check_alignment, check_learning, check_network, check_pair, check_pentagon
_REJECTED = Rejected, *(checker.Rejected for checker in _CHECKERS)


@result
class CheckedCertificate:
    """Whether a certificate is accepted, with the statement that it proves or the reason of its rejection."""

    accepted: bool
    text: str
    """What is proved, or why the file proves nothing."""


@as_annotated
def check(path: str | Path) -> CheckedCertificate:
    """Check a certificate: return whether it is accepted, and the statement that it proves.

    The checker is ``check.py``, or a file beside it, and uses no other code of this package. ValueError if
    there is no file.
    """
    try:
        is_file = Path(path).is_file()  # a pipe would never end
    except (OSError, ValueError):  # too long a name, or one with a null character
        is_file = False
    if not is_file:
        raise ValueError(f"`path` must be the file of a certificate; got {quoted_path(path)} (no such file).")
    try:
        return CheckedCertificate(True, _proved_statement(path))
    except (*_REJECTED, OSError) as error:
        return CheckedCertificate(False, str(error))


def _proved_statement(path: str | Path) -> str:
    """Return the statement that a certificate proves, by the checker of its kind, or raise its `Rejected`."""
    with open(path, "rb") as file:
        content = file.read(check_pentagon.MOST_BYTES)
    checkers = [checker for checker in _CHECKERS if checker.KIND.encode() in content]
    return (checkers[0].proved if checkers else proved)(path)


def to_fraction(name: str, value: Any, most: int | None = None) -> Fraction:
    """Return `value`, a number or a text, as a fraction; ValueError, naming `name`, if it is none.

    If `most` is given, the fraction is rounded to a denominator of at most `most`.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    # as in check.py: of a text like 1e999999999 the fraction would take for ever
    short = isinstance(value, str) and len(value) <= _LONGEST_TEXT and "e" not in value.lower()
    try:
        fraction = Fraction(value if whole or short or isinstance(value, Fraction) else number(name, value))
    except (ValueError, ZeroDivisionError) as error:
        rule = "be made of finite numbers or fractions"
        raise ValueError(f"`{name}` must {rule}; got {short_repr(value)}.") from error
    return fraction if most is None else fraction.limit_denominator(most)


def probability(p: Any) -> Fraction:
    """Return p as a fraction; ValueError if it is not in (0, 1]."""
    chance = to_fraction("p", p)
    if not 0 < chance <= 1:
        raise ValueError(f"`p` must be in (0, 1]; got {short_repr(p)}.")
    return chance


def _fractions(name: str, value: Any, most: int | None = None) -> list[Fraction]:
    """Return `value`, a sequence of numbers or texts, as fractions; errors call it `name`.

    If `most` is given, fractions are rounded to denominators of at most `most`.
    """
    if not is_list(value):
        raise ValueError(f"`{name}` must be made of lists of numbers or fractions; got {short_repr(value)}.")
    return [to_fraction(name, number, most) for number in value]


def _model_fractions(
    W: Any, b: Any, p: Any, importance: Any, most: int | None = None
) -> tuple[list[list[Fraction]], list[Fraction], Fraction, list[Fraction]]:
    """Return W, b, p and importance as fractions; those of W and b are rounded to denominators up to `most`.

    No rounding if `most` is None. ValueError if the fractions are so long that an exact loss takes minutes.
    """
    if not is_list(W):
        raise ValueError(f"`W` must be a list of rows; got {short_repr(W)}.")
    rows, bias, chance = (
        [_fractions("W", row, most) for row in W],
        _fractions("b", b, most),
        to_fraction("p", p),
    )
    weight = [Fraction(1)] * len(rows) if importance is None else _fractions("importance", importance)
    characters = sum(len(str(x)) for x in (chance, *bias, *(x for row in rows for x in row)))
    if len(rows) <= MOST_FEATURES and 2 ** len(rows) * characters > MOST_WORK:
        rule = f"have fractions of at most {MOST_WORK // 2 ** len(rows)} characters at {len(rows)} features"
        raise ValueError(f"`W`, `b` and `p` must {rule}, as the sum takes minutes; got {characters}.")
    return rows, bias, chance, weight


def _cube_integral(k: int, base: Fraction, weights: Sequence[Fraction]) -> Fraction:
    """Return the integral of max(base + weights x, 0)^k / k! over x in [0, 1]^len; no weight may be 0."""
    order, total = k + len(weights), Fraction(0)
    for corner in product((0, 1), repeat=len(weights)):
        y = base + sum((w for w, on in zip(weights, corner, strict=True) if on), Fraction(0))
        if y > 0:
            total += (-1) ** (len(weights) - sum(corner)) * y**order
    return total / (factorial(order) * prod(weights, start=Fraction(1)))


def sum_over_cubes(
    M: Sequence[Sequence[Fraction]], b: Sequence[Fraction], p: Fraction, importance: Sequence[Fraction]
) -> Fraction:
    """Return the exact loss of ReLU(M x + b), `importance` times squared errors, summed over features.

    Features are on with probability p, then uniform on [0, 1]; M (n, n), b and `importance` are fractions.
    """
    n, total = len(M), Fraction(0)
    for i in range(n):
        lost = p / 3
        for size in range(n + 1):
            for on in combinations(range(n), size):
                share = p**size * (1 - p) ** (n - size)
                others = [M[i][j] for j in on if j != i and M[i][j]]
                target_weight = M[i][i] if i in on else Fraction(0)
                squared = 2 * _cube_integral(2, b[i], [*others, target_weight] if target_weight else others)
                lost += share * squared
                if i not in on:
                    continue
                if target_weight:  # E x F_1 by parts
                    first = _cube_integral(2, b[i] + target_weight, others) / target_weight
                    second = _cube_integral(3, b[i] + target_weight, others) - _cube_integral(3, b[i], others)
                    lost -= share * 2 * (first - second / target_weight**2)
                else:
                    lost -= share * _cube_integral(1, b[i], others)
        total += importance[i] * lost
    return total


@as_annotated
def exact_total(
    W: Sequence[Sequence[Any]],
    b: Sequence[Any],
    p: Any,
    importance: Sequence[Any] | None = None,
    penalty: Any = 0,
) -> Fraction:
    """Return the exact loss of ReLU(W W' x + b), summed over features, as a fraction.

    The loss is a sum over the corners of the cube of each pattern of features that are on: 3^n terms an
    output.

    Parameters
    ----------
    W, b : nested sequences of numbers, fractions or text like "3/7"
        Encodings in rows, shape (n_features, n_hidden), of 10 features at most; biases. A float is the binary
        fraction that it stands for.
    p : number, Fraction or text
        Probability that a feature is on; values are uniform on [0, 1].
    importance : sequence, optional
        Importance of each feature; 1 by default.
    penalty : number, Fraction or text, optional
        Factor of the sum of squared overlaps (W W')_ij^2 over all i != j, which is added.

    Examples
    --------
    >>> exact_total([[1], [-1]], [0, 0], "1/10")  # an antipodal pair: p^2/3
    Fraction(1, 300)
    """
    rows, bias, chance, weight = _model_fractions(W, b, p, importance)
    n = len(rows)
    if not (
        1 <= n <= MOST_FEATURES and n == len(bias) == len(weight) and len({len(row) for row in rows}) == 1
    ):
        raise ValueError(
            f"`W` must have 1 to {MOST_FEATURES} rows of one length, a bias and an importance for each; got "
            f"{n} rows, {len(bias)} biases and {len(weight)} importances."
        )
    if not 0 < chance <= 1:
        raise ValueError(f"`p` must be in (0, 1]; got {short_repr(p)}.")
    gram = [
        [sum((x * y for x, y in zip(left, right, strict=True)), Fraction(0)) for right in rows]
        for left in rows
    ]
    total = sum_over_cubes(gram, bias, chance, weight)
    overlaps = sum(gram[i][j] ** 2 for i in range(n) for j in range(n) if i != j)
    return total + to_fraction("penalty", penalty) * overlaps


@as_annotated
def certify(
    W: Any,
    b: Any,
    p: Any,
    bound: Any = None,
    *,
    path: str | Path,
    importance: Sequence[Any] | None = None,
    penalty: Any = 0,
    wired: bool = False,
    denominator: int = 10_000,
) -> Fraction:
    """Write a certificate that a model of these weights, rounded, has a loss below a bound; return that loss.

    Parameters
    ----------
    path : path
        The JSON file.
    W, b, p, importance, penalty
        Model ReLU(W W' x + b), probability that a feature is on, importances of the features and factor of
        squared overlaps, as in `exact_total`; weights and biases are rounded to fractions first.
    bound : number, Fraction or text, optional
        Number that the loss is to be below; by default the loss, rounded up at its tenth digit.
    wired : bool, optional
        State also that each row of W has one nonzero entry at most.
    denominator : int, optional
        Largest denominator of the fractions to which W and b are rounded.

    Returns
    -------
    Fraction
        The exact loss of the rounded model, summed over features, with the penalty.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loss = certify([[1], [-1]], [0, 0], "1/10", "1/299", path=folder + "/pair.json")
    ...     check(folder + "/pair.json").accepted
    True
    """
    most = validation.integer("denominator", denominator, 1)
    rows, bias, chance, weight = _model_fractions(W, b, p, importance, most)
    value = exact_total(rows, bias, chance, weight, penalty)
    n, m = len(rows), len(rows[0])
    if wired and any(sum(x != 0 for x in row) > 1 for row in rows):
        raise ValueError(f"`W` must have {WIRED}; got {short_repr(str(np.array(rows, float).tolist()))}.")
    if isinstance(bound, str) and bound == WIRING:
        limit, name = conjectured_loss(n, m, chance), WIRING
    else:
        limit = rounded_up(value) if bound is None else to_fraction("bound", bound)
        name = str(limit)
    if not value < limit:
        reason = f"above the loss of the rounded model, {float(value):.9g}"
        raise ValueError(f"`bound` must be {reason}; got {float(limit):.9g}.")
    statement = {
        "kind": KIND,
        "bound": name,
        "constraint": WIRED if wired else "none",
        "importance": weight,
        "n_features": n,
        "n_hidden": m,
        "p": chance,
        "penalty": to_fraction("penalty", penalty),
    }
    try:
        save(path, "certify", statement, {"W": rows, "b": bias}, loss=str(float(value)))
    except Rejected as error:
        raise ValueError(f"`p`, `W`, `b` and the others must be what is checked; {error}.") from error
    return value


def save(
    path: str | Path, maker: str, statement: dict[str, Any], proof: dict[str, Any], **origin: str
) -> None:
    """Write a certificate, a JSON file with a checksum; write nothing if its checker raises `Rejected`.

    A certificate at `path` is replaced; any other file there raises a ValueError. `statement` and `proof` are
    the certificate's parts: what it claims, with its "kind", and the numbers from which the checker proves
    it. `maker` names the function that makes it; `origin` are further texts on its origin, by name.
    """
    origin["by"] = f"superposition.validate.proofs.certificates.{maker}"
    content = {"format": FORMAT, "made": origin, "proof": proof, "statement": statement}

    def as_text(content: dict[str, Any]) -> str:
        """Return content as JSON with sorted keys."""
        return json.dumps(content, sort_keys=True, indent=1, default=str)  # fractions like 1/3

    digest = hashlib.sha256(as_text(content).encode()).hexdigest()
    if Path(path).is_file():
        with open(path, "rb") as file:
            if FORMAT.encode() not in file.read(100):
                raise ValueError(f"`path` must be a new file, or a certificate; got {quoted_path(path)}.")
    with atomic_write(path) as part:
        part.write_text(as_text({**content, "sha256": digest}) + "\n", "ascii")
        _proved_statement(part)


def rounded_up(value: Fraction) -> Fraction:
    """Return a fraction larger than `value`, rounded up at about its tenth digit."""
    step = Fraction(10) ** (len(str(value.numerator)) - len(str(value.denominator)) - 10)
    return (value // step + 1) * step


@as_annotated
def wiring_certificate(n_features: int, n_hidden: int, p: Any, *, path: str | Path, rng: Any = 0) -> Fraction:
    """Write a certificate that refutes the conjecture of problem MAIS-O49; return the loss of its model.

    The model is ReLU(W W' x + b), in which each of `n_features` features may be wired to one of `n_hidden`
    neurons, with 2 n_hidden <= n_features <= 10. Features are on with probability p, then uniform on [0, 1];
    the loss is summed over features. The conjecture says that it is best to keep n_hidden features, or as
    many antipodal pairs, and to drop the others.

    The model distributes features evenly over the neurons; `solvers.minimise` finds the weights of each
    neuron, from starts that `rng` draws. The certificate is the JSON file `path`.
    """
    m = validation.integer("n_hidden", n_hidden, 1, MOST_FEATURES // 2)
    n = validation.integer("n_features", n_features, 2 * m, MOST_FEATURES)
    chance, generator = probability(p), validation.generator("rng", rng)
    W, b, at = np.zeros((n, m)), np.zeros(n), 0
    for k in range(m):
        size = n // m + (k < n % m)
        best = minimise(size, 1, float(chance), starts=30, rng=generator)
        W[at : at + size, k], b[at : at + size] = best.W[:, 0], best.b
        at += size
    return certify(W, b, chance, WIRING, path=path, wired=True)
