"""Separate encoder and decoder, orthogonal inputs: what tied weights and basis vectors leave out."""

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray, number
from ..integrate.explicit import checked_times
from .flow import Flow, follow, total_loss
from .forces import IntArray

__all__ = ["flow_untied"]

# Rows of `inputs` must be orthonormal as far as products of float64 numbers can tell.
_ROUNDING = 1e-10


def flow_untied(
    encoder0: npt.ArrayLike,
    decoder0: npt.ArrayLike,
    lam: float,
    t: npt.ArrayLike,
    *,
    decoder_lam: float = 0.0,
    weight_decay: float = 0.0,
    inputs: npt.ArrayLike | None = None,
    tol: float = 1e-6,
    steps: int = 50_000,
) -> Flow:
    r"""Gradient flow of the autoencoder y = ReLU(D E' x) whose encoder E and decoder D are separate.

    With the encodings :math:`E_i` (what the hidden layer shows for feature i) and :math:`g_{ji} = D_j \cdot
    E_i`,

    .. math:: dE_i/dt \in 1[g_{ii} > 0] (1 - g_{ii}) D_i - \sum_{j \ne i} \mathrm{ReLU}(g_{ji}) D_j
              - \lambda\, \mathrm{sign}(E_i) - \delta E_i

    and likewise for :math:`D_i`, with `decoder_lam` for lam: the source's loss with constants 2 dropped, so
    that equal E and D move as the tied weights of :func:`flow` do. A feature whose :math:`g_{ii}` is negative
    gives no output and learns nothing.

    Parameters
    ----------
    encoder0 : (n_inputs, n_hidden) array_like of float
        Initial encoder; for basis vectors as inputs row i is the encoding of feature i. Not modified.
    decoder0 : (n_features, n_hidden) array_like of float
        Initial decoder, row i reads out feature i. Not modified.
    lam, t : float, (n_times,) array_like of float
        As in :func:`flow`; the l1 force is on the hidden activations.
    decoder_lam : float, optional
        l1 strength on the decoder's weights. The source's loss has none.
    weight_decay : float, optional
        Strength :math:`\delta` of the l2 force on both.
    inputs : (n_features, n_inputs) array_like of float, optional
        Orthonormal inputs, row i is shown for feature i; by default the basis vectors.
    tol, steps : float, int, optional
        As in :func:`flow`.

    Returns
    -------
    Flow
        With the decoder in `W_out`.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, negative where it must not be, or `inputs` is not
        orthonormal.

    Notes
    -----
    The scheme and the error are those of :func:`flow`. Since the l1 force acts on activations, inputs enter
    only by a rotation of the encoder ("Basis vectors as inputs"): the flow is solved for the encodings and
    rotated back.

    References
    ----------
    Lecomte et al. (2024), App. A.

    Examples
    --------
    >>> result = flow_untied([[0.3, 0.2]], [[0.5, -0.1]], lam=0.01, t=[0, 5, 50])
    >>> result.cosine[:, 0].round(2)
    array([0.71, 1.  , 1.  ])
    """
    A, D = arguments.matrix("encoder0", encoder0), arguments.matrix("decoder0", decoder0)
    n, m = D.shape
    if A.shape[1] != m:
        raise ValueError(f"`encoder0` must have {m} columns as `decoder0` has; got shape {A.shape}.")
    Q = np.eye(n) if inputs is None else arguments.matrix("inputs", inputs, (n, A.shape[0]))
    if Q.shape[1] != A.shape[0]:
        raise ValueError(f"`encoder0` must have {Q.shape[1]} rows, one for each input; got shape {A.shape}.")
    gap = float(np.max(np.abs(Q @ Q.T - np.eye(n))))
    if gap > _ROUNDING:
        raise ValueError(f"`inputs` must have orthonormal rows; got products off by {gap:.2g}.")
    lam, decoder_lam = number("lam", lam, 0.0), number("decoder_lam", decoder_lam, 0.0)
    decay = number("weight_decay", weight_decay, 0.0)
    times = checked_times(t)
    tol = number("tol", tol, 1e-13, 0.1)
    most = min(arguments.integer("steps", steps, 1), 2**62)

    X = np.concatenate([Q @ A, D])  # encodings above, decodings below: one array for the steps
    strengths = np.repeat([lam, decoder_lam], n)

    def force(x: FloatArray, first: IntArray, rows: IntArray, work: FloatArray, out: FloatArray) -> None:
        X, F = x.reshape(2 * n, m), out.reshape(2 * n, m)
        G = X[n:] @ X[:n].T
        own = np.diagonal(G).copy()
        C = -np.maximum(G, 0.0)
        np.fill_diagonal(C, np.where(own > 0.0, 1.0 - own, 0.0))
        np.dot(C.T, X[n:], out=F[:n])
        np.dot(C, X[:n], out=F[n:])
        F -= decay * X

    def total(E: FloatArray, D: FloatArray) -> float:
        l1 = lam * float(np.sum(np.abs(E))) + decoder_lam * float(np.sum(np.abs(D)))
        return total_loss(E, D, l1 + 0.5 * decay * float(np.sum(np.square(X))), True, 0.5)

    found = follow(X, n, times, tol, most, strengths, force, total)
    # What the inputs do not reach stays as it was.
    return Flow(t=times, W=A + Q.T @ (X[:n] - Q @ A), W_out=X[n:], **found)
