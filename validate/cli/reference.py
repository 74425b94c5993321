"""``superposition reference``: add files of runs to the stored data."""

import argparse

from .text import Add, print_json, say


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "reference",
        "add files that `superposition run` made to the stored data in validate/reference",
        "superposition reference --store out/runs/codes_known.nc",
        _reference,
    ).add_argument
    option("--store", nargs="+", metavar="FILE", required=True, help="files of `run`")
    option("--json", action="store_true", help="a list of names that were stored")


def _reference(options: argparse.Namespace) -> bool:
    from .. import index

    names = [str(index.store(path=path)) for path in options.store]
    if options.json:
        print_json(names)
    else:
        for name in names:
            say(f"stored as {name}")
    return False
