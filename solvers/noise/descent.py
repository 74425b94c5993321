"""Noisy gradient descent: its result, its checks, many runs side by side."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from .steps import (
    BIPOLAR,
    DIVERGED,
    LAPLACE,
    NORMAL,
    THREE_POINT,
    UNIFORM,
    FloatArray,
    IntArray,
    Words,
    run_all,
)

__all__ = ["KINDS", "Descent", "as_result", "checked_record", "checked_start", "descend"]

LARGEST = 1e30  # entry of W0, and noise where it is averaged; fourth powers of both are formed

Seed = np.random.Generator | int | None

KINDS = {
    "bipolar": BIPOLAR,
    "uniform": UNIFORM,
    "normal": NORMAL,
    "laplace": LAPLACE,
    "three-point": THREE_POINT,
}


@dataclass(frozen=True)
class Descent:
    """Weights and summaries of gradient descent; see :func:`descend`.

    Shapes are those of one run; with many, all arrays but `record` begin with the axis of the runs.
    Summaries at steps that a run did not reach are nan.
    """

    record: IntArray
    """Steps to which the summaries belong, shape (n_records,). Step 0 is the start."""
    W: FloatArray
    """Weights at the last step, shape (n_features, n_hidden). If the run diverged, the last ones that are
    not too long; always finite."""
    fourth_norm: FloatArray
    """|W_i|_4^4, the sum of fourth powers of an encoding's weights, shape (n_records, n_features)."""
    l2_norm: FloatArray
    """|W_i|_2, lengths of the encodings, shape (n_records, n_features)."""
    loss: FloatArray
    """The loss without noise, summed over inputs and outputs, with the l1 term; shape (n_records,)."""
    path: FloatArray
    """Weights at the recorded steps, shape (n_records, n_features, n_hidden); no records if not asked for."""
    steps: IntArray
    """Steps that were made."""
    status: IntArray
    """0: all steps were made; 1: stopped, because the next step would make an encoding longer than 1e30."""
    message: str
    """The same in words."""

    @property
    def neurons(self) -> FloatArray:
        """Participation ratio |W_i|_2^4 / |W_i|_4^4: over how many neurons an encoding is spread.

        Between 1 (one-hot) and n_hidden (flat); n_hidden/3 for a long random normal vector; nan for a zero
        encoding. Shape (n_records, n_features).
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self.l2_norm**4 / np.where(self.fourth_norm > 0.0, self.fourth_norm, np.nan))


def checked_start(W0: npt.ArrayLike) -> FloatArray:
    """Return the start as a new array of shape (runs, n_features, n_hidden), after checking it."""
    W = arguments.real("W0", W0, -LARGEST, LARGEST)
    if W.ndim not in (2, 3) or W.size == 0:
        raise ValueError(
            f"`W0` must have shape (n_features, n_hidden) or (runs, n_features, n_hidden); got {W.shape}."
        )
    return np.array(W if W.ndim == 3 else W[None], order="C")


def checked_record(record: Any, steps: int) -> IntArray:
    """Return the steps to record, sorted and none of them twice, as integers."""
    if record is None:
        return np.array([steps])
    wanted = [arguments.integer("record", step, 0, steps) for step in np.atleast_1d(np.asarray(record))]
    if not wanted or any(b <= a for a, b in itertools.pairwise(wanted)):
        raise ValueError(f"`record` must be increasing and not empty; got {wanted}.")
    return np.array(wanted)


def _kurtosis(noise: str, excess_kurtosis: npt.ArrayLike | None) -> FloatArray:
    """Return the excess kurtosis of three-point noise; 0, which nobody reads, for the others."""
    if (noise == "three-point") != (excess_kurtosis is not None):
        raise ValueError(
            '`excess_kurtosis` must be given for "three-point" noise and for no other; '
            f"got {excess_kurtosis!r} with {noise!r}."
        )
    if excess_kurtosis is None:
        return np.zeros(())
    return arguments.real(
        "excess_kurtosis", excess_kurtosis, -2.0, hint="E x^4 >= (E x^2)^2 for every distribution."
    )


def _per_run(name: str, value: FloatArray, runs: int) -> FloatArray:
    if value.shape not in ((), (runs,)):
        raise ValueError(
            f"`{name}` must be one number or one for each of {runs} runs; got shape {value.shape}."
        )
    return np.array(np.broadcast_to(value, runs))


def _states(rng: Seed, runs: int) -> Words:
    """Return a random state of SFC64 for each run; the first ones do not depend on how many follow."""
    return np.random.default_rng(rng).integers(0, 2**64, (runs, 4), dtype=np.uint64)


def as_result(
    W: FloatArray,
    record: IntArray,
    fourth: FloatArray,
    length: FloatArray,
    losses: FloatArray,
    path: FloatArray,
    done: IntArray,
    codes: IntArray,
    single: bool,
) -> Descent:
    """Put what kernels have filled in into a result."""
    stopped = np.flatnonzero(codes == DIVERGED)
    message = "All steps were made."
    if stopped.size:
        message = (
            f"{stopped.size} of {codes.size} runs diverged, the first after {done[stopped].min()} steps: the "
            "learning rate, the noise or the start is too large."
        )
    which: Any = 0 if single else slice(None)
    return Descent(
        record=record,
        W=W[which],
        fourth_norm=fourth[which],
        l2_norm=length[which],
        loss=np.asarray(losses[which]),
        path=path[which],
        steps=np.asarray(done[which]),
        status=np.asarray(codes[which]),
        message=message,
    )


def descend(
    W0: npt.ArrayLike,
    noise: str,
    noise_std: npt.ArrayLike,
    learning_rate: npt.ArrayLike,
    steps: int,
    rng: Seed = None,
    *,
    excess_kurtosis: npt.ArrayLike | None = None,
    shared: bool = False,
    lam: npt.ArrayLike = 0.0,
    draws: int = 1,
    record: npt.ArrayLike | None = None,
    keep_weights: bool = False,
) -> Descent:
    r"""Gradient descent on a tied ReLU autoencoder with fresh noise in its hidden layer at every step.

    Each step shows all n_features inputs e_i once and moves by the gradient of the loss as it is printed,

    .. math:: W \leftarrow W - \eta \nabla_W \Bigl[\sum_i \|\mathrm{ReLU}(W (W^T e_i + \xi_i)) - e_i\|^2
              + \lambda \sum_i \|W_i\|_1\Bigr],

    a sum over inputs and outputs, not a mean; encoder and decoder are the same W and both carry gradient.

    Parameters
    ----------
    W0 : (n_features, n_hidden) or (runs, n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or many independent runs. The authors draw normal weights of
        variance 1/n_hidden. Not modified.
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
        Source of the noise, or its seed. One run's noise depends on the seed and on its index alone.
    excess_kurtosis : float or (runs,) array_like of float, optional
        mu4/noise_std^4 - 3 of three-point noise, at least -2 (where it is bipolar); for no other noise.
    shared : bool, optional
        Whether all inputs of a step get the same noise vector, as in the authors' published code; fresh
        noise for each input if not. See the Notes.
    lam : float or (runs,) array_like of float, optional
        Strength of the l1 term of the printed loss, by the subgradient with sign(0) = 0. It is 4 times that
        of the normal form (footnote 5 of the paper).
    draws : int, optional
        Noise vectors for each input over which one step averages its gradient. With more of them the
        mean gradient stays and its noise shrinks, towards descent on the noise-averaged loss; cost grows
        in proportion.
    record : increasing sequence of int, optional
        Steps at which to keep summaries, from 0 (the start) to `steps`; only the last if not given.
    keep_weights : bool, optional
        Whether to keep all weights at these steps, too.

    Returns
    -------
    Descent
        Final weights; fourth norms, lengths and the loss without noise at the recorded steps; a status for
        each run.

    Raises
    ------
    ValueError
        If `W0` has another number of axes, is empty or has an entry that is not finite or above 1e30;
        `noise` is unknown; `noise_std` or `lam` is negative; `learning_rate` is not positive; one of these
        has another shape; `steps` is negative, `draws` below 1; `record` is not increasing or leaves
        [0, steps]; or `excess_kurtosis` is below -2, missing for three-point noise or given for another.

    See Also
    --------
    flow : The same without randomness: the gradient flow of the noise-averaged loss.
    descend_averaged : Gradient descent on the noise-averaged loss.

    Notes
    -----
    Shared or fresh noise makes no difference to the mean step: the gradient is a sum over inputs, each
    a function of its own noise only, so that its mean depends on the law of one noise vector. What moves W
    at first order in the learning rate, the gradient of the noise-averaged loss, is therefore the same.
    The random part of a step differs, an effect of second order in the learning rate: fresh noise gives
    independent contributions of the inputs, shared noise correlated ones. While no noise crosses a threshold
    of the ReLU, each encoding alone still has the same law of motion, and sharing only makes different
    encodings move together. The authors' code goes further and shares one vector among all its
    parallel runs, which makes these dependent; here runs are always independent.

    A run in which an encoding would become longer than 1e30 stops there with a status; its summaries
    from then on are nan.

    Runs are shared among Numba's threads; results do not depend on their number, nor does a run on
    those after it. A step at n_features = 8, n_hidden = 16 takes 1 to 3 microseconds on one core, by the kind
    of noise. Cost grows as draws n_features^2 n_hidden; with hundreds of features matrix products are faster.

    References
    ----------
    Lecomte et al. (2024), §3.1, §4. The authors' code (github.com/kushalthaman/polysemanticity,
    project-code/experiments/fourth_norm.py) has n_features = 8, n_hidden = 16, learning_rate = 0.02, 100000
    steps, noise_std 0.07, 0.1 and 0.15; the paper gives none of these.

    Examples
    --------
    Bipolar noise gathers encodings on few neurons, normal noise does not:

    >>> W0 = np.random.default_rng(0).normal(scale=0.25, size=(20, 8, 16))
    >>> for noise in "bipolar", "normal":
    ...     result = descend(W0, noise, 0.15, 0.05, 20_000, rng=1, record=[0, 20_000])
    ...     print(noise, result.neurons.mean(axis=(0, 2)).round(1))
    bipolar [6.6 1.9]
    normal [6.6 6.6]
    """
    W = checked_start(W0)
    runs, n, m = W.shape
    arguments.choice("noise", noise, tuple(KINDS))
    std = _per_run("noise_std", arguments.real("noise_std", noise_std, 0.0), runs)
    rate = _per_run("learning_rate", arguments.real("learning_rate", learning_rate, 0.0, brackets="()"), runs)
    l1 = _per_run("lam", arguments.real("lam", lam, 0.0), runs)
    kurtosis = _per_run("excess_kurtosis", _kurtosis(noise, excess_kurtosis), runs)
    steps = arguments.integer("steps", steps, 0)
    draws = arguments.integer("draws", draws, 1)
    wanted = checked_record(record, steps)
    stops = wanted if wanted[-1] == steps else np.append(wanted, steps)
    fourth, length = np.full((2, runs, stops.size, n), np.nan)
    losses = np.full((runs, stops.size), np.nan)
    path = np.full((runs, stops.size if keep_weights else 0, n, m), np.nan)
    done, codes = np.empty((2, runs), dtype=np.int64)
    run_all(
        W, _states(rng, runs), KINDS[noise], kurtosis, std, rate, l1, 1 if shared else n, draws, stops,
        fourth, length, losses, path, done, codes,
    )  # fmt: skip
    keep = slice(wanted.size)
    return as_result(
        W,
        wanted,
        fourth[:, keep],
        length[:, keep],
        losses[:, keep],
        path[:, keep],
        done,
        codes,
        np.ndim(W0) == 2,
    )
