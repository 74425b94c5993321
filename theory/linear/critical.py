"""Critical points of linear autoencoders: losses, weights, Hessians and rates, from the eigenvalues alone."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..results import result
from ..validation import FloatArray, check_fits, choice, flag, integer, matrix
from .spectrum import EQUAL, Covariance, checked_indices, checked_spectrum, spectrum

__all__ = ["RULES", "CriticalPoint", "critical_hessian", "critical_loss", "critical_point", "growth_rates"]

RULES = ("pair", "tied", "encoder", "decoder")


def critical_loss(covariance: Covariance, indices: Iterable[int]) -> float:
    r"""Loss per feature of x -> ABx at the critical point that keeps the eigenvectors `indices`.

    At a critical point :math:`AB` is the orthogonal projection on eigenvectors of :math:`\Sigma = E\,xx'`,
    which are kept. The squared error is the sum of the eigenvalues of all other eigenvectors. See Notes
    (2022), Prop. 1; Baldi and Hornik, Neural Networks 2 (1989) 53.

    Parameters
    ----------
    covariance : (n_features, n_features) array_like of float
        :math:`\Sigma`, symmetric, without negative eigenvalues; singular ones are allowed.
    indices : iterable of int
        Eigenvectors kept, without repeats: 0 belongs to the largest eigenvalue. None is kept at A = B = 0.

    Returns
    -------
    loss : float
        Sum of the other eigenvalues, divided by n_features; the source does not divide. Absolute error: a few
        roundings of the largest eigenvalue.

    Raises
    ------
    ValueError
        If `covariance` is, beyond rounding, not symmetric or has negative eigenvalues, or if an index is out
        of range or repeated.

    Examples
    --------
    >>> critical_loss([[2.0, 1.0], [1.0, 2.0]], [0]), critical_loss([[2.0, 1.0], [1.0, 2.0]], [1])
    (0.5, 1.5)
    """
    values = spectrum(covariance).eigenvalues
    left = np.delete(values, checked_indices(indices, values.size))
    return float(np.sum(left / values.size))


def critical_point(
    covariance: Covariance,
    indices: Iterable[int],
    n_hidden: int | None = None,
    mixing: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Return decoder A = U_I C and encoder B = C^+ U_I' of a critical point that keeps the eigenvectors U_I.

    For r eigenvectors C is any (r, n_hidden) matrix of rank r. If :math:`\Sigma` is invertible, all critical
    points have this form, with some right inverse of C in place of :math:`C^+`. For r = n_hidden (Notes 2022,
    Eq. star) the only one is :math:`C^{-1}`. `covariance` is :math:`\Sigma = E\,xx'` and `indices` are the
    eigenvectors kept, 0 for the largest eigenvalue; errors are those of `critical_loss`.

    Parameters
    ----------
    n_hidden : int, optional
        Hidden neurons, at least the number of indices, which is the default. With more, the rank of AB is
        below n_hidden.
    mixing : (r, n_hidden) array_like of float, optional
        C, of rank r. By default the identity with columns of zeros added. Then A = B', and the point is
        critical for the tied model too.

    Returns
    -------
    A, B : ndarray (n_features, n_hidden), ndarray (n_hidden, n_features)

    Examples
    --------
    >>> A, B = critical_point([[3.0, 0.0], [0.0, 1.0]], [1], n_hidden=2)
    >>> (A @ B).round(12)
    array([[0., 0.],
           [0., 1.]])
    """
    modes = spectrum(covariance)
    mode_indices = checked_indices(indices, modes.eigenvalues.size)
    hidden = _checked_hidden(n_hidden, mode_indices.size)
    check_fits("n_hidden", hidden, hidden * modes.eigenvalues.size * 4)
    basis = modes.eigenvectors[:, mode_indices]
    if mixing is None:
        C = np.eye(mode_indices.size, hidden)
        return basis @ C, C.T @ basis.T
    C = matrix("mixing", mixing, (mode_indices.size, hidden))
    rank = int(np.linalg.matrix_rank(C))
    if rank < mode_indices.size:
        raise ValueError(f"`mixing` must have rank {mode_indices.size}; got rank {rank}.")
    return basis @ C, np.linalg.pinv(C) @ basis.T


