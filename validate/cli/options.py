"""Commands, and their options from the docstrings of functions: names, types, defaults, choices, help.

The functions are parsed, not imported: `--help` must not wait for NumPy, torch or Matplotlib.
"""

import argparse
import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Act = Callable[[argparse.Namespace], bool | None]
# Arguments of `add_argument`: the flag, or the name of a positional argument, and its settings.
Option = tuple[str, dict[str, Any]]

_VALIDATE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Command:
    """A command: its function, which returns whether the result is negative, an example, and its options."""

    act: Act
    example: str
    options: Sequence[Option]
    subcommands: Sequence[tuple[str, str, Sequence[Option]]] = ()
    """Name, summary and options of each."""

    @property
    def description(self) -> str:
        """The docstring of the command's function."""
        return inspect.getdoc(self.act) or ""

    @property
    def summary(self) -> str:
        """The first paragraph of the description on one line."""
        return " ".join(self.description.split("\n\n")[0].split())


COMMANDS: dict[str, Command] = {}


def command(example: str, *options: Option, subcommands: Any = ()) -> Callable[[Act], Act]:
    """Return a decorator that adds a function to `COMMANDS` by its name; its docstring is the help.

    `example` is a command line for the help, `options` are those of the command, `subcommands` are (name,
    title, options) of each.
    """

    def added(act: Act) -> Act:
        """Add the function to `COMMANDS` and return it."""
        COMMANDS[act.__name__.replace("_", "-")] = Command(act, example, options, subcommands)
        return act

    return added


def option(name: str, help: str, **settings: Any) -> Option:
    """Return an option for the parser: flag `name`, text `help`, and further settings for argparse."""
    return name, {"help": help, **settings}


@functools.cache
def parameters(function: str) -> dict[str, tuple[str, str, str]]:
    """Return (type, default, description) of each parameter in a function's docstring, by name.

    `function` is the function's path below `validate`. Its file is parsed, not imported.

    >>> parameters("api.best.best")["n_hidden"]
    ('int', '', 'Number of hidden neurons.')
    """
    module, _, name = function.rpartition(".")
    tree = ast.parse((_VALIDATE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    (node,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    last = zip(node.args.args[::-1], node.args.defaults[::-1], strict=False)
    pairs = [*last, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    defaults = {parameter.arg: ast.unparse(default) for parameter, default in pairs if default}
    section = (ast.get_docstring(node) or "").partition("Parameters\n----------\n")[2].split("\n\n")[0]
    entries = re.findall(r"^(\w[\w, ]*) : (.*)\n((?:    .*\n?)*)", section, re.M)
    return {
        name: (kind, defaults.get(name, ""), " ".join(text.split()))
        for names, kind, text in entries
        for name in names.split(", ")
    }


def options_of(function: str, *names: str, about: str = "", **changes: dict[str, Any]) -> Iterator[Option]:
    """Yield options for the parameters `names` of a function, their help and type from its docstring.

    `about` begins each help text; `changes` replace settings for argparse, by name of the parameter.

    >>> [*options_of("api.best.best", "n_hidden")]
    [('--n-hidden', {'help': 'Number of hidden neurons.', 'type': <class 'int'>, 'required': True})]
    """
    for name in names:
        kind, default, text = parameters(function)[name]
        value = ast.literal_eval(default) if default else None
        begin = about + (text[:1].lower() if about else text[:1])
        help = begin + text[1:].replace("`", "").replace("%", "%%")
        settings: dict[str, Any] = {"help": help}
        if kind.startswith("bool"):
            settings["action"] = argparse.BooleanOptionalAction if value is None else "store_true"
        elif number := re.search(r"\b(int|float)\b", kind):
            settings["type"] = {"int": int, "float": float}[number[0]]
        elif "path" in kind.lower():
            settings["metavar"] = "FOLDER" if "folder" in text.lower() else "FILE"
        if re.search("sequence|collection|iterable", kind):
            settings["nargs"] = "+"
        if choices := re.match(r"{(.*)}", kind):
            settings["choices"] = ast.literal_eval(f"({choices[1]},)")
        if not default:
            settings["required"] = True
        elif value is not None and not isinstance(value, bool):
            settings["default"] = value
            if value != () and "default" not in text:
                settings["help"] = f"{help.rstrip('.')} (default: {value})."
        yield f"--{name.replace('_', '-')}", settings | changes.get(name, {})


def arguments(function: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return by name the parsed `options` that are parameters of a function, given by its path."""
    return {name: getattr(options, name) for name in parameters(function) if hasattr(options, name)}


class LazyChoices:
    """Choices of an option that are read on demand: `--help` of other commands must not wait for them."""

    def __init__(self, read: Callable[[], Iterable[str]]) -> None:
        self.read = read

    def __iter__(self) -> Iterator[str]:
        return iter(self.read())

    def __contains__(self, value: object) -> bool:
        return value in tuple(self.read())


def _layouts() -> Iterable[str]:
    """Return the names of all known layouts of weights."""
    from ..loading import LAYOUTS, NETWORK_NAMES

    return [*(layout.name for layout in LAYOUTS), *NETWORK_NAMES]


# --- Options of several commands ----------------------------------------------------------------------------


def json_option(what: str) -> Option:
    """Return the option --json; `what` describes the JSON in the help."""
    return option("--json", what, action="store_true")


LAYOUTS = LazyChoices(_layouts)
SEED = option("--seed", "seed of everything random (default: 0)", type=int, default=0)
WRITES_FILE = json_option("an object: the file that was written")
PLOT = option("--plot", "write a picture here: .png, .svg or .pdf", metavar="FILE")
RESULTS = PLOT, json_option("an object with all numbers")
MODEL = option("file", "a state dict: .npz, .safetensors, or a PyTorch file (.pt)", metavar="FILE")
INSTANCE = option("--instance", "which model, from 0, where there are several", type=int)
LAYOUT = option(
    "--layout",
    "layout of the arrays, if names and shapes fit several; a wrong name lists all",
    metavar="LAYOUT",
    choices=LAYOUTS,
)
