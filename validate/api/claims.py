"""The verdicts of the ledger on printed statements."""

from collections.abc import Sequence

import xarray as xr

from ...theory import validation
from ..ledger import stored_verdicts
from .answer import Answer, Certainty
from .entry import entry

__all__ = ["claims"]


@entry
def claims(
    source: str | None = None, wrong: bool = False, *, id: str | Sequence[str] | None = None
) -> Answer:
    """Return statements of the source papers with the verdict on each, from stored evidence.

    >>> answer = claims("lecomte2024", wrong=True)
    >>> len(answer.rows), answer.rows[0]["id"]
    (12, 'L10')

    Parameters
    ----------
    source : str, optional
        Only statements of this source, such as "cowsik2024" or "cowsik"; all by default.
    wrong : bool, optional
        Only statements that do not hold as printed: misprints, and those that are incomplete, overstated, not
        reproduced or wrong.
    id : str or sequence of str, optional
        Only these rows, such as "C8".

    Returns
    -------
    Answer
        `to_frame` has ``id``, ``source``, ``where`` (the place in the source), ``statement``, ``verdict``,
        ``instead`` (the correction, if any); ``rows`` has the evidence as well.
    """
    rows = list(stored_verdicts.read().values())
    if source is not None:
        source = validation.choice("source", stored_verdicts.source_named(source), stored_verdicts.sources())
        rows = [row for row in rows if row["source"] == source]
    if id is not None:
        wanted = [id] if isinstance(id, str) else list(id)
        known = [row["id"] for row in rows]
        for record in wanted:
            if record not in known:
                ranges = stored_verdicts.id_ranges(known)
                raise ValueError(f"`id` must be one of {ranges}; got {validation.short_repr(record)}.")
        rows = [row for row in rows if row["id"] in wanted]
    if wrong:
        rows = [row for row in rows if row["verdict"] in stored_verdicts.WRONG]
    columns = {
        "id": "id", "source": "source", "where": "where", "statement": "statement", "verdict": "verdict",
        "instead": "correction",
    }  # fmt: skip
    data = xr.Dataset(
        {name: ("claim", [str(row[key] or "") for row in rows]) for name, key in columns.items()}
    )
    what = "statements do not hold as printed" if wrong else "statements"
    lines = [f"{len(rows)} {what}{f' in {source}' if source else ''}"]
    for row in rows:
        lines.append(f"{row['id']:4} {row['where']}: {row['statement']}")
        instead = f"; instead: {row['correction']}" if row["correction"] else ""
        lines.append(f"     {row['verdict']}{instead}")
    days = sorted({row["judged"] for row in rows if row["judged"]})
    day = f" of {days[-1]}" if days else ""
    note = f"from stored evidence{day}; `superposition claims --run` checks again"
    sources = tuple(dict.fromkeys(f"{row['source']}" for row in rows))
    return Answer(tuple(lines), Certainty.COMPUTED, note, sources, {"rows": tuple(rows)}, data)
