"""What a claim, its evidence and its verdict are. The verdict follows from the evidence alone.

A check never says "true": it hands in findings, each of which is a computed number beside the limit that it
must keep, with its origin and how the limit was set. Where chance has a part, it also has the confidence of
the number and the false-alarm rate of the family of tests that it belongs to. A finding is about the
statement as printed, about the corrected statement, about the order of magnitude where the print leaves a
constant open, the answer to a question, or how many runs there are of those that a verdict needs. What is
true instead is said in sentences, each of which names the findings that it rests on. `verdict` reads all
findings, and one that fails always shows.
"""

import inspect
import math
import numbers
import operator
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import xarray as xr

from ...theory.arguments import as_annotated, choice, integer
from ...theory.derivation import sp
from ..statistics import Estimate

ABOUT = ("printed", "corrected", "order", "answer", "runs")
# Kinds of findings, and where the number of each comes from if nothing else is said.
ORIGINS = {
    "symbolic": "derived",
    "bound searched": "computed now",
    "numeric": "computed now",
    "experiment": "run now",
}
# How the limit of a finding was set.
BASES = {
    "derived": "derived",
    "rounding": "error of the computation",
    "before": "chosen before the data",
    "after": "chosen after a look at the data",
}
UNSTATED = "not stated"
RUNS = 5  # that a trained number rests on before it decides
RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}

Found = Estimate | Sequence[Estimate]
Origin = str | xr.Dataset | tuple[xr.Dataset, ...]


class Limit(float):
    """A number that knows how it was set as the limit of a finding; so does its negative.

    Examples
    --------
    >>> -after(0.2), (-after(0.2)).basis
    (-0.2, 'after')
    """

    basis: str

    def __new__(cls, limit: float, basis: str) -> "Limit":
        """Return the number with its basis, a key of `BASES`."""
        made = super().__new__(cls, limit)
        made.basis = choice("basis", basis, tuple(BASES))
        return made

    def __neg__(self) -> "Limit":
        return Limit(-float(self), self.basis)


def derived(limit: float = 0.0) -> Limit:
    """Return a limit that follows from the statement or from a proof, such as a sign."""
    return Limit(limit, "derived")


def rounding(limit: float) -> Limit:
    """Return a limit that is the error of the computation, such as that of two routes to one number."""
    return Limit(limit, "rounding")


def before(limit: float) -> Limit:
    """Return a limit that was chosen before the data existed that decide."""
    return Limit(limit, "before")


def after(limit: float) -> Limit:
    """Return a limit that was chosen when the value, or a like one, was known, or nobody can tell.

    Also one of an estimate to which runs were added after a look.
    """
    return Limit(limit, "after")


class Verdict(StrEnum):
    """What the evidence says about a statement."""

    HOLDS = "holds"
    CORRECTED = "wrong as printed, corrected"
    FAILS = "fails"
    ORDER_ONLY = "order only"
    ANSWERED = "question, answered"
    TOO_FEW = "unsettled: too few runs"
    UNSETTLED = "unsettled: a finding fails"
    OPEN = "open"
    NOT_JUDGED = "not judged"


# What `claims --wrong` lists, and what is not known to be right or wrong.
WRONG = (Verdict.CORRECTED, Verdict.FAILS)
UNDECIDED = (Verdict.TOO_FEW, Verdict.UNSETTLED, Verdict.OPEN, Verdict.NOT_JUDGED)


