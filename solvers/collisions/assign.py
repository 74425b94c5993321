"""Assignments of features to neurons without interference: each to its largest free weight."""

import numpy as np
import numpy.typing as npt

from ...theory.compile.kernels import kernel
from ..results import result
from .flow import checked_encodings

__all__ = ["Assignment", "assign"]


@result
class Assignment:
    """Neuron of each feature if each (neuron, sign) goes to the feature with the largest weight there."""

    neuron: npt.NDArray[np.int64]
    """Neuron of each feature, shape (..., n_features); -1 if all its places were taken."""
    polysemantic: npt.NDArray[np.int64]
    """Neurons with two features, shape (...,)."""


def assign(W: npt.ArrayLike) -> Assignment:
    """Return the neuron of each feature, largest weights first; a neuron takes one feature of each sign.

    This is what the l1 force does if two features compete only for a neuron that both want, with equal signs:
    the larger weight keeps it, and the other feature takes its next neuron. For independent symmetric weights
    the expected count is near :func:`superposition.theory.collisions.expected_polysemantic`, but smaller: a
    feature that lost a neuron has no second weight there for its other sign (11 % at n = m = 4). See Lecomte
    et al. (2024), §2.5.

    Parameters
    ----------
    W : (..., n_features, n_hidden) array_like of float
        Encodings, row i is feature i. Not modified.

    Returns
    -------
    Assignment

    Raises
    ------
    ValueError
        If `W` has fewer than two axes, is empty or not finite.

    Examples
    --------
    >>> assign([[0.9, 0.5, 0.1], [0.8, 0.4, -0.2], [-0.7, 0.1, 0.3]]).neuron
    array([0, 1, 0])
    """
    W = checked_encodings(W)
    neuron = np.empty(W.shape[:-1], dtype=np.int64)
    polysemantic = np.empty(W.shape[:-2], dtype=np.int64)
    for run in np.ndindex(polysemantic.shape):
        order = np.argsort(-np.abs(W[run]), axis=None, kind="stable")
        polysemantic[run] = _assign(W[run].copy(), order, neuron[run])  # writable, as all kernels get
    return Assignment(neuron, polysemantic)


@kernel
def _assign(w: npt.NDArray[np.float64], order: npt.NDArray[np.int64], neuron: npt.NDArray[np.int64]) -> int:
    """Write the neuron of each feature to `neuron`, -1 for none; return how many neurons have two features.

    w are encodings, (n_features, n_hidden), and `order` its flat indices by falling |w|. In this order a
    feature without a neuron takes that of its nonzero weight, unless a feature of the same sign has it.
    """
    m = w.shape[1]
    taken = np.zeros((m, 2), dtype=np.bool_)
    neuron[:] = -1
    both = 0
    for input_index in order:
        i, k = input_index // m, input_index % m
        side = 1 if w[i, k] > 0.0 else 0
        if neuron[i] < 0 and w[i, k] != 0.0 and not taken[k, side]:
            neuron[i] = k
            taken[k, side] = True
            both += taken[k, 1 - side]
    return both
