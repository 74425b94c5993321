"""Noisy gradient descent against NumPy's own random numbers, and a NumPy loop."""

import numpy as np
import pytest

from superposition.solvers.noise import descend
from superposition.solvers.noise import steps as kernels
from superposition.solvers.noise.steps import KINDS
from superposition.solvers.results import Status
from superposition.theory.noise import noise_averaged_gradient

KURTOSIS = {"three-point": 1.5}


def extra(noise):
    return {"excess_kurtosis": KURTOSIS[noise]} if noise in KURTOSIS else {}


def start(n, m, *runs, seed=0):
    return np.random.default_rng(seed).normal(scale=m**-0.5, size=(*runs, n, m))


def generators(seed, runs):
    """NumPy's generators of the runs."""
    return np.random.default_rng(seed).spawn(runs)


def unit_noise(noise, generator, shape):
    """Noise of variance 1, drawn by NumPy from the same generator."""
    size = int(np.prod(shape))
    if noise == "bipolar":
        words = (generator.random(-(-size // 32)) * 2.0**32).astype(np.int64)
        bits = (words[:, None] >> np.arange(32)) & 1
        return (2.0 * bits.ravel()[:size] - 1.0).reshape(shape)
    if noise == "normal":
        return generator.standard_normal(shape)
    if noise == "laplace":
        return generator.laplace(scale=np.sqrt(0.5), size=shape)
    if noise == "uniform":
        return generator.uniform(-np.sqrt(3), np.sqrt(3), shape)
    ratio = KURTOSIS[noise] + 3
    u = generator.random(shape)
    return np.sqrt(ratio) * np.where(u < 0.5 / ratio, 1.0, np.where(u < 1 / ratio, -1.0, 0.0))


def gradient(W, xi):
    """Gradient of sum_i |ReLU(W (W_i + xi_i)) - e_i|^2 for (..., n, m), by the chain rule on whole arrays."""
    H = W + xi
    A = H @ W.swapaxes(-1, -2)
    D = 2 * (np.maximum(A, 0) - np.eye(W.shape[-2])) * (A > 0)
    return D.swapaxes(-1, -2) @ H + D @ W


# --- Random numbers ---------------------------------------------------------------------------------------


def test_noise_is_that_of_numpy():
    for noise, kind in KINDS.items():
        ours, theirs = (np.random.default_rng(11) for _ in range(2))
        out = np.empty((1, 300_000))  # some 80 of the normal numbers are in the tail, 3000 in a wedge
        kernels.fill_noise(ours, kind, KURTOSIS.get(noise, 0.0), 0.3, out)
        expected = 0.3 * unit_noise(noise, theirs, out.shape)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-15)
        assert ours.random() == theirs.random()


# --- Steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("noise", KINDS)
def test_runs_are_those_of_a_numpy_loop_on_the_same_noise(noise, shared):
    n, m, rate, steps, draws, lam = 5, 7, 0.02, 60, 2, 0.03
    W0 = start(n, m, 3)
    found = descend(
        W0, noise, 0.3, rate, steps, 5, shared_noise=shared, draws=draws, lam=lam, keep_weights=True,
        record=[0, 20, 60], **extra(noise),
    )  # fmt: skip
    for run, generator in enumerate(generators(5, 3)):
        W, path = W0[run].copy(), [W0[run].copy()]
        for _ in range(steps):
            xi = [0.3 * unit_noise(noise, generator, (1 if shared else n, m)) for _ in range(draws)]
            W -= rate * (np.mean([gradient(W, x) for x in xi], axis=0) + lam * np.sign(W))
            path.append(W.copy())
        np.testing.assert_allclose(found.W[run], W, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.path[run], np.array(path)[[0, 20, 60]], rtol=1e-10, atol=1e-11)


def test_summaries():
    W0, given = start(4, 6, 2), ("uniform", 0.2, 0.05)
    result = descend(W0, *given, 30, 1, lam=0.1, record=[0, 7], keep_weights=True)
    W = result.path
    np.testing.assert_allclose(result.t, [0.0, 4 * 0.05 * 7], rtol=1e-15)
    np.testing.assert_allclose(result.t_end, 4 * 0.05 * 30, rtol=1e-15)
    np.testing.assert_allclose(result.fourth_norm, (W**4).sum(axis=-1))
    np.testing.assert_allclose(result.l2_norm, np.linalg.norm(W, axis=-1))
    error = ((np.maximum(W @ W.swapaxes(-1, -2), 0) - np.eye(4)) ** 2).sum(axis=(-1, -2))
    np.testing.assert_allclose(result.total, error + 0.1 * np.abs(W).sum(axis=(-1, -2)))
    np.testing.assert_array_equal(W[:, 1], descend(W0, *given, 7, 1, lam=0.1).W)
    assert result.steps.tolist() == [30, 30]


def test_neurons_counts_what_an_encoding_is_spread_over():
    W0 = np.array([[2.0, 0.0, 0.0, 0.0], [0.3, -0.3, 0.3, 0.3], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(descend(W0, "normal", 0.1, 0.1, 0).neurons, [[1.0, 4.0, np.nan]])


# --- Shared noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("noise", ["bipolar", "normal", "three-point"])
def test_the_mean_step_is_the_averaged_gradient_shared_or_not(noise, shared):
    W0 = start(4, 5, seed=2)
    many = np.broadcast_to(W0, (1000, *W0.shape))
    # 20,000 noise vectors: a run costs far more than one of its draws.
    moves = many - descend(many, noise, 0.3, 1.0, 1, 8, shared_noise=shared, draws=20, **extra(noise)).W
    error = moves.std(axis=0, ddof=1) / np.sqrt(len(moves))
    gaps = [moves.mean(axis=0) - noise_averaged_gradient(W0, noise, s, **extra(noise)) for s in (0.3, 0.0)]
    assert np.abs(gaps[0] / error).max() < 5.0  # 20 entries: one false alarm in 74,000 (Student's t)
    assert np.abs(gaps[1] / error).max() > 10.0  # canary: the loss without noise is another one


# --- Reproducible -----------------------------------------------------------------------------------------


def test_results_do_not_depend_on_threads_or_on_later_runs():
    W0 = start(4, 6, 9)
    full = descend(W0, "laplace", 0.2, 0.05, 50, 1)
    for workers in (1, 3):
        np.testing.assert_array_equal(descend(W0, "laplace", 0.2, 0.05, 50, 1, workers=workers).W, full.W)
    np.testing.assert_array_equal(descend(W0[:4], "laplace", 0.2, 0.05, 50, 1).W, full.W[:4])
    alone = descend(W0[0], "laplace", 0.2, 0.05, 50, np.random.default_rng(1))
    np.testing.assert_array_equal(alone.W, full.W[0])
    np.testing.assert_array_equal(alone.fourth_norm, full.fourth_norm[0])
    assert not np.array_equal(descend(W0, "laplace", 0.2, 0.05, 50, 2).W, full.W)
    same = np.broadcast_to(W0[0], W0.shape)
    assert len(np.unique(descend(same, "laplace", 0.2, 0.05, 50, 1).W[:, 0, 0])) == 9


def test_parameters_of_single_runs():
    W0, more = start(4, 6, 2), {"lam": [0, 0.1], "excess_kurtosis": [-2.0, 4.0]}
    both = descend(W0, "three-point", [0.1, 0.3], [0.02, 0.05], 40, 1, **more)
    first = descend(W0[:1], "three-point", 0.1, 0.02, 40, 1, excess_kurtosis=-2)
    np.testing.assert_array_equal(both.W[0], first.W[0])
    second = descend(W0, "three-point", 0.3, 0.05, 40, 1, lam=0.1, excess_kurtosis=4)
    np.testing.assert_array_equal(both.W[1], second.W[1])


# --- What goes wrong --------------------------------------------------------------------------------------


def test_divergence_is_a_status():
    W0 = start(3, 4, 3)
    result = descend(W0, "normal", [0.1, 0.1, 1e300], [0.02, 5.0, 0.02], 200, 1, record=[0, 100, 200])
    assert result.status.tolist() == [Status.REACHED, Status.DIVERGED, Status.DIVERGED]
    assert np.isfinite(result.W).all()
    assert (result.steps[0], result.steps[2]) == (200, 0)
    assert 0 < result.steps[1] < 100
    np.testing.assert_array_equal(result.W[2], W0[2])
    for summary in (result.fourth_norm, result.l2_norm, result.total, result.neurons):
        assert np.isfinite(summary[0]).all()
        assert np.isfinite(summary[1:, 0]).all()
        assert np.isnan(summary[1:, 1:]).all()
    large = descend(np.full((2, 3), 1e30), "normal", 0.1, 0.1, 5, record=[0, 5])
    assert large.status is Status.DIVERGED
    assert np.isnan(large.fourth_norm).all()
