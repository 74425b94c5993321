"""The Zarr store of a sweep: who may write to it, what is in it already, and how a chunk gets there.

An array has the axes of the grid before its own, and a chunk of it is a chunk of the sweep. The state of a
chunk's points is written after everything else of it, and each file is written under another name first: what
the states call done is there, and is as it will stay.
"""

import json
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory.arguments import shown
from ..files import difference, locked, output_folder
from ..laboratory import PACKAGES, version
from .points import ERROR, RUNS, STATE, Arrays, Found, Index, Plan, labels

FORMAT = "superposition sweep 1"
WAITING, DONE, FAILED = 0, 1, 2
_HALF = re.compile(r".*\.[0-9a-f]{32}\.partial")  # the names under which Zarr writes first


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("A sweep needs Zarr: pip install -e '.[sweep]' in the checkout.") from error
    return zarr


def _refused(url: str, rule: str, more: str = "") -> ValueError:
    return ValueError(f"`store` must be {rule}; got {shown(url)}{more}.")


@contextmanager
def prepared(url: str, plan: Plan) -> Iterator["Store"]:
    """Give the store of a plan, new or as it was left, for writing; nobody else may write to it meanwhile.

    Raises
    ------
    ValueError
        If something else is there, or a sweep with other settings.
    """
    _zarr()
    told = {"format": FORMAT, "superposition": version("superposition"), "order": list(plan.axes)}
    told |= asdict(plan)
    if "://" in url:
        yield Store(_agreed(url, told), plan)
        return
    folder = output_folder(url, "store").resolve()
    with locked(folder, "store", f"../.{folder.name}.lock") if folder.name else nullcontext():
        found = [path for path in folder.iterdir() if not _HALF.fullmatch(path.name)]
        if found and not (folder / "zarr.json").is_file():
            raise _refused(url, "an empty folder, or one that holds a sweep")
        group = _agreed(url, told)
        for path in list(folder.rglob("*.partial")):
            if _HALF.fullmatch(path.name):  # of a run that was killed
                path.unlink()
        yield Store(group, plan)


def _agreed(url: str, told: Mapping[str, Any]) -> Any:
    """Return the group; note the settings of a new one, and refuse those of another sweep."""
    group = _group(url, "a")
    before = group.attrs.get("sweep")
    if before is None and not dict(group.attrs) and not list(group.keys()):
        group.attrs["sweep"] = before = dict(told)
    if not isinstance(before, dict) or before.get("format") != FORMAT:
        raise _refused(url, f"empty, or hold what is called {FORMAT!r}")
    if said := difference(before, told):
        raise _refused(url, "empty, or hold a sweep of the same settings", f" with {said}")
    return group


def _group(url: str, mode: str) -> Any:
    try:
        return _zarr().open_group(url, mode=mode, zarr_format=3)
    except (ImportError, MemoryError):
        raise
    except OSError as error:
        if error.errno is not None and not isinstance(error, FileNotFoundError):
            raise  # such as a full disk
        raise _refused(url, f"a Zarr store ({error})") from error
    except Exception as error:  # file systems and damaged files raise many types
        raise _refused(url, f"a Zarr store ({error})") from error


