"""The report's part on collisions: what it shows, what it says, and that the words follow the numbers."""

import inspect
import sys

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as Canvas
from scipy import stats

from superposition.theory.collisions import expected_polysemantic, quoted_polysemantic, separated_share
from superposition.validate import collisions, files, report
from superposition.validate.collisions import ZERO, section, tables, training_tables

TINY = {
    "fig3": {"n_features": 8, "n_hidden": (8, 16), "runs": 4, "lam": 0.02},
    "course": {"n_features": 8, "n_hidden": 8, "runs": 4, "lam": 0.02},
    "trained": {"n_features": 8, "n_hidden": (8,), "lam": 0.2, "adamw_steps": 300, "seeds": range(4)},
    "cooccurrence": {"n_features": 6, "n_hidden": 6, "lam": (0.3,), "p": (0.0, 0.1), "seeds": range(6)},
    "remedy": {"n_features": 8, "n_hidden": 8, "lam": (0.2,), "eps": (1e-2, 1e-1), "seeds": range(8)},
    "variant": {"lam": (0.2,), "eps": (1e-2,)},
    "untied": {"n_features": 4, "n_hidden": 8, "lam": 0.2, "times": (0.5, 1.0), "seeds": range(3)},
}
OF_THE_FLOW = ["fig3-this-machine", "course"]


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setitem(section.SIZES, "quick", TINY)
    monkeypatch.setattr(section, "LONG_RUN", tmp_path / "collisions_fig3.nc")
    return tmp_path / "collisions_fig3.nc"


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


def counts(ratios, n=64, m=(64, 256)):
    """Return a dataset as of `run_fig3`, with given ratios of counts to n^2/(4m)."""
    quoted = quoted_polysemantic(n, np.array(m))
    values = np.asarray(ratios, dtype=float) * quoted[:, None]
    return xr.Dataset(
        {
            "polysemantic": (("n_hidden", "run"), values),
            "quoted": ("n_hidden", quoted),
            "exclusive": ("n_hidden", expected_polysemantic(n, np.array(m))),
        },
        {"n_hidden": list(m)},
        {"n_features": n, "lam": 0.003, "confidence": 0.95},
    )


# The section as a whole


def check(made, folder):
    """Check that everything can be drawn, written and printed."""
    assert len({figure.name for figure in made.figures}) == len(made.figures)
    for figure in made.figures:
        assert report.svg(figure).startswith("<svg")
        files.write_dataset(folder / "x.nc", figure.dataset)
        xr.testing.assert_identical(files.read_dataset(folder / "x.nc"), figure.dataset)
    for table in made.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
        assert "nan" not in str(table.rows)


