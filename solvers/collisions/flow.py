"""The flow with interference, tied or not, of many initialisations side by side."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.validation import FloatArray, IntArray, number
from ..flow.explicit import checked_times
from ..flow.inclusion import Force, Progress, advance
from ..parallel import parallel_map
from ..results import result
from .counts import ON
from .forces import free_force, free_listed, tied_force, tied_listed

__all__ = ["Flow", "checked_encodings", "flow", "flow_untied", "owners"]

# The fastest late rate is the radial one, -2, where the pair of the steps is stable up to 2.51. A cap of 1.2
# keeps long quiet phases quiet.
LONGEST_STEP = 1.2
_ROUNDING = 1e-10  # rows of `inputs` must be orthonormal as far as products of float64 numbers can tell


@result
class Flow:
    """Weights and summaries of the flow with interference; see :func:`flow` and :func:`flow_untied`.

    Shapes are those of one initialisation; with many, all arrays but `t` have a first axis of runs. Summaries
    at times not reached are nan, or -1 if integers; those too large for doubles are inf. `steps` and
    `rejected` count accepted and rejected steps; `status` is a `Status`, or an array of them with many runs.
    """

    t: FloatArray
    """Times of the summaries, shape (n_times,)."""
    W: FloatArray
    """Encodings at the time `t_end`, shape (n_features, n_hidden); zeros are exact.

    With `inputs` they are the encoder, shape (n_inputs, n_hidden): x is encoded as x @ W.
    """
    W_out: FloatArray
    """Decodings at `t_end`, shape (n_features, n_hidden), row i for feature i; equal to `W` if tied."""
    nonzeros: IntArray
    """Nonzero weights of each encoding, shape (n_times, n_features)."""
    l1_norm: FloatArray
    """Sums of absolute weights of each encoding, shape (n_times, n_features)."""
    l2_norm: FloatArray
    """Lengths of the encodings, shape (n_times, n_features)."""
    out_norm: FloatArray
    """Lengths of the decodings, shape (n_times, n_features)."""
    response: FloatArray
    """Inner product of encoding and decoding of each feature, shape (n_times, n_features); 1 if learned."""
    total: FloatArray
    """Function that the flow descends, shape (n_times,): the source's loss over 4, or over 2 if untied."""
    polysemantic: IntArray
    """Neurons on which two or more encodings have weights above the threshold, shape (n_times,)."""
    t_end: Any
    """Time that the weights belong to: the last of `t` unless the run stopped early."""
    steps: Any
    rejected: Any
    status: Any

    @property
    def message(self) -> str:
        """Sentences: how the runs ended, and in how many of them all weights are zero."""
        ends = np.ravel(np.asarray(self.status, dtype=object))
        words = [str(fromkey.value) for fromkey in dict.fromkeys(ends)]
        dead = np.count_nonzero(~np.any(self.W, axis=(-2, -1)))
        if dead:
            words.append(
                f"In {dead} of {ends.size} runs all weights are zero at the end: "
                "lam is too large, or the weights began too small."
            )
        return " ".join(words)

    @property
    def cosine(self) -> FloatArray:
        """Cosine of each feature's encoding and decoding, (n_times, n_features); nan where one is zero.

        With many runs the shape is (runs, n_times, n_features).
        """
        size = self.l2_norm * self.out_norm
        return np.divide(self.response, size, out=np.full_like(size, np.nan), where=size > 0.0)


def owners(W: npt.ArrayLike, threshold: float = ON) -> tuple[IntArray, IntArray]:
    """Return the neuron on which each feature has its largest weight, and the sign it has there.

    Parameters
    ----------
    W : (..., n_features, n_hidden) array_like of float
        Encodings, row i is feature i.
    threshold : float, optional
        A feature whose largest absolute weight is not above this gets neuron -1 and sign 0.

    Returns
    -------
    neuron, sign : (..., n_features) ndarrays of int

    Examples
    --------
    >>> owners([[0.0, -0.9], [0.2, 0.1]])
    (array([ 1, -1]), array([-1,  0]))
    """
    W = checked_encodings(W)
    low = number("threshold", threshold, 0.0)
    neuron = np.argmax(np.abs(W), axis=-1)
    top = np.take_along_axis(W, neuron[..., None], axis=-1)[..., 0]
    owned = np.abs(top) > low
    return np.where(owned, neuron, -1), np.where(owned, np.sign(top), 0.0).astype(np.int64)


