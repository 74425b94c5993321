"""The ledger: every claim of every source, and the run that judges them."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from ...theory.arguments import choice, integer
from . import cowsik, elhage, lecomte, notes
from .ledger import Checked, Claim, Evidence, Verdict, verdict

__all__ = ["CLAIMS", "judge", "run", "select"]

# A further source adds its module's tuple here.
CLAIMS: tuple[Claim, ...] = (*lecomte.CLAIMS, *cowsik.CLAIMS, *notes.CLAIMS, *elhage.CLAIMS)


def select(ids: Iterable[str] | None = None, source: str | None = None) -> tuple[Claim, ...]:
    """Return the claims with these ids, or of this source, in the order of the ledger.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids such as ``"C6"``; all if not given.
    source : str, optional
        Short name of a source, such as ``"cowsik2024"``; all if not given.

    Raises
    ------
    ValueError
        If an id or the source is not in the ledger.

    Examples
    --------
    >>> [claim.id for claim in select(["C6", "C1"])]
    ['C1', 'C6']
    """
    known = {claim.id: claim for claim in CLAIMS}
    wanted = set(known) if ids is None else {choice("id", name, tuple(known)) for name in ids}
    if source is not None:
        choice("source", source, sorted({claim.source for claim in CLAIMS}))
    return tuple(c for c in CLAIMS if c.id in wanted and source in (None, c.source))


def judge(claim: Claim, quick: bool = True) -> Checked:
    """Run the check of one claim and read the verdict off its evidence.

    Raises
    ------
    ValueError
        If the evidence asks for a correction or a constant and the claim states none.

    Examples
    --------
    >>> str(judge(select(["C1"])[0]).verdict)
    'holds'
    """
    start = time.perf_counter()
    evidence = claim.check(quick)
    checked = Checked(claim, evidence, verdict(evidence), time.perf_counter() - start)
    if checked.verdict in (Verdict.CORRECTED, Verdict.ORDER_ONLY) and not claim.correction:
        raise ValueError(
            f"`correction` of {claim.id} must say what is true instead, as its evidence gives the "
            f"verdict {str(checked.verdict)!r}; got {claim.correction!r}."
        )
    return checked


def _judge_by_id(id: str, quick: bool) -> tuple[Evidence, Verdict, float]:
    row = judge(select([id])[0], quick)
    return row.evidence, row.verdict, row.seconds  # a claim holds its check, which cannot be sent back


def run(
    ids: Iterable[str] | None = None,
    source: str | None = None,
    verdict: str | None = None,
    quick: bool = True,
    jobs: int = 1,
    progress: Callable[[Checked], None] | None = None,
) -> tuple[Checked, ...]:
    """Judge claims and return the rows of the ledger, in its order.

    Every check is seeded by itself, so the rows do not depend on `jobs` or on the selection.

    Parameters
    ----------
    ids, source : optional
        As in `select`.
    verdict : str, optional
        Return only rows with this verdict (all selected claims are judged nevertheless).
    quick : bool, optional
        Small sizes (about three minutes on one core for everything) or larger ones.
    jobs : int, optional
        Number of processes.
    progress : callable, optional
        Called in this process with each row as soon as it is there.

    Returns
    -------
    tuple of Checked

    Raises
    ------
    ValueError
        If an id, the source or the verdict is unknown, or `jobs` is not a positive integer.

    Examples
    --------
    >>> [row.claim.id for row in run(["C1", "C21"], verdict="holds with a correction")]
    ['C21']
    """
    if verdict is not None:
        choice("verdict", verdict, [str(v) for v in Verdict])
    jobs = integer("jobs", jobs, 1)
    claims = select(ids, source)
    rows: list[Checked] = []
    for row in _judged(claims, quick, jobs):
        if progress is not None:
            progress(row)
        rows.append(row)
    return tuple(row for row in rows if verdict in (None, row.verdict))


def _judged(claims: Sequence[Claim], quick: bool, jobs: int) -> Iterable[Checked]:
    if jobs == 1:
        yield from (judge(claim, quick) for claim in claims)
        return
    # A fresh interpreter for each worker: a forked one may inherit locks of torch's or Numba's threads.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        results = pool.map(_judge_by_id, [claim.id for claim in claims], [quick] * len(claims))
        yield from (Checked(claim, *result) for claim, result in zip(claims, results, strict=True))
