"""How kernels compile: never older than their source, and other Python threads run meanwhile."""

import ast
import importlib
import inspect
import io
import os
import pkgutil
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.np.ufunc.dufunc import DUFunc

from superposition import solvers, theory
from superposition.solvers.collisions import forces
from superposition.solvers.flow import inclusion
from superposition.solvers.noise import steps as noise
from superposition.theory.compile import kernels
from superposition.theory.compile.kernels import checksum, inner, kernel

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
    "function",
    [
        inclusion._compiled_march(forces.tied_listed),
        inclusion._trial_step,
        inclusion._step_error,
        noise.run_steps,
    ],
)
def test_kernels_give_the_lock_back(function):
    assert function.targetoptions["nogil"]


@inner
def doubled(x):
    return 2.0 * x


@kernel
def quadrupled(x):
    return doubled(doubled(x))


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_for_kernels_alone_cannot_be_called_from_python():
    for _ in range(2):  # before another kernel has compiled it, and after
        with pytest.raises(TypeError, match=r"test_kernels\.doubled is called by kernels alone"):
            doubled(1.0)
        assert quadrupled(1.5) == 6.0


def modules():
    for floor in (theory, solvers):
        for found in pkgutil.walk_packages(floor.__path__, floor.__name__ + "."):
            yield importlib.import_module(found.name)


def all_kernels():
    for module in modules():
        for value in vars(module).values():
            if numba.extending.is_jitted(value):
                yield value


def ufuncs():
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, DUFunc):
                yield value._dispatcher


def used(code):
    """Return the names that a function and those inside it look up in their module."""
    inner = (one for one in code.co_consts if inspect.iscode(one))
    return set(code.co_names).union(*map(used, inner))


def test_kernels_use_names_of_kernel_files_alone():
    # What a kernel uses is compiled into it, and only edits of kernel files are noticed.
    held = {one.__name__ for one in modules() if "kernels import" in inspect.getsource(one)}
    seen = 0
    for name in held:
        module = importlib.import_module(name)
        made = [one for one in vars(module).values() if numba.extending.is_jitted(one)]
        made += [one for one in ufuncs() if one.py_func.__module__ == name]
        names = set().union(*(used(one.py_func.__code__) for one in made if one.py_func.__module__ == name))
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and node.level:
                source = importlib.util.resolve_name(
                    "." * node.level + (node.module or ""), module.__package__
                )
                for one in names.intersection(alias.asname or alias.name for alias in node.names):
                    value = getattr(module, one)
                    home = value.py_func.__module__ if numba.extending.is_jitted(value) else source
                    assert home in held | {"superposition.theory.compile.kernels"}, (name, one, home)
                    seen += 1
    assert seen > 30


