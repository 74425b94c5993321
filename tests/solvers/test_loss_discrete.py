"""Losses of features with finitely many values, against sums over all states in extended precision."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from superposition.solvers.loss import evaluator, exact_loss
from superposition.solvers.loss.dispatch import solve
from superposition.solvers.loss.methods import discrete
from superposition.solvers.loss.problem import Accuracy, LossProblem
from superposition.theory.features import Features, ValueDistribution, exclusive, parent_child, synchronous

from .loss_oracle import states

THREE = ValueDistribution(
    "three", (-1.0, 2.0), lambda k: 0.25 * (-1.0) ** k + 0.25 * 0.5**k + 0.5 * 2.0**k,
    lambda rng, size: rng.choice([-1.0, 0.5, 2.0], size, p=[0.25, 0.25, 0.5]),
    atoms=[(-1.0, 0.25), (0.5, 0.25), (2.0, 0.5)],
    transform=lambda z: (
        0.25 * np.exp(-z) + 0.25 * np.exp(0.5 * z) + 0.5 * np.exp(2.0 * z),
        -0.25 * np.exp(-z) + 0.125 * np.exp(0.5 * z) + np.exp(2.0 * z),
        0.25 * np.exp(-z) + 0.0625 * np.exp(0.5 * z) + 2.0 * np.exp(2.0 * z),
    ),
)  # fmt: skip


def enumerated(M, b, law, rows):
    """Return the losses of outputs, summed over all states in extended precision."""
    x, chance = states(law)
    x *= law.scale.astype(np.longdouble)
    found = []
    for i in rows:
        y = np.full(chance.size, b[i], np.longdouble)
        for j in range(law.n_features):
            y += np.longdouble(M[i, j]) * x[:, j]
        found.append(np.sum(chance * (x[:, i] - np.maximum(y, 0)) ** 2))
    return np.array(found)


def random_case(seed, largest):
    """Return a random law with p over six decades, a model, and some of its outputs."""
    rng = np.random.default_rng(seed)
    values = THREE if seed % 5 == 0 else "binary"
    n = int(rng.integers(2, (largest + 1) if values == "binary" else min(largest, 10) + 1))
    p, groups = 10.0 ** rng.uniform(-6.0, 0.0, n), ()
    if seed % 3 == 0 and n > 3:
        first = rng.choice(n, 3, replace=False)
        kinds = [
            synchronous(first[:2], float(p[0])),
            exclusive(first, p[:3] / 3),
            parent_child(int(first[0]), first[1:], float(p[0]), float(p[1])),
        ]
        groups = [kinds[seed % 7 % 3]]
    scale = 10.0 ** rng.uniform(-2.0, 2.0, n) if seed % 4 == 0 else 1.0
    M = np.eye(n) + rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-3.0, 0.5)
    if seed % 6 == 1:
        M = rng.integers(-2, 3, (n, n)) / 4.0  # pre-activations that are 0, or would be without rounding
    b = rng.integers(-3, 2, n) * (0.25 if seed % 6 == 1 else 0.1)
    if seed % 6 == 2:
        M = -np.abs(rng.integers(1, 9, (n, n)) / 10.0)
        b = -M.sum(axis=1) * (1.0 + rng.integers(-1, 2, n) * 2.0**-52)  # on, or off, but for rounding
    exactly = int(rng.integers(1, min(n - 1, 4) + 1)) if seed % 5 == 3 and not groups and n > 2 else None
    law = Features(n, p, values, scale, groups=groups, exactly=exactly)
    return law, M, b, rng.choice(n, min(n, 3), replace=False)


@pytest.mark.parametrize(
    ("seeds", "largest"), [(range(60), 9), pytest.param(range(1000, 3000), 20, marks=pytest.mark.slow)]
)
def test_stated_errors_hold_with_probabilities_over_six_decades(seeds, largest):
    for seed in seeds:
        law, M, b, rows = random_case(seed, largest)
        found, true = exact_loss(M, b, law, rows=rows), enumerated(M, b, law, rows)
        assert np.all(np.abs(found.per_feature - true) <= found.per_feature_error + 1e-300), seed


@pytest.mark.parametrize("method", ["enumeration", "affine", "discrete"])
def test_an_output_that_is_off_but_for_rounding_says_so(method):
    law = Features(3, [0.9, 0.9, 0.9], "binary")
    M = np.array([[1e3, 1e3 * 2.0**-54, 1e3 * 2.0**-54], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    b = np.array([-1e3, 0.0, 0.0])  # the sum of the weights rounds to 1000
    found, true = evaluator(law, method=method)((M, b), rows=[0]), enumerated(M, b, law, [0])
    assert np.abs(found.per_feature - true) <= found.per_feature_error
    assert found.per_feature_error < (1e-11 if method == "affine" else 1e-7)


@pytest.mark.parametrize("n", [18, 37])
def test_exactly_so_many_features_are_on(n):
    """A sum over frequencies took 2 minutes an output for an error of .3 %."""
    M, b = network(n)
    law, rows = Features(n, np.geomspace(1e-3, 0.5, n), "binary", exactly=3), [0, n - 1]
    found = exact_loss(M, b, law, rows=rows)
    assert found.method == "discrete"
    p, on = law.p.astype(np.longdouble), np.array(list(combinations(range(n), 3)))
    weight = np.prod(p[on] / (1 - p[on]), axis=1)
    for loss, error, i in zip(found.per_feature, found.per_feature_error, rows, strict=True):
        y = np.maximum(b[i] + M[i][on].astype(np.longdouble).sum(axis=1), 0.0)
        true = np.sum(weight * ((on == i).any(axis=1) - y) ** 2) / weight.sum()
        assert abs(loss - true) <= error <= 1e-12 * loss


def network(n, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n, max(n // 4, 1))) / np.sqrt(max(n // 4, 1))
    return W @ W.T, -0.1 + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("groups", [(), (exclusive([0, 3, 5], 0.1),)])
def test_fifteen_binary_features_are_as_exact_as_fourteen(groups):
    for n in (14, 15, 16):
        M, b = network(n)
        law = Features(n, np.geomspace(1e-3, 0.5, n), "binary", groups=groups)
        found, true = exact_loss(M, b, law, rows=[0, n - 1]), enumerated(M, b, law, [0, n - 1])
        assert np.all(np.abs(found.per_feature - true) <= found.per_feature_error)
        assert np.all(found.per_feature_error <= 1e-12 * found.per_feature)


@pytest.mark.parametrize("exactly", [None, 2, 5])
@pytest.mark.parametrize("groups", [(), (synchronous([0, 3], 0.1),)])
def test_derivatives_from_two_halves_are_those_of_all_patterns(groups, exactly):
    M, b = network(12)
    b[2], M[2] = 0.25, np.round(4.0 * M[2]) / 4.0  # at a kink
    law = Features(12, np.geomspace(1e-3, 0.5, 12), "binary", groups=groups, exactly=exactly)
    halves, patterns = (
        evaluator(law, method=one)((M, b), gradient=True) for one in ("discrete", "enumeration")
    )
    for one in ("M", "b"):
        change = np.abs(halves.gradient[one] - patterns.gradient[one]).reshape(12, -1).max(axis=1)
        assert np.all(change <= halves.gradient_error + patterns.gradient_error)


def slopes(M, b, law, i):
    """Return (derivatives by the row of M and by b) of the loss of output i, over all states."""
    x, chance = (np.asarray(part, float) for part in states(law))
    x = x * law.scale
    y = x @ M[i] + b[i]
    push = -2.0 * chance * (x[:, i] - y) * (y > 0.0)
    return push @ x, push.sum()


def few_sums(monkeypatch, most):
    """Let sums be merged from `most` on, whatever the tolerance."""
    for name in ("MOST_SUMS", "FIRST_SUMS", "MOST_MERGED"):
        monkeypatch.setattr(discrete, name, most)


@pytest.mark.parametrize(
    ("seeds", "largest"), [(range(40), 12), pytest.param(range(1000, 1600), 17, marks=pytest.mark.slow)]
)
def test_derivatives_of_merged_sums_stay_within_their_stated_errors(monkeypatch, seeds, largest):
    """Also with weights near a lattice, where cells cut what belongs together."""
    merged = 0
    for seed in seeds:
        law, M, b, rows = random_case(seed, largest)
        i, n = int(rows[0]), law.n_features
        if seed % 6 == 1:
            rng = np.random.default_rng(seed)
            M += 10.0 ** rng.uniform(-7.0, -2.0) * rng.normal(size=(n, n))
            b = b + 1e-3
        elif seed % 6 == 2:  # on or off but for rounding: at a kink
            continue
        problem = LossProblem.of(M, b, law, rows=[i])
        few_sums(monkeypatch, 8)
        found, _ = solve(problem, Accuracy(method="discrete", refuse_lost=False), True)
        by_row, by_b = slopes(M, b, law, i)
        change = max(np.abs(found.by_M[0] - by_row).max(), abs(found.by_b[0] - by_b))
        assert change <= found.slope_errors[0], seed
        assert np.abs(found.losses - enumerated(M, b, law, [i])) <= found.errors + 1e-300, seed
        merged += change > 1e-10 * found.slope_errors[0]
    assert merged >= len(seeds) // 4


def test_merged_sums_far_from_the_kink_have_exact_derivatives(monkeypatch):
    """There the loss is a square, whose derivatives see moments alone."""
    few_sums(monkeypatch, 16)
    M, _ = network(13)
    M, law = np.abs(M), Features(13, np.geomspace(0.05, 0.5, 13), "binary")
    for i in (0, 12):
        found = evaluator(law, method="discrete")((M, 0.3), rows=[i], gradient=True)
        by_row, by_b = slopes(M, np.full(13, 0.3), law, i)
        assert found.by_M[0] == pytest.approx(by_row, rel=1e-12)
        assert found.by_b[0] == pytest.approx(by_b, rel=1e-12)


def test_derivatives_of_many_features_are_those_of_a_binomial():
    n, p, on = 257, 0.05, np.arange(257)
    rng = np.random.default_rng(0)
    row = np.r_[0.6, np.full(n - 1, 0.07) + 1e-9 * rng.normal(size=n - 1)]
    loss = evaluator(Features(n, p, "binary"), tol=1e-6)
    found = loss((np.tile(row, (n, 1)), -0.5), rows=[0], gradient=True)
    chance, derivative = binom.pmf(on, n - 1, p), np.zeros(2)
    for x, share in ((0.0, 1.0 - p), (1.0, p)):
        y = 0.07 * on + 0.6 * x - 0.5
        push = -2.0 * share * chance * (x - y) * (y > 1e-6)
        derivative += np.sum(push * x), np.sum(push * on / (n - 1))
    assert found.method == "discrete"
    assert found.by_M[0, 0] == pytest.approx(derivative[0], abs=1e-6)
    assert found.by_M[0, 1:] == pytest.approx(derivative[1], abs=1e-6)
    assert found.gradient_error[0] < 1e-3


def test_sums_that_are_merged_stay_within_what_is_asked_for_and_stated():
    n = 50  # nearly equal weights: the number of features that are on is nearly binomial
    M, b, law = 0.03 * np.ones((n, n)), np.full(n, -0.1), Features(n, 0.1, "binary")
    M[0] += np.r_[0.87, 1e-3 * np.random.default_rng(0).normal(size=n - 1)]
    best = exact_loss(M, b, law, rows=[0])
    assert best.error_estimate <= 1e-7 * best.loss
    for tol in (1e-4, 1e-6):
        found = exact_loss(M, b, law, tol=tol, rows=[0])
        assert np.abs(found.loss - best.loss) <= found.error_estimate + best.error_estimate
        assert found.error_estimate <= tol * 0.1


@pytest.mark.parametrize("values", ["uniform", "symmetric", "half-normal"])
def test_groups_that_are_conditioned_on_give_what_their_transforms_do(values):
    n = 16
    M, b = network(n)
    law = Features(n, 0.1, values, groups=[exclusive([0, 3, 5], 0.1), synchronous([1, 2], 0.2)])
    name = "contour" if values == "half-normal" else "fourier"
    given, direct = (
        evaluator(law, tol=1e-9, method=one)((M, b), gradient=True, rows=[0, 1, 7]) for one in ("auto", name)
    )
    change = np.abs(given.per_feature - direct.per_feature)
    assert np.all(change <= given.per_feature_error + direct.per_feature_error)
    assert np.abs(given.by_M - direct.by_M).max() <= (given.gradient_error + direct.gradient_error).max()
    assert np.all(given.per_feature_error <= 1e-8 * law.second_moment[[0, 1, 7]])


def test_scales_over_nine_decades_take_no_sum_over_frequencies():
    """It took 76 s; outputs that are never on need two moments, where patterns lose digits."""
    W = np.random.default_rng(0).normal(size=(5, 2)) / np.sqrt(2)
    law = Features(5, 0.1, "symmetric", np.geomspace(1e-9, 1.0, 5))
    found = exact_loss(W @ W.T, -0.1, law)
    assert "fourier" not in found.method
    assert np.all(found.per_feature_error <= 1e-6 * found.per_feature)


def test_probabilities_whose_products_underflow_give_the_loss_of_one_feature():
    """It said that NaN is no integer."""
    n, p = 64, 1e-200
    M, _ = network(n)
    found = evaluator(Features(n, p, "binary"))((M, -0.1), rows=[0, 5], gradient=True)
    for k, i in enumerate((0, 5)):
        target = np.arange(n) == i
        on = np.maximum(M[i] - 0.1, 0.0)
        assert found.per_feature[k] == pytest.approx(p * np.sum((target - on) ** 2), rel=1e-12)
        assert 2.0 * found.by_M[k] == pytest.approx(-2.0 * p * (target - on) * (on > 0.0), rel=1e-12)


@pytest.mark.parametrize("n", [5, 14, 15, 40])
def test_a_kink_that_rounding_hides_has_the_mean_of_both_slopes(n):
    """Three weights of .1 and a bias of -.3 are 2.8e-17 in doubles; up to 14 features counted them as on."""
    found = evaluator(Features(n, 0.3, "binary"))((np.full((n, n), 0.1), -0.3), rows=[0], gradient=True)
    on = np.arange(n + 1)
    slopes = np.where(on > 3, 1.0, 0.5 * (on == 3))
    derivative = -2.0 * np.sum(binom.pmf(on, n, 0.3) * slopes * (on / n - 0.1 * (on - 3.0)))
    assert found.by_b[0] == pytest.approx(derivative, rel=1e-12)


@pytest.mark.parametrize(("n", "p"), [(60, 1e-12), (80, 1e-8), (50, 1e-14), (61, 0.1)])
def test_masses_without_an_inverse_give_the_loss_of_equal_weights(n, p):
    """The loss was nan; at p = 0.1 masses have inverses, and sums are merged."""
    found = exact_loss(np.full((n, n), 0.1), -0.3, Features(n, p, "binary"), rows=[0])
    on = np.arange(n + 1)
    y = np.maximum(0.1 * on - 0.3, 0.0)
    true = np.sum(binom.pmf(on, n, p) * (on / n * (1.0 - y) ** 2 + (1.0 - on / n) * y**2))
    assert found.loss == pytest.approx(true, rel=1e-12)
    assert found.error_estimate < 1e-12
