"""Forty models of which it is known what they are: what the audit says of each, beside a longer search.

Of each law a first search gives four models: its best one (optimum), the next end that descent does not leave
(local minimum), that one with a neuron that no feature uses (saddle), and the best one after noise and five
steps of plain gradient descent (stopped early). The longer search is another one: another seed, more starts,
and copies of the model itself whose weights are kicked. All this was fixed before any outcome was seen.
"""

import functools

import numpy as np
import pytest

from superposition.solvers.loss import exact_gradient, exact_loss
from superposition.solvers.minimise import descend, minimise
from superposition.theory.features import Features
from superposition.validate import audit
from superposition.validate.audit import models, search
from superposition.validate.audit.advice import advice

# Size, probability, ratio of importances from one feature to the next, values; starts of the first search, of
# the audit's, of the longer one.
LAWS = [
    (5, 2, 0.1, 0.9, "uniform", 40, 20, 120), (4, 1, 0.3, 0.7, "uniform", 40, 20, 120),
    (6, 2, 0.2, 0.8, "binary", 40, 20, 120), (7, 3, 0.05, 0.9, "uniform", 40, 20, 120),
    (9, 3, 0.1, 0.85, "uniform", 40, 20, 120), (12, 3, 0.15, 0.85, "uniform", 8, 8, 24),
    (14, 4, 0.1, 0.85, "uniform", 8, 8, 24), (16, 4, 0.05, 0.9, "uniform", 8, 8, 24),
    (20, 5, 0.05, 0.9, "uniform", 8, 6, 24), (24, 6, 0.03, 0.9, "uniform", 8, 6, 24),
]  # fmt: skip
# Relative differences of losses that count; by how much a local minimum is above the best end.
BEATEN, APART = 1e-6, 1e-3
KICKS, KICK = 4, 0.1


def law_of(place):
    n, _, p, ratio, values, *_ = place
    return Features(n, p, values, importance=ratio ** np.arange(n))


def kicked(W, rng, size):
    return W + size * np.sqrt(np.mean(W**2)) * rng.normal(size=W.shape)


def stays(W, b, law, rng):
    """Say whether descent, also after small kicks, ends at the loss of the model itself."""
    least = exact_loss(W @ W.T, b, law).loss * (1 - BEATEN)
    kicks = (kicked(W, rng, 0.01) for _ in range(3))
    return all(descend(V, V.T, b, law, tied=True, steps=1000).loss >= least for V in kicks)


@functools.cache
def four(place, seed):
    """Return the models by kind."""
    n, m, *_, starts, _, _ = place
    law, rng = law_of(place), np.random.default_rng(1000 + seed)
    minima = minimise(n, m, law, starts=starts, rng=seed).minima
    ends = [descend(one.W_out, one.W_out.T, one.b, law, tied=True, steps=1000) for one in minima]
    best, *others = ends
    # Without another minimum choose another law.
    other = next(
        end for end in others if end.loss > (1 + APART) * best.loss and stays(end.W_out, end.b, law, rng)
    )
    early = kicked(best.W_out, rng, 0.2)
    for _ in range(5):
        by_M, _ = exact_gradient(early @ early.T, best.b, law, tol=1e-9)
        early = early - 0.1 * (by_M + by_M.T) @ early
    return {
        "optimum": (best.W_out, best.b),
        "local minimum": (other.W_out, other.b),
        "saddle": (np.hstack([other.W_out, np.zeros((n, 1))]), other.b),
        "stopped early": (early, best.b),
    }


def verdict_of(place, seed, W, b):
    """Audit a model by itself, search longer, and fail where word and least loss do not go together."""
    n, *_, starts, longer = place
    law, rng = law_of(place), np.random.default_rng(2000 + seed)
    (audited,) = audit.audit(audit.Weights(W, W.T, b), law, starts=starts, seconds=1e6, rng=seed).models
    loss = exact_loss(W @ W.T, b, law).loss
    least = exact_loss(audited.best_W_out @ audited.best_W_in, audited.best_b, law).loss
    assert least <= audited.best_known * (1 + BEATEN)
    if audited.verdict not in ("saddle", "unfinished"):
        copies = [(V, V.T, b) for V in (kicked(W, rng, KICK) for _ in range(KICKS))]
        least = min(least, minimise(n, W.shape[1], law, starts=longer, first=copies, rng=3000 + seed).loss)
    is_beaten, words = least < loss * (1 - BEATEN), f"{audited.verdict}, but {least:.9g} beside {loss:.9g}"
    if audited.verdict in ("best of a search", "proved best"):
        assert not is_beaten, words
    if audited.verdict == "stuck":
        assert is_beaten, words
    return audited.verdict


@pytest.mark.parametrize(
    ("place", "seed"),
    [
        pytest.param(law, k, id=f"n{law[0]}", marks=[pytest.mark.slow] * (k != 1))
        for k, law in enumerate(LAWS)
    ],
)
def test_no_verdict_without_its_evidence(place, seed):
    allowed = {
        "optimum": {"best of a search", "not beaten by a search", "stuck"},
        "local minimum": {"stuck", "not beaten by a search"},
        "saddle": {"saddle"},
        "stopped early": {"unfinished"},
    }
    for kind, (W, b) in four(place, seed).items():
        assert verdict_of(place, seed, W, b) in allowed[kind], kind


def test_a_search_that_finds_only_the_model_itself_would_be_noticed(monkeypatch):
    """The twin: an audit that calls a local minimum the best fails."""
    W, b = four(LAWS[0], 0)["local minimum"]
    itself = descend(W, W.T, b, law_of(LAWS[0]), tied=True)
    blind = type(itself)(**{**vars(itself), "hits": 20, "starts": 20})
    monkeypatch.setattr(search, "minimise", lambda *_, **__: blind)
    with pytest.raises(AssertionError, match="best of a search, but"):
        verdict_of(LAWS[0], 0, W, b)


def test_a_model_that_hardly_descends_and_is_above_the_best_known_is_stuck():
    W, b = four(LAWS[0], 0)["local minimum"]
    W = W * (1 + 1e-3)
    (audited,) = audit.audit(audit.Weights(W, W.T, b), law_of(LAWS[0]), rng=11).models
    assert audited.end_loss < audited.loss * (1 - 1e-6)  # it does descend
    assert audited.gradient_norm > models.STILL
    assert audited.verdict == "stuck"
    assert advice(audited).startswith("Train again from other starts: this one is stuck")
    assert audited.gap in advice(audited)
