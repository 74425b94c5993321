"""How an experiment is declared: settings, the Dataset that they give, and how the report shows it.

A phenomenon's package has one `Section`. It lists its runs with their settings for each profile, and
its topics: what the report shows of them. A topic gets datasets and returns text, figures and tables. It runs
nothing and decides nothing: verdicts come from findings, which the rows of the ledger that the topic names
compute from the same datasets, and so does its `judge` where what was asked has no row.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer, short_repr

if TYPE_CHECKING:  # what runs alone needs no statistics
    from .findings import Finding

__all__ = [
    "LARGEST_SEED",
    "PROFILES",
    "SINGLE",
    "STOPPED",
    "SUMS",
    "WHOLE",
    "Draw",
    "Figure",
    "ReproductionCheck",
    "Run",
    "Section",
    "Table",
    "Topic",
    "TopicContent",
    "from_rows",
    "span",
]  # fmt: skip

PROFILES = ("quick", "full")

# Files in netCDF-3 hold integers below 2^31; runs of one experiment count their seeds up from this.
LARGEST_SEED = 2**30

Draw = Callable[[xr.Dataset, Axes], Axes]


# Why a part that is made anew may differ from what is stored.
SUMS = "sums are taken in another order"
SINGLE = (
    "processors round products of single precision differently: on one of them the numbers come out bit for "
    "bit, on another 3300 steps amplify that along flat directions; the limit was chosen when the "
    "differences of two processors had been seen, 7e-5 at most"
)
STOPPED = (
    "a descent that ends after a number of steps, before it has converged, ends elsewhere on another "
    "processor; the limit was chosen when a difference of 5.5e-5 had been seen"
)


@dataclass(frozen=True)
class ReproductionCheck:
    """The part of a stored run that a test makes anew, to see that today's code gives its numbers.

    Parameters
    ----------
    settings : mapping from str to object, optional
        These replace those of the run.
    only : sequence of str, optional
        Variables that are compared; all, if none are named.
    tolerance : float, optional
        Largest difference allowed, in units of the largest value of the variable.
    reason : str, optional
        Why there is a tolerance.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] = ()
    tolerance: float = 0.0
    reason: str = ""


WHOLE = ReproductionCheck(tolerance=1e-6, reason=SUMS)


