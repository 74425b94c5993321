"""The line of a long run: one, of the outermost, and gone at the end."""

import io
import sys

import pytest

from superposition.solvers import progress


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self):
        return True

    @property
    def written(self):
        return self.getvalue()


def _terminal(monkeypatch):
    """Make standard error a terminal; not as a fixture, as pytest puts its own there before the test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(progress, "_SILENT", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    return made


def _wait(terminal, words):
    for _ in range(1000):
        if words in terminal.written:
            return
        progress.threading.Event().wait(0.01)
    raise AssertionError(terminal.written)


def test_only_the_outermost_draws(monkeypatch):
    terminal = _terminal(monkeypatch)
    with progress.report_progress("best") as tell:
        with progress.report_progress("minimise") as inner:
            inner("1 of 9 descents")
            _wait(terminal, "best: 0 s, 1 of 9 descents")
        tell("done \x1b[2J")
        _wait(terminal, "done ?[2J")
    assert "minimise" not in terminal.written
    assert terminal.written.endswith("\r\x1b[K")
    length = len(terminal.written)
    with progress.report_progress("again"):
        _wait(terminal, "again: 0 s")
    assert len(terminal.written) > length


def test_a_caller_who_wants_to_be_told_sees_no_line(monkeypatch):
    terminal = _terminal(monkeypatch)
    told = []
    with progress.report_progress("best", told.append) as tell:
        tell("1 of 9")
        progress.threading.Event().wait(0.1)
    assert (told, terminal.written) == (["1 of 9"], "")


def test_the_line_goes_when_something_fails(monkeypatch):
    terminal = _terminal(monkeypatch)

    def fails():
        with progress.report_progress("best"):
            _wait(terminal, "best: 0 s")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    assert terminal.written.endswith("\r\x1b[K")
    assert not progress._line.in_use


def test_what_is_printed_takes_the_line_away(monkeypatch):
    terminal = _terminal(monkeypatch)
    with progress.report_progress("best"):
        _wait(terminal, "best: 0 s")
        with progress.without_line():
            assert terminal.written.endswith("\r\x1b[K")


def test_where_there_is_no_terminal_there_is_no_line(capsys, monkeypatch):
    with progress.report_progress("best") as tell:
        tell("1 of 9")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    with progress.report_progress("best") as tell:
        tell("1 of 9")


@pytest.mark.parametrize(("growth", "rarest"), [(1.0, 60.0), (1e9, 0.0)])
def test_the_next_line_of_a_file_is_due_by_the_sooner_of_two_rules(growth, rarest, monkeypatch):
    file = _terminal(monkeypatch)
    monkeypatch.setattr(file, "isatty", lambda: False)
    monkeypatch.setattr(progress, "_GROWTH", growth)
    monkeypatch.setattr(progress, "_RAREST", rarest)
    with progress.report_progress("best"):
        _wait(file, "best: 0 s\nbest: 0 s\nbest: 0 s\n")
