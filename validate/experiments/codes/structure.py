"""The code of a weight matrix: features left out, pairs, larger blocks, and a noise-like remainder."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from ....theory import validation
from ....theory.features import SparseUniform
from ....theory.results import result
from ....theory.validation import FloatArray
from ...training.weights import DROPPED, square_matrix

__all__ = ["CodeStructure", "code_structure", "interference_kurtosis"]

SHARES = ("alone", "paired", "blocked", "remainder", "dropped")

# Two features belong to one block if M_ij M_ji exceeds this share of M_ii M_jj: 1 for antipodal pairs, 1/4
# for triangles, and of order 1/n_features, with chance on top, for a rug.
COUPLED = 0.2

# A block explains a row if it holds this share of the squares beside the diagonal.
EXPLAINED = 0.8

# A row whose squares beside the diagonal are below this share of the diagonal's has no interference.
ALONE = 0.01

LARGEST_BLOCK = 8


@result
class CodeStructure:
    """Shares of the features, which add up to 1, and how uneven the pairs are.

    Attributes
    ----------
    alone, paired, blocked : float
        Features with a hidden dimension of their own; in blocks of two such as antipodal pairs; in blocks of
        3 to 8.
    remainder, dropped : float
        Features with interference from many others, as in the rug; left out: diagonal below a tenth of the
        largest.
    skew : float
        Median over the pairs of the larger of -M_ij, -M_ji; 1 where pairs are even, nan without pairs.
    labels : (n_features,) ndarray of str
        Which of the five each feature is.
    """

    alone: float
    paired: float
    blocked: float
    remainder: float
    dropped: float
    skew: float
    labels: npt.NDArray[np.str_]


def code_structure(M: npt.ArrayLike) -> CodeStructure:
    """Return which features of the model ReLU(M x + b) are alone, in pairs, in blocks or dropped, by M.

    Features are grouped by the couplings M_ij M_ji / (M_ii M_jj). Unlike the entries of M, these do not
    change if hidden space or the features are rescaled (M -> D M D^-1).

    Parameters
    ----------
    M : (n_features, n_features) array_like of float
        Decoder times encoder, at least 2 rows. Not modified.

    Returns
    -------
    CodeStructure

    Examples
    --------
    >>> M = np.diag([1.0, 1.0, 1.0, 0.0])
    >>> M[0, 1], M[1, 0] = -3.0, -0.33
    >>> code = code_structure(M)
    >>> code.paired, code.alone, code.dropped, code.skew
    (0.5, 0.25, 0.25, 3.0)
    """
    M = square_matrix(M)
    power = np.frexp(np.abs(M).max())[1]
    M = np.asarray(np.ldexp(M, -power))  # exact, and no square overflows
    diagonal = np.diagonal(M)
    size = np.abs(diagonal)
    has_diagonal = size >= DROPPED * size.max()
    squares = M**2
    np.fill_diagonal(squares, 0.0)
    total = squares.sum(axis=1)
    coupled = (COUPLED * np.outer(size, size) < M * M.T) & np.outer(has_diagonal, has_diagonal)
    np.fill_diagonal(coupled, False)
    graph: Any = sparse.csr_array(coupled)  # its stubs know no graph of booleans
    _, block = csgraph.connected_components(graph, directed=False)
    members = np.bincount(block)[block]
    within_block = (squares * (block[:, None] == block)).sum(axis=1)
    labels = np.full(len(M), "remainder", dtype="<U9")
    is_explained = within_block >= EXPLAINED * total
    labels[is_explained & (members == 2)] = "paired"
    labels[is_explained & (members > 2) & (members <= LARGEST_BLOCK)] = "blocked"
    labels[(members == 1) & (total < ALONE * diagonal**2)] = "alone"
    labels[~has_diagonal] = "dropped"
    pairs = coupled & (labels == "paired")[:, None]
    skew = float(np.ldexp(np.median(np.maximum(-M, -M.T)[pairs]), power)) if pairs.any() else np.nan
    shares = {name: float(np.mean(labels == name)) for name in SHARES}
    return CodeStructure(**shares, skew=skew, labels=labels)


@validation.finite
def interference_kurtosis(M: npt.ArrayLike, p: float) -> FloatArray:
    r"""Return the excess kurtosis of the interference :math:`\sum_{j \ne i} M_{ij} x_j` of each output.

    Exact; 0 for a normal law, and for rows without interference. Features x_j are independent, and uniform on
    [0, 1] where they are on.

    Parameters
    ----------
    M, p : (n_features, n_features) array_like of float, float
        Decoder times encoder; probability that a feature is on, in (0, 1].

    Returns
    -------
    (n_features,) ndarray

    Examples
    --------
    >>> interference_kurtosis([[1.0, -1.0], [-1.0, 1.0]], 1.0).round(12)  # of a uniform variable
    array([-1.2, -1.2])
    """
    off_diagonal = square_matrix(M)
    np.fill_diagonal(off_diagonal, 0.0)
    p = validation.number("p", p, 0, 1, brackets="(]")
    m1, m2, m3, m4 = p / np.arange(2.0, 6.0)
    variance = SparseUniform(p).variance
    fourth = m4 - 4.0 * m3 * m1 + 6.0 * m2 * m1**2 - 3.0 * m1**4 - 3.0 * variance**2
    squares = (off_diagonal**2).sum(axis=1)
    nonzero_squares = np.where(squares > 0.0, squares, 1.0)
    return np.asarray(fourth * (off_diagonal**4).sum(axis=1) / (variance * nonzero_squares) ** 2)


# Columns of tables, as formats.
CASE_COLUMNS = {"p": "{p:g}", "ratio": "{ratio:g}"}

SHARE_COLUMNS = {name: f"{{{name}:.0%}}" for name in SHARES}


def code_shares(M: FloatArray) -> dict[str, float]:
    """Return by name the shares of features that are "alone", "paired", "blocked", "remainder" or "dropped".

    M is decoder times encoder. "alone": with a hidden dimension of its own; "paired": shares one with another
    feature; "blocked": in a block of 3 to 8; "remainder": with interference from many others; "dropped": M_ii
    is below a tenth of the largest. A sixth entry, "skew", is the median over pairs of the larger of -M_ij
    and -M_ji (1 if even).
    """
    structure = code_structure(M)
    return {name: getattr(structure, name) for name in (*SHARES, "skew")}
