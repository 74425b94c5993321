"""What a claim, its evidence and its verdict are. The verdict follows from the evidence alone.

A check never says "true": it hands in findings, each of which is a computed number beside the limit that it
must keep, with its origin and how the limit was set. Where chance has a part, it also has the confidence of
the number and the false-alarm rate of the family of tests that it belongs to. A finding is about the
statement as printed, about the corrected statement, about the order of magnitude where the print leaves a
constant open, the answer to a question, or how many runs there are of those that a verdict needs. What is
true instead is said in sentences, each of which names the findings that it rests on. `verdict` reads all
findings, and one that fails always shows. That a statement does not hold is computed; of which kind its fault
is (`judged.MEANINGS`), no number tells, and the check declares it.
"""

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer
from ..runner.findings import (
    ABOUT,
    Criterion,
    Finding,
    Limit,
    between,
    bound,
    confirmed,
    derived,
    enough_runs,
    experiment,
    not_refuted,
    numeric,
    post_hoc,
    preregistered,
    rounding,
    symbolic,
)
from .stored_verdicts import MEANINGS, UNDECIDED, WRONG, Verdict

__all__ = [
    "MEANINGS",
    "ROUGHLY",
    "SAME",
    "UNDECIDED",
    "WRONG",
    "CheckedClaim",
    "Claim",
    "Criterion",
    "Evidence",
    "Finding",
    "Limit",
    "Statement",
    "Verdict",
    "as_record",
    "between",
    "bound",
    "claim",
    "confirmed",
    "corrected_statement",
    "derived",
    "enough_runs",
    "evidence",
    "experiment",
    "from_record",
    "not_refuted",
    "numeric",
    "post_hoc",
    "preregistered",
    "rounding",
    "symbolic",
    "text",
    "verdict",
]  # fmt: skip


# Words that leave a tolerance open mean the same in all rows; the words are the authors', so doubt counts for
# them. Both were fixed when most of the values were known: limits made of them say "after" unless the data
# that decide came later.
ROUGHLY = 2.0  # factor, either way: "roughly", "around", "fairly accurate", "not far from"
SAME = 0.1  # relative difference: "essentially the same", "almost identical", "identical" if trained


@dataclass(frozen=True)
class Statement:
    """A sentence of what is true instead, with the findings that it rests on (one or more)."""

    text: str
    findings: Sequence[Finding]

    def __post_init__(self) -> None:
        if not self.findings:
            raise ValueError(f"`findings` of the statement {self.text!r} must hold one or more; got none.")


@dataclass(frozen=True)
class Evidence:
    """What a check found out: findings that decide, and a text and numbers that explain.

    Parameters
    ----------
    text : str
        The argument in words, with the computed numbers that matter.
    printed : sequence of Finding
        Findings that belong to no sentence of a correction.
    numbers : mapping from str to float, optional
        Further computed numbers.
    corrections : sequence of Statement, optional
        What is true instead, or the constants that the print leaves open, sentence by sentence; the numbers
        in them are formatted from what was computed. Shown only where the verdict asks for it.
    about : str, optional
        What findings are about that do not say it; if not given, those of sentences are about the corrected
        statement, and others about the print.
    fault : Verdict, optional
        Of which kind the fault is if a finding about the print fails: one of `WRONG`.
    """

    text: str
    printed: Sequence[Finding]
    numbers: Mapping[str, float] = field(default_factory=dict)
    corrections: Sequence[Statement] = ()
    about: str = ""
    fault: Verdict = Verdict.WRONG

    def __post_init__(self) -> None:
        choice("fault", self.fault, WRONG)
        said = [
            replace(one, findings=_about(one.findings, self.about or "corrected")) for one in self.corrections
        ]
        object.__setattr__(self, "corrections", said)
        object.__setattr__(self, "printed", _about(self.printed, self.about or "printed"))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, each once, those of the corrections included."""
        others = [finding for statement in self.corrections for finding in statement.findings]
        return tuple(dict.fromkeys([*self.printed, *others]))


def _about(findings: Sequence[Finding], about: str) -> list[Finding]:
    """Return findings, those that do not say what they are about with this."""
    return [one if one.about else replace(one, about=about) for one in findings]


@dataclass(frozen=True)
class Claim:
    """A statement of a source and the check that judges it.

    Parameters
    ----------
    id : str
        Unique in the ledger, a letter and a number.
    source, where : str
        Short name of the source, such as ``cowsik2024``, and its section, equation or figure.
    statement : str
        The statement as printed, in formulas or in our own words.
    check : callable
        ``check(quick, *datasets)`` computes the evidence, the same on every call. `quick` asks for small
        sizes; the datasets are those of `needs`.
    needs : tuple of str, optional
        Experiments whose results the check reads, such as ``"noise.mechanism"``: those that the report shows.
    """

    id: str
    source: str
    where: str
    statement: str
    check: Callable[..., Evidence]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedClaim:
    """A claim with its evidence and the seconds that the check took.

    `trouble` says why there is no evidence, if the check could not be run or raised an error. `judged` is the
    day on which the check was run, if its evidence is stored.
    """

    claim: Claim
    evidence: Evidence
    seconds: float
    trouble: str = ""
    judged: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the evidence says."""
        return Verdict.NOT_JUDGED if self.trouble else verdict(self.evidence)

    @property
    def correction(self) -> str | None:
        """What is true instead, where the print does not hold by itself and the evidence decides."""
        if self.verdict in (Verdict.HOLDS, Verdict.TOO_FEW, Verdict.OPEN, Verdict.NOT_JUDGED):
            return None
        return "; ".join(statement.text for statement in self.evidence.corrections) or None


