"""The optimum over a grid of (p, ratio), beside what a user would write: SciPy point by point over quad.

Each record carries the number of points, so that medians compare as points a second, and the achieved
error against the derived loss minimised at 30 digits.
"""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from superposition.solvers import rug
from superposition.theory import rug as theory

SIDE = 1000
P = 10.0 ** np.linspace(-6, 0, SIDE)
RATIO = np.linspace(1 / SIDE, 1, SIDE)


def by_quadrature(p, ratio):
    """Nested search: minimize_scalar over the bias, and over the scale inside, of integrals by quad."""
    sigma = theory.sigma(p, ratio)

    def loss(log_a, b):
        a = np.exp(log_a)

        def off(y):
            return max(y, 0.0) ** 2 * stats.norm.pdf(y, b, a * sigma)

        def on(u):
            m, s = a * u + b, a * sigma
            z = m / s
            cdf, pdf = stats.norm.cdf(z), stats.norm.pdf(z)
            return u * u - 2 * u * (m * cdf + s * pdf) + (m * m + s * s) * cdf + m * s * pdf

        reach = 10 * a * sigma
        return (1 - p) * integrate.quad(off, 0, max(b, 0) + reach)[0] + p * integrate.quad(on, 0, 1)[0]

    def profile(b):
        return optimize.minimize_scalar(lambda log_a: loss(log_a, b), bounds=(-3, 2), method="bounded").fun

    return optimize.minimize_scalar(profile, bounds=(-6 * sigma, 1), method="bounded").fun


@pytest.mark.benchmark(group="optimum: points a second = points / median")
def test_grid(benchmark):
    rug.optimum(P[:5], RATIO[:5])  # compile first
    best = benchmark.pedantic(rug.optimum, (P[:, None], RATIO), rounds=5)
    benchmark.extra_info.update(points=SIDE * SIDE)
    benchmark.extra_info["points_per_second"] = SIDE * SIDE / benchmark.stats.stats.median
    print(f"\noptimum: {benchmark.extra_info['points_per_second']:,.0f} points a second")
    assert np.all(np.isfinite(best.loss))


@pytest.mark.benchmark(group="optimum: points a second = points / median")
def test_point_by_point_with_quad(benchmark):
    points = [(0.01, 0.1), (0.05, 0.25), (0.3, 0.5)]
    found = benchmark.pedantic(lambda: [by_quadrature(*point) for point in points], rounds=3)
    exact = [rug.optimum(*point).loss for point in points]
    rate = len(points) / benchmark.stats.stats.median
    benchmark.extra_info.update(points=len(points), points_per_second=rate)
    worst = max(abs(f / e - 1) for f, e in zip(found, exact, strict=True))
    print(f"\npoint by point: {rate:,.2f} points a second, relative error {worst:.1e}")
