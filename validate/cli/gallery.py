"""``superposition gallery``: pictures of what matters most in each phenomenon."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["add"]


def add(add_command: Callable[..., Any]) -> None:
    """Add the command to the program."""
    gallery = add_command(
        "gallery",
        "draw what matters most in each phenomenon, theory beside experiment, as SVG (minutes)",
        "superposition gallery --out pictures --only rug noise",
        _gallery,
    )
    gallery.add_argument("--out", metavar="FOLDER", required=True, help="where to write PHENOMENON.svg")
    gallery.add_argument("--only", nargs="+", metavar="PHENOMENON", help="these alone, such as rug relu")
    gallery.add_argument("--seed", type=int, default=0, help="seed of what is not stored (default: 0)")


def _gallery(options: argparse.Namespace) -> None:
    from ..gallery import write_gallery

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    for path in write_gallery(options.out, options.only, options.seed, progress):
        print(path)
