"""Findings: computed numbers with the limits that they must keep, and how each limit was set.

A limit of numbers in several places is a `Criterion`, declared once.
"""

import math
import numbers
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...solvers.statistics import Estimate
from ...theory.derivation import sp
from ...theory.validation import choice, short_repr

__all__ = ["Criterion", "Finding", "Limit"]

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
Estimates = Estimate | Sequence[Estimate]
Origin = str | xr.Dataset | tuple[xr.Dataset, ...]


class Limit(float):
    """A number with the basis on which it was set as a limit of findings; its negative has the same basis.

    >>> -post_hoc(0.2), (-post_hoc(0.2)).basis
    (-0.2, 'after')
    """

    basis: str

    def __new__(cls, limit: float, basis: str) -> "Limit":
        """Return the number `limit` with its basis, how it was set: a key of `BASES`.

        These are "derived", "rounding" (an error of computation), and "before" or "after" a look at the data.
        """
        instance = super().__new__(cls, limit)
        instance.basis = choice("basis", basis, tuple(BASES))
        return instance

    def __neg__(self) -> "Limit":
        return Limit(-float(self), self.basis)


def derived(limit: float = 0.0) -> Limit:
    """Return a limit that follows from the statement or from a proof, such as a sign."""
    return Limit(limit, "derived")


def rounding(limit: float) -> Limit:
    """Return a limit that is the numerical error of a computation."""
    return Limit(limit, "rounding")


def preregistered(limit: float) -> Limit:
    """Return a limit that was chosen before the deciding data existed."""
    return Limit(limit, "before")


def post_hoc(limit: float) -> Limit:
    """Return a limit that was chosen after the value, or a similar one, was known or may have been known.

    It is also the limit of an estimate to which runs were added after a look at the estimate.
    """
    return Limit(limit, "after")


@dataclass(frozen=True)
class Finding:
    """A computed number and the limit that it must keep for a statement to hold.

    >>> gap = Finding("printed", "numeric", "largest gap", 2e-16, "<=", rounding(1e-15))
    >>> gap.passed, gap.origin, gap.basis
    (True, 'computed now', 'rounding')
    >>> Finding("printed", "experiment", "p-value", 0.2, ">=", post_hoc(0.01), alarm=0.01).alarm
    """

    about: str
    """The statement tested, one of "printed", "corrected", "order" and "answer"; or "runs", if the finding is
    whether there are enough runs for a verdict; "" if the field of the evidence that has it says which.
    """
    kind: str
    """How the number was found. One of "symbolic", "bound searched", "numeric", "experiment"."""
    text: str
    """Description of the number."""
    value: float
    """The number; it may be infinite. A nan keeps no limit."""
    relation: str
    """The relation that `value` must have to `limit`: "==", "<=", "<", ">=" or ">"."""
    limit: float
    """The limit; it may be infinite."""
    origin: str = ""
    """"derived", "computed now", "run now", or "stored" with file, date and device; by `kind` if not
    given.
    """
    alarm: float | None = None
    """False-alarm rate of the family of tests to which this one belongs; None without statistics."""
    resolution: float | None = None
    """Distance of the truth from the limit that can be detected: half the interval's width."""
    basis: str = ""
    """How the limit was set, a key of `BASES`; that of a `Limit` if not given. With "after", a limit chosen
    after the data, there is no alarm rate.
    """
    places: str = ""
    """For a `Criterion`, how many of the values keep its limit, such as "3 of 4"."""

    def __post_init__(self) -> None:
        if not isinstance(self.origin, str):
            raise ValueError(f"`origin` must be text; got {self.origin!r:.80}.")
        choice("about", self.about, (*ABOUT, ""))
        choice("kind", self.kind, tuple(ORIGINS))
        choice("relation", self.relation, tuple(RELATIONS))
        object.__setattr__(self, "basis", self.basis or getattr(self.limit, "basis", UNSTATED))
        choice("basis", self.basis, (*BASES, UNSTATED))
        for name in ("value", "limit"):
            number = getattr(self, name)
            if isinstance(number, bool | np.bool_ | np.timedelta64) or not isinstance(number, numbers.Real):
                raise ValueError(f"`{name}` must be a number; got {number!r}.")
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
        """The kind, such as "numeric"; "counterexample" if the finding contradicts the printed statement."""
        return "counterexample" if self.about == "printed" and not self.passed else self.kind

    @property
    def limit_set(self) -> str:
        """How the limit was set, such as "limit chosen before the data"."""
        return f"limit {BASES.get(self.basis, self.basis)}"

    @property
    def chance(self) -> str:
        """False-alarm rate and resolution (half the interval's width) as text; "" without statistics."""
        alarm = "" if self.alarm is None else f"alarm rate {self.alarm:.1g}"
        resolution = "" if self.resolution is None else f"resolves {self.resolution:.2g}"
        return ", ".join(filter(None, [alarm, resolution]))


