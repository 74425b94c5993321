"""Which code a result is stamped with: the definitions that it reaches, and none that change no number."""

import shutil

import pytest

from superposition.validate import stamps
from superposition.validate.index import stored_runs

PACKAGE = {
    "validate/room/__init__.py": "from .runs import run_x\n__all__ = ['run_x']\n",
    "validate/room/runs.py": '''
from typing import Any
from ...solvers import tools
from ...solvers.tools import TABLE as ENTRIES
from ...theory import arguments

SIZE = 3

def other():
    return tools.apart()

def run_x(n: int = 2) -> Any:
    """Say what is done."""
    n = arguments.integer("n", n)
    if n < 0:
        raise ValueError(f"`n` must be at least 0; got {n}.")
    from ..late import late
    return tools.near(n) + SIZE * ENTRIES[n] + late(n)
''',
    "validate/late.py": "def late(n):\n    return n + 0.5\n",
    "solvers/__init__.py": "",
    "solvers/tools/__init__.py": "from .deep import TABLE, near\nfrom .deep import apart\n",
    "solvers/tools/deep.py": """
TABLE = {}
TABLE[1] = 2.0
STEP = 0.1
class Far:
    step = STEP

def near(n):
    return Far.step * n

def apart():
    return 7
""",
    "theory/__init__.py": "",
    "theory/arguments.py": "def integer(name, n):\n    return int(n)\n",
}


@pytest.fixture
def package(tmp_path):
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def edited(package, name, old, new):
    path = package / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return stamps.stamp("room.x", root=package)


def test_what_is_reached_is_what_the_names_lead_to(package):
    assert set(stamps.reached("room.x", root=package)) == {
        "validate.room.runs:run_x",
        "validate.room.runs:SIZE",
        "validate.late:late",
        "solvers.tools.deep:TABLE",
        "solvers.tools.deep:near",
        "solvers.tools.deep:Far",
        "solvers.tools.deep:STEP",
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("solvers/tools/deep.py", "0.1", "0.2"),
        ("solvers/tools/deep.py", "TABLE[1] = 2.0", "TABLE[1] = 3.0"),
        ("solvers/tools/deep.py", "step * n", "step / n"),
        ("solvers/tools/deep.py", "STEP = 0.1\n", "STEP = 0.1\nSTEP += 1\n"),
        ("solvers/tools/deep.py", "STEP = 0.1\n", "STEP = 0.1\nTABLE.clear()\n"),
        (
            "solvers/tools/__init__.py",
            "from .deep import TABLE, near",
            "from .deep import TABLE, apart as near",
        ),
        ("validate/room/runs.py", "n: int = 2", "n: int = 3"),
        ("validate/late.py", "0.5", "0.25"),
    ],
)
def test_a_change_of_what_computes_is_another_stamp(package, name, old, new):
    before = stamps.stamp("room.x", root=package)
    assert edited(package, name, old, new) != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("solvers/tools/deep.py", "return 7", "return 8"),
        ("solvers/tools/deep.py", "STEP = 0.1", "# a tenth\nSTEP = (0.1)"),
        ("validate/room/runs.py", "Say what is done", "Say it otherwise"),
        ("validate/room/runs.py", "must be at least 0", "must not be negative"),
        ("validate/room/runs.py", "n: int = 2) -> Any", "n: float = 2) -> object"),
        ("theory/arguments.py", "int(n)", "round(n)"),
    ],
)
def test_a_change_of_what_computes_nothing_is_the_same_stamp(package, name, old, new):
    before = stamps.stamp("room.x", root=package)
    assert edited(package, name, old, new) == before


def test_every_job_reaches_its_experiment_and_what_that_trains_or_solves_with():
    for one in {run.experiment for run in stored_runs().values()}:
        found = stamps.reached(one)
        assert len(found) > 30, one
        assert any(name.endswith(f":run_{one.partition('.')[2]}") for name in found)
        assert not any(name.partition(":")[0] in stamps.LEFT_OUT for name in found)
    assert "validate.training.engine:run_block" in stamps.reached("unequal.width")
    assert "solvers.loss.exact:exact_loss" in stamps.reached("unequal.width")


def test_the_stamp_is_that_of_the_text_wherever_it_lies(tmp_path):
    for floor in ("theory", "solvers", "validate"):
        skip = shutil.ignore_patterns("__pycache__", "reference")
        shutil.copytree(stamps.ROOT / floor, tmp_path / floor, ignore=skip)
    assert stamps.stamp("collisions.fig3", root=tmp_path) == stamps.stamp("collisions.fig3")
