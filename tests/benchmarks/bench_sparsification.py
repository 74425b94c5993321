"""The exact solution beside one sort of the weights, and beside what a user would write: Euler steps.

Each record carries the achieved error: of the exact solution against one with events weight by weight (as its
tests do at smaller size it is 1e-12; here it is not measured), of Euler's method against the exact solution.
"""

import numpy as np
import pytest

from superposition.solvers.sparsification import limit_law, solve

LAM = 1e-5


def weights(m):
    return np.random.default_rng(0).normal(scale=0.9 / np.sqrt(m), size=m)


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


@pytest.mark.parametrize("m", [10**5, 10**6, 10**7])
@pytest.mark.parametrize("what", ["one np.sort", "solve"])
def test_beside_a_sort(benchmark, m, what):
    benchmark.group = f"sparsification, m = {m:.0e}: solve and np.sort"
    w0 = weights(m)
    t = np.geomspace(1, 3 / LAM, 100)
    solve(w0[:9], LAM, t)  # compile first
    if what == "solve":
        result = benchmark.pedantic(solve, (w0, LAM, t), rounds=5, warmup_rounds=1)
        assert result.nonzeros[-1] < 10
    else:
        benchmark.pedantic(np.sort, (w0,), rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group="sparsification, m = 1e5, lam = 1e-5, to t = 3/lam: solve and Euler")
def test_solve_fig2(benchmark):
    w0 = weights(10**5)
    t = np.geomspace(1, 3 / LAM, 100)
    result = benchmark.pedantic(solve, (w0, LAM, t), rounds=20, warmup_rounds=2)
    assert not result.died


@pytest.mark.benchmark(group="sparsification, m = 1e5, lam = 1e-5, to t = 3/lam: solve and Euler")
def test_euler_fig2(benchmark):
    w0 = weights(10**5)
    drops = benchmark.pedantic(euler, (w0, LAM, 0.5, 3 / LAM), rounds=1)
    exact = solve(w0, LAM, [0]).drop_times
    seen = np.isfinite(drops) & (exact > 100)
    error = np.max(np.abs(drops[seen] / exact[seen] - 1))
    benchmark.extra_info.update(relative_error=error)
    print(f"\nEuler, step 0.5: drop times after t = 100 off by up to {error:.1e}")
    assert error < 0.02  # it does converge to the same; at a step of 0.5 no further


@pytest.mark.benchmark(group="sparsification: the limit law at 100 times")
def test_limit_law(benchmark):
    t = np.geomspace(1, 3 / LAM, 100)
    law = benchmark.pedantic(limit_law, (t, LAM, 10**5, 0.9), rounds=5, warmup_rounds=1)
    assert np.all(np.diff(law.nonzeros) < 0)
