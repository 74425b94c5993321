"""Results that came with the package, because they take longer than a reader waits."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from .annotations import as_annotated
from .files import digest, named, read_dataset

__all__ = ["INDEX", "REFERENCE", "read_index", "read_jobs", "read_reference", "stored_facts"]

REFERENCE = Path(__file__).parent / "reference"
_PARTS = re.compile(r"(\d+)").split
INDEX = "index.json"  # in that folder: how each of its files was made, see `index`


def read_index() -> dict[str, dict[str, Any]]:
    """Return what ``validate/reference/index.json`` says of each stored file, by its name.

    Raises
    ------
    ValueError
        If it is missing or damaged.
    """
    path = REFERENCE / INDEX
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["files"]
        if not all(isinstance(entry["sha256"], str) for entry in found.values()):
            raise ValueError("no checksum")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"`{INDEX}` must be the index of stored files; got {named(path)} ({error})."
        ) from error
    return dict(found)


@as_annotated
def read_reference(name: str) -> xr.Dataset:
    """Read a file of ``validate/reference``, whose index says how each was made.

    The attributes ``stored_file``, ``stored_date`` and ``stored_device`` are added.

    Raises
    ------
    ValueError
        If the file is missing, is not in the index, or is another one than that in the index.
    """
    path, index = REFERENCE / name, read_index()
    possible = re.fullmatch(r"[\w.-]{1,200}\.nc", name) is not None
    if not possible or not (path.is_file() or name.removesuffix(".nc") in index):
        raise ValueError(f"`name` must be a file of {INDEX}, as NAME.nc; got {named(name)}.")
    if digest(path) != index.get(name.removesuffix(".nc"), {}).get("sha256"):
        rule = f"the file that {INDEX} names, unchanged"
        raise ValueError(f"`{name}` must be {rule}; got {'another' if path.is_file() else 'none'}.")
    ds = read_dataset(path)
    return ds.assign_attrs(stored_facts(name, [ds.attrs]))


@as_annotated
def read_jobs(names: Sequence[str], *, folder: str | Path = "") -> dict[str, xr.Dataset]:
    """Read the files of runs whose names begin so, in the order of the index, or else of their numbers.

    Parameters
    ----------
    names : sequence of str
        What the names of the files begin with.
    folder : path, optional
        ``validate/reference`` if not given, where the index says which files there are; of another folder,
        those that are there.

    Returns
    -------
    dict from str to xarray.Dataset

    Raises
    ------
    ValueError
        If there are none.
    """
    if folder:
        paths = {path.stem: path for path in Path(folder).glob("*.nc")} if os.path.isdir(folder) else {}
        by_number = sorted(paths, key=lambda name: [int(x) if x.isdigit() else x for x in _PARTS(name)])
        wanted = [name for name in by_number if name.startswith(tuple(names))]
        found = {f"{name}.nc": read_dataset(paths[name]) for name in wanted}
    else:
        wanted = [name for name in read_index() if name.startswith(tuple(names))]
        found = {f"{name}.nc": read_reference(f"{name}.nc") for name in wanted}
    if not found:
        rule = f"a folder with a file of a run, such as {names[0]}*.nc"
        raise ValueError(f"`folder` must be {rule}; got {named(folder or REFERENCE)}.")
    return found


@as_annotated
def stored_facts(files: str, facts: Sequence[Mapping[Any, Any]]) -> dict[str, str]:
    """Return what is said of stored files, from the attributes of each: when and on what they were made.

    Examples
    --------
    >>> stored_facts("a*.nc", [{"made": "2026-11-22"}, {"made": "2026-11-20"}])["stored_date"]
    '2026-11-20 to 2026-11-22'
    """
    days = [str(one.get("finished", one.get("made", "date unknown")))[:10] for one in facts]
    devices = sorted({str(one.get("device_name", "cpu")) for one in facts})
    return {
        "stored_file": files,
        "stored_date": " to ".join(dict.fromkeys((min(days), max(days)))),
        "stored_device": ", ".join(devices),
    }
