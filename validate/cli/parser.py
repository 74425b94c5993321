"""The parser of all commands, whose errors are one line."""

import argparse
import functools
import importlib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from ... import __version__
from .options import COMMANDS, Option
from .text import complaint

# Modules with commands, in the order of `--help`.
_MODULES = (
    "api", "sae", "report", "predict", "atlas", "audit", "check", "claims", "run", "reference", "sweep",
    "interface",
)  # fmt: skip
for _name in _MODULES:
    importlib.import_module(f".{_name}", __package__)

DESCRIPTION = """\
Toy models of superposition and polysemanticity: what theory predicts, what experiments say, and which
statements of the literature hold."""

STATUS = """\
exit status: 0 done; 1 a negative result, such as a rejected certificate; 2 bad input, a missing library or a
full disk; 70 a fault of the program; 130 interrupted"""

EXAMPLES = f"""\
examples:
  superposition best --n-features 5 --n-hidden 2 --p 0.05      what a toy model should reach
  superposition how-many --p 0.05 --n-hidden 30 --loss 0.001   how many features fit
  superposition phases --plot phases.png              the diagram of Elhage et al.
  superposition report --out report                   everything, as one HTML page (minutes)
  superposition gallery --out pictures                a picture for each phenomenon
  superposition predict rug --p 0.05 --ratio 0.25     predicted losses of one model
  superposition atlas n5-m2-p0.1-equal-tied --out best.npz     a solved toy model, as a state dict
  superposition audit best.npz --p 0.05               what a trained model is, and how good it could be
  superposition check validate/reference/certificates/wiring-n2-m1-p1-4.json   is this a proof?
  superposition claims --id C8 --evidence             is this statement of the paper right?
  superposition run                                   all runs, and what each costs here
  superposition run collisions.fig3 --set runs=64 --out runs
  superposition run unequal.bracket --out runs         make a stored run anew
  superposition sweep solvers.rug.optimum 'p=[0.01,0.1]' 'ratio=[0.1,0.5]' --store rug.zarr

{STATUS}

'superposition COMMAND --help' explains a command."""


def _did_you_mean(value: Any, known: Iterable[Any]) -> str:
    """Return "; did you mean '…'?" with the known name nearest to a value, or "" if none is near."""
    near = get_close_matches(str(value), [str(name) for name in known], 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all others of this program."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise an ArgumentError, with the nearest choice, if a value is no choice of an option."""
        if action.choices is None or value in action.choices:
            return
        meant, names = _did_you_mean(value, action.choices), ", ".join(map(repr, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{meant} (choose from {names})")
        rule = f"must be one of {names}; got {value!r}{meant or '.'}"
        raise argparse.ArgumentError(None, f"`{action.dest}` {rule}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return (options, other words); an unknown option ends the program, with the nearest known one."""
        options, extra = super().parse_known_args(args, namespace)
        if wrong := [option for option in extra if option.startswith("--")]:
            self.error(
                f"unrecognized arguments: {' '.join(extra)}"
                f"{_did_you_mean(wrong[0], self._option_string_actions)}"
            )
        return options, extra

    def error(self, message: str) -> NoReturn:
        """Print a message on one line, with the way to the help, and exit with status 2."""
        hint = "" if message.startswith("`") else f" (see {self.prog} --help)"  # it has said what is allowed
        self.exit(2, f"{complaint(f'{self.prog}: {message}')}{hint}\n")


@functools.cache
def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all command lines; its option `act` is the function of the command."""
    settings: dict[str, Any] = {
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
    parser = _Parser(prog="superposition", description=DESCRIPTION, epilog=EXAMPLES, **settings)
    parser.add_argument("--version", action="version", version=f"superposition {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(parsers: Any, name: str, options: Iterable[Option], **texts: str) -> Any:
        """Add the parser of the command `name` with these options to `parsers`, and return it."""
        added = parsers.add_parser(name, **settings, **texts)
        for flag, option_settings in options:
            added.add_argument(flag, **option_settings)
        return added

    for name, command in COMMANDS.items():
        texts = {"description": command.description, "epilog": f"example:\n  {command.example}\n\n{STATUS}"}
        texts["help"] = command.summary[:1].lower() + command.summary[1:].rstrip(".")
        added = add(commands, name, command.options, **texts)
        added.set_defaults(act=command.act)
        if command.subcommands:
            below = added.add_subparsers(dest="phenomenon", metavar="PHENOMENON", required=True)
            for inner, title, options in command.subcommands:
                add(below, inner, options, help=title, description=f"{title}.")
    return parser


def parse(arguments: Sequence[str] | None) -> argparse.Namespace | None:
    """Return the parsed options of a command line; None after an error or help has been printed.

    `arguments` are its words; None stands for those of this process.
    """
    words = () if arguments is None else arguments
    if not (isinstance(words, Sequence) and all(isinstance(word, str) for word in words)):
        from ...theory.validation import short_repr  # help and version load nothing heavy

        raise ValueError(f"`arguments` must be a list of words; got {short_repr(arguments)}.")
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        if end.code != 2:  # it was --help or --version
            raise
        return None
    if options.command is None:
        parser.print_help()
        return None
    return options
