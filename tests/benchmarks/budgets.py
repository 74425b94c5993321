"""When searches and audits of some seconds end: ``python tests/benchmarks/budgets.py COUNT SEED``."""

import sys
import threading
import time

import numpy as np

import superposition as sp
from superposition.solvers.deadline import work_seconds
from superposition.theory.features import Features, exclusive, synchronous


def random_law(rng):
    """Return a law of 4 to 40 features: alike or not, of several values, with groups or without."""
    n, p = int(rng.choice([4, 8, 12, 20, 40])), float(rng.uniform(0.02, 0.2))
    values = str(rng.choice(["uniform", "uniform", "binary", "normal", "half-normal"]))
    groups = []
    if rng.random() < 0.5 and n >= 8:
        groups = [synchronous([0, 1], p), exclusive([2, 3, 4], p)]
        values = "uniform"
    importance = rng.choice([1.0, 0.9]) ** np.arange(n)
    return Features(n, p, values, importance=importance, groups=groups)


def random_call(rng):
    """Return the words of a call, its seconds, and the call."""
    seconds, law = float(rng.choice([0.0, 0.5, 1.0, 3.0])), random_law(rng)
    n, kind = law.n_features, str(rng.choice(["audit", "best", "network"]))
    m = max(n // 4, 1)
    words = f"{kind} of {n} on {m}, {law.values}, {len(law.groups)} groups, seconds={seconds:g}"
    W = rng.normal(size=(n, m)) / np.sqrt(m)
    if kind == "audit":
        return words, seconds, lambda: sp.audit((W, np.zeros(n)), law, seconds=seconds, progress=False)
    if kind == "best":
        return words, seconds, lambda: sp.best(law, m, seconds=seconds, progress=False)
    out = rng.normal(size=(n, n // 2)) / np.sqrt(n)
    model = sp.Model(out.T, hidden="relu", W_out=out, output="identity")
    return words, seconds, lambda: sp.audit(model, law, seconds=seconds, progress=False)


def soak(count, seed=0):
    """Yield for each call its words, its seconds, what it takes, and how much processor time after its end.

    Each is made twice, so that nothing is compiled at the second time. A clock that other programs slow down
    does not change how much work is done after the seconds are over.
    """
    rng = np.random.default_rng(seed)
    sp.audit(np.array([[1.0, -0.7]]), 0.1)  # imports
    for _ in range(count):
        words, seconds, call = random_call(rng)
        call()
        at_end = []
        timer = threading.Timer(seconds, lambda at_end=at_end: at_end.append(time.process_time()))
        start = work_seconds()
        timer.start()
        call()
        taken = work_seconds() - start
        timer.cancel()
        yield words, seconds, taken, time.process_time() - at_end[0] if at_end else 0.0


def is_late(seconds, taken, after):
    """Say whether a call ended too late, also where other programs take no time from it."""
    return taken > 1.2 * seconds + 1.0 and after > 0.2 * seconds + 1.0


if __name__ == "__main__":
    print("seconds by the clock, allowed, processor seconds after the end, allowed, call")
    for words, seconds, taken, after in soak(int(sys.argv[1]), int(sys.argv[2])):
        allowed = f"{taken:7.2f} {1.2 * seconds + 1.0:4.1f} {after:7.2f} {0.2 * seconds + 1.0:4.1f}"
        print(f"{allowed} {'LATE' if is_late(seconds, taken, after) else '':4} {words}", flush=True)
