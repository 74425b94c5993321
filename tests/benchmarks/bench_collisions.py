"""The interference flow beside other integrators, and its dense steps beside their matrix products.

An error is the largest distance of an encoding from its exact place at 0.3/lam, when half the weights are
still moving; exact means the flow at a tolerance far below. Every rival is met at its own accuracy: by the
flow at the loosest tolerance whose error is no larger, timed in the same test. The rivals come to the same
places as their tolerances shrink, which is also a check of the flow.

SciPy's integrators take sign(W) as a right-hand side like any other: weights that should rest chatter about
zero in steps of the tolerance over lam, so that their cost grows as one over the error. A ramp of the
tolerance's width instead of the sign costs the same. BDF and Radau need dense Jacobians, with the square of
the number of weights, and lose their way: they stopped early at n = 8, m = 16.

`solve_nivp` is made for such inclusions. W' in f(W) - lam sign(W) is its Coulomb friction of constant
strength, which it solves in implicit steps by a projected fixed-point iteration. The settings are the fastest
found that arrive at the right zeros: its strict block test of the contraction only repeats evaluations here,
and with solver tolerances above 1e-6 it takes weights for resting that move. Its Newton iteration, with exact
Jacobians, was slower from n = 4, m = 8 on. At n = 256, m = 1024 it needs a minute to 0.3/lam and was stopped
after four more.
"""

import time

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from superposition.solvers.collisions import flow, march, owners
from superposition.solvers.results import Status

CASES = {"n=16 m=64": (16, 64, 1e-2), "n=64 m=256": (64, 256, 1e-2), "n=256 m=1024": (256, 1024, 1e-3)}
STOPS = np.array([0.3, 3.0])  # over lam
# All is done on one thread, as `make bench` has it; so other work on the machine does not enter the ratios.
CLOCK = time.process_time

# LSODA's error is smaller at equal tolerance, RK45's larger. RK23 is the fastest at equal errors.
SCIPY = [
    ("n=16 m=64", "RK23", 1e-4),
    ("n=16 m=64", "RK45", 1e-4),
    ("n=16 m=64", "DOP853", 1e-4),
    ("n=16 m=64", "LSODA", 1e-3),
    ("n=64 m=256", "RK23", 1e-4),
    ("n=256 m=1024", "RK23", 1e-4),
]


def initial(case):
    n, m, lam = CASES[case]
    return np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=(n, m)), lam


def smooth(shape):
    n = shape[0]

    def force(_, w, *more):
        W = w.reshape(shape)
        G = W @ W.T
        C = -np.maximum(G, 0)
        C[np.arange(n), np.arange(n)] = 1 - np.diagonal(G)
        return (C @ W).ravel()

    return force


@pytest.fixture(scope="module")
def exact():
    """Return a function for the encodings of a case at 0.3/lam and at 3/lam."""
    found = {}

    def at(case):
        if case not in found:
            W0, lam = initial(case)
            rtol = 1e-8 if W0.shape[0] < 256 else 1e-5
            found[case] = [flow(W0, lam, t, tol=rtol).W for t in STOPS / lam]
        return found[case]

    return at


def distance(W, exact):
    return float(np.linalg.norm(W - exact, axis=1).max())


def run_flow(case, rtol):
    W0, lam = initial(case)
    return flow(W0, lam, STOPS / lam, tol=rtol)


def flow_error(case, exact, rtol):
    W0, lam = initial(case)
    return distance(flow(W0, lam, STOPS[0] / lam, tol=rtol).W, exact(case)[0])


def meet(benchmark, case, exact, weights):
    """Report a rival's errors, and how much faster the flow is at its accuracy."""
    seconds = benchmark.stats.stats.median
    error = distance(weights[0], exact(case)[0])
    others = int(np.sum(owners(weights[1])[0] != owners(exact(case)[1])[0]))
    for rtol in (1e-2, 1e-3, 1e-4, 1e-5):
        own = flow_error(case, exact, rtol)
        if own <= error:
            break
    rounds = 1 if CASES[case][0] == 256 else 5
    lengths = []
    for _ in range(rounds):
        begin = CLOCK()
        run_flow(case, rtol)
        lengths.append(CLOCK() - begin)
    times = seconds / float(np.median(lengths))
    benchmark.extra_info.update(error=error, other_owners=others, flow_error=own, flow_times_faster=times)
    print(
        f"\n{benchmark.name}: {seconds:.2f} s, error {error:.1e}, {others} other owners; "
        f"flow {times:.0f} times faster, with error {own:.1e} (rtol {rtol:g})"
    )
    assert own <= error


