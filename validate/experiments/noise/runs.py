"""Figs. 4 and 5 of Lecomte et al. (2024): fourth norms under hidden noise and l1; the same by PyTorch."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import optimize

from ....solvers import noise as solvers
from ....solvers.collisions.displaced import first_weights
from ....solvers.statistics import first_level
from ....theory import noise as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import from_rows
from ...training.engine import load_torch
from ...training.loop import descend
from .shapes import LARGE_STEP, LEVEL, descend_from, shape

SEEN = 0.1  # growth at which it counts as set in
WEAK_LAM = (3e-5, 1e-4, 2e-4)  # after 20,000 steps growth is a few hundredths here
STRENGTHS = (
    3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.2, 1.4, 1.6, 2.0,
)  # fmt: skip
NOISES = (
    *(np.arange(1, 11) / 100).tolist(), 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8,
)  # fmt: skip


MOST_STEPS = 10**8  # of one descent


def starts(n_features: int, n_hidden: int, runs: int, seed: int) -> FloatArray:
    """Draw first weights of variance 1/n_hidden, as the authors do; run r is the same for any `runs`."""
    return first_weights(n_features, n_hidden, runs, 1.0, seed)


def positive(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return positive settings, one or several, as a vector."""
    return np.atleast_1d(validation.real(name, values, 0.0, brackets="()"))


def onset(noise_std: npt.ArrayLike) -> Callable[[FloatArray], float]:
    """Return the statistic of (runs, points) growths: the noise at which their mean reaches a tenth."""
    return lambda samples: first_level(noise_std, samples.mean(axis=0), SEEN)


def growth(ds: xr.Dataset, name: str, step: int) -> FloatArray:
    """Return growths (run, strength) beyond those without noise and l1 term, of `run_fig5`."""
    grown = (ds[name] - ds["quiet"]).isel(step=step)
    return np.asarray(grown.transpose("run", ...).values)


@as_annotated
def run_fig4(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: Sequence[float] = (0.07, 0.1, 0.15),
    learning_rate: float = 0.02,
    steps: int = 100_000,
    runs: int = 5,
    *,
    averaged_runs: int = 1,
    averaged_time: float = 400.0,
    points: int = 40,
    seed: int = 0,
) -> xr.Dataset:
    """Follow fourth norms under bipolar and normal noise; beside them the flow of the averaged loss.

    One noise vector serves all inputs of a step, as in the authors' code.

    Parameters
    ----------
    n_features, n_hidden : int
        n, at least 2, and m, at least n - 1.
    noise_std, learning_rate : sequence of float, float
        Standard deviations of the noise, and learning rate of the printed loss, positive.
    steps, runs : int
        At least 2. Run r starts from the same weights under all noise.
    averaged_runs, averaged_time : int, float
        Of how many of the runs descent on the noise-averaged loss is made too (bipolar noise), and up to
        which learning_rate * steps.
    points : int
        Steps at which norms are kept, about; evenly spaced.
    seed : int
        Of first weights and noise.

    Returns
    -------
    xarray.Dataset
        Over (noise, noise_std, step, run), means over encodings: ``fourth_norm``, |W_i|_4^4, and ``shape``,
        |W_i|_4^4/|W_i|_2^4; ``t`` over step, learning_rate * steps; ``averaged`` over (noise_std, step,
        averaged_run), nan beyond `averaged_time`; over noise_std: ``half_time``, at which the mean under
        bipolar noise passes 1/2 (nan if it does not), and ``predicted_time``, by
        :func:`theory.noise.sparsification_time`.

    References
    ----------
    Lecomte et al. (2024), Fig. 4; sizes and rates from the authors' code (`experiments/fourth_norm.py`).

    Examples
    --------
    >>> ds = run_fig4(4, 4, (0.2,), steps=200, runs=2, points=4, averaged_time=1.0)
    >>> ds["fourth_norm"].shape
    (2, 1, 5, 2)
    """
    whole = {"n_features": (n_features, 2), "runs": (runs, 2), "steps": (steps, 2), "points": (points, 1)}
    n, runs, steps, points = validation.integers(**whole)
    least = (n_hidden, max(n - 1, 2))
    m, averaged_runs = validation.integers(n_hidden=least, averaged_runs=(averaged_runs, 0, runs))
    stds = positive("noise_std", noise_std)
    rate = validation.number("learning_rate", learning_rate, 0.0, brackets="()")
    averaged_time = validation.number("averaged_time", averaged_time, 0.0)
    record = np.unique(np.linspace(0, steps, points + 1).astype(int))
    W0, t = starts(n, m, runs, seed), record * rate
    names = ("bipolar", "normal")
    found = np.empty((2, 2, stds.size, record.size, runs))
    for (l, name), (k, std) in itertools.product(enumerate(names), enumerate(stds)):
        rng = np.random.default_rng([seed, k, l])
        made = solvers.descend(W0, name, std, rate, steps, rng, shared=True, record=record)
        found[:, l, k] = [x.mean(axis=2).T for x in (made.fourth_norm, made.fourth_norm / made.l2_norm**4)]
    averaged = np.full((stds.size, record.size, averaged_runs), np.nan)
    large = max(rate, LARGE_STEP)
    kept, back = np.unique(np.rint(t[t <= averaged_time] / large).astype(int), return_inverse=True)
    for k, std in enumerate(stds.tolist() if averaged_runs else ()):
        first = W0[:averaged_runs]
        sure = solvers.descend_averaged(first, "bipolar", std, large, int(kept[-1]), record=kept)
        averaged[k, : back.size] = sure.fourth_norm.mean(axis=2).T[back]
    axes = ("noise", "noise_std", "step", "run")
    half = [first_level(t, row.mean(axis=1), LEVEL) for row in found[0, 0]]
    predicted = [theory.sparsification_time(n, m, std, -2.0, fourth_norm=LEVEL) for std in stds.tolist()]
    return xr.Dataset(
        {
            "fourth_norm": (axes, found[0]),
            "shape": (axes, found[1]),
            "averaged": (("noise_std", "step", "averaged_run"), averaged),
            "half_time": ("noise_std", half),
            "predicted_time": ("noise_std", predicted),
        },
        {"noise": list(names), "noise_std": stds, "step": record, "t": ("step", t)},
        {"n_features": n, "n_hidden": m, "learning_rate": rate, "seed": seed},
    )


