"""Small networks beside the lower bound: the search never goes below it, and readouts are the best ones."""

import itertools

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize_scalar

from superposition.solvers.computation import (
    best_mixed_network,
    best_network,
    best_power,
    best_readout,
    network_loss,
    power_loss,
    search,
)
from superposition.solvers.computation.equal_neurons import shared_inputs_loss
from superposition.solvers.computation.power import _power_and_gradient, points
from superposition.solvers.computation.search import Aim, _descend, _layers_to_start_from, _unit_neurons
from superposition.theory import computation
from superposition.theory.features import Features, synchronous
from superposition.theory.model import Model


def network(rng, n_features, n_hidden):
    W_in, b_in = rng.normal(size=(n_hidden, n_features)), 0.3 * rng.normal(size=n_hidden)
    W_out, b = rng.normal(size=(n_features, n_hidden)), rng.normal(size=n_features)
    return Model(W_in, b_in, "relu", W_out, b, "identity")


# --- The loss -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["relu", "abs"])
def test_two_exact_losses_agree(target):
    """The evaluator's means of pairs and Gauss points on the pieces of the plane share no code."""
    rng = np.random.default_rng(0)
    for n, p in itertools.product((1, 2, 4), (0.01, 0.3, 1.0)):
        model = network(rng, 2, n)
        found = network_loss(model, Features(2, p, "symmetric"), target)
        want = power_loss(model, p, power=2, target=target)
        assert abs(found.loss - want) <= found.error_estimate + 1e-13 * want


def test_mixing_is_a_sum_over_the_plane():
    rng, law = np.random.default_rng(1), Features(2, 0.3, "symmetric", importance=[1, 3])
    model, M = network(rng, 2, 2), rng.normal(size=(2, 2))
    x, w = points(model.W_in, model.b_in, 0.3, 2)
    errors = w @ (model(x) - np.maximum(x, 0.0) - x @ M.T) ** 2
    found = network_loss(model, law, mixing=M)
    np.testing.assert_allclose(found.per_feature, errors, rtol=1e-12)
    assert found.loss == pytest.approx(np.mean([1, 3] * errors), rel=1e-12, abs=0)


@pytest.mark.parametrize("bias", [True, False])
def test_the_readout_is_the_best_one(bias):
    """The gradient by the readout vanishes."""
    rng = np.random.default_rng(2)
    law = Features(3, [0.1, 0.3, 0.8], "symmetric", scale=[1.0, 2.0, 0.5], importance=[1.0, 0.5, 2.0])
    U, b, M = rng.normal(size=(2, 3)), 0.2 * rng.normal(size=2), 0.3 * rng.normal(size=(3, 3))
    model = best_readout(U, b, law, mixing=M, bias=bias)
    found = network_loss(model, law, mixing=M, gradient=True)
    assert np.abs(found.gradient["W_out"]).max() < 1e-12
    assert np.abs(found.gradient["b"] if bias else model.b).max() < 1e-12
    assert found.loss >= computation.loss_lower_bound(law, 2, mixing=M, bias=bias)


def test_features_that_are_on_together_have_a_lower_bound_and_a_best_readout():
    """A mixture: with probability 1 - p nothing is on, else both."""
    p, M = 0.3, np.array([[0.1, 0.4], [-0.2, 0.0]])
    law, given = Features(2, p, "symmetric", groups=[synchronous([0, 1], p)]), Features(2, 1.0, "symmetric")
    for mixing in (None, M):
        model = best_readout([[1.0, 0.6]], 0.1, law, mixing=mixing)
        found = network_loss(model, law, mixing=mixing, gradient=True)
        none, both = np.mean(model(np.zeros(2)) ** 2), network_loss(model, given, mixing=mixing).loss
        assert found.loss == pytest.approx((1 - p) * none + p * both)
        assert np.abs(found.gradient["W_out"]).max() < 1e-12
        assert found.loss >= computation.loss_lower_bound(law, 1, mixing=mixing)


