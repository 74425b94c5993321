"""How layers load their subpackages."""

import json
import subprocess
import sys

LAYERS = ("theory", "solvers", "validate")

PACKAGE = """
import json, sys, superposition
layers = [getattr(superposition, name) for name in ("theory", "solvers", "validate")]
listed = [dir(module) for module in (superposition, *layers)]
before = [name for name in sys.modules if name.endswith((".rug", ".linear", ".noise"))]
subpackages = [layers[0].rug.__name__, layers[1].rug.__name__, layers[2].runner.findings.__name__]
print(json.dumps([superposition.__version__, listed, before, subpackages]))
"""


def test_layers_and_subpackages_are_loaded_when_used():
    done = subprocess.run([sys.executable, "-c", PACKAGE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, (top, *layers), before, subpackages = json.loads(done.stdout)
    assert version.count(".") == 2
    assert {*LAYERS, "best", "audit", "__version__"} <= set(top)
    assert all({"rug", "linear", "noise", "collisions"} <= set(listed) for listed in layers[:2])
    assert {"api", "experiments", "runner"} <= set(layers[2])
    assert before == []
    assert subpackages == [
        "superposition.theory.rug",
        "superposition.solvers.rug",
        "superposition.validate.runner.findings",
    ]
