"""Reference data: what each run of `planned.JOBS` costs, and how it is made."""

import fnmatch
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xarray as xr

from ..theory.arguments import choice, flag, number
from . import experiments
from .annotations import as_annotated
from .files import (
    another_file,
    claim,
    named,
    output_file,
    output_folder,
    read_dataset,
    recorded,
    remove,
    write_dataset,
)
from .index import commit, libraries, told
from .planned import JOBS, TRAINED, Job
from .stamps import stamp
from .stored import read_index
from .training import grid, measure
from .training.engine import PRECISIONS, choose_device, load_torch
from .training.speed import flops

__all__ = ["cost", "make", "measured_rate", "select", "stored_rate"]

CHECKPOINT = ".checkpoint.npz"


@as_annotated
def select(patterns: Collection[str]) -> list[Job]:
    """Return the jobs whose names fit one of the patterns, such as ``rug_n8192*``; all if there are none.

    Each pattern has to fit one.

    Examples
    --------
    >>> [job.name for job in select(["rug_n128", "codes_n*_r0.5"])]
    ['rug_n128', 'codes_n512_fresh_p0.05_r0.5', 'codes_n512_fresh_p0.1_r0.5']
    """
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(job.name, pattern) for job in JOBS):
            raise ValueError(f"`names` must fit a job, such as {JOBS[0].name}; got {pattern!r}.")
    return [job for job in JOBS if not patterns or any(fnmatch.fnmatchcase(job.name, p) for p in patterns)]


@as_annotated
def cost(job: Job, rate: float) -> float:
    """Seconds to expect, at a rate of operations a second in training; nan if nothing is known.

    For a grid of models the cost follows from their sizes and steps, evaluation included. For others it is
    what the file in ``validate/reference`` took, on one core of a CPU, whatever the rate.

    Examples
    --------
    >>> round(cost(select(["rug_n8192_p0.05_r0.25"])[0], 1e14))
    199
    """
    given = job.settings
    if job.experiment != TRAINED:
        return float(read_index().get(job.name, {}).get("seconds", job.seconds))
    n = given["n_features"]
    steps = given["steps"]
    if given.get("schedule", "both") == "both":
        # Up to the stopping rule: 3700, 4414, 5948 on average for stored runs of 128, 256 and 512 features.
        steps += 6000.0 * (n / 512) ** 0.4
    # Two ends are evaluated by two of the five products of a step.
    steps += 2 * 0.4 * (given["evaluation_samples"] or 0) / 1024
    hidden, _, _ = grid(n, given["p"], given["ratio"], given["seeds"])
    return float(sum(flops(n, int(m)) for m in hidden) * steps / number("rate", rate, 1e-9))


def stored_rate() -> float:
    """Return operations a second in the training of stored runs, each on a core or two of a CPU.

    Examples
    --------
    >>> 1e9 < stored_rate() < 1e12
    True
    """
    index = read_index()
    made = [job for job in JOBS if job.experiment == TRAINED and job.name in index]
    return sum(cost(job, 1.0) for job in made) / sum(float(index[job.name]["seconds"]) for job in made)


@as_annotated
def measured_rate(device: str = "auto", precision: str = "float32", captured: bool = False) -> float:
    """Operations a second in the products of training, measured in a few seconds; on a CPU of one core."""
    large = choose_device(load_torch(), device).type == "cuda"
    sizes: dict[str, Any] = {"n_features": 4096, "steps": 50} if large else {"n_features": 512, "steps": 4}
    found = measure(**sizes, precision=precision, captured=captured, device=device)
    return float(found["rate"])


@as_annotated
def make(
    chosen: Collection[Job],
    *,
    out: str | Path,
    changed: Mapping[str, Any] | None = None,
    rate: float | None = None,
    device: str = "auto",
    precision: str = "float32",
    captured: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Run jobs one after another, and write the file of each; existing files are kept.

    Parameters
    ----------
    chosen : collection of Job
    out : path
        Folder, which is made.
    changed : mapping from str to object, optional
        Settings in place of those of the jobs, to try them at a small size.
    rate : float, optional
        Operations a second of training, for the costs that are told; measured if not given.
    device, precision, captured
        As in `training.train`, for jobs that have them. Training goes on from ``NAME.checkpoint.npz`` if it
        was interrupted.
    tell : callable, optional
        Called with a line of text before each job: what it is, and what it costs.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If an argument is out of range, or a file is there with other settings: before anything is run.
    """
    asked: dict[str, Any] = {
        "device": choice("device", device, ("auto", "cpu", "cuda")),
        "precision": choice("precision", precision, tuple(PRECISIONS)),
        "captured": flag("captured", captured),
    }
    if rate is not None:
        number("rate", rate, 0, brackets="()")
    if changed:  # a trial is one run
        chosen = [replace(job, parts=(), along=()) for job in chosen]
    folder, written = output_folder(out), []
    claim(folder)
    plans = [(job, *_planned(job, folder, changed or {}, asked)) for job in chosen]
    for job, path, given, said in plans:
        if path.exists():
            tell(f"{job.name}: there already")
            continue
        if not changed:  # what a trial costs is not worth finding out
            if rate is None and job.experiment == TRAINED:
                tell("measuring how fast this machine trains")
                rate = measured_rate(**asked)
            tell(f"{job.name}: {cost(job, rate or 1.0) / 3600:.3g} hours to expect")
        # Both before the run: what is edited meanwhile is not what made the file.
        facts = {"commit": commit(), "code": stamp(job.experiment), "libraries": json.dumps(libraries())}
        with recorded(folder):
            ds = _joined(job, job.parts, job.along, given)
            write_dataset(path, ds.assign_attrs(job=job.name, settings=said, **facts))
        remove(folder, [path.with_suffix(CHECKPOINT)])
        written.append(path)
    return written


def _joined(job: Job, parts: Sequence[Any], along: Sequence[str], given: dict[str, Any]) -> xr.Dataset:
    """Run the parts of a job, or all of it if it has none, and put them side by side."""
    if not along:
        return experiments.run(job.experiment, given | (dict(parts) if isinstance(parts, Mapping) else {}))
    made = [_joined(job, one, along[1:], given) for one in parts]
    how: dict[str, Any] = {"data_vars": "minimal", "coords": "different", "compat": "equals"}
    ds = xr.concat(made, along[0], combine_attrs="drop_conflicts", **how)
    seconds = sum(float(one.attrs["wall_seconds"]) for one in made)
    return ds.assign_attrs(made=made[-1].attrs["made"], wall_seconds=seconds)


def _planned(
    job: Job, folder: Path, changed: Mapping[str, Any], asked: Mapping[str, Any]
) -> tuple[Path, dict[str, Any], str]:
    """Return the file of a job, all arguments of its experiment, and those that the file tells, as JSON."""
    known = inspect.signature(experiments.experiments()[job.experiment]).parameters
    for name in changed:
        choice("set", name, tuple(known))
    path = output_file(folder / f"{job.name}.nc", "out")
    given = {**job.settings, **changed}
    if "precision" in known and asked["precision"] != "float32":
        given["precision"] = asked["precision"]
    said = told(job, given)
    if path.exists():
        found = read_dataset(path).attrs
        if (found.get("experiment"), found.get("settings")) != (job.experiment, said):
            rule = f"a folder whose {path.name}, if there is one, has the same settings"
            raise ValueError(f"`out` must be {rule}; got {named(folder)}.")
    how = {**asked, "checkpoint": str(path.with_suffix(CHECKPOINT))}
    given = {**{key: value for key, value in how.items() if key in known}, **given}
    another_file(path, given)
    return path, given, said
