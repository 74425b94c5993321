"""The exact expected loss of any affine + ReLU model at finite size, without sampling."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...theory.arguments import integer, matrix, real, vector
from .few import few_on
from .output import many_on

__all__ = ["ExactLoss", "exact_loss", "row_loss"]

FloatArray = npt.NDArray[np.float64]

# The kernels form fourth powers of entries and of their inverses.
LARGEST = 1e50


@dataclass(frozen=True)
class ExactLoss:
    """The expected loss of a model and how far from the truth it may be.

    Attributes
    ----------
    loss : float
        Mean of `per_feature`.
    error_estimate : float
        Mean of `per_feature_error`: what `loss` is off by at most.
    per_feature : (n,) ndarray of float64
        Expected squared error of each output, E (x_i - ReLU((M x + b)_i))^2.
    per_feature_error : (n,) ndarray of float64
        What each of them is off by at most.
    """

    loss: float
    error_estimate: float
    per_feature: FloatArray
    per_feature_error: FloatArray


def _probability(p: float) -> float:
    if np.ndim(p) != 0:
        raise ValueError(f"`p` must be one number; got shape {np.shape(p)}.")
    return float(real("p", p, 0.0, 1.0, brackets="(]"))


def _solve(M: FloatArray, features: npt.NDArray[np.int64], b: FloatArray, p: float, tol: float) -> ExactLoss:
    if np.ndim(tol) != 0:
        raise ValueError(f"`tol` must be one number; got shape {np.shape(tol)}.")
    tol = float(real("tol", tol, 0.0, 1.0, brackets="()"))
    # p may be so small that its part underflows; the smallest normal number asks for all there is
    allowed = max(tol * p / 3.0, float(np.finfo(np.float64).tiny))
    # a read-only or strided array would compile the kernels anew
    M, b = np.require(M, np.float64, ["C", "W"]), np.require(b, np.float64, ["C", "W"])
    few, few_errors = few_on(M, features, b, p)
    many, many_errors = many_on(M, features, b, p, allowed)
    losses, errors = few + many, few_errors + many_errors
    return ExactLoss(float(losses.mean()), float(errors.mean()), losses, errors)


def exact_loss(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    p: float,
    *,
    tol: float = 1e-12,
    rows: npt.ArrayLike | None = None,
) -> ExactLoss:
    r"""Exact expected loss per feature of the model ReLU(M x + b), by integrating the law of M x + b.

    .. math:: L = \frac1n \sum_i E\,(x_i - \mathrm{ReLU}((M x + b)_i))^2,
              \qquad x_j = c_j u_j,\ c_j \sim \mathrm{Bernoulli}(p),\ u_j \sim U[0, 1].

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder, row i makes output i. Any real matrix with entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    p : float
        Probability that a feature is on, in (0, 1]; p = 1 - S for sparsity S.
    tol : float, optional
        Error estimate to aim at for each output, in units of p/3, the loss of an output that is always zero.
    rows : sequence of int, optional
        Outputs to restrict the loss to; all by default.

    Returns
    -------
    ExactLoss
        `loss` is the mean over the outputs asked for, in their order in `per_feature`.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    See Also
    --------
    row_loss : One output, from its row alone.

    Notes
    -----
    Exact up to the error estimate, which holds proven bounds for all that is cut off, and a
    model of rounding (a random walk over the factors, and a drift) that brute force in exact arithmetic
    has not broken. The estimate meets `tol` unless rounding forbids it. With random weights of a tied
    network it comes to 1e-12 of p/3 for n up to 128, 4e-12 for 512 and 1e-11 for a row of 4096. Rounding
    scales with the square of the range of the pre-activation; entries of 300 that cancel cost two
    digits. The law may have atoms (p near 0), edges (few features) and several scales (entries of 1 and
    1e-12).

    The cost is n^2 times the number of frequencies, at 0.7 ns each: a hundred where many features are on at
    once, up to some 1e4 where few are, and ten times fewer with tol = 1e-8. Rows are shared among Numba's
    threads; results do not depend on their number.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> result = exact_loss(pair, 0.0, 0.1)
    >>> round(result.loss, 12), result.error_estimate < 1e-14        # both on: E min(u, v)^2 = 1/6
    (0.001666666667, True)
    """
    p = _probability(p)
    M = real("M", matrix("M", M), -LARGEST, LARGEST)
    n = M.shape[1]
    if M.shape[0] != n:
        raise ValueError(f"`M` must be square; got shape {M.shape}.")
    b = real("b", vector("b", np.full(n, b) if np.ndim(b) == 0 else b, n), -LARGEST, LARGEST)
    if rows is None:
        return _solve(M, np.arange(n), b, p, tol)
    picked = np.array([integer("rows", row, 0, n - 1) for row in np.atleast_1d(np.asarray(rows))], np.int64)
    if picked.size == 0:
        raise ValueError("`rows` must not be empty; got shape (0,).")
    return _solve(M[picked], picked, b[picked], p, tol)


def row_loss(row: npt.ArrayLike, i: int, b: float, p: float, *, tol: float = 1e-12) -> ExactLoss:
    """Exact expected loss of one output, E (x_i - ReLU(row . x + b))^2.

    Where all outputs are alike, as in the Persian rug, one row gives the loss of a model whose matrix
    would not fit into memory.

    Parameters
    ----------
    row : (n,) array_like of float
        The output's weights; entries up to 1e50. Not modified.
    i : int
        The feature that the output is to reconstruct, 0 <= i < n.
    b : float
        Bias of the output.
    p : float
        Probability that a feature is on, in (0, 1].
    tol : float, optional
        As for `exact_loss`.

    Returns
    -------
    ExactLoss
        With vectors of size 1.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    Accuracy and cost are those of `exact_loss`, the cost being n times the number of frequencies.

    Examples
    --------
    >>> row = np.r_[0.5, np.full(4, 0.25)]
    >>> round(row_loss(row, 0, -0.1, 0.2).loss, 12)
    0.026922302302
    """
    p = _probability(p)
    row = real("row", vector("row", row), -LARGEST, LARGEST)
    feature = integer("i", i, 0, row.size - 1)
    if np.ndim(b) != 0:
        raise ValueError(f"`b` must be one number; got shape {np.shape(b)}.")
    bias = real("b", np.atleast_1d(np.asarray(b)), -LARGEST, LARGEST)
    return _solve(row[np.newaxis], np.array([feature]), bias, p, tol)
