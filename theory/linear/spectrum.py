"""Eigenvalues of a second-moment matrix, sorted, with equal ones recognised as one eigenspace."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ..features import Features
from ..results import result
from ..validation import FloatArray, integer, matrix, number, real

__all__ = [
    "LARGEST", "Covariance", "Spectrum", "checked_indices", "checked_spectrum", "checked_weights",
    "covariance_matrix", "sized_spectrum", "spectrum",
]  # fmt: skip

Covariance = npt.ArrayLike | Features
"""A second-moment matrix, or the law of the features for its covariance."""

_EPS = float(np.finfo(np.float64).eps)
# Eigenvalues of a symmetric float64 matrix are wrong by about n_features roundings of the largest one.
_ROUNDINGS = 8
# Twice an eigenvalue must stay finite.
_LARGEST = 1e300
# Fourth powers of weights times eigenvalues must stay finite.
LARGEST = 1e50
# What rounding leaves of equal eigenvalues; see `spectrum`.
EQUAL = 1e-12


@result
class Spectrum:
    """Eigenvalues and eigenvectors of a covariance; see :func:`spectrum`."""

    eigenvalues: FloatArray
    """Largest first, shape (n_features,), none negative."""
    eigenvectors: FloatArray
    """Orthonormal columns in the same order, shape (n_features, n_features)."""
    space: npt.NDArray[np.int64]
    """Index of the eigenspace, from 0, of each eigenvalue, shape (n_features,)."""

    @property
    def multiplicities(self) -> npt.NDArray[np.int64]:
        """Dimension of each eigenspace; the eigenspace of the largest eigenvalue comes first."""
        return np.bincount(self.space)


def spectrum(covariance: Covariance, rtol: float = EQUAL) -> Spectrum:
    r"""Eigenvalues, largest first, eigenvectors and eigenspaces of a covariance.

    Pass the matrix :math:`\Sigma = E\,xx'`, or the covariance for models with bias. Index 0 is the largest
    eigenvalue everywhere in this package; Eq. 8 of the Notes (2022) counts from 1.

    Parameters
    ----------
    covariance : (n_features, n_features) array_like of float, or Features
        Symmetric, without negative eigenvalues, entries up to 1e300. A law of the features stands for its
        covariance, on which the loss with the best bias depends.
    rtol : float, optional
        Neighbours in the sorted list that differ by at most `rtol` times the largest eigenvalue count as
        equal, in [0, 1).

    Returns
    -------
    Spectrum
        Absolute error of an eigenvalue about n_features roundings of the largest; negative ones within that
        are returned as 0. The error of an eigenvector grows as the distance of its eigenvalue from the others
        shrinks; the basis of an eigenspace is arbitrary.

    Raises
    ------
    ValueError
        If `covariance` is, beyond 8 n_features roundings, not symmetric or has negative eigenvalues, or
        `rtol` is outside [0, 1).

    Examples
    --------
    >>> from superposition.theory.features import SparseUniform
    >>> found = spectrum(SparseUniform(0.5).second_moment_matrix(4))
    >>> found.eigenvalues.round(6), found.multiplicities      # sparse data are degenerate in expectation
    (array([0.354167, 0.104167, 0.104167, 0.104167]), array([1, 3]))
    """
    sigma = covariance_matrix(covariance)
    rtol = number("rtol", rtol, 0.0, 1.0, brackets="[)")
    n = sigma.shape[0]
    if sigma.shape[1] != n:
        raise ValueError(f"`covariance` must be square; got shape {sigma.shape}.")
    size = float(np.max(np.abs(sigma)))
    gap = np.abs(sigma - sigma.T)
    if np.max(gap) > _ROUNDINGS * n * _EPS * size:
        i, j = (int(k) for k in np.unravel_index(np.argmax(gap), gap.shape))
        raise ValueError(
            f"`covariance` must be symmetric; got {sigma[i, j]:g} at ({i}, {j}) and {sigma[j, i]:g} at "
            f"({j}, {i})."
        )
    values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    if values[-1] < -_ROUNDINGS * n * _EPS * values[0]:
        raise ValueError(
            f"`covariance` must not have negative eigenvalues; got {values[-1]:g} beside the largest, "
            f"{values[0]:g}."
        )
    values = np.maximum(values, 0.0)
    is_gap = -np.diff(values) > rtol * values[0]
    space = np.concatenate(([0], np.cumsum(is_gap))).astype(np.int64)
    return Spectrum(np.ascontiguousarray(values), np.ascontiguousarray(vectors), space)


def covariance_matrix(
    covariance: Covariance, n_features: int | None = None, largest: float = _LARGEST
) -> FloatArray:
    """Return a covariance matrix as an array, or the covariance of a law of the features.

    A ValueError is raised unless its size is n_features, if given, and its entries are at most `largest` in
    absolute value.
    """
    if isinstance(covariance, Features):
        covariance = covariance.covariance()
    return real("covariance", matrix("covariance", covariance, (n_features, n_features)), -largest, largest)


def sized_spectrum(covariance: Covariance, n_features: int | None = None) -> Spectrum:
    """Return the `Spectrum` of a covariance, of n_features if given; ValueError for entries beyond 1e50."""
    return spectrum(covariance_matrix(covariance, n_features, LARGEST))


def checked_spectrum(covariance: Covariance, rtol: float = EQUAL, n_features: int | None = None) -> Spectrum:
    """Return the `Spectrum` of a covariance; raise a ValueError if it is singular to rounding.

    Eigenvalues that differ by at most `rtol` times the largest count as equal. If `n_features` is given, the
    covariance must have this size.
    """
    modes = spectrum(covariance_matrix(covariance, n_features), rtol)
    values = modes.eigenvalues
    if values[-1] <= _ROUNDINGS * values.size * _EPS * values[0]:
        raise ValueError(
            f"`covariance` must be invertible; got smallest eigenvalue {values[-1]:.3g} beside the largest, "
            f"{values[0]:.3g}."
        )
    return modes


def checked_weights(
    name: str, W: npt.ArrayLike, shape: tuple[int | None, int | None] = (None, None)
) -> FloatArray:
    """Return a matrix of weights as an array; raise a ValueError for a wrong shape or entries beyond 1e50."""
    return real(name, matrix(name, W, shape), -LARGEST, LARGEST)


def checked_indices(indices: Iterable[int], n_features: int) -> npt.NDArray[np.int64]:
    """Return the indices sorted; ValueError if one is no integer from 0 to n_features - 1, or repeated."""
    if not isinstance(indices, Iterable) or isinstance(indices, Mapping):
        raise ValueError(f"`indices` must be a sequence of integers; got {indices!r}.")
    listed = np.array(sorted(integer("indices", i, 0, n_features - 1) for i in indices), dtype=np.int64)
    repeated = listed[:-1][np.diff(listed) == 0]
    if repeated.size:
        raise ValueError(f"`indices` must not repeat; got {repeated[0]} twice.")
    return listed
