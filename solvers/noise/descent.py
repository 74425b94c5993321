"""Noisy gradient descent: its result, its checks, many runs side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.noise.moments import given_kurtosis
from ..results import Status, result
from . import steps as kernels
from .steps import FloatArray, IntArray

__all__ = ["Descent", "checked_record", "checked_start", "descend"]

LARGEST = 1e30  # entry of W0, and noise where it is averaged; fourth powers of both are formed

MOST_STEPS = 10**8  # of one call; the next can go on from its weights

Move = Callable[[int, int], int]
"""Makes so many steps of a run in place; returns how many it made before it left the range."""


@result
class Descent:
    """Weights and summaries of a descent; see :func:`descend`, :func:`descend_averaged` and :func:`flow`.

    Shapes are those of one run; with many, all arrays but `t` begin with the axis of the runs. What a run did
    not reach is nan.
    """

    t: FloatArray
    """Flow times of the summaries, shape (n_times,). A step takes the time 4 learning_rate; with one for each
    run the shape is (runs, n_times)."""
    W: FloatArray
    """Weights at the time `reached`, shape (n_features, n_hidden). Always finite."""
    path: FloatArray
    """Weights at the times `t`, shape (n_times, n_features, n_hidden); no times if not asked for."""
    fourth_norm: FloatArray
    """|W_i|_4^4, the sum of fourth powers of an encoding's weights, shape (n_times, n_features)."""
    l2_norm: FloatArray
    """|W_i|_2, lengths of the encodings, shape (n_times, n_features)."""
    total: FloatArray
    """The source's loss, a sum over inputs and outputs, shape (n_times,): of the descents without noise and
    with the l1 term, of the flow averaged over the noise."""
    reached: Any
    """Time that `W` belongs to."""
    steps: Any
    """Steps that were made."""
    status: Any
    """A `Status`; with many runs an array of them."""

    @property
    def neurons(self) -> FloatArray:
        """Participation ratio |W_i|_2^4 / |W_i|_4^4: over how many neurons an encoding is spread.

        Between 1 (one-hot) and n_hidden (flat); n_hidden/3 for a long random normal vector; nan for a zero
        encoding. Shape (n_times, n_features).
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self.l2_norm**4 / np.where(self.fourth_norm > 0.0, self.fourth_norm, np.nan))


class Table:
    """Room for the summaries of all runs at all stops."""

    def __init__(self, shape: tuple[int, ...], times: int, keep_weights: bool) -> None:
        runs, n, m = shape
        self.fourth, self.length = np.full((2, runs, times, n), np.nan)
        self.total = np.full((runs, times), np.nan)
        self.path = np.full((runs, times if keep_weights else 0, n, m), np.nan)
        self.made = np.zeros(runs, np.int64)
        self.status = np.full(runs, Status.REACHED)

    def keep(self, run: int, stop: int, W: FloatArray, total: float) -> None:
        """Keep the summaries of weights."""
        self.fourth[run, stop] = np.sum(W**4, axis=1)
        self.length[run, stop] = np.sqrt(np.sum(W**2, axis=1))
        self.total[run, stop] = total
        if self.path.shape[1]:
            self.path[run, stop] = W

    def descend(self, run: int, W: FloatArray, lam: float, stops: IntArray, move: Move) -> None:
        """Move a run's weights from stop to stop, until the end or until they are too long."""
        for stop, last in enumerate(stops):
            ahead = int(last - self.made[run])
            made = move(run, ahead)
            self.made[run] += made
            if made < ahead or not kernels.longest(W) <= kernels.LONGEST:
                self.status[run] = Status.DIVERGED
                return
            error = np.maximum(W @ W.T, 0.0) - np.eye(len(W))
            self.keep(run, stop, W, np.sum(error**2) + lam * np.sum(np.abs(W)))

    def descent(self, W0: npt.ArrayLike, t: Any, W: FloatArray, reached: Any) -> Descent:
        """Return the result, for one run where `W0` is one."""
        one: Any = 0 if np.ndim(W0) == 2 else slice(None)
        tables = (self.path, self.fourth, self.length, self.total)
        path, fourth, length, total = (table[:, : t.shape[-1]][one] for table in tables)
        return Descent(t, W[one], path, fourth, length, total, reached[one], self.made[one], self.status[one])


def checked_start(W0: npt.ArrayLike) -> FloatArray:
    """Return the start as a new array of shape (runs, n_features, n_hidden), after checking it."""
    W = arguments.real("W0", W0, -LARGEST, LARGEST)
    if W.ndim not in (2, 3) or W.size == 0:
        raise ValueError(
            f"`W0` must have shape (n_features, n_hidden) or (runs, n_features, n_hidden); got {W.shape}."
        )
    return np.array(W if W.ndim == 3 else W[None], order="C")


def checked_record(record: Any, steps: int) -> IntArray:
    """Return the steps to record, the last if none are given."""
    wanted = arguments.indices("record", steps if record is None else record, steps + 1)
    if np.any(np.diff(wanted) <= 0):
        raise ValueError(f"`record` must be increasing; got {wanted.tolist()}.")
    return wanted


