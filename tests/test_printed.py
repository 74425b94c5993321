"""Every block of code of README and documentation: Python runs as printed, commands are understood or run."""

import argparse
import ast
import inspect
import re
import shlex
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from superposition.validate import cli
from superposition.validate.cli import parser as parsing
from superposition.validate.runner import sweep

pytestmark = pytest.mark.usefixtures("found_once")
ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {path.name: path.read_text("utf-8") for path in sorted(DOCS.glob("*.rst"))}


def _blocks(text, language):
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)", text, re.M)
    return [textwrap.dedent(one) for one in found]


PYTHON = {f"{name} {k}": one for name, text in PAGES.items() for k, one in enumerate(_blocks(text, "python"))}
PYTHON |= {f"README {k}": one for k, one in enumerate(re.findall(r"```python\n(.*?)```", README, re.S))}
# Run by tests/test_start.py and tests/validate/test_adding.py.
ELSEWHERE = {name for name in PYTHON if name.startswith(("start.rst", "adding-an-experiment.rst"))}
CLUSTER = {name for name, block in PYTHON.items() if "dask_jobqueue" in block}
SHELL = [
    *(one for text in PAGES.values() for one in _blocks(text, "sh")),
    *re.findall(r"```sh\n(.*?)```", README, re.S),
    parsing.EXAMPLES,
]
INLINE = [
    " ".join(one.split()) for one in re.findall(r"``(superposition [^`]*)``", "\n".join(PAGES.values()))
]


def _command_lines():
    for block in [*SHELL, *INLINE]:
        for printed in re.sub(r"\\\n\s*", " ", block).splitlines():
            line = re.split(r"  #|\s{3,}", printed.strip())[0]
            if line.startswith("superposition ") and not re.search(r"…|NAME|PHENOMENON|COMMAND", line):
                yield line


LINES = sorted({*_command_lines()})
# Commands that take seconds, one of a kind, as they are printed. The others are read by the parser alone.
RUN = (
    "best --n-features 5 --n-hidden 2 --p 0.05 --out best.npz --plot best.png",
    "audit best.npz --p 0.05 --html it.html",
    "claims --source cowsik2024 --wrong",
    "check validate/reference/certificates/wiring-n2-m1-p1-4.json",
    "sweep solvers.rug.optimum 'p=[0.01,0.1]' 'ratio=[0.1,0.5]' --store rug.zarr",
    "atlas n5-m2-p0.1-equal-tied --out best.safetensors --layout \"Anthropic notebook\"",
    "claims --id C8 --evidence",
)  # fmt: skip


def test_all_kinds_are_there():
    assert len(PYTHON) > 10
    assert len(LINES) > 15
    assert {"README 0", "index.rst 0"} <= set(PYTHON)
    assert len(CLUSTER) == 1


@pytest.mark.parametrize("name", [name for name in PYTHON if name not in ELSEWHERE | CLUSTER])
def test_python_runs_as_printed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[name], name, "exec"), {"__name__": "__main__"})
    plt.close("all")
    assert capsys.readouterr().out or list(tmp_path.iterdir())
    if name == "README 0":
        assert (tmp_path / "explorer.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", sorted(CLUSTER))
def test_the_call_on_a_cluster_fits(name):
    """It needs a cluster: names and arguments of the call to this package are checked."""
    calls = [one for one in ast.walk(ast.parse(PYTHON[name])) if isinstance(one, ast.Call)]
    (call,) = [one for one in calls if ast.unparse(one.func) == "sweep.run"]
    given = {one.arg: None for one in call.keywords}
    inspect.signature(sweep.run).bind(*call.args, **given)


@pytest.mark.parametrize("line", LINES)
def test_commands_are_understood(line):
    words = shlex.split(line)[1:]
    if len(words) == 1:  # the name of a command alone
        words.append("--help")
    if words[1] == "--help":
        with pytest.raises(SystemExit) as end:
            parsing.make_parser().parse_args(words)
        assert end.value.code == 0
    else:
        assert parsing.make_parser().parse_args(words).command == words[0]
    for word in words[1:]:  # files of the project that are named are there
        if word.startswith("validate/"):
            assert (ROOT / word).exists()


def test_commands_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep.running, "available_cores", lambda: 0)  # the sweep runs in this process
    (tmp_path / "validate").symlink_to(ROOT / "validate")
    for line in RUN:
        if "--store" in line:
            pytest.importorskip("zarr", reason="stores are Zarr's")
        assert any(one == f"superposition {line}" for one in LINES), line
        assert cli.main(shlex.split(line)) == 0
        assert capsys.readouterr().out


def test_targets_of_make_exist():
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    texts = [README, (ROOT / "CONTRIBUTING.md").read_text("utf-8"), *PAGES.values()]
    named = {
        one
        for text in texts
        for one in re.findall(r"`make ([\w-]+)|^make ([\w-]+)", text, re.M)
        for one in one
    }
    assert named - {""} <= targets


def test_every_option_named_in_prose_exists():
    known = {"--help", "--version"}
    todo = [parsing.make_parser()]
    while todo:
        for action in todo.pop()._actions:
            known |= set(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                todo += action.choices.values()
    for name, text in {**PAGES, "README": README}.items():
        prose = re.sub(r"dask [^\n]*(\\\n[^\n]*)*|pytest [^\n]*", "", text)
        for option in re.findall(r"``(--[a-z][\w-]+)", prose):
            assert option in known, (name, option)
