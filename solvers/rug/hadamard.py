"""The fast Walsh-Hadamard transform, the Persian rug as an operator, random projectors beside it.

The rug is R = (1/n_hidden) H_S' H_S, where H_S holds n_hidden rows of the Hadamard matrix, whose entries are
H_ij = (-1)^popcount(i AND j). (Cowsik et al. (2024), section 4.2.2, print XOR, which would have rank one.)
R_ij depends on i XOR j alone: every row is a permutation of row 0, and one transform gives its eigenvalues.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from ...theory import validation
from ...theory.compile.kernels import check_interrupt, inner, kernel, non_literal
from ...theory.results import frozen
from ...theory.validation import FloatArray

__all__ = ["RugMatrix", "random_projector", "rug_matrix", "walsh_hadamard"]

Seed = np.random.Generator | int | None

# 4096 float64 fill 32 KiB, which an L1 cache holds: of the blocks from 2^9 to 2^17 this one was the fastest.
_BLOCK = 4096


@inner
def _butterflies(y: FloatArray, start: int, stop: int, half: int) -> None:
    """Apply the last stages of a Walsh-Hadamard transform to y[start:stop], whose length is a power of two.

    A stage replaces pairs (a, b) by (a + b, a - b). In the stages applied a and b are `half`, 2 `half`,
    4 `half`, ... apart, up to half of the length.
    """
    while 4 * half <= stop - start:
        check_interrupt(half > _BLOCK)
        for first in range(start, stop, 4 * half):
            for j in range(first, first + half):
                a, b, c, d = y[j], y[j + half], y[j + 2 * half], y[j + 3 * half]
                y[j] = (a + b) + (c + d)
                y[j + half] = (a - b) + (c - d)
                y[j + 2 * half] = (a + b) - (c + d)
                y[j + 3 * half] = (a - b) - (c - d)
        half *= 4
    if 2 * half <= stop - start:
        for first in range(start, stop, 2 * half):
            for j in range(first, first + half):
                a, b = y[j], y[j + half]
                y[j] = a + b
                y[j + half] = a - b


@kernel
def _transform_rows(x: FloatArray) -> None:
    """Replace each row of a C-contiguous (batch, n) array by its Walsh-Hadamard transform."""
    n = x.shape[1]
    block = min(_BLOCK, n)
    for row in range(x.shape[0]):
        for start in range(0, n, block):
            check_interrupt(start % (256 * block) == 0)
            _butterflies(x[row], start, start + block, non_literal(1))
        _butterflies(x[row], non_literal(0), n, block)


@validation.finite
def walsh_hadamard(x: npt.ArrayLike, axis: int = -1) -> FloatArray:
    r"""Return the Walsh-Hadamard transform, unnormalised, in natural (Sylvester) order.

    .. math:: y_i = \sum_j H_{ij} x_j, \qquad H_{ij} = (-1)^{\mathrm{popcount}(i \wedge j)}

    Parameters
    ----------
    x : array_like of float
        At least one dimension; its length n along `axis` is a power of two. Not modified.
    axis : int, optional
        The axis along which to transform.

    Returns
    -------
    y : ndarray of float64
        Same shape as `x`. Exact on integers while sum(|x|) is below 2^53; otherwise the rounding error is
        about log2(n) 2^-53 of y in the Euclidean norm. O(n log n): 2^22 numbers take some 30 ms.

    Raises
    ------
    ValueError
        If `x` has no such shape or is not finite, `axis` does not exist, or a sum is too large for a double.

    Examples
    --------
    >>> walsh_hadamard([1.0, 2.0, 3.0, 4.0])
    array([10., -2., -4.,  0.])
    """
    x = validation.real("x", x)
    if x.ndim == 0:
        raise ValueError(f"`x` must have at least one dimension; got {x}.")
    axis = validation.integer("axis", axis, -x.ndim, x.ndim - 1)
    n = validation.power_of_two(f"x.shape[{axis}]", x.shape[axis])
    y = np.array(np.moveaxis(x, axis, -1), order="C")
    _transform_rows(y.reshape(-1, n))
    return np.moveaxis(y, -1, axis)


def _checked_size(n_features: int) -> int:
    """Return `n_features` as an int; ValueError unless it is a power of two that fits in memory."""
    n = validation.power_of_two("n_features", validation.integer("n_features", n_features, 2))
    validation.check_fits("n_features", n, n / 8)  # a byte for each feature, as the least that is kept
    return n


class RugMatrix(LinearOperator):
    r"""Persian rug of given Hadamard rows, as a SciPy LinearOperator.

    .. math:: R_{ij} = \frac{1}{|S|} \sum_{k \in S} H_{ik} H_{kj}

    Symmetric, unit diagonal (exactly), rank \|S\|, nonzero eigenvalues n_features/\|S\| (Cowsik et al. 2024,
    section 4.2.2). Products cost two Walsh-Hadamard transforms a column and O(n_features) memory, and are not
    searched for nan, which spreads to every entry. The matrix itself is made by `todense` alone.

    Parameters
    ----------
    n_features : int
        Size, a power of two of at least 2.
    rows : (n_hidden,) array_like of int
        The set S: different integers in [0, n_features). Row 0 is the constant one. The attribute `rows` has
        them in ascending order.

    Raises
    ------
    ValueError
        If an argument is out of range, or the other factor of a product does not fit or is not real.

    Examples
    --------
    >>> R = RugMatrix(4, [1, 2])
    >>> R @ np.array([1.0, 0.0, 0.0, 0.0])
    array([ 1.,  0.,  0., -1.])
    """

    rows: npt.NDArray[np.int64]

    def __init__(self, n_features: int, rows: npt.ArrayLike) -> None:
        n = _checked_size(n_features)
        chosen = validation.indices("rows", validation.vector("rows", rows), n, distinct=True)
        super().__init__(np.dtype(np.float64), (n, n))  # type: ignore[call-arg]  # stubs know __new__ alone
        self.rows = frozen(np.sort(chosen))
        self._left_out = np.ones(n, dtype=np.bool_)
        self._left_out[self.rows] = False

    def _counts(self) -> FloatArray:
        """Return n_hidden times row 0 of the matrix, (n_features,): exact integers, as sums of signs."""
        return walsh_hadamard((~self._left_out).astype(np.float64))

    def row(self, i: int) -> FloatArray:
        """Return row i (which is also column i), shape (n_features,), in O(n_features log n_features).

        Examples
        --------
        >>> RugMatrix(4, [1, 2]).row(1)
        array([ 0.,  1., -1.,  0.])
        """
        i = validation.integer("i", i, 0, self.shape[0] - 1)
        return np.asarray(self._counts()[np.arange(self.shape[0]) ^ i] / self.rows.size)

    def todense(self) -> FloatArray:
        """Return the matrix as an array, shape (n_features, n_features), of 8 n_features² bytes."""
        first, indices = self._counts() / self.rows.size, np.arange(self.shape[0])
        dense = np.empty(self.shape)
        for i in indices:
            dense[i] = first[indices ^ i]
        return dense

    def matvec(self, x: Any) -> Any:
        """Return R x for `x` of shape (n_features,) or (n_features, 1); raise a ValueError for others."""
        n = self.shape[0]
        x = validation.real("x", x)
        if x.shape not in ((n,), (n, 1)):
            raise ValueError(f"`x` must have shape ({n},) or ({n}, 1); got {x.shape}.")
        return super().matvec(x)

    def _matmat(self, x: Any) -> FloatArray:
        """Return R x for a matrix x of columns."""
        columns = np.array(validation.real("x", x).T, order="C")
        _transform_rows(columns)
        columns[:, self._left_out] = 0.0
        _transform_rows(columns)
        columns /= self.rows.size
        return columns.T

    def _matvec(self, x: Any) -> FloatArray:
        """Return R x for a vector x."""
        return self._matmat(np.reshape(x, (-1, 1)))

    def _adjoint(self) -> "RugMatrix":
        """Return the matrix itself, which is symmetric."""
        return self

    _transpose = _adjoint


def rug_matrix(n_features: int, n_hidden: int, rng: Seed = None, *, constant_row: bool = False) -> RugMatrix:
    """Return the Persian rug of random Hadamard rows, which attains the bound of `theory.rug.sigma`.

    A Persian rug (Cowsik et al. 2024) is the matrix decoder times encoder, H'H/n_hidden, of n_hidden rows H
    of a Hadamard matrix: a random code that serves all features alike.

    Parameters
    ----------
    n_features, n_hidden : int
        Size, a power of two of at least 2, and rank, from 1 to n_features (the identity).
    rng : Generator or int, optional
        Source of randomness or its seed.
    constant_row : bool, optional
        Whether row 0, all ones, may be drawn too, as in the source. The bias has to compensate the mean
        interference, p/2 times the sum of a row off the diagonal. This sum is n_features/n_hidden - 1 if row
        0 is drawn, else -1.

    Returns
    -------
    R : RugMatrix
        R.rows are the rows drawn.

    Examples
    --------
    >>> R = rug_matrix(2**16, 2**14, rng=0)
    >>> x = np.zeros(2**16)
    >>> x[[3, 70, 4000]] = 1.0                       # three features on, read out from 2^14 hidden neurons
    >>> np.flatnonzero(R @ x > 0.5)
    array([   3,   70, 4000])
    """
    n = _checked_size(n_features)
    m = validation.integer("n_hidden", n_hidden, 1, n)
    first = 0 if validation.flag("constant_row", constant_row) or m == n else 1
    rows = validation.generator("rng", rng).choice(n - first, size=m, replace=False, shuffle=False) + first
    return RugMatrix(n, rows)


def random_projector(
    n_features: int, n_hidden: int, *, rng: Seed = None, unit_diagonal: bool = False
) -> FloatArray:
    """Return a random projector times n_features/n_hidden, (n_features, n_features), to compare a rug with.

    The matrix (n_features/n_hidden) O P O', with P diagonal of n_hidden ones, has n_hidden eigenvalues
    n_features/n_hidden, the others 0, up to rounding. Errors are those of `rug_matrix`.

    Parameters
    ----------
    n_features, n_hidden : int
        Size, any integer from 2 on, and rank, from 1 to n_features.
    rng : Generator or int, optional
        Source of randomness or its seed.
    unit_diagonal : bool, optional
        By default O is Haar distributed, and the diagonal has mean 1 and variance 2 (n_features - n_hidden) /
        (n_hidden (n_features + 2)), where Eq. 7 of Cowsik et al. (2024) has 1. With True, Givens rotations
        (Davies and Higham, 2000) of such a matrix make the diagonal 1 and keep the eigenvalues: an equal-norm
        tight frame, which attains Eq. 6 like the rug.

    Examples
    --------
    >>> M = random_projector(64, 16, rng=0, unit_diagonal=True)
    >>> bool(np.all(M.diagonal() == 1))
    True
    """
    n = validation.integer("n_features", n_features, 2)
    m = validation.integer("n_hidden", n_hidden, 1, n)
    validation.check_fits("n_features", n_features, n**2)
    rng, unit = validation.generator("rng", rng), validation.flag("unit_diagonal", unit_diagonal)
    if m == n:
        return np.eye(n)
    if unit:
        from scipy.stats import random_correlation  # a quarter of a second of import, needed only here

        eigenvalues = np.zeros(n)
        eigenvalues[:m] = n / m
        # SciPy compares the sum of the eigenvalues with n; n roundings of a sum of size n are allowed.
        tolerance = n * n * np.finfo(np.float64).eps
        M = random_correlation.rvs(eigenvalues, random_state=rng, tol=tolerance)
        np.fill_diagonal(M, 1.0)
    else:
        frame, _ = np.linalg.qr(rng.standard_normal((n, m)))
        M = frame @ frame.T * (n / m)
    return (M + M.T) / 2
