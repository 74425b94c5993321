"""What the experiments on hidden noise share: first weights, shapes of encodings, descents, drawing."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.collisions.displaced import first_weights
from ....solvers.noise import Descent, descend, descend_averaged
from ....solvers.statistics import LEVEL
from ....theory import validation
from ....theory.validation import FloatArray
from ..drawing import draw_means

# Of descent on the averaged loss, whose rates are at most 8. With half of it fourth norms at n = 8, m = 16
# are the same to some 0.01 on average over starts, a few 0.01 for single ones where they rise fast.
LARGE_STEP = 0.1
NOISES = ("bipolar", "normal")
MOST_STEPS = 10**8  # of one descent
SPARSE = 0.5  # fourth norm that counts as sparse
BARS = f"bars are intervals of {LEVEL:.0%}."
FOURTH_NORM = "mean fourth norm $|W_i|_4^4$"
GREY = "0.5"


def draw_starts(n_features: int, n_hidden: int, runs: int, seed: int) -> FloatArray:
    """Return normal first weights (runs, n_features, n_hidden) of variance 1/n_hidden (Lecomte et al. 2024).

    Run r is drawn from `seed` and r, whatever the number of runs.
    """
    return first_weights(n_features, n_hidden, runs, 1.0, seed)


def inverse_participation(W: npt.ArrayLike) -> FloatArray:
    """Return |W_i|_4^4/|W_i|_2^4 of each encoding: it depends on direction, not on length.

    Encodings are along the last axis of W, which the result lacks.

    Examples
    --------
    >>> float(inverse_participation([0.5, -0.5]))
    0.5
    """
    weights = validation.real("W", W)
    largest = np.abs(weights).max(axis=-1, keepdims=True, initial=0.0) if weights.ndim else weights
    if weights.ndim == 0 or not np.all(largest > 0.0):
        raise ValueError(
            f"`W` must have encodings along its last axis, none of them 0; got {validation.short_repr(W)}."
        )
    weights = weights / largest
    return np.asarray(np.sum(weights**4, axis=-1) / np.sum(weights**2, axis=-1) ** 2)


def is_stuck(W: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return a mask of the encodings that stay spread while most others of their run are sparse.

    Encodings are (..., n_features, n_hidden), none of them 0. An encoding is sparse if |W_i|_4^4/|W_i|_2^4 is
    at least 1/2, the value for two equal weights; it is stuck if it is not sparse, while more than half of
    the encodings of its run are.

    Examples
    --------
    >>> is_stuck([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0.5, 0.5, 0.5, 0.5]])
    array([False, False,  True])
    """
    if np.ndim(W) < 2 or not np.size(W):
        raise ValueError(f"`W` must be matrices of encodings; got {validation.short_repr(W)}.")
    sparse = inverse_participation(W) >= SPARSE
    return np.asarray(~sparse & (sparse.mean(axis=-1, keepdims=True) > 0.5))


def descend_from(
    W0: FloatArray, noise: str, noise_std: float, learning_rate: float, time: float, rng: Any, **options: Any
) -> Descent:
    """Run noisy gradient descent from encodings W0, (n, m) or (runs, n, m); return a `Descent`.

    A `Descent` has the last weights, and norms on the way. There are round(`time`/`learning_rate`) steps.
    `noise` is its kind, such as "bipolar", `noise_std` its standard deviation, and `rng` draws it. `options`
    are further ones of `solvers.noise.descend`.
    """
    return descend(W0, noise, noise_std, learning_rate, round(time / learning_rate), rng, **options)


def follow_averaged_flow(W: FloatArray, noise_std: float, time: float) -> FloatArray:
    """Return encodings after gradient descent, by large steps, on the loss averaged over bipolar noise.

    The loss is the sum over one-hot inputs e_i of E |ReLU(W (W' e_i + noise)) - e_i|^2, with noise of
    standard deviation `noise_std`. W are first encodings, (n, m) or (runs, n, m); `time` is learning rate
    times steps.
    """
    return descend_averaged(W, "bipolar", noise_std, LARGE_STEP, round(time / LARGE_STEP)).W


def describe_sizes(ds: xr.Dataset) -> str:
    """Return n and m of `ds`, from a run of this subpackage, as text."""
    return f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}"


def draw_run_means(ax: Axes, x: xr.DataArray, values: xr.DataArray, **style: Any) -> None:
    """Draw means of `values` over ``run`` against x, with Student's intervals.

    `style` has options of `Axes.errorbar`.
    """
    draw_means(ax, x, values.transpose(..., "run"), **{"color": "C1", "markersize": 3.5} | style)
