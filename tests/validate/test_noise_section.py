"""The report's section on hidden noise, at tiny sizes."""

import sys

import pytest
import xarray as xr

from superposition.validate import files, noise, report
from superposition.validate.noise import section

TINY = {
    "fig4": {
        "noise_std": (0.2,),
        "steps": 100,
        "runs": 2,
        "n_features": 3,
        "n_hidden": 3,
        "averaged_time": 1.0,
    },
    "fig5": {
        "n_features": 3,
        "n_hidden": 3,
        "steps": 50,
        "runs": 2,
        "lam": (0.1, 1.0),
        "noise_std": (0.1, 0.2),
    },
    "drop": {"n_features": 3, "n_hidden": 3, "noise_std": (0.2,), "time": 1.0, "runs": 2},
    "fig6": {"n_features": 3, "n_hidden": 3, "steps": 50, "runs": 2, "settle": 1.0, "points": 5},
    "stuck": {"n_features": (3,), "n_hidden": 3, "time": 5.0, "runs": 2, "settle": 1.0},
    "mechanism": {"n_features": 2, "n_hidden": 3, "time": 1.0, "runs": 3, "lone_runs": 3, "averaged_runs": 2},
    "agreement": {"n_features": 2, "n_hidden": 3, "steps": 10, "runs": 3},
}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(section.SIZES, "quick", TINY)


def check(made, folder):
    assert made.name == "noise"
    assert len({figure.name for figure in made.figures}) == len(made.figures)
    for figure in made.figures:
        assert report.svg(figure).startswith("<svg")
        files.write_dataset(folder / "x.nc", figure.dataset)
        xr.testing.assert_identical(files.read_dataset(folder / "x.nc"), figure.dataset)
    for table in made.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_all_parts_are_there(tiny, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    said = []
    made = noise.report_section("quick", 3, said.append)
    check(made, tmp_path)
    assert len(said) == 5
    assert [table.title for table in made.tables][-1] == "The same by PyTorch"
    assert noise.report_section("quick", 3, said.append).text == made.text  # the seed decides all


def test_without_torch_the_section_says_so(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    made = noise.report_section("quick", 3, lambda line: None)
    check(made, tmp_path)
    assert "PyTorch is not installed" in made.text
    with pytest.raises(ImportError, match="PyTorch"):
        noise.train_noise([[1.0]], "normal", 0.1, steps=1)


def test_both_profiles_have_all_sizes():
    assert set(section.SIZES["quick"]) == set(section.SIZES["full"]) == set(TINY)
