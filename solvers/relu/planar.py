"""Best models of a few features in a few dimensions, their structure, and regular polygons in the plane."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from ...theory import arguments
from ...theory.loss.classes import class_weights
from ...theory.loss.cube import class_gradient, class_losses
from ..minimise import Certificate
from ..rug import row_loss
from .models import SmallModel

__all__ = ["Polygon", "polygon", "solve_small"]

FloatArray = npt.NDArray[np.float64]

# A model of n features costs about n 5^n steps of 50 ns for each evaluation.
_MOST_FEATURES = 9

# Final gradient, relative to p.
_GRADIENT = 1e-9

# Encodings shorter than this count as dropped when their biases are set.
_SMALL = 0.1


@dataclass(frozen=True)
class Polygon:
    """The best regular polygon: k features at equal angles in the plane, one norm, one bias.

    Attributes
    ----------
    k : int
        Number of features.
    p : float
        Probability that a feature is on.
    a : float
        Squared norm of the encodings.
    b : float
        Bias.
    loss : float
        Loss per feature.
    gain : float
        k times (loss of a dropped feature, p/3 - p²/4, minus `loss`): what the polygon saves in all.
    """

    k: int
    p: float
    a: float
    b: float
    loss: float
    gain: float


def polygon(k: int, p: float) -> Polygon:
    r"""Minimise the exact loss of k features on a regular polygon over the common norm and bias.

    The features on one polygon are alike, so a critical point among regular polygons is one among all
    models. As dropped features cost p/3 - p²/4 each, the polygon with the largest `gain` is the best way to
    store some of many features as a single regular polygon, whatever their number.

    Parameters
    ----------
    k : int
        Number of features, 2 to 32. k = 2 is the antipodal pair, which needs one dimension only.
    p : float
        Probability that a feature is on, in [1e-4, 1].

    Returns
    -------
    Polygon
        Loss to 1e-9 relative, a and b to about 1e-4.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Nelder-Mead from four biases, on losses by `rug.row_loss`. That there is no other minimum is not proven.

    Examples
    --------
    >>> pentagon = polygon(5, 0.05)
    >>> round(pentagon.a, 3), round(pentagon.b, 3), round(pentagon.gain, 6)
    (1.287, -0.246, 0.071305)
    """
    size = arguments.integer("k", k, 2, 32)
    on = arguments.number("p", p, 1e-4, 1)
    cosines = np.cos(2.0 * np.pi * np.arange(size) / size)
    cosines[np.abs(cosines) < 1e-15] = 0.0

    def loss(x: FloatArray) -> float:
        return row_loss(np.exp(x[0]) * cosines, 0, float(x[1]), on, tol=1e-11).loss / on

    best = min(
        (
            optimize.minimize(
                loss, (0.0, b), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13, "maxiter": 600}
            )
            for b in (-0.4, -0.1, 0.05, 0.3)
        ),
        key=lambda result: float(result.fun),
    )
    least = float(best.fun) * on
    gain = size * (on / 3.0 - on * on / 4.0 - least)
    return Polygon(size, on, float(np.exp(best.x[0])), float(best.x[1]), least, gain)


class _Objective:
    """Exact loss per feature over p and its gradient, in the flattened W and, if free, b."""

    def __init__(self, n: int, h: int, p: float, importance: FloatArray, bias: bool):
        self.n, self.h, self.p, self.bias = n, h, p, bias
        self.importance = importance / (n * p)
        self.weights = class_weights(n, p, n)

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        W = x[: self.n * self.h].reshape(self.n, self.h)
        return W, x[self.n * self.h :].copy() if self.bias else np.zeros(self.n)

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        W, b = self.split(x)
        M = W @ W.T
        loss = 0.0
        by_M, by_b = np.zeros((self.n, self.n)), np.zeros(self.n)
        for k, weight in enumerate(self.weights):
            if weight > 0.0:
                loss += weight * float(self.importance @ class_losses(M, b, k))
                rows, biases = class_gradient(M, b, k)
                by_M += weight * self.importance[:, None] * rows
                by_b += weight * self.importance * biases
        by_W = ((by_M + by_M.T) @ W).ravel()
        return loss, np.concatenate([by_W, by_b]) if self.bias else by_W


def _starts(
    n: int, h: int, count: int, rng: np.random.Generator, order: npt.NDArray[np.intp]
) -> list[FloatArray]:
    """Return random encodings, then regular polygons and orthogonal sets of the most important features."""
    starts = [rng.standard_normal((n, h)) for _ in range(count)]
    for k in range(1, n + 1):
        W = 0.01 * rng.standard_normal((n, h))
        angles = 2.0 * np.pi * np.arange(k) / k
        if h >= 2:
            W[order[:k], :2] += np.stack([np.cos(angles), np.sin(angles)], axis=1)
        if k <= h and k > 0:
            W = 0.01 * rng.standard_normal((n, h))
            W[order[:k], np.arange(k)] += 1.0
        starts.append(W)
    return starts


def solve_small(
    n_features: int,
    n_hidden: int,
    p: float,
    importance: npt.ArrayLike | None = None,
    *,
    bias: bool = True,
    starts: int = 20,
    seed: int | np.random.Generator = 0,
) -> SmallModel:
    """Find the best model of a few features in a few dimensions, from many starts on the exact loss.

    Parameters
    ----------
    n_features : int
        At most 9.
    n_hidden : int
        At most `n_features`.
    p : float
        Probability that a feature is on, in [1e-4, 1].
    importance : (n_features,) array_like of float, optional
        Weights of the features' errors, positive; 1 by default.
    bias : bool, optional
        Whether the biases are free. Otherwise they are zero.
    starts : int, optional
        Random starts, encodings standard normal. Polygons and orthogonal sets of the most important features
        are added to them.
    seed : int or Generator, optional
        Draws the starts.

    Returns
    -------
    SmallModel
        The certificate is of the kind "many starts": its `work` counts the starts, and nothing is proven.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    BFGS on the exact loss and gradient of all sparsity classes; a start takes about 0.01 s for 3 features,
    0.2 s for 6, 1 s for 7 and 5 s for 8.

    Examples
    --------
    >>> model = solve_small(3, 2, 0.3, [1.0, 1.0, 0.05], starts=3)
    >>> structure(model.W)
    'alone 0, alone 1, dropped 2'
    """
    n = arguments.integer("n_features", n_features, 1, _MOST_FEATURES)
    h = arguments.integer("n_hidden", n_hidden, 1, n)
    on = arguments.number("p", p, 1e-4, 1)
    weights = np.ones(n) if importance is None else arguments.vector("importance", importance, n)
    weights = arguments.real("importance", weights, 0, brackets="(]")
    count = arguments.integer("starts", starts, 1)
    rng = np.random.default_rng(seed)
    objective = _Objective(n, h, on, weights, bool(bias))
    found = []
    options: Any = {"gtol": _GRADIENT, "maxiter": 2000}
    first = _starts(n, h, count, rng, np.argsort(-weights, kind="stable"))
    for W in first:
        x = W.ravel()
        if bias:
            x = np.concatenate([x, np.where(np.linalg.norm(W, axis=1) < _SMALL, 0.5 * on, 0.0)])
        result = optimize.minimize(objective, x, jac=True, method="BFGS", options=options)
        W, b = objective.split(np.asarray(result.x, np.float64))
        dead = np.linalg.norm(W, axis=1) < _SMALL
        if bias and np.any(dead & (b <= 0.0)):
            # A dropped feature with a negative bias gives no gradient; its best bias is p/2.
            x = np.concatenate([np.where(dead[:, None], 0.0, W).ravel(), np.where(dead, 0.5 * on, b)])
            result = optimize.minimize(objective, x, jac=True, method="BFGS", options=options)
        found.append((float(result.fun), np.asarray(result.x, np.float64)))
    least, x = min(found, key=lambda pair: pair[0])
    W, b = objective.split(x)
    loss = least * on
    return SmallModel(W.copy(), b, weights, on, loss, Certificate("many starts", 0.0, loss, len(first)))
