"""The verdict on an autoencoder: at the optimum of its objective as far as is known, above it, unfinished."""

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.sae import AutoencoderObjective, best_autoencoder, descend
from superposition.theory.features import Features, parent_child
from superposition.theory.model import Model

BINARY_PAIR = Features(2, 0.5, "binary", groups=[parent_child(0, [1], p_parent=0.25, p_child=0.2)])
TRUE, DEAD = (Model(np.eye(2), b, "relu", np.eye(2), output="identity") for b in (-0.05, -2.0))


@pytest.fixture(scope="module")
def best():
    objective = AutoencoderObjective(BINARY_PAIR, np.eye(2), l1=0.2)
    return best_autoencoder(objective, 2, decoder_bias=False, starts=8)


def test_an_autoencoder_at_the_optimum_of_its_objective_is_left_alone(best):
    found = sp.sae(best.sae, BINARY_PAIR, l1=0.2)
    assert (found.verdict, found.objective) == ("best known", pytest.approx(best.value, abs=1e-9))
    assert found.advice.startswith("Leave it: neither descent nor")
    # The hierarchy is absorbed: by the theorem of the page the least objective shrinks each pattern.
    mu = 0.1
    least = 0.2 * (2 * mu - mu**2) + 0.05 * (2 * np.sqrt(2) * mu - mu**2)
    assert found.objective == pytest.approx(least, abs=1e-6)


def test_an_autoencoder_that_is_not_trained_is_told_to_train_on():
    found = sp.sae(TRUE, BINARY_PAIR, l1=0.2)
    assert found.verdict == "unfinished"
    assert found.objective > found.descended + 1e-3 > found.best_known
    assert "Train on: descent from here goes down by" in str(found)
    assert not hasattr(sp.sae(TRUE, BINARY_PAIR), "verdict"), "no penalty, no verdict"


def test_a_dead_autoencoder_is_stuck():
    found = sp.sae(DEAD, BINARY_PAIR, l1=0.2)
    assert found.verdict == "stuck"
    assert found.objective == pytest.approx(0.3) == found.descended
    assert "Start again from other weights" in found.advice


def test_without_time_nothing_is_known(best):
    assert sp.sae(DEAD, BINARY_PAIR, l1=0.2, seconds=0.0).verdict in {"not known", "stuck"}
    found = sp.sae(best.sae, BINARY_PAIR, l1=0.2, seconds=0.0)
    assert (found.verdict, found.advice[:23]) == ("not known", "Give it more `seconds`:")


@pytest.mark.parametrize("hidden", ["relu", "jumprelu"])
def test_a_descent_ends_below_its_start_and_where_its_objective_says(hidden):
    law, rng = Features(3, 0.3), np.random.default_rng(0)
    thresholds = np.array([0.2, 0.1]) if hidden == "jumprelu" else None
    W, V, b = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal(size=2)
    start = Model(W, 0.1, hidden, V, b, "identity", thresholds=thresholds)
    f = AutoencoderObjective(law, rng.normal(size=(2, 3)), l1=0.1, l0=0.05)
    end, value = descend(f, start, seconds=5.0)
    assert value == pytest.approx(f(end).value, abs=1e-12)
    assert value < f(start).value - 1e-3


def test_a_sampled_objective_has_the_verdict_of_other_samples(monkeypatch):
    from superposition.validate.api import sae as module

    def sampled(*law, samples, **settings):
        return AutoencoderObjective(*law, **settings | {"method": "samples", "samples": samples // 16})

    monkeypatch.setattr(module.solver, "AutoencoderObjective", sampled)
    found = sp.sae(TRUE, BINARY_PAIR, l1=0.2, seconds=2.0)
    exact = AutoencoderObjective(BINARY_PAIR, np.eye(2), l1=0.2)(TRUE).value
    # One number at five standard errors: a false alarm in a million.
    assert abs(found.objective - exact) < 5 * found.objective_error < 0.05 * exact
    assert found.verdict == "unfinished"
    assert "standard error" in str(found)
