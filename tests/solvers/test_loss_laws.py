"""The exact loss and its gradient at every law of the data: all patterns in mpmath, and samples."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from superposition.solvers.loss import exact_gradient, exact_loss, row_hessian, row_loss, value_and_gradient
from superposition.theory.features import Features

from ..oracles import differences
from .loss_oracle import brute_force, slope

TOGETHER = ([0, 1], [[1, 1], [0, 0]], [0.3, 0.7])
EXCLUSIVE = ([0, 2, 3], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], [0.1, 0.2, 0.15, 0.55])
PARENT = ([1, 2], [[0, 0], [1, 0], [1, 1]], [0.6, 0.3, 0.1])
P = (0.1, 0.35, 0.02, 0.6)
SCALE, IMPORTANCE = (1.0, 0.5, 2.0, 3.0), (1.0, 0.1, 5.0, 2.0)

LAWS = {
    "alike": Features(4, 0.2),
    "unequal": Features(4, P, scale=SCALE, importance=IMPORTANCE),
    "binary": Features(4, P, "binary", SCALE, IMPORTANCE),
    "exponential": Features(4, P, "exponential", SCALE, IMPORTANCE),
    "symmetric": Features(4, P, "symmetric", SCALE, IMPORTANCE),
    "normal": Features(4, P, "normal", SCALE, IMPORTANCE),
    "half-normal": Features(2, P[:2], "half-normal", SCALE[:2], IMPORTANCE[:2]),
    "together": Features(4, P, groups=[TOGETHER]),
    "exclusive": Features(4, P, "exponential", groups=[EXCLUSIVE]),
    "parent and child": Features(4, P, "symmetric", groups=[PARENT]),
    "exactly two": Features(4, P, exactly=2),
    "exactly two exponential": Features(4, P, "exponential", exactly=2),
    "exactly two with a group": Features(4, P, "normal", groups=[PARENT], exactly=2),
}


def wide(rng, n):
    """Weights over twelve decades, and a bias of the size of one of them."""
    M = rng.choice([-1, 1], (n, n)) * 10 ** rng.uniform(-6, 6, (n, n))
    size = np.abs(M[np.arange(n), rng.integers(n, size=n)])
    return M, rng.choice([-1, 1], n) * size * rng.uniform(0.1, 1, n)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "half-normal")) for name in LAWS]
)
@pytest.mark.parametrize(("seed", "gradients"), [(0, [0]), pytest.param(1, [0, 1], marks=pytest.mark.slow)])
def test_brute_force_with_weights_over_twelve_decades(name, seed, gradients):
    law, rng = LAWS[name], np.random.default_rng([seed, len(name)])
    n = law.n_features
    M, b = wide(rng, n)
    # weights of a size, too: these have a loss far below the square of the outputs
    M[1], b[1] = rng.normal(size=n), 0.3 * rng.normal()
    found = exact_loss(M, b, law)
    by_M, by_b = exact_gradient(M, b, law)
    for i in range(n):
        true = brute_force(law, M[i], i, b[i])
        error = abs(type(true)(float(found.per_feature[i])) - true)
        assert error <= found.per_feature_error[i]
        assert error <= 1e-10 * true
        # The integrals along rays of half-normal values have no digits for derivatives over twelve decades.
        if i in gradients and (i == 1 or name != "half-normal"):
            slopes = np.array([float(slope(law, M[i], i, b[i], place)) for place in range(n + 1)])
            got = np.append(by_M[i], by_b[i]) * n / law.importance[i]
            assert np.abs(got - slopes).max() <= 1e-10 * np.abs(slopes).max()
    assert found.loss == pytest.approx(np.mean(law.importance * found.per_feature), rel=1e-14)


GROUPS = [
    ([0, 1, 2], [[1, 1, 1], [0, 0, 0]], [0.1, 0.9]),
    ([10, 20, 30], np.eye(3, dtype=int), [0.2, 0.3, 0.5]),
]


OF_64 = [
    *(Features(64, np.geomspace(0.01, 0.3, 64), v, np.linspace(0.5, 2, 64)) for v in ("uniform", "normal")),
    Features(64, 0.05, "symmetric"),
    Features(64, 0.05, groups=GROUPS),
    Features(64, 0.05, "exponential", groups=GROUPS),
    Features(64, np.geomspace(0.01, 0.3, 64), "rectified-normal"),
    Features(64, 0.05, exactly=3),
]
MORE_OF_64 = [
    *(Features(64, 0.05, v) for v in ("binary", "half-normal", "exponential")),
    Features(64, 0.05, "rectified-normal(4)", 0.25, groups=GROUPS),
    *(Features(64, 0.05, v, exactly=3) for v in ("half-normal", "rectified-normal(-1)")),
]


@pytest.mark.parametrize(
    ("law", "batches"),
    [
        *((law, 20) for law in OF_64),
        *(pytest.param(law, 2000, marks=pytest.mark.slow) for law in (*OF_64, *MORE_OF_64)),
    ],
    ids=lambda x: f"{x.values}-{len(x.groups)}-{x.exactly}" if isinstance(x, Features) else None,
)
def test_samples_of_64_features(law, batches):
    """A false alarm in 1e-3 for each law: loss and directional derivative, two-sided; 10^5 or 10^7."""
    rng = np.random.default_rng(batches)
    W = rng.normal(size=(64, 16)) / 4
    M, b = W @ W.T, np.full(64, -0.1)
    rows = np.array([0, 40])
    D, d = rng.normal(size=(rows.size, 64)), rng.normal(size=rows.size)
    losses, slopes = [], []
    for _ in range(batches):
        x = law.sample(5000, rng)
        y = x @ M[rows].T + b[rows]
        error = x[:, rows] - np.maximum(y, 0)
        losses.append(np.mean(error**2 @ law.importance[rows]) / rows.size)
        slopes.append(np.mean(-2 * error * (y > 0) * (x @ D.T + d) @ law.importance[rows]))
    exact = exact_loss(M, b, law, rows=rows, tol=1e-8)
    # sums of binary values have atoms, on which the bound of the lattice sum is far from sharp
    assert exact.error_estimate <= (1e-3 if law.values == "binary" else 1e-6) * exact.loss
    by = np.array([row_gradient(M[i], int(i), b[i], law, tol=1e-8) for i in rows])
    slope = np.sum(law.importance[rows, None] * by * np.c_[D, d])
    for got, seen in ((exact.loss, losses), (slope, slopes)):
        assert stats.ttest_1samp(seen, got).pvalue > 5e-4


def row_gradient(row, i, b, law, tol=1e-13):
    """Gradient of one output's loss, from the model whose other rows are silent."""
    M, bias = np.zeros((row.size, row.size)), np.zeros(row.size)
    M[i], bias[i] = row, b
    _, by_M, by_b = value_and_gradient(M, bias, law, tol=tol, rows=[i])
    return np.append(by_M[0], by_b[0]) / law.importance[i]


