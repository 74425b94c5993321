"""Interrupt a call at several moments: ``python interrupting.py NAME MOMENTS [WHERE]``.

The call is one of `CALLS`. WHERE is ``script`` (this process), ``notebook`` (a kernel of Jupyter's),
``fresh`` (the first call of new processes, from the import on) or ``compile`` (that, nothing compiled kept).
Prints for each moment the seconds of processor time, and of the clock, between the signal and the exception;
in a notebook also those until the cell has ended, whose traceback IPython formats. The result after each
interrupt is compared with the first, to the bit.
"""

import ast
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

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
    "sae": lambda: sp.sae(
        sp.Model(dictionary(16, 8), W_out=dictionary(16, 8).T, hidden="relu", output="identity"),
        sp.Features(16, 0.05),
        dictionary(16, 8).T,
    ),
    "ceiling": lambda: sp.ceiling(sp.Features(32, 0.05), dictionary(32, 16).T, l0=2.0),
    "phases": sp.phases,
    "sweep": lambda: sp.sweep(
        sp.solvers.rug.optimum, {"p": np.linspace(0.01, 0.5, 4000).tolist(), "ratio": [0.1, 0.2, 0.3]}
    ),
    "processes": sweep_in_processes,
}


HERE = Path(__file__).parent


def moments_within(count):
    """Return so many moments between the beginning of a call and a little before its end, in calls."""
    rng = random.Random(0)
    return [(k + rng.random()) / (1.2 * count) for k in range(count)]


def measure(call):
    """Return what a call returns, and the seconds that it takes."""
    begun = time.perf_counter()
    return call(), time.perf_counter() - begun


def processor_seconds(pid):
    """Return the processor time that another process has used."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def report(*seconds):
    """Print what one moment gave."""
    print(*(f"{number:.3f}" for number in seconds), flush=True)


def interrupt_script(name, count):
    """Interrupt calls in this process; return how many were, and the seconds of a call."""
    os.setpgrp()  # signals go to all processes of a group, as a terminal's do
    call = CALLS[name]
    first = digest(call())
    again, length = measure(lambda: digest(call()))
    assert again == first, "the second call differs from the first"
    caught = 0
    for part in moments_within(count):
        sent = []

        def send(sent=sent):
            sent.append((time.process_time(), time.perf_counter()))
            os.killpg(os.getpgrp(), signal.SIGINT)

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
                report(time.process_time() - sent[0][0], time.perf_counter() - sent[0][1])
        again, seconds = measure(lambda: digest(call()))
        assert again == first, "the call after an interrupt differs"
        length = min(length, seconds)
    return caught, length


NOTEBOOK = """
import time
from interrupting import CALLS, digest
call, caught = CALLS[{name!r}], (0.0, 0.0)
first = digest(call())
"""
CELL = """
try:
    call()
except KeyboardInterrupt:
    caught = time.process_time(), time.perf_counter()
    raise
"""


def interrupt_notebook(name, count):
    """Interrupt calls in a notebook's kernel; return how many were, and the seconds of a call."""
    from jupyter_client.manager import start_new_kernel

    kernel, client = start_new_kernel(kernel_name="python3", env=dict(os.environ), cwd=str(HERE))

    def send(code):
        message = client.execute(code, user_expressions={"caught": "caught"}, stop_on_error=False)
        return lambda: next(
            reply["content"]
            for reply in iter(lambda: client.get_shell_msg(timeout=600), None)
            if reply["parent_header"].get("msg_id") == message
        )

    def run(code):
        reply = send(code)()
        assert reply["status"] == "ok", reply
        return ast.literal_eval(reply["user_expressions"]["caught"]["data"]["text/plain"])

    try:
        run(NOTEBOOK.format(name=name))
        _, length = measure(lambda: run("assert digest(call()) == first"))
        caught = 0
        for part in moments_within(count):
            answer = send(CELL)
            time.sleep(part * length)
            used, begun = processor_seconds(kernel.provisioner.pid), time.perf_counter()
            kernel.interrupt_kernel()
            reply = answer()
            shown = time.perf_counter() - begun
            (took, clock), seconds = measure(lambda: run("assert digest(call()) == first"))
            length = min(length, seconds)
            if reply["status"] != "ok":
                assert reply["ename"] == "KeyboardInterrupt", reply
                caught += 1
                report(took - used, clock - begun, shown)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    return caught, length


FRESH = """
import signal
print("begun", flush=True)
try:
    import interrupting
    answer = interrupting.digest(interrupting.CALLS[{name!r}]())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(answer, flush=True)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
import interrupting
print(interrupting.digest(interrupting.CALLS[{name!r}]()), flush=True)
"""


def interrupt_fresh(name, count, is_compiled):
    """Interrupt the first calls of new processes; return how many were, and the seconds of a call."""
    command = [sys.executable, "-c", FRESH.format(name=name)]

    def start(folder):
        cache = {} if is_compiled else {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=folder)}
        options = {"cwd": HERE, "env": {**os.environ, **cache}, "text": True}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
        assert process.stdout.readline() == "begun\n"
        return process, time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        process, begun = start(folder)
        first, length, caught = process.stdout.readline(), time.perf_counter() - begun, 0
        process.communicate()
        for part in moments_within(count):
            process, _ = start(folder)
            time.sleep(part * length)
            used, begun = processor_seconds(process.pid), time.perf_counter()
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()
            if line == "KeyboardInterrupt\n":
                caught += 1
                report(processor_seconds(process.pid) - used, time.perf_counter() - begun)
            else:
                assert line == first, "the interrupted call differs"
            rest, _ = process.communicate()
            assert process.returncode == 0, f"the call after an interrupt at {part * length:.2f} s fails"
            assert rest == first, "the call after an interrupt differs"
    return caught, length


def main(name, count, where="script"):
    """Interrupt a call so many times, between its beginning and its end."""
    if where in ("script", "notebook"):
        caught, length = (interrupt_script if where == "script" else interrupt_notebook)(name, count)
    else:
        caught, length = interrupt_fresh(name, count, where == "fresh")
    print(f"{caught} of {count} interrupted a call of {length:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
