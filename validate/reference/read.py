"""Stored measurements: the datasets of ``validate/reference``, each read with its checksum."""

import copy
import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from ...theory.annotations import as_annotated
from ...theory.validation import short_repr
from . import rows
from .files import digest, error_text, quoted_path, read_dataset

__all__ = ["REFERENCE", "SUMS", "checksums", "facts", "load", "read", "read_runs", "stored_facts"]

REFERENCE = Path(__file__).parent
SUMS = "SHA256SUMS"  # in that folder; `sha256sum --check` reads it


def checksums() -> dict[str, str]:
    """Return the checksum of each dataset by its name, from ``validate/reference/SHA256SUMS``.

    Raises
    ------
    ValueError
        If that file is missing or damaged, or has no checksum of a dataset that is there.
    """
    path = REFERENCE / SUMS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        found = [re.fullmatch(r"([0-9a-f]{64})  ([\w-]{1,100})\.nc", line) for line in lines]
    except (OSError, ValueError) as error:
        raise ValueError(
            f"`{SUMS}` must be a file of checksums; got {quoted_path(path)} ({error_text(error)})."
        ) from error
    if not found or None in found:
        raise ValueError(f"`{SUMS}` must have a checksum and NAME.nc in each line; got {quoted_path(path)}.")
    sums = {one[2]: one[1] for one in found if one}
    if missing := sorted({file.stem for file in REFERENCE.glob("*.nc")} - set(sums)):
        raise ValueError(f"`{SUMS}` must have a checksum of each dataset; got none of {missing[0]}.nc.")
    return sums


@as_annotated
def load(dataset: str) -> xr.Dataset:
    """Return a whole dataset of ``validate/reference``, all of its runs together, see `tidy`.

    Raises
    ------
    ValueError
        If there is none of that name, or its file is missing, or is another one than its checksum says.
    """
    return _verified(dataset, _check_dataset_name(dataset))[0].copy(deep=True)


def _check_dataset_name(dataset: str) -> str:
    sums = checksums()
    if dataset not in sums:
        raise ValueError(f"`dataset` must be one of {', '.join(sums)}; got {short_repr(dataset)}.")
    return sums[dataset]


def _verified(dataset: str, checksum: str) -> tuple[xr.Dataset, dict[str, dict[str, Any]]]:
    """Return a dataset and how its runs were made, if its file is the one with this checksum."""
    path = REFERENCE / f"{dataset}.nc"
    if not path.is_file():
        raise ValueError(f"`{path.name}` must be the file of {SUMS}; got none.")
    at = path.stat()
    return _open_verified(path, checksum, at.st_mtime_ns, at.st_size)


@functools.lru_cache(maxsize=20)
def _open_verified(path: Path, checksum: str, *_: int) -> tuple[xr.Dataset, dict[str, dict[str, Any]]]:
    """As `_verified`; a file is read once as long as its time and size stay."""
    if digest(path) != checksum:
        raise ValueError(f"`{path.name}` must be the file of {SUMS}, unchanged; got another.")
    ds = read_dataset(path)
    return ds, rows.read_facts(ds)


@as_annotated
def facts(dataset: str) -> dict[str, dict[str, Any]]:
    """Return how each run of a dataset was made: `tidy.FACTS` by its name.

    Examples
    --------
    >>> facts("codes_lines")["codes.lines"]["settings"]["lowest"]
    1e-06
    """
    return copy.deepcopy(_verified(dataset, _check_dataset_name(dataset))[1])


@as_annotated
def read_runs(dataset: str, *, folder: str | Path = "", **where: Any) -> dict[str, xr.Dataset]:
    """Return runs of a dataset, each as its experiment returned it, by their names.

    Parameters
    ----------
    dataset : str
        Such as ``"training"``; ``validate/reference/README.md`` lists them.
    folder : path, optional
        Read files that ``superposition run`` made there in its place.
    **where : optional
        What has to be true of a run: ``run``, its name, ``experiment``, or settings. A value, a list of which
        one has to be, or a function that says.

    Raises
    ------
    ValueError
        If there are none, or a file is missing or damaged.

    Examples
    --------
    >>> found = read_runs("training", schedule="converged", steps=16_000, n_features=[4096, 8192])
    >>> list(found)[0], found["training.later_n4096_p0.05_r0.12"]["seed"].values.tolist()
    ('training.later_n4096_p0.05_r0.12', [5, 6, 7, 8, 9])
    """
    if folder:
        paths = sorted(Path(folder).glob("*.nc")) if os.path.isdir(folder) else []
        sources = [(ds := read_dataset(path), rows.read_facts(ds), path.name) for path in paths]
    else:
        sources = [(*_verified(dataset, _check_dataset_name(dataset)), f"{dataset}.nc")]
    found = {}
    for ds, runs, file in sources:
        for name, made in runs.items():
            known = {**made["settings"], "run": name, "experiment": made["experiment"]}
            if all(_fits(known.get(key), value) for key, value in where.items()):
                run = rows.extract_run(ds, name)
                found[name] = run.assign_attrs(stored_facts(file, [run.attrs]))
    if not found:
        asked = ", ".join(f"{key}={short_repr(value)}" for key, value in where.items())
        if folder:
            rule = f"a folder with files of `superposition run` ({asked})"
            raise ValueError(f"`folder` must be {rule}; got {quoted_path(folder)}.")
        raise ValueError(f"`where` must fit a run of {dataset}; got {asked}.")
    return found


def _fits(value: Any, wanted: Any) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    return value in wanted if isinstance(wanted, list | tuple) else bool(value == wanted)


@as_annotated
def read(dataset: str, **where: Any) -> xr.Dataset:
    """Return the run of a dataset that fits, as its experiment returned it.

    The attributes say how it was made; ``stored_file``, ``stored_date`` and ``stored_device`` are added.

    Parameters
    ----------
    dataset, **where
        As for `read_runs`; nothing more is needed where there is one run.

    Raises
    ------
    ValueError
        If not one run fits, or the file is missing or damaged.

    Examples
    --------
    >>> read("unequal_width", run="unequal.often")["alpha"].values.tolist()
    [0.0, 0.25, 0.5]
    """
    found = read_runs(dataset, **where)
    if len(found) > 1:
        raise ValueError(f"`where` must fit one run of {dataset}; got {', '.join(found)}.")
    return next(iter(found.values()))


@as_annotated
def stored_facts(files: str, facts: Sequence[Mapping[Any, Any]]) -> dict[str, str]:
    """Return what is said of stored files, from the attributes of each: when and on what they were made.

    Examples
    --------
    >>> stored_facts("a.nc", [{"made": "2026-11-22"}, {"made": "2026-11-20"}])["stored_date"]
    '2026-11-20 to 2026-11-22'
    """
    days = [str(one.get("finished", one.get("made", "date unknown")))[:10] for one in facts]
    devices = sorted({str(one.get("device_name", "cpu")) for one in facts})
    return {
        "stored_file": files,
        "stored_date": " to ".join(dict.fromkeys((min(days), max(days)))),
        "stored_device": ", ".join(devices),
    }
