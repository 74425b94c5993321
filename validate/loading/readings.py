"""Readings of arrays: all models that they may be, of which a live module's outputs identify one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...theory.model import Model
from ...theory.validation import FloatArray
from .autoencoders import autoencoder_readings
from .layouts import LAYOUTS, as_axes
from .networks import network_readings
from .parts import StackedModel


@dataclass
class Reading:
    """A model that arrays may be, with its layout's name or the roles of the arrays."""

    name: str
    parts: StackedModel


def readings_by_names(arrays: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield each model that arrays may be by the names of public code, even if several fit.

    A `Reading` has the name of the layout, and the models of all instances, stacked.
    """
    for layout in LAYOUTS:
        if layout.fits(arrays):
            try:
                models = [Model(model.W_in, W_out=model.W_out, b=model.b) for model in layout.models(arrays)]
            except ValueError:  # not finite, or a negative scale
                continue
            yield Reading(layout.name, StackedModel.of(models))
    for name, models in (*network_readings(arrays), *autoencoder_readings(arrays)):
        yield Reading(name, StackedModel.of(models))


def _bias_choices(vectors: Mapping[str, FloatArray], *shape: int) -> list[tuple[str, FloatArray]]:
    """Return the choices (name, vector) for a bias: zeros, named "", and all `vectors` of this shape.

    `vectors` are arrays (instances, length) by name, and `shape` is (instances, length).
    """
    return [
        ("", np.zeros(shape)),
        *((name, vector) for name, vector in vectors.items() if vector.shape == shape),
    ]


def _encoder_choices(matrices: Mapping[str, FloatArray]) -> Iterator[tuple[str, FloatArray]]:
    """Yield the choices (name, W_in) for the encoder: each of the `matrices`, as it is and transposed.

    Matrices by name, and W_in, are (instances, n_hidden, n_features). If there is only one matrix and it is
    square, as in ReLU(M x + b), W_in may also be the identity, named "".
    """
    for name, W in matrices.items():
        yield name, W
        yield name, W.swapaxes(1, 2)
        if len(matrices) == 1 and W.shape[1] == W.shape[2]:
            yield "", np.broadcast_to(np.eye(W.shape[1]), W.shape)


def _decoder_choices(
    matrices: Mapping[str, FloatArray], encoder: str, W_in: FloatArray
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the choices (name, W_out) for the decoder: the encoder's transpose, and matrices that fit.

    `matrices` by name and W_out are (instances, rows, columns), `W_in` is (instances, n_hidden, n_features);
    `encoder` is the name of W_in, "" if that is the identity.
    """
    if encoder:
        yield encoder, W_in.swapaxes(1, 2)
    for name, W in matrices.items():
        for W_out in (W, W.swapaxes(1, 2)) if name != encoder and len(W) == len(W_in) else ():
            if W_out.shape[2] == W_in.shape[1]:
                yield name, W_out


def _hidden_kinds(vectors: list[tuple[str, FloatArray]]) -> Iterator[tuple[str, str, Any]]:
    """Yield the choices (activation, name of the thresholds, thresholds) for hidden neurons.

    Each of `vectors`, (name, array), may be a JumpReLU's thresholds or their logarithms; other activations
    have "" and None.
    """
    yield from (("identity", "", None), ("relu", "", None))
    for name, vector in vectors:
        with np.errstate(over="ignore"):
            for source, thresholds in ((name, vector), (f"exp {name}", np.exp(vector))):
                if np.isfinite(thresholds).all():
                    yield "jumprelu", source, np.maximum(thresholds, 0.0)


def readings_by_shape(arrays: Mapping[str, FloatArray]) -> Iterator[Reading]:
    """Yield all models g(W_out f(W_in (x - s) + c) + d) of arrays, in all roles that shapes allow.

    f and g are activations, c and d biases, s an autoencoder's bias that is subtracted from inputs. Arrays
    are of one instance, or all have a first axis of instances.
    """
    for matrix_axes, vector_axes in (("fh", "f"), ("ifh", "if")):
        new_axes = (None,) * (3 - len(matrix_axes))  # an axis for the one instance
        matrices, vectors = (
            {
                name: np.asarray(shaped[new_axes], float)
                for name, array in arrays.items()
                if (shaped := as_axes(array, axes)) is not None
            }
            for axes in (matrix_axes, vector_axes)
        )
        for encoder, W_in in _encoder_choices(matrices):
            for decoder, W_out in _decoder_choices(matrices, encoder, W_in):
                yield from _readings_of_matrices((encoder, W_in), (decoder, W_out), vectors)


def _readings_of_matrices(
    encoder: tuple[str, FloatArray], decoder: tuple[str, FloatArray], vectors: Mapping[str, FloatArray]
) -> Iterator[Reading]:
    """Yield the models of two matrices, with all choices of biases, thresholds and activations.

    `encoder` and `decoder` are (name, array) with a first axis of instances; biases and thresholds are zeros
    or those of `vectors` that fit.
    """
    W_in, W_out = encoder[1], decoder[1]
    (n_instances, n_hidden, n), n_outputs = W_in.shape, W_out.shape[1]
    of_inputs, of_hidden, of_outputs = (
        _bias_choices(vectors, n_instances, length) for length in (n, n_hidden, n_outputs)
    )
    choices = product(of_inputs, of_hidden, [*_hidden_kinds(of_hidden[1:])], of_outputs, ("relu", "identity"))
    for (s, shift), (c, b_in), (hidden, t, thresholds), (d, b), output in choices:
        if (t and t.removeprefix("exp ") in (c, s)) or (c and c in (s, d) and n != n_outputs):
            continue
        shifted = b_in - np.einsum("ihn,in->ih", W_in, shift) if s else b_in
        names = {"W_in": encoder[0], "W_out": decoder[0], "b_in": c, "thresholds": t, "b": d, "subtracted": s}
        source = ", ".join(f"{part} = {name}" for part, name in names.items() if name)
        yield Reading(
            f"by calling it: {source}", StackedModel(W_in, shifted, hidden, W_out, b, output, thresholds)
        )
