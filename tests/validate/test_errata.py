"""The errata as Markdown: which rows, how they are counted, and that a parser sees what was meant."""

from html import escape
from pathlib import Path

import pytest

from superposition.validate import cli, ledger
from superposition.validate.ledger import MEANINGS, WRONG, CheckedClaim, Claim, Evidence, Finding, Verdict
from superposition.validate.ledger.claim import corrected_statement
from superposition.validate.report import page

markdown_it = pytest.importorskip("markdown_it", reason="the parser comes with rich")


def finding(about, passed=True):
    return Finding(about, "numeric", "gap", 0.0 if passed else 1.0, "<=", 0.0)


# Findings that give each verdict, beside those that the sentence of a correction rests on.
EVIDENCE = {
    "holds": ([finding("printed")], "corrected"),
    "wrong": ([finding("printed", False)], "corrected"),
    "holds, up to constants": ([], "order"),
    "misprint": ([finding("printed", False)], "corrected"),
    "open": ([], ""),
    "question, answered": ([finding("answer")], "answer"),
    "unsettled: a finding fails": ([finding("printed"), finding("answer", False)], "answer"),
    "unsettled: too few runs": ([finding("printed"), finding("runs", False)], "corrected"),
}


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
    found, row = [], None
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for token in parser.parse(markdown):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            row = []
            found[-1].append(row)
        elif token.type == "inline" and row is not None:
            kinds = {child.type for child in token.children}
            assert kinds <= {"text", "html_inline", "text_special"}, kinds
            row.append(
                "".join(
                    child.content if child.type == "html_inline" else escape(child.content, quote=False)
                    for child in token.children
                )
            )
        elif token.type == "table_close":
            row = None
    return found


MIXED = [
    row("X1", "holds"),
    row("X2", "misprint", correction="1 = 1"),
    row("X3", "holds, up to constants", correction="the constant is 2"),
    row("X4", "wrong", correction=""),
    row("X5", "open"),
    row("X6", "question, answered"),
    row("X7", "unsettled: a finding fails", correction="one half says so"),
    row("X8", "unsettled: too few runs", correction="one seed says so"),
]


def test_rows_are_sorted_into_tables_by_their_verdict():
    text = page.errata(MIXED)
    wrong, constants = tables(text)
    assert [cells[0] for cells in wrong] == ["", "X2", "X4"]
    assert [cells[0] for cells in constants] == ["", "X3"]
    assert wrong[1] == ["X2", "Eq. 1", "1 = 2", "misprint", "1 = 1"]
    assert constants[1][-1] == "the constant is 2"
    # Without a correction there is the counterexample.
    assert wrong[2][-1] == "false: <code>superposition claims --id X4 --evidence</code>"
    summary = "8 statements: 1 misprint, 1 wrong, 3 not decided"
    last = "Not decided: X5 (open), X7 (unsettled: a finding fails), X8 (unsettled: too few runs)."
    assert last in text
    assert "says so" not in text
    assert f"<summary><b>nobody2000</b>, {summary}</summary>" in text
    # What holds up to constants is not under what is wrong.
    assert text.index("X4") < text.index("## Holds as printed: with the constants") < text.index("| X3")


def test_each_source_has_its_section_in_the_order_of_the_rows():
    text = page.errata([*MIXED, row("Y1", "holds", source="notes2022")])
    assert text.count("<details>") == text.count("</details>") == 3
    assert text.index("<b>nobody2000</b>") < text.index(
        "<b>Notes (2022)</b>, 1 statement: all hold as printed<"
    )
    assert page.errata([]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "|W_i|^2 <= sum_{j!=i} |W_j|^2 and a \\| b",
        "2 *x* _y_ __z__ `code_name | x` and a lone ` here",
        "[link](x) ~~no~~ ~ p^2/r ~ $x$ <b> & &amp; <!-- x -->",
        "E(|x|-zeta)_+^k, W_j'^2, d'_x, run_fig3_x",
    ],
)
def test_a_cell_is_what_the_page_of_the_report_shows(text):
    ((_, cells),) = tables(page.errata([row("X1", "wrong", text, text)]))
    assert len(cells) == 5
    assert cells[2] == cells[4] == page.formulas(text)


def test_every_statement_of_the_ledger_makes_one_row():
    rows = [row(c.id, "wrong", c.statement, c.statement) for c in ledger.CLAIMS]
    found = [cells for table in tables(page.errata(rows)) for cells in table[1:]]
    assert [cells[0] for cells in found] == [r.claim.id for r in rows]
    for cells, checked in zip(found, rows, strict=True):
        assert cells[2] == cells[4] == page.formulas(checked.claim.statement)


def test_the_command_prints_them(capsys):
    assert cli.main(["claims", "--id", "C9", "C21", "--source", "cowsik2024", "--errata"]) == 0
    assert capsys.readouterr().out.strip() == page.errata(ledger.run(["C9", "C21"]))


@pytest.mark.parametrize("other", ["--json", "--evidence", "--verdict holds"])
def test_the_command_has_one_form_at_a_time(capsys, other):
    assert cli.main(["claims", "--id", "C21", "--errata", *other.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"`--errata` chooses its rows and their form itself; got `{other.split()[0]}`" in captured.err


def test_what_the_evidence_does_not_need_is_not_shown():
    assert "1 = 1" not in page.errata([row("X1", "holds")])


@pytest.mark.parametrize("name", ["errata.md", "errata.rst"])
def test_the_pages_define_each_kind_of_fault_as_the_code_does(name):
    text = " ".join((Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8").split())
    for kind in WRONG:
        said = MEANINGS[kind]
        assert f"- *{kind}*: {said[0].lower()}{said[1:]}" in text