def descend(
    W0: npt.ArrayLike,
    noise: str,
    noise_std: npt.ArrayLike,
    learning_rate: npt.ArrayLike,
    steps: int,
    rng: np.random.Generator | int | None = None,
    *,
    excess_kurtosis: npt.ArrayLike | None = None,
    shared: bool = False,
    lam: npt.ArrayLike = 0.0,
    draws: int = 1,
    record: npt.ArrayLike | None = None,
    keep_weights: bool = False,
    workers: int | None = None,
) -> Descent:
    r"""Gradient descent on a tied ReLU autoencoder with fresh noise in its hidden layer at every step.

    Each step shows all n_features inputs e_i once and moves by the gradient of the loss as it is printed,

    .. math:: W \leftarrow W - \eta \nabla_W \Bigl[\sum_i \|\mathrm{ReLU}(W (W^T e_i + \xi_i)) - e_i\|^2
              + \lambda \sum_i \|W_i\|_1\Bigr],

    a sum over inputs and outputs, not a mean; encoder and decoder are the same W and both carry gradient.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or many independent runs. Not modified.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Law of each component of the noise; all are symmetric, with excess kurtosis -2, -1.2, 0, 3.
        Three-point noise has the values -c, 0, c and the excess kurtosis that is asked for.
    noise_std : float or (runs,) array_like of float
        Standard deviation of each component, at least 0.
    learning_rate : float or (runs,) array_like of float
        Above 0. The flow of :func:`flow` has moved for the time 4 learning_rate after one step.
    steps : int
        Steps to make.
    rng : Generator or int, optional
        Each run draws from a child of its own (``Generator.spawn``): its noise depends on the seed and on its
        index alone.
    excess_kurtosis : float or (runs,) array_like of float, optional
        mu4/noise_std^4 - 3 of three-point noise, at least -2 (where it is bipolar); for no other noise.
    shared : bool, optional
        Whether all inputs of a step get the same noise vector, as in the authors' published code; fresh
        noise for each input if not. See the Notes.
    lam : float or (runs,) array_like of float, optional
        Strength of the l1 term of the printed loss, by the subgradient with sign(0) = 0. It is 4 times that
        of the normal form (footnote 5 of the paper).
    draws : int, optional
        Noise vectors for each input over which one step averages its gradient. More of them
        leave the mean gradient and shrink its noise, at a cost in proportion.
    record : increasing sequence of int, optional
        Steps at which to keep summaries, from 0 (the start) to `steps`; only the last if not given.
    keep_weights : bool, optional
        Whether to keep all weights at these steps, too.
    workers : int, optional
        Threads that share the runs, by default as many as Numba uses. The result does not depend on it.

    Returns
    -------
    Descent
        A run in which an encoding would become longer than 1e30 stops there with a status.

    Raises
    ------
    ValueError
        If an argument has another shape, is out of its range (entries of `W0` up to 1e30, `steps` up to 1e8,
        `draws` up to 1e6), missing or given in vain.

    Notes
    -----
    Shared or fresh noise makes no difference to the mean step: the gradient is a sum over inputs, each
    a function of its own noise only. What differs is the random part of a step, an effect of second order in
    the learning rate: shared noise makes the contributions of the inputs correlated. The authors' code shares
    one vector among all its parallel runs, too; here runs are always independent.

    A step at n_features = 8, n_hidden = 16 takes about a microsecond on one core, a run some 50 more. Cost
    grows as draws n_features^2 n_hidden; with hundreds of features matrix products are faster.

    References
    ----------
    Lecomte et al. (2024), §3.1, §4. The authors' code (github.com/kushalthaman/polysemanticity,
    project-code/experiments/fourth_norm.py) has n_features = 8, n_hidden = 16, normal weights of variance
    1/n_hidden, learning_rate = 0.02, 100000 steps, noise_std 0.07, 0.1, 0.15; the paper gives none of these.

    Examples
    --------
    Bipolar noise gathers encodings on few neurons, normal noise does not:

    >>> W0 = np.random.default_rng(0).normal(scale=0.25, size=(20, 8, 16))
    >>> for noise in "bipolar", "normal":
    ...     result = descend(W0, noise, 0.15, 0.05, 20_000, rng=1, record=[0, 20_000])
    ...     print(noise, result.neurons.mean(axis=(0, 2)).round(1))
    bipolar [6.6 1.9]
    normal [6.6 6.7]
    """
    W = checked_start(W0)
    runs, n, _ = W.shape
    kind = kernels.KINDS[arguments.choice("noise", noise, tuple(kernels.KINDS))]
    kurtosis = arguments.each("excess_kurtosis", given_kurtosis(noise, excess_kurtosis), runs)
    std = arguments.each("noise_std", arguments.real("noise_std", noise_std, 0.0), runs)
    rates = arguments.real("learning_rate", learning_rate, 0.0, brackets="()")
    rate = arguments.each("learning_rate", rates, runs)
    l1 = arguments.each("lam", arguments.real("lam", lam, 0.0), runs)
    rows = 1 if arguments.flag("shared", shared) else n
    steps, draws = (
        arguments.integer("steps", steps, 0, MOST_STEPS),
        arguments.integer("draws", draws, 1, 10**6),
    )
    wanted = checked_record(record, steps)
    stops = np.union1d(wanted, steps)
    table = Table(W.shape, stops.size, arguments.flag("keep_weights", keep_weights))
    generators = arguments.generator("rng", rng).spawn(runs)
    threads = numba.get_num_threads() if workers is None else arguments.integer("workers", workers, 1)

    def move(at: int, count: int) -> int:
        law = (generators[at], kind, kurtosis[at], std[at])
        return int(kernels.run(W[at], *law, rate[at], l1[at], rows, draws, count))

    def descend_one(at: int) -> None:
        table.descend(at, W[at], l1[at], stops, move)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(descend_one, range(runs)))
    return table.descent(W0, 4.0 * rates[..., None] * wanted, W, 4.0 * rate * table.made)
