r"""The exact expected loss of any affine + ReLU model at any law of the data, without sampling."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.results import frozen
from ...theory.validation import FloatArray, integer, number, real, vector
from .dispatch import METHODS, solve
from .network.evaluate import evaluate_network, network_problem
from .problem import LARGEST, Accuracy, LossProblem, NetworkProblem, law_of
from .result import Loss

__all__ = ["evaluate", "evaluator", "exact_gradient", "exact_loss", "row_loss", "value_and_gradient"]


def evaluate(problem: LossProblem | NetworkProblem, accuracy: Accuracy, gradient: bool = False) -> Loss:
    """Return the `Loss` of a problem to this accuracy, with derivatives if `gradient`.

    Raises ValueError if no method covers the problem, or if digits are lost.
    """
    if isinstance(problem, NetworkProblem):
        return evaluate_network(problem, accuracy, gradient)
    outputs, methods = solve(problem, accuracy, gradient)
    importance = problem.law.features.importance[problem.target]
    weights = importance / problem.target.size
    by, slope_errors = None, None
    if gradient:
        by = {"M": frozen(weights[:, None] * outputs.by_M), "b": frozen(weights * outputs.by_b)}
        slope_errors = frozen(weights * outputs.slope_errors)
    loss, error = float(np.mean(importance * outputs.losses)), float(np.mean(importance * outputs.errors))
    return Loss(loss, error, frozen(outputs.losses), frozen(outputs.errors), by, slope_errors, methods)


def _checked_accuracy(tol: Any, **settings: Any) -> Accuracy:
    """Return Accuracy(tol, **settings); raise ValueError unless 0 < tol < 1."""
    return Accuracy(number("tol", tol, 0.0, 1.0, brackets="()"), **settings)


def exact_loss(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12, rows: npt.ArrayLike | None = None
) -> Loss:
    r"""Exact expected loss per feature of the model ReLU(M x + b), by integrating the law of M x + b.

    .. math:: L = \frac1n \sum_i I_i\, E\,(x_i - \mathrm{ReLU}((M x + b)_i))^2

    I_i is the importance of feature i, which belongs to the law.

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder, row i makes output i. Any real matrix with entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    law : float or Features
        Law of the data. A number is the probability p = 1 - S in (0, 1] that a feature is on, of independent
        features uniform on [0, 1].
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.
    rows : sequence of int, optional
        Outputs to restrict the loss to; all by default.

    Returns
    -------
    Loss
        `loss` is the mean over the outputs in `rows`, whose order `per_feature` has. `evaluator` chooses the
        method, which the result names; the page "The exact loss at any law" describes them. With few features
        of bounded values only rounding is left; for 512 independent uniform features with random weights a
        lattice sum is good to 4e-12 of p/3. What is cut off is bounded; the rounding part of the estimate is
        heuristic, except for features with finitely many values. The cost is n^2 times the number of
        frequencies, 0.7 ns each for uniform values: a hundred where many features are on at once, up to some
        1e4 where few are. Results do not depend on the number of threads.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or rounding would leave at most two digits of a
        loss.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> result = exact_loss(pair, 0.0, 0.1)
    >>> round(result.loss, 12), result.error_estimate < 1e-14        # both on: E min(u, v)^2 = 1/6
    (0.001666666667, True)
    """
    accuracy = _checked_accuracy(tol, workers=None)
    return evaluate(LossProblem.of(M, b, law, rows), accuracy)


def row_loss(row: npt.ArrayLike, i: int, b: float, law: Any, *, tol: float = 1e-12) -> Loss:
    """Exact expected loss of one output, E (x_i - ReLU(row . x + b))^2.

    As `exact_loss`, with vectors of size 1; `loss` includes the importance of feature i.

    Parameters
    ----------
    row, i, b : (n,) array_like of float, int, float
        The output's weights, up to 1e50, the feature that it is to reconstruct, and its bias.
    law, tol : optional
        As for `exact_loss`.

    Examples
    --------
    >>> row = np.r_[0.5, np.full(4, 0.25)]
    >>> round(row_loss(row, 0, -0.1, 0.2).loss, 12)
    0.026922302302
    """
    row = real("row", vector("row", row), -LARGEST, LARGEST)
    accuracy, checked_law = _checked_accuracy(tol), law_of(law, row.size)
    target = np.array([integer("i", i, 0, row.size - 1)])
    bias = np.array([number("b", b, -LARGEST, LARGEST)])
    return evaluate(LossProblem.scaled(checked_law, row[np.newaxis], bias, target), accuracy)


def value_and_gradient(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    *,
    tol: float = 1e-7,
    rows: npt.ArrayLike | None = None,
    frequencies: int | None = None,
) -> Loss:
    """Return the exact loss with its derivatives by M and by b, for descents.

    Parameters
    ----------
    M, b, law, rows : optional
        As for `exact_loss`.
    tol : float, optional
        Error of the loss to aim at, in units of E x_i^2. Its bound is far from sharp: at the default the
        gradient of models of 16 to 128 features is good to 1e-9.
    frequencies : int, optional
        Terms of a lattice sum at most, by default some 2^26/n_features. With it the error of the loss is an
        estimate, not a bound.

    Returns
    -------
    Loss
        Unpacks as ``loss, by_M, by_b``: by_M has a row of n derivatives for each output in `rows`, by_b one.
        Where an output is exactly 0 with positive probability while its feature is on, the loss has a kink,
        and each derivative is the mean of those to both sides. (PyTorch takes such outputs as off.)
        `gradient_error` is an estimate: rounding, in units of 2 E (x_i + |y_i|) max(1, x_j), plus four times
        the largest change that the last frequencies of a sum make. Brute force has exceeded it in one of a
        thousand rows of binary features with few frequencies, by a factor of 2.2, and never otherwise.

    Raises
    ------
    ValueError
        As in `exact_loss`, and if at most two digits of a row's derivatives would be left.

    Examples
    --------
    >>> loss, by_M, by_b = value_and_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> round(loss, 6), by_b.round(4)
    (0.000933, array([-0.006, -0.006, -0.006]))
    """
    most = None if frequencies is None else integer("frequencies", frequencies, 1, 2**24)
    accuracy = _checked_accuracy(tol, workers=None, max_frequencies=most)
    return evaluate(LossProblem.of(M, b, law, rows), accuracy, True)


def exact_gradient(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the exact loss per feature by M, (n, n), and by b, (n,).

    The loss is that of the outputs ReLU(M x + b), b a number or (n,), for features x of the `law`: a
    `Features`, or the probability p of features that are uniform on [0, 1] when on. `tol` is the error of the
    loss to aim at, in units of E x_i^2. Derivatives are good to 1e-10 of the largest entry of a row, except
    where they themselves cancel. `value_and_gradient` also returns an estimate of their error; both raise the
    same ValueErrors.

    Examples
    --------
    >>> by_M, by_b = exact_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> by_M.round(4)[0], by_b.round(4)
    (array([-0.0033, -0.0003, -0.0003]), array([-0.006, -0.006, -0.006]))
    """
    gradient = value_and_gradient(M, b, law, tol=tol)
    return gradient.by_M.copy(), gradient.by_b.copy()


