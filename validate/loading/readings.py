"""All models that arrays of any names may be, for a live module to tell which one it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...theory.arguments import FloatArray
from ...theory.models import Model
from .autoencoders import autoencoder_readings
from .calling import Answers, Match
from .layouts import LAYOUTS, as_axes
from .networks import candidates, linear_layers
from .parts import Parts

__all__ = ["Reading", "bases", "readings_by_names", "search"]

# Inputs at which readings are compared first: most fail there.
_FIRST_ROWS = 12


@dataclass
class Reading:
    """A model that arrays may be, and in which way."""

    name: str
    parts: Parts


def readings_by_names(arrays: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield what arrays may be by the names of public code, questions of shape and activation left open."""
    for layout in LAYOUTS:
        if layout.fits(arrays):
            try:
                models = [Model(one.W_in, W_out=one.W_out, b=one.b) for one in layout.models(arrays)]
            except ValueError:  # not finite, or a negative scale
                continue
            yield Reading(layout.name, Parts.of(models))
    for name, networks in candidates(arrays, None):
        yield Reading(name, Parts.of(networks))
    if (linear := linear_layers(arrays)) is not None:
        yield Reading(linear[0], Parts.of(linear[1]))
    for name, autoencoders in autoencoder_readings(arrays):
        yield Reading(name, Parts.of(autoencoders))


@dataclass
class _Shelf:
    """Matrices and vectors by name, with an axis of instances first."""

    matrices: dict[str, FloatArray]
    vectors: dict[str, FloatArray]

    @classmethod
    def of(cls, arrays: Mapping[str, FloatArray], several: bool) -> "_Shelf":
        axes = ("ifh", "if") if several else ("fh", "f")
        matrices, vectors = {}, {}
        for name, array in arrays.items():
            if array.ndim == len(axes[0]):
                matrices[name] = np.asarray(array if several else array[None], float)
            if (vector := as_axes(array, axes[1])) is not None:
                vectors[name] = np.asarray(vector if several else vector[None], float)
        return cls(matrices, vectors)

    def of_length(self, length: int, several: int) -> list[tuple[str, FloatArray]]:
        """Return no vector, and all vectors of a length, for so many instances."""
        zero = np.zeros((several, length))
        return [("", zero), *((name, one) for name, one in self.vectors.items() if one.shape == zero.shape)]

    def encoders(self) -> Iterator[tuple[str, FloatArray]]:
        """Yield each matrix both ways round, and the identity before a square one."""
        for name, W in self.matrices.items():
            yield name, W
            yield name, W.swapaxes(1, 2)
            if len(self.matrices) == 1 and W.shape[1] == W.shape[2]:
                yield "", np.broadcast_to(np.eye(W.shape[1]), W.shape)

    def decoders(self, encoder: str, W_in: FloatArray) -> Iterator[tuple[str, FloatArray]]:
        """Yield what reads the neurons of an encoder: its transpose, and each other matrix."""
        if encoder:
            yield encoder, W_in.swapaxes(1, 2)
        for name, W in self.matrices.items():
            if name == encoder or len(W) != len(W_in):
                continue
            for turned in (W, W.swapaxes(1, 2)):
                if turned.shape[2] == W_in.shape[1]:
                    yield name, turned


def _hidden_kinds(shelf: _Shelf, n_hidden: int, several: int) -> list[tuple[str, str, Any]]:
    kinds: list[tuple[str, str, Any]] = [("identity", "", None), ("relu", "", None)]
    for name, vector in shelf.of_length(n_hidden, several)[1:]:
        with np.errstate(over="ignore"):
            for told, threshold in ((name, vector), (f"exp {name}", np.exp(vector))):
                if np.isfinite(threshold).all():
                    kinds.append(("jumprelu", told, np.maximum(threshold, 0.0)))
    return kinds


def _structures(shelf: _Shelf) -> Iterator[Reading]:
    """Yield all models g(W_out f(W_in (x - s) + c) + d) that matrices and vectors can make."""
    for into, W_in in shelf.encoders():
        several, n_hidden, n = W_in.shape
        for out, W_out in shelf.decoders(into, W_in):
            n_outputs = W_out.shape[1]
            choices = product(
                shelf.of_length(n, several),
                shelf.of_length(n_hidden, several),
                _hidden_kinds(shelf, n_hidden, several),
                shelf.of_length(n_outputs, several),
                ("relu", "identity"),
            )
            for (s, shift), (c, b_in), (hidden, told, thresholds), (d, b), output in choices:
                if (told and told.removeprefix("exp ") in (c, s)) or (c and c in (s, d) and n != n_outputs):
                    continue
                moved = b_in - np.einsum("ihn,in->ih", W_in, shift) if s else b_in
                names = {"W_in": into, "W_out": out, "b_in": c, "thresholds": told, "b": d, "subtracted": s}
                said = ", ".join(f"{part} = {name}" for part, name in names.items() if name)
                yield Reading(
                    f"by calling it: {said}", Parts(W_in, moved, hidden, W_out, b, output, thresholds)
                )


def search(arrays: Mapping[str, FloatArray], answers: Answers) -> tuple[Reading, Match] | None:
    """Return the first model made of arrays of any names that answers as a module does."""
    for several in (False, True):
        for reading in _structures(_Shelf.of(arrays, several)):
            if answers.agrees(reading.parts, _FIRST_ROWS) and (match := answers.agrees(reading.parts)):
                return reading, match
    return None


def bases(arrays: Mapping[str, FloatArray]) -> Iterator[Reading]:
    """Yield what a module is compared with to say what differs: models by names, then by shapes."""
    yield from readings_by_names(arrays)
    for several in (False, True):
        yield from _structures(_Shelf.of(arrays, several))
