"""The limits that verdicts of audits hang on, at both sides, as the page "Audits" states them."""

from types import SimpleNamespace

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.minimise.descent import fd_hessian
from superposition.validate.audit import models, search


def verdict(*, hits=5, **changes):
    """Return the verdict on a model of loss 1, at whose loss descent ends and which no other model beats."""
    model = {"loss": 1.0, "loss_error": 0.0, "end_loss": 1.0, "reset_loss": np.nan, "gradient_norm": 1e-3}
    model |= {"hit_time_limit": False, "lower_bound": 0.5, "zero_loss": 2.0, "n_hidden": 2, "n_features": 5}
    model |= changes
    known = SimpleNamespace(best=model["end_loss"], searched=True, hits=hits)
    return models._verdict(SimpleNamespace(**model), known)


@pytest.mark.parametrize(("hits", "words"), [(4, "not beaten by a search"), (5, "best of a search")])
def test_five_starts_must_end_at_the_best(hits, words):
    assert verdict(hits=hits) == words


@pytest.mark.parametrize(("above", "hits"), [(0.9e-6, 7), (1.1e-6, 4), (-1.1e-6, 3)])
def test_ends_within_a_millionth_of_the_best_are_hits(above, hits):
    known = search.KnownModels(sp.Features(5, 0.1), lower=0.0)
    known.add(1.0, "a search", None, searched=20, hits=4)
    known.add(1.0 + above, "another search", None, searched=20, hits=3)
    assert (known.searched, known.hits) == (40, hits)


@pytest.mark.parametrize(("norm", "words"), [(0.9e-5, "saddle"), (1.1e-5, "unfinished")])
def test_a_gradient_of_single_precision_is_that_of_a_saddle(norm, words):
    assert verdict(end_loss=0.9, gradient_norm=norm) == words


@pytest.mark.parametrize(("w", "represented"), [(0.28, 1), (0.3, 2)])
def test_a_feature_is_represented_from_half_of_its_loss_on(w, represented):
    """Output 1 is w x + b at its best b: of the variance 1 - (1 - w)^2 is saved, a half at w = 0.293."""
    law = sp.Features(3, 0.3)
    mean = law.mean[0]
    W = np.diag([1.0, np.sqrt(w), 0.0])[:, :2]
    model = sp.Model(W_in=W.T, b=[0.0, (1.0 - w) * mean, mean])
    assert sp.audit(model, law, starts=0, steps=0, progress=False).models[0].represented == represented


def test_kicks_leave_a_saddle_where_the_gradient_is_0():
    law = sp.Features(16, 0.2)  # of fewer features Newton's method leaves saddles by itself
    constant = sp.Model(W_in=np.zeros((4, 16)), b=law.mean)
    answer = sp.audit(constant, law, starts=0, progress=False)
    assert answer.models[0].verdict == "saddle"
    assert answer.models[0].gradient_norm < 1e-12
    assert answer.models[0].end_loss < 0.9 * answer.loss


@pytest.mark.parametrize(("bend", "is_kink"), [(0.005, False), (0.02, True)])
def test_curvatures_that_differ_by_more_than_a_hundredth_are_those_of_a_kink(bend, is_kink):
    def gradient(x):
        return x * np.array([1.0 + bend if x[0] > 0.0 else 1.0, 0.3])

    H = fd_hessian(gradient, np.zeros(2), np.full(2, 1e-4))
    assert (H is None) == is_kink
    if not is_kink:
        np.testing.assert_allclose(H, np.diag([1.0 + bend / 2, 0.3]), rtol=1e-12)
