"""Theory beside experiment: what is drawn is the data; and drawings that share what they can."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as Canvas

from superposition.solvers import statistics
from superposition.validate.experiments import drawing

X = np.array([0.5, 1.0, 2.0])
RUNS = np.random.default_rng(3).normal(1.0, 0.2, (20, 3))


@pytest.fixture
def ax():
    return Canvas().subplots()


RUNS_BY_LAM = xr.DataArray(RUNS, {"lam": X}, ["run", "lam"])


def line(slope, **attributes):
    return xr.DataArray(slope * X, {"lam": X}, ["lam"], attrs=attributes)


@pytest.mark.parametrize("dims", [(), ("lam", ...)], ids=["runs first", "runs last"])
def test_lines_dots_and_means_are_the_data(ax, dims):
    runs = RUNS_BY_LAM.transpose(*dims).rename(run="seed")
    assert drawing.plot_theory_vs_experiment([line(2, label="law"), line(1)], runs, ax) is ax
    first, second, dots, means = ax.lines[:4]
    np.testing.assert_array_equal(first.get_xydata(), np.stack([X, 2 * X], axis=1))
    np.testing.assert_array_equal(second.get_ydata(), X)
    np.testing.assert_array_equal(dots.get_xydata(), np.stack([np.tile(X, 16), RUNS[:16].ravel()], axis=1))
    mean, half = statistics.student(RUNS, axis=0)
    np.testing.assert_array_equal(means.get_ydata(), mean)
    bars = ax.collections[-1].get_segments()
    np.testing.assert_allclose([bar[:, 1] for bar in bars], np.stack([mean - half, mean + half], axis=1))


def test_means_leave_out_what_is_missing(ax):
    samples = np.array([[1.0, 2.0, np.nan], [np.nan, np.nan, 5.0], [3.0, 4.0, 5.0]])
    drawing.draw_means(ax, X, samples, color="C1")
    (bars,) = ax.containers
    np.testing.assert_array_equal(bars.lines[0].get_xydata(), [[0.5, 1.5], [2.0, 4.0]])
    ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
    half = [statistics.mean([1.0, 2.0]).high - 1.5, statistics.mean([3.0, 4.0, 5.0]).high - 4.0]
    np.testing.assert_allclose(np.diff(ends, axis=1)[:, 0], 2 * np.array(half))
    drawing.draw_means(ax, X, np.full((3, 2), np.nan))
    assert len(ax.containers) == 1
