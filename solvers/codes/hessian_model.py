r"""The exact Hessian of any model ReLU(W_out W_in x + b) of few features, on matrices of its rank.

With M = U Sigma V' (n_hidden columns) and U_0, V_0 what completes U and V, the steps that keep the rank are
dM = U X V' + U_0 Y V' + U Z V_0', and to second order U_0 Y Sigma^-1 Z V_0' comes along: the gradient G adds
2 <U_0' G V_0, Y Sigma^-1 Z> to the quadratic form.
"""

import numpy as np
import numpy.typing as npt

from ...theory.arguments import FloatArray, integer, matrix, real, vector
from ...theory.features import Features, as_features
from ..loss import row_hessian
from ..results import result

__all__ = ["Curvatures", "curvatures"]

FREQUENCIES = 4096
# Features at most: the Hessian of 64 at ratio 1/2 takes half a minute.
_MOST = 64
# Largest weight: the loss holds fourth powers of their products.
_HUGE = 1e20
# Singular values below this share of the largest one count as rank that the model does not use.
RANK = 1e-6


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
        """How many eigenvalues are negative, beyond `errors`."""
        return int(np.sum(self.values < -self.errors))


def curvatures(
    W_out: npt.ArrayLike,
    W_in: npt.ArrayLike,
    b: npt.ArrayLike,
    law: float | Features,
    *,
    frequencies: int = FREQUENCIES,
) -> Curvatures:
    """Exact Hessian of the expected loss at any weights.

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
        As for `row_hessian`.

    Returns
    -------
    Curvatures
        At a critical point (`slope` near 0) eigenvalues that are all above `errors` mean a local minimum
        among matrices of the rank, one below -`errors` means a saddle.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    Notes
    -----
    Of the Hessian by (W_out, W_in, b) the signs are the same, beside n_hidden² zeros. Where the rank is
    less than n_hidden nothing is said about steps that raise it. The matrix has size
    2 n_features rank - rank² + n_features; 64 features at ratio 1/2 take half a minute, 32 a second.

    Examples
    --------
    >>> pair = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = curvatures(pair, pair.T, np.full(4, -0.01), 0.05)
    >>> found.values.size, found.rank, found.negative
    (16, 2, 2)
    """
    W_out = real("W_out", matrix("W_out", W_out), -_HUGE, _HUGE)
    n, m = W_out.shape
    if n > _MOST:
        raise ValueError(f"`W_out` must have at most {_MOST} rows; got shape {W_out.shape}.")
    W_in, b = real("W_in", matrix("W_in", W_in, (m, n)), -_HUGE, _HUGE), vector("b", b, n)
    features, frequencies = as_features(law, n), integer("frequencies", frequencies, 1)
    M = W_out @ W_in
    coarse, _, _ = _spectrum(M, min(n, m), b, features, frequencies)
    values, slope, rank = _spectrum(M, min(n, m), b, features, 2 * frequencies)
    return Curvatures(values, np.abs(values - coarse), slope, rank)


def _spectrum(
    M: FloatArray, m: int, b: FloatArray, law: Features, frequencies: int
) -> tuple[FloatArray, float, int]:
    n = b.size
    left, sizes, right = np.linalg.svd(M)
    rank = int(np.sum(sizes[:m] > RANK * sizes[0]))
    U, U_0, V, V_0 = left[:, :rank], left[:, rank:], right[:rank].T, right[rank:].T
    # The steps as columns: first along U (with V, then V_0), then U_0 V', then the biases.
    along = np.kron(U, right.T).reshape(n, n, rank * n)
    across = np.kron(U_0, V).reshape(n, n, (n - rank) * rank)
    steps = np.concatenate([along, across], axis=2)
    count = steps.shape[2]
    whole = np.zeros((count + n, count + n))
    G, by_b = np.empty((n, n)), np.empty(n)
    for i in range(n):
        here = row_hessian(M[i], i, float(b[i]), law, frequencies=frequencies)
        gradient, hessian = law.importance[i] * here.gradient, law.importance[i] * here.hessian
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
