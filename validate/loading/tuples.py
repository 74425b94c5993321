"""Models from plain arrays: one matrix, or a tuple of a matrix or two and a bias."""

from typing import Any

import numpy as np

from ...theory.model import Model
from ...theory.validation import FloatArray, doubles
from .arrays import array_of

_FORMS = "(W, b), (W_out, W_in, b), or (M, b) with M square and symmetric"
_WAYS = (
    "Model(W, b=b) if it is (n_hidden, n_features), Model(W.T, b=b) if it is (n_features, n_hidden), "
    "Model(np.eye(n), W_out=M, b=b) for ReLU(M x + b)"
)


def real_array(value: Any) -> FloatArray:
    """Return an array-like or tensor as a validated array of doubles."""
    array = array_of(value)
    return doubles("model", array if array.dtype.kind in "fiu" else value)


def model_of_matrix(W: FloatArray, n_features: int | None = None, b: Any = 0.0) -> Model:
    """Return the tied model of one matrix and the output bias b.

    The axis of features has length `n_features`, or is the longer one if that is None. ValueError if neither
    tells.

    >>> model_of_matrix(np.array([[1.0], [-1.0]]))
    Model(2 features -> 1 hidden (identity) -> 2 outputs (relu), tied)
    """
    if W.ndim != 2:
        shape = f"shape {W.shape}" if W.ndim else "a single number"
        raise ValueError(f"`model` must be a matrix of two axes; got {shape}.")
    rows, columns = W.shape
    if n_features not in (None, rows, columns):
        raise ValueError(f"`model` must have {n_features} features, as its law; got shape {W.shape}.")
    # A symmetric one may be meant as W or as M = W W', which are the same model only for a projector.
    if rows == columns and not (np.array_equal(W, W.T) and np.allclose(W @ W, W)):
        raise ValueError(
            f"`model` must say which axis is that of the features where both are {rows} long; pass "
            f"{_WAYS.replace(', b=b', '')}, or (M, b) for ReLU(M x + b)."
        )
    return Model(W.T if rows == (n_features or max(W.shape)) else W, b=b)


def model_of_tuple(items: tuple[Any, ...], n_features: int | None = None) -> Model:
    """Return the model of (W, b), (M, b) or (W_out, W_in, b); matrices are transposed if only that fits.

    `items` is the tuple; `n_features`, if known, tells which axis of W is that of the features. Arrays that
    do not fit, or fit in several ways, raise a ValueError.

    >>> model_of_tuple(([[1.0, -1.0], [-1.0, 1.0]], [0.0, 0.0]))
    Model(2 features -> 2 hidden (identity) -> 2 outputs (relu))
    """
    if len(items) not in (2, 3):
        raise ValueError(f"`model` must be a matrix, or {_FORMS}; got {len(items)} arrays.")
    arrays = [real_array(item) for item in items]
    shapes = ", ".join(str(array.shape) for array in arrays)
    *weights, b = arrays
    b = b.ravel() if b.ndim == 2 and 1 in b.shape else b
    if b.ndim > 1:
        rule = "the bias last: " + ("(W_out, W_in, b)" if len(arrays) == 2 else _FORMS)
        raise ValueError(f"`model` must have {rule}; got shapes {shapes}.")
    if len(weights) == 2:
        return _model_of_two_matrices(weights[0], weights[1], b, shapes)
    W = weights[0]
    if W.ndim == 2 and W.shape[0] == W.shape[1]:
        if not np.allclose(W, W.T, rtol=1e-6, atol=1e-6 * np.abs(W).max(initial=0.0)):
            raise ValueError(
                f"`model` must say what a square matrix {W.shape} is that is not symmetric: {_WAYS}; "
                f"got shapes {shapes}."
            )
        return Model(np.eye(len(W)), W_out=W, b=b)
    if b.size > 1 and W.ndim == 2 and n_features is None and b.size in W.shape:
        return Model(W if W.shape[1] == b.size else W.T, b=b)
    return model_of_matrix(W, n_features, b)


def _model_of_two_matrices(W_out: FloatArray, W_in: FloatArray, b: FloatArray, shapes: str) -> Model:
    """Return the model of W_out, W_in, as they are or, if only that fits, transposed, and output bias b.

    If no way or several ways fit, a ValueError is raised with the text `shapes`.
    """

    def fits(out: FloatArray, into: FloatArray) -> bool:
        """Return whether a decoder `out`, an encoder `into` and b have shapes that multiply."""
        return out.ndim == into.ndim == 2 and out.shape[1] == into.shape[0] and b.size in (1, out.shape[0])

    if fits(W_out, W_in) and not (b.size == 1 and len(W_out) == W_in.shape[1] < len(W_in)):
        return Model(W_in, W_out=W_out, b=b if b.ndim == 0 or b.size > 1 else b[0])
    orientations = [(W_out, W_in.T), (W_out.T, W_in), (W_out.T, W_in.T)]
    fitting = [pair for pair in orientations if fits(*pair)]
    if len(fitting) != 1 or fits(W_in, W_out):
        rule = (
            "(W_out, W_in, b) with W_out of shape (n_outputs, n_hidden), W_in of shape (n_hidden, n_features)"
        )
        raise ValueError(f"`model` must be {rule}; got shapes {shapes}: swapped, or transposed?")
    return Model(fitting[0][1], W_out=fitting[0][0], b=b)
