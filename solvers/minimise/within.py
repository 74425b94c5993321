"""Descent from given weights that ends at a time: for audits, which have checked them."""

import time
from dataclasses import replace

import numpy as np

from ...theory.arguments import FloatArray
from ...theory.features import Features
from .objective import Objective
from .result import Minimum
from .search import _from, _minimum, _polish

__all__ = ["descend_within"]

# Seconds that a step of a Hessian by differences takes, in units of `Objective.work`.
_STEP = 5e-8


def descend_within(
    W_out: FloatArray,
    W_in: FloatArray,
    b: FloatArray,
    law: Features,
    *,
    seconds: float,
    tied: bool,
    steps: int = 500,
    tol: float = 1e-6,
) -> Minimum:
    """Descend as `descend`, with the same result, or stop after so many seconds at what is reached by then.

    A step that has begun is finished, and a finish by Newton's method is left out where its Hessian would
    take longer than what is left.

    Parameters
    ----------
    W_out, W_in, b : (n_features, n_hidden), (n_hidden, n_features), (n_features,) ndarray of float64
        Decoder, encoder and biases.
    law : Features
        Law of the data.
    seconds : float
        Budget, or infinity.
    tied : bool
        Whether `W_in` is, and stays, the transpose of `W_out`.
    steps, tol : optional
        As for `descend`.

    Returns
    -------
    Minimum
        Never above the start.

    Examples
    --------
    >>> W = np.array([[1.0], [-1.0], [0.1]])
    >>> found = descend_within(W, W.T, np.zeros(3), Features(3, 0.1), seconds=60, tied=False)
    >>> round(found.loss, 6), found.status.name
    (0.011303, 'CONVERGED')
    """
    n, m = W_out.shape
    aim = Objective(n, m, law, tied, until=time.perf_counter() + seconds)
    if not tied:  # the split of one product that `descend` takes
        left, sizes, right = np.linalg.svd(W_out @ W_in)
        root, width = np.sqrt(sizes[: min(n, m)]), min(n, m)
        W_out = np.pad(left[:, :width] * root, ((0, 0), (0, m - width)))
        W_in = np.pad(root[:, None] * right[:width], ((0, m - width), (0, 0)))
    end = replace(_from(aim, aim.join(W_out, W_in, b), steps, tol), starts=(0,))
    finish = 2.0 * aim.size * aim.work * _STEP if aim.exact else 0.0
    if time.perf_counter() + finish <= aim.until:
        end = _polish(aim, end, steps, tol)
    return _minimum(aim, end, [end], 1)
