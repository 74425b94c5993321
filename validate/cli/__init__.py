"""The command line: ``superposition report | gallery | predict | claims | train | experiment``."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from . import claims, experiment, gallery, predict, report, train

__all__ = ["main"]

# The libraries behind a command are imported inside it: `--help` must not wait for torch or Matplotlib.

DESCRIPTION = """\
Toy models of superposition and polysemanticity: what theory predicts, what experiments say, and which
statements of the literature hold."""

EXAMPLES = """\
examples:
  superposition report --out out                      everything, as one HTML page (minutes)
  superposition gallery --out pictures                a picture for each phenomenon
  superposition predict rug --p 0.05 --ratio 0.25     predicted losses of one model
  superposition claims --id C8 --evidence             is this statement of the paper right?
  superposition train --n-features 128 --p 0.05 --ratio 0.25 0.5 --seeds 0 1 2 --out runs/first.nc
  superposition experiment collisions.fig3 runs=64 --out runs/fig3.nc

'superposition COMMAND --help' explains a command."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line, like every other error of this program."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="superposition",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=layout,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"superposition {version('superposition')}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=_Parser
    )

    def add(name: str, summary: str, example: str, act: Callable[[argparse.Namespace], None]) -> Any:
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog="example:\n  " + example,
            formatter_class=layout,
            allow_abbrev=False,
        )
        command.set_defaults(act=act)
        return command

    for module in (report, gallery, predict, claims, train, experiment):
        module.add(add)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code: 0 well, 2 bad input or a missing library, 130 interrupted.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line without the program's name; that of the process if not given.

    Examples
    --------
    >>> main(["predict", "rug", "--p", "0.05", "--ratio", "1", "--json"])  # doctest: +ELLIPSIS
    [
      {
        "p": 0.05,
        ...
    0
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        options.act(options)
        sys.stdout.flush()
    except (ValueError, ImportError) as error:
        message = " ".join(str(error).split())
        print(f"superposition {options.command}: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nsuperposition {options.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as in `| head`. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0
