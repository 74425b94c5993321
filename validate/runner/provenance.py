"""How runs are made and stored: settings, commit and libraries; `add_run` puts a run into its dataset."""

import functools
import hashlib
import importlib.metadata
import inspect
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from ...theory.annotations import as_annotated
from ..reference import read
from ..reference import rows as tidy
from ..reference.files import (
    describe_difference,
    digest,
    quoted_path,
    read_dataset,
    write_dataset,
    write_text,
)
from . import registry
from .declarations import Run, as_list

__all__ = [
    "PACKAGES",
    "add_run",
    "code_digest",
    "datasets_table",
    "full_settings",
    "git_commit",
    "library_versions",
    "package_version",
    "shipped_runs",
    "write_readme",
]

ROOT = Path(__file__).parents[2]
# Settings that say where and how a run is made, and change no number.
PLACES = ("captured", "checkpoint", "device", "folder", "workers")
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")
LIBRARIES = ("numpy", "scipy", "numba", "torch")
BEGIN, END = "<!-- made by `superposition reference`: begin -->", "<!-- end -->"


@functools.cache
@as_annotated
def package_version(package: str) -> str:
    """Return the version of an installed package, or that it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
@as_annotated
def code_digest(root: Path = Path(__file__).parents[2]) -> str:
    """Return a short text that changes with any file of the package and any version of its libraries."""
    seen = hashlib.sha256("\n".join((platform.python_version(), *map(package_version, PACKAGES))).encode())
    for layer in ("theory", "solvers", "validate"):
        for path in sorted((root / layer).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                seen.update(f"{path.relative_to(root)}\n".encode())
                seen.update(path.read_bytes())
    return seen.hexdigest()


def shipped_runs() -> dict[str, Run]:
    """Return the runs that are in a dataset of ``validate/reference``, by their names."""
    known = {name: run for name, run in registry.list_runs().items() if run.stored}
    there = {name for dataset in {run.stored for run in known.values()} & {*read.checksums()}
             for name in read.facts(dataset)}  # fmt: skip
    return {name: run for name, run in known.items() if name in there}


@as_annotated
def full_settings(run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a run, those that it leaves to the defaults of its function included.

    What is made apart (``parts``) and the dimension along which that is joined (``along``) are among them.

    Examples
    --------
    >>> list(full_settings(shipped_runs()["codes.lines"], {}))
    ['codes', 'lowest', 'tol']
    """
    parameters = inspect.signature(run.function).parameters
    known = {name: one.default for name, one in parameters.items() if name not in PLACES}
    known = {name: value for name, value in known.items() if value is not inspect.Parameter.empty}
    found = known | {name: value for name, value in settings.items() if name not in PLACES}
    if run.split_by:
        each = run.split_by
        pieces = [{each: [one]} for one in settings[each]] if isinstance(each, str) else each
        found |= {"parts": pieces, "along": [run.concat_dim]}
    return dict(sorted(json.loads(json.dumps(found, default=as_list)).items()))


def git_commit() -> str:
    """Return the commit of the working tree that the package lies in, and whether its code has changes."""
    code = [str(ROOT / layer) for layer in ("theory", "solvers", "validate")]
    try:
        head, changed = (
            subprocess.run(
                ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=20
            ).stdout.strip()
            for words in (["rev-parse", "--short=10", "HEAD"], ["diff", "--name-only", "HEAD", "--", *code])
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}, changed" if ".py" in changed else head


def library_versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {"python": platform.python_version(), **{name: package_version(name) for name in LIBRARIES}}


@as_annotated
def add_run(*, path: str | Path) -> str:
    """Put a file that ``superposition run`` made into its dataset in place of that run; return its name.

    The checksum and the table of ``validate/reference`` follow.

    Raises
    ------
    ValueError
        If the file does not say how it was made, has other settings than are declared, or its run is in no
        dataset.
    """
    ds = read_dataset(path)
    run = next(
        (one for one in registry.list_runs().values() if one.name == ds.attrs.get("run") and one.stored), None
    )
    if run is None or not {*tidy.FACTS} <= set(ds.attrs):
        rule = "a file that `superposition run` made of a run that is stored"
        raise ValueError(f"`path` must be {rule}; got {quoted_path(path)}.")
    wrong = describe_difference(json.loads(ds.attrs["settings"]), full_settings(run, run.full))
    if wrong:
        raise ValueError(f"`path` must have the settings of its run; got {quoted_path(path)} ({wrong}).")
    sums = read.checksums()
    old = read.load(run.stored) if run.stored in sums else xr.Dataset(attrs={"title": run.summary})
    new = ds.assign_attrs(title=old.attrs["title"])
    if "rows" in old.attrs:
        every = {name: tidy.extract_run(old, name) for name in tidy.read_facts(old)} | {run.name: ds}
        rows, left_out = (old.attrs[key].split() for key in ("rows", "left_out"))
        new = tidy.combine_runs(every, rows, left_out=left_out or ("",))
        new = new.set_coords([name for name in old.coords if name in new])
        new = new.assign_attrs(title=old.attrs["title"])
    target = read.REFERENCE / f"{run.stored}.nc"
    write_dataset(target, new)
    sums[run.stored] = digest(target)
    lines = (f"{sums[name]}  {name}.nc\n" for name in sorted(sums))
    write_text(read.REFERENCE / read.SUMS, "".join(lines))
    write_readme()
    return str(run.name)


def datasets_table() -> str:
    """Return what each stored dataset holds, when and on what it was made, as a table in Markdown."""
    lines = [
        "| dataset | what it holds | runs | made | commit | machine | hours |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in read.checksums():
        made = [*read.facts(name).values()]
        days = read.stored_facts("", [{"made": one["made"]} for one in made])["stored_date"]
        commits = sorted({one["commit"].partition(",")[0] for one in made})
        machines = " and ".join(dict.fromkeys(one["machine"] for one in made))
        hours = sum(float(one["wall_seconds"]) for one in made) / 3600
        listed = commits[0] if len(commits) == 1 else f"{len(commits)} commits"
        cells = (
            f"`{name}.nc`",
            read.load(name).attrs["title"],
            len(made),
            days,
            listed,
            machines,
            f"{hours:.1f}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def write_readme() -> None:
    """Write the table into the README of ``validate/reference``, if it has a place for it."""
    path = read.REFERENCE / "README.md"
    if path.is_file():
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, there, after = rest.partition(END)
        if there:
            write_text(path, f"{before}{BEGIN}\n{datasets_table()}{END}{after}")
