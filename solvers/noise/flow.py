"""Descent without randomness: gradient flow and gradient descent on the noise-averaged loss."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from ...theory import arguments
from ...theory.noise import noise_averaged_loss
from ..collisions.flow import checked_times
from .averaged import Gradient, gradient_for
from .descent import Descent, as_result, checked_record, checked_start
from .steps import DIVERGED, DONE, LONGEST, FloatArray, IntArray

__all__ = ["NoiseFlow", "descend_averaged", "flow"]


@dataclass(frozen=True)
class NoiseFlow:
    """Weights and summaries of the flow of the noise-averaged loss; see :func:`flow`.

    Shapes are those of one run; with many, all arrays but `t` begin with the axis of the runs. What a
    run did not reach is nan.
    """

    t: FloatArray
    """Times, shape (n_times,)."""
    W: FloatArray
    """Weights at these times, shape (n_times, n_features, n_hidden)."""
    fourth_norm: FloatArray
    """|W_i|_4^4 of each encoding, shape (n_times, n_features)."""
    l2_norm: FloatArray
    """Lengths of the encodings, shape (n_times, n_features)."""
    loss: FloatArray
    """The printed loss averaged over the noise, summed over inputs and outputs, shape (n_times,)."""
    evaluations: IntArray
    """Gradients that were computed."""
    status: IntArray
    """0: all times reached; 1: `max_evaluations` used up, or no step small enough."""
    message: str
    """The same in words."""


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
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings. Not modified.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Law of each component of the noise. Uniform and Laplace noise cost a hundred times as much.
    noise_std : float
        Standard deviation of each component of the noise, from 0 to 1e30.
    learning_rate : float
        Above 0.
    steps : int
        Steps to make.
    excess_kurtosis : float, optional
        Of three-point noise, at least -2.
    record : increasing sequence of int, optional
        Steps at which to keep summaries; only the last if not given.
    keep_weights : bool, optional
        Whether to keep all weights at these steps, too.

    Returns
    -------
    Descent
        As from :func:`descend`. Its `loss` is without noise, for comparison; what is descended is
        :func:`superposition.theory.noise.noise_averaged_loss`.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of its range.

    Notes
    -----
    What :func:`descend` does to first order in the learning rate, and what it tends to with many `draws`.
    At n_features = 8, n_hidden = 16 a step takes some 10 microseconds with normal noise, 0.2 ms with
    bipolar and 50 ms with other noise. Bipolar noise costs n_features^2 2^(n_hidden/2) up to 40 hidden
    neurons. The gradients have the error of :func:`superposition.theory.noise.relu_moments`.

    Examples
    --------
    Descent with many draws scatters about it:

    >>> from superposition.solvers.noise import descend
    >>> W0 = np.random.default_rng(0).normal(scale=0.5, size=(3, 4))
    >>> sure = descend_averaged(W0, "bipolar", 0.2, 0.02, 500)
    >>> many = descend(np.tile(W0, (100, 1, 1)), "bipolar", 0.2, 0.02, 500, rng=0, draws=20)
    >>> print(np.abs(many.W.mean(axis=0) - sure.W).max().round(3), many.W.std(axis=0).max().round(3))
    0.002 0.014
    """
    W = checked_start(W0)
    runs, n, m = W.shape
    gradient = gradient_for(noise, noise_std, excess_kurtosis, m)
    rate = arguments.number("learning_rate", learning_rate, 0.0, brackets="()")
    steps = arguments.integer("steps", steps, 0)
    wanted = checked_record(record, steps)
    stops = wanted if wanted[-1] == steps else np.append(wanted, steps)
    path = np.full((runs, stops.size, n, m), np.nan)
    done, codes = np.zeros((2, runs), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):  # in a step that is not made
        for run in range(runs):
            done[run], codes[run] = _descend(W[run], gradient, rate, stops, path[run])
    path = path[:, : wanted.size]
    fourth, length, losses = _summaries(path)
    if not keep_weights:
        path = path[:, :0]
    return as_result(W, wanted, fourth, length, losses, path, done, codes, np.ndim(W0) == 2)


def _descend(
    W: FloatArray, gradient: Gradient, rate: float, stops: IntArray, path: FloatArray
) -> tuple[int, int]:
    done, G = 0, np.empty_like(W)
    for stop, last in enumerate(stops):
        while done < last:
            gradient(W, G)
            new = W - rate * G
            if not np.max(np.abs(new)) <= LONGEST**0.5:
                return done, DIVERGED
            W[:] = new
            done += 1
        path[stop] = W
    return done, DONE


