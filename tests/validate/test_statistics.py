"""Estimates and their limits, each against SciPy's own test or a simulation of its promise."""

import numpy as np
import pytest
from scipy import stats

from superposition.solvers import statistics
from superposition.solvers.statistics import Estimate, Family


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def test_student_is_scipys_interval(rng):
    values = rng.normal(2.0, 3.0, (5, 7))
    mean, half = statistics.student(values, 0.9, axis=0)
    for k in range(7):
        interval = stats.ttest_1samp(values[:, k], 0.0).confidence_interval(0.9)
        np.testing.assert_allclose([mean[k] - half[k], mean[k] + half[k]], interval, rtol=1e-12)
    found = statistics.mean(values[:, 0], 0.9)
    assert (found.low, found.high) == pytest.approx((mean[0] - half[0], mean[0] + half[0]), rel=1e-13, abs=0)
    assert (found.runs, found.level, found.alarm) == (5, 0.9, None)


def test_a_share_has_the_limits_where_the_binomial_tails_are():
    for hits in (0, 3, 12):
        found = statistics.share(hits, 12, 0.9)
        low, high = (found.low, 0.0), (found.high, 1.0)
        if hits > 0:
            low = stats.binom.sf(hits - 1, 12, found.low), 0.05
        if hits < 12:
            high = stats.binom.cdf(hits, 12, found.high), 0.05
        assert (low[0], high[0]) == pytest.approx((low[1], high[1]))
    found = statistics.share(0, 0)
    assert np.isnan(found.value)
    assert (found.low, found.high, found.runs) == (0.0, 1.0, 0)


def test_a_power_is_the_slope_of_the_mean():
    x = np.array([1.0, 2.0, 4.0])
    assert statistics.growth_power(x)(3 * x**-0.5 * [[0.9], [1.1]]) == pytest.approx(-0.5)


def test_the_jackknife_of_a_mean_is_students(rng):
    values = rng.normal(size=9)
    found, known = statistics.jackknife(values, np.mean, 0.9), statistics.mean(values, 0.9)
    assert (found.value, found.low, found.high) == pytest.approx((known.value, known.low, known.high))


def test_the_jackknife_of_a_ratio_is_the_delta_methods(rng):
    """For many runs both are the same to first order in 1/n."""
    pairs = rng.normal((2.0, 5.0), 0.1, (2000, 2))
    found = statistics.jackknife(pairs, lambda chosen: chosen[:, 0].mean() / chosen[:, 1].mean())
    a, b = pairs.mean(axis=0)
    spread = np.std(pairs[:, 0] / b - pairs[:, 1] * a / b**2, ddof=1) / np.sqrt(2000)
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.isf(0.025, 1999) * spread, rel=1e-3)


def test_first_level():
    x = [0.0, 1.0, 2.0, 3.0]
    assert statistics.first_level(x, [0.0, 0.4, 0.8, 0.4], 0.6) == pytest.approx(1.5)
    assert statistics.first_level(x, [0.7, 0.4, 0.8, 0.4], 0.6) == 0.0
    assert np.isnan(statistics.first_level(x, [0.0, 0.1, 0.2, 0.1], 0.6))


def test_a_crossing_is_where_the_means_fall_through_zero(rng):
    x = np.linspace(0, 4, 9)
    samples = 1.3 - x + 0.01 * rng.normal(size=(30, 1))
    found = statistics.crossing(x, samples)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(samples[:, 0].mean(), abs=1e-12)
    assert found.high - found.value == pytest.approx(statistics.student(samples[:, 0])[1], rel=1e-9)
    assert np.isnan(statistics.crossing(x, -samples).value)
    twice = np.array([1.0, -1.0, 1.0, -1.0]) + 0.01 * rng.normal(size=(30, 1))
    assert statistics.crossing([0.0, 1.0, 2.0, 3.0], twice).value == pytest.approx(0.5, abs=0.01)  # the first


def test_each_limit_of_a_family_has_its_share_of_the_alarm_rate(rng):
    values = rng.normal(size=6)
    found = Family(alarm=0.05, limits=4).of(statistics.mean, values)
    assert found.high - values.mean() == pytest.approx(stats.t.isf(0.05 / 4, 5) * stats.sem(values))
    assert found.alarm == 0.05


def test_estimates_scale_and_print():
    found = Estimate(1.0, 0.4, 1.6, 0.95, 12, alarm=1e-3)
    assert found.divided_by(2.0) == Estimate(0.5, 0.2, 0.8, 0.95, 12, alarm=1e-3)
    assert f"{found}" == "1 [0.4, 1.6]"


def test_a_line_is_that_of_least_squares_for_each_column():
    rng = np.random.default_rng(8)
    x, values = rng.normal(size=7), rng.normal(size=(7, 2, 3))
    low, slope = statistics.line(x, values)
    expected = np.polyfit(x, values.reshape(7, -1), 1)
    np.testing.assert_allclose(slope.ravel(), expected[0], rtol=1e-11)
    np.testing.assert_allclose(low.ravel(), expected[1], rtol=1e-11)


def test_limits_of_so_many_errors_and_of_a_known_one(rng):
    values = rng.normal(size=7)
    found = statistics.mean_within(values, 2.5)
    assert found.high - values.mean() == pytest.approx(2.5 * stats.sem(values), rel=1e-9)
    known = statistics.from_standard_error(2.0, 0.1)
    assert (known.low, known.high) == pytest.approx((2.0 - 0.1959964, 2.0 + 0.1959964), abs=1e-7)


def test_more_often_is_the_chance_of_so_many_of_all_hits():
    """Of 9 hits in two times 10 runs so many, or more, fall to the first by chance."""
    for first in (2, 5, 8):
        by_chance = stats.hypergeom.sf(first - 1, 20, 9, 10)
        assert statistics.more_often(first, 9 - first, 10) == pytest.approx(by_chance, rel=1e-12)
