"""What the code of the ledger and of the experiments must not do, read off its syntax."""

import ast
import contextlib
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from superposition import validate
from superposition.validate.experiments import atlas
from superposition.validate.proofs import certificates
from superposition.validate.runner import commands, provenance, sweep

VALIDATE = Path(__file__).parents[2] / "validate"
LEDGER = sorted((VALIDATE / "ledger").glob("*.py"))
WITH_TOPICS = [
    path for path in VALIDATE.rglob("*.py") if path.parent != VALIDATE and "Topic(" in path.read_text("utf-8")
]
ORDERS = {ast.Lt, ast.LtE, ast.Gt, ast.GtE}
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
    tree = ast.parse(source)
    faults = [
        f"line {call.lineno}: a correction that no finding carries"
        for call in calls(tree, "claim")
        if len(call.args) > 4 or any(word.arg == "correction" for word in call.keywords)
    ]
    for call in calls(tree, "corrected_statement"):
        if len(call.args) < 2:
            faults.append(f"line {call.lineno}: a sentence without a finding")
        texts = literal_parts(call.args[0]) if call.args else []
        faults += [f"line {call.lineno}: a number is typed into {t!r}" for t in texts if TYPED.search(t)]
    return faults


def limits_of_shows(source):
    """Return where functions that show a topic compare with a limit that no criterion declares."""
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    # A plot may leave out what an axis cannot show; what shows is the third argument of a topic.
    todo = [
        word.id
        for call in calls(tree, "Topic")
        for shown in call.args[2:3]
        for word in ast.walk(shown)
        if isinstance(word, ast.Name)
    ]
    found, seen = [], set()
    while todo:
        name = todo.pop()
        if name in seen or name.startswith("plot_") or name not in functions:
            continue
        seen.add(name)
        todo += [word.id for word in ast.walk(functions[name]) if isinstance(word, ast.Name)]
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Compare) and any(type(op) in ORDERS for op in node.ops):
                sides = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
                if any(
                    (isinstance(part, ast.Constant) and isinstance(part.value, float))
                    or (isinstance(part, ast.Name) and part.id.isupper() and len(part.id) > 1)
                    for part in sides
                ):
                    found.append(f"{name}, line {node.lineno}: {ast.unparse(node)}")
    return found


def test_what_shows_decides_nothing():
    """A limit belongs to a criterion, declared once with how it was set, or to a row of the ledger."""
    assert len(WITH_TOPICS) > 40
    limits = {path.name: limits_of_shows(path.read_text("utf-8")) for path in WITH_TOPICS}
    assert {name: lines for name, lines in limits.items() if lines} == {}


@pytest.mark.parametrize(
    "line", ["gap <= 0.1", "gap < NEAR", "(gap > 1 - 1e-9).sum()", "0.9 * bound <= gap < bound", "_more(gap)"]
)
def test_canary_limits_of_shows_are_found(line):
    source = f"def _more(x):\n    return x > SMALL\n\ndef _show(gap):\n    return {line}\n"
    assert len(limits_of_shows(f"{source}\nTOPICS = [Topic('a', ['b'], _show)]")) == 1


@pytest.mark.parametrize("line", ["NEAR.satisfied(gap)", "found < bound", "count > 1", "plot_it(gap)"])
def test_counts_and_criteria_are_no_limits_of_shows(line):
    source = f"def plot_it(x):\n    return x > 1e-7\n\ndef _show(gap):\n    return {line}\n"
    assert limits_of_shows(f"{source}\nTOPICS = [Topic('a', ['b'], _show)]") == []


def test_every_sentence_of_a_correction_has_findings_and_computed_numbers():
    faults = {path.name: faults_of_corrections(path.read_text("utf-8")) for path in LEDGER}
    assert {name: lines for name, lines in faults.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        'claim("X1", "s", "1", "a", "it is so")',
        'claim("X1", "s", "1", "a", correction="it is so")',
        'corrected_statement("it is so")',
        'corrected_statement("it is 0.77 times that", found)',
        'corrected_statement(f"{x:.1%} and 12 % more", found)',
        'corrected_statement("it is" + f" about {1}, at most 3.5", found)',
    ],
)
def test_canary_faults_of_corrections_are_found(source):
    assert len(faults_of_corrections(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'claim("X1", "s", "1", "a", needs=["rug.trained"])',
        'corrected_statement(f"it is {x:.2f} times n^2/(4m), {y:.1%}, of Eq. 2.4 and L2", found)',
        'corrected_statement("one half", *found)',
    ],
)
def test_what_is_allowed_is_no_fault(source):
    assert faults_of_corrections(source) == []


