"""The width law: what is measured of weights, and the section of the report at small sizes."""

import numpy as np
import pytest
import xarray as xr

from superposition.solvers.unequal import allocate
from superposition.theory.codes import antipodal_loss
from superposition.theory.features import Features
from superposition.theory.unequal import power_law
from superposition.validate.experiments import unequal
from superposition.validate.experiments.unequal.descents import off_diagonal_weights
from superposition.validate.experiments.unequal.many_active import judge_often
from superposition.validate.experiments.unequal.models import measure_interference, normal_losses
from superposition.validate.experiments.unequal.width import judge_width

# Places at which the stored runs have models; the split is solved at a smaller size than theirs.
TINY = {
    "split": {"alpha": [1.0], "n_hidden": [3, 10], "n_features": 12},
    "split_many": {"alpha": [0.5], "n_hidden": [3], "n_features": 24},
    "split_often": {"alpha": [0.5], "n_hidden": [3], "n_features": 12, "on": 6.0},
}


def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    pytest.importorskip("torch", reason="the runs are of models that need PyTorch")
    _, shown = sections.show("unequal", TINY, tmp_path)
    *_, asked = shown["width"].tables
    assert [row[-1] for row in asked.rows] == ["holds", "fails"]


def test_normal_losses_are_those_of_the_split():
    law = power_law(1.0, 12, 0.5, scale=2.0)
    best = allocate(law, 4, codes=("rug",))
    np.testing.assert_allclose(normal_losses(best.capacity, law), best.per_feature, rtol=1e-6, atol=1e-12)


def test_the_bracket_holds_and_its_exponents_are_those_of_the_codes_own_law():
    """Kept alone, features of p ~ i^-2 leave a sum of p_i p_j over later ones: exponent 2 alpha - 1 = 3."""
    ds = unequal.run_bracket([2.0], [0.02, 0.04, 0.08], [0.5], n_features=500)
    assert (ds["bound"] <= ds["code"]).all()
    for name in ("bound", "code"):
        slope = np.diff(np.log(ds[name].values)) / np.diff(np.log([10, 20, 40]))
        np.testing.assert_allclose(ds[f"{name}_exponent"].values, -slope, rtol=1e-12)
    assert np.all(np.abs(ds["code_exponent"].sel(alpha=2.0) - 3) < 0.1)
    np.testing.assert_allclose(ds["between"], [200**0.5, 800**0.5], rtol=1e-12)


def test_neurons_of_the_map_of_codes_are_all_spent():
    """Shares add up, and alike features at p = 1/8 and ratio 1/2 are all in skew pairs."""
    ds = unequal.run_codes([0.0, 1.5], [0.2, 0.5], [2.0], n_features=16)
    np.testing.assert_allclose(ds["share"].sum("kind"), 1.0, rtol=1e-12)
    np.testing.assert_allclose(ds["neurons"].sum("kind") - ds["n_hidden"] / 16, 0.0, atol=1e-12)
    assert (ds["envelope"] <= ds["split"] * (1 + 1e-9)).all()
    alike = ds.sel(alpha=0.0, n_hidden=8).squeeze()
    assert float(alike["envelope"]) == pytest.approx(25 / 162 / 64, rel=1e-12, abs=0)
    assert float(alike["share"].sel(kind="pairs")) == pytest.approx(1.0)
    # The same split of values twice as large.
    split = unequal.run_split([1.5], [3, 8], n_features=16, on=2.0)
    np.testing.assert_allclose(split["loss"], 4 * ds["split"].sel(number_on=2.0, alpha=[1.5]), rtol=1e-9)


