"""``superposition claims``: the ledger."""

import argparse

from .text import Add, print_json, print_table, say, status


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "claims",
        "check statements of the sources by computation, and print the verdicts",
        'superposition claims --source cowsik2024 --verdict "holds with a correction"',
        _claims,
    ).add_argument
    option("--id", nargs="+", metavar="ID", help="only these claims, such as C8")
    option("--source", help="only claims of this source, such as cowsik2024")
    option(
        "--verdict",
        help="only rows with this verdict: holds, 'holds with a correction', fails, 'order only', 'question, "
        "answered', 'unsettled: a finding fails', open (hyphens for spaces are fine)",
    )
    option("--evidence", action="store_true", help="print the computed evidence as well")
    option("--full", action="store_true", help="larger searches (minutes)")
    option("--jobs", type=int, default=1, help="processes (default: 1)")
    option("--json", action="store_true", help="a list of objects with all evidence")
    option("--errata", action="store_true", help="what is wrong or left open in print, as Markdown tables")


def _claims(options: argparse.Namespace) -> None:
    from .. import claims, page

    for name in ("json", "evidence", "verdict"):
        if options.errata and getattr(options, name):
            raise ValueError(f"`--errata` chooses its rows and their form itself; got `--{name}` as well.")
    verdict = options.verdict and options.verdict.replace("-", " ")
    left_out = set(options.id or ()) - {row.id for row in claims.select(options.id, options.source)}
    if left_out:
        raise ValueError(f"`id` must be of the source {options.source!r}; got {', '.join(sorted(left_out))}.")

    def progress(row: claims.Checked) -> None:
        status(f"checked {row.claim.id}")

    rows = claims.run(options.id, options.source, verdict, not options.full, options.jobs, progress)
    if options.json:
        print_json([claims.as_record(row) for row in rows])
        return
    if options.errata:
        say(page.errata(rows))
        return

    def statement(row: claims.Checked) -> str:
        lines = [row.claim.statement]
        if row.correction:
            lines.append(f"-> {row.correction}")
        if options.evidence:
            lines.append(row.evidence.text)
            lines.extend(
                f"  [{'kept' if f.passed else 'broken'}] {f.about}, {f.label}: {f.text}: {f.value:.6g} "
                f"{f.relation} {f.limit:g} ({', '.join(filter(None, (f.origin, f.limit_set, f.chance)))})"
                for f in row.evidence.findings
            )
        return "\n".join(lines)

    print_table(
        f"{len(rows)} claims",
        ["id", "source", "where", "statement", "verdict"],
        [[row.claim.id, row.claim.source, row.claim.where, statement(row), str(row.verdict)] for row in rows],
        right=False,
    )
