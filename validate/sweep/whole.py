"""What is in the store of a sweep, and whether it is as it was written.

The group's ``zarr.json`` holds the settings, the ``zarr.json`` of each array as text and the labels of the
results' own dimensions, under a checksum. ``point_sum`` holds a checksum of each point's state, message and
results. So a damaged file is noticed, whichever it is: points are computed anew, labels and the ``zarr.json``
of an array are written anew, and a store whose settings are not certain is refused.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory.arguments import shown
from .points import ERROR, STATE, SUM, Index, Plan, labels

WAITING, DONE, FAILED = 0, 1, 2
DAMAGED = ("damaged point", "damaged points")
STATELESS = ("state that was not written, or lost", "states that were not written, or lost")
# Arrays that take more bytes together are read chunk by chunk.
_AT_ONCE = 2**28


def read(group: Any, name: str) -> bytes | None:
    """Return the bytes of a file of a store; None if there is none."""
    from zarr.core.sync import sync

    found: Any = sync((group.store_path / name).get())
    return None if found is None else bytes(found.to_bytes())


def write(group: Any, name: str, content: str) -> None:
    """Replace a file of a store as a whole."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    made: Any = default_buffer_prototype().buffer.from_bytes(content.encode())
    sync((group.store_path / name).set(made))


def remove(group: Any, name: str) -> None:
    """Remove a file of a store, if it is there."""
    from zarr.core.sync import sync

    sync((group.store_path / name).delete())


def write_group(group: Any, name: str, attributes: Mapping[str, Any]) -> None:
    """Write the ``zarr.json`` of a group, with a checksum of its attributes among them."""
    write(group, f"{name}/zarr.json".lstrip("/"), _document(attributes))


def read_group(group: Any, name: str) -> dict[str, Any] | None:
    """Return the attributes of a group that `write_group` wrote; None if something of it has changed."""
    content = read(group, f"{name}/zarr.json".lstrip("/"))
    try:
        found: dict[str, Any] = json.loads(content or b"")["attributes"]
        found.pop("sum")
        return found if _document(found).encode() == content else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _document(attributes: Mapping[str, Any]) -> str:
    told = {**attributes, "sum": hashlib.sha256(json.dumps(attributes).encode()).hexdigest()}
    return json.dumps({"attributes": told, "zarr_format": 3, "node_type": "group"}, indent=2)


def point_sum(state: int, error: str, values: Mapping[str, npt.NDArray[Any]]) -> int:
    """Return a checksum of what a store has of a point: 0 of one that waits, else a number below 2^64."""
    if state == WAITING:
        return 0
    seen = hashlib.sha256(json.dumps([int(state), error]).encode())
    for name, array in sorted(values.items()) if state == DONE else ():
        if array.dtype.kind in "OUT":
            seen.update(json.dumps([name, array.shape, array.tolist()]).encode())
        else:
            # One NaN for all: a chunk of nothing else is not stored.
            plain = np.where(np.isnan(array), np.nan, array).astype("<f8")
            seen.update(json.dumps([name, array.shape]).encode() + plain.tobytes())
    return int.from_bytes(seen.digest()[:8], "little") or 1