@as_annotated
def run_fig5(
    n_features: int = 8,
    n_hidden: int = 16,
    lam: Sequence[float] = STRENGTHS,
    noise_std: Sequence[float] = NOISES,
    learning_rate: float = 0.02,
    steps: Sequence[int] = (4_000, 20_000),
    runs: int = 24,
    *,
    seed: int = 0,
) -> xr.Dataset:
    r"""Measure fourth norms after fixed numbers of steps, against l1 strength and against bipolar noise.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 2.
    lam, noise_std : sequence of float
        Strengths of the l1 term of the printed loss, and of the noise; positive, ascending.
    learning_rate, steps : float, increasing sequence of int
        Learning rate, and after how many steps fourth norms are measured.
    runs, seed : int
        At least 2 runs, with the same first weights for all strengths.

    Returns
    -------
    xarray.Dataset
        Means of |W_i|_4^4 over encodings: ``by_lam`` (lam, step, run), ``by_noise`` (noise_std, step, run)
        and ``quiet`` (step, run), without noise and l1 term. Theory: ``lam_drop``, the fourth norm of one-hot
        encodings under l1, 0 where they cannot live; ``noise_drop``, that of orthogonal one-hot encodings
        that other inputs' noise shortens. Attribute ``silent_std``, :math:`\sqrt{\pi/2m}/(n-1)`: below it
        unit encodings of random l1 norm can lie where bipolar noise switches no wrong output on, above it
        they cannot (:func:`theory.noise.interference_free_l1_norm`).

    Examples
    --------
    >>> ds = run_fig5(3, 4, (0.01, 0.1), (0.1, 0.2), steps=(20, 50), runs=2)
    >>> ds["by_noise"].shape
    (2, 2, 2)
    """
    n, m, runs = validation.integers(n_features=(n_features, 2), n_hidden=(n_hidden, 2), runs=(runs, 2))
    lams, stds = positive("lam", lam), positive("noise_std", noise_std)
    record = [validation.integer("steps", count, 1) for count in steps]
    W0 = starts(n, m, runs, seed)

    def final(kind: int, std: FloatArray, l1: FloatArray) -> FloatArray:
        W = np.broadcast_to(W0, (std.size, runs, n, m)).reshape(-1, n, m)
        rng = np.random.default_rng([seed, kind])
        options: dict[str, Any] = {"lam": np.repeat(l1, runs), "record": record}
        made = solvers.descend(W, "bipolar", np.repeat(std, runs), learning_rate, record[-1], rng, **options)
        means = made.fourth_norm.mean(axis=2).reshape(std.size, runs, len(record))
        return np.asarray(means.transpose(0, 2, 1))

    settings = {"learning_rate": learning_rate, "seed": seed}
    return xr.Dataset(
        {
            "by_lam": (("lam", "step", "run"), final(1, np.zeros(lams.size), lams)),
            "by_noise": (("noise_std", "step", "run"), final(2, stds, np.zeros(stds.size))),
            "quiet": (("step", "run"), final(0, np.zeros(1), np.zeros(1))[0]),
            "lam_drop": ("lam", [_one_hot(x / 4) ** 4 for x in lams]),
            "noise_drop": ("noise_std", np.maximum(1 - (n + 1) / 4 * stds**2, 0) ** 2),
        },
        {"lam": lams, "noise_std": stds, "step": record, "run": range(runs)},
        {"n_features": n, "n_hidden": m, **settings, "silent_std": math.sqrt(math.pi / (2 * m)) / (n - 1)},
    )


def _one_hot(lam: float) -> float:
    """Return the weight that the l1 force leaves, the larger root of (1 - w^2) w = lam; 0 without one."""
    lowest = 1 / math.sqrt(3)
    if (1 - lowest**2) * lowest < lam:
        return 0.0
    return float(optimize.brentq(lambda w: (1 - w * w) * w - lam, lowest, 1.0))