def evaluator(
    law: Any,
    *,
    tol: float = 1e-12,
    budget: float | None = None,
    method: str = "auto",
    workers: int | None = 1,
) -> Callable[..., Loss]:
    """Return the function that gives the exact loss of models at one law of the data, and its gradient.

    Parameters
    ----------
    law : float or Features
        As for `exact_loss`; importance belongs to it.
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.
    budget : float, optional
        Terms of sums, of some 5 ns each, that an evaluation may take. A method that needs more is refused
        before it begins; sums over frequencies end there, with the error that leaves. By default 6.7e7 an
        output; pairs of nonlinear hidden neurons share these, with at least 8.4e6 a pair.
    method : str, optional
        A method of `solvers.loss.methods` by its name; by default the first that covers an output and, where
        it loses digits, the next one too. Value and gradient come from one method.
    workers : int or None, optional
        Threads that share the outputs where a sum is long; None for all that Numba has.

    Returns
    -------
    callable
        ``f(model, gradient=False, rows=None, target="identity")``. `model` is a `theory.model.Model`, or
        arrays (M, b) of ReLU(M x + b). `rows` are the outputs to restrict the loss to. `target` is what the
        outputs should be, for a `Model` with linear outputs: the features, "relu" or "abs" of them, "x+relu",
        or A x, A f(x) or A f(x) + B x for arrays of shape (n_outputs, n_features), given as A, as (A, "relu")
        or as (A, "relu", B). It returns a `Loss`.

    Raises
    ------
    ValueError
        If an argument lies outside its range; by the callable also as `exact_loss` does, if no method covers
        the model or law, or if `budget` is too small.

    Examples
    --------
    >>> f = evaluator(0.1)
    >>> pair = f(Model([[1.0, -1.0]]), gradient=True)            # E min(u, v)^2 = 1/6 if both are on
    >>> round(pair.loss, 12), pair.gradient["W_in"].round(6), pair.method
    (0.001666666667, array([[-0.000833,  0.000833]]), 'folding')
    """
    if not isinstance(law, Features):
        as_features(law, 1)
    accuracy = _checked_accuracy(
        tol, budget=None if budget is None else number("budget", budget, 0.0, brackets="()")
    )
    validation.choice("method", method, ("auto", *METHODS))
    workers = None if workers is None else integer("workers", workers, 1)
    accuracy = replace(accuracy, method=method, workers=workers)
    known_law = law

    def loss_of(
        model: Any, gradient: bool = False, rows: npt.ArrayLike | None = None, target: Any = "identity"
    ) -> Loss:
        """Return the `Loss` of a model at the evaluator's law, with derivatives if `gradient`.

        `rows` are the indices of the outputs that count, None for all. `target` is what outputs should be:
        "identity" (the features), or for a `Model` "relu" or "abs" (of them), "x+relu", an array A for A x,
        (A, name of f) for A f(x), or (A, name of f, B) for A f(x) + B x.
        """
        nonlocal known_law
        if isinstance(known_law, Features):
            known_law = law_of(known_law, known_law.n_features)  # with what methods compute of it once
        return model_loss(model, known_law, accuracy, gradient, rows, target)

    return loss_of


