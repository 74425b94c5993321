"""Words of a dialect that the code once had stay out of it, and no module assigns a name twice."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for layer in ("theory", "solvers", "validate")
    for path in (ROOT / layer).rglob("*.py")
}
# As names of modules, functions, classes, attributes, parameters and variables, with what says it better.
NAMES = {
    "laboratory": "cache of results",
    "Lab": "ResultCache",
    "judged": "stored verdicts",
    "lazily": "lazy_submodules",
    "rooms": "packages",
    "house": "architecture",
    "foresee": "predict",
    "door": "api",
    "shelf": "cache_folder",
    "agreed": "require_same_settings",
    "unheard": "power of dead features",
    "bent_loss": "loss_with_hidden_relu",
    "stirred": "perturbed",
    "alike_loss": "equal_features_loss",
    "_alike": "equal features",
    "_unlike": "general features",
    "_heard": "drop_zero_weight_inputs",
    "sided": "average_at_kinks",
    "stretched": "scaled weights",
    "Ask": "AccuracyRequest",
    "ASIDE": "KINK_OFFSET",
    "LOST": "REJECT_RTOL",
    "Others": "OtherFeatures",
    "Setting": "NeuronContext",
    "reach_of": "copy_cache_from",
    "Waves": "CharacteristicFunction",
    "Watch": "Stopwatch",
    "_tells": "tail_factors",
    "Menu": "LagrangianChoices",
    "_Dealer": "PlaneAssignment",
    "Shown": "TopicContent",
    "Lost": "WorkerLost",
    "tidy": "rows of datasets",
}
PROSE = re.compile(r"\b(laboratory|the house|rooms? of|upper floor|lower floors?)\b", re.I)


def names_of(tree):
    """Return the names that code defines, takes or uses."""
    fields = {
        ast.Name: "id",
        ast.Attribute: "attr",
        ast.arg: "arg",
        ast.FunctionDef: "name",
        ast.ClassDef: "name",
    }
    return {getattr(node, fields[type(node)]) for node in ast.walk(tree) if type(node) in fields}


def docstrings_of(tree):
    """Return the docstrings of a module and of all that is in it."""
    kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
    return [text for node in ast.walk(tree) if isinstance(node, kinds) if (text := ast.get_docstring(node))]


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


def test_names_are_those_of_the_field():
    assert len(MODULES) > 100
    words = {path: (names_of(tree) | {Path(path).stem}) & NAMES.keys() for path, tree in MODULES.items()}
    assert {path: {name: NAMES[name] for name in names} for path, names in words.items() if names} == {}
    prose = {
        path: [text for text in docstrings_of(tree) if PROSE.search(text)] for path, tree in MODULES.items()
    }
    assert {path: texts for path, texts in prose.items() if texts} == {}


def test_no_module_assigns_a_name_twice():
    twice = {path: assigned_twice(tree) for path, tree in MODULES.items()}
    assert {path: names for path, names in twice.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("A, B = 1, 2\nB = 3", ["B"]),
        ("_STEP = 1e-5\nX, _STEP = 1, 5e-8", ["_STEP"]),
        ("def f(): pass\nf = 1", ["f"]),
        ("A: int = 1\nA = 2", ["A"]),
        ("A = 1\ndef f():\n    A = 2", []),
    ],
)
def test_a_name_that_is_assigned_twice_is_seen(source, names):
    assert assigned_twice(ast.parse(source)) == names
