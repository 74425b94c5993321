"""The ledger: every claim of every source, and the functions that judge and read them."""

import importlib
import pkgutil
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...theory.annotations import as_annotated
from ...theory.validation import choice, short_repr
from ..runner.cache import DataTask, ResultCache, cache_folder, plan_tasks
from ..runner.tasks import Task, run_tasks
from . import stored_verdicts
from .claim import WRONG, CheckedClaim, Claim, Evidence, Verdict, as_record, from_record

# Letters of the ids that come first; others are in the order of the alphabet.
_FIRST_LETTERS = "LCB"


def _load_claims() -> tuple[Claim, ...]:
    """Return all claims of the ledger, by the letters of their ids (L, C, B, then others) and their numbers.

    They are the `Claim` objects of this package's modules, all of which are imported, also those in a list
    `ROWS`.
    """
    claims: dict[str, Claim] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name != Path(__file__).stem:
            names = vars(importlib.import_module(f"{__package__}.{module.name}"))
            values = (*names.values(), *names.get("ROWS", ()))
            claims |= {value.id: value for value in values if isinstance(value, Claim)}

    def order(claim: Claim) -> tuple[int, str, int]:
        """Return the sort key of a claim: (rank of its letter, letter, number)."""
        letter, number = claim.id[0], int(claim.id[1:])
        return _FIRST_LETTERS.find(letter) % 26, letter, number

    return tuple(sorted(claims.values(), key=order))


CLAIMS: tuple[Claim, ...] = _load_claims()


@as_annotated
def select_claims(ids: Iterable[str] | None = None, source: str | None = None) -> tuple[Claim, ...]:
    """Return the claims with these ids, or of this source, in the order of the ledger; all if not given.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids such as ``"C6"``.
    source : str, optional
        Short name of a source, such as ``"cowsik2024"``.

    Examples
    --------
    >>> [claim.id for claim in select_claims(["C6", "C1"])]
    ['C1', 'C6']
    """
    known = [claim.id for claim in CLAIMS]
    wanted = set(known) if ids is None else set(ids)
    for name in wanted.difference(known):
        close = [id for id in known if id.lower() == str(name).strip().lower()]
        meant = f" (did you mean {close[0]}?)" if close else ""
        rule = f"one of {stored_verdicts.id_ranges(known)}"
        raise ValueError(f"`id` must be {rule}; got {short_repr(name)}{meant}.")
    if source is not None:
        choice("source", source, sorted({claim.source for claim in CLAIMS}))
    return tuple(claim for claim in CLAIMS if claim.id in wanted and source in (None, claim.source))


@as_annotated
def judge(claim: Claim, results: ResultCache) -> CheckedClaim:
    """Run the check of a claim on the datasets that it needs; return the claim with the evidence.

    `results` gives the dataset of a run by its name, and runs it if it is not stored. If the check raises an
    error, the claim is not judged, and the evidence is the error's text. If an experiment needs PyTorch and
    there is none, the evidence is the stored one; without any the claim is not judged. If a disk or memory is
    full, the error is raised.
    """
    start = time.perf_counter()
    missing = [name for name in claim.needs if not results.is_available(name)]
    if missing:
        stored_rows = read_stored([claim.id])
        if stored_rows:
            return stored_rows[0]
        how = "pip install -e '.[torch]' in the checkout"
        return _not_judged(claim, f"{', '.join(missing)} needs PyTorch ({how})", start)
    try:
        evidence = claim.check(results.profile == "quick", *(results[name] for name in claim.needs))
        checked = CheckedClaim(claim, evidence, time.perf_counter() - start)
        needs_correction = {*WRONG, Verdict.UP_TO_CONSTANTS} - {Verdict.WRONG}
        if checked.verdict in needs_correction and not evidence.corrections:
            raise ValueError(
                f"`corrections` of {claim.id} must say what is true instead, as its evidence gives the "
                f"verdict {str(checked.verdict)!r}; got none."
            )
    except (OSError, MemoryError):
        raise
    except Exception as error:  # one check must not take the others along
        return _not_judged(claim, f"{type(error).__name__}: {error}", start)
    return checked


def _not_judged(claim: Claim, why: str, start: float) -> CheckedClaim:
    """Return the row of a claim that could not be judged, with the reason `why` and the seconds it took.

    `start` is the value of `time.perf_counter` at the start; the evidence has no findings.
    """
    return CheckedClaim(claim, Evidence(f"Not judged: {why}.", []), time.perf_counter() - start, why)


