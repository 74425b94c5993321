"""Theory beside experiment: what is drawn is the data; and drawings that share what they can."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr
from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas

from superposition.solvers import statistics
from superposition.validate.experiments import drawing
from superposition.validate.runner.declarations import Figure

X = np.array([0.5, 1.0, 2.0])
RUNS = np.random.default_rng(3).normal(1.0, 0.2, (20, 3))


@pytest.fixture
def ax():
    return Canvas().subplots()


def runs(dimension="run", transposed=False, **attributes):
    made = xr.DataArray(RUNS, {"lam": X}, [dimension, "lam"], "mean_loss", attributes)
    return made.transpose() if transposed else made


@pytest.mark.parametrize("dimension", ["run", "seed"])
@pytest.mark.parametrize("transposed", [False, True])
def test_lines_dots_and_means_are_the_data(ax, dimension, transposed):
    law = xr.DataArray(X**2, {"lam": X}, ["lam"], attrs={"label": "law"})
    found = drawing.plot_theory_vs_experiment([law, (X, X, 0.1 * X)], runs(dimension, transposed), ax)
    assert found is ax
    first, second, dots, means = ax.lines[:4]
    np.testing.assert_array_equal(first.get_xydata(), np.stack([X, X**2], axis=1))
    np.testing.assert_array_equal(second.get_ydata(), X)
    np.testing.assert_array_equal(dots.get_ydata(), RUNS[:16].ravel())
    np.testing.assert_array_equal(dots.get_xdata(), np.tile(X, 16))
    mean, half = statistics.student(RUNS, axis=0)
    np.testing.assert_array_equal(means.get_ydata(), mean)
    bars = ax.collections[-1].get_segments()
    np.testing.assert_allclose([bar[:, 1] for bar in bars], np.stack([mean - half, mean + half], axis=1))
    (band,) = [one for one in ax.collections if one is not ax.collections[-1]]
    assert band.get_paths()[0].get_extents().ymax == pytest.approx(1.1 * X.max())
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["law", "theory", f"16 of 20 {dimension}s", "mean of all, 95%"]


@pytest.mark.parametrize("style", [{}, drawing.STYLE], ids=["user's", "ours"])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_runs_have_the_colour_of_no_theory(style, count):
    with rc_context(style):
        ax = Canvas().subplots()
        drawing.plot_theory_vs_experiment([(X, k * X) for k in range(count)], runs(), ax)
        colours = {to_rgb(one) for one in drawing._coloured()}
    *curves, dots, means = (to_rgb(line.get_color()) for line in ax.lines[: count + 2])
    assert dots == means
    assert dots not in curves
    assert len(set(curves)) == min(count, len(colours))


def test_few_runs_have_a_dot_each(ax):
    drawing.plot_theory_vs_experiment((X, X), runs().isel(run=slice(5)), ax)
    assert len(ax.lines[1].get_ydata()) == 15
    assert ax.get_legend().get_texts()[1].get_text() == "5 runs"


def test_axes_are_labelled_from_names_or_attributes(ax):
    drawing.plot_theory_vs_experiment((X, X), runs(), ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lam", "mean loss")
    drawing.plot_theory_vs_experiment((X, X), runs(long_name="loss per feature", units="zero model's"), ax)
    assert ax.get_ylabel() == "loss per feature (zero model's)"


@pytest.mark.parametrize(
    ("theory", "experiment", "error", "message"),
    [
        ((X, X), RUNS, TypeError, "`experiment` must be a DataArray; got array"),
        (
            (X, X),
            runs().rename(run="model"),
            ValueError,
            r"`experiment` must be over x and .*; got {'model': 20",
        ),
        ((X, X), runs().isel(run=[0]), ValueError, r"`experiment` must be over x and two .*; got {'run': 1"),
        ((X, X), runs().isel(lam=0), ValueError, r"`experiment` must be over x and two .*; got {'run': 20}"),
        (
            (X, X[:2]),
            runs(),
            ValueError,
            r"`theory` must be over one dimension; got shapes \(3,\) and \(2,\)",
        ),
        (runs(), runs(), ValueError, "`theory` must be over one dimension; got shapes"),
        ((X, X, X, X), runs(), ValueError, "`theory` must be over one dimension; got shapes"),
    ],
)
def test_rejections(ax, theory, experiment, error, message):
    with pytest.raises(error, match=message):
        drawing.plot_theory_vs_experiment(theory, experiment, ax)


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


def test_limits_a_rounding_error_inside_are_no_negative_bars(ax):
    whole = statistics.Estimate(1.0, 0.5, 1.0 - 3e-16, 0.95, 3)
    drawing.draw_estimates(ax, [0.0], [whole])
    (segment,) = ax.containers[0].lines[2][0].get_segments()
    np.testing.assert_array_equal(segment[:, 1], [0.5, 1.0])


def test_finished_sets_and_has_a_legend_where_one_is_asked_for(ax):
    ax.plot(X, X, label="law")
    assert drawing.finish_axes(ax, None, xlabel="lam") is ax
    assert (ax.get_xlabel(), ax.get_legend()) == ("lam", None)
    drawing.finish_axes(ax, {"ncols": 1, "loc": "upper left"}, yscale="log")
    assert (ax.get_yscale(), [text.get_text() for text in ax.get_legend().get_texts()]) == ("log", ["law"])


def test_axes_must_be_axes():
    with pytest.raises(TypeError, match="`ax` must be an Axes; got "):
        drawing.plot_theory_vs_experiment((X, X), runs(), 1)


def test_markers_share_their_style():
    def draw(ds, ax):
        return drawing.plot_theory_vs_experiment((X, X), ds["mean_loss"], ax)

    text = drawing.svg(Figure("x", "A title", "", xr.Dataset({"mean_loss": runs()}), draw))
    root = ElementTree.fromstring(text)
    groups = [g for g in root.iter("{http://www.w3.org/2000/svg}g") if len(g) == 16 * len(X)]
    assert len(groups) == 1
    assert "fill-opacity: 0.35" in groups[0].get("style")
    assert not any(use.get("style") for use in groups[0])
    assert not re.search(r'(<use [^>]* style="[^"]*"/>)\1', text)
