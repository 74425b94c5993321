"""The index of stored results: what is known of each file, whether it still holds, and how it is shown.

``index.json`` in ``validate/reference`` is written here alone. `store` enters a file that the command
``superposition run`` made, `confirm` makes a part of one anew, and `check` says of each whether its
data, settings and code are those of the index.
"""

import hashlib
import inspect
import io
import json
import platform
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from . import experiments, stored
from .annotations import as_annotated
from .experiment import Run, plain
from .files import difference, digest, named, read_dataset, replacing, write_text
from .laboratory import runs, version
from .stamps import ROOT, reached, stamp

__all__ = [
    "check", "commit", "confirm", "full_settings", "libraries", "store", "stored_runs", "table", "told",
    "told_of", "write_index",
]  # fmt: skip

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
    needed = {"settings", "code", "commit", "libraries", "made", "machine", "wall_seconds"}
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
        "code": facts["code"],
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


# --- Whether it still holds ---------------------------------------------------------------------------------


@as_annotated
def check(
    names: Collection[str] = (), *, jobs: Mapping[str, Run] | None = None, root: Path = ROOT
) -> dict[str, list[str]]:
    """Return what is wrong with each stored file: nothing, if it is accepted.

    Parameters
    ----------
    names : sequence of str, optional
        Of files; all, if none are given.
    jobs : mapping from str to Run, optional
        What is declared; `stored_runs` if not given.
    root : Path, optional
        Folder of the package whose code is compared with that which made the files.

    Examples
    --------
    >>> [said for said in check(["codes_lines"])["codes_lines"] if "code" not in said]
    []
    """
    index, planned = stored.read_index(), stored_runs() if jobs is None else jobs
    here = {path.stem for path in stored.REFERENCE.iterdir() if path.suffix == ".nc"}
    chosen = names or [*index, *sorted(here - set(index))]
    stamps: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name in chosen:
        if name not in index:
            found[name] = ["not in the index" if name in here else "not stored"]
            continue
        found[name] = list(_faults(name, index[name], planned.get(name), root, stamps))
    return found


def _faults(
    name: str, entry: Mapping[str, Any], job: Run | None, root: Path, stamps: dict[str, str]
) -> Iterator[str]:
    if entry.get("sum") != _sum(entry):
        yield f"{stored.INDEX} was changed by hand"
    seen = digest(stored.REFERENCE / f"{name}.nc")
    if seen != entry.get("sha256"):
        yield "the file was changed" if seen else "the file is missing"
    if job is None:
        yield "no run has this name"
        return
    planned = described(job)
    kept = {key: entry.get(key) for key in planned | ({"parts": 0, "along": 0} if "parts" in entry else {})}
    if wrong := difference(kept, planned):
        yield f"other settings than those of its run: {wrong}"
    if entry.get("not_repeated"):
        yield f"not repeated: {entry['not_repeated']}"
    if job.experiment not in stamps:
        stamps[job.experiment] = stamp(job.experiment, root=root)
    if entry.get("code") != stamps[job.experiment]:
        when = str((entry.get("confirmed") or entry).get("commit"))
        names = _changed(job.experiment, when, root)
        which = f" ({', '.join(names[:3])}{' and more' if len(names) > 3 else ''})" if names else ""
        yield f"code of making changed since {when}{which}: confirm or make anew"


def _changed(experiment: str, since: str, root: Path) -> list[str]:
    """Return the definitions that are not as they were in a commit; none, if it cannot be had."""
    floors = ("theory", "solvers", "validate", ":!validate/reference")
    command = ["git", "-C", str(ROOT), "archive", since, *floors]
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = subprocess.run(command, capture_output=True, check=True, timeout=60)
            with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
                archive.extractall(folder, filter="data")
        except (OSError, subprocess.SubprocessError, tarfile.TarError):
            return []
        before, now = reached(experiment, root=Path(folder)), reached(experiment, root=root)
    return sorted(name for name in before.keys() | now if before.get(name) != now.get(name))