def test_dead_neurons_are_not_read_and_dependent_ones_have_a_readout():
    law, naive = Features(2, 0.3, "symmetric"), computation.equal_features_loss("naive", 0.3, 2, 1)
    for b in (-2.0, -1.0, -0.9999999):
        model = best_readout([[1.0, 0.0], [0.0, 1.0]], [0.0, b], law)
        np.testing.assert_array_equal(model.W_out[:, 1], 0.0)
        assert network_loss(model, law).loss == pytest.approx(naive, rel=1e-10)
    model = best_readout([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], 0.0, law)
    assert network_loss(model, law).loss == pytest.approx(naive, rel=1e-10)


@pytest.mark.parametrize("power", [2, 8])
def test_powers_have_their_gradient_and_agree_with_a_fine_grid(power):
    rng, p = np.random.default_rng(3), 0.4
    z = rng.normal(size=7)

    def value(z):
        return _power_and_gradient(z[None, :2], z[2:3], z[3:5, None], z[5:], p, power, "relu")

    def slope(z):
        return np.concatenate([part.ravel() for part in value(z)[1]])

    assert check_grad(lambda z: value(z)[0], slope, z) < 1e-5 * np.abs(slope(z)).max()
    x = (np.arange(400) + 0.5) / 200 - 1
    model = Model(z[None, :2], b_in=z[2], hidden="relu", W_out=z[3:5, None], b=z[5:], output="identity")
    total = (1 - p) ** 2 * (model(np.zeros(2)) ** power).sum()
    for k in range(2):
        at = np.zeros((400, 2))
        at[:, k] = x
        total += p * (1 - p) * ((model(at) - np.maximum(at, 0)) ** power).sum() / 400
    at = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    total += p * p * ((model(at) - np.maximum(at, 0)) ** power).sum() / 400**2
    assert power_loss(model, p, power=power) == pytest.approx(total / 2, rel=1e-3)