@dataclass(frozen=True)
class Finding:
    """One computed number and the limit that it must keep for the statement to stand.

    Parameters
    ----------
    about : {"printed", "corrected", "order", "answer", "runs"}
        Which statement it tests, or whether there are runs enough for a verdict.
    kind : {"symbolic", "bound searched", "numeric", "experiment"}
        How the number was found.
    text : str
        What the number is.
    value, limit : float
        The number and its limit, which may be infinite.
    relation : {"==", "<=", "<", ">=", ">"}
        How `value` must stand to `limit`. A nan keeps no limit.
    origin : str, optional
        "derived", "computed now", "run now", or "stored" with file, date and device; by `kind` if not given.
    alarm : float or None, optional
        Where chance has a part: the rate at which the family of tests that this one belongs to rejects what
        is true.
    resolution : float or None, optional
        How far the truth would have to be from the limit to be told from it: half the interval's width.
    basis : str, optional
        How the limit was set, a key of `BASES`; that of a `Limit` if not given. An alarm rate holds only of
        what was fixed before the data: with "after" there is none.

    Examples
    --------
    >>> found = Finding("printed", "numeric", "largest gap", 2e-16, "<=", rounding(1e-15))
    >>> found.passed, found.origin, found.basis
    (True, 'computed now', 'rounding')
    >>> Finding("printed", "experiment", "p-value", 0.2, ">=", after(0.01), alarm=0.01).alarm
    """

    about: str
    kind: str
    text: str
    value: float
    relation: str
    limit: float
    origin: str = ""
    alarm: float | None = None
    resolution: float | None = None
    basis: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.origin, str):
            raise ValueError(f"`origin` must be text; got {self.origin!r:.80}.")
        choice("about", self.about, ABOUT)
        choice("kind", self.kind, tuple(ORIGINS))
        choice("relation", self.relation, tuple(RELATIONS))
        object.__setattr__(self, "basis", self.basis or getattr(self.limit, "basis", UNSTATED))
        choice("basis", self.basis, (*BASES, UNSTATED))
        for name in ("value", "limit"):
            given = getattr(self, name)
            if isinstance(given, bool | np.bool_ | np.timedelta64) or not isinstance(given, numbers.Real):
                raise ValueError(f"`{name}` must be a number; got {given!r}.")
        if math.isnan(self.limit):
            raise ValueError(f"`limit` must be a number; got {self.limit}.")
        if not self.origin:
            object.__setattr__(self, "origin", ORIGINS[self.kind])
        object.__setattr__(self, "limit", float(self.limit))
        if self.basis == "after":
            object.__setattr__(self, "alarm", None)

    @property
    def passed(self) -> bool:
        """Whether the number keeps its limit."""
        return bool(RELATIONS[self.relation](self.value, self.limit))

    @property
    def label(self) -> str:
        """How the finding is shown: a number that breaks the print is a counterexample to it."""
        return "counterexample" if self.about == "printed" and not self.passed else self.kind

    @property
    def limit_set(self) -> str:
        """How the limit was set, in words."""
        return f"limit {BASES.get(self.basis, self.basis)}"

    @property
    def chance(self) -> str:
        """What is known of chance: the alarm rate and the resolution, or nothing."""
        parts = [] if self.alarm is None else [f"alarm rate {self.alarm:.1g}"]
        return ", ".join([*parts, *([] if self.resolution is None else [f"resolves {self.resolution:.2g}"])])


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
    """

    text: str
    printed: Sequence[Finding]
    numbers: Mapping[str, float] = field(default_factory=dict)
    corrections: Sequence[Statement] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, each once, those of the corrections included."""
        others = [finding for statement in self.corrections for finding in statement.findings]
        return tuple(dict.fromkeys([*self.printed, *others]))


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
class Checked:
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
    statement is wrong as printed: corrected when there are findings about the corrected statement, and it
    fails when there are none. Without findings about the print (it leaves a constant open) those about the
    order decide between "order only" and "fails"; those that answer a question come last. Without any finding
    the claim is open. Whatever the print, a finding about a correction or an answer that does not keep its
    limit leaves the claim unsettled, and so do fewer runs than the check asks for.

    Examples
    --------
    >>> wrong = Finding("printed", "numeric", "gap", 0.1, "<=", 1e-9)
    >>> right = Finding("corrected", "numeric", "gap", 1e-16, "<=", 1e-9)
    >>> print(verdict(Evidence("", [wrong])), "/", verdict(Evidence("", [wrong, right])))
    fails / wrong as printed, corrected
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
            return Verdict.CORRECTED if passed["corrected"] and all(passed["order"]) else Verdict.FAILS
        return Verdict.HOLDS if all(passed["order"]) else Verdict.UNSETTLED
    if passed["order"]:
        return Verdict.ORDER_ONLY if all(passed["order"]) else Verdict.FAILS
    return Verdict.ANSWERED if passed["answer"] or passed["corrected"] else Verdict.OPEN


