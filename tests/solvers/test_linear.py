"""Flows of linear autoencoders: against SciPy, against closed forms, and against what they must conserve."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from superposition.solvers import linear
from superposition.solvers.results import Status
from superposition.theory import linear as theory
from superposition.theory.features import Features

RULES = ("tied", "encoder", "decoder")


def start(seed, n, hidden, scale=0.4):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return scale * rng.normal(size=(n, hidden)), scale * rng.normal(size=(hidden, n)), root @ root.T / n


def by_scipy(velocity, X0, times):
    def flat(t, x):
        return velocity(x.reshape(X0.shape)).ravel()

    found = solve_ivp(flat, (0, times[-1]), X0.ravel(), "DOP853", times, rtol=1e-13, atol=1e-14)
    return found.y.T.reshape(-1, *X0.shape)


def velocity_of(rule, sigma):
    def velocity(X):
        A, B = X[: len(sigma)], X[len(sigma) :].T  # of the pair
        rest = np.eye(len(sigma)) - A @ (B if rule == "pair" else A.T)
        if rule == "pair":
            return np.vstack((rest @ sigma @ B.T, (A.T @ rest @ sigma).T))
        parts = {"encoder": sigma @ rest @ A, "decoder": rest @ sigma @ A}
        return parts[rule] if rule in parts else parts["encoder"] + parts["decoder"]

    return velocity


@pytest.mark.parametrize("rule", [*RULES, "pair"])
def test_flows_against_scipy(rule):
    times = [0.0, 0.3, 2.0, 8.0]
    for n, hidden in ((1, 1), (4, 2), (7, 7), (5, 6)):
        A0, B0, sigma = start(n, n, hidden)
        X0, more = (np.vstack((A0, B0.T)), {"B0": B0}) if rule == "pair" else (A0, {})
        found = linear.gradient_flow(A0, sigma, times, rule, rtol=1e-12, **more)
        B = found.B if more else np.swapaxes(found.W, 1, 2)
        expected = by_scipy(velocity_of(rule, sigma), X0, times)
        np.testing.assert_allclose(found.W, expected[:, :n], atol=1e-10)
        np.testing.assert_allclose(np.swapaxes(B, 1, 2), expected[:, -n:], atol=1e-10)
        loss = [theory.reconstruction_loss(*pair, sigma) for pair in zip(found.W, B, strict=True)]
        np.testing.assert_allclose(found.loss, loss, atol=1e-14)
        assert (found.status, found.t_end) == (Status.REACHED, 8.0)


def test_small_rows_keep_their_digits():
    # The second direction starts at 1e-30 and has to grow by 1e30 while the first is there already.
    w = np.array([0.9, 1e-30])
    found = linear.gradient_flow(np.diag(w), np.diag([2.0, 1.0]), [10.0, 50.0], "encoder")
    for place, t in enumerate(found.t):
        expected = theory.aligned_mode(w, [2.0, 1.0], t, "encoder")
        # An error of rtol a step at most.
        np.testing.assert_allclose(np.diag(found.W[place]), expected, rtol=1e-10 * found.steps)
    resting = linear.gradient_flow([[0.5], [0.0]], np.diag([1.0, 2.0]), 100.0)
    assert resting.W[0, 1, 0] == 0.0  # no rounding leads away from this saddle
    assert resting.loss[0] == pytest.approx(1.0, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5), st.sampled_from(RULES))
@settings(max_examples=20)
def test_aligned_starts(seed, n, hidden, rule):
    rng = np.random.default_rng(seed)
    _, _, sigma = start(seed, n, 1)
    found = theory.spectrum(sigma)
    rank = min(n, hidden)
    R, _ = np.linalg.qr(rng.normal(size=(hidden, hidden)))
    w, v = rng.uniform(0.2, 1.5, (2, rank))
    times = [0.4, 3.0]
    frame = found.eigenvectors[:, :rank]
    flow = linear.gradient_flow(frame * w @ R[:rank], sigma, times, rule)
    pair = linear.gradient_flow(frame * w @ R[:rank], sigma, times, "pair", B0=R[:rank].T * v @ frame.T)
    for place, t in enumerate(times):
        expected = theory.aligned_mode(w, found.eigenvalues[:rank], t, rule)
        np.testing.assert_allclose(flow.W[place], frame * expected @ R[:rank], atol=1e-8)
        a, b = theory.aligned_pair(w, v, found.eigenvalues[:rank], t)
        np.testing.assert_allclose(pair.W[place], frame * a @ R[:rank], atol=1e-8)
        np.testing.assert_allclose(pair.B[place], R[:rank].T * b @ frame.T, atol=1e-8)


@pytest.mark.parametrize(("n", "hidden"), [(2, 1), (6, 3), (4, 4), (3, 5)])
def test_decoder_flow_in_closed_form(n, hidden):
    W0, _, sigma = start(n + 10, n, hidden, 0.7)
    times = [0.0, 0.5, 4.0, 20.0]
    exact = linear.exact_decoder_flow(W0, sigma, times)
    found = linear.gradient_flow(W0, sigma, times, "decoder", rtol=1e-13)
    gram = exact.W @ np.swapaxes(exact.W, 1, 2)
    np.testing.assert_allclose(gram, found.W @ np.swapaxes(found.W, 1, 2), atol=1e-11)
    np.testing.assert_allclose(exact.loss, found.loss, atol=1e-11)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_decoder_flow_keeps_the_digits_of_every_direction(seed):
    # The Riccati formula at 900 digits: rows of M from 1 down to 1e-300, at times when e^(2 lam t) is 1e500.
    rng = np.random.default_rng(seed)
    n, hidden = [(4, 2), (3, 1), (3, 4), (5, 3)][seed]
    lam = np.sort(rng.uniform(0.05, 2, n))[::-1]
    lam[-1] = 0.0 if seed % 2 else lam[-1]
    W0 = rng.normal(size=(n, hidden)) * 10.0 ** rng.uniform(-8, 1, size=(n, 1))
    times = [0.0, 1e-3, 0.5, 20.0, 300.0]
    found = linear.exact_decoder_flow(W0, np.diag(lam), times)
    with mp.workdps(900):
        start = mp.matrix(W0.tolist())
        for t, W in zip(times, found.W, strict=True):
            grown = mp.diag([mp.exp(mp.mpf(x) * t) for x in lam]) * start
            M = grown * (mp.eye(hidden) + grown.T * grown - start.T * start) ** -1 * grown.T
            size = [mp.sqrt(M[i, i]) for i in range(n)]
            for i, j in itertools.product(range(n), repeat=2):
                if size[i] > 1e-140 and size[j] > 1e-140:  # smaller entries have subnormal squares
                    gap = abs(mp.fdot(W[i], W[j]) - M[i, j]) / (size[i] * size[j])
                    assert gap < 1e-13 * (1 + lam[0] * t)


def test_closed_forms_saturate():
    W0, _, sigma = start(2, 6, 3)
    for t, scale in itertools.product((1e9, 1e100, 1.7e308), (1.0, 1e45)):
        found = linear.exact_decoder_flow(W0, scale * sigma, [0.0, t])
        assert found.loss[1] == pytest.approx(theory.critical_loss(scale * sigma, range(3)), rel=1e-12, abs=0)
        np.testing.assert_allclose(np.linalg.svd(found.W[1])[1], 1.0, rtol=1e-12)
        # Equal eigenvalues stay equal however late: the direction of the start is kept.
        white = linear.exact_decoder_flow(W0[:, :1], np.eye(6), t).W[0, :, 0]
        np.testing.assert_allclose(np.abs(white), np.abs(W0[:, 0]) / np.linalg.norm(W0[:, 0]), rtol=1e-13)


def test_flows_take_a_law():
    law = Features(3, [0.1, 0.5, 0.9])
    W0, B0, _ = start(0, 3, 2)
    for flow, more in (
        (linear.gradient_flow, {}),
        (linear.gradient_flow, {"rule": "pair", "B0": B0}),
        (linear.exact_decoder_flow, {}),
    ):
        assert flow(W0, law, [1.0], **more) == flow(W0, law.covariance(), [1.0], **more)


@given(st.integers(0, 10**6), st.integers(1, 5), st.floats(1e-6, 3))
@settings(max_examples=20)
def test_where_the_source_flow_ends(seed, n, scale):
    W0, _, sigma = start(seed, n, 1, scale)
    sigma += 0.2 * np.eye(n)
    end = linear.encoder_limit(W0[:, 0], sigma)
    t = 25 / theory.spectrum(sigma).eigenvalues[-1]  # e^-50 of the length is left
    found = linear.gradient_flow(W0, sigma, t, "encoder", rtol=1e-12, steps=10**6)
    np.testing.assert_allclose(end, found.W[0, :, 0], atol=1e-9)
    assert np.linalg.norm(end) == pytest.approx(1.0, rel=1e-14, abs=0)
    turned = linear.encoder_limit(-end, sigma)
    np.testing.assert_allclose(turned, -end, atol=1e-13)


def test_stops_with_a_status():
    W0, B0, sigma = start(0, 3, 2)
    found = linear.gradient_flow(W0, sigma, [0.0, 0.01, 1e6], steps=30)
    assert found.status is Status.STEPS
    assert found.steps + found.rejected == 30
    assert 0 < found.t_end < 1e6
    assert np.isfinite(found.W[1]).all()
    assert np.isnan([*found.W[2].ravel(), found.loss[2]]).all()
    pair = linear.gradient_flow(W0, sigma, 1e6, "pair", B0=B0, steps=5)
    assert pair.status is Status.STEPS
    assert np.isnan(pair.W).all()
    rest = linear.gradient_flow(W0, np.zeros((3, 3)), [0.0, 1e9])
    np.testing.assert_array_equal(rest.W[1], rest.W[0])
    # Weights far out come back: |w|^2 falls like 1/(2 t) from anywhere.
    far = linear.gradient_flow([[1e20], [1e19]], np.diag([2.0, 1.0]), 40.0, "tied")
    assert far.status.good
    assert far.loss[0] == pytest.approx(0.5, abs=1e-9)
