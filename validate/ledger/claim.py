"""Claims, their evidence and their verdicts, which follow from the evidence alone.

A check returns findings: computed numbers with the limits that they must keep. A finding is about the
statement as printed, the corrected statement, the order of magnitude where the print leaves a constant open,
the answer to a question, or the number of runs that a verdict needs. Corrections are sentences, each with the
findings that it rests on. Findings decide whether a statement holds; the kind of its fault (`MEANINGS`) is
declared by the check, as no number decides it.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer
from ..runner.findings import ABOUT, Finding
from .stored_verdicts import MEANINGS, UNDECIDED, WRONG, Verdict

__all__ = [
    "MEANINGS", "ROUGHLY", "SAME", "UNDECIDED", "WRONG", "CheckedClaim", "Claim", "Evidence", "Finding",
    "Statement", "Verdict", "as_record", "claim", "corrected_statement", "evidence", "from_record", "text",
    "verdict",
]  # fmt: skip


# The meaning, in all rows, of the authors' words that leave a tolerance open; doubt counts for the authors.
# Both were chosen when most values were known: limits by them are `post_hoc` unless the data came later.
ROUGHLY = 2.0  # factor, either way: "roughly", "around", "fairly accurate", "not far from"
SAME = 0.1  # relative difference: "essentially the same", "almost identical", "identical" if trained


@dataclass(frozen=True)
class Statement:
    """A sentence of a correction, with the findings that it rests on (one or more)."""

    text: str
    findings: Sequence[Finding]

    def __post_init__(self) -> None:
        if not self.findings:
            raise ValueError(f"`findings` of the statement {self.text!r} must hold one or more; got none.")


@dataclass(frozen=True)
class Evidence:
    """The result of a check: findings that decide, and a text and numbers that explain.

    Parameters
    ----------
    text : str
        The argument in words, with the computed numbers that matter.
    printed : sequence of Finding
        Findings that support no sentence of a correction.
    numbers : mapping from str to float, optional
        Further computed numbers.
    corrections : sequence of Statement, optional
        The true statement, or the constants that the print leaves open, sentence by sentence; numbers in
        them are formatted from computed values. Shown only if the verdict is not that the print holds.
    about : str, optional
        Subject of findings without an `about`; by default the findings of sentences are about the corrected
        statement, and others about the print.
    fault : Verdict, optional
        Kind of the fault if a finding about the print fails: one of `WRONG`.
    """

    text: str
    printed: Sequence[Finding]
    numbers: Mapping[str, float] = field(default_factory=dict)
    corrections: Sequence[Statement] = ()
    about: str = ""
    fault: Verdict = Verdict.WRONG

    def __post_init__(self) -> None:
        choice("fault", self.fault, WRONG)
        corrections = [
            replace(statement, findings=_with_about(statement.findings, self.about or "corrected"))
            for statement in self.corrections
        ]
        object.__setattr__(self, "corrections", corrections)
        object.__setattr__(self, "printed", _with_about(self.printed, self.about or "printed"))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, each once, those of the corrections included."""
        supporting = [finding for statement in self.corrections for finding in statement.findings]
        return tuple(dict.fromkeys([*self.printed, *supporting]))


def _with_about(findings: Sequence[Finding], about: str) -> list[Finding]:
    """Return the findings, with the field `about` (such as "corrected") set where it is empty."""
    return [finding if finding.about else replace(finding, about=about) for finding in findings]


