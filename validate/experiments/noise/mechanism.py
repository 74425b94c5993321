"""Which mechanism sparsifies under hidden noise: first or second order in the learning rate (§3.2)."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL, Estimate, Family, crossing, growth_power, jackknife, mean
from ....theory import noise as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Table, Topic, TopicContent
from ..drawing import draw_estimates, finish_axes, plot_function
from .encodings import (
    BARS,
    GREY,
    MOST_STEPS,
    descend_from,
    draw_run_means,
    draw_starts,
    follow_averaged_flow,
    inverse_participation,
)

GROWTH_LABEL = "growth of $|W_i|_4^4/|W_i|_2^4$"
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
        Standard deviation of the noise in all three experiments, positive.
    learning_rate, excess_kurtosis : sequence of float
        Rates to compare, two at least, and kurtoses of three-point noise, at least -2; ascending.
    time : float
        learning_rate * steps of every run; the learning rate is 0.02 where it is not varied.
    runs, seed : int
        At least 2 runs. Run r starts from the same weights at all rates and kurtoses.
    lone_runs : int
        Number of single encodings whose drift under noise of standard deviation 0.15 is compared with theory.
    averaged_runs : int
        Number of the runs that also descend on the noise-averaged loss.

    Returns
    -------
    xarray.Dataset
        Most variables are *growths*: |W_i|_4^4/|W_i|_2^4 averaged over encodings, minus its value after
        descent without noise from the same first weights. Of bipolar noise: ``by_rate`` (learning_rate, run),
        and ``averaged`` (averaged_run), on the noise-averaged loss, the effect of first order alone. From
        theory: ``regulariser`` (learning_rate), if encodings descended the implicit regulariser of Lecomte et
        al. (2024), and ``drift`` (learning_rate), the effect of second order on encodings without
        interference. ``by_number`` (n_features, run), with 1, 2, 4, ... encodings at once; each value
        averages the same number of encodings in all. ``by_kurtosis`` (excess_kurtosis, run), bipolar where it
        is -2, and ``by_normal`` (run), under normal noise. ``lone`` (lone_run), of single encodings, and
        ``lone_predicted`` (lone_run): the second order of theory at the directions that each run meets,
        integrated over time.

        Two variables are no growths. They describe the encodings under normal noise, which favours no axes:
        ``overlap`` (run), the mean of W_i.W_k/(noise_std |W_k|) minus its value without noise, and ``force``
        (run), the mean rate at which bipolar noise would sparsify them (`theory.noise.sparsifying_rate`).
    """
    n = validation.integer("n_features", validation.power_of_two("n_features", n_features), 2)
    m, runs, lone_runs = validation.integers(n_hidden=(n_hidden, 2), runs=(runs, 2), lone_runs=(lone_runs, 2))
    std = validation.number("noise_std", noise_std, 0.0, brackets="()")
    rates = validation.real("learning_rate", learning_rate, 0.0, brackets="()")
    if rates.size < 2 or np.any(np.diff(rates) <= 0):
        raise ValueError(f"`learning_rate` must be two or more, ascending; got {rates.tolist()}.")
    kurtoses = validation.real("excess_kurtosis", excess_kurtosis, -2.0)
    longest = MOST_STEPS * min(SOURCE_RATE, float(rates.min()))
    time = validation.number("time", time, 0.0, longest, brackets="(]")
    averaged_runs = validation.integer("averaged_runs", averaged_runs, 0, runs)
    W0 = draw_starts(n, m, runs, seed)
    noiseless = descend_from(W0, "bipolar", 0.0, SOURCE_RATE, time, 0).W
    baseline = inverse_participation(noiseless).mean(axis=1)

    def descend(noise: str, rate: float, tag: int, kurtosis: float | None = None) -> FloatArray:
        """Return the last encodings (run, n, m) of descents at a learning `rate`; `tag` seeds the noise.

        `noise` is its kind, such as "bipolar"; `kurtosis` is the excess kurtosis of three-point noise.
        """
        rng = np.random.default_rng([seed, tag])
        return descend_from(W0, noise, std, rate, time, rng, excess_kurtosis=kurtosis).W

    def growth(W: FloatArray) -> FloatArray:
        """Return each run's mean of |W_i|_4^4/|W_i|_2^4 over encodings, minus its value without noise.

        W (run, n, m) are encodings after descent; descents without noise have the same first weights.
        """
        return np.asarray(inverse_participation(W).mean(axis=-1) - baseline[: len(W)])

    def growth_in_groups(size: int) -> FloatArray:
        """Return the growth (run,) of |W_i|_4^4/|W_i|_2^4 if only groups of `size` encodings interfere.

        Growth is the mean over a run's encodings after descent under bipolar noise, minus that without noise.
        """
        groups, rng = W0.reshape(-1, size, m), np.random.default_rng([seed, 400 + size])
        ends = [descend_from(groups, "bipolar", s, SOURCE_RATE, time, rng).W for s in (std, 0.0)]
        noisy, noiseless = map(inverse_participation, ends)
        return np.asarray((noisy - noiseless).reshape(-1, n).mean(axis=1))

    def drift(rate: float) -> float:
        """Return the growth of the fourth norm that theory expects of noisy steps at a learning `rate`.

        This growth is of second order in the rate, and without interference.
        """
        return float(np.mean(theory.fourth_norm_drift(noiseless, "bipolar", std, rate))) * time / rate

    normal = descend("normal", SOURCE_RATE, 250)
    averaged = [follow_averaged_flow(W, std, time) for W in W0[:averaged_runs]]
    per_time = np.array([theory.regulariser_rate(std, rate, -2.0) / rate for rate in rates.tolist()])
    regularised = np.array([theory.quartic_flow(w, time * per_time) for w in noiseless.reshape(-1, m)])
    group_sizes = [2**k for k in range(n.bit_length())]
    lone_growth, lone_predicted = _lone_growths(lone_runs, m, time, seed)
    by_rate = [growth(descend("bipolar", rate, 100 + k)) for k, rate in enumerate(rates.tolist())]
    by_kurtosis = [
        growth(descend("three-point", SOURCE_RATE, 200 + k, kurtosis))
        for k, kurtosis in enumerate(kurtoses.tolist())
    ]
    ds = xr.Dataset(
        {
            "by_rate": (("learning_rate", "run"), by_rate),
            "averaged": ("averaged_run", growth(np.array(averaged).reshape(-1, n, m))),
            "regulariser": (
                "learning_rate",
                inverse_participation(regularised).mean(axis=0) - baseline.mean(),
            ),
            "drift": ("learning_rate", list(map(drift, rates.tolist()))),
            "by_number": (("n_features", "run"), list(map(growth_in_groups, group_sizes))),
            "by_kurtosis": (("excess_kurtosis", "run"), by_kurtosis),
            "by_normal": ("run", growth(normal)),
            "overlap": ("run", (_mean_overlaps(normal) - _mean_overlaps(noiseless)) / std),
            "force": ("run", [theory.sparsifying_rate(W, std, -2.0).mean() for W in normal]),
            "lone": ("lone_run", lone_growth),
            "lone_predicted": ("lone_run", lone_predicted),
        },
        {"learning_rate": rates, "n_features": group_sizes, "excess_kurtosis": kurtoses, "run": range(runs)},
    )
    settings = {"n_hidden": m, "noise_std": std, "time": time, "seed": seed}
    return ds.assign_attrs(settings, lone_std=LONE_STD, source_rate=SOURCE_RATE)


