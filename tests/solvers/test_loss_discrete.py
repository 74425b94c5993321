"""Losses of features with finitely many values, against sums over all states in extended precision."""

from itertools import combinations, product

import numpy as np
import pytest

from superposition.solvers.loss import evaluator, exact_loss, value_and_gradient
from superposition.theory.features import Features, Values, exclusive, parent_child, synchronous

THREE = Values(
    "three", (-1.0, 2.0), lambda k: 0.25 * (-1.0) ** k + 0.25 * 0.5**k + 0.5 * 2.0**k,
    lambda rng, size: rng.choice([-1.0, 0.5, 2.0], size, p=[0.25, 0.25, 0.5]),
    atoms=[(-1.0, 0.25), (0.5, 0.25), (2.0, 0.5)],
    transform=lambda z: (
        0.25 * np.exp(-z) + 0.25 * np.exp(0.5 * z) + 0.5 * np.exp(2.0 * z),
        -0.25 * np.exp(-z) + 0.125 * np.exp(0.5 * z) + np.exp(2.0 * z),
        0.25 * np.exp(-z) + 0.0625 * np.exp(0.5 * z) + 2.0 * np.exp(2.0 * z),
    ),
)  # fmt: skip


def states(law):
    """Return all states of independent features and groups, as rows, and their probabilities."""
    x, chance = np.zeros((1, law.n_features), np.longdouble), np.ones(1, np.longdouble)
    for members, patterns, weights in law.blocks:
        exact = weights.astype(np.longdouble)
        if members.size == 1 and len(weights) == 2:
            exact[0] = 1 - exact[1]  # 1 - p is no double
        table, likely = [], []
        for pattern, weight in zip(patterns, exact, strict=True):
            for values in product(*(law.values.atoms if on else ((0.0, 1.0),) for on in pattern)):
                table.append([value for value, _ in values])
                likely.append(weight * np.prod([share for _, share in values]))
        x = np.repeat(x, len(table), axis=0)
        x[:, members] = np.tile(np.array(table), (chance.size, 1))
        chance = np.multiply.outer(chance, np.array(likely, np.longdouble)).ravel()
    if law.exactly is not None:
        some = (x != 0.0).sum(axis=1) == law.exactly
        x, chance = x[some], chance[some] / chance[some].sum()
    return x, chance


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


def random_case(seed, largest, decades=6.0):
    """Return a random law with p over six decades, a model, and some of its outputs."""
    rng = np.random.default_rng(seed)
    values = THREE if seed % 5 == 0 else "binary"
    n = int(rng.integers(2, (largest + 1) if values == "binary" else min(largest, 10) + 1))
    p, groups = 10.0 ** rng.uniform(-decades, 0.0, n), ()
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
    return (
        Features(n, p, values, scale, groups=groups, exactly=exactly),
        M,
        b,
        rng.choice(n, min(n, 3), replace=False),
    )


def worst_excess(seeds, largest):
    """Return the largest true error over the stated one."""
    ratios = []
    for seed in seeds:
        law, M, b, rows = random_case(seed, largest)
        found, true = exact_loss(M, b, law, rows=rows), enumerated(M, b, law, rows)
        stated = found.per_feature_error + 1e-300
        ratios.append(float(np.max(np.abs(found.per_feature - true) / stated)))
    return max(ratios)


def test_stated_errors_hold_with_probabilities_over_six_decades():
    assert worst_excess(range(60), 9) <= 1.0


@pytest.mark.slow
def test_stated_errors_hold_in_two_thousand_cases():
    assert worst_excess(range(1000, 3000), 20) <= 1.0


