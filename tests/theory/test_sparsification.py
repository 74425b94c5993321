"""Derivations leave nothing over; numeric forms agree with them at 50 digits; limits and bounds hold."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfcinv

from superposition.solvers.sparsification import limit_law, solve
from superposition.theory.sparsification import (
    derive,
    limiting_relative_variance,
    parametric_law,
    relative_variance_bounds,
    scaling_law,
    truncated_moments,
)


def test_the_flow_is_as_printed():
    flow = derive.derive_flow(2, 2).expression
    (a, b), (c, d) = (sp.symbols(f"W_{i}0 W_{i}1", real=True) for i in range(2))
    lam, on = sp.Symbol("lambda", positive=True), sp.Symbol("s_01", nonnegative=True)
    printed = 4 * (1 - a**2 - b**2) * a - 4 * on * (a * c + b * d) * c - lam * sp.Symbol("e_00", real=True)
    assert sp.expand(flow[0, 0] - printed) == 0
    lam, w, slopes = derive.encoding(3)
    free = 1 - sum(x**2 for x in w)
    assert sp.simplify(slopes[0] - free * (w[0] - lam / free)) == 0  # the threshold


def test_rates_of_the_norms():
    lam, w, _ = derive.encoding(4)
    total, square = sum(w), sum(x**2 for x in w)
    by_square, by_total = derive.derive_rates(4).expression
    assert sp.expand(by_square - 2 * ((1 - square) * square - lam * total)) == 0
    # The printed variance is a mean, not a sum.
    deviations = sum((x - total / 4) ** 2 for x in w)
    omitted = -total / (2 * square) * by_square
    assert sp.simplify(-by_total - lam * 16 / square * deviations / 4 - omitted) == 0
    # Relative spacings: d(1 - w_k/w_1)/dt = lam/w_1 (1 - w_k/w_1).
    share = 1 - w[1] / w[0]
    assert sp.simplify(derive.slope(share, 4) - lam / w[0] * share) == 0


def test_the_flow_is_one_equation():
    lam, g, c = sp.symbols("lambda g c", positive=True)
    v = sp.symbols("v1:4", positive=True)
    by_c, time_by_c = derive.derive_reduction(3).expression
    q = sum((x - c) ** 2 for x in v)
    assert sp.simplify(by_c - (q / g**2 - 1) / lam) == 0
    assert sp.simplify(time_by_c - 1 / (lam * g)) == 0
    for x in v:  # and it is the flow for each weight
        w = (x - c) / g
        rate = (sp.diff(w, g) * by_c + sp.diff(w, c)) / time_by_c
        assert sp.simplify(rate - ((1 - q / g**2) * w - lam)) == 0


def test_the_limit_law_is_the_derived_one():
    derived = derive.derive_limit_law()
    lam, m, t, h = 1e-6, 10**10, np.array([0.3, 1.0, 4.0, 10.0]), 1e-3
    laws = [limit_law(t + shift, lam, m, 0.4) for shift in (-h, 0.0, h)]
    zetas = [np.sqrt(2) * erfcinv((law.nonzeros - 1) / (m - 1)) for law in laws]
    # The norm is sqrt(m) M_1/sqrt(y), but for what fluctuations add, of relative order 1/m.
    ys = [
        (m**0.5 * truncated_moments(zeta, 1)[:, 1] / law.l1_norm) ** 2
        for zeta, law in zip(zetas, laws, strict=True)
    ]
    for k in range(t.size):
        values = {"lambda": lam, "m": m, "zeta": zetas[1][k], "y": ys[1][k]}
        found = [(x[2][k] - x[0][k]) / (2 * h) for x in (zetas, ys)]
        expected = [float(x) for x in derived.evaluate(values)]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)  # h^2 times third derivatives


def test_tail_and_winner():
    column = derive.derive_tail_fluctuations().expression
    assert list(column) == [1, 1, sp.Rational(4, 3), sp.Rational(1, 3)]
    # Time of one weight, from the zeros: against the exact solution of equal weights.
    time = derive.derive_winner()
    for r, s, start, end in ((0.2, 0.3, 0.19, 0.0), (-1.05, 0.2, 0.5, 0.7), (-1.05, 0.2, 0.15, 0.01)):
        # The cubic has to be x^3 - x + kappa: scale the zeros so that the linear term is -1.
        unit = mp.sqrt(mp.mpf(r) ** 2 + mp.mpf(r) * mp.mpf(s) + mp.mpf(s) ** 2)
        values = {name: mp.mpf(x) / unit for name, x in (("r", r), ("s", s), ("x", end), ("x0", start))}
        kappa = values["r"] * values["s"] * (values["r"] + values["s"])
        exact = float(mp.re(time.evaluate(values)))
        length = solve([float(values["x0"])], float(kappa), [exact]).l2_norm[0]
        assert length == pytest.approx(float(values["x"]), abs=1e-12)


def test_moments_of_all_orders_over_the_whole_interval():
    """By integration by parts from erfc, at 80 digits and more; another method takes over at 1.41421."""
    derived = derive.derive_limit_moments()
    zetas = [0, 1e-12, 0.01, 0.2, 0.3535, 0.3536, 0.5, 0.8, 1.3, 1.4142, 1.4143, 1.5556, 2, 4.9, 10, 20, 37]
    for zeta in zetas:
        with mp.workdps(200):
            z = mp.mpf(zeta)
            tail = mp.erfc(z / mp.sqrt(2))
            expected = [tail, mp.sqrt(2 / mp.pi) * mp.exp(-z * z / 2) - z * tail]
            for k in range(2, 21):
                expected.append((k - 1) * expected[k - 2] - z * expected[k - 1])
            symbolic = derived.evaluate({"zeta": z}) if zeta else []
            for one, want in zip(symbolic, expected, strict=False):
                assert abs(one - want) <= mp.mpf(10) ** -40 * want
        for order in (2, 3, 4, 5, 10, 20) if zeta < 5 else (4,):
            found = truncated_moments(zeta, order)
            exact = np.array([float(x) for x in expected[: order + 1]])
            # Rounding of zeta costs zeta^2 eps.
            rtol = 1e-14 if 0.01 <= zeta < 5 else 2e-14 + 2e-16 * zeta**2
            np.testing.assert_allclose(found, exact, rtol=rtol, err_msg=f"{zeta}, order {order}")


def test_parametric_time_is_the_integral():
    mp.mp.dps = 25

    def slow(z):
        second = (1 + z**2) * mp.erfc(z / mp.sqrt(2)) - z * mp.sqrt(2 / mp.pi) * mp.exp(-(z**2) / 2)
        return 1 / mp.sqrt(second)

    zeta = [0.0, 0.01, 1.0, 3.3, 6.0]
    expected = [float(mp.quad(slow, mp.linspace(0, z, 12))) for z in zeta]
    np.testing.assert_allclose(parametric_law(zeta).scaled_time, expected, rtol=1e-13)
    np.testing.assert_array_equal(
        parametric_law(zeta[::-1]).scaled_time, parametric_law(zeta).scaled_time[::-1]
    )


def test_parametric_law_obeys_the_growth_law():
    # d(1/|W|_1)/d(lam t) = relative variance, the identity derived from the flow; central differences,
    # with an error of h^2 = 1e-8 times the third derivative.
    zeta, h = np.array([0.5, 2.0, 4.0, 7.0]), 1e-4
    above, below, here = parametric_law(zeta + h), parametric_law(zeta - h), parametric_law(zeta)
    rate = (1 / above.scaled_l1_norm - 1 / below.scaled_l1_norm) / (above.scaled_time - below.scaled_time)
    np.testing.assert_allclose(rate, here.relative_variance, rtol=1e-6)


def test_constants_of_the_middle_regime():
    # m' (lam t)^2 -> 2, |W|_1 lam t -> 1, relative variance -> 1, with errors 2/zeta^2 and less.
    zeta = np.array([12.0, 24.0])
    law = parametric_law(zeta)
    for value in (
        law.nonzero_share * law.scaled_time**2 / 2,
        law.scaled_l1_norm * law.scaled_time,
        law.relative_variance,
    ):
        gap = np.abs(value - 1) * zeta**2
        assert np.all(gap < 4)
        assert gap[1] == pytest.approx(gap[0], rel=0.2)  # an error of this order indeed
    np.testing.assert_allclose(
        limiting_relative_variance(law.nonzero_share), law.relative_variance, rtol=1e-10
    )
    assert limiting_relative_variance(1.0) == pytest.approx(np.pi / 2 - 1, rel=1e-15, abs=0)


@given(st.integers(0, 2**32), st.integers(1, 40), st.booleans())
def test_relative_variance_lies_between_its_bounds(seed, m, heavy):
    rng = np.random.default_rng(seed)
    w0 = rng.standard_cauchy(m) if heavy else rng.normal(size=m)
    sizes, counts = np.append(np.sort(np.abs(w0))[::-1], 0), np.arange(1, m + 1)
    lower, upper = relative_variance_bounds(w0, counts)
    assert np.all(lower <= upper)
    for count in counts:
        left = sizes[:count] - rng.uniform(sizes[count], sizes[count - 1])
        if left[-1] > 0:
            value = np.var(left) / np.mean(left) ** 2
            # Sums of differences: each of 40 terms is good to a rounding of the sizes beside their gaps.
            slack = 1e-12 * sizes[0] / max(left.mean(), 1e-300)
            assert lower[count - 1] * (1 - slack) - slack <= value <= upper[count - 1] * (1 + slack) + slack
        left = sizes[:count] - sizes[count]
        attained = np.var(left) / np.mean(left) ** 2
        assert attained == pytest.approx(lower[count - 1], rel=1e-6, abs=1e-9)


def test_bounds_of_equal_and_of_ideal_weights():
    lower, upper = relative_variance_bounds([0.5, -0.5, 0, 0.1], [1, 2, 3])
    np.testing.assert_allclose(lower, [0, 0, 2 * (0.4 / 3) ** 2 / (1.1 / 3) ** 2])
    np.testing.assert_allclose(upper, [0, 0, 0.5])
    # Of many ideal weights, the percentiles of the normal law, they close in: their gap is of order 1/m'.
    m, counts = 100_000, np.array([100_000, 30_000, 1000])
    lower, upper = relative_variance_bounds(erfcinv((np.arange(m) + 0.5) / m), counts)
    assert np.all(np.abs(lower - limiting_relative_variance(counts / m)) < 3 / counts**0.75)
    assert np.all(upper - lower < 5 / counts)


def test_scaling_law_has_three_regimes():
    nonzeros, l1_norm = scaling_law(np.array([0, 100, 316, 1e4, 1e5, 1e7]), 1e-5, 100_000)
    np.testing.assert_allclose(l1_norm, [316.2278, 316.2278, 316.2278, 10, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(nonzeros, l1_norm**2)