@pytest.mark.parametrize(
    ("values", "n"),
    [
        *((values, 5) for values in ("uniform", "symmetric", "exponential", "half-normal", "normal")),
        ("exponential", 12),
        *(
            pytest.param(values, 12, marks=pytest.mark.slow)
            for values in ("uniform", "normal", "symmetric", "half-normal")
        ),
    ],
)
def test_hessian_is_the_derivative_of_the_gradient(values, n):
    law = Features(n, np.linspace(0.05, 0.3, n), values, np.linspace(0.5, 1.5, n))
    rng = np.random.default_rng(n)
    row, b = 0.3 * rng.normal(size=n), -0.1
    found = row_hessian(row, 1, b, law)
    assert found.loss == pytest.approx(row_loss(row, 1, b, law).loss, rel=1e-8)
    # second-order differences: h^2 times a third derivative, which is of the order of 1/|row|
    numeric = differences(lambda at: row_gradient(at[:-1], 1, at[-1], law), np.append(row, b), 1e-4)
    assert np.abs(found.hessian - numeric).max() <= 1e-5 * np.abs(found.hessian).max()


def test_the_rarest_features():
    """One feature on at a time: the loss is p times a number, and the estimate knows it."""
    row = np.r_[1.0, 0.5, -0.3, 0.2, 0.4, 0.1, 0.3, 0.2]
    rare = row_loss(row, 0, -0.1, 1e-100)
    for p in (1e-200, 1e-240, 1e-290):
        rarer = row_loss(row, 0, -0.1, p)
        assert rarer.loss / p == pytest.approx(rare.loss / 1e-100, rel=1e-14, abs=0)
        assert rarer.error_estimate < 1e-9 * rarer.loss


