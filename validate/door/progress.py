"""A line on a terminal while something takes longer than two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["shown_while"]

_SILENT = 2.0


@contextmanager
def shown_while(what: str, progress: Callable[[str], Any] | None) -> Iterator[Callable[[str], None]]:
    """Give a function that shows a line, by `progress` or, after two seconds, on a terminal."""
    start, shown = time.monotonic(), False

    def tell(line: str) -> None:
        nonlocal shown
        if progress is not None:
            progress(line)
        elif sys.stderr.isatty() and time.monotonic() - start >= _SILENT:
            shown = True
            sys.stderr.write(f"\r\033[K{what}: {time.monotonic() - start:.0f} s, {line}"[:200])
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
