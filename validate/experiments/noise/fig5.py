"""Fig. 5 of Lecomte et al. (2024): fourth norms after fixed numbers of steps, and the cause of their drop."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from scipy import optimize

from ....solvers import noise as solvers
from ....solvers.statistics import first_level, growth_power, jackknife, mean
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows
from ..drawing import finish_axes, plot_function
from .encodings import (
    BARS,
    FOURTH_NORM,
    GREY,
    descend_from,
    describe_sizes,
    draw_run_means,
    draw_starts,
    inverse_participation,
)

SEEN = 0.1  # growth at which it counts as set in
SIGMA_LABEL = "standard deviation σ of bipolar noise"
WEAK_LAM = (3e-5, 1e-4, 2e-4)  # after 20,000 steps growth is a few hundredths here
STRENGTHS = (
    3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.2, 1.4, 1.6, 2.0,
)  # fmt: skip
STANDARD_DEVIATIONS = (
    *(np.arange(1, 11) / 100).tolist(), 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8,
)  # fmt: skip


def onset_statistic(noise_std: npt.ArrayLike) -> Callable[[FloatArray], float]:
    """Return a function of growths (run, noise): the noise at which their mean over runs reaches 0.1.

    A growth is a mean fourth norm |W_i|_4^4 minus that without noise, at each standard deviation in
    `noise_std`; the function interpolates between these.
    """
    return lambda samples: first_level(noise_std, samples.mean(axis=0), SEEN)


def fourth_norm_growth(ds: xr.Dataset, name: str, step: int) -> FloatArray:
    """Return |W_i|_4^4 (run, strength) after training, minus its value without noise and l1 term.

    `ds` is from `run_fig5`. `name` is the variable: "by_noise", with strengths of the noise, or "by_lam",
    with those of the l1 term. `step` is a position on the axis ``step``.
    """
    grown = (ds[name] - ds["quiet"]).isel(step=step)
    return np.asarray(grown.transpose("run", ...).values)


@as_annotated
def run_fig5(
    n_features: int = 8,
    n_hidden: int = 16,
    lam: Sequence[float] = STRENGTHS,
    noise_std: Sequence[float] = STANDARD_DEVIATIONS,
    learning_rate: float = 0.02,
    steps: Sequence[int] = (4_000, 20_000),
    runs: int = 24,
    *,
    seed: int = 0,
) -> xr.Dataset:
    r"""Measure fourth norms |W_i|_4^4 after fixed numbers of steps, against l1 strength and bipolar noise.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 2.
    lam, noise_std : sequence of float
        Strengths of the l1 term in the loss of Lecomte et al. (2024), and of the noise; positive, ascending.
    learning_rate, steps : float, increasing sequence of int
        Learning rate; numbers of steps after which fourth norms are measured.
    runs, seed : int
        At least 2 runs, with the same first weights for all strengths.

    Returns
    -------
    xarray.Dataset
        Means of |W_i|_4^4 over encodings: ``by_lam`` (lam, step, run), ``by_noise`` (noise_std, step, run)
        and ``quiet`` (step, run), without noise and l1 term. Fourth norms by theory: ``lam_drop``, of one-hot
        encodings under l1, 0 where they cannot persist; ``noise_drop``, of orthogonal one-hot encodings,
        shortened by the noise of other inputs. Attribute ``silent_std``, :math:`\sqrt{\pi/2m}/(n-1)`: the
        largest noise at which there are unit encodings of the l1 norm of random ones for which bipolar noise
        switches no wrong output on (:func:`theory.noise.interference_free_l1_norm`).
    """
    n, m, runs = validation.integers(n_features=(n_features, 2), n_hidden=(n_hidden, 2), runs=(runs, 2))
    lams = validation.real("lam", lam, 0.0, brackets="()")
    stds = validation.real("noise_std", noise_std, 0.0, brackets="()")
    record = [validation.integer("steps", count, 1) for count in steps]
    W0 = draw_starts(n, m, runs, seed)

    def last_norms(kind: int, std: FloatArray, l1: FloatArray) -> FloatArray:
        """Return fourth norms (strength, step, run) under noise `std` and l1 term; `kind` seeds the noise."""
        W = np.broadcast_to(W0, (std.size, runs, n, m)).reshape(-1, n, m)
        rng = np.random.default_rng([seed, kind])
        l1, std = np.repeat(l1, runs), np.repeat(std, runs)
        descent = solvers.descend(W, "bipolar", std, learning_rate, record[-1], rng, lam=l1, record=record)
        means = descent.fourth_norm.mean(axis=2).reshape(-1, runs, len(record))
        return np.asarray(means.transpose(0, 2, 1))

    ds = xr.Dataset(
        {
            "by_lam": (("lam", "step", "run"), last_norms(1, np.zeros(lams.size), lams)),
            "by_noise": (("noise_std", "step", "run"), last_norms(2, stds, np.zeros(stds.size))),
            "quiet": (("step", "run"), last_norms(0, np.zeros(1), np.zeros(1))[0]),
            "lam_drop": ("lam", [_one_hot(x / 4) ** 4 for x in lams]),
            "noise_drop": ("noise_std", np.maximum(1 - (n + 1) / 4 * stds**2, 0) ** 2),
        },
        {"lam": lams, "noise_std": stds, "step": record, "run": range(runs)},
    )
    silent_std = math.sqrt(math.pi / (2 * m)) / (n - 1)
    settings = {"n_features": n, "n_hidden": m, "learning_rate": learning_rate, "seed": seed}
    return ds.assign_attrs(settings, silent_std=silent_std)


def _one_hot(lam: float) -> float:
    """Return a one-hot encoding's weight under the l1 force: the larger root of (1 - w^2) w = lam, or 0."""
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
    """Measure lengths and shapes of encodings under strong bipolar noise (right end of Fig. 5b).

    The noise-averaged loss determines the squared length at any learning rate. If the shape depends on the
    learning rate, this is an effect of second order: noise in the gradient rotates encodings at random.

    Parameters
    ----------
    n_features, n_hidden, runs, seed : int
        n and m, at least 2; runs, at least 2, with the same first weights at all strengths; their seed.
    noise_std, learning_rate, time : sequence of float, sequence of float, float
        Strengths of the noise and learning rates to compare, positive; `time` is learning_rate * steps of
        each run.

    Returns
    -------
    xarray.Dataset
        Over (noise_std, learning_rate, run), means over encodings: ``shape``, |W_i|_4^4/|W_i|_2^4, and
        ``square``, |W_i|_2^2.
    """
    n, m, runs = validation.integers(n_features=(n_features, 2), n_hidden=(n_hidden, 2), runs=(runs, 2))
    stds = validation.real("noise_std", noise_std, 0.0, brackets="()")
    rates = validation.real("learning_rate", learning_rate, 0.0, brackets="()")
    time = validation.number("time", time, 0.0, brackets="()")
    W0 = draw_starts(n, m, runs, seed)
    rows = []
    for k, l in np.ndindex(stds.size, rates.size):
        rng = np.random.default_rng([seed, 700, k, l])
        W = descend_from(W0, "bipolar", float(stds[k]), float(rates[l]), time, rng).W
        square = np.sum(W**2, axis=-1).mean(axis=1)
        rows.append({"shape": ("run", inverse_participation(W).mean(axis=1)), "square": ("run", square)})
    ds = from_rows(rows, noise_std=stds, learning_rate=rates).assign_coords(run=range(len(W0)))
    return ds.assign_attrs(n_features=n, n_hidden=m, time=time, seed=seed)


