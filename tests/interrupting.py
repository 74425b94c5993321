"""Interrupt a call at several moments, in a process of its own: ``python interrupting.py NAME MOMENTS``.

Prints for each moment the seconds of processor time, and of the clock, between the signal and the exception.
The call is one of `CALLS`. Its result after each interrupt is compared with the first, to the bit.
"""

import os
import random
import signal
import sys
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


def code(answer):
    """Return all numbers of an answer."""
    data = answer.to_dataset().variables
    return {name: np.asarray(one).tobytes() for name, one in data.items() if one.dtype.kind in "fcib"}


CALLS = {
    "kernel": lambda: sp.loss(tied(12, 3), sp.Features(12, 0.1, "symmetric")),
    "binary": lambda: sp.loss(tied(60, 20), sp.Features(60, 0.01, "binary"), tol=1e-4),
    "uniform": lambda: sp.loss(tied(200, 40), sp.Features(200, 0.01)),
    "normal": lambda: sp.loss(tied(40, 10), sp.Features(40, 0.05, "normal")),
    "network": lambda: sp.loss(network(8, 4), sp.Features(8, 0.05)),
    "best": lambda: sp.best(sp.Features(6, 0.1), 2, starts=8, rng=0),
    "audit": lambda: sp.audit(dictionary(8, 3), sp.Features(8, 0.1), starts=4, rng=0),
    "sae": lambda: sp.sae(
        sp.Model(dictionary(24, 12), W_out=dictionary(24, 12).T, hidden="relu", output="identity"),
        sp.Features(24, 0.05),
        dictionary(24, 12).T,
    ),
    "ceiling": lambda: sp.ceiling(sp.Features(64, 0.05), dictionary(64, 32).T, l0=3.0),
    "phases": lambda: sp.phases(),
    "sweep": lambda: sp.sweep(
        sp.solvers.rug.optimum, {"p": np.linspace(0.01, 0.5, 40).tolist(), "ratio": [0.1, 0.2, 0.3]}
    ),
}


def main(name, moments):
    """Interrupt a call so many times, between its beginning and its end."""
    call = CALLS[name]
    first = code(call())
    started = time.perf_counter()
    assert code(call()) == first, "the second call differs from the first"
    length = time.perf_counter() - started
    rng, caught = random.Random(0), 0
    for k in range(moments):
        sent = []

        def send(sent=sent):
            sent.append((time.process_time(), time.perf_counter()))
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(length * (k + rng.random()) / (1.2 * moments), send)
        try:
            timer.start()
            call()
            timer.join()
            time.sleep(0.05)
        except KeyboardInterrupt:
            caught += len(sent)
            took, clock = time.process_time() - sent[0][0], time.perf_counter() - sent[0][1]
            print(f"{took:.3f} {clock:.3f}", flush=True)
        assert code(call()) == first, "the call after an interrupt differs"
    print(f"{caught} of {moments} interrupted a call of {length:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
