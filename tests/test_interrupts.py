"""Ctrl-C in the long calls of the API, in scripts and commands.

``python tests/test_interrupts.py NAME MOMENTS`` interrupts one of `CALLS` at several moments. It prints for
each the seconds of processor time between the signal and the exception, and compares the result after it with
the first, to the bit. First calls, which compile and import, are those of `theory/test_interrupts.py`.
"""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import superposition as sp


def tied(n, m, seed=0):
    """Return the matrix and the biases of a model of random encodings."""
    W = np.random.default_rng(seed).normal(size=(n, m)) / np.sqrt(m)
    return W @ W.T, np.full(n, -0.1)


def network(n, k):
    """Return a model with hidden ReLUs."""
    rng = np.random.default_rng(1)
    W_in, W_out = rng.normal(size=(k, n)) / np.sqrt(n), rng.normal(size=(n, k)) / np.sqrt(k)
    return sp.Model(W_in, W_out=W_out, hidden="relu", output="identity")


def dictionary(n, m):
    """Return directions of features, one a row."""
    return np.random.default_rng(2).normal(size=(n, m)) / np.sqrt(m)


def autoencoder(n, m):
    """Return an autoencoder whose latents are those directions."""
    W = dictionary(n, m)
    return sp.Model(W, W_out=W.T, hidden="relu", output="identity")


def digest(answer):
    """Return a checksum of all numbers of an answer."""
    made = hashlib.sha256()
    for name, values in sorted(answer.to_dataset().variables.items(), key=str):
        if values.dtype.kind in "fcib":
            made.update(f"{name} {values.dtype} {values.shape}".encode() + np.asarray(values).tobytes())
    return made.hexdigest()


def sweep_in_processes():
    """Do a sweep in two processes, with a store that is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        grid = {"p": [0.01, 0.1, 0.3, 0.5], "ratio": [0.1, 0.2, 0.3]}
        return sp.sweep(sp.solvers.rug.optimum, grid, store=f"{folder}/store.zarr", jobs=2)


CALLS = {
    "kernel": lambda: sp.loss(tied(20, 3), sp.Features(20, 0.1, "symmetric")),
    "binary": lambda: sp.loss(tied(60, 20), sp.Features(60, 0.01, "binary"), tol=1e-4),
    "uniform": lambda: sp.loss(tied(200, 40), sp.Features(200, 0.01)),
    "normal": lambda: sp.loss(tied(200, 40), sp.Features(200, 0.05, "normal")),
    "network": lambda: sp.loss(network(8, 4), sp.Features(8, 0.05)),
    "best": lambda: sp.best(sp.Features(6, 0.1), 2, starts=96, rng=0),
    "audit": lambda: sp.audit(dictionary(8, 3), sp.Features(8, 0.1), starts=16, rng=0),
    "sae": lambda: sp.sae(autoencoder(16, 8), sp.Features(16, 0.05), dictionary(16, 8).T),
    "ceiling": lambda: sp.ceiling(sp.Features(32, 0.05), dictionary(32, 16).T, l0=2.0),
    "phases": sp.phases,
    "sweep": lambda: sp.sweep(
        sp.solvers.rug.optimum, {"p": np.linspace(0.01, 0.5, 4000).tolist(), "ratio": [0.1, 0.2, 0.3]}
    ),
    "processes": sweep_in_processes,
}


def moments_within(count):
    """Return so many moments between the beginning of a call and a little before its end, in calls."""
    rng = random.Random(0)
    return [(k + rng.random()) / (1.2 * count) for k in range(count)]


def main(name, count):
    """Interrupt a call so many times, between its beginning and its end."""
    os.setpgrp()  # signals go to all processes of a group, as a terminal's do
    call, sent, caught = CALLS[name], [], 0
    first = digest(call())

    def seconds_again():
        begun = time.perf_counter()
        assert digest(call()) == first, "another call differs from the first"
        return time.perf_counter() - begun

    def send():
        sent.append(time.process_time())
        os.killpg(os.getpgrp(), signal.SIGINT)

    length = seconds_again()
    for part in moments_within(count):
        timer, is_running = threading.Timer(part * length, send), True
        try:
            timer.start()
            call()
            is_running = False
            timer.join()
            time.sleep(0.05)
        except KeyboardInterrupt:
            if is_running:
                caught += 1
                print(f"{time.process_time() - sent[-1]:.3f}", flush=True)
        length = min(length, seconds_again())
    print(f"{caught} of {count} interrupted a call of {length:.2f} s")


# --- Tests --------------------------------------------------------------------------------------------------


def environment():
    """Return the environment of a program that imports this package, and what this one can import."""
    paths = [str(Path(sp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.mark.parametrize(
    ("name", "moments"), [("kernel", 1), *(pytest.param(name, 20, marks=pytest.mark.slow) for name in CALLS)]
)
def test_moments_of_a_script(name, moments):
    command = [sys.executable, __file__, name, str(moments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(re.match(r"\w+: \d+ s", line) for line in done.stderr.splitlines()), done.stderr  # progress
    *answers, summary = done.stdout.splitlines()
    assert len(answers) > moments / 2, summary  # others came when the call had ended
    # Processor time, as what else runs on this machine takes time by the clock.
    assert max(map(float, answers)) < 1.0, answers


LEAKED = """
import _imp
import superposition
_imp.acquire_lock()  # as an interrupt leaves it that comes as Python has it
print(superposition.Features(2, 0.1).n_features)
"""


def test_imports_after_an_interrupt_in_the_middle_of_one():
    command, options = [sys.executable, "-c", LEAKED], {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, env=environment(), check=False, **options)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_moments_of_a_command(name, tmp_path):
    np.save(tmp_path / "model.npy", np.random.default_rng(0).normal(size=(12, 4)))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    caught = 0
    for k in range(12):
        words = COMMANDS[name].format(folder=tmp_path / str(k), model=tmp_path / "model.npy").split()
        command = [sys.executable, "-c", PROGRAM, *words]
        with subprocess.Popen(command, env=environment(), cwd=tmp_path, **options) as process:
            assert process.stdout.readline() == "begun\n"  # Python's own start has no handler of ours
            time.sleep(0.4 * k)
            # A terminal sends it to all processes of a group.
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=600)
        if process.returncode:  # else it had ended
            caught += 1
            assert (process.returncode, "Traceback" in err) == (130, False), err
            assert err.endswith(": interrupted\n"), err
    assert caught


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
