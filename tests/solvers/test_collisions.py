"""The interference flow against exact solutions, an event-by-event integration, its order and its laws."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from superposition.solvers import sparsification
from superposition.solvers.collisions import flow, forces
from superposition.solvers.flow import inclusion
from superposition.solvers.results import Status
from superposition.theory import collisions as theory

# The error at any time is 3 to 9 times `rtol` in the flows measured; two encodings that part add to it.
ERRORS = 30


def normal_weights(seed, n, m, scale=0.9):
    return np.random.default_rng(seed).normal(scale=scale / np.sqrt(m), size=(n, m))


def smooth_force(W):
    """Return the source's smooth forces, added term by term."""
    F = np.empty_like(W)
    for i, w in enumerate(W):
        F[i] = (1 - w @ w) * w - sum(max(w @ v, 0) * v for j, v in enumerate(W) if j != i)
    return F


def integrate(W0, lam, times):
    """Return the weights by DOP853 on frozen signs, restarted whenever a weight reaches or leaves zero."""
    shape, now, W, out = W0.shape, 0.0, W0.ravel().copy(), []
    f = smooth_force(W0).ravel()
    sign = np.where(W != 0, np.sign(W), np.where(np.abs(f) > lam, np.sign(f), 0))
    events = 0
    while len(out) < len(times):

        def slope(_, w, sign=sign):
            return np.where(sign != 0, smooth_force(w.reshape(shape)).ravel() - lam * sign, 0)

        def crossing(_, w, sign=sign, start=now):
            return np.min(np.where(sign != 0, w * sign, np.inf))

        def waking(_, w, sign=sign):
            f = np.abs(smooth_force(w.reshape(shape)).ravel())
            return np.min(np.where(sign == 0, lam - f, np.inf))

        crossing.terminal = waking.terminal = True
        crossing.direction = waking.direction = -1
        run = solve_ivp(
            slope, (now, times[len(out)]), W, "DOP853", rtol=1e-11, atol=1e-13, events=[crossing, waking]
        )
        now, W = run.t[-1], run.y[:, -1].copy()
        if run.status == 0:
            out.append(W.reshape(shape).copy())
            continue
        events += 1
        f = smooth_force(W.reshape(shape)).ravel()
        # The event is met to DOP853's tolerance: whatever is within 1e-9 of it takes part.
        stopped = (sign != 0) & (W * sign < 1e-9)
        W[stopped] = 0
        sign[stopped] = np.where(np.abs(f[stopped]) > lam, np.sign(f[stopped]), 0)
        woken = (sign == 0) & (np.abs(f) >= lam - 1e-9) & ~stopped
        sign[woken] = np.sign(f[woken])
    return out, events


# --- Against other solutions -------------------------------------------------------------------------------


def test_two_encodings_without_l1_force():
    for rtol, sign, t in product((1e-4, 1e-6, 1e-8), (1, -1), (0.3, 2.0, 8.0)):
        W0 = np.abs(normal_weights(1, 2, 6, 0.5)) * [[1], [sign]]
        np.testing.assert_allclose(flow(W0, 0.0, t, tol=rtol).W, theory.pair_flow(W0, t), atol=ERRORS * rtol)


@pytest.mark.parametrize(("seed", "lam"), [(0, 0.02), (1, 0.05), (2, 0.1)])
def test_event_by_event(seed, lam):
    W0 = normal_weights(seed, 4, 5)
    times = [0.5, 3.0, 12.0, 40.0]
    exact, events = integrate(W0, lam, times)
    assert events >= 8
    for t, W in zip(times, exact, strict=True):
        # The oracle is good to about 1e-9 (events met to 1e-9, then held).
        got = flow(W0, lam, t, tol=1e-8).W
        np.testing.assert_allclose(got, W, atol=ERRORS * 1e-8)
        np.testing.assert_array_equal(got == 0, W == 0)