def test_all_parts_are_there(tiny, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    said = []
    made = report.importlib.import_module("superposition.validate.collisions").report_section(
        "quick", 3, said.append
    )
    assert made.name == "collisions"
    assert made.name in report.PHENOMENA
    names = [figure.name for figure in made.figures]
    assert names == [*OF_THE_FLOW, "trained", "cooccurrence", "remedy", "untied"]
    check(made, tmp_path)
    assert len(said) == 5
    for words in ("Is the constant 1/4?", "adamw", "half as many", "one half is", "|D|/|E| is"):
        assert words in made.text.replace("AdamW", "adamw")
    assert "nan" not in made.text
    # The seeds of the report are those of the models.
    seeds = made.figures[names.index("trained")].dataset["seed"].values
    assert seeds.tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("profile", report.PROFILES)
def test_sizes_are_arguments_of_the_experiments(profile):
    for name, given in section.SIZES[profile].items():
        function = getattr(collisions, f"run_{'remedy' if name == 'variant' else name}")
        inspect.signature(function).bind_partial(**given)
    assert set(section.SIZES[profile]) == set(TINY)
    # The remedy's growth rate is read from the two smallest perturbations.
    assert np.all(np.diff(section.SIZES[profile]["remedy"]["eps"]) > 0)


def test_without_torch_the_section_says_so(tiny, no_torch, tmp_path):
    made = collisions.report_section("quick", 0, lambda line: None)
    assert [figure.name for figure in made.figures] == OF_THE_FLOW
    assert "PyTorch is not installed" in made.text
    assert "collisions_fig3.nc is missing" in made.text
    check(made, tmp_path)


def test_reference_runs_stand_beside_those_of_this_machine(tiny, no_torch, tmp_path):
    reference = collisions.run_fig3(8, (16,), runs=5, lam=0.02, seed=9)
    files.write_dataset(tiny, reference)
    made = collisions.report_section("quick", 0, lambda line: None)
    assert [figure.name for figure in made.figures] == [OF_THE_FLOW[0], "fig3-reference", OF_THE_FLOW[1]]
    xr.testing.assert_identical(made.figures[1].dataset, reference)
    assert [row[:4] for row in made.tables[0].rows] == [
        ["this machine", 8, 8, 4],
        ["this machine", 8, 16, 4],
        ["reference", 8, 16, 5],
    ]
    assert "The source's m = 256, 512, 1024, 2048, 4096 are not in it." in made.text
    check(made, tmp_path)
    # A file from before the winners were counted serves as well.
    files.write_dataset(tiny, reference.drop_dims("rank"))
    check(collisions.report_section("quick", 0, lambda line: None), tmp_path)


# Is the constant 1/4


def test_p_values_are_those_of_the_formulas():
    rng = np.random.default_rng(0)
    ds = counts(rng.normal(0.9, 0.2, (2, 12)))
    each, together, same = collisions.quoted_p_values(ds)
    ratios = ds["polysemantic"].values / ds["quoted"].values[:, None]
    t = (ratios.mean(axis=1) - 1) / (ratios.std(axis=1, ddof=1) / np.sqrt(12))
    np.testing.assert_allclose(each, 2 * stats.t.sf(np.abs(t), 11), rtol=1e-10)
    assert together == pytest.approx(stats.chi2.sf(-2 * np.log(each).sum(), 4), rel=1e-10)
    # Of two groups Welch's test asks the same; the two differ in small terms of the approximation only.
    assert same == pytest.approx(stats.ttest_ind(*ratios, equal_var=False).pvalue, rel=0.02)


def test_runs_that_all_agree_are_left_out_of_the_tests():
    each, together, same = collisions.quoted_p_values(counts([[1.0, 1.0], [0.8, 0.9]]))
    assert np.isnan(each[0])
    assert together == pytest.approx(each[1])
    assert np.isnan(same)
    each, together, same = collisions.quoted_p_values(counts([[1.0, 1.0], [2.0, 2.0]]))
    assert np.isnan([*each, together, same]).all()


def test_the_words_follow_the_numbers():
    noise = np.random.default_rng(1).normal(0, 0.05, (2, 16))
    noise -= noise.mean(axis=1, keepdims=True)
    held = section._constant("reference run", counts(1 + noise))
    assert "contains 1 at m = 64, 256." in held
    assert held.count("not rejected by these runs") == 2
    below = section._constant("this machine", counts(0.8 + noise))
    assert "lies below 1 at m = 64, 256." in below
    assert "1/4 is rejected" in below
    assert below.count("not rejected by these runs") == 1
    mixed = section._constant("this machine", counts(np.array([[0.8], [1.2]]) + noise))
    assert "lies below 1 at m = 64; lies above 1 at m = 256." in mixed
    assert "between 0.80 and 1.20 times" in mixed
    assert "not rejected" not in mixed
    assert "Tested" not in section._constant("this machine", counts(np.ones((2, 3))))


def test_count_table_shows_ratios_and_intervals():
    ds = counts([[0.7, 0.8, 0.9], [1.0, 1.0, 1.0]])
    half = stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    first, second = tables.count_table({"here": ds}).rows
    assert first[5] == f"0.80 ± {half:.2f}"
    assert second[5] == "1.00 ± 0.00"
    assert second[6] == "–"
    assert first[7] == f"{0.8 * 16 / (64 * 63 / 254):.2f} ± {half * 16 / (64 * 63 / 254):.2f}"


def test_winners_are_counted_by_rank():
    ds = collisions.run_fig3(8, (8, 32), runs=6, lam=0.02)
    np.testing.assert_array_equal(ds["won"].sel(rank=1), ds["stayed"])
    assert (ds["won"].sum("rank") <= 1 + 1e-12).all()
    assert ds["won"].sel(n_hidden=32, rank=2).sum() > 0


def test_ratio_figure_shows_the_data():
    ds = collisions.run_fig3(8, (8, 16), runs=4, lam=0.02)
    ax = Canvas().subplots()
    assert collisions.plot_ratio(ds, ax) is ax
    drawn = ax.containers[0].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, (ds["mean"] / ds["quoted"]).values)
    fine = ax.lines[1].get_xdata()
    np.testing.assert_allclose(ax.lines[1].get_ydata(), expected_polysemantic(8, fine) * fine / 16)
    with pytest.raises(TypeError, match="`ax` must be a matplotlib Axes; got str"):
        collisions.plot_ratio(ds, "ax")


