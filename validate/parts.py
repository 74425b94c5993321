"""The finished parts of a report on disk, so that a run that was stopped can continue.

A part is a topic of a section or a row of the ledger. It may be used again if all that it depends on is the
same (the code with its libraries, profile, seed, and the data that it shows or judges), and if what is stored
is whole. Its key has the first, a checksum the second. Everything else is made again.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import files
from .claims import Checked, Claim, Evidence, Finding, Statement
from .laboratory import Lab, code

__all__ = ["Part", "key", "load_row", "load_topic", "save_row", "save_topic", "seconds"]

FOLDER = "parts"


@dataclass(frozen=True)
class Part:
    """A topic of the page, as HTML, with its headline, its files and their checksums, and its seconds."""

    section: str
    topic: str
    html: str
    files: Mapping[str, str]
    headline: str = ""
    picture: str = ""
    seconds: float = 0.0
    reused: bool = field(default=False, compare=False)


def key(lab: Lab, needs: Sequence[str], name: str) -> str:
    """Return what a part depends on, as one short text; the data have to be there."""
    data = [lab.digest(one) if lab.available(one) else "missing" for one in needs]
    depends = (code(), name, lab.profile, str(lab.seed), *data)
    return hashlib.sha256("\n".join(depends).encode()).hexdigest()


def _path(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.json"


def _sum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(folder: Path, name: str) -> dict[str, Any]:
    """Return what is stored under a name; nothing if it is missing or damaged, as it can be made again."""
    try:
        stored = json.loads(_path(folder, name).read_text(encoding="utf-8"))
        whole = stored["sum"] == _sum([stored["key"], stored["profile"], stored["content"]])
        return dict(stored) if whole else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(folder: Path, name: str, key: str, profile: str, content: Any) -> None:
    path = _path(folder, name)
    if path.parent.exists() and not path.parent.is_dir():
        path.parent.unlink()
    path.parent.mkdir(exist_ok=True)
    content = json.loads(json.dumps(content))
    stored = {"key": key, "profile": profile, "content": content, "sum": _sum([key, profile, content])}
    files.write_text(path, json.dumps(stored))


def save_topic(folder: Path, key: str, profile: str, part: Part) -> None:
    """Keep a finished topic."""
    _write(folder, f"{part.section}-{part.topic}", key, profile, asdict(part))


def load_topic(folder: Path, key: str, name: str) -> Part | None:
    """Return a finished topic if its key is the same and its data files are as they were written."""
    stored = _read(folder, name)
    if stored.get("key") != key:
        return None
    part = Part(**{**stored["content"], "reused": True})
    return part if all(files.digest(folder / file) == sum for file, sum in part.files.items()) else None


def seconds(folder: Path, profile: str, name: str) -> float | None:
    """Return how long a part took in the last run with this profile."""
    stored = _read(folder, name)
    return float(stored["content"]["seconds"]) if stored.get("profile") == profile else None


def save_row(folder: Path, key: str, profile: str, row: Checked) -> None:
    """Keep a row of the ledger."""
    findings = row.evidence.findings
    content = {
        "text": row.evidence.text,
        "findings": [{**asdict(f), "value": float(f.value), "limit": float(f.limit)} for f in findings],
        "numbers": {name: float(value) for name, value in row.evidence.numbers.items()},
        "corrections": [
            {"text": one.text, "findings": [findings.index(f) for f in one.findings]}
            for one in row.evidence.corrections
        ],
        "seconds": row.seconds,
    }
    _write(folder, f"claim-{row.claim.id}", key, profile, content)


def load_row(folder: Path, key: str, claim: Claim) -> Checked | None:
    """Return a finished row of the ledger; its verdict is read off the evidence again."""
    stored = _read(folder, f"claim-{claim.id}")
    if stored.get("key") != key:
        return None
    row = stored["content"]
    findings = [Finding(**f) for f in row["findings"]]
    corrections = [
        Statement(one["text"], [findings[k] for k in one["findings"]]) for one in row["corrections"]
    ]
    return Checked(claim, Evidence(row["text"], findings, row["numbers"], corrections), row["seconds"])
