"""The function of a sweep, its grid in chunks, and the arrays of its results."""

import dataclasses
import enum
import importlib
import inspect
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, get_args, get_origin

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....theory.validation import integer, is_list, short_repr
from .. import registry
from ..declarations import as_list
from ..execute import check_settings

# Dimensions and values of each array, by name. Numbers are float64; text is an array of objects.
Arrays = dict[str, tuple[tuple[str, ...], npt.NDArray[Any]]]
Index = tuple[int, ...]
# By point: its arrays, or the message of its error.
Results = dict[Index, Arrays | str]

STATE = "point_state"
ERROR = "point_error"
PROVENANCE = "provenance"
RESERVED = (STATE, ERROR, PROVENANCE)
DEFAULT_CHUNKS = 1000  # number of chunks, about, if no size of batches is given
LARGEST_GRID = 10**8  # points
# Functions of `validate` that compute and return a result, besides the runs: others may write files.
_COMPUTING = ("validate.training.train", "validate.experiments.collisions.train_l1")


@dataclasses.dataclass(frozen=True)
class Plan:
    """The settings of a sweep that decide the content of its store, which has them as attributes.

    `work` is module:name of the function, `axes` has the values of the grid by argument, `settings` the other
    arguments. `keep` are the arrays to store (all if empty), `chunk` is the shape of a chunk, the points that
    one task computes; with `batch_dim` one call of the function does, along this dimension of its result.
    """

    work: str
    axes: Mapping[str, Sequence[Any]]
    settings: Mapping[str, Any]
    keep: Sequence[str]
    batch_dim: str | None
    chunk: Sequence[int]

    @property
    def shape(self) -> Index:
        """Number of values of each axis."""
        return tuple(map(len, self.axes.values()))

    @property
    def counts(self) -> Index:
        """Number of chunks, blocks of points that a task computes, along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk, strict=True))

    def region(self, number: int) -> tuple[slice, ...]:
        """Return the slices along the axes that chunk `number`, a block of points, covers."""
        indices = np.unravel_index(number, self.counts)
        edges = zip(indices, self.chunk, self.shape, strict=True)
        return tuple(slice(int(k) * c, min((int(k) + 1) * c, n)) for k, c, n in edges)

    def points(self, number: int) -> list[Index]:
        """Return the index tuples of the points of chunk `number`."""
        return list(itertools.product(*(range(part.start, part.stop) for part in self.region(number))))

    def at(self, point: Index) -> dict[str, Any]:
        """Return the value of each axis, by name, at a point of the grid."""
        return {name: values[k] for (name, values), k in zip(self.axes.items(), point, strict=True)}


def load_function(work: str) -> Callable[..., Any]:
    """Return the function `work`, given as module:name; ImportError if there is none."""
    module, _, name = work.partition(":")
    function: Callable[..., Any] = getattr(sys.modules.get(module) or importlib.import_module(module), name)
    return function


def function_of(work: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return the function `work`, or the function of the run, or public function, that `work` names.

    A public name is as ``"solvers.rug.optimum"``. A function that cannot be imported, and other values, raise
    a ValueError.
    """
    if callable(work):
        name = f"{work.__module__}:{getattr(work, '__qualname__', '')}"
        try:
            if load_function(name) is work and work.__module__ != "__main__" and inspect.signature(work):
                return work
        except (ImportError, AttributeError, ValueError):  # the last where a function in C has no signature
            pass
        rule = "a function that can be imported and names its arguments"
        raise ValueError(f"`work` must be {rule}; got {name}.")
    package, _, name = work.rpartition(".")
    if work in _COMPUTING or re.fullmatch(r"(theory|solvers)\.\w+", package):
        try:
            module = importlib.import_module(f"superposition.{package}")
            if name in module.__all__ and inspect.isfunction(getattr(module, name)):
                return load_function(f"superposition.{package}:{name}")
        except ModuleNotFoundError:
            pass
    elif work in (known := registry.list_runs()):  # which loads all that has runs
        return known[work].function
    rule = f"a run, a public function such as solvers.rug.optimum, or one of {', '.join(_COMPUTING)}"
    raise ValueError(f"`work` must be {rule}; got {short_repr(work)}.")


def check_grid(grid: Mapping[str, Any]) -> None:
    """Raise ValueError if a grid has no axis, or if the values of one are no list, tuple, range or array."""
    if not grid:
        raise ValueError("`grid` must have one axis or more, a list of values for an argument; got none.")
    for name, values in grid.items():
        if not is_list(values) or np.ma.is_masked(values) or not len(values):
            raise ValueError(f"`{name}` must be a list of one value or more; got {short_repr(values)}.")


