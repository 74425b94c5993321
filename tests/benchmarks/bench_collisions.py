"""The interference flow beside SciPy's integrators, and its dense steps beside their matrix products.

Each record carries the achieved error (largest relative error of an encoding's l1 norm at 0.3/lam, against
the flow at rtol 1e-8), how many features ended on another neuron, steps and status. SciPy's integrators take
sign(W) as a right-hand side like any other: weights that should rest chatter about zero in steps of the
tolerance over lam, so that their cost grows as one over the error. Implicit ones need dense Jacobians, with
the square of the number of weights, and lose their way: BDF and Radau stopped early at n = 8, m = 16.
"""

import time

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from superposition.solvers.collisions import flow, march, owners

CASES = {"n=16 m=64": (16, 64, 1e-2), "n=64 m=256": (64, 256, 1e-2), "n=256 m=1024": (256, 1024, 1e-3)}
# What SciPy manages within minutes; by RK23, the fastest of its methods at equal error on the smallest case.
MANAGED = {"n=16 m=64": 1e-4, "n=64 m=256": 1e-4}


def start(case):
    n, m, lam = CASES[case]
    return np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=(n, m)), lam


def slope(shape, lam):
    n = shape[0]

    def velocity(_, w):
        W = w.reshape(shape)
        G = W @ W.T
        C = -np.maximum(G, 0)
        C[np.arange(n), np.arange(n)] = 1 - np.diagonal(G)
        return (C @ W - lam * np.sign(W)).ravel()

    return velocity


@pytest.fixture(scope="module")
def exact():
    """Norms at 0.3/lam, when half the weights are still moving, and owners at 3/lam."""
    found = {}

    def at(case):
        if case not in found:
            W0, lam = start(case)
            found[case] = flow(W0, lam, [0.3 / lam, 3 / lam], rtol=1e-8 if W0.shape[0] < 256 else 1e-6)
        return found[case]

    return at


def report(benchmark, exact, l1_norm, W, steps, status):
    error = float(np.abs(l1_norm / exact.l1_norm[0] - 1).max())
    others = int(np.sum(owners(W)[0] != owners(exact.W)[0]))
    benchmark.extra_info.update(error=error, other_owners=others, steps=steps, status=status)
    seconds = benchmark.stats.stats.median
    print(f"\n{benchmark.name}: {seconds:.3f} s, error {error:.1e}, {others} other owners, {steps} steps")


@pytest.mark.benchmark(group="collisions: flow to 3/lam")
@pytest.mark.parametrize("rtol", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("case", CASES)
def test_flow(benchmark, exact, case, rtol):
    W0, lam = start(case)
    flow(W0[:4, :6], lam, 100.0)  # compile first
    if W0.shape[0] == 256 and rtol == 1e-6:
        pytest.skip("it is the reference of this case")
    rounds = 1 if W0.shape[0] == 256 else 3
    found = benchmark.pedantic(flow, (W0, lam, [0.3 / lam, 3 / lam]), {"rtol": rtol}, rounds=rounds)
    report(benchmark, exact(case), found.l1_norm[0], found.W, int(found.steps), int(found.status))


@pytest.mark.benchmark(group="collisions: flow to 3/lam")
@pytest.mark.parametrize("case", MANAGED)
def test_solve_ivp(benchmark, exact, case):
    W0, lam = start(case)
    options = {"rtol": MANAGED[case], "atol": MANAGED[case], "t_eval": [0.3 / lam, 3 / lam]}
    problem = (slope(W0.shape, lam), (0, 3 / lam), W0.ravel(), "RK23")
    found = benchmark.pedantic(solve_ivp, problem, options, rounds=1)
    middle, end = found.y.T.reshape(2, *W0.shape)
    report(benchmark, exact(case), np.abs(middle).sum(axis=1), end, found.nfev // 3, found.status)


@pytest.mark.benchmark(group="collisions: a dense step and its products")
@pytest.mark.parametrize(("n", "m"), [(256, 256), (256, 1024), (256, 4096)])
def test_dense_step(benchmark, n, m):
    """Time dense steps; three times the two products of a force are what no step of third order avoids."""
    W0 = np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=(n, m))
    lam, force = np.full(n, 1e-3), march.tied_force(n)
    G, out = np.empty((n, n)), np.empty((n, m))
    steps = 20

    def run():
        W, state = W0.copy(), march.start(W0, 1e-4)
        march.dense_run(W, force, lam, state, 1e9, 0.1, steps)
        return state.steps + state.rejected

    def products():
        begin = time.perf_counter()
        for _ in range(3 * steps + 1):
            np.dot(W0, W0.T, out=G)
            np.dot(G, W0, out=out)
        return time.perf_counter() - begin

    run()
    assert benchmark.pedantic(run, rounds=5) == steps
    unavoidable = np.median([products() for _ in range(5)])
    share = benchmark.stats.stats.median / unavoidable
    benchmark.extra_info.update(times_products=float(share))
    print(f"\ndense steps at n = {n}, m = {m}: {share:.2f} times their products")
