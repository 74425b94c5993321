"""One evaluator: which method serves, that value and gradient are one, models, budgets, and refusals."""

import numpy as np
import pytest

from superposition.solvers.loss import evaluator, exact_gradient, exact_loss
from superposition.solvers.loss.dispatch import METHODS
from superposition.theory.features import Features, uniform_from
from superposition.theory.model import Model

GROUP = ([0, 1], [[0, 0], [1, 1]], [0.8, 0.2])


def network(n, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n, max(n // 3, 1))) / np.sqrt(max(n // 3, 1))
    return W @ W.T, -0.1 + 0.05 * rng.normal(size=n)


LAWS = {
    "folding": Features(9, 0.1, scale=np.linspace(0.5, 2.0, 9), importance=np.linspace(1.0, 2.0, 9)),
    "enumeration": Features(5, 0.1, groups=[GROUP]),
    "fourier": Features(9, 0.3, uniform_from(-0.5)),
    "contour": Features(5, 0.2, "exponential", groups=[GROUP]),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_value_of_the_gradient_is_the_loss(name):
    law = LAWS[name]
    M, b = network(law.n_features)
    f = evaluator(law)
    alone, both = f((M, b)), f((M, b), gradient=True)
    assert alone.method == both.method == name
    assert alone.gradient is None
    assert both.loss == alone.loss == exact_loss(M, b, law).loss
    assert both.loss == pytest.approx(np.mean(law.importance * both.per_feature), rel=1e-15, abs=0)
    for one, other in zip((both.by_M, both.by_b), exact_gradient(M, b, law), strict=True):
        np.testing.assert_array_equal(one, other)
    assert alone.estimate.startswith(f"{name}: ")


def test_outputs_that_lose_digits_go_to_the_next_method():
    """An output that is far below 0 but for rare inputs: folds round in units of its distance."""
    row = np.array([1e4, 1.0, 1.0])
    M, b = np.vstack([row, np.eye(3)[1:]]), np.array([-1e4, 0.0, 0.0])
    found = evaluator(0.1)((M, b))
    assert found.method == "folding, enumeration"
    alone = evaluator(0.1, method="enumeration")((M, b))
    assert found.per_feature[0] == alone.per_feature[0]


@pytest.mark.parametrize("output", ["relu", "identity"])
@pytest.mark.parametrize("tied", [True, False])
def test_gradients_of_a_model_are_differences_of_its_loss(output, tied):
    rng = np.random.default_rng(3)
    free = {} if tied else {"W_out": rng.normal(size=(4, 2))}
    given = {"W_in": rng.normal(size=(2, 4)), "b_in": rng.normal(size=2), "b": rng.normal(size=4), **free}
    f = evaluator(Features(4, [0.1, 0.2, 0.3, 0.4], importance=[1, 2, 3, 4]))
    rows = [0, 3, 3]
    for picked in (None, rows):
        found = f(Model(**given, output=output), gradient=True, rows=picked)
        assert set(found.gradient) == {"M", *given}
        for name, array in given.items():
            step = rng.normal(size=array.shape)
            moved = [Model(**given | {name: array + side * step}, output=output) for side in (-1e-5, 1e-5)]
            ends = [f(one, rows=picked).loss for one in moved]
            by = np.bincount(rows, found.gradient["b"], 4) if name == "b" and picked else found.gradient[name]
            assert np.sum(by * step) == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("values", ["uniform", "normal"])
def test_affine_outputs_have_the_loss_of_second_moments(values):
    law = Features(4, 0.2, values, [1.0, 2.0, 0.5, 1.0], groups=[GROUP])
    M, b = network(4)
    found = evaluator(law)(Model(np.eye(4), W_out=M, b=b, output="identity"))
    left = np.eye(4) - M
    true = np.einsum("ij,jk,ik->i", left, law.second_moment_matrix(), left) + b * (b - 2 * left @ law.mean)
    assert found.method == "affine"
    np.testing.assert_allclose(found.per_feature, true, rtol=1e-13)


def test_losses_without_loss_are_not_negative():
    for n in range(1, 10):
        found = evaluator(0.1)((np.eye(n), 0.0))
        assert 0.0 <= found.loss <= found.error_estimate


def test_workers_and_budgets_change_no_number():
    M, b = network(20)
    one = evaluator(0.1, tol=1e-6)((M, b))
    assert evaluator(0.1, tol=1e-6, workers=3)((np.asfortranarray(M), b)) == one
    few = evaluator(0.1, tol=1e-6, budget=1e9)((M, b))
    assert few.method == "fourier"
    assert abs(few.loss - one.loss) <= few.error_estimate + one.error_estimate


def test_what_the_quicker_sum_leaves_inexact_is_summed_by_the_other(monkeypatch):
    law = Features(20, 0.1)
    M, b = network(20)
    whole, plain = METHODS["uniform_fourier"].solve, evaluator(law)((M, b))

    def rough(problem, accuracy, gradient):
        found = whole(problem, accuracy, gradient)
        found.errors[3] = 1.0
        return found

    monkeypatch.setattr(METHODS["uniform_fourier"], "solve", rough)
    found = evaluator(law)((M, b))
    assert found.method == "uniform_fourier, fourier"
    assert found.per_feature == pytest.approx(plain.per_feature, rel=1e-9)
    assert found.per_feature_error.max() < 1e-6
