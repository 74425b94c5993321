"""Runs by name: what each costs, and how it is made into a file of a folder."""

import fnmatch
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import choice, flag, integer
from ..reference import read
from ..reference.files import (
    exclusive_folder,
    output_file,
    output_folder,
    quoted_path,
    read_dataset,
    refuse_same_file,
    write_dataset,
)
from ..training.engine import PRECISIONS
from . import execute, registry
from .cache import ResultCache, concat_pieces, plan_tasks
from .declarations import Run
from .provenance import full_settings, git_commit, library_versions
from .tasks import run_tasks

__all__ = ["expected_seconds", "make_runs", "select_runs"]


@as_annotated
def select_runs(patterns: Collection[str]) -> list[Run]:
    """Return the runs whose names, or those of their files, fit a pattern; all, if there is none.

    Each pattern has to fit one.

    Examples
    --------
    >>> [run.name for run in select_runs(["rug.curves", "codes_n*_r0.5"])][:2]
    ['rug.curves', 'training.codes_n512_fresh_p0.05_r0.5']
    """
    known = registry.list_runs()
    found: dict[str, Run] = {}
    for pattern in patterns:
        names = ((run, (name, run.file if run.stored else name)) for name, run in known.items())
        fits = {run.name: run for run, own in names if any(fnmatch.fnmatchcase(x, pattern) for x in own)}
        found |= fits or {pattern: registry.find_run(pattern)}  # which says what is near
    return list((found if patterns else known).values())


@as_annotated
def expected_seconds(run: Run) -> float:
    """Return the seconds to expect: what the stored run took on its machine, or those that are declared.

    Nan of a training run that is not stored, as its cost depends on sizes and device.

    Examples
    --------
    >>> round(expected_seconds(select_runs(["rug_n8192_p0.05_r0.25"])[0]))  # on a GPU
    203
    """
    if run.stored in read.checksums() and run.name in (made := read.facts(run.stored)):
        return float(made[run.name]["wall_seconds"])
    declared = float("nan") if run.name.startswith("training.") else run.seconds
    return declared * (1 if run.stored else len(run.piece_settings("quick", 0)))


@as_annotated
def make_runs(
    names: Collection[str],
    *,
    out: str | Path,
    profile: str = "quick",
    seed: int = 0,
    changed: Mapping[str, Any] | None = None,
    jobs: int = 1,
    device: str = "auto",
    precision: str = "float32",
    captured: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Make runs, stored ones anew, and write a file for each; existing files are kept.

    What is finished of a run is kept in the folder ``data`` of `out`: the same call goes on from there after
    an interruption.

    Parameters
    ----------
    names : collection of str
        Of runs, or of their files.
    out : path
        Folder, which is made.
    profile, seed
        As in `ResultCache`.
    changed : mapping from str to object, optional
        Settings in place of those of the runs.
    jobs : int, optional
        Processes of one thread each, among which pieces are spread; with one, all is done in this process.
    device, precision, captured
        As in `training.train`, for runs that have them.
    tell : callable, optional
        Called with a line of text before each run: what it is, and how long it takes.

    Returns
    -------
    list of Path
        The file of each run.

    Raises
    ------
    ValueError
        If an argument is out of range, or a file is there with other settings: before anything is run.
    """
    how = {
        "device": choice("device", device, ("auto", "cpu", "cuda")),
        "captured": flag("captured", captured),
    }
    choice("precision", precision, tuple(PRECISIONS))
    integer("jobs", jobs, 1)
    chosen = list({run.name: run for run in map(registry.find_run, names)}.values())
    asked = {run.name: one for run in chosen if (one := _requested_settings(run, precision, changed or {}))}
    folder = output_folder(out)
    results = ResultCache(folder, profile, seed, asked, how)
    paths = {run.name: _place(folder, run, results) for run in chosen}
    with exclusive_folder(folder):
        works = []
        for run in chosen:
            path, said = paths[run.name]
            if path.exists():
                tell(f"{run.name}: there already")
                continue
            if run.name not in asked and expected_seconds(run) > 0:  # nothing is known of trials
                tell(f"{run.name}: {expected_seconds(run) / 3600:.3g} hours to expect")
            # Before the run: what is edited meanwhile is not what made the file.
            facts = {"commit": git_commit(), "libraries": json.dumps(library_versions()), "settings": said}
            works.append((run.name, _write, [run.name], (run.name, path, facts)))
        todo = plan_tasks(results, works)
        many = len(todo) > 2  # a piece and its file
        run_tasks(todo, jobs, lambda task, _, s: f"{task.name}: {s:.1f} s" if many else None, tell=tell)
    return [path for path, _ in paths.values()]


def _requested_settings(run: Run, precision: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that are not those which are declared."""
    execute.check_parameters(run.function, "set", changed)
    known = inspect.signature(run.function).parameters
    exact = {"precision": precision} if "precision" in known and precision != "float32" else {}
    return {**exact, **changed}


def _write(results: ResultCache, name: str, path: Path, facts: Mapping[str, str]) -> None:
    """Put the pieces of a run side by side in its file."""
    made = results.load_pieces(name)
    ds = concat_pieces(made, registry.find_run(name).concat_dim)
    seconds = sum(float(one.attrs["wall_seconds"]) for one in made)
    machine = f"{ds.attrs['machine']}, {ds.attrs.get('device_name', 'cpu')}"
    ds = ds.assign_attrs(made=made[-1].attrs["made"], wall_seconds=seconds, machine=machine)
    write_dataset(path, ds.assign_attrs(run=name, **facts))


def _place(folder: Path, run: Run, results: ResultCache) -> tuple[Path, str]:
    """Return the file of a run, and its settings as the file tells them, as JSON."""
    given = results.settings(run.name)
    for piece in results.piece_settings(run.name):
        execute.check_settings(run.function, piece)
    if results.is_changed(run.name) and not isinstance(run.split_by, str):  # a trial is one piece
        run = replace(run, split_by=())
    path = output_file(folder / f"{run.file if run.stored else run.name}.nc", "out")
    said = json.dumps(full_settings(run, given), sort_keys=True)
    if path.exists():
        found = read_dataset(path).attrs
        if (found.get("experiment"), found.get("settings")) != (run.experiment, said):
            rule = f"a folder whose {path.name}, if there is one, has the same settings"
            raise ValueError(f"`out` must be {rule}; got {quoted_path(folder)}.")
    refuse_same_file(path, given)
    return path, said
