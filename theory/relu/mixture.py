"""The full loss as the binomial mixture of the classes, and what truncation of the mixture leaves out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arguments import FloatArray, number
from .classes import (
    LARGEST_CLASS,
    LARGEST_GRADIENT_CLASS,
    checked_bias,
    checked_class,
    checked_importance,
    checked_map,
    checked_weights,
    gradient_of_map,
    per_feature,
)
from .dropped import dropped

__all__ = [
    "Mixture",
    "mixture_loss",
    "mixture_loss_gradient",
    "mixture_loss_of_map",
]


@dataclass(frozen=True)
class Mixture:
    """The loss over sparse data, class by class.

    Attributes
    ----------
    loss : float
        Sum over the classes 0, ..., K of p^k (1 - p)^(n-k) L_k: a total over features, not a mean.
    left_out : float
        What the classes above K add at most; 0 if there are none. The true loss lies in
        [loss, loss + left_out].
    classes : (K + 1,) ndarray of float64
        L_0, ..., L_K.
    terms : (K + 1,) ndarray of float64
        What each class adds to `loss`.
    """

    loss: float
    left_out: float
    classes: FloatArray
    terms: FloatArray


def _classes(n: int, up_to: int | None, largest: int) -> int:
    """Return the last class to keep."""
    if up_to is not None:
        return checked_class(up_to, n, largest, "up_to")
    if n > largest:
        raise ValueError(f"`up_to` must be given for more than {largest} features; got None for {n}.")
    return n


def class_weights(n: int, p: float, up_to: int) -> FloatArray:
    """Return p^k (1 - p)^(n - k) for k = 0, ..., up_to: the probability of one pattern."""
    k = np.arange(up_to + 1)
    return np.asarray(p**k * (1.0 - p) ** (n - k))


def mixture_loss_of_map(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    p: float,
    importance: npt.ArrayLike | None = None,
    up_to: int | None = None,
) -> Mixture:
    """Exact loss of the model ReLU(M x + b) over sparse data, as the mixture of its classes.

    Parameters
    ----------
    M : (n, n) array_like of float
        Row i makes output i. Entries up to 1e50. Not modified.
    b, p, importance, up_to
        As for `mixture_loss`.

    Returns
    -------
    Mixture

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    Accuracy and cost are those of `mixture_loss`.

    Examples
    --------
    >>> round(mixture_loss_of_map(np.zeros((3, 3)), 0.0, 0.3).loss, 12)
    0.3
    """
    M, b = checked_map(M, b)
    n = b.size
    p = number("p", p, 0, 1, brackets="(]")
    weights = checked_importance(importance, n)
    last = _classes(n, up_to, LARGEST_CLASS)
    classes = np.array([weights @ per_feature(M, b, k) for k in range(last + 1)])
    terms = class_weights(n, p, last) * classes
    left_out = float(weights @ dropped(M, b, p, last)) if last < n else 0.0
    return Mixture(float(terms.sum()), left_out, classes, terms)


def mixture_loss(
    W: npt.ArrayLike,
    b: npt.ArrayLike,
    p: float,
    importance: npt.ArrayLike | None = None,
    up_to: int | None = None,
) -> Mixture:
    r"""Exact loss of the model ReLU(W W' x + b) over sparse data, as the mixture of its classes.

    .. math:: L = \sum_{k=0}^n p^k (1-p)^{n-k} L_k
                = E \sum_i I_i\,(x_i - \mathrm{ReLU}((W W^\top x + b)_i))^2

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row; entries up to 1e20. Not modified.
    b : float or (n_features,) array_like of float
        Bias of the outputs.
    p : float
        Probability that a feature is on, in (0, 1]; p = 1 - S.
    importance : (n_features,) array_like of float, optional
        Weights of the features' errors, at least 0; 1 by default.
    up_to : int, optional
        The last class that is summed; all by default, for at most 14 features.

    Returns
    -------
    Mixture
        `loss` and `left_out` are totals over features, as `class_loss` is.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    See Also
    --------
    superposition.solvers.rug.exact_loss : The loss per feature by another method, also for many features.

    Notes
    -----
    Accuracy of a class as for `class_loss`; terms are positive. `left_out` is `dropped_bound`.

    A model that minimises the sum up to class K has a full loss of at most that of any other model plus
    its own `left_out`. That is the test for "ignore two-sparse inputs": `left_out` at the model found, not
    the probability of such inputs, must be small against the loss.

    All classes of n features cost about n 5^n steps of 50 ns.

    References
    ----------
    Elhage et al. (2022), the expansion of the loss by sparsity; Notes (2022), §3.1 on its truncation.

    Examples
    --------
    >>> pair = [[1.0], [-1.0]]                    # no loss on inputs with one feature on
    >>> mixture = mixture_loss(pair, 0.0, 0.1)
    >>> mixture.terms.round(12), mixture.left_out
    (array([0.        , 0.        , 0.00333333]), 0.0)
    >>> first = mixture_loss(pair, 0.0, 0.1, up_to=1)
    >>> first.loss, round(first.left_out, 9)
    (0.0, 0.006666667)
    """
    W = checked_weights(W)
    return mixture_loss_of_map(W @ W.T, b, p, importance, up_to)


def mixture_loss_gradient(
    W: npt.ArrayLike,
    b: npt.ArrayLike,
    p: float,
    importance: npt.ArrayLike | None = None,
    up_to: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Gradient of the loss of `mixture_loss` with respect to W and b, exact.

    Parameters
    ----------
    W, b, p, importance, up_to
        As for `mixture_loss`; here all classes are summed for at most 11 features.

    Returns
    -------
    by_W : (n_features, n_hidden) ndarray of float64
    by_b : (n_features,) ndarray of float64

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    Accuracy as for `class_loss_gradient`.

    Examples
    --------
    >>> by_W, by_b = mixture_loss_gradient([[1.0], [-1.0]], 0.0, 0.1)
    >>> by_b.round(12)                            # a negative bias would raise the loss
    array([-0.00333333, -0.00333333])
    """
    W = checked_weights(W)
    n = W.shape[0]
    b = checked_bias(b, n)
    p = number("p", p, 0, 1, brackets="(]")
    weights = checked_importance(importance, n)
    M = np.ascontiguousarray(W @ W.T)
    by_map, by_bias = np.zeros((n, n)), np.zeros(n)
    last = _classes(n, up_to, LARGEST_GRADIENT_CLASS)
    for k, weight in enumerate(class_weights(n, p, last)):
        of_map, of_bias = gradient_of_map(M, b, k, weights)
        by_map += weight * of_map
        by_bias += weight * of_bias
    return (by_map + by_map.T) @ W, by_bias
