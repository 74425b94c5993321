"""Ctrl-C in the long calls of the API, in scripts, notebooks and commands."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import superposition

from .interrupting import CALLS

HERE = Path(__file__).parent
SECONDS = 1.0


def environment():
    """Return the environment of a program that imports this package, and what this one can import."""
    paths = [str(Path(superposition.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def check_call(name, moments, where="script"):
    command = [sys.executable, str(HERE / "interrupting.py"), name, str(moments), where]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = r"\w+: \d+ s|\[IPKernelApp\] .*"  # progress, and what Jupyter says
    assert all(re.match(expected, line) for line in done.stderr.splitlines()), done.stderr
    *answers, summary = done.stdout.splitlines()
    assert len(answers) > moments / 2, summary  # others came when the call had ended
    # Processor time, as what else runs on this machine takes time by the clock.
    assert max(float(line.split()[0]) for line in answers) < SECONDS, answers


def test_a_loss_in_a_script():
    check_call("kernel", 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_twenty_moments_of_a_script(name):
    check_call(name, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best", "kernel", "processes", "sae"])
def test_eight_moments_of_a_notebook(name):
    pytest.importorskip("jupyter_client")
    check_call(name, 8, "notebook")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "where", "moments"),
    [("audit", "fresh", 10), ("kernel", "compile", 4)],  # each compiles all anew
)
def test_moments_of_a_first_call(name, where, moments):
    check_call(name, moments, where)


LEAKED = """
import _imp
import superposition
_imp.acquire_lock()  # as an interrupt leaves it that comes as Python has it
print(superposition.Features(2, 0.1).n_features)
"""


def test_imports_after_an_interrupt_in_the_middle_of_one():
    command = [sys.executable, "-c", LEAKED]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


COMMANDS = {
    "audit": "audit {model} --p 0.1",
    "run": "run collisions.fig3 --out {folder}",
    "jobs": "run collisions.fig3 relu.polygons --jobs 2 --out {folder}",
    "sweep": "sweep solvers.rug.optimum p=[0.1,0.2,0.3] ratio=[0.2,0.4] --store {folder}/store.zarr --jobs 2",
}


PROGRAM = """
import sys
from superposition.validate.cli import run_program
print("begun", flush=True)
run_program()
"""


def check_command(words, folder, seconds):
    """Return whether a command was interrupted."""
    command = [sys.executable, "-c", PROGRAM, *words]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, env=environment(), cwd=folder, **options) as process:
        assert process.stdout.readline() == "begun\n"  # Python's own start has no handler of ours
        time.sleep(seconds)
        # A terminal sends it to all processes of a group.
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=600)
    if process.returncode == 0:  # it had ended
        return False
    assert process.returncode == 130, err
    assert err.endswith(": interrupted\n"), err
    assert "Traceback" not in err
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_moments_of_a_command(name, tmp_path):
    np.save(tmp_path / "model.npy", np.random.default_rng(0).normal(size=(12, 4)))
    caught = []
    for k in range(12):
        words = COMMANDS[name].format(folder=tmp_path / str(k), model=tmp_path / "model.npy").split()
        caught.append(check_command(words, tmp_path, 0.4 * k))
    assert any(caught)
