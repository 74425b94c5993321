"""The report's part on computation in superposition at small sizes, and its numbers beside printed ones."""

import numpy as np
import pytest

from superposition.validate import computation

TINY = {
    "unbiased": {"p": [0.01, 0.5], "per_neuron": [2.0, 10.0]},
    "search": {"p": [0.2], "sizes": [(2, 1)], "starts": 2, "steps": 20},
    "fans": {"p": [1e-3, 0.1], "sizes": [(3, 3)], "eps": [0.2, 0.05]},
    "mixing": {"sigma": [0.0, 0.03], "n_features": 30, "n_hidden": 15, "seeds": range(2)},
    "powers": {"p": [0.1], "starts": 0},
    "trained": {
        "places": [("relu", True, 2, 1, 0.5), ("abs", True, 2, 1, 0.1)],
        "seeds": range(2),
        "steps": 50,
    },
}


def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    lab, shown = sections.show("computation", TINY, tmp_path)
    for made in shown.values():
        assert "nan" not in made.text
    ds = lab["computation.search"]
    assert ((ds["best"] - ds["floor"]) >= -ds["error"] - 1e-12).all()
    ratio = (ds["best"] / ds["naive"]).sel(p=0.2).isel(size=0)
    assert float(ratio.sel(task="relu")) == pytest.approx(1.0, abs=1e-7)
    assert float(ratio.sel(task="relu without bias")) < 1 - 1e-3


def test_losses_without_bias_are_those_of_the_published_script():
    """The naive loss over p of Bhagat et al.'s code, (F - n)/F/6, and twice the bias' worth below it."""
    ds = computation.run_unbiased([1e-3, 1.0], [2.0])["loss"]
    np.testing.assert_allclose(ds.sel(network="unbiased"), 1 / 12, rtol=1e-13)
    np.testing.assert_allclose(ds.sel(network="floor")[:, 0], 1 / 12 - ds["p"] / 32, rtol=1e-13)


def test_the_floor_falls_with_mixing_and_more_if_it_is_symmetric():
    ds = computation.run_mixing([0.0, 0.02, 0.04], seeds=range(2))
    floor = ds["floor"].mean("seed")
    assert (floor.diff("sigma") < 0).all()
    assert (floor.sel(symmetric=1) < floor.sel(symmetric=0))[1:].all()
    # Without mixing the naive loss, less what an output bias is worth.
    np.testing.assert_allclose(ds["naive"].sel(sigma=0.0), 0.5 * (1 / 6 - 0.01 / 16), rtol=1e-12)
    assert (ds["naive"].isel(sigma=slice(1, None)) > ds["floor"].isel(sigma=slice(1, None))).all()


def test_the_naive_readout_for_mixed_targets_is_the_best_one():
    """The same network by the exact solver, three features on two neurons."""
    from superposition.solvers.computation import best_readout, network_loss
    from superposition.theory.features import Features
    from superposition.validate.computation.runs import _mixing

    ds = computation.run_mixing([0.3], p=0.2, n_features=3, n_hidden=2, seeds=[5])
    law = Features(3, 0.2, "symmetric")
    for k, symmetric in enumerate((False, True)):
        M = 0.3 * _mixing(3, symmetric, np.random.default_rng([5, 3]))
        model = best_readout(np.eye(3)[:2], 0.0, law, mixing=M)
        want = network_loss(model, law, mixing=M).loss / 0.2
        assert float(ds["naive"].isel(symmetric=k).item()) == pytest.approx(want, rel=1e-10)


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match=r"`sigma` must .*; got -1"):
        computation.run_mixing([-1.0])
