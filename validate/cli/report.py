"""``superposition report`` and ``gallery``: everything as one page, or its pictures alone."""

import argparse
from collections.abc import Iterable

from .text import Add, TableRows, print_json, say, tell


def add(add_command: Add) -> None:
    """Add both commands to the program."""
    option = add_command(
        "report",
        "compare theory and experiment, and write one HTML page with figures, data and the ledger of claims",
        "superposition report --out report --profile quick",
        _report,
    ).add_argument
    only = "one phenomenon, such as rug, with its rows of the ledger; or ledger; on a page of its own"
    option("--out", metavar="FOLDER", default="out/report", help="where to write (default: out/report)")
    profile = "quick (minutes on two cores, the default) or full (hours)"
    option("--profile", default="quick", choices=("quick", "full"), help=profile)
    option("--only", metavar="PHENOMENON", choices=TableRows(lambda: [*_phenomena(), "ledger"]), help=only)
    option("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    option("--jobs", type=int, help="processes (default: one for each core)")
    option("--json", action="store_true", help="an object: the page, and what failed")
    option = add_command(
        "gallery",
        "draw what matters most in each phenomenon, theory beside experiment, as SVG (minutes)",
        "superposition gallery --out pictures --only rug noise",
        _gallery,
    ).add_argument
    option("--out", metavar="FOLDER", required=True, help="where to write PHENOMENON.svg")
    option(
        "--only",
        nargs="+",
        metavar="PHENOMENON",
        choices=TableRows(_phenomena),
        help="these alone, such as rug relu",
    )
    option("--seed", type=int, default=0, help="seed of what is not stored (default: 0)")
    data = "folder of a report, whose runs are not made again (default: none)"
    option("--data", metavar="FOLDER", help=data)
    option("--json", action="store_true", help="a list of the files that were written")


def _phenomena() -> Iterable[str]:
    from ..runner.registry import PHENOMENA

    return PHENOMENA


def _report(options: argparse.Namespace) -> bool:
    from ..report.build import write_report

    given = (options.out, options.profile, options.only, options.seed, options.jobs)
    made = write_report(*given, tell)
    if options.json:
        print_json({"page": str(made.page), "failed": [" ".join(line.split()) for line in made.failures]})
    else:
        say(made.page)
    for line in made.failures:
        tell(f"failed: {' '.join(line.split())}")
    return bool(made.failures)


def _gallery(options: argparse.Namespace) -> None:
    from ..report.gallery import write_gallery

    written = write_gallery(options.out, options.only, options.seed, tell, data=options.data)
    if options.json:
        print_json([str(path) for path in written])
        return
    for path in written:
        say(path)
