"""Noisy gradient descent, many runs side by side; the same averaged over the noise, and its flow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.noise import noise_averaged_loss
from ...theory.noise.moments import given_kurtosis
from ..integrate import integrate
from ..results import Status, result
from ..threads import each
from .averaged import gradient_for
from .steps import KINDS, LONGEST, FloatArray, IntArray, longest, run_steps

__all__ = ["Descent", "checked_record", "checked_start", "descend", "descend_averaged", "flow"]

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
            if made < ahead or not longest(W) <= LONGEST:
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
    kind = KINDS[arguments.choice("noise", noise, tuple(KINDS))]
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
    threads = None if workers is None else arguments.integer("workers", workers, 1)

    def move(at: int, count: int) -> int:
        law = (generators[at], kind, kurtosis[at], std[at])
        return int(run_steps(W[at], *law, rate[at], l1[at], rows, draws, count))

    def descend_one(at: int) -> None:
        table.descend(at, W[at], l1[at], stops, move)

    each(descend_one, runs, threads)
    return table.descent(W0, 4.0 * rates[..., None] * wanted, W, 4.0 * rate * table.made)


def descend_averaged(
    W0: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    steps: int,
    *,
    excess_kurtosis: float | None = None,
    record: npt.ArrayLike | None = None,
    keep_weights: bool = False,
) -> Descent:
    r"""Gradient descent on the noise-averaged loss F: :func:`descend` without the noise of its gradient.

    .. math:: W \leftarrow W - \eta \nabla F(W)

    Parameters
    ----------
    W0, noise, noise_std, learning_rate, steps, excess_kurtosis, record, keep_weights
        As in :func:`descend`, with one number for all runs; `noise_std` is at most 1e30.

    Returns
    -------
    Descent
        Its `total` is without noise, for comparison; what is descended is
        :func:`superposition.theory.noise.noise_averaged_loss`.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of its range.

    Notes
    -----
    What :func:`descend` does to first order in the learning rate, and what it tends to with many `draws`.
    At n_features = 8, n_hidden = 16 a step takes well below 0.1 ms with normal noise, below 1 ms with
    bipolar and 50 ms with other noise. Bipolar noise costs n_features^2 2^(n_hidden/2) up to 40 hidden
    neurons. The gradients have the error of :func:`superposition.theory.noise.relu_moments`.

    Examples
    --------
    Descent with many draws scatters about it:

    >>> W0 = np.random.default_rng(0).normal(scale=0.5, size=(3, 4))
    >>> sure = descend_averaged(W0, "bipolar", 0.2, 0.02, 500)
    >>> many = descend(np.tile(W0, (100, 1, 1)), "bipolar", 0.2, 0.02, 500, rng=0, draws=20)
    >>> print(np.abs(many.W.mean(axis=0) - sure.W).max().round(3), many.W.std(axis=0).max().round(3))
    0.001 0.015
    """
    W = checked_start(W0)
    gradient = gradient_for(noise, noise_std, excess_kurtosis, W.shape[2])
    rate = arguments.number("learning_rate", learning_rate, 0.0, brackets="()")
    steps = arguments.integer("steps", steps, 0, MOST_STEPS)
    wanted = checked_record(record, steps)
    stops = np.union1d(wanted, steps)
    table = Table(W.shape, stops.size, arguments.flag("keep_weights", keep_weights))

    def move(run: int, count: int) -> int:
        for done in range(count):
            new = W[run] - rate * gradient(W[run])
            if not longest(new) <= LONGEST:
                return done
            W[run] = new
        return count

    with np.errstate(over="ignore", invalid="ignore"):  # in a step that is not made
        for run, w in enumerate(W):
            table.descend(run, w, 0.0, stops, move)
    return table.descent(W0, 4.0 * rate * wanted, W, 4.0 * rate * table.made)


def flow(
    W0: npt.ArrayLike,
    noise: str,
    noise_std: float,
    t: npt.ArrayLike,
    *,
    excess_kurtosis: float | None = None,
    tol: float = 1e-6,
    steps: int = 100_000,
) -> Descent:
    r"""Gradient flow of the noise-averaged loss: where noisy descent goes if its steps are small.

    .. math:: dW/dt = -\tfrac14 \nabla F(W)

    in the normal form of the sources: the printed loss has a factor 4 in its gradient, so that `steps` of
    :func:`descend` take the time ``t = 4 * learning_rate * steps``.

    Parameters
    ----------
    W0, noise, noise_std, excess_kurtosis
        As in :func:`descend`, for all runs the same. Without noise this is the flow of
        :func:`superposition.solvers.collisions.flow` with lam = 0.
    t : (n_times,) array_like of float
        Times at which weights are wanted, sorted, from 0 to 1e8; one number is one time.
    tol : float, optional
        Error allowed in each step, beside the largest weight or beside 1 if that is larger; from 1e-13 to
        0.01.
    steps : int, optional
        Steps after which a run stops, with a status instead of an exception.

    Returns
    -------
    Descent
        With the weights at all times in `path`; its `total` is averaged over the noise.

    Notes
    -----
    By :func:`superposition.solvers.integrate.integrate`. The force of noise on points has kinks, where the
    step control makes small steps. Rates are at most a few units, so that time t costs about 6 t gradients;
    see :func:`descend_averaged` for theirs.

    References
    ----------
    Lecomte et al. (2024), §3.1 and footnote 5.

    Examples
    --------
    >>> W0 = np.random.default_rng(0).normal(scale=0.25, size=(8, 16))
    >>> result = flow(W0, "normal", 0.15, [0, 100])
    >>> bool(result.total[1] < result.total[0]), result.path.shape
    (True, (2, 8, 16))
    """
    W = checked_start(W0)
    shape = W.shape[1:]
    gradient = gradient_for(noise, noise_std, excess_kurtosis, shape[1])
    times = arguments.real("t", t, 0.0, MOST_STEPS)
    tol, most = arguments.number("tol", tol, 1e-13, 1e-2), arguments.integer("steps", steps, 1)

    def velocity(_: float, w: FloatArray, __: FloatArray, out: FloatArray) -> None:
        here = w.reshape(shape)  # no step that meets a nan is kept
        out[:] = -0.25 * gradient(here).ravel() if longest(here) <= LONGEST else np.nan

    together = np.zeros(shape, np.int64)
    found = [integrate(velocity, one, times, group=together, rtol=tol, floor=1.0, steps=most) for one in W]
    times = found[0].t
    table, reached = Table(W.shape, times.size, True), np.zeros(len(W))
    for run, course in enumerate(found):
        table.made[run], table.status[run] = course.steps, course.status
        for i in np.flatnonzero(times <= course.reached):
            W[run], reached[run] = course.y[i], times[i]
            total = noise_averaged_loss(W[run], noise, noise_std, excess_kurtosis=excess_kurtosis)
            table.keep(run, int(i), W[run], total)
    return table.descent(W0, np.array(times), W, reached)
