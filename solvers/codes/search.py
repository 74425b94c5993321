"""Blocks found rather than known: the exact loss of a small model minimised."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from ...theory import arguments
from ...theory.loss.classes import class_weights, gradient_of_map, per_feature

__all__ = ["FoundBlock", "find_block"]

FloatArray = npt.NDArray[np.float64]

# An evaluation costs about n 5^n steps of 50 ns.
_MOST_FEATURES = 8


@dataclass(frozen=True)
class FoundBlock:
    """The least loss found for a small model ReLU(W_out W_in x + b).

    Attributes
    ----------
    W_out : (n_features, n_hidden) ndarray of float64
    W_in : (n_hidden, n_features) ndarray of float64
    b : (n_features,) ndarray of float64
    loss : float
        Exact loss per feature: an upper bound on the least.
    gradient_norm : float
        Of the loss over p, by W_out, W_in and b.
    losses : (starts,) ndarray of float64
        What each start ended at, ascending.
    """

    W_out: FloatArray
    W_in: FloatArray
    b: FloatArray
    loss: float
    gradient_norm: float
    losses: FloatArray


def find_block(
    n_features: int,
    n_hidden: int,
    p: float,
    *,
    tied: bool = False,
    starts: int = 8,
    rng: np.random.Generator | int = 0,
) -> FoundBlock:
    """Minimise the exact loss of a small model over all its weights and biases, from random starts.

    Parameters
    ----------
    n_features, n_hidden : int
        n from 1 to 8, m from 1 to n.
    p : float
        Probability that a feature is on, in (0, 1).
    tied : bool, optional
        Whether W_out is the transpose of W_in.
    starts : int, optional
        Random starts.
    rng : Generator or int, optional
        Generator, or seed of one, that draws them.

    Returns
    -------
    FoundBlock

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    L-BFGS on exact losses and gradients of all classes of input. A local minimiser: the least of many starts.

    Examples
    --------
    >>> found = find_block(2, 1, 0.1, starts=2)
    >>> round(found.loss, 6)                       # an antipodal pair of equal lengths has 0.00166
    0.001539
    """
    n = arguments.integer("n_features", n_features, 1, _MOST_FEATURES)
    m = arguments.integer("n_hidden", n_hidden, 1, n)
    p = arguments.number("p", p, 0, 1, brackets="()")
    count = arguments.integer("starts", starts, 1)
    generator = np.random.default_rng(rng)
    weights, ones, size = class_weights(n, p, n), np.ones(n), n * m

    def split(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        W_out = x[:size].reshape(n, m)
        W_in = W_out.T if tied else x[size : 2 * size].reshape(m, n)
        return W_out, W_in, x[-n:].copy()

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        W_out, W_in, b = split(x)
        M = np.ascontiguousarray(W_out @ W_in)
        total, by_M, by_b = 0.0, np.zeros((n, n)), np.zeros(n)
        for k, weight in enumerate(weights):
            total += weight * float(np.sum(per_feature(M, b, k)))
            more_M, more_b = gradient_of_map(M, b, k, ones)
            by_M += weight * more_M
            by_b += weight * more_b
        by_out, by_in = by_M @ W_in.T, W_out.T @ by_M
        parts = [by_out + by_in.T] if tied else [by_out, by_in]
        scale = 1.0 / (n * p)
        return scale * total, scale * np.concatenate([*(part.ravel() for part in parts), by_b])

    found = []
    for _ in range(count):
        W = generator.normal(scale=m**-0.5, size=(n, m))
        begin = [W.ravel()] if tied else [W.ravel(), (W.T + 0.3 * generator.normal(size=(m, n))).ravel()]
        found.append(
            optimize.minimize(
                loss,
                np.concatenate([*begin, np.full(n, -0.05)]),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 3000, "maxfun": 6000, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 30},
            )
        )
    best = min(found, key=lambda result: float(result.fun))
    W_out, W_in, b = split(np.asarray(best.x))
    losses = np.sort([p * float(result.fun) for result in found])
    return FoundBlock(W_out, np.array(W_in), b, p * float(best.fun), float(np.linalg.norm(best.jac)), losses)