@pytest.mark.parametrize("values", ["uniform", "symmetric"])
@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.05])
def test_outputs_whose_relu_never_bends_hear_what_they_hear_alone(values, size):
    """Rows of dropped features with small weights: beside features that they do not hear nothing changes.

    The four features alone are summed over their patterns; among 20 the rows take another way, by moments,
    where a sum over frequencies would want some 1/size of them.
    """
    rng, table = np.random.default_rng(5), [[0, 0], [1, 1], [0, 1]]
    M, b = size * rng.normal(size=(4, 4)), np.array([0.4, -0.4, 0.3, 0.5])
    p, scale = [0.2, 0.5, 0.6, 0.7], [1.0, 2.0, 0.5, 1.0]
    alone = Features(4, p, values=values, scale=scale, groups=[([1, 3], table, [0.5, 0.3, 0.2])])
    law = Features(20, [*p, *[0.5] * 16], values=values, scale=[*scale, *[1.0] * 16], groups=alone.groups)
    wide, rest = np.zeros((20, 20)), np.ones(16)
    wide[:4, :4] = M
    wanted, found = exact_loss(M, b, alone), exact_loss(wide, [*b, *rest], law, rows=range(4))
    assert np.all(np.abs(found.per_feature - wanted.per_feature) <= 1e-15 + 1e-14 * wanted.per_feature)
    by_M, by_b = exact_gradient(wide, [*b, *rest], law)
    for part, whole in zip(exact_gradient(M, b, alone), (by_M[:4, :4], by_b[:4]), strict=True):
        np.testing.assert_allclose(20 * whole, 4 * part, rtol=1e-12, atol=1e-14)


def test_rare_features_of_which_one_is_on():
    """Ratios of 1e-17 between weights of 1e-110: their logarithms would lose two digits."""
    for seed, i in product(range(8), range(2)):
        p = [7.5e-110, 7.2e-127 * (1 + seed / 7)]
        law = Features(2, p, ("uniform", "binary", "symmetric")[seed % 3], [172, 0.053], exactly=1)
        found, true = exact_loss(np.zeros((2, 2)), 0.0, law, rows=[i]), brute_force(law, np.zeros(2), i, 0.0)
        assert abs(Fraction(found.loss) - true) <= min(found.error_estimate, 1e-15 * true)


@pytest.mark.parametrize("values", ["uniform", "binary", "symmetric"])
def test_entries_too_small_for_the_sum_are_in_the_error(values):
    row = np.r_[1.0, [1e-15, -1e-15, 1e-15, -1e-15], np.zeros(11)]
    group = ([0, 1, 2, 3, 4], [[0] * 5, [1] * 5, [1, 0, 1, 0, 1], [0, 1, 0, 0, 1]], [0.4, 0.3, 0.2, 0.1])
    law, alone = (Features(n, 0.1, values, groups=[group]) for n in (16, 5))
    found, true = row_loss(row, 0, 0.0, law), brute_force(alone, row[:5], 0, 0.0)
    assert 0 < abs(Fraction(found.loss) - true) <= found.error_estimate < 1e-11
