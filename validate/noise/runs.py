"""Figs. 4 and 5 of Lecomte et al. (2024): fourth norms under hidden noise and under l1 regularisation."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import optimize, stats

from ...solvers import noise as solvers
from ...theory import arguments
from ...theory import noise as theory
from ..collisions.fig3 import first_weights

__all__ = ["descend_from", "jackknife", "power", "run_fig4", "run_fig5", "starts"]

FloatArray = npt.NDArray[np.float64]

# Of descent on the averaged loss, whose rates are at most 8. With half of it fourth norms at n = 8, m = 16
# are the same to some 0.01 on average over starts, a few 0.01 for single ones where they rise fast.
LARGE_STEP = 0.1
LEVEL = 0.5  # fourth norm that counts as sparse
STRENGTHS = (*np.geomspace(1e-4, 0.1, 10).tolist(), 0.2, 0.4, 0.7, 1.0, 1.2, 1.4, 1.6, 2.0)
NOISES = (
    *(np.arange(1, 11) / 100).tolist(), 0.12, 0.14, 0.17, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8,
)  # fmt: skip


def starts(n_features: int, n_hidden: int, runs: int, seed: int) -> FloatArray:
    """Draw first weights of variance 1/n_hidden, as the authors do; run r is the same for any `runs`."""
    return first_weights(n_features, n_hidden, runs, 1.0, seed)


def descend_from(
    W0: FloatArray, noise: str, noise_std: float, learning_rate: float, time: float, rng: Any, **more: Any
) -> solvers.Descent:
    """Descend for learning_rate * steps = time, rounded to whole steps."""
    return solvers.descend(W0, noise, noise_std, learning_rate, round(time / learning_rate), rng, **more)


def jackknife(
    samples: FloatArray, statistic: Callable[[FloatArray], float], confidence: float
) -> tuple[float, float, float]:
    """Return a statistic of all runs with Student's interval from the jackknife's standard error.

    Parameters
    ----------
    samples : (runs, ...) ndarray
        What belongs to one run stays together.
    statistic : callable
        Maps (runs, ...) to a number; smooth in means over runs.
    confidence : float

    Returns
    -------
    estimate, low, high : float
    """
    runs, whole = len(samples), statistic(samples)
    without = [statistic(np.delete(samples, run, axis=0)) for run in range(runs)]
    half = stats.t.ppf(0.5 + confidence / 2, runs - 1) * np.std(without) * math.sqrt(runs - 1)
    return whole, float(whole - half), float(whole + half)


def run_fig4(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: Sequence[float] = (0.07, 0.1, 0.15),
    learning_rate: float = 0.02,
    steps: int = 100_000,
    runs: int = 5,
    *,
    shared: bool = True,
    averaged_runs: int = 1,
    averaged_time: float = 400.0,
    points: int = 40,
    seed: int = 0,
) -> xr.Dataset:
    """Follow fourth norms under bipolar and normal noise; beside them the flow of the averaged loss.

    Parameters
    ----------
    n_features, n_hidden : int
        n, at least 2, and m, at least n - 1.
    noise_std : sequence of float
        Standard deviations of the noise, positive.
    learning_rate : float
        Of the printed loss.
    steps : int
        At least 2.
    runs : int
        Independent runs, at least 2. Run r starts from the same weights under all noise.
    shared : bool, optional
        One noise vector for all inputs of a step, as in the authors' code.
    averaged_runs : int, optional
        Of how many of the runs descent on the noise-averaged loss is made too (bipolar noise).
    averaged_time : float, optional
        Up to which learning_rate * steps.
    points : int, optional
        Steps at which norms are kept, about; evenly spaced.
    seed : int
        Of first weights and noise.

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` over (noise, noise_std, step, run), the mean of |W_i|_4^4 over encodings; ``t`` over
        step, learning_rate * steps; ``averaged`` over (noise_std, step, averaged_run), nan beyond
        `averaged_time`; over noise_std: ``half_time``, at which the mean under bipolar noise passes 1/2 (nan
        if it does not), and ``predicted_time``, which :func:`theory.noise.sparsification_time` expects.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Lecomte et al. (2024), Fig. 4; sizes and rates from the authors' code (`experiments/fourth_norm.py`).

    Examples
    --------
    >>> ds = run_fig4(4, 4, (0.2,), steps=200, runs=2, points=4, averaged_time=1.0)
    >>> ds["fourth_norm"].shape
    (2, 1, 5, 2)
    """
    n = arguments.integer("n_features", n_features, 2)
    m = arguments.integer("n_hidden", n_hidden, max(n - 1, 2))
    runs = arguments.integer("runs", runs, 2)
    steps = arguments.integer("steps", steps, 2)
    averaged_runs = arguments.integer("averaged_runs", averaged_runs, 0, runs)
    points = arguments.integer("points", points, 1)
    stds = np.atleast_1d(arguments.real("noise_std", noise_std, 0.0, brackets="()"))
    rate = arguments.number("learning_rate", learning_rate, 0.0, brackets="()")
    record = np.unique(np.linspace(0, steps, points + 1).astype(int))
    W0 = starts(n, m, runs, seed)
    names = ("bipolar", "normal")
    found = np.empty((2, stds.size, record.size, runs))
    averaged = np.full((stds.size, record.size, averaged_runs), np.nan)
    large = max(rate, LARGE_STEP)
    wanted = np.rint(record[record * rate <= averaged_time] * rate / large).astype(int)
    for k, std in enumerate(stds):
        for row, name in zip(found, names, strict=True):
            result = solvers.descend(
                W0,
                name,
                std,
                rate,
                steps,
                np.random.default_rng([seed, k, names.index(name)]),
                shared=shared,
                record=record,
            )
            row[k] = result.fourth_norm.mean(axis=2).T
        if averaged_runs:
            kept, back = np.unique(wanted, return_inverse=True)
            sure = solvers.descend_averaged(
                W0[:averaged_runs], "bipolar", float(std), large, int(kept[-1]), record=kept
            )
            averaged[k, : wanted.size] = sure.fourth_norm.mean(axis=2).T[back]
    t = record * rate
    half = [_passes(t, row.mean(axis=1)) for row in found[0]]
    expected = [theory.sparsification_time(n, m, float(std), -2.0, fourth_norm=LEVEL) for std in stds]
    return xr.Dataset(
        {
            "fourth_norm": (("noise", "noise_std", "step", "run"), found),
            "averaged": (("noise_std", "step", "averaged_run"), averaged),
            "half_time": ("noise_std", half),
            "predicted_time": ("noise_std", expected),
        },
        {"noise": list(names), "noise_std": stds, "step": record, "t": ("step", t)},
        {
            "n_features": n,
            "n_hidden": m,
            "learning_rate": rate,
            "shared": int(shared),
            "averaged_rate": large,
            "seed": seed,
        },
    )


def _passes(t: FloatArray, values: FloatArray) -> float:
    """Return when a curve first reaches LEVEL, between two points by a straight line."""
    above = np.flatnonzero(values >= LEVEL)
    if not above.size:
        return math.nan
    k = int(above[0])
    return float(t[0] if k == 0 else np.interp(LEVEL, values[k - 1 : k + 1], t[k - 1 : k + 1]))


def run_fig5(
    n_features: int = 8,
    n_hidden: int = 16,
    lam: Sequence[float] = STRENGTHS,
    noise_std: Sequence[float] = NOISES,
    learning_rate: float = 0.02,
    steps: int = 20_000,
    runs: int = 24,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> xr.Dataset:
    """Measure fourth norms after a fixed number of steps, against l1 strength and against bipolar noise.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 2.
    lam : sequence of float, optional
        Strengths of the l1 term of the printed loss, positive, ascending.
    noise_std : sequence of float, optional
        Standard deviations, positive, ascending.
    learning_rate, steps, runs : optional
        Of each run; at least 2 runs, with the same first weights for all strengths.
    confidence : float, optional
        Of the intervals, in (0, 1).
    seed : int

    Returns
    -------
    xarray.Dataset
        ``by_lam`` (lam, run) and ``by_noise`` (noise_std, run), means of |W_i|_4^4 over encodings; ``quiet``
        (run) without noise and l1 term. ``lam_power`` and ``noise_power`` over ``part`` (estimate, low,
        high): see :func:`power`. Theory: ``lam_drop``, the fourth norm of one-hot encodings under l1, 0 where
        they cannot live; ``noise_drop``, that of orthogonal one-hot encodings that other inputs' noise
        shortens. Attribute ``silent_std``: below it encodings of random l1 norm find states that
        bounded noise does not disturb (:func:`theory.noise.silent_l1_norm`).

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Lecomte et al. (2024), Fig. 5.

    Examples
    --------
    >>> ds = run_fig5(3, 4, (0.01, 0.1), (0.1, 0.2), steps=50, runs=2)
    >>> ds["by_noise"].shape
    (2, 2)
    """
    n = arguments.integer("n_features", n_features, 2)
    m = arguments.integer("n_hidden", n_hidden, 2)
    runs = arguments.integer("runs", runs, 2)
    confidence = arguments.number("confidence", confidence, 0.0, 1.0, brackets="()")
    lams = np.atleast_1d(arguments.real("lam", lam, 0.0, brackets="()"))
    stds = np.atleast_1d(arguments.real("noise_std", noise_std, 0.0, brackets="()"))
    W0 = starts(n, m, runs, seed)

    def final(kind: int, std: FloatArray, l1: FloatArray) -> FloatArray:
        shape = (std.size, runs, n, m)
        result = solvers.descend(
            np.broadcast_to(W0, shape).reshape(-1, n, m),
            "bipolar",
            np.repeat(std, runs),
            learning_rate,
            steps,
            np.random.default_rng([seed, kind]),
            lam=np.repeat(l1, runs),
        )
        return result.fourth_norm[:, 0].mean(axis=1).reshape(std.size, runs)

    quiet = final(0, np.zeros(1), np.zeros(1))[0]
    by_lam, by_noise = final(1, np.zeros(lams.size), lams), final(2, stds, np.zeros(stds.size))
    powers = [
        list(power(x, (values - quiet).T, confidence)) for x, values in ((lams, by_lam), (stds, by_noise))
    ]
    return xr.Dataset(
        {
            "by_lam": (("lam", "run"), by_lam),
            "by_noise": (("noise_std", "run"), by_noise),
            "quiet": ("run", quiet),
            "lam_power": ("part", powers[0]),
            "noise_power": ("part", powers[1]),
            "lam_drop": ("lam", [_one_hot(x / 4) ** 4 for x in lams]),
            "noise_drop": ("noise_std", np.maximum(1 - (n + 1) / 4 * stds**2, 0) ** 2),
        },
        {"lam": lams, "noise_std": stds, "run": range(runs), "part": ["estimate", "low", "high"]},
        {
            "n_features": n,
            "n_hidden": m,
            "learning_rate": learning_rate,
            "steps": steps,
            "confidence": confidence,
            "seed": seed,
            "silent_std": math.sqrt(math.pi / (2 * m)) / (n - 1),
        },
    )


def _one_hot(lam: float) -> float:
    """Return the weight that the l1 force leaves, the larger root of (1 - w^2) w = lam; 0 without one."""
    lowest = 1 / math.sqrt(3)
    if (1 - lowest**2) * lowest < lam:
        return 0.0
    return float(optimize.brentq(lambda w: (1 - w * w) * w - lam, lowest, 1.0))


def power(
    x: FloatArray,
    growth: FloatArray,
    confidence: float,
    *,
    bottom: float = 0.01,
    top: float = 0.35,
) -> tuple[float, float, float]:
    """Fit the power of x with which a mean grows where it is seen but not yet saturated.

    Parameters
    ----------
    x : (points,) ndarray
        Ascending and positive.
    growth : (runs, points) ndarray
    confidence : float
        Of the interval.
    bottom, top : float, optional
        The fit takes the points before the mean first exceeds `top`, from the one on from which the mean
        stays above `bottom`.

    Returns
    -------
    estimate, low, high : float
        nan with fewer than two points.
    """
    mean = growth.mean(axis=0)
    end = int(np.argmax(mean > top)) if np.any(mean > top) else x.size
    unseen = np.flatnonzero(mean[:end] <= bottom)
    used = slice(int(unseen[-1]) + 1 if unseen.size else 0, end)
    if x[used].size < 2:
        return math.nan, math.nan, math.nan

    def slope(samples: FloatArray) -> float:
        means = samples.mean(axis=0)[used]
        return float(np.polyfit(np.log(x[used]), np.log(means), 1)[0]) if np.all(means > 0) else math.nan

    return jackknife(growth, slope, confidence)