def _draw_strengths(ds: xr.Dataset, ax: Axes, x: str, name: str, power: int, labels: tuple[str, str]) -> Axes:
    """Draw fourth norms |W_i|_4^4 against the strengths in the coordinate `x`, with two lines of theory.

    `name` is the variable of `ds`, from `run_fig5`: "by_noise" or "by_lam". One line is the drop at large
    strengths, the other the source's power law, strength to the power `power`. `labels` has the legend's text
    for the drop and the label of the horizontal axis.
    """
    at, noise_free = ds[x].values, float(ds["quiet"].isel(step=-1).mean())
    ax.axhline(noise_free, color=GREY, linewidth=0.8, linestyle=":", label="no noise, no l1")
    grown = ds[name].isel(step=-1).mean("run").values - noise_free
    k = int(np.argmin(np.abs(grown - 0.1)))
    line = noise_free + grown[k] * (at / at[k]) ** power
    ax.plot(at[line < 1], line[line < 1], color=GREY, linestyle="--", label=f"power {power}, as printed")
    ax.plot(at, ds[name.replace("by_", "") + "_drop"], color="C0", label=labels[0])
    for k, step in enumerate(ds["step"].values):
        draw_run_means(ax, ds[x], ds[name].isel(step=k), color=f"C{k + 1}", label=f"{step} steps")
    return finish_axes(ax, "upper left", xscale="log", xlabel=labels[1], ylabel=FOURTH_NORM, ylim=(0, 1.8))