def test_numba_compares_the_checksum_of_the_kernel_files_that_are_imported():
    dispatchers = [one for one in all_kernels() if one.stats.cache_path] + list(ufuncs())
    assert len(dispatchers) > 100
    for one in dispatchers:
        cached = getattr(one, "_cache", getattr(one, "cache", None))
        source = one.py_func.__code__.co_filename
        assert cached._cache_file.source_stamp[1] == checksum(source), one.py_func.__qualname__


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("theory/compile/kernels.py", True),  # what all are compiled with
        ("theory/special/other.py", True),  # imported through a module that has no kernels
        ("solvers/unrelated.py", False),
        ("solvers/__init__.py", False),  # no kernel file: nothing of it stands in kernels
    ],
)
def test_the_checksum_covers_what_a_kernel_file_imports_and_no_more(tmp_path, monkeypatch, edited, changes):
    files = {
        "theory/compile/kernels.py": "",
        "theory/special/__init__.py": "from .other import (\n    f,\n)\n",
        "theory/special/other.py": "from ..compile.kernels import kernel\n",
        "solvers/__init__.py": "",
        "solvers/unrelated.py": "from ..theory.compile.kernels import kernel\n",
        "solvers/rug.py": "from ..theory import special\nfrom ..theory.compile.kernels import kernel\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "theory" / "compile" / "kernels.py"))
    monkeypatch.setattr(kernels, "_PACKAGE", str(tmp_path))
    before = checksum.__wrapped__(str(tmp_path / "solvers" / "rug.py"))
    with (tmp_path / edited).open("a") as file:
        file.write("# edited\n")
    kernels._read_module.cache_clear()
    after = checksum.__wrapped__(str(tmp_path / "solvers" / "rug.py"))
    kernels._read_module.cache_clear()
    assert (after != before) is changes


LOSS = """
from superposition.solvers.loss import exact_loss
from superposition.theory.features import Features
M = [[1.0 if i == j else 0.3 - 0.1 * (i + j) / {n} for j in range({n})] for i in range({n})]
try:
    print(exact_loss(M, [-0.05] * {n}, Features({n}, 0.3, values={values!r}, exactly={exactly})).loss)
except ValueError as error:
    print(error)
"""
# A kernel file, a part of it, its edited form, and a program that uses it through another kernel file.
EDITS = {
    "rug.closed <- special.normal": (
        "theory/special/normal.py",
        "t1 = density - x * t0",
        "t1 = density - 3.0 * x * t0",
        "from superposition.theory.rug import off_loss; print(off_loss(1.0, -0.1, 0.2))",
    ),
    "rug.optimum <- rug.closed": (
        "theory/rug/closed.py",
        "return a, (1.0 - p) * _off",
        "return a, 3.0 * (1.0 - p) * _off",
        "from superposition.solvers.rug import optimum; print(optimum(0.05, 0.25).loss)",
    ),
    "enumeration <- loss.cube": (
        "theory/loss/cube.py",
        "max(_cut_loss(",
        "3.0 * max(_cut_loss(",
        LOSS.format(n=4, values="uniform", exactly=2),
    ),
    "fourier <- at_most_one_active": (
        "solvers/loss/methods/at_most_one_active.py",
        "return ramp * ramp, 2.0 * ramp",
        "return 3.0 * ramp * ramp, 2.0 * ramp",
        LOSS.format(n=16, values="symmetric", exactly=None),
    ),
    "fourier <- transform_sums": (
        "solvers/loss/methods/transform_sums.py",
        "wave = weights[k]",
        "wave = 3.0 * weights[k]",
        LOSS.format(n=16, values="symmetric", exactly=None),
    ),
    "contour <- transform_sums": (
        "solvers/loss/methods/transform_sums.py",
        "wave = weights[k]",
        "wave = 3.0 * weights[k]",
        LOSS.format(n=4, values="exponential", exactly=None),
    ),
}


def test_what_is_edited_stands_in_its_file():
    for path, before, _, _ in EDITS.values():
        assert (Path(theory.__file__).parents[1] / path).read_text().count(before) == 1


def run_in(folder, program):
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, cwd=folder, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if k else ()) for k, name in enumerate(EDITS)],
)
def test_an_edit_of_a_kernel_changes_its_callers_in_other_files(tmp_path, name):
    path, before, after, program = EDITS[name]
    package = Path(theory.__file__).parents[1]
    for part in ("theory", "solvers"):
        shutil.copytree(
            package / part, tmp_path / "superposition" / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(package / "__init__.py", tmp_path / "superposition")
    first = run_in(tmp_path, program)
    assert run_in(tmp_path, program) == first
    edited = tmp_path / "superposition" / path
    text = edited.read_text()
    assert before in text
    edited.write_text(text.replace(before, after))
    assert run_in(tmp_path, program) != first


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


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("terminal", "patience", "lines"), [(True, 0.01, 1), (True, 60.0, 0), (False, 0.01, 0)]
)
def test_a_terminal_is_told_once_what_takes_long_to_compile(terminal, patience, lines, monkeypatch):
    monkeypatch.setattr(kernels, "PATIENCE", patience)
    written = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    one, compiled = kernels._Patience(), SimpleNamespace(data={"dispatcher": spin})
    for _ in range(2):
        one.on_start(compiled)
        one.on_start(compiled)  # a kernel that it calls
        time.sleep(0.1)
        one.on_end(compiled)
        one.on_end(compiled)
    assert written.getvalue().count("compiling") == lines
