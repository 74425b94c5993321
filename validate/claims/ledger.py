"""What a claim, its evidence and its verdict are. The verdict follows from the evidence alone.

A check never says "true": it hands in findings, each of which is a computed number beside the limit
that it must keep. A finding is about the statement as printed, about the corrected statement, or
about the order of magnitude where the print leaves a constant open; `verdict` reads them in that order.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ...theory.arguments import choice, integer

__all__ = [
    "Checked",
    "Claim",
    "Evidence",
    "Finding",
    "Verdict",
    "as_record",
    "bound",
    "claim",
    "experiment",
    "numeric",
    "symbolic",
    "text",
    "verdict",
]

ABOUT = ("printed", "corrected", "order")
KINDS = ("symbolic", "bound searched", "numeric", "experiment")
_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "==": lambda value, limit: value == limit,
    "<=": lambda value, limit: value <= limit,
    "<": lambda value, limit: value < limit,
    ">=": lambda value, limit: value >= limit,
    ">": lambda value, limit: value > limit,
}


class Verdict(StrEnum):
    """What the evidence says about a statement."""

    HOLDS = "holds"
    CORRECTED = "holds with a correction"
    FAILS = "fails"
    ORDER_ONLY = "order only"
    OPEN = "open"


@dataclass(frozen=True)
class Finding:
    """One computed number and the limit that it must keep for the statement to stand.

    Parameters
    ----------
    about : {"printed", "corrected", "order"}
        Which statement it tests.
    kind : {"symbolic", "bound searched", "numeric", "experiment"}
        How the number was found.
    text : str
        What the number is.
    value, limit : float
        The number and its limit.
    relation : {"==", "<=", "<", ">=", ">"}
        How `value` must stand to `limit`. A nan keeps no limit.

    Raises
    ------
    ValueError
        If `about`, `kind` or `relation` is not one of the words above, or `limit` is nan.

    Examples
    --------
    >>> Finding("printed", "numeric", "largest gap", 2e-16, "<=", 1e-15).passed
    True
    """

    about: str
    kind: str
    text: str
    value: float
    relation: str
    limit: float

    def __post_init__(self) -> None:
        choice("about", self.about, ABOUT)
        choice("kind", self.kind, KINDS)
        choice("relation", self.relation, tuple(_RELATIONS))
        if math.isnan(self.limit):
            raise ValueError(f"`limit` must be a number; got {self.limit}.")

    @property
    def passed(self) -> bool:
        """Whether the number keeps its limit."""
        return bool(_RELATIONS[self.relation](self.value, self.limit))

    @property
    def label(self) -> str:
        """How the finding is shown: a number that breaks the print is a counterexample to it."""
        return "counterexample" if self.about == "printed" and not self.passed else self.kind


@dataclass(frozen=True)
class Evidence:
    """What a check found out: findings that decide, and a text and numbers that explain.

    Parameters
    ----------
    text : str
        The argument in words, with the computed numbers that matter.
    findings : sequence of Finding
        What the verdict follows from.
    numbers : mapping from str to float, optional
        Further computed numbers.
    """

    text: str
    findings: Sequence[Finding]
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A statement of a source and the check that judges it.

    Parameters
    ----------
    id : str
        Unique in the ledger, a letter and a number.
    source : str
        Short name of the source, such as ``cowsik2024``.
    where : str
        Section, equation or figure.
    statement : str
        The statement as printed, in formulas or in our own words.
    check : callable
        ``check(quick)`` computes the evidence, the same on every call. `quick` asks for small sizes.
    correction : str or None, optional
        What is true instead, or the constant that the print leaves open. It is shown only if the
        evidence says that it is needed.
    """

    id: str
    source: str
    where: str
    statement: str
    check: Callable[[bool], Evidence]
    correction: str | None = None


@dataclass(frozen=True)
class Checked:
    """A claim with its evidence, its verdict and the seconds that the check took."""

    claim: Claim
    evidence: Evidence
    verdict: Verdict
    seconds: float

    @property
    def correction(self) -> str | None:
        """What is true instead, where the print does not hold by itself."""
        return self.claim.correction if self.verdict in (Verdict.CORRECTED, Verdict.ORDER_ONLY) else None


def claim(
    id: str, source: str, where: str, statement: str, correction: str | None = None
) -> Callable[[Callable[[bool], Evidence]], Claim]:
    """Turn a check into the claim that it judges (a decorator).

    Examples
    --------
    >>> @claim("X1", "nobody2000", "1", "1 + 1 = 2")
    ... def x1(quick):
    ...     return Evidence("added", [Finding("printed", "numeric", "1 + 1", 1 + 1, "==", 2)])
    >>> x1.id, str(verdict(x1.check(True)))
    ('X1', 'holds')
    """

    def decorate(check: Callable[[bool], Evidence]) -> Claim:
        return Claim(id, source, where, statement, check, correction)

    return decorate


