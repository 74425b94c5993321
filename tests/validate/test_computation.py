"""The report's part on computation in superposition at small sizes, and its numbers beside printed ones."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from superposition.solvers.computation import best_readout, network_loss
from superposition.solvers.computation.equal_neurons import disjoint_inputs_loss
from superposition.theory.computation import loss_lower_bound
from superposition.theory.features import Features, synchronous
from superposition.validate.experiments import computation, papers
from superposition.validate.experiments.computation.gain_map import _lower_convex_envelope
from superposition.validate.experiments.papers.cistoy import random_mixing

PLACES = [("relu", True, 2, 1, 0.5), ("abs", True, 2, 1, 0.1)]
TINY = {
    "unbiased": {"p": [0.01, 0.5], "per_neuron": [2.0, 10.0]},
    "search": {"p": [0.2], "sizes": [(2, 1)], "starts": 2, "steps": 20},
    "map": {"p": [0.1], "per_neuron": [1, 2], "sizes": [(2, 1)], "fans": [(3, 3)], "starts": 1, "steps": 5},
    "mixed": {"sigma": [0.0, 0.03, 0.07], "n_features": 20, "n_hidden": 10, "seeds": range(1), "starts": 1},
    "spread": {"p": [1.0], "n_features": 12, "n_hidden": 6, "tries": 10},
    "fans": {"p": [1e-3, 0.1], "sizes": [(3, 3)], "eps": [0.2, 0.05]},
    "mixing": {"sigma": [0.0, 0.03], "n_features": 30, "n_hidden": 15, "seeds": range(2)},
    "powers": {"p": [0.1], "starts": 0},
    "trained": {"places": PLACES, "seeds": [0, 1], "steps": 50},
}


def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    lab, _ = sections.show("computation", TINY, tmp_path)
    ds = lab["computation.search"]
    assert ((ds["best"] - ds["lower_bound"]) >= -ds["error"] - 1e-12).all()
    ratio = (ds["best"] / ds["naive"]).sel(p=0.2).isel(size=0)
    assert float(ratio.sel(task="relu")) == pytest.approx(1.0, abs=1e-7)
    assert float(ratio.sel(task="relu without bias")) < 1 - 1e-3

    assert (lab["computation.mixed"]["found"] >= lab["computation.mixed"]["lower_bound"] - 1e-12).all()


def test_the_map_has_the_naive_loss_where_nothing_beats_it_and_lies_between_it_and_the_lower_bound():
    p = 0.1
    ds = computation.run_map([p], [1.0, 1.25, 2.0, 4.0], [(1, 1), (2, 1), (2, 2)], starts=1, steps=5)
    naive = (1 - 1 / ds["per_neuron"]) * (1 / 6 - p / 16)
    for name, rtol, atol in (("lower_bound", 1e-12, 1e-15), ("naive", 1e-7, 1e-9), ("best", 1e-6, 1e-9)):
        np.testing.assert_allclose(ds[name].sel(task="relu", p=p), naive, rtol=rtol, atol=atol)
    both = Features(2, p, "symmetric", groups=[synchronous([0, 1], p)])
    lower_bound = ds["lower_bound"].sel(task="relu, on in pairs", p=p, per_neuron=2.0)
    assert float(lower_bound) == pytest.approx(loss_lower_bound(both, 1) / p)
    assert (ds["lower_bound"] <= ds["best"] + ds["error"] + 1e-9).all()
    assert (ds["best"] <= ds["naive"] + 1e-9).all()


def test_the_envelope_is_convex_and_leaves_neurons_idle():
    """Of the points (0, 4), (1/2, 1), (3/4, 3) and (1, 1/2) the third is above its neighbours' line."""
    points, at = np.array([[0.0, 0.5, 0.75, 1.0], [4.0, 1.0, 3.0, 0.5]]), np.array([0.0, 0.25, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(_lower_convex_envelope(*points, at), [4.0, 2.5, 1.0, 0.5, 0.5], rtol=1e-12)


def test_neurons_alike_are_a_network():
    """By the evaluator: four features on two neurons that receive all, at p = 1, or two each, at p = 1/2."""
    ds = papers.run_spread([1.0], n_features=4, n_hidden=2, tries=25)
    W_in = np.full((2, 4), float(ds["others"][0]))
    W_in[:, 2:] = float(ds["dropped"][0])
    np.fill_diagonal(W_in, 1.0)
    law = Features(4, 1.0, "symmetric")
    model = best_readout(W_in, 0.0, law, bias=False)
    assert network_loss(model, law).loss == pytest.approx(float(ds["found"][0]), rel=1e-9)
    assert float(ds["found"][0]) < float(ds["readout"][0])
    law, k = Features(4, 0.5, "symmetric"), np.linspace(0.0, 0.6, 61)
    models = [best_readout([[1, x, 0, 0], [0, 0, 1, x]], 0.0, law, bias=False) for x in k]
    least = min(network_loss(model, law).loss for model in models) / 0.5
    assert least * (1 - 0.02) < disjoint_inputs_loss(2, 2, 0.5) <= least


def test_losses_without_bias_are_those_of_the_published_script():
    """The naive loss over p of Bhagat et al.'s code, (F - n)/F/6, and twice the bias' worth below it."""
    ds = computation.run_unbiased([1e-3, 1.0], [2.0])["loss"]
    np.testing.assert_allclose(ds.sel(network="unbiased"), 1 / 12, rtol=1e-13)
    np.testing.assert_allclose(ds.sel(network="lower_bound")[:, 0], 1 / 12 - ds["p"] / 32, rtol=1e-13)


def test_the_lower_bound_that_is_drawn_is_that_of_the_data():
    ds = computation.run_unbiased([1e-3, 1.0], [2.0, 4.0])
    lines = computation.plot_unbiased(ds, Figure().subplots()).lines
    (drawn,) = (line.get_ydata() for line in lines if line.get_label() == "lower bound, 3p/8")
    saved = 1 - ds["loss"].sel(network="lower_bound") / ds["loss"].sel(network="unbiased")
    np.testing.assert_allclose(saved.T, np.stack([drawn, drawn]), rtol=1e-10)


def test_the_lower_bound_falls_with_mixing_and_more_if_it_is_symmetric():
    ds = papers.run_mixing([0.0, 0.02, 0.04], seeds=range(2))
    lower_bound = ds["lower_bound"].mean("seed")
    assert (lower_bound.diff("sigma") < 0).all()
    assert (lower_bound.sel(symmetric=1) < lower_bound.sel(symmetric=0))[1:].all()
    # Without mixing the naive loss, less what an output bias is worth.
    np.testing.assert_allclose(ds["naive"].sel(sigma=0.0), 0.5 * (1 / 6 - 0.01 / 16), rtol=1e-12)
    assert (ds["naive"].isel(sigma=slice(1, None)) > ds["lower_bound"].isel(sigma=slice(1, None))).all()
    # The naive readout is the best one: the same network by the exact solver, three features on two neurons.
    ds = papers.run_mixing([0.3], p=0.2, n_features=3, n_hidden=2, seeds=[5])
    law = Features(3, 0.2, "symmetric")
    for k, symmetric in enumerate((False, True)):
        M = 0.3 * random_mixing(3, symmetric, np.random.default_rng([5, 3]))
        want = network_loss(best_readout(np.eye(3)[:2], 0.0, law, mixing=M), law, mixing=M).loss / 0.2
        assert float(ds["naive"].isel(symmetric=k).item()) == pytest.approx(want, rel=1e-10)
