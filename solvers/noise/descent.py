"""Noisy gradient descent, many runs side by side, and descent on the loss averaged over the noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.noise.moments import given_kurtosis, noise_law
from ...theory.noise.potential import loss_and_gradient
from ...theory.validation import FloatArray
from ..parallel import parallel_map
from ..results import Status, result
from .steps import KINDS, LONGEST, largest_squared_length, run_steps

__all__ = ["Descent", "descend", "descend_averaged"]

_LARGEST = 1e30  # entry of W0, and noise where it is averaged; fourth powers of both are formed
_MOST_STEPS = 10**8  # of one call; the next can go on from its weights


@result
class Descent:
    """Weights and summaries of a descent; see :func:`descend`. Steps that a run did not reach are nan.

    Shapes are those of one run; with many, all arrays but `t` have a first axis of runs.
    """

    t: FloatArray
    """Flow times of the summaries, shape (n_times,); (runs, n_times) with a learning rate for each run."""
    W: FloatArray
    """Weights at the time `t_end`, shape (n_features, n_hidden). Always finite."""
    path: FloatArray
    """Weights at the times `t`, (n_times, n_features, n_hidden); (0, ...) without `keep_weights`."""
    fourth_norm: FloatArray
    """|W_i|_4^4, the sum of fourth powers of an encoding's weights, shape (n_times, n_features)."""
    l2_norm: FloatArray
    """|W_i|_2, lengths of the encodings, shape (n_times, n_features)."""
    total: FloatArray
    """The source's loss without noise, with the l1 term, summed over inputs and outputs, shape (n_times,)."""
    t_end: Any
    """Time of `W`."""
    steps: Any
    """Steps that were made."""
    status: Any
    """A `Status`; with many runs an array of them."""

    @property
    def neurons(self) -> FloatArray:
        """Participation ratio |W_i|_2^4 / |W_i|_4^4, shape (n_times, n_features); nan for a zero encoding.

        It is 1 for one-hot encodings, n_hidden for flat ones, n_hidden/3 for long random normal ones.
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self.l2_norm**4 / np.where(self.fourth_norm > 0.0, self.fourth_norm, np.nan))


def _checked_start(W0: npt.ArrayLike) -> FloatArray:
    """Return `W0` as a new array (runs, n_features, n_hidden); raise a ValueError for other shapes."""
    W = validation.real("W0", W0, -_LARGEST, _LARGEST)
    if W.ndim not in (2, 3) or W.size == 0:
        raise ValueError(
            f"`W0` must have shape (n_features, n_hidden) or (runs, n_features, n_hidden); got {W.shape}."
        )
    return np.array(W if W.ndim == 3 else W[None], order="C")


def _run_descents(
    W: FloatArray,
    many: bool,
    rate: FloatArray,
    lam: FloatArray,
    steps: int,
    record: Any,
    keep_weights: bool,
    workers: int | None,
    move: Callable[[int, int], int],
) -> Descent:
    """Return the `Descent` of all runs from the weights W, (runs, n_features, n_hidden), changed in place.

    move(run, count) descends W[run] by `count` steps and returns how many it made: fewer if the run diverged.
    In all there are `steps`. Norms are recorded at the steps `record` (None: the last), and weights too if
    `keep_weights`. `rate` and `lam` are each run's learning rate and l1 strength; `workers` threads share the
    runs. The result's arrays have an axis of runs if `many`.
    """
    steps = validation.integer("steps", steps, 0, _MOST_STEPS)
    wanted = validation.indices("record", steps if record is None else record, steps + 1)
    if np.any(np.diff(wanted) <= 0):
        raise ValueError(f"`record` must be increasing; got {wanted.tolist()}.")
    stops = np.union1d(wanted, steps)
    runs, n, m = W.shape
    fourth, length = np.full((2, runs, stops.size, n), np.nan)
    total = np.full((runs, stops.size), np.nan)
    path = np.full((runs, stops.size * validation.flag("keep_weights", keep_weights), n, m), np.nan)
    n_steps, status = np.zeros(runs, np.int64), np.full(runs, Status.REACHED)

    def descend_one(run: int) -> None:
        """Descend one run to all recorded steps."""
        for stop, last in enumerate(stops):
            ahead = int(last - n_steps[run])
            done = move(run, ahead)
            n_steps[run] += done
            if done < ahead or not largest_squared_length(W[run]) <= LONGEST:
                status[run] = Status.DIVERGED
                return
            error = np.maximum(W[run] @ W[run].T, 0.0) - np.eye(n)
            total[run, stop] = np.sum(error**2) + lam[run] * np.sum(np.abs(W[run]))
            fourth[run, stop] = np.sum(W[run] ** 4, axis=1)
            length[run, stop] = np.sqrt(np.sum(W[run] ** 2, axis=1))
            path[run, stop : stop + 1] = W[run]

    parallel_map(descend_one, runs, workers)
    selection: Any = slice(None) if many else 0
    path, fourth, length, total = (
        table[:, : wanted.size][selection] for table in (path, fourth, length, total)
    )
    t, time_reached = 4.0 * rate[..., None] * wanted, (4.0 * rate * n_steps)[selection]
    return Descent(
        t, W[selection], path, fourth, length, total, time_reached, n_steps[selection], status[selection]
    )


def descend(
    W0: npt.ArrayLike, noise: str, noise_std: npt.ArrayLike, learning_rate: npt.ArrayLike, steps: int, rng:
    np.random.Generator | int | None = None, *, excess_kurtosis: npt.ArrayLike | None = None, shared_noise:
    bool = False, lam: npt.ArrayLike = 0.0, draws: int = 1, record: npt.ArrayLike | None = None, keep_weights:
    bool = False, workers: int | None = None,
) -> Descent:  # fmt: skip
    r"""Descend the loss of a tied ReLU autoencoder with fresh noise in its hidden layer at every step.

    Each step shows all n_features inputs e_i once and follows the gradient of the loss of Lecomte et al.
    (2024), §3.1, §4, and their code (github.com/kushalthaman/polysemanticity,
    project-code/experiments/fourth_norm.py),

    .. math:: W \leftarrow W - \eta \nabla_W \Bigl[\sum_i \|\mathrm{ReLU}(W (W^T e_i + \xi_i)) - e_i\|^2
              + \lambda \sum_i \|W_i\|_1\Bigr],

    a sum over inputs and outputs, not a mean; encoder and decoder are the same W and both carry gradient.
    Noise shared by all inputs does not change the mean step; it adds to the random part at second order in
    the learning rate. Cost grows as draws n_features^2 n_hidden; a step of 8 features and 16 neurons takes
    about a microsecond.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or many independent runs. Not modified.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Symmetric law of each component of the noise, with excess kurtosis -2, -1.2, 0, 3; "three-point" noise
        has the values -c, 0, c and the kurtosis that `excess_kurtosis` says.
    noise_std, learning_rate : float or (runs,) array_like of float
        Standard deviation of each component; size of the steps, above 0. In the sources' normal form of the
        flow, dW/dt = -1/4 of the gradient, a step takes the time 4 learning_rate.
    steps, draws : int
        Steps to make; noise vectors for each input over which one step averages its gradient.
    rng : Generator or int, optional
        A child of it (``Generator.spawn``) draws the noise of each run, which depends on seed and index
        alone.
    excess_kurtosis : float or (runs,) array_like of float, optional
        mu4/noise_std^4 - 3 of three-point noise, at least -2 (where it is bipolar); for no other noise.
    shared_noise : bool, optional
        Whether all inputs of a step get the same noise vector, as in the authors' published code.
    lam : float or (runs,) array_like of float, optional
        Strength of the l1 term in the formula above, 4 times that in the normal form; sign(0) = 0.
    record, keep_weights : increasing sequence of int, bool, optional
        Steps at which to keep summaries, from 0 (the start) to `steps`, only the last if not given; whether
        to keep all weights there, too.
    workers : int, optional
        Threads that share the runs, all of Numba's by default. The result does not depend on it.

    Returns
    -------
    Descent
        A run in which an encoding would become longer than 1e30 stops there with a status.

    Raises
    ------
    ValueError
        If an argument has another shape, is out of range, missing, or given where it has no effect.

    Examples
    --------
    Bipolar noise gathers encodings on few neurons, normal noise does not:

    >>> W0 = np.random.default_rng(0).normal(scale=0.25, size=(6, 8, 16))
    >>> for noise in "bipolar", "normal":
    ...     result = descend(W0, noise, 0.15, 0.05, 20_000, rng=1, record=[0, 20_000])
    ...     print(noise, result.neurons.mean(axis=(0, 2)).round(1))
    bipolar [6.4 1.9]
    normal [6.4 6.7]
    """
    W = _checked_start(W0)
    runs, n, _ = W.shape
    kind = KINDS[validation.choice("noise", noise, tuple(KINDS))]
    kurtosis = validation.numbers_or_repeat("excess_kurtosis", given_kurtosis(noise, excess_kurtosis), runs)
    std = validation.numbers_or_repeat("noise_std", validation.real("noise_std", noise_std, 0.0), runs)
    rates = validation.real("learning_rate", learning_rate, 0.0, brackets="()")
    rate = validation.numbers_or_repeat("learning_rate", rates, runs)
    l1 = validation.numbers_or_repeat("lam", validation.real("lam", lam, 0.0), runs)
    rows = 1 if validation.flag("shared_noise", shared_noise) else n
    draws = validation.integer("draws", draws, 1, 10**6)
    generators = validation.generator("rng", rng).spawn(runs)
    threads = None if workers is None else validation.integer("workers", workers, 1)

    def move(run: int, count: int) -> int:
        """Make up to `count` noisy steps of a run; return how many."""
        law = (generators[run], kind, kurtosis[run], std[run])
        return int(run_steps(W[run], *law, rate[run], l1[run], rows, draws, count))

    return _run_descents(W, np.ndim(W0) == 3, rates, l1, steps, record, keep_weights, threads, move)


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
    r"""Descend the noise-averaged loss F: :func:`descend` without the noise of its gradient.

    .. math:: W \leftarrow W - \eta \nabla F(W)

    To first order in the learning rate, these are the mean weights of :func:`descend`, which tends to them
    with many `draws`. Gradients have the error of :func:`superposition.theory.noise.relu_moments`. Bipolar
    noise costs n_features^2 2^(n_hidden/2) up to 40 hidden neurons.

    Errors are those of :func:`descend`. F is :func:`superposition.theory.noise.noise_averaged_loss`: the loss
    of one step, averaged over the noise in the hidden layer.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or many independent runs. Not modified.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Symmetric law of each component of the noise.
    noise_std, learning_rate : float
        Standard deviation of each component, at most 1e30; size :math:`\eta` of the steps, above 0.
    steps : int
        Steps to make.
    excess_kurtosis : float, optional
        mu4/noise_std^4 - 3 of three-point noise; for no other noise.
    record, keep_weights : increasing sequence of int, bool, optional
        Steps at which to keep summaries, only the last if not given; whether to keep all weights there, too.

    Returns
    -------
    Descent
        Its `total` is the loss without noise, not F.

    Examples
    --------
    >>> W0 = np.random.default_rng(0).normal(scale=0.5, size=(3, 4))
    >>> sure = descend_averaged(W0, "bipolar", 0.2, 0.02, 500)
    >>> many = descend(np.tile(W0, (100, 1, 1)), "bipolar", 0.2, 0.02, 500, rng=0, draws=20)
    >>> print(np.abs(many.W.mean(axis=0) - sure.W).max().round(3), many.W.std(axis=0).max().round(3))
    0.001 0.015
    """
    W = _checked_start(W0)
    law = noise_law(noise, noise_std, excess_kurtosis)
    rate = validation.number("learning_rate", learning_rate, 0.0, brackets="()")

    def move(run: int, count: int) -> int:
        """Make up to `count` steps of a run on the averaged loss; return how many."""
        with np.errstate(over="ignore", invalid="ignore"):  # in a step that is not made
            for done in range(count):
                new = W[run] - rate * loss_and_gradient(W[run], *law)[1]
                if not largest_squared_length(new) <= LONGEST:
                    return done
                W[run] = new
        return count

    none = np.zeros(len(W))
    return _run_descents(W, np.ndim(W0) == 3, np.asarray(rate), none, steps, record, keep_weights, 1, move)