def claim(
    id: str, source: str, where: str, *, needs: Sequence[str] = ()
) -> Callable[[Callable[..., Evidence]], Claim]:
    """Turn a check into the claim that it judges (a decorator); its docstring is the statement.

    Examples
    --------
    >>> @claim("X1", "nobody2000", "1")
    ... def x1(quick):
    ...     "1 + 1 = 2"
    ...     return Evidence("added", [Finding("printed", "numeric", "1 + 1", 1 + 1, "==", 2)])
    >>> x1.id, str(verdict(x1.check(True)))
    ('X1', 'holds')
    """

    def decorate(check: Callable[..., Evidence]) -> Claim:
        printed = " ".join((inspect.getdoc(check) or "").split())
        if not printed:
            raise ValueError(f"`statement` of {id} must be the check's docstring, without -OO; got none.")
        return Claim(id, source, where, printed, check, tuple(needs))

    return decorate


@as_annotated
def verdict(evidence: Evidence) -> Verdict:
    """Return what the evidence says; no other thing than its findings is looked at.

    Findings about the print decide first. If all keep their limits, the statement holds. If one does not, the
    verdict is the fault that the evidence declares, or "wrong" where no findings support a corrected
    statement. Without findings about the print (it leaves a constant open) those about the order decide
    between "holds, up to constants" and "wrong"; those that answer a question come last. Without any finding
    the claim is open. Whatever the print, a finding about a correction or an answer that does not keep its
    limit leaves the claim unsettled, and so do fewer runs than the check asks for.

    Examples
    --------
    >>> wrong = Finding("printed", "numeric", "gap", 0.1, "<=", 1e-9)
    >>> right = Finding("corrected", "numeric", "gap", 1e-16, "<=", 1e-9)
    >>> slip = Evidence("", [wrong, right], fault=Verdict.MISPRINT)
    >>> print(verdict(Evidence("", [wrong])), "/", verdict(slip))
    wrong / misprint
    >>> other = Finding("corrected", "numeric", "gap", 0.1, "<=", 1e-9)
    >>> print(verdict(Evidence("", [wrong, other])), "/", verdict(Evidence("", [right, other])))
    unsettled: a finding fails / unsettled: a finding fails
    """
    found = evidence.findings
    passed = {about: [f.passed for f in found if f.about == about] for about in ABOUT}
    if not all(passed["corrected"]) or not all(passed["answer"]):
        return Verdict.UNSETTLED
    if not all(passed["runs"]):
        return Verdict.TOO_FEW
    if passed["printed"]:
        if not all(passed["printed"]):
            return evidence.fault if passed["corrected"] and all(passed["order"]) else Verdict.WRONG
        return Verdict.HOLDS if all(passed["order"]) else Verdict.UNSETTLED
    if passed["order"]:
        return Verdict.UP_TO_CONSTANTS if all(passed["order"]) else Verdict.WRONG
    return Verdict.ANSWERED if passed["answer"] or passed["corrected"] else Verdict.OPEN


def evidence(
    text: str,
    *parts: Finding | Statement,
    numbers: Mapping[str, float] | None = None,
    about: str = "",
    fault: Verdict = Verdict.WRONG,
) -> Evidence:
    """Return what a check found out, from findings and sentences of a correction in any order.

    `about` is "order" where the print leaves a constant open, and "answer" where it asks. `fault` is of which
    kind the fault is, should a finding about the print fail.

    Examples
    --------
    >>> right = numeric("gap", 1e-16, "<=", rounding(1e-9))
    >>> wrong = numeric("gap", 0.1, "<=", rounding(1e-9))
    >>> found = evidence("added", wrong, corrected_statement("it is 2", right))
    >>> str(verdict(found)), [one.text for one in found.corrections]
    ('wrong', ['it is 2'])
    """
    printed = [part for part in parts if isinstance(part, Finding)]
    said = [part for part in parts if isinstance(part, Statement)]
    return Evidence(text, printed, numbers or {}, said, about, fault)


