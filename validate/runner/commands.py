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
from .tasks import format_duration, run_tasks

__all__ = ["expected_seconds", "make_runs", "select_runs"]


@as_annotated
def select_runs(patterns: Collection[str]) -> list[Run]:
    """Return the runs whose names, or names of stored files, match a pattern; all without patterns.

    A pattern that matches no run raises a ValueError.

    >>> [run.name for run in select_runs(["rug.curves", "codes_n*_r0.5"])][:2]
    ['rug.curves', 'training.codes_n512_fresh_p0.05_r0.5']
    """
    known = registry.list_runs()
    selected: dict[str, Run] = {}
    for pattern in patterns:
        fitting = {
            name: run
            for name, run in known.items()
            if fnmatch.fnmatchcase(name, pattern) or (run.dataset and fnmatch.fnmatchcase(run.file, pattern))
        }
        selected |= fitting or {pattern: registry.find_run(pattern)}  # its error says what is near
    return list((selected if patterns else known).values())


@as_annotated
def expected_seconds(run: Run) -> float:
    """Return the seconds that a stored run took, or else the run's declared seconds.

    Nan for a training run that is not stored, as its cost depends on sizes and device.
    """
    if run.dataset in read.checksums() and run.name in (facts := read.facts(run.dataset)):
        return float(facts[run.name]["wall_seconds"])
    declared = float("nan") if run.name.startswith("training.") else run.seconds
    return declared * (1 if run.dataset else len(run.piece_settings("quick", 0)))


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
    cuda_graph: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Execute runs, stored ones too, and return the file of each; existing files are kept.

    Finished pieces are in the folder ``data`` of `out`: after an interruption the same call continues from
    there. Existing files with other settings are refused before anything is run.

    Parameters
    ----------
    names : collection of str
        Names of runs, or of their files.
    out : path
        Folder for the files, which is created.
    profile : {"quick", "full"}, optional
        Which of a run's settings to use, except those in `overrides`: for minutes, or for hours.
    seed : int, optional
        Seed of runs without a seed.
    overrides : mapping from str to object, optional
        Settings in place of those of the runs.
    jobs : int, optional
        Processes of one thread each, which share the pieces; with one, all is done in this process.
    device : {"auto", "cpu", "cuda"}, optional
        Device of training; auto is CUDA if there is one.
    precision : {"float32", "tf32", "bf16"}, optional
        Precision of the factors of products in training.
    cuda_graph : bool, optional
        Repeat a step of training as one CUDA graph.
    progress : callable, optional
        Called with a line of text before each run: its purpose and expected time.
    """
    device = choice("device", device, ("auto", "cpu", "cuda"))
    remake_with = {"device": device, "cuda_graph": flag("cuda_graph", cuda_graph)}
    choice("precision", precision, tuple(PRECISIONS))
    integer("jobs", jobs, 1)
    chosen = list({run.name: run for run in map(registry.find_run, names)}.values())
    changes = {run.name: _overrides_of(run, precision, overrides or {}) for run in chosen}
    folder = files.output_folder(out)
    results = ResultCache(folder, profile, seed, changes, remake_with)
    paths: list[Path] = []
    works: list[DataTask] = []
    settings = {run.name: _checked_settings(run, results, changes[run.name]) for run in chosen}
    for run in chosen:
        paths.append(files.output_file(folder / f"{run.file if run.dataset else run.name}.nc", "out"))
        _refuse_other_settings(paths[-1], run, settings[run.name])
        files.refuse_same_file(paths[-1], run.settings(profile, seed, changes[run.name]))
    with files.exclusive_folder(folder):
        for run, path in zip(chosen, paths, strict=True):
            if path.exists():
                progress(f"{run.name}: there already, not made anew: name another `out`, or remove {path}")
                continue
            seconds = expected_seconds(run)
            if not changes[run.name] and seconds > 0:  # nothing is known of runs with other settings
                progress(f"{run.name}: {format_duration(seconds)} to expect")
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
    """Return the settings that replace a run's: `overrides`, and the precision if it is not float32."""
    execute.check_parameters(run.function, "set", overrides)
    if precision != "float32" and "precision" in inspect.signature(run.function).parameters:
        return {"precision": precision, **overrides}
    return dict(overrides)


def _checked_settings(run: Run, results: ResultCache, overrides: Mapping[str, Any]) -> str:
    """Return all settings of a run as the JSON for its file, defaults included; ValueError if one is bad.

    The settings are those at the profile and seed of `results`, some replaced by `overrides`.
    """
    for piece in results.piece_settings(run.name):
        execute.check_settings(run.function, piece)
    if overrides and not isinstance(run.split_by, str):  # with other settings it is one piece
        run = replace(run, split_by=())
    settings = run.settings(results.profile, results.seed, overrides)
    return json.dumps(full_settings(run, settings), sort_keys=True)


def _refuse_other_settings(path: Path, run: Run, settings: str) -> None:
    """Raise ValueError if the file `path` exists and is of another run or other settings, a JSON text."""
    if path.exists():
        attrs = files.read_dataset(path).attrs
        if (attrs.get("experiment"), attrs.get("settings")) != (run.experiment, settings):
            rule = f"a folder whose {path.name}, if there is one, has the same settings"
            raise ValueError(f"`out` must be {rule}; got {files.quoted_path(path.parent)}.")


def _write_run(results: ResultCache, name: str, path: Path, facts: Mapping[str, str]) -> None:
    """Write the run `name` to `path` as one dataset, with `facts` among its attributes.

    The dataset is joined from pieces, parts that are computed separately; `results` has these, or runs them.
    """
    pieces = results.load_pieces(name)
    ds = concat_pieces(pieces, registry.find_run(name).concat_dim)
    seconds = sum(float(piece.attrs["wall_seconds"]) for piece in pieces)
    machine = f"{ds.attrs['machine']}, {ds.attrs.get('device_name', 'cpu')}"
    ds = ds.assign_attrs(made=pieces[-1].attrs["made"], wall_seconds=seconds, machine=machine)
    files.write_dataset(path, ds.assign_attrs(run=name, **facts))
