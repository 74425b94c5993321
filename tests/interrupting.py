"""Interrupt one of `CALLS` at several moments: ``python interrupting.py NAME MOMENTS``.

Prints for each moment the seconds of processor time between the signal and the exception. The result after
each interrupt is compared with the first, to the bit. First calls are those of `theory/test_interrupts.py`.
"""

import hashlib
import os
import random
import signal
import sys
import tempfile
import threading
import time

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


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
