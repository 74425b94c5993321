"""Flows beside other integrators at their own accuracy, and dense steps beside their matrix products.

The interference flow: an error is the largest distance of an encoding from its exact place at 0.3/lam, when
half the weights are still moving. Integrators of smooth systems take sign(W) as a right-hand side like any
other: weights that should rest chatter about zero in steps of the tolerance over lam, so that their cost
grows as one over the error. `solve_nivp` is made for such inclusions; its settings are the fastest found
that arrive at the right zeros. The flow of linear autoencoders is smooth, which is where the others are at
home.
"""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from superposition.solvers import collisions, linear
from superposition.solvers.collisions.flow import LONGEST_STEP
from superposition.solvers.collisions.forces import tied_force
from superposition.solvers.flow.inclusion import Progress, advance

LAM = 0.03
STOPS = np.array([0.3, 3.0]) / LAM
TOLERANCE = 1e-4
SIZES = (8, 16, 32, 64)  # n; m = 4 n
SLOW = {("torchdiffeq", 64), ("torchdiffeq", 32)}  # a quarter of a minute each, twelve times over
OURS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def initial(n, m):
    return np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=(n, m))


@cache
def exact(n):
    """Return the encodings of n features at 0.3/lam."""
    return collisions.flow(initial(n, 4 * n), LAM, STOPS[0], tol=1e-8).W


def distance(W, exact):
    return float(np.linalg.norm(W - exact, axis=1).max())


def smooth(n, m):
    def force(_, w, *more):
        W = w.reshape(n, m)
        G = W @ W.T
        C = -np.maximum(G, 0)
        C[np.arange(n), np.arange(n)] = 1 - np.diagonal(G)
        return (C @ W).ravel()

    return force


def by_solve_ivp(W0, n, m):
    force = smooth(n, m)

    def run():
        found = solve_ivp(
            lambda t, w: force(t, w) - LAM * np.sign(w), (0, STOPS[-1]), W0.ravel(), "RK23",
            t_eval=STOPS, rtol=TOLERANCE, atol=TOLERANCE,
        )  # fmt: skip
        return found.y.T.reshape(2, n, m)

    return run


def by_solve_nivp(W0, n, m):
    rival = pytest.importorskip("solve_nivp")
    strength = np.full(W0.size, LAM)
    friction = {"con_force_func": lambda *_: strength, "rhok": 1.0, "conf_jacobian_mode": "none"}
    friction["constraint_indices"] = np.arange(W0.size)
    solver = {"tol": 1e-6, "sparse": True, "vi_strict_block_lipschitz": False}

    def run():
        w, now, found = W0.ravel(), 0.0, []
        for stop in STOPS:  # it has no dense output
            t, path, *_ = rival.solve_ivp_ns(
                smooth(n, m), (now, stop), w, "trapezoidal", "coulomb", "VI", projection_opts=friction,
                solver_opts=solver, adaptive_opts={"method_order": 2}, rtol=1e-3, atol=1e-4,
            )  # fmt: skip
            assert t[-1] == pytest.approx(stop)
            now, w = stop, path[-1]
            found.append(w.reshape(n, m))
        return np.array(found)

    return run


def solved_by_diffrax(field, y0, stops, method, tolerance):
    jax, diffrax = pytest.importorskip("jax"), pytest.importorskip("diffrax")
    jax.config.update("jax_enable_x64", True)
    control = diffrax.PIDController(rtol=tolerance, atol=tolerance)
    saved = diffrax.SaveAt(ts=jax.numpy.array(stops))

    @jax.jit
    def solve(y0):
        term = diffrax.ODETerm(lambda t, y, args: field(jax.numpy, y))
        return diffrax.diffeqsolve(
            term, getattr(diffrax, method)(), 0.0, stops[-1], None, y0, saveat=saved,
            stepsize_controller=control, max_steps=None,
        ).ys  # fmt: skip

    start = jax.numpy.array(y0)
    return lambda: np.asarray(solve(start))


def by_diffrax(W0, n, m):
    def field(np_, W):
        G = W @ W.T
        C = np_.where(np_.eye(n, dtype=bool), 1 - G, -np_.maximum(G, 0))
        return C @ W - LAM * np_.sign(W)

    return solved_by_diffrax(field, W0, STOPS, "Bosh3", TOLERANCE)


def solved_by_torchdiffeq(field, y0, stops, method, tolerance):
    torch, torchdiffeq = pytest.importorskip("torch"), pytest.importorskip("torchdiffeq")
    start, times = torch.tensor(y0), torch.tensor([0.0, *stops], dtype=torch.float64)

    def run():
        with torch.no_grad():
            found = torchdiffeq.odeint(
                lambda t, y: field(torch, y), start, times, method=method, rtol=tolerance, atol=tolerance
            )
        return found.numpy()[1:]

    return run


