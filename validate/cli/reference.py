"""``superposition reference``: put runs into the stored datasets."""

import argparse

from .text import Add, print_json, say


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "reference",
        "put files that `superposition run` made into the datasets of validate/reference, in place of the "
        "runs that are there; without files, write the table of its README anew",
        "superposition reference out/runs/unequal_bracket.nc",
        _reference,
    ).add_argument
    option("files", nargs="*", metavar="FILE", help="of `superposition run`")
    option("--json", action="store_true", help="a list of the names of the runs")


def _reference(options: argparse.Namespace) -> bool:
    from ..runner import provenance

    provenance.write_readme()
    names = [str(provenance.add_run(path=path)) for path in options.files]
    if options.json:
        print_json(names)
    else:
        say("\n".join(f"stored: {name}" for name in names) or "written: validate/reference/README.md")
    return False
