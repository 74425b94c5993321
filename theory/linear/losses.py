"""Losses of linear models at any weights, with importance, and the optimum of the weighted loss."""

import numpy as np
import numpy.typing as npt

from ..features import SparseUniform
from ..loss.checks import importances
from ..results import result
from ..validation import FloatArray, choice, finite, integer, number
from .spectrum import Covariance, checked_weights, covariance_matrix, sized_spectrum, spectrum

__all__ = ["WeightedOptimum", "reconstruction_loss", "sparse_loss", "weighted_optimum"]


@finite
def reconstruction_loss(
    A: npt.ArrayLike, B: npt.ArrayLike, covariance: Covariance, importance: npt.ArrayLike | None = None
) -> float:
    r"""Loss per feature of the linear model x -> A B x (Notes 2022, section 1), with importance.

    :math:`\frac1n \sum_i I_i\, E(x_i - (ABx)_i)^2 = \frac1n\,\mathrm{tr}\,D(1-AB)\Sigma(1-AB)'` with
    :math:`D = \mathrm{diag}(I)`. For tied weights pass A = W, B = W.T.

    Parameters
    ----------
    A, B : (n_features, n_hidden) and (n_hidden, n_features) array_like of float
        Decoder and encoder, entries up to 1e50.
    covariance : (n_features, n_features) array_like of float
        :math:`\Sigma = E\,xx'`, symmetric, without negative eigenvalues, entries up to 1e50.
    importance : (n_features,) array_like of float, optional
        From 0 to 1e50; 1 by default.

    Returns
    -------
    float
        Computed as a sum of squares. For weights of order 1 the absolute error is about n_features roundings
        of :math:`\mathrm{tr}\,\Sigma`/n_features, and far less near a perfect reconstruction.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or `covariance` is not symmetric or has negative
        eigenvalues.

    Examples
    --------
    >>> reconstruction_loss([[1.0], [0.0]], [[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]])
    0.5
    """
    A = checked_weights("A", A)
    n, hidden = A.shape
    B = checked_weights("B", B, (hidden, n))
    modes = sized_spectrum(covariance, n)
    weights = importances(importance, n)
    error = modes.eigenvectors - A @ (B @ modes.eigenvectors)  # (1 - AB) U
    return float(np.sum(weights[:, None] * error**2 * modes.eigenvalues) / n)


def sparse_loss(
    W: npt.ArrayLike, p: float, importance: npt.ArrayLike | None = None, bias: str = "best"
) -> float:
    r"""Exact loss per feature of the tied linear model on sparse uniform inputs.

    The model W W' x + b has :math:`L = \mathrm{Var}(x)\, F(W)` at its best bias, with the feature benefit and
    the interference of Elhage et al. (2022),

    .. math:: F(W) = \frac1n\Big[\sum_i I_i(1-|W_i|^2)^2 + \sum_{i\ne j} I_j(W_j\cdot W_i)^2\Big] ,

    which is the loss for any uncorrelated centred inputs of variance 1. Without bias the loss has a second
    term :math:`(E x)^2\, \frac1n \sum_i I_i\big(1 - \sum_j W_i\cdot W_j\big)^2`, because :math:`E x_i x_j \ne
    0`; Elhage et al. leave it out. `importance` are the weights I_i of the features' errors, 1 by default.
    Errors are those of `reconstruction_loss`.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, row i is feature i; entries up to 1e50.
    p : float
        Probability that a feature is on, 1 - S, in (0, 1].
    bias : {"best", "none"}, optional
        Whether the model has an output bias, at its optimum.

    Returns
    -------
    float
        Absolute error a few roundings of the mean of :math:`I_i(1 + |W_i|^2 + |W W_i|^2)`, times the variance
        (p/3 - p^2/4), and the like for the second term.

    Examples
    --------
    >>> W = [[1.0], [0.0]]
    >>> round(sparse_loss(W, 1.0) * 24, 12), round(sparse_loss(W, 1.0, bias="none") * 24, 12)
    (1.0, 4.0)
    """
    x = SparseUniform(number("p", p, 0, 1, brackets="(]"))
    W = checked_weights("W", W)
    weights = importances(importance, W.shape[0])
    square = np.einsum("ik,ik->i", W, W)
    interference = np.einsum("ik,jk,jl,il->i", W, W, W, W, optimize=True) - square**2
    forms = weights * ((1 - square) ** 2 + np.maximum(interference, 0.0))
    centred = float(x.variance) * float(np.mean(forms))
    if choice("bias", bias, ("best", "none")) == "best":
        return centred
    shift = 1 - W @ W.sum(axis=0)
    return centred + float(x.mean) ** 2 * float(np.mean(weights * shift**2))


