"""The part of the report on sparse autoencoders: data, figures and texts."""

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from superposition.theory import sae as theory
from superposition.validate.experiments import sae


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


def test_pairs_lie_above_the_floor_and_in_the_phase_of_the_closed_forms(pairs):
    best = np.minimum(pairs["tilted"], pairs["absorbing"])
    assert bool((pairs["bound"] <= best).all())
    assert bool((best <= pairs["value"] + 1e-12).all())
    assert bool((pairs["found"] >= pairs["bound"]).all())
    assert bool((pairs["true"] > best).all())
    assert pairs["phase"].values.tolist() == [["hedges", "absorbs"]]
    r = float(pairs["boundary"].sel(l1=1.4))
    kinds = theory.tilted_pair(0.1, 0.1 * r, 1.4)[1], theory.absorbing_pair(0.1, 0.1, 0.1 * r, 1.4)[1]
    assert kinds[0] == pytest.approx(kinds[1], abs=1e-6)
    assert np.isnan(sae.run_pairs([0.1], [0.5], 0.4, gap=1e-2, starts=1)["boundary"]).all()
    beside = pairs["low"] / pairs["boundary"], pairs["high"] / pairs["boundary"]
    assert [side.values.round(9).tolist() for side in beside] == [[round(1 / 1.1, 9)] * 2, [1.1] * 2]


def test_what_is_shown(pairs):
    datasets = {
        "hedging": sae.run_hedging([0.0, 0.5], [0.05], starts=4),
        "pairs": pairs,
        "reached": sae.run_reached(12, 6, 0.1, [0.8, 1.2], samples=400),
    }
    texts = {}
    for topic in sae.SECTION.topics:
        content = topic.content(*(datasets[name] for name in topic.needs))
        texts[topic.name] = content.text
        for figure in content.figures:
            ax = figure.draw(figure.dataset, Canvas().subplots())
            assert ax.get_xlabel()
    assert "NOT" not in texts["pairs"]
    assert "the phase that the closed forms predict at 2 of 2 places" in texts["pairs"]
    assert "matching pursuit has up to" in texts["reached"]
    # Bounds that do not hold are said to.
    broken = pairs.assign(bound=pairs["value"] + 1.0)
    assert not all(found.passed for found in sae.SECTION.topics[1].judge(broken))
