"""Declarations of experiments: runs with their settings, and the topics in which the report shows them.

A phenomenon's package has one `Section`, which lists its runs and topics. A topic only renders: it takes
datasets and returns text, figures and tables. Claims compute the verdicts from the same datasets; a question
without a claim is evaluated by the topic's `judge`.
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
    "SUMS",
    "UNCONVERGED",
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

# netCDF-3 holds integers below 2^31, and seeds of a run are counted from this one.
LARGEST_SEED = 2**30

Draw = Callable[[xr.Dataset, Axes], Axes]


# Reasons for the tolerance of a `ReproductionCheck`.
SUMS = "sums are taken in another order"
SINGLE = (
    "processors round products of single precision differently: on one of them the numbers come out bit for "
    "bit, on another 3300 steps amplify that along flat directions; the limit was chosen when the "
    "differences of two processors had been seen, 7e-5 at most"
)
UNCONVERGED = (
    "a descent that ends after a number of steps, before it has converged, ends elsewhere on another "
    "processor; the limit was chosen when a difference of 5.5e-5 had been seen"
)


@dataclass(frozen=True)
class ReproductionCheck:
    """The part of a stored run that a test recomputes and compares."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings in place of the run's, by name."""
    variables: Sequence[str] = ()
    """Variables that are compared; all, if none are named."""
    tolerance: float = 0.0
    """Largest difference allowed, in units of the largest value of the variable."""
    reason: str = ""
    """Why the tolerance is not 0."""


WHOLE = ReproductionCheck(tolerance=1e-6, reason=SUMS)


