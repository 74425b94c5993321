"""Sampled learning coefficients: devinterp's steps and NumPy's, the stored run, predictions off by ½."""

import numpy as np
import pytest

from superposition.theory.loss import langevin_llc
from superposition.validate.experiments.relu import localised
from superposition.validate.reference import read


class Quadratic:
    """Half a sum of h u², in the place of a toy loss."""

    weights = np.zeros(3)
    h = np.array([1.0, 0.1, 0.0])

    def __call__(self, w):
        return 0.5 * (w**2 @ self.h), w * self.h


WHERE = {"nbeta": 100.0, "localization": 5.0, "lr": 0.01, "num_draws": 300, "num_burnin_steps": 20}


def within(losses, sigmas):
    """Return whether estimates of chains have the predicted mean; false alarms as of a normal law."""
    predicted = langevin_llc(Quadratic.h, **WHERE)
    llc = WHERE["nbeta"] * losses.mean(axis=0)
    return abs(llc.mean() - predicted.mean) < sigmas * predicted.std / llc.size**0.5


def test_chains_have_the_predicted_mean():
    losses = localised.langevin_losses(Quadratic(), chains=400, seed=[1], **WHERE)
    assert within(losses, 4.0)
    assert not within(losses + 0.5 * 0.1 / WHERE["nbeta"], 4.0)  # a tenth of what one direction gives


def test_devinterps_sampler_makes_the_same_steps():
    pytest.importorskip("devinterp.slt.sampler", reason="it is an oracle: pip install devinterp, below 2")
    losses = localised._devinterp_losses(Quadratic(), chains=400, seed=[1], **WHERE)
    assert within(losses, 4.0)


def test_a_run_has_what_it_says():
    ds = localised.run_localised([2], [[1e6, 100.0]], sampler="numpy", num_draws=2, num_burnin_steps=0)
    law, m = localised.drawn_law(54, 2)
    assert (int(ds["n_features"][0]), int(ds["n_hidden"][0])) == (law.n_features, m)
    assert float(ds["chain_mean"][0, 0]) < float(ds["leading"][0, 0])  # from the minimum, nothing is burnt in
    assert isinstance(localised.drawn_law(54, 3)[0].p, np.ndarray)


@pytest.fixture(scope="module")
def stored():
    return read.read("relu_localised", run="relu.localised")


def test_the_stored_sampler_agrees_where_the_expansion_claims_to_hold(stored):
    agree, _, _, planted = localised._judge(stored)
    assert agree.passed
    assert planted.passed
    assert int(localised._compare_llc(stored)["claimed"].sum()) == 10


@pytest.mark.parametrize("off", [-0.5, 0.5])
def test_a_prediction_off_by_half_is_noticed(stored, off):
    wrong = stored.assign(chain_mean=stored["chain_mean"] + off)
    agree, pooled, *_ = localised._judge(wrong)
    assert not agree.passed
    assert not pooled.passed
