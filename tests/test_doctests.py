"""The examples of all docstrings run, and give what they show."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

from superposition.theory.features.values import law

LAYERS = ("superposition.theory", "superposition.solvers", "superposition.validate")
MODULES = [
    module.name
    for layer in LAYERS
    for module in pkgutil.walk_packages(importlib.import_module(layer).__path__, layer + ".")
]
# Modules of a package together; derivations alone, as tests/conftest.py sends them where others are kept.
PACKAGES = {name if name.endswith(".derive") else name.rpartition(".")[0] for name in MODULES}


def _examples(name):
    """Return how many examples of a module fail, and how many there are."""
    # Examples show numbers as one writes them, 0.5 and not np.float64(0.5).
    with np.printoptions(legacy="1.25"):
        return doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_examples(package, monkeypatch):
    monkeypatch.delitem(law._KNOWN, "half", raising=False)  # a test before may have run this example
    if ".training" in package:
        pytest.importorskip("torch", reason="examples that train need PyTorch")
    inside = [name for name in MODULES if name.rpartition(".")[0] == package and not name.endswith(".derive")]
    results = {name: _examples(name) for name in inside or [package]}
    assert [name for name, result in results.items() if result.failed] == []
    assert package != "superposition.theory.rug" or sum(result.attempted for result in results.values()) > 0