@as_annotated
@dataclass(frozen=True)
class Run:
    """The declaration of a run: a function and its settings.

    >>> def run_mean(size, seeds):
    ...     return xr.Dataset({"mean": ("seed", [size / 2 for _ in seeds])})
    >>> Run(run_mean, quick={"size": 4, "seeds": range(2)}).piece_settings("quick", seed=5)
    [{'size': 4, 'seeds': [5, 6]}]
    """

    function: Callable[..., xr.Dataset]
    """A function ``run_…`` that returns an `xarray.Dataset`. An argument ``seed`` without a setting gets
    the seed of the report, which is also added to each of the ``seeds``.
    """
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    """Settings for minutes on two cores, and for hours."""
    split_by: str | Sequence[Mapping[str, Any]] = ()
    """The run is computed in pieces, in parallel: one for each entry of this setting, which is a list, or
    one for each of these mappings of settings that replace those of the run.
    """
    concat_dim: str = ""
    """Dimension along which the pieces are concatenated."""
    torch: bool = False
    """Whether the run needs PyTorch."""
    seconds: float = 1.0
    """Approximate seconds of a quick run of one piece on one core; the longest are started first."""
    dataset: str = ""
    """Name of its dataset in ``validate/reference``; if the run is in it, it is read from there. The
    settings of such a run do not depend on the seed of the report.
    """
    purpose: str = ""
    """Purpose of the run, in a line; by default the first line of the function's docstring."""
    check: ReproductionCheck = field(default_factory=ReproductionCheck)
    """Part of a stored run that a test recomputes and compares; everything by default."""
    name: str = ""
    """As phenomenon.name, such as ``collisions.fig3``; `registry.list_runs` fills it in."""

    @classmethod
    def shipped(
        cls,
        dataset: str,
        purpose: str,
        function: Callable[..., xr.Dataset],
        settings: Mapping[str, Any] | None = None,
        *,
        seconds: float = 1000.0,
        **options: Any,
    ) -> "Run":
        """Return the declaration of a run stored in `dataset`, one that takes too long for a report.

        `purpose` is a line on its purpose, `seconds` its expected time. Both profiles, "quick" and "full",
        call `function` with these `settings`; `options` are other fields of `Run`.
        """
        settings = settings or {}
        return cls(function, settings, settings, dataset=dataset, purpose=purpose, seconds=seconds, **options)

    @property
    def experiment(self) -> str:
        """Function of the run with its phenomenon, such as "collisions.fig3"; stored files record it."""
        phenomenon = self.name.partition(".")[0]
        return f"{phenomenon}.{self.function.__name__.removeprefix('run_')}"

    @property
    def file(self) -> str:
        """Name of the file of this run, without the suffix."""
        phenomenon, _, name = self.name.partition(".")
        return name if phenomenon == "training" else f"{phenomenon}_{name}"

    @property
    def summary(self) -> str:
        """Purpose of the run, in a line: `purpose`, or the first line of its function's docstring."""
        return self.purpose or (inspect.getdoc(self.function) or "").partition("\n")[0]

    @as_annotated
    def settings(self, profile: str, seed: int, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings of the whole run: the profile's, `overrides`, and seeds counted from `seed`.

        `profile` is "quick" or "full"; a run stored in a dataset keeps its own seeds.
        """
        settings = dict(self.quick if choice("profile", profile, PROFILES) == "quick" else self.full)
        settings |= overrides or {}
        if not self.dataset:
            if not isinstance(settings.get("seeds", 0), int):  # an integer is the number of seeds
                settings["seeds"] = [seed + k for k in settings["seeds"]]
            if "seed" in inspect.signature(self.function).parameters:
                settings.setdefault("seed", seed)
        return settings

    @as_annotated
    def piece_settings(
        self, profile: str, seed: int, overrides: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the settings of each piece, a part of the run that is computed by itself.

        `profile` is "quick" or "full", `seed` the number from which seeds count, `overrides` are settings in
        place of the profile's. With `overrides` only a run split by a setting has several pieces.
        """
        settings = self.settings(profile, seed, overrides)
        if isinstance(self.split_by, str) or not overrides:
            return [{**settings, **piece} for piece in self.piece_overrides(settings)] or [settings]
        return [settings]

    def piece_overrides(self, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the settings in which each piece differs from the whole run; [] if the run is not split.

        A piece is a part that is computed by itself (`split_by`); `settings` are those of the whole run.
        """
        if isinstance(self.split_by, str):
            return [{self.split_by: [value]} for value in settings[self.split_by]]
        return list(map(dict, self.split_by))


@dataclass(frozen=True)
class Figure:
    """A figure of the report and its data."""

    name: str
    """Unique in its section; the data file is named for it."""
    title: str
    caption: str
    """Plain text."""
    dataset: xr.Dataset
    """The data that are drawn, written as netCDF beside the page."""
    draw: Draw | Sequence[Draw]
    """``draw(dataset, ax) -> ax``, one for each panel."""
    columns: int = 2
    """Panels in a row."""
    size: tuple[float, float] = (4.6, 3.4)
    """Width and height of one panel in inches."""


@dataclass(frozen=True)
class Table:
    """A table of the report: cells are text or numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @classmethod
    def of(cls, title: str, frame: pd.DataFrame, caption: str = "") -> "Table":
        """Return a data frame as a table with this title and caption; its index is not shown."""
        return cls(title, [*map(str, frame.columns)], frame.astype(object).values.tolist(), caption)

    @classmethod
    def formatted(cls, title: str, ds: xr.Dataset, columns: Mapping[str, str], caption: str = "") -> "Table":
        """Return a table with a row for each entry of a dataset: columns are formats of its variables.

        `title` stands above it, `caption` below.

        >>> ds = xr.Dataset({"loss": ("p", [0.25, np.nan])}, {"p": [0.1, 0.2]})
        >>> Table.formatted("Losses", ds, {"p": "{p:g}", "loss": "{loss:.1%}"}).rows
        [['0.1', '25.0%'], ['0.2', '-']]
        """
        rows = ds.to_dataframe().reset_index().to_dict("records")
        cells = [[re.sub(r"\bnan\b%?", "-", form.format(**row)) for form in columns.values()] for row in rows]
        return cls(title, list(columns), cells, caption)


@dataclass(frozen=True)
class TopicContent:
    """The text (paragraphs between empty lines), figures and tables that the report shows of a topic.

    The headline is a sentence for the first screen of the page, beside a small copy of the first figure.
    """

    text: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    headline: str = ""


@dataclass(frozen=True)
class Topic:
    """A part of a section: what the report shows of some runs.

    >>> from superposition.validate.runner.findings import Criterion, preregistered
    >>> low = Criterion("loss", "<=", preregistered(0.5))
    >>> show = lambda ds: TopicContent("Two losses.")
    >>> topic = Topic("losses", ["toy.losses"], show, judge=lambda ds: [low.finding(ds["loss"])])
    >>> topic.content(xr.Dataset({"loss": ("p", [0.25, 0.75])})).tables[0].rows
    [['loss', '<= 0.5', 'chosen before the data', '0.75', '1 of 2', 'fails']]
    """

    name: str
    """Unique in its section."""
    needs: Sequence[str]
    """Runs of the section, or of others as ``"rug.trained"``."""
    show: Callable[..., TopicContent]
    """Takes their datasets, in this order, and returns `TopicContent`."""
    claims: Sequence[str] = ()
    """Ids of the claims about the topic; the page shows their verdicts there."""
    judge: "Callable[..., Sequence[Finding]] | None" = None
    """Takes the same datasets and returns findings by the criteria of the topic; a table shows them."""

    def run_names(self, section: str) -> list[str]:
        """Return the full names, section.name, of the runs whose datasets the topic takes."""
        return [need if "." in need else f"{section}.{need}" for need in self.needs]

    def content(self, *datasets: xr.Dataset) -> TopicContent:
        """Return the report's content for these datasets, with a table of the findings of `judge`, if any.

        `judge` is the topic's function that returns the findings for the datasets.
        """
        content = self.show(*datasets)
        if self.judge is None:
            return content
        rows = [
            [
                finding.text,
                f"{finding.relation} {finding.limit:.4g}",
                finding.limit_set.removeprefix("limit "),
                "-" if np.isnan(finding.value) else f"{finding.value:.3g}",
                finding.places,
                finding.places if finding.places == "no place" else "holds" if finding.passed else "fails",
            ]
            for finding in self.judge(*datasets)
        ]
        columns = ("what", "limit", "how the limit was set", "worst", "kept at", "criterion")
        return replace(content, tables=[*content.tables, Table("What was asked", columns, rows)])


@dataclass(frozen=True)
class Section:
    """A phenomenon in the report: `name` is the package's, `text` is plain and true of any run."""

    name: str
    title: str
    text: str
    runs: Mapping[str, Run]
    topics: Sequence[Topic]

    @classmethod
    def of(cls, name: str, title: str, text: str, *experiments: Any) -> "Section":
        """Return a section, the report on a phenomenon, of the `RUNS` and `TOPICS` of modules, in order.

        The modules are `experiments`; `name`, `title` and `text` are fields of the section. Two runs of one
        name raise a ValueError.
        """
        runs: dict[str, Run] = {}
        topics: list[Topic] = []
        for module in experiments:
            for run_name, run in getattr(module, "RUNS", {}).items():
                if run_name in runs:
                    raise ValueError(f"`experiments` must have different runs; got {run_name!r} twice.")
                runs[run_name] = run
            topics += getattr(module, "TOPICS", [])
        return cls(name, title, text, runs, topics)


def as_list(value: Any) -> Any:
    """Return an array, tuple or range as a list, for JSON."""
    return value.tolist() if hasattr(value, "tolist") else list(value)


@contextmanager
def entry_of(name: str) -> Iterator[None]:
    """Append to ValueErrors raised in the context that the bad value is an entry of the argument `name`."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error} It is an entry of `{name}`.") from error


@as_annotated
def from_rows(rows: Sequence[Mapping[str, Any]], **dims: Any) -> xr.Dataset:
    """Return rows as a dataset with a variable for each column.

    A row maps names to numbers or text, or to arrays as (dims, array), whose dims come after those of the
    rows. `dims` are the dimensions of the grid of the rows, of which the last varies fastest; each is given
    by its coordinates or its size, and a size of -1 is inferred.

    >>> rows = [{"loss": k / 4, "bias": ("feature", [k, -k])} for k in range(4)]
    >>> ds = from_rows(rows, p=[0.1, 0.2], seed=2)
    >>> ds["loss"].sel(p=0.2).values, ds["bias"].dims
    (array([0.5 , 0.75]), ('p', 'seed', 'feature'))
    """
    coords = {
        dim: list(labels)
        for dim, labels in dims.items()
        if np.ndim(labels) == 1 or isinstance(labels, list | tuple | range)
    }
    sizes = [len(coords[dim]) if dim in coords else integer(dim, size, -1) for dim, size in dims.items()]
    columns = {}
    for name in rows[0]:
        try:
            cells = [xr.as_variable(row[name]) for row in rows]
            values = np.reshape([cell.values for cell in cells], (*sizes, *cells[0].shape))
        except (KeyError, TypeError, ValueError) as error:
            shape = ", ".join(f"{dim}={size}" for dim, size in zip(dims, sizes, strict=True))
            rule = f"have {name!r} everywhere, of one shape, and fill the dimensions {shape}"
            raise ValueError(f"`rows` must {rule}; got {len(rows)} of them ({error}).") from error
        columns[name] = ((*dims, *cells[0].dims), values)
    return xr.Dataset(columns, coords)


@as_annotated
def span(values: npt.ArrayLike, digits: str = ".3g") -> str:
    """Return the range of values as text, in the format `digits`; one number if both ends read the same.

    >>> span([1.0, 2.0]), span([1.0, 1.0004])
    ('1 to 2', '1')
    """
    if np.size(values) == 0:
        raise ValueError(f"`values` must not be empty; got {short_repr(values)}.")
    try:
        low, high = (f"{float(end):{digits}}" for end in (np.min(values), np.max(values)))
    except ValueError as error:
        rule = "a format of floats, such as '.3g'"
        raise ValueError(f"`digits` must be {rule}; got {short_repr(digits)}.") from error
    return low if low == high else f"{low} to {high}"
