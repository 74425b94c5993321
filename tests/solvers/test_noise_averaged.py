"""The noise-averaged loss against sums over all patterns and mpmath; descent on it against its flow."""

import itertools

import mpmath as mp
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


def points(noise, std):
    if noise == "bipolar":
        return [(-std, 0.5), (std, 0.5)]
    ratio = KURTOSIS[noise] + 3
    c = std * ratio**0.5
    return [(-c, 0.5 / ratio), (0.0, 1 - 1 / ratio), (c, 0.5 / ratio)]


def over_all_patterns(W, noise, std):
    """Gradient, summed over every pattern of noise."""
    G = np.zeros_like(W)
    for pattern in itertools.product(points(noise, std), repeat=W.shape[1]):
        xi, share = np.array([x for x, _ in pattern]), np.prod([p for _, p in pattern])
        H = W + xi
        A = H @ W.T
        D = 2 * (np.maximum(A, 0) - np.eye(len(W))) * (A > 0)
        G += share * (D.T @ H + D @ W)
    return G


# --- The gradient -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "m"), [("bipolar", 9), ("bipolar", 1), ("three-point", 5)])
def test_points_agree_with_the_sum_over_all_patterns(noise, m):
    W = weights(4, m, seed=m)
    W[0, m // 2] = 0.0
    W[2] = 0.0
    for std in (0.05, 0.4, 3.0):
        scale = (1 + np.sum(W**2, axis=1).max() + std * np.abs(W).sum(axis=1).max()) ** 2
        error = np.abs(gradient(W, noise, std) - over_all_patterns(W, noise, std))
        assert error.max() <= 200 * EPS * scale


def exact_slopes(g, s, own):
    """E f'(g + s Z) and E f'(g + s Z) Z, with 30 digits; f is ReLU^2, or (ReLU - 1)^2 if `own`."""
    with mp.workdps(30):
        g, s = mp.mpf(float(g)), mp.mpf(float(s))
        low = max(-g / s, mp.mpf(-13))  # beyond 13 the normal density is below 1e-37
        if low > 13:
            return mp.mpf(0), mp.mpf(0)
        cuts = [low, *(mp.mpf(x) for x in (-6, 0, 6, 13) if x > low)]

        def slope(z):  # both integrands at once
            return 2 * (g + s * z - own) * mp.npdf(z) * mp.mpc(1, z)

        both = mp.quad(slope, cuts, method="gauss-legendre")
        return both.real, both.imag


@pytest.mark.parametrize("std", [1e-3, 0.05, 0.4, 2.0])
def test_normal_noise_agrees_with_quadrature(std):
    for overlap in (-1.0, -0.3, 0.0, 1e-6, 0.2, 1.0):
        assert_normal_gradient(overlap, std)


def assert_normal_gradient(overlap, std):
    # W_j.xi is |W_j| std Z, of which xi along W_j is std Z: so E f' xi is W_j/|W_j| std E f' Z.
    W = np.array([[1.0, 0.0], [overlap, 0.7]])
    exact = np.zeros((2, 2))
    for i, j in np.ndindex(2, 2):
        length = np.linalg.norm(W[j])
        slope, along = exact_slopes(W[i] @ W[j], std * length, i == j)
        exact[i] += float(slope) * W[j]
        exact[j] += float(slope) * W[i] + float(std * along / length) * W[j]
    # Terms up to some 4 times these are added up, and the variance is a difference of parts of size std.
    scale = np.sum(W**2) ** 1.5 + np.abs(W).sum() * (1 + std) ** 2
    np.testing.assert_allclose(gradient(W, "normal", std), exact, rtol=0, atol=8 * EPS * scale)


@pytest.mark.parametrize("noise", NOISES)
def test_it_is_made_of_the_means_of_each_output(noise):
    # Normal noise and noise on points take shorter ways to the same.
    for std in (0.1, 1.0):
        W, total = weights(4, 6), 0.0
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


def test_without_noise_it_is_that_of_the_printed_loss():
    W = weights(4, 6)
    G = W @ W.T
    off = np.maximum(G - np.diag(np.diag(G)), 0)
    slope = 4 * off @ W - 4 * (1 - np.diag(G))[:, None] * W
    for noise in SOLVED:
        np.testing.assert_allclose(gradient(W, noise, 0.0), slope, rtol=0, atol=1e-14)


def test_many_weights_agree_with_samples():
    W = weights(3, 34)
    H = W + 0.5 * np.random.default_rng(0).choice([-1.0, 1.0], size=(20_000, 1, 34))
    A = H @ W.T
    D = 2 * (np.maximum(A, 0) - np.eye(3)) * (A > 0)
    samples = D.swapaxes(-1, -2) @ H + D @ W
    error = samples.std(axis=0) / np.sqrt(len(samples))
    z = (samples.mean(axis=0) - gradient(W, "bipolar", 0.5)) / error
    assert np.abs(z).max() < 5.0  # 102 entries: one false alarm in 17,000


def test_three_points_without_a_middle_are_bipolar():
    W = weights(4, 7)
    three = noise_averaged_gradient(W, "three-point", 0.3, excess_kurtosis=-2.0)
    np.testing.assert_array_equal(three, gradient(W, "bipolar", 0.3))


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