@as_annotated
def run_drop(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: Sequence[float] = (0.2, 0.3, 0.4, 0.5),
    learning_rate: Sequence[float] = (0.02, 0.005),
    time: float = 400.0,
    runs: int = 8,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Measure lengths and shapes under strong bipolar noise at several learning rates (right end of Fig. 5b).

    The square of a length is what the noise-averaged loss sets, at any learning rate. A shape that depends on
    the learning rate is an effect of second order: noise in the gradient turns encodings about.

    Parameters
    ----------
    n_features, n_hidden, runs, seed : int
        As in :func:`run_fig5`.
    noise_std, learning_rate, time : sequence of float, sequence of float, float
        Positive; `time` is learning_rate * steps of each run.

    Returns
    -------
    xarray.Dataset
        Over (noise_std, learning_rate, run), means over encodings: ``shape``, |W_i|_4^4/|W_i|_2^4, and
        ``square``, |W_i|_2^2.

    Examples
    --------
    >>> run_drop(2, 2, (0.2,), (0.1,), 1.0, 2)["shape"].shape
    (1, 1, 2)
    """
    n, m, runs = validation.integers(n_features=(n_features, 2), n_hidden=(n_hidden, 2), runs=(runs, 2))
    stds, rates = positive("noise_std", noise_std), positive("learning_rate", learning_rate)
    time = validation.number("time", time, 0.0, brackets="()")
    W0 = starts(n, m, runs, seed)
    rows = []
    for k, l in np.ndindex(stds.size, rates.size):
        rng = np.random.default_rng([seed, 700, k, l])
        W = descend_from(W0, "bipolar", float(stds[k]), float(rates[l]), time, rng).W
        square = np.sum(W**2, axis=-1).mean(axis=1)
        rows.append({"shape": ("run", shape(W).mean(axis=1)), "square": ("run", square)})
    ds = from_rows(rows, noise_std=stds, learning_rate=rates).assign_coords(run=range(len(W0)))
    return ds.assign_attrs(n_features=n, n_hidden=m, time=time, seed=seed)


@as_annotated
def run_agreement(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: float = 0.15,
    learning_rate: float = 0.05,
    steps: int = 2000,
    runs: int = 32,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Train the same sizes by PyTorch's autograd and by the compiled solver, from different first weights.

    Parameters
    ----------
    n_features, n_hidden, noise_std, learning_rate, steps, runs, seed : optional
        As in :func:`run_fig4`.

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` over (noise, engine, run) after the last step: the same in distribution.

    Examples
    --------
    >>> run_agreement(2, 3, steps=10, runs=2)["fourth_norm"].shape
    (2, 2, 2)
    """
    integers = validation.integers(n_features=(n_features, 1), n_hidden=(n_hidden, 1), runs=(runs, 2))
    n_features, n_hidden, runs = integers
    learning_rate = validation.number("learning_rate", learning_rate, 0.0, 1e30)
    noise_std = validation.number("noise_std", noise_std, 0.0, 1e30)
    load_torch()  # before the compiled descents, not after
    # Starts of their own, so that the two samples are independent.
    W0 = starts(n_features, n_hidden, 2 * runs, seed)
    names, rows = ("bipolar", "normal"), []
    for k, name in enumerate(names):
        rng = np.random.default_rng([seed, k])
        made = solvers.descend(W0[:runs], name, noise_std, learning_rate, steps, rng).W
        trained = train(W0[runs:], name, noise_std, learning_rate, steps, 2 * seed + k)
        norms = [np.sum(W**4, axis=-1).mean(axis=1) for W in (made, trained)]
        rows.append({"fourth_norm": (("engine", "run"), norms)})
    ds = from_rows(rows, noise=names).assign_coords(engine=["Numba", "PyTorch"], run=range(runs))
    settings = {"noise_std": noise_std, "learning_rate": learning_rate, "steps": steps, "seed": seed}
    return ds.assign_attrs(n_features=n_features, n_hidden=n_hidden, **settings)


def train(W0: FloatArray, noise: str, std: float, rate: float, steps: int, seed: int) -> FloatArray:
    """Train (runs, n, m) encodings by SGD on the printed loss, a sum over inputs; return the last ones."""
    torch = load_torch()
    generator = torch.Generator().manual_seed(seed)
    W = torch.tensor(W0, dtype=torch.float32, requires_grad=True)
    target = torch.eye(W0.shape[1])

    def loss() -> Any:
        hidden = W + std * draw(torch, noise, W0.shape, generator)
        return ((torch.relu(hidden @ W.mT) - target) ** 2).sum()

    list(descend(torch.optim.SGD([W], lr=rate), loss, [steps]))
    return np.asarray(W.detach().numpy(), dtype=np.float64)


def draw(torch: Any, noise: str, shape: tuple[int, ...], generator: Any) -> Any:
    """Draw bipolar or normal noise of variance 1."""
    if noise == "normal":
        return torch.randn(shape, generator=generator)
    return 2.0 * torch.randint(2, shape, generator=generator) - 1.0
