"""Descents on the exact loss from a model's weights: their ends, dead outputs, the gradient."""

from typing import Any

import numpy as np

from ...solvers.deadline import Deadline
from ...solvers.minimise import Minimum, descend
from ...solvers.minimise.objective import Objective
from ...theory.features import Features
from ...theory.validation import FloatArray, IntArray
from ..loading import Weights
from .results import SAME

# Kicks at weights that descent does not leave: how many, and their size in units of the weights' r.m.s.
KICKS = 3
KICK = 0.01


def descents(
    model: Weights, law: Features, steps: int, loss: float, rng: np.random.Generator, deadline: Deadline
) -> tuple[Minimum, Minimum | None]:
    """Return the ends of two descents from a model's weights; the second has dead outputs reset, else None.

    An end is a minimum, or the point after `steps` or at the deadline. `loss` is the model's. If descent does
    not lower it, the model may be at a saddle, and more descents start from slightly perturbed weights; the
    first end is the lowest. If outputs are dead there, a last descent starts with their biases set to the
    features' means; without dead outputs the second end is None.
    """

    def end_of(W_out: FloatArray, W_in: FloatArray, b: FloatArray, reset: bool = False) -> Minimum:
        """Return the end of a descent from W_out, W_in and b; `reset` sets dead outputs' biases to means."""
        settings: Any = {"tied": model.tied, "steps": steps, "reset_dead": reset}
        return descend(W_out, W_in, b, law, seconds=deadline, **settings)

    W_in = model.W_out.T if model.tied else model.W_in
    end = end_of(model.W_out, W_in, model.b)
    # The Hessian does not tell a saddle: it misleads at a kink of the loss, such as a bias of 0.
    length = np.sqrt(np.mean(model.W_out**2)) or 1.0 / np.sqrt(model.W_out.shape[1])  # of unit encodings
    size = KICK * length
    for _ in range(KICKS if end.loss >= loss * (1.0 - SAME) else 0):
        if deadline.is_over():
            break
        out = model.W_out + size * rng.normal(size=model.W_out.shape)
        kicked = end_of(out, out.T if model.tied else W_in + size * rng.normal(size=W_in.shape), model.b)
        end = kicked if kicked.loss < end.loss else end
    reset = None
    if dead_outputs(end.W_out, end.W_in, end.b, law).size and not deadline.is_over():
        reset = end_of(end.W_out, end.W_in, end.b, reset=True)
    return end, reset


def dead_outputs(W_out: FloatArray, W_in: FloatArray, b: FloatArray, law: Features) -> IntArray:
    """Return the indices of outputs that are 0 for every input, also after small changes of weights.

    W_out, W_in and b are the model's weights. Outputs whose feature has no importance, or is constant, do not
    count.

    >>> dead_outputs(np.zeros((2, 1)), np.zeros((1, 2)), np.array([1e-9, -0.1]), Features(2, 0.1))
    array([1])
    """
    low, high = law.values.support
    M = (W_out @ W_in) * law.scale
    with np.errstate(invalid="ignore"):  # 0 times a value without bound
        most = np.maximum(np.where(M == 0.0, 0.0, M * high), np.where(M == 0.0, 0.0, M * low))
    top = np.maximum(most, 0.0).sum(axis=1) + b
    return np.flatnonzero((top <= 0.0) & (b < 0.0) & (law.importance > 0.0) & (law.variance > 0.0))


def gradient_norm(aim: Objective, model: Weights, deadline: Deadline) -> float:
    """Return the norm of the gradient of a model's loss in all weights and biases.

    The loss `aim`, and so the norm, is in units of the loss of answering 0. After the deadline the gradient
    is computed faster, with an error of about 1e-5.
    """
    x = aim.join(model.W_out, model.W_in, model.b)
    if aim.exact or not deadline.is_over():
        return float(np.linalg.norm(aim.slope(x)))
    with aim.coarse():
        return float(np.linalg.norm(aim.slope(x)))
