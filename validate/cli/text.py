"""What commands print: tables for people, JSON for programs."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Add = Callable[..., Any]  # adds a command to the program and returns its parser


def number(value: Any) -> float | str | None:
    """Return text or a float for JSON, which has no nan: None stands for a number that does not exist."""
    if isinstance(value, str):
        return str(value)
    return float(value) if math.isfinite(value) else None


def shown(value: Any) -> str:
    """Return text as it is and a number with six digits."""
    return value if isinstance(value, str) else f"{value:.6g}"


def pairs(name: str, words: Iterable[str]) -> dict[str, str]:
    """Read NAME=VALUE; `name` is what the caller calls them."""
    found: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator:
            raise ValueError(f"`{name}` must be NAME=VALUE; got {word!r}.")
        if key in found:
            raise ValueError(f"`{key}` must be given once; got {found[key]!r} and {value!r}.")
        found[key] = value
    return found


def tell(line: str) -> None:
    """Say how far a run is, where it does not mix with its result."""
    print(line, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: bool = True
) -> None:
    """Print rows of text under their headings, numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    # A file or pipe has no width; lines there are for other programs and must not be broken.
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    table = Table(title=title, title_justify="left", show_lines=not right)
    for column in columns:
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Printed by Python: rich ends the program by itself where the reader has gone.
    with console.capture() as captured:
        console.print(table)
    print(captured.get(), end="")