@result
class WeightedOptimum:
    """Optimum of the importance-weighted linear loss; see :func:`weighted_optimum`."""

    loss: float
    """Least loss per feature of any linear model with n_hidden neurons."""
    dedicated: float
    """Least loss per feature if all but the best n_hidden features are dropped."""
    A: FloatArray
    """Optimal decoder, shape (n_features, n_hidden)."""
    B: FloatArray
    """Optimal encoder, shape (n_hidden, n_features)."""
    tied: bool
    """Whether A B is symmetric to rounding; then W W' = A B and tied weights reach the same loss."""

    @property
    def gain(self) -> float:
        """Loss per feature of dropping all but n_hidden features, minus `loss`; 0 for uncorrelated data."""
        return max(self.dedicated - self.loss, 0.0)


def weighted_optimum(covariance: Covariance, importance: npt.ArrayLike, n_hidden: int) -> WeightedOptimum:
    r"""Best linear model for an importance-weighted loss: weighted PCA.

    :math:`\mathrm{tr}\,D(1-M)\Sigma(1-M)'` is least, among all M of rank n_hidden, for :math:`M = D^{-1/2} P
    D^{1/2}` with P the projection on the leading eigenvectors of :math:`D^{1/2}\Sigma D^{1/2}` (Eckart and
    Young, Psychometrika 1 (1936) 211). The loss is the sum of all other eigenvalues. Representing more
    features than dimensions lowers the loss only for correlated inputs, such as sparse ones in a model
    without bias (Elhage et al. 2022, linear model, footnote 12). `covariance` is :math:`\Sigma = E\,xx'`, or
    the covariance for a model with bias, and `importance` the diagonal of D, the weights of the features'
    errors. Errors are those of `reconstruction_loss`.

    Parameters
    ----------
    n_hidden : int
        Hidden neurons, from 1 to n_features.

    Returns
    -------
    WeightedOptimum
        Features of importance 0 get zero rows in A. Absolute error of both losses: about n_features roundings
        of the largest eigenvalue of the weighted matrix. If `tied` is false, `loss` is a lower bound for tied
        weights.

    Examples
    --------
    >>> best = weighted_optimum([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5], 1)
    >>> round(best.loss, 12), best.gain, best.tied
    (0.25, 0.0, True)
    """
    sigma = covariance_matrix(covariance)
    n = sigma.shape[0]
    sized_spectrum(sigma)  # checks it
    weights = importances(importance, n)
    hidden = integer("n_hidden", n_hidden, 1, n)
    root = np.sqrt(weights)
    modes = spectrum(root[:, None] * sigma * root)
    U = modes.eigenvectors[:, :hidden]
    A = np.divide(U, root[:, None], out=np.zeros_like(U), where=root[:, None] > 0)
    B = U.T * root
    product = A @ B
    variances = np.sort(weights * np.diag(sigma))
    return WeightedOptimum(
        loss=float(np.sum(modes.eigenvalues[hidden:] / n)),
        dedicated=float(np.sum(variances[: n - hidden] / n)),
        A=A,
        B=B,
        tied=bool(np.allclose(product, product.T, rtol=0.0, atol=1e-10)),
    )
