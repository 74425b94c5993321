"""How the floors give their rooms, and what importing them loads."""

import json
import subprocess
import sys

import pytest

FLOORS = ("theory", "solvers", "validate")

ALL_ROOMS = """
import importlib, json, pkgutil, sys
from superposition import solvers, theory
for floor in (theory, solvers):
    for module in pkgutil.walk_packages(floor.__path__, floor.__name__ + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def _told(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_all_of_theory_and_solvers_loads_no_more_than_they_compute_with():
    loaded = _told(ALL_ROOMS)
    assert "superposition.solvers.loss.exact" in loaded
    heavy = {
        "torch",
        "matplotlib",
        "sympy",
        "mpmath",
        "scipy.stats",
        "xarray",
        "pandas",
        "rich",
        "hypothesis",
    }
    assert not heavy.intersection(loaded)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_gives_its_rooms_when_asked(floor):
    program = (
        f"import json, sys, superposition.{floor} as floor\n"
        "before = [name for name in sys.modules if name.endswith(('.rug', '.linear', '.noise'))]\n"
        "print(json.dumps([before, floor.rug.__name__, dir(floor)]))"
    )
    before, name, listed = _told(program)
    assert before == []
    assert name == f"superposition.{floor}.rug"
    assert {"rug", "linear", "noise", "collisions"} <= set(listed)


def test_the_package_gives_its_floors_and_its_version():
    program = (
        "import json, superposition\n"
        "floors = dir(superposition)\n"
        "print(json.dumps([superposition.__version__, floors, superposition.theory.rug.__name__]))"
    )
    version, listed, name = _told(program)
    assert version.count(".") == 2
    assert {"solvers", "theory", "validate", "best", "audit", "__version__"} <= set(listed)
    assert name == "superposition.theory.rug"


@pytest.mark.parametrize("name", ["attic", "_private", "conftest", "tests"])
@pytest.mark.parametrize("package", ["superposition", "superposition.theory"])
def test_what_is_no_room_is_no_attribute(package, name):
    import importlib

    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute '{name}'"):
        getattr(importlib.import_module(package), name)
