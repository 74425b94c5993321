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


def names_in(tree):
    """Yield all names that a module sets, each with whether a function, class, method or attribute has it."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    lines = [line for body in bodies for line in body if not isinstance(line, ast.FunctionDef)]
    fields = {id(node) for line in lines for node in ast.walk(line)}
    for node in ast.walk(tree):
        is_set = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.arg):
            yield node.arg, False
        elif isinstance(node, ast.Attribute) and is_set:
            yield node.attr, True
        elif isinstance(node, ast.Name) and is_set:
            yield node.id, id(node) in fields


def banned(tree):
    """Return the banned names that a module sets, whatever their case and the underscores around them."""
    words = {False: BANNED_WORDS.split(), True: (BANNED_WORDS + " " + BANNED_DEFINITIONS).split()}
    return sorted(
        {name for name, is_definition in names_in(tree) if name.strip("_").lower() in words[is_definition]}
    )


def test_names_are_no_participles_adverbs_or_pronouns(modules):
    sample = "def kind(told): found = lost = 1\nclass A:\n  _given: int\n  def here(self): self.saved = 1"
    assert banned(ast.parse(sample)) == ["_given", "found", "here", "saved", "told"]
    refused = {path: banned(tree) for path, tree in modules.items() if banned(tree)}
    assert refused == {}, "names of no participle, adverb or pronoun, please: nouns say what they hold"
