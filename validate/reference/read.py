"""Stored measurements: reading of the datasets of ``validate/reference``, with their checksums."""

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
from .files import digest, error_text, quoted_path, read_dataset
from .run_datasets import extract_run, read_facts

__all__ = ["REFERENCE", "SUMS", "checksums", "facts", "load", "read", "read_runs", "stored_facts"]

REFERENCE = Path(__file__).parent
SUMS = "SHA256SUMS"  # in that folder; `sha256sum --check` reads it


def checksums() -> dict[str, str]:
    """Return the checksum of each dataset by its name, from ``validate/reference/SHA256SUMS``.

    A damaged file of checksums, or one that lacks a dataset of the folder, raises a ValueError.
    """
    path = REFERENCE / SUMS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        matches = [re.fullmatch(r"([0-9a-f]{64})  ([\w-]{1,100})\.nc", line) for line in lines]
    except (OSError, ValueError) as error:
        raise ValueError(
            f"`{SUMS}` must be a file of checksums; got {quoted_path(path)} ({error_text(error)})."
        ) from error
    if not matches or None in matches:
        raise ValueError(f"`{SUMS}` must have a checksum and NAME.nc in each line; got {quoted_path(path)}.")
    sums = {match[2]: match[1] for match in matches if match}
    if missing := sorted({file.stem for file in REFERENCE.glob("*.nc")} - set(sums)):
        raise ValueError(f"`{SUMS}` must have a checksum of each dataset; got none of {missing[0]}.nc.")
    return sums


@as_annotated
def load(dataset: str) -> xr.Dataset:
    """Return a dataset of ``validate/reference`` with all of its runs.

    Several runs are combined along the dimension ``model``, a row for each model (see `run_datasets`). An
    unknown name, or a file with another checksum, raises a ValueError.
    """
    return _read_verified(dataset, _checksum_of(dataset))[0].copy(deep=True)


def _checksum_of(dataset: str) -> str:
    """Return the checksum of a dataset; ValueError for an unknown name."""
    sums = checksums()
    if dataset not in sums:
        raise ValueError(f"`dataset` must be one of {', '.join(sums)}; got {short_repr(dataset)}.")
    return sums[dataset]


def _read_verified(dataset: str, checksum: str) -> tuple[xr.Dataset, dict[str, dict[str, Any]]]:
    """Return (dataset, provenance by run) of a stored dataset; ValueError if its file is missing or changed.

    Provenance is a dict: experiment, settings, commit, made, machine, libraries and wall_seconds. `checksum`,
    a SHA-256, is the one that the file must have.
    """
    path = REFERENCE / f"{dataset}.nc"
    if not path.is_file():
        raise ValueError(f"`{path.name}` must be the file of {SUMS}; got none.")
    status = path.stat()
    return _open_verified(path, checksum, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=20)
def _open_verified(path: Path, checksum: str, *_: int) -> tuple[xr.Dataset, dict[str, dict[str, Any]]]:
    """Return (dataset, provenance by run) of a file; ValueError if its checksum differs.

    Provenance is a dict: experiment, settings, commit, made, machine, libraries and wall_seconds. Further
    arguments are the file's time and size, with which the result is cached.
    """
    if digest(path) != checksum:
        raise ValueError(f"`{path.name}` must be the file of {SUMS}, unchanged; got another.")
    ds = read_dataset(path)
    return ds, read_facts(ds)


@as_annotated
def facts(dataset: str) -> dict[str, dict[str, Any]]:
    """Return the provenance of each run of a dataset by name: a dict with the keys `run_datasets.FACTS`.

    The keys are experiment, settings, commit, made, machine, libraries and wall_seconds.

    >>> facts("codes_lines")["codes.lines"]["settings"]["lowest"]
    1e-06
    """
    return copy.deepcopy(_read_verified(dataset, _checksum_of(dataset))[1])


@as_annotated
def read_runs(dataset: str, *, folder: str | Path = "", **where: Any) -> dict[str, xr.Dataset]:
    """Return runs of a dataset by name, each as its function returned it.

    With a `folder`, files of ``superposition run`` are read in place of the dataset. Conditions `where` are
    on ``run`` (its name), ``experiment``, or settings: a value, a list of values, or a predicate.

    >>> runs = read_runs("training", schedule="converged", steps=16_000, n_features=[4096, 8192])
    >>> list(runs)[0], runs["training.later_n4096_p0.05_r0.12"]["seed"].values.tolist()
    ('training.later_n4096_p0.05_r0.12', [5, 6, 7, 8, 9])
    """
    if folder:
        paths = sorted(Path(folder).glob("*.nc")) if os.path.isdir(folder) else []
        sources = [(ds := read_dataset(path), read_facts(ds), path.name) for path in paths]
    else:
        sources = [(*_read_verified(dataset, _checksum_of(dataset)), f"{dataset}.nc")]
    selected = {}
    for ds, facts_of, file in sources:
        for name, facts in facts_of.items():
            known = {**facts["settings"], "run": name, "experiment": facts["experiment"]}
            if all(_matches(known.get(key), value) for key, value in where.items()):
                run = extract_run(ds, name)
                selected[name] = run.assign_attrs(stored_facts(file, [run.attrs]))
    if not selected:
        conditions = ", ".join(f"{key}={short_repr(value)}" for key, value in where.items())
        if folder:
            rule = f"a folder with files of `superposition run` ({conditions})"
            raise ValueError(f"`folder` must be {rule}; got {quoted_path(folder)}.")
        raise ValueError(f"`where` must fit a run of {dataset}; got {conditions}.")
    return selected


def _matches(value: Any, wanted: Any) -> bool:
    """Return whether a value fulfils the condition `wanted`: a predicate, a list of values, or a value."""
    if callable(wanted):
        return bool(wanted(value))
    return value in wanted if isinstance(wanted, list | tuple) else bool(value == wanted)


@as_annotated
def read(dataset: str, **where: Any) -> xr.Dataset:
    """Return the only run of a dataset that fulfils conditions, as its function returned it.

    Conditions `where` are on ``run`` (its name), ``experiment`` or settings, as in `read_runs`. The result's
    attributes are the run's provenance, and ``stored_file``, ``stored_date`` and ``stored_device``.

    >>> read("unequal_width", run="unequal.often")["alpha"].values.tolist()
    [0.0, 0.25, 0.5]
    """
    runs = read_runs(dataset, **where)
    if len(runs) > 1:
        raise ValueError(f"`where` must fit one run of {dataset}; got {', '.join(runs)}.")
    return next(iter(runs.values()))


@as_annotated
def stored_facts(files: str, facts: Sequence[Mapping[Any, Any]]) -> dict[str, str]:
    """Return the attributes stored_file, stored_date and stored_device of stored datasets, by name.

    `files` is a text that names their files, `facts` are the attributes of each dataset.

    >>> stored_facts("a.nc", [{"made": "2026-11-22"}, {"made": "2026-11-20"}])["stored_date"]
    '2026-11-20 to 2026-11-22'
    """
    days = [str(attrs.get("finished", attrs.get("made", "")))[:10] or "date unknown" for attrs in facts]
    devices = sorted({str(attrs.get("device_name", "cpu")) for attrs in facts})
    return {
        "stored_file": files,
        "stored_date": " to ".join(dict.fromkeys((min(days), max(days)))),
        "stored_device": ", ".join(devices),
    }
