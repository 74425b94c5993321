"""``superposition check``: whether certificates prove what they state."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["add"]


def add(add_command: Callable[..., Any]) -> None:
    """Add the command to the program."""
    option = add_command(
        "check",
        "check certificates with fractions alone; exit code 1 if one is rejected",
        "superposition check certificate.json",
        _check,
    ).add_argument
    option("file", metavar="FILE", nargs="+", help="a certificate: a file of JSON")


def _check(options: argparse.Namespace) -> None:
    from ..certificates import check

    checked = [check(Path(path)) for path in options.file]
    for path, one in zip(options.file, checked, strict=True):
        print(f"{path}: {'accepted' if one.accepted else 'rejected'}: {one.text}")
    if not all(one.accepted for one in checked):
        sys.exit(1)