def evidence(text: str, *parts: Finding | Statement, numbers: Mapping[str, float] | None = None) -> Evidence:
    """Return what a check found out, from findings and sentences of a correction in any order.

    Examples
    --------
    >>> right = numeric("corrected", "gap", 1e-16, "<=", rounding(1e-9))
    >>> wrong = numeric("printed", "gap", 0.1, "<=", rounding(1e-9))
    >>> found = evidence("added", wrong, says("it is 2", right))
    >>> str(verdict(found)), [one.text for one in found.corrections]
    ('wrong as printed, corrected', ['it is 2'])
    """
    printed = [part for part in parts if isinstance(part, Finding)]
    return Evidence(text, printed, numbers or {}, [part for part in parts if isinstance(part, Statement)])


def says(text: str, *findings: Finding) -> Statement:
    """Return a sentence of a correction and what it rests on; numbers in it are formatted from values."""
    return Statement(text, findings)


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
    entries = list(residual) if isinstance(residual, sp.MatrixBase) else [sp.sympify(residual)]
    # Most residuals are polynomials: expanding them is faster than all that `simplify` tries.
    entries = [entry for entry in entries if sp.expand(entry) != 0]
    left = [entry for entry in map(sp.simplify, entries) if entry != 0]
    if not left:
        return Finding(about, "symbolic", f"{text}; residual 0", 0.0, "==", derived())
    names = sorted({s for entry in left for s in entry.free_symbols}, key=str)
    # Distinct primes in the denominators: no accidental zero, and inside (0, 1) where probabilities live.
    point = {s: sp.Rational(1, sp.prime(k + 2)) for k, s in enumerate(names)}
    sizes = [abs(complex(entry.subs(point))) for entry in left]
    return Finding(about, "symbolic", f"{text}; residual {left[0]}", max(*sizes, 5e-324), "==", derived())


def bound(about: str, text: str, value: float, relation: str, limit: Limit) -> Finding:
    """Return the finding of a search for a violation: the worst case met and its limit."""
    return Finding(about, "bound searched", text, float(value), relation, limit)


def numeric(about: str, text: str, value: float, relation: str, limit: Limit) -> Finding:
    """Return the finding of a computation; where two routes are compared, the limit is their error."""
    return Finding(about, "numeric", text, float(value), relation, limit)


def experiment(
    about: str, text: str, value: float, relation: str, limit: Limit, *, origin: Origin = ""
) -> Finding:
    """Return the finding of an experiment in which chance has no part, such as a count.

    `origin` may be the dataset that it was read off, or several, here and below.
    """
    return Finding(about, "experiment", text, float(value), relation, limit, _origin(origin))


def runs(text: str, count: int, *, origin: Origin = "") -> Finding:
    """Return the finding that a trained number rests on five runs or more: with fewer nothing is settled.

    Examples
    --------
    >>> kept = experiment("printed", "power", 1, ">=", before(0))
    >>> str(verdict(evidence("two seeds", runs("seeds", 2), kept)))
    'unsettled: too few runs'
    """
    return Finding("runs", "experiment", text, float(count), ">=", after(RUNS), _origin(origin))


def shown(
    about: str, text: str, found: Found, relation: str, limit: Limit, *, origin: Origin = ""
) -> Finding:
    """Return the finding that an estimate keeps a limit with confidence: its nearer end decides.

    Of several estimates, each at the level of its family, the worst decides.

    Examples
    --------
    >>> rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    >>> [shown("corrected", "growth", rise, ">=", derived(limit)).passed for limit in (0.0, 0.5)]
    [True, False]
    """
    return _limited(about, text, found, relation, limit, origin, near=True)


def allowed(
    about: str, text: str, found: Found, relation: str, limit: Limit, *, origin: Origin = ""
) -> Finding:
    """Return the finding that an estimate does not refute a limit: its farther end decides.

    Examples
    --------
    >>> rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    >>> [allowed("printed", "growth", rise, ">=", derived(limit)).passed for limit in (1.5, 2.0)]
    [True, False]
    """
    return _limited(about, text, found, relation, limit, origin, near=False)


