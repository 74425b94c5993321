"""What is called at each point of a sweep, and which arrays are kept of what it returns."""

import dataclasses
import enum
import importlib
import inspect
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory.arguments import integer, shown
from ..experiment import plain
from ..experiments import checked
from ..laboratory import runs

# Dimensions and values of each array, by name. Numbers are float64; text is an array of objects.
Arrays = dict[str, tuple[tuple[str, ...], npt.NDArray[Any]]]
Index = tuple[int, ...]
Found = dict[Index, Arrays | str]

# What is in a store besides results.
STATE, ERROR, SUM, RUNS = RESERVED = ("point_state", "point_error", "point_sum", "provenance")
# A worker goes on with further chunks until so many seconds have passed.
SECONDS = 1.0
# Chunks of a sweep are at most about so many, if nothing else is said.
CHUNKS = 1000
_LARGEST = 10**8
_PACKAGES = ("theory", "solvers", "validate")
# Functions of `validate` that compute and return a result, besides the experiments.
_COMPUTING = ("superposition.validate.training:train", "superposition.validate.collisions:train_l1")


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that the content of a store depends on."""

    work: str
    axes: Mapping[str, Sequence[Any]]
    settings: Mapping[str, Any]
    keep: Sequence[str]
    together: str | None
    chunk: Sequence[int]

    @property
    def shape(self) -> Index:
        """Number of values of each axis."""
        return tuple(map(len, self.axes.values()))

    @property
    def counts(self) -> Index:
        """Number of chunks along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk, strict=True))

    def region(self, number: int) -> tuple[slice, ...]:
        """Return the part of the grid that a chunk is."""
        place = np.unravel_index(number, self.counts)
        edges = zip(place, self.chunk, self.shape, strict=True)
        return tuple(slice(int(k) * c, min((int(k) + 1) * c, n)) for k, c, n in edges)

    def points(self, number: int) -> list[Index]:
        """Return the points of a chunk."""
        return list(itertools.product(*(range(one.start, one.stop) for one in self.region(number))))

    def at(self, point: Index) -> dict[str, Any]:
        """Return the axes' values at a point."""
        return {name: values[k] for (name, values), k in zip(self.axes.items(), point, strict=True)}


