"""The finished parts of a report on disk, so that a run that was stopped can continue.

A part is a topic of a section or a row of the ledger. It is used again if all that it depends on is the same
(the code with its libraries, profile, seed, and the data that it shows or judges), and if what is stored is
whole. Its key says the first, checksums say the second. Everything else is made again.
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

__all__ = ["FOLDER", "Part", "key", "load_row", "load_topic", "save_row", "save_topic"]

FOLDER = "parts"


@dataclass(frozen=True)
class Part:
    """A topic of the page as HTML, its card for the first screen, and its files with their checksums."""

    section: str
    topic: str
    html: str
    files: Mapping[str, str]
    card: str = ""
    reused: bool = field(default=False, compare=False)


def key(lab: Lab, needs: Sequence[str], name: str) -> str:
    """Return what a part depends on, as one short text; the data have to be there."""
    data = [lab.digest(one) if lab.available(one) else "missing" for one in needs]
    depends = (code(), name, lab.profile, str(lab.seed), *data)
    return hashlib.sha256("\n".join(depends).encode()).hexdigest()


def _sum(key: str, content: Any) -> str:
    return hashlib.sha256(json.dumps([key, content], sort_keys=True).encode()).hexdigest()


def _save(folder: Path, name: str, key: str, content: Any) -> None:
    content = json.loads(json.dumps(content))  # lists for tuples, as it will be read
    (folder / FOLDER).mkdir(exist_ok=True)
    stored = {"key": key, "content": content, "sum": _sum(key, content)}
    files.write_text(folder / FOLDER / f"{name}.json", json.dumps(stored))


def _load(folder: Path, name: str, key: str) -> Any:
    """Return what is stored under a name and key; None if it is missing or damaged, or made otherwise."""
    try:
        stored = json.loads((folder / FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        return stored["content"] if stored["sum"] == _sum(key, stored["content"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_topic(folder: Path, name: str, key: str, part: Part) -> None:
    """Keep a finished topic."""
    _save(folder, name, key, asdict(part))


def load_topic(folder: Path, name: str, key: str) -> Part | None:
    """Return a finished topic if its key is the same and its data files are as they were written."""
    content = _load(folder, name, key)
    if content is None:
        return None
    part = Part(**{**content, "reused": True})
    return part if all(files.digest(folder / file) == sum for file, sum in part.files.items()) else None


def save_row(folder: Path, key: str, row: Checked) -> None:
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
    _save(folder, f"claim-{row.claim.id}", key, content)


def load_row(folder: Path, key: str, claim: Claim) -> Checked | None:
    """Return a finished row of the ledger; its verdict is read off the evidence again."""
    row = _load(folder, f"claim-{claim.id}", key)
    if row is None:
        return None
    findings = [Finding(**f) for f in row["findings"]]
    said = [Statement(one["text"], [findings[k] for k in one["findings"]]) for one in row["corrections"]]
    return Checked(claim, Evidence(row["text"], findings, row["numbers"], said), row["seconds"])