def between(
    judge: Callable[..., Finding],
    about: str,
    text: str,
    found: Found,
    low: Limit,
    high: Limit,
    **origin: Origin,
) -> list[Finding]:
    """Return two findings by `shown` or `allowed`, for a limit on either side.

    Examples
    --------
    >>> rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    >>> [found.passed for found in between(allowed, "printed", "growth", rise, derived(0), before(0.3))]
    [True, False]
    """
    return [judge(about, text, found, side, limit, **origin) for side, limit in ((">=", low), ("<=", high))]


def _limited(
    about: str, text: str, found: Found, relation: str, limit: Limit, origin: Origin, *, near: bool
) -> Finding:
    estimates = [found] if isinstance(found, Estimate) else list(found)
    choice("relation", relation, ("<=", "<", ">=", ">"))
    low = (relation[0] == ">") == near
    ends = [one.low if low else one.high for one in estimates]
    # The worst of several breaks the limit first; a nan breaks it at once.
    worst = math.nan if any(map(math.isnan, ends)) else (min if relation[0] == ">" else max)(ends)
    name = f"{text}: {'worst ' if len(ends) > 1 else ''}{'lower' if low else 'upper'} limit"
    alarm = max((one.alarm for one in estimates if one.alarm is not None), default=None)
    half = max((one.high - one.low) / 2 for one in estimates)
    where = _origin(origin)
    return Finding(about, "experiment", name, float(worst), relation, limit, where, alarm, half)


def _origin(origin: Origin) -> str:
    """Say where a dataset comes from: stored with the project, or run now."""
    if isinstance(origin, str):
        return origin
    if isinstance(origin, tuple):
        return "; ".join(dict.fromkeys(map(_origin, origin)))
    facts = (str(origin.attrs.get(name, "")) for name in ("stored_date", "stored_device"))
    file = origin.attrs.get("stored_file")
    return "run now" if file is None else f"stored: {', '.join(filter(None, (str(file), *facts)))}"


@as_annotated
def as_record(checked: Checked) -> dict[str, Any]:
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
            "corrections": [
                {"text": one.text, "findings": [f.text for f in one.findings]} for one in evidence.corrections
            ],
        },
        "seconds": round(checked.seconds, 3),
    }


@as_annotated
def from_record(claim: Claim, record: Mapping[str, Any]) -> Checked:
    """Return the row that `as_record` made plain.

    Raises
    ------
    ValueError
        If a part of it is missing or of another kind.

    Examples
    --------
    >>> from superposition.validate import claims
    >>> row = claims.run(["C21"])[0]
    >>> claims.from_record(row.claim, claims.as_record(row)).verdict == row.verdict
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
            says(one["text"], *(by_text[text] for text in one["findings"])) for one in kept["corrections"]
        ]
        numbers = {name: float(value) for name, value in kept["numbers"].items()}
        about = {"trouble": record["trouble"] or "", "judged": record["judged"] or ""}
        return Checked(claim, Evidence(kept["text"], found, numbers, said), record["seconds"], **about)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"`record` must be what `as_record` makes ({why}).") from error


@as_annotated
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

    Examples
    --------
    >>> from superposition.validate import claims
    >>> print(claims.text(claims.run(ids=["C9", "C21"]), width=72))
    C9, Eq. 20: Tr(W W^+) >= sum |lambda_i|^2 >= n_s^2/n_d
        holds
    <BLANKLINE>
    C21, App. D: L <= p L_on
        wrong as printed, corrected: L >= p L_on, as L - p L_on = (1 - p)
        L_off >= 0
    """
    width = integer("width", width, 20)

    def filled(words: str, indent: str) -> str:
        # A formula's minus is no hyphen.
        return textwrap.fill(
            words, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )

    def paragraph(row: Checked) -> str:
        more = row.correction or row.trouble
        found = f"{row.verdict}: {more}" if more else str(row.verdict)
        said = f"{row.claim.id}, {row.claim.where}: {row.claim.statement}"
        return filled(said, "") + "\n" + filled(found, "    ")

    return "\n\n".join(map(paragraph, rows))
