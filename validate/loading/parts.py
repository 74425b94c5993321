"""Models of several instances as arrays with an axis more, and what they compute."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...theory.arguments import FloatArray
from ...theory.models import Model

__all__ = ["Parts", "activated", "magnitude", "outputs", "preactivation", "times"]


@dataclass
class Parts:
    """The arrays of `Model`, with an axis of instances first; or, of one instance, without."""

    W_in: FloatArray
    b_in: FloatArray
    hidden: str
    W_out: FloatArray
    b: FloatArray
    output: str
    thresholds: Any = None

    @classmethod
    def of(cls, models: list[Model]) -> "Parts":
        """Return the arrays of models of one size and kind."""
        first = models[0]
        arrays = {
            name: np.stack([getattr(one, name) for one in models]) for name in ("W_in", "b_in", "W_out", "b")
        }
        thresholds = None if first.thresholds is None else np.stack([one.thresholds for one in models])
        return cls(
            arrays["W_in"],
            arrays["b_in"],
            first.hidden,
            arrays["W_out"],
            arrays["b"],
            first.output,
            thresholds,
        )

    def instances(self) -> Iterator["Parts"]:
        """Yield the instances."""
        for k in range(len(self.W_in)):
            thresholds = None if self.thresholds is None else self.thresholds[k]
            yield Parts(
                self.W_in[k], self.b_in[k], self.hidden, self.W_out[k], self.b[k], self.output, thresholds
            )

    def models(self, factor: float = 1.0) -> list[Model]:
        """Return the instances as models, their outputs multiplied by a positive factor."""
        return [
            Model(
                one.W_in, one.b_in, one.hidden,
                None if factor == 1.0 and np.array_equal(one.W_out, one.W_in.T) else factor * one.W_out,
                factor * one.b, one.output,
                one.thresholds if one.output != "jumprelu" else factor * one.thresholds,
            )
            for one in self.instances()
        ]  # fmt: skip


def times(W: FloatArray, x: FloatArray) -> FloatArray:
    """Return W x for (instances, rows, columns) and (count, instances, columns)."""
    return np.asarray(np.matmul(x.swapaxes(0, 1), W.swapaxes(1, 2)).swapaxes(0, 1))


def activated(z: FloatArray, activation: str, thresholds: Any) -> FloatArray:
    """Return what an activation of `Model` makes of z."""
    if activation == "jumprelu":
        return np.where(z > thresholds, z, 0.0)
    return np.maximum(z, 0.0) if activation == "relu" else z


def preactivation(model: Parts, x: FloatArray) -> FloatArray:
    """Return what the hidden neurons receive, (count, instances, n_hidden)."""
    return times(model.W_in, x) + model.b_in


def outputs(model: Parts, x: FloatArray) -> FloatArray:
    """Return the outputs for inputs (count, instances, n_features)."""
    h = activated(preactivation(model, x), model.hidden, model.thresholds)
    return activated(times(model.W_out, h) + model.b, model.output, model.thresholds)


def magnitude(model: Parts, x: FloatArray) -> FloatArray:
    """Return the sum of the sizes of all that is summed to each output."""
    h = times(np.abs(model.W_in), np.abs(x)) + np.abs(model.b_in)
    return times(np.abs(model.W_out), h) + np.abs(model.b)
