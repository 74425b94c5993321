"""The ReLU output model's loss by sparsity class, and the mixture of all classes: exact, with gradients.

A model is given by its encodings W, with M = W W', or by any matrix M ("of map").
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..results import result
from ..validation import FloatArray, flag, integer, number
from . import checks
from .cube import class_gradient, class_losses
from .dropped import truncated_share

__all__ = ["Mixture", "class_loss", "class_weights", "gradient_of_map", "mixture_loss", "outputs"]

# A class needs a table of the 3^k faces of the cube; at 14 it takes 115 MB, at 11 with its gradient 37 MB.
LARGEST_CLASS = 14
LARGEST_GRADIENT_CLASS = 11


def outputs(M: FloatArray, b: FloatArray, k: int) -> FloatArray:
    """Return the losses, (n,), of all outputs on inputs with exactly k features on, for checked arguments.

    The loss of an output of ReLU(M x + b) is its mean squared error over values uniform on [0, 1], summed
    over the patterns of k features.
    """
    return np.maximum(b, 0.0) ** 2 if k == 0 else class_losses(M, b, k)


def gradient_of_map(
    M: FloatArray, b: FloatArray, k: int, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives with respect to M and b of the loss on inputs with exactly k features on.

    The loss is the sum over outputs i of ReLU(M x + b) of `weights`[i] times the output's squared error,
    averaged over values uniform on [0, 1] and summed over the patterns. The derivatives have the shapes (n,
    n) and (n,).
    """
    if k == 0:
        return np.zeros_like(M), 2.0 * weights * np.maximum(b, 0.0)
    by_map, by_bias = class_gradient(M, b, k)
    return weights[:, np.newaxis] * by_map, weights * by_bias


def class_weights(n: int, p: float, up_to: int) -> FloatArray:
    """Return p^k (1 - p)^(n - k), the probability of one pattern with k on, for k = 0, ..., up_to."""
    k = np.arange(up_to + 1)
    return np.asarray(p**k * (1.0 - p) ** (n - k))


def _last_class(n: int, up_to: int | None, largest: int) -> int:
    """Return the most features on to sum over: `up_to`, by default n; ValueError if above `largest`."""
    if up_to is None and n > largest:
        raise ValueError(f"`up_to` must be given for more than {largest} features; got None for {n}.")
    return n if up_to is None else integer("up_to", up_to, 0, min(n, largest))


# --- One class ---------------------------------------------------------------------------------------------


def _check_class(
    W: ArrayLike, b: ArrayLike, of_map: bool
) -> tuple[FloatArray | None, FloatArray, FloatArray]:
    """Return the encodings (None if `of_map`), the matrix M and the biases as arrays, or raise a ValueError.

    `W` are the encodings, and M is W W'; if `of_map`, `W` is M itself, (n, n).
    """
    if flag("of_map", of_map):
        return None, *checks.square(W, b, name="W")
    W = checks.encodings(W)
    return W, *checks.square(W @ W.T, b)


def _by_weights(W: FloatArray | None, by_map: FloatArray) -> FloatArray:
    """Return dL/dW for M = W W', from `by_map`, which is dL/dM; return `by_map` itself if W is None."""
    return by_map if W is None else np.asarray((by_map + by_map.T) @ W)


def class_loss(
    W: ArrayLike,
    b: ArrayLike,
    k: int,
    importance: ArrayLike | None = None,
    *,
    of_map: bool = False,
    gradient: bool = False,
    per_feature: bool = False,
) -> Any:
    r"""Exact loss L_k of the model ReLU(W W' x + b) on inputs with exactly k features on, or its gradient.

    Inputs with exactly k features on are a class. The loss over sparse data is a mixture of the classes'
    losses L_k (Elhage et al. 2022, expansion by sparsity),

    .. math:: L = \sum_k (1-S)^k S^{n-k} L_k, \qquad L_k = \sum_{|P| = k} \int_{[0,1]^P}
              \sum_i I_i\, (x_i - \mathrm{ReLU}((W W^\top x + b)_i))^2 \, dx.

    An output costs about C(n, k) 4 2^k steps of 50 ns, with its gradient 3 to 6 times as much. A pattern on
    which the pre-activation has one sign takes k steps only. The loss is once continuously differentiable for
    k >= 1, unless a row of M vanishes on a pattern and its bias is 0: there the derivatives are those towards
    larger outputs.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row; entries up to 1e20. Not modified.
    b : float or (n_features,) array_like of float
        Bias of the outputs.
    k : int
        Number of features on, 0 <= k <= n_features and at most 14, for a gradient at most 11.
    importance : (n_features,) array_like of float, optional
        Weights I_i of the features' errors, at least 0; 1 by default.
    of_map : bool, optional
        Whether `W` is the matrix M of any model ReLU(M x + b), (n, n), with entries up to 1e50.
    gradient : bool, optional
        Whether to return the derivatives by W (or M) and b.
    per_feature : bool, optional
        Whether to return the losses of all outputs, without importance, in place of their sum.

    Returns
    -------
    float, (n_features,) ndarray of float64, or a tuple (by_W, by_b) of ndarray
        The expected squared error over values uniform on [0, 1], summed over features and over the
        C(n_features, k) patterns, as in the source. Divide by C(n_features, k) for the mean over the class.
        The error of a pattern is below 1e-14 of (\|b_i\| + sum_j \|M_ij\|)^2 + 1 for each output, with j over
        the features that are on; that of its derivatives by M and b below 1e-14 of \|b_i\| + sum_j \|M_ij\| +
        1. Rounding of W W' itself, of relative size 1e-16, comes on top.

    Examples
    --------
    >>> W = [[1.0], [-1.0]]                       # two features, one dimension
    >>> [round(class_loss(W, 0.0, k), 12) for k in (0, 1, 2)]
    [0.0, 0.0, 0.333333333333]
    >>> class_loss(W, 0.0, 2, gradient=True)[1].round(12)
    array([-0.33333333, -0.33333333])
    """
    encodings, M, b = _check_class(W, b, of_map)
    weights = checks.importances(importance, b.size)
    largest = LARGEST_GRADIENT_CLASS if flag("gradient", gradient) else LARGEST_CLASS
    k = integer("k", k, 0, min(b.size, largest))
    if gradient:
        by_map, by_bias = gradient_of_map(M, b, k, weights)
        return _by_weights(encodings, by_map), by_bias
    losses = outputs(M, b, k)
    return losses if flag("per_feature", per_feature) else float(weights @ losses)


