"""The Zarr store of a sweep: who may write to it, what is in it already, and how a chunk gets there.

An array has the axes of the grid before its own, and a chunk of it is a chunk of the sweep. The state of a
chunk's points is written after everything else of it, and each file is written under another name first: what
the states call done is there. Whether it is still as it was written is for `whole` to say.
"""

import itertools
import json
import os
import platform
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory.arguments import shown
from ..files import agreed, locked, named, output_folder
from ..laboratory import PACKAGES, version
from .points import ERROR, RUNS, STATE, SUM, Arrays, Found, Index, Plan
from .whole import (
    DAMAGED,
    DONE,
    FAILED,
    STATELESS,
    WAITING,
    Content,
    point_sum,
    read,
    read_group,
    remove,
    write,
    write_group,
)

FORMAT = "superposition sweep 2"
_MEND = "the same sweep into this store mends it"
_HALF = re.compile(r".*\.[0-9a-f]{32}\.partial")  # the names under which Zarr writes first


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("A sweep needs Zarr: pip install -e '.[sweep]' in the checkout.") from error
    return zarr


def _compressors() -> list[Any]:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return [ZstdCodec(), Crc32cCodec()]  # with a checksum: Zstd passes over changes that it has no use for


def _refused(url: str, rule: str, more: str = "") -> ValueError:
    return ValueError(f"`store` must be {rule}; got {shown(url)}{more}.")


@contextmanager
def prepared(url: str, plan: Plan, damage: Callable[[str], None] = lambda line: None) -> Iterator["Store"]:
    """Give the store of a plan, new or as it was left, for writing; nobody else may write to it meanwhile.

    What was damaged since it was written is told to `damage`, a line each, and will be written anew.

    Raises
    ------
    ValueError
        If something else is there, or a sweep with other settings.
    """
    _zarr()
    told = {"format": FORMAT, "superposition": version("superposition"), "order": list(plan.axes)}
    told |= asdict(plan)
    if "://" in url:
        yield Store(url, _agreed(url, told), plan, damage)
        return
    folder = output_folder(url, "store").resolve()
    with locked(folder, "store", by_file=False):
        found = [one for one in folder.iterdir() if not _HALF.fullmatch(one.name)]
        if found and not (folder / "zarr.json").is_file():
            raise _refused(url, "an empty folder, or one that holds a sweep")
        group = _agreed(url, told)
        for path in list(folder.rglob("*.partial")):
            if _HALF.fullmatch(path.name):  # of a run that was killed
                path.unlink()
        yield Store(url, group, plan, damage)


def _agreed(url: str, told: Mapping[str, Any]) -> Any:
    """Return the group; note the settings of a new one, and refuse those of another sweep."""
    group = _group(url, "a")
    if not dict(group.attrs) and not list(group.keys()):
        write_group(group, "", {"sweep": json.loads(json.dumps(told)), "arrays": {}, "labels": {}})
        group = _group(url, "a")
    before = _told(url, group, f"empty, or hold what is called {FORMAT!r}")["sweep"]
    agreed("store", shown(url), before, told, "empty, or hold a sweep of the same settings")
    return group


