"""How layers load their subpackages, and what a user's type checker knows of the package."""

import subprocess
import sys
from pathlib import Path

import superposition

PROGRAM = """
import sys
from superposition import solvers, theory, validate
assert {"rug", "linear", "noise", "collisions"} <= {*dir(theory)} & {*dir(solvers)}
assert {"api", "experiments", "runner"} <= {*dir(validate)}
assert not [name for name in sys.modules if name.endswith((".rug", ".linear", ".noise"))]
print(theory.rug.__name__, solvers.rug.__name__, validate.runner.findings.__name__)
"""


def test_layers_and_subpackages_are_loaded_when_used():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    names = "superposition.theory.rug superposition.solvers.rug superposition.validate.runner.findings\n"
    assert (done.stderr, done.stdout) == ("", names)


def test_all_public_names_have_types():
    root = Path(superposition.__file__).parent
    text = (root / "__init__.py").read_text()
    assert [name for name in superposition.__all__ if f" import {name} as {name}\n" not in text] == []
    assert (root / "py.typed").exists()
