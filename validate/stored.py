"""Results that came with the package, because they take longer than a reader waits."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from ..theory.arguments import as_annotated
from .files import digest, named, read_dataset
from .planned import JOBS

__all__ = ["INDEX", "REFERENCE", "read_index", "read_jobs", "read_reference", "stored_facts"]

REFERENCE = Path(__file__).parent / "reference"
INDEX = "index.json"  # in that folder: how each of its files was made, see `index`


def read_index() -> dict[str, dict[str, Any]]:
    """Return what ``validate/reference/index.json`` says of each stored file, by the name of its job.

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
        raise ValueError(f"`name` must be a file of {INDEX}, as JOB.nc; got {named(name)}.")
    if digest(path) != index.get(name.removesuffix(".nc"), {}).get("sha256"):
        rule = f"the file that {INDEX} names, unchanged"
        raise ValueError(f"`{name}` must be {rule}; got {'another' if path.is_file() else 'none'}.")
    ds = read_dataset(path)
    return ds.assign_attrs(stored_facts(name, [ds.attrs]))


@as_annotated
def read_jobs(names: Sequence[str], *, folder: str | Path = "") -> dict[str, xr.Dataset]:
    """Read the files of jobs whose names begin so, in the order of `planned.JOBS`.

    Parameters
    ----------
    names : sequence of str
        What the names of jobs begin with.
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
    index = None if folder else read_index()
    found = {}
    for job in JOBS:
        file = f"{job.name}.nc"
        if not job.name.startswith(tuple(names)):
            continue
        if index is not None and job.name in index:
            found[file] = read_reference(file)
        elif index is None and os.path.isfile(Path(folder) / file):
            found[file] = read_dataset(Path(folder) / file)
    if not found:
        rule = f"a folder with a file of a job, such as {names[0]}*.nc"
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