def _summaries(path: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return fourth norms, lengths and losses without noise of weights of shape (..., n, m)."""
    squares = np.square(path)
    outputs = np.maximum(path @ path.swapaxes(-1, -2), 0.0)  # NaN stays NaN
    error = np.square(outputs - np.eye(path.shape[-2]))
    return np.square(squares).sum(axis=-1), np.sqrt(squares.sum(axis=-1)), error.sum(axis=(-1, -2))


def flow(
    W0: npt.ArrayLike,
    noise: str,
    noise_std: float,
    t: npt.ArrayLike,
    *,
    excess_kurtosis: float | None = None,
    rtol: float = 1e-6,
    max_evaluations: int = 1_000_000,
) -> NoiseFlow:
    r"""Gradient flow of the noise-averaged loss: where noisy descent goes if its steps are small.

    .. math:: dW/dt = -\tfrac14 \nabla F(W)

    in the normal form of the sources: the printed loss has a factor 4 in its gradient, so that `steps` of
    :func:`descend` take the time ``t = 4 * learning_rate * steps``.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings. Not modified.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Law of each component of the noise. Uniform and Laplace noise cost a hundred times as much.
    noise_std : float
        Standard deviation of each component of the noise, from 0 to 1e30. At 0 this is the flow of
        :func:`superposition.solvers.collisions.flow` with lam = 0.
    t : (n_times,) array_like of float
        Times at which weights are wanted, sorted, not negative; one number is one time.
    excess_kurtosis : float, optional
        Of three-point noise, at least -2.
    rtol : float, optional
        Error allowed in each step, relative to a weight or to 1 if that is larger; in (0, 0.1].
    max_evaluations : int, optional
        Gradients after which a run stops, with a status instead of an exception.

    Returns
    -------
    NoiseFlow
        Weights, fourth norms, lengths and the noise-averaged loss at all times.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of its range.

    Notes
    -----
    Dormand and Prince's pair of orders 5 and 4 (``scipy.integrate.solve_ivp``). The force of noise on points
    has kinks, where the step control makes small steps. Rates are at most a few units, so that time t costs
    about 6 t gradients; see :func:`descend_averaged` for theirs.

    References
    ----------
    Lecomte et al. (2024), §3.1 and footnote 5.

    Examples
    --------
    >>> W0 = np.random.default_rng(0).normal(scale=0.25, size=(8, 16))
    >>> result = flow(W0, "normal", 0.15, [0, 100])
    >>> bool(result.loss[1] < result.loss[0]), result.W.shape
    (True, (2, 8, 16))
    """
    W = checked_start(W0)
    shape = W.shape[1:]
    gradient = gradient_for(noise, noise_std, excess_kurtosis, shape[1])
    times = checked_times(t)
    rtol = arguments.number("rtol", rtol, 0.0, 0.1, brackets="(]")
    most = arguments.integer("max_evaluations", max_evaluations, 1)
    G = np.empty(shape)
    made = 0

    def velocity(_: float, w: FloatArray) -> FloatArray:
        nonlocal made
        made += 1
        if made > most or not np.max(np.abs(w)) <= LONGEST**0.5:  # no step that meets nan is kept
            return np.full(w.shape, np.nan)
        gradient(w.reshape(shape), G)
        return -0.25 * G.ravel()

    path = np.full((W.shape[0], times.size, *shape), np.nan)
    averages = np.full(path.shape[:2], np.nan)
    evaluations, codes = np.zeros((2, W.shape[0]), dtype=np.int64)
    later = np.unique(times[times > 0.0])
    for run, start in enumerate(W):
        states, made = {0.0: start.ravel()}, 0
        if later.size:
            with np.errstate(over="ignore", invalid="ignore"):  # in trial steps
                found = solve_ivp(
                    velocity, (0.0, later[-1]), start.ravel(), "RK45", t_eval=later, rtol=rtol, atol=rtol
                )
            states |= zip(found.t, np.transpose(found.y), strict=True)
            evaluations[run], codes[run] = min(made, most), found.status != 0
        for i, time in enumerate(times):
            if time in states:
                path[run, i] = states[time].reshape(shape)
                averages[run, i] = noise_averaged_loss(
                    path[run, i], noise, noise_std, excess_kurtosis=excess_kurtosis
                )
    fourth, length, _ = _summaries(path)
    stopped = int(codes.sum())
    message = (
        f"In {stopped} of {codes.size} runs {most} gradients were not enough, or no step small enough."
        if stopped
        else "All times were reached."
    )
    which: Any = 0 if np.ndim(W0) == 2 else slice(None)
    return NoiseFlow(
        t=times.copy(),
        W=path[which],
        fourth_norm=fourth[which],
        l2_norm=length[which],
        loss=averages[which],
        evaluations=np.asarray(evaluations[which]),
        status=np.asarray(codes[which]),
        message=message,
    )
