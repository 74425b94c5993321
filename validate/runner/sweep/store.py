"""The Zarr store of a sweep.

Arrays have the axes of the grid before those of the results, and the chunks of the sweep. The states of a
chunk's points are written last, and each file under a temporary name first, so that the results of points
that are done exist. An error names a chunk with a wrong checksum; if its file is removed, the same sweep
computes its points again.
"""

import json
import platform
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....theory.annotations import as_annotated
from ....theory.validation import short_repr
from ...reference.files import error_text, exclusive_folder, require_same_settings
from ..provenance import PACKAGES, package_version
from .points import ERROR, PROVENANCE, STATE, Arrays, Index, Plan, Results, axis_labels

FORMAT = "superposition sweep 3"
WAITING = 0
DONE = 1
FAILED = 2
# Fill value of a new array, by its kind.
_FILL = {"int8": WAITING, "int64": 0, "float64": np.nan, "str": ""}


def _import_zarr() -> Any:
    """Return the module zarr; an ImportError says how to install it."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("A sweep needs Zarr: pip install -e '.[sweep]' in the checkout.") from error
    return zarr


def _open_group(url: str, mode: str) -> Any:
    """Return the Zarr group at a URL, opened in `mode`, "r" or "a"; ValueError if damaged or no store."""
    try:
        return _import_zarr().open_group(url, mode=mode, zarr_format=3)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # file systems and damaged files raise many types
        if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
            raise  # such as a full disk
        raise ValueError(
            f"`store` must be a Zarr store ({error_text(error)}); got {short_repr(url)}."
        ) from error


def _refusal(url: str, rule: str, error: Exception) -> ValueError:
    """Return the ValueError for a damaged store at `url`: it must be what `rule` says, but `error` arose."""
    return ValueError(f"`store` must be {rule}; got {short_repr(url)} ({error_text(error)}).")


@contextmanager
def open_for_writing(url: str, plan: Plan) -> Iterator["SweepStore"]:
    """Give the store of a plan at `url`, new or existing; a folder is locked against other processes.

    A store of another plan, or a damaged one, raises a ValueError.
    """
    # Zarr leaves out chunks of NaN by default; here a chunk without a file counts as missing.
    config = _import_zarr().config.set({"array.write_empty_chunks": True})
    with config, nullcontext() if "://" in url else exclusive_folder(url, "store"):
        group = _open_group(url, "a")
        settings = {
            "format": FORMAT,
            "superposition": package_version("superposition"),
            "order": list(plan.axes),
        }
        settings |= json.loads(json.dumps(asdict(plan)))
        if not dict(group.attrs) and STATE not in group:
            group.attrs.put({"sweep": settings, "results": {}})
        store = SweepStore(url, group)
        rule = "empty, or hold a sweep of the same settings"
        require_same_settings("store", short_repr(url), group.attrs["sweep"], settings, rule)
        store.check()
        store.prepare()
        yield store


def _describe(arrays: Arrays) -> dict[str, list[Any]]:
    """Return [dimensions, shape, kind, values of a coordinate or None] of each array by name.

    The kind is the type of the numbers as text, or "str".
    """
    return {
        name: [
            list(dims),
            list(values.shape),
            "str" if values.dtype.kind in "OU" else str(values.dtype),
            values.tolist() if dims == (name,) else None,
        ]
        for name, (dims, values) in sorted(arrays.items())
    }


class SweepStore:
    """The Zarr arrays of a sweep: axes, states and errors of points, results."""

    def __init__(self, url: str, group: Any) -> None:
        self._url, self._group = url, group
        sweep = group.attrs.get("sweep")
        if not isinstance(sweep, dict) or sweep.get("format") != FORMAT:
            raise ValueError(f"`store` must hold what is called {FORMAT!r}; got {short_repr(url)}.")
        try:
            self.plan = Plan(**{field.name: sweep[field.name] for field in fields(Plan)})
            self._described: dict[str, list[Any]] = group.attrs["results"]
            for name in self.names if self._described else ():
                group[name]
        except Exception as error:  # damaged metadata raise many types
            rule = "a whole sweep: bring its zarr.json back from a copy, or begin another store"
            raise _refusal(url, rule, error) from error

    @property
    def results(self) -> list[str]:
        """Names of the arrays of results; empty before the first point is done."""
        return [name for name, (*_, values) in self._described.items() if values is None]

    @property
    def names(self) -> list[str]:
        """Names of all arrays: axes, points' states and errors, and results once the first point is done."""
        return [*self.plan.axes, STATE, ERROR, *self._described]

    def check(self) -> None:
        """Read all stored chunks; a ValueError names the first damaged one."""
        for name in self.names:
            if name in self._group and (damage := _find_damage(self._group[name])):
                file, error = f"{name}/{damage[0]}", damage[1]
                rule = f"a whole sweep; remove its damaged chunk {file}, and the same sweep makes it anew"
                raise _refusal(self._url, rule, error) from error

    def prepare(self) -> None:
        """Create the arrays of axes, points' states (waiting, done, failed), errors, and results if known."""
        axes: Arrays = {name: ((name,), axis_labels(name, values)) for name, values in self.plan.axes.items()}
        states: dict[str, list[Any]] = {STATE: [[], [], "int8", None], ERROR: [[], [], "str", None]}
        self._make_arrays(_describe(axes) | states | self._described)
        self._states, self._errors = self.states(), self._group[ERROR][...].astype(object)

    def _make_arrays(self, described: Mapping[str, Any]) -> None:
        """Create missing arrays of results, over the grid and their dimensions, and store their coordinates.

        `described` has by the array's name [dimensions, shape, kind, values of a coordinate or None]; the
        kind is the type of the numbers as text, or "str".
        """
        from zarr.codecs import Crc32cCodec, ZstdCodec

        files = _list_files(self._group)
        for name, (dims, shape, kind, values) in described.items():
            axes = {} if values is not None else self.plan.axes
            if name not in self._group:
                self._group.create_array(
                    name,
                    shape=(*map(len, axes.values()), *shape),
                    chunks=(*(self.plan.chunk if axes else ()), *(max(n, 1) for n in shape)),
                    dtype=str if kind == "str" else kind,
                    fill_value=_FILL[kind],
                    dimension_names=(*axes, *dims),
                    # With a checksum: Zstd ignores some changes of its bytes.
                    compressors=[ZstdCodec(), Crc32cCodec()],
                )
            if values is not None and f"{name}/c/0" not in files:
                self._group[name][...] = np.array(values, dtype=object if kind == "str" else kind)

    def states(self) -> npt.NDArray[np.int8]:
        """Return the state of each point over the grid: WAITING, DONE or FAILED.

        All points of a chunk that lacks one of its files are waiting.
        """
        states = np.asarray(self._group[STATE][...])
        files = _list_files(self._group)
        for number in range(int(np.prod(self.plan.counts))) if states.any() else ():
            region = self.plan.region(number)
            chunk_key = "/".join(map(str, np.unravel_index(number, self.plan.counts)))
            results = self.results if (states[region] == DONE).any() else []
            needed = [f"{name}/c/{chunk_key}{'/0' * len(self._described[name][1])}" for name in results]
            if not files.issuperset([f"{ERROR}/c/{chunk_key}", *needed]):
                states[region] = WAITING
        return states

    def missing_points(self, retry: bool) -> dict[int, list[Index]]:
        """Return the points to compute by number of the chunk; with `retry`, also points that failed."""
        waiting = (self._states == WAITING) | (retry & (self._states == FAILED))
        chunks = range(int(np.prod(self.plan.counts)))
        points = {number: [p for p in self.plan.points(number) if waiting[p]] for number in chunks}
        return {number: missing for number, missing in points.items() if missing}

    def write(self, number: int, results: Results) -> None:
        """Store results and states of points of chunk `number`.

        `results` has for each point, an index tuple, its arrays by name or the message of its error. A point
        fails if the function raised an error, or if its arrays differ in name, dimensions, shape or kind from
        those of the first result.
        """
        region = self.plan.region(number)
        old_states = self._states[region]
        states, errors = old_states.copy(), self._errors[region].copy()
        successes: dict[Index, Arrays] = {}
        for point, result in results.items():
            index = tuple(k - part.start for k, part in zip(point, region, strict=True))
            errors[index] = result if isinstance(result, str) else self._difference(result)
            states[index] = FAILED if errors[index] else DONE
            if not errors[index] and not isinstance(result, str):
                successes[index] = result
        for name in self.results if successes else ():
            _, shape, kind, _ = self._described[name]
            block = np.full((*old_states.shape, *shape), _FILL[kind], object if kind == "str" else kind)
            if np.any(old_states == DONE):
                block[...] = self._group[name][region]
            for index, result in successes.items():
                block[index] = result[name][1]
            self._group[name][region] = block
        self._group[ERROR][region] = errors
        self._group[STATE][region] = states
        self._states[region], self._errors[region] = states, errors

    def _difference(self, result: Arrays) -> str:
        """Return an error message on how a result's arrays differ from those of the first result, or "".

        The first result defines the stored arrays, which are then created.
        """
        described = _describe(result)
        if not self._described:
            self._make_arrays(described)
            self._group.attrs.update({"results": described})
            self._described = described
        for name in sorted({*described, *self._described}):
            if described.get(name) != self._described.get(name):
                dims, shape, *_ = described.get(name, ([], []))
                what = f"dimensions {tuple(dims)}, shape {tuple(shape)}" if name in described else "nothing"
                return f"ValueError: `{name}` must be as at the first point that succeeded; got {what}."
        return ""

    def add_provenance(self, **facts: Any) -> None:
        """Add an entry with time, system, versions and these facts to the store's provenance."""
        facts["begun"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        facts |= {"system": platform.platform(), "python": platform.python_version()}
        facts["versions"] = {name: package_version(name) for name in (*PACKAGES, "zarr")}
        attributes = self._group.require_group(PROVENANCE).attrs
        attributes["runs"] = [*attributes.get("runs", []), facts]


def _find_damage(array: Any) -> tuple[str, Exception] | None:
    """Return (chunk name, error) of the first chunk of an array that cannot be read, or None."""
    for index in np.ndindex(*array.cdata_shape):
        try:
            array.blocks[index]
        except (ImportError, MemoryError):
            raise
        except Exception as error:  # decoders raise many types on damaged bytes
            return array.metadata.encode_chunk_key(index), error
    return None


def _list_files(group: Any) -> set[str]:
    """Return the names of all files of a store, relative to its group."""
    from zarr.core.sync import sync

    async def list_names() -> set[str]:
        """Return the names of the store's files below the group."""
        path = group.store_path
        start = f"{path.path}/" if path.path else ""
        return {name.removeprefix(start) async for name in path.store.list_prefix(start)}

    files: set[str] = sync(list_names())
    return files


def _hide_foreign_arrays(store: Any, names: Collection[str]) -> Any:
    """Return a wrapper of a Zarr store that lists only the arrays of these names."""
    from zarr.storage import WrapperStore

    class Listing(WrapperStore[Any]):
        """A store that lists only some arrays."""

        def __reduce__(self) -> Any:
            return _hide_foreign_arrays, (self._store, names)

        def _with_store(self, store: Any) -> Any:
            """Return this wrapper around another store, as zarr asks for."""
            return _hide_foreign_arrays(store, names)

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            """Yield the entries of a folder; of the topmost one only the given arrays."""
            async for name in self._store.list_dir(prefix):
                if prefix or name in names:
                    yield name

    return Listing(store)


@as_annotated
def open(store: str | Path) -> xr.Dataset:
    """Return the dataset of a sweep so far, from a folder or a URL that fsspec understands.

    Its variables have the axes of the grid and the dimensions of the results; numbers are float64, NaN where
    there are none yet, and read on demand. ``point_state`` is 0 for points that wait, 1 for points that are
    done, 2 for points that failed with the message ``point_error``. The attributes ``work`` and ``settings``
    (JSON) are the function and its settings.

    >>> import tempfile
    >>> from superposition.validate.runner import sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     grid = {"p": [0.01, 0.1], "ratio": [0.1, 0.5, 1]}
    ...     _ = sweep.run("theory.rug.sigma", grid, store=folder, jobs=0)
    ...     ds = sweep.open(folder).load()
    >>> ds["value"].dims, bool((ds["point_state"] == 1).all())
    (('p', 'ratio'), True)
    """
    url = str(store).removeprefix("file://")
    group = _open_group(url, "r")
    content = SweepStore(url, group)
    content.check()
    ds = xr.open_dataset(_hide_foreign_arrays(group.store, content.names), engine="zarr", consolidated=False)
    ds = ds[[*content.results, STATE, ERROR]]
    ds[STATE] = ds[STATE].copy(data=content.states())
    for name, values in ds.variables.items():
        if values.dtype.kind == "T":
            ds[name] = ds[name].astype(object)
    plan, made_by = content.plan, group.attrs["sweep"]["superposition"]
    ds.attrs = {"work": plan.work, "settings": json.dumps(plan.settings), "superposition_version": made_by}
    return ds
