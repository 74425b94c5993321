"""A race: our way to do some work, others' ways to do the same, and floors that no way goes below, by turns.

All run in one process on one thread, and what is measured is the processor's time of that process, so that
other programs on the machine take part only by what they do to its caches. Rounds alternate; ratios are
those of a round, and their quartiles are kept. Whoever is slow the first time, for compilation, is warmed
up before.
"""

import math
import os
import time
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pytest

# Before jax is imported: it would start a thread for each core.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

CLOCK = time.process_time
SHORTEST = 0.02  # seconds of a round: calls that are shorter are repeated
LIBRARIES = ("numpy", "scipy", "numba", "torch", "jax", "diffrax", "torchdiffeq", "solve_nivp")


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=CLOCK, disable_gc=True))


def pytest_benchmark_update_json(config, benchmarks, output_json):
    """Keep what the table needs, and what it was measured on."""
    machine = output_json["machine_info"]
    output_json["machine_info"] = {
        "processor": machine["cpu"].get("brand_raw", machine["machine"]),
        "cores": os.cpu_count(),
        "threads": 1,
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": machine["python_version"],
        **{name: version(name) for name in LIBRARIES if find_spec(name)},
    }
    output_json["benchmarks"] = [
        {"name": one["fullname"].partition("bench_")[2], **one["extra_info"]}
        for one in output_json["benchmarks"]
    ]
    output_json.pop("commit_info", None)


def quartiles(values):
    return [float(f"{value:.4g}") for value in np.percentile(values, [25, 50, 75])]


def repeats(work):
    begin = CLOCK()
    work()
    return max(1, math.ceil(SHORTEST / max(CLOCK() - begin, 1e-6)))


def seconds(work, count):
    begin = CLOCK()
    for _ in range(count):
        work()
    return (CLOCK() - begin) / count


@pytest.fixture(autouse=True)
def _one_thread():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def race(benchmark):
    """Return the function that times ours, and rivals and floors by turns with it, and notes it all.

    ``units`` and ``their_units`` say how much of the work one call does, where that differs; ``errors`` are
    what was achieved, by name, of ours as "ours"; ``size`` is what the cost of this `work` is fitted against.
    """

    def run(
        work, at, ours, beside=None, floors=None, *, units=1.0, their_units=None, errors=None, note="",
        size=None, rounds=5,
    ):  # fmt: skip
        errors, their_units = errors or {}, their_units or {}
        others = {**(beside or {}), **(floors or {})}
        counts = {name: repeats(other) for name, other in others.items()}
        lengths = {name: [] for name in others}

        def turns():
            for name, other in others.items():
                lengths[name].append(seconds(other, counts[name]) / their_units.get(name, 1.0))

        count = repeats(ours)
        benchmark.pedantic(lambda: [ours() for _ in range(count)], setup=turns, rounds=rounds)
        own = np.array(benchmark.stats.stats.data) / count / units
        benchmark.extra_info.update(
            work=work, at=at, size=size, note=note, seconds=quartiles(own), error=errors.get("ours"),
            others=[
                {
                    "name": name, "floor": name in (floors or {}), "seconds": quartiles(lengths[name]),
                    "ratio": quartiles(np.array(lengths[name]) / own), "error": errors.get(name),
                }
                for name in others
            ],
        )  # fmt: skip

    return run