def test_a_pair_and_a_dropped_feature_as_they_are_measured():
    """Antipodal encodings have half a capacity each, all of it opposed."""
    law = Features(3, [0.3, 0.3, 0.2], scale=2.0)
    W = np.array([[1.0], [-1.0], [0.0]])
    found = measure_interference(W @ W.T, law)
    assert found["capacity"] == pytest.approx(1.0)
    assert found["opposed"] == 1.0
    assert measure_interference(-W @ W.T, law)["opposed"] == 1.0  # of outputs with negative weights, too
    # A rug would lose more on such a capacity.
    assert found["normal"] > (8 * antipodal_loss(0.3) + law.variance[2]) / 3


def test_trained_models_are_judged_by_those_trained_longest_and_the_code_that_is_asked_about():
    """Of free weights without decay; the others have losses that would fail, or that would keep a limit."""
    at = ("alpha", "n_hidden", "tied", "weight_decay", "steps", "seed")
    losses = np.full((1, 1, 2, 2, 2, 2), 0.1)
    losses[0, 0, 0, 0] = [0.1, 0.1], [1.5, 1.1]
    axes = {"alpha": [1.0], "n_hidden": [3], "tied": [0, 1], "weight_decay": [0.0, 1.0], "steps": [1, 2]}
    ds = xr.Dataset({"loss": (at, losses)}, axes)
    place = {"alpha": [1.0], "n_hidden": [3]}
    names = {"bound": 1.0, "loss": 2.0, "envelope": 1.08, "priority": 1.0}
    split = xr.Dataset({name: (("alpha", "n_hidden"), [[value]]) for name, value in names.items()}, place)
    descended = split.assign(loss=(("alpha", "n_hidden", "begin"), [[[1.3, 0.97]]]))
    above, near = judge_width(ds, split, descended)
    assert (above.value, near.value) == (pytest.approx(1.1), pytest.approx(0.03))
    (often,) = judge_often(ds, split)
    assert often.value == pytest.approx(1.1 / 1.08 - 1)


def test_runs_go_on_from_their_folder_and_lie_above_the_bound(tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    settings = {"n_features": 8, "tied": (0, 1), "weight_decay": (-1.0,), "steps": (100, 200), "batch": 32}
    first = unequal.run_width((1.0,), (1, 4), **settings, folder=str(tmp_path))
    again = unequal.run_width((1.0,), (1, 4), **settings, folder=str(tmp_path))
    assert first.identical(again)
    assert len(list(tmp_path.iterdir())) == 4
    # The axes are where they are said to be: one model, trained by itself.
    alone = unequal.run_width((1.0,), (4,), **settings | {"tied": (1,), "steps": (200,)}, seeds=(1,))
    same = first.sel(tied=[1], weight_decay=[-1.0], n_hidden=[4], steps=[200], seed=[1])
    np.testing.assert_array_equal(alone["loss"], same["loss"])
    split = unequal.run_split((1.0,), (1, 4), n_features=8)
    assert (first["loss"] > split["bound"]).all()


def test_descents_end_between_the_bound_and_where_they_begin():
    pytest.importorskip("torch", reason="training needs PyTorch")
    ds = unequal.run_descended((1.0,), (1, 2), n_features=6, train_steps=200, batch=64, steps=20)
    assert (ds["loss"] <= ds["start"] * (1 + 1e-9)).all()
    assert (ds["loss"] >= ds["bound"]).all()
    assert (ds["gain"] >= -1e-9).all()
    # One neuron holds a pair, which the code does not: its loss is that of one kept feature.
    one = ds.sel(n_hidden=1, alpha=1.0)
    assert one["start"].sel(begin="code") == pytest.approx(float(one["priority"]), rel=1e-3)
    assert one["loss"].min() < 0.99 * one["priority"]


def test_what_silences_an_output_is_relative_to_its_own_weight():
    """Rows are (2, -2, 6) and (-1, 1, -3); the third answers to nothing."""
    W_out, W_in = np.array([[2.0], [-1.0], [0.0]]), np.array([[1.0, -1.0, 3.0]])
    found = off_diagonal_weights((W_out, W_in, np.zeros(3)))
    assert found == {"strongest": 3.0, "negative": 0.5}
