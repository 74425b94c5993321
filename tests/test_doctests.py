"""The examples of all docstrings run, and give what they show."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

FLOORS = ("superposition.theory", "superposition.solvers", "superposition.validate")
MODULES = [
    module.name
    for floor in FLOORS
    for module in pkgutil.walk_packages(importlib.import_module(floor).__path__, floor + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if ".training" in name:
        pytest.importorskip("torch", reason="examples that train need PyTorch")
    # Examples show numbers as one writes them, 0.5 and not np.float64(0.5).
    with np.printoptions(legacy="1.25"):
        failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    counts = [sum(bool(t.examples) for t in finder.find(importlib.import_module(n))) for n in MODULES]
    assert sum(counts) > 20
