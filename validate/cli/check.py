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


def _check(options: argparse.Namespace) -> None:
    from ..certificates import check

    rejected = []
    for path in options.file:
        found = check(path)
        if found.accepted:
            say(f"{path}: accepted: {found.text}")
        else:
            rejected.append(f"{path}: {found.text}")
    if rejected:
        raise ValueError(f"`file` must be a certificate; rejected is {'; '.join(rejected)}.")
