"""The result of every public function: numbers, a summary in plain lines, a picture, sources."""

import enum
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...theory.features import Features

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Answer", "Certainty", "certainty_with", "law_in_words"]


class Certainty(enum.StrEnum):
    """The certainty of an answer's numbers, from the strongest to the weakest."""

    PROVED = "proved"
    EXACT = "exact"
    BEST_OF = "best of"
    COMPUTED = "computed"
    LIMIT = "limit of many features"
    ASYMPTOTIC = "asymptotic"
    MEASURED = "measured"
    NOT_DECIDED = "not decided"

    def with_note(self, note: str) -> str:
        """Return certainty and reason as text: "exact: to the error that is stated", "best of 60 starts"."""
        return f"{self} {note}" if self is Certainty.BEST_OF else f"{self}: {note}"


def law_in_words(*laws: Features) -> str:
    """Return a phrase on the probabilities of features under `laws`, and a common importance other than 1.

    >>> law_in_words(Features(5, 0.95))
    'each feature is on in 95 % of the inputs'
    >>> law_in_words(Features(2, [0.1, 0.2], importance=0.8))
    'features are on in 10 to 20 % of the inputs, importance 0.8 for all features'
    """
    p = np.concatenate([law.on_probability() * (1.0 - law.values.zero) for law in laws])
    importance = np.concatenate([law.importance for law in laws])
    low, high = f"{100.0 * p.min():.3g}", f"{100.0 * p.max():.3g}"
    sentence = f"each feature is on in {low} %" if low == high else f"features are on in {low} to {high} %"
    same = np.ptp(importance) == 0.0 and importance[0] != 1.0
    return f"{sentence} of the inputs" + (f", importance {importance[0]:g} for all features" if same else "")


# Share of a value above which its error leaves nothing of "exact".
_COARSE = 0.1


def certainty_with(value: float, error: float, zero: float) -> tuple[Certainty, str]:
    """Return (certainty, note) of a loss `value`: computed if its `error` is large, else exact.

    An error above a tenth of the loss is large, unless it is below 1e-6 of `zero`, the zero model's loss.

    >>> certainty_with(10.8, 4.0, 12.0)[1]
    'to within 37 % only: the error that is stated is a large share of the value'
    """
    share = error / value if value > 0.0 else 0.0
    if share > _COARSE and error > 1e-6 * zero:
        percent = f"{100.0 * share:.2g} %"
        note = f"to within {percent} only: the error that is stated is a large share of the value"
        return Certainty.COMPUTED, note
    return sampled_or_exact(False)


def sampled_or_exact(is_sampled: bool) -> tuple[Certainty, str]:
    """Return (certainty, note) of a loss: measured if `is_sampled`, a mean over samples, else exact."""
    if is_sampled:
        return Certainty.MEASURED, "a mean over samples, to four standard errors"
    return Certainty.EXACT, "to the error that is stated"


# Columns of a terminal that everybody has.
_COLUMNS = 80


def _wrap(line: str) -> str:
    """Return a line wrapped at 80 characters; further lines are indented to where its last column starts.

    Columns are separated by two spaces or more. Columns that start after the first 40 characters are ignored;
    a line without columns is indented by 2.
    """
    if len(line) <= _COLUMNS:
        return line
    gaps = [gap.end() for gap in re.finditer(r"\S  +(?=\S)|^ +(?=\S)", line) if gap.end() <= _COLUMNS // 2]
    wrap_options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, _COLUMNS, subsequent_indent=" " * (gaps[-1] if gaps else 2), **wrap_options)


@dataclass(frozen=True, repr=False)
class Answer:
    """Numbers with a summary, their certainty, their sources and a picture.

    Attributes of the computed result (`result`), and values added to it, are attributes of the answer:
    ``answer.loss`` is ``answer.result.loss``.
    """

    _lines: tuple[str, ...] | Callable[[], tuple[str, ...]]
    """The summary, or what makes it when it is asked for."""
    certainty: Certainty
    """A word, which compares as text."""
    note: str
    """What the certainty rests on, such as "60 starts (3 hits)"."""
    sources: tuple[str, ...]
    """Papers with their equations; `cite` prints them."""
    result: Any
    """What was computed: the result of a solver, or a mapping."""
    _data: "xr.Dataset | Callable[[], xr.Dataset]"
    """The numbers, or what makes them when they are asked for: xarray and pandas take a second to import."""
    _draw: Callable[..., Any] | str | None = None
    """A function of the data and axes, or the name of one in `pictures`."""
    _wide: bool = False
    _table: "xr.Dataset | None" = None
    _added: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        """The summary, which `print` shows."""
        return self._lines() if callable(self._lines) else self._lines

    if TYPE_CHECKING:

        @property
        def loss(self) -> float:
            """Expected loss; answers to questions without a loss do not have it."""

    def __getattr__(self, name: str) -> Any:
        """Return the attribute `name` of what the answer holds: its added values, then what was computed."""
        if name.startswith("_") or "result" not in self.__dict__:
            raise AttributeError(name)
        for source in (self._added, self.result):
            if isinstance(source, Mapping):
                if name in source:
                    return source[name]
            elif hasattr(source, name):
                return getattr(source, name)
        names = ", ".join(attribute for attribute in dir(self) if not attribute.startswith("_"))
        raise AttributeError(f"this answer has no {name!r}; it has {names}")

    def __dir__(self) -> list[str]:
        names = self.result if isinstance(self.result, Mapping) else dir(self.result)
        public = (name for name in names if not name.startswith("_"))
        return sorted({*super().__dir__(), *public, *self._added})

    def __float__(self) -> float:
        return float(self.loss)

    def __str__(self) -> str:
        return "\n".join(map(_wrap, self.lines))

    __repr__ = __str__

    def to_dataset(self) -> "xr.Dataset":
        """Return the numbers as an `xarray.Dataset` over features, points or models; it may be empty."""
        return self._data() if callable(self._data) else self._data

    def to_frame(self) -> Any:
        """Return the numbers as a `pandas.DataFrame`, a row for each point, or feature of a model.

        ``to_dataset().to_dataframe()`` has all arrays, such as weights, with a row for each entry.
        """
        data = self.to_dataset() if self._table is None else self._table
        if not data.dims:
            import pandas as pd

            return pd.DataFrame([{name: variable.values.item() for name, variable in data.variables.items()}])
        return data.to_dataframe().reset_index()

    def plot(self, ax: Any = None, **settings: Any) -> Any:
        """Draw the answer on Matplotlib axes, new ones if none are given, and return the axes.

        `settings` are options of the answer's picture, such as ``x`` and ``y``, the names of the columns of a
        table to draw, or ``points``, a pair of arrays (x, y) of your own to draw beside it. An answer without
        a picture raises a ValueError.
        """
        if self._draw is None:
            raise ValueError(f"`result` must have a picture; got one without: {self.lines[0]}")
        from . import pictures

        draw = getattr(pictures, self._draw) if isinstance(self._draw, str) else self._draw
        return draw(self.to_dataset(), pictures.axes(ax, self._wide), **settings)

    def cite(self) -> str:
        """Return the papers, with equations, and documentation pages behind the answer, one to a line."""
        return "\n".join(self.sources)