def function_of(work: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return a function by its name: of a run, or such as ``"solvers.rug.optimum"``."""
    if callable(work):
        named = f"{work.__module__}:{getattr(work, '__qualname__', '')}"
        try:
            importable = find(named) is work and work.__module__ != "__main__"
        except (ImportError, AttributeError):
            importable = False
        if not importable:
            raise ValueError(f"`work` must be a function that can be imported; got {named}.")
        return _computing(work, named)
    room, _, name = str(work).rpartition(".")
    if room.count(".") == 1 and room.partition(".")[0] in _PACKAGES:
        try:
            module = importlib.import_module(f"superposition.{room}")
            if name in module.__all__ and inspect.isfunction(getattr(module, name)):
                return _computing(find(f"superposition.{room}:{name}"), str(work))
        except ModuleNotFoundError:
            pass
    elif isinstance(work, str) and work in (known := runs()):
        return known[work].function
    rule = "a run, such as collisions.fig3, or a public function, such as solvers.rug.optimum"
    raise ValueError(f"`work` must be {rule}; got {shown(work)}.")


def _ours(function: Callable[..., Any]) -> str:
    """Return the package of a function, one of ours, or nothing."""
    top, _, rest = function.__module__.partition(".")
    package = rest.partition(".")[0]
    return package if top == "superposition" and package in _PACKAGES else ""


def _computing(function: Callable[..., Any], named: str) -> Callable[..., Any]:
    """Return a function unless it is one of `validate` that may do something else than compute a result."""
    if _ours(function) != "validate":
        return function
    known = {*(one.function for one in runs().values()), *(find(one) for one in _COMPUTING)}
    if function in known:
        return function
    also = ", ".join(one.removeprefix("superposition.").replace(":", ".") for one in _COMPUTING)
    rule = f"a run, a public function of theory or solvers, or one of {also}"
    raise ValueError(f"`work` must be {rule}; got {shown(named)}, which may do more than compute.")


def _files(function: Callable[..., Any]) -> set[str]:
    """Return which arguments of a function of ours name files."""
    parameters = inspect.signature(function).parameters.items()
    return {name for name, one in parameters if _ours(function) and "Path" in str(one.annotation)}


def _depth(annotation: Any) -> int:
    """Return how many lists are around the numbers of an argument that takes lists alone."""
    origin = get_origin(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Sequence)):
        return 0
    return 1 + max(map(_depth, get_args(annotation)), default=0)


def _listed(value: Any, depth: int) -> Any:
    """Return a value within as many lists as an argument wants.

    Examples
    --------
    >>> _listed(32, 1), _listed([32], 1), _listed([2, 1, 0.1], 2)
    ([32], [32], [[2, 1, 0.1]])
    """
    have, inner = 0, value
    while isinstance(inner, list):
        have, inner = have + 1, inner[0] if inner else None
    for _ in range(depth - have):
        value = [value]
    return value


def find(work: str) -> Callable[..., Any]:
    """Return the function that a plan names."""
    module, _, name = work.partition(":")
    found: Callable[..., Any] = getattr(sys.modules.get(module) or importlib.import_module(module), name)
    return found


def _check_kinds(grid: Any, settings: Any, keep: Any, together: Any) -> None:
    if together is not None and not isinstance(together, str):
        raise ValueError(f"`together` must be the name of a dimension; got {shown(together)}.")
    for name, given in {"grid": grid, "settings": settings}.items():
        if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given):
            raise ValueError(f"`{name}` must be a mapping from names of arguments; got {shown(given)}.")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise ValueError(f"`{name}` must be a list of one value or more; got {shown(values)}.")
    listed = isinstance(keep, Sequence) and not isinstance(keep, str)
    if not listed or not all(isinstance(one, str) for one in keep):
        raise ValueError(f"`keep` must be a list of names; got {shown(keep)}.")


def make_plan(
    work: Callable[..., Any] | str,
    grid: Mapping[str, Sequence[Any]],
    settings: Mapping[str, Any],
    keep: Sequence[str],
    together: str | None,
    batch: int | None,
) -> Plan:
    """Check what is asked for."""
    function = function_of(work)
    _check_kinds(grid, settings, keep, together)
    axes, fixed = ({name: _json(name, one) for name, one in given.items()} for given in (grid, settings))
    if not axes:
        raise ValueError("`grid` must have one axis or more, a list of values for an argument; got none.")
    if twice := sorted(set(axes).intersection(fixed)):
        raise ValueError(f"`{twice[0]}` must be in the grid or in the settings; got both.")
    checked(function, {**{name: values[0] for name, values in axes.items()}, **fixed})
    parameters = inspect.signature(function).parameters
    for name in _files(function).intersection(axes | fixed):
        rule = "left out: it names a file, and all points would have the same"
        raise ValueError(f"`{name}` must be {rule}; got {shown((axes | fixed)[name])}.")
    if together is None:
        depths = {name: _depth(one.annotation) for name, one in parameters.items()}
        axes = {name: [_listed(one, depths[name]) for one in values] for name, values in axes.items()}
        fixed = {name: None if one is None else _listed(one, depths[name]) for name, one in fixed.items()}
    random = parameters.get("rng")
    if random is not None and random.default is None and not {"rng"} & {*axes, *fixed}:
        raise ValueError("`rng` must be given, as a seed or a list of them; got nothing.")
    for name, values in axes.items():
        labels(name, values)
    total = math.prod(map(len, axes.values()))
    if total > _LARGEST:
        raise ValueError(f"`grid` must have at most {_LARGEST} points; got {total}.")
    size = -(-total // CHUNKS) if batch is None else integer("batch", batch, 1, _LARGEST)
    chunk: list[int] = []
    for values in reversed(axes.values()):
        chunk.insert(0, min(len(values), max(size, 1)))
        size = size // len(values)
    named = f"{function.__module__}:{function.__qualname__}"
    return Plan(named, axes, fixed, list(keep), together, chunk)


def _json(name: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, default=plain, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        rule = "finite numbers, text, and lists of them"
        raise ValueError(f"`{name}` must be {rule}; got {shown(value)} ({error}).") from error


def labels(name: str, values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return the coordinate of an axis: numbers or text; [x] is labelled x, and a longer list by its JSON.

    Examples
    --------
    >>> labels("n_hidden", [[32], [64]])
    array([32, 64])
    """
    alone = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in values]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in alone):
        alone = [one if isinstance(one, str) else json.dumps(one) for one in alone]
    found = np.asarray(alone)
    if found.dtype.kind in "uO":  # beyond the integers that a store holds
        raise ValueError(f"`{name}` must be numbers below 2^63; got {shown(values)}.")
    if len(set(alone)) < len(alone):
        one = next(one for one in alone if alone.count(one) > 1)
        raise ValueError(f"`{name}` must have distinct values; got {shown(one)} twice.")
    return found


