"""How the floors give their rooms."""

import json
import subprocess
import sys

import pytest

FLOORS = ("theory", "solvers", "validate")

PACKAGE = """
import json, sys, superposition
floors = [getattr(superposition, name) for name in ("theory", "solvers", "validate")]
listed = [dir(one) for one in (superposition, *floors)]
before = [name for name in sys.modules if name.endswith((".rug", ".linear", ".noise"))]
rooms = [floors[0].rug.__name__, floors[1].rug.__name__, floors[2].runner.findings.__name__]
print(json.dumps([superposition.__version__, listed, before, rooms]))
"""


def test_the_package_gives_its_floors_and_they_their_rooms_when_asked():
    done = subprocess.run([sys.executable, "-c", PACKAGE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, (top, *floors), before, rooms = json.loads(done.stdout)
    assert version.count(".") == 2
    assert {*FLOORS, "best", "audit", "__version__"} <= set(top)
    assert all({"rug", "linear", "noise", "collisions"} <= set(listed) for listed in floors[:2])
    assert {"api", "experiments", "runner"} <= set(floors[2])
    assert before == []
    assert rooms == [
        "superposition.theory.rug",
        "superposition.solvers.rug",
        "superposition.validate.runner.findings",
    ]


@pytest.mark.parametrize("name", ["attic", "_private", "conftest", "tests"])
@pytest.mark.parametrize("package", ["superposition", "superposition.theory"])
def test_what_is_no_room_is_no_attribute(package, name):
    import importlib

    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute '{name}'"):
        getattr(importlib.import_module(package), name)
