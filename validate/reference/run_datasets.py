"""Several runs combined in one dataset, from which each can be extracted unchanged.

Along the dimension measurement there is an entry for each run: its provenance (`FACTS`), the other attributes
of its dataset (``attributes``, JSON), and the dimensions of its variables (``layout``, JSON). Along the
dimension model there is a row for each model, with the coordinate ``source``, the index of its run. Variables
that a run does not have are nan, or an empty text.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory.annotations import as_annotated
from ...theory.validation import short_repr

__all__ = ["FACTS", "combine_runs", "extract_run", "read_facts"]

MEASUREMENT = "measurement"
MODEL = "model"
SOURCE = "source"
# How a run was made, beside its name; settings (defaults included) and libraries are JSON.
FACTS = ("experiment", "settings", "commit", "made", "machine", "libraries", "wall_seconds")
# Dimensions of a variable besides that of the rows, and its values.
_Block = tuple[tuple[str, ...], npt.NDArray[Any]]


def _label_union(labels: Sequence[list[Any]]) -> list[Any]:
    """Return the union of several runs' labels of a dimension, sorted if they are numbers."""
    union = list(dict.fromkeys(label for run_labels in labels for label in run_labels))
    return union if any(isinstance(label, str) for label in union) else sorted(union)


def _label_span(dim: str, labels: list[Any], union: list[Any]) -> list[int]:
    """Return [start, stop] such that ``union[start:stop]`` are a run's `labels` along the dimension `dim`.

    `union` has the labels of all runs. A ValueError is raised if `labels` do not follow one another there.
    """
    first = union.index(labels[0])
    if union[first : first + len(labels)] != labels:
        rule = f"have labels of {dim!r} that follow one another among those of all"
        raise ValueError(f"`runs` must {rule}; got {short_repr(labels)}.")
    return [first, first + len(labels)]


@as_annotated
def combine_runs(
    runs: Mapping[str, xr.Dataset], rows: Sequence[str], left_out: Sequence[str] = ()
) -> xr.Dataset:
    """Return one dataset of all these runs, given by name; each must have the attributes `FACTS`.

    `FACTS` are those on how a run was made: experiment, settings, commit and so on. Each combination of
    entries along the dimensions `rows` becomes a row (a model), run after run. Other dimensions are kept, and
    padded to the largest size. Variables and dimensions in `left_out` are not stored.

    >>> facts = dict.fromkeys(FACTS, "")
    >>> run = xr.Dataset({"loss": (("p", "seed"), [[0.1, 0.2]])}, {"p": [0.5], "seed": [0, 1]}, facts)
    >>> ds = combine_runs({"a.one": run, "a.two": run.isel(seed=[0])}, ["p", "seed"])
    >>> ds["loss"].dims, ds["loss"].values.tolist(), ds["seed"].values.tolist()
    (('model',), [0.1, 0.2, 0.1], [0, 1, 0])
    >>> extract_run(ds, "a.two")["loss"].sizes
    Frozen({'p': 1, 'seed': 1})
    """
    runs = {name: ds.drop_vars(left_out, errors="ignore") for name, ds in runs.items()}
    for name, ds in runs.items():
        if missing := [key for key in FACTS if key not in ds.attrs]:
            raise ValueError(f"`runs` must say how each was made; got {name} without {', '.join(missing)}.")
    labels: dict[str, list[list[Any]]] = {}
    for ds in runs.values():
        for dim in (str(index) for index in ds.indexes if index not in rows):
            labels.setdefault(dim, []).append(ds[dim].values.tolist())
    coords = {dim: _label_union(run_labels) for dim, run_labels in labels.items()}
    layouts = [_layout(ds, rows, coords) for ds in runs.values()]
    sizes = {dim: len(union) for dim, union in coords.items()}
    for layout in layouts:
        for dim, (_, end) in layout["spans"].items():
            sizes[dim] = max(sizes.get(dim, 0), end)
    combined = xr.Dataset(coords=coords)
    for name in dict.fromkeys(name for layout in layouts for name in layout["variables"]):
        blocks = [_rows_first(ds, name, layout) for ds, layout in zip(runs.values(), layouts, strict=True)]
        combined[name] = _stack_blocks(name, blocks, layouts, sizes)
    return _with_facts(combined, runs, layouts).assign_attrs(
        rows=" ".join(rows), left_out=" ".join(left_out).strip()
    )


