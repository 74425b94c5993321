"""Small models: phases of two features, sphere packings."""

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers.relu import phase_diagram, thomson
from superposition.solvers.rug import exact_loss


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