@as_annotated
@dataclass(frozen=True)
class Run:
    """What is run, with which settings: the one declaration of an experiment.

    Parameters
    ----------
    function : callable
        A ``run_…`` of a room, which returns an `xarray.Dataset`. A setting ``seed`` that it has and that is
        not given is the seed of the report; seeds that are given as ``seeds`` are counted from it.
    quick, full : mapping from str to object
        Settings for minutes on two cores, and for hours.
    split_by : str, or sequence of mapping, optional
        A setting that is a list, or settings that replace those given. For each entry there is a piece, made
        in a process of its own.
    concat_dim : str, optional
        Dimension along which the pieces are joined.
    torch : bool, optional
        Whether it needs PyTorch.
    seconds : float, optional
        About how long a quick run of one piece takes on one core: the longest are started first.
    stored : str, optional
        Name of its dataset in ``validate/reference``, which is read in place of running where the run is
        there. Such a run has the same settings always, whatever the seed of the report.
    what : str, optional
        What it is for, in a line; the first line of the function if not given.
    check : ReproductionCheck, optional
        Of a stored run, what is made anew to compare; everything by default.
    name : str, optional
        As phenomenon.name, such as ``collisions.fig3``; `registry.list_runs` fills it in.

    Examples
    --------
    >>> def run_mean(size, seeds):
    ...     return xr.Dataset({"mean": ("seed", [size / 2 for _ in seeds])})
    >>> Run(run_mean, quick={"size": 4, "seeds": range(2)}).piece_settings("quick", seed=5)
    [{'size': 4, 'seeds': [5, 6]}]
    """

    function: Callable[..., xr.Dataset]
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    split_by: str | Sequence[Mapping[str, Any]] = ()
    concat_dim: str = ""
    torch: bool = False
    seconds: float = 1.0
    stored: str = ""
    what: str = ""
    check: ReproductionCheck = field(default_factory=ReproductionCheck)
    name: str = ""

    @classmethod
    def shipped(
        cls,
        dataset: str,
        what: str,
        function: Callable[..., xr.Dataset],
        settings: Mapping[str, Any] | None = None,
        *,
        seconds: float = 1000.0,
        **more: Any,
    ) -> "Run":
        """Return a run that comes with the package, or will, in a dataset; it takes too long for a report."""
        if not isinstance(dataset, str):
            raise ValueError(f"`dataset` must be text; got {short_repr(dataset)}.")
        every = settings or {}
        return cls(function, every, every, stored=dataset, what=what, seconds=seconds, **more)

    @property
    def experiment(self) -> str:
        """Its function, as phenomenon.name: what stored runs name."""
        room = self.name.partition(".")[0]
        return f"{room}.{self.function.__name__.removeprefix('run_')}"

    @property
    def file(self) -> str:
        """Name of a file of this run alone, without the ending."""
        room, _, own = self.name.partition(".")
        return own if room == "training" else f"{room}_{own}"

    @property
    def summary(self) -> str:
        """What it is for, in a line."""
        return self.what or (inspect.getdoc(self.function) or "").partition("\n")[0]

    @as_annotated
    def settings(self, profile: str, seed: int, changed: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return all settings together; `changed` replaces those that it names."""
        given = dict(self.quick if choice("profile", profile, PROFILES) == "quick" else self.full)
        given |= changed or {}
        if not self.stored:
            if not isinstance(given.get("seeds", 0), int):  # where it is not how many
                given["seeds"] = [seed + k for k in given["seeds"]]
            if "seed" in inspect.signature(self.function).parameters:
                given.setdefault("seed", seed)
        return given

    @as_annotated
    def piece_settings(
        self, profile: str, seed: int, changed: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the settings of each piece; a run that is changed has pieces only by a setting."""
        given = self.settings(profile, seed, changed)
        if isinstance(self.split_by, str):
            return [{**given, self.split_by: [entry]} for entry in given[self.split_by]]
        return [{**given, **piece} for piece in self.split_by if not changed] or [given]


@dataclass(frozen=True)
class Figure:
    """A figure of the report and the data behind it.

    Parameters
    ----------
    name, title, caption : str
        Plain text; the name is unique in its section and part of that of the data file.
    dataset : xarray.Dataset
        What is drawn; written as netCDF beside the page.
    draw : callable or sequence of callable
        ``draw(dataset, ax) -> ax``, one for each panel.
    columns : int, optional
        Panels in a row.
    size : (float, float), optional
        Width and height of one panel in inches.
    """

    name: str
    title: str
    caption: str
    dataset: xr.Dataset
    draw: Draw | Sequence[Draw]
    columns: int = 2
    size: tuple[float, float] = (4.6, 3.4)


@dataclass(frozen=True)
class Table:
    """A table of the report: cells are text or numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @classmethod
    def of(cls, title: str, frame: pd.DataFrame, caption: str = "") -> "Table":
        """Return a data frame as a table; its index is not shown."""
        return cls(title, [*map(str, frame.columns)], frame.astype(object).values.tolist(), caption)

    @classmethod
    def formatted(cls, title: str, ds: xr.Dataset, columns: Mapping[str, str], caption: str = "") -> "Table":
        """Return a table with a row for each entry of a dataset: columns are formats of its variables.

        Examples
        --------
        >>> ds = xr.Dataset({"loss": ("p", [0.25, np.nan])}, {"p": [0.1, 0.2]})
        >>> Table.formatted("Losses", ds, {"p": "{p:g}", "loss": "{loss:.1%}"}).rows
        [['0.1', '25.0%'], ['0.2', '-']]
        """
        rows = ds.to_dataframe().reset_index().to_dict("records")
        cells = [[re.sub(r"\bnan\b%?", "-", form.format(**row)) for form in columns.values()] for row in rows]
        return cls(title, list(columns), cells, caption)


@dataclass(frozen=True)
class TopicContent:
    """What the report shows of a topic: plain text with empty lines between paragraphs, figures, tables.

    A headline is a sentence for the first screen of the page; the first figure stands small beside it.
    """

    text: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    headline: str = ""


@dataclass(frozen=True)
class Topic:
    """A part of a section: what is shown of some experiments.

    Parameters
    ----------
    name : str
        Unique in its section.
    needs : sequence of str
        Experiments of the section, or of others as ``"rug.trained"``.
    show : callable
        Takes their datasets, in this order, and returns `TopicContent`.
    claims : sequence of str, optional
        Rows of the ledger that decide what the topic is about; the page shows their verdicts there.
    judge : callable, optional
        Takes the same datasets and returns findings by the criteria of the topic; a table shows them.

    Examples
    --------
    >>> from superposition.validate.runner.findings import Criterion, preregistered
    >>> low = Criterion("loss", "<=", preregistered(0.5))
    >>> said = lambda ds: TopicContent("Two losses.")
    >>> topic = Topic("losses", ["room.losses"], said, judge=lambda ds: [low.finding(ds["loss"])])
    >>> topic.content(xr.Dataset({"loss": ("p", [0.25, 0.75])})).tables[0].rows
    [['loss', '<= 0.5', 'chosen before the data', '0.75', '1 of 2', 'fails']]
    """

    name: str
    needs: Sequence[str]
    show: Callable[..., TopicContent]
    claims: Sequence[str] = ()
    judge: "Callable[..., Sequence[Finding]] | None" = None

    def content(self, *datasets: xr.Dataset) -> TopicContent:
        """Return what is shown of datasets, and of the criteria whether they hold."""
        made = self.show(*datasets)
        if self.judge is None:
            return made
        rows = [
            [
                one.text,
                f"{one.relation} {one.limit:.4g}",
                one.limit_set.removeprefix("limit "),
                "-" if np.isnan(one.value) else f"{one.value:.3g}",
                one.places,
                "no place" if one.places == "no place" else "holds" if one.passed else "fails",
            ]
            for one in self.judge(*datasets)
        ]
        columns = ("what", "limit", "how the limit was set", "worst", "kept at", "criterion")
        return replace(made, tables=[*made.tables, Table("What was asked", columns, rows)])


@dataclass(frozen=True)
class Section:
    """A phenomenon: `name` is the package's; `text` is plain and true of any run; all runs; what is shown."""

    name: str
    title: str
    text: str
    runs: Mapping[str, Run]
    topics: Sequence[Topic]

    @classmethod
    def of(cls, name: str, title: str, text: str, *experiments: Any) -> "Section":
        """Return the section of modules that have `RUNS`, `TOPICS` or both, in this order.

        Raises
        ------
        ValueError
            If two of them have a run of the same name.
        """
        runs: dict[str, Run] = {}
        topics: list[Topic] = []
        for module in experiments:
            for own, run in getattr(module, "RUNS", {}).items():
                if own in runs:
                    raise ValueError(f"`experiments` must have different runs; got {own!r} twice.")
                runs[own] = run
            topics += getattr(module, "TOPICS", [])
        return cls(name, title, text, runs, topics)


def as_list(value: Any) -> Any:
    """Return an array, tuple or range as a list, for JSON."""
    return value.tolist() if hasattr(value, "tolist") else list(value)


@contextmanager
def entry_of(name: str) -> Iterator[None]:
    """Name the argument of which an entry is refused, where a check calls the entry something else.

    Examples
    --------
    >>> with entry_of("cases"):
    ...     integer("n_hidden", 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: `n_hidden` must be an integer of at least 1; got 0. It is an entry of `cases`.
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error} It is an entry of `{name}`.") from error


@as_annotated
def from_rows(rows: Sequence[Mapping[str, Any]], **along: Any) -> xr.Dataset:
    """Turn rows into a dataset with a variable for each column.

    Parameters
    ----------
    rows : sequence of mapping
        From names to numbers or text, or to arrays as (dims, array); these dims come after those of the rows.
    **along : int or sequence
        Dimensions of the grid of the rows, in which the last one varies fastest: coordinates of each, or its
        size, -1 for whatever size is left.

    Examples
    --------
    >>> rows = [{"loss": k / 4, "bias": ("feature", [k, -k])} for k in range(4)]
    >>> ds = from_rows(rows, p=[0.1, 0.2], seed=2)
    >>> ds["loss"].sel(p=0.2).values, ds["bias"].dims
    (array([0.5 , 0.75]), ('p', 'seed', 'feature'))
    """
    places = {
        dim: list(one)
        for dim, one in along.items()
        if np.ndim(one) == 1 or isinstance(one, list | tuple | range)
    }
    sizes = [len(places[dim]) if dim in places else integer(dim, one, -1) for dim, one in along.items()]
    columns = {}
    for name in rows[0]:
        try:
            cells = [xr.as_variable(row[name]) for row in rows]
            values = np.reshape([cell.values for cell in cells], (*sizes, *cells[0].shape))
        except (KeyError, TypeError, ValueError) as error:
            shape = ", ".join(f"{dim}={size}" for dim, size in zip(along, sizes, strict=True))
            rule = f"have {name!r} everywhere, of one shape, and fill the dimensions {shape}"
            raise ValueError(f"`rows` must {rule}; got {len(rows)} of them ({error}).") from error
        columns[name] = ((*along, *cells[0].dims), values)
    return xr.Dataset(columns, places)


@as_annotated
def span(values: npt.ArrayLike, digits: str = ".3g") -> str:
    """Return the smallest and the largest value as text, or one of them if they read the same.

    Examples
    --------
    >>> span([1.0, 2.0]), span([1.0, 1.0004])
    ('1 to 2', '1')
    """
    if np.size(values) == 0:
        raise ValueError(f"`values` must not be empty; got {short_repr(values)}.")
    try:
        low, high = (f"{float(end):{digits}}" for end in (np.min(values), np.max(values)))
    except ValueError as error:
        raise ValueError(
            f"`digits` must be a format of floats, such as '.3g'; got {short_repr(digits)}."
        ) from error
    return low if low == high else f"{low} to {high}"
