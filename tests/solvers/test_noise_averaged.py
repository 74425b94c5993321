"""The noise-averaged loss against sums over all patterns and mpmath; the flow against its limits."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superposition.solvers import collisions
from superposition.solvers.noise import averaged, descend_averaged, flow
from superposition.solvers.noise.stuck import random_simplexes, shape_rate
from superposition.solvers.results import Status
from superposition.theory.noise import NOISES, noise_averaged_gradient, noise_averaged_loss

EPS = np.finfo(float).eps
KURTOSIS = {"three-point": 1.5}
SOLVED = ("bipolar", "normal", "three-point")  # by kernels


def extra(noise):
    return {"excess_kurtosis": KURTOSIS[noise]} if noise in KURTOSIS else {}


def weights(n, m, seed=0):
    return np.random.default_rng(seed).normal(scale=m**-0.5, size=(n, m))


def gradient(W, noise, std):
    return averaged.gradient_for(noise, std, extra(noise).get("excess_kurtosis"), W.shape[1])(W)


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


@pytest.mark.parametrize("std", [0.05, 0.4, 3.0])
@pytest.mark.parametrize(("noise", "m"), [("bipolar", 9), ("bipolar", 1), ("three-point", 5)])
def test_points_agree_with_the_sum_over_all_patterns(noise, m, std):
    W = weights(4, m, seed=m)
    W[0, m // 2] = 0.0
    W[2] = 0.0
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
@pytest.mark.parametrize("overlap", [-1.0, -0.3, 0.0, 1e-6, 0.2, 1.0])
def test_normal_noise_agrees_with_quadrature(overlap, std):
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
def test_it_is_the_gradient_of_theory(noise):
    # Normal noise goes another way there, noise on points through other units; the rest is the same.
    for std in (0.0, 0.1, 1.0):
        W = weights(4, 6)
        expected = noise_averaged_gradient(W, noise, std, **extra(noise))
        np.testing.assert_allclose(gradient(W, noise, std), expected, rtol=0, atol=1e-13)


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


@given(st.integers(0, 2**32), st.sampled_from(SOLVED), st.floats(0, 2))
def test_symmetries(seed, noise, std):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(3, 4))
    G = gradient(W, noise, std)
    order, signs, rows = rng.permutation(4), rng.choice([-1, 1], 4), rng.permutation(3)
    scale = 1e-13 * (1 + np.abs(W).max() + std) ** 3
    np.testing.assert_allclose(gradient(W[:, order] * signs, noise, std), G[:, order] * signs, atol=scale)
    np.testing.assert_allclose(gradient(W[rows], noise, std), G[rows], atol=scale)
    if noise == "normal":
        Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        np.testing.assert_allclose(gradient(W @ Q, noise, std), G @ Q, atol=scale)


def test_three_points_without_a_middle_are_bipolar():
    W = weights(4, 7)
    three = averaged.gradient_for("three-point", 0.3, -2.0, 7)(W)
    np.testing.assert_array_equal(three, gradient(W, "bipolar", 0.3))


# --- Descent and flow -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", SOLVED)
def test_descent_follows_the_gradient(noise):
    W0 = np.array([weights(3, 5, seed) for seed in (0, 1)])
    kept = W0.copy()
    result = descend_averaged(W0, noise, 0.3, 0.05, 20, record=[0, 20], keep_weights=True, **extra(noise))
    W = W0.copy()
    for _ in range(20):
        W -= 0.05 * np.array([gradient(one, noise, 0.3) for one in W])
    np.testing.assert_array_equal(W0, kept)
    np.testing.assert_allclose(result.W, W, rtol=1e-13)
    np.testing.assert_array_equal(result.path, np.stack([W0, result.W], axis=1))
    np.testing.assert_allclose(result.fourth_norm[:, 1], (W**4).sum(axis=-1))
    np.testing.assert_allclose(result.l2_norm[:, 1], np.linalg.norm(W, axis=-1))
    for run in range(2):
        assert result.total[run, 1] == pytest.approx(noise_averaged_loss(W[run], noise, 0.0, **extra(noise)))
        alone = descend_averaged(W0[run], noise, 0.3, 0.05, 20, **extra(noise))
        np.testing.assert_array_equal(alone.W, result.W[run])
        assert alone.path.shape == (0, 3, 5)


def test_small_steps_follow_the_flow_to_first_order():
    W0 = weights(4, 6)
    end = flow(W0, "normal", 0.3, 4.0, tol=1e-10).W
    errors = []
    for steps in (250, 500, 1000):  # the flow's time is 4 learning_rate steps
        errors.append(np.abs(descend_averaged(W0, "normal", 0.3, 1 / steps, steps).W - end).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 1, atol=0.1)


def test_flow_without_noise_is_that_of_the_collisions():
    W0 = weights(6, 8)
    result = flow(W0, "bipolar", 0.0, [0.0, 2.0, 20.0], tol=1e-9)
    expected = collisions.flow(W0, 0.0, [0.0, 2.0, 20.0], tol=1e-9)
    np.testing.assert_allclose(result.W, expected.W, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.l2_norm, expected.l2_norm, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.total, 4 * expected.total, rtol=0, atol=1e-5)


def test_a_flow_of_no_time_stays():
    W0 = weights(2, 3)
    np.testing.assert_array_equal(flow(W0, "normal", 0.1, 0.0).path, W0[None])
    np.testing.assert_array_equal(flow(W0, "normal", 0.1, [0.0, 0.0, 1.0]).path[:2], [W0, W0])


@pytest.mark.parametrize("noise", SOLVED)
def test_flow_goes_downhill(noise):
    W0 = np.array([weights(4, 5, seed) for seed in (0, 1)])
    result = flow(W0, noise, 0.3, [0, 1, 3, 10, 30], **extra(noise))
    assert result.status.tolist() == [Status.REACHED, Status.REACHED]
    assert result.reached.tolist() == [30, 30]
    assert np.all(np.diff(result.total, axis=1) < 0)
    np.testing.assert_array_equal(result.path[:, 0], W0)
    np.testing.assert_array_equal(result.path[:, -1], result.W)
    assert result.total[1, 2] == noise_averaged_loss(result.path[1, 2], noise, 0.3, **extra(noise))
    np.testing.assert_allclose(result.fourth_norm, (result.path**4).sum(axis=-1))
    alone = flow(W0[1], noise, 0.3, [0, 1, 3, 10, 30], **extra(noise))
    np.testing.assert_array_equal(alone.W, result.W[1])


def test_the_mean_effect_alone_gathers_weights_under_bipolar_noise_and_not_under_normal():
    W0 = weights(6, 8)
    ends = {noise: flow(W0, noise, 0.3, [100.0, 300.0]) for noise in ("bipolar", "normal")}
    assert ends["bipolar"].fourth_norm[-1].mean() > 2 * ends["normal"].fourth_norm[-1].mean()
    # Normal noise has come to rest in a minimum that turns with the hidden space.
    np.testing.assert_allclose(ends["normal"].path[1], ends["normal"].path[0], rtol=0, atol=1e-4)


def test_uniform_noise_has_a_flow_too():
    W0 = weights(3, 3)
    result = flow(W0, "uniform", 0.3, [0.0, 1.0], tol=1e-3)
    assert result.status is Status.REACHED
    assert result.total[1] < result.total[0]


def test_what_goes_wrong_is_a_status():
    result = descend_averaged(10 * weights(3, 4), "normal", 0.1, 1.0, 100, record=[0, 50])
    assert result.status is Status.DIVERGED
    assert result.steps < 50
    assert np.isfinite(result.W).all()
    assert np.isfinite(result.total[0])
    assert np.isnan(result.fourth_norm[1]).all()
    assert result.message == Status.DIVERGED.value
    for rate, std in ((1e300, 0.1), (0.1, 1e30)):
        result = descend_averaged(np.full((2, 3), 1e29), "bipolar", std, rate, 3, record=[0, 3])
        assert (result.steps, result.status) == (0, Status.DIVERGED)
        assert np.isfinite(result.total[0])
    stiff = flow(weights(2, 3), "normal", 1e9, [0.0, 1.0], steps=100)
    assert (stiff.status, stiff.reached) == (Status.STEPS, 0.0)
    assert 0 < stiff.steps <= 100
    np.testing.assert_array_equal(stiff.W, weights(2, 3))
    assert np.isfinite(stiff.path[0]).all()
    assert np.isnan(stiff.path[1]).all()
    assert stiff.message == Status.STEPS.value


@pytest.mark.parametrize("call", [descend_averaged, flow])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W0": np.full((2, 3), np.inf)}, r"`W0` must lie in .*; got inf"),
        ({"W0": [[1e31]]}, r"`W0` must lie in .*; got 1e\+31"),
        ({"W0": np.ones(3)}, r"`W0` must have shape .*; got \(3,\)"),
        ({"W0": np.ones((0, 3))}, r"`W0` must have shape .*; got \(0, 3\)"),
        ({"noise": "cauchy"}, "`noise` must be one of .*; got 'cauchy'"),
        ({"noise_std": -1.0}, r"`noise_std` must lie in .*; got -1"),
        ({"noise_std": 1e31}, r"`noise_std` must lie in \[0, 1e\+30\]; got 1e\+31"),
        ({"noise_std": [0.1]}, r"`noise_std` must be one number; got shape \(1,\)"),
        ({"excess_kurtosis": 0.0}, "`excess_kurtosis` must be given .*; got 0.0 with 'normal'"),
        ({"noise": "three-point"}, "`excess_kurtosis` must be given .*; got None"),
        ({"noise": "three-point", "excess_kurtosis": -3.0}, "`excess_kurtosis` must lie in .*; got -3"),
        ({"noise": "three-point", "excess_kurtosis": [1.0]}, r"`excess_kurtosis` must be one .* \(1,\)"),
    ],
)
def test_rejects(call, change, message):
    given = {"W0": np.eye(2), "noise": "normal", "noise_std": 0.1} | change
    own = {"learning_rate": 0.1, "steps": 5} if call is descend_averaged else {"t": 1.0}
    with pytest.raises(ValueError, match=message):
        call(**given, **own)


@pytest.mark.parametrize(
    ("call", "change", "message"),
    [
        (descend_averaged, {"learning_rate": 0.0}, r"`learning_rate` must lie in \(0, inf\); got 0"),
        (
            descend_averaged,
            {"steps": -1},
            "`steps` must be an integer of at least 0 and at most 100000000; got -1",
        ),
        (descend_averaged, {"record": [2, 2]}, r"`record` must be increasing; got \[2, 2\]"),
        (flow, {"t": -1.0}, r"`t` must lie in \[0, 1e\+08\]; got -1"),
        (flow, {"t": [0.0, 1e300]}, r"`t` must lie in \[0, 1e\+08\]; got 1e\+300"),
        (flow, {"t": [1.0, 0.5]}, "`t` must be sorted; got 0.5 after a larger one"),
        (flow, {"steps": 0}, "`steps` must be an integer of at least 1; got 0"),
        (flow, {"tol": 0.0}, r"`tol` must lie in \[1e-13, 0.01\]; got 0"),
    ],
)
def test_rejects_of_one_function(call, change, message):
    given = {"learning_rate": 0.1, "steps": 5} if call is descend_averaged else {"t": 1.0}
    with pytest.raises(ValueError, match=message):
        call(np.eye(2), "normal", 0.1, **(given | change))


def test_simplexes_are_regular_and_unit():
    for unit in random_simplexes(5, 7, 3, np.random.default_rng(35)):
        np.testing.assert_allclose(unit @ unit.T, 1.25 * np.eye(5) - 0.25, atol=1e-14)


def test_rate_at_a_simplex_by_a_step_of_descent():
    """A short step down the noise-averaged loss changes |W|_4^4/|W|_2^4 by the rate times its length."""
    (W,) = random_simplexes(4, 6, 1, np.random.default_rng(35))
    short = 1e-6

    def mean_shape(W):
        return np.mean(np.sum(W**4, axis=1) / np.sum(W**2, axis=1) ** 2)

    moved = W - short * noise_averaged_gradient(W, "bipolar", 0.3)
    assert shape_rate(W, 0.3) == pytest.approx((mean_shape(moved) - mean_shape(W)) / short, rel=1e-4)
