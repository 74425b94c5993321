"""The ledger of claims as an HTML table, with sorting, filters and rows that open."""

import inspect
import textwrap
from collections.abc import Collection
from typing import Any

from markupsafe import Markup

from ....theory.annotations import as_annotated
from ...ledger import CheckedClaim, Finding, Verdict
from .document import render


@as_annotated
def ledger(rows: Collection[CheckedClaim]) -> Markup:
    """Return the ledger's HTML: a table with filters, whose rows open to their evidence and check."""
    verdicts = [verdict for verdict in Verdict if any(row.verdict is verdict for row in rows)]
    sources = sorted({row.claim.source for row in rows})
    evidence = [(row, _evidence(row)) for row in rows]
    return render("ledger.html", rows=evidence, verdicts=verdicts, sources=sources, Verdict=Verdict)


def _evidence(row: CheckedClaim) -> dict[str, Any]:
    """Return what is shown below a claim, `row`: cells of its findings and numbers, code of its check."""
    return {
        "findings": [_finding_cells(finding) for finding in row.evidence.findings],
        "numbers": [(name, float(value)) for name, value in row.evidence.numbers.items()],
        "code": textwrap.dedent(inspect.getsource(row.claim.check)),
    }


def _finding_cells(f: Finding) -> tuple[str | float, ...]:
    """Return the cells of a finding's row in the table of evidence.

    In order: statement tested, kind, text, value, limit, whether kept, origin, basis of the limit, chance.
    """
    relation, passed = f"{f.relation} {f.limit:.4g}", "yes" if f.passed else "no"
    return f.about, f.label, f.text, float(f.value), relation, passed, f.origin, f.limit_set, f.chance
