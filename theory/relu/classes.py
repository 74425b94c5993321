"""The ReLU output model's loss by sparsity class, exact, and its gradient."""

import numpy as np
import numpy.typing as npt

from ..arguments import FloatArray, integer, matrix, real, vector
from .cube import class_gradient, class_losses

__all__ = [
    "class_loss",
    "class_loss_gradient",
    "class_loss_gradient_of_map",
    "class_loss_of_map",
    "class_loss_per_feature",
]

# A class needs a table of the 3^k faces of the cube; at 14 it takes 115 MB, at 11 with its gradient 37 MB.
LARGEST_CLASS = 14
LARGEST_GRADIENT_CLASS = 11
# The kernels form squares of sums of entries.
LARGEST_ENTRY = 1e50
LARGEST_WEIGHT = 1e20


def checked_map(M: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return a square matrix and its biases as the kernels want them."""
    M = real("M", matrix("M", M), -LARGEST_ENTRY, LARGEST_ENTRY)
    if M.shape[0] != M.shape[1]:
        raise ValueError(f"`M` must be square; got shape {M.shape}.")
    return _contiguous(M), checked_bias(b, M.shape[0])


def checked_bias(b: npt.ArrayLike, n: int) -> FloatArray:
    """Return the biases of n outputs; one number serves all."""
    b = vector("b", np.full(n, b) if np.ndim(b) == 0 else b, n)
    return _contiguous(real("b", b, -LARGEST_ENTRY, LARGEST_ENTRY))


def checked_weights(W: npt.ArrayLike) -> FloatArray:
    """Return the encodings, small enough for their overlaps."""
    return real("W", matrix("W", W), -LARGEST_WEIGHT, LARGEST_WEIGHT)


def checked_importance(importance: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return the importance of n features, 1 by default."""
    if importance is None:
        return np.ones(n)
    return real("importance", vector("importance", importance, n), 0, LARGEST_ENTRY)


def _contiguous(array: FloatArray) -> FloatArray:
    # a read-only or strided array would compile the kernels anew
    return np.require(array, np.float64, ["C", "W"])


def per_feature(M: FloatArray, b: FloatArray, k: int) -> FloatArray:
    """Return the losses of all outputs, for arguments that are checked."""
    return np.maximum(b, 0.0) ** 2 if k == 0 else class_losses(M, b, k)


def class_loss_per_feature(M: npt.ArrayLike, b: npt.ArrayLike, k: int) -> FloatArray:
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

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    See Also
    --------
    superposition.solvers.rug.exact_loss : The loss of all classes together, by another method.

    Notes
    -----
    Over the cube, ReLU(b + g.u)^q integrates to a sum over vertices v,

    .. math:: E\,(b + g\cdot u)_+^q = \frac{q!}{(q+k)!\,\prod_j g_j}
              \sum_{v \in \{0,1\}^k} (-1)^{k-|v|} (b + g\cdot v)_+^{q+k},

    which loses all digits where weights are small. It is evaluated by a recursion over the faces of the cube
    instead that has positive terms only and divides by no weight. The error of a pattern is below 1e-14 of
    (\|b_i\| + sum_j \|M_ij\|)^2 + 1, with j over the features that are on (measured: 6e-16, over weights
    spread on 18 decades, k up to 6); patterns are added with compensation.

    An output costs about C(n, k) 4 2^k steps of 50 ns. Patterns whose pre-activation has one sign cost k.

    References
    ----------
    Elhage et al. (2022), L_k of the expansion by sparsity; the closed form is derived in the module `derive`.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> [class_loss_per_feature(pair, 0.0, k).round(12) for k in (0, 1, 2)]
    [array([0., 0.]), array([0., 0.]), array([0.16666667, 0.16666667])]
    """
    M, b = checked_map(M, b)
    return per_feature(M, b, checked_class(k, M.shape[0], LARGEST_CLASS))


def checked_class(k: int, n: int, largest: int, name: str = "k") -> int:
    """Return k, a class of n features for which the table of faces fits into memory."""
    return integer(name, k, 0, min(n, largest))


def class_loss_of_map(
    M: npt.ArrayLike, b: npt.ArrayLike, k: int, importance: npt.ArrayLike | None = None
) -> float:
    """Exact loss L_k of the model ReLU(M x + b) on inputs with exactly k features on.

    Parameters
    ----------
    M : (n, n) array_like of float
        Row i makes output i. Any real matrix with entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    k : int
        Number of features on, 0 <= k <= n and at most 14.
    importance : (n,) array_like of float, optional
        Weights of the features' errors, at least 0; 1 by default.

    Returns
    -------
    float
        The sum of `class_loss_per_feature`, weighted.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    Accuracy and cost are those of `class_loss_per_feature`.

    Examples
    --------
    >>> class_loss_of_map([[0.0]], 0.0, 1)
    0.3333333333333333
    """
    M, b = checked_map(M, b)
    weights = checked_importance(importance, M.shape[0])
    return float(weights @ per_feature(M, b, checked_class(k, M.shape[0], LARGEST_CLASS)))


def class_loss(W: npt.ArrayLike, b: npt.ArrayLike, k: int, importance: npt.ArrayLike | None = None) -> float:
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
        values uniform on [0, 1].

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    See Also
    --------
    mixture_loss : All classes together.
    class_loss_of_map : Models that are not tied.

    Notes
    -----
    Accuracy and cost are those of `class_loss_per_feature`; rounding of W W' itself, of relative size 1e-16,
    comes on top.

    References
    ----------
    Elhage et al. (2022), the loss of the ReLU output model.

    Examples
    --------
    >>> W = [[1.0], [-1.0]]                       # two features, one dimension
    >>> [round(class_loss(W, 0.0, k), 12) for k in (0, 1, 2)]
    [0.0, 0.0, 0.333333333333]
    """
    W = checked_weights(W)
    return class_loss_of_map(W @ W.T, b, k, importance)


def gradient_of_map(
    M: FloatArray, b: FloatArray, k: int, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives by M and b, for arguments that are checked."""
    if k == 0:
        return np.zeros_like(M), 2.0 * weights * np.maximum(b, 0.0)
    by_map, by_bias = class_gradient(M, b, k)
    return weights[:, np.newaxis] * by_map, weights * by_bias


def class_loss_gradient_of_map(
    M: npt.ArrayLike, b: npt.ArrayLike, k: int, importance: npt.ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Gradient of `class_loss_of_map` with respect to M and b, exact.

    Parameters
    ----------
    M, b, k, importance
        As for `class_loss_of_map`; here k is at most 11.

    Returns
    -------
    by_M : (n, n) ndarray of float64
    by_b : (n,) ndarray of float64

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    By the same recursion as the loss. The error of a pattern is below 1e-14 of |b_i| + sum_j |M_ij| + 1, j
    over the features that are on (measured: 5e-16). The loss is once continuously differentiable for k >= 1,
    unless a row of M vanishes on a pattern and the bias is 0: there the derivatives are those towards
    larger outputs.
    It costs 2 to 5 times the loss.

    Examples
    --------
    >>> by_M, by_b = class_loss_gradient_of_map([[0.5]], -0.1, 1)
    >>> by_M.round(12), by_b.round(12)
    (array([[-0.42666667]]), array([-0.64]))
    """
    M, b = checked_map(M, b)
    weights = checked_importance(importance, M.shape[0])
    return gradient_of_map(M, b, checked_class(k, M.shape[0], LARGEST_GRADIENT_CLASS), weights)


def class_loss_gradient(
    W: npt.ArrayLike, b: npt.ArrayLike, k: int, importance: npt.ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Gradient of `class_loss` with respect to W and b, exact.

    Parameters
    ----------
    W, b, k, importance
        As for `class_loss`; here k is at most 11.

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
    With G the gradient by M = W W' it is (G + G') W. Accuracy and cost are those of
    `class_loss_gradient_of_map`.

    Examples
    --------
    >>> by_W, by_b = class_loss_gradient([[1.0], [-1.0]], 0.0, 2)
    >>> by_W.round(12), by_b.round(12)
    (array([[-0.16666667],
           [ 0.16666667]]), array([-0.33333333, -0.33333333]))
    """
    W = checked_weights(W)
    by_map, by_bias = class_loss_gradient_of_map(W @ W.T, b, k, importance)
    return (by_map + by_map.T) @ W, by_bias