def make_plan(
    work: Callable[..., Any] | str,
    grid: Mapping[str, Any],
    settings: Mapping[str, Any],
    keep: Collection[str],
    batch_dim: str | None,
    batch: int | None,
) -> Plan:
    """Return the plan of a sweep; ValueError if its grid, settings or batch do not fit the function.

    `work` is the function or its name. `grid` has a list of values for each of some arguments, `settings` the
    value of each of the others. `keep` are names of results to store, `batch` is the largest number of points
    in a chunk. With `batch_dim` one call computes a chunk, whose points lie along this dimension of the
    result.
    """
    function = function_of(work)
    check_grid(grid)
    axes, fixed = ({name: _as_json(name, value) for name, value in part.items()} for part in (grid, settings))
    if repeated := sorted(set(axes).intersection(fixed)):
        raise ValueError(f"`{repeated[0]}` must be in the grid or in the settings; got both.")
    check_settings(function, {**{name: values[0] for name, values in axes.items()}, **fixed})
    _check_arguments(function, {**axes, **fixed})
    if batch_dim is None:
        parameters = inspect.signature(function).parameters
        depths = {name: _list_depth(parameter.annotation) for name, parameter in parameters.items()}
        axes = {name: [_nest(value, depths[name]) for value in values] for name, values in axes.items()}
        fixed = {k: None if value is None else _nest(value, depths[k]) for k, value in fixed.items()}
    for name, values in axes.items():
        axis_labels(name, values)
    name = f"{function.__module__}:{function.__qualname__}"
    return Plan(name, axes, fixed, list(keep), batch_dim, _chunk_shape(list(map(len, axes.values())), batch))


def _check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if one of a function's `arguments` names a file, or a required `rng` is missing."""
    parameters = inspect.signature(function).parameters
    if function.__module__.startswith("superposition."):
        for name in arguments.keys() & parameters.keys():
            if "Path" in str(parameters[name].annotation):
                rule = "left out: it names a file, and all points would have the same"
                raise ValueError(f"`{name}` must be {rule}; got {short_repr(arguments[name])}.")
    if "rng" in parameters and parameters["rng"].default is None and "rng" not in arguments:
        raise ValueError("`rng` must be given, as a seed or a list of them; got nothing.")


