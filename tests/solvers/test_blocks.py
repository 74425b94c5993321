"""The best codes of blocks: known codes among them, slopes, and matrices of finite size."""

import numpy as np
import pytest

from superposition.solvers import rug
from superposition.solvers.minimise import minimise
from superposition.solvers.unequal import block_optimum, blocks, realise_blocks
from superposition.solvers.unequal.blocks import _Problem
from superposition.theory import unequal
from superposition.theory.codes import antipodal_loss, antipodal_optimum, relu_bound
from superposition.theory.features import Features, exclusive, parent_child, synchronous

from ..oracles import differences

P = 0.1


def _pair(table, strength=1.0):
    return Features(2, P, groups=[unequal.partial_dependence(table, strength)])


def test_one_feature_is_the_rug_where_no_mixture_is_better():
    for p, ratio in ((0.05, 0.25), (0.3, 0.6)):
        found = block_optimum(Features(1, p), ratio)
        best = rug.optimum(p, ratio)
        assert found.loss == pytest.approx(best.loss, rel=1e-12, abs=0)
        (part,) = found.parts
        assert part.coefficients[0, 0] == pytest.approx(best.a, rel=1e-5)
        assert part.noise[0] == pytest.approx(best.a * best.sigma, rel=1e-5)


def test_little_room_drops_features():
    found = block_optimum(Features(1, P), 0.05)
    dropped, kept = found.parts
    assert dropped.ratio == 0
    assert dropped.loss == pytest.approx(P / 3 - P**2 / 4, rel=1e-12, abs=0)
    assert found.loss < rug.optimum(P, 0.05).loss * (1 - 1e-3)
    assert dropped.share * dropped.ratio + kept.share * kept.ratio == pytest.approx(0.05, rel=1e-9)


def test_antipodal_pairs_are_blocks_and_skew_ones_are_better():
    a, b = antipodal_optimum(P)
    even = unequal.block_losses([[a, -a], [-a, a]], b, 0.0, Features(2, P)).per_feature
    np.testing.assert_allclose(even, antipodal_loss(P), rtol=1e-12)
    found = block_optimum(Features(2, P), 0.5, starts=0)
    # 25/162 p^2 as p -> 0, where the proved bound meets it
    assert relu_bound(P, 0.5) < found.loss < 25 / 162 * P**2 < antipodal_loss(P)
    (part,) = found.parts
    assert sorted(-part.coefficients[[0, 1], [1, 0]]) == pytest.approx([1 / 3, 3], rel=0.05)


def test_features_that_exclude_each_other_share_a_direction_and_lose_nothing():
    assert block_optimum(_pair(exclusive([0, 1], P)), 0.5, starts=0).loss < 1e-12


def test_who_shares_a_direction():
    together = block_optimum(_pair(synchronous([0, 1], P)), 0.25, starts=0).parts[-1].coefficients
    apart = block_optimum(_pair(exclusive([0, 1], P), 0.5), 0.25, starts=0).parts[-1].coefficients
    assert together[0, 1] / together[0, 0] == pytest.approx(1, rel=1e-3)
    assert apart[0, 1] / apart[0, 0] == pytest.approx(-1, rel=1e-3)


def test_the_price_is_the_slope_and_the_gap_is_closed():
    low, middle, high = (block_optimum(Features(1, P), ratio) for ratio in (0.48, 0.5, 0.52))
    assert (low.loss - high.loss) / 0.04 == pytest.approx(middle.multiplier, rel=2e-3)  # curvature: (0.02)²
    assert all(abs(one.gap) < 1e-12 and one.status.good for one in (low, middle, high))


def test_at_a_corner_the_price_lies_between_the_slopes_and_the_gap_is_closed():
    """Where all blocks keep one direction exactly, more neurons gain less than fewer lose."""
    below, best, above = (
        block_optimum(_pair(exclusive([0, 1], P), 0.5), at, starts=0) for at in (0.49, 0.5, 0.51)
    )
    (part,) = best.parts
    np.testing.assert_allclose(np.sort(part.capacities), [0, 1], atol=1e-9)
    assert (best.loss - above.loss) / 0.01 <= best.multiplier <= (below.loss - best.loss) / 0.01
    assert abs(best.gap) < 1e-12


def test_the_gradient_is_that_of_the_lagrangian():
    law = Features(3, 0.2, groups=[exclusive([0, 2], 0.2)], importance=[1, 2, 3], scale=[1, 2, 1])
    problem = _Problem(law)
    rng = np.random.default_rng(0)
    x = problem.start(np.eye(3), np.array([0.3, 0.6, 0.9]), rng.normal(size=3), -0.1)
    x += 0.1 * rng.normal(size=x.size) * (np.arange(x.size) > 5)
    _, by = problem.value(x, 0.01)
    assert by == pytest.approx(differences(lambda x: problem.value(x, 0.01)[0], x, 1e-4, order=4), abs=1e-8)


def test_matrices_have_the_capacities_and_the_noise_that_they_were_made_for():
    block = Features(2, scale=[1.0, 3.0], groups=[parent_child(0, [1], P, 0.5)])
    found = block_optimum(block, 0.5, starts=0)
    (part,) = found.parts
    n_blocks = 64
    W_out, W_in, b = realise_blocks(found, block, n_blocks, rng=0)
    law, M = unequal.independent_copies(block, n_blocks), W_out @ W_in
    assert abs(W_out.shape[1] - 64) <= 1
    rounding = 1 / n_blocks  # ranks are whole numbers
    np.testing.assert_allclose(unequal.block_capacities(M, law), [part.capacity] * n_blocks, atol=rounding)
    S = law.covariance()
    for i in (0, 1):
        row = M[i].copy()
        np.testing.assert_allclose(row[:2], part.coefficients[i], rtol=1e-9)
        mean = b[i] + row[2:] @ law.mean[2:]
        assert mean == pytest.approx(part.b[i], rel=1e-9)
        row[:2] = 0
        assert row @ S @ row == pytest.approx(part.noise[i] ** 2, rel=0.1)


def test_codes_that_differ_by_their_rounding_are_one_kind(monkeypatch):
    """Both sides of a ratio on the hull may be one code with its directions turned around."""
    law = Features(2, scale=[1.0, 3.0], groups=[parent_child(0, [1], P, 0.5)])
    best = block_optimum(law, 0.5, starts=0)
    hull = blocks._BlockSearch.hull

    def split_hull(search, ratio, *ends):
        low, _, price = hull(search, ratio, *ends)
        turned = low[2].copy()
        turned[0] += np.pi  # both directions are turned around, and their coefficients t with them
        turned[3:7] *= -1.0
        return (low[0] - 1e-8, low[1], low[2]), (low[0] + 1e-8, low[1], turned), price

    monkeypatch.setattr(blocks._BlockSearch, "hull", split_hull)
    again = block_optimum(law, 0.5, starts=0)
    assert len(again.parts) == 1
    assert again.parts[0].share == 1.0
    assert again.loss == pytest.approx(best.loss, rel=1e-7)


@pytest.mark.slow
def test_pairs_of_synchronous_pairs_are_the_best_small_model_and_their_gap_is_closed():
    # one direction for four features, no noise: the exact loss of a model of four features and one neuron
    pairs = unequal.independent_copies(_pair(synchronous([0, 1], P)), 2)
    small = minimise(4, 1, pairs, tied=False, starts=10)
    best = block_optimum(pairs, 0.25, starts=0)
    # at a corner, where weights grow: searches come near the infimum, and not equally near
    assert best.loss == pytest.approx(small.loss, rel=1e-3)
    assert abs(best.gap) < 1e-8 * best.loss