@as_annotated
def read_stored(
    ids: Iterable[str] | None = None, source: str | None = None, verdict: str | None = None
) -> tuple[CheckedClaim, ...]:
    """Return the selected claims with their stored evidence, as last judged; nothing is run.

    Parameters
    ----------
    ids, source : optional
        Ids of claims, such as ``"C6"``, or the short name of a source; all claims by default, as in
        `select_claims`.
    verdict : str, optional
        Only rows with this verdict.

    Examples
    --------
    >>> [row.claim.id for row in read_stored(["C1", "C21"], verdict="misprint")]
    ['C21']
    """
    _check_verdict(verdict)
    selected = {claim.id: claim for claim in select_claims(ids, source)}
    records = stored_verdicts.read(selected)
    rows = (from_record(claim, records[id]) for id, claim in selected.items() if id in records)
    return tuple(row for row in rows if verdict in (None, row.verdict))


@as_annotated
def store(rows: Iterable[CheckedClaim], day: str, *, path: Path = stored_verdicts.PATH) -> None:
    """Write `rows`, judged on `day`, to the file `path`, in place of stored rows of the same ids.

    `day` is a date such as ``"2026-11-24"``.
    """
    records = []
    for row in rows:
        if row.trouble:
            raise ValueError(f"`rows` must be judged; got {row.claim.id}: {row.trouble}.")
        records.append(as_record(replace(row, checked_on=day)))
    stored_verdicts.store(records, [claim.id for claim in CLAIMS], path=path)


def _check_verdict(verdict: str | None) -> None:
    """Raise ValueError unless `verdict` is the name of a verdict, or None."""
    if verdict is not None:
        choice("verdict", verdict, [str(v) for v in Verdict])


@as_annotated
def read_or_judge(results: ResultCache, id: str) -> dict[str, Any]:
    """Return the row of claim `id` as data for JSON: statement, verdict and evidence by name.

    The row is read from the cache `results`, or else judged and stored there, unless the check failed.
    """
    (claim,), name = select_claims([id]), f"claim-{id}"
    record: dict[str, Any] | None = results.read_note(name, claim.needs)
    if record is None:
        checked = judge(claim, results)
        record = as_record(checked)
        if not checked.trouble:
            results.store_note(name, claim.needs, record)
    return record


@as_annotated
def run(
    ids: Iterable[str] | None = None,
    source: str | None = None,
    verdict: str | None = None,
    quick: bool = True,
    jobs: int = 1,
    progress: Callable[[CheckedClaim], None] | None = None,
    *,
    data: str | Path | None = None,
) -> tuple[CheckedClaim, ...]:
    """Judge claims and return the rows of the ledger, in its order.

    Experiments run at seed 0, and every check has its own seed, so the rows do not depend on `jobs` or on the
    selection.

    Parameters
    ----------
    ids, source : optional
        Ids of claims, such as ``"C6"``, or the short name of a source; all claims by default, as in
        `select_claims`.
    verdict : str, optional
        Judge only rows whose stored verdict is this one or missing, and return those that have this verdict
        now.
    quick : bool, optional
        Small sizes (about three minutes on one core for everything) or larger ones.
    jobs : int, optional
        Number of processes.
    progress : callable, optional
        Called in this process with each row as soon as it is judged.
    data : str or Path, optional
        Folder of a report: stored runs and rows are read from it, new ones written to it.

    Returns
    -------
    tuple of CheckedClaim

    Examples
    --------
    >>> [row.claim.id for row in run(["C1", "C21"], verdict="misprint")]
    ['C21']
    """
    _check_verdict(verdict)
    selected = {f"claim {claim.id}": claim for claim in select_claims(ids, source)}
    if verdict is not None:
        records = stored_verdicts.read(claim.id for claim in selected.values())
        others = {id for id, record in records.items() if record["verdict"] != verdict}
        selected = {name: claim for name, claim in selected.items() if claim.id not in others}
    rows: dict[str, CheckedClaim] = {}

    def on_done(task: Task, record: dict[str, Any] | None, seconds: float) -> None:
        """Store the row of a finished task, from its `record`, and pass it to `progress`.

        The task's `seconds` are not used.
        """
        if record is not None:  # else it is a piece of a run
            rows[task.name] = from_record(selected[task.name], record)
            if progress is not None:
                try:
                    progress(rows[task.name])
                except Exception as error:
                    error.add_note(f"Raised by `progress` at the row {selected[task.name].id}.")
                    raise

    with cache_folder(data=data) as folder:
        results = ResultCache(folder, "quick" if quick else "full")
        works = [DataTask(name, read_or_judge, claim.needs, (claim.id,)) for name, claim in selected.items()]
        run_tasks(plan_tasks(results, works), jobs, on_done)
    return tuple(rows[name] for name in selected if verdict in (None, rows[name].verdict))
