"""The ledger: every claim of every source, and the run that judges them."""

import importlib
import pkgutil
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...theory.arguments import choice
from ..laboratory import Lab, schedule
from ..tasks import Task, perform
from .ledger import Checked, Claim, Evidence, Finding, Statement, Verdict

# All modules of this room hold rows, each in a name of its own or some in `ROWS`; a further source adds its
# letter below.
_HELD = [
    vars(importlib.import_module(f"{__package__}.{module.name}"))
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if module.name != Path(__file__).stem
]
_ROWS = {
    row.id: row for held in _HELD for row in (*held.values(), *held.get("ROWS", ())) if isinstance(row, Claim)
}
CLAIMS: tuple[Claim, ...] = tuple(
    sorted(_ROWS.values(), key=lambda claim: ("LCBEOPU".index(claim.id[0]), int(claim.id[1:])))
)


def select(ids: Iterable[str] | None = None, source: str | None = None) -> tuple[Claim, ...]:
    """Return the claims with these ids, or of this source, in the order of the ledger; all if not given.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids such as ``"C6"``.
    source : str, optional
        Short name of a source, such as ``"cowsik2024"``.

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


def judge(claim: Claim, lab: Lab) -> Checked:
    """Run the check of one claim, with the datasets that it needs.

    Where an experiment needs PyTorch and there is none, the row stays open and says so.

    Raises
    ------
    ValueError
        If the evidence asks for a correction or a constant and gives none.
    """
    start = time.perf_counter()
    missing = [name for name in claim.needs if not lab.available(name)]
    if missing:
        how = "pip install -e '.[torch]' in the checkout"
        said = f"Not judged here: {', '.join(missing)} needs PyTorch ({how})."
        return Checked(claim, Evidence(said, []), time.perf_counter() - start)
    data = [lab[name] for name in claim.needs]
    checked = Checked(claim, claim.check(lab.profile == "quick", *data), time.perf_counter() - start)
    if checked.verdict in (Verdict.CORRECTED, Verdict.ORDER_ONLY) and not checked.evidence.corrections:
        raise ValueError(
            f"`corrections` of {claim.id} must say what is true instead, as its evidence gives the verdict "
            f"{str(checked.verdict)!r}; got none."
        )
    return checked


def judge_or_recall(folder: Path, profile: str, seed: int, id: str) -> tuple[Evidence, float]:
    """Return the evidence of a row and the seconds that its check took, from an earlier run if it is kept."""
    (claim,), lab, name = select([id]), Lab(folder, profile, seed), f"claim-{id}"
    row = lab.kept(name, claim.needs)
    if row is None:
        checked = judge(claim, lab)
        lab.keep(name, claim.needs, asdict(checked.evidence) | {"seconds": checked.seconds})
        return checked.evidence, checked.seconds  # a claim holds its check, which cannot be sent back

    def findings(kept: Iterable[dict[str, Any]]) -> list[Finding]:
        return [Finding(**one) for one in kept]

    said = [Statement(one["text"], findings(one["findings"])) for one in row["corrections"]]
    return Evidence(row["text"], findings(row["printed"]), row["numbers"], said), row["seconds"]


def run(
    ids: Iterable[str] | None = None,
    source: str | None = None,
    verdict: str | None = None,
    quick: bool = True,
    jobs: int = 1,
    progress: Callable[[Checked], None] | None = None,
) -> tuple[Checked, ...]:
    """Judge claims and return the rows of the ledger, in its order.

    Experiments run at seed 0, and every check is seeded by itself, so the rows do not depend on `jobs` or on
    the selection.

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

    Examples
    --------
    >>> [row.claim.id for row in run(["C1", "C21"], verdict="holds with a correction")]
    ['C21']
    """
    if verdict is not None:
        choice("verdict", verdict, [str(v) for v in Verdict])
    chosen = {f"claim {claim.id}": claim for claim in select(ids, source)}
    rows: dict[str, Checked] = {}

    def reached(task: Task, found: tuple[Evidence, float] | None, seconds: float) -> None:
        if found is not None:
            rows[task.name] = Checked(chosen[task.name], *found)
            if progress is not None:
                progress(rows[task.name])

    with TemporaryDirectory() as folder:
        lab = Lab(Path(folder), "quick" if quick else "full")
        works = [(name, judge_or_recall, claim.needs, (claim.id,)) for name, claim in chosen.items()]
        perform(schedule(lab, works), jobs, reached)
    return tuple(rows[name] for name in chosen if verdict in (None, rows[name].verdict))
