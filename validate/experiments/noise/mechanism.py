"""Which mechanism sparsifies under hidden noise: first or second order in the learning rate (§3.2)."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from ....solvers.statistics import Estimate, Family, crossing, growth_power, jackknife, mean
from ....theory import noise as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ..drawing import plot_function
from .runs import MOST_STEPS, positive, starts
from .shapes import descend_from, is_settled, overlaps, shape

_KURTOSES = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 10.0)
SOURCE_RATE = 0.02  # learning rate where it is not varied
LONE_STD = 0.15  # noise of single encodings, stronger, as their drift is small
PARTS = 20  # of the way of a lone encoding, at whose ends theory's drift is read


@as_annotated
def run_mechanism(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: float = 0.1,
    learning_rate: Sequence[float] = (0.005, 0.01, 0.02, 0.04),
    excess_kurtosis: Sequence[float] = _KURTOSES,
    time: float = 400.0,
    runs: int = 20,
    *,
    lone_runs: int = 600,
    averaged_runs: int = 2,
    seed: int = 0,
) -> xr.Dataset:
    """Vary the learning rate at fixed learning_rate * steps, the number of encodings, and the kurtosis.

    Parameters
    ----------
    n_features, n_hidden : int
        n, a power of two above 1, and m, at least 2.
    noise_std : float
        Of the noise in all three experiments, positive.
    learning_rate, excess_kurtosis : sequence of float
        Rates to compare, two at least, and kurtoses of three-point noise, at least -2; ascending.
    time : float
        learning_rate * steps of every run; the learning rate is 0.02 where it is not varied.
    runs, seed : int
        At least 2 runs. Run r starts from the same weights at all rates and kurtoses.
    lone_runs : int
        Number of the single encodings whose drift, under noise of 0.15, is compared with theory.
    averaged_runs : int
        Of how many of the runs descent on the noise-averaged loss is made too.

    Returns
    -------
    xarray.Dataset
        All are *growths*: |W_i|_4^4/|W_i|_2^4 averaged over encodings, less the same of descent without noise
        from the same first weights. ``by_rate`` (learning_rate, run); ``averaged`` (averaged_run), the first
        order by itself; ``regulariser`` (learning_rate), what encodings would do that descend the source's
        implicit regulariser, and ``drift`` (learning_rate), what the second order really does to encodings
        without interference, both from theory. ``by_number`` (n_features, run): 1, 2, 4, ... encodings, each
        value an average over as many encodings. ``by_kurtosis`` (excess_kurtosis, run), bipolar where it is
        -2, and ``by_normal`` (run). ``lone`` (lone_run), and ``lone_predicted`` (lone_run): the second order
        of theory at the directions that each run meets, integrated over time. No growths, but of the
        encodings under normal noise, which has no axes: ``overlap`` (run), the mean of W_i.W_k/(noise_std
        |W_k|) less the same without noise, and ``force`` (run), the mean rate at which bipolar noise would
        sparsify them (:func:`theory.noise.sparsifying_rate`).

    Examples
    --------
    >>> ds = run_mechanism(2, 4, time=2.0, runs=2, lone_runs=2, averaged_runs=1)
    >>> ds["by_rate"].shape, ds["by_number"].shape
    ((4, 2), (2, 2))
    """
    n = validation.integer("n_features", validation.power_of_two("n_features", n_features), 2)
    m, runs, lone_runs = validation.integers(n_hidden=(n_hidden, 2), runs=(runs, 2), lone_runs=(lone_runs, 2))
    std = validation.number("noise_std", noise_std, 0.0, brackets="()")
    rates = positive("learning_rate", learning_rate)
    if rates.ndim != 1 or rates.size < 2 or np.any(np.diff(rates) <= 0):
        raise ValueError(f"`learning_rate` must be two or more, ascending; got {rates.tolist()}.")
    kurtoses = np.atleast_1d(validation.real("excess_kurtosis", excess_kurtosis, -2.0))
    longest = MOST_STEPS * min(SOURCE_RATE, float(rates.min()))
    time = validation.number("time", time, 0.0, longest, brackets="(]")
    averaged_runs = validation.integer("averaged_runs", averaged_runs, 0, runs)
    W0 = starts(n, m, runs, seed)
    still = descend_from(W0, "bipolar", 0.0, SOURCE_RATE, time, 0).W
    quiet = shape(still).mean(axis=1)

    def last(noise: str, rate: float, tag: int, kurtosis: float | None = None) -> FloatArray:
        rng = np.random.default_rng([seed, tag])
        return descend_from(W0, noise, std, rate, time, rng, excess_kurtosis=kurtosis).W

    def growth(W: FloatArray) -> FloatArray:
        return np.asarray(shape(W).mean(axis=1) - quiet)

    def drift(W: FloatArray, strength: float, rate: float) -> float:
        return float(np.mean(theory.fourth_norm_drift(W, "bipolar", strength, rate))) * time / rate

    normal = last("normal", SOURCE_RATE, 250)
    sure = [is_settled(W, std, time) for W in W0[:averaged_runs]]
    per_time = np.array([theory.regulariser_rate(std, float(rate), -2.0) / rate for rate in rates])
    moved = np.array([theory.quartic_flow(w, time * per_time) for w in still.reshape(-1, m)])
    numbers = [2**k for k in range(n.bit_length())]
    alone = starts(1, m, lone_runs, seed + 1)
    lone, predicted = _lone(alone, time, np.random.default_rng([seed, 300]))
    by_rate = [growth(last("bipolar", float(rate), 100 + k)) for k, rate in enumerate(rates)]
    by_number = [_of_several(k, n, W0, std, time, seed) for k in numbers]
    by_kurtosis = [
        growth(last("three-point", SOURCE_RATE, 200 + k, kappa)) for k, kappa in enumerate(kurtoses.tolist())
    ]
    told = {"lone_std": LONE_STD, "source_rate": SOURCE_RATE, "seed": seed}
    return xr.Dataset(
        {
            "by_rate": (("learning_rate", "run"), by_rate),
            "averaged": ("averaged_run", [shape(w).mean() - q for w, q in zip(sure, quiet, strict=False)]),
            "regulariser": ("learning_rate", shape(moved).mean(axis=0) - quiet.mean()),
            "drift": ("learning_rate", [drift(still, std, float(rate)) for rate in rates]),
            "by_number": (("n_features", "run"), by_number),
            "by_kurtosis": (("excess_kurtosis", "run"), by_kurtosis),
            "by_normal": ("run", growth(normal)),
            "overlap": ("run", (overlaps(normal) - overlaps(still)) / std),
            "force": ("run", [theory.sparsifying_rate(W, std, -2.0).mean() for W in normal]),
            "lone": ("lone_run", (shape(lone) - shape(alone))[:, 0]),
            "lone_predicted": ("lone_run", predicted),
        },
        {"learning_rate": rates, "n_features": numbers, "excess_kurtosis": kurtoses, "run": range(runs)},
        {"n_hidden": m, "noise_std": std, "time": time, **told},
    )


def _lone(alone: FloatArray, time: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Descend under bipolar noise; return the encodings and the growth that theory's drift adds up to.

    Noise also turns an encoding at random. Its drift at the start does not last: over the source's time it
    falls by two fifths on average, so it is integrated along the way, by the trapezoidal rule.
    """
    W, met = alone, np.empty((PARTS + 1, len(alone)))
    for part in range(PARTS + 1):
        if part:
            W = descend_from(W, "bipolar", LONE_STD, SOURCE_RATE, time / PARTS, rng).W
        unit = (W / np.linalg.norm(W, axis=-1, keepdims=True))[:, 0]
        met[part] = theory.fourth_norm_drift(unit, "bipolar", LONE_STD, SOURCE_RATE)
    return W, np.asarray(np.trapezoid(met, dx=time / PARTS / SOURCE_RATE, axis=0))