# --- The lower bound, attacked by search --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "seed", "steps", "most"), [(12, 0, 15, 3), pytest.param(200, 1, 25, 4, marks=pytest.mark.slow)]
)
def test_search_stays_above_the_lower_bound(count, seed, steps, most):
    """Descend to networks of random sizes; none may be below the lower bound by more than its error."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        F = int(rng.integers(2, most + 1))
        n, p = int(rng.integers(1, F + 1)), float(np.exp(rng.uniform(np.log(1e-4), 0)))
        target, bias = ("relu", "abs")[k % 2], bool(rng.integers(2))
        mixing = 0.3 * rng.normal(size=(F, F)) if k % 4 == 0 else None
        law = Features(F, p, "symmetric", importance=rng.uniform(0.5, 2.0, F))
        aim = Aim(law, target, mixing, bias, 1e-9)
        *_, (U, b) = _layers_to_start_from(aim, n, 12, rng)
        free = np.ones(n, np.bool_)
        _, U, b, _ = _descend(aim, *_unit_neurons(U, b), free, steps)
        found = aim.loss(aim.network(U, b))
        lower_bound = computation.loss_lower_bound(law, n, target, mixing=mixing, bias=bias)
        size = computation.loss_lower_bound(law, 0, target, mixing=mixing)
        assert found.loss >= lower_bound - found.error_estimate - 1e-12 * size, (F, n, p, target, bias)


# --- The best networks --------------------------------------------------------------------------------------


def test_nothing_beats_the_naive_network_for_relu():
    for (F, n), p in itertools.product([(2, 1), (3, 2)], (0.01, 0.5)):
        found = best_network(Features(F, p, "symmetric"), n, starts=2, steps=60, rng=0)
        want = computation.equal_features_loss("naive", p, F, n)
        assert found.lower_bound == pytest.approx(want, rel=1e-12, abs=0)
        assert found.naive == pytest.approx(want, rel=1e-9, abs=0)
        assert found.loss == pytest.approx(want, rel=1e-7)
        assert abs(found.gain) < 1e-7


def test_the_naive_network_keeps_the_features_of_the_largest_weighted_variance():
    """Targets of independent features: the lower bound is the sum of the smallest."""
    law = Features(3, [0.1, 0.5, 0.3], "symmetric", importance=[3.0, 1.0, 1.0], scale=[1.0, 1.0, 2.0])
    found = best_network(law, 1, starts=1, steps=2, rng=0)
    assert found.naive == pytest.approx(computation.loss_lower_bound(law, 1), rel=1e-9)


def test_without_bias_the_lower_bound_is_that_of_networks_without():
    law = Features(2, [0.2, 0.6], "symmetric")
    found = best_network(law, 1, bias=False, starts=1, steps=5, rng=0)
    without, with_bias = (computation.loss_lower_bound(law, 1, bias=bias) for bias in (False, True))
    assert found.lower_bound == without > 1.01 * with_bias


def test_without_bias_sharing_saves_a_share_of_order_p():
    """Two features on one neuron: the share saved over p tends to the largest of the derived function."""
    saved = computation.derive.derive_unbiased().numeric()
    best = minimize_scalar(lambda k: -saved(k), bounds=(0.0, 1.0), method="bounded")
    for p in (1e-2, 1e-3):
        found = best_network(Features(2, p, "symmetric"), 1, bias=False, starts=2, steps=60, rng=0)
        assert found.gain / p == pytest.approx(-best.fun, rel=3 * p, abs=1e-4)
        assert found.naive == pytest.approx(computation.equal_features_loss("readout", p, 2, 1), rel=1e-9)
        assert found.lower_bound < found.loss
        # Either feature may be the first, and weights have no scale.
        w = np.sort(np.abs(found.model.W_in[0]))
        assert w[0] / w[1] == pytest.approx(best.x, abs=2 * p + 1e-3)
        assert -best.fun < 3 / 8


def test_the_search_finds_at_least_the_fan():
    law = Features(3, 0.01, "symmetric")
    fan = best_readout(computation.fan_network(3, 3, eps=0.1)[0], 0.0, law, "abs")
    found = best_network(law, 3, "abs", starts=2, steps=5, rng=0)
    assert found.lower_bound < found.loss <= network_loss(fan, law, "abs").loss * (1 + 1e-9) < found.naive
    assert network_loss(found.model, law, "abs").loss == pytest.approx(found.loss, rel=1e-9)


def test_sharing_pays_for_the_fourth_power():
    found = best_power(1e-3, starts=0)
    assert found.loss < 0.5 * found.naive
    for p, best in ((1e-3, found), (1.0, best_power(1.0, starts=0))):  # without a bias, and with one
        assert power_loss(best.model, p) == pytest.approx(best.loss, rel=1e-9)
    # One feature is read alone, the other output is constant: E (max(x, 0) - c)^4 over both outputs.
    c = np.linspace(0.0, 1.0, 100_001)
    alone = (1 - 5e-4) * c**4 + 5e-4 * ((1 - c) ** 5 + c**5) / 5
    assert found.naive == pytest.approx(alone.min() / 2, rel=1e-6)
    np.testing.assert_allclose(found.model.W_in, 1.0, atol=0.05)
    without = Model([[1.0, 1.0]], hidden="relu", W_out=[[0.5], [0.5]], output="identity")
    assert power_loss(without, 1e-8) / 1e-8 == pytest.approx(computation.shared_loss(2, 1).loss, rel=1e-6)
    assert power_loss(without, 1e-8, power=2) / 1e-8 == pytest.approx(1 / 12, rel=1e-6)


def test_equal_neurons_that_share_inputs_are_a_network():
    """The first n features have a neuron each, which reads other features by one of two weights."""
    F, n, p = 3, 2, 0.3
    least, (first, last) = shared_inputs_loss(F, n, p, 12)
    W_in, law = np.array([[1.0, first, last], [first, 1.0, last]]), Features(F, p, "symmetric")
    best = best_readout(W_in, 0.0, law, bias=False)
    assert network_loss(best, law).loss / p == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("target", ["relu", "abs"])
def test_networks_in_closed_form_have_the_exact_loss_of_their_neurons(target):
    """Of an odd number the last neuron of "pairs" has no partner, and is not used."""
    F, p = 3, 0.4
    law, sides = Features(F, p, "symmetric"), np.eye(F)
    for n in (1, 2, 3):
        pairs = np.vstack([np.repeat(sides, 2, axis=0) * np.tile([[1.0], [-1.0]], (F, 1))])[: n - n % 2]
        neurons = {"naive": sides[:n], "pairs": np.vstack([pairs, np.zeros((1, F))])}
        for name, U in neurons.items():
            found = network_loss(best_readout(U, 0.0, law, target), law, target).loss
            want = computation.equal_features_loss(name, p, F, n, target=target)
            assert found == pytest.approx(want, rel=1e-9), (name, n)
        zero = Model(np.zeros((1, F)), hidden="relu", W_out=np.zeros((F, 1)), output="identity")
        zero_loss = computation.equal_features_loss("zero", p, F, n, target=target)
        assert network_loss(zero, law, target).loss == pytest.approx(zero_loss, rel=1e-9)


def test_a_mixed_network_at_any_mixture_against_enumeration_and_least_squares():
    """The least loss given U is that of a least-squares readout at x = +-e_j; each has probability p/2."""
    F, n, p = 4, 2, 1e-5
    M = 0.4 * np.random.default_rng(0).normal(size=(F, F))
    x = np.concatenate([np.eye(F), -np.eye(F)])
    targets = np.maximum(x, 0.0) + x @ M.T

    def least(U):
        h = np.maximum(x @ U.T, 0.0)
        return np.sum((targets - h @ np.linalg.lstsq(h, targets, rcond=None)[0]) ** 2) / 6 / F

    found = best_mixed_network(M, n, starts=3, rng=0)
    assert network_loss(found.model, Features(F, p, "symmetric"), mixing=M).loss / p == pytest.approx(
        found.loss, rel=1e-3
    )
    naive = [least(np.eye(F)[list(chosen)]) for chosen in itertools.combinations(range(F), n)]
    assert found.naive == pytest.approx(min(naive), rel=1e-12)
    assert min(naive) < 0.9 * max(naive)
    sizes = np.linalg.svd(targets, compute_uv=False)  # of rank n, a readout leaves the smallest at least
    assert found.lower_bound == pytest.approx(np.sum(sizes[n:] ** 2) / 6 / F, rel=1e-12)
    # The network is where no step to either side of any weight lowers the loss.
    U, step = found.model.W_in, 1e-3
    assert least(U) == pytest.approx(found.loss, rel=1e-9)
    for k in np.ndindex(U.shape):
        for side in (-step, step):
            moved = U.copy()
            moved[k] += side
            assert least(moved) > found.loss * (1 - 1e-7), k


def test_an_end_counts_by_its_loss_with_its_error(monkeypatch):
    """A descent may end at a network whose loss is computed badly, and look better than all others."""
    monkeypatch.setattr(search, "_descend", lambda aim, U, b, free, steps: (-1.0, 0.0 * U, 0.0 * b, 0.0))
    found = best_network(Features(2, 0.3, "symmetric"), 1, starts=2, rng=0)
    assert found.loss == pytest.approx(found.naive)
    assert found.hits == 0


def test_more_neurons_than_features_need_leave_no_loss():
    for n_features, n_hidden, target in ((2, 3, "relu"), (2, 5, "abs"), (1, 4, "abs")):
        law = Features(n_features, 0.3, "symmetric")
        found = best_network(law, n_hidden, target, starts=2, steps=20, rng=0)
        assert found.model.W_in.shape == (n_hidden, n_features)
        assert found.loss <= 1e-12
        assert found.lower_bound == 0.0