@as_annotated
def confirm(name: str) -> dict[str, Any]:
    """Make a part of a stored file anew, compare, and enter the result in the index.

    Returns
    -------
    dict
        ``date``, ``commit``, ``part`` (its settings), ``compared`` (how many numbers), the largest
        ``difference`` in units of the largest value of its variable and which it is (``variable``),
        ``tolerance``, ``seconds``, ``libraries``, ``passed``.

    Raises
    ------
    ValueError
        If the file is none of those in the index, or is not the one in the index.
    """
    index = stored.read_index()
    job = stored_runs().get(name)
    if job is None or name not in index:
        raise ValueError(f"`confirm` must be a stored file of a run; got {name!r}.")
    old = stored.read_reference(f"{name}.nc")
    given = dict(job.full) | dict(job.part.settings)
    known = inspect.signature(job.function).parameters
    if "device" in known:
        given["device"] = "cpu"
    began = time.perf_counter()
    new = experiments.run(job, given)
    result = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "part": dict(job.part.settings),
        **compared(old, new, job.part.only),
        "tolerance": job.part.tolerance,
        **({"reason": job.part.reason} if job.part.reason else {}),
        "seconds": round(time.perf_counter() - began, 1),
        "libraries": libraries(),
    }
    passed = result["compared"] > 0 and result["difference"] <= job.part.tolerance
    entry = {key: value for key, value in index[name].items() if key not in ("confirmed", "not_repeated")}
    if passed:
        entry |= {"confirmed": result, "code": stamp(job.experiment)}
    else:
        off = f"{result['difference']:.2g} of {result['variable']}"
        entry["not_repeated"] = f"code of {result['commit']} gives another part, off by {off}"
    write_index({**stored.read_index(), name: entry})
    return {**result, "passed": passed}


_MODELS = ("p", "ratio", "n_hidden", "seed")  # what tells models of one file apart


def compared(old: xr.Dataset, new: xr.Dataset, only: Sequence[str] = ()) -> dict[str, Any]:
    """Compare a run with the same part of a stored one.

    Places are found by the labels of dimensions, models by what tells them apart (p, ratio, n_hidden, seed);
    of other dimensions without labels the first are taken.

    Returns
    -------
    dict
        ``compared``, ``difference``, ``variable``, as `confirm`; ``not_made``, variables that are stored, and
        that the code of today does not make.

    Examples
    --------
    >>> old = xr.Dataset({"loss": ("seed", [1.0, 2.0, 4.0])}, {"seed": [0, 1, 2]})
    >>> new = xr.Dataset({"loss": ("seed", [2.0, 4.1])}, {"seed": [1, 2]})
    >>> round(compared(old, new)["difference"], 4)
    0.0244
    """
    where: dict[str, list[int]] = {}
    for dim in map(str, new.dims):
        places: list[Any]
        labels: list[Any]
        tells = _MODELS if dim == "model" else ()
        by = [key for key in tells if _along(old, key) == _along(new, key) == (dim,)]
        if by:
            keys = [[ds[key].values.tolist() for key in by] for ds in (old, new)]
            places, labels = list(zip(*keys[0], strict=True)), list(zip(*keys[1], strict=True))
        elif dim in new.indexes and dim in old.indexes:
            places, labels = old[dim].values.tolist(), new[dim].values.tolist()
        else:
            places = list(range(old.sizes.get(dim, 0)))
            labels = places[: new.sizes[dim]]
        where[dim] = [places.index(label) for label in labels if label in places]
    count, worst, variable = 0, 0.0, ""
    for key in only or [str(name) for name in old.data_vars if name in new]:
        one = old[key].isel({dim: where[dim] for dim in map(str, old[key].dims) if dim in where})
        off = float("inf")  # also where a place of the new run is none of the stored one
        if set(one.dims) == set(new[key].dims):
            off = _off(one.values, new[key].transpose(*one.dims).values)
        count += one.size
        if off > worst:
            worst, variable = off, str(key)
    missing = [str(name) for name in old.data_vars if name not in new]
    return {"compared": count, "difference": worst, "variable": variable, "not_made": missing}


def _along(ds: xr.Dataset, key: str) -> tuple[Any, ...]:
    return ds[key].dims if key in ds else ()


def _off(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Return the largest difference over the largest value; infinite, if there is a nan in one only."""
    if one.shape != other.shape:
        return float("inf")
    if one.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(one.astype(str), other.astype(str)) else float("inf")
    one, other = one.astype(float), other.astype(float)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if bool(np.all(same)):
        return 0.0
    scale = float(np.max(np.abs(other[np.isfinite(other)]), initial=0.0))
    worst = float(np.max(np.abs(one - other)[~same])) / (scale or 1.0)
    return worst if np.isfinite(worst) else float("inf")
