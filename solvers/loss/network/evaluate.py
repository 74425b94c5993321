"""The `Loss` of models with nonlinear hidden neurons, or with targets other than the features."""

from dataclasses import replace
from typing import Any

import numpy as np

from ....theory import validation
from ....theory.model import Model
from ....theory.results import frozen
from ..problem import Accuracy, Law, NetworkProblem
from ..result import Loss
from . import assemble, relu_output

__all__ = ["evaluate_network", "network_problem"]


def network_problem(model: Model, law: Law, rows: Any, target: Any) -> NetworkProblem:
    """Return the problem to evaluate: a model, a law and the target of its outputs.

    ValueError if the target does not fit, unless `rows` is None, or unless outputs are linear or all neurons
    ReLUs.
    """
    if not (model.output == model.hidden == "relu" and rows is None):
        _require_linear_output(model)
        if rows is not None:
            raise ValueError(f"`rows` must be None for this model; got {validation.short_repr(rows)}.")
    targets = assemble.parse_target(target, model.n_outputs, model.n_features)
    return NetworkProblem(law, model, *targets, assemble.importance_of(law, model.n_outputs))


def _require_linear_output(model: Model) -> None:
    """Raise ValueError unless the model's outputs are linear."""
    if model.output != "identity":
        rule = "a linear output ('identity') unless hidden neurons are linear and targets the features"
        raise ValueError(f"`model` must have {rule}; got {model!r}.")


def evaluate_network(problem: NetworkProblem, accuracy: Accuracy, gradient: bool) -> Loss:
    """Return the `Loss` of a problem to this accuracy, with derivatives by the model if `gradient`."""
    if problem.model.output == "relu" and not gradient:
        return _rectified_loss(problem, accuracy)
    _require_linear_output(problem.model)
    if not gradient:
        model, B = assemble.without_residual_path(problem.model, problem.B)
        problem = replace(problem, model=model, B=B)
    model, importance = problem.model, problem.importance
    by_means = assemble.linear_loss if model.hidden == "identity" else assemble.network_loss
    outputs = by_means(problem, accuracy, gradient)
    losses, by = np.maximum(outputs.losses, 0.0), outputs.gradient
    if by is not None and model.tied:
        by["W_in"] = frozen(by["W_in"] + by.pop("W_out").T)
    slope_errors = frozen(np.full(model.n_outputs, outputs.gradient_error)) if gradient else None
    mean, errors = float(np.mean(importance * losses)), frozen(outputs.errors)
    return Loss(mean, outputs.mean_error, frozen(losses), errors, by, slope_errors, outputs.method)


def _rectified_loss(problem: NetworkProblem, accuracy: Accuracy) -> Loss:
    """Return the `Loss` of a problem with ReLU outputs, each rewritten as a linear readout of other neurons.

    `accuracy` is aimed at. ValueError if an output cannot be rewritten, as it reads neurons whose encoder
    rows are not parallel.
    """
    model, A, B, importance = problem.model, problem.A, problem.B, problem.importance
    readouts = [relu_output.linear_readout(model, k) for k in range(model.n_outputs)]
    outputs = []
    for k, readout in enumerate(readouts):
        if readout is None:
            rule = "a linear output ('identity'), or outputs that read neurons of one direction each"
            raise ValueError(f"`model` must have {rule}; got {model!r}, and not so output {k}.")
        row = None if B is None else B[k : k + 1]
        alone = NetworkProblem(problem.law, readout, A[k : k + 1], problem.function, row, np.ones(1))
        outputs.append(assemble.network_loss(alone, accuracy, False))
    losses = np.maximum([float(output.losses[0]) for output in outputs], 0.0)
    errors = np.array([output.mean_error for output in outputs])
    mean, error = (float(np.mean(importance * numbers)) for numbers in (losses, errors))
    methods = ", ".join(sorted({method for output in outputs for method in output.method.split(", ")}))
    return Loss(mean, error, frozen(losses), frozen(errors), None, None, methods)
