"""A status line on standard error for calls that take longer than two seconds.

What may take long runs inside `report_progress`, and sets by `status` what the line ends with. Only the
outermost `report_progress` writes: a command that calls `best`, which calls `minimise`, has one line. A
terminal has a line that changes; a file or a notebook gets a line after two seconds and then ever more
rarely.
"""

import multiprocessing
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

__all__ = ["call_progress", "no_status_line", "report_progress", "status", "time_left", "without_line"]

_SILENT = 2.0  # seconds after which a terminal shows that the program works
_EVERY = 0.5  # seconds between two looks at the clock
_GROWTH = 3.0  # seconds so far from one line to the next where there is no terminal
_RAREST = 60.0  # most seconds between two of these
_LONG = 60.0  # seconds from which on an estimate of what is left is given


class _Line:
    """State of the status line on standard error: its text, whether it is visible, whether it is in use."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.detail, self.last_shown = "", 0.0
        self.visible = self.in_use = False
        self.terminal = True

    def clear(self) -> None:
        """Erase the status line."""
        if self.visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self.visible, self.last_shown = False, time.monotonic()

    def show(self, text: str) -> None:
        """Show `text` as the status line, cut to the terminal's width; without a terminal write a line."""
        width = shutil.get_terminal_size().columns - 1
        # Names of files may hold what a terminal would act on.
        text = "".join(c if c.isprintable() else "?" for c in text)
        if not self.terminal:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
            return
        sys.stderr.write("\r\033[K" + text[:width])
        sys.stderr.flush()
        self.visible = True


_line = _Line()


@contextmanager
def report_progress(
    task: str, progress: Callable[[str], Any] | None = None
) -> Iterator[Callable[[str], Any]]:
    """Show a status line with the name and seconds of a task on standard error, once it takes two seconds.

    Parameters
    ----------
    task : str
        What runs, such as "best".
    progress : callable, optional
        Function that takes lines of text; no status line is shown then.

    Yields
    ------
    callable
        Function of one line of text: `progress` if passed, else `status`, which appends the text to the
        status line.

    Examples
    --------
    >>> with report_progress("counting") as tell:
    ...     tell("at the first of two")
    """
    silent = _line.in_use or sys.stderr is None or multiprocessing.parent_process() is not None
    if progress is not None or silent:
        yield status if progress is None else progress
        return
    start, ended = time.monotonic(), threading.Event()
    _line.detail, _line.last_shown, _line.in_use = "", start, True
    _line.terminal = sys.stderr.isatty()

    def tick() -> None:
        """Update the status line, by the name and seconds of the task, until it ends."""
        due = start + _SILENT
        while not ended.wait(_EVERY):
            now = time.monotonic()
            with _line.lock:
                if now - _line.last_shown >= _SILENT and (_line.terminal or now >= due):
                    due = now + min((_GROWTH - 1.0) * (now - start), _RAREST)
                    _line.show(f"{task}: {now - start:.0f} s{_line.detail and f', {_line.detail}'}")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield status
    finally:
        ended.set()
        thread.join()
        _line.clear()
        _line.in_use = False


@contextmanager
def no_status_line() -> Iterator[None]:
    """Suppress the status lines of every `report_progress` inside this context.

    Examples
    --------
    >>> with no_status_line(), report_progress("counting") as tell:
    ...     tell("at the first of two")
    """
    taken_before, _line.in_use = _line.in_use, True
    try:
        yield
    finally:
        _line.in_use = taken_before


def time_left(seconds: float, done: float, planned: float, most: float = inf) -> str:
    """Return the text ', about ... left' of the time that remains; '' if it is under a minute.

    `done` of `planned` units took this number of seconds; a budget leaves at most `most` seconds more.

    >>> time_left(10.0, 5, 10), time_left(50.0, 1, 11)
    ('', ', about 8 min left')
    """
    left = min(seconds / done * (planned - done), most) if done else 0.0
    if left <= _LONG:
        return ""
    return f", about {left / 3600.0:.1f} h left" if left > 5400.0 else f", about {left / 60.0:.0f} min left"


def status(detail: str) -> None:
    """Set the text, such as '3 of 20 starts', at the end of the status line of `report_progress`."""
    _line.detail = detail


def call_progress(progress: Callable[..., Any], *state: Any) -> None:
    """Call ``progress(*state)`` with the state of a search; add a note to an exception that it raises."""
    try:
        progress(*state)
    except Exception as error:
        error.add_note(f"Raised by `progress`, called with {', '.join(map(repr, state))}.")
        raise


@contextmanager
def without_line() -> Iterator[None]:
    """Hide the status line inside this context, in which the caller prints."""
    with _line.lock:
        _line.clear()
        yield
