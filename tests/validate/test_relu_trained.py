"""Small models trained beside the exact minimisers, and the report's part on the ReLU output model."""

import numpy as np
import pytest

from superposition.solvers.relu import pair_basins
from superposition.solvers.relu.ends import PathLoss
from superposition.validate.experiments import relu
from superposition.validate.experiments.relu import trained

TINY = {
    "phases": {"size": 4, "transitions": 1, "gap": 0.5},
    "polygons": {"p": (0.15, 0.3), "k": (5,), "n_features": (3,), "starts": 1},
    "truncation": {
        "n_features": (4,), "on": (0.05, 0.5), "starts": 2,
        "small": ((3, 1), (3, 2)), "small_p": (0.003, 0.01),
    },
    "thomson": {"sizes": ((4, 2), (5, 2)), "starts": 2},
    "trained": {"cases": ((2, 1, 0.2),), "seeds": 6, "steps": 300, "batch": 64},
}  # fmt: skip


@pytest.fixture(scope="module")
def models(torch):
    return relu.run_trained([(2, 1, 0.2), (3, 2, 0.3)], ["adam", "sgd"], 8, steps=500, batch=128)


# Training


@pytest.mark.slow
def test_no_model_is_below_the_exact_minimum(models):
    assert (models["settled"] >= models["least"] * (1 - 1e-9)).all()
    assert (models["trained"] >= models["settled"] * (1 - 1e-9)).all()
    assert (models["flow"] >= models["least"] * (1 - 1e-9)).all()
    # As many as the exact minimum: training finds it, and comes near to it.
    best = relu.ends_in_least_minimum(models, "settled").values
    assert best[:, 0].any(axis=-1).all()
    ratios = (models["trained"] / models["least"]).values
    assert np.median(ratios[best]) < 1.05


@pytest.mark.parametrize(("p", "seeds"), [(0.2, range(6)), (0.5, range(16, 20))])
def test_two_routes_of_the_flow_agree(p, seeds):
    """From one start at p = 0.5 a descent by L-BFGS-B ends in the other minimum: it is no flow."""
    std = 0.5
    basins = pair_basins(p, 1.0, starts=max(seeds) + 1, init_std=std, rng=3)
    W0 = std * np.random.default_rng(3).standard_normal((max(seeds) + 1, 2))[seeds.start :]
    exact, starts = PathLoss(2, 1, p), [np.concatenate([w, np.zeros(2)]) for w in W0]
    losses = [exact.flow(x) * p / 2 for x in starts]
    assert len(set(np.round(losses, 6))) == 2  # both minima occur
    np.testing.assert_allclose(losses, basins.loss[seeds.start :], rtol=1e-6)
    descents = [exact.loss_after_descent(x) * p / 2 for x in starts]
    assert np.sum(~np.isclose(descents, losses, rtol=1e-6)) == (p == 0.5)


def test_same_seed_same_models(models):
    again = relu.run_trained([(2, 1, 0.2)], ["sgd"], 8, steps=500, batch=128)
    np.testing.assert_allclose(again["trained"][0, 0], models["trained"].sel(optimiser="sgd")[0], rtol=1e-6)


def test_divergence_is_an_error(torch, monkeypatch):
    monkeypatch.setattr(trained, "SGD_TIME", 1e6)
    with pytest.raises(ArithmeticError, match=r"training with sgd diverged at p = 0\.2"):
        relu.run_trained([(2, 1, 0.2)], ["sgd"], 2, steps=20, batch=8)


# The section


def test_the_section_shows_all_of_its_topics(torch, sections, tmp_path):
    lab, _ = sections.show("relu", TINY, tmp_path)
    assert sections.judge(lab, ["B14"])["B14"].verdict == "question, answered"
