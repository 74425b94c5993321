"""What commands print: nothing that a terminal acts on, whole numbers at any width, a line while at work."""

import io
import json
import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from superposition.solvers import progress
from superposition.validate import cli, ledger
from superposition.validate.cli import text

NASTY = "m\x1b[2J\x07\x9b31m\u202e\udc80\r"
# What a terminal acts on: all control characters but line feeds, and marks that turn the direction of text.
ACTED_ON = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@given(st.text())
def test_no_text_reaches_a_terminal_that_it_would_act_on(words):
    shown = text.printable(words)
    assert not ACTED_ON.search(shown)
    shown.encode()
    assert text.printable(shown) == shown


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_escapes_in_json_are_those_of_json(value):
    plain = text.printable(json.dumps(value, indent=2, ensure_ascii=False))
    assert not ACTED_ON.search(plain)
    assert json.loads(plain) == value


def test_complaints_are_one_line_without_what_a_terminal_acts_on(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "_SILENT", 60.0)  # no line of it on a busy machine
    for words in (
        ["audit", NASTY, "--p", "0.1"], ["check", NASTY], ["run", NASTY], ["predict", NASTY],
        ["claims", "--source", NASTY], ["report", "--only", NASTY],
        ["atlas", "n2-m1-p0.1-equal-tied", "--out", NASTY], ["gallery", "--out", f"{NASTY}/{NASTY}"],
    ):  # fmt: skip
        try:
            status = cli.main(words)
        except SystemExit as end:
            status = end.code
        err = capsys.readouterr().err
        assert (status, err.count("\n")) == (2, 1), words
        assert not ACTED_ON.search(err.rstrip("\n"))
    assert list(tmp_path.iterdir()) == []


# --- Tables -------------------------------------------------------------------------------------------------


def test_sentences_are_wrapped_in_a_table_of_a_usual_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    text.print_table("title", ["n", "what is said"], [["7", "word " * 30]])
    shown = capsys.readouterr().out.splitlines()
    assert any(re.search(r"n .* what is said", line) for line in shown)
    assert sum("word word" in line for line in shown) > 1


CELLS = st.text("0123456789.-e", min_size=1, max_size=14)


@given(st.data())
def test_no_number_is_broken_at_any_width(data):
    columns = [f"column_{k}" for k in range(data.draw(st.integers(1, 9)))]
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(columns), max_size=len(columns)), max_size=4))
    width, printed = data.draw(st.integers(30, 120)), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setattr(text, "_write", lambda _, one: printed.append(one))
        text.print_table("title", columns, rows)
    (shown,) = printed
    assert max(map(len, shown.splitlines())) <= width
    words = set(re.split(r"[\s│┃]+", shown))
    assert words >= {*columns * bool(rows), *(cell for row in rows for cell in row)}


def test_real_tables_keep_their_words_whole(capsys, monkeypatch):
    for command in (
        "predict rug --p 0.05 0.01 --ratio 0.25",
        "predict collisions --n-features 8 --n-hidden 8",
        "claims --id C8 C9 --evidence",
        "atlas --n-features 3",
        "run relu.* rug_n* --list",
    ):
        monkeypatch.delenv("COLUMNS", raising=False)
        assert cli.main(command.split()) == 0
        wide = set(re.split(r"[\s│┃]+", re.sub("[━─┏┓└┘┡┩╇┴┳┼├┤]", " ", capsys.readouterr().out)))
        for width in ("40", "80"):
            monkeypatch.setenv("COLUMNS", width)
            assert cli.main(command.split()) == 0
            assert wide <= set(re.split(r"[\s│┃]+", capsys.readouterr().out)), command


# --- Progress -----------------------------------------------------------------------------------------------


def test_the_program_shows_it_and_leaves_a_pipe_alone(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SILENT", 0.0)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)

    def judged(*_, **__):
        end = time.monotonic() + 60.0
        while " s" not in terminal.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
        return ()

    monkeypatch.setattr(ledger, "run", judged)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert cli.main(["claims", "--run"]) == 0
    assert "\r\x1b[Ksuperposition claims: " in terminal.getvalue()
    monkeypatch.undo()
    assert cli.main(["predict", "collisions", "--n-features", "8", "--n-hidden", "8"]) == 0
    assert capsys.readouterr().err == ""
