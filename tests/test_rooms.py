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


PACKAGE = """
import json, sys, superposition
floors = [getattr(superposition, name) for name in ("theory", "solvers", "validate")]
listed = [dir(one) for one in (superposition, *floors)]
before = [name for name in sys.modules if name.endswith((".rug", ".linear", ".noise"))]
rooms = [one.rug.__name__ for one in floors]
print(json.dumps([superposition.__version__, listed, before, rooms]))
"""


def test_the_package_gives_its_floors_and_they_their_rooms_when_asked():
    version, (top, *floors), before, rooms = _told(PACKAGE)
    assert version.count(".") == 2
    assert {*FLOORS, "best", "audit", "__version__"} <= set(top)
    assert all({"rug", "linear", "noise", "collisions"} <= set(listed) for listed in floors)
    assert before == []
    assert rooms == [f"superposition.{floor}.rug" for floor in FLOORS]


@pytest.mark.parametrize("name", ["attic", "_private", "conftest", "tests"])
@pytest.mark.parametrize("package", ["superposition", "superposition.theory"])
def test_what_is_no_room_is_no_attribute(package, name):
    import importlib

    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute '{name}'"):
        getattr(importlib.import_module(package), name)
