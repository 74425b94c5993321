"""The ledger of claims as an HTML table, with sorting, filters and rows that open."""

import html
import inspect
import textwrap
from collections.abc import Collection, Iterable

from ....theory.annotations import as_annotated
from ...ledger import CheckedClaim, Finding, Verdict
from .text import formulas, paragraphs, slug, table

_COLUMNS = ("id", "where", "statement as printed", "verdict")


@as_annotated
def ledger(rows: Collection[CheckedClaim]) -> str:
    """Return the ledger's HTML: a table with filters, whose rows open to their evidence and check."""

    def options(values: Iterable[str]) -> str:
        """Return the HTML options of a filter, `values` and all."""
        return "<option value=''>all</option>" + "".join(f"<option>{html.escape(v)}</option>" for v in values)

    verdicts = [str(v) for v in Verdict if any(row.verdict is v for row in rows)]
    sources = sorted({row.claim.source for row in rows})
    head = "".join(f"<th scope='col'><button type='button'>{name}</button></th>" for name in _COLUMNS)
    # Without scripts the page shows the whole ledger, and no controls that do nothing.
    return (
        "<div class='filters' hidden>"
        f"<label>verdict<select id='filter-verdict'>{options(verdicts)}</select></label>"
        f"<label>source<select id='filter-source'>{options(sources)}</select></label>"
        "<label>words<input id='filter-words' type='search'></label>"
        "<button type='button' id='open-rows'>open all shown</button>"
        "<span id='shown' class='soft' role='status'></span></div>"
        f"<table id='claims'><thead><tr>{head}</tr></thead>\n<tbody>"
        + "\n".join(_render_row(row) for row in rows)
        + "</tbody></table>"
    )


@as_annotated
def judged_on(rows: Collection[CheckedClaim]) -> str:
    """Return an HTML paragraph of the rows' verdicts, each a link into the ledger; "" without rows."""
    if not rows:
        return ""
    links = ", ".join(
        f"<a href='#{slug(row.claim.id)}'>{html.escape(row.claim.id)}</a> "
        f"<span class='{slug(row.verdict)}'>{row.verdict}</span>"
        for row in rows
    )
    return f"<p class='soft'>Decided in the ledger: {links}.</p>"


def _render_row(row: CheckedClaim) -> str:
    """Return the HTML row of a claim, with its evidence to unfold."""
    claim, correction = row.claim, ""
    if row.correction:
        head = "With the constants" if row.verdict is Verdict.UP_TO_CONSTANTS else "True instead"
        correction = f"<p><strong>{head}:</strong> {formulas(row.correction)}</p>"
    # The search is in plain text; the formulas on the page have other letters.
    words = html.escape(f"{claim.statement} {row.correction or ''} {row.evidence.text}")
    return (
        f"<tr id='{slug(claim.id)}' data-verdict='{row.verdict}' data-source='{html.escape(claim.source)}' "
        f"data-words='{words}'>"
        f"<td><a href='#{slug(claim.id)}'>{html.escape(claim.id)}</a></td>"
        f"<td>{html.escape(claim.source)}, {html.escape(claim.where)}</td>"
        f"<td><details><summary>{formulas(claim.statement)}</summary>"
        f"<div>{correction}{_render_evidence(row)}</div></details></td>"
        f"<td data-sort='{list(Verdict).index(row.verdict)}'>"
        f"<span class='badge {slug(row.verdict)}'>{row.verdict}</span></td></tr>"
    )


def _finding_cells(f: Finding) -> tuple[str | float, ...]:
    """Return the cells of a finding's row in the table of evidence.

    In order: statement tested, kind, text, value, limit, whether kept, origin, basis of the limit, chance.
    """
    relation, passed = f"{f.relation} {f.limit:.4g}", "yes" if f.passed else "no"
    return f.about, f.label, f.text, float(f.value), relation, passed, f.origin, f.limit_set, f.chance


def _render_evidence(row: CheckedClaim) -> str:
    """Return the HTML of the argument, findings, numbers and code of a claim, `row`."""
    parts = [paragraphs(row.evidence.text)]
    if row.evidence.findings:
        columns = ["about", "kind", "computed", "value", "must be", "kept", "origin", "limit", "chance"]
        parts.append(table("", columns, map(_finding_cells, row.evidence.findings)))
    if row.evidence.numbers:
        numbers = [(name, float(value)) for name, value in row.evidence.numbers.items()]
        parts.append(table("", ["further number", "value"], numbers))
    check = row.claim.check
    where = f"{check.__module__}:{check.__qualname__}"
    code = html.escape(textwrap.dedent(inspect.getsource(check)))
    parts.append(
        f"<p class='soft'>Checked in {row.seconds:.1f} s by <code>{where}</code>; "
        f"to repeat: <code>superposition claims --id {html.escape(row.claim.id)} --evidence</code></p>"
        f"<details class='code'><summary>code of the check</summary><pre tabindex='0'>{code}</pre></details>"
    )
    return "".join(parts)
