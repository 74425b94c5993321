"""The ReLU output model's loss by sparsity class, and the mixture of all classes: exact, with gradients.

A model is given by its encodings W, with M = W W', or by any matrix M ("of map").
"""

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import FloatArray, integer, number
from ..results import result
from . import checks
from .cube import class_gradient, class_losses
from .dropped import dropped

__all__ = [
    "Mixture",
    "class_loss",
    "class_loss_gradient",
    "class_loss_gradient_of_map",
    "class_loss_of_map",
    "class_loss_per_feature",
    "class_weights",
    "gradient_of_map",
    "mixture_loss",
    "mixture_loss_gradient",
    "mixture_loss_of_map",
    "per_feature",
]

# A class needs a table of the 3^k faces of the cube; at 14 it takes 115 MB, at 11 with its gradient 37 MB.
LARGEST_CLASS = 14
LARGEST_GRADIENT_CLASS = 11


def per_feature(M: FloatArray, b: FloatArray, k: int) -> FloatArray:
    """Return the losses of all outputs in class k, for arguments that are checked."""
    return np.maximum(b, 0.0) ** 2 if k == 0 else class_losses(M, b, k)


def gradient_of_map(
    M: FloatArray, b: FloatArray, k: int, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the loss of class k by M and b, for arguments that are checked."""
    if k == 0:
        return np.zeros_like(M), 2.0 * weights * np.maximum(b, 0.0)
    by_map, by_bias = class_gradient(M, b, k)
    return weights[:, np.newaxis] * by_map, weights * by_bias


def class_weights(n: int, p: float, up_to: int) -> FloatArray:
    """Return p^k (1 - p)^(n - k) for k = 0, ..., up_to: the probability of one pattern."""
    k = np.arange(up_to + 1)
    return np.asarray(p**k * (1.0 - p) ** (n - k))


def _last(n: int, up_to: int | None, largest: int) -> int:
    """Return the last class to keep."""
    if up_to is None and n > largest:
        raise ValueError(f"`up_to` must be given for more than {largest} features; got None for {n}.")
    return n if up_to is None else integer("up_to", up_to, 0, min(n, largest))


# --- One class ---------------------------------------------------------------------------------------------


def class_loss_per_feature(M: ArrayLike, b: ArrayLike, k: int) -> FloatArray:
    r"""Exact squared error of each output of ReLU(M x + b), summed over the inputs with k features on.

    .. math:: L_{k,i} = \sum_{|P| = k} \int_{[0,1]^P} (x_i - \mathrm{ReLU}((M x + b)_i))^2 \, dx

    Parameters
    ----------
    M : (n, n) array_like of float
        Row i makes output i. Any real matrix with entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    k : int
        Number of features on, 0 <= k <= n and at most 14.

    Returns
    -------
    (n,) ndarray of float64
        A sum over the C(n, k) patterns, not a mean: divide by C(n, k) for the mean over the class.

        The error of a pattern is below 1e-14 of (\|b_i\| + sum_j \|M_ij\|)^2 + 1, with j over the features
        that are on.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    An output costs about C(n, k) 4 2^k steps of 50 ns. Patterns whose pre-activation has one sign cost k.

    References
    ----------
    Elhage et al. (2022), L_k of the expansion by sparsity; derived by `derive_class_loss`.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> [class_loss_per_feature(pair, 0.0, k).round(12) for k in (0, 1, 2)]
    [array([0., 0.]), array([0., 0.]), array([0.16666667, 0.16666667])]
    """
    M, b = checks.square(M, b)
    return per_feature(M, b, integer("k", k, 0, min(b.size, LARGEST_CLASS)))


def class_loss_of_map(M: ArrayLike, b: ArrayLike, k: int, importance: ArrayLike | None = None) -> float:
    """Exact loss L_k of any model ReLU(M x + b): the sum of `class_loss_per_feature`, weighted.

    Parameters and errors are those of `class_loss_per_feature` and `class_loss`.

    Examples
    --------
    >>> class_loss_of_map([[0.0]], 0.0, 1)
    0.3333333333333333
    """
    M, b = checks.square(M, b)
    weights = checks.importances(importance, b.size)
    return float(weights @ per_feature(M, b, integer("k", k, 0, min(b.size, LARGEST_CLASS))))


def class_loss(W: ArrayLike, b: ArrayLike, k: int, importance: ArrayLike | None = None) -> float:
    r"""Exact loss L_k of the model ReLU(W W' x + b) on inputs with exactly k features on.

    The loss over sparse data is the mixture of the classes,

    .. math:: L = \sum_k (1-S)^k S^{n-k} L_k, \qquad L_k = \sum_{|P| = k} \int_{[0,1]^P}
              \sum_i I_i\, (x_i - \mathrm{ReLU}((W W^\top x + b)_i))^2 \, dx.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row; entries up to 1e20. Not modified.
    b : float or (n_features,) array_like of float
        Bias of the outputs.
    k : int
        Number of features on, 0 <= k <= n_features and at most 14.
    importance : (n_features,) array_like of float, optional
        Weights I_i of the features' errors, at least 0; 1 by default.

    Returns
    -------
    float
        The expected squared error of all features together, summed over the C(n_features, k) patterns, with
        values uniform on [0, 1]. A total over features, as in the source. Accuracy and cost are those of
        `class_loss_per_feature`; rounding of W W' itself, of relative size 1e-16, comes on top.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    References
    ----------
    Elhage et al. (2022), the loss of the ReLU output model.

    Examples
    --------
    >>> W = [[1.0], [-1.0]]                       # two features, one dimension
    >>> [round(class_loss(W, 0.0, k), 12) for k in (0, 1, 2)]
    [0.0, 0.0, 0.333333333333]
    """
    W = checks.encodings(W)
    return class_loss_of_map(W @ W.T, b, k, importance)


def class_loss_gradient_of_map(
    M: ArrayLike, b: ArrayLike, k: int, importance: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Gradient of `class_loss_of_map` with respect to M and b, exact.

    Parameters and errors are those of `class_loss_per_feature` and `class_loss`; here k is at most 11.

    Returns
    -------
    by_M : (n, n) ndarray of float64
    by_b : (n,) ndarray of float64
        At 2 to 5 times the cost of the loss. The error of a pattern is below 1e-14 of |b_i| + sum_j |M_ij| +
        1, j over the features that are on. The loss is once continuously differentiable for k >= 1, unless a
        row of M vanishes on a pattern and its bias is 0: there they are the derivatives towards larger
        outputs.

    Examples
    --------
    >>> by_M, by_b = class_loss_gradient_of_map([[0.5]], -0.1, 1)
    >>> by_M.round(12), by_b.round(12)
    (array([[-0.42666667]]), array([-0.64]))
    """
    M, b = checks.square(M, b)
    weights = checks.importances(importance, b.size)
    return gradient_of_map(M, b, integer("k", k, 0, min(b.size, LARGEST_GRADIENT_CLASS)), weights)


def class_loss_gradient(
    W: ArrayLike, b: ArrayLike, k: int, importance: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Gradient of `class_loss` with respect to W and b, exact.

    Parameters and errors are those of `class_loss`; here k is at most 11.

    Returns
    -------
    by_W : (n_features, n_hidden) ndarray of float64
        (G + G') W, with G the gradient by M = W W' of `class_loss_gradient_of_map`.
    by_b : (n_features,) ndarray of float64

    Examples
    --------
    >>> by_W, by_b = class_loss_gradient([[1.0], [-1.0]], 0.0, 2)
    >>> by_W.round(12), by_b.round(12)
    (array([[-0.16666667],
           [ 0.16666667]]), array([-0.33333333, -0.33333333]))
    """
    W = checks.encodings(W)
    by_map, by_bias = class_loss_gradient_of_map(W @ W.T, b, k, importance)
    return (by_map + by_map.T) @ W, by_bias


# --- All classes -------------------------------------------------------------------------------------------


@result
class Mixture:
    """The loss over sparse data, class by class; all numbers are totals over features, as `class_loss` is.

    Attributes
    ----------
    total : float
        Sum over the classes 0, ..., K of p^k (1 - p)^(n-k) L_k. Divide by n for the loss per feature.
    left_out : float
        What the classes above K add at most; 0 if there are none. The true total lies in
        [total, total + left_out].
    classes : (K + 1,) ndarray of float64
        L_0, ..., L_K.
    terms : (K + 1,) ndarray of float64
        What each class adds to `total`.
    """

    total: float
    left_out: float
    classes: FloatArray
    terms: FloatArray


def mixture_loss_of_map(
    M: ArrayLike, b: ArrayLike, p: float, importance: ArrayLike | None = None, up_to: int | None = None
) -> Mixture:
    """Exact loss of any model ReLU(M x + b) over sparse data, as the mixture of its classes.

    Arguments, errors and accuracy are those of `mixture_loss`, `class_loss_per_feature` and `class_loss`.

    Examples
    --------
    >>> round(mixture_loss_of_map(np.zeros((3, 3)), 0.0, 0.3).total, 12)
    0.3
    """
    M, b = checks.square(M, b)
    n = b.size
    p = number("p", p, 0, 1, brackets="(]")
    weights = checks.importances(importance, n)
    last = _last(n, up_to, LARGEST_CLASS)
    classes = np.array([weights @ per_feature(M, b, k) for k in range(last + 1)])
    terms = class_weights(n, p, last) * classes
    left_out = float(weights @ dropped(M, b, p, last)) if last < n else 0.0
    return Mixture(float(terms.sum()), left_out, classes, terms)


def mixture_loss(
    W: ArrayLike, b: ArrayLike, p: float, importance: ArrayLike | None = None, up_to: int | None = None
) -> Mixture:
    r"""Exact loss of the model ReLU(W W' x + b) over sparse data, as the mixture of its classes.

    .. math:: L = \sum_{k=0}^n p^k (1-p)^{n-k} L_k
                = E \sum_i I_i\,(x_i - \mathrm{ReLU}((W W^\top x + b)_i))^2

    Arguments are those of `class_loss`, and:

    Parameters
    ----------
    p : float
        Probability that a feature is on, in (0, 1]; p = 1 - S. One number: a class weighs all patterns alike.
    up_to : int, optional
        The last class that is summed; all by default, for at most 14 features.

    Returns
    -------
    Mixture
        Accuracy of a class as for `class_loss`; `left_out` is `dropped_bound`.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    A model that minimises the sum up to class K has a full loss of at most that of any other model plus
    its own `left_out`. So the test for "ignore two-sparse inputs" is whether `left_out` of the model found is
    small against its loss. The probability of such inputs does not decide it.

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
    >>> first.total, round(first.left_out, 9)
    (0.0, 0.006666667)
    """
    W = checks.encodings(W)
    return mixture_loss_of_map(W @ W.T, b, p, importance, up_to)


def mixture_loss_gradient(
    W: ArrayLike, b: ArrayLike, p: float, importance: ArrayLike | None = None, up_to: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Gradient of `mixture_loss(...).total` with respect to W and b, exact.

    Arguments and errors are those of `mixture_loss` and `class_loss`; all classes are summed for at most 11
    features.

    Returns
    -------
    by_W : (n_features, n_hidden) ndarray of float64
    by_b : (n_features,) ndarray of float64

    Examples
    --------
    >>> by_W, by_b = mixture_loss_gradient([[1.0], [-1.0]], 0.0, 0.1)
    >>> by_b.round(12)                            # a negative bias would raise the loss
    array([-0.00333333, -0.00333333])
    """
    W = checks.encodings(W)
    M, b = checks.square(W @ W.T, b)
    n = b.size
    p = number("p", p, 0, 1, brackets="(]")
    weights = checks.importances(importance, n)
    last = _last(n, up_to, LARGEST_GRADIENT_CLASS)
    by_map, by_bias = np.zeros((n, n)), np.zeros(n)
    for k, weight in enumerate(class_weights(n, p, last)):
        of_map, of_bias = gradient_of_map(M, b, k, weights)
        by_map += weight * of_map
        by_bias += weight * of_bias
    return (by_map + by_map.T) @ W, by_bias
