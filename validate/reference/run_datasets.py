"""Runs of one experiment in one dataset: a row for each model, the settings and the date of each run beside.

Of (measurement), one entry a run: how it was made (`FACTS`), the other attributes of its own dataset
(``attributes``, JSON), and the dimensions of its variables (``layout``, JSON), by which `extract_run` returns
them as they were. Of (model, ...): the variables, and what tells the models apart as coordinates, with
``source``, the place of a model's run along measurement. What a run does not have is nan, or an empty text.
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

MEASUREMENT, MODEL, SOURCE = "measurement", "model", "source"
# How a run was made, beside its name; settings (defaults included) and libraries are JSON.
FACTS = ("experiment", "settings", "commit", "made", "machine", "libraries", "wall_seconds")
_Part = tuple[tuple[str, ...], npt.NDArray[Any]]


def _union(labels: Sequence[list[Any]]) -> list[Any]:
    """Return all labels of a dimension; in order of size if they are numbers."""
    found = list(dict.fromkeys(label for own in labels for label in own))
    return found if any(isinstance(one, str) for one in found) else sorted(found)


def _positions(dim: str, own: list[Any], every: list[Any]) -> list[int]:
    """Return the first place of labels among all of them, and the one after the last."""
    first = every.index(own[0])
    if every[first : first + len(own)] != own:
        rule = f"have labels of {dim!r} that follow one another among those of all"
        raise ValueError(f"`runs` must {rule}; got {short_repr(own)}.")
    return [first, first + len(own)]


@as_annotated
def combine_runs(
    runs: Mapping[str, xr.Dataset], rows: Sequence[str], left_out: Sequence[str] = ()
) -> xr.Dataset:
    """Return one dataset of runs by their names, each with the attributes `FACTS`.

    Parameters
    ----------
    runs : mapping from str to xarray.Dataset
    rows : sequence of str
        Dimensions whose product becomes the rows; others are kept, and padded to the largest size.
    left_out : sequence of str, optional
        Variables and dimensions that are not stored.

    Raises
    ------
    ValueError
        If a run does not say how it was made, or dimensions of a variable differ but for those of rows.

    Examples
    --------
    >>> facts = dict.fromkeys(FACTS, "")
    >>> one = xr.Dataset({"loss": (("p", "seed"), [[0.1, 0.2]])}, {"p": [0.5], "seed": [0, 1]}, facts)
    >>> ds = combine_runs({"a.one": one, "a.two": one.isel(seed=[0])}, ["p", "seed"])
    >>> ds["loss"].dims, ds["loss"].values.tolist(), ds["seed"].values.tolist()
    (('model',), [0.1, 0.2, 0.1], [0, 1, 0])
    >>> extract_run(ds, "a.two")["loss"].sizes
    Frozen({'p': 1, 'seed': 1})
    """
    plain = {name: ds.drop_vars(left_out, errors="ignore") for name, ds in runs.items()}
    for name, ds in plain.items():
        if missing := [key for key in FACTS if key not in ds.attrs]:
            raise ValueError(f"`runs` must say how each was made; got {name} without {', '.join(missing)}.")
    labels: dict[str, list[list[Any]]] = {}
    for ds in plain.values():
        for dim in (str(one) for one in ds.indexes if one not in rows):
            labels.setdefault(dim, []).append(ds[dim].values.tolist())
    every = {dim: _union(found) for dim, found in labels.items()}
    layouts = [_layout(ds, rows, every) for ds in plain.values()]
    sizes = {dim: len(known) for dim, known in every.items()}
    for layout in layouts:
        for dim, (_, end) in layout["spans"].items():
            sizes[dim] = max(sizes.get(dim, 0), end)
    found = xr.Dataset(coords=every)
    for name in dict.fromkeys(name for layout in layouts for name in layout["variables"]):
        parts = [_by_rows(ds, name, layout) for ds, layout in zip(plain.values(), layouts, strict=True)]
        found[name] = _stacked(name, parts, layouts, sizes)
    return _with_facts(found, plain, layouts).assign_attrs(
        rows=" ".join(rows), left_out=" ".join(left_out).strip()
    )


def _layout(ds: xr.Dataset, rows: Sequence[str], every: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return of a run the sizes of rows, the places of other labels among all, and what each variable has."""
    own = {dim: ds.sizes[dim] for dim in rows if dim in ds.sizes}
    spans = {dim: _positions(dim, ds[dim].values.tolist(), every[dim]) for dim in every if dim in ds.dims}
    stored = {str(name): one for name, one in ds.variables.items() if name not in every}
    return {
        "rows": own,
        "spans": spans | {str(dim): [0, n] for dim, n in ds.sizes.items() if dim not in {*own, *spans}},
        "variables": {name: list(map(str, one.dims)) for name, one in stored.items()},
        "types": {name: one.dtype.str for name, one in stored.items() if one.dtype.kind in "iub"},
        "coordinates": [name for name in stored if name in ds.coords],
    }


def _by_rows(ds: xr.Dataset, name: str, layout: Mapping[str, Any]) -> _Part | None:
    """Return the dimensions of a variable that are not of the rows, and its values with the rows in front."""
    if name not in ds.variables:
        return None
    own, dims = layout["rows"], layout["variables"][name]
    rest = [dim for dim in dims if dim not in own]
    values = ds.variables[name].transpose(*(dim for dim in own if dim in dims), *rest).values
    sizes = [ds.sizes[dim] for dim in rest]
    values = values.reshape(*(n if dim in dims else 1 for dim, n in own.items()), *sizes)
    values = np.broadcast_to(values, (*own.values(), *sizes))
    return tuple(rest), values.reshape(math.prod(own.values()), *sizes)


