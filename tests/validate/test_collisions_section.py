"""The report's part on collisions: what it shows, what it says, and that the words follow the numbers."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as Canvas

from superposition.solvers.collisions.counts import ZERO
from superposition.theory.collisions import expected_polysemantic, separated_share
from superposition.validate.experiments import collisions
from superposition.validate.experiments.collisions import cooccurrence, course, remedy, trained

TINY = {
    "fig3": {"n_features": 8, "n_hidden": (8, 16), "runs": 4, "lam": 0.02},
    "course": {"n_features": 8, "n_hidden": 8, "runs": 4, "lam": 0.02},
    "trained": {"n_features": 8, "n_hidden": (8,), "lam": 0.2, "adamw_steps": 300, "seeds": range(4)},
    "cooccurrence": {"n_features": 6, "n_hidden": 6, "lam": (0.3,), "p": (0.0, 0.1), "seeds": range(6)},
    "remedy": {"n_features": 8, "n_hidden": 8, "lam": (0.2,), "eps": (1e-2, 1e-1), "seeds": range(8)},
    "variants": {"n_features": 8, "n_hidden": 8, "lam": 0.2, "seeds": range(8), "times": (8.0,)},
    "untied": {"n_features": 6, "n_hidden": 12, "lam": 0.2, "times": (1.0, 6.0), "seeds": range(4)},
}


@pytest.mark.slow
def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    lab, shown = sections.show("collisions", TINY, tmp_path)
    tables = [table for made in shown.values() for table in made.tables]
    assert "by m" in shown["constant"].text.lower()
    for made in shown.values():
        assert "nan" not in made.text
        for words in ("p-value", "reject", "excludes", "significant"):
            assert words not in made.text
    assert {table.rows[0][0] for table in tables if table.title == "Polysemantic neurons"} == {
        "trained as printed"
    }
    # The seeds of the lab are those of the models.
    assert lab["collisions.trained"]["seed"].values.tolist() == [0, 1, 2, 3]
    for id, row in sections.judge(lab, ["L18", "L19", "L20", "L37"]).items():
        assert row.evidence.findings, id


def test_ratio_figure_shows_the_data():
    ds = collisions.run_fig3(8, (8, 16), runs=4, lam=0.02)
    ax = Canvas().subplots()
    assert collisions.plot_ratio(ds, ax) is ax
    drawn = ax.containers[0].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, (ds["polysemantic"].mean("run") / ds["quoted"]).values)
    fine = ax.lines[1].get_xdata()
    np.testing.assert_allclose(ax.lines[1].get_ydata(), expected_polysemantic(8, fine) * fine / 16)
    with pytest.raises(TypeError, match="`ax` must be an Axes; got "):
        collisions.plot_ratio(ds, "ax")


def test_runs_that_are_missing_are_left_out_of_a_figure():
    ds = collisions.run_fig3(8, (8, 16, 32), runs=4, lam=0.02)
    some = ds["polysemantic"].where((ds["n_hidden"] < 32) & ((ds["run"] < 3) | (ds["n_hidden"] == 8)))
    both = ds.assign(
        polysemantic=xr.concat([ds["polysemantic"], some], "optimiser").assign_coords(
            optimiser=["flow", "adamw"]
        )
    )
    ax = collisions.plot_ratio(both, Canvas().subplots())
    drawn = ax.containers[1].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, (some.mean("run") / ds["quoted"]).values[:2])
    assert [text for text in ax.get_legend_handles_labels()[1] if "AdamW" in text] == ["AdamW, 3 to 4 runs"]


def test_course_names_the_time_after_which_no_count_changes():
    ds = collisions.run_course(8, 8, runs=3, lam=0.02, times=(0.0, 0.5, 1.0, 2.0))
    ds["count"].values[:] = [[2, 1, 1], [1, 1, 1], [2, 1, 1], [2, 1, 1]]
    ds["held"].values[:, :] = np.array([0.5, 0.25, 0.125, 0.0])[:, None]
    said = course._show_course(ds).text
    assert "λt = 1 is the first" in said
    assert "12.5% of the pairs of features (50% at first)" in said


@pytest.fixture(scope="module")
def split():
    """Return what `run_remedy` would give if splits decided exactly as predicted."""
    eps, pairs = [1e-3, 1e-2], 10_000
    times = np.arange(0.25, 12, 0.25)
    shares = np.array([np.sum(separated_share(times, 1.0, e, left=ZERO), axis=0) for e in eps])
    apart = np.round(pairs * shares / 2).astype(int)[None]
    axes, zero = ("lam", "eps", "time"), np.zeros_like(apart)
    counts = {"apart": apart, "together": apart, "undecided": pairs - 2 * apart, "lost": zero}
    return xr.Dataset(
        {"pairs": ("lam", [pairs]), **{name: (axes, value) for name, value in counts.items()}},
        {"lam": [1e-4], "eps": eps, "time": times},
        {"correlation": 0.0},
    )


def test_median_times(split):
    for k in (0, 1):
        found, predicted = remedy.median_time(split, 0, k)
        assert found.low < found.value < found.high
        assert found.value == pytest.approx(predicted, abs=0.02)  # linear between times 0.25 apart
        share = np.sum(separated_share(predicted, 1.0, float(split["eps"][k]), left=ZERO))
        assert share == pytest.approx(0.5, abs=1e-4)
    never, _ = remedy.median_time(split.isel(time=slice(0, 4)), 0, 0)
    assert np.isnan([never.value, never.low, never.high]).all()


@pytest.mark.parametrize(
    ("counts_left", "expected"), [([4, 3, 1, 0], 1.5), ([4, 4, 4, 3], np.nan), ([4, 2, 0, 0], 1.0)]
)
def test_half_points(counts_left, expected):
    ds = xr.Dataset(
        {
            "count": (("lam", "p", "run"), np.repeat(counts_left, 5).reshape(1, 4, 5)),
            "before": (("lam", "run"), np.full((1, 5), 4.0)),
        },
        {"p": [0.0, 0.1, 0.2, 0.3], "lam_normal": ("lam", [0.1])},
    )
    found = cooccurrence.half_point(ds, "count", 0)
    # All runs are alike, so that leaving one out changes nothing.
    np.testing.assert_allclose([found.value, found.low, found.high], expected, rtol=1e-12)


def test_the_flow_is_a_route_of_training():
    pytest.importorskip("torch", reason="training needs PyTorch")
    ds = collisions.run_trained(8, [8], 0.1, range(6), optimisers=["flow", "gd"], device="cpu")
    flow, gd = (ds["polysemantic"].sel(optimiser=name).values for name in ("flow", "gd"))
    # Gradient descent takes steps of 0.2 in the flow's clock; which of two near weights wins may differ.
    assert np.sum(flow == gd) >= 5
    assert (ds["dead"] == 0).all()
    assert f"in {np.sum(flow == gd)} of 6 runs" in trained._show_optimisers(ds).text
