"""Rows of the ledger as they were last judged, read in a moment: neither checks nor their libraries load.

A stored row is used as long as its stamp fits: that of the file with its check and of the stored data that
it needs. That theory, solvers and training still give the same numbers is what judging again shows, as the
report and the slow tests do.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = ["MEANINGS", "STORED", "ranges", "recall", "stamp", "store"]

_HERE = Path(__file__).parent
STORED = _HERE / "reference" / "claims.json"


class Verdict(StrEnum):
    """What the evidence says about a statement; `MEANINGS` has a sentence for each."""

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


# What each verdict means, in one sentence.
MEANINGS = {
    Verdict.HOLDS: "True as printed: an identity, a proof, or an experiment within its stated error.",
    Verdict.UP_TO_CONSTANTS: "Printed as an order of magnitude, and true; the ledger adds the constant.",
    Verdict.MISPRINT: (
        "A slip of symbols: the source itself uses the corrected statement, or needs it in its next step."
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
# What `claims --wrong` lists, and what is not known to be right or wrong.
WRONG = (
    Verdict.MISPRINT,
    Verdict.INCOMPLETE,
    Verdict.OVERSTATED,
    Verdict.NOT_REPRODUCED,
    Verdict.WRONG,
)
UNDECIDED = (Verdict.TOO_FEW, Verdict.UNSETTLED, Verdict.OPEN, Verdict.NOT_JUDGED)


def ranges(ids: Iterable[str]) -> str:
    """Return ids of rows in a few words.

    Examples
    --------
    >>> ranges(["C1", "C2", "C3", "S1", "S2"])
    'C1 to C3, S1 to S2'
    """
    found: dict[str, list[int]] = {}
    for one in _listed("ids", ids):
        if not one[1:].isdecimal():
            raise ValueError(f"`ids` must be ids of rows, such as 'C8'; got {one!r:.80}.")
        found.setdefault(one[0], []).append(int(one[1:]))
    return ", ".join(f"{letter}{min(known)} to {letter}{max(known)}" for letter, known in found.items())


def stamp(module: str, data: Sequence[str]) -> str:
    """Return a short text that changes with the file of a check and the stored data that it needs.

    Parameters
    ----------
    module : str
        Name of the module in `validate.claims`.
    data : sequence of str
        Names of files in ``validate/reference``.
    """
    _checked(module=(module, str))
    data = _listed("data", data)
    seen = hashlib.sha256()
    for path in (_HERE / "claims" / f"{module}.py", *(_HERE / "reference" / name for name in data)):
        seen.update(path.name.encode(errors="backslashreplace"))
        seen.update(hashlib.sha256(path.read_bytes()).digest() if os.path.isfile(path) else b"missing")
    return seen.hexdigest()[:16]


def recall(
    ids: Iterable[str] | None = None, *, path: Path = STORED, current: bool = True
) -> dict[str, dict[str, Any]]:
    """Return stored rows by their ids, as `claims.as_record` makes them.

    Those that are out of date are left out, unless they are asked for with ``current=False``.

    Examples
    --------
    >>> recall(["C21"])["C21"]["verdict"]
    'misprint'
    """
    _checked(path=(path, Path), current=(current, bool))
    wanted = None if ids is None else set(_listed("ids", ids))
    rows = {id: row for id, row in _read(path).items() if wanted is None or id in wanted}
    return {id: row["record"] for id, row in rows.items() if not current or _current(row)}


def store(
    rows: Iterable[tuple[dict[str, Any], str, Sequence[str]]], ids: Sequence[str], *, path: Path = STORED
) -> None:
    """Replace stored rows that have the same ids; a row is (record, module of its check, its data).

    `ids` are those of the ledger in its order; others are dropped.
    """
    from .files import write_text

    _checked(path=(path, Path))
    kept, ids = _read(path), _listed("ids", ids)
    for row in _listed("rows", rows, tuple):
        if len(row) != 3 or not isinstance(row[0], dict) or "id" not in row[0]:
            raise ValueError(f"`rows` must be (record, module, data); got {row!r:.80}.")
        record, module, data = row
        kept[record["id"]] = {
            "module": module, "data": list(data), "stamp": stamp(module, data), "record": record
        }  # fmt: skip
    kept = {id: kept[id] for id in ids if id in kept}
    text = json.dumps(kept, ensure_ascii=False, indent=1, allow_nan=False)
    write_text(path, text + "\n")


def sources() -> tuple[str, ...]:
    """Return the sources of all rows."""
    return tuple(dict.fromkeys(row["source"] for row in recall(current=False).values()))


def source_named(word: Any) -> Any:
    """Return the source whose name alone begins so, else what is given, for the caller to refuse.

    Examples
    --------
    >>> source_named("cowsik"), source_named("l")
    ('cowsik2024', 'l')
    """
    begun = [one for one in sources() if isinstance(word, str) and one.startswith(word)]
    return begun[0] if len(begun) == 1 else word


def _listed(name: str, value: Any, kind: type = str) -> list[Any]:
    """Return what is listed, all of a kind; the checks of `theory.arguments` would load NumPy."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | memoryview):
        raise ValueError(f"`{name}` must be a list; got {value!r:.80}.")
    found = list(value)
    for one in found:
        if not isinstance(one, kind):
            raise ValueError(f"`{name}` must be a list of {kind.__name__}; got {one!r:.80}.")
    return found


def _checked(**given: tuple[Any, Any]) -> None:
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise ValueError(f"`{name}` must be {getattr(kind, '__name__', kind)}; got {value!r:.80}.")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Return all rows; a file that is missing or damaged has none."""
    if not os.path.isfile(path):  # a device may have no end
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return rows if isinstance(rows, dict) else {}


def _current(row: Any) -> bool:
    try:
        return bool(row["stamp"] == stamp(row["module"], row["data"]) and row["record"]["verdict"])
    except (OSError, KeyError, TypeError, ValueError):
        return False
