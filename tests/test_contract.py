"""One contract for all public names of the lower layers: results, fields, arguments, docstrings.

Each check gives sentences about what breaks the contract. What is allowed to break it stands in `ALLOWED`,
with its reason.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from superposition import solvers, theory
from superposition.theory.lazy import public_modules

SUBPACKAGES = {
    subpackage.__name__.partition(".")[2]: subpackage
    for layer in (theory, solvers)
    for subpackage in public_modules(layer)
    if hasattr(subpackage, "__path__")
}

# What a field is not called, and what it is called instead, as one thing has one name.
FIELDS = {
    "success": "status: an enumeration says why, not only whether",
    "converged": "status",
    "message": "status, which brings its message",
    "n_steps": "steps",
    "n_iter": "steps",
    "iterations": "steps",
    "evaluations": "steps",
    "time": "t",
    "times": "t",
    "weights": "W",
    "bias_vector": "b",
    "grad_norm": "gradient_norm",
    "error": "error_estimate: no one knows the error itself",
    "loss_error": "error_estimate",
    "trajectory": "path",
    "history": "path",
}
ARGUMENTS = {
    "seed": "rng, keyword-only (SPEC 7)",
    "random_state": "rng",
    "generator": "rng",
    "n_iter": "steps",
    "max_iter": "steps",
    "maxiter": "steps",
    "max_steps": "steps",
    "n_steps": "steps",
    "n_starts": "starts",
    "restarts": "starts",
    "n_jobs": "workers",
    "threads": "workers",
    "tolerance": "tol, or rtol where it is relative to a size that the solver knows",
    "accuracy": "tol or rtol",
    "untied": "tied",
    "n": "n_features",
    "m": "n_hidden",
    "probability": "p",
    "lambda_": "lam",
    "weights": "W",
}
KEYWORD_ONLY = ("rng", "starts", "steps", "workers", "tied", "tol")

# What may break the contract, with its reason. It must break it: an entry that no longer does fails too.
_PLACE = "other people's scripts pass it by its place"
_ONE_ENCODING = "the number of weights of one encoding, not a number of hidden neurons that features share"
ALLOWED: dict[str, str] = {
    "solvers.noise.descend(rng) is not keyword-only": _PLACE,
    "solvers.noise.descend(steps) is not keyword-only": _PLACE,
    "solvers.noise.descend_averaged(steps) is not keyword-only": "as in descend",
    "solvers.rug.rug_matrix(rng) is not keyword-only": _PLACE,
    "theory.codes.strongly_regular(n): n_features": "the first of the graph's parameters (n, k, lambda, mu)",
    "solvers.sparsification.limit_law(m): n_hidden": _ONE_ENCODING,
    "theory.sparsification.scaling_law(m): n_hidden": _ONE_ENCODING,
}


def classes(subpackage: Any) -> Iterator[tuple[str, type]]:
    for name in getattr(subpackage, "__all__", ()):
        if inspect.isclass(getattr(subpackage, name)):
            yield name, getattr(subpackage, name)


def functions(subpackage: Any) -> Iterator[tuple[str, Any]]:
    for name in getattr(subpackage, "__all__", ()):
        if inspect.isroutine(getattr(subpackage, name)):
            yield name, getattr(subpackage, name)


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
    for field in fields:
        if field in FIELDS:
            yield f"{name}.{field}: {FIELDS[field]}"
    if "losses" in fields and "loss" not in fields:
        yield f"{name}.losses: loss"
    if {"steps", "gradient_norm"} & set(fields) and "status" not in fields:
        yield f"{name} has no status"
    texts = _field_texts(public)
    for field in fields:
        if field not in texts and field not in (inspect.getdoc(public) or ""):
            yield f"{name}.{field} is not documented"
    if "loss" in fields and "per feature" not in texts.get("loss", "") + (inspect.getdoc(public) or ""):
        yield f"{name}.loss does not say that it is per feature"


# --- Functions ----------------------------------------------------------------------------------------------


def broken_by_arguments(name: str, signature: inspect.Signature) -> Iterator[str]:
    for argument in signature.parameters.values():
        if argument.name in ARGUMENTS:
            yield f"{name}({argument.name}): {ARGUMENTS[argument.name]}"
        if argument.name in KEYWORD_ONLY and argument.kind is not inspect.Parameter.KEYWORD_ONLY:
            yield f"{name}({argument.name}) is not keyword-only"
        if argument.annotation is inspect.Parameter.empty:
            yield f"{name}({argument.name}) has no type"
    if signature.return_annotation is inspect.Signature.empty:
        yield f"{name} returns no type"


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


def broken_by_function(name: str, public: Any) -> Iterator[str]:
    signature = inspect.signature(public)
    yield from broken_by_arguments(name, signature)
    # What a derivation returns says what it is, and test_derivations ties it to its closed form.
    if not name.rpartition(".")[2].startswith("derive_"):
        yield from broken_by_docstring(name, public, signature)


def _documents(argument: str, text: str) -> bool:
    listed = text.partition("Parameters\n")[2]
    return re.search(rf"^(.*, )?\*{{0,2}}{argument}\b.* :", listed, re.MULTILINE) is not None


def _functions_named(public: Any, text: str) -> list[str]:
    """Return the docstrings of functions that a docstring sends its readers to."""
    module = vars(importlib.import_module(public.__module__))
    named = [module.get(word) for word in re.findall(r"`(?:\w+\.)*(\w+)`", text)]
    return [inspect.getdoc(one) or "" for one in named if inspect.isroutine(one) and one is not public]


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_public_names_keep_the_contract(subpackage):
    broken = [
        *(
            line
            for name, one in classes(SUBPACKAGES[subpackage])
            for line in broken_by_class(f"{subpackage}.{name}", one)
        ),
        *(
            line
            for name, one in functions(SUBPACKAGES[subpackage])
            for line in broken_by_function(f"{subpackage}.{name}", one)
        ),
    ]
    allowed = {line for line in ALLOWED if line.startswith(f"{subpackage}.")}
    assert [line for line in broken if line not in allowed] == []
    assert allowed <= set(broken)
