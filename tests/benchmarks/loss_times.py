"""Table of the time of an exact loss over the number of features, for each law, with a group and without.

``python tests/benchmarks/loss_times.py [tol]`` prints it, and the steps from n to n + 1 by more than 4 times.
A time is the mean over some models, as that of a sum over frequencies varies among models of one size: by a
factor of 3. Of each model it is the least of some losses, or that of one loss that takes long. Steps count
only where the quicker side takes 5 ms or more: below that it is the overhead of Python.
"""

import sys
import time

import numpy as np

from superposition.solvers.loss import exact_loss
from superposition.theory.features import Features, exclusive

LAWS = ("uniform", "binary", "half-normal", "exponential", "symmetric", "normal")
P = 0.05
REPEATS = MODELS = 3
# Seconds of a loss from which it is not repeated.
LONG = 0.2
# Milliseconds of the quicker side from which a step counts.
OVERHEAD_MS = 5.0


def seconds(n: int, values: str, grouped: bool, tol: float) -> float:
    """Return the mean over random tied models with n/4 neurons of the least time of some losses."""
    m, rng = max(n // 4, 1), np.random.default_rng(n)
    groups = [exclusive(np.arange(min(n, 3)), P)] if grouped else ()
    law, times = Features(n, P, values, groups=groups), np.empty((MODELS, REPEATS))
    for model in range(MODELS):
        W = rng.normal(size=(n, m)) / np.sqrt(m)
        for repeat in range(REPEATS):
            start = time.process_time()
            exact_loss(W @ W.T, np.linspace(-0.2, 0.05, n), law, tol=tol)
            times[model, repeat:] = time.process_time() - start
            if times[model, repeat] > LONG:
                break
    return float(times.min(axis=1).mean())


def main(tol: float) -> None:
    columns = [(values, grouped) for values in LAWS for grouped in (False, True)]
    for values, grouped in columns:  # kernels are compiled, or loaded
        for n in (2, 6, 9, 14, 18):
            seconds(n, values, grouped, tol)
    print("| n | " + " | ".join(values + grouped * ", a group" for values, grouped in columns) + " |")
    print("|---|" + "---|" * len(columns))
    before, steps = {}, []
    for n in range(2, 25):
        row = {column: seconds(n, *column, tol) for column in columns}
        print(f"| {n} | " + " | ".join(f"{1e3 * row[column]:.1f}" for column in columns) + " |", flush=True)
        counted = [column for column in before if 1e3 * before[column] >= OVERHEAD_MS]
        steps += [(n, *column, row[column] / before[column]) for column in counted]
        before = row
    print("milliseconds; steps by more than 4 times:", [step for step in steps if step[-1] > 4.0])


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1e-12)