def _told(url: str, group: Any, rule: str) -> dict[str, Any]:
    """Return the attributes of a sweep's group."""
    told = group.attrs.get("sweep")
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise _refused(url, rule)
    found = read_group(group, "")
    if found is None:
        raise _refused(url, "a whole sweep", ", whose zarr.json was damaged: its settings are not certain")
    return found


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

    def __init__(self, url: str, group: Any, plan: Plan, damage: Callable[[str], None]) -> None:
        self._group, self.plan, self._axes = group, plan, tuple(plan.axes)
        self._told = _told(url, group, "a sweep")
        self._content = Content(group, plan, self._told["arrays"], self._told["labels"])
        self._settle(damage)
        damaged = self._content.check_points()
        self._state: npt.NDArray[np.int8] = self._content.states
        self._errors, self._sums = self._content.errors, self._content.sums
        # Arrays are there before the first point is called done.
        some = bool(np.any((self._state == DONE) | damaged))
        self._arrays: dict[str, tuple[tuple[str, ...], Any]] | None = None
        if some and (self._content.results or self._content.own_labels):
            found = {name: group[name] for name in self._content.results}
            depth = len(self._axes)
            self._arrays = {
                name: (tuple(one.metadata.dimension_names)[depth:], one) for name, one in found.items()
            }
            self._coordinates = {name: self._content.labels(name) for name in self._content.own_labels}
        if np.any(self._content.restored):
            damage(f"{self._content.named(self._content.restored, STATELESS)}; written anew")
            for number in range(int(np.prod(plan.counts))):
                if np.any(self._content.restored[plan.region(number)]):
                    group[STATE][plan.region(number)] = self._state[plan.region(number)]
        if np.any(damaged):
            damage(f"{self._content.named(damaged, DAMAGED)}; computed anew")
        self._state[damaged], self._errors[damaged], self._sums[damaged] = WAITING, "", 0
        self._held: dict[int, Found] = {}
        self._left: list[int] = []
        self._runs = self._notes(damage)

    def _settle(self, damage: Callable[[str], None]) -> None:
        """Make the arrays that every sweep has, or write anew what is damaged of those that are there."""
        content = self._content
        content.check_metadata()
        for name in content.metadata:
            damage(f"{name}/zarr.json was damaged or is missing; written anew")
            write(self._group, f"{name}/zarr.json", content.known[name])
        content.check_labels()
        for name in content.spoilt_labels:
            damage(f"the labels of {name} were damaged; written anew")
            self._group[name][...] = _stored(content.labels(name))
        new = [name for name in (*self._axes, STATE, ERROR, SUM) if name not in content.known]
        empty = {STATE: np.int8(WAITING), ERROR: "", SUM: np.uint64(0)}
        for name in new:
            if name in self._axes:
                self._label(name, content.labels(name))
            else:
                self._array(name, (), (), empty[name])
        if new:
            self._check_free(RUNS)
            self._note_arrays(new)

    def _note_arrays(self, names: Iterable[str], coordinates: Mapping[str, Any] | None = None) -> None:
        """Note in the group what arrays there are now."""
        known = self._content.known
        known |= {name: (read(self._group, f"{name}/zarr.json") or b"").decode() for name in names}
        self._content.own_labels |= {name: one.tolist() for name, one in (coordinates or {}).items()}
        self._told |= {"arrays": known, "labels": self._content.own_labels}
        write_group(self._group, "", self._told)

    def _notes(self, damage: Callable[[str], None]) -> list[dict[str, Any]]:
        """Return what is told of earlier runs."""
        if not np.any(self._state != WAITING) and read(self._group, f"{RUNS}/zarr.json") is None:
            return []
        found = read_group(self._group, RUNS)
        if found is None:
            damage(f"{RUNS}/zarr.json, which tells of earlier runs, was damaged or is missing; begun anew")
            write_group(self._group, RUNS, {"runs": []})
        return found["runs"] if found else []

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
        state, errors, sums = before.copy(), self._errors[region].copy(), self._sums[region].copy()
        good: dict[Index, Arrays] = {}
        for point, one in found.items():
            place = tuple(k - part.start for k, part in zip(point, region, strict=True))
            fault = one if isinstance(one, str) else self._fault(one)
            state[place], errors[place] = FAILED if fault else DONE, fault
            values: dict[str, npt.NDArray[Any]] = {}
            if not fault and not isinstance(one, str):
                good[place] = one
                values = {name: one[name][1] for name in self._arrays or {}}
            sums[place] = point_sum(state[place], fault, values)
        spoilt = number in self._content.unreadable
        for name, (_, array) in (self._arrays or {}).items() if good or spoilt else ():
            new = np.full((*before.shape, *array.shape[before.ndim :]), array.fill_value, dtype=array.dtype)
            block = array[region] if np.any(before == DONE) else new
            for place, one in good.items():
                block[place] = one[name][1]
            array[region] = block
        if spoilt or np.any(errors != self._errors[region]):
            self._group[ERROR][region] = errors
        self._group[SUM][region] = sums
        self._group[STATE][region] = state
        self._state[region], self._errors[region], self._sums[region] = state, errors, sums

    def _fault(self, found: Arrays) -> str:
        """Say what keeps a result out of the arrays; make these of the first one."""
        if self._arrays is None:
            labelled = {name: values for name, (dims, values) in found.items() if dims == (name,)}
            for name, values in labelled.items():
                self._label(name, values)
            self._coordinates = labelled
            self._arrays = {
                name: (dims, self._array(name, dims, values.shape, "" if values.dtype == object else np.nan))
                for name, (dims, values) in sorted(found.items())
                if name not in labelled
            }
            self._note_arrays([*labelled, *self._arrays], labelled)
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
        return self._made(
            name,
            shape=(*self.plan.shape, *shape),
            chunks=(*self.plan.chunk, *(max(n, 1) for n in shape)),
            dtype=str if isinstance(fill, str) else np.asarray(fill).dtype,
            fill_value=fill,
            dimension_names=(*self._axes, *dims),
        )

    def _made(self, name: str, **given: Any) -> Any:
        """Make an array, also in the place of another: of its folder only what belongs to that one goes."""
        self._check_free(name)
        if not self._is_array(name):
            return self._group.create_array(name, compressors=_compressors(), **given)
        before = self._group[name]
        for at in itertools.product(*map(range, before.cdata_shape)):
            remove(self._group, f"{name}/{before.metadata.encode_chunk_key(at)}")
        spare = _zarr().create_group(store=_zarr().storage.MemoryStore())
        spare.create_array(name, compressors=_compressors(), **given)
        write(self._group, f"{name}/zarr.json", (read(spare, f"{name}/zarr.json") or b"").decode())
        return self._group[name]

    def _check_free(self, name: str) -> None:
        """Refuse to make an array where there is a folder of something else."""
        root = getattr(self._group.store, "root", None)  # of a store on this machine
        if root is not None and not self._is_array(name) and (Path(root) / name).exists():
            raise _refused(str(root), f"without a folder {name!r} that is no array")

    def _is_array(self, name: str) -> bool:
        try:
            return name in self._group
        except ValueError:  # its zarr.json is damaged
            return False

    def _label(self, name: str, values: npt.NDArray[Any]) -> None:
        """Make the labels of a dimension."""
        array = self._made(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=str if values.dtype.kind in "OUT" else values.dtype,
            dimension_names=(name,),
        )
        array[...] = _stored(values)

    def note(self, **facts: Any) -> None:
        """Add to what is told of the runs, apart from the arrays; the last call for a run counts."""
        self._runs = [*(one for one in self._runs if one["begun"] != facts["begun"]), facts]
        write_group(self._group, RUNS, {"runs": self._runs})


