"""One contract for all public names of the lower layers: results, fields, arguments, docstrings.

Each check gives sentences about what breaks the contract. What is allowed to break it stands in `ALLOWED`,
with its reason.
"""

import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import superposition

from .test_bad_input import LOWER

KEYWORD_ONLY = ("rng", "starts", "steps", "workers", "tied", "tol")

# What may break the contract, with its reason. It must break it: an entry that no longer does fails too.
_PLACE = "other people's scripts pass it by its place"
ALLOWED: dict[str, str] = {
    "solvers.noise.descend(rng) is not keyword-only": _PLACE,
    "solvers.noise.descend(steps) is not keyword-only": _PLACE,
    "solvers.noise.descend_averaged(steps) is not keyword-only": "as in descend",
    "solvers.rug.rug_matrix(rng) is not keyword-only": _PLACE,
}


def _field_texts(public: type) -> dict[str, str]:
    """Return the string that stands below each field."""
    found = re.findall(r'^    (\w+): .*\n    r?"""([^"]*)"""', inspect.getsource(public), re.MULTILINE)
    return dict(found)


# --- Results ------------------------------------------------------------------------------------------------


def broken_by_class(name: str, public: type) -> Iterator[str]:
    if not dataclasses.is_dataclass(public):
        return
    if public.__eq__.__module__ != "superposition.theory.results":
        yield f"{name} is no @result"
        return
    fields = [field.name for field in dataclasses.fields(public)]
    if {"steps", "gradient_norm"} & set(fields) and "status" not in fields:
        yield f"{name} has no status"
    texts, document = _field_texts(public), inspect.getdoc(public) or ""
    yield from (
        f"{name}.{one} is not documented" for one in fields if one not in texts and one not in document
    )
    if "loss" in fields and "per feature" not in texts.get("loss", "") + document:
        yield f"{name}.loss does not say that it is per feature"


# --- Functions ----------------------------------------------------------------------------------------------


def broken_by_arguments(name: str, signature: inspect.Signature) -> Iterator[str]:
    for argument in signature.parameters.values():
        if argument.name in KEYWORD_ONLY and argument.kind is not inspect.Parameter.KEYWORD_ONLY:
            yield f"{name}({argument.name}) is not keyword-only"


def broken_by_docstring(name: str, public: Any, signature: inspect.Signature) -> Iterator[str]:
    text = inspect.getdoc(public) or ""
    others = _functions_named(public, text)
    needed = {"Examples"}
    if not others:  # else parameters and results are like those of another function
        needed |= {"Parameters"} if signature.parameters else set()
        needed |= {"Returns"} if signature.return_annotation is not None else set()
    missing = needed - set(re.findall(r"^(\w+)\n-+$", text, re.MULTILINE))
    if missing:
        yield f"{name} has no section {', '.join(sorted(missing))}"
    for argument in signature.parameters:
        if not any(_documents(argument, one) for one in (text, *others)):
            yield f"{name}({argument}) is not documented"


def _documents(argument: str, text: str) -> bool:
    listed = text.partition("Parameters\n")[2]
    return re.search(rf"^(.*, )?\*{{0,2}}{argument}\b.* :", listed, re.MULTILINE) is not None


def _functions_named(public: Any, text: str) -> list[str]:
    """Return the docstrings of functions that a docstring sends its readers to."""
    module = vars(importlib.import_module(public.__module__))
    named = [module.get(word) for word in re.findall(r"`(?:\w+\.)*(\w+)`", text)]
    return [inspect.getdoc(one) or "" for one in named if inspect.isroutine(one) and one is not public]


def broken_by(name: str, public: Any) -> Iterator[str]:
    if inspect.isclass(public):
        yield from broken_by_class(name, public)
    elif inspect.isroutine(public):
        signature = inspect.signature(public)
        yield from broken_by_arguments(name, signature)
        # What a derivation returns says what it is, and test_derivations ties it to its closed form.
        if "derive_" not in name:
            yield from broken_by_docstring(name, public, signature)


def test_public_names_keep_the_contract():
    assert {
        line
        for path, subpackage in LOWER.items()
        if hasattr(subpackage, "__path__")
        for name in getattr(subpackage, "__all__", ())
        for line in broken_by(f"{path}.{name}", getattr(subpackage, name))
    } == set(ALLOWED)


# --- Packages -----------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from superposition import solvers, theory, validate
assert {"rug", "linear", "noise", "collisions"} <= {*dir(theory)} & {*dir(solvers)}
assert {"api", "experiments", "runner"} <= {*dir(validate)}
assert not [name for name in sys.modules if name.endswith((".rug", ".linear", ".noise"))]
print(theory.rug.__name__, solvers.rug.__name__, validate.runner.findings.__name__)
"""


def test_layers_and_subpackages_are_loaded_when_used():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    names = "superposition.theory.rug superposition.solvers.rug superposition.validate.runner.findings\n"
    assert (done.stderr, done.stdout) == ("", names)


def test_all_public_names_have_types():
    root = Path(superposition.__file__).parent
    text = (root / "__init__.py").read_text()
    assert [name for name in superposition.__all__ if f" import {name} as {name}\n" not in text] == []
    assert (root / "py.typed").exists()
