"""``superposition check``: whether certificates prove what they state."""

import argparse

from .text import Add, print_json, say


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "check",
        "check certificates with fractions alone",
        "superposition check validate/reference/certificates/wiring-n2-m1-p1-4.json",
        _check,
    ).add_argument
    option("file", metavar="FILE", nargs="+", help="a certificate: a file of JSON")
    option("--json", action="store_true", help="a list of objects, one for each file")


def _check(options: argparse.Namespace) -> bool:
    from ..proofs import check

    rows = []
    for path in options.file:
        certificate = check(path)
        rows.append({"file": path, "accepted": bool(certificate.accepted), "text": certificate.text})
        if not options.json:
            say(f"{path}: {'accepted' if certificate.accepted else 'rejected'}: {certificate.text}")
    if options.json:
        print_json(rows)
    return not all(row["accepted"] for row in rows)
