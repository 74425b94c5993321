"""Separate encoder and decoder, orthogonal inputs: what tied weights and basis vectors leave out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import number
from .flow import checked_times, explain
from .march import dense_run, start
from .steps import FloatArray, IntArray

__all__ = ["UntiedFlow", "flow_untied"]

# Rows of `inputs` must be orthonormal as far as products of float64 numbers can tell.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class UntiedFlow:
    """Weights and summaries of the untied flow; see :func:`flow_untied`.

    Summaries at times that were not reached are nan, or -1 where they count.
    """

    t: FloatArray
    """Times asked for, shape (n_times,)."""
    encoder: FloatArray
    """Encoder at the last time, shape (n_inputs, n_hidden): an input x is encoded as x @ encoder."""
    decoder: FloatArray
    """Decoder at the last time, shape (n_features, n_hidden), row i reads out feature i."""
    response: FloatArray
    """Inner product of encoding and decoding of each feature, shape (n_times, n_features); 1 if learned."""
    cosine: FloatArray
    """The same divided by both lengths, nan where one is zero; 1 when the weights are tied up to a factor."""
    encoder_norm: FloatArray
    """Lengths of the encodings, shape (n_times, n_features)."""
    decoder_norm: FloatArray
    """Lengths of the decodings, shape (n_times, n_features)."""
    nonzeros: IntArray
    """Nonzero weights of each encoding, shape (n_times, n_features)."""
    loss: FloatArray
    """What the flow descends: half of the source's loss with untied weights, shape (n_times,)."""
    reached: float
    """Time that the weights belong to."""
    steps: int
    """Steps that were kept."""
    rejected: int
    """Steps that were made and taken back."""
    status: int
    """0: all times reached; 1: `max_steps` used up; 2: no step was small enough."""
    message: str
    """The same in words."""


def flow_untied(
    encoder0: npt.ArrayLike,
    decoder0: npt.ArrayLike,
    lam: float,
    t: npt.ArrayLike,
    *,
    decoder_lam: float = 0.0,
    weight_decay: float = 0.0,
    inputs: npt.ArrayLike | None = None,
    rtol: float = 1e-6,
    max_steps: int = 10_000_000,
) -> UntiedFlow:
    r"""Gradient flow of the autoencoder y = ReLU(D E' x) whose encoder E and decoder D are separate.

    With the encodings :math:`E_i` (what the hidden layer shows for feature i) and :math:`g_{ji} = D_j \cdot
    E_i`,

    .. math:: dE_i/dt \in 1[g_{ii} > 0] (1 - g_{ii}) D_i - \sum_{j \ne i} \mathrm{ReLU}(g_{ji}) D_j
              - \lambda\, \mathrm{sign}(E_i) - \delta E_i

    and likewise for :math:`D_i`, with `decoder_lam` for lam: the source's loss with constants 2 dropped, so
    that equal E and D move as the tied weights of :func:`flow` do (there the constant is 4, both halves
    adding up). In contrast to tied weights :math:`g_{ii}` can be negative; such a feature gives no output
    and learns nothing.

    Parameters
    ----------
    encoder0 : (n_inputs, n_hidden) array_like of float
        Initial encoder; for basis vectors as inputs row i is the encoding of feature i. Not modified.
    decoder0 : (n_features, n_hidden) array_like of float
        Initial decoder, row i reads out feature i. Not modified.
    lam : float
        l1 strength on the hidden activations, at least 0.
    t : (n_times,) array_like of float
        Times, sorted, not negative.
    decoder_lam : float, optional
        l1 strength on the decoder's weights. The source's loss has none.
    weight_decay : float, optional
        Strength :math:`\delta` of the l2 force on both.
    inputs : (n_features, n_inputs) array_like of float, optional
        Orthonormal inputs, row i is shown for feature i; by default the basis vectors.
    rtol : float, optional
        Error allowed in each step, as in :func:`flow`.
    max_steps : int, optional
        Steps after which the run stops, with a status instead of an exception.

    Returns
    -------
    UntiedFlow

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, negative where it must not be, or `inputs` is not
        orthonormal.

    Notes
    -----
    The same scheme as :func:`flow`, with its error, but dense steps only. Since the l1 force
    acts on activations, not on weights, inputs enter only by a rotation of the encoder (Lecomte et al.
    (2024), App. A, "Basis vectors as inputs"): the flow is solved for the encodings and rotated back.

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
    rtol = number("rtol", rtol, 0.0, 0.1, brackets="(]")
    max_steps = arguments.integer("max_steps", max_steps, 1)

    X = np.concatenate([Q @ A, D])  # encodings above, decodings below: one array for the steps
    strengths = np.repeat([lam, decoder_lam], n)

    def force(X: FloatArray, out: FloatArray) -> None:
        G = X[n:] @ X[:n].T
        own = np.diagonal(G).copy()
        C = -np.maximum(G, 0.0)
        np.fill_diagonal(C, np.where(own > 0.0, 1.0 - own, 0.0))
        np.dot(C.T, X[n:], out=out[:n])
        np.dot(C, X[:n], out=out[n:])
        out -= decay * X

    march = start(X, rtol)
    summaries = {
        name: np.full((times.size, n), np.nan) for name in ("response", "encoder_norm", "decoder_norm")
    }
    nonzeros, loss = np.full((times.size, n), -1), np.full(times.size, np.nan)
    for i, until in enumerate(times):
        with np.errstate(over="ignore", invalid="ignore"):  # trial steps may overflow; they are not kept
            dense_run(X, force, strengths, march, float(until), rtol, max_steps)
        if not march.under_way:
            break
        nonzeros[i] = np.count_nonzero(X[:n], axis=1)
        summaries["response"][i] = np.einsum("ik,ik->i", X[:n], X[n:])
        summaries["encoder_norm"][i], summaries["decoder_norm"][i] = np.split(np.linalg.norm(X, axis=1), 2)
        loss[i] = _loss(X, strengths, decay)
    size = summaries["encoder_norm"] * summaries["decoder_norm"]
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(size > 0.0, summaries["response"] / size, np.nan)
    # What the inputs do not reach stays as it was.
    encoder = A + Q.T @ (X[:n] - Q @ A)
    return UntiedFlow(
        t=times.copy(), encoder=encoder, decoder=X[n:].copy(), cosine=cosine, nonzeros=nonzeros, loss=loss,
        reached=march.t, steps=march.steps, rejected=march.rejected, status=march.code,
        message=explain([march], [not X.any()]), **summaries,
    )  # fmt: skip


def _loss(X: FloatArray, strengths: FloatArray, decay: float) -> float:
    n = X.shape[0] // 2
    output = np.maximum(X[n:] @ X[:n].T, 0.0)
    error = float(np.sum(np.square(output - np.eye(n))))
    l1 = float(np.dot(strengths, np.sum(np.abs(X), axis=1)))
    return 0.5 * error + l1 + 0.5 * decay * float(np.sum(np.square(X)))
