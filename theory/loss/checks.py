"""Checks of models, shared by the functions of this package and by `superposition.theory.relu`."""

import numpy as np
import numpy.typing as npt

from .. import validation
from ..validation import FloatArray

__all__ = ["LARGEST_ENTRY", "MOST", "biases", "encodings", "importances", "square"]

# The kernels form squares of sums of entries, and entries are sums of products of encodings.
LARGEST_ENTRY = 1e50
_LARGEST_WEIGHT = 1e20
# Counts of features and neurons in closed forms, of which third powers are formed.
MOST = 1e50


def _contiguous(array: FloatArray) -> FloatArray:
    """Return the array as contiguous, writable doubles, for which the kernels are compiled."""
    return np.require(array, np.float64, ["C", "W"])


def square(M: npt.ArrayLike, b: npt.ArrayLike, *, name: str = "M") -> tuple[FloatArray, FloatArray]:
    """Return `M`, square, and its biases `b` as contiguous arrays; raise a ValueError if they do not fit.

    `name` is the name of the matrix in the message.
    """
    M = validation.real(name, validation.square(name, M), -LARGEST_ENTRY, LARGEST_ENTRY)
    return _contiguous(M), biases(b, M.shape[0])


def biases(b: npt.ArrayLike, n: int) -> FloatArray:
    """Return the biases of n outputs, one number repeated; raise a ValueError if they are not n numbers."""
    return _contiguous(
        validation.real("b", validation.numbers_or_repeat("b", b, n), -LARGEST_ENTRY, LARGEST_ENTRY)
    )


def encodings(W: npt.ArrayLike) -> FloatArray:
    """Return the encodings as an array; raise a ValueError if W W' could overflow or exceed memory."""
    W = validation.real("W", validation.matrix("W", W), -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
    validation.check_fits("W", f"shape {W.shape}", 4.0 * W.shape[0] ** 2)
    return W


def importances(importance: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return the importances of n features, ones for None; raise a ValueError if one is out of range."""
    if importance is None:
        return np.ones(n)
    return validation.real("importance", validation.vector("importance", importance, n), 0, LARGEST_ENTRY)
