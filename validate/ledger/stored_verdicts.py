"""Stored rows of the ledger, read without importing the checks or their libraries.

A test judges every claim again and compares, so that these are the verdicts of today's code.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = ["PATH", "id_ranges", "read", "store"]

PATH = Path(__file__).parents[1] / "reference" / "claims.json"


class Verdict(StrEnum):
    """Verdict on a statement; `MEANINGS` has a sentence for each."""

    HOLDS = "holds"
    UP_TO_CONSTANTS = "holds, up to constants"
    MISPRINT = "misprint"
    INCOMPLETE = "incomplete"
    OVERSTATED = "overstated"
    NOT_REPRODUCED = "not reproduced"
    WRONG = "wrong"
    ANSWERED = "question, answered"
    TOO_FEW = "unsettled: too few runs"
    UNSETTLED = "unsettled: a finding fails"
    OPEN = "open"
    NOT_JUDGED = "not judged"


MEANINGS = {
    Verdict.HOLDS: "True as printed: an identity, a proof, or an experiment within its stated error.",
    Verdict.UP_TO_CONSTANTS: "Printed as an order of magnitude, and true; the ledger adds the constant.",
    Verdict.MISPRINT: (
        "A slip of symbols; the source itself uses the corrected statement, or needs it in its next step."
    ),
    Verdict.INCOMPLETE: "True under a condition, or but for a case, that the statement does not name.",
    Verdict.OVERSTATED: "True within a range or in part; what is printed goes beyond that.",
    Verdict.NOT_REPRODUCED: (
        "What the source reports of an experiment is not what the same settings give here."
    ),
    Verdict.WRONG: "False, by a derivation or a counterexample, and not only beyond some range.",
    Verdict.ANSWERED: "The source asks, assumes or hopes; the row says what is known.",
    Verdict.TOO_FEW: "A trained number rests on fewer than five runs.",
    Verdict.UNSETTLED: "A sentence of the row itself is not confirmed.",
    Verdict.OPEN: "Nothing is known; the row says what would decide it.",
    Verdict.NOT_JUDGED: "The check could not be run.",
}
# What `claims --wrong` lists.
WRONG = (
    Verdict.MISPRINT,
    Verdict.INCOMPLETE,
    Verdict.OVERSTATED,
    Verdict.NOT_REPRODUCED,
    Verdict.WRONG,
)
# Neither right nor wrong, as far as is known.
UNDECIDED = (Verdict.TOO_FEW, Verdict.UNSETTLED, Verdict.OPEN, Verdict.NOT_JUDGED)


def id_ranges(ids: Iterable[str]) -> str:
    """Return the first and last id of each letter as text, for messages.

    Examples
    --------
    >>> id_ranges(["C1", "C2", "C3", "S1", "S2"])
    'C1 to C3, S1 to S2'
    """
    numbers: dict[str, list[int]] = {}
    for id in _check_list("ids", ids):
        if not id[1:].isdecimal():
            raise ValueError(f"`ids` must be ids of rows, such as 'C8'; got {id!r:.80}.")
        numbers.setdefault(id[0], []).append(int(id[1:]))
    return ", ".join(f"{letter}{min(known)} to {letter}{max(known)}" for letter, known in numbers.items())


def read(ids: Iterable[str] | None = None, *, path: Path = PATH) -> dict[str, dict[str, Any]]:
    """Return the records of stored rows by id: of the given `ids` that are stored, or of all.

    Examples
    --------
    >>> read(["C21"])["C21"]["verdict"]
    'misprint'
    """
    _check_path(path)
    wanted = None if ids is None else set(_check_list("ids", ids))
    return {id: row for id, row in _read_records(path).items() if wanted is None or id in wanted}


def store(rows: Iterable[dict[str, Any]], ids: Sequence[str], *, path: Path = PATH) -> None:
    """Write records of rows into the file `path`, in place of stored ones of the same ids.

    `ids` are all ids of the ledger in its order; rows of other ids are dropped.
    """
    from ..reference.files import write_text

    _check_path(path)
    ids = _check_list("ids", ids)
    known = _read_records(path) if path.exists() else {}
    for row in _check_list("rows", rows, dict):
        if "id" not in row:
            raise ValueError(f"`rows` must be records of rows; got {row!r:.80}.")
        known[row["id"]] = row
    known = {id: known[id] for id in ids if id in known}
    content = {"sha256": _checksum(known), "rows": known}
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def sources() -> tuple[str, ...]:
    """Return the short names of the sources of all stored rows."""
    return tuple(dict.fromkeys(row["source"] for row in read().values()))


def source_named(word: Any) -> Any:
    """Return the only source whose name begins with a word; else the word itself, which the caller refuses.

    Examples
    --------
    >>> source_named("cowsik"), source_named("c")
    ('cowsik2024', 'c')
    """
    matches = [source for source in sources() if isinstance(word, str) and source.startswith(word)]
    return matches[0] if len(matches) == 1 else word


def _check_list(name: str, value: Any, kind: type = str) -> list[Any]:
    """Return `value` as a list; ValueError, naming `name`, unless it is an iterable of `kind`.

    `theory.validation`, which does the same, would import NumPy.
    """
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | memoryview):
        raise ValueError(f"`{name}` must be a list; got {value!r:.80}.")
    entries = list(value)
    for entry in entries:
        if not isinstance(entry, kind):
            raise ValueError(f"`{name}` must be a list of {kind.__name__}; got {entry!r:.80}.")
    return entries


def _check_path(path: Any) -> None:
    """Raise ValueError unless `path` is a `Path`."""
    if not isinstance(path, Path):
        raise ValueError(f"`path` must be Path; got {path!r:.80}.")


def _read_records(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a file by id; ValueError if it is missing, damaged or fails its checksum."""
    try:
        if not os.path.isfile(path):  # a device may have no end
            raise FileNotFoundError("there is no ordinary file")
        content = json.loads(path.read_text(encoding="utf-8"))
        rows: dict[str, dict[str, Any]] = content["rows"]
        if content["sha256"] != _checksum(rows):
            raise ValueError("its rows are not those of its checksum")
    except (OSError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"`path` must be a whole ledger; got {str(path)!r} ({reason:.200}).") from error
    return rows


def _checksum(rows: dict[str, Any]) -> str:
    """Return the SHA-256 of rows as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True, allow_nan=False).encode()).hexdigest()
