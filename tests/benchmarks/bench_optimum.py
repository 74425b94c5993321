"""The optimum over grids of (p, ratio) beside SciPy point by point over quad, and beside the normal law."""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from superposition.solvers import rug
from superposition.theory import rug as theory


def grid(side):
    return 10.0 ** np.linspace(-6, 0, side)[:, None], np.linspace(1 / side, 1, side)


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


@pytest.mark.parametrize("side", [10, 32, 100, 316, 1000])
def test_grid(race, side):
    p, ratio = grid(side)
    rug.optimum(0.1, 0.2)  # compile first
    numbers = np.random.default_rng(0).normal(size=side * side)
    race(
        "optimum of the rug over a grid", f"{side * side} points", lambda: rug.optimum(p, ratio),
        floors={"one scipy.special.ndtr a point": lambda: special.ndtr(numbers)}, size=side * side,
    )  # fmt: skip


def test_beside_quadrature(race):
    points = [(0.01, 0.1), (0.05, 0.25), (0.3, 0.5)]
    exact = [rug.optimum(*point).loss for point in points]
    found = [by_quadrature(*point) for point in points]
    worst = max(abs(f / e - 1) for f, e in zip(found, exact, strict=True))
    p, ratio = grid(100)
    name = "minimize_scalar over quad"
    race(
        "optimum of the rug at a point, of a grid", "10000 points", lambda: rug.optimum(p, ratio),
        {name: lambda: by_quadrature(*points[1])}, units=p.size * ratio.size,
        errors={"ours": 1e-12, name: worst},
        note="our error is that of its tests; one point of theirs is timed",
    )  # fmt: skip
    assert worst < 1e-6