def checked_encodings(W: npt.ArrayLike) -> FloatArray:
    """Return encodings as float64; raise a ValueError unless they are finite and have at least two axes."""
    array = validation.real("W", W)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(
            f"`W` must have shape (..., n_features, n_hidden), none of them 0; got {array.shape}."
        )
    return array


def _total_loss(E: FloatArray, D: FloatArray, penalty: float, interference: bool, share: float) -> float:
    """Return `share` times the squared error of ReLU(D E' x) on all one-hot inputs x, plus `penalty`.

    Without `interference` only each feature's own output counts.
    """
    output = np.maximum(D @ E.T, 0.0)
    if not interference:
        output *= np.eye(len(E))
    return share * float(np.sum(np.square(output - np.eye(len(E))))) + penalty


@np.errstate(over="ignore", invalid="ignore")  # the status says what overflows at the start
def _integrate(
    X: FloatArray,
    n: int,
    t: FloatArray,
    tol: float,
    most: int,
    lam: FloatArray,
    force: Force,
    total: Callable[[FloatArray, FloatArray], float],
    threshold: float = ON,
    **advance_options: Any,
) -> dict[str, Any]:
    """Integrate X in place through the times t, and return a dict of the fields of `Flow` but t, W and W_out.

    Encodings E are the first n rows of X, decodings D the last n (the same rows if X is (n, n_hidden)). `tol`
    is the error allowed in a step, `most` the largest number of steps, `lam` the l1 strength of each row of
    X. `force` writes the smooth force on X (see `flow.inclusion.advance`, to which the `advance_options`
    `listed` and `wakes` are passed). total(E, D) is the function that the flow descends; weights above
    `threshold` count for the field `polysemantic`.
    """
    E, D = X[:n], X[-n:]
    rows = {name: np.full((t.size, n), np.nan) for name in ("l1_norm", "l2_norm", "out_norm", "response")}
    nonzeros, polysemantic = np.full((t.size, n), -1), np.full(t.size, -1)
    totals = np.full(t.size, np.nan)
    # The rates of the force are about 1 + 4 |W|^2, |W| the longest encoding.
    longest = float(np.max(np.einsum("ik,ik->i", X, X)))
    at = Progress(min(tol ** (1 / 3) / (1.0 + 4.0 * longest), LONGEST_STEP), tol, most, LONGEST_STEP)
    for i, t_end in enumerate(t):
        advance(X, float(t_end), at, lam, force, **advance_options)
        if not at.status.good:
            break
        nonzeros[i] = np.count_nonzero(E, axis=1)
        rows["l1_norm"][i] = np.sum(np.abs(E), axis=1)
        rows["l2_norm"][i], rows["out_norm"][i] = np.linalg.norm(E, axis=1), np.linalg.norm(D, axis=1)
        rows["response"][i] = np.einsum("ik,ik->i", E, D)
        totals[i] = total(E, D)
        polysemantic[i] = np.count_nonzero(np.sum(np.abs(E) > threshold, axis=0) >= 2)
    ends = {"t_end": at.t, "steps": at.steps, "rejected": at.rejected, "status": at.status}
    return {**rows, "nonzeros": nonzeros, "polysemantic": polysemantic, "total": totals, **ends}