@pytest.mark.benchmark(group="collisions: flow to 3/lam", timer=CLOCK)
@pytest.mark.parametrize("rtol", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("case", CASES)
def test_flow(benchmark, exact, case, rtol):
    if case == "n=256 m=1024" and rtol == 1e-6:
        pytest.skip("finer than the reference of this case")
    run_flow("n=16 m=64", rtol)  # compile first
    found = benchmark.pedantic(run_flow, (case, rtol), rounds=1 if case == "n=256 m=1024" else 3)
    error = flow_error(case, exact, rtol)
    others = int(np.sum(owners(found.W)[0] != owners(exact(case)[1])[0]))
    benchmark.extra_info.update(error=error, other_owners=others, steps=int(found.steps))
    print(
        f"\n{benchmark.name}: {benchmark.stats.stats.median:.4f} s, error {error:.1e}, "
        f"{others} other owners, {found.steps} steps"
    )
    assert found.status is Status.REACHED


@pytest.mark.benchmark(group="collisions: SciPy to 3/lam", timer=CLOCK)
@pytest.mark.parametrize(("case", "method", "tolerance"), SCIPY)
def test_solve_ivp(benchmark, exact, case, method, tolerance):
    W0, lam = initial(case)
    force = smooth(W0.shape)

    def run():
        return solve_ivp(
            lambda t, w: force(t, w) - lam * np.sign(w), (0, STOPS[-1] / lam), W0.ravel(), method,
            t_eval=STOPS / lam, rtol=tolerance, atol=tolerance,
        )  # fmt: skip

    found = benchmark.pedantic(run, rounds=1)
    assert found.status == 0
    meet(benchmark, case, exact, found.y.T.reshape(2, *W0.shape))


@pytest.mark.benchmark(group="collisions: solve_nivp to 3/lam", timer=CLOCK)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # its first trial steps overflow
@pytest.mark.parametrize("method", ["trapezoidal", "composite"])
@pytest.mark.parametrize("case", ["n=16 m=64", "n=64 m=256"])
def test_solve_nivp(benchmark, exact, case, method):
    rival = pytest.importorskip(
        "solve_nivp", reason="solve_nivp is not installed: pip install solve_nivp==0.1.2"
    )
    W0, lam = initial(case)
    strength = np.full(W0.size, lam)
    friction = {
        "con_force_func": lambda *_: strength,
        "rhok": 1.0,
        "constraint_indices": np.arange(W0.size),
        "conf_jacobian_mode": "none",
    }

    def run():
        w, now, found = W0.ravel(), 0.0, []
        for stop in STOPS / lam:  # it has no dense output
            t, path, *_ = rival.solve_ivp_ns(
                smooth(W0.shape), (now, stop), w, method, "coulomb", "VI", projection_opts=friction,
                solver_opts={"tol": 1e-6, "sparse": True, "vi_strict_block_lipschitz": False},
                adaptive_opts={"method_order": 2}, rtol=1e-3, atol=1e-4,
            )  # fmt: skip
            assert t[-1] == pytest.approx(stop)
            now, w = stop, path[-1]
            found.append(w.reshape(W0.shape))
        return found

    meet(benchmark, case, exact, benchmark.pedantic(run, rounds=1))


@pytest.mark.benchmark(group="collisions: a dense step and its products", timer=CLOCK)
@pytest.mark.parametrize(("n", "m"), [(256, 256), (256, 1024), (256, 4096)])
def test_dense_step(benchmark, n, m):
    """Time dense steps; three times the two products of a force are what no step of third order avoids."""
    W0 = np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=(n, m))
    lam, force = np.full(n, 1e-3), march.tied_force(n)
    G, out = np.empty((n, n)), np.empty((n, m))
    steps = 20

    def run():
        W, state = W0.copy(), march.start(W0, 0.1, steps)
        march.dense_run(W, force, lam, state, 1e9)
        return state.steps + state.rejected

    lengths = []

    def products():
        begin = CLOCK()
        for _ in range(3 * steps + 1):
            np.dot(W0, W0.T, out=G)
            np.dot(G, W0, out=out)
        lengths.append(CLOCK() - begin)

    run()
    assert benchmark.pedantic(run, setup=products, rounds=7) == steps  # by turns
    share = float(np.median(np.array(benchmark.stats.stats.data) / lengths))
    benchmark.extra_info.update(times_products=share)
    print(f"\ndense steps at n = {n}, m = {m}: {share:.2f} times their products")
    assert share < 2


@pytest.mark.benchmark(group="collisions: runs shared by threads")
@pytest.mark.parametrize("workers", [1, 2])
def test_workers(benchmark, workers):
    """Wall time of four runs: kernels give the interpreter's lock back, so two threads take about half."""
    W0 = np.random.default_rng(0).normal(scale=0.9 / 16, size=(4, 64, 256))
    flow(W0[:1], 1e-2, 3.0, tol=1e-4)  # compile first
    found = benchmark.pedantic(flow, (W0, 1e-2, 300.0), {"tol": 1e-4, "workers": workers}, rounds=5)
    print(f"\n{workers} threads: {benchmark.stats.stats.median:.3f} s for four runs")
    assert all(status is Status.REACHED for status in found.status)
