"""The part of the report on sparse autoencoders: data, figures and texts."""

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from superposition.theory import sae as theory
from superposition.validate.experiments import sae
from superposition.validate.experiments.sae import dense


@pytest.fixture(scope="module")
def pairs():
    return sae.run_pairs([0.6, 1.4], [1.5], starts=6)


def test_one_latent_hedges_as_the_closed_form_says():
    ds = sae.run_hedging([0.0, 0.5], [0.05, 0.2], starts=6)
    assert dict(ds.sizes) == {"both": 2, "l1": 2}
    assert float(np.abs(ds["found"] - ds["angle"]).max()) < 1e-4
    assert float(ds["excess"].max()) < 1e-8
    assert float(ds["excess"].min()) > -1e-12
    # A wrong angle is noticed: the eigenvector of the covariance in place of that of the second moment.
    moment, mean = np.array([[0.25, 0.05], [0.05, 0.05]]), np.array([0.25, 0.05])
    wrong = np.degrees(theory.hedging_angle(moment - np.outer(mean, mean)))
    assert abs(float(ds["found"].sel(both=0.05, l1=0.0)) - wrong) > 0.5


def test_pairs_lie_above_the_lower_bound_and_in_the_phase_of_the_closed_forms(pairs):
    best = np.minimum(pairs["tilted"], pairs["absorbing"])
    assert bool((pairs["lower_bound"] <= best).all())
    assert bool((best <= pairs["value"] + 1e-12).all())
    assert bool((pairs["found"] >= pairs["lower_bound"]).all())
    assert bool((pairs["true"] > best).all())
    assert pairs["phase"].values.tolist() == [["hedges", "absorbs"]]
    r = float(pairs["boundary"].sel(l1=1.4))
    kinds = theory.tilted_pair(0.1, 0.1 * r, 1.4)[1], theory.absorbing_pair(0.1, 0.1, 0.1 * r, 1.4)[1]
    assert kinds[0] == pytest.approx(kinds[1], abs=1e-6)
    assert np.isnan(sae.run_pairs([0.1], [0.5], 0.4, gap=1e-2, starts=1)["boundary"]).all()
    beside = pairs["low"] / pairs["boundary"], pairs["high"] / pairs["boundary"]
    assert [side.values.round(9).tolist() for side in beside] == [[round(1 / 1.1, 9)] * 2, [1.1] * 2]


@pytest.mark.parametrize("part", range(3))
def test_the_gradient_that_training_follows_is_that_of_the_objective(part):
    rng = np.random.default_rng(part)
    at = [rng.normal(size=shape) for shape in ((3, 5), (5, 3), (5,))]
    y, direction = rng.normal(size=(40, 3)), rng.normal(size=at[part].shape)

    def value(h):
        moved = [array + h * direction if k == part else array for k, array in enumerate(at)]
        code = np.maximum(y @ moved[1].T + moved[2], 0.0)
        return np.mean(0.5 * np.sum((y - code @ moved[0].T) ** 2, axis=1) + 0.3 * np.sum(code, axis=1))

    computed, gradient = dense._gradient(dense._Weights(*at), y, 0.3)
    assert computed == pytest.approx(value(0.0), rel=1e-12)
    assert np.sum(gradient[part] * direction) == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-6)


def test_a_dense_code_costs_its_l1_norm_and_wins_only_where_features_outnumber_dimensions():
    many = sae.run_dense([1.0], [1e-2], steps=200, samples=2**12)
    rng = np.random.default_rng(5)
    on = rng.random((20_000, 64)) < 1 / 32
    on[:, 1::2] &= on[:, ::2]
    directions = rng.normal(size=(64, 16))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = np.abs((on * rng.uniform(1.0, 2.0, on.shape)) @ directions).sum(axis=1)
    # The directions are others there: their mean norm varies by some percent.
    assert float(many["objective"].sel(kind="dense").squeeze()) == pytest.approx(
        1e-2 * norms.mean(), rel=0.15
    )
    assert [finding.passed for finding in dense._judge(many)] == [True, True]
    few = sae.run_dense([0.0], [1e-2], n_hidden=32, n_features=4, steps=800, samples=2**12)
    assert [finding.passed for finding in dense._judge(few)] == [False, False]


def test_bounds_that_do_not_hold_are_said_to(pairs):
    (judge,) = [topic.judge for topic in sae.SECTION.topics if topic.name == "pairs"]
    assert all(finding.passed for finding in judge(pairs))
    assert not all(finding.passed for finding in judge(pairs.assign(lower_bound=pairs["value"] + 1.0)))


def test_topics_are_shown(pairs):
    datasets = {
        "hedging": sae.run_hedging([0.0, 0.5], [0.05], starts=4),
        "pairs": pairs,
        "dense": sae.run_dense([0.0, 1.0], [1e-2], steps=100, samples=1000),
        "reached": sae.run_reached(12, 6, 0.1, [0.8, 1.2], samples=400),
    }
    for topic in sae.SECTION.topics:
        for figure in topic.content(*(datasets[name] for name in topic.needs)).figures:
            assert figure.draw(figure.dataset, Canvas().subplots()).has_data()
