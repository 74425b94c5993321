"""The errata as Markdown: which rows, how they are counted, and that a parser sees what was meant."""

from dataclasses import replace
from html import escape

import pytest

from superposition.validate import claims, cli, page
from superposition.validate.claims import Checked, Claim, Evidence, Verdict

markdown_it = pytest.importorskip("markdown_it", reason="the parser comes with rich")


def row(id, verdict, statement="1 = 2", correction="1 = 1", source="nobody2000", where="Eq. 1"):
    claim = Claim(id, source, where, statement, lambda quick: Evidence("", []), correction)
    return Checked(claim, Evidence("", []), Verdict(verdict), 0.0)


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
    row("X2", "holds with a correction", correction="1 = 1"),
    row("X3", "order only", correction="the constant is 2"),
    row("X4", "fails"),
    row("X5", "open"),
]


def test_rows_are_sorted_into_tables_by_their_verdict():
    text = claims.errata(MIXED)
    wrong, constants = tables(text)
    assert [cells[0] for cells in wrong] == ["", "X2", "X4"]
    assert [cells[0] for cells in constants] == ["", "X3"]
    assert wrong[1] == ["X2", "Eq. 1", "1 = 2", "1 = 1"]
    assert constants[1][-1] == "the constant is 2"
    # A row that fails must not show a correction that its evidence does not support.
    assert wrong[2][-1] == "false: <code>superposition claims --id X4 --evidence</code>"
    summary = "5 statements: 2 wrong or incomplete as printed, 1 right up to a constant, 1 not decided"
    assert f"<summary><b>nobody2000</b>, {summary}</summary>" in text


def test_each_source_has_its_section_in_the_order_of_the_rows():
    text = claims.errata([*MIXED, row("Y1", "holds", source="notes2022")])
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.index("<b>nobody2000</b>") < text.index(
        "<b>Notes (2022)</b>, 1 statements: all hold as printed<"
    )
    assert claims.errata([]) == ""


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
    ((_, cells),) = tables(claims.errata([row("X1", "holds with a correction", text, text)]))
    assert len(cells) == 4
    assert cells[2] == cells[3] == page.formulas(text)


def test_every_text_of_the_ledger_makes_one_row():
    rows = [Checked(c, Evidence("", []), Verdict.CORRECTED, 0.0) for c in claims.CLAIMS if c.correction]
    found = [cells for table in tables(claims.errata(rows)) for cells in table[1:]]
    assert [cells[0] for cells in found] == [r.claim.id for r in rows]
    for cells, checked in zip(found, rows, strict=True):
        assert cells[2] == page.formulas(checked.claim.statement)
        assert cells[3] == page.formulas(checked.claim.correction)


def test_a_table_of_corrections_can_be_read():
    assert {c.id: len(c.correction) for c in claims.CLAIMS if len(c.correction or "") > 250} == {}


def test_the_command_prints_them(capsys):
    assert cli.main(["claims", "--id", "C9", "C21", "--source", "cowsik2024", "--errata"]) == 0
    assert capsys.readouterr().out.strip() == claims.errata(claims.run(["C9", "C21"]))


@pytest.mark.parametrize("other", ["--json", "--evidence", "--verdict holds"])
def test_the_command_has_one_form_at_a_time(capsys, other):
    assert cli.main(["claims", "--id", "C21", "--errata", *other.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"`--errata` chooses its rows and their form itself; got `{other.split()[0]}`" in captured.err


def test_what_the_evidence_does_not_need_is_not_shown():
    holds = replace(MIXED[1], verdict=Verdict.HOLDS)
    assert "1 = 1" not in claims.errata([holds])
