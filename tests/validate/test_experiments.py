"""Experiments by name: the same numbers as the functions', with their provenance."""

import inspect
import json

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, collisions, experiments, files

SMALL = {"n_features": 8, "n_hidden": [8, 16], "runs": 2, "lam": 0.02}


def test_a_run_is_the_functions_with_provenance():
    ds = experiments.run("collisions.fig3", SMALL)
    xr.testing.assert_equal(ds, collisions.run_fig3(**SMALL))
    assert json.loads(ds.attrs["settings"]) == SMALL
    assert ds.attrs["experiment"] == "collisions.fig3"
    assert ds.attrs["wall_seconds"] > 0


def test_every_experiment_is_found_once_and_documented():
    found = experiments.experiments()
    assert {"rug.theory", "sparsification.fig2", "collisions.fig3", "collisions.remedy"} <= set(found)
    for function in found.values():
        assert inspect.getdoc(function)


def test_the_command_writes_and_lists(capsys, tmp_path):
    out = tmp_path / "new" / "fig3.nc"
    words = ["n_features=8", "n_hidden=[8,16]", "runs=2", "lam=0.02"]
    assert cli.main(["experiment", "collisions.fig3", *words, "--out", str(out)]) == 0
    written = files.read_dataset(out)
    np.testing.assert_array_equal(
        written["polysemantic"], collisions.run_fig3(**SMALL)["polysemantic"], strict=False
    )
    capsys.readouterr()
    assert cli.main(["experiment"]) == 0
    assert "collisions.fig3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("weather", {}, "`experiment` must be one of .*; got 'weather'"),
        ("collisions.fig3", {"colour": 1}, "`setting` must be one of .*; got 'colour'"),
        ("rug.trained", {}, r"`\w+` must be given, as \w+=VALUE; got nothing"),
        ("collisions.fig3", {"n_hidden": 8}, "`settings` must fit collisions.fig3; got .*8"),
    ],
)
def test_bad_input(name, given, message):
    with pytest.raises(ValueError, match=message):
        experiments.run(name, given)
