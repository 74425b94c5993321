"""The report's part on linear autoencoders: what it shows, and that the words follow the numbers."""

import pytest
import xarray as xr

from superposition.validate.experiments import linear
from superposition.validate.experiments.linear import section
from superposition.validate.runner.declarations import span

TINY = {
    "plateaus": {"eigenvalues": (4.0, 1.0, 0.2), "n_hidden": 1, "runs": 2, "points": 40, "rate": 0.01},
    "flows": {"runs": 2, "end": 4.0, "points": 6, "rate": 0.02},
    "saddles": {"eigenvalues": (3.0, 1.0, 1.0), "n_hidden": 1, "runs": 1, "step": 0.1},
    "subspaces": {
        "n_features": 3,
        "n_hidden": 2,
        "samples": 50,
        "runs": 1,
        "end": 4.0,
        "step": 0.2,
        "points": 6,
    },
    "representation": {"n_features": 3, "n_hidden": 1, "p": (0.1, 0.5), "runs": 2, "steps": 200},
}


@pytest.fixture(scope="module", autouse=True)
def torch():
    return pytest.importorskip("torch", reason="training needs PyTorch")


@pytest.mark.slow
def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    _, shown = sections.show("linear", TINY, tmp_path)
    words = {
        "plateaus": "Trained models are late by",
        "flows": "is Oja's flow",
        "saddles": "times as fast as along",
        "subspaces": "the span that the first weights leave",
        "representation": "add up to at most",
    }
    for name, made in shown.items():
        assert words[name] in made.text
        assert "nan" not in made.text + str([table.rows for table in made.tables])
    assert [figure.name for made in shown.values() for figure in made.figures] == [
        "plateaus",
        "flows",
        "subspaces",
        "representation",
    ]
    rows = shown["plateaus"].tables[0].rows
    assert [row[:3] for row in rows[:2]] == [["tied", "expected", 0], ["tied", "samples", 0]]
    assert [len(table.rows) for table in shown["saddles"].tables] == [4]


def test_the_words_follow_the_numbers():
    ds = linear.run_flows(runs=3, end=30.0, points=3, rate=0.02)
    said = section._show_flows(ds).text
    assert "tied loss: 3" in said
    assert "alone, Eq. 22: 0" in said
    # With the angles of two rules exchanged, the counts are as well.
    swapped = ds.assign(angle=ds["angle"].assign_coords(rule=["encoder", "pair", "tied", "decoder"]))
    assert "Eq. 22: 3" in section._show_flows(swapped.reindex(rule=ds["rule"])).text


def test_ranges_are_one_number_where_they_read_the_same():
    assert span(xr.DataArray([1.0, 1.0004]), ".2f") == "1.00"
    assert span(xr.DataArray([1.0, 2.0]), ".1f") == "1.0 to 2.0"
