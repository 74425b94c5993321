"""Runs selected by name or pattern, and written to files in a folder."""

import fnmatch
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import choice, flag, integer
from ..reference import files, read
from ..training.engine import PRECISIONS
from . import execute, registry
from .cache import DataTask, ResultCache, concat_pieces, plan_tasks
from .declarations import Run
from .provenance import full_settings, git_commit, library_versions
from .tasks import run_tasks

__all__ = ["expected_seconds", "make_runs", "select_runs"]


@as_annotated
def select_runs(patterns: Collection[str]) -> list[Run]:
    """Return the runs whose names, or those of their stored files, fit a pattern; all if there is none.

    Each pattern has to fit one.

    Examples
    --------
    >>> [run.name for run in select_runs(["rug.curves", "codes_n*_r0.5"])][:2]
    ['rug.curves', 'training.codes_n512_fresh_p0.05_r0.5']
    """
    known = registry.list_runs()
    selected: dict[str, Run] = {}
    for pattern in patterns:
        fitting = {
            name: run
            for name, run in known.items()
            if fnmatch.fnmatchcase(name, pattern) or (run.stored and fnmatch.fnmatchcase(run.file, pattern))
        }
        selected |= fitting or {pattern: registry.find_run(pattern)}  # its error says what is near
    return list((selected if patterns else known).values())


@as_annotated
def expected_seconds(run: Run) -> float:
    """Return the seconds that the stored run took on its machine, or those that are declared.

    Nan of a training run that is not stored, as its cost depends on sizes and device.

    Examples
    --------
    >>> round(expected_seconds(select_runs(["rug_n8192_p0.05_r0.25"])[0]))  # on a GPU
    203
    """
    if run.stored in read.checksums() and run.name in (facts := read.facts(run.stored)):
        return float(facts[run.name]["wall_seconds"])
    declared = float("nan") if run.name.startswith("training.") else run.seconds
    return declared * (1 if run.stored else len(run.piece_settings("quick", 0)))


@as_annotated
def make_runs(
    names: Collection[str],
    *,
    out: str | Path,
    profile: str = "quick",
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    jobs: int = 1,
    device: str = "auto",
    precision: str = "float32",
    captured: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Make runs, stored ones too, and return the file of each; existing files are kept.

    Pieces that are finished are in the folder ``data`` of `out`: after an interruption the same call goes on
    from there. Files that are there with other settings are refused before anything is run.

    Parameters
    ----------
    names : collection of str
        Of runs, or of their files.
    out : path
        Folder, which is made.
    profile, seed
        As in `ResultCache`.
    overrides : mapping from str to object, optional
        Settings in place of those of the runs.
    jobs : int, optional
        Processes of one thread each, among which pieces are spread; with one, all is done in this process.
    device, precision, captured
        As in `training.train`, for runs that have them.
    progress : callable, optional
        Called with a line of text before each run: what it is, and how long it takes.
    """
    device = choice("device", device, ("auto", "cpu", "cuda"))
    remake_with = {"device": device, "captured": flag("captured", captured)}
    choice("precision", precision, tuple(PRECISIONS))
    integer("jobs", jobs, 1)
    chosen = list({run.name: run for run in map(registry.find_run, names)}.values())
    changes = {run.name: _overrides_of(run, precision, overrides or {}) for run in chosen}
    folder = output_folder(out)
    results = ResultCache(folder, profile, seed, changes, remake_with)
    paths: list[Path] = []
    works: list[DataTask] = []
    settings = {run.name: _checked_settings(run, results, changes[run.name]) for run in chosen}
    for run in chosen:
        paths.append(output_file(folder / f"{run.file if run.stored else run.name}.nc", "out"))
        _refuse_other_settings(paths[-1], run, settings[run.name])
    with exclusive_folder(folder):
        for run, path in zip(chosen, paths, strict=True):
            if path.exists():
                progress(f"{run.name}: there already")
                continue
            seconds = expected_seconds(run)
            if not changes[run.name] and seconds > 0:  # nothing is known of runs with other settings
                progress(f"{run.name}: {seconds / 3600:.3g} hours to expect")
            # Before the run: what is edited meanwhile is not what made the file.
            facts = {"commit": git_commit(), "libraries": json.dumps(library_versions())}
            facts["settings"] = settings[run.name]
            works.append(DataTask(run.name, _write_run, [run.name], (run.name, path, facts)))
        tasks = plan_tasks(results, works)
        is_long = len(tasks) > 2  # more than a piece and its file
        run_tasks(
            tasks, jobs, lambda task, _, s: f"{task.name}: {s:.1f} s" if is_long else None, progress=progress
        )
    return paths


def _overrides_of(run: Run, precision: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that are not those which are declared."""
    execute.check_parameters(run.function, "set", overrides)
    if precision != "float32" and "precision" in inspect.signature(run.function).parameters:
        return {"precision": precision, **overrides}
    return dict(overrides)


def _checked_settings(run: Run, results: ResultCache, overrides: Mapping[str, Any]) -> str:
    """Return all settings of a run as its file has them, as JSON."""
    for piece in results.piece_settings(run.name):
        execute.check_settings(run.function, piece)
    if overrides and not isinstance(run.split_by, str):  # with other settings it is one piece
        run = replace(run, split_by=())
    return json.dumps(full_settings(run, run.settings(results.profile, results.seed, overrides)), sort_keys=True)


def _refuse_other_settings(path: Path, run: Run, settings: str) -> None:
    if path.exists():
        attrs = read_dataset(path).attrs
        if (attrs.get("experiment"), attrs.get("settings")) != (run.experiment, settings):
            rule = f"a folder whose {path.name}, if there is one, has the same settings"
            raise ValueError(f"`out` must be {rule}; got {quoted_path(path.parent)}.")
    refuse_same_file(path, json.loads(settings))


def _write_run(results: ResultCache, name: str, path: Path, facts: Mapping[str, str]) -> None:
    """Write the pieces of a run as one dataset."""
    pieces = results.load_pieces(name)
    ds = concat_pieces(pieces, registry.find_run(name).concat_dim)
    seconds = sum(float(piece.attrs["wall_seconds"]) for piece in pieces)
    machine = f"{ds.attrs['machine']}, {ds.attrs.get('device_name', 'cpu')}"
    ds = ds.assign_attrs(made=pieces[-1].attrs["made"], wall_seconds=seconds, machine=machine)
    write_dataset(path, ds.assign_attrs(run=name, **facts))
