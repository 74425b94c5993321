"""Macroscopic statistics of the weights of trained models."""

import numpy as np
import numpy.typing as npt

from ...theory.validation import FloatArray, matrix, vector

__all__ = ["DROPPED", "weight_statistics"]

# A feature counts as dropped if its diagonal element is below this share of the model's largest one.
# Relative, because far below ratio = p every diagonal element is small, and nothing is dropped.
DROPPED = 0.1


def square_matrix(M: npt.ArrayLike) -> FloatArray:
    """Return a float copy of a square matrix of at least 2 rows; ValueError if M is not one."""
    checked = matrix("M", M).copy()
    if checked.shape[0] < 2 or checked.shape[1] != checked.shape[0]:
        raise ValueError(f"`M` must be square with at least 2 rows; got shape {checked.shape}.")
    return checked


def weight_statistics(M: npt.ArrayLike, b: npt.ArrayLike) -> dict[str, float]:
    """Return macroscopic statistics, by name, of the model ReLU(M x + b), M = W_out W_in.

    Parameters
    ----------
    M, b : (n_features, n_features), (n_features,) array_like of float
        Decoder times encoder, not modified, and bias.

    Returns
    -------
    dict of str to float
        ``diagonal_mean``, ``diagonal_sd``, ``bias_mean``, ``bias_sd``: of M_ii and b_i over the features.
        ``row_mean_mean``, ``row_mean_sd``: of the mean of the off-diagonal elements of a row, over rows.
        ``row_variance_mean``, ``row_variance_variance``: of the variance of the off-diagonal elements of a
        row, over rows; the second is the Δvar(ν) of Cowsik et al. (2024), Fig. 6, up to its scale.
        ``lyapunov_max``, ``lyapunov_mean``: of Λ_i = sum_j |M_ij|³ / (sum_j M_ij²)^{3/2}, j ≠ i, over rows;
        the first is their Eq. 3. Λ_i = n_features^{-1/2} (8/π)^{1/2} for Gaussian rows; a row without
        interference has Λ_i = 0 by our definition. ``dropped``: fraction of the features with |M_ii| below
        `DROPPED` times the largest |M_jj|. All standard deviations and variances divide by the number of
        items, not by one less.

    Examples
    --------
    >>> statistics = weight_statistics([[1.0, 0.5], [-0.5, 1.0]], [-0.1, -0.1])
    >>> statistics["diagonal_mean"], statistics["lyapunov_max"], statistics["dropped"]
    (1.0, 1.0, 0.0)
    """
    off = square_matrix(M)
    n, diagonal = len(off), off.diagonal().copy()
    b = vector("b", b, n)
    np.fill_diagonal(off, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        row_mean = off.sum(axis=1) / (n - 1)
        # The zero put on the diagonal adds row_mean² to the sum of squared deviations: take it out.
        row_variance = (((off - row_mean[:, None]) ** 2).sum(axis=1) - row_mean**2) / (n - 1)
        spread = (*(values.std() for values in (diagonal, b, row_mean)), row_variance.var())
    if not np.all(np.isfinite(spread)):
        largest = max(np.abs(M).max(), np.abs(b).max())
        raise ValueError(f"`M`, `b` must have finite variances; got entries up to {largest:.3g}.")
    np.abs(off, out=off)
    # Divide by the largest element first, so that tiny rows do not underflow in the cubes.
    largest = off.max(axis=1, keepdims=True)
    off /= np.where(largest > 0, largest, 1)
    squares = (off**2).sum(axis=1)
    lyapunov = (off**3).sum(axis=1) / np.where(squares > 0, squares, 1) ** 1.5
    size = np.abs(diagonal)
    return {
        "diagonal_mean": float(diagonal.mean()),
        "diagonal_sd": float(diagonal.std()),
        "bias_mean": float(b.mean()),
        "bias_sd": float(b.std()),
        "row_mean_mean": float(row_mean.mean()),
        "row_mean_sd": float(row_mean.std()),
        "row_variance_mean": float(row_variance.mean()),
        "row_variance_variance": float(row_variance.var()),
        "lyapunov_max": float(lyapunov.max()),
        "lyapunov_mean": float(lyapunov.mean()),
        "dropped": float(np.mean(size < DROPPED * size.max())),
    }
