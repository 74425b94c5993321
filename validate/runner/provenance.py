"""Provenance of runs (settings, commit, versions), and their addition to the stored datasets."""

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
from ..reference import files, read
from ..reference.run_datasets import FACTS, combine_runs, extract_run, read_facts
from . import registry
from .declarations import Run, as_list

__all__ = [
    "PACKAGES", "add_run", "code_digest", "datasets_table", "full_settings", "git_commit", "library_versions",
    "package_version", "shipped_runs", "write_readme",
]  # fmt: skip

ROOT = Path(__file__).parents[2]
LAYERS = ("theory", "solvers", "validate")
# Settings that say where and how a run is made, and change no number of it.
MACHINE_SETTINGS = ("cuda_graph", "checkpoint", "device", "folder", "workers")
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")
LIBRARIES = ("numpy", "scipy", "numba", "torch")
# Comments around the table in the README of `validate/reference`.
BEGIN = "<!-- made by `superposition reference`: begin -->"
END = "<!-- end -->"


@functools.cache
@as_annotated
def package_version(package: str) -> str:
    """Return the version of a package, or "not installed"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
@as_annotated
def code_digest(root: Path = ROOT) -> str:
    """Return a checksum of all files of the package in `root` and the versions of its libraries."""
    versions = (platform.python_version(), *map(package_version, PACKAGES))
    checksum = hashlib.sha256("\n".join(versions).encode())
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                checksum.update(f"{path.relative_to(root)}\n".encode())
                checksum.update(path.read_bytes())
    return checksum.hexdigest()


def shipped_runs() -> dict[str, Run]:
    """Return the runs stored in datasets of ``validate/reference``, by name."""
    declared = {name: run for name, run in registry.list_runs().items() if run.dataset}
    datasets = {run.dataset for run in declared.values()}.intersection(read.checksums())
    shipped_names = {name for dataset in datasets for name in read.facts(dataset)}
    return {name: run for name, run in declared.items() if name in shipped_names}


@as_annotated
def full_settings(run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a run, completed by its function's defaults.

    If the run is computed in pieces, "parts" has the pieces and "along" the dimension along which they are
    joined.

    >>> list(full_settings(shipped_runs()["codes.lines"], {}))
    ['codes', 'lowest', 'tol']
    """
    parameters = inspect.signature(run.function).parameters
    full = {name: parameter.default for name, parameter in parameters.items()} | dict(settings)
    full = {k: v for k, v in full.items() if k not in MACHINE_SETTINGS and v is not inspect.Parameter.empty}
    if run.split_by:
        full |= {"parts": run.piece_overrides(settings), "along": [run.concat_dim]}
    return dict(sorted(json.loads(json.dumps(full, default=as_list)).items()))


def git_commit() -> str:
    """Return the git commit of the package, with ", changed" if its code differs; "unknown" without git."""

    def git(*words: str) -> str:
        """Return what git prints on a command in the package's folder."""
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()

    try:
        head = git("rev-parse", "--short=10", "HEAD")
        changed = git("diff", "--name-only", "HEAD", "--", *LAYERS)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}, changed" if ".py" in changed else head


def library_versions() -> dict[str, str]:
    """Return the versions of Python, NumPy, SciPy, Numba and PyTorch by name."""
    return {"python": platform.python_version(), **{name: package_version(name) for name in LIBRARIES}}


@as_annotated
def add_run(*, path: str | Path) -> str:
    """Add a run from a file of ``superposition run`` to its stored dataset, and return the run's name.

    A stored run of the same name is replaced. The checksum and the table of ``validate/reference`` are
    updated. A file of a run that no dataset stores, or with other settings, raises a ValueError.
    """
    ds = files.read_dataset(path)
    run = registry.list_runs().get(str(ds.attrs.get("run")))
    if run is None or not run.dataset or not {*FACTS} <= set(ds.attrs):
        rule = "a file that `superposition run` made of a run that is stored"
        raise ValueError(f"`path` must be {rule}; got {files.quoted_path(path)}.")
    difference = files.describe_difference(json.loads(ds.attrs["settings"]), full_settings(run, run.full))
    if difference:
        rule = "have the settings of its run"
        raise ValueError(f"`path` must {rule}; got {files.quoted_path(path)} ({difference}).")
    sums = read.checksums()
    dataset = read.load(run.dataset) if run.dataset in sums else xr.Dataset(attrs={"title": run.summary})
    if "rows" in dataset.attrs:
        datasets = {name: extract_run(dataset, name) for name in read_facts(dataset)} | {run.name: ds}
        rows, left_out = (dataset.attrs[key].split() for key in ("rows", "left_out"))
        ds = combine_runs(datasets, rows, left_out=left_out or ("",))
        ds = ds.set_coords([name for name in dataset.coords if name in ds])
    path = read.REFERENCE / f"{run.dataset}.nc"
    files.write_dataset(path, ds.assign_attrs(title=dataset.attrs["title"]))
    sums[run.dataset] = files.digest(path)
    lines = [f"{sums[name]}  {name}.nc\n" for name in sorted(sums)]
    files.write_text(read.REFERENCE / read.SUMS, "".join(lines))
    write_readme()
    return run.name


def datasets_table() -> str:
    """Return a Markdown table of the stored datasets: content, date and device of each."""
    columns = ("dataset", "what it holds", "runs", "made", "commit", "machine", "hours")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for dataset in read.checksums():
        facts = list(read.facts(dataset).values())
        commits = sorted({run["commit"].partition(",")[0] for run in facts})
        cells = (
            f"`{dataset}.nc`",
            read.load(dataset).attrs["title"],
            str(len(facts)),
            read.stored_facts("", [{"made": run["made"]} for run in facts])["stored_date"],
            commits[0] if len(commits) == 1 else f"{len(commits)} commits",
            " and ".join(dict.fromkeys(run["machine"] for run in facts)),
            f"{sum(float(run['wall_seconds']) for run in facts) / 3600:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_readme() -> None:
    """Write the table of datasets into the README of ``validate/reference``, if it has the markers."""
    path = read.REFERENCE / "README.md"
    if path.is_file():
        head, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, end, tail = rest.partition(END)
        if end:
            files.write_text(path, f"{head}{BEGIN}\n{datasets_table()}{END}{tail}")