@result
class CriticalPoint:
    """Loss, index and growth rates at a critical point; see :func:`critical_hessian`.

    Rates are those of the flow in normal form, minus half the gradient of the loss summed over features: a
    deviation along an eigenvector of the Hessian with eigenvalue 2h grows as exp(-h t).
    """

    loss: float
    """Loss per feature, as `critical_loss`."""
    rank: int
    """Number of eigenvectors kept."""
    index: int
    """Dimensions in which the loss falls: number of negative eigenvalues of the Hessian."""
    nullity: int
    """Number of zero eigenvalues of the Hessian; their directions are tangent to the critical set."""
    escape_rate: float
    """Largest growth rate of a deviation from the point; 0 at a minimum."""
    rotation_rate: float
    """Growth rate along the best rotation of an eigenvector kept to another (Prop. 3); 0 if none grows."""
    slowest_rate: float
    """Decay rate of the slowest deviation that decays, inf if none does."""

    @property
    def is_minimum(self) -> bool:
        """Whether the point is a minimum, which then is global; all other critical points are saddles."""
        return self.index == 0


def critical_hessian(
    covariance: Covariance,
    indices: Iterable[int],
    n_hidden: int | None = None,
    *,
    tied: bool = False,
    rtol: float = EQUAL,
) -> CriticalPoint:
    """Index, nullity and escape rates of the loss of x -> ABx at a critical point, from the eigenvalues.

    To second order the loss falls in `index` independent directions, and is constant in `nullity` others.

    Only points that keep n_hidden of the largest eigenvalues are minima; all others are strict saddles (Notes
    2022, Prop. 3). The page "Linear autoencoders" has the formulas. Index and nullity hold for every factor C
    of `critical_point`. Rates for untied A and B are those of balanced points, C C' = 1, near which training
    from small weights stays. Rates are as accurate as the differences of the eigenvalues. Errors are those of
    `critical_loss`.

    Parameters
    ----------
    covariance : (n_features, n_features) array_like of float
        E x x', symmetric, with positive eigenvalues; they may coincide.
    indices : iterable of int
        Eigenvectors kept: 0 belongs to the largest eigenvalue.
    n_hidden : int, optional
        Hidden neurons, at most n_features; by default as many as indices.
    tied : bool, optional
        Whether the model is x -> W W' x.
    rtol : float, optional
        Eigenvalues that differ by at most `rtol` times the largest count as equal.

    Examples
    --------
    >>> point = critical_hessian([[3.0, 0.0], [0.0, 1.0]], [1])
    >>> point.index, point.nullity, point.rotation_rate, round(point.escape_rate, 12)
    (1, 1, 1.0, 1.162277660168)
    """
    tied = flag("tied", tied)
    inner, outer, gap, hidden = _split_eigenvalues(covariance, indices, n_hidden, rtol)
    r, left = inner.size, outer.size
    rates = _all_growth_rates(inner, outer, gap, hidden, "tied" if tied else "pair")
    return CriticalPoint(
        loss=float(np.sum(outer / (r + left))),
        rank=r,
        index=int(np.count_nonzero(gap > 0)) + (hidden - r) * left,
        nullity=int(np.count_nonzero(gap == 0)) + r * (2 * hidden - r - tied) // (1 + tied),
        escape_rate=max(float(rates[0]), 0.0),
        rotation_rate=float(np.max(gap, initial=0.0)) / (1 if tied else 2),
        slowest_rate=float(-np.max(rates[rates < 0], initial=-np.inf)),
    )