def corrected_statement(text: str, *findings: Finding) -> Statement:
    """Return a sentence of a correction and what it rests on; numbers in it are formatted from values."""
    return Statement(text, findings)


@as_annotated
def as_record(checked: CheckedClaim) -> dict[str, Any]:
    """Return a row of the ledger as plain data that JSON can hold (a number that is not finite as text)."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    def finding(f: Finding) -> dict[str, Any]:
        told = {"about": f.about, "kind": f.kind, "text": f.text, "value": float(f.value)}
        told |= {"relation": f.relation, "limit": float(f.limit), "passed": f.passed, "origin": f.origin}
        told |= {"limit_set": f.basis, "limit_in_words": f.limit_set}
        told |= {"alarm_rate": f.alarm, "resolution": f.resolution}
        return {name: plain(value) for name, value in told.items()}

    claim, evidence = checked.claim, checked.evidence
    return {
        **{name: getattr(claim, name) for name in ("id", "source", "where", "statement")},
        "verdict": str(checked.verdict),
        "correction": checked.correction,
        "trouble": checked.trouble or None,
        "judged": checked.judged or None,
        "evidence": {
            "text": evidence.text,
            "findings": [finding(f) for f in evidence.findings],
            "numbers": {name: plain(float(value)) for name, value in evidence.numbers.items()},
            "fault": str(evidence.fault),
            "corrections": [
                {"text": one.text, "findings": [f.text for f in one.findings]} for one in evidence.corrections
            ],
        },
        "seconds": round(checked.seconds, 3),
    }


@as_annotated
def from_record(claim: Claim, record: Mapping[str, Any]) -> CheckedClaim:
    """Return the row that `as_record` made plain.

    Raises
    ------
    ValueError
        If a part of it is missing or of another kind.

    Examples
    --------
    >>> from superposition.validate import ledger
    >>> row = ledger.run(["C21"])[0]
    >>> ledger.from_record(row.claim, ledger.as_record(row)).verdict == row.verdict
    True
    """

    def finding(told: Mapping[str, Any]) -> Finding:
        same: dict[str, Any] = {name: told[name] for name in ("about", "kind", "text", "relation", "origin")}
        same |= {"alarm": told["alarm_rate"], "resolution": told["resolution"], "basis": told["limit_set"]}
        return Finding(**same, value=float(told["value"]), limit=float(told["limit"]))

    try:
        kept = record["evidence"]
        found = [finding(one) for one in kept["findings"]]
        by_text = {one.text: one for one in reversed(found)}
        said = [
            corrected_statement(one["text"], *(by_text[text] for text in one["findings"]))
            for one in kept["corrections"]
        ]
        numbers = {name: float(value) for name, value in kept["numbers"].items()}
        about = {"trouble": record["trouble"] or "", "judged": record["judged"] or ""}
        whole = Evidence(kept["text"], found, numbers, said, fault=Verdict(kept["fault"]))
        return CheckedClaim(claim, whole, record["seconds"], **about)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"`record` must be what `as_record` makes ({why}).") from error


@as_annotated
def text(rows: Iterable[CheckedClaim], width: int = 100) -> str:
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

    Examples
    --------
    >>> from superposition.validate import ledger
    >>> print(ledger.text(ledger.run(ids=["C9", "C21"]), width=72))
    C9, Eq. 20: Tr(W W^+) >= sum |lambda_i|^2 >= n_s^2/n_d
        holds
    <BLANKLINE>
    C21, App. D: L <= p L_on
        misprint: L >= p L_on, as L - p L_on = (1 - p) L_off >= 0
    """
    width = integer("width", width, 20)

    def filled(words: str, indent: str) -> str:
        # A formula's minus is no hyphen.
        return textwrap.fill(
            words, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )

    def paragraph(row: CheckedClaim) -> str:
        more = row.correction or row.trouble
        found = f"{row.verdict}: {more}" if more else str(row.verdict)
        said = f"{row.claim.id}, {row.claim.where}: {row.claim.statement}"
        return filled(said, "") + "\n" + filled(found, "    ")

    return "\n\n".join(map(paragraph, rows))
