"""A certificate's inequality as a goal for Lean: an inequality of integers that its kernel decides."""

import json
from fractions import Fraction
from itertools import product
from math import factorial, lcm, prod
from pathlib import Path

from ....theory.annotations import as_annotated
from ...reference.files import error_text, quoted_path
from .check import conjectured_loss, proved

__all__ = ["lean_goal"]

# A term: coefficient, what is summed inside of max(., 0), and the power of that.
Term = tuple[Fraction, tuple[Fraction, ...], int]


def _ramp_terms(k: int, b: Fraction, weights: list[Fraction], p: Fraction, factor: Fraction) -> list[Term]:
    """Return the terms whose sum is factor E max(b + w x, 0)^k / k!, over features on with probability p.

    A term (c, inside, power) is c max(sum of inside, 0)^power. w are the `weights` of the features, uniform
    on [0, 1] if on. Integration over a feature that is on raises the power by 1, and gives a term for each
    end of its range.
    """
    ramps = []
    for states in product((None, 0, 1), repeat=len(weights)):
        on = [(w, end) for w, end in zip(weights, states, strict=True) if end is not None]
        order = k + len(on)
        share = (1 - p) ** (len(weights) - len(on)) * prod((p / w for w, _ in on), start=Fraction(1))
        sign = prod(2 * end - 1 for _, end in on)
        inside = (b, *(w for w, end in on if end))
        ramps.append((factor * share * sign / factorial(order), inside, order))
    return ramps


def _output_terms(row: list[Fraction], i: int, b: Fraction, p: Fraction) -> list[Term]:
    """Return the terms whose sum is E ReLU(y)^2 - 2 E x_i ReLU(y) for output i, y = row x + b.

    A term (c, inside, power) is c max(sum of inside, 0)^power; `row` and b are the output's weights and bias,
    p is the probability that a feature is on. The two parts are 2 E F_2(y) and -2 E x_i F_1(y), for F_k(y) =
    max(y, 0)^k / k!.
    """
    others = [w for j, w in enumerate(row) if j != i and w]
    active = [*others, row[i]] if row[i] else others
    ramps = _ramp_terms(2, b, active, p, Fraction(2))
    if not row[i]:
        return ramps + _ramp_terms(1, b, others, p, -p)
    w, two = row[i], -2 * p
    ramps += _ramp_terms(2, b + w, others, p, two / w)
    ramps += _ramp_terms(3, b + w, others, p, -two / w**2)
    return ramps + _ramp_terms(3, b, others, p, two / w**2)


@as_annotated
def lean_goal(path: str | Path) -> str:
    """Return the text of a Lean 4 file whose theorem is a certificate's inequality, loss below bound.

    `path` is the certificate; ValueError unless it is an accepted one of a loss. Both sides are multiplied by
    one positive integer and the loss is written out as a sum over corners, so that only integers are left.
    Lean does not check that this sum is the loss: it is the formula at the head of ``check.py``, expanded.
    The file imports nothing.

    >>> import tempfile
    >>> from superposition.validate.proofs.certificates import certify
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loss = certify([[1], [-1]], [0, 0], "1/10", "1/299", path=folder + "/pair.json")
    ...     print(lean_goal(folder + "/pair.json").splitlines()[-1])
      < 1200 := by decide
    """
    try:
        proved(path)
        certificate = json.loads(Path(path).read_text("ascii"))
        statement = certificate["statement"]
    except (OSError, ValueError) as error:
        rule = "`path` must be an accepted certificate of a loss"
        raise ValueError(f"{rule}; got {quoted_path(path)}: {error_text(error)}.") from error
    p, penalty = Fraction(statement["p"]), Fraction(statement["penalty"])
    W = [[Fraction(x) for x in row] for row in certificate["proof"]["W"]]
    terms: list[Term] = []
    constant = Fraction(0)
    for i, (row, b, importance) in enumerate(
        zip(W, certificate["proof"]["b"], statement["importance"], strict=True)
    ):
        gram = [sum((x * y for x, y in zip(row, other, strict=True)), Fraction(0)) for other in W]
        weight = Fraction(importance)
        terms += [(weight * c, inside, order) for c, inside, order in _output_terms(gram, i, Fraction(b), p)]
        constant += weight * p / 3 + penalty * sum(x * x for j, x in enumerate(gram) if j != i)
    n, m, name = statement["n_features"], statement["n_hidden"], statement["bound"]
    bound = Fraction(name) if name[0].isdigit() else conjectured_loss(n, m, p)
    unit = lcm(*(x.denominator for _, inside, _ in terms for x in inside))
    scaled = [(c / unit**order, inside, order) for c, inside, order in terms if c]
    scale = lcm(constant.denominator, bound.denominator, *(c.denominator for c, _, _ in scaled))
    lines = [str(int(constant * scale))]
    for c, inside, order in scaled:
        total = " + ".join(f"({int(x * unit)})" for x in inside)
        lines.append(f"({int(c * scale)}) * (max ({total}) 0) ^ {order}")
    return (
        f"-- {n} features, {m} hidden neurons, p = {p}. Both sides were multiplied by\n-- {scale}\n"
        "set_option maxRecDepth 1000000\n"
        "theorem loss_below : (" + "\n  + ".join(lines) + " : Int)\n"
        f"  < {int(bound * scale)} := by decide\n"
    )
