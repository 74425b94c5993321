"""The gradient of the noise-averaged loss against means of outputs; descent on it against its flow."""

import numpy as np
import pytest

from superposition.solvers.noise import descend_averaged
from superposition.solvers.results import Status
from superposition.theory.noise import NOISES, noise_averaged_gradient, noise_averaged_loss, relu

EPS = np.finfo(float).eps
KURTOSIS = {"three-point": 1.5}
SOLVED = ("bipolar", "normal", "three-point")  # by kernels


def extra(noise):
    return {"excess_kurtosis": KURTOSIS[noise]} if noise in KURTOSIS else {}


def weights(n, m, seed=0):
    return np.random.default_rng(seed).normal(scale=m**-0.5, size=(n, m))


def gradient(W, noise, std):
    return noise_averaged_gradient(W, noise, std, **extra(noise))


# --- The gradient -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_it_is_made_of_the_means_of_each_output(noise):
    # Normal noise and noise on points take shorter ways to the same.
    for std, m in ((1e-3, 6), (0.1, 1), (0.1, 6), (1.0, 9)):
        W, total = weights(4, m), 0.0
        W[0, m // 2] = W[2] = 0.0
        expected = np.zeros_like(W)
        for k, w in enumerate(W):
            means = relu.relu_moments(W @ w, w, noise, std, **extra(noise))
            total += means.second.sum() - 2 * means.mean[k] + 1
            half_slopes = means.mean - (np.arange(4) == k) * means.on
            expected += 2 * np.outer(half_slopes, w)
            expected[k] += 2 * (half_slopes @ W + means.mean_noise.sum(axis=0) - means.on_noise[k])
        np.testing.assert_allclose(gradient(W, noise, std), expected, rtol=0, atol=1e-13)
        loss = noise_averaged_loss(W, noise, std, **extra(noise))
        assert loss == pytest.approx(total, rel=1e-14, abs=0)


def test_many_weights_agree_with_samples():
    W = weights(3, 34)
    H = W + 0.5 * np.random.default_rng(0).choice([-1.0, 1.0], size=(20_000, 1, 34))
    A = H @ W.T
    D = 2 * (np.maximum(A, 0) - np.eye(3)) * (A > 0)
    samples = D.swapaxes(-1, -2) @ H + D @ W
    error = samples.std(axis=0) / np.sqrt(len(samples))
    z = (samples.mean(axis=0) - gradient(W, "bipolar", 0.5)) / error
    assert np.abs(z).max() < 5.0  # 102 entries: one false alarm in 17,000


# --- Descent -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [*SOLVED, "uniform"])
def test_descent_follows_the_gradient(noise):
    steps = 20 if noise in SOLVED else 3
    W0 = np.array([weights(3, 5, seed) for seed in (0, 1)])
    kept = W0.copy()
    result = descend_averaged(
        W0, noise, 0.3, 0.05, steps, record=[0, steps], keep_weights=True, **extra(noise)
    )
    W = W0.copy()
    for _ in range(steps):
        W -= 0.05 * np.array([gradient(one, noise, 0.3) for one in W])
    np.testing.assert_array_equal(W0, kept)
    np.testing.assert_allclose(result.W, W, rtol=1e-13)
    np.testing.assert_array_equal(result.path, np.stack([W0, result.W], axis=1))
    np.testing.assert_allclose(result.fourth_norm[:, 1], (W**4).sum(axis=-1))
    np.testing.assert_allclose(result.l2_norm[:, 1], np.linalg.norm(W, axis=-1))
    for run in range(2):
        assert result.total[run, 1] == pytest.approx(noise_averaged_loss(W[run], noise, 0.0, **extra(noise)))
        alone = descend_averaged(W0[run], noise, 0.3, 0.05, steps, **extra(noise))
        np.testing.assert_array_equal(alone.W, result.W[run])
        assert alone.path.shape == (0, 3, 5)
        assert (alone.status, alone.t_end) == (Status.REACHED, pytest.approx(4 * 0.05 * steps))


def test_what_goes_wrong_is_a_status():
    result = descend_averaged(10 * weights(3, 4), "normal", 0.1, 1.0, 100, record=[0, 50])
    assert result.status is Status.DIVERGED
    assert result.steps < 50
    assert np.isfinite([*result.W.ravel(), result.total[0]]).all()
    assert np.isnan(result.fourth_norm[1]).all()
    for rate, std in ((1e300, 0.1), (0.1, 1e30)):
        result = descend_averaged(np.full((2, 3), 1e29), "bipolar", std, rate, 3, record=[0, 3])
        assert (result.steps, result.status) == (0, Status.DIVERGED)
        assert np.isfinite(result.total[0])
