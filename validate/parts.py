"""The finished parts of a report on disk, so that a run that was stopped can continue.

A part may be used again if nothing that it depends on has changed: profile, seed, the code of this package
and the versions of its libraries. All of these are in its key.
"""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import files
from .claims import Checked, Evidence, Finding, select, verdict

__all__ = [
    "PACKAGES",
    "Part",
    "code",
    "key",
    "last_seconds",
    "load",
    "load_rows",
    "save",
    "save_rows",
    "version",
]

FOLDER = "parts"
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")
_LEDGER = "ledger"


@dataclass(frozen=True)
class Part:
    """A phenomenon's part of the page, as HTML, with the names of its data files and the seconds it took."""

    name: str
    title: str
    html: str
    files: Sequence[str]
    seconds: float
    reused: bool = field(default=False, compare=False)


def version(package: str) -> str:
    """Return the version of an installed package, or that it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def key(profile: str, seed: int) -> str:
    """Return what the results depend on, as one short text."""
    depends = (code(), profile, str(seed), platform.python_version(), *map(version, PACKAGES))
    return hashlib.sha256("\n".join(depends).encode()).hexdigest()


def code(root: Path = Path(__file__).parents[1]) -> str:
    """Return a short text that changes with any file of the package."""
    seen = hashlib.sha256()
    for floor in ("theory", "solvers", "validate"):
        for path in sorted((root / floor).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                seen.update(f"{path.relative_to(root)}\n".encode())
                seen.update(path.read_bytes())
    return seen.hexdigest()


def _path(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.json"


def _read(folder: Path, name: str) -> dict[str, Any]:
    """Return what is stored under a name; nothing if it is missing or damaged, as it can be made again."""
    try:
        stored = json.loads(_path(folder, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _write(folder: Path, name: str, stored: Mapping[str, Any]) -> None:
    path = _path(folder, name)
    path.parent.mkdir(exist_ok=True)
    files.write_text(path, json.dumps(stored))


def save(folder: Path, key: str, profile: str, part: Part) -> None:
    """Keep a finished part."""
    _write(folder, part.name, {"key": key, "profile": profile, "part": asdict(part)})


def load(folder: Path, key: str, name: str) -> Part | None:
    """Return a finished part if its key is the same and all of its data files are still there."""
    stored = _read(folder, name)
    if stored.get("key") != key:
        return None
    part = Part(**{**stored["part"], "reused": True})
    return part if all((folder / file).exists() for file in part.files) else None


def last_seconds(folder: Path, profile: str, name: str) -> float | None:
    """Return how long a part, or a claim of the ledger on average, took in the last run with this profile."""
    stored = _read(folder, name)
    if stored.get("profile") != profile:
        return None
    if name == _LEDGER:
        seconds = [row["seconds"] for row in stored["rows"].values()]
        return sum(seconds) / len(seconds) if seconds else None
    return stored["part"]["seconds"]


def save_rows(folder: Path, key: str, profile: str, rows: Sequence[Checked]) -> None:
    """Keep the rows of the ledger that are finished."""
    stored = {
        row.claim.id: {
            "text": row.evidence.text,
            "findings": [
                {**asdict(f), "value": float(f.value), "limit": float(f.limit)} for f in row.evidence.findings
            ],
            "numbers": {name: float(value) for name, value in row.evidence.numbers.items()},
            "seconds": row.seconds,
        }
        for row in rows
    }
    _write(folder, _LEDGER, {"key": key, "profile": profile, "rows": stored})


def load_rows(folder: Path, key: str) -> list[Checked]:
    """Return the finished rows of the ledger; each verdict is read off the evidence again."""
    stored = _read(folder, _LEDGER)
    if stored.get("key") != key:
        return []
    rows = []
    for claim in select(stored["rows"]):
        row = stored["rows"][claim.id]
        evidence = Evidence(row["text"], [Finding(**f) for f in row["findings"]], row["numbers"])
        rows.append(Checked(claim, evidence, verdict(evidence), row["seconds"]))
    return rows
