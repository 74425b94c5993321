"""Statistics of the rows of decoder times encoder, and of the interference that they cause."""

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import SparseUniform
from ...theory.results import result
from ...theory.validation import Real
from .hadamard import RugMatrix, rug_matrix
from .optimum import Optimum, optimum

__all__ = ["RowStatistics", "drawn_rug", "row_statistics"]


@result
class RowStatistics:
    """Statistics over the entries of each row of M off its diagonal.

    Each field is a number for a `RugMatrix`, whose rows are all alike, and has shape (n_features,) for an
    array. The interference of output i is nu_i = sum over j != i of M_ij x_j / M_ii.
    """

    diagonal: Real
    """M_ii."""
    mean: Real
    """Mean of the n_features - 1 entries."""
    sum_of_squares: Real
    """Sum of m² over the entries m."""
    sum_of_absolute_cubes: Real
    """Sum of |m|³; `theory.rug.edgeworth_correction` needs the sum of m³ instead."""
    lyapunov_ratio: Real
    """sum_of_absolute_cubes / sum_of_squares^(3/2); Eq. 3 has the maximum over the rows."""
    interference_mean: Real
    """Mean of nu_i; the shape is that of `p`, followed by (n_features,) for an array M."""
    interference_variance: Real
    """Variance of nu_i, with the same shape as the mean."""


_LARGEST = 5e102  # of a row's length times its largest entry: the cube is a finite double


def row_statistics(M: RugMatrix | npt.ArrayLike, p: npt.ArrayLike) -> RowStatistics:
    r"""Return statistics of the rows of M and of their interference (Cowsik et al. 2024, Eqs. 3, 4 and 6).

    .. math:: E\nu_i = \frac p2 \sum_{j \ne i} \frac{M_{ij}}{M_{ii}}, \qquad
              \mathrm{Var}\,\nu_i = \frac{4p - 3p^2}{12} \sum_{j \ne i} \frac{M_{ij}^2}{M_{ii}^2}

    Parameters
    ----------
    M : RugMatrix or (n_features, n_features) array_like of float
        Decoder times encoder, any scale, n_features at least 2. Of a rug only row 0 is computed.
    p : array_like of float
        Probability that a feature is on, in (0, 1]; p = 1 - S for the sparsity S.

    Returns
    -------
    RowStatistics
        Relative rounding errors are a few 1e-16 times log2(n_features), except for sums that cancel. The
        Lyapunov ratio is nan for a row without interference. Mean and variance of the interference are
        infinite or nan where M_ii = 0.

    Raises
    ------
    ValueError
        If `M` is not square, has fewer than 2 rows or an entry that is not finite, or `p` is out of range.

    Examples
    --------
    >>> R = RugMatrix(1024, np.arange(1, 257))
    >>> rug = row_statistics(R, p=0.1)
    >>> print(rug.sum_of_squares, rug.interference_mean)           # n_features/n_hidden - 1, -p/2
    3.0 -0.05
    """
    p = validation.probability("p", p)
    if isinstance(M, RugMatrix):
        off = M._counts()  # whole numbers, so that the sums below are exact
        scale = float(M.rows.size)
        diagonal = off[0].copy()
        off[0] = 0.0
    else:
        off = validation.matrix("M", M).copy()
        if off.shape[0] != off.shape[1] or off.shape[0] < 2:
            raise ValueError(f"`M` must be square with at least 2 rows; got shape {off.shape}.")
        scale = 1.0
        diagonal = np.diagonal(off).copy()
        np.fill_diagonal(off, 0.0)
        p = p[..., np.newaxis]
    largest = np.abs(off).max()
    if not off.shape[-1] * largest < _LARGEST:
        raise ValueError(
            f"`M` must have rows whose cubes have a finite sum; got entries up to {largest:.3g}."
        )
    total = off.sum(axis=-1)
    np.abs(off, out=off)
    squares = np.square(off).sum(axis=-1)
    cubes = (np.square(off) * off).sum(axis=-1)
    features = SparseUniform(p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return RowStatistics(
            diagonal=diagonal / scale,
            mean=total / (off.shape[-1] - 1) / scale,
            sum_of_squares=squares / scale**2,
            sum_of_absolute_cubes=cubes / scale**3,
            lyapunov_ratio=cubes / squares**1.5,
            interference_mean=features.mean * (total / diagonal),
            interference_variance=features.variance * (squares / diagonal**2),
        )


def drawn_rug(
    p: float, n_features: int, n_hidden: int, rng: np.random.Generator
) -> tuple[Optimum, RugMatrix, float]:
    """Return (`optimum` at n_hidden/n_features, random `rug_matrix` R, b) of the model ReLU(a R x + b).

    The scale a is that of the optimum; b is its bias minus a times the mean interference of R. Features are
    on with probability p, and rng draws R.
    """
    best, matrix = optimum(p, n_hidden / n_features), rug_matrix(n_features, n_hidden, rng)
    return best, matrix, float(best.b - best.a * row_statistics(matrix, p).interference_mean)