# --- All classes -------------------------------------------------------------------------------------------


@result
class Mixture:
    """The loss over sparse data by numbers k of features on, as totals over features, like `class_loss`."""

    total: float
    """Sum over k = 0, ..., K of p^k (1 - p)^(n-k) L_k. Divide by n for the loss per feature."""
    left_out: float
    """Bound on the terms with k > K: the loss over all inputs lies in [total, total + left_out]."""
    classes: FloatArray
    """(K + 1,): L_0, ..., L_K."""
    terms: FloatArray
    """(K + 1,): p^k (1 - p)^(n-k) L_k, the terms of `total`."""


def mixture_loss(
    W: ArrayLike,
    b: ArrayLike,
    p: float,
    importance: ArrayLike | None = None,
    up_to: int | None = None,
    *,
    of_map: bool = False,
    gradient: bool = False,
) -> Any:
    r"""Exact loss of the model ReLU(W W' x + b) over sparse data, by numbers of features on, or its gradient.

    .. math:: L = \sum_{k=0}^n p^k (1-p)^{n-k} L_k
                = E \sum_i I_i\,(x_i - \mathrm{ReLU}((W W^\top x + b)_i))^2

    L_k, from inputs with k features on, is `class_loss`. W (an encoding a row), b (biases of the outputs),
    `importance` ((n,), the weights I_i, 1 by default), `of_map` (whether W is the matrix M of ReLU(M x + b)),
    `gradient` (whether to return the derivatives) and errors are as there. Inputs with more features on than
    `up_to` matter if `left_out` is not small against the loss, however improbable they are. For all k the
    cost is about n 5^n steps of 50 ns. See Elhage et al. (2022), the expansion of the loss by sparsity; Notes
    (2022), §3.1 on its truncation.

    Parameters
    ----------
    p : float
        Probability that a feature is on, in (0, 1], the same for all features; p = 1 - S.
    up_to : int, optional
        Largest k that is summed; by default n, which must be at most 14 (for a gradient 11).

    Returns
    -------
    Mixture, or with `gradient` a tuple (by_W, by_b) of ndarray
        The terms are as accurate as `class_loss`. `left_out`, by `dropped_bound`, is an upper bound on the
        terms with k > `up_to`. The derivatives are those of `total`, the sum of the terms, by W (or M) and b.

    Examples
    --------
    >>> pair = [[1.0], [-1.0]]                    # no loss on inputs with one feature on
    >>> mixture = mixture_loss(pair, 0.0, 0.1)
    >>> mixture.terms.round(12), mixture.left_out
    (array([0.        , 0.        , 0.00333333]), 0.0)
    """
    encodings, M, b = _check_class(W, b, of_map)
    n = b.size
    p = number("p", p, 0, 1, brackets="(]")
    weights = checks.importances(importance, n)
    last = _last_class(n, up_to, LARGEST_GRADIENT_CLASS if flag("gradient", gradient) else LARGEST_CLASS)
    chances = class_weights(n, p, last)
    if gradient:
        parts = [gradient_of_map(M, b, k, chance * weights) for k, chance in enumerate(chances)]
        by_map, by_bias = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
        return _by_weights(encodings, by_map), by_bias
    classes = np.array([weights @ outputs(M, b, k) for k in range(last + 1)])
    terms = chances * classes
    left_out = float(weights @ truncated_share(M, b, p, last)) if last < n else 0.0
    return Mixture(float(terms.sum()), left_out, classes, terms)
