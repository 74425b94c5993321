"""What the flow returns, odd input and failures; two encodings on one neuron; separate decoders."""

import math

import numpy as np
import pytest

from superposition.solvers.collisions import collide, flow, flow_untied, owners
from superposition.solvers.results import Status
from superposition.theory import collisions as theory

from ..oracles import differences

# The error at any time is 3 to 9 times `rtol` in the flows measured; two encodings that part add to it.
ERRORS = 30


def normal_weights(seed, n, m, scale=0.9):
    return np.random.default_rng(seed).normal(scale=scale / np.sqrt(m), size=(n, m))


def source_loss(W, lam):
    """Lecomte et al.'s loss in section 2.3, with their lambda."""
    G = np.maximum(W @ W.T, 0)
    return np.sum((G - np.eye(len(W))) ** 2) + lam * np.abs(W).sum()


# --- Many runs, odd input, failures ------------------------------------------------------------------------


def test_many_initialisations_are_single_ones():
    W0 = np.stack([normal_weights(seed, 4, 7) for seed in range(5)])
    before = W0.copy()
    together, shared = (flow(W0, 0.03, [1, 30], workers=workers) for workers in (1, 3))
    np.testing.assert_array_equal(W0, before)
    assert (together.nonzeros.shape, together.polysemantic.shape) == ((5, 2, 4), (5, 2))
    np.testing.assert_array_equal(together.W, shared.W)
    for i, w0 in enumerate(W0):
        alone = flow(w0, 0.03, [1, 30])
        np.testing.assert_array_equal(together.W[i], alone.W)
        np.testing.assert_array_equal(together.l1_norm[i], alone.l1_norm)
        assert together.steps[i] == alone.steps


