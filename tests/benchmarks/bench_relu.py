"""Small models: phases of two features, why the pair has kernels of its own, sphere packings."""

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers.relu import phase_diagram, thomson
from superposition.solvers.relu.pair.kernels import output_loss
from superposition.solvers.rug import exact_loss
from superposition.theory.compile.kernels import kernel
from superposition.theory.loss.cube import class_gradient, class_losses


def test_phases(race):
    """Our global optimum at each point of a diagram beside a general global search on the exact loss."""

    def objective(x):
        return exact_loss(np.outer(x[:2], x[:2]), x[2:], 0.5, tol=1e-10).loss

    def theirs():
        bounds = [(0, 1.5), (-1.5, 1.5), (-1, 1), (-1, 1)]
        return optimize.differential_evolution(objective, bounds, rng=1, tol=1e-10, popsize=12)

    best = phase_diagram([0.5], [1.0]).loss[0, 0]
    name, error = "differential evolution", abs(theirs().fun / best - 1)
    grid = np.geomspace(0.01, 1, 30), np.geomspace(0.1, 10, 30)
    race(
        "phase of two features at a point, of a diagram", "900 points", lambda: phase_diagram(*grid),
        {name: theirs}, units=900, errors={"ours": 1e-12, name: error}, rounds=3,
        note="our error is that of its tests",
    )  # fmt: skip


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


def test_pair_kernel(race):
    """The pair's kernel gives the Hessian too."""
    M, b, p, out = np.array([[0.9, -0.8], [-0.8, 0.7]]), np.array([0.1, 0.05]), 0.3, np.empty(10)
    assert _own(M, b, p, out) == pytest.approx(_general(M, b, p), rel=1e-12)
    race(
        "loss of an output of a pair, with derivatives", "n = 2", lambda: _own(M, b, p, out),
        {"our general kernel": lambda: _general(M, b, p)}, units=OUTPUTS,
        their_units={"our general kernel": OUTPUTS},
    )  # fmt: skip


CASES = {"n = 8, m = 3": (8, 3, (80 - 32 * np.sqrt(2)) / 17), "n = 16, m = 5": (16, 5, 6.4)}
STARTS = 32


@pytest.mark.parametrize("case", CASES)
def test_packings(race, case):
    """SciPy gets the energy and its gradient as matrix products, free of constraints."""
    n, m, exact = CASES[case]

    def energy(x):
        W = x.reshape(n, m)
        lengths = np.linalg.norm(W, axis=1, keepdims=True)
        U = W / lengths
        C = U @ U.T
        np.fill_diagonal(C, 0.0)
        C = np.maximum(C, 0.0)
        G = 4 * C @ U
        G -= np.sum(G * U, axis=1, keepdims=True) * U
        return np.sum(C * C), (G / lengths).ravel()

    def theirs():
        rng = np.random.default_rng(0)
        options = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 5000}
        found = [
            optimize.minimize(energy, rng.normal(size=n * m), jac=True, method="L-BFGS-B", options=options)
            for _ in range(STARTS)
        ]
        return [float(np.linalg.norm(one.jac)) for one in found], min(one.fun for one in found)

    thomson(n, m, starts=1)  # compile first
    found, (slopes, best) = thomson(n, m, starts=STARTS), theirs()
    assert min(abs(best - exact), abs(found.energies.min() - exact)) < 1e-6
    name = "SciPy's L-BFGS-B"
    race(
        "packing on a sphere, a start; errors are gradients", case, lambda: thomson(n, m, starts=STARTS),
        {name: theirs}, units=STARTS, their_units={name: STARTS}, rounds=3,
        errors={"ours": float(np.median(found.gradient_norms)), name: float(np.median(slopes))},
    )  # fmt: skip
