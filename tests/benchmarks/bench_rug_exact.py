"""The exact loss of dense random networks, beside what a user would write: a Monte Carlo mean.

Each record carries the error that was achieved: the estimate of the exact loss (tests show that it covers
the error), the standard error of the samples. As sampling cannot reach the former, its record also
says how long it would take at its rate of 1 / sqrt(samples).
"""

import numpy as np
import pytest

from superposition.solvers import rug
from superposition.solvers.loss.folds import by_folds
from superposition.solvers.loss.patterns import by_patterns, chances
from superposition.theory.features import Features
from superposition.theory.special import VALUES

GROUP = "exact loss: error is relative to p/3"
P = 0.01


def network(n):
    """Return the matrix and bias of a random tied network with four features for each hidden neuron."""
    W = np.random.default_rng(0).standard_normal((n, n // 4)) / np.sqrt(n // 4)
    return W @ W.T, np.full(n, -0.1)


def sampled_loss(M, b, p, count, rng):
    """Return the mean loss over samples and its standard error."""
    losses = []
    for _ in range(0, count, 10_000):
        x = rng.random((10_000, b.size)) * (rng.random((10_000, b.size)) < p)
        losses.append(((x - np.maximum(x @ M.T + b, 0.0)) ** 2).mean(1))
    losses = np.concatenate(losses)
    return losses.mean(), losses.std(ddof=1) / np.sqrt(losses.size)


@pytest.mark.benchmark(group=GROUP)
@pytest.mark.parametrize("tol", [1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("n", [32, 128, 512])
def test_exact(benchmark, n, tol):
    M, b = network(n)
    rug.exact_loss(np.eye(3), 0.1, P)  # compile first
    result = benchmark.pedantic(rug.exact_loss, (M, b, P), {"tol": tol}, rounds=3)
    error = result.error_estimate / (P / 3)
    benchmark.extra_info.update(error=error)
    print(f"\nexact, n = {n}, tol {tol:.0e}: {benchmark.stats.stats.median:.3g} s, error at most {error:.1e}")


@pytest.mark.benchmark(group=GROUP)
@pytest.mark.parametrize("n", [32, 128, 512])
def test_samples(benchmark, n):
    M, b = network(n)
    loss, se = benchmark.pedantic(sampled_loss, (M, b, P, 50_000, np.random.default_rng(1)), rounds=1)
    assert abs(loss - rug.exact_loss(M, b, P, tol=1e-6).loss) <= 4.5 * se  # one false alarm in 150,000
    error, seconds = se / (P / 3), benchmark.stats.stats.median
    benchmark.extra_info.update(error=error)
    times = {tol: seconds * (error / tol) ** 2 for tol in (1e-4, 1e-8)}
    benchmark.extra_info.update({f"seconds_to_{tol:.0e}": value for tol, value in times.items()})
    print(f"\nsamples, n = {n}: {seconds:.3g} s, standard error {error:.1e}", end="")
    print("".join(f", {value:.1e} s to {tol:.0e}" for tol, value in times.items()))


@pytest.mark.benchmark(group="gradient of 8 features")
@pytest.mark.parametrize("how", ["folded", "all patterns"])
def test_few(benchmark, how):
    """What a second way to the loss of few features gains; both leave nothing but rounding."""
    (M, b), law, rows = network(8), Features(8, P), np.arange(8)
    ways = {
        "folded": lambda: by_folds(M, rows, b, law.p),
        "all patterns": lambda: by_patterns(M, rows, b, chances(law), VALUES.index("uniform")),
    }
    np.testing.assert_allclose(ways["folded"]()[2], ways["all patterns"]()[2], rtol=0, atol=1e-13)
    benchmark.pedantic(ways[how], rounds=5)
    print(f"\ngradient of 8 features, {how}: {benchmark.stats.stats.median:.2g} s")


@pytest.mark.benchmark(group="exact loss of one row of a rug")
@pytest.mark.parametrize("n", [2**12, 2**16])
def test_row_of_a_rug(benchmark, n):
    row = rug.rug_matrix(n, n // 4, rng=0) @ np.eye(1, n)[0]
    rug.row_loss([1.0, 0.5], 0, 0.0, P)  # compile first
    result = benchmark.pedantic(rug.row_loss, (row, 0, -0.1, P), rounds=3)
    benchmark.extra_info.update(error=result.error_estimate / (P / 3))
