"""The exact loss against brute force in exact fractions, Irwin-Hall sums, closed forms and samples."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb, factorial

import mpmath
import numpy as np
import pytest

from superposition.solvers.loss import exact_loss, row_loss
from superposition.solvers.loss.budget import loss_by_descent_kernel
from superposition.solvers.loss.descent import DescentLoss
from superposition.solvers.loss.dispatch import NAMES, choose
from superposition.solvers.loss.exact import evaluate
from superposition.solvers.loss.problem import Accuracy, LossProblem, law_of
from superposition.theory.features import Features

from .loss_oracle import brute_force, slope

UNIT = 2.0**-53


def assert_honest(result, exact, row, b, p, tol):
    """Check that the estimate covers the error, and is what was asked for and what rounding needs."""
    error, scale = abs(Fraction(result.loss) - exact), p / 3
    assert error <= Fraction(result.error_estimate), (float(error / scale), result.error_estimate / scale)
    # rounding: a few dozen units of the loss, and of the square of the pre-activation's range, which the
    # tilt e^5 / 5^2 and the images make a hundred times as large, where anything is on
    reach = 1 + abs(b) + np.sum(np.abs(row))
    rounding = 32 * UNIT * float(exact) + 3000 * UNIT * min(1, len(row) * p) * reach**2
    assert result.error_estimate <= tol * scale + rounding


CASES = {
    "one feature": ([0.7], 0, 0.1, 0.3), "one feature, shrunk below zero": ([-2.0], 0, 0.5, 1.0),
    "two features, always on": ([1.0, -0.6], 0, -0.1, 1.0),
    "atoms: almost nothing on": ([0.9, 0.4, -0.3, 0.2], 0, -0.05, 1e-6),
    "bias of the atom": ([0.9, 0.4, -0.3, 0.2], 0, 0.3, 1e-6),
    "hardly any p": ([0.9, 0.4, -0.3, 0.2], 0, 0.0, 1e-12),
    "almost always on": ([0.9, 0.4, -0.3, 0.2], 0, -0.1, 1 - 1e-9),
    "always on": ([0.9, 0.4, -0.3, 0.2, -0.25], 0, -0.1, 1.0), "zero row": ([0.0, 0.0, 0.0], 1, 0.2, 0.4),
    "own weight zero": ([0.5, 0.0, -0.25, 0.125], 1, 0.0625, 0.4),
    "own weight tiny": ([0.5, 1e-9, -0.25, 0.125], 1, 0.0625, 0.4),
    "zeros beside": ([0.8, 0.0, -0.25, 0.0, 0.3], 0, -0.1, 0.4),
    "negative own weight": ([0.5, -0.8, 0.6, 0.4], 1, 0.1, 0.5),
    "kink on a vertex": ([1.0, 0.5, -0.25, 0.25], 0, -0.5, 0.5),
    "kink on the sum": ([1.0, 0.5, 0.25, 0.75], 0, -1.5, 0.5),
    "tiny and large": ([1.0, 1.0, 1e-12, -3e-12], 0, 1e-12, 0.5),
    "a ladder of scales": ([0.9, 1.0, -1e-3, 1e-6, -1e-9], 0, 1e-9, 0.5),
    "noise far below the own weight": ([1.0, 1e-8, -2e-8, 3e-8], 0, -1e-8, 0.5),
    "edge far above the noise": ([1.0, 1e-8, -2e-8, 3e-8], 0, -1 + 1e-8, 0.5),
    "negative edge far above the noise": ([-1.0, 1e-8, -2e-8, 3e-8], 0, 1 + 1e-8, 0.5),
    "never on": ([0.5, -1.0, -2.0, -0.5], 0, -0.75, 0.5), "never off": ([0.5, -1.0, 0.5, -0.5], 0, 2.0, 0.5),
    "between the kinks": ([1.0, 1e-3, 2e-3, -1e-3], 0, -0.5, 0.5),
    "between negative kinks": ([-1.0, 1e-3, 2e-3, -1e-3], 0, 0.5, 0.5),
    "large entries": ([1.0, 900.0, -300.0, 450.0], 0, 20.0, 0.2),
    "no features beside": ([0.0, 0.0, 1.0], 2, 0.0, 0.1),
}  # fmt: skip


def assert_slopes_honest(row, i, b, p, tol, limits, places=None):
    """Compare loss and derivatives with brute force; return what was found."""
    n = len(row)
    M, bias, law = np.zeros((n, n)), np.zeros(n), Features(n, p)
    M[i], bias[i] = row, b
    result = evaluate(LossProblem.of(M, bias, p, [i]), Accuracy(tol, refuse_lost=False, **limits), True)
    for place in range(n + 1) if places is None else places:
        by = Fraction(float(np.append(result.by_M[0], result.by_b)[place]))
        error = abs(by - slope(law, row, i, b, place))
        assert error <= Fraction(result.gradient_error[0]) + Fraction(1, 10**60), (row, i, b, p, place)
    assert abs(Fraction(result.loss) - brute_force(law, row, i, b)) <= Fraction(result.error_estimate)


METHODS = [{}, {"method": "uniform_fourier"}, {"method": "uniform_fourier", "max_frequencies": 256}]


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_at_corners(case):
    row, i, b, p = CASES[case]
    exact = brute_force(Features(len(row), p), row, i, b)
    for tol in (1e-12, 1e-5):
        assert_honest(row_loss(row, i, b, p, tol=tol), exact, row, b, p, tol)
    assert_slopes_honest(row, i, b, p, 1e-12, METHODS[1])


@pytest.mark.parametrize(
    ("row", "b"),
    [
        ([1.0, 0.5, -0.4, 4e-3, -3e-3, 2e-3], 0.3),  # images on the right
        ([1.0, 0.5, -0.4, 4e-3, -3e-3, 2e-3], 2.0),  # never off: moments alone
        ([0.9, 0.4, 3e-3, -1e-4, 2e-6], 0.1),
    ],
)
def test_patterns_of_small_entries_count_in_their_own_level_alone(row, b):
    """Two small entries on, and no large one, are of the next level (`auto` leaves few features to folds)."""
    M, bias, p, law = np.zeros((len(row), len(row))), np.full(len(row), b), 0.3, Features(len(row), 0.3)
    M[0] = row
    exact = brute_force(law, row, 0, b)
    wrong = brute_force(law, row, 0, b, omit=lambda on: sum(on[3:]) > 1 and not any(on[1:3]))
    for slopes, tol in product([False, True], [1e-12, 1e-5]):
        result = evaluate(LossProblem.of(M, bias, p, [0]), Accuracy(tol, method="uniform_fourier"), slopes)
        assert_honest(result, exact, row, b, p, tol)
        assert abs(Fraction(result.loss) - wrong) > 20 * Fraction(result.error_estimate)


def random_case(rng):
    """Draw a row with entries of one scale, of many, or from a grid whose sums meet the kinks exactly."""
    n = int(rng.integers(2, 6))
    row = rng.standard_normal(n)
    kind = rng.integers(4)
    if kind == 1:
        row *= 10.0 ** rng.uniform(-13, 0, n)
    elif kind == 2:
        row = rng.choice([-1, -0.5, 0, 0.25, 1], n)
    elif kind == 3:
        row *= 10.0 ** rng.uniform(-3, 1)
    i = int(rng.integers(n))
    if rng.random() < 0.4:
        row[i] = 1 - 10.0 ** rng.uniform(-12, 0)
    b = rng.choice([0, 0.3 * rng.normal(), -row.sum(), -row[i], row[0] / 2, -(10.0 ** rng.uniform(-12, 0))])
    p = rng.choice([1, 0.5, 10.0 ** rng.uniform(-8, 0), 1 - 10.0 ** rng.uniform(-8, 0)])
    return row, i, float(b), float(p)


@pytest.mark.parametrize("limits", METHODS, ids=["auto", "uniform", "few frequencies"])
@pytest.mark.parametrize("cases", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_error_estimates_of_gradients_are_never_below_the_error(cases, limits):
    rng = np.random.default_rng(2)
    for _ in range(cases):
        row, i, b, p = random_case(rng)
        tol = float(rng.choice([1e-5, 1e-7, 1e-12]))
        assert_slopes_honest(row, i, b, p, tol, limits, {i, int(rng.integers(row.size)), row.size})


@pytest.mark.parametrize("p", [0.01, 0.3])
def test_the_gradient_of_many_features_is_that_of_other_methods(p):
    """Sums over patterns (12 features) and over one lattice for all weights (40)."""
    for n, other in ((12, "folding"), (40, "fourier")):
        M, b = network(n, 0.25, seed=4)
        problem = LossProblem.of(M, b, p, range(4))
        both = [evaluate(problem, Accuracy(method=name), True) for name in ("uniform_fourier", other)]
        apart = np.abs(both[0].by_M - both[1].by_M).max(axis=1)
        apart = np.maximum(apart, np.abs(both[0].by_b - both[1].by_b))
        assert np.all(apart <= both[0].gradient_error + both[1].gradient_error)
        assert np.all(both[0].gradient_error <= 1e-8 * np.abs(both[1].by_M).max(axis=1))


def equal_rows(m, n_others, a, b, p):
    """Return the loss for n_others equal entries m: a binomial number is on, with an Irwin-Hall sum."""
    with mpmath.workdps(400):  # the vertex sums cancel as (reach / m)^k / k!, below 1e150 here
        m, a, b, p = (mpmath.mpf(x) for x in (m, a, b, p))
        total = mpmath.mpf(0)
        for k in range(n_others + 1):
            chance = comb(n_others, k) * p**k * (1 - p) ** (n_others - k)
            if chance < 1e-30:
                if k > p * n_others:
                    break
                continue
            powers = {}
            for shift in (b, a + b):
                ys = [(i, shift + m * i) for i in range(k + 1) if shift + m * i > 0]
                terms = [((-1) ** (k - i) * comb(k, i) * y**k, y) for i, y in ys]
                for r in (1, 2, 3):
                    volume = m**k * mpmath.mpf(factorial(k + r)) / factorial(r)
                    powers[r, shift] = mpmath.fsum(c * y**r for c, y in terms) / volume
            off = powers[2, b]
            square = (powers[3, a + b] - powers[3, b]) / (3 * a)
            on = mpmath.mpf(1) / 3 - (powers[2, a + b] - square) / a + square
            total += chance * ((1 - p) * off + p * on)
        return total


@pytest.mark.parametrize(
    ("m", "n_others", "a", "b", "p"),
    [
        (0.125, 15, 0.9, -0.25, 1.0),
        (-0.11, 31, 1.1, 0.4, 0.5),
        (0.09, 127, 0.9, -0.27, 0.05),
        (-0.06, 511, 0.9, 0.0, 0.003),
        (0.015625, 4095, 0.95, -0.03125, 2.5e-4),
        (0.1, 4095, 0.9, 0.0, 7.8e-6),  # equal small terms: plain sums would drift as far as the estimate
    ],
)
def test_many_equal_entries(m, n_others, a, b, p):
    exact = equal_rows(m, n_others, a, b, p)
    result = row_loss(np.r_[a, np.full(n_others, m)], 0, b, p)
    assert abs(result.loss - exact) <= result.error_estimate
    # the documented accuracy; rounding grows like the number of entries where all are equal
    assert result.error_estimate <= max(1.2e-12, 2.5e-13 * n_others) * p / 3


def network(n, ratio, seed):
    """Return a random tied network with its diagonal near one and the bias a little below zero."""
    W = np.random.default_rng(seed).standard_normal((n, int(ratio * n))) / np.sqrt(ratio * n)
    return W @ W.T, np.linspace(-0.2, 0.1, n)


def test_rows_are_those_of_the_whole():
    M, b = network(24, 0.5, seed=7)
    whole = exact_loss(M, b, 0.1)
    assert whole.error_estimate == pytest.approx(whole.per_feature_error.mean(), rel=1e-14, abs=0)
    some = exact_loss(M, b, 0.1, rows=[20, 3, 3])
    assert np.array_equal(some.per_feature, whole.per_feature[[20, 3, 3]])
    assert some.loss == some.per_feature.mean()
    assert row_loss(M[20], 20, b[20], 0.1).loss == whole.per_feature[20]
    assert np.array_equal(
        exact_loss(M, 0.1, 0.1).per_feature, exact_loss(M, np.full(24, 0.1), 0.1).per_feature
    )


def random_problem(n, p, seed=0):
    """Return a problem of n features on a fourth as many neurons."""
    W = np.random.default_rng(seed).normal(size=(n, n // 4)) / np.sqrt(n // 4)
    return LossProblem.of(W @ W.T, np.full(n, -0.1), p)


@pytest.mark.parametrize("n", [16, 40, 64])
def test_losses_by_the_kernel_of_descents_are_those_of_the_kernel_without_derivatives(n):
    problem = random_problem(n, 0.05)
    found, alone = loss_by_descent_kernel(problem, Accuracy()), evaluate(problem, Accuracy())
    errors = found.per_feature_error + alone.per_feature_error
    assert np.all(np.abs(found.per_feature - alone.per_feature) <= errors)
    assert np.all(found.per_feature_error <= 2e-12 * np.maximum(alone.per_feature, 0.05 / 3))


@pytest.mark.parametrize("law", [Features(12, 0.05), Features(65, 0.05), Features(20, 0.05, "binary")])
def test_other_losses_have_a_kernel_of_their_own(law):
    n = law.n_features
    assert loss_by_descent_kernel(replace(random_problem(n, 0.05), law=law_of(law, n)), Accuracy()) is None


@pytest.mark.parametrize("p", [0.01, 0.5])
def test_descents_of_few_features_by_levels_have_the_loss_and_slopes_of_folds(p):
    accuracy, problem = Accuracy(1e-9, max_frequencies=4096, refuse_lost=False), random_problem(13, p)
    folds = DescentLoss(problem.law.features, None, accuracy)
    assert folds.method == "folding"
    by_levels = folds.by_levels()(problem.weights, problem.biases, accuracy)
    for found, expected in zip(by_levels, folds(problem.weights, problem.biases, accuracy), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * p)


@pytest.mark.parametrize("tol", [1e-7, 1e-9, 1e-12])
def test_levels_come_before_the_general_sum(tol):
    problem = random_problem(256, 0.5)
    names = [NAMES[method] for method in choose(problem, Accuracy(tol), True)]
    assert names == ["uniform_fourier", "fourier"]  # which takes ten times as long and more