# What reads or only keeps a path; `files` is the package of those that write, which the others call.
READS = {
    "proofs.certificates.make.check",
    "proofs.certificates.lean.lean_goal",
    "experiments.codes.marks.run_known",
    "experiments.codes.symmetry.run_stored",
    "loading.files.read_file",
    "loading.files.read_settings",
    "loading.unpickling.load_inert",
    "experiments.rug.losses.run_reference",
    "runner.sweep.store.open",
    "training.checkpoint.load",
    "runner.cache.ResultCache.__init__",
    "report.build.Report.__init__",
}
# Called by the report alone, in a folder that it has claimed.
INSIDE = {"training.checkpoint.save"}
# Refuses names that do not end in .html.
PAGES = {"report.explorer.explore"}


def takers_of_paths():
    """Yield each public function of validate that takes a path, and whether it takes it by position."""
    for module in pkgutil.walk_packages(validate.__path__, f"{validate.__name__}."):
        if module.name.endswith("__main__"):
            continue
        found = importlib.import_module(module.name)
        for name in getattr(found, "__all__", [one for one in vars(found) if not one.startswith("_")]):
            one = getattr(found, name)
            if not str(getattr(one, "__module__", "")).startswith(validate.__name__):
                continue
            functions = {name: one} if inspect.isfunction(one) else {}
            if inspect.isclass(one):
                own = {key: part for key, part in vars(one).items() if inspect.isfunction(part)}
                functions = {f"{name}.{k}": f for k, f in own.items() if k == "__init__" or k[0] != "_"}
            for function in functions.values():
                taken = [
                    part
                    for part in inspect.signature(function).parameters.values()
                    if "Path" in str(part.annotation) and "Callable" not in str(part.annotation)
                ]
                if taken:
                    place = function.__module__.removeprefix(f"{validate.__name__}.")
                    yield (
                        f"{place}.{function.__qualname__}",
                        any(part.kind is not part.KEYWORD_ONLY for part in taken),
                    )


def test_functions_that_write_say_so_or_take_their_path_by_name():
    """A bare word that is given by mistake must not become a file in the working folder."""
    positional = {name for name, by_position in takers_of_paths() if by_position}
    others = {name for name in positional if not name.startswith("reference.files.") and "write" not in name}
    assert others == READS | INSIDE | PAGES


@pytest.mark.parametrize("word", ["x", "a b", "x.json", "x.npz"])
def test_what_reads_writes_nothing(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in sorted(READS):
        module, _, label = name.removesuffix(".__init__").rpartition(".")
        found = importlib.import_module(f"{validate.__name__}.{module}")
        path = Path(word)
        arguments = {"load": (None, path, {}, []), "run_stored": ({"run": "x"}, path)}.get(label, (path,))
        with contextlib.suppress(ValueError, OSError, ImportError):
            getattr(found, label)(*arguments)
        assert list(tmp_path.iterdir()) == [], name


@pytest.mark.parametrize(
    "call",
    [
        lambda: certificates.certify("x", [[1]], [0], 0.5),
        lambda: certificates.wiring_certificate("x", 2, 1, 0.5),
        lambda: certificates.pentagon_certificate("x"),
        lambda: atlas.export("n2-m1-p0.1-equal-tied", "x.npz"),
        lambda: atlas.make("x"),
        lambda: commands.make_runs([], "x"),
        lambda: provenance.add_run("x"),
        lambda: sweep.run("theory.rug.sigma", {"p": [0.1]}, "x"),
    ],
)
def test_a_word_in_the_place_of_a_path_becomes_no_file(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"positional argument|keyword-only argument: 'path'"):
        call()
    assert list(tmp_path.iterdir()) == []