@dataclass(frozen=True)
class Claim:
    """A statement of a source, and its check.

    Parameters
    ----------
    id : str
        Unique in the ledger, a letter and a number.
    source, where : str
        Short name of the source, such as ``cowsik2024``, and its section, equation or figure.
    statement : str
        The statement as printed, in formulas or in our own words.
    check : callable
        ``check(quick, *datasets)`` returns the evidence: findings, numbers with limits that decide, and a
        text; the same on every call. `quick` asks for small sizes; the datasets are those of the runs in
        `needs`, in this order.
    needs : tuple of str, optional
        Runs whose datasets the check gets, such as ``"noise.mechanism"``.
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

    `trouble` is the reason if the check could not be run or raised an error. `checked_on` is the day on which
    the check was run, if its evidence is stored.
    """

    claim: Claim
    evidence: Evidence
    seconds: float
    trouble: str = ""
    checked_on: str = ""

    @property
    def verdict(self) -> Verdict:
        """Verdict on the printed statement, by its evidence; `NOT_JUDGED` if the check could not be run."""
        return Verdict.NOT_JUDGED if self.trouble else verdict(self.evidence)

    @property
    def correction(self) -> str | None:
        """The corrected statement as text; None if there is none, or if the print holds or is undecided."""
        if self.verdict in (Verdict.HOLDS, Verdict.TOO_FEW, Verdict.OPEN, Verdict.NOT_JUDGED):
            return None
        return "; ".join(statement.text for statement in self.evidence.corrections) or None


def claim(
    id: str, source: str, where: str, statement: str, *, needs: Sequence[str] = ()
) -> Callable[[Callable[..., Evidence]], Claim]:
    """Return a decorator that turns a check, a function that returns `Evidence`, into a claim.

    `id` is a letter and a number; `source` and `where` are the source's short name and the section, equation
    or figure; `statement` is as printed; `needs` names the runs whose datasets the check gets.

    Examples
    --------
    >>> @claim("X1", "nobody2000", "1", "1 + 1 = 2")
    ... def check_x1(quick):
    ...     return Evidence("added", [Finding("printed", "numeric", "1 + 1", 1 + 1, "==", 2)])
    >>> check_x1.id, str(verdict(check_x1.check(True)))
    ('X1', 'holds')
    """

    def decorate(check: Callable[..., Evidence]) -> Claim:
        """Return the claim that `check` judges."""
        return Claim(id, source, where, statement, check, tuple(needs))

    return decorate


