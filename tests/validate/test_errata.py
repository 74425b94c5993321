"""The errata as Markdown: which rows, how they are counted, and that a parser sees what was meant."""

from html import escape

import pytest

from superposition.validate import ledger
from superposition.validate.ledger import WRONG, CheckedClaim, Claim, Evidence, Finding, Verdict
from superposition.validate.ledger.claim import corrected_statement
from superposition.validate.report import page

markdown_it = pytest.importorskip("markdown_it", reason="the parser comes with rich")


def finding(about, passed=True):
    return Finding(about, "numeric", "gap", 0.0 if passed else 1.0, "<=", 0.0)


# Findings that give each verdict, beside those that the sentence of a correction rests on.
EVIDENCE = {
    "holds": ([finding("printed")], "corrected"), "wrong": ([finding("printed", False)], "corrected"),
    "holds, up to constants": ([], "order"), "misprint": ([finding("printed", False)], "corrected"),
    "open": ([], ""), "question, answered": ([finding("answer")], "answer"),
    "unsettled: a finding fails": ([finding("printed"), finding("answer", False)], "answer"),
    "unsettled: too few runs": ([finding("printed"), finding("runs", False)], "corrected"),
}  # fmt: skip


def row(id, verdict, statement="1 = 2", correction="1 = 1", source="nobody2000", where="Eq. 1"):
    printed, about = EVIDENCE[verdict]
    said = [corrected_statement(correction, finding(about))] if about and correction else []
    fault = Verdict(verdict) if verdict in WRONG else Verdict.WRONG
    claim = Claim(id, source, where, statement, lambda quick: Evidence("", []))
    checked = CheckedClaim(claim, Evidence("", printed, corrections=said, fault=fault), 0.0)
    assert str(checked.verdict) == verdict
    return checked


def tables(markdown):
    """Return the tables of a text, the rows of each, their cells as HTML, as a parser of Markdown does."""
    found = []
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for token in parser.parse(markdown):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and found and token.level > 2:
            kinds = {child.type for child in token.children}
            assert kinds <= {"text", "html_inline", "text_special"}, kinds
            cell = [(child.content, child.type == "html_inline") for child in token.children]
            found[-1][-1].append("".join(text if html else escape(text, quote=False) for text, html in cell))
    return found


MIXED = [
    row("X1", "holds"), row("X2", "misprint", correction="1 = 1"),
    row("X3", "holds, up to constants", correction="the constant is 2"), row("X4", "wrong", correction=""),
    row("X5", "open"), row("X6", "question, answered"),
    row("X7", "unsettled: a finding fails", correction="one half says so"),
    row("X8", "unsettled: too few runs", correction="one seed says so"),
]  # fmt: skip


def test_rows_are_sorted_into_tables_by_their_verdict():
    text = page.errata([*MIXED, row("Y1", "holds", source="notes2022")])
    wrong, constants = tables(text)
    assert [cells[0] for cells in wrong] == ["", "X2", "X4"]
    assert [cells[0] for cells in constants] == ["", "X3"]
    assert wrong[1] == ["X2", "Eq. 1", "1 = 2", "misprint", "1 = 1"]
    assert constants[1][-1] == "the constant is 2"
    # Without a correction there is the counterexample.
    assert wrong[2][-1] == "false: <code>superposition claims --id X4 --evidence</code>"
    assert "says so" not in text  # of what is not decided
    assert "<b>nobody2000</b>, 8 statements: 1 misprint, 1 wrong, 3 not decided</summary>" in text
    assert page.errata([]) == ""
    assert "1 = 1" not in page.errata([row("X1", "holds")])


def test_a_cell_is_what_the_page_of_the_report_shows():
    texts = [
        "|W_i|^2 <= sum_{j!=i} |W_j|^2 and a \\| b",
        "2 *x* _y_ __z__ `code_name | x` and a lone ` here",
        "[link](x) ~~no~~ ~ p^2/r ~ $x$ <b> & &amp; <!-- x -->",
        "E(|x|-zeta)_+^k, W_j'^2, d'_x, run_fig3_x",
        *(claim.statement for claim in ledger.CLAIMS),
    ]
    rows = [row(f"X{k}", "wrong", text, text) for k, text in enumerate(texts)]
    found = [cells for table in tables(page.errata(rows)) for cells in table[1:]]
    for cells, text in zip(found, texts, strict=True):
        assert len(cells) == 5
        assert cells[2] == cells[4] == page.formulas(text)
