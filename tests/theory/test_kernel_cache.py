"""Compiled kernels that are kept: damaged files, a full disk and no folder change no number."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching

from superposition.theory.compile import cache
from superposition.theory.compile.kernels import inner, kernel, ufunc

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def double(x):
    return 2.0 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder that compiled code is kept in."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    cache._WARNED.clear()
    return tmp_path


def call():
    """Return what a new process would: the function is compiled, or loaded."""
    dispatcher = kernel(double)
    result = dispatcher(1.5)
    return result, sum(dispatcher.stats.cache_hits.values())


def files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def half(x):
    return 0.5 * x


def quarter(x):
    return half(half(x))


def eighth(x):
    return half(half(half(x)))


def test_code_that_is_linked_is_kept_for_other_kernels(folder, monkeypatch):
    plain, hits = half, []
    for function, result in ((quarter, 2.0), (eighth, 1.0)):  # each as in a process of its own
        monkeypatch.setitem(globals(), "half", inner(plain))
        assert kernel(function)(8.0) == result
        (compiled,) = half.overloads.values()
        assert list(compiled.library.get_defined_functions()) == []  # no machine code of its own
        hits.append(sum(half.stats.cache_hits.values()))
    assert hits == [0, 1]


def damage(content, kind):
    if kind == "empty":
        return b""
    if kind == "cut":
        return content[: len(content) // 2]
    place = kind % len(content)
    return content[:place] + bytes([content[place] ^ 1 << kind % 8]) + content[place + 1 :]


def test_compiled_code_is_kept_and_damaged_files_are_compiled_anew(folder, caplog):
    assert call() == (3.0, 0)
    (path,) = files(folder)
    assert path.suffix == ".kernel"
    assert call() == (3.0, 1)
    content = path.read_bytes()
    for kind in ("empty", "cut", *np.random.default_rng(0).integers(10**6, size=3).tolist()):
        path.write_bytes(damage(content, kind))
        assert call() == (3.0, 0)
        assert call() == (3.0, 1)  # it was written anew
    (line,) = caplog.messages
    assert line.startswith("superposition: damaged compiled code in ")
    assert "\n" not in line


def test_a_file_of_another_signature_is_not_taken(folder, caplog):
    dispatcher = kernel(double)
    dispatcher(1.5)
    (first,) = files(folder)
    dispatcher(np.arange(2.0))
    (second,) = (path for path in files(folder) if path != first)
    second.write_bytes(first.read_bytes())  # as if two processes had chosen one name
    np.testing.assert_array_equal(kernel(double)(np.arange(2.0)), [0.0, 2.0])
    assert len(caplog.messages) == 1


def test_a_full_disk_stops_nothing(folder, caplog, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    assert call() == (3.0, 0)
    assert files(folder) == []
    (line,) = caplog.messages
    assert "No space left on device" in line
    assert "NUMBA_CACHE_DIR" in line


def test_what_cannot_be_read_is_compiled_anew(folder, caplog):
    call()
    (path,) = files(folder)
    path.unlink()
    path.mkdir()
    assert call() == (3.0, 0)
    assert "cannot be read" in caplog.messages[0]


def test_no_folder_is_a_line(caplog, monkeypatch):
    cache._WARNED.clear()
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert call() == call() == (3.0, 0)
    assert ufunc(double)(1.5) == 3.0
    (line,) = caplog.messages
    assert "NUMBA_CACHE_DIR" in line
    assert "\n" not in line


def test_files_of_earlier_versions_are_removed(folder, monkeypatch):
    call()
    (before,) = files(folder)
    monkeypatch.setattr(cache, "_VERSIONS", ("another",))
    assert call() == (3.0, 0)
    (after,) = files(folder)
    assert before != after


PROGRAM = """
from superposition.theory.rug import off_loss
from superposition.theory.special import normal
print(off_loss(1.0, -0.1, 0.2), normal.ramp_moments(0.3, 4))
"""


@pytest.mark.slow
def test_without_a_writable_home_and_installation_a_line_says_so(tmp_path):
    # Files where folders are to be stop the administrator, too, who may write to what is read-only.
    package = Path(cache.__file__).parents[2]
    ignored = shutil.ignore_patterns(".*", "__pycache__", "tests", "validate", "solvers")
    shutil.copytree(package, tmp_path / package.name, ignore=ignored)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""}

    def run():
        command = [sys.executable, "-B", "-c", PROGRAM]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    first = run()
    assert first.stderr == ""
    for folder in [path for path in tmp_path.rglob("*") if path.is_dir() and path.name != "__pycache__"]:
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        (folder / "__pycache__").touch()
    (tmp_path / "no folder").touch()
    env |= dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), str(tmp_path / "no folder" / "x"))
    second = run()
    assert second.stdout == first.stdout
    assert second.stderr.count("\n") == 1
    assert "NUMBA_CACHE_DIR names a folder" in second.stderr
