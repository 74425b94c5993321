"""A line on a terminal while something takes longer than two seconds: one way for all that may.

What may take long runs inside `shown`, and says by `status` where it is. Only the outermost `shown` draws: a
command that calls `best`, which calls `minimise`, has one line.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["shown", "status", "unlined"]

_SILENT = 2.0  # seconds after which a terminal shows that the program works
_EVERY = 0.5  # seconds between two looks at the clock


class _Line:
    """The last line of a terminal while nothing else is printed: what runs, its seconds, where it is."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.detail, self.last = "", 0.0
        self.visible = self.taken = False

    def clear(self) -> None:
        if self.visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self.visible, self.last = False, time.monotonic()

    def show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        # Names of files may hold what a terminal would act on.
        text = "".join(c if c.isprintable() else "?" for c in text)
        sys.stderr.write("\r\033[K" + text[:width])
        sys.stderr.flush()
        self.visible = True


_line = _Line()


@contextmanager
def shown(what: str, progress: Callable[[str], Any] | None = None) -> Iterator[Callable[[str], Any]]:
    """Show on a terminal what is running and for how long, once nothing was printed for two seconds.

    Parameters
    ----------
    what : str
        What runs, such as "best".
    progress : callable, optional
        A function of the caller's that takes lines of text; nothing is shown then.

    Yields
    ------
    callable
        `progress`, or `status`.

    Examples
    --------
    >>> with shown("counting") as tell:
    ...     tell("at the first of two")
    """
    if progress is not None or _line.taken or sys.stderr is None or not sys.stderr.isatty():
        yield status if progress is None else progress
        return
    start, ended = time.monotonic(), threading.Event()
    _line.detail, _line.last, _line.taken = "", start, True

    def tick() -> None:
        while not ended.wait(_EVERY):
            now = time.monotonic()
            with _line.lock:
                if now - _line.last >= _SILENT:
                    _line.show(f"{what}: {now - start:.0f} s{_line.detail and f', {_line.detail}'}")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield status
    finally:
        ended.set()
        thread.join()
        _line.clear()
        _line.taken = False


def status(detail: str) -> None:
    """Say where a long run is, for the line that shows that it works; a later call replaces an earlier."""
    _line.detail = detail


@contextmanager
def unlined() -> Iterator[None]:
    """Take the line away while something is printed."""
    with _line.lock:
        _line.clear()
        yield