@pytest.mark.parametrize("method", ["patterns", "moments", "discrete"])
def test_an_output_that_is_off_but_for_rounding_says_so(method):
    law = Features(3, [0.9, 0.9, 0.9], "binary")
    M = np.array([[1e3, 1e3 * 2.0**-54, 1e3 * 2.0**-54], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    b = np.array([-1e3, 0.0, 0.0])  # the sum of the weights rounds to 1000
    found, true = evaluator(law, method=method)((M, b), rows=[0]), enumerated(M, b, law, [0])
    assert np.abs(found.per_feature - true) <= found.per_feature_error
    assert found.per_feature_error < (1e-11 if method == "moments" else 1e-7)


@pytest.mark.parametrize("n", [18, 37])
def test_exactly_so_many_features_are_on(n):
    """A sum over frequencies took 2 minutes an output for an error of .3 %."""
    M, b = network(n)
    law = Features(n, np.geomspace(1e-3, 0.5, n), "binary", exactly=3)
    found = exact_loss(M, b, law, rows=[0, n - 1])
    assert found.method == "discrete"
    chances = [(1 - law.p.astype(np.longdouble)), law.p.astype(np.longdouble)]
    on = np.array(list(combinations(range(n), 3)))
    weight = np.prod(chances[1][on] / chances[0][on], axis=1)
    weight /= weight.sum()
    for loss, error, i in zip(found.per_feature, found.per_feature_error, (0, n - 1), strict=True):
        y = np.maximum(b[i] + M[i][on].astype(np.longdouble).sum(axis=1), 0.0)
        true = np.sum(weight * ((on == i).any(axis=1) - y) ** 2)
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
        evaluator(law, method=name)((M, b), gradient=True) for name in ("discrete", "patterns")
    )
    assert (halves.method, patterns.method) == ("discrete", "patterns")
    for one in ("M", "b"):
        change = np.abs(halves.gradient[one] - patterns.gradient[one]).reshape(12, -1).max(axis=1)
        assert np.all(change <= halves.gradient_error + patterns.gradient_error)
    many = value_and_gradient(*network(20), Features(20, 0.1, "binary"), rows=[0, 1])
    assert many.method == "discrete"
    assert many.gradient_error.max() < 1e-12


@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_sums_that_are_merged_stay_within_what_is_asked_for_and_stated(tol):
    n = 50  # equal weights: the number of features that are on is binomial
    M = 0.03 * np.ones((n, n))
    M[0, 0], b = 0.9, np.full(n, -0.1)
    rng = np.random.default_rng(0)
    M[0, 1:] += 1e-3 * rng.normal(size=n - 1)
    found = exact_loss(M, b, Features(n, 0.1, "binary"), tol=tol, rows=[0])
    best = exact_loss(M, b, Features(n, 0.1, "binary"), rows=[0])
    assert np.abs(found.loss - best.loss) <= found.error_estimate + best.error_estimate
    assert found.error_estimate <= tol * 0.1
    assert best.error_estimate <= 1e-7 * best.loss


def test_merged_sums_of_equal_weights_are_binomial():
    n, p, weight, bias = 61, 0.1, 0.25, -0.5
    row = np.full(n, weight)
    row[0] = 0.0
    found = exact_loss(np.tile(row, (n, 1)), bias, Features(n, p, "binary"), rows=[0])
    from scipy.stats import binom

    on = np.arange(n)
    y = np.maximum(weight * on + bias, 0.0)
    true = float(np.sum(binom.pmf(on, n - 1, p) * ((1.0 - p) * y**2 + p * (1.0 - y) ** 2)))
    assert found.loss == pytest.approx(true, rel=1e-12)
    assert found.error_estimate < 1e-12


@pytest.mark.parametrize("values", ["uniform", "symmetric", "half-normal"])
def test_groups_that_are_conditioned_on_give_what_their_transforms_do(values):
    n = 16
    M, b = network(n)
    law = Features(n, 0.1, values, groups=[exclusive([0, 3, 5], 0.1), synchronous([1, 2], 0.2)])
    name = "wedge" if values == "half-normal" else "lattice"
    given = evaluator(law, tol=1e-9)((M, b), gradient=True, rows=[0, 1, 7])
    direct = evaluator(law, tol=1e-9, method=name)((M, b), gradient=True, rows=[0, 1, 7])
    change = np.abs(given.per_feature - direct.per_feature)
    assert np.all(change <= given.per_feature_error + direct.per_feature_error)
    assert np.abs(given.by_M - direct.by_M).max() <= (given.gradient_error + direct.gradient_error).max()
    assert np.all(given.per_feature_error <= 1e-8 * law.second_moment[[0, 1, 7]])


def test_scales_over_nine_decades_take_no_sum_over_frequencies():
    """It took 76 s; outputs that are never on need two moments, where patterns lose digits."""
    W = np.random.default_rng(0).normal(size=(5, 2)) / np.sqrt(2)
    law = Features(5, 0.1, "symmetric", np.geomspace(1e-9, 1.0, 5))
    found = exact_loss(W @ W.T, -0.1, law)
    assert "lattice" not in found.method
    assert np.all(found.per_feature_error <= 1e-6 * found.per_feature)