@dataclass(frozen=True)
class Criterion:
    """A limit that numbers must keep, declared once with its basis.

    >>> near = Criterion("|exponent - 1|", "<=", preregistered(0.2))
    >>> near.satisfied([0.1, 0.3]).tolist()
    [True, False]
    >>> finding = near.finding([0.1, 0.3])
    >>> finding.passed, finding.value, finding.places
    (False, 0.3, '1 of 2')
    """

    text: str
    """Description of the numbers."""
    relation: str
    """One of "<=", "<", ">=", ">"."""
    limit: Limit
    """Made by `derived`, `rounding`, `preregistered` or `post_hoc`."""

    def __post_init__(self) -> None:
        choice("relation", self.relation, ("<=", "<", ">=", ">"))
        if not isinstance(self.limit, Limit):
            rule = "say how it was set, such as preregistered(0.1)"
            raise ValueError(f"`limit` must {rule}; got {self.limit!r:.80}.")

    def __format__(self, digits: str) -> str:
        """Return the limit as text in `digits`, a format of floats."""
        return format(float(self.limit), digits)

    def satisfied(self, values: Any) -> Any:
        """Return whether each of `values` keeps the limit (nan does not), as an array or DataArray."""
        array = _numbers(values)
        relation: Any = RELATIONS[self.relation]
        return relation(values if isinstance(values, xr.DataArray) else array, float(self.limit))

    def finding(self, values: npt.ArrayLike, *, kind: str = "experiment", origin: Origin = "") -> Finding:
        """Return the finding that all of `values` keep the limit: the worst number, or any nan, decides.

        `kind` is that of the finding, `origin` the dataset, or text, that the values are from.
        """
        array = _numbers(values).ravel()
        worst = np.nan if not array.size else array.min() if self.relation[0] == ">" else array.max()
        counts = f"{int(np.sum(self.satisfied(array)))} of {array.size}" if array.size else "no place"
        source = _origin_text(origin) or ORIGINS[kind]
        return Finding("", kind, self.text, float(worst), self.relation, self.limit, source, places=counts)


