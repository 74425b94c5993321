"""Every block of code of README and documentation: Python runs as printed, commands are understood or run."""

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
# Blocks of start.rst that tests/test_start.py runs; tests/validate/test_adding.py runs those on experiments.
ELSEWHERE = {"diagram": 3, "pairs": 5, "widths": 6, "sweep": 7}
NOT_RUN = {"start.rst 0", *(f"start.rst {k}" for k in ELSEWHERE.values())}  # the first one only imports
NOT_RUN |= {name for name in PYTHON if name.startswith("adding-an-experiment.rst")}
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
    assert {"README 0", "index.rst 0"} <= set(PYTHON)


@pytest.mark.printed
@pytest.mark.parametrize("name", [name for name in PYTHON if name not in NOT_RUN | CLUSTER])
def test_python_runs_as_printed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[name], name, "exec"), {"__name__": "__main__"})
    plt.close("all")
    assert capsys.readouterr().out or list(tmp_path.iterdir())
    if name == "README 0":
        assert (tmp_path / "explorer.html").stat().st_size > 10_000


def test_the_call_on_a_cluster_fits():
    """It needs a cluster: names and arguments of the call to this package are checked."""
    (name,) = CLUSTER
    calls = [one for one in ast.walk(ast.parse(PYTHON[name])) if isinstance(one, ast.Call)]
    (call,) = [one for one in calls if ast.unparse(one.func) == "sweep.run"]
    inspect.signature(sweep.run).bind(*call.args, **{one.arg: None for one in call.keywords})


def test_commands_are_understood():
    for line in LINES:
        words = shlex.split(line)[1:]
        if words[1:] in ([], ["--help"]):
            with pytest.raises(SystemExit, match="0"):
                parsing.make_parser().parse_args([words[0], "--help"])
        else:
            assert parsing.make_parser().parse_args(words).command == words[0]
        # Files of the project that are named are there.
        assert [word for word in words if word.startswith("validate/") and not (ROOT / word).exists()] == []


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