def _layout(ds: xr.Dataset, rows: Sequence[str], coords: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the layout of a run, `ds`, with which `extract_run` restores it from the combined dataset.

    "rows" has the size of each dimension in `rows`, whose combinations become rows of the combined dataset;
    "spans" has for each other dimension the [start, stop] of the run's labels in `coords`, the labels of all
    runs; "variables" has the dimensions of each variable, "types" the types of integers and bools, and
    "coordinates" the names of coordinates.
    """
    row_sizes = {dim: ds.sizes[dim] for dim in rows if dim in ds.sizes}
    spans = {dim: _label_span(dim, ds[dim].values.tolist(), coords[dim]) for dim in coords if dim in ds.dims}
    variables = {str(name): variable for name, variable in ds.variables.items() if name not in coords}
    return {
        "rows": row_sizes,
        "spans": spans | {str(dim): [0, n] for dim, n in ds.sizes.items() if dim not in {*row_sizes, *spans}},
        "variables": {name: list(map(str, variable.dims)) for name, variable in variables.items()},
        "types": {
            name: variable.dtype.str for name, variable in variables.items() if variable.dtype.kind in "iub"
        },
        "coordinates": [name for name in variables if name in ds.coords],
    }


def _rows_first(ds: xr.Dataset, name: str, layout: Mapping[str, Any]) -> _Block | None:
    """Return (other dimensions, values with a single first axis of rows) of a run's variable `name`.

    A row is a combination of entries along the dimensions in ``layout["rows"]``, a dict of their sizes, the
    last of which varies fastest; a variable without one of these dimensions is repeated along it.
    ``layout["variables"]`` has the dimensions of each variable. None if the run, `ds`, lacks the variable.
    """
    if name not in ds.variables:
        return None
    rows, dims = layout["rows"], layout["variables"][name]
    rest = [dim for dim in dims if dim not in rows]
    values = ds.variables[name].transpose(*(dim for dim in rows if dim in dims), *rest).values
    sizes = [ds.sizes[dim] for dim in rest]
    values = values.reshape(*(n if dim in dims else 1 for dim, n in rows.items()), *sizes)
    values = np.broadcast_to(values, (*rows.values(), *sizes))
    return tuple(rest), values.reshape(math.prod(rows.values()), *sizes)


def _with_facts(
    combined: xr.Dataset, runs: Mapping[str, xr.Dataset], layouts: Sequence[Mapping[str, Any]]
) -> xr.Dataset:
    """Return the combined dataset with variables of each run's provenance, and each model's run index.

    Variables over ``measurement``, an entry for each run, are its provenance, further attributes, layout and
    the settings that differ between runs; ``source`` (model) is the run index. `runs` are the datasets by
    name. A layout in `layouts` is stored as JSON, and has for a run the sizes of its dimensions that become
    models ("rows"), the dimensions of its variables, and the names of its coordinates ("coordinates").
    """
    separate = (*FACTS, "run", "title", "stored_file", "stored_date", "stored_device")
    facts = {key: [str(ds.attrs[key]) for ds in runs.values()] for key in FACTS if key != "wall_seconds"}
    others = [{key: value for key, value in ds.attrs.items() if key not in separate} for ds in runs.values()]
    facts["attributes"] = [json.dumps(attrs, default=_plain_number) for attrs in others]
    facts["layout"] = [json.dumps(layout) for layout in layouts]
    combined = combined.assign({key: (MEASUREMENT, values) for key, values in facts.items()})
    seconds = [float(ds.attrs["wall_seconds"] or 0) for ds in runs.values()]
    counts = [math.prod(layout["rows"].values()) for layout in layouts]
    source = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    combined = combined.assign(wall_seconds=(MEASUREMENT, seconds)).assign_coords({MEASUREMENT: list(runs)})
    settings = _differing_settings([json.loads(text or "{}") for text in facts["settings"]])
    differing = {key: (MEASUREMENT, values) for key, values in settings.items() if key not in combined}
    coordinates = dict.fromkeys(name for layout in layouts for name in layout["coordinates"])
    return combined.assign_coords({**differing, SOURCE: (MODEL, source)}).set_coords(list(coordinates))


def _differing_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the settings that are texts or numbers and differ between runs, as columns by name.

    `settings` are those of each run by name; a column has a value for each run, "" or nan if it has none.
    """
    columns = {}
    for key in dict.fromkeys(key for run_settings in settings for key in run_settings):
        values = [run_settings.get(key) for run_settings in settings]
        for kind, empty in ((str, ""), ((int, float), np.nan)):
            fits = all(value is None or isinstance(value, kind) for value in values)
            if fits and len(set(map(str, values))) > 1:
                columns[key] = [empty if value is None else value for value in values]
                break
    return columns


def _plain_number(value: Any) -> Any:
    """Return a NumPy scalar as a Python number, and a sequence as a list, for JSON."""
    return value.item() if hasattr(value, "item") else list(value)


def _stack_blocks(
    name: str, blocks: Sequence[_Block | None], layouts: Sequence[Mapping[str, Any]], sizes: Mapping[str, int]
) -> _Block:
    """Return (dimensions, values) of the variable `name` in all runs, stacked along the rows.

    Rows are models, those of one run after those of another; the result's dimensions begin with "model". For
    each run `blocks` has its part, (other dimensions, values with a first axis of rows), or None if it lacks
    the variable. `layouts` have for each run the sizes of its dimensions that become rows ("rows"), and for
    each other dimension the [start, stop] that its labels take up among those of all runs ("spans"); `sizes`
    are the sizes of these dimensions for all runs together. Where a run has nothing, there is nan or "".
    """
    present = [block for block in blocks if block is not None]
    dims = present[0][0]
    if any(block_dims != dims for block_dims, _ in present):
        rule = f"have the same dimensions of {name!r} beside those of rows"
        raise ValueError(f"`runs` must {rule}; got {short_repr([block_dims for block_dims, _ in present])}.")
    shape = tuple(sizes[dim] for dim in dims)
    is_text = present[0][1].dtype.kind in "OU"
    is_full = len(present) == len(blocks) and all(values.shape[1:] == shape for _, values in present)
    kind: Any = np.result_type(*(values for _, values in present)) if is_full else np.float64
    counts = [math.prod(layout["rows"].values()) for layout in layouts]
    empty = "" if is_text else 0 if is_full else np.nan
    stacked = np.full((sum(counts), *shape), empty, dtype=object if is_text else kind)
    first = 0
    for block, count, layout in zip(blocks, counts, layouts, strict=True):
        if block is not None:
            stacked[(slice(first, first + count), *(slice(*layout["spans"][dim]) for dim in dims))] = block[1]
        first += count
    return (MODEL, *dims), stacked


@as_annotated
def read_facts(ds: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return the provenance of each run of a dataset by name: a dict with the keys `FACTS`, JSON parsed.

    The keys are experiment, settings, commit, made, machine, libraries and wall_seconds. `ds` is from
    `combine_runs`, or of a single run, whose attributes are its provenance.
    """
    if MEASUREMENT not in ds.dims:
        facts_of = {str(ds.attrs.get("run", "")): {key: ds.attrs.get(key, "") for key in FACTS}}
    else:
        rows = zip(*(ds[key].values.tolist() for key in FACTS), strict=True)
        names = ds[MEASUREMENT].values.tolist()
        facts_of = {name: dict(zip(FACTS, row, strict=True)) for name, row in zip(names, rows, strict=True)}
    for facts in facts_of.values():
        facts |= {key: json.loads(facts[key] or "{}") for key in ("settings", "libraries")}
    return facts_of


@as_annotated
def extract_run(ds: xr.Dataset, name: str) -> xr.Dataset:
    """Return a run of a combined dataset, `ds`, as it was before `combine_runs`.

    A dataset of a single run is copied. An unknown name raises a ValueError.
    """
    names = list(read_facts(ds))
    if name not in names:
        raise ValueError(f"`name` must be one of {', '.join(names)}; got {short_repr(name)}.")
    if MEASUREMENT not in ds.dims:
        return ds.copy(deep=True)
    k = names.index(name)
    layout, attrs = (json.loads(ds[key].values[k]) for key in ("layout", "attributes"))
    rows, spans = layout["rows"], layout["spans"]
    models = np.flatnonzero(ds[SOURCE].values == k)
    variables = {}
    for key, dims in layout["variables"].items():
        rest = [dim for dim in ds[key].dims if dim != MODEL]
        values = ds[key].values[(models, *(slice(*spans[dim]) for dim in rest))]
        values = values.reshape(*rows.values(), *values.shape[1:])
        # A variable without a dimension of the rows was repeated along it.
        values = values[tuple(slice(None) if dim in dims else 0 for dim in rows)]
        variable = xr.Variable([*(dim for dim in rows if dim in dims), *rest], values)
        variables[key] = variable.transpose(*dims).astype(layout["types"].get(key, variable.dtype))
    coordinates = {key: variables.pop(key) for key in layout["coordinates"]}
    coordinates |= {dim: ds[dim].values[slice(*span)] for dim, span in spans.items() if dim in ds.coords}
    facts = {
        key: ds[key].values[k].item() if key == "wall_seconds" else str(ds[key].values[k]) for key in FACTS
    }
    return xr.Dataset(variables, coordinates, {**attrs, **facts, "run": name})
