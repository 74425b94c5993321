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
from superposition.validate.audit import search

# Size, probability, ratio of importances from one feature to the next, values; starts of the first search, of
# the audit's, of the longer one.
SMALL = [
    (4, 1, 0.3, 0.7, "uniform", 40, 20, 120),
    (5, 2, 0.1, 0.9, "uniform", 40, 20, 120),
    (6, 2, 0.2, 0.8, "binary", 40, 20, 120),
    (7, 3, 0.05, 0.9, "uniform", 40, 20, 120),
    (9, 3, 0.1, 0.85, "uniform", 40, 20, 120),
]
LARGE = [
    (12, 3, 0.15, 0.85, "uniform", 8, 8, 24),
    (14, 4, 0.1, 0.85, "uniform", 8, 8, 24),
    (16, 4, 0.05, 0.9, "uniform", 8, 8, 24),
    (20, 5, 0.05, 0.9, "uniform", 8, 6, 24),
    (24, 6, 0.03, 0.9, "uniform", 8, 6, 24),
]
# Relative differences of losses that count; by how much a local minimum is above the best end.
BEATEN, APART = 1e-6, 1e-3
KICKS, KICK = 4, 0.1

Model = tuple[np.ndarray, np.ndarray]


def law_of(place):
    n, _, p, ratio, values, *_ = place
    return Features(n, p, values, importance=ratio ** np.arange(n))


def kicked(W, rng, size):
    return W + size * np.sqrt(np.mean(W**2)) * rng.normal(size=W.shape)


def end_of(W, b, law):
    return descend(W, W.T, b, law, tied=True, steps=1000)


def stays(W, b, law, rng):
    """Say whether descent, also after small kicks, ends at the loss of the model itself."""
    least = exact_loss(W @ W.T, b, law).loss
    return all(end_of(kicked(W, rng, 0.01), b, law).loss >= least * (1 - BEATEN) for _ in range(3))


@functools.cache
def four(place, seed):
    """Return the models by kind."""
    n, m, *_, starts, _, _ = place
    law, rng = law_of(place), np.random.default_rng(1000 + seed)
    search_result = minimise(n, m, law, starts=starts, rng=seed)
    best = end_of(search_result.W_out, search_result.b, law)
    other = None
    for minimum in search_result.minima[1:]:
        end = end_of(minimum.W_out, minimum.b, law)
        if end.loss > (1 + APART) * best.loss and stays(end.W_out, end.b, law, rng):
            other = end
            break
    assert other is not None, "the first search has one minimum: choose another law"
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


def judge(verdict, loss, least):
    """Fail where the audit's word and the least loss of any model that was found do not go together."""
    beaten = least < loss * (1 - BEATEN)
    if verdict in ("best of a search", "proved best"):
        assert not beaten, f"{verdict}, but {least:.9g} is below {loss:.9g}"
    if verdict == "stuck":
        assert beaten, f"{verdict}, but nothing below {loss:.9g} was found"


def row(place, seed, kind, W, b):
    """Audit a model by itself, and search longer; return what to print."""
    n, _, p, *_, starts, longer = place
    law, rng = law_of(place), np.random.default_rng(2000 + seed)
    (audited,) = audit.audit(audit.Weights(W, W.T, b), law, starts=starts, seconds=1e6, rng=seed).models
    loss = exact_loss(W @ W.T, b, law).loss
    least = exact_loss(audited.best_W_out @ audited.best_W_in, audited.best_b, law).loss
    assert least <= audited.best_known * (1 + BEATEN)
    if audited.verdict not in ("saddle", "unfinished"):
        copies = [(V, V.T, b) for V in (kicked(W, rng, KICK) for _ in range(KICKS))]
        least = min(least, minimise(n, W.shape[1], law, starts=longer, first=copies, rng=3000 + seed).loss)
    judge(audited.verdict, loss, least)
    gap = loss / least - 1
    said = f"n={n} m={W.shape[1]} p={p} {kind}: {audited.verdict}, {audited.hits} of {audited.searched}"
    return audited.verdict, f"{said}; {gap:.2e} above the longer search or what the audit exhibits"


# The ordinary suite has such models of one law in test_audit.py, and the twin below.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "seed"), [pytest.param(place, k, id=f"n{place[0]}") for k, place in enumerate(SMALL + LARGE)]
)
def test_no_verdict_without_its_evidence(place, seed):
    for kind, (W, b) in four(place, seed).items():
        verdict, line = row(place, seed, kind, W, b)
        print(line)
        allowed = {
            "optimum": {"best of a search", "not beaten by a search", "stuck"},
            "local minimum": {"stuck", "not beaten by a search"},
            "saddle": {"saddle"},
            "stopped early": {"unfinished"},
        }[kind]
        assert verdict in allowed, line


def test_a_search_that_finds_only_the_model_itself_would_be_noticed(monkeypatch):
    """The twin: an audit that calls a local minimum the best fails `judge`."""
    place = SMALL[1]
    W, b = four(place, 1)["local minimum"]
    itself = descend(W, W.T, b, law_of(place), tied=True)

    def blind(*_, **__):
        return type(itself)(**{**vars(itself), "hits": 20, "starts": 20})

    monkeypatch.setattr(search, "minimise", blind)
    with pytest.raises(AssertionError, match="best of a search, but"):
        row(place, 1, "local minimum", W, b)
