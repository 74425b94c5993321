"""What the code of the ledger and of the experiments must not do, read off its syntax."""

import ast
import re
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "validate"
CLAIMS = sorted(path.stem for path in (ROOM / "claims").glob("*.py"))
# A measured number is one with a decimal point or in per cent; that of an equation or a section is none.
TYPED = re.compile(r"(?<!Eq\. )(?<!sec\. )(?<!Fig\. )(?<![\w.])\d+\.\d|\d ?%")


def calls(tree, name):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def literal_parts(node):
    """Return the texts of a string or an f-string that are typed in, without its formats."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.Constant)]
    return [text for child in ast.iter_child_nodes(node) for text in literal_parts(child)]


def faults_of_corrections(source):
    """Return what is wrong with the corrections of a module of the ledger."""
    tree, found = ast.parse(source), []
    for call in calls(tree, "claim"):
        if len(call.args) > 4 or any(word.arg == "correction" for word in call.keywords):
            found.append(f"line {call.lineno}: a correction that no finding carries")
    for call in calls(tree, "says"):
        if len(call.args) < 2:
            found.append(f"line {call.lineno}: a sentence without a finding")
        for text in literal_parts(call.args[0]) if call.args else []:
            if TYPED.search(text):
                found.append(f"line {call.lineno}: a number is typed into {text!r}")
    return found


def imports_of_statistics(source):
    """Return the lines of a module that import scipy.stats."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
        found += [node.lineno for name in names if f"{name}.".startswith("scipy.stats.")]
    return found


@pytest.mark.parametrize("name", CLAIMS)
def test_every_sentence_of_a_correction_has_findings_and_computed_numbers(name):
    assert faults_of_corrections((ROOM / "claims" / f"{name}.py").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "name",
    sorted(path.relative_to(ROOM).as_posix() for path in ROOM.rglob("*.py")),
)
def test_statistics_have_a_room_of_their_own(name):
    found = imports_of_statistics((ROOM / name).read_text(encoding="utf-8"))
    assert bool(found) == (name == "statistics.py")


@pytest.mark.parametrize(
    "source",
    [
        'claim("X1", "s", "1", "a", "it is so")',
        'claim("X1", "s", "1", "a", correction="it is so")',
        'says("it is so")',
        'says("it is 0.77 times that", found)',
        'says(f"{x:.1%} and 12 % more", found)',
        'says("it is" + f" about {1}, at most 3.5", found)',
    ],
)
def test_canary_faults_of_corrections_are_found(source):
    assert len(faults_of_corrections(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'claim("X1", "s", "1", "a", needs=["rug.trained"])',
        'says(f"it is {x:.2f} times n^2/(4m), {y:.1%}, of Eq. 2.4 and L2", found)',
        'says("one half", *found)',
    ],
)
def test_what_is_allowed_is_no_fault(source):
    assert faults_of_corrections(source) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import scipy.stats", 1),
        ("from scipy import stats, special", 1),
        ("from scipy.stats import t", 1),
        ("from scipy import special\nfrom .statistics import mean", 0),
    ],
)
def test_imports_of_statistics_are_found(source, count):
    assert len(imports_of_statistics(source)) == count
