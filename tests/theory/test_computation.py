"""Computation in superposition: moments of targets, the lower bound, closed forms, features that are rare."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from superposition.theory.computation import (
    derive,
    equal_features_loss,
    fan_network,
    loss_lower_bound,
    rare_losses,
    shared_loss,
    target_moments,
)
from superposition.theory.features import Features, exclusive, synchronous

from ..oracles import patterns

FUNCTIONS = {"relu": lambda x: np.maximum(x, 0.0), "abs": np.abs, "identity": lambda x: x}


def laws(values):
    """Laws of four features with groups, with so many on, and that differ; states and their probabilities."""
    apart = [exclusive([0, 2], 0.2)]
    for law in (
        Features(4, [0.1, 0.3, 0.1, 1.0], values, scale=[1.0, 2.0, 0.5, 3.0], importance=[1, 2, 0, 0.5]),
        Features(4, 0.2, values, groups=[*apart, synchronous([1, 3], 0.4)], scale=[1.0, 1.0, 2.0, 1.0]),
        Features(4, [0.1, 0.4, 0.2, 0.3], values, groups=apart, exactly=2),
    ):
        states, chances = map(np.array, zip(*patterns(law), strict=True))
        yield law, states, chances


def least_loss(t, h, chances, importance, bias):
    """Mean over outputs of the loss of the best linear readout, by least squares over all outcomes."""
    root = np.sqrt(chances)[:, None]
    columns = np.column_stack([h, np.ones(len(h))]) if bias else h
    best = np.linalg.lstsq(root * columns, root * t, rcond=None)[0]
    errors = chances @ (t - columns @ best) ** 2
    return float(np.mean(importance * errors))


# --- Moments of targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", FUNCTIONS)
def test_moments_are_sums_over_patterns(target):
    # Gauss points on each side of 0 are exact for these; patterns times values of two features at a time.
    nodes, weights = np.polynomial.legendre.leggauss(4)
    values, weights = np.concatenate([(nodes - 1) / 2, (nodes + 1) / 2]), np.tile(weights, 2) / 4
    grid = np.array(list(itertools.product(values, repeat=4)))
    by_value = np.prod(np.array(list(itertools.product(weights, repeat=4))), axis=1)
    M = np.random.default_rng(0).normal(size=(4, 4))
    for law, states, chances in laws("symmetric"):
        mean, second = np.zeros(4), np.zeros((4, 4))
        for state, chance in zip(states, chances, strict=True):
            x = grid * state * law.scale
            t = FUNCTIONS[target](x) + x @ M.T
            mean += chance * by_value @ t
            second += chance * (t.T * by_value) @ t
        found = target_moments(law, target, mixing=M)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found.second, second, rtol=1e-12, atol=1e-13)


def test_targets_of_other_values():
    found = target_moments(Features(1, 1.0, "normal"), "relu")
    np.testing.assert_allclose([found.mean[0], found.second[0, 0]], [1 / np.sqrt(2 * np.pi), 0.5])
    law = Features(2, 0.3, "exponential")  # not negative: their own targets
    assert target_moments(law, "relu") == target_moments(law, "abs") == target_moments(law, "identity")


# --- The lower bound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_no_functions_are_below_the_lower_bound_and_eigenvectors_attain_it(bias):
    rng = np.random.default_rng(0)
    for law, states, chances in laws("binary"):
        M = rng.normal(size=(4, 4))
        t = states * law.scale @ (np.eye(4) + M).T
        found, root = target_moments(law, "identity", mixing=M), np.sqrt(law.importance)
        matrix = root[:, None] * (found.covariance if bias else found.second) * root
        vectors = np.linalg.eigh(matrix)[1][:, ::-1]
        for n in range(5):
            lower_bound = loss_lower_bound(law, n, "identity", mixing=M, bias=bias)
            for _ in range(40):  # any function of the outcome
                h = rng.normal(size=(len(states), n)) ** rng.integers(1, 4)
                assert least_loss(t, h, chances, law.importance, bias) >= lower_bound * (1 - 1e-12) - 1e-14
            best = least_loss(t, (t * root) @ vectors[:, :n], chances, law.importance, bias)
            np.testing.assert_allclose(best, lower_bound, rtol=1e-9, atol=1e-13)


def test_eigenvalues_of_targets_that_are_alike():
    assert derive.derive_eigenvalues().expression == 0
    law = Features(5, 0.3, "symmetric")
    assert loss_lower_bound(law, 2, bias=False) == pytest.approx(loss_lower_bound(law, 2), rel=1e-13, abs=0)
    assert loss_lower_bound(law, 0, bias=False) == pytest.approx(0.3 / 6, rel=1e-13, abs=0)


# --- Features that are alike --------------------------------------------------------------------------------


def test_the_closed_lower_bound_is_that_of_the_law():
    for target, name, mixing in (("relu", "relu", None), ("abs", "abs", None), ("mixed", "relu", np.eye(7))):
        for p, n in itertools.product((1e-8, 0.01, 0.3, 1.0), (0, 1, 3, 7)):
            want = loss_lower_bound(Features(7, p, "symmetric"), n, name, mixing=mixing)
            found = equal_features_loss("lower_bound", p, 7, n, target=target)
            assert found == pytest.approx(want, rel=1e-10, abs=1e-20)


def _readout(found, n, bias):
    """Mean loss of all targets if the first n are known, from their second moments."""
    used = found.covariance if bias else found.second
    cross = used[:, :n]
    return np.mean(np.diag(used) - np.einsum("ij,ji->i", cross, np.linalg.solve(used[:n, :n], cross.T)))


def test_networks_without_bias_are_regressions():
    for p, F, n in ((0.01, 4, 1), (0.3, 6, 4), (1.0, 5, 3)):
        found = target_moments(Features(F, p, "symmetric"))
        v = found.covariance[0, 0]
        for name, want in {
            "readout": _readout(found, n, False), "naive": _readout(found, n, True),
            "constant": (F - n + 1) * v / F, "unbiased": (F - n) * p / 6 / F, "zero": p / 6,
        }.items():  # fmt: skip
            assert equal_features_loss(name, p, F, n) == pytest.approx(want, rel=1e-11, abs=0), name
        # Of |x| and of 2 x, -x a neuron max(x, 0) leaves max(-x, 0), less its regression on it:
        # their means are p/4, their mean squares p/6, and their product is 0.
        variance, covariance = p / 6 - p * p / 16, -p * p / 16
        left = variance - covariance**2 / variance
        for target, square, mean in (("abs", p / 3, p / 2), ("mixed", 5 * p / 6, p / 4)):
            want = ((F - n) * (square - mean**2) + n * left) / F
            assert equal_features_loss("naive", p, F, n, target=target) == pytest.approx(want, rel=1e-11)


# --- Rare features ------------------------------------------------------------------------------------------


def rare_loss(U, V, up, down):
    """Loss over p and features where one feature is on at a time; every feature is on either side of 0."""
    F = U.shape[1]
    total = 0.0
    for j in range(F):
        for sign, side in ((1, up), (-1, down)):
            error = V @ np.maximum(sign * U[:, j], 0.0) - side * np.eye(F)[j]
            total += error @ error / 6
    return total / F


@pytest.mark.parametrize(("target", "sides"), [("abs", (1, 1)), ("mixed", (2, -1))])
def test_a_fan_attains_its_limit(target, sides):
    for F, n in ((3, 3), (5, 4), (12, 9)):
        bounds = rare_losses(F, n, target=target)
        want = bounds.lower_bound + {"abs": 1 / 3, "mixed": 1 / 6}[target] / F
        found = [rare_loss(*fan_network(F, n, target=target, eps=eps), *sides) for eps in (1e-3, 5e-4)]
        assert found[1] == pytest.approx(want, rel=1e-4)
        # What is left falls as eps^2.
        assert (found[0] - want) / (found[1] - want) == pytest.approx(4.0, rel=1e-3)
        derived = derive.derive_fan(target).numeric()(1e-3)
        assert rare_loss(*fan_network(4, 4, target=target, eps=1e-3), *sides) * 4 == pytest.approx(derived)


@pytest.mark.parametrize("target", ["relu", "abs", "mixed"])
def test_rare_losses_are_limits_of_the_others(target):
    p = 1e-9
    for F, n in ((2, 1), (30, 7), (30, 30)):
        found = rare_losses(F, n, target=target)
        lower_bound = equal_features_loss("lower_bound", p, F, n, target=target)
        assert found.lower_bound == pytest.approx(lower_bound / p, abs=1e-8)
        if target != "mixed":
            least = min(equal_features_loss(name, p, F, n, target=target) for name in ("naive", "pairs"))
            assert found.naive == pytest.approx(least / p, abs=1e-8)
        assert found.lower_bound <= found.fan <= found.naive
        assert found.gap == found.fan - found.lower_bound
    assert rare_losses(10, 4).fan == rare_losses(10, 4).naive == pytest.approx(0.1)


def test_a_bent_neuron_is_the_best_of_all_single_ones():
    """Brute force over the two-parameter family of neurons of one feature, by a grid of values."""
    x = (np.arange(20_000) + 0.5) / 20_000
    t = np.concatenate([2 * x, -x])
    v = np.concatenate([x, -x])

    def left(a):
        psi = np.maximum(v, -a) if a >= 0 else np.maximum(v + a, 0.0)
        return 5 / 6 - (psi @ t) ** 2 / (psi @ psi) / (2 * x.size)

    found = minimize_scalar(left, bounds=(-0.9, 1.0), method="bounded", options={"xatol": 1e-9})
    naive = rare_losses(4, 4, target="mixed").naive
    assert found.fun == pytest.approx(naive, abs=1e-7)
    assert min(map(left, np.linspace(-0.9, 1.0, 50))) >= naive - 1e-7


def test_sharing_is_the_best_weight_of_one_neuron():
    for F, n in ((2, 1), (20, 2), (500, 50)):
        g = F // n
        found = minimize_scalar(lambda w, g=g: (1 - w) ** 4 + (g - 1) * w**4, bounds=(0, 1), method="bounded")
        shared = shared_loss(F, n)
        assert shared.loss == pytest.approx(found.fun / 10, rel=1e-7)
        assert shared.loss < shared.naive == pytest.approx((1 - n / F) / 10)
    alone = shared_loss(3, 3)
    assert (alone.loss, alone.naive, alone.weight) == (0.0, 0.0, 1.0)
