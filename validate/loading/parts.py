"""Models of several instances stacked along a further axis, and their outputs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...theory.model import Model
from ...theory.validation import FloatArray


@dataclass
class StackedModel:
    """The arrays of `Model` with a first axis of instances, or of one instance without it."""

    W_in: FloatArray
    b_in: FloatArray
    hidden: str
    W_out: FloatArray
    b: FloatArray
    output: str
    thresholds: Any = None

    @classmethod
    def of(cls, models: list[Model]) -> "StackedModel":
        """Return models of one size and kind stacked along a new first axis."""
        names = ("W_in", "b_in", "W_out", "b", "thresholds")
        arrays = {name: [getattr(model, name) for model in models] for name in names}
        stacks: Any = {name: np.stack(parts) for name, parts in arrays.items() if parts[0] is not None}
        return cls(**stacks, hidden=models[0].hidden, output=models[0].output)

    def instances(self) -> Iterator["StackedModel"]:
        """Yield the models one by one, with arrays without the first axis."""
        arrays = {name: array for name, array in vars(self).items() if isinstance(array, np.ndarray)}
        for k in range(len(self.W_in)):
            yield replace(self, **{name: array[k] for name, array in arrays.items()})

    def models(self, factor: float = 1.0) -> list[Model]:
        """Return the instances as models, their outputs multiplied by a positive factor."""
        models = []
        for part in self.instances():
            is_tied = factor == 1.0 and np.array_equal(part.W_out, part.W_in.T)
            W_out, b = None if is_tied else factor * part.W_out, factor * part.b
            thresholds = factor * part.thresholds if part.output == "jumprelu" else part.thresholds
            models.append(Model(part.W_in, part.b_in, part.hidden, W_out, b, part.output, thresholds))
        return models


def times(W: FloatArray, x: FloatArray) -> FloatArray:
    """Return W x (count, instances, rows) for W (instances, rows, columns), x (count, instances, columns)."""
    return np.asarray(np.matmul(x.swapaxes(0, 1), W.swapaxes(1, 2)).swapaxes(0, 1))


def apply_activation(z: FloatArray, activation: str, thresholds: Any) -> FloatArray:
    """Return f(z) for the activation f: "identity", "relu", or "jumprelu" with its thresholds."""
    if activation == "jumprelu":
        return np.where(z > thresholds, z, 0.0)
    return np.maximum(z, 0.0) if activation == "relu" else z


def preactivation(model: StackedModel, x: FloatArray) -> FloatArray:
    """Return W_in x + b_in (count, instances, n_hidden) for inputs (count, instances, n_features)."""
    return times(model.W_in, x) + model.b_in


def outputs(model: StackedModel, x: FloatArray) -> FloatArray:
    """Return a model's outputs (count, instances, n_outputs) for inputs (count, instances, n_features)."""
    h = apply_activation(preactivation(model, x), model.hidden, model.thresholds)
    return apply_activation(times(model.W_out, h) + model.b, model.output, model.thresholds)


def magnitude(model: StackedModel, x: FloatArray) -> FloatArray:
    """Return |W_out| (|W_in| |x| + |b_in|) + |b|, the scale of rounding errors of each output.

    The result is (count, instances, n_outputs), for inputs x (count, instances, n_features).
    """
    h = times(np.abs(model.W_in), np.abs(x)) + np.abs(model.b_in)
    return times(np.abs(model.W_out), h) + np.abs(model.b)