def growth_rates(
    covariance: Covariance,
    indices: Iterable[int],
    n_hidden: int | None = None,
    rule: str = "pair",
    *,
    rtol: float = EQUAL,
) -> FloatArray:
    r"""All growth rates of small deviations from a critical point of x -> ABx, under one of four flows.

    The rules, with M = AB or WW':

    - ``"pair"``: :math:`\dot A = (1-M)\Sigma B'`, :math:`\dot B = A'(1-M)\Sigma` (Eqs. 20, 21);
    - ``"encoder"``: :math:`\dot W = \Sigma(1-M)W`, the encoder's flow on tied weights (Eq. 22);
    - ``"decoder"``: :math:`\dot W = (1-M)\Sigma W`, the decoder's, which is Oja's subspace flow;
    - ``"tied"``: :math:`\dot W = \Sigma(1-M)W + (1-M)\Sigma W`, the gradient flow of the tied loss.

    See Notes (2022), Eqs. 19-22; Oja, Int. J. Neural Systems 1 (1989) 61. `covariance` is :math:`\Sigma`,
    `indices` are the eigenvectors that the point keeps, 0 for the largest eigenvalue, and `n_hidden` is the
    number of neurons; eigenvalues within `rtol` times the largest count as equal. Errors are those of
    `critical_hessian`.

    Parameters
    ----------
    rule : {"pair", "tied", "encoder", "decoder"}, optional

    Returns
    -------
    rates : ndarray
        Largest first: 2 n_features n_hidden of them for the pair, n_features n_hidden otherwise. For
        ``"pair"`` and ``"tied"`` minus half the eigenvalues of the Hessian of the loss summed over features,
        at A = U_I, B = U_I'.

    Examples
    --------
    >>> for rule in ("tied", "encoder", "decoder"):
    ...     print(rule, growth_rates([[3.0, 0.0], [0.0, 1.0]], [1], rule=rule))
    tied [ 2. -4.]
    encoder [ 0. -2.]
    decoder [ 2. -2.]
    """
    choice("rule", rule, RULES)
    return _all_growth_rates(*_split_eigenvalues(covariance, indices, n_hidden, rtol), rule)


def _split_eigenvalues(
    covariance: Covariance, indices: Iterable[int], n_hidden: int | None, rtol: float
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Return the eigenvalues kept, the others, the differences other - kept, and n_hidden.

    `indices` are the eigenvalues kept, 0 for the largest; eigenvalues within `rtol` times the largest count
    as equal. Differences, shape (kept, others), are exactly 0 within an eigenspace.
    """
    modes = checked_spectrum(covariance, rtol)
    lam, n = modes.eigenvalues, modes.eigenvalues.size
    mode_indices = checked_indices(indices, n)
    left = np.delete(np.arange(n), mode_indices)
    equal = np.equal.outer(modes.space[mode_indices], modes.space[left])
    gap = np.where(equal, 0.0, lam[left] - lam[mode_indices, None])
    return lam[mode_indices], lam[left], gap, _checked_hidden(n_hidden, mode_indices.size, n)


def _checked_hidden(n_hidden: int | None, rank: int, n_features: int | None = None) -> int:
    """Return n_hidden, by default `rank`, as an int; ValueError if it is below rank or above n_features."""
    return integer("n_hidden", rank if n_hidden is None else n_hidden, max(rank, 1), n_features)


def _all_growth_rates(
    inner: FloatArray, outer: FloatArray, gap: FloatArray, hidden: int, rule: str
) -> FloatArray:
    """Return all growth rates of a flow at a critical point, (n_rates,), largest first.

    Small deviations from the point grow like e^(rate t). `inner` and `outer` are the eigenvalues of the
    covariance that the point keeps and leaves out, `gap` their differences outer - inner, shape (inner.size,
    outer.size), `hidden` the number of neurons and `rule` the flow: "pair", "tied", "encoder" or "decoder".
    """
    r, spare = inner.size, hidden - inner.size
    filling = np.repeat(outer, spare)
    if rule == "pair":
        mean, root = inner[:, None] / 2 + outer / 2, np.hypot(gap / 2, outer)
        # the product of the two rates is -lambda_o gap: no cancellation
        parts = [-mean - root, outer * (gap / (mean + root)), filling, -filling, np.repeat(-2 * inner, r)]
        nulls = r * (2 * hidden - r)
    else:
        i, j = np.triu_indices(r)
        double = 2 if rule == "tied" else 1
        parts = [0 * gap if rule == "encoder" else gap, double * filling, -double * (inner[i] + inner[j])]
        nulls = r * (r - 1) // 2 + r * spare
    rates = np.concatenate([*(part.ravel() for part in parts), np.zeros(nulls)])
    return np.sort(rates)[::-1] + 0.0