def _chunk_shape(shape: Sequence[int], batch: int | None) -> list[int]:
    """Return the shape of a chunk of about `batch` points, which covers the last axes first.

    `shape` is that of the grid. If `batch` is None there are about 1,000 chunks.
    """
    total = math.prod(shape)
    if total > LARGEST_GRID:
        raise ValueError(f"`grid` must have at most {LARGEST_GRID} points; got {total}.")
    size = -(-total // DEFAULT_CHUNKS) if batch is None else integer("batch", batch, 1, LARGEST_GRID)
    chunk: list[int] = []
    for length in reversed(shape):
        chunk.insert(0, min(length, max(size, 1)))
        size //= length
    return chunk


def _as_json(name: str, value: Any) -> Any:
    """Return a value as JSON restores it; ValueError, naming `name`, if it is no JSON."""
    try:
        return json.loads(json.dumps(value, default=as_list, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        rule = "finite numbers, text, and lists of them"
        raise ValueError(f"`{name}` must be {rule}; got {short_repr(value)} ({error}).") from error


def _list_depth(annotation: Any) -> int:
    """Return the depth of nested sequences of an annotation, 0 if it also allows other types."""
    origin = get_origin(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Sequence)):
        return 0
    return 1 + max(map(_list_depth, get_args(annotation)), default=0)


def _nest(value: Any, depth: int) -> Any:
    """Return a value wrapped in lists up to the nesting depth of an argument.

    >>> _nest(32, 1), _nest([32], 1), _nest([2, 1, 0.1], 2)
    ([32], [32], [[2, 1, 0.1]])
    """
    inner = value
    while isinstance(inner, list):
        depth, inner = depth - 1, inner[0] if inner else None
    for _ in range(depth):
        value = [value]
    return value


def axis_labels(name: str, values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return the coordinate of the axis `name`: numbers or text.

    A list of one value among `values` becomes this value, a longer list its JSON.

    >>> axis_labels("n_hidden", [[32], [64]])
    array([32, 64])
    """
    alone = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in values]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in alone):
        alone = [value if isinstance(value, str) else json.dumps(value) for value in alone]
    coordinate = np.asarray(alone)
    if coordinate.dtype.kind in "uO":  # beyond the integers that a store holds
        raise ValueError(f"`{name}` must be numbers below 2^63; got {short_repr(values)}.")
    if twice := [value for value in alone if alone.count(value) > 1] if len(set(alone)) < len(alone) else []:
        raise ValueError(f"`{name}` must have distinct values; got {short_repr(twice[0])} twice.")
    return coordinate


def compute_points(plan: Plan, points: Sequence[Index]) -> Results:
    """Return a dict from each of `points` to the result of `plan.work` there, or to its error's message.

    A point is a tuple of indices, one into the values of each axis of the grid. A result is a dict from the
    names of its arrays to (dimensions, values). An ImportError, which would arise at all points, is raised.
    """
    function = load_function(plan.work)
    if plan.batch_dim is not None:
        return _compute_batch(function, plan, points)
    results: Results = {}
    for point in points:
        try:
            results[point] = result_arrays(function(**plan.at(point), **plan.settings), plan)
        except Exception as error:
            results[point] = _error_message(error)
    return results


def _error_message(error: Exception) -> str:
    """Return type and text of an error; an ImportError, which would arise at all points, is raised."""
    if isinstance(error, ImportError):
        raise error
    return " ".join(f"{type(error).__name__}: {error}".split())


def _compute_batch(function: Callable[..., Any], plan: Plan, points: Sequence[Index]) -> Results:
    """Return a dict from each point to its part of the result of one call for all, or to an error's message.

    `points` are index tuples into the axes of `plan`. A part has arrays as (dimensions, values) by name.
    `function` is that of `plan`, called with a list for each axis of its values at `points`.
    """
    values = [plan.at(point) for point in points]
    try:
        ds = function(**{name: [at[name] for at in values] for name in plan.axes}, **plan.settings)
        size = ds.sizes.get(plan.batch_dim) if isinstance(ds, xr.Dataset) else None
        if size != len(points):
            rule = f"a dataset with {len(points)} entries along {plan.batch_dim}"
            raise ValueError(f"`work` must return {rule}; got {size} of them.")
        return {point: result_arrays(ds.isel({plan.batch_dim: k}), plan) for k, point in enumerate(points)}
    except Exception as error:
        return dict.fromkeys(points, _error_message(error))


def result_arrays(result: Any, plan: Plan) -> Arrays:
    """Return the arrays of numbers and texts in a function's result as (dimensions, array) by name.

    If a plan has `keep`, only these arrays and their coordinates. A result without them, or with names or
    dimensions of the grid, raises a ValueError.
    """
    items: list[tuple[str, tuple[Any, ...] | None, Any]]
    if isinstance(result, xr.Dataset):
        variables = result.squeeze().variables
        items = [(str(name), variable.dims, variable.values) for name, variable in variables.items()]
    else:
        if dataclasses.is_dataclass(result) and not isinstance(result, type):
            result = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        mapping = result if isinstance(result, Mapping) else {"value": result}
        items = [(str(name), None, value) for name, value in mapping.items()]
    arrays: Arrays = {}
    for name, dims, value in items:
        is_label = dims == (name,) and value.dtype.kind in "iu"
        array = value.astype(np.int64) if is_label else _numbers_or_text(value)
        if array is None or name in plan.axes:
            continue
        if "/" in name or name in RESERVED:
            raise ValueError(f"`work` must not return an array of this name; got {name}.")
        names = tuple(map(str, dims)) if dims is not None else tuple(f"{name}_{k}" for k in range(array.ndim))
        if shared := set(names).intersection(plan.axes):
            raise ValueError(f"`work` must not return a dimension of the grid; got {name} along {shared}.")
        arrays[name] = names, array
    if plan.keep:
        coordinates = {dim for name in plan.keep if name in arrays for dim in arrays[name][0]}
        arrays = {name: pair for name, pair in arrays.items() if name in plan.keep or name in coordinates}
    missing = [name for name in plan.keep if name not in arrays]
    if missing or not arrays:
        wanted = ", ".join(missing) or "numbers or text"
        raise ValueError(f"`work` must return {wanted}; got {short_repr(result)}.")
    return arrays


def _numbers_or_text(value: Any) -> npt.NDArray[Any] | None:
    """Return numbers as float64, text and members of enumerations as text, and None for other values."""
    try:
        array = np.asarray(np.nan if value is None else value)
    except ValueError:  # lists of several lengths
        return None
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind == "O" and array.size and all(isinstance(v, str | enum.Enum) for v in array.flat):
        names = [v if isinstance(v, str) else v.name for v in array.flat]
        return np.array(names, dtype=object).reshape(array.shape)
    return None
