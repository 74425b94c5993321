"""The HTML of the report: one page that loads nothing, readable on phones, on paper and on dark screens."""

import html
import inspect
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .claims import Checked, Verdict

__all__ = ["badges", "ledger", "page", "paragraphs", "slug", "table"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b6470; --paper: #fdfdfc; --line: #d9dde2;
  --card: #f3f4f6; --link: #0b5cad; --holds: #00664b; --corrected: #7a5200; --fails: #a82c00;
  --order: #0b5394; --open: #5b6470; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #a4adb8; --paper: #14171a;
  --line: #363c43; --card: #1e2226; --link: #7db7f0; --holds: #4ecb9f; --corrected: #e8b44a;
  --fails: #ff8f66; --order: #7db7f0; --open: #a4adb8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 1rem 0 0.3rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.5rem; border-bottom: 1px solid var(--line);
  padding-bottom: 0.25rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 0.4rem; }
a { color: var(--link); }
p, figcaption { max-width: 46rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; margin: 0.6rem 0; }
figure { margin: 1.2rem 0 1.8rem; }
figcaption, .soft { color: var(--soft); font-size: 0.93rem; }
.plot { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: 0.5rem;
  overflow-x: auto; }
.plot svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.93rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.9rem 0.3rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
caption { caption-side: top; text-align: left; font-weight: 600; padding: 0.3rem 0; }
code, pre { font: 0.86rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--card); padding: 0.7rem; border-radius: 6px; overflow-x: auto; }
summary { cursor: pointer; }
.counts { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0.8rem 0; padding: 0; list-style: none; }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 999px;
  padding: 0.05rem 0.65rem; font-size: 0.88rem; font-weight: 600; white-space: nowrap; }
.holds { color: var(--holds); } .holds-with-a-correction { color: var(--corrected); }
.fails { color: var(--fails); } .order-only { color: var(--order); } .open { color: var(--open); }
.filters { display: flex; flex-wrap: wrap; gap: 0.5rem 1.2rem; align-items: end; margin: 0.8rem 0; }
.filters label { display: flex; flex-direction: column; font-size: 0.88rem; color: var(--soft); }
select, input { font: inherit; padding: 0.25rem 0.4rem; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 5px; }
#claims { width: 100%; table-layout: fixed; overflow-wrap: anywhere; }
#claims > thead th:nth-child(1) { width: 3.2rem; } #claims > thead th:nth-child(2) { width: 9rem; }
#claims > thead th:nth-child(4) { width: 13rem; }
#claims details > div { margin: 0.5rem 0 0.8rem; padding-left: 0.9rem; border-left: 3px solid var(--line); }
#claims details details { margin-top: 0.5rem; }
@media (max-width: 44rem) {
  #claims, #claims > tbody, #claims > tbody > tr, #claims > tbody > tr > td { display: block; }
  #claims > thead { display: none; }
  #claims > tbody > tr > td { border: 0; padding: 0.1rem 0; }
  #claims > tbody > tr { border-bottom: 1px solid var(--line); padding: 0.6rem 0; }
  .wide svg { max-width: none; width: 46rem; }
}
[hidden] { display: none !important; }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav, .filters, .code { display: none; }
  figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } }
"""

_SCRIPT = """
const rows = [...document.querySelectorAll('#claims > tbody > tr')];
const field = name => document.getElementById('filter-' + name);
function filter() {
  const verdict = field('verdict').value, source = field('source').value;
  const words = field('words').value.toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const fits = (!verdict || row.dataset.verdict === verdict) && (!source || row.dataset.source === source)
      && row.textContent.toLowerCase().includes(words);
    row.hidden = !fits;
    shown += fits;
  }
  document.getElementById('shown').textContent = shown + ' of ' + rows.length + ' claims';
}
for (const name of ['verdict', 'source', 'words']) field(name).addEventListener('input', filter);
filter();
const evidence = document.querySelectorAll('details:not(.code)');
addEventListener('beforeprint', () => evidence.forEach(d => d.open = true));
"""


_NUMBER = " class='number'"


def slug(text: str) -> str:
    """Return a name that can be a CSS class, an anchor and a file name.

    Examples
    --------
    >>> slug("Holds with a correction")
    'holds-with-a-correction'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def _cell(value: Any) -> tuple[str, bool]:
    """Return a table cell as text, and whether it is a number."""
    if value is None or isinstance(value, bool | str):
        return html.escape("" if value is None else str(value)), False
    if hasattr(value, "item"):
        value = value.item()
    return (str(value) if isinstance(value, int) else f"{value:.4g}"), True


