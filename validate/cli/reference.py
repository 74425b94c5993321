"""``superposition reference``: put runs into the stored datasets."""

import argparse

from .options import command, json_option, option
from .text import print_result


@command(
    "superposition reference out/runs/unequal_bracket.nc",
    option("files", "of `superposition run`", nargs="*", metavar="FILE"),
    json_option("a list of the names of the runs"),
)
def reference(options: argparse.Namespace) -> None:
    """Put files that `superposition run` made into the datasets of validate/reference.

    Each replaces the stored run of its name. Without files only the table in the README there is renewed.
    """
    from ..runner import provenance

    provenance.write_readme()
    names = [str(provenance.add_run(path=path)) for path in options.files]
    lines = [f"stored: {name}" for name in names] or ["written: validate/reference/README.md"]
    print_result(options.json, names, "\n".join(lines))
