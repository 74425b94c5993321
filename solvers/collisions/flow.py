"""The tied flow with interference: its result, its checks, many initialisations side by side."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import number
from .march import March, advance, free_force, start, tied_force
from .steps import NOT_FINITE, STEP_LIMIT, FloatArray, IntArray

__all__ = [
    "OWNED",
    "Flow",
    "checked_encodings",
    "checked_times",
    "explain",
    "flow",
    "owners",
    "polysemantic_neurons",
]

# A feature owns a neuron when its weight there is larger than this. Survivors end near 1, all others at 0.
OWNED = 0.5


@dataclass(frozen=True)
class Flow:
    """Weights and summaries of the flow with interference; see :func:`flow`.

    Shapes are those of one initialisation; with many, all arrays but `t` begin with the axis of the runs.
    Summaries at times that a run did not reach are nan, or -1 where they count.
    """

    t: FloatArray
    """Times asked for, shape (n_times,)."""
    W: FloatArray
    """Weights at the last time, shape (n_features, n_hidden); zeros are exact."""
    nonzeros: IntArray
    """Nonzero weights of each encoding, shape (n_times, n_features)."""
    l1_norm: FloatArray
    """Sums of absolute weights of each encoding, shape (n_times, n_features)."""
    l2_norm: FloatArray
    """Lengths of the encodings, shape (n_times, n_features)."""
    loss: FloatArray
    """Quarter of the source's loss: what the flow descends, summed over features, shape (n_times,)."""
    polysemantic: IntArray
    """Neurons on which two or more features have weights above the threshold, shape (n_times,)."""
    reached: FloatArray
    """Time that `W` belongs to: the last of `t` unless the run stopped early."""
    steps: IntArray
    """Steps that were kept."""
    rejected: IntArray
    """Steps that were made and taken back."""
    status: IntArray
    """0: all times reached; 1: `max_steps` used up; 2: the weights are not finite any more."""
    message: str
    """The same in words, and which runs ended with all weights zero."""


def owners(W: npt.ArrayLike, threshold: float = OWNED) -> tuple[IntArray, IntArray]:
    """Return the neuron on which each feature has its largest weight, and the sign it has there.

    Parameters
    ----------
    W : (..., n_features, n_hidden) array_like of float
        Encodings, row i is feature i.
    threshold : float, optional
        A feature whose largest absolute weight is not above it owns nothing: neuron -1, sign 0.

    Returns
    -------
    neuron, sign : (..., n_features) ndarrays of int

    Raises
    ------
    ValueError
        If `W` has fewer than two axes, is empty or not finite, or `threshold` is negative.

    Examples
    --------
    >>> owners([[0.0, -0.9], [0.2, 0.1]])
    (array([ 1, -1]), array([-1,  0]))
    """
    W = checked_encodings(W)
    low = _threshold(threshold)
    neuron = np.argmax(np.abs(W), axis=-1)
    top = np.take_along_axis(W, neuron[..., None], axis=-1)[..., 0]
    owned = np.abs(top) > low
    return np.where(owned, neuron, -1), np.where(owned, np.sign(top), 0.0).astype(np.int64)


def polysemantic_neurons(W: npt.ArrayLike, threshold: float = OWNED) -> IntArray:
    """Return how many neurons have two or more weights whose absolute values are above the threshold.

    Parameters
    ----------
    W : (..., n_features, n_hidden) array_like of float
        Encodings, row i is feature i.
    threshold : float, optional
        What counts as representing a feature.

    Raises
    ------
    ValueError
        If `W` has fewer than two axes, is empty or not finite, or `threshold` is negative.

    Examples
    --------
    >>> int(polysemantic_neurons([[1.0, 0.0], [-0.9, 0.1], [0.0, 0.8]]))
    1
    """
    W = checked_encodings(W)
    return np.asarray(
        np.sum(np.sum(np.abs(W) > _threshold(threshold), axis=-2) >= 2, axis=-1), dtype=np.int64
    )


def checked_encodings(W: npt.ArrayLike) -> FloatArray:
    """Return encodings as float64 after checking that they are finite and have at least two axes."""
    array = arguments.real("W", W)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(
            f"`W` must have shape (..., n_features, n_hidden), none of them 0; got {array.shape}."
        )
    return array


