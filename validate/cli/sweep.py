"""``superposition sweep``: a run or a solver at each point of a grid, on one machine or a cluster."""

import argparse
from pathlib import Path
from typing import Any

from .options import arguments, command, json_option, option, options_of
from .text import columns, format_pairs, format_value, print_json, print_table, say, tell

_ROWS = 100  # points that are printed


def _grid_of(arguments: dict[str, Any], words: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (axes of the grid, settings): lists in `arguments` are axes, and [[1, 2]] is the setting [1, 2].

    ValueError, with the command line's `words`, if there is no axis.
    """
    settings = {
        key: value[0] if isinstance(value, list) else value
        for key, value in arguments.items()
        if not isinstance(value, list) or (len(value) == 1 and isinstance(value[0], list))
    }
    grid = {key: value for key, value in arguments.items() if key not in settings}
    if not grid:
        rule = "hold an axis of the grid, a list such as p=[0.1,0.2] or a range such as rng=0:10"
        raise ValueError(f"`settings` must {rule}; got {' '.join(words) or 'nothing'}.")
    return grid, settings


@command(
    "superposition sweep solvers.relu.pair_basins 'p=[0.05,0.1,0.2]' 'importance=[0.5,1]' rng=0:10 \\\n"
    "      --store basins.zarr --keep fraction low high",
    option("name", "a run, such as collisions.fig3, or a function, such as solvers.rug.optimum"),
    option(
        "settings",
        "arguments, as JSON or text; a list, or a range such as 0:10, is an axis of the grid, and [[1,2]] is "
        "the list [1,2] at all points",
        nargs="*",
        metavar="NAME=VALUE",
    ),
    *options_of(
        "runner.sweep.running.run",
        *("store", "keep", "batch_dim", "batch", "jobs", "scheduler", "gpu", "retry"),
        scheduler={"metavar": "ADDRESS"},
    ),
    option("--out", "write the results also as netCDF", metavar="FILE"),
    json_option("an object of all numbers, over the axes of the grid"),
)
def sweep(options: argparse.Namespace) -> bool:
    """Call a run or a solver at each point of a grid, into a store that survives any interruption.

    After an interruption the same command continues. The exit status is 1 if a point failed.
    """
    from ..reference import files
    from ..runner import execute
    from ..runner import sweep as runner

    grid, settings = _grid_of(
        execute.parse_settings(format_pairs("settings", options.settings)), options.settings
    )
    if options.out is not None:
        if Path(options.out).resolve().is_relative_to(Path(options.store).resolve()):
            raise ValueError(f"`out` must be a file outside of `store`; got {options.out!r}.")
        files.output_file(options.out, "out", make_folder=True)
        files.refuse_same_file(options.out, settings)
    options.settings = settings
    ds = runner.run(options.name, grid, **arguments("runner.sweep.running.run", options), progress=tell)
    if options.json:
        print_json(columns(ds))
    else:
        _print_points(ds, options.name)
    failed, count = int((ds["point_state"] == 2).sum()), ds["point_state"].size
    if options.out is not None:
        files.write_dataset(options.out, ds.load())
        if not options.json:
            say(f"written to {options.out}")
    if failed:
        tell(f"{failed} of {count} points failed, as point_error says; --retry tries them again")
    return failed > 0


def _print_points(ds: Any, name: str) -> None:
    """Print a table with a row for each point: its coordinates and results; for arrays their ranges.

    `ds` is the sweep's dataset, `name` that of the function.
    """
    import numpy as np

    axes = [str(dim) for dim in ds["point_state"].dims]
    names = [str(key) for key in ds.data_vars if key not in ("point_state", "point_error")]
    failed = bool((ds["point_state"] == 2).any())
    results = [_heading(ds[result_name], len(axes)) for result_name in names]
    rows = []
    for k in range(min(ds["point_state"].size, _ROWS)):
        point = ds.isel(dict(zip(axes, np.unravel_index(k, ds["point_state"].shape), strict=True)))
        done = int(point["point_state"]) == 1
        cells = [_format_cell(point[axis].values) for axis in axes]
        cells += [_format_cell(point[result_name].values) if done else "" for result_name in names]
        rows.append([*cells, *[str(point["point_error"].values)] * failed])
    say(f"{name}, points: {ds['point_state'].size}")
    print_table("", [*axes, *results, *["point_error"] * failed], rows)
    if ds["point_state"].size > _ROWS:
        say(f"and {ds['point_state'].size - _ROWS} more points; --out FILE writes all of them")


def _heading(variable: Any, axes: int) -> str:
    """Return the heading of a variable's column: its name, and the shape of its entry at one point, if any.

    The first `axes` dimensions are those of the grid.
    """
    shape = variable.shape[axes:]
    return f"{variable.name} ({' x '.join(map(str, shape))})" if shape else str(variable.name)


def _format_cell(values: Any) -> str:
    """Return an array as the text of a table cell: its number, its range, or its first distinct texts."""
    if values.dtype.kind not in "fiu":
        distinct = list(dict.fromkeys(map(str, values.flat)))
        return ", ".join(distinct[:3]) + (", ..." if len(distinct) > 3 else "")
    numbers = values[values == values]
    absent = values.size - numbers.size
    if not numbers.size:
        return "nan" if absent else "none"
    low, high = (format_value(float(number)) for number in (numbers.min(), numbers.max()))
    return (low if low == high else f"{low} to {high}") + (f", {absent} nan" if absent else "")