def verdict(evidence: Evidence) -> Verdict:
    """Return what the evidence says; no other thing than its findings is looked at.

    Findings about the print decide first. If all keep their limits, the statement holds. If one
    does not, the statement holds with a correction when there are findings about the corrected
    statement and all keep their limits, and fails otherwise. Without findings about the print (it
    leaves a constant open) those about the order decide between "order only" and "fails". Without
    any of these the claim is open.

    Examples
    --------
    >>> wrong = Finding("printed", "numeric", "gap", 0.1, "<=", 1e-9)
    >>> right = Finding("corrected", "numeric", "gap", 1e-16, "<=", 1e-9)
    >>> print(verdict(Evidence("", [wrong])), "/", verdict(Evidence("", [wrong, right])))
    fails / holds with a correction
    """
    passed = {about: [f.passed for f in evidence.findings if f.about == about] for about in ABOUT}
    if passed["printed"]:
        if all(passed["printed"]):
            return Verdict.HOLDS
        return Verdict.CORRECTED if passed["corrected"] and all(passed["corrected"]) else Verdict.FAILS
    if passed["order"]:
        return Verdict.ORDER_ONLY if all(passed["order"]) else Verdict.FAILS
    return Verdict.OPEN


def symbolic(about: str, text: str, residual: Any) -> Finding:
    """Return the finding that a SymPy expression is identically zero.

    The value is 0 only if SymPy simplifies the expression (or each entry of a matrix) to zero. An
    expression that stays is shown, with its largest size at a fixed rational point as the value.

    Examples
    --------
    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> symbolic("printed", "square", (x + 1) ** 2 - x**2 - 2 * x - 1).value
    0.0
    >>> symbolic("printed", "square", (x + 1) ** 2 - x**2 - 2 * x).text
    'square; residual 1'
    """
    import sympy

    entries = list(residual) if isinstance(residual, sympy.MatrixBase) else [sympy.sympify(residual)]
    left = [entry for entry in map(sympy.simplify, entries) if entry != 0]
    if not left:
        return Finding(about, "symbolic", f"{text}; residual 0", 0.0, "==", 0.0)
    names = sorted({s for entry in left for s in entry.free_symbols}, key=str)
    # Distinct primes in the denominators: no accidental zero, and inside (0, 1) where probabilities live.
    point = {s: sympy.Rational(1, sympy.prime(k + 2)) for k, s in enumerate(names)}
    sizes = [abs(complex(entry.subs(point))) for entry in left]
    return Finding(about, "symbolic", f"{text}; residual {left[0]}", max(*sizes, 5e-324), "==", 0.0)


def bound(about: str, text: str, value: float, relation: str, limit: float = 0.0) -> Finding:
    """Return the finding of a search for a violation: the worst case met and its limit."""
    return Finding(about, "bound searched", text, float(value), relation, float(limit))


def numeric(about: str, text: str, value: float, relation: str, limit: float) -> Finding:
    """Return the finding of a computation; where two routes are compared, the limit is their error."""
    return Finding(about, "numeric", text, float(value), relation, float(limit))


def experiment(about: str, text: str, value: float, relation: str, limit: float) -> Finding:
    """Return the finding of an experiment: a confidence limit of what was measured, and its limit."""
    return Finding(about, "experiment", text, float(value), relation, float(limit))


def as_record(checked: Checked) -> dict[str, Any]:
    """Return a row of the ledger as plain data that JSON can hold (a number that is not finite as text)."""

    def plain(value: float) -> float | str:
        return float(value) if math.isfinite(value) else str(value)

    return {
        "id": checked.claim.id,
        "source": checked.claim.source,
        "where": checked.claim.where,
        "statement": checked.claim.statement,
        "verdict": str(checked.verdict),
        "correction": checked.correction,
        "evidence": {
            "text": checked.evidence.text,
            "findings": [
                {
                    "about": f.about,
                    "kind": f.label,
                    "text": f.text,
                    "value": plain(f.value),
                    "relation": f.relation,
                    "limit": plain(f.limit),
                    "passed": f.passed,
                }
                for f in checked.evidence.findings
            ],
            "numbers": {name: plain(value) for name, value in checked.evidence.numbers.items()},
        },
        "seconds": round(checked.seconds, 3),
    }


def text(rows: Iterable[Checked], width: int = 100) -> str:
    """Return rows as plain text to read: the statement, then indented the verdict and what is true instead.

    Parameters
    ----------
    rows : iterable of Checked
        What `run` returns.
    width : int, optional
        Longest line, at least 20 characters.

    Returns
    -------
    str
        A paragraph for each row, an empty line between two of them.

    Raises
    ------
    ValueError
        If `width` is below 20.

    Examples
    --------
    >>> from superposition.validate import claims
    >>> print(claims.text(claims.run(ids=["C9", "C21"]), width=72))
    C9, Eq. 20: Tr(W W^+) >= sum |lambda_i|^2 >= n_s^2/n_d
        holds
    <BLANKLINE>
    C21, App. D: L <= p L_on
        holds with a correction: L >= p L_on, as L - p L_on = (1 - p) L_off
        >= 0
    """
    width = integer("width", width, 20)
    indent = "    "

    def paragraph(row: Checked) -> str:
        found = f"{row.verdict}: {row.correction}" if row.correction else str(row.verdict)
        said = f"{row.claim.id}, {row.claim.where}: {row.claim.statement}"
        # A formula's minus is no hyphen.
        lines = textwrap.wrap(said, width, break_on_hyphens=False)
        lines += textwrap.wrap(
            found, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        return "\n".join(lines)

    return "\n\n".join(map(paragraph, rows))
