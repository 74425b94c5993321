"""What errors say of gradients: at kinks, where they cancel, by few frequencies; unknown laws."""

from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

from superposition.solvers.loss import evaluator, exact_gradient, exact_loss, value_and_gradient
from superposition.solvers.loss.exact import evaluate
from superposition.solvers.loss.problem import Accuracy, LossProblem
from superposition.solvers.minimise import descend
from superposition.theory.decoders import bayes_loss
from superposition.theory.features import VALUES, Features, ValueDistribution
from superposition.theory.features.values import law_named


def one_row(row, i, b):
    """Return a model whose other outputs are dead."""
    M, bias = np.zeros((row.size, row.size)), np.zeros(row.size)
    M[i], bias[i] = row, b
    return M, bias


# --- Kinks -------------------------------------------------------------------------------------------------

# Dead, of all signs, positive, negative.
ROWS = [0.0, 0.0, 0.0, 0.0], [0.0, 0.5, -0.3, 0.2], [0.0, 0.5, 0.3, 0.2], [0.0, -0.5, -0.3, -0.2]
CHANCES = [0.1, 0.3, 0.2, 0.4]


@pytest.mark.parametrize("values", VALUES)
def test_a_dead_output_has_half_of_the_derivatives_when_it_is_on(values):
    """The mean of both sides, -E x_i x_j and -E x_i, for every law and by every method."""
    for n in (4, 16):
        law = Features(n, CHANCES + [0.3] * (n - 4), values, 2.0)
        by_M, by_b = exact_gradient(np.zeros((n, n)), 0.0, law)
        np.testing.assert_allclose(n * by_M, -law.second_moment_matrix(), rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(n * by_b, -law.mean, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize(
    ("values", "others"),
    [
        pytest.param(values, others, marks=[pytest.mark.slow] * (values == "binary" and others > 0))
        for values in VALUES
        for others in (0, 12)
    ],
)
def test_derivatives_at_a_kink_are_the_mean_of_both_sides(values, others):
    """An output that is 0 unless others are on, by central differences of the exact loss."""
    n, h = 4 + others, 1e-5
    law = Features(n, CHANCES + [0.3] * others, values)
    # atoms of 16 binary features: an estimate of 1e-5, and losses as good as 1e-9
    bar = 2e-3 if values == "binary" and others else 1e-4
    for row in ROWS:
        M, bias = one_row(np.r_[row, np.zeros(others)], 0, 0.0)
        found = value_and_gradient(M, bias, law, rows=[0], tol=1e-11)
        for j in (0, 1, 2, n):
            step = h * np.eye(n + 1)[j]
            moved = [one_row(M[0] + side * step[:n], 0, side * step[n]) for side in (-1, 1)]
            ends = [exact_loss(*one, law, rows=[0]).loss for one in moved]
            assert abs(np.append(found.by_M[0], found.by_b[0])[j] - (ends[1] - ends[0]) / (2 * h)) < bar


# --- Errors of gradients -----------------------------------------------------------------------------------


def test_a_gradient_that_cancels_is_within_its_error():
    """M = 1 - 1e-15: the derivative is 1e-15 of its parts, which the error is in units of."""
    a = 1.0 - 1e-15
    for values, p in product(["uniform", "symmetric", "binary", "exponential"], [0.3, 1e-6]):
        found = value_and_gradient([[a]], [0.0], Features(1, p, values), tol=1e-12)
        with mp.workdps(40):
            half = mpf(1) / 2 if values == "symmetric" else 1  # below 0 the output is off
            true = 2 * (mpf(a) - 1) * half * mpf(law_named("values", values).moment(2)) * mpf(p)
        assert abs(found.by_M[0, 0] - true) <= found.gradient_error[0] <= 1e-12 * p


def model(values):
    rng = np.random.default_rng(3)
    W = rng.normal(size=(16, 4)) / 2
    return W @ W.T, np.full(16, -0.1), Features(16, 0.1, values)


@pytest.mark.parametrize(("values", "few"), [("uniform", (128, 512)), ("symmetric", (64, 256))])
def test_few_frequencies_are_seen_in_the_error(values, few):
    true = value_and_gradient(*model(values), tol=1e-10, rows=range(4))
    for frequencies in few:
        found = value_and_gradient(*model(values), frequencies=frequencies, rows=range(4))
        apart = np.maximum(np.abs(found.by_M - true.by_M).max(axis=1), np.abs(found.by_b - true.by_b))
        assert np.all(apart <= found.gradient_error)
        assert abs(found.loss - true.loss) <= found.error_estimate
        assert np.all(true.gradient_error < 0.1 * found.gradient_error)


@pytest.mark.parametrize("kind", ["any weights", "quarters"])
def test_derivatives_by_frequencies_with_atoms_near_the_kink_are_within_their_errors(kind):
    """What is cut off swings with the frequency: many changes tell it, and miss one row in a thousand."""
    rng, missed = np.random.default_rng(4), []
    for _ in range(15):
        n, p = int(rng.integers(5, 9)), float(rng.choice([0.02, 0.1, 0.3]))
        M = rng.normal(size=(n, n)) / 2 if kind == "any weights" else rng.integers(-4, 5, (n, n)) / 4
        b = [np.zeros(n), np.full(n, -0.25), -0.1 * rng.random(n)][int(rng.integers(3))]
        problem = LossProblem.of(M, b, Features(n, p, "binary"))
        few = Accuracy(method="fourier", max_frequencies=2000, refuse_lost=False)
        found, true = (evaluate(problem, wanted, True) for wanted in (few, Accuracy(method="enumeration")))
        apart = np.maximum(np.abs(found.by_M - true.by_M).max(axis=1), np.abs(found.by_b - true.by_b))
        missed += list(apart > found.gradient_error + true.gradient_error)
    assert sum(missed) <= 1


@pytest.mark.parametrize("values", ["half-normal", "exponential", "normal"])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_values_without_bounds_have_the_digits_that_are_asked_for(values, tol):
    """Stated errors hold, and are at most the tolerance; weights over nine decades, biases of any sign."""
    rng, n = np.random.default_rng(5), 10
    law = Features(n, 0.1, values)
    for spread in (0.0, 9.0):
        M = rng.normal(size=(n, n)) * 10.0 ** -rng.uniform(0.0, spread, (n, n))
        b = np.r_[np.zeros(2), rng.normal(size=n - 2)]
        problem = LossProblem.of(M, b, law)
        true = evaluate(problem, Accuracy(1e-15), True)
        for gradient in (False, True):
            found = evaluate(problem, Accuracy(tol), gradient)
            allowed = tol * np.maximum(law.second_moment, true.per_feature)
            assert found.method == "contour"
            assert np.all(np.abs(found.per_feature - true.per_feature) <= found.per_feature_error)
            assert np.all(found.per_feature_error <= allowed)
        apart = np.maximum(np.abs(found.by_M - true.by_M).max(axis=1), np.abs(found.by_b - true.by_b))
        assert np.all(apart <= found.gradient_error)


@pytest.mark.parametrize("frequencies", [16, 32])
def test_too_few_frequencies_are_refused(frequencies):
    with pytest.raises(ValueError, match=f"more `frequencies` than {frequencies}; .* would be off"):
        value_and_gradient(*model("symmetric"), frequencies=frequencies, rows=range(4))


def test_frequencies_do_not_switch_a_refusal_off():
    M, bias = one_row(np.r_[1.0, np.full(59, 1e9)], 0, -5.8e10)
    for frequencies in (None, 32, 64):
        with pytest.raises(ValueError, match="`M` must have entries that double precision can tell apart"):
            value_and_gradient(M, bias, 0.5, rows=[0], frequencies=frequencies)


@pytest.mark.slow
@pytest.mark.parametrize("values", ["symmetric", "exponential"])
def test_descents_converge_by_gradients_that_are_good_enough(values):
    rng, law = np.random.default_rng(0), Features(16, 0.1, values)
    W = rng.normal(size=(16, 4)) / 2
    found = descend(W, W.T, np.zeros(16), law, tied=True, steps=2000)
    assert found.status.name != "CONVERGED" or found.gradient_norm + found.gradient_error <= 1e-6
    M = np.ascontiguousarray(found.W_out @ found.W_in)
    fine = value_and_gradient(M, found.b, law, tol=1e-12)
    by_W, unit = (fine.by_M + fine.by_M.T) @ found.W_out, law.second_moment[0]
    slope = np.sqrt(np.sum(by_W**2) + np.sum(fine.by_b**2)) / unit
    assert abs(slope - found.gradient_norm) <= found.gradient_error


# --- Laws --------------------------------------------------------------------------------------------------


def part(name, **parts):
    """Return a law on [0, 1] of which only so much is known."""
    return ValueDistribution(
        name, (0.0, 1.0), lambda k: 2 / (k + 2), lambda rng, size: rng.random(size) ** 0.5, **parts
    )


LINE = {"density": lambda v: 2 * v}
PIECES = {"pieces": [(0.0, 1.0, (0.0, 2.0))]}


@pytest.mark.parametrize("n", [2, 20])
def test_a_law_that_lacks_a_part_is_refused_by_name(n):
    for parts in (LINE, PIECES):
        values = part("rising", **parts)
        law = Features(n, 0.1, values)
        assert law.mean == pytest.approx(np.full(n, 0.1 * 2 / 3))
        assert exact_loss(np.eye(n), 0.0, law).loss == 0.0  # moments are all that this needs
        for call in (
            lambda law=law: evaluator(law)((np.eye(n) - 0.1, 0.0), gradient=True),
            lambda law=law: exact_loss(np.eye(n) - 0.1, 0.0, law),
            lambda law=law: law.transform(0.1j),
            lambda values=values: bayes_loss(0.1, 0.1, values=values),
        ):
            with pytest.raises(ValueError, match=r"`(values|law)` must be values with .*; got 'rising'"):
                call()
