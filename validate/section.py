"""A phenomenon's part of the report: its text, figures and tables. How they look is `report`'s affair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import xarray as xr
from matplotlib.axes import Axes

__all__ = ["Draw", "Figure", "Section", "Table"]

Draw = Callable[[xr.Dataset, Axes], Axes]


@dataclass(frozen=True)
class Figure:
    """A figure of the report and the data behind it.

    Parameters
    ----------
    name : str
        Unique in its section; part of the name of the data file.
    title, caption : str
        Plain text.
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


@dataclass(frozen=True)
class Section:
    """A phenomenon's part of the report; `text` is plain, with empty lines between paragraphs."""

    name: str
    title: str
    text: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