@dataclass
class Content:
    """All that a store has, its arrays as they are described in the group, and what is wrong with them."""

    group: Any
    plan: Plan
    known: dict[str, str]  # the zarr.json of each array
    own_labels: dict[str, list[Any]]
    metadata: list[str] = field(default_factory=list)  # arrays whose zarr.json is damaged
    spoilt_labels: list[str] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)  # chunks

    @property
    def results(self) -> list[str]:
        """Names of the arrays of results."""
        others = {*self.plan.axes, *self.own_labels, STATE, ERROR, SUM}
        return sorted(set(self.known) - others)

    def labels(self, name: str) -> npt.NDArray[Any]:
        """Return the labels of a dimension, as they must be."""
        if name in self.plan.axes:
            return labels(name, self.plan.axes[name])
        own = self.own_labels[name]
        return np.array(own) if own else np.empty(0, np.int64)

    def check_metadata(self) -> None:
        """Find arrays whose ``zarr.json`` is not as it was written."""
        found = {name: read(self.group, f"{name}/zarr.json") for name in self.known}
        self.metadata = [name for name, one in found.items() if one != self.known[name].encode()]

    def check_labels(self) -> None:
        """Find damaged labels."""
        names = [name for name in (*self.plan.axes, *self.own_labels) if name in self.known]
        self.spoilt_labels = [name for name in names if not self._as_labelled(name)]

    def _as_labelled(self, name: str) -> bool:
        there, expected = self._part(self.group[name], (slice(None),)), self.labels(name)
        same = there is not None and there.shape == expected.shape
        return same and np.array_equal(there.astype(object), expected.astype(object))  # type: ignore[union-attr]

    def check_points(self) -> npt.NDArray[np.bool_]:
        """Read the states, messages and checksums of all points, and find those that are damaged.

        A state that is missing or wrong, while all else fits the checksum, is put right here: it is the last
        that is written, so a run that was killed may lack it.
        """
        self.unreadable = set()
        self.states, self.errors, self.sums = (self._all(name) for name in (STATE, ERROR, SUM))
        damaged = np.zeros(self.plan.shape, dtype=bool)
        self.restored = np.zeros(self.plan.shape, dtype=bool)
        for region, values in self._parts():
            for place in np.ndindex(*(one.stop - one.start for one in region)):
                point = tuple(one.start + k for one, k in zip(region, place, strict=True))
                stored, error, known = int(self.states[point]), self.errors[point], int(self.sums[point])
                here = {name: one[(*place, ...)] for name, one in (values or {}).items()}
                for state in dict.fromkeys([stored, DONE, FAILED]):
                    possible = state in (WAITING, FAILED) or (state == DONE and values is not None)
                    if possible and point_sum(state, error, here) == known:
                        self.states[point], self.restored[point] = state, state != stored
                        break
                else:
                    damaged[point] = True
        for number in self.unreadable:
            damaged[self.plan.region(number)] = True
        return damaged

    def _parts(self) -> Iterator[tuple[tuple[slice, ...], dict[str, Any] | None]]:
        """Give parts of the grid, and the results there; None for chunks that cannot be read."""
        arrays = {name: self.group[name] for name in self.results}
        every = tuple(slice(0, n) for n in self.plan.shape)
        if sum(one.nbytes for one in arrays.values()) <= _AT_ONCE:
            whole = {name: self._part(one, every) for name, one in arrays.items()}
            if all(one is not None for one in whole.values()):
                yield every, whole
                return
        for number in range(int(np.prod(self.plan.counts))):
            region = self.plan.region(number)
            found = {name: self._part(one, region) for name, one in arrays.items()}
            spoilt = any(one is None for one in found.values())
            if spoilt:
                self.unreadable.add(number)
            yield region, None if spoilt else found

    def _all(self, name: str) -> npt.NDArray[Any]:
        """Return an array over the grid, with chunks that cannot be read as they are before a sweep."""
        array = self.group[name]
        whole = self._part(array, (...,))
        if whole is not None:
            return whole
        text = name == ERROR
        found = np.full(self.plan.shape, "" if text else 0, dtype=object if text else array.dtype)
        for number in range(int(np.prod(self.plan.counts))):
            part = self._part(array, self.plan.region(number))
            if part is None and name == ERROR:
                self.unreadable.add(number)
            elif part is not None:
                found[self.plan.region(number)] = part
        return found

    @staticmethod
    def _part(array: Any, region: tuple[Any, ...]) -> npt.NDArray[Any] | None:
        try:
            found = np.asarray(array[region])
        except (ImportError, MemoryError):
            raise
        except Exception:  # decoders raise many types on damaged bytes
            return None
        return found.astype(object) if found.dtype.kind in "OT" else found

    def named(self, points: npt.NDArray[np.bool_], what: tuple[str, str]) -> str:
        """Say how many points there are and where the first of them lie in the grid."""
        found: list[Index] = [tuple(map(int, one)) for one in np.argwhere(points)]
        places = [
            ", ".join(f"{name} {shown(one)}" for name, one in self.plan.at(k).items()) for k in found[:3]
        ]
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return f"{len(found)} {what[len(found) > 1]}: {'; '.join(places)}{more}"
