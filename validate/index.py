"""The index of stored results: what is known of each file, whether it still holds, and how it is shown.

``index.json`` in ``validate/reference`` is written here alone. `store` enters a file that the command
``superposition run`` made, `confirm` makes a part of one anew, and `check` says of each whether its
data, settings and code are those of the index.
"""

import hashlib
import inspect
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import stored
from .annotations import as_annotated
from .experiment import Run, plain
from .files import difference, digest, named, read_dataset, replacing, write_text
from .laboratory import runs, version

__all__ = [
    "commit", "full_settings", "libraries", "store", "stored_runs", "table", "told",
    "told_of", "write_index",
]  # fmt: skip

ROOT = Path(__file__).parents[1]

# Settings that say where and how a run is made, and change no number.
HOW = ("captured", "checkpoint", "device", "folder", "workers")
LIBRARIES = ("numpy", "scipy", "numba", "torch")
BEGIN, END = "<!-- made from index.json: begin -->", "<!-- end -->"


def stored_runs() -> dict[str, Run]:
    """Return the runs that have a file, or will, by its name.

    Examples
    --------
    >>> stored_runs()["codes_lines"].name
    'codes.lines'
    """
    return {run.stored: run for run in runs().values() if run.stored}


@as_annotated
def full_settings(job: Run) -> dict[str, Any]:
    """Return the settings of a run, those that it leaves to the defaults of its function included.

    Examples
    --------
    >>> list(full_settings(stored_runs()["codes_lines"]))
    ['codes', 'lowest', 'tol']
    """
    parameters = inspect.signature(job.function).parameters
    known = {name: one.default for name, one in parameters.items() if name not in HOW}
    plain = json.loads(json.dumps(known | dict(job.full), default=list))
    return dict(sorted(plain.items()))


def commit() -> str:
    """Return the commit of the working tree that the package lies in, and whether its code has changes."""
    code = [str(ROOT / floor) for floor in ("theory", "solvers", "validate")]
    try:
        told, changed = (
            subprocess.run(
                ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=20
            ).stdout.strip()
            for words in (["rev-parse", "--short=10", "HEAD"], ["diff", "--name-only", "HEAD", "--", *code])
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{told}, changed" if ".py" in changed else told


def libraries() -> dict[str, str]:
    """Return the versions of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def _sum(entry: Mapping[str, Any]) -> str:
    told = json.dumps({key: value for key, value in entry.items() if key != "sum"}, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


@as_annotated
def told_of(name: str, files: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return when a file was made and confirmed, for lists.

    Examples
    --------
    >>> told_of("rug_n8192", {})
    {'made': '', 'confirmed': ''}
    """
    entry = files.get(name)
    return {"made": entry["made"] if entry else "", "confirmed": _confirmed(entry) if entry else ""}


@as_annotated
def write_index(files: Mapping[str, Mapping[str, Any]]) -> None:
    """Write ``index.json``, each entry with its checksum, and the table in the README beside it."""
    summed = {name: {**entry, "sum": _sum(entry)} for name, entry in files.items()}
    # A line for each fact, so that a change of the file shows which it is.
    entries = (
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items())
        + "\n  }"
        for name, entry in summed.items()
    )
    write_text(stored.REFERENCE / stored.INDEX, '{\n "files": {\n' + ",\n".join(entries) + "\n }\n}\n")
    readme = stored.REFERENCE / "README.md"
    if readme.is_file():
        before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
        _, found, after = rest.partition(END)
        if found:
            write_text(readme, f"{before}{BEGIN}\n{table(summed)}{END}{after}")


@as_annotated
def table(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what the index says as a table in Markdown."""
    lines = [
        "| file | experiment | made | commit | minutes | machine | confirmed |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, entry in files.items():
        told = (f"`{name}.nc`", f"`{entry['experiment']}`", entry["made"], entry["commit"])
        lines.append(
            f"| {' | '.join(told)} | {entry['seconds'] / 60:.1f} | {entry['machine']} | {_confirmed(entry)} |"
        )
    return "\n".join(lines) + "\n"


def _confirmed(entry: Mapping[str, Any]) -> str:
    found = entry.get("confirmed")
    if not found:
        return entry.get("not_repeated") or "as made"
    off = found["difference"]
    return f"{found['date']}: {'bit for bit' if off == 0 else f'to {off:.0e}'}"


@as_annotated
def store(*, path: str | Path) -> str:
    """Copy a file that ``superposition run`` made next to the index, enter it there, return its name.

    Raises
    ------
    ValueError
        If the file does not say how it was made, or has other settings than the job of its name.
    """
    path = Path(path)
    facts = read_dataset(path).attrs
    job = stored_runs().get(path.stem)
    needed = {"settings", "commit", "libraries", "made", "machine", "wall_seconds"}
    if job is None or facts.get("job") != path.stem or not needed <= set(facts):
        rule = "a file NAME.nc that `superposition run NAME` wrote"
        raise ValueError(f"`store` must be {rule}; got {named(path)}.")
    wrong = difference(json.loads(facts["settings"]), json.loads(told(job, job.full)))
    if wrong:
        raise ValueError(f"`store` must have the settings of its run; got {named(path)} ({wrong}).")
    entry = described(job) | {
        "made": facts["made"],
        "commit": facts["commit"],
        "machine": f"{facts['machine']}, {facts.get('device_name', 'cpu')}",
        "libraries": json.loads(facts["libraries"]),
        "seconds": round(float(facts["wall_seconds"]), 1),
        "sha256": digest(path),
        "origin": "recorded by the command",
    }
    target = stored.REFERENCE / path.name
    index = stored.read_index()
    if target != path:
        with replacing(target) as part:
            part.write_bytes(path.read_bytes())
    write_index({**index, job.stored: entry})
    return job.stored


def described(job: Run) -> dict[str, Any]:
    """Return what the runs say of a file: command, settings and their checksum, seeds, parts."""
    settings = full_settings(job)
    parts = _parts(job)
    seeds = settings.get("seeds", settings.get("seed"))
    plain = json.dumps([job.experiment, settings, parts], sort_keys=True)
    return {
        "command": f"superposition run {job.name}",
        "experiment": job.experiment,
        "settings": settings,
        **parts,
        "settings_sha256": hashlib.sha256(plain.encode()).hexdigest(),
        "seeds": seeds if isinstance(seeds, list) else [] if seeds is None else [seeds],
    }


@as_annotated
def told(job: Run, given: Mapping[str, Any]) -> str:
    """Return the settings of a run as JSON, as its file tells them."""
    return json.dumps({**given, **_parts(job)}, sort_keys=True, default=plain)


def _parts(job: Run) -> dict[str, Any]:
    """Return what is made apart, and along which dimension it is joined."""
    if not job.apart:
        return {}
    pieces = [{job.apart: [one]} for one in job.full[job.apart]] if isinstance(job.apart, str) else job.apart
    return {"parts": json.loads(json.dumps(pieces)), "along": [job.along]}
