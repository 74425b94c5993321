"""Rules for the names in a module."""

import ast
from pathlib import Path

import pytest

import superposition

ROOT = Path(superposition.__file__).parent
MODULES = sorted(
    path for floor in ("theory", "solvers", "validate") for path in ROOT.joinpath(floor).rglob("*.py")
)


def assigned(node):
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


def twice(source):
    """Return the names that a module assigns more than once; `_` may be."""
    names = [name for node in ast.parse(source).body for name in assigned(node) if name != "_"]
    return sorted({name for name in names if names.count(name) > 1})


def test_no_module_assigns_a_name_twice():
    assert len(MODULES) > 100
    found = {str(path.relative_to(ROOT)): twice(path.read_text("utf-8")) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("A, B = 1, 2\nB = 3", ["B"]),
        ("def f(): pass\nf = 1", ["f"]),
        ("A: int = 1\nA = 2", ["A"]),
        ("A = 1\ndef f():\n    A = 2", []),
    ],
)
def test_a_name_that_is_assigned_twice_is_seen(source, names):
    assert twice(source) == names