# --- At a worker --------------------------------------------------------------------------------------------


def do(plan: Plan, todo: Sequence[tuple[int, Sequence[Index]]]) -> list[tuple[int, Found]]:
    """Do chunks until a second has passed; return arrays for each point, or what went wrong there."""
    function, found, begun = find(plan.work), [], time.perf_counter()
    for number, points in todo:
        found.append((number, (_together if plan.together else _singly)(function, plan, points)))
        if time.perf_counter() - begun > SECONDS:
            break
    return found


def _said(error: Exception) -> str:
    if isinstance(error, ImportError):
        raise error  # it is so at every point, until something is installed
    return " ".join(f"{type(error).__name__}: {error}".split())


def _singly(function: Callable[..., Any], plan: Plan, points: Sequence[Index]) -> Found:
    found: Found = {}
    for point in points:
        try:
            found[point] = arrays(function(**plan.at(point), **plan.settings), plan)
        except Exception as error:
            found[point] = _said(error)
    return found


def _together(function: Callable[..., Any], plan: Plan, points: Sequence[Index]) -> Found:
    """Call the function once for all points."""
    places = [plan.at(point) for point in points]
    try:
        found = function(**{name: [one[name] for one in places] for name in plan.axes}, **plan.settings)
        size = found.sizes.get(plan.together) if isinstance(found, xr.Dataset) else None
        if size != len(points):
            rule = f"a dataset with {len(points)} entries along {plan.together}"
            raise ValueError(f"`work` must return {rule}; got {size} of them.")
        return {point: arrays(found.isel({plan.together: k}), plan) for k, point in enumerate(points)}
    except Exception as error:
        return dict.fromkeys(points, _said(error))


def arrays(found: Any, plan: Plan) -> Arrays:
    """Return what can be kept of a result: its arrays of numbers and of text."""
    kept: Arrays = {}
    items: list[tuple[str, tuple[Any, ...] | None, Any]]
    if isinstance(found, xr.Dataset):
        items = [(str(name), one.dims, one.values) for name, one in found.squeeze().variables.items()]
    else:
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            found = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
        given = found if isinstance(found, Mapping) else {"value": found}
        items = [(str(name), None, one) for name, one in given.items()]
    for name, dims, value in items:
        label = dims == (name,) and value.dtype.kind in "iu"
        array = value.astype(np.int64) if label else _plain(value)
        if array is None or name in plan.axes:
            continue
        if "/" in name or name in RESERVED:
            raise ValueError(f"`work` must not return an array of this name; got {name}.")
        named = tuple(map(str, dims)) if dims is not None else tuple(f"{name}_{k}" for k in range(array.ndim))
        if shared := set(named).intersection(plan.axes):
            raise ValueError(f"`work` must not return a dimension of the grid; got {name} along {shared}.")
        kept[name] = named, array
    if plan.keep:
        along = {dim for name in plan.keep if name in kept for dim in kept[name][0]}
        kept = {name: one for name, one in kept.items() if name in plan.keep or name in along}
    missing = [name for name in plan.keep if name not in kept]
    if missing or not kept:
        raise ValueError(f"`work` must return {', '.join(missing) or 'numbers or text'}; got {shown(found)}.")
    return kept


def _plain(value: Any) -> npt.NDArray[Any] | None:
    """Return numbers as float64, text and members of enumerations as text, and of anything else None."""
    try:
        array = np.asarray(np.nan if value is None else value)
    except ValueError:  # lists of several lengths
        return None
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind == "O" and array.size and all(isinstance(one, str | enum.Enum) for one in array.flat):
        names = [one if isinstance(one, str) else one.name for one in array.flat]
        return np.array(names, dtype=object).reshape(array.shape)
    return None
