"""Counts of collisions, split neurons and their features, neurons of features that move."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from superposition.solvers.collisions import collision_counts, displaced_polysemantic, outcomes, split_neurons
from superposition.solvers.collisions.counts import agreement, printed_loss
from superposition.solvers.collisions.displaced import fitted_preference
from superposition.theory import collisions as theory


@given(
    arrays.arrays(
        float,
        st.tuples(st.integers(1, 5), st.integers(1, 4)),
        elements=st.sampled_from([-1.0, -0.6, -0.01, 0.0, 0.3, 0.7, 1.0]),
    )
)
def test_counts_agree_with_counting_by_hand(W):
    found = collision_counts(W)
    columns = [[w for w in column if abs(w) > 0.5] for column in W.T]
    signs = [a * b for column in columns for a, b in itertools.combinations(column, 2)]
    assert found["polysemantic"] == sum(len(column) >= 2 for column in columns)
    assert found["benign"] == sum(s < 0 for s in signs)
    assert found["malign"] == sum(s > 0 for s in signs)
    assert found["dead"] == sum(np.sum(row**2) < 0.25 for row in W)
    # The mean of at most 20 small numbers: a few roundings.
    assert found["nonzeros"] == pytest.approx(
        np.mean([np.sum(np.abs(row) > 0.02) for row in W]), rel=1e-14, abs=0
    )
    assert found["l1_norm"] == pytest.approx(np.mean([np.sum(np.abs(row)) for row in W]), rel=1e-14, abs=0)


def test_counts_of_broken_runs_are_nan():
    W = np.stack([np.eye(3), np.eye(3)])
    W[1, 0, 0] = np.nan
    assert np.isnan(collision_counts(W)["polysemantic"]).tolist() == [False, True]


def test_encoders_and_decoders_that_agree_in_direction():
    E = np.array([[3.0, 4.0], [0.0, 1.0], [0.1, 0.0]])  # the last feature is not learned
    D = np.array([[6.0, 8.0], [0.0, 1.0], [0.0, 0.1]])
    # |E - D|/|D| of the first two is 5/10 and 0, |D|/|E| is 2 and 1.
    want = {"mismatch": 0.25, "cosine": 1.0, "norm_ratio": 1.5}
    assert agreement(E, D) == pytest.approx(want)
    E, D = np.array([[[0.5, 0.0]]]), np.array([[[1.0, -2.0]]])
    losses = [printed_loss(E, D, np.array([0.1]), both=both)[0] for both in (False, True)]
    assert losses == pytest.approx([0.25 + 0.05, 0.25 + 0.35])


def test_a_preference_is_fitted_to_its_count():
    count = displaced_polysemantic(40, 60, stayed=0.3, preference=2.5)
    assert fitted_preference(40, 60, 0.3, count) == pytest.approx(2.5, rel=1e-9)
    assert np.isnan(fitted_preference(40, 60, 0.3, 20.0))


@pytest.mark.parametrize("protocol", ["tied", "untied"])
def test_a_split_without_noise_keeps_the_function(protocol):
    W = np.array([[1.0, 0, 0, 0], [-0.9, 0, 0, 0], [0, 0.8, 0, 0.3], [0, 0.7, 0, 0], [0, -0.9, 0, 0]])
    kept = W.copy()
    found = split_neurons(W, 0.0, protocol=protocol)
    np.testing.assert_array_equal(W, kept)
    # A few roundings.
    np.testing.assert_allclose(found.decoder @ found.encoder.T, W @ W.T, rtol=0, atol=1e-15)
    # The neuron with three features is left alone.
    assert found.pairs.tolist() == [[0, 1]]
    assert found.copies.tolist() == [[0, 4]]
    assert (found.encoder is found.decoder) == (protocol == "tied")
    if protocol == "untied":
        np.testing.assert_array_equal(found.encoder[:, [0, 4]], W[:, [0, 0]])
        np.testing.assert_array_equal(found.decoder[:, [0, 4]], W[:, [0, 0]] / 2)
    assert split_neurons(np.eye(3), 0.1).pairs.shape == (0, 2)


@pytest.mark.parametrize("rho", [0.0, 0.6, 1.0])
def test_the_noise_of_a_split_has_the_stated_law(rho):
    """Three tests at 1e-4."""
    W, rng = np.zeros((4, 200)), np.random.default_rng(0)
    W[0], W[1] = 1.0, -1.0
    found = [split_neurons(W, 0.1, correlation=rho, rng=rng).encoder for _ in range(10)]
    noise = np.hstack([(one - np.hstack([W, W]) * np.sqrt(0.5)) / 0.1 for one in found])
    assert stats.kstest(noise[2], "norm").pvalue > 1e-4
    if rho < 1:
        # Fisher's transform of the correlation of 4000 pairs is normal with s.d. 1/sqrt(3997).
        gap = np.arctanh(np.corrcoef(noise[0], noise[1])[0, 1]) - np.arctanh(rho)
        assert abs(gap) * np.sqrt(3997) < stats.norm.isf(0.5e-4)
    else:
        np.testing.assert_allclose(noise[0], noise[1], rtol=0, atol=1e-13)
    between = np.arctanh(np.corrcoef(noise[0, ::400], noise[0, 200::400])[0, 1])
    assert abs(between) * np.sqrt(7) < stats.norm.isf(0.5e-4)


def test_outcomes():
    for first, second, outcome in (
        ([1, 0], [0, -1], "apart"), ([0, 1], [0.01, -1], "together"), ([0.7, 0.7], [0, -1], "undecided"),
        ([0, 0], [0, -1], "lost"), ([np.nan, np.nan], [0, -1], "lost"),
    ):  # fmt: skip
        found = outcomes([[9, *first], [9, *second]], [[0, 1]], [[1, 2]])
        assert {name for name, count in found.items() if count} == {outcome}


def test_a_huge_preference_fills_every_neuron_in_use_first():
    # Of 8 features 3.2 stayed, in pairs or not; the others join until no single one is left.
    most, more = (displaced_polysemantic(8, 16, stayed=0.4, preference=one) for one in (1e308, 1e30))
    assert most == pytest.approx(more, rel=1e-13, abs=0)


def test_displaced_without_preference_is_the_exclusive_count():
    for (n, m), stayed in itertools.product([(32, 32), (40, 100), (60, 30)], (0.0, 0.5, 1.0)):
        got = displaced_polysemantic(n, m, stayed=stayed, preference=1.0)
        assert got == pytest.approx(theory.expected_polysemantic(n, m), rel=1e-12)
        lower = displaced_polysemantic(n, m, stayed=stayed, preference=0.5)
        assert lower <= got * (1 + 1e-12)
        # n - m at least, and with no liking for company no more than that when all move.
        alone = displaced_polysemantic(n, m, stayed=0.0, preference=0.0)
        assert alone == pytest.approx(max(n - m, 0), abs=1e-9)


def test_displaced_share_neurons_where_no_empty_one_is_left():
    # m neurons hold n features in at least n - m pairs, also where the features that move avoid company.
    for n, m, stayed in ((60, 33, 0.45), (7, 4, 0.1), (9, 5, 0.33)):
        assert displaced_polysemantic(n, m, stayed=stayed, preference=0.0) >= (n - m) * (1 - 1e-12)
