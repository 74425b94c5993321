r"""The exact Hessian of the loss of ReLU(M x + b) on matrices of one rank: of any small model, and the rug.

**Steps of one rank.** With M = U Sigma V' (n_hidden columns) and U_0, V_0 what completes U and V, the steps
that keep the rank are dM = U X V' + U_0 Y V' + U Z V_0', and to second order U_0 Y Sigma^-1 Z V_0' comes
along: the gradient G adds 2 <U_0' G V_0, Y Sigma^-1 Z> to the quadratic form.

**At the rug.** Output i depends on row M_i and bias b_i alone, so that the loss, summed over outputs, has a
Hessian of n blocks of size n + 1. The rug of Hadamard rows S depends on i XOR j alone. So

- all blocks are one block with its indices permuted;
- among the matrices M = sum_{k in S} lam_k e_k e_k', e_k = h_k / sqrt(n), with one bias b for all outputs
  (those that are invariant under the translations i -> i XOR c), a critical point of the loss is one
  among all matrices of rank |S|: the gradient there is invariant too (symmetric criticality). The rug itself
  has equal lam_k, and is critical to leading order only; `rug_point` finds the critical point beside it;
- the Hessian there, in the basis e_k e_l' and e_q, falls into n blocks, one for each q = k XOR l, cut out
  of one matrix: that of row 0 in the basis e_l.

Modes (k, l) with neither k nor l in S are not free but follow to second order, D_NN = D_NS Lam^-1 D_SN. The
gradient g_k e_k e_k', k not in S, pushes along them, and adds g_k / lam_l to the product of the modes (k, l)
and (l, k).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ...theory.features import Features, as_features
from ...theory.validation import (
    FloatArray,
    generator,
    instance,
    integer,
    matrix,
    number,
    power_of_two,
    real,
    vector,
)
from .. import rug
from ..loss import row_hessian
from ..minimise.descent import trust_region
from ..results import Status, result

# Features at most: the Hessian of a model of 64 at ratio 1/2 takes half a minute. Of the rug that of a row is
# a dense matrix, and every block has an eigenproblem.
_MOST_OF_ANY, _MOST_OF_RUG = 64, 1024
# Largest weight: the loss holds fourth powers of their products.
_HUGE = 1e20
# Singular values below this share of the largest one count as rank that the model does not use.
_RANK = 1e-6
_LEAST_SIZE = 1e-150  # of a singular value: smaller ones are 0, and no curvature overflows
# Steps of the search at most; slope, in units of p, at which a point counts as critical.
_STEPS, _NEAR = 200, 1e-9


@result
class Curvatures:
    """Gradient and Hessian of the loss, summed over features, on matrices of one rank and biases.

    Attributes
    ----------
    values : ndarray of float64
        Eigenvalues of the Hessian, ascending; steps have length 1 in the Frobenius norm of M and the
        Euclidean norm of b together.
    errors : ndarray of float64
        How much each eigenvalue changed when the number of frequencies was doubled. Where weights are almost
        but not quite 0, the largest ones may be wrong by as much as they are.
    slope : float
        Length of the gradient.
    rank : int
        Rank of M, at most n_hidden.
    """

    values: FloatArray
    errors: FloatArray
    slope: float
    rank: int

    @property
    def negative(self) -> int:
        """Number of eigenvalues below minus their `errors`."""
        return int(np.sum(self.values < -self.errors))


def curvatures(
    W_out: npt.ArrayLike,
    W_in: npt.ArrayLike,
    b: npt.ArrayLike,
    law: float | Features,
    *,
    frequencies: int = 4096,
) -> Curvatures:
    """Return the exact gradient and Hessian of the expected loss at any weights, on matrices of their rank.

    Parameters
    ----------
    W_out : (n_features, n_hidden) array_like of float
        Decoder, of 64 features at most.
    W_in : (n_hidden, n_features) array_like of float
        Encoder.
    b : (n_features,) array_like of float
        Bias.
    law : float or Features
        Probability that a feature is on, or any law; importances weigh the outputs.
    frequencies : int, optional
        Terms of the sum over frequencies that gives each output's Hessian. Results use twice as many;
        `errors` is the change on doubling.

    Returns
    -------
    Curvatures
        At a critical point (`slope` near 0) eigenvalues that are all above `errors` mean a local minimum
        among matrices of the rank, one below -`errors` means a saddle.

    Notes
    -----
    The Hessian with respect to (W_out, W_in, b) has eigenvalues of the same signs, and n_hidden² zeros more.
    Where the rank is less than n_hidden, steps that raise it are not examined. The matrix has size 2
    n_features rank - rank² + n_features; 64 features at ratio 1/2 take half a minute, 32 a second.

    Examples
    --------
    >>> pair = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = curvatures(pair, pair.T, np.full(4, -0.01), 0.05)
    >>> found.values.size, found.rank, found.negative
    (16, 2, 2)
    """
    W_out = real("W_out", matrix("W_out", W_out), -_HUGE, _HUGE)
    n, m = W_out.shape
    if n > _MOST_OF_ANY:
        raise ValueError(f"`W_out` must have at most {_MOST_OF_ANY} rows; got shape {W_out.shape}.")
    W_in, b = real("W_in", matrix("W_in", W_in, (m, n)), -_HUGE, _HUGE), vector("b", b, n)
    features, frequencies = as_features(law, n), integer("frequencies", frequencies, 1)
    M = W_out @ W_in
    coarse, _, _ = _curvature_spectrum(M, min(n, m), b, features, frequencies)
    values, slope, rank = _curvature_spectrum(M, min(n, m), b, features, 2 * frequencies)
    return Curvatures(values, np.abs(values - coarse), slope, rank)


def _curvature_spectrum(
    M: FloatArray, m: int, b: FloatArray, law: Features, frequencies: int
) -> tuple[FloatArray, float, int]:
    """Return (eigenvalues of the Hessian, norm of the gradient, rank of M) of the loss of ReLU(M x + b).

    Variables are b and the steps of M, (n, n), that keep its rank, counted up to `m`. `frequencies` is the
    number of terms of the sum that gives each output's Hessian.
    """
    n = b.size
    left, sizes, right = np.linalg.svd(M)
    rank = int(np.sum(sizes[:m] > max(_RANK * sizes[0], _LEAST_SIZE)))
    U, U_0, V, V_0 = left[:, :rank], left[:, rank:], right[:rank].T, right[rank:].T
    # The steps as columns: first along U (with V, then V_0), then U_0 V', then the biases.
    free_steps = np.kron(U, right.T).reshape(n, n, rank * n)
    rank_steps = np.kron(U_0, V).reshape(n, n, (n - rank) * rank)
    steps = np.concatenate([free_steps, rank_steps], axis=2)
    count = steps.shape[2]
    whole = np.zeros((count + n, count + n))
    G, by_b = np.empty((n, n)), np.empty(n)
    for i in range(n):
        row_derivatives = row_hessian(M[i], i, float(b[i]), law, frequencies=frequencies)
        gradient, hessian = (
            law.importance[i] * row_derivatives.gradient,
            law.importance[i] * row_derivatives.hessian,
        )
        G[i], by_b[i] = gradient[:n], gradient[n]
        whole[:count, :count] += steps[i].T @ hessian[:n, :n] @ steps[i]
        cross = hessian[n, :n] @ steps[i]
        whole[count + i, :count], whole[:count, count + i] = cross, cross
        whole[count + i, count + i] = hessian[n, n]
    push = U_0.T @ G @ V_0
    for s in range(rank):
        Z = s * n + rank + np.arange(n - rank)
        Y = rank * n + np.arange(n - rank) * rank + s
        whole[np.ix_(Y, Z)] += push / sizes[s]
        whole[np.ix_(Z, Y)] += push.T / sizes[s]
    slope = np.sqrt(np.sum(np.tensordot(G, steps, axes=2) ** 2) + np.sum(by_b**2))
    return np.linalg.eigvalsh(whole), float(slope), rank


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
        Loss per feature at this point, and of the rug at its macroscopic scale and bias, the start of the
        search.
    gradient_norm : float
        Length of the gradient at this point, of the loss summed over features, on matrices of this rank.
    status : Status
        `Status.CONVERGED` if `gradient_norm` is below 1e-9 p.
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
        """Return M, decoder times encoder, at this point, shape (n_features, n_features), from its row 0."""
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
        The least curvature, and the number of curvatures below -`error_estimate`.
    q : int
        Block of the least curvature. Its step has the sign h_q(i) = (-1)^popcount(q AND i) in row i: q = 0
        changes all features alike, q > 0 one half of them with the opposite sign.
    step_M, step_b : (n_features, n_features) and (n_features,) ndarray of float64
        The step of least curvature, to first order.
    error_estimate : float
        Estimated error of curvatures: change of the least one on doubling the number of frequencies.
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
        """Share of the diagonal in the squared length of `step_M`, the change of M of least curvature."""
        return float(np.sum(np.diagonal(self.step_M) ** 2))


def _walsh_basis(n: int) -> FloatArray:
    """Return the (n, n) matrix whose columns are e_k = h_k / sqrt(n), h_k the Walsh-Hadamard functions."""
    return np.asarray(rug.walsh_hadamard(np.eye(n)) / np.sqrt(n))


def rug_point(
    n_features: int,
    n_hidden: int,
    p: float,
    *,
    rng: np.random.Generator | int | None = None,
    frequencies: int = 8192,
) -> RugPoint:
    """Return the critical point of the exact loss beside a Persian rug, found by Newton's method.

    A Persian rug is the random code of Cowsik et al. (2024): M = H'H/n_hidden for random rows H of a Hadamard
    matrix.

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
        Terms of the sum over frequencies that gives loss, gradient and Hessian.

    Returns
    -------
    RugPoint

    Examples
    --------
    >>> point = rug_point(16, 8, 0.1, rng=0)
    >>> point.loss < point.rug_loss, point.status.name
    (True, 'CONVERGED')
    """
    n = power_of_two("n_features", integer("n_features", n_features, 4, _MOST_OF_RUG))
    m = integer("n_hidden", n_hidden, 1, n - 1)
    p = number("p", p, 0, 1, brackets="()")
    frequencies = integer("frequencies", frequencies, 1)
    rows = rug.rug_matrix(n, m, generator("rng", rng)).rows
    best = rug.optimum(p, m / n)
    # Coordinates of length: lam_k for e_k e_k', and sqrt(n) b for a bias that all outputs share.
    E = linalg.block_diag(_walsh_basis(n)[:, rows], np.ones((1, 1)))

    def row(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return n times the loss of one output, with gradient and Hessian, at x: m eigenvalues and the bias.

        The eigenvalues are those of the decoder times the encoder; the bias is scaled by √n.
        """
        z = E @ x / np.sqrt(n)
        hessian = row_hessian(z[:-1], 0, float(z[-1]), p, frequencies=frequencies)
        return n * hessian.loss, np.sqrt(n) * (E.T @ hessian.gradient), E.T @ hessian.hessian @ E

    x = np.append(np.full(m, float(best.a) * n / m), np.sqrt(n) * float(best.b))
    end = trust_region(row, x, radius=0.1 * float(np.linalg.norm(x)), steps=_STEPS, gtol=_NEAR * p)
    z = E @ end.x / np.sqrt(n)
    eigenvalues, rug_loss = end.x[:-1], row(x)[0] / n
    return RugPoint(
        p, rows, eigenvalues, z[:-1], float(z[-1]), end.value / n, rug_loss, end.slope, end.status
    )


