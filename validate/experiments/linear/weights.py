"""Many linear autoencoders at once: inputs of given moments, losses, subspaces, what first weights say."""

import itertools

import numpy as np
import numpy.typing as npt

from ....theory import validation
from ....theory.linear import critical_hessian, spectrum
from ....theory.validation import FloatArray

__all__ = ["expected_losses", "first_modes", "largest_angles", "moment_points", "saddles", "subspace_left"]


def moment_points(covariance: npt.ArrayLike, mean: npt.ArrayLike | None = None) -> FloatArray:
    r"""Return inputs whose mean and covariance, as averages over them, are the given ones.

    The loss of a model that is affine depends on nothing else, so that training on these few inputs is
    training on the expected loss.

    Parameters
    ----------
    covariance : (n_features, n_features) array_like of float
        Symmetric, without negative eigenvalues.
    mean : (n_features,) array_like of float, optional
        0 by default: then the covariance is the second-moment matrix.

    Returns
    -------
    inputs : ndarray (2 n_features, n_features)
        The mean plus and minus :math:`\sqrt{n\lambda_i}\,u_i`.

    Raises
    ------
    ValueError
        If `covariance` is not symmetric or has a negative eigenvalue, or `mean` has another size.

    Examples
    --------
    >>> x = moment_points([[2.0, 1.0], [1.0, 2.0]], [1.0, 0.0])
    >>> x.shape, x.mean(axis=0).round(12) + 0.0
    ((4, 2), array([1., 0.]))
    >>> np.cov(x.T, bias=True).round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    found = spectrum(covariance)
    n = found.eigenvalues.size
    centre = np.zeros(n) if mean is None else validation.vector("mean", mean, n)
    axes = (found.eigenvectors * np.sqrt(n * found.eigenvalues)).T
    return np.concatenate((centre + axes, centre - axes))


def expected_losses(A: FloatArray, C: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return losses per feature of many models; A and C of shape (..., n_features, n_hidden)."""
    rest = np.eye(A.shape[-2]) - A @ np.swapaxes(C, -1, -2)
    return np.asarray(np.sum((rest @ covariance) * rest, axis=(-2, -1)) / A.shape[-2])


def largest_angles(weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return the largest angle in degrees between the spans of two matrices' columns; (..., n, d) each."""
    Q, V = np.linalg.qr(weights)[0], np.linalg.qr(directions)[0]
    sines = np.linalg.norm(V - Q @ (np.swapaxes(Q, -1, -2) @ V), 2, axis=(-2, -1))
    return np.asarray(np.degrees(np.arcsin(np.minimum(sines, 1.0))))


def first_modes(A: FloatArray, C: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return how large each eigen-direction begins, beyond what those before it have in common with it.

    In the eigenbasis each row of (A + C)/2 grows at its own rate. Once a row has grown, what later ones have
    along it dies out: what is left to grow is the residual of Gram and Schmidt.
    """
    rows = spectrum(covariance).eigenvectors.T @ (A + C) / 2
    triangles = np.linalg.qr(np.swapaxes(rows, -1, -2))[1]
    return np.asarray(np.abs(np.diagonal(triangles, axis1=-2, axis2=-1)))


def saddles(covariance: FloatArray, n_hidden: int) -> list[tuple[int, ...]]:
    """Return the index sets of all saddles, one for each choice of eigenvalues."""
    space = spectrum(covariance).space
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for size in range(n_hidden + 1):
        for kept in itertools.combinations(range(space.size), size):
            if not critical_hessian(covariance, kept, n_hidden).is_minimum:
                found.setdefault(tuple(space[list(kept)]), kept)
    return list(found.values())


def subspace_left(W: FloatArray, top: FloatArray) -> FloatArray:
    """Return the leading direction and the span that the weights leave beside it."""
    row = top @ W / np.linalg.norm(top @ W)
    others = (W - np.outer(top, top @ W)) @ (np.eye(row.size) - np.outer(row, row))
    return np.column_stack((top, np.linalg.svd(others)[0][:, : row.size - 1]))
