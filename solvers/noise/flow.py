"""Descent without randomness: gradient flow and gradient descent on the noise-averaged loss."""

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.noise import noise_averaged_loss
from ..integrate import integrate
from .averaged import gradient_for
from .descent import MOST_STEPS, Descent, Table, checked_record, checked_start
from .steps import LONGEST, FloatArray, longest

__all__ = ["descend_averaged", "flow"]


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

    >>> from superposition.solvers.noise import descend
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
        As in :func:`descend_averaged`. Without noise this is the flow of
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
