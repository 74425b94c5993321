"""Any function at each point of a grid."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ...solvers.deadline import work_seconds
from ...solvers.progress import status, time_left
from ...theory.validation import choice, count_noun, short_repr
from ..runner.sweep import run
from ..runner.sweep.points import check_grid
from .answer import Answer, Certainty
from .entry import entry

__all__ = ["sweep"]

_SOURCES = ("superposition, page `sweep`: what is stored, and what happens after a kill",)


@entry
def sweep(
    function: Callable[..., Any] | str,
    grid: Mapping[str, Any],
    *,
    store: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Answer:
    """Call a function at each point of a grid, and return its numbers as a table.

    >>> import math
    >>> print(sweep(math.hypot, {"x": [3.0, 5.0], "y": [4.0]}))
    2 points of x and y
    x  y  value
    3  4      5
    5  4  6.403

    Parameters
    ----------
    function : callable or str
        A function that returns a number, an answer, a result, a mapping or a dataset; or the name of a public
        one, such as "solvers.rug.optimum", or of a run, such as "collisions.fig3". A name needs a store.
    grid : mapping from str to sequence
        For some arguments the values they take; each is a dimension.
    store : path or str, optional
        A folder where results are kept: after a kill the same call continues, and computes no point twice.
        Worker processes must be able to import the function. Without a store all is computed in this process.
    settings : mapping from str to object, optional
        Other arguments, the same at all points.
    jobs : int, optional
        Processes, with a store; as many as there are cores by default.
    progress : callable, optional
        Called with a line of text now and then. By default a terminal shows a status line.

    Returns
    -------
    Answer
        `to_dataset` has the numbers over the axes of the grid, `to_frame` one row for each point.
    """
    tell = progress or status
    if store is not None or isinstance(function, str):
        if store is None:
            raise ValueError("`store` must be given where `function` is a name; got None.")
        data = run(function, grid, store=store, settings=settings, jobs=jobs, progress=tell)
    else:
        data = _call_at_points(function, grid, dict(settings or {}), tell)
    count = math.prod(data.sizes[name] for name in grid)
    lines = [f"{count_noun(count, 'point')} of {' and '.join(map(str, grid))}", *_table_lines(data, grid)]
    return Answer(tuple(lines), Certainty.COMPUTED, "", _SOURCES, {"data": data}, data, "draw_sweep", True)


def _call_at_points(
    function: Callable[..., Any], grid: Mapping[str, Any], settings: dict[str, Any], tell: Any
) -> xr.Dataset:
    """Return a function's numbers as variables over the axes of a grid, computed in this process.

    `settings` are further arguments of the function; `tell` is called with a line of text after each point.
    """
    if not callable(function):
        raise ValueError(f"`function` must be a function or a name; got {short_repr(function)}.")
    check_grid(grid)
    names = list(grid)
    shape = [len(grid[name]) for name in names]
    rows, positional, begin = [], _is_positional_only(function, names), work_seconds()
    for k, values in enumerate(itertools.product(*(grid[name] for name in names))):
        arguments = dict(zip(names, values, strict=True))
        outcome = function(*values, **settings) if positional else function(**arguments, **settings)
        rows.append(_numeric_results(outcome))
        left = time_left(work_seconds() - begin, k + 1, math.prod(shape))
        tell(f"{k + 1} of {math.prod(shape)} points{left}")
    arrays = {}
    for key, first in rows[0].items():
        if all(key in row and row[key].shape == first.shape for row in rows):
            stack = np.array([row[key] for row in rows])
            inner = [f"{key}_{axis}" for axis in range(first.ndim)]
            arrays[key] = ([*names, *inner], stack.reshape(*shape, *first.shape))
    labels = {
        name: values if all(np.ndim(value) == 0 for value in values) else [str(value) for value in values]
        for name, values in grid.items()
    }
    return xr.Dataset(arrays, {name: (name, np.asarray(values)) for name, values in labels.items()})


def _is_positional_only(function: Callable[..., Any], names: Sequence[str]) -> bool:
    """Return whether a function takes arguments by position only, as some in C; `names` are the grid's.

    ValueError if it takes arguments by name and lacks one of the names.
    """
    import inspect

    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return False
    if all(parameter.kind is parameter.POSITIONAL_ONLY for parameter in known.values()):
        return len(known) == len(names)
    for name in names:
        choice("grid", name, tuple(known))
    return False


def _numeric_results(value: Any) -> dict[str, Any]:
    """Return the numbers, texts and arrays in a function's result by name; other values are left out.

    The result is an answer, dataset, mapping or dataclass, whose fields have names, or a single value, named
    "value".
    """
    if isinstance(value, Answer):
        value = value.to_dataset()
    if isinstance(value, xr.Dataset):
        return {str(name): number.values for name, number in value.data_vars.items()}
    if not isinstance(value, Mapping):
        fields = getattr(value, "__dataclass_fields__", None)
        value = {name: getattr(value, name) for name in fields} if fields else {"value": value}
    numbers = {}
    for name, number in value.items():
        array = np.asarray(number) if not isinstance(number, dict | tuple) else None
        if array is not None and array.dtype.kind in "fiubU":
            numbers[str(name)] = array
    return numbers


def _table_lines(data: xr.Dataset, grid: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of up to 6 scalars at the first 12 points of `grid`, cut to 80 columns.

    `data` is the sweep's dataset, whose scalars are variables over axes of the grid alone.
    """
    scalars = [str(name) for name, variable in data.data_vars.items() if set(variable.dims) <= set(grid)]
    scalars = [name for name in scalars if not name.startswith("point_")][:6]
    if not scalars:
        return []
    frame = data[scalars].to_dataframe().reset_index()[[*grid, *scalars]]
    head = frame.head(12)
    cells = [[str(name) for name in head.columns]]
    cells += [
        [variable if isinstance(variable, str) else f"{variable:.4g}" for variable in row]
        for row in head.itertuples(index=False)
    ]
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    lines = [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))[:80] for row in cells
    ]
    return lines + ([f"and {len(frame) - 12} more: to_frame() has them"] if len(frame) > 12 else [])
