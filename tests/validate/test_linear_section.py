"""The report's part on linear autoencoders: what it shows, and that the words follow the numbers."""

import inspect
import sys

import pytest
import xarray as xr

from superposition.validate import files, linear, report
from superposition.validate.linear import section, tables

TINY = {
    "plateaus": {"eigenvalues": (4.0, 1.0, 0.2), "n_hidden": 1, "runs": 2, "points": 40, "rate": 0.01},
    "flows": {"runs": 2, "end": 4.0, "points": 6, "rate": 0.02},
    "saddles": {"eigenvalues": (3.0, 1.0), "n_hidden": 1, "runs": 1, "step": 0.1},
    "degenerate": {"runs": 1, "step": 0.2},
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
FLOWS = ["plateaus", "flows"]


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(section.SIZES, "quick", TINY)


def check(made, folder):
    """Check that everything can be drawn, written and printed."""
    for figure in made.figures:
        assert report.svg(figure).startswith("<svg")
        files.write_dataset(folder / "x.nc", figure.dataset)
        xr.testing.assert_identical(files.read_dataset(folder / "x.nc"), figure.dataset)
    for table in made.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
    assert "nan" not in made.text + str([table.rows for table in made.tables])


def test_all_parts_are_there(tiny, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    said = []
    made = linear.report_section("quick", 3, said.append)
    assert made.name in report.PHENOMENA
    assert [figure.name for figure in made.figures] == [*FLOWS, "subspaces", "representation"]
    assert len(made.tables) == 4
    assert len(said) == 4
    check(made, tmp_path)
    for words in ("Trained models are late by", "not Eq. 22", "Which one is found?", "add up to at most"):
        assert words in made.text


def test_without_torch_the_section_says_so(tiny, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    made = linear.report_section("quick", 0, lambda line: None)
    assert [figure.name for figure in made.figures] == FLOWS
    assert "PyTorch is not installed" in made.text
    assert "Trained models are late" not in made.text
    check(made, tmp_path)


@pytest.mark.parametrize("profile", report.PROFILES)
def test_sizes_are_arguments_of_the_experiments(profile):
    assert set(section.SIZES[profile]) == set(TINY)
    for name, given in section.SIZES[profile].items():
        function = getattr(linear, f"run_{'saddles' if name == 'degenerate' else name}")
        inspect.signature(function).bind_partial(**given)


def test_the_words_follow_the_numbers():
    ds = linear.run_flows(runs=3, end=30.0, points=3, trained=False)
    said = section._flows_said(ds)[0]
    assert "tied loss 3 of 3" in said
    assert "Eq. 22 0 of 3" in said
    # With the angles of two rules exchanged, the counts are as well.
    swapped = ds.assign(angle=ds["angle"].assign_coords(rule=["encoder", "pair", "tied", "decoder"]))
    assert "Eq. 22 3 of 3" in section._flows_said(swapped.reindex(rule=ds["rule"]))[0]


def test_ranges_are_one_number_where_they_read_the_same():
    assert tables.span(xr.DataArray([1.0, 1.0004]), ".2f") == "1.00"
    assert tables.span(xr.DataArray([1.0, 2.0]), ".1f") == "1.0 to 2.0"