def model_loss(
    model: Any,
    law: Any,
    accuracy: Accuracy,
    gradient: bool = False,
    rows: npt.ArrayLike | None = None,
    target: Any = "identity",
) -> Loss:
    """Return the `Loss` of a `Model`, or of ReLU(M x + b) from arrays (M, b), at a law and an accuracy.

    It has derivatives if `gradient`. `rows` are the indices of the outputs that count, None for all. `target`
    is what outputs should be: "identity" (the features), or for a `Model` "relu" or "abs" (of them),
    "x+relu", an array A for A x, (A, name of f) for A f(x), or (A, name of f, B) for A f(x) + B x.
    """
    problem = problem_of(model, law, rows, target)
    loss = evaluate(problem, accuracy, gradient)
    is_toy = isinstance(model, Model) and isinstance(problem, LossProblem)
    return _with_model_gradient(model, loss, rows) if gradient and is_toy else loss


def problem_of(
    model: Any, law: Any, rows: npt.ArrayLike | None = None, target: Any = "identity"
) -> LossProblem | NetworkProblem:
    """Return the `LossProblem` of arrays (M, b) for ReLU(M x + b), or the problem of a `Model`, at a law.

    `rows` are the indices of the outputs that count, None for all. `target` is what outputs should be:
    "identity" (the features), or for a `Model` "relu" or "abs" (of them), "x+relu", an array A for A x, (A,
    name of f) for A f(x), or (A, name of f, B) for A f(x) + B x. Raises ValueError if there is no exact loss
    of the model.
    """
    is_identity = isinstance(target, str) and target == "identity"
    if isinstance(model, Model) and (model.hidden != "identity" or not is_identity):
        return network_problem(model, law_of(law, model.n_features), rows, target)
    if not is_identity:
        raise ValueError(f"`target` must be 'identity' for arrays; got {validation.short_repr(target)}.")
    if isinstance(model, Model):
        if model.output == "jumprelu" or model.n_outputs != model.n_features:
            rule = "linear hidden neurons and an output, ReLU or identity, for each feature"
            raise ValueError(f"`model` must have {rule}; got {model!r}.")
        return LossProblem.of(model.M, model.bias, law, rows, model.output)
    try:
        M, b = model
    except (TypeError, ValueError):
        rule = "a Model or a tuple (M, b) of arrays"
        raise ValueError(f"`model` must be {rule}; got {validation.short_repr(model)}.") from None
    return LossProblem.of(M, b, law, rows)


def _with_model_gradient(model: Model, loss: Loss, rows: Any) -> Loss:
    """Return `loss` of a model with linear hidden neurons, with derivatives by the model's arrays added.

    These are entries "W_in", "b_in" and, if the model is not tied, "W_out" of `loss.gradient`. `rows` are the
    indices of the outputs that the loss covers, None for all.
    """
    by_M, by_b = loss.by_M, loss.by_b
    if rows is not None:
        picked = validation.indices("rows", rows, model.n_outputs)
        all_M, all_b = np.zeros(model.M.shape), np.zeros(model.n_outputs)
        np.add.at(all_M, picked, by_M)
        np.add.at(all_b, picked, by_b)
        by_M, by_b = all_M, all_b
    by_in, by_out = model.W_out.T @ by_M, by_M @ model.W_in.T + np.outer(by_b, model.b_in)
    by = {"W_in": by_in + by_out.T} if model.tied else {"W_in": by_in, "W_out": by_out}
    gradient = {**(loss.gradient or {}), **by, "b_in": model.W_out.T @ by_b}
    return replace(loss, gradient=gradient)