def flow(
    W0: npt.ArrayLike,
    lam: float,
    t: npt.ArrayLike,
    interference: bool = True,
    *,
    tol: float = 1e-6,
    threshold: float = ON,
    workers: int = 1,
    steps: int = 1_000_000,
) -> Flow:
    r"""Integrate the flow of encodings: feature benefit, interference, l1 force (Lecomte et al. 2024, §2.3).

    .. math:: dW_i/dt \in (1 - |W_i|^2) W_i - \sum_{j \ne i} \mathrm{ReLU}(W_i \cdot W_j) W_j
              - \lambda\, \mathrm{sign}(W_i),

    in the normal form (constants 4 dropped: a loss with l1 strength 4 lam, time four times faster). A weight
    that reaches zero stays there, exactly, while the smooth force on it is at most lam.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or many independent initialisations. Not modified.
    lam : float
        Strength of the l1 force, at least 0. From 2/sqrt(27) on all weights go to 0.
    t : (n_times,) array_like of float
        Flow times of the summaries, sorted, not negative; one number is one time.
    interference : bool, optional
        Without it each encoding moves alone, as in `solvers.sparsification.solve`.
    tol : float, optional
        Error allowed in each step, from 1e-13 to 0.1: the length of any encoding's error over the larger of
        its own length and 1.
    threshold : float, optional
        A neuron is polysemantic when two or more features have absolute weights above this there.
    workers, steps : int, optional
        Threads that share the initialisations; steps after which a run stops with a status.

    Returns
    -------
    Flow
        The steps are of third order, and of second order where a weight reaches or leaves zero or an overlap
        changes its sign. Errors are below 10 times `tol`, times the factor by which the flow amplifies a
        deviation, which is large when two nearly equal weights part. A `tol` of 1e-4 is enough for counts.

    Examples
    --------
    Of two features that begin on one neuron with the same sign one keeps it:

    >>> result = flow([[0.8, 0.1], [0.6, 0.5]], lam=0.01, t=[0, 10, 1000])
    >>> result.W.round(3)
    array([[0.995, 0.   ],
           [0.   , 0.995]])
    >>> result.nonzeros.tolist()
    [[2, 2], [2, 2], [1, 1]]

    1
    """
    W = validation.real("W0", W0)
    if W.ndim not in (2, 3) or W.size == 0:
        rule = "(n_features, n_hidden) or (runs, n_features, n_hidden)"
        raise ValueError(f"`W0` must have shape {rule}; got {W.shape}.")
    lam, times = number("lam", lam, 0.0), checked_times(t)
    interference = validation.flag("interference", interference)
    tol = number("tol", tol, 1e-13, 0.1)
    threshold = number("threshold", threshold, 0.0)
    workers = validation.integer("workers", workers, 1)
    most = min(validation.integer("steps", steps, 1), 2**62)

    n = W.shape[-2]
    force, listed = (tied_force, tied_listed) if interference else (free_force, free_listed)
    lists = {"listed": listed, "wakes": interference} if lam > 0.0 else {}

    def run(W_run: FloatArray) -> dict[str, Any]:
        """Return the fields of `Flow` of one initialisation."""
        end, strengths = np.array(W_run, order="C"), np.full(n, lam)

        def total(E: FloatArray, D: FloatArray) -> float:
            """Return the loss of encodings E and decodings D."""
            return _total_loss(E, D, lam * float(np.sum(np.abs(E))), interference, 0.25)

        trajectory = _integrate(end, n, times, tol, most, strengths, force, total, threshold, **lists)
        return {"W": end, "W_out": end, **trajectory}

    if W.ndim == 2:
        return Flow(t=times, **run(W))
    results = parallel_map(lambda at: run(W[at]), W.shape[0], workers)
    return Flow(t=times, **{name: np.array([W_run[name] for W_run in results]) for name in results[0]})


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
    r"""Integrate the gradient flow of the autoencoder y = ReLU(D E' x), encoder E and decoder D separate.

    With the encodings :math:`E_i` and :math:`g_{ji} = D_j \cdot E_i`,

    .. math:: dE_i/dt \in 1[g_{ii} > 0] (1 - g_{ii}) D_i - \sum_{j \ne i} \mathrm{ReLU}(g_{ji}) D_j
              - \lambda\, \mathrm{sign}(E_i) - \delta E_i

    and likewise for :math:`D_i`, with `decoder_lam` for lam: the source's loss with constants 2 dropped, so
    that equal E and D move as in :func:`flow`. A feature with :math:`g_{ii} < 0` learns nothing. Scheme and
    error are those of :func:`flow`. The l1 force acts on hidden activations, so `inputs` only rotate the
    encoder: the flow is solved for the encodings and rotated back (Lecomte et al. 2024, App. A, "Basis
    vectors as inputs").

    Parameters
    ----------
    encoder0, decoder0 : (n_inputs, n_hidden), (n_features, n_hidden) array_like of float
        Initial weights; row i of the decoder reads out feature i. Not modified.
    lam : float
        Strength of the l1 force on the hidden activations, at least 0.
    t : (n_times,) array_like of float
        Flow times of the summaries, sorted, not negative; one number is one time.
    tol, steps : float, int, optional
        Error allowed in each step, from 1e-13 to 0.1: the length of any row's error over the larger of its
        own length and 1; steps after which the run stops with a status. Errors are those of :func:`flow`.
    decoder_lam, weight_decay : float, optional
        l1 strength on the decoder's weights (the source has none), l2 strength :math:`\delta` on all.
    inputs : (n_features, n_inputs) array_like of float, optional
        Orthonormal inputs, row i is the input of feature i; by default the basis vectors.

    Returns
    -------
    Flow
        `W` is the encoder at the end, `W_out` the decoder.

    Examples
    --------
    >>> result = flow_untied([[0.3, 0.2]], [[0.5, -0.1]], lam=0.01, t=[0, 5, 50])
    >>> result.cosine[:, 0].round(2)
    array([0.71, 1.  , 1.  ])
    """
    A, D = validation.matrix("encoder0", encoder0), validation.matrix("decoder0", decoder0)
    n, m = D.shape
    if A.shape[1] != m:
        raise ValueError(f"`encoder0` must have {m} columns as `decoder0` has; got shape {A.shape}.")
    Q = np.eye(n) if inputs is None else validation.matrix("inputs", inputs, (n, A.shape[0]))
    if Q.shape[1] != A.shape[0]:
        raise ValueError(f"`encoder0` must have {Q.shape[1]} rows, one for each input; got shape {A.shape}.")
    gap = float(np.max(np.abs(Q @ Q.T - np.eye(n))))
    if gap > _ROUNDING:
        raise ValueError(f"`inputs` must have orthonormal rows; got products off by {gap:.2g}.")
    lam, decoder_lam = number("lam", lam, 0.0), number("decoder_lam", decoder_lam, 0.0)
    decay = number("weight_decay", weight_decay, 0.0)
    times = checked_times(t)
    tol = number("tol", tol, 1e-13, 0.1)
    most = min(validation.integer("steps", steps, 1), 2**62)

    X = np.concatenate([Q @ A, D])  # encodings above, decodings below: one array for the steps
    strengths = np.repeat([lam, decoder_lam], n)

    def force(x: FloatArray, first: IntArray, rows: IntArray, work: FloatArray, out: FloatArray) -> None:
        """Write the smooth force on encodings and decodings x to `out`; other arguments are not used."""
        X, F = x.reshape(2 * n, m), out.reshape(2 * n, m)
        G = X[n:] @ X[:n].T
        diagonal = np.diagonal(G).copy()
        C = -np.maximum(G, 0.0)
        np.fill_diagonal(C, np.where(diagonal > 0.0, 1.0 - diagonal, 0.0))
        np.dot(C.T, X[n:], out=F[:n])
        np.dot(C, X[:n], out=F[n:])
        F -= decay * X

    def total(E: FloatArray, D: FloatArray) -> float:
        """Return the loss of encodings E and decodings D."""
        l1 = lam * float(np.sum(np.abs(E))) + decoder_lam * float(np.sum(np.abs(D)))
        return _total_loss(E, D, l1 + 0.5 * decay * float(np.sum(np.square(X))), True, 0.5)

    trajectory = _integrate(X, n, times, tol, most, strengths, force, total)
    # What the inputs do not reach stays as it was.
    return Flow(t=times, W=A + Q.T @ (X[:n] - Q @ A), W_out=X[n:], **trajectory)
