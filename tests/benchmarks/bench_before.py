"""The exact loss and the optimum beside an earlier state of this project, in turns in one run.

Set BEFORE to a folder that holds a link `superposition` to a checkout of that state; without it nothing is
compared. Both sides run in processes of their own, on one thread, each measuring CPU time; the ratio is that
of medians over alternating rounds. The laws are drawn alike on both sides.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
import json, sys, time
import numpy as np
from superposition.solvers import rug

def seconds(f):
    start = time.process_time()
    f()
    return time.process_time() - start

W = np.random.default_rng(0).standard_normal((512, 128)) / np.sqrt(128)
M, b = 1.2 * W @ W.T, np.full(512, -0.15)
p, ratio = np.geomspace(1e-6, 1, 300)[:, None], np.linspace(0.001, 1, 300)
work = {"uniform": lambda: rug.exact_loss(M, b, 0.05), "optimum": lambda: rug.optimum(p, ratio)}
if sys.argv[1] == "now":
    from superposition.theory.features import Features
    rng = np.random.default_rng(1)
    law = Features(512, 0.05 * rng.uniform(0.3, 1.7, 512), importance=rng.uniform(0.5, 2, 512))
    work["unequal"] = lambda: rug.exact_loss(M, b, law)
for f in work.values():
    f()  # compile first
for line in sys.stdin:
    print(json.dumps({name: seconds(f) for name, f in work.items()}), flush=True)
"""


def started(side, folder):
    path = {"PYTHONPATH": folder} if folder else {}
    threads = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, side],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | threads | path,
    )


def test_beside_an_earlier_state():
    before = os.environ.get("BEFORE")
    if before is None:
        pytest.skip("set BEFORE to a folder with a link `superposition` to an earlier checkout")
    assert (Path(before) / "superposition" / "solvers").is_dir()
    sides = {"before": started("before", before), "now": started("now", None)}
    times = {side: [] for side in sides}
    for _ in range(7):
        for side, process in sides.items():
            process.stdin.write("go\n")
            process.stdin.flush()
            times[side].append(json.loads(process.stdout.readline()))
    for process in sides.values():
        process.communicate()

    def median(side, name):
        return float(np.median([one[name] for one in times[side]]))

    for name, other in (("uniform", "uniform"), ("unequal", "uniform"), ("optimum", "optimum")):
        now, then = median("now", name), median("before", other)
        print(f"\n{name}: {now:.3g} s now, {then:.3g} s before ({other}): ratio {now / then:.2f}", end="")
    print()
