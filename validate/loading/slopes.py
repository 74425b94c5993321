"""ReLU(M x + b) from a module's outputs alone, whose weights may be any function of its arrays."""

from collections.abc import Iterable, Iterator

import numpy as np

from ...theory.validation import FloatArray
from .calling import Answers
from .parts import StackedModel
from .readings import Reading

# Features squared times outputs, up to which slopes are taken: half the numbers that the module is given.
_MOST_SLOPES = 128**3
# Unit roundoff of double precision, in which slopes are taken.
_PRECISE = 2.0**-53
# Singular values of M below this share of the largest are 0.
_RANK_RTOL = 1e-9
_TINY = 1e-300
# Inputs of a call.
_BATCH = 1024
# Share of a sum by which the first slopes may be off, as small weights do not show beside a bias.
_ROUGH = 0.05
# Of sums, in double precision.
_ROUNDING = 1e-12


def _fit_slopes(
    answers: Answers, n: int, n_outputs: int, array_index: int
) -> tuple[FloatArray, FloatArray] | None:
    """Return (M, b) of ReLU(M x + b) from the slopes of a module where its outputs are large.

    `answers` calls the module with inputs of n features; the module's result has an array of `n_outputs` at
    `array_index`. None if the slopes show that the module is of another form, or if this array is missing or
    not finite for some inputs.
    """
    t, eye = answers.largest_input, np.eye(n)

    def at(x: FloatArray) -> FloatArray:
        """Return the module's array for inputs x (count, n); nan where it is missing or of another size."""
        batches = [x[k : k + _BATCH] for k in range(0, len(x), _BATCH)]
        arrays = [answers.outputs(batch[:, None], "bf")[array_index : array_index + 1] for batch in batches]
        if not all(len(array) == 1 and array[0].shape[2] == n_outputs for array in arrays):
            return np.full((len(x), n_outputs), np.nan)
        return np.concatenate([array[0][:, 0] for array in arrays])

    y = at(np.concatenate([t * eye, t / 2 * eye, -t * eye, -t / 2 * eye])).reshape(4, n, -1)
    up, down = y[0] - y[1], y[3] - y[2]
    M = np.where(np.abs(up) >= np.abs(down), up, down).T / (t / 2)
    # Along its row an output is far above 0, also where one feature moves.
    far_inputs = t * M / np.maximum(np.abs(M).max(axis=1, keepdims=True), _TINY)
    diagonal = np.arange(n_outputs)
    sums, rises = np.sum(M * far_inputs, axis=1), (at(far_inputs) - at(far_inputs / 2))[diagonal, diagonal]
    if np.mean(np.abs(rises - sums / 2) <= _ROUGH * sums) < 0.5:  # most modules end here
        return None
    moved = far_inputs[:, None, None] + t / 4 * np.stack([eye, -eye], axis=1)
    y = at(moved.reshape(-1, n)).reshape(n_outputs, n, 2, n_outputs)[diagonal, :, :, diagonal]
    M = (y[..., 0] - y[..., 1]) / (t / 2)
    sums = np.sum(M * far_inputs, axis=1)
    b = at(far_inputs)[diagonal, diagonal] - sums
    # Again where an output is no larger than its bias asks for, if it has its slope there too.
    squares = np.sum(M**2, axis=1)
    close = M * ((np.sqrt(squares) + 2.0 * np.abs(b)) / np.maximum(squares, _TINY))[:, None]
    again = at(close)[diagonal, diagonal] - np.sum(M * close, axis=1)
    b = np.where(np.abs(again - b) <= _ROUNDING * (sums + np.abs(b)), again, b)
    return (M, b) if np.isfinite(M).all() and np.isfinite(b).all() else None


def _factorise(M: FloatArray, rtol: float) -> tuple[FloatArray, FloatArray]:
    """Return (W_out, W_in) with the product M and as few hidden neurons as its rank, tied if possible.

    Singular values below `rtol` times the largest count as 0.
    """
    if M.shape[0] == M.shape[1] and np.allclose(M, M.T, rtol=0.0, atol=rtol * np.abs(M).max(initial=0.0)):
        values, vectors = np.linalg.eigh((M + M.T) / 2.0)
        if values.min() >= -rtol * np.abs(values).max():
            rank = max(int(np.sum(values > rtol * values[-1])), 1)
            W = (vectors * np.sqrt(np.maximum(values, 0.0))).T[-rank:]
            return W.T, W
    U, values, V = np.linalg.svd(M, full_matrices=False)
    rank = max(int(np.sum(values > rtol * values[0])), 1)
    return U[:, :rank] * values[:rank], V[:rank]


def product_readings(answers: Answers, lengths: Iterable[int]) -> Iterator[Reading]:
    """Yield a reading ReLU(M x + b), with a module's slopes, for each array in the module's result.

    `answers` calls the module. `lengths` are the candidates for n_features: the module must take inputs of
    exactly one of these lengths. Without double precision nothing is yielded. The caller has to compare the
    readings' outputs with the module's.
    """
    if answers.signs != "both" or answers.is_random:
        return
    taken = [n for n in {*lengths} if n**2 <= _MOST_SLOPES and answers.first_outputs(n, 1, "bf")]
    if len(taken) != 1 or answers.unit_roundoff > _PRECISE:
        return
    (n,) = taken
    for array_index, first in enumerate(answers.first_outputs(n, 1, "bf")):
        n_outputs = first.shape[2]
        slopes = _fit_slopes(answers, n, n_outputs, array_index) if n**2 * n_outputs <= _MOST_SLOPES else None
        if slopes is not None:
            W_out, W_in = _factorise(slopes[0], _RANK_RTOL)
            b_in = np.zeros((1, len(W_in)))
            parts = StackedModel(W_in[None], b_in, "identity", W_out[None], slopes[1][None], "relu")
            yield Reading(f"what it answers: ReLU(M x + b), M of rank {len(W_in)}", parts)