class Store:
    """What a sweep has stored, and what it has still to do."""

    def __init__(self, group: Any, plan: Plan) -> None:
        self._group, self.plan = group, plan
        self._axes = tuple(plan.axes)
        for name, values in plan.axes.items():
            self._settle(name, labels(name, values))
        for name, fill in ((STATE, np.int8(WAITING)), (ERROR, "")):
            if name not in group:
                self._array(name, (), (), fill)
        self._state: npt.NDArray[np.int8] = group[STATE][...]
        self._held: dict[int, Found] = {}
        self._left: list[int] = []
        # Arrays are there before the first point is called done.
        self._arrays: dict[str, tuple[tuple[str, ...], Any]] | None = None
        if np.any(self._state == DONE):
            names = [name for name in group.array_keys() if name not in (*self._axes, STATE, ERROR)]
            found = {name: group[name] for name in sorted(names)}
            depth = len(self._axes)
            self._arrays = {
                name: (tuple(one.metadata.dimension_names)[depth:], one)
                for name, one in found.items()
                if tuple(one.metadata.dimension_names)[:depth] == self._axes
            }
            self._coordinates = {name: one[...] for name, one in found.items() if name not in self._arrays}

    def todo(self, retry: bool) -> dict[int, int]:
        """Return how many points of each chunk are to be done; with `retry`, also those that failed."""
        self._open = (self._state == WAITING) | (retry & (self._state == FAILED))
        chunks = range(int(np.prod(self.plan.counts)))
        found = {number: int(self._open[self.plan.region(number)].sum()) for number in chunks}
        found = {number: count for number, count in found.items() if count}
        self._left = list(found)
        return found

    def points(self, number: int) -> list[Index]:
        """Return the points of a chunk that are to be done."""
        return [point for point in self.plan.points(number) if self._open[point]]

    def failures(self) -> int:
        """Return how many points have failed."""
        return int(np.sum(self._state == FAILED))

    @property
    def waits(self) -> bool:
        """Whether it is not known yet which arrays there are."""
        return self._arrays is None

    def add(self, number: int, found: Found) -> Iterator[tuple[int, Found]]:
        """Take the points of a chunk, and yield what has been stored, chunk by chunk.

        Which arrays there are is told by the first point of the grid that did not fail, whichever chunk is
        finished first: until that is known, others are held.
        """
        self._held[number] = found
        while self._held:
            following = self._left[0] if self.waits else min(self._held)
            if following not in self._held:
                return
            self._left.remove(following)
            done = self._held.pop(following)
            self._write(following, done)
            yield following, done

    def _write(self, number: int, found: Found) -> None:
        region = self.plan.region(number)
        before = self._state[region]
        state, errors = before.copy(), np.full(before.shape, "", dtype=object)
        good: dict[Index, Arrays] = {}
        for point, one in found.items():
            place = tuple(k - part.start for k, part in zip(point, region, strict=True))
            fault = one if isinstance(one, str) else self._fault(one)
            state[place], errors[place] = FAILED if fault else DONE, fault
            if not fault and not isinstance(one, str):
                good[place] = one
        for name, (_, array) in (self._arrays or {}).items() if good else ():
            new = np.full((*before.shape, *array.shape[before.ndim :]), array.fill_value, dtype=array.dtype)
            block = array[region] if np.any(before == DONE) else new
            for place, one in good.items():
                block[place] = one[name][1]
            array[region] = block
        if np.any(state == FAILED) or np.any(before == FAILED):
            self._group[ERROR][region] = errors
        self._group[STATE][region] = state
        self._state[region] = state

    def _fault(self, found: Arrays) -> str:
        """Say what keeps a result out of the arrays; make these of the first one."""
        if self._arrays is None:
            labelled = {name: values for name, (dims, values) in found.items() if dims == (name,)}
            for name, values in labelled.items():
                self._settle(name, values)
            self._coordinates = labelled
            self._arrays = {
                name: (dims, self._array(name, dims, values.shape, "" if values.dtype == object else np.nan))
                for name, (dims, values) in sorted(found.items())
                if name not in labelled
            }
        for name in sorted({*found, *self._arrays, *self._coordinates}):
            have = found.get(name)
            if name in self._coordinates:
                other = have is None or not np.array_equal(have[1], self._coordinates[name])
            else:
                other = name not in self._arrays or have is None or not _alike(self._arrays[name], have)
            if other:
                what = "nothing" if have is None else f"dimensions {have[0]}, shape {have[1].shape}"
                return f"ValueError: `{name}` must be as at the first point that succeeded; got {what}."
        return ""

    def _array(self, name: str, dims: tuple[str, ...], shape: tuple[int, ...], fill: Any) -> Any:
        """Make an array over the grid and dimensions of its own, with `fill` everywhere."""
        self._check_free(name)
        return self._group.create_array(
            name,
            shape=(*self.plan.shape, *shape),
            chunks=(*self.plan.chunk, *(max(n, 1) for n in shape)),
            dtype=str if isinstance(fill, str) else np.asarray(fill).dtype,
            fill_value=fill,
            dimension_names=(*self._axes, *dims),
            overwrite=True,
        )

    def _check_free(self, name: str) -> None:
        """Refuse to make an array where there is a folder of something else, which Zarr would remove."""
        root = getattr(self._group.store, "root", None)  # of a store on this machine
        if root is not None and name not in self._group and (Path(root) / name).exists():
            raise _refused(str(root), f"without a folder {name!r} that is no array")

    def _settle(self, name: str, values: npt.NDArray[Any]) -> None:
        """Write labels, unless they are there."""
        if name in self._group:
            there = self._group[name][...]
            if there.shape == values.shape and np.array_equal(there.astype(object), values.astype(object)):
                return
        self._check_free(name)
        text = values.dtype.kind in "OUT"
        array = self._group.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=str if text else values.dtype,
            dimension_names=(name,),
            overwrite=True,
        )
        array[...] = values.astype(object) if text else values

    def note(self, **facts: Any) -> None:
        """Add to what is told of the runs, apart from the arrays; the last call for a run counts."""
        group = self._group.require_group(RUNS)
        runs = [one for one in group.attrs.get("runs", []) if one["begun"] != facts["begun"]]
        group.attrs["runs"] = [*runs, facts]