def _of_several(k: int, n: int, W0: FloatArray, std: float, time: float, seed: int) -> FloatArray:
    """Split each run's n encodings into groups of k that do not know each other, and return their growth."""
    groups = W0.reshape(-1, k, W0.shape[2])
    still = descend_from(groups, "bipolar", 0.0, SOURCE_RATE, time, 0).W
    made = descend_from(groups, "bipolar", std, SOURCE_RATE, time, np.random.default_rng([seed, 400 + k])).W
    return np.asarray((shape(made) - shape(still)).reshape(-1, n).mean(axis=1))


@plot_function
def judge_mechanism(ds: xr.Dataset, family: Family | None = None) -> dict[str, Estimate]:
    """Estimate what distinguishes the mechanisms, in the data of :func:`run_mechanism`.

    ``power``: of the learning rate with which growth goes, 0 for an effect of first order, 1 for one of
    second. ``first``: growth extrapolated to learning rate 0, linearly. ``share``: what part of the growth at
    the source's rate that is; above 1 if the second order works against it. ``gap``: growth on the averaged
    loss less that extrapolated, for the runs that have both. ``lone``, ``normal``: growth of one encoding
    alone, and of all under normal noise. ``crossing``: the excess kurtosis at which growth beyond normal
    noise's changes sign (nan if it does not). Limits are those of the family, or of intervals of 95 %:
    Student's, for all but means with the jackknife's standard error over runs.
    """

    def of(statistic: Callable[..., Estimate], *samples: object) -> Estimate:
        return family.of(statistic, *samples) if family else statistic(*samples)

    rates, grown = ds["learning_rate"].values, ds["by_rate"].values.T

    def line(samples: FloatArray) -> FloatArray:
        return np.asarray(np.polyfit(rates, samples.T, 1))  # slope and value at 0 of each run

    def share(samples: FloatArray) -> float:
        slope, first = line(samples).mean(axis=1)
        return float(first / (first + slope * ds.attrs["source_rate"]))

    firsts = line(grown)[1]
    beyond = (ds["by_kurtosis"] - ds["by_normal"]).transpose("run", ...).values
    found = {
        "power": of(jackknife, grown, growth_power(rates)),
        "share": of(jackknife, grown, share),
        "crossing": of(crossing, ds["excess_kurtosis"].values, beyond),
        "first": of(mean, firsts),
        "lone": of(mean, ds["lone"].values),
        "normal": of(mean, ds["by_normal"].values),
    }
    if ds.sizes["averaged_run"] > 1:
        averaged = ds["averaged"].values
        found["gap"] = of(mean, averaged - firsts[: averaged.size])
    return found