@plot_function
def plot_fig5_lam(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw last fourth norms |W_i|_4^4 against the l1 strength (Fig. 5a); `ds` is from `run_fig5`."""
    return _draw_strengths(ds, ax, "lam", "by_lam", 1, ("one-hot encodings", "λ of the printed loss"))


@plot_function
def plot_fig5_noise(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw last fourth norms |W_i|_4^4 against bipolar noise (Fig. 5b); `ds` is from `run_fig5`."""
    ax.axvline(ds.attrs["silent_std"], ymax=0.6, color="C4", linewidth=1, label="can be silent below")
    return _draw_strengths(ds, ax, "noise_std", "by_noise", 4, ("one-hot, orthogonal", SIGMA_LABEL))


@plot_function
def plot_drop(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw shapes and squared lengths of encodings against strong noise, by learning rate.

    `ds` is from `run_drop`.
    """
    names = (("shape", "o-", "$|W_i|_4^4/|W_i|_2^4$"), ("square", "s--", "$|W_i|_2^2$"))
    for k, rate in enumerate(ds["learning_rate"].values):
        for name, fmt, label in names:
            values = ds[name].isel(learning_rate=k)
            style = {"fmt": fmt, "color": f"C{k + 1}", "label": f"{label}, rate {rate:g}"}
            draw_run_means(ax, ds["noise_std"], values, **style)
    ax.set(ylim=(0, 1.05), xticks=ds["noise_std"])
    return finish_axes(ax, "lower left", xlabel=SIGMA_LABEL, ylabel="mean over encodings")


def _show_fig5(ds: xr.Dataset, drop: xr.Dataset) -> TopicContent:
    """Return text and figures of the report's part "fig5": encodings against l1 strength and noise.

    One figure has fourth norms |W_i|_4^4 against l1 strength and noise (`ds`, from `run_fig5`), the other
    shapes and squared lengths of encodings under strong noise, by learning rate (`drop`, from `run_drop`).
    """
    stds, at = ds["noise_std"].values, drop.isel(noise_std=-1)
    weak = fourth_norm_growth(ds.sel(lam=list(WEAK_LAM)), "by_lam", 1)
    growths = [fourth_norm_growth(ds, "by_noise", k) for k in range(ds.sizes["step"])]
    onsets = "; ".join(
        f"σ = {jackknife(growth, onset_statistic(stds)):.3f} after {steps} steps"
        for growth, steps in zip(growths, ds["step"].values, strict=True)
    )
    by_rate = "; ".join(
        f"rate {float(rate):g}: shape {mean(at['shape'].sel(learning_rate=rate).values):.2f}, squared length "
        f"{mean(at['square'].sel(learning_rate=rate).values):.2f}"
        for rate in at["learning_rate"]
    )
    text = (
        f"For λ up to {WEAK_LAM[-1]:g} growth after {int(ds['step'][1])} steps goes with the power "
        f"{jackknife(weak, growth_power(WEAK_LAM))} of λ; the print has 1. For σ, where it has the power 4, "
        "theory has an onset, as noise has to carry overlaps over the threshold. Growth reaches 0.1 at "
        f"{onsets}. Below σ = {ds.attrs['silent_std']:.3f} encodings of random l1 norm can lie where bipolar "
        "noise switches no wrong output on. The source puts the drop at strong noise down to lengths. "
        "Lengths and shapes |W_i|_4^4/|W_i|_2^4 at equal learning rate × steps, σ = "
        f"{float(at['noise_std']):g}: {by_rate}. What depends on the rate is of second order, noise in the "
        "gradient that turns encodings about at random."
    )
    caption = (
        f"{describe_sizes(ds)}, steps of {ds.attrs['learning_rate']:g}, {ds.sizes['run']} runs; {BARS} "
        "Black: fourth "
        "norm of one-hot encodings, shortened by the l1 force, or by noise from the inputs of others."
    )
    strong = (
        f"{describe_sizes(ds)}, bipolar noise, learning rate × steps = {drop.attrs['time']:g}, "
        f"{drop.sizes['run']} runs; {BARS}"
    )
    draw, why = (plot_fig5_lam, plot_fig5_noise), "Fig. 5: why fourth norms drop at strong noise"
    figures = [
        Figure("fig5", "Fig. 5: after a fixed number of steps", caption, ds, draw),
        Figure("drop", why, strong, drop, plot_drop),
    ]
    return TopicContent(text, figures)


QUICK_LAM = (*WEAK_LAM, 1e-3, 5e-3, 0.03, 0.1, 0.4, 1.0, 1.4, 2.0)
QUICK_STD = (0.01, 0.02, 0.04, 0.06, 0.08, 0.09, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5, 0.8)
QUICK = {"lam": QUICK_LAM, "noise_std": QUICK_STD, "runs": 12}
FULL = {"runs": 64, "steps": (4_000, 20_000, 100_000)}
DROP_QUICK = {"noise_std": (0.2, 0.4), "runs": 12}
DROP_FULL = {"runs": 64, "learning_rate": (0.02, 0.01, 0.005, 0.0025), "noise_std": (0.2, 0.3, 0.4)}
RUNS = {
    "fig5": Run(run_fig5, QUICK, FULL, seconds=9),
    "drop": Run(run_drop, DROP_QUICK, DROP_FULL, seconds=4),
}
TOPICS = [Topic("fig5", ["fig5", "drop"], _show_fig5, claims=["L35"])]
