"""Two encodings on one neuron: which one keeps it, and when the other one's weight is 0."""

import numpy as np

from ...theory.validation import FloatArray, number
from .. import sparsification
from ..results import result

__all__ = ["Collision", "collide"]

_LARGEST = 1e150  # squares of larger weights overflow


@result
class Collision:
    """Outcome of two encodings whose only nonzero weights are on one neuron; see :func:`collide`."""

    kind: str
    """'benign' (opposite signs), 'malign' (equal signs) or 'none' (one of the weights is zero)."""
    winner: int
    """0 or 1: the encoding that keeps the neuron; 2: both, for ever; -1: none."""
    drop_times: FloatArray
    """Time at which each weight becomes zero, shape (2,); inf if never."""


def collide(w1: float, w2: float, lam: float) -> Collision:
    r"""Return the outcome of two encodings whose only nonzero weights, `w1` and `w2`, are on one neuron.

    Both follow the gradient flow with an l1 force of Lecomte et al. (2024), see :func:`flow`. Two features on
    one neuron collide: benignly with weights of opposite signs, malignly with equal ones.

    With equal signs :math:`|w_i|' = |w_i| (1 - w_1^2 - w_2^2) - \lambda`: the flow of *one* encoding with
    these two weights. So the larger weight wins, and equal ones stay equal, an unstable state. With opposite
    signs each moves as if it were alone.

    Parameters
    ----------
    w1, w2, lam : float
        The weights, at most 1e150 in size, and the strength of the l1 force, at least 0.

    Returns
    -------
    Collision
        As exact as :func:`superposition.solvers.sparsification.solve`. The collisions are those of Lecomte et
        al. (2024), §2.5.

    Examples
    --------
    >>> collide(0.5, 0.4, lam=0.01).drop_times.round(3)
    array([    inf, 141.021])
    >>> collide(0.5, -0.4, lam=0.01).kind, collide(0.5, -0.4, lam=0.01).winner
    ('benign', 2)
    """
    w = np.array([number("w1", w1, -_LARGEST, _LARGEST), number("w2", w2, -_LARGEST, _LARGEST)])
    lam = number("lam", lam, 0.0)
    if np.sign(w[0]) * np.sign(w[1]) > 0.0:
        kind, parts = "malign", [w]
    else:
        kind, parts = "benign" if w.all() else "none", [w[:1], w[1:]]
    drops = np.concatenate([sparsification.solve(part, lam, [0.0]).drop_times for part in parts])
    stays = np.isinf(drops)
    winner = 2 if stays.all() else int(np.argmax(stays)) if stays.any() else -1
    return Collision(kind=kind, winner=winner, drop_times=drops)
