"""The phase diagram of two features in one dimension, its certificates, and basins, on one thread.

Beside them, what a user would otherwise do at one point: a general global search on the exact loss.
"""

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers.relu.pair.basins import pair_basins
from superposition.solvers.relu.pair.certificates import certify
from superposition.solvers.relu.pair.diagram import phase_diagram
from superposition.solvers.relu.planar import solve_small
from superposition.solvers.rug import exact_loss

GROUP = "phases of two features in one dimension"


@pytest.mark.benchmark(group=GROUP)
@pytest.mark.parametrize("bias", [True, False])
def test_diagram_of_100_by_100(benchmark, bias):
    phase_diagram([0.5], [1.0], bias=bias)  # compile first
    grid = np.geomspace(0.01, 1, 100), np.geomspace(0.1, 10, 100)
    benchmark.pedantic(phase_diagram, grid, {"bias": bias}, rounds=1)


@pytest.mark.benchmark(group=GROUP)
def test_one_point_by_differential_evolution(benchmark):
    def objective(x):
        return exact_loss(np.outer(x[:2], x[:2]), x[2:], 0.5, tol=1e-10).loss

    bounds = [(0, 1.5), (-1.5, 1.5), (-1, 1), (-1, 1)]
    found = benchmark.pedantic(
        optimize.differential_evolution,
        (objective, bounds),
        {"rng": 1, "tol": 1e-10, "popsize": 12},
        rounds=1,
    )
    assert found.fun >= phase_diagram([0.5], [1.0]).loss[0, 0] * (1 - 1e-12)


@pytest.mark.benchmark(group="certificates")
@pytest.mark.parametrize("gap", [1e-2, 1e-3])
@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_certificate(benchmark, p, gap):
    loss = phase_diagram([p], [1.0]).loss[0, 0]
    certify(loss, p, gap=0.5)  # compile first
    proof = benchmark.pedantic(certify, (loss, p), {"gap": gap}, rounds=1)
    benchmark.extra_info.update(boxes=proof.work)


@pytest.mark.benchmark(group="basins")
def test_a_thousand_flows(benchmark):
    pair_basins(0.3, 0.25, 2)  # compile first
    benchmark.pedantic(pair_basins, (0.3, 0.25, 1000), {"rng": 0}, rounds=1)


@pytest.mark.benchmark(group="small models, one start")
@pytest.mark.parametrize("n", [3, 5, 6])
def test_small_model(benchmark, n):
    solve_small(2, 1, 0.05, starts=1)  # compile first
    benchmark.pedantic(solve_small, (n, 2, 0.05), {"starts": 1}, rounds=1)
