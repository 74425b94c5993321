"""The phase diagram of two features in one dimension, its certificates, and basins, on one thread.

Beside them, what a user would otherwise do at one point: a general global search on the exact loss.
"""

import time

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers.relu import certify, pair_basins, phase_diagram
from superposition.solvers.relu.pair.kernels import output_loss
from superposition.solvers.rug import exact_loss
from superposition.theory.kernels import kernel
from superposition.theory.loss.cube import class_gradient, class_losses

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
    pair_basins(0.3, 0.25, starts=2)  # compile first
    benchmark.pedantic(pair_basins, (0.3, 0.25), {"starts": 1000, "rng": 0}, rounds=1)


# --- Why the pair has kernels of its own --------------------------------------------------------------------

OUTPUTS = 2000


@kernel
def _own(M, b, p, out):
    """Loss, gradient and Hessian of both outputs, over and over."""
    total = 0.0
    for _ in range(OUTPUTS // 2):
        for i in range(2):
            output_loss(M[i, i], M[i, 1 - i], b[i], p, out)
            total += out[0]
    return total


@kernel
def _general(M, b, p):
    """Loss and gradient of both outputs by the classes of `theory.loss`, over and over."""
    total = 0.0
    for _ in range(OUTPUTS // 2):
        for k in range(1, 3):
            weight = p**k * (1.0 - p) ** (2 - k)
            losses = class_losses(M, b, k)
            by_row, by_bias = class_gradient(M, b, k)
            total += weight * (losses[0] + losses[1]) + 0.0 * (by_row[0, 0] + by_bias[0])
    return total + OUTPUTS // 2 * (1.0 - p) ** 2 * (max(b[0], 0.0) ** 2 + max(b[1], 0.0) ** 2)


@pytest.mark.benchmark(group="relu: the loss of 2000 outputs of a pair")
def test_the_kernel_of_the_pair_beside_the_general_one(benchmark):
    """The pair's kernel gives the Hessian too, and takes about a tenth of the time."""
    M, b, p, out = np.array([[0.9, -0.8], [-0.8, 0.7]]), np.array([0.1, 0.05]), 0.3, np.empty(10)
    assert _own(M, b, p, out) == pytest.approx(_general(M, b, p), rel=1e-12)
    began = time.perf_counter()
    for _ in range(10):
        _general(M, b, p)
    general = (time.perf_counter() - began) / 10
    benchmark(_own, M, b, p, out)
    ratio = general / benchmark.stats.stats.median
    benchmark.extra_info.update(general=general, ratio=ratio)
    print(f"\nthe general kernel takes {ratio:.1f} times as long")
    assert ratio > 3
