"""No module assigns a name twice; words that say nothing away from their file are no names."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# No name at all, not even of a local variable.
BANNED_WORDS = """after agreed along apart asked away bends bent between blurred broken built called
    captured counted covered dear each ever few floor following found given gone heard here hit joined
    judged kept less loud made met more much never once one own place plain quiet room running said says
    settled shown sided some stirred stopped stored stretched there through tilted together told tried
    turned until want within written"""
# No function, class, method or attribute.
BANNED_DEFINITIONS = """again ahead alike also any around back before below beside beyond both checked
    chosen drawn early even failed far grown inside later lost many meant missing moved near needed
    nothing off other others over remaining rest same saved seen shared solved still taken used wanted
    what which why worth"""


@pytest.fixture(scope="module")
def modules():
    """Return the syntax tree of each module, by its path."""
    return {
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


def test_no_module_assigns_a_name_twice(modules):
    sample = ast.parse("_STEP = 1e-5\nX, _STEP = 1, 5e-8\nY: int = 1\ndef Y(X): pass")
    assert assigned_twice(sample) == ["Y", "_STEP"]
    twice = {path: assigned_twice(tree) for path, tree in modules.items()}
    assert len(twice) > 100
    assert {path: names for path, names in twice.items() if names} == {}


def names_set_in(tree):
    """Return the variables that a syntax tree sets."""
    return [
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def definitions(tree):
    """Yield the names of functions, classes, methods and attributes that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            fields = (line for line in node.body if not isinstance(line, ast.FunctionDef))
            yield from (name for line in fields for name in names_set_in(line))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def stored_names(tree):
    """Return all names that a module defines: definitions, parameters and variables."""
    parameters = [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
    return [*definitions(tree), *parameters, *names_set_in(tree)]


def banned(names, words):
    """Return the names that are one of the `words`, but for case and underscores around them."""
    return sorted({name for name in names if name.strip("_").lower() in words.split()})


def test_names_are_no_participles_adverbs_or_pronouns(modules):
    sample = ast.parse("def kind(told): found = 1\nclass A:\n  _given: int\n  def here(self): self.lost = 1")
    assert banned(stored_names(sample), BANNED_WORDS) == ["_given", "found", "here", "told"]
    assert banned(definitions(sample), BANNED_DEFINITIONS) == ["lost"]
    places = {
        path: [*banned(stored_names(tree), BANNED_WORDS), *banned(definitions(tree), BANNED_DEFINITIONS)]
        for path, tree in modules.items()
    }
    refused = {path: names for path, names in places.items() if names}
    assert refused == {}, "names of no participle, adverb or pronoun, please: nouns say what they hold"
