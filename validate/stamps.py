"""Which code computes a result: a checksum of the definitions that an experiment reaches, and of no others.

From the function of the experiment on, every function, class and constant of the package whose name stands in
one that was reached is reached too. What does not change a number is left out: docstrings, annotations, what
an error says, and the modules of `LEFT_OUT`.
"""

import ast
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..theory.arguments import shown
from .annotations import as_annotated

__all__ = ["LEFT_OUT", "reached", "stamp"]

ROOT = Path(__file__).parents[1]

# Checks of arguments, symbols, classes and tables of results, threads, files, drawing, jobs and how
# training is kept: they change no number.
LEFT_OUT = (
    "solvers.progress", "solvers.threads", "theory.arguments", "theory.derivation", "theory.results",
    "theory.rooms", "validate.annotations", "validate.drawing", "validate.experiment", "validate.experiments",
    "validate.files", "validate.stored", "validate.training.checkpoint",
)  # fmt: skip

_Use = tuple[str, str]  # a name, and the attribute that is taken of it, or nothing
_Import = tuple[int, str, str]  # dots, module, name
_Place = tuple[tuple[str, ...], str]  # a module, and a name in it


class _Module:
    """The statements of a module by the names that they bind, each with its checksum and what it uses."""

    def __init__(self, text: str) -> None:
        self.bound: dict[str, list[tuple[str, set[_Use]]]] = {}
        self.imports: dict[str, _Import] = {}
        for node in ast.parse(text).body:
            names = set(_binds(node)) - {"__all__"}
            for one in ast.walk(node):  # also those in functions, which import what is large or rarely needed
                if isinstance(one, ast.ImportFrom) and one.level:
                    own = {a.asname or a.name: (one.level, one.module or "", a.name) for a in one.names}
                    self.imports |= own
            if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node) or names != set(_binds(node)):
                continue
            told = json.dumps(_plain(node))
            entry = hashlib.sha256(told.encode()).hexdigest(), set(_uses(node))
            for name in names or {""}:  # a statement that binds nothing acts as soon as its module is loaded
                self.bound.setdefault(name, []).append(entry)


def _binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement of a module binds, or changes an entry of."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield from (one.id for one in ast.walk(node.value) if isinstance(one, ast.Name))
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda | ast.comprehension):
            yield from _binds(child)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _parts(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield those fields of a node that can change a number; the same in every version of Python."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "type_params", "kind") or isinstance(
            node, ast.Raise
        ):
            continue
        if name == "body" and isinstance(value, list):
            value = [one for one in value if not _is_text(one)]
        if value is not None and value != []:
            yield name, value


def _plain(value: Any) -> Any:
    if isinstance(value, ast.AST):
        return [type(value).__name__, *([name, _plain(one)] for name, one in _parts(value))]
    return [_plain(one) for one in value] if isinstance(value, list) else repr(value)


def _uses(value: Any) -> Iterator[_Use]:
    if isinstance(value, list):
        for one in value:
            yield from _uses(one)
    elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        yield value.value.id, value.attr
    elif isinstance(value, ast.Name):
        yield value.id, ""
    elif isinstance(value, ast.AST):
        for _, one in _parts(value):
            yield from _uses(one)


@functools.lru_cache(maxsize=2000)
def _read(text: str) -> _Module:
    return _Module(text)


@as_annotated
def reached(experiment: str, *, root: Path = ROOT) -> dict[str, str]:
    """Return the definitions that an experiment reaches, as ``module:name``, each with its checksum.

    Parameters
    ----------
    experiment : str
        Of `Run.experiment`, such as ``"collisions.fig3"``.
    root : Path, optional
        Folder of the package.

    Examples
    --------
    >>> "solvers.collisions.flow:flow" in reached("collisions.fig3")
    True
    """
    if not re.fullmatch(r"\w{1,100}\.\w{1,100}", experiment):
        raise ValueError(f"`experiment` must be one, as phenomenon.name; got {shown(experiment)}.")
    if not os.path.isdir(root):
        raise ValueError(f"`root` must be the folder of a package; got {shown(str(root))}.")
    room, _, name = experiment.partition(".")
    package = _Package(root)
    own = package.module(("validate", room))
    begins = own is not None and f"run_{name}" in {*own.bound, *own.imports}
    todo: list[_Place] = [(("validate", room if begins else "studies"), f"run_{name}")]
    seen: set[_Place] = set()
    found: dict[str, str] = {}
    while todo:
        place, name = todo.pop()
        here = package.module(place)
        if (place, name) in seen or here is None or ".".join(place) in LEFT_OUT:
            continue
        seen.add((place, name))
        if name in here.bound:
            found[f"{'.'.join(place)}:{name}"] = "".join(sorted(sum for sum, _ in here.bound[name]))
        todo += package.next(here, place, name)
    return found


class _Package:
    """The modules of a package, and where the names in them come from."""

    def __init__(self, root: Path) -> None:
        self.root, self.modules = root, dict[tuple[str, ...], _Module | None]()

    def module(self, place: tuple[str, ...]) -> _Module | None:
        if place not in self.modules:
            path = self.root.joinpath(*place)
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            self.modules[place] = _read(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self.modules[place]

    def next(self, here: _Module, place: tuple[str, ...], name: str) -> Iterator[_Place]:
        """Yield what a name of a module reaches at once; ``*`` is all of the module."""
        if name == "*":  # the module itself is handed on: any of its names may be used
            yield from ((place, one) for one in (*here.bound, *here.imports))
        elif name in here.bound:
            if "" in here.bound:
                yield place, ""
            for used, attribute in (use for _, uses in here.bound[name] for use in uses):
                if used in here.bound:
                    yield place, used
                elif used in here.imports:
                    yield self.origin(place, here.imports[used], attribute or "*")
        elif name in here.imports:
            yield self.origin(place, here.imports[name], "*")
        else:
            yield (*place, name), "*"  # a module of a package, if there is one

    def origin(self, place: tuple[str, ...], imported: _Import, attribute: str) -> _Place:
        """Return the module and the name there that an imported name, or an attribute of it, stands for."""
        dots, where, name = imported
        package = place if self.root.joinpath(*place).is_dir() else place[:-1]
        base = (*package[: len(package) - dots + 1], *(where.split(".") if where else ()))
        inside = self.module(base)
        if inside is not None and name in inside.bound:
            return base, name
        if inside is not None and name in inside.imports:  # handed on by a package
            return self.origin(base, inside.imports[name], attribute)
        return (*base, name), attribute


@as_annotated
def stamp(experiment: str, *, root: Path = ROOT) -> str:
    """Return a checksum of all that `reached` gives.

    Examples
    --------
    >>> len(stamp("collisions.fig3"))
    16
    """
    return hashlib.sha256(json.dumps(reached(experiment, root=root), sort_keys=True).encode()).hexdigest()[
        :16
    ]