def test_summaries_are_those_of_the_weights():
    W0 = normal_weights(1, 5, 9)
    result = flow(W0, 0.02, [0.0, 4.0, 4.0])
    np.testing.assert_allclose(result.l1_norm[0], np.abs(W0).sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(result.l2_norm[-1], np.linalg.norm(result.W, axis=1), rtol=1e-14)
    total = [source_loss(W, 0.08) / 4 for W in (W0, result.W, result.W)]
    np.testing.assert_allclose(result.total, total, rtol=1e-13)
    np.testing.assert_array_equal(result.l1_norm[1], result.l1_norm[2])


def test_all_weights_may_die():
    result = flow(normal_weights(0, 3, 50), 0.6, [0.0, 1.0, 1e9])
    assert not result.W.any()
    assert "lam is too large" in result.message
    assert result.steps < 300
    np.testing.assert_array_equal(result.nonzeros[-1], 0)


def test_a_step_limit_is_told_not_raised():
    result = flow(normal_weights(0, 3, 5), 0.02, [0.0, 1.0, 500.0], steps=30)
    assert result.status is Status.STEPS
    assert 1 < result.t_end < 500
    assert result.message == Status.STEPS.value
    assert np.isnan(result.total[-1])
    assert result.polysemantic[-1] == -1
    assert np.isfinite(result.W).all()


def test_weights_too_large_for_any_step_are_told():
    result = flow(np.full((2, 2), 1e120), 0.1, 1.0)  # the fourth power overflows
    assert (result.status, result.t_end, result.steps) == (Status.DIVERGED, 0.0, 0)
    np.testing.assert_array_equal(result.W, np.full((2, 2), 1e120))


def test_extreme_sizes():
    for scale in (0.0, 1e-200, 1e3):
        result = flow(scale * normal_weights(0, 2, 3), 0.01, 50.0)
        assert result.status is Status.REACHED
        assert np.isfinite(result.W).all()
        assert bool(result.W.any()) == (scale > 1)


def test_what_rests_is_not_followed():
    W0 = normal_weights(3, 3, 5)
    for lam in (0.0, 0.02):
        late, later = flow(W0, lam, 1e5), flow(W0, lam, [1e5, 1e300])
        assert (later.status, later.t_end) == (Status.REACHED, 1e300)
        assert later.steps < 100_000
        np.testing.assert_allclose(later.W, late.W, rtol=0, atol=1e-14)


def test_owners_and_polysemantic_neurons_at_the_start():
    W = np.array([[0.9, 0.0, 0.0], [-0.8, 0.1, 0.0], [0.1, 0.2, 0.3]])
    neuron, sign = owners(W)
    assert neuron.tolist() == [0, 0, -1]
    assert sign.tolist() == [1, -1, 0]
    assert flow(np.stack([W, W.T]), 0.1, 0.0).polysemantic[:, 0].tolist() == [1, 0]
    assert flow(W, 0.1, 0.0, threshold=0.85).polysemantic[0] == 0


# --- One neuron --------------------------------------------------------------------------------------------


def test_collisions_end_as_the_flow_does():
    lam = 0.02
    for w1, w2, winner in ((0.5, 0.4, 0), (-0.3, -0.6, 1), (0.5, -0.1, 2), (0.0, 0.4, 1)):
        result, W0 = collide(w1, w2, lam), [[w1], [w2]]
        assert result.winner == winner
        W = flow(W0, lam, 600.0, tol=1e-8).W[:, 0]
        np.testing.assert_array_equal(W != 0, np.isinf(result.drop_times))
        for w in W[W != 0]:
            assert abs(w) == pytest.approx(theory.resting_weights(lam)[0], abs=ERRORS * 1e-8)
        for drop in result.drop_times[np.isfinite(result.drop_times) & (result.drop_times > 0)]:
            around = flow(W0, lam, [drop * (1 - 1e-5), drop * (1 + 1e-5)], tol=1e-8).nonzeros
            assert around[0].sum() == around[1].sum() + 1


def test_malign_collisions_take_a_time_of_order_one_over_lam():
    for ratio in (0.3, 0.9):
        for lam in (1e-3, 1e-5):
            drop = collide(0.7, 0.7 * ratio, lam).drop_times[1]
            # The asymptotic formula leaves out the first relaxation and lam's own size: order lam.
            assert lam * drop == pytest.approx(theory.shared_drop_time(ratio), rel=20 * lam)


def test_collisions_without_a_winner():
    assert collide(0.5, 0.5, 0.01).winner == 2  # an exact tie
    assert collide(0.5, 0.3, 0.0).winner == 2  # no l1 force: the ratio stays
    assert collide(0.5, 0.3, 0.39).winner == -1
    assert collide(0.0, 0.0, 0.01).kind == "none"
    assert collide(theory.resting_weights(0.1)[1] * 0.999, -0.5, 0.1).winner == 1


# --- Untied ------------------------------------------------------------------------------------------------


def test_tied_starts_stay_tied():
    W0, lam, t = normal_weights(5, 4, 6), 0.02, [3.0, 40.0]
    untied = flow_untied(W0, W0, lam, t, decoder_lam=lam)
    tied = flow(W0, lam, t)
    np.testing.assert_allclose(untied.W, untied.W_out, atol=1e-12)
    np.testing.assert_allclose(untied.W, tied.W, atol=2 * ERRORS * 1e-6)
    np.testing.assert_allclose(untied.total, 2 * tied.total, rtol=1e-4)


def untied_source_loss(A, D, Q, lam, decoder_lam, decay):
    hidden = Q @ A
    error = np.sum((np.maximum(hidden @ D.T, 0) - np.eye(len(D))) ** 2)
    l1 = lam * np.abs(hidden).sum() + decoder_lam * np.abs(D).sum()
    return error + l1 + decay * (np.sum(A**2) + np.sum(D**2))


def test_untied_velocity_is_half_of_the_gradient_for_any_orthonormal_inputs():
    rng = np.random.default_rng(3)
    A, D = rng.normal(scale=0.5, size=(2, 4, 5))
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0][:3]  # three orthonormal inputs in four dimensions
    D, h = D[:3], 1e-4
    strengths = 0.04, 0.02, 0.03
    result = flow_untied(A, D, 0.02, [0.0, h], decoder_lam=0.01, weight_decay=0.03, inputs=Q)
    # The same loss is `total`, where the encoder has nothing that no input reaches.
    loss = untied_source_loss(Q.T @ Q @ A, D, Q, *strengths)
    assert result.total[0] == pytest.approx(loss / 2, rel=1e-13, abs=0)
    for moved, start, place in ((result.W, A, 0), (result.W_out, D, 1)):

        def loss(x, place=place):
            return untied_source_loss(*((A, x) if place else (x, D)), Q, *strengths)

        slope = differences(loss, start, 1e-6)
        if place == 0:  # weight decay acts on encodings: what no input reaches is left alone
            slope -= 2 * strengths[2] * (A - Q.T @ Q @ A)
        # The curvature times h.
        assert (moved - start) / h == pytest.approx(-slope / 2, abs=3e-3)


def test_features_with_a_negative_response_do_not_learn():
    E0 = np.array([[0.6, 0.2], [0.3, -0.5]])
    D0 = np.array([[-0.5, 0.1], [0.2, -0.4]])  # the first feature is read out with the wrong sign
    result = flow_untied(E0, D0, 0.01, [0.0, 300.0])
    assert result.response[0, 0] < 0 < result.response[0, 1]
    assert result.nonzeros[-1].tolist() == [0, 1]
    assert math.isnan(result.cosine[-1, 0])
    assert result.cosine[-1, 1] > 0.9  # not 1: the decoder feels no l1 force
    assert np.all(np.diff(result.total) < 0)


def test_l1_on_activations_alone_keeps_moving_length_into_the_decoder():
    W0 = normal_weights(5, 3, 12)
    for decay, kept in ((0.0, False), (0.02, True)):
        result = flow_untied(W0, W0, 0.01, [100.0, 2000.0], weight_decay=decay, tol=1e-5)
        ratio = result.l2_norm / result.out_norm
        assert np.all(ratio[1] < 0.5) == (not kept)