def test_course_names_the_time_after_which_no_count_changes():
    ds = collisions.run_course(8, 8, runs=3, lam=0.02, times=(0.0, 0.5, 1.0, 2.0))
    ds["count"].values[:] = [[2, 1, 1], [1, 1, 1], [2, 1, 1], [2, 1, 1]]
    ds["held"].values[:, :] = np.array([0.5, 0.25, 0.125, 0.0])[:, None]
    said = section._when(ds)
    assert "λt = 1 is the first" in said
    assert "12.5% of the pairs of features (50% at first)" in said


# Training


@pytest.fixture(scope="module")
def split():
    """Return what `run_remedy` would give if splits decided exactly as predicted."""
    eps, pairs = [1e-3, 1e-2], 10_000
    times = np.arange(0.25, 12, 0.25)
    shares = np.array([np.sum(separated_share(times, 1.0, e, left=ZERO), axis=0) for e in eps])
    apart = np.round(pairs * shares / 2).astype(int)[None]
    axes = ("lam", "eps", "time")
    zero = np.zeros_like(apart)
    return xr.Dataset(
        {
            "pairs": ("lam", [pairs]),
            "apart": (axes, apart),
            "together": (axes, apart),
            "undecided": (axes, pairs - 2 * apart),
            "lost": (axes, zero),
        },
        {"lam": [1e-4], "eps": eps, "time": times},
        {"correlation": 0.0},
    )


def test_median_times_and_growth(split):
    for k in (0, 1):
        measured, low, high, predicted = training_tables.median_times(split, 0, k)
        assert low < measured < high
        assert measured == pytest.approx(predicted, abs=0.02)  # linear between times 0.25 apart
        share = np.sum(separated_share(predicted, 1.0, float(split["eps"][k]), left=ZERO))
        assert share == pytest.approx(0.5, abs=1e-4)
    # The delay by a factor of ten in the perturbation is ln(10)/sqrt(2), the rate that the text states.
    said = section._growth(split)
    assert "(1.41 predicted)" in said
    rate = float(said.split(": ")[1].split(" ±")[0])
    assert rate == pytest.approx(np.sqrt(2), abs=0.03)
    never = training_tables.median_times(split.isel(time=slice(0, 4)), 0, 0)
    assert np.isnan(never[:3]).all()
    assert section._growth(split.isel(time=slice(0, 4))) == ""


def test_nothing_to_split_is_said():
    empty = "There was no polysemantic neuron to split in these runs."
    assert section._parted(0, 0) == empty
    assert "one half is, at a false-alarm rate of 0.1% (p = 1), not rejected" in section._parted(10, 20)
    assert "rejected." in section._parted(2, 60)
    assert "not rejected" not in section._parted(2, 60)


@pytest.mark.parametrize(
    ("counts_left", "expected"),
    [([4, 3, 1, 0], 1.5), ([4, 4, 4, 3], np.nan), ([4, 2, 0, 0], 1.0), ([0, 0, 0, 0], 0.0)],
)
def test_half_points(counts_left, expected):
    runs = 5
    ds = xr.Dataset(
        {
            "count": (("lam", "p", "run"), np.repeat(counts_left, runs).reshape(1, 4, runs)),
            "before": (("lam", "run"), np.full((1, runs), 4.0)),
        },
        {"p": [0.0, 0.1, 0.2, 0.3], "lam_normal": ("lam", [0.1])},
    )
    found, low, high = training_tables.half_point(ds, "count", 0, np.random.default_rng(0))
    # All runs are alike, so that every resample is.
    np.testing.assert_allclose([found, low, high], expected, rtol=1e-12)


def test_the_flow_is_a_route_of_training():
    pytest.importorskip("torch", reason="training needs PyTorch")
    ds = collisions.run_trained(
        8, [8], 0.1, range(6), optimisers=["flow", "gd"], device="cpu"
    )  # fmt: skip
    flow, gd = (ds["polysemantic"].sel(optimiser=name).values for name in ("flow", "gd"))
    # Gradient descent takes steps of 0.2 in the flow's clock; which of two near weights wins may differ.
    assert np.sum(flow == gd) >= 5
    assert (ds["dead"] == 0).all()
    table = training_tables.trained_table(ds)
    assert [row[1] for row in table.rows] == ["flow", "gradient descent"]
    assert table.rows[0][5] == "6 of 6"


def test_outcome_figure_shows_the_shares(split):
    ax = Canvas().subplots()
    assert collisions.plot_outcomes(split, ax) is ax
    heights = [bar.get_height() for bar in ax.containers[0]]
    np.testing.assert_allclose(heights, split["apart"][0, :, -1] / 10_000)
    with pytest.raises(TypeError, match="`ax` must be a matplotlib Axes; got str"):
        collisions.plot_outcomes(split, "ax")