@pytest.mark.parametrize(("n", "m", "lam"), [(3, 60, 1e-2), (2, 20, 0.05), (2, 8, 0.5), (1, 1, 0.1)])
def test_without_interference_each_encoding_is_solved_alone(n, m, lam):
    W0 = normal_weights(4, n, m)
    t, rtol = np.sort([0.0, 0.5, 3.0, 10.0, 0.4 / lam, 2 / lam]), 1e-6
    result = flow(W0, lam, t, interference=False, tol=rtol)
    left = np.sum((1 - result.l2_norm**2) ** 2, axis=1) / 4  # nor does the loss know of it
    np.testing.assert_allclose(result.total, left + lam * result.l1_norm.sum(axis=1), rtol=1e-12)
    for i, w0 in enumerate(W0):
        exact = sparsification.solve(w0, lam, t)
        np.testing.assert_array_equal(result.nonzeros[:, i], exact.nonzeros)
        np.testing.assert_allclose(result.l2_norm[:, i], exact.l2_norm, atol=ERRORS * rtol)
        # A sum of m weights: its error is at most sqrt(m) times that of the length.
        np.testing.assert_allclose(result.l1_norm[:, i], exact.l1_norm, atol=ERRORS * rtol * math.sqrt(m))
        np.testing.assert_allclose(result.W[i], sparsification.weights_at(w0, lam, t[-1]), atol=ERRORS * rtol)


@pytest.mark.parametrize("lam", [0.003, 0.02, 0.1, 0.3])
def test_the_error_is_a_few_tolerances_times_what_the_flow_makes_of_a_deviation(lam):
    # One weight, solved exactly. A deviation d at time s is d w'(T)/w'(s) at time T: 20 and more for a start
    # close to the weight below which it dies.
    t = np.sort([0.5, 2.0, 5.0, 20.0, 0.1 / lam, 1 / lam])
    near_death = theory.resting_weights(lam)[1] * (1 + np.geomspace(1e-2, 1, 4))
    for w0 in (*np.linspace(0.02, 1.3, 8), *near_death):
        path = sparsification.solve([w0], lam, np.linspace(0.0, t[-1], 400)).l2_norm
        exact = sparsification.solve([w0], lam, t).l2_norm
        for tol in (1e-3, 1e-5, 1e-7):
            found = flow([[w0]], lam, t, tol=tol).l2_norm[:, 0]
            for at, got, known in zip(t, found, exact, strict=True):
                before = np.append(path[: int(at / t[-1] * 399) + 1], known)
                speeds = np.abs(before * (1 - before**2) - lam)[before > 0]
                growth = 1.0 if known == 0 else max(1.0, speeds[-1] / speeds.min())
                assert abs(got - known) <= 10 * tol * growth, (w0, tol, at)


# --- Order -------------------------------------------------------------------------------------------------


def march_on(force, W, lam, t, number, first, rows):
    """March with equal steps, whatever their error."""
    w, work, h = W.ravel().copy(), np.zeros((len(lam), len(lam))), t / number
    for _ in range(number):
        inclusion._integrate_until(force, w, first, rows, lam, work, 0.0, h, h, 0.0, np.inf, np.inf, 1, -1)
    return w


def dense_steps(W0, lam, t, number):
    """March with matrix products."""
    rows = np.repeat(np.arange(len(W0)), W0.shape[1])
    return march_on(forces.tied_force, W0, np.full(len(W0), lam), t, number, rows, rows).reshape(W0.shape)


def listed_steps(W0, lam, t, number):
    """March with the list of all weights, column by column."""
    n, m = W0.shape
    rows, first = np.tile(np.arange(n), m), np.arange(m + 1) * n
    return march_on(forces.tied_listed, W0.T, np.full(n, lam), t, number, first, rows).reshape(m, n).T


def orders(errors):
    return np.log2(errors[:-1] / errors[1:])