def _stored(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(object) if values.dtype.kind in "OUT" else values


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


def place_of(store: Any) -> str:
    """Return the path or URL of a store as text."""
    if not isinstance(store, str | os.PathLike):
        raise ValueError(f"`store` must be a path or URL; got {shown(store)}.")
    longest = max(map(len, str(store).split("/")))
    if longest > 255 and "://" not in str(store):
        raise ValueError(f"`store` must have names of at most 255 characters; got {named(str(store))}.")
    return str(store)


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
        If no sweep is there, or something of it was damaged after it was written: which points these are.
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
    url = place_of(store)
    group, content = _checked(url)
    told = content.plan
    try:
        ds = xr.open_dataset(group.store, engine="zarr", consolidated=False)
    except Exception as error:
        raise _refused(url, f"a whole sweep ({error})") from error
    if content.restored.any():
        said = content.named(content.restored, STATELESS)
        warnings.warn(f"{named(url)}: {said}; restored here", RuntimeWarning, stacklevel=2)
        ds[STATE] = ds[STATE].copy(data=content.states)
    some = bool((content.states == DONE).any())  # else a kill may have left arrays of no point
    ds = ds[[*(content.results if some else []), STATE, ERROR]]
    for name, one in ds.variables.items():
        if one.dtype.kind == "T":
            ds[name] = ds[name].astype(object)
    facts = {"work": told.work, "settings": json.dumps(told.settings)}
    ds.attrs = {**facts, "superposition_version": group.attrs["sweep"]["superposition"]}
    return ds


def _checked(url: str) -> tuple[Any, Content]:
    """Return a group and what is in it, and refuse it if something is damaged."""
    before: npt.NDArray[np.bool_] | None = None  # of the first look
    while True:
        group = _group(url, "r")
        told = _told(url, group, "a sweep")
        plan = Plan(**{one.name: told["sweep"][one.name] for one in fields(Plan)})
        content = Content(group, plan, told["arrays"], told["labels"])
        content.check_metadata()
        if missing := [name for name in (*plan.axes, STATE, ERROR, SUM) if name not in content.known]:
            raise _refused(url, "a sweep that was begun", f" without {missing[0]}")
        if content.metadata:
            said = ", ".join(content.metadata)
            raise _refused(
                url, "a whole sweep", f", where zarr.json of {said} is damaged or missing; {_MEND}"
            )
        content.check_labels()
        if content.spoilt_labels:
            said = ", ".join(content.spoilt_labels)
            raise _refused(url, "a whole sweep", f" with damaged labels of {said}; {_MEND}")
        damaged = content.check_points()
        found = damaged | content.restored
        if not found.any() or before is not None:
            # A point that is being written looks damaged for a moment.
            before = found if before is None else before
            content.restored &= before
            if (damaged & before).any():
                said = content.named(damaged & before, DAMAGED)
                raise _refused(url, "a whole sweep", f" with {said}; {_MEND}")
            return group, content
        before = found
