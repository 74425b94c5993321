"""Derivations leave nothing over; numeric forms agree with them at 50 digits; limits and bounds hold."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from superposition.theory.sparsification import (
    derive,
    ideal_weights,
    limiting_relative_variance,
    parametric_law,
    relative_variance,
    relative_variance_bounds,
    scaling_law,
    truncated_moments,
)


def test_derivations_leave_nothing():
    assert derive.derive_flow(3, 2).is_zero_matrix
    assert derive.derive_rescaling() == 0
    assert derive.derive_threshold() == 0
    assert derive.derive_balance() == (0, 0)
    assert derive.derive_growth() == 0
    assert derive.derive_spacings() == (0, 0, 0)
    residual, scalar = derive.derive_reduction()
    assert residual.is_zero_matrix
    assert scalar == 0
    assert derive.derive_tail_fluctuations() == (1, 1, sp.Rational(4, 3), sp.Rational(1, 3))
    assert derive.derive_winner() == (0, 2 / sp.sqrt(27))


def test_the_printed_variance_is_a_mean_not_a_sum():
    mean, omitted, ratio = derive.derive_l1_decay(4)
    assert mean == 0
    assert ratio == 4  # the print is off by the number of weights
    # And what balance omits is not zero in general.
    lam, *w = sorted(omitted.free_symbols, key=str)
    assert omitted.subs({lam: sp.Rational(1, 10), **dict.fromkeys(w, sp.Rational(1, 4))}) != 0


# Another method takes over at 1.41421.
ZETAS = [0, 1e-12, 0.3, 1.0, 1.4142, 1.4143, 1.5, 1.5556, 1.6, 2.5, 5, 10, 20, 30, 37]


@pytest.mark.parametrize("zeta", ZETAS)
def test_moments_are_the_derived_ones(zeta):
    mp.mp.dps = 50
    symbol = sp.Symbol("zeta", positive=True)
    expected = [
        sp.lambdify(symbol, expression, "mpmath")(mp.mpf(zeta))
        for expression in derive.derive_limit_moments()
    ]
    # Higher ones by the recursion that integration by parts gives: k M_(k-2) - zeta M_(k-1), and (k-1) of it.
    for k in (3, 4):
        expected.append((k - 1) * expected[k - 2] - mp.mpf(zeta) * expected[k - 1])
    # Cancelled digits: about zeta^8 of 1e50; rounding of zeta costs zeta^2 eps.
    np.testing.assert_allclose(
        truncated_moments(zeta, 4), [float(x) for x in expected], rtol=2e-14 + 2e-16 * zeta**2
    )


def test_moments_of_all_orders_over_the_whole_interval():
    with mp.workdps(80):
        for zeta in [0.01, 0.2, 0.3535, 0.3536, 0.5, 0.6, 0.8, 1.1, 1.3, 1.4142, 1.4143, 1.5, 1.5556, 2, 4.9]:
            z = mp.mpf(zeta)
            tail = mp.erfc(z / mp.sqrt(2))
            expected = [tail, mp.sqrt(2 / mp.pi) * mp.exp(-z * z / 2) - z * tail]
            for k in range(2, 21):
                expected.append((k - 1) * expected[k - 2] - z * expected[k - 1])
            for order in (2, 3, 4, 5, 10, 20):
                found = truncated_moments(zeta, order)
                exact = np.array([float(x) for x in expected[: order + 1]])
                np.testing.assert_allclose(found, exact, rtol=1e-14, err_msg=f"{zeta}, order {order}")


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
    assert limiting_relative_variance(1.0) == pytest.approx(np.pi / 2 - 1, rel=1e-15)


@given(st.integers(0, 2**32), st.integers(1, 40), st.booleans())
def test_relative_variance_lies_between_its_bounds(seed, m, heavy):
    rng = np.random.default_rng(seed)
    w0 = rng.standard_cauchy(m) if heavy else rng.normal(size=m)
    sizes = np.append(np.sort(np.abs(w0))[::-1], 0)
    counts = np.arange(1, m + 1)
    lower, upper = relative_variance_bounds(w0, counts)
    assert np.all(lower <= upper)
    for count in counts:
        shift = rng.uniform(sizes[count], sizes[count - 1])
        left = np.maximum(sizes - shift, 0)
        if np.count_nonzero(left) == count:
            value = relative_variance(left)
            # Sums of differences: each of 40 terms is good to a rounding of the sizes beside their gaps.
            slack = 1e-12 * sizes[0] / max(left[:count].mean(), 1e-300)
            assert lower[count - 1] * (1 - slack) - slack <= value <= upper[count - 1] * (1 + slack) + slack
        attained = relative_variance(sizes[:count] - sizes[count])
        assert attained == pytest.approx(lower[count - 1], rel=1e-6, abs=1e-9)


def test_bounds_of_equal_and_of_ideal_weights():
    lower, upper = relative_variance_bounds([0.5, -0.5, 0, 0.1], [1, 2, 3])
    np.testing.assert_allclose(lower, [0, 0, 2 * (0.4 / 3) ** 2 / (1.1 / 3) ** 2])
    np.testing.assert_allclose(upper, [0, 0, 0.5])
    # Of many ideal weights the bounds close in on the limit: their gap is of order 1/m'.
    m, counts = 100_000, np.array([100_000, 30_000, 1000])
    lower, upper = relative_variance_bounds(ideal_weights(m, 0.9), counts)
    limit = limiting_relative_variance(counts / m)
    assert np.all(np.abs(lower - limit) < 3 / counts**0.75)
    assert np.all(upper - lower < 5 / counts)


def test_ideal_weights_are_percentiles():
    w = ideal_weights(1001, 2.0) * np.sqrt(1001) / 2
    assert np.all(np.diff(w) < 0)
    assert w[500] == pytest.approx(0.6744897501960817, rel=1e-14)  # the upper quartile
    np.testing.assert_allclose(truncated_moments(w, 0)[:, 0], (np.arange(1001) + 0.5) / 1001, rtol=1e-12)


def test_scaling_law_has_three_regimes():
    nonzeros, l1_norm = scaling_law(np.array([0, 100, 316, 1e4, 1e5, 1e7]), 1e-5, 100_000)
    np.testing.assert_allclose(l1_norm, [316.2278, 316.2278, 316.2278, 10, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(nonzeros, l1_norm**2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: truncated_moments(38, 2), r"`zeta` must lie in \[0, 37\]; got 38"),
        (lambda: truncated_moments(1, 2.5), r"`order` must be an integer of at least 0.*; got 2.5"),
        (lambda: parametric_law(-1), r"`zeta` must lie in \[0, 37\]; got -1"),
        (lambda: limiting_relative_variance(0), r"`share` must lie in \[1e-290, 1\]; got 0"),
        (lambda: scaling_law(1, 0, 100), r"`lam` must lie in \(0, inf\); got 0"),
        (lambda: scaling_law(-1, 1, 100), r"`t` must lie in \[0, inf\); got -1"),
        (lambda: scaling_law(1, 1, 0), r"`m` must be an integer of at least 1; got 0"),
        (lambda: relative_variance([0.0]), r"`w` must have a weight that is not zero; got only zeros"),
        (lambda: relative_variance([np.nan]), r"`w` must be finite; got nan at index \(0,\)"),
        (lambda: relative_variance_bounds([1, 0], [2]), r"`nonzeros` must lie in \[1, 1\]; got 2"),
        (lambda: relative_variance_bounds([1, 2], [1.5]), r"`nonzeros` must be whole numbers; got 1.5"),
        (lambda: relative_variance_bounds([[1]], [1]), r"`w0` must have shape \(any\); got \(1, 1\)"),
        (lambda: ideal_weights(0, 1), r"`m` must be an integer of at least 1; got 0"),
        (lambda: ideal_weights(3, -1), r"`scale` must lie in \(0, inf\); got -1"),
    ],
)
def test_rejections(call, message):
    with pytest.raises(ValueError, match=message):
        call()
