"""``superposition check``: whether certificates prove what they state."""

import argparse

from .options import command, json_option, option
from .text import print_json, say


@command(
    "superposition check validate/reference/certificates/wiring-n2-m1-p1-4.json",
    option("file", "a certificate: a file of JSON", metavar="FILE", nargs="+"),
    json_option("a list of objects, one for each file"),
)
def check(options: argparse.Namespace) -> bool:
    """Check certificates, files that prove a statement on losses, with fractions alone.

    The exit status is 1 if a certificate is rejected.
    """
    from .. import proofs

    rows = []
    for path in options.file:
        certificate = proofs.check(path)
        rows.append({"file": path, "accepted": bool(certificate.accepted), "text": certificate.text})
        if not options.json:  # at once: the next may take long
            say(f"{path}: {'accepted' if certificate.accepted else 'rejected'}: {certificate.text}")
    if options.json:
        print_json(rows)
    return not all(row["accepted"] for row in rows)