def _alike(array: tuple[tuple[str, ...], Any], found: tuple[tuple[str, ...], npt.NDArray[Any]]) -> bool:
    dims, kept = array
    same = dims == found[0] and kept.shape[kept.ndim - len(dims) :] == found[1].shape
    return same and (kept.dtype.kind == "f") == (found[1].dtype.kind == "f")


def machine() -> dict[str, Any]:
    """Return what is told of a run."""
    return {
        "begun": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in (*PACKAGES, "zarr")},
    }


def open(store: str | Path) -> xr.Dataset:
    """Open what a sweep has stored so far.

    Parameters
    ----------
    store : path or str
        A folder, or a URL that fsspec understands.

    Returns
    -------
    xarray.Dataset
        Over the axes of the grid and dimensions of the results' own; numbers are float64, NaN where there are
        none yet, and read when they are used. ``point_state`` is 0 for points that wait, 1 for those that are
        done, 2 for those that failed, as ``point_error`` says. The attributes ``work`` and ``settings``
        (JSON) tell what was called.

    Raises
    ------
    ValueError
        If no sweep is there.
    ImportError
        If Zarr is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate import sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     grid = {"p": [0.01, 0.1], "ratio": [0.1, 0.5, 1]}
    ...     _ = sweep.run("theory.rug.sigma", grid, store=folder, jobs=0)
    ...     ds = sweep.open(folder).load()
    >>> ds["value"].dims, bool((ds["point_state"] == 1).all())
    (('p', 'ratio'), True)
    """
    group = _group(str(store), "r")
    told = group.attrs.get("sweep")
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise _refused(str(store), "a sweep")
    try:
        ds = xr.open_dataset(group.store, engine="zarr", consolidated=False)
    except Exception as error:
        raise _refused(str(store), f"a whole sweep ({error})") from error
    some = bool((ds[STATE] == DONE).any())  # else a kill may have left arrays of no point
    names = sorted({*map(str, ds.data_vars)} - {STATE, ERROR}) if some else []
    ds = ds[[*names, STATE, ERROR]]
    for name, one in ds.variables.items():
        if one.dtype.kind == "T":
            ds[name] = ds[name].astype(object)
    facts = {"work": told["work"], "settings": json.dumps(told["settings"])}
    ds.attrs = {**facts, "superposition_version": told["superposition"]}
    return ds
