"""Counting polysemantic neurons of the flow: small runs, the intervals, the figure."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from superposition.solvers.collisions import displaced_polysemantic
from superposition.theory import collisions as theory
from superposition.validate.experiments.collisions import plot_fig3, run_fig3


@pytest.fixture(scope="module")
def ds():
    return run_fig3(16, (16, 32, 64), runs=40, lam=0.01, seed=3)


def test_counts_and_intervals(ds):
    counts = ds["polysemantic"].values
    assert counts.shape == (3, 40)
    assert np.all(ds["dead"] == 0)
    assert np.all(counts <= 8)  # two features each
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
        one = ds.sel(n_hidden=m)
        assert 0.2 < one["preference"] < 1.5
        fitted = displaced_polysemantic(
            16, int(m), stayed=float(one["stayed"].mean()), preference=float(one["preference"])
        )
        assert fitted == pytest.approx(float(one["polysemantic"].mean()), rel=1e-6)


def test_a_huge_preference_fills_every_neuron_in_use_first():
    # Of 8 features 3.2 stayed, in pairs or not; the others join until no single one is left.
    assert displaced_polysemantic(8, 16, stayed=0.4, preference=1e308) == pytest.approx(
        displaced_polysemantic(8, 16, stayed=0.4, preference=1e30), rel=1e-13
    )


@pytest.mark.parametrize(("n", "m"), [(32, 32), (40, 100), (60, 30)])
def test_displaced_without_preference_is_the_exclusive_count(n, m):
    for stayed in (0.0, 0.5, 1.0):
        got = displaced_polysemantic(n, m, stayed=stayed, preference=1.0)
        assert got == pytest.approx(theory.expected_polysemantic(n, m), rel=1e-12)
        lower = displaced_polysemantic(n, m, stayed=stayed, preference=0.5)
        assert lower <= got * (1 + 1e-12)
    # n - m at least, and with no liking for company no more than that when all move.
    assert displaced_polysemantic(n, m, stayed=0.0, preference=0.0) == pytest.approx(max(n - m, 0), abs=1e-9)


def test_figure_shows_the_data(ds):
    figure, ax = plt.subplots()
    assert plot_fig3(ds, ax) is ax
    quoted = ax.lines[0]
    np.testing.assert_allclose(quoted.get_ydata(), 16**2 / (4 * np.asarray(quoted.get_xdata())))
    np.testing.assert_array_equal(ax.containers[0].lines[0].get_ydata(), ds["polysemantic"].mean("run"))
    assert "40 runs" in ax.get_legend_handles_labels()[1][-1]
    plt.close(figure)
    with pytest.raises(TypeError, match="`ax` must be an Axes; got "):
        plot_fig3(ds, "ax")
