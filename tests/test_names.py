"""No module assigns a name twice."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for layer in ("theory", "solvers", "validate")
    for path in (ROOT / layer).rglob("*.py")
}


def assigned(node):
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def assigned_twice(tree):
    """Return the names that a module assigns more than once; `_` may be."""
    names = [name for node in tree.body for name in assigned(node) if name != "_"]
    return sorted({name for name in names if names.count(name) > 1})


def test_no_module_assigns_a_name_twice():
    assert assigned_twice(ast.parse("_STEP = 1e-5\nX, _STEP = 1, 5e-8\nY: int = 1\ndef Y(X): pass")) == [
        "Y",
        "_STEP",
    ]
    twice = {path: assigned_twice(tree) for path, tree in MODULES.items()}
    assert len(twice) > 100
    assert {path: names for path, names in twice.items() if names} == {}
