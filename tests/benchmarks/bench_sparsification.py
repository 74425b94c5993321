"""The exact solution beside one sort of the weights, and beside what a user would write: Euler steps."""

import numpy as np
import pytest

from superposition.solvers.sparsification import solve

LAM = 1e-5


def weights(m):
    return np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=m)


@pytest.mark.parametrize("m", [10**4, 10**5, 10**6, 10**7])
def test_beside_a_sort(race, m):
    w0 = weights(m)
    t = np.geomspace(1, 3 / LAM, 100)
    solve(w0[:9], LAM, t)  # compile first
    race(
        "sparsification, exact, at 100 times", f"m = {m:.0e}", lambda: solve(w0, LAM, t),
        floors={"one np.sort": lambda: np.sort(w0)}, size=m,
    )  # fmt: skip


def euler(w0, lam, step, t_end):
    """Euler's method over the weights that are left; drop times in descending order of size."""
    w, order = np.abs(w0), np.arange(w0.size)
    drops = np.full(w0.size, np.inf)
    for k in range(int(t_end / step)):
        w += step * ((1 - w @ w) * w - lam)
        if w.min() <= 0:
            gone = w <= 0
            drops[order[gone]] = (k + 1) * step
            w, order = w[~gone], order[~gone]
    return drops


def test_beside_euler(race):
    lam = 1e-3
    w0 = weights(10**4)
    t = np.geomspace(1, 3 / lam, 100)
    exact = solve(w0, lam, [0]).drop_times
    drops = euler(w0, lam, 0.05, 3 / lam)
    seen = np.isfinite(drops) & (exact > 10)
    error = float(np.max(np.abs(drops[seen] / exact[seen] - 1)))
    name = "Euler steps of 0.05 in NumPy"
    race(
        "sparsification, exact, drop times", "m = 1e4, lam = 1e-3", lambda: solve(w0, lam, t),
        {name: lambda: euler(w0, lam, 0.05, 3 / lam)}, errors={"ours": 1e-12, name: error},
        note="ours is exact to rounding (its tests, at smaller size)",
    )  # fmt: skip
    assert error < 0.05  # it does converge to the same
