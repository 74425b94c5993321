"""Words of a dialect that the code once had, and constants that are defined twice, stay out of it."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("theory", "solvers", "validate")
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
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


def names_of(tree: ast.AST) -> Counter[str]:
    """Count the names that code defines, takes or uses."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.arg):
            found[node.arg] += 1
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] += 1
    return found


def docstrings_of(tree: ast.AST) -> list[str]:
    """Return the docstrings of a module and of all that is in it."""
    kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
    return [text for node in ast.walk(tree) if isinstance(node, kinds) if (text := ast.get_docstring(node))]


def twice_defined(source: str) -> list[str]:
    """Return the constants that a module assigns more than once."""
    assigned: Counter[str] = Counter()
    for node in ast.parse(source).body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        assigned.update(
            name.id
            for target in targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and name.id.isupper()
        )
    return [name for name, count in assigned.items() if count > 1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_are_those_of_the_field(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert {name: NAMES[name] for name in names_of(tree) if name in NAMES} == {}
    assert path.stem not in NAMES
    assert [text for text in docstrings_of(tree) if PROSE.search(text)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_constant_is_defined_once(path):
    assert twice_defined(path.read_text("utf-8")) == []


def test_constants_that_are_defined_twice_are_found():
    assert twice_defined("_STEP = 1e-5\nX, _STEP = 1, 5e-8\nx = 1\nx = 2\n") == ["_STEP"]