def _threshold(threshold: float) -> float:
    return number("threshold", threshold, 0.0)


def checked_times(t: npt.ArrayLike) -> FloatArray:
    """Return the times as a vector after checking that they are sorted and not negative."""
    times = arguments.vector("t", np.atleast_1d(arguments.real("t", t, 0.0)))
    fall = np.flatnonzero(np.diff(times) < 0)
    if fall.size:
        i = int(fall[0])
        raise ValueError(f"`t` must be sorted; got {times[i]:g} before {times[i + 1]:g}.")
    return times


def explain(marches: Sequence[March], dead: Sequence[bool]) -> str:
    """Return in words how runs ended."""
    runs = len(marches)
    parts = []
    for code, words in ((STEP_LIMIT, "the step limit was reached"), (NOT_FINITE, "no step was small enough")):
        stopped = [march for march in marches if march.code == code]
        if stopped:
            where = f"first at t = {stopped[0].t:g} with a step of {stopped[0].h:.2g}"
            parts.append(f"In {len(stopped)} of {runs} runs {words}, {where}.")
    if not parts:
        parts.append("All times were reached.")
    if any(dead):
        parts.append(
            f"In {sum(dead)} of {runs} runs all weights are zero at the end: "
            "lam is too large, or the weights began too small."
        )
    return " ".join(parts)


def _loss(W: FloatArray, lam: float, interference: bool) -> float:
    G = W @ W.T
    square = np.diagonal(G).copy()
    np.fill_diagonal(G, 0.0)
    overlaps = float(np.sum(np.square(np.maximum(G, 0.0)))) if interference else 0.0
    return 0.25 * (float(np.sum(np.square(1.0 - square))) + overlaps) + lam * float(np.sum(np.abs(W)))


def _run(
    W0: FloatArray,
    lam: float,
    t: FloatArray,
    interference: bool,
    rtol: float,
    threshold: float,
    max_steps: int,
) -> tuple[FloatArray, list[FloatArray], March]:
    W = np.array(W0, order="C")
    times, n = t.size, W.shape[0]
    counts = [np.full((times, n), -1.0), np.full((times, n), np.nan), np.full((times, n), np.nan)]
    totals = [np.full(times, np.nan), np.full(times, -1.0)]
    force = tied_force(n) if interference else free_force
    march = start(W, rtol)
    for i, until in enumerate(t):
        with np.errstate(over="ignore", invalid="ignore"):  # trial steps may overflow; they are not kept
            advance(W, force, lam, interference, march, float(until), rtol, max_steps)
        if not march.under_way:
            break
        counts[0][i] = np.count_nonzero(W, axis=1)
        counts[1][i] = np.sum(np.abs(W), axis=1)
        counts[2][i] = np.sqrt(np.einsum("ik,ik->i", W, W))
        totals[0][i] = _loss(W, lam, interference)
        totals[1][i] = polysemantic_neurons(W, threshold)
    return W, counts + totals, march