@as_annotated
def verdict(evidence: Evidence) -> Verdict:
    """Return the verdict that follows from the findings of the evidence.

    A claim is unsettled if a finding about a correction, an answer or the number of runs fails. Otherwise the
    findings about the printed statement decide, if there are any: it holds if all of them pass; if one fails,
    the verdict is `evidence.fault`, or "wrong" if no finding supports a correction.

    If the print leaves a constant open, findings about the order decide between "holds, up to constants" and
    "wrong". With findings about an answer or a correction alone, the claim is an answered question. Without
    findings it is open.

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
    passed = {about: [f.passed for f in evidence.findings if f.about == about] for about in ABOUT}
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
    """Return the evidence on a printed statement, from findings and sentences that correct it, in any order.

    `text` says what was computed, `numbers` are values to show beside it. `about` is "order" if the print
    leaves a constant open, "answer" if the print is a question, else "". `fault` is the verdict if a finding
    about the print fails.

    Examples
    --------
    >>> from superposition.validate.runner.findings import numeric, rounding
    >>> right = numeric("gap", 1e-16, "<=", rounding(1e-9))
    >>> wrong = numeric("gap", 0.1, "<=", rounding(1e-9))
    >>> added = evidence("added", wrong, corrected_statement("it is 2", right))
    >>> str(verdict(added)), [statement.text for statement in added.corrections]
    ('wrong', ['it is 2'])
    """
    printed = [part for part in parts if isinstance(part, Finding)]
    corrections = [part for part in parts if isinstance(part, Statement)]
    return Evidence(text, printed, numbers or {}, corrections, about, fault)


def corrected_statement(text: str, *findings: Finding) -> Statement:
    """Return a `Statement` of `text`, a sentence of a correction, and the findings that support it."""
    return Statement(text, findings)


@as_annotated
def as_record(row: CheckedClaim) -> dict[str, Any]:
    """Return a row of the ledger, `row`, as data for JSON; numbers that are not finite become text."""

    def finite_or_text(value: Any) -> Any:
        """Return a value unchanged, but nan and infinity as text."""
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    def finding_record(f: Finding) -> dict[str, Any]:
        """Return a finding as data for JSON."""
        record = {"about": f.about, "kind": f.kind, "text": f.text, "value": float(f.value)}
        record |= {"relation": f.relation, "limit": float(f.limit), "passed": f.passed, "origin": f.origin}
        record |= {"limit_set": f.basis, "limit_in_words": f.limit_set}
        record |= {"alarm_rate": f.alarm, "resolution": f.resolution}
        return {name: finite_or_text(value) for name, value in record.items()}

    claim, evidence = row.claim, row.evidence
    return {
        **{name: getattr(claim, name) for name in ("id", "source", "where", "statement")},
        "verdict": str(row.verdict),
        "correction": row.correction,
        "trouble": row.trouble or None,
        "judged": row.checked_on or None,
        "evidence": {
            "text": evidence.text,
            "findings": [finding_record(f) for f in evidence.findings],
            "numbers": {name: finite_or_text(float(value)) for name, value in evidence.numbers.items()},
            "fault": str(evidence.fault),
            "corrections": [
                {"text": statement.text, "findings": [f.text for f in statement.findings]}
                for statement in evidence.corrections
            ],
        },
        "seconds": round(row.seconds, 3),
    }


@as_annotated
def from_record(claim: Claim, record: Mapping[str, Any]) -> CheckedClaim:
    """Return the row of a claim from its record, the inverse of `as_record`.

    Examples
    --------
    >>> from superposition.validate import ledger
    >>> row = ledger.run(["C21"])[0]
    >>> ledger.from_record(row.claim, ledger.as_record(row)).verdict == row.verdict
    True
    """

    def finding_from_record(f: Mapping[str, Any]) -> Finding:
        """Return the finding of a record."""
        fields: dict[str, Any] = {name: f[name] for name in ("about", "kind", "text", "relation", "origin")}
        fields |= {"alarm": f["alarm_rate"], "resolution": f["resolution"], "basis": f["limit_set"]}
        return Finding(**fields, value=float(f["value"]), limit=float(f["limit"]))

    try:
        parts = record["evidence"]
        findings = [finding_from_record(f) for f in parts["findings"]]
        by_text = {f.text: f for f in reversed(findings)}
        corrections = [
            corrected_statement(statement["text"], *(by_text[text] for text in statement["findings"]))
            for statement in parts["corrections"]
        ]
        numbers = {name: float(value) for name, value in parts["numbers"].items()}
        evidence = Evidence(parts["text"], findings, numbers, corrections, fault=Verdict(parts["fault"]))
        trouble, day = (record[name] or "" for name in ("trouble", "judged"))
        return CheckedClaim(claim, evidence, record["seconds"], trouble, day)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"`record` must be what `as_record` makes ({reason}).") from error


@as_annotated
def text(rows: Iterable[CheckedClaim], width: int = 100) -> str:
    """Return rows as plain text: the statement, then indented the verdict and the corrected statement.

    Parameters
    ----------
    rows : iterable of CheckedClaim
        Rows of the ledger, as from `run`.
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

    # Not at hyphens: they are minus signs in formulas.
    fill = partial(textwrap.fill, width=width, break_on_hyphens=False)

    def paragraph(row: CheckedClaim) -> str:
        """Return a row's statement, then indented its verdict and correction."""
        detail = row.correction or row.trouble
        verdict = f"{row.verdict}: {detail}" if detail else str(row.verdict)
        statement = f"{row.claim.id}, {row.claim.where}: {row.claim.statement}"
        return f"{fill(statement)}\n{fill(verdict, initial_indent='    ', subsequent_indent='    ')}"

    return "\n\n".join(map(paragraph, rows))
