"""How kernels compile: other Python threads run while they do."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
import threading

import numba
import numpy as np
import pytest

from superposition import solvers, theory
from superposition.solvers.collisions import steps as collisions
from superposition.solvers.noise import steps as noise
from superposition.theory.kernels import kernel

SPINS = 2_000_000_000  # a few seconds: after that the flag was not seen


@kernel
def spin(flag, count, most):
    """Count until another thread raises the flag."""
    for _ in range(most):
        count[0] += 1
        if flag[0] > 0:
            return


def test_another_thread_runs_while_a_kernel_does():
    flag, count = np.zeros(1), np.zeros(1, np.int64)
    spin(np.ones(1), count, 1)  # compiled
    count[0] = 0
    worker = threading.Thread(target=spin, args=(flag, count, SPINS))
    worker.start()
    # With the interpreter's lock held by the kernel this line would wait for its end.
    flag[0] = 1.0
    worker.join()
    assert 0 < count[0] < SPINS


@pytest.mark.parametrize(
    "function", [collisions.packed_run, collisions.move, collisions.judge, noise.run_steps]
)
def test_kernels_give_the_lock_back(function):
    assert function.targetoptions["nogil"]


def all_kernels():
    for floor in (theory, solvers):
        for found in pkgutil.walk_packages(floor.__path__, floor.__name__ + "."):
            for value in vars(importlib.import_module(found.name)).values():
                if numba.extending.is_jitted(value):
                    yield value


def test_no_kernel_sorts_by_numpy():
    # The symbols of sort and argsort are the same, so that kernels kept by two processes can be mixed up.
    sorting = {"sort", "argsort", "unique", "median", "nanmedian", "partition", "percentile", "quantile"}
    found = list(all_kernels())
    assert len(found) > 100
    for one in found:
        names = {
            node.attr
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(one.py_func))))
            if isinstance(node, ast.Attribute)
        }
        assert not names & sorting, one.py_func.__qualname__


def test_generators_are_not_kept():
    # Numba cannot use a generator that it loads from its cache in a caller that it compiles anew.
    generators = [one for one in all_kernels() if inspect.isgeneratorfunction(one.py_func)]
    assert generators
    assert [one.py_func.__qualname__ for one in generators if one.stats.cache_path is not None] == []
