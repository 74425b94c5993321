"""How layers load their subpackages."""

import subprocess
import sys

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
