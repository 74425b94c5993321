"""``superposition check``: whether certificates prove what they state."""

import argparse

from .text import Add, say


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "check",
        "check certificates with fractions alone",
        "superposition check validate/reference/certificates/wiring-n2-m1-p1-4.json",
        _check,
    ).add_argument
    option("file", metavar="FILE", nargs="+", help="a certificate: a file of JSON")


def _check(options: argparse.Namespace) -> bool:
    from ..certificates import check

    accepted = True
    for path in options.file:
        found = check(path)
        accepted &= found.accepted
        say(f"{path}: {'accepted' if found.accepted else 'rejected'}: {found.text}")
    return not accepted