def by_torchdiffeq(W0, n, m):
    def field(torch, W):
        G = W @ W.T
        C = torch.where(torch.eye(n, dtype=torch.bool), 1 - G, -G.clamp(min=0))
        return C @ W - LAM * W.sign()

    return solved_by_torchdiffeq(field, W0, STOPS, "bosh3", TOLERANCE)


RIVALS = {
    "solve_ivp, RK23": by_solve_ivp,
    "solve_nivp": by_solve_nivp,
    "diffrax, Bosh3": by_diffrax,
    "torchdiffeq, bosh3": by_torchdiffeq,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the first trial steps of solve_nivp overflow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", RIVALS)
def test_interference(race, name, n):
    if (name.partition(",")[0], n) in SLOW:
        pytest.skip("takes minutes")
    W0 = initial(n, 4 * n)
    theirs = RIVALS[name](W0, n, 4 * n)
    error = distance(theirs()[0], exact(n))
    for tol in OURS:
        own = distance(collisions.flow(W0, LAM, STOPS[0], tol=tol).W, exact(n))
        if own <= error:
            break
    race(
        "interference flow to t = 3/lam", f"n = {n}, m = {4 * n}",
        lambda: collisions.flow(W0, LAM, STOPS, tol=tol), {name: theirs},
        errors={"ours": own, name: error}, size=n, rounds=3,
    )  # fmt: skip
    assert own <= error


@pytest.mark.parametrize(("n", "m"), [(256, 256), (256, 1024), (256, 4096)])
def test_dense_step(race, n, m):
    """Time dense steps; three times the two products of a force are what no step of third order avoids."""
    W0 = initial(n, m)
    lam = np.full(n, 1e-3)
    G, out = np.empty((n, n)), np.empty((n, m))
    steps = 6

    def ours():
        W, state = W0.copy(), Progress(0.1, 0.1, steps, LONGEST_STEP)
        advance(W, 1e9, state, lam, tied_force)
        assert state.steps + state.rejected == steps

    def products():
        for _ in range(3 * steps + 1):
            np.dot(W0, W0.T, out=G)
            np.dot(G, W0, out=out)

    ours()
    work, floors = "six dense steps of the interference flow", {"its matrix products": products}
    race(work, f"n = {n}, m = {m}", ours, floors=floors)


# The tied linear autoencoder, dW/dt = (1 - WW') S W + S (1 - WW') W
DECAY = 0.9
UNTIL = np.array([1.0, 20.0])


def linear_field(np_, S, W):
    M = W @ W.T
    SW = S @ W
    return 2 * SW - M @ SW - S @ (M @ W)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n", [8, 32, 128])
@pytest.mark.parametrize("name", ["solve_ivp, DOP853", "diffrax, Dopri8", "torchdiffeq, dopri5"])
def test_linear(race, name, n):
    m = n // 4
    W0 = np.random.default_rng(0).normal(scale=0.1, size=(n, m))
    covariance = np.diag(DECAY ** np.arange(n))
    found = linear.gradient_flow(W0, covariance, UNTIL, rtol=1e-12).W

    if name.startswith("solve_ivp"):
        options = {"t_eval": UNTIL, "rtol": 1e-8, "atol": 1e-8}

        def theirs():
            field = lambda t, w: linear_field(np, covariance, w.reshape(n, m)).ravel()  # noqa: E731
            return solve_ivp(field, (0, UNTIL[-1]), W0.ravel(), "DOP853", **options).y.T.reshape(2, n, m)

    elif name.startswith("diffrax"):
        theirs = solved_by_diffrax(lambda np_, W: linear_field(np_, covariance, W), W0, UNTIL, "Dopri8", 1e-8)
    else:
        torch = pytest.importorskip("torch")
        S = torch.tensor(covariance)
        theirs = solved_by_torchdiffeq(lambda torch, W: linear_field(torch, S, W), W0, UNTIL, "dopri5", 1e-8)
    error = float(np.abs(theirs() - found).max())
    for rtol in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11):
        own = float(np.abs(linear.gradient_flow(W0, covariance, UNTIL, rtol=rtol).W - found).max())
        if own <= error:
            break
    race(
        "flow of a tied linear autoencoder to t = 20", f"n = {n}, m = {m}",
        lambda: linear.gradient_flow(W0, covariance, UNTIL, rtol=rtol), {name: theirs},
        errors={"ours": own, name: error}, rounds=5,
    )  # fmt: skip
    assert own <= error
