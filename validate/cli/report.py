"""``superposition report`` and ``gallery``: everything as one page, or its pictures alone."""

import argparse
from collections.abc import Iterable

from .options import LazyChoices, arguments, command, json_option, options_of
from .text import print_result, tell


def _phenomena() -> Iterable[str]:
    """Return the names of all phenomena."""
    from ..runner.registry import PHENOMENA

    return PHENOMENA


@command(
    "superposition report --out report --profile quick",
    *options_of(
        "report.build.write_report",
        *("out", "profile", "only", "seed", "jobs"),
        out={"default": "out/report", "required": False},
        only={"metavar": "PHENOMENON", "choices": LazyChoices(lambda: [*_phenomena(), "ledger"])},
    ),
    json_option("an object: the page, and what failed"),
)
def report(options: argparse.Namespace) -> bool:
    """Compare theory and experiment, and write one HTML page with figures, data and the ledger of claims.

    The exit status is 1 if a part of the page failed or a claim is unsettled.
    """
    from ..report.build import write_report

    result = write_report(**arguments("report.build.write_report", options), progress=tell)
    failures = [" ".join(line.split()) for line in result.failures]
    print_result(options.json, {"page": str(result.page), "failed": failures}, result.page)
    for line in failures:
        tell(f"failed: {line}")
    return bool(failures)


@command(
    "superposition gallery --out pictures --only rug noise",
    *options_of(
        "report.gallery.write_gallery",
        *("out", "only", "seed", "data"),
        only={"metavar": "PHENOMENON", "choices": LazyChoices(_phenomena)},
    ),
    json_option("a list of the files that were written"),
)
def gallery(options: argparse.Namespace) -> None:
    """Draw what matters most in each phenomenon, theory beside experiment, as SVG (minutes)."""
    from ..report.gallery import write_gallery

    pages = write_gallery(**arguments("report.gallery.write_gallery", options), progress=tell)
    paths = [str(path) for path in pages]
    print_result(options.json, paths, "\n".join(paths))