def paragraphs(text: str) -> str:
    """Return plain text as HTML, a paragraph for each block between empty lines."""
    blocks = [" ".join(block.split()) for block in textwrap.dedent(text).split("\n\n")]
    return "\n".join(f"<p>{html.escape(block)}</p>" for block in blocks if block)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return a table; numbers are aligned right and shown with four digits.

    Examples
    --------
    >>> "<td class='number'>0.3333</td>" in table("", ["x"], [[1 / 3]])
    True
    """
    body = []
    numeric = [False] * len(columns)
    for row in rows:
        cells = [_cell(value) for value in row]
        numeric = [old or number for old, (_, number) in zip(numeric, cells, strict=True)]
        body.append("".join(f"<td{_NUMBER if number else ''}>{text}</td>" for text, number in cells))
    head = "".join(
        f"<th scope='col'{_NUMBER if number else ''}>{html.escape(column)}</th>"
        for column, number in zip(columns, numeric, strict=True)
    )
    heading = f"<caption>{html.escape(title)}</caption>" if title else ""
    lines = "\n".join(f"<tr>{line}</tr>" for line in body)
    note = f"<p class='soft'>{html.escape(caption)}</p>" if caption else ""
    return (
        f"<div class='scroll'><table>{heading}<thead><tr>{head}</tr></thead>\n"
        f"<tbody>{lines}</tbody></table></div>{note}"
    )


def badges(counts: Mapping[Verdict, int]) -> str:
    """Return the numbers of claims by verdict."""
    items = "".join(
        f"<li class='badge {slug(verdict)}'>{count} {html.escape(str(verdict))}</li>"
        for verdict, count in counts.items()
    )
    return f"<ul class='counts'>{items}</ul>"


def _evidence(row: Checked) -> str:
    parts = [paragraphs(row.evidence.text)]
    if row.evidence.findings:
        parts.append(
            table(
                "",
                ["about", "kind", "computed", "value", "must be", "kept"],
                [
                    (
                        f.about,
                        f.label,
                        f.text,
                        float(f.value),
                        f"{f.relation} {f.limit:.4g}",
                        "yes" if f.passed else "no",
                    )
                    for f in row.evidence.findings
                ],
            )
        )
    if row.evidence.numbers:
        parts.append(
            table("", ["further number", "value"], [(k, float(v)) for k, v in row.evidence.numbers.items()])
        )
    code = html.escape(textwrap.dedent(inspect.getsource(row.claim.check)))
    parts.append(f"<details class='code'><summary>the check</summary><pre>{code}</pre></details>")
    return "".join(parts)


def _row(row: Checked) -> str:
    claim, correction = row.claim, ""
    if row.correction:
        head = "With the constants" if row.verdict is Verdict.ORDER_ONLY else "True instead"
        correction = f"<p><strong>{head}:</strong> {html.escape(row.correction)}</p>"
    return (
        f"<tr id='{slug(claim.id)}' data-verdict='{row.verdict}' data-source='{html.escape(claim.source)}'>"
        f"<td>{html.escape(claim.id)}</td>"
        f"<td>{html.escape(claim.source)}, {html.escape(claim.where)}</td>"
        f"<td><details><summary>{html.escape(claim.statement)}</summary>"
        f"<div>{correction}{_evidence(row)}</div></details></td>"
        f"<td><span class='badge {slug(row.verdict)}'>{row.verdict}</span></td></tr>"
    )


def ledger(rows: Sequence[Checked]) -> str:
    """Return the ledger as a table with filters; each row opens to its evidence and its check."""

    def options(values: Iterable[str]) -> str:
        return "<option value=''>all</option>" + "".join(f"<option>{html.escape(v)}</option>" for v in values)

    verdicts = [str(v) for v in Verdict if any(row.verdict is v for row in rows)]
    sources = sorted({row.claim.source for row in rows})
    return (
        "<div class='filters'>"
        f"<label>verdict<select id='filter-verdict'>{options(verdicts)}</select></label>"
        f"<label>source<select id='filter-source'>{options(sources)}</select></label>"
        "<label>words<input id='filter-words' type='search'></label>"
        "<span id='shown' class='soft' aria-live='polite'></span></div>"
        "<table id='claims'><thead><tr><th scope='col'>id</th><th scope='col'>where</th>"
        "<th scope='col'>statement as printed</th><th scope='col'>verdict</th></tr></thead>\n<tbody>"
        + "\n".join(_row(row) for row in rows)
        + f"</tbody></table>\n<script>{_SCRIPT}</script>"
    )


def page(title: str, lead: str, parts: Sequence[tuple[str, str]]) -> str:
    """Return the page with these parts, each a heading and its HTML, and links to them at the top."""
    links = "".join(f"<a href='#{slug(heading)}'>{html.escape(heading)}</a>" for heading, _ in parts)
    sections = "\n".join(
        f"<section id='{slug(heading)}'><h2>{html.escape(heading)}</h2>\n{body}\n</section>"
        for heading, body in parts
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<header><h1>{html.escape(title)}</h1>{paragraphs(lead)}<nav>{links}</nav></header>\n"
        f"<main>{sections}</main></body></html>\n"
    )