def _numbers(values: Any) -> npt.NDArray[Any]:
    """Return numbers or truth values as an array; other values raise a ValueError."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array
    except (TypeError, ValueError, RuntimeError):
        pass
    raise ValueError(f"`values` must be numbers; got {short_repr(values)}.")


def symbolic(text: str, residual: Any, *, about: str = "") -> Finding:
    """Return the finding that a SymPy expression, `residual`, is identically zero.

    `text` describes the expression, `about` is the statement tested, such as "printed" or "corrected". The
    value is 0 only if SymPy simplifies the expression (or each entry of a matrix) to zero. Otherwise the text
    has the residual, and the value is its largest magnitude at a fixed rational point.

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> symbolic("square", (x + 1) ** 2 - x**2 - 2 * x - 1).value
    0.0
    >>> symbolic("square", (x + 1) ** 2 - x**2 - 2 * x).text
    'square; residual 1'
    """
    entries = list(residual) if isinstance(residual, sp.MatrixBase) else [sp.sympify(residual)]
    # Most residuals are polynomials: expanding them is faster than all that `simplify` tries.
    entries = [entry for entry in entries if sp.expand(entry) != 0]
    residuals = [entry for entry in map(sp.simplify, entries) if entry != 0]
    if not residuals:
        return Finding(about, "symbolic", f"{text}; residual 0", 0.0, "==", derived())
    names = sorted({s for entry in residuals for s in entry.free_symbols}, key=str)
    # Distinct primes in the denominators: no accidental zero, and inside (0, 1) where probabilities live.
    point = {s: sp.Rational(1, sp.prime(k + 2)) for k, s in enumerate(names)}
    sizes = [abs(complex(entry.subs(point))) for entry in residuals]
    return Finding(
        about, "symbolic", f"{text}; residual {residuals[0]}", max(*sizes, 5e-324), "==", derived()
    )


def searched(text: str, value: float, relation: str, limit: Limit) -> Finding:
    """Return the finding of a search for a violation of a bound; `value` is the worst case that it met.

    The finding passes if `value` has this `relation`, "==", "<=", "<", ">=" or ">", to `limit`; `text`
    describes the value.
    """
    return Finding("", "bound searched", text, float(value), relation, limit)


def numeric(text: str, value: float, relation: str, limit: Limit, *, about: str = "") -> Finding:
    """Return the finding of a computation: that `value`, described by `text`, has a `relation` to `limit`.

    The relation is "==", "<=", "<", ">=" or ">". If the value is a difference of two computations, the limit
    is their error. `about` is the statement that is tested, such as "printed" or "corrected".
    """
    return Finding(about, "numeric", text, float(value), relation, limit)


def experiment(text: str, value: float, relation: str, limit: Limit, *, origin: Origin = "") -> Finding:
    """Return the finding of an experiment without statistics, such as a count.

    The finding passes if `value` has this `relation`, "==", "<=", "<", ">=" or ">", to `limit`; `text`
    describes the value, `origin` is the dataset, or several, from which it was computed.
    """
    return Finding("", "experiment", text, float(value), relation, limit, _origin_text(origin))


def enough_runs(text: str, count: int, *, origin: Origin = "") -> Finding:
    """Return the finding that a number from training rests on five runs or more; fewer give no verdict.

    `count` is the number of runs, `text` describes them, `origin` is their dataset, or several.

    >>> enough_runs("seeds", 2).passed, enough_runs("seeds", 5).passed
    (False, True)
    """
    return Finding("runs", "experiment", text, float(count), ">=", post_hoc(RUNS), _origin_text(origin))


def confirmed(
    text: str, estimates: Estimates, relation: str, limit: Limit, *, origin: Origin = ""
) -> Finding:
    """Return the finding that all of an estimate's confidence interval keeps a limit.

    The lower end of the interval decides for the relations ">=" and ">", the upper one for "<=" and "<"; of
    several `estimates`, each at the level of its family (tests that share one false-alarm rate), the worst
    decides. `text` says what is estimated, `origin` is the dataset of the estimates.

    >>> rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    >>> [confirmed("growth", rise, ">=", derived(limit)).passed for limit in (0.0, 0.5)]
    [True, False]
    """
    return _interval_finding(text, estimates, relation, limit, origin, near=True)


def not_refuted(
    text: str, estimates: Estimates, relation: str, limit: Limit, *, origin: Origin = ""
) -> Finding:
    """Return the finding that an estimate does not refute a limit: some of its interval keeps the limit.

    For ">=" and ">" the upper end of the interval decides, else the lower one; of several `estimates` the
    worst. `text` says what is estimated, `relation` is "<=", "<", ">=" or ">", `origin` is the dataset of the
    estimates.

    >>> rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    >>> [not_refuted("growth", rise, ">=", derived(limit)).passed for limit in (1.5, 2.0)]
    [True, False]
    """
    return _interval_finding(text, estimates, relation, limit, origin, near=False)


def in_range(
    judge: Callable[..., Finding],
    text: str,
    estimates: Estimates,
    low: Limit,
    high: Limit,
    **options: Origin,
) -> list[Finding]:
    """Return two findings by `judge` (`confirmed` or `not_refuted`), that estimates are in [`low`, `high`].

    `text` says what is estimated; `options` may have `origin`, the dataset of the estimates.

    >>> rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    >>> [finding.passed for finding in in_range(not_refuted, "growth", rise, derived(0), preregistered(0.3))]
    [True, False]
    """
    return [judge(text, estimates, side, limit, **options) for side, limit in ((">=", low), ("<=", high))]


def _interval_finding(
    text: str, estimates: Estimates, relation: str, limit: Limit, origin: Origin, *, near: bool
) -> Finding:
    """Return the finding that the worst of several estimates keeps a limit with an end of its interval.

    With `near` all of the interval has to keep the limit: the end is the lower one for the relations ">=" and
    ">", the upper one for "<=" and "<". Otherwise some of the interval has to, and it is the other end.
    `text` says what is estimated, and `origin` is the dataset of the estimates.
    """
    estimates = [estimates] if isinstance(estimates, Estimate) else list(estimates)
    choice("relation", relation, ("<=", "<", ">=", ">"))
    low = (relation[0] == ">") == near
    ends = [estimate.low if low else estimate.high for estimate in estimates]
    # The worst of several decides; a nan keeps no limit.
    worst = math.nan if any(map(math.isnan, ends)) else (min if relation[0] == ">" else max)(ends)
    name = f"{text}: {'worst ' if len(ends) > 1 else ''}{'lower' if low else 'upper'} limit"
    alarm = max((estimate.alarm for estimate in estimates if estimate.alarm is not None), default=None)
    half_width = max((estimate.high - estimate.low) / 2 for estimate in estimates)
    source = _origin_text(origin)
    return Finding("", "experiment", name, float(worst), relation, limit, source, alarm, half_width)


def _origin_text(origin: Origin) -> str:
    """Return the origin of datasets as text: "stored: file, date, device" or "run now"."""
    if isinstance(origin, str):
        return origin
    if isinstance(origin, tuple):
        return "; ".join(dict.fromkeys(map(_origin_text, origin)))
    facts = (str(origin.attrs.get(name, "")) for name in ("stored_date", "stored_device"))
    file = origin.attrs.get("stored_file")
    return "run now" if file is None else f"stored: {', '.join(filter(None, (str(file), *facts)))}"
