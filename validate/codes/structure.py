"""What code a matrix of weights is: features left out, pairs, larger blocks, and a noise-like remainder."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse, stats
from scipy.sparse import csgraph

from ...theory import arguments
from ...theory.features import SparseUniform
from ..training.statistics import DROPPED

__all__ = ["Normality", "Structure", "normality", "structure"]

FloatArray = npt.NDArray[np.float64]

# Two features belong to one block if M_ij M_ji exceeds this share of M_ii M_jj: 1 for antipodal pairs, 1/4
# for triangles, and of order 1/n_features, with chance on top, for a rug.
COUPLED = 0.2
# A block explains a row if it holds this share of the squares beside the diagonal.
EXPLAINED = 0.8
# A row whose squares beside the diagonal are below this share of the diagonal's has no interference.
ALONE = 0.01
LARGEST_BLOCK = 8


@dataclass(frozen=True)
class Structure:
    """Shares of the features, which add up to 1, and how uneven the pairs are.

    Attributes
    ----------
    dropped : float
        Left out: diagonal below a tenth of the largest one.
    alone : float
        With a hidden dimension of their own.
    paired : float
        In blocks of two, such as antipodal pairs.
    blocked : float
        In blocks of 3 to 8.
    remainder : float
        All others: interference from many features, as in the rug.
    skew : float
        Median over the pairs of the larger of -M_ij, -M_ji; 1 where pairs are even, nan without pairs.
    labels : (n_features,) ndarray of str
        Which of the five each feature is.
    """

    dropped: float
    alone: float
    paired: float
    blocked: float
    remainder: float
    skew: float
    labels: npt.NDArray[np.str_]


def structure(M: npt.ArrayLike) -> Structure:
    """Identify the code of the model ReLU(M x + b) from M.

    Couplings M_ij M_ji / (M_ii M_jj) do not change if hidden space or the features are rescaled (M -> D M
    D^-1), unlike the entries themselves.

    Parameters
    ----------
    M : (n_features, n_features) array_like of float
        Decoder times encoder, at least 2 rows. Not modified.

    Returns
    -------
    Structure

    Raises
    ------
    ValueError
        If `M` is not a finite square matrix of at least two rows.

    Examples
    --------
    >>> M = np.diag([1.0, 1.0, 1.0, 0.0])
    >>> M[0, 1], M[1, 0] = -3.0, -0.33
    >>> found = structure(M)
    >>> found.paired, found.alone, found.dropped, found.skew
    (0.5, 0.25, 0.25, 3.0)
    """
    M = arguments.matrix("M", M)
    n = M.shape[0]
    if n < 2 or M.shape[1] != n:
        raise ValueError(f"`M` must be square with at least 2 rows; got shape {M.shape}.")
    diagonal = np.diagonal(M)
    size = np.abs(diagonal)
    kept = size >= DROPPED * size.max()
    squares = M**2
    np.fill_diagonal(squares, 0.0)
    total = squares.sum(axis=1)
    coupled = (COUPLED * np.outer(size, size) < M * M.T) & np.outer(kept, kept)
    np.fill_diagonal(coupled, False)
    _, block = csgraph.connected_components(sparse.csr_array(coupled), directed=False)
    members = np.bincount(block)[block]
    inside = (squares * (block[:, None] == block)).sum(axis=1)
    labels = np.full(n, "remainder", dtype="<U9")
    held = inside >= EXPLAINED * total
    labels[held & (members == 2)] = "paired"
    labels[held & (members > 2) & (members <= LARGEST_BLOCK)] = "blocked"
    labels[(members == 1) & (total < ALONE * diagonal**2)] = "alone"
    labels[~kept] = "dropped"
    pairs = coupled & (labels == "paired")[:, None]
    skew = float(np.median(np.maximum(-M, -M.T)[pairs])) if pairs.any() else np.nan
    names = ("dropped", "alone", "paired", "blocked", "remainder")
    return Structure(*(float(np.mean(labels == name)) for name in names), skew, labels)


@dataclass(frozen=True)
class Normality:
    """How far the interference of each output is from a normal law; arrays have shape (n_features,).

    Attributes
    ----------
    skewness, excess_kurtosis : ndarray of float64
        Exact, from the weights; 0 for a normal law. 0 for rows without interference.
    distance : ndarray of float64
        Largest difference of the distribution functions of the interference (sampled) and of the normal law
        of the same exact mean and variance.
    rejected : float
        Share of the rows for which the Kolmogorov-Smirnov test rejects the normal law; of truly normal rows
        it would reject any at all with probability `level`.
    level : float
    samples : int
    """

    skewness: FloatArray
    excess_kurtosis: FloatArray
    distance: FloatArray
    rejected: float
    level: float
    samples: int


def normality(
    M: npt.ArrayLike,
    p: float,
    *,
    samples: int = 4000,
    level: float = 0.01,
    rng: np.random.Generator | int = 0,
) -> Normality:
    r"""Test whether the interference :math:`\sum_{j \ne i} M_{ij} x_j` of each output is Gaussian.

    Parameters
    ----------
    M : (n_features, n_features) array_like of float
        Decoder times encoder. Not modified.
    p : float
        Probability that a feature is on, in (0, 1].
    samples : int, optional
        Inputs drawn.
    level : float, optional
        Probability of rejecting any row if all are normal (Bonferroni).
    rng : Generator or int, optional

    Returns
    -------
    Normality

    Raises
    ------
    ValueError
        If an argument has another shape or lies outside its range.

    Notes
    -----
    The test has a resolution: it sees distances above about 1.7/sqrt(samples). A trend of `excess_kurtosis`
    with n_features, which is exact, says more than a test passed.

    References
    ----------
    Cowsik et al. (2024), §3.2, whose Lyapunov ratio bounds the distance.

    Examples
    --------
    >>> pair = normality([[1.0, -1.0], [-1.0, 1.0]], 0.1)
    >>> pair.rejected, bool(pair.excess_kurtosis[0] > 10)
    (1.0, True)
    """
    M = arguments.matrix("M", M)
    n = M.shape[0]
    if n < 2 or M.shape[1] != n:
        raise ValueError(f"`M` must be square with at least 2 rows; got shape {M.shape}.")
    p = arguments.number("p", p, 0, 1, brackets="(]")
    samples = arguments.integer("samples", samples, 8)
    level = arguments.number("level", level, 0, 1, brackets="()")
    off = M.copy()
    np.fill_diagonal(off, 0.0)
    mean, variance = SparseUniform(p).mean, SparseUniform(p).variance
    raw = p / np.arange(2.0, 6.0)  # E x, E x^2, ...
    third = raw[2] - 3.0 * raw[1] * raw[0] + 2.0 * raw[0] ** 3
    fourth = (
        raw[3] - 4.0 * raw[2] * raw[0] + 6.0 * raw[1] * raw[0] ** 2 - 3.0 * raw[0] ** 4 - 3.0 * variance**2
    )
    squares = (off**2).sum(axis=1)
    loud = squares > 0.0
    spread = np.sqrt(variance * np.where(loud, squares, 1.0))
    x = np.random.default_rng(rng).random((n, samples))
    x = np.where(x < p, x / p, 0.0)
    z = np.sort((off @ x - mean * off.sum(axis=1)[:, None]) / spread[:, None], axis=1)
    law = stats.norm.cdf(z)
    step = np.arange(samples + 1) / samples
    distance = np.maximum((step[1:] - law).max(axis=1), (law - step[:-1]).max(axis=1))
    tests = stats.kstwo.sf(distance, samples) < level / n
    return Normality(
        skewness=third * (off**3).sum(axis=1) / spread**3,
        excess_kurtosis=fourth * (off**4).sum(axis=1) / spread**4,
        distance=distance,
        rejected=float(np.mean(tests)),
        level=level,
        samples=samples,
    )
