"""How many features fit, and how few neurons do: predicted losses cross the allowed one at these counts."""

from functools import cache

import numpy as np
import pytest
from scipy.linalg import block_diag

import superposition as sp
from superposition.solvers.loss import exact_loss
from superposition.theory.codes import skew_pair_loss
from superposition.theory.unequal import priority_weights
from superposition.validate.api.answer import Certainty
from superposition.validate.api.predict import tied_copies
from superposition.validate.experiments import atlas
from superposition.validate.experiments.codes import known_blocks

DRAW = np.random.default_rng(20)
CASES = [(10 ** DRAW.uniform(-3, -0.1), DRAW.uniform(0.01, 0.6), int(DRAW.integers(1, 12))) for _ in range(4)]


def key_of(row):
    """Return the kind of a row and what it is of, where `predict` and `how_many` may word it differently."""
    if row.kind == "lower bound":
        return row.kind
    return row.kind, "kept" if row.model.endswith("others dropped") else row.model


@cache
def predicted(n, m, p):
    """Return `predict`'s losses of n features on m neurons; empty where all features are kept."""
    rows = sp.predict(sp.Features(n, p), m).to_frame()
    return {key_of(row): row.loss for row in rows.itertuples()} if m < n else {}


@pytest.mark.parametrize(("p", "relative", "m"), CASES)
def test_predicted_losses_cross_the_allowed_one_at_the_number_of_features(p, relative, m):
    answer, allowed = sp.how_many(p, n_hidden=m, relative=relative), relative * p / 3.0
    rows = answer.to_frame()
    compared = rows[rows["n_features"] < 2000]  # `predict` of many features takes long
    assert len(compared) >= 4
    for row in compared.itertuples():
        n, key = int(row.n_features), key_of(row)
        assert predicted(n, m, p).get(key, 0.0) <= allowed
        assert predicted(n + 1, m, p)[key] > allowed
        assert row.loss == pytest.approx(predicted(n, m, p).get(key, 0.0), rel=1e-12, abs=0)
    assert answer.known <= answer.proved
    assert np.all(np.diff(rows["n_features"].values) <= 0)


def test_predicted_losses_cross_the_allowed_one_at_the_number_of_neurons():
    for p, relative, k in CASES[1:]:
        n, allowed = 5 * k, relative * p / 3.0
        answer = sp.how_many(p, n_features=n, relative=relative)
        for row in answer.to_frame().itertuples():
            m, key = int(row.n_hidden), key_of(row)
            assert predicted(n, m, p).get(key, 0.0) <= allowed
            if m > 1:  # no neuron is no size, and loses more than is allowed
                assert predicted(n, m - 1, p)[key] > allowed
        assert answer.proved <= answer.known <= n


def test_what_is_known_is_a_model_in_hand():
    for seed in range(2):
        rng = np.random.default_rng(seed)
        p, m = float(rng.uniform(0.01, 0.2)), int(rng.integers(2, 7))
        allowed = float(rng.uniform(0.1, 0.45)) * p * p
        law = sp.Features(sp.how_many(p, n_hidden=m, loss=allowed).known, p)
        assert law.n_features > m
        # Planes hold six features or fewer, of lengths 250 apart or more; the square of this ratio is left.
        assert sp.loss(priority_weights(law, m, reach=1e12), law).loss <= allowed * (1.0 + 1e-3)


def test_copies_of_codes_are_a_model():
    """Built here: polygons at equal angles, features on neurons of their own, and dropped ones."""
    for p, m, copies, sizes in (
        (0.02, 4, "2 x pair, 1 x pentagon", [2, 2, 5]),
        (0.1, 4, "2 x pair", [2, 2, 1, 1]),
        (0.3, 4, "4 x pair", [2, 2, 2, 2, 0]),
        (0.02, 3, "1 x pair, 1 x pentagon", [2, 5]),
    ):
        best = {block.name: block for (block,) in known_blocks(p)}
        parts, b = [], []
        for size in sizes:
            if size < 2:
                parts.append([[float(size)]])
                b.append(p / 2.0 if size == 0 else 0.0)
            else:
                block, angle = best[{2: "pair", 5: "pentagon"}[size]], 2.0 * np.pi * np.arange(size) / size
                parts.append(block.a * np.cos(angle - angle[:, None]))
                b += size * [block.b]
        M = block_diag(*parts)
        assert np.linalg.matrix_rank(M, tol=1e-9) == m
        loss, note = tied_copies(p, len(M), m)
        assert note == copies
        assert loss == pytest.approx(exact_loss(M, np.array(b), p).loss, rel=1e-5)  # as `known_blocks` states
        assert np.all(np.diff([tied_copies(p, size, 3)[0] for size in range(3, 40)]) >= 0.0)


def test_a_loss_of_0_or_above_the_lower_bound_at_any_size():
    answer = sp.how_many(0.05, n_hidden=3, loss=0.0)
    assert (answer.known, answer.proved, answer.certainty) == (3, 3, Certainty.PROVED)
    assert sp.how_many(0.05, n_features=7, loss=0.0).known == 7
    sure = sp.how_many(1.0, n_hidden=3, relative=0.01)
    assert np.isnan(sure.limit)
    assert sure.proved >= sure.known >= 3
    assert np.isinf(sp.how_many(0.05, n_hidden=30, relative=0.9).proved)
    assert "100000+" in str(sp.how_many(0.05, n_hidden=2000, relative=0.9))


def test_pairs_fit_at_their_loss_and_searches_stay_above_the_bound():
    p = 0.1
    pairs = sp.how_many(p, n_hidden=8, loss=p * p / 6.0 * 1.0001)
    assert pairs.known >= 16
    below = sp.how_many(p, n_hidden=8, loss=0.8 * float(skew_pair_loss(p)))
    assert below.known < 16
    # The best models that a search finds do not refute what is proved.
    best = sp.best(sp.Features(5, p), 2, starts=20)
    assert sp.how_many(p, n_hidden=2, loss=best.loss).proved >= 5
    assert sp.how_many(p, n_features=5, loss=best.loss).proved <= 2
    assert sp.how_many(p, n_hidden=2, loss=best.loss * (1.0 + 1e-6)).known >= 5


def test_scale_importance_and_the_law_s_own_size_do_not_matter():
    units = sp.Features(3, 0.07, scale=2.0, importance=3.0)
    asked = (0.07, {"loss": 0.002}), (units, {"loss": 12 * 0.002}), (0.07, {"relative": 0.002 * 3.0 / 0.07})
    frames = (sp.how_many(law, n_hidden=5, **allowed).to_frame() for law, allowed in asked)
    plain, *others = (frame["n_features"].tolist() for frame in frames)
    assert others == [plain, plain]


def test_the_stored_model_with_the_fewest_neurons_is_named():
    law = sp.Features(6, 0.1)
    stored = (entry for entry in atlas.entries(tied=True) if entry.law == law and entry.loss <= 0.002)
    enough = {entry.n_hidden for entry in stored}
    assert len(enough) > 1
    rows = sp.how_many(law, n_features=6, loss=0.002).to_frame()
    (row,) = rows[rows["model"] == "best model found, tied"].itertuples()
    assert row.n_hidden == min(enough)