def rug_hessian(point: RugPoint, *, frequencies: int = 8192) -> RugHessian:
    """Return the exact Hessian at the critical point beside a rug, on matrices of its rank and biases.

    Parameters
    ----------
    point : RugPoint
        Result of `rug_point`.
    frequencies : int, optional
        Terms of the sum over frequencies that gives the Hessian. Results use twice as many; the error
        estimate is the change on doubling.

    Returns
    -------
    RugHessian
        Eigenvalues of the Hessian, the least one (`lowest`) with its step, and how many are negative.

    Notes
    -----
    The signs are also those of the Hessian with respect to (W_out, W_in): `lowest` + `error_estimate` < 0
    proves a saddle, and all curvatures positive prove a local minimum. The cost is that of n eigenproblems of
    size up to 2 n_hidden + 1: 0.2 s for 64 features.

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
    modes, values, vectors = zip(*_symmetry_blocks(point, 2 * frequencies), strict=True)
    coarse_values = [coarse for _, coarse, _ in _symmetry_blocks(point, frequencies)]
    q = int(np.argmin([value[0] for value in values]))
    error = max(
        float(np.abs(value - other).max()) for value, other in zip(values, coarse_values, strict=True)
    )
    negative = sum(int(np.sum(value < -error)) for value in values)
    # What the lowest vector of block q means, as a step of M and b.
    basis, l, lowest_vector = _walsh_basis(n), modes[q], vectors[q][:, 0]
    step_M = (basis[:, l ^ q] * lowest_vector[:-1]) @ basis[:, l].T
    step_b = basis[:, q] * lowest_vector[-1]
    return RugHessian(point, values, float(values[q][0]), negative, q, step_M, step_b, error)


def _symmetry_blocks(
    point: RugPoint, frequencies: int
) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray, FloatArray]]:
    """Yield (l, eigenvalues, eigenvectors) of each of the n blocks of the Hessian at the critical point.

    With e_k the normalised Walsh-Hadamard functions, the variables of block q = 0, ..., n - 1 are the
    coordinates of M along e_k e_l', k = q XOR l, for each l of the array, and last that of the biases along
    e_q. The array has those l for which the step keeps the rank of M: k or l is one of `point.rows`.
    Eigenvectors are columns. `frequencies` is the number of terms of the sum that gives the Hessian.
    """
    n = point.row.size
    E = linalg.block_diag(_walsh_basis(n), np.ones((1, 1)))
    row_derivatives = row_hessian(point.row, 0, point.b, point.p, frequencies=frequencies)
    whole = E.T @ row_derivatives.hessian @ E
    push = np.sqrt(n) * (E.T @ row_derivatives.gradient)[:n]  # g_k
    lam, drawn = np.zeros(n), np.zeros(n, np.bool_)
    lam[point.rows], drawn[point.rows] = point.eigenvalues, True
    for q in range(n):
        l = np.flatnonzero(drawn | drawn[np.arange(n) ^ q])
        free = np.append(l, n)
        block = whole[np.ix_(free, free)]
        pushed = (lam[l] != 0.0) & (lam[l ^ q] == 0.0)
        x, y = np.flatnonzero(pushed), np.searchsorted(l, l[pushed] ^ q)
        coupling = push[l[pushed] ^ q] / lam[l[pushed]]
        block[x, y] += coupling
        block[y, x] += coupling
        values, vectors = np.linalg.eigh(block)
        yield l, values, vectors
