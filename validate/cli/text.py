"""All printing of commands: tables for people, JSON for programs."""

import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from ...solvers.progress import without_line

_MOST = 1500  # characters of a complaint: a longer one holds what was given, and nobody reads it
_WIDE = 24  # characters that a column of sentences needs to be readable


def printable(text: str) -> str:
    r"""Return text with escapes for characters that control a terminal or cannot be printed.

    Line feeds stay. Names of files may have sequences that change a terminal's title or hide later text.

    >>> print(printable("a\x1b[2J\u202eb é"))
    a\u001b[2J\u202eb é
    """
    return "".join(c if c == "\n" or c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    """Return the escape of a character in JSON, such as \u202e."""
    return f"\\u{ord(character):04x}" if ord(character) < 2**16 else json.dumps(character)[1:-1]


def say(what: Any) -> None:
    """Print a value and a line feed to standard output, with control characters escaped."""
    _write(sys.stdout, f"{printable(str(what))}\n")


def tell(line: str) -> None:
    """Print a line to standard error, with control characters escaped."""
    _write(sys.stderr, f"{printable(line)}\n")


def complaint(line: str) -> str:
    """Return an error's message as one line, cut in the middle if longer than 1500 characters."""
    line = printable(" ".join(line.split()))
    return line if len(line) <= _MOST else f"{line[: _MOST - 300]} ... {line[-290:]}"


def _write(file: Any, text: str) -> None:
    """Write text to an open file and flush it; a status line is cleared first."""
    with without_line():
        file.write(text)
        file.flush()


# --- Numbers and tables -------------------------------------------------------------------------------------


def number(value: Any) -> float | str | None:
    """Return a value for JSON: text, a float, or None for nan and infinity, which JSON lacks."""
    if isinstance(value, str):
        return str(value)
    return float(value) if math.isfinite(value) else None


def format_value(value: Any) -> str:
    """Return text unchanged, and a number with six digits."""
    return value if isinstance(value, str) else f"{value:.6g}"


def format_pairs(name: str, words: Iterable[str]) -> dict[str, str]:
    """Return words NAME=VALUE as a dict; ValueError, naming the option, for other words or a name twice."""
    pairs: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator:
            raise ValueError(f"`{name}` must be NAME=VALUE; got {word!r}.")
        if key in pairs:
            raise ValueError(f"`{key}` must be given once; got {pairs[key]!r} and {value!r}.")
        pairs[key] = value
    return pairs


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    say(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def as_json(value: Any) -> Any:
    """Return a number, text, array or dict for JSON: arrays as nested lists, nan and infinity as None."""
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value if isinstance(value, str | int) or value is None else number(value)


def print_result(as_json: bool, value: Any, text: Any) -> None:
    """Print `value` as JSON if `as_json`, else `text` if it is not empty."""
    if as_json:
        print_json(value)
    elif text:
        say(text)


def print_written(as_json: bool, path: Any) -> None:
    """Print the path of a file that a command wrote, as a sentence or as JSON."""
    print_result(as_json, {"written": str(path)}, f"written to {path}")


def columns(data: Any) -> dict[str, Any]:
    """Return all variables of a dataset for JSON, and under "dims" the dimensions of each."""
    values = {str(name): as_json(variable.values) for name, variable in data.variables.items()}
    dims = {str(name): list(map(str, variable.dims)) for name, variable in data.variables.items()}
    return values | {"dims": dims}


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: bool = True
) -> None:
    """Print rows of text under their headings, `columns`, numbers to the right if `right`.

    `title` is printed above. If the terminal is too narrow for the table, each row is printed as a list, so
    that numbers are never broken.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    # A file or pipe has no width, if the environment does not say one.
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if known else 200
    columns, rows = [*map(printable, columns)], [[*map(printable, row)] for row in rows]

    def need(column: int) -> int:
        """Return the width of a column in which no word is broken."""
        cells = [row[column] for row in rows]
        whole = max((cell_len(line) for cell in cells for line in cell.split("\n")), default=0)
        word = max((cell_len(word) for cell in (columns[column], *cells) for word in cell.split()), default=0)
        return max(word, min(whole, _WIDE))

    if sum(need(k) + 3 for k in range(len(columns))) + 1 > width:
        _write(sys.stdout, f"{printable(title)}\n{_format_records(columns, rows, width)}\n\n")
        return
    console = Console(width=width, markup=False, highlight=False)
    table = Table(title=printable(title), title_justify="left", show_lines=not right)
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if right else "left", overflow="fold", min_width=need(k))
    for row in rows:
        table.add_row(*row)
    # Printed by Python: rich ends the program by itself where the reader has gone.
    with console.capture() as capture:
        console.print(table)
    _write(sys.stdout, capture.get())


def _format_records(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """Return text with a line "column  cell" for each cell of each row; cells are wrapped at `width`.

    `columns` are the names in front of a row's cells.
    """
    first = max(map(len, columns)) + 2

    def entry(name: str, cell: str) -> str:
        """Return the line "name  cell", the cell wrapped under itself."""
        line_width = max(width - first, _WIDE)
        lines = [
            part
            for line in cell.split("\n")
            for part in textwrap.wrap(line, line_width, break_long_words=False, break_on_hyphens=False)
            or [""]
        ]
        return f"{name:{first}}" + f"\n{'':{first}}".join(lines)

    return "\n".join(
        "\n" + "\n".join(entry(*pair).rstrip() for pair in zip(columns, row, strict=True)) for row in rows
    )