@pytest.mark.parametrize("steps", [dense_steps, listed_steps])
def test_second_order_through_all_events(steps):
    # Where in its step an event happens is a matter of chance, so is its error: root mean square over runs.
    # That the limit is the right one is seen in test_event_by_event; here it is the scheme's own.
    lam, t, number = 0.02, 3.0, [64, 128, 256]
    total, stopped, woken = np.zeros(len(number)), 0, 0
    for seed in range(10):
        # Small weights of one sign, a third of them zero: as they grow their overlaps wake zeros.
        W0 = np.abs(normal_weights(seed, 6, 24, 0.3))
        W0[np.random.default_rng(100 + seed).random(W0.shape) < 0.3] = 0
        resting = (W0 == 0) & (np.abs(smooth_force(W0)) < lam)
        fine = steps(W0, lam, t, 2048)
        stopped += np.count_nonzero(fine[W0 != 0] == 0)
        woken += np.count_nonzero(fine[resting])
        total += [np.sum((steps(W0, lam, t, k) - fine) ** 2) for k in number]
    assert min(stopped, woken) >= 150
    # The reference's own error, 1/64 of the last one, shifts the last order by at most 0.02.
    assert np.all(np.abs(orders(np.sqrt(total)) - 2) < 0.15), orders(np.sqrt(total))


# --- Laws --------------------------------------------------------------------------------------------------

SEEDS, sizes = st.integers(0, 2**32 - 1), st.tuples(st.integers(1, 5), st.integers(1, 8))


@settings(max_examples=25)
@given(SEEDS, sizes, st.sampled_from([0.0, 1e-3, 0.05, 0.4]), st.sampled_from([0.3, 1.0, 3.0]))
def test_loss_falls_and_the_end_is_a_rest_point(seed, size, lam, scale):
    W0 = normal_weights(seed, *size, scale)
    t = np.geomspace(0.01, 3e3, 12)
    result = flow(W0, lam, t, tol=1e-6)
    # Descent up to the error allowed, in a loss whose slope is below 1 once lengths are.
    assert np.all(np.diff(result.total) <= 1e-5)
    assert result.status is Status.REACHED
    assert result.t_end == t[-1]
    F = smooth_force(result.W)
    moving = result.W != 0
    if lam > 0 and np.abs(F - lam * np.sign(result.W))[moving].max(initial=0) < 1e-7:  # it may still creep
        assert np.all(np.abs(F[~moving]) <= lam)
    np.testing.assert_array_equal(result.nonzeros[-1], np.count_nonzero(result.W, axis=1))


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([0.0, 0.01, 0.1]), st.sampled_from([0.0, 0.12, 2.0]))
def test_features_without_a_neuron_in_common_never_share_one(seed, lam, packed_below):
    # They do not overlap, so that nothing pushes their zeros: not even for a rounding error.
    W0 = np.zeros((5, 9))
    W0[:2, :4], W0[2:, 4:8] = normal_weights(seed, 2, 4), normal_weights(seed + 1, 3, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inclusion, "_LIST_BELOW", packed_below)
        patch.setattr(inclusion, "_LIST_UP_TO", 1.5 * packed_below)
        result = flow(W0, lam, np.geomspace(0.1, 300, 8))
    assert not result.W[:2, 4:].any()
    assert not result.W[2:, :4].any()
    assert not result.W[:, 8].any()


def test_ties_stay_ties():
    W = flow([[0.5, 0.5], [-0.3, 0.3]], 0.05, 200.0).W
    # Rounding grows by a factor of about exp(lam t |W|_1), some 1e6 here.
    assert W[0, 0] == pytest.approx(W[0, 1], abs=1e-8)
    assert W[1, 0] == pytest.approx(-W[1, 1], abs=1e-8)
    assert np.all(np.abs(W) > 0.6)


@pytest.mark.parametrize("interference", [True, False])
def test_lists_and_matrix_products_agree(monkeypatch, interference):
    W0, lam, rtol = normal_weights(2, 10, 40), 5e-3, 1e-6
    times = [5.0, 60.0, 600.0]
    results = []
    for below, above in ((0.0, 0.0), (0.12, 0.2), (2.0, 3.0)):  # products only, as it comes, lists only
        monkeypatch.setattr(inclusion, "_LIST_BELOW", below)
        monkeypatch.setattr(inclusion, "_LIST_UP_TO", above)
        results.append(flow(W0, lam, times, interference, tol=rtol))
    for other in results[1:]:
        np.testing.assert_array_equal(other.nonzeros, results[0].nonzeros)
        np.testing.assert_allclose(other.W, results[0].W, atol=2 * ERRORS * rtol)
