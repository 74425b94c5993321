"""``superposition report``: everything, as one page."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["add"]


def add(add_command: Callable[..., Any]) -> None:
    """Add the command to the program."""
    report = add_command(
        "report",
        "compare theory and experiment, and write one HTML page with figures, data and the ledger of claims",
        "superposition report --out out --profile quick",
        _report,
    )
    report.add_argument("--out", metavar="FOLDER", default="out", help="where to write (default: out)")
    report.add_argument(
        "--profile", default="quick", help="quick (minutes on two cores, the default) or full (hours)"
    )
    report.add_argument(
        "--only",
        metavar="PHENOMENON",
        help="one phenomenon, such as rug, with its rows of the ledger; or ledger; on a page of its own",
    )
    report.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    report.add_argument("--jobs", type=int, help="processes (default: one for each core)")
    report.add_argument(
        "--fresh", action="store_true", help="run everything, even what an earlier run has left finished"
    )


def _report(options: argparse.Namespace) -> None:
    from ..report import write_report

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    path = write_report(
        options.out, options.profile, options.only, options.seed, options.jobs, progress, options.fresh
    )
    print(path)
