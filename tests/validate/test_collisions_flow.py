"""Collisions of the flow: counts of small runs, the course of a count."""

import numpy as np
import pytest
from scipy import stats

from superposition.solvers.collisions import assign, displaced_polysemantic
from superposition.solvers.collisions.displaced import first_weights
from superposition.theory import collisions as theory
from superposition.validate.experiments.collisions import run_course, run_fig3


@pytest.fixture(scope="module")
def ds():
    return run_fig3(16, (16, 32, 64), runs=40, lam=0.01, seed=3)


def test_counts_and_intervals(ds):
    assert np.all(ds["dead"] == 0)
    assert np.all(ds["polysemantic"] <= 8)  # two features each
    assert np.all(ds["stayed_pairs"] <= ds["polysemantic"])
    # A feature on no neuron is nobody's: shares of ranks add up to those that ended among the ranks counted.
    np.testing.assert_array_equal(ds["won"].sel(rank=1), ds["stayed"])
    assert (ds["won"].sum("rank") <= 1 + 1e-12).all()
    assert ds["won"].sel(n_hidden=64, rank=2).sum() > 0


def test_same_seed_same_counts_whatever_else_is_run(ds):
    again = run_fig3(16, (32,), runs=3, lam=0.01, seed=3, workers=2)
    np.testing.assert_array_equal(again["polysemantic"][0], ds["polysemantic"].sel(n_hidden=32)[:3])
    other = run_fig3(16, (32,), runs=3, lam=0.01, seed=4)
    assert not np.array_equal(other["stayed"], again["stayed"])


def test_features_exclude_each_other(ds):
    """At n = m independent choices give 0.155 m neurons, exclusive places 0.25 m: the flow is near these."""
    counts = ds["polysemantic"].sel(n_hidden=16).values
    half = stats.t.ppf(1 - 0.001, counts.size - 1) * counts.std(ddof=1) / np.sqrt(counts.size)
    assert half < 0.5  # it could tell the two, which are 1.4 apart
    assert counts.mean() - half > theory.expected_polysemantic(16, 16, exclusive=False)
    assert counts.mean() + half < theory.expected_polysemantic(16, 16) + 0.5


def test_fitted_preference_gives_the_mean(ds):
    for m in ds["n_hidden"].values:
        at_m = ds.sel(n_hidden=m)
        assert 0.2 < at_m["preference"] < 1.5
        settings = {"stayed": float(at_m["stayed"].mean()), "preference": float(at_m["preference"])}
        count = displaced_polysemantic(16, int(m), **settings)
        assert count == pytest.approx(float(at_m["polysemantic"].mean()), rel=1e-6)


def test_a_course_begins_with_the_first_weights_and_ends_with_the_flow():
    n, m, runs, lam = 12, 12, 6, 0.02
    ds = run_course(n, m, runs, lam, seed=5)
    first, last = ds["count"].values[[0, -1]]
    np.testing.assert_array_equal(first, assign(first_weights(n, m, runs, 0.9, 5)).polysemantic)
    np.testing.assert_array_equal(last, run_fig3(n, [m], runs, lam, seed=5)["polysemantic"].values[0])
    assert float(ds["held"][0].mean()) == pytest.approx(0.5, abs=0.1)  # signs of independent overlaps
    assert float(ds["held"][-1].mean()) < 0.01
    assert float(ds["nonzeros"][0].min()) == m
