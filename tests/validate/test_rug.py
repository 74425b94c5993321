"""The rug's experiments: what they compute, at tiny sizes."""

import numpy as np
import pytest

from superposition.validate.experiments import rug
from superposition.validate.experiments.rug.check import compare_with_samples
from superposition.validate.experiments.rug.models import format_mean, nearest_ratio

P, RATIO = (0.05, 0.4), (0.25, 0.5)


@pytest.fixture(scope="module")
def trained(torch):
    """Four models of 8 features, briefly trained; weights kept."""
    return rug.run_trained(8, P, RATIO, (1,), steps=100, evaluation_samples=2**14, keep_weights=True)


def test_profile_touches_its_minimum():
    ds = rug.run_bias(0.05, RATIO, np.linspace(-4, 4, 2001))
    # The grid of shifts is 0.004 wide; the profile is quadratic at its minimum.
    np.testing.assert_allclose(ds["profile"].min("shift"), ds["best"], rtol=1e-4)
    np.testing.assert_allclose(ds["profile"].idxmin("shift"), ds["best_shift"], atol=0.004)


def test_finite_rug_simulation_agrees_with_the_exact_loss():
    """Four simulations; at 4.5 standard errors a false alarm has chance 3e-5."""
    ds = rug.run_finite_size(0.1, 0.25, (32, 256), draws=2, samples=3000, seed=1)
    gap = np.abs(ds["simulated"] - ds["exact"]) / ds["simulated_se"]
    assert float(gap.max()) < 4.5
    # Half an interval of 95 % of 3000 samples is 1.96 standard errors.
    np.testing.assert_allclose(ds["simulated_half"] / ds["simulated_se"], 1.96, rtol=1e-3)
    # Canary: the macroscopic loss itself must be rejected at this small size.
    off = np.abs(ds["simulated"] - ds["macroscopic"]) / ds["simulated_se"]
    assert float(off.sel(n_features=32).max()) > 4.5
    assert float(ds["error_estimate"].max()) < 1e-8 * float(ds["macroscopic"].max())


def test_exact_loss_minus_the_edgeworth_correction_vanishes_faster():
    """With the correction what is left falls at least like n^-1.4, without it like n^-1 (means)."""
    ds = rug.run_finite_size(0.4, 0.5, (256, 4096), draws=6, samples=2, seed=0).mean("draw")
    plain = np.abs(ds["exact"] - ds["macroscopic"]).values
    rest = np.abs(ds["exact"] - ds["predicted"]).values
    assert np.all(rest < 0.5 * plain)
    assert rest[1] / rest[0] < 16**-1.4


@pytest.mark.slow
def test_exact_loss_of_trained_weights_agrees_with_fresh_samples(trained):
    """Four models at two ends; at 4.5 standard errors a false alarm has chance 6e-5."""
    ds = compare_with_samples(trained)
    assert float(np.abs(ds["z"]).max()) < 4.5
    np.testing.assert_allclose(ds["z"] * ds["sampled_se"], ds["sampled"] - ds["exact"], rtol=1e-9)
    # Canary: with the features' probability a fifth larger the theory must be rejected.
    wrong = compare_with_samples(trained.assign(p=trained["p"] * 1.2))
    assert float(np.abs(wrong["z"]).max()) > 4.5


def test_the_section_shows_all_of_its_topics(torch, sections, tmp_path):
    models = {"n_features": 8, "p": (0.05, 0.4), "ratio": (0.25, 0.5), "seeds": range(2), "steps": 100}
    finite = {"n_features": (16, 64), "samples": 50}
    tiny = {
        "trained": models, "linear_init": models | {"p": (0.05,), "ratio": (0.25,)},
        "finite_sparse": finite, "finite_dense": finite,
        "checked": {"n_features": 8, "p": (0.1,), "ratio": (0.25,), "steps": 100, "samples": 10**4},
    }  # fmt: skip
    _, shown = sections.show("rug", tiny, tmp_path)
    (table,) = shown["first weights"].tables
    assert {tuple(row[:2]) for row in table.rows} == {(0.05, 0.25)}  # where both kinds have models


def test_models_stand_beside_the_rug_at_their_own_p_and_ratio(trained):
    optimum = rug.run_theory(P, RATIO)["loss"].sel(p=trained["p"], ratio=trained["ratio"]).values
    np.testing.assert_allclose((1 + trained["excess"]) * optimum, trained["loss"], rtol=1e-9)
    np.testing.assert_allclose(trained["excess_se"] * optimum, trained["loss_se"], rtol=1e-9)
    nearest = [0.12, 0.12, np.nan, 0.25, 0.5]
    np.testing.assert_array_equal(nearest_ratio([0.115, 0.125, 0.2, 0.26, 0.48]), nearest)


def test_means_have_students_intervals():
    assert format_mean([0.01, 0.02, 0.03]) == "+2.0% ± 2.5%"
    assert format_mean([0.02]) == "+2.0%"
