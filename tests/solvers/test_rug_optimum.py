"""The optimum over scale and bias, against dense scans and the derived gradient at high precision."""

import mpmath
import numpy as np
import pytest
import sympy

from superposition.solvers.rug import crossover_ratio, optimum
from superposition.theory import rug
from superposition.theory.rug import derive

GRID_P = 10.0 ** np.linspace(-12, 0, 25)
GRID_RATIO = np.concatenate([10.0 ** np.linspace(-8, -1, 15), np.linspace(0.15, 1, 18)])


def profile(shift, sigma, p):
    a = rug.optimal_scale(shift * sigma, sigma, p)
    return rug.loss(a, a * shift * sigma, sigma, p)


def test_every_point_is_the_global_minimum_of_a_dense_scan():
    p, ratio = np.meshgrid(GRID_P, GRID_RATIO, indexing="ij")
    best = optimum(p, ratio)
    shifts = np.concatenate([np.linspace(-9, 9, 361), np.linspace(9.5, 36, 54)])
    inside = best.sigma > 0
    scanned = profile(shifts, best.sigma[inside][:, None], p[inside][:, None]).min(axis=1)
    # Both sides carry the relative error of the kernels, 1e-12 each.
    assert np.all(best.loss[inside] <= scanned * (1 + 2e-12))
    own = rug.loss(best.a[inside], best.b[inside], best.sigma[inside], p[inside])
    np.testing.assert_allclose(best.loss[inside], own, rtol=2e-12)
    assert np.all(best.loss <= rug.linear_loss(p, ratio) * (1 + 1e-12))
    assert np.all(best.loss <= rug.zero_ratio_loss(p))


@pytest.mark.parametrize(
    ("p", "ratio"),
    [(0.3, 0.01), (0.5, 0.01), (0.9, 0.02), (0.1, 0.002), (0.99, 0.6), (1.0, 0.3), (0.05, 0.2)],
)
def test_scale_and_bias_are_where_the_derived_gradient_is_zero(p, ratio):
    """Some clip with probabilities of 1e-4 to 1e-30, where only the location shows that they clip."""
    best = optimum(p, ratio)
    symbols = derive.symbols()
    slopes = [sympy.lambdify(symbols, derive.derive_gradient(by).expression, "mpmath") for by in "ab"]
    with mpmath.workdps(60):
        sigma = mpmath.mpf(float(best.sigma))
        a, b = mpmath.findroot(
            lambda a, b: [slope(a, b, sigma, mpmath.mpf(p)) for slope in slopes], (best.a, best.b)
        )
        assert abs(best.a / a - 1) < 1e-8
        assert abs(best.b - b) < 1e-8 * abs(a) * sigma


def test_loss_rises_with_the_interference_and_falls_with_the_ratio():
    loss = optimum(GRID_P[:, None], np.sort(GRID_RATIO)[None, :]).loss
    assert np.all(np.diff(loss, axis=1) <= 1e-12 * loss[:, :-1])


def test_crossover_separates_the_signs_of_the_bias():
    p = np.array([1e-10, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.999])
    line = crossover_ratio(p)
    assert np.all(optimum(p, line * (1 + 1e-6)).b < 0)
    assert np.all(optimum(p, line * (1 - 1e-6)).b > 0)
    assert crossover_ratio(1.0) == 1.0
    assert line[0] / p[0] == pytest.approx(line[1] / p[1], rel=1e-3)  # proportional to p, up to O(p)


def test_limits():
    assert optimum(0.3, 1.0).loss == 0.0
    # As ratio → 0 the constant output remains; the gain is of order ratio.
    assert optimum(0.3, 1e-9).loss == pytest.approx(rug.zero_ratio_loss(0.3), rel=1e-8)
    # The small-p law errs by (t sigma)², far below rounding here; the scale rounds to 1.
    for p, ratio in [(1e-100, 0.5), (1e-40, 0.1), (1e-24, 1 - 1e-12)]:
        tiny = optimum(p, ratio)
        assert tiny.loss == pytest.approx(rug.asymptotic_loss(p, ratio), rel=1e-11, abs=0)
