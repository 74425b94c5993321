"""The limit law against exact solutions within standard errors."""

import numpy as np
import pytest
from scipy import stats

from superposition.solvers.sparsification import limit_law
from superposition.theory.sparsification import truncated_moments
from superposition.validate.experiments import sparsification
from superposition.validate.experiments.sparsification.fig7 import ideal_weights

M, LAM, SCALE = 10_000, 1e-4, 0.9
# From all weights to one: lam t from 1e-4 to 5.
TIMES = np.array([1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0]) / LAM
RUNS = 200
ALPHA = 1e-3  # chance of a false alarm of a whole comparison


@pytest.fixture(scope="module")
def fig2():
    return sparsification.run_fig2(M, LAM, SCALE, TIMES, RUNS, seed=1)


def test_ideal_weights_are_percentiles():
    w = ideal_weights(1001, 2.0) * np.sqrt(1001) / 2
    assert np.all(np.diff(w) < 0)
    assert w[500] == pytest.approx(0.6744897501960817, rel=1e-14, abs=0)  # the upper quartile
    np.testing.assert_allclose(truncated_moments(w, 0)[:, 0], (np.arange(1001) + 0.5) / 1001, rtol=1e-12)


def worst_z(ds, name, law):
    """Largest distance of the mean of runs from `law` in standard errors, where runs differ at all."""
    values = ds[name].values
    error = values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])
    some = np.any(values != values[0], axis=0)
    return np.max(np.abs(values.mean(axis=0) - law)[some] / error[some])


@pytest.mark.parametrize("name", ["nonzeros", "l1_norm", "relative_variance"])
@pytest.mark.slow
def test_limit_law_is_the_mean_of_exact_runs(fig2, name):
    limit = stats.t.ppf(1 - ALPHA / (2 * TIMES.size), RUNS - 1)
    law = fig2[f"law_{name}"].values
    # The law's own error is of relative order 1/m, that of its quadrature rule 1e-3: both are far below a
    # standard error here, which is 1 % of the number where a hundred are left and 3 % where three are.
    assert worst_z(fig2, name, law) < limit
    # Canaries: a law with lam off by a tenth is seen, and so are the source's curves.
    wrong = limit_law(TIMES, 1.1 * LAM, M, SCALE)
    assert worst_z(fig2, name, getattr(wrong, name)) > limit
    if name != "relative_variance":
        drawn = {"l1_norm": 1 / (0.01 + LAM * TIMES), "nonzeros": 1 / (0.01 + LAM * TIMES) ** 2}[name]
        np.testing.assert_allclose(fig2[f"source_{name}"], drawn, rtol=1e-12)  # of m equal weights at first
        assert worst_z(fig2, name, fig2[f"source_{name}"].values) > 5 * limit


@pytest.mark.parametrize("name", ["nonzeros", "l1_norm"])
def test_spread_of_runs_is_the_predicted_one(fig2, name):
    # Stated to be good to 10 %; sample standard deviations of 200 runs scatter by 5 % themselves, and by more
    # at the end, where few runs have more than one weight: there the kurtosis enters.
    some = slice(0, 7)
    values = fig2[name].values[:, some].astype(float)
    measured = values.std(axis=0, ddof=1)
    kurtosis = stats.kurtosis(values, axis=0) + 3
    error = np.sqrt((kurtosis - 1) / (4 * RUNS))  # of the standard deviation, relative
    z = stats.norm.ppf(1 - ALPHA / (2 * measured.size))
    ratio = fig2[f"law_{name}_std"].values[some] / measured
    assert np.all(np.abs(ratio - 1) < 0.1 + z * error)
    assert np.all(0.1 + z * error < 0.4)  # what the test would notice


def test_runs_do_not_depend_on_each_other():
    two = sparsification.run_fig2(100, 1e-2, runs=2, seed=5)
    three = sparsification.run_fig2(100, 1e-2, runs=3, seed=5)
    np.testing.assert_array_equal(two["l1_norm"], three["l1_norm"][:2])
    assert not np.array_equal(two["l1_norm"][0], two["l1_norm"][1])


def test_fig7_lies_between_its_bounds():
    ds = sparsification.run_fig7(M, LAM, SCALE, seed=2)
    slack = 1e-9  # both are differences of sums of up to 1e4 terms, beside values of order 1
    assert np.all(ds["relative_variance"] >= ds["lower"] - slack)
    assert np.all(ds["relative_variance"] <= ds["upper"] + slack)
    early = ds["nonzeros"] > 1000
    # Of m' survivors the relative variance scatters like 1/sqrt(m') around the limit; 6 covers the kurtosis.
    gap = np.abs(ds["relative_variance"] - ds["limit"]) * np.sqrt(ds["nonzeros"])
    assert float(gap.where(early).max()) < 6


@pytest.mark.slow
def test_four_routes_agree():
    pytest.importorskip("torch", reason="training needs PyTorch")
    m, lam, rate = 200, 5e-3, 0.2
    times = np.array([2.0, 20.0, 100.0, 400.0])
    ds = sparsification.run_agreement(m, lam, 0.9, times, runs=3, seed=3, learning_rate=rate)
    # The flow's rtol is 1e-6, times about 10.
    np.testing.assert_allclose(ds["flow_l1_norm"], ds["l1_norm"], rtol=1e-4)
    np.testing.assert_array_equal(ds["flow_nonzeros"], ds["nonzeros"])
    # Euler steps of 0.2 are of first order: the l1 norm falls at the rate lam |W|_1 < 7 % a unit of time.
    np.testing.assert_allclose(ds["trained_l1_norm"], ds["l1_norm"], rtol=0.2 * 0.07)
    # Weights below twice a step of the force count as zero: 5 of 200 on average at first, 14 at 1e-3.
    np.testing.assert_allclose(ds["trained_nonzeros"], ds["nonzeros"], atol=14)
    np.testing.assert_allclose(ds["trained_nonzeros"][:, 2:], ds["nonzeros"][:, 2:], atol=1)
    # AdamW leaves the flow: it moves all weights alike.
    adam = sparsification.run_agreement(
        m, lam, 0.9, [1.0, 3.0], runs=2, seed=3, learning_rate=1e-3, optimizer="adamw"
    )
    assert np.any(np.abs(adam["trained_l1_norm"] / adam["l1_norm"] - 1) > 0.1)


def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    tiny = {
        "fig2": {"m": 200, "lam": 1e-2, "runs": 8},
        "fig7": {"m": 200, "lam": 1e-2},
        "agreement": {"m": 100, "lam": 2e-2, "times": [1.0, 20.0], "runs": 2},
    }
    sections.show("sparsification", tiny, tmp_path)
