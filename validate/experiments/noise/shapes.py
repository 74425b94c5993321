"""Encodings under noise: their shapes and overlaps, and those that stay spread while all others sparsify."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ....solvers.noise import Descent, descend, descend_averaged
from ....theory import validation
from ....theory.noise import noise_averaged_gradient
from ....theory.validation import FloatArray

__all__ = [
    "LARGE_STEP",
    "LEVEL",
    "curvature",
    "descend_from",
    "is_settled",
    "is_stuck",
    "overlaps",
    "random_simplexes",
    "shape",
    "shape_rate",
    "symmetric_minimum",
]

# Of descent on the averaged loss, whose rates are at most 8. With half of it fourth norms at n = 8, m = 16
# are the same to some 0.01 on average over starts, a few 0.01 for single ones where they rise fast.
LARGE_STEP = 0.1
LEVEL = 0.5  # fourth norm that counts as sparse
_SPACING = 1e-4  # of the differences that give curvatures


def shape(W: npt.ArrayLike) -> FloatArray:
    """Return |W_i|_4^4/|W_i|_2^4 for each encoding, which depends on its direction and not on its length.

    Examples
    --------
    >>> float(shape([0.5, -0.5]))
    0.5
    """
    weights = validation.real("W", W)
    largest = np.abs(weights).max(axis=-1, keepdims=True, initial=0.0) if weights.ndim else weights
    if weights.ndim == 0 or not np.all(largest > 0.0):
        raise ValueError(
            f"`W` must have encodings along its last axis, none of them 0; got {validation.short_repr(W)}."
        )
    weights = weights / largest
    return np.asarray(np.sum(weights**4, axis=-1) / np.sum(weights**2, axis=-1) ** 2)


def is_stuck(W: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Say which encodings stay spread while most others of their run are sparse.

    Of encodings (..., n_features, n_hidden), none of them 0. Sparse means |W_i|_4^4/|W_i|_2^4 of at least
    1/2, what two equal weights have; stuck is one that is not, while more than half of its run's are.

    Examples
    --------
    >>> is_stuck([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0.5, 0.5, 0.5, 0.5]])
    array([False, False,  True])
    """
    if np.ndim(W) < 2 or not np.size(W):
        raise ValueError(f"`W` must be matrices of encodings; got {validation.short_repr(W)}.")
    sparse = shape(W) >= LEVEL
    return np.asarray(~sparse & (sparse.mean(axis=-1, keepdims=True) > 0.5))


def curvature(W: npt.ArrayLike, noise: str, noise_std: float) -> tuple[float, float]:
    """Return the length of the averaged loss's gradient and the smallest eigenvalue of its Hessian.

    Of the printed loss, for encodings W of one run; at a minimum 0 and positive. The Hessian is that of
    differences of exact gradients at 1e-4 to each side, which spreads the gradient's kinks over this width.
    """
    at = validation.matrix("W", W)

    def gradient(W: FloatArray) -> FloatArray:
        return noise_averaged_gradient(W, noise, noise_std)

    sides = _SPACING * np.eye(at.size).reshape(-1, *at.shape)
    hessian = np.array([(gradient(at + side) - gradient(at - side)).ravel() for side in sides])
    smallest = np.linalg.eigvalsh((hessian + hessian.T) / (4 * _SPACING))[0]
    return float(np.linalg.norm(gradient(at))), float(smallest)


def symmetric_minimum(n_features: int, noise_std: float, *, spread: bool) -> FloatArray:
    """Find the most symmetric minimum of the loss averaged over bipolar noise, by descent from its shape.

    One encoding is the negative sum of the n - 1 others, up to its length, and these are near one-hot
    (`spread`), or all n, 3 or more, are near one-hot. Encodings are (n, n), the spread one last: more hidden
    neurons would stay empty.
    """
    n = validation.integer("n_features", n_features, 3)
    validation.check_fits("n_features", n_features, 8.0 * n * n)
    noise_std, spread = validation.number("noise_std", noise_std, 0.0), validation.flag("spread", spread)
    W = (1 + noise_std / 2) * np.eye(n) - noise_std / 2
    if spread:
        W[-1], W[:, -1] = -1 / np.sqrt(n - 1), 0.0
    for rate in (LARGE_STEP / 2, LARGE_STEP / 10):
        W = descend_averaged(W, "bipolar", noise_std, rate, 1000).W
    return W


def descend_from(
    W0: FloatArray, noise: str, noise_std: float, learning_rate: float, time: float, rng: Any, **more: Any
) -> Descent:
    """Descend for learning_rate * steps = time, rounded to whole steps."""
    return descend(W0, noise, noise_std, learning_rate, round(time / learning_rate), rng, **more)


def is_settled(W: FloatArray, noise_std: float, time: float) -> FloatArray:
    """Let the flow of the averaged loss, here descent with large steps, go on under bipolar noise."""
    return descend_averaged(W, "bipolar", noise_std, LARGE_STEP, round(time / LARGE_STEP)).W


def random_simplexes(n: int, m: int, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return regular simplexes of n unit encodings on m >= n neurons, turned at random.

    Examples
    --------
    >>> (W,) = random_simplexes(3, 4, 1, np.random.default_rng(0))
    >>> (W @ W.T).round(12)
    array([[ 1. , -0.5, -0.5],
           [-0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """
    corners = (np.eye(n) - 1 / n) / math.sqrt(1 - 1 / n)
    return [corners @ np.linalg.qr(rng.normal(size=(m, m)))[0][:n] for _ in range(count)]


def shape_rate(W: FloatArray, std: float) -> float:
    """Return how fast descent on the loss averaged over bipolar noise raises `shape` of unit encodings.

    Their mean, in the time learning_rate * steps; exact.

    Examples
    --------
    >>> (W,) = random_simplexes(3, 4, 1, np.random.default_rng(0))
    >>> shape_rate(W, 0.5) > 0
    True
    """
    slope = noise_averaged_gradient(W, "bipolar", std)
    outward = W**3 - np.sum(W**4, axis=1, keepdims=True) * W
    return float(-4 * np.mean(np.sum(outward * slope, axis=1)))


def overlaps(W: FloatArray) -> FloatArray:
    """Return the mean of W_i.W_k/|W_k| over the pairs of each run."""
    products = W @ (W / np.linalg.norm(W, axis=-1, keepdims=True)).mT
    return np.asarray(products[:, ~np.eye(W.shape[1], dtype=bool)].mean(axis=-1))
