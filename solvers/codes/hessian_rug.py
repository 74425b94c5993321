r"""Is the Persian rug a minimum? The exact Hessian of the expected loss there, on matrices of its rank.

Output i depends on row M_i and bias b_i alone, so that the loss, summed over outputs, has a Hessian of n
blocks of size n + 1. The rug of Hadamard rows S depends on i XOR j alone. So

- all blocks are one block with its indices permuted;
- among the matrices M = sum_{k in S} lam_k e_k e_k', e_k = h_k / sqrt(n), with one bias b for all outputs
  (those that are invariant under the translations i -> i XOR c), a critical point of the loss is one
  among all matrices of rank |S|: the gradient there is invariant too (symmetric criticality). The rug itself
  has equal lam_k, and is critical to leading order only; `rug_point` finds the critical point beside it;
- the Hessian there, in the basis e_k e_l' and e_q, falls into n blocks, one for each q = k XOR l, cut out
  of one matrix: that of row 0 in the basis e_l.

On matrices of rank |S| one has to move along the curve (A + dA)(B + dB): modes (k, l) with neither k nor
l in S are not free but follow to second order, D_NN = D_NS Lam^-1 D_SN. The gradient g_k e_k e_k', k not in
S, pushes along them, and adds g_k / lam_l to the product of the modes (k, l) and (l, k).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ...theory.arguments import FloatArray, generator, instance, integer, number, power_of_two, vector
from ..loss import row_hessian
from ..minimise.core import trust
from ..results import Status, result
from ..rug import optimum as rug_optimum
from ..rug import rug_matrix, walsh_hadamard

__all__ = ["RugHessian", "RugPoint", "rug_hessian", "rug_point"]

FREQUENCIES = 8192
# Features at most: the Hessian of a row is a dense matrix, and every block has an eigenproblem.
_MOST = 1024
# Steps of the search at most; slope, in units of p, at which a point counts as critical.
STEPS, NEAR = 200, 1e-9


@result
class RugPoint:
    """The critical point beside a rug, for one p.

    Attributes
    ----------
    p : float
        Probability that a feature is on.
    rows : (n_hidden,) ndarray of int64
        The Hadamard rows S.
    eigenvalues : (n_hidden,) ndarray of float64
        lam_k of M, in the order of `rows`; n_features/n_hidden times the diagonal for the rug itself.
    row : (n_features,) ndarray of float64
        Row 0 of M; M_ij = row[i XOR j].
    b : float
        The bias of all outputs.
    loss, rug_loss : float
        Loss per feature, here and of the rug at its macroscopic scale and bias, where the search began.
    gradient_norm : float
        Length of the gradient that is left, of the loss summed over features, on matrices of this rank.
    status : Status
        `Status.CONVERGED` where that is below 1e-9 p.
    """

    p: float
    rows: npt.NDArray[np.int64]
    eigenvalues: FloatArray
    row: FloatArray
    b: float
    loss: float
    rug_loss: float
    gradient_norm: float
    status: Status

    def matrix(self) -> FloatArray:
        """Return M, shape (n_features, n_features)."""
        index = np.arange(self.row.size)
        return np.asarray(self.row[index[:, None] ^ index])


@result
class RugHessian:
    """Curvatures of the loss, summed over features, at the critical point beside a rug.

    Attributes
    ----------
    point : RugPoint
    curvatures : tuple of ndarray of float64
        For each q in 0 .. n_features - 1 the eigenvalues of its block, ascending. Steps have length 1 in
        the Frobenius norm of M and the Euclidean norm of b together.
    lowest, negative : float, int
        The least of all, and how many are negative beyond `error_estimate`.
    q : int
        The block of the least one. The step has the sign h_q(i) = (-1)^popcount(q AND i) in row i: q = 0
        keeps all features alike, q > 0 sets one half of them against the other.
    step_M, step_b : (n_features, n_features) and (n_features,) ndarray of float64
        The step of least curvature, to first order.
    error_estimate : float
        Change of the least curvature on doubling the number of frequencies; what curvatures may be off by.
    """

    point: RugPoint
    curvatures: tuple[FloatArray, ...]
    lowest: float
    negative: int
    q: int
    step_M: FloatArray
    step_b: FloatArray
    error_estimate: float

    @property
    def diagonal_share(self) -> float:
        """Share of the diagonal of M in the squared length of the step of least curvature."""
        return float(np.sum(np.diagonal(self.step_M) ** 2))


def _basis(n: int) -> FloatArray:
    """Return the matrix whose columns are e_k = h_k / sqrt(n)."""
    return np.asarray(walsh_hadamard(np.eye(n)) / np.sqrt(n))


def rug_point(
    n_features: int,
    n_hidden: int,
    p: float,
    *,
    rng: np.random.Generator | int | None = None,
    frequencies: int = FREQUENCIES,
) -> RugPoint:
    """Find the critical point of the exact loss beside a Persian rug, by Newton's method.

    Parameters
    ----------
    n_features : int
        Power of two from 4 to 1024.
    n_hidden : int
        From 1 to n_features - 1.
    p : float
        Probability that a feature is on, in (0, 1).
    rng : Generator, int or None, optional
        Draws the Hadamard rows.
    frequencies : int, optional
        As for `row_hessian`.

    Returns
    -------
    RugPoint

    Raises
    ------
    ValueError
        If an argument lies outside its range.

    Examples
    --------
    >>> point = rug_point(16, 8, 0.1, rng=0)
    >>> point.loss < point.rug_loss, point.status.name
    (True, 'CONVERGED')
    """
    n = power_of_two("n_features", integer("n_features", n_features, 4, _MOST))
    m = integer("n_hidden", n_hidden, 1, n - 1)
    p = number("p", p, 0, 1, brackets="()")
    frequencies = integer("frequencies", frequencies, 1)
    rows = rug_matrix(n, m, generator("rng", rng)).rows
    best = rug_optimum(p, m / n)
    # Coordinates of length: lam_k for e_k e_k', and sqrt(n) b for a bias that all outputs share.
    E = linalg.block_diag(_basis(n)[:, rows], np.ones((1, 1)))

    def row(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        z = E @ x / np.sqrt(n)
        found = row_hessian(z[:-1], 0, float(z[-1]), p, frequencies=frequencies)
        return n * found.loss, np.sqrt(n) * (E.T @ found.gradient), E.T @ found.hessian @ E

    x = np.append(np.full(m, float(best.a) * n / m), np.sqrt(n) * float(best.b))
    end = trust(row, x, radius=0.1 * float(np.linalg.norm(x)), steps=STEPS, gtol=NEAR * p)
    z = E @ end.x / np.sqrt(n)
    eigenvalues, before = end.x[:-1], row(x)[0] / n
    return RugPoint(p, rows, eigenvalues, z[:-1], float(z[-1]), end.value / n, before, end.slope, end.status)


def rug_hessian(point: RugPoint, *, frequencies: int = FREQUENCIES) -> RugHessian:
    """Exact Hessian at the critical point beside a rug, on matrices of its rank and biases.

    Parameters
    ----------
    point : RugPoint
        From `rug_point`; its fields have to belong together.
    frequencies : int, optional
        As for `rug_point`; the error is estimated from twice as many frequencies.

    Returns
    -------
    RugHessian

    Notes
    -----
    As for `curvatures` the signs are those of (W_out, W_in): `lowest` + `error_estimate` < 0 proves a saddle,
    curvatures that are all positive a local minimum. The cost is that of n eigenproblems of size up to
    2 n_hidden + 1: 0.2 s for 64 features.

    References
    ----------
    Cowsik et al. (2024), §4.2.2, where the rug is called optimal.

    Examples
    --------
    >>> found = rug_hessian(rug_point(16, 8, 0.1, rng=0))
    >>> len(found.curvatures), found.lowest + found.error_estimate < 0
    (16, True)
    """
    instance("point", point, RugPoint)
    p = number("point.p", point.p, 0, 1, brackets="()")
    frequencies = integer("frequencies", frequencies, 1)
    row = vector("point.row", point.row)
    n = power_of_two("point.row.size", row.size)
    rows = np.unique(point.rows)
    if rows.size != np.size(point.rows) or not np.all((rows >= 0) & (rows < n)) or rows.dtype.kind != "i":
        raise ValueError(f"`point.rows` must be distinct integers from 0 to {n - 1}; got {point.rows!r}.")
    lam = vector("point.eigenvalues", point.eigenvalues, rows.size)
    point = replace(point, p=p, row=row, rows=np.asarray(point.rows), eigenvalues=lam)
    modes, values, vectors = zip(*_blocks(point, 2 * frequencies), strict=True)
    rough = [one for _, one, _ in _blocks(point, frequencies)]
    q = int(np.argmin([one[0] for one in values]))
    error = max(float(np.abs(one - other).max()) for one, other in zip(values, rough, strict=True))
    negative = sum(int(np.sum(one < -error)) for one in values)
    # What the lowest vector of block q means, as a step of M and b.
    basis, l, along = _basis(n), modes[q], vectors[q][:, 0]
    step_M = (basis[:, l ^ q] * along[:-1]) @ basis[:, l].T
    step_b = basis[:, q] * along[-1]
    return RugHessian(point, values, float(values[q][0]), negative, q, step_M, step_b, error)


def _blocks(
    point: RugPoint, frequencies: int
) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray, FloatArray]]:
    """Yield of every block q the l of its free modes (q XOR l, l), its eigenvalues and eigenvectors."""
    n = point.row.size
    E = linalg.block_diag(_basis(n), np.ones((1, 1)))
    here = row_hessian(point.row, 0, point.b, point.p, frequencies=frequencies)
    whole = E.T @ here.hessian @ E
    push = np.sqrt(n) * (E.T @ here.gradient)[:n]  # g_k
    lam, drawn = np.zeros(n), np.zeros(n, np.bool_)
    lam[point.rows], drawn[point.rows] = point.eigenvalues, True
    for q in range(n):
        l = np.flatnonzero(drawn | drawn[np.arange(n) ^ q])
        free = np.append(l, n)
        block = whole[np.ix_(free, free)]
        pushed = (lam[l] != 0.0) & (lam[l ^ q] == 0.0)
        x, y = np.flatnonzero(pushed), np.searchsorted(l, l[pushed] ^ q)
        more = push[l[pushed] ^ q] / lam[l[pushed]]
        block[x, y] += more
        block[y, x] += more
        values, vectors = np.linalg.eigh(block)
        yield l, values, vectors
