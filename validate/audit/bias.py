"""The bias that a file leaves out: that of least exact loss beside its weights."""

import numpy as np

from ...solvers.loss import exact_loss
from ...theory.arguments import FloatArray
from ...theory.features import Features

# Points of the first look, whose errors may be coarse, and steps of golden section from the best of them.
_POINTS, _COARSE, _STEPS = 33, 1e-4, 30
# Errors of the losses in these: descent judges models of few features, and a thousand take minutes.
_FINE, _FEW, _MANY = 1e-10, 128, 1e-8
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def best_bias(M: FloatArray, law: Features) -> FloatArray:
    """Return the biases b for which ReLU(M x + b) has the least exact loss, to 1e-5 of the scale or so.

    Each output has its own bias, so that all are searched at once: on a grid from where an output never
    answers to its feature to where it always does, then by golden section around the best point.
    (SciPy's elementwise minimiser asks for ever fewer outputs; the exact loss gives those of all.)

    Parameters
    ----------
    M : (n, n) ndarray of float64
        Decoder times encoder.
    law : Features

    Returns
    -------
    (n,) ndarray of float64

    Examples
    --------
    >>> best_bias(np.zeros((2, 2)), Features(2, 0.1)).round(4)  # a dropped feature is answered by its mean
    array([0.05, 0.05])
    """

    def losses(b: FloatArray, tol: float) -> FloatArray:
        return exact_loss(M, b, law, tol=tol).per_feature

    fine = _FINE if law.n_features <= _FEW else _MANY
    mean = M @ law.mean
    reach = np.abs(mean) + 5.0 * np.sqrt(np.sum((M @ law.covariance()) * M, axis=1))
    low, high = -reach - np.maximum(M.diagonal(), 0.0) * law.scale, reach + np.abs(law.mean)
    grid = np.linspace(low, high, _POINTS)
    best = np.argmin([losses(b, _COARSE) for b in grid], axis=0)
    step = (high - low) / (_POINTS - 1)
    low, high = low + (best - 1) * step, low + (best + 1) * step
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = losses(left, fine), losses(right, fine)
    for _ in range(_STEPS):
        down = at_left < at_right  # the best lies below `right`, else above `left`
        low, high = np.where(down, low, left), np.where(down, right, high)
        new = np.where(down, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = losses(new, fine)
        left, right = np.where(down, new, right), np.where(down, left, new)
        at_left, at_right = np.where(down, at_new, at_right), np.where(down, at_left, at_new)
    return np.asarray((low + high) / 2.0)
