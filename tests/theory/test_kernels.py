"""How kernels compile: never older than their source, and other Python threads run meanwhile."""

import ast
import importlib
import inspect
import io
import pkgutil
import sys
import threading
import time
from collections import defaultdict
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.np.ufunc.dufunc import DUFunc

from superposition import solvers, theory
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
    for layer in (theory, solvers):
        for found in pkgutil.walk_packages(layer.__path__, layer.__name__ + "."):
            yield importlib.import_module(found.name)


def all_kernels():
    return [one for module in modules() for one in vars(module).values() if numba.extending.is_jitted(one)]


def ufuncs():
    return [
        one._dispatcher for module in modules() for one in vars(module).values() if isinstance(one, DUFunc)
    ]


def names_in(code):
    """Return the names that a function and those inside it look up in their module."""
    return set(code.co_names).union(*map(names_in, filter(inspect.iscode, code.co_consts)))


def test_kernels_use_names_of_kernel_files_alone():
    # What a kernel uses is compiled into it, and only edits of kernel files are noticed.
    held = {one.__name__ for one in modules() if "kernels import" in inspect.getsource(one)}
    names = defaultdict(set)
    for one in (*all_kernels(), *ufuncs()):
        names[one.py_func.__module__] |= names_in(one.py_func.__code__)
    seen = 0
    for name in held:
        module = importlib.import_module(name)
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and node.level:
                source = "." * node.level + (node.module or "")
                for one in names[name].intersection(alias.asname or alias.name for alias in node.names):
                    value = getattr(module, one)
                    home = importlib.util.resolve_name(source, module.__package__)
                    home = value.py_func.__module__ if numba.extending.is_jitted(value) else home
                    assert home in held | {"superposition.theory.compile.kernels"}, (name, one, home)
                    seen += 1
    assert seen > 30


def test_numba_compares_the_checksum_of_the_kernel_files_that_are_imported():
    dispatchers = [one for one in all_kernels() if one.stats.cache_path] + ufuncs()
    assert len(dispatchers) > 100
    for one in dispatchers:
        cached = getattr(one, "_cache", getattr(one, "cache", None))
        wanted = checksum(one.py_func.__code__.co_filename)
        assert cached._cache_file.source_stamp[1] == wanted, one.py_func.__qualname__


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


def test_no_kernel_sorts_by_numpy():
    # The symbols of sort and argsort are the same, so that kernels kept by two processes can be mixed up.
    sorting = {"sort", "argsort", "unique", "median", "nanmedian", "partition", "percentile", "quantile"}
    found = all_kernels()
    assert len(found) > 100
    assert [one for one in found if sorting & names_in(one.py_func.__code__)] == []


def test_generators_are_not_kept():
    # Numba cannot use a generator that it loads from its cache in a caller that it compiles anew.
    generators = [one for one in all_kernels() if inspect.isgeneratorfunction(one.py_func)]
    assert generators
    assert [one for one in generators if one.stats.cache_path is not None] == []


@pytest.mark.parametrize(
    ("terminal", "patience", "lines"), [(True, 0.01, 1), (True, 60.0, 0), (False, 0.01, 0)]
)
def test_a_terminal_is_told_once_what_takes_long_to_compile(terminal, patience, lines, monkeypatch):
    written = io.StringIO()
    written.isatty = lambda: terminal
    monkeypatch.setattr(kernels, "PATIENCE", patience)
    monkeypatch.setattr(sys, "stderr", written)
    one, compiled = kernels._Patience(), SimpleNamespace(data={"dispatcher": spin})
    for _ in range(2):
        for _ in range(2):  # with a kernel that it calls
            one.on_start(compiled)
        time.sleep(0.1)
        for _ in range(2):
            one.on_end(compiled)
    assert written.getvalue().count("compiling") == lines
