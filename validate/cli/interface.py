"""``superposition interface``: all public names as one text, for language models: made anew, never stored."""

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from ... import solvers, theory
from ...theory.lazy import public_modules
from ..api.predictions import PREDICTIONS
from .options import COMMANDS, command, json_option, option
from .text import print_result, print_written

_TOP, _, _ = __name__.partition(".")

_HEAD = """\
# superposition

> A theory engine for toy models of superposition and polysemanticity: exact expected losses without sampling,
> the best models of a size beside lower bounds, predictions with their kind, and a ledger of what holds in
> print.

`import superposition as sp` has a dozen names that take a model, a law of the data or a question; they come
first, with their whole help. Then the commands, then every public name of the packages below, with its first
line.

Conventions: losses are means over outputs of importance times expected squared error. A feature is on with
probability p; sparsity S = 1 - p. `W` has one encoding a row, (n_features, n_hidden); `sp.Model` has layers
as PyTorch does, `W_in` (n_hidden, n_features), `W_out` (n_outputs, n_hidden). Bad input raises ValueError, a
wrong keyword TypeError; both name the argument and the value.
"""
_LONGEST = 150  # characters of a signature


@command(
    "superposition interface --out llms.txt",
    option("--out", "write it here instead", metavar="FILE"),
    json_option("an object: the text, or the file that was written"),
)
def interface(options: argparse.Namespace) -> None:
    """Print all of the interface as one text, such as language models read."""
    from ..reference import files

    if options.out is not None:
        files.output_file(options.out, "out")
        files.write_text(options.out, describe_interface())
        print_written(options.json, options.out)
    else:
        text = describe_interface()
        print_result(options.json, {"text": text}, text)


def describe_interface() -> str:
    """Return a Markdown text of all public names and commands, with signatures and descriptions.

    >>> text = describe_interface()
    >>> "## sp.best(law, n_hidden" in text, "`solvers.rug.optimum(p, ratio)`" in text
    (True, True)
    """
    parts = [_HEAD, *_describe_functions(), *_describe_commands()]
    for package in (theory, solvers):
        parts += _describe_package(package)
    return "\n".join([*parts, *_describe_package(importlib.import_module(f"{_TOP}.validate"))])


def _describe_functions() -> Iterator[str]:
    """Yield a section for each public function of the package, with its whole docstring."""
    sp = importlib.import_module(_TOP)
    yield "# Public functions\n"
    for name in sp.__all__:
        value = getattr(sp, name)
        if inspect.ismodule(value):
            continue
        yield f"## sp.{name}{_signature(value)}\n\n{inspect.getdoc(value)}\n"


def _describe_commands() -> Iterator[str]:
    """Yield a line for each command of the program."""
    from . import parser  # noqa: F401  which loads all commands

    yield "# Commands\n\n`superposition COMMAND --help` explains the options."
    yield "Exit status: 0 done, 1 a negative result, 2 bad usage.\n"
    for name, described in COMMANDS.items():
        flags = " ".join(flag for flag, _ in described.options if flag.startswith("--"))
        yield f"- `superposition {name}`: {described.summary} {flags}"
    yield "\nPhenomena of `superposition predict` and `sp.predict(name, …)`:\n"
    for name, prediction in PREDICTIONS.items():
        names = ", ".join(parameter.name for parameter in prediction.parameters)
        yield f"- `{name}({names})`: {prediction.title}."
    yield ""


def _describe_package(package: Any) -> Iterator[str]:
    """Yield the lines that ``superposition interface`` prints for one of our packages, in Markdown.

    The package, and each of its modules with public names, has a heading with the first paragraph of its
    docstring. Below a module each public name has a line: path, signature and first paragraph of the
    docstring.
    """
    path_below = package.__name__.partition(".")[2]
    yield f"# superposition.{path_below}\n\n{_first_paragraph(inspect.getdoc(package))}\n"
    for module in public_modules(package):
        path = module.__name__.partition(".")[2]
        names = getattr(module, "__all__", ())
        if not names or path.startswith(("validate.api", "validate.cli")):
            continue
        yield f"## {path}\n\n{_first_paragraph(inspect.getdoc(module))}\n"
        for name in names:
            value = getattr(module, name)
            description = _first_paragraph(inspect.getdoc(value)) if callable(value) else type(value).__name__
            yield f"- `{path}.{name}{_signature(value)}`: {description}"
        yield ""


def _signature(value: Any) -> str:
    """Return the signature of `value` as text without annotations, cut if long; "" if it is not callable."""
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    text = re.sub(r"\w*Path\('[^']*'\)|<.*? at 0x\w+>", "…", text)  # nothing of this machine
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…)"


def _first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((text or "").split("\n\n")[0].split())