def _lone_growths(runs: int, m: int, time: float, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return (measured, predicted) growths of |W|_4^4/|W|_2^4 of single encodings under bipolar noise.

    Each is an array by run, for `runs` encodings of m neurons after `time`, learning rate times steps. Theory
    gives the drift at an encoding. Noise also rotates encodings at random, which lowers the drift by two
    fifths on average over the time of Lecomte et al. (2024); so the drift is integrated along the trajectory,
    by the trapezoidal rule.
    """
    W = W0 = draw_starts(1, m, runs, seed + 1)
    rng, drifts = np.random.default_rng([seed, 300]), []
    for part in range(PARTS + 1):
        if part:
            W = descend_from(W, "bipolar", LONE_STD, SOURCE_RATE, time / PARTS, rng).W
        unit = (W / np.linalg.norm(W, axis=-1, keepdims=True))[:, 0]
        drifts.append(theory.fourth_norm_drift(unit, "bipolar", LONE_STD, SOURCE_RATE))
    predicted = np.trapezoid(drifts, dx=time / PARTS / SOURCE_RATE, axis=0)
    return (inverse_participation(W) - inverse_participation(W0))[:, 0], np.asarray(predicted)


def _mean_overlaps(W: FloatArray) -> FloatArray:
    """Return for each run of W (run, n, m) the mean of W_i.W_k/|W_k| over pairs i != k of encodings."""
    products = W @ (W / np.linalg.norm(W, axis=-1, keepdims=True)).mT
    return np.asarray(products[:, ~np.eye(W.shape[1], dtype=bool)].mean(axis=-1))


@plot_function
def judge_mechanism(ds: xr.Dataset, family: Family | None = None) -> dict[str, Estimate]:
    """Return by name the estimates that distinguish the mechanisms, from the data of :func:`run_mechanism`.

    Noise may make encodings sparse by an effect of first or of second order in the learning rate. *Growth* is
    the mean over encodings of |W_i|_4^4/|W_i|_2^4, minus its value without noise; under bipolar noise unless
    stated otherwise.

    ``power``: exponent of growth in the learning rate, 0 for an effect of first order, 1 for one of second
    order. ``first``: growth extrapolated to learning rate 0, linearly. ``share``: ``first`` over the growth
    at the rate of Lecomte et al. (2024); above 1 if the second order works against the first. ``gap``: growth
    on the averaged loss minus the extrapolated growth, for the runs that have both. ``lone``, ``normal``:
    growth of one encoding alone, and of all under normal noise. ``crossing``: the excess kurtosis at which
    growth, minus growth under normal noise, changes sign (nan if it does not).

    Limits hold together for the comparisons of `family` (Bonferroni); without one they are those of 95 %
    intervals. Intervals are Student's for means, and use the jackknife's standard error over runs for the
    rest.
    """

    def estimate(statistic: Callable[..., Estimate], *samples: object) -> Estimate:
        """Return the estimate of a `statistic` with the family's limits, if there is a family."""
        return family.of(statistic, *samples) if family else statistic(*samples)

    rates, growths = ds["learning_rate"].values, ds["by_rate"].values.T

    def line(samples: FloatArray) -> FloatArray:
        """Return slope and intercept (2, run) of growth, `samples` (run, rate), against the learning rate."""
        return np.asarray(np.polyfit(rates, samples.T, 1))

    def share(samples: FloatArray) -> float:
        """Return (growth extrapolated to rate 0) / (growth at the source's rate), of growths (run, rate)."""
        slope, first = line(samples).mean(axis=1)
        return float(first / (first + slope * ds.attrs["source_rate"]))

    firsts, averaged = line(growths)[1], ds["averaged"].values
    beyond_normal = (ds["by_kurtosis"] - ds["by_normal"]).transpose("run", ...).values
    estimates = {
        "power": estimate(jackknife, growths, growth_power(rates)),
        "share": estimate(jackknife, growths, share),
        "crossing": estimate(crossing, ds["excess_kurtosis"].values, beyond_normal),
        "first": estimate(mean, firsts),
        "lone": estimate(mean, ds["lone"].values),
        "normal": estimate(mean, ds["by_normal"].values),
    }
    if averaged.size > 1:
        estimates["gap"] = estimate(mean, averaged - firsts[: averaged.size])
    return estimates


@plot_function
def plot_rates(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth under noise at fixed rate × steps against the learning rate, with what theory expects.

    Growth is that of |W_i|_4^4/|W_i|_2^4, a mean over encodings; `ds` is from `run_mechanism`.
    """
    rates = ds["learning_rate"].values
    ax.plot(rates, ds["regulariser"], color="C0", label="if the source's regulariser were descended")
    ax.plot(rates, ds["drift"], color="C0", linestyle=":", label="true second order, no interference")
    if ds.sizes["averaged_run"] == ds.sizes["run"]:  # else its starts are others than those of the markers
        averaged, label = float(ds["averaged"].mean()), "first order: flow of the averaged loss"
        ax.axhline(averaged, color="C0", linestyle="--", label=label)
    draw_run_means(ax, ds["learning_rate"], ds["by_rate"], label="measured")
    draw_estimates(ax, [0], [judge_mechanism(ds)["first"]], fmt="D", color="C2", label="at rate 0")
    top = float(ds["by_rate"].mean("run").max())
    ax.set_xticks([0, *rates], [f"{rate:g}" for rate in (0, *rates)])
    ends = (-0.04, 1.9 * max(top, 0.01))
    return finish_axes(ax, "upper right", xlabel="learning rate", ylabel=GROWTH_LABEL, ylim=ends)


@plot_function
def plot_number(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the growth of |W_i|_4^4/|W_i|_2^4 under noise against the number of encodings that interfere.

    `ds` is from `run_mechanism`.
    """
    ax.axhline(0, color=GREY, linewidth=0.8)
    draw_run_means(ax, ds["n_features"], ds["by_number"])
    ax.set_xscale("log", base=2)
    ax.set_xticks(ds["n_features"].values, [str(k) for k in ds["n_features"].values])
    return finish_axes(ax, None, xlabel="encodings n", ylabel=GROWTH_LABEL)


@plot_function
def plot_kurtosis(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth under noise, minus growth under normal noise, against the excess kurtosis of the noise.

    Growth is that of |W_i|_4^4/|W_i|_2^4, a mean over encodings; `ds` is from `run_mechanism`.
    """
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.axvline(0, color=GREY, linewidth=0.8)
    draw_run_means(ax, ds["excess_kurtosis"], ds["by_kurtosis"] - ds["by_normal"], fmt="o-")
    ax.set(xlabel="excess kurtosis, three-point noise", ylabel="growth beyond normal noise's")
    return ax


def _show_mechanism(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "mechanism", from `ds` of `run_mechanism`.

    The figure has the growth of |W_i|_4^4/|W_i|_2^4 under noise against the learning rate, the number of
    encodings and the kurtosis. The table has estimates of growth beside the predictions of two theories.
    """
    estimates, std, lone_std = judge_mechanism(ds), ds.attrs["noise_std"], ds.attrs["lone_std"]
    at = ds.sel(learning_rate=ds.attrs["source_rate"], method="nearest")
    grown, printed, true = (float(at[name].mean()) for name in ("by_rate", "regulariser", "drift"))
    text = (
        f"At the source's settings (learning rate {float(at['learning_rate']):g}, σ = {std:g}) encodings "
        f"that descended the printed regulariser would have grown by {printed:.2g}, {printed / grown:.1%} of "
        f"the {grown:.2g} measured; the true second-order effect without interference would have "
        f"changed them by {true:.2g}."
    )
    flow = f"flow less this: {estimates['gap']:.2g}" if "gap" in estimates else "not computed"
    alone = f"{float(ds['lone_predicted'].mean()):.3g} (second order)"
    rows = [
        ("power of the learning rate", estimates["power"], "0", "1"),
        ("growth at learning rate 0", estimates["first"], flow, "0"),
        ("the same over that at the source's rate", estimates["share"], "1", "0"),
        (f"change of a lone encoding, σ = {lone_std:g}", estimates["lone"], alone, "above 0"),
        ("growth under normal noise", estimates["normal"], "0", "0"),
        ("kurtosis at which growth changes sign", estimates["crossing"], "0 to first order", "0"),
    ]
    caption = (
        f"m = {ds.attrs['n_hidden']}, {ds.sizes['run']} runs ({ds.sizes['averaged_run']} for the flow), "
        f"{ds.sizes['lone_run']} lone encodings; growth beyond normal noise's, for the kurtosis."
    )
    columns = ("", f"measured, {LEVEL:.0%}", "effective potential", "printed regulariser")
    table = Table("Which mechanism", columns, [[f"{cell}" for cell in row] for row in rows], caption)
    caption = (
        f"m = {ds.attrs['n_hidden']}, bipolar noise, σ = {std:g} unless said otherwise, learning rate × "
        f"steps = {ds.attrs['time']:g}. Growth is that of the mean of |W_i|_4^4/|W_i|_2^4 beyond the same "
        f"descent without noise; {BARS}"
    )
    draw = (plot_rates, plot_number, plot_kurtosis)
    figure = Figure("mechanism", "First or second order?", caption, ds, draw, columns=3, size=(3.6, 3.2))
    headline = (
        "At equal learning rate × steps, growth of sparsity under hidden noise goes with the power "
        f"{estimates['power']:.2f} of the learning rate, where first order has 0 and the source's "
        "regulariser 1."
    )
    return TopicContent(text, [figure], [table], headline)


QUICK = {
    "runs": 20, "lone_runs": 800, "averaged_runs": 0, "excess_kurtosis": (-2.0, -1.0, -0.3, 0.3, 3.0),
}  # fmt: skip
# Seeds that nothing has used: the runs of L31 had been raised after a look.
FRESH = {
    "runs": 100, "averaged_runs": 0, "lone_runs": 4000, "seed": 3102,
    "excess_kurtosis": [-2.0, -1.0, -0.3, 0.3, 3.0],
}  # fmt: skip
_CHECK = ReproductionCheck(
    {"excess_kurtosis": [-2.0], "averaged_runs": 0},
    ["lone", "by_normal", "by_kurtosis", "by_rate"],
    1e-12,
    SUMS,
)
RUNS = {
    "mechanism": Run(run_mechanism, QUICK, {"runs": 100, "lone_runs": 5000, "averaged_runs": 20}, seconds=12),
    "fresh": Run.shipped(
        "noise_mechanism", "new runs for L31", run_mechanism, FRESH, seconds=120, check=_CHECK
    ),
}
TOPICS = [Topic("mechanism", ["mechanism"], _show_mechanism, claims=["L30", "L31"])]