def _with_facts(
    found: xr.Dataset, runs: Mapping[str, xr.Dataset], layouts: Sequence[Mapping[str, Any]]
) -> xr.Dataset:
    """Return a dataset with how each run was made, and of which run each model is."""
    named = (*FACTS, "run", "title", "stored_file", "stored_date", "stored_device")
    told = {key: [str(ds.attrs[key]) for ds in runs.values()] for key in FACTS if key != "wall_seconds"}
    others = [{key: value for key, value in ds.attrs.items() if key not in named} for ds in runs.values()]
    told["attributes"] = [json.dumps(one, default=_number) for one in others]
    told["layout"] = [json.dumps(one) for one in layouts]
    found = found.assign({key: (MEASUREMENT, values) for key, values in told.items()})
    seconds = [float(ds.attrs["wall_seconds"] or 0) for ds in runs.values()]
    counts = [math.prod(layout["rows"].values()) for layout in layouts]
    source = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    found = found.assign(wall_seconds=(MEASUREMENT, seconds)).assign_coords({MEASUREMENT: list(runs)})
    settings = _columns([json.loads(one or "{}") for one in told["settings"]])
    differing = {key: (MEASUREMENT, values) for key, values in settings.items() if key not in found}
    coordinates = dict.fromkeys(name for layout in layouts for name in layout["coordinates"])
    return found.assign_coords({**differing, SOURCE: (MODEL, source)}).set_coords(list(coordinates))


def _columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return settings that are one text or one number each, where runs differ in them."""
    found = {}
    for key in dict.fromkeys(key for one in settings for key in one):
        values = [one.get(key) for one in settings]
        there = [one for one in values if one is not None]
        for kind, empty in ((str, ""), ((int, float), np.nan)):
            if len(set(map(str, values))) > 1 and all(isinstance(one, kind) for one in there):
                found[key] = [empty if one is None else one for one in values]
                break
    return found


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value)


def _stacked(
    name: str, parts: Sequence[_Part | None], layouts: Sequence[Mapping[str, Any]], sizes: Mapping[str, int]
) -> _Part:
    """Return the dimensions and values of a variable in all runs, one below the other."""
    there = [one for one in parts if one is not None]
    dims = there[0][0]
    if any(one[0] != dims for one in there):
        rule = f"have the same dimensions of {name!r} beside those of rows"
        raise ValueError(f"`runs` must {rule}; got {short_repr([one[0] for one in there])}.")
    shape = tuple(sizes[dim] for dim in dims)
    texts = there[0][1].dtype.kind in "OU"
    whole = len(there) == len(parts) and all(one[1].shape[1:] == shape for one in there)
    kind: Any = object if texts else np.result_type(*(one[1] for one in there)) if whole else np.float64
    counts = [math.prod(layout["rows"].values()) for layout in layouts]
    out = np.full((sum(counts), *shape), "" if texts else 0 if whole else np.nan, dtype=kind)
    first = 0
    for part, count, layout in zip(parts, counts, layouts, strict=True):
        if part is not None:
            out[(slice(first, first + count), *(slice(*layout["spans"][dim]) for dim in dims))] = part[1]
        first += count
    return (MODEL, *dims), out


@as_annotated
def read_facts(ds: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return how each run of a dataset was made: `FACTS` by its name, settings and libraries parsed.

    `ds` is from `combine_runs`, or of a single run, whose attributes say it.
    """
    if MEASUREMENT not in ds.dims:
        found = {str(ds.attrs.get("run", "")): {key: ds.attrs.get(key, "") for key in FACTS}}
    else:
        names = ds[MEASUREMENT].values.tolist()
        columns = zip(*(ds[key].values.tolist() for key in FACTS), strict=True)
        found = {name: dict(zip(FACTS, row, strict=True)) for name, row in zip(names, columns, strict=True)}
    for facts in found.values():
        facts |= {key: json.loads(facts[key] or "{}") for key in ("settings", "libraries")}
    return found


@as_annotated
def extract_run(ds: xr.Dataset, name: str) -> xr.Dataset:
    """Return a run of a dataset as it was before `combine_runs`, and a dataset of a single run as it is.

    Raises
    ------
    ValueError
        If there is no run of that name.
    """
    names = list(read_facts(ds))
    if name not in names:
        raise ValueError(f"`name` must be one of {', '.join(names)}; got {short_repr(name)}.")
    if MEASUREMENT not in ds.dims:
        return ds.copy(deep=True)
    k = names.index(name)
    layout, attrs = (json.loads(ds[key].values[k]) for key in ("layout", "attributes"))
    own, spans = layout["rows"], layout["spans"]
    mine = np.flatnonzero(ds[SOURCE].values == k)
    variables = {}
    for key, dims in layout["variables"].items():
        rest = [dim for dim in ds[key].dims if dim != MODEL]
        values = ds[key].values[(mine, *(slice(*spans[dim]) for dim in rest))]
        values = values.reshape(*own.values(), *values.shape[1:])
        # What is the same along a dimension of the rows was repeated there.
        values = values[tuple(slice(None) if dim in dims else 0 for dim in own)]
        stored = xr.Variable([*(dim for dim in own if dim in dims), *rest], values)
        variables[key] = stored.transpose(*dims).astype(layout["types"].get(key, stored.dtype))
    coordinates = {key: variables.pop(key) for key in layout["coordinates"]}
    coordinates |= {dim: ds[dim].values[slice(*span)] for dim, span in spans.items() if dim in ds.coords}
    facts = {
        key: ds[key].values[k].item() if key == "wall_seconds" else str(ds[key].values[k]) for key in FACTS
    }
    return xr.Dataset(variables, coordinates, {**attrs, **facts, "run": name})