def flow(
    W0: npt.ArrayLike,
    lam: float,
    t: npt.ArrayLike,
    interference: bool = True,
    *,
    rtol: float = 1e-6,
    threshold: float = OWNED,
    workers: int = 1,
    max_steps: int = 10_000_000,
) -> Flow:
    r"""Gradient flow of all encodings under feature benefit, interference and the l1 force.

    .. math:: dW_i/dt \in (1 - |W_i|^2) W_i - \sum_{j \ne i} \mathrm{ReLU}(W_i \cdot W_j) W_j
              - \lambda\, \mathrm{sign}(W_i),

    in the normal form (constants 4 dropped: a loss with l1 strength 4 lam, time four times faster). The
    sign of zero is the interval [-1, 1]: a weight that reaches zero stays there, exactly, for as long as
    the smooth force on it is at most lam, and leaves when it is larger.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or many independent initialisations. Not modified.
    lam : float
        Strength of the l1 force, at least 0. From 2/sqrt(27) on everything dies, earlier if the weights are
        many.
    t : (n_times,) array_like of float
        Times at which summaries are wanted, sorted, not negative; one number is one time. Flow time, not
        steps.
    interference : bool, optional
        Without it each encoding moves alone, as in :func:`superposition.solvers.sparsification.solve`.
    rtol : float, optional
        Error allowed in each step, in (0, 0.1]: the Euclidean norm of any encoding's error beside its own
        norm, or beside 1 if that is larger.
    threshold : float, optional
        A neuron is polysemantic when two or more features have absolute weights above this there.
    workers : int, optional
        Threads that share the initialisations. The result does not depend on it. On top of this BLAS has
        threads of its own (OMP_NUM_THREADS).
    max_steps : int, optional
        Steps after which a run stops, with a status instead of an exception.

    Returns
    -------
    Flow
        Weights at the last time, and nonzero weights, norms, loss and polysemantic neurons at all times.

    Raises
    ------
    ValueError
        If `W0` has another number of axes, is empty or not finite, `t` is unsorted, negative, not finite or
        empty, `lam` or `threshold` is negative, `rtol` is outside (0, 0.1], or `workers` or `max_steps` is
        below 1.

    Notes
    -----
    Bogacki and Shampine's pair of orders 3 and 2 on frozen signs, with signs put right weight by weight
    inside each step: third order while no weight reaches or leaves zero and no overlap changes its sign,
    second order through such events (both measured in the tests). The error at a given time is 3 to 9 times
    `rtol` in the longest error vector of an encoding (measured for n = 32, m = 128, lam = 0.002, rtol from
    1e-4 to 1e-7); it is larger close to the moment when two nearly equal weights part, which every
    integrator feels. Which neuron a feature ends on is robust: the same for 640 features of 20 runs at rtol
    from 1e-3 to 1e-7 (n = 32, m = 64, lam = 0.003), so 1e-4 is enough for counts.

    A dense step costs three times the matrix products W W' and C W (3 n^2 m multiplications) and a fifth on
    top; when less than an eighth of the weights are left, a step costs what these weights cost.

    References
    ----------
    Lecomte et al. (2024), §2.3. The pair: Bogacki and Shampine, Appl. Math. Lett. 2 (1989) 321.

    Examples
    --------
    Two features that begin on the same neuron with the same sign; the one for which it matters more keeps it:

    >>> result = flow([[0.8, 0.1], [0.6, 0.5]], lam=0.01, t=[0, 10, 1000])
    >>> result.W.round(3)
    array([[0.995, 0.   ],
           [0.   , 0.995]])
    >>> result.nonzeros.tolist()
    [[2, 2], [2, 2], [1, 1]]

    With opposite signs they share it for ever:

    >>> int(flow([[0.8, 0.1], [-0.6, 0.2]], lam=0.01, t=1000).polysemantic[-1])
    1
    """
    W = arguments.real("W0", W0)
    if W.ndim not in (2, 3) or W.size == 0:
        raise ValueError(
            f"`W0` must have shape (n_features, n_hidden) or (runs, n_features, n_hidden); got {W.shape}."
        )
    lam = number("lam", lam, 0.0)
    times = checked_times(t)
    rtol = number("rtol", rtol, 0.0, 0.1, brackets="(]")
    threshold = _threshold(threshold)
    workers = arguments.integer("workers", workers, 1)
    max_steps = arguments.integer("max_steps", max_steps, 1)

    def run(one: FloatArray) -> tuple[FloatArray, list[FloatArray], March]:
        return _run(one, lam, times, bool(interference), rtol, threshold, max_steps)

    batch = W if W.ndim == 3 else W[None]
    if workers == 1:
        results = [run(one) for one in batch]
    else:
        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(run, batch))
    marches = [march for _, _, march in results]

    def joined(values: Sequence[npt.ArrayLike], dtype: type = float) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.array(values, dtype=dtype)
        return array if W.ndim == 3 else np.asarray(array[0])

    nonzeros, l1_norm, l2_norm, loss, polysemantic = zip(*(summary for _, summary, _ in results), strict=True)
    return Flow(
        t=times.copy(),
        W=joined([end for end, _, _ in results]),
        nonzeros=joined(nonzeros, int),
        l1_norm=joined(l1_norm),
        l2_norm=joined(l2_norm),
        loss=joined(loss),
        polysemantic=joined(polysemantic, int),
        reached=joined([march.t for march in marches]),
        steps=joined([march.steps for march in marches], int),
        rejected=joined([march.rejected for march in marches], int),
        status=joined([march.code for march in marches], int),
        message=explain(marches, [not end.any() for end, _, _ in results]),
    )
