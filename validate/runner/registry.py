"""The phenomena, their sections of the report, and all runs by name."""

import copy
import importlib
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ...theory.annotations import as_annotated
from ...theory.validation import choice, short_repr
from .declarations import Run, Section

__all__ = ["PAPERS", "PHENOMENA", "TRAINING", "find_run", "list_runs", "load_section"]

# In the order of the documentation; a folder with a section that is not named comes after these.
_FIRST = (
    "rug", "decoders", "codes", "sparsification", "collisions", "linear", "relu", "noise", "unequal",
    "computation", "sae",
)  # fmt: skip
_EXPERIMENTS = Path(__file__).parents[1] / "experiments"
_NO_PHENOMENA = ("atlas", "papers")
_FOLDERS = sorted(path.parent.name for path in _EXPERIMENTS.glob("*/__init__.py"))
PHENOMENA = (*_FIRST, *(name for name in _FOLDERS if name not in (*_FIRST, *_NO_PHENOMENA)))
PAPERS = sorted(path.stem for path in (_EXPERIMENTS / "papers").glob("[!_]*.py"))
TRAINING = "training"  # runs of the trainer, which have no section


@as_annotated
def load_section(name: str) -> Section:
    """Return the section of the phenomenon `name`, with runs and topics of its papers; else ValueError."""
    package = importlib.import_module(f"..experiments.{choice('name', name, PHENOMENA)}", __package__)
    merged: Section = package.SECTION
    for paper_name in PAPERS:
        paper = importlib.import_module(f"..experiments.papers.{paper_name}", __package__)
        if name == paper.PHENOMENON:
            runs, topics = {**merged.runs, **paper.RUNS}, [*merged.topics, *paper.TOPICS]
            merged = replace(merged, runs=runs, topics=topics)
    return merged


@as_annotated
def list_runs(phenomenon: str = "") -> dict[str, Run]:
    """Return the runs of a phenomenon, or of all, by names such as ``"collisions.fig3"``.

    >>> list_runs("collisions")["collisions.long"].dataset
    'collisions_fig3'
    """
    if not phenomenon:
        return {name: run for known in (*PHENOMENA, TRAINING) for name, run in list_runs(known).items()}
    if choice("phenomenon", phenomenon, (*PHENOMENA, TRAINING)) == TRAINING:
        declared: Mapping[str, Run] = importlib.import_module("..experiments.rug.grids", __package__).RUNS
    else:
        declared = load_section(phenomenon).runs
    runs = {}
    for name, run in declared.items():
        # Not by `replace`: what else it holds was checked where it was declared.
        runs[f"{phenomenon}.{name}"] = named = copy.copy(run)
        object.__setattr__(named, "name", f"{phenomenon}.{name}")
    return runs


@as_annotated
def find_run(name: str) -> Run:
    """Return a run by its full name, such as ``"collisions.fig3"``, or by the name of its stored file.

    For other names a ValueError names a similar run.
    """
    phenomenon, dot, _ = name.partition(".")
    run = list_runs(phenomenon).get(name) if phenomenon in (*PHENOMENA, TRAINING) else None
    if run is None and not (dot and phenomenon in PHENOMENA):
        run = next((known for known in list_runs().values() if known.dataset and known.file == name), None)
    if run is None:
        near = get_close_matches(name, list_runs(), 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            "`name` must be a run, as phenomenon.name; `superposition run` lists them; "
            f"got {short_repr(name)}{meant}."
        )
    return run
