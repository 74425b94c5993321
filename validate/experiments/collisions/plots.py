"""Figures of collisions: theory is a line, runs are markers with 95 % intervals (Student's, or exact)."""

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.collisions.counts import ZERO
from ....solvers.statistics import share
from ....theory import collisions as theory
from ....theory import validation
from ....theory.collisions.neuron import untied_length_ratio
from ..drawing import draw_estimates, draw_means, finish_axes, plot_function, size_axis
from .trained import NAMES

MARKS = "osD^v<>ph"


def _means(ax: Axes, x: npt.ArrayLike, samples: npt.ArrayLike, k: int, label: str, line: str = "") -> None:
    style = {"fmt": MARKS[k % len(MARKS)] + line, "color": f"C{k + 1}", "markersize": 4}
    draw_means(ax, x, samples, label=label, **style)


def _against_m(ds: xr.Dataset, ax: Axes, ratio: bool) -> tuple[Axes, float]:
    """Draw counts or their ratio to n^2/(4m), of the flow or several optimisers; return the least drawn."""
    n, m = ds.attrs["n_features"], ds["n_hidden"].values
    fine = np.unique(np.geomspace(m.min(), m.max(), 100).astype(int))
    quoted = theory.quoted_polysemantic(n, fine)
    unit = quoted if ratio else 1.0
    ax.plot(fine, quoted / unit, color="0.5", linestyle="--", label="n²/(4m)")
    ax.plot(fine, theory.expected_polysemantic(n, fine) / unit, color="C0", label="one place a feature")
    alone = theory.expected_polysemantic(n, fine, exclusive=False) / unit
    ax.plot(fine, alone, color="C0", linestyle=":", label="independent choice")
    counts = ds["polysemantic"].assign_coords(scale=ds["quoted"] if ratio else 1.0)
    parts = counts.expand_dims(optimiser=["flow"]) if "optimiser" not in counts.dims else counts
    least = []
    for k, name in enumerate(map(str, parts["optimiser"].values)):
        one = parts.sel(optimiser=name).transpose("n_hidden", "run").dropna("n_hidden", how="all")
        values = (one / one["scale"]).values
        # Side by side, so that bars do not overlap.
        x = one["n_hidden"].values * 1.03 ** (k - (parts.sizes["optimiser"] - 1) / 2)
        if not ratio:
            ax.plot(np.repeat(x, values.shape[1]), values.ravel(), ".", color=f"C{k + 1}", alpha=0.25)
        runs = np.isfinite(values).sum(axis=1)
        many = f"{runs.min()} to {runs.max()}" if np.ptp(runs) else f"{runs[0]}"
        _means(ax, x, values, k, f"{NAMES.get(name, name)}, {many} runs")
        least.append(values[values > 0].min(initial=np.inf))
    kind = "printed loss" if "optimiser" in counts.dims else "normal form"
    title = f"n = {ds.attrs['n_features']}, λ = {ds.attrs['lam']:g} ({kind})"
    size_axis(ax, m, xlabel="hidden neurons m", title=title)
    return ax, min(least)


@plot_function
def plot_fig3(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw counts against m: runs as dots, means with their intervals, predictions as lines.

    Of `run_fig3`, `run_trained` or `run_printed`.
    """
    ax, least = _against_m(ds, ax, ratio=False)
    ax.set_yscale("log")
    if np.isfinite(least):
        ax.set_ylim(bottom=least / 7)  # room for the legend below the data
    return finish_axes(ax, "lower left", ylabel="polysemantic neurons")


@plot_function
def plot_ratio(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw mean counts over n^2/(4m) against m, and the predictions over the same; data as in `plot_fig3`."""
    ax, _ = _against_m(ds, ax, ratio=True)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom - 0.45 * (top - bottom), top)
    return finish_axes(ax, {"loc": "lower right", "ncols": 2}, ylabel="polysemantic neurons / (n²/4m)")


@plot_function
def plot_course(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the count over the chance value against time, and the share of overlaps that are held down."""
    ax.axhline(1.0, color="0.5", linestyle="--", label="chance alone")
    ratio = (ds["count"] / ds.attrs["expected"]).transpose("time", "run")
    _means(ax, ds["time"], ratio, 0, f"count at that time, {ds.sizes['run']} runs", "-")
    ax.plot(ds["time"], ds["held"].mean("run"), ".:", color="C3", label="overlaps held at zero, share")
    title = "n = {n_features}, m = {n_hidden}, λ = {lam:g}".format(**ds.attrs)
    ax.set(xlabel="λt", ylabel="count over chance; share", title=title, ylim=(0.0, 1.6))
    # Logarithmic from the end of the first conflict on, with room for time 0.
    ax.set_xscale("symlog", linthresh=0.03, linscale=0.3)
    ticks = [0.0, 0.03, 0.1, 0.3, 1.0, 3.0]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    return finish_axes(ax, "upper left", xlim=(-0.01, 1.2 * float(ds["time"].max())))


@plot_function
def plot_cooccurrence(ds: xr.Dataset, ax: Axes, name: str = "polysemantic") -> Axes:
    """Draw the count over its mean for one feature at a time, against p over lam_normal.

    Of `run_cooccurrence`; `name` is the variable to draw, such as "polysemantic_0.8" or "after".
    """
    name = validation.choice("name", name, tuple(str(key) for key in ds.data_vars))
    level = name.partition("_")[2] or f"{ds.attrs['threshold']:g}"
    inside = ds.isel(p=ds["p"].values > 0)
    for k, lam in enumerate(ds["lam"].values):
        ratio = inside[name].isel(lam=k) / float(ds["before"].isel(lam=k).mean())
        x, label = inside["p"] / float(ds["lam_normal"][k]), f"λ = {lam:g}, {ds.sizes['run']} seeds"
        _means(ax, x, ratio.transpose("p", "run"), k, label, "-")
    ax.axhline(1, color="0.8", linewidth=0.8, zorder=0)
    ax.axvline(1, color="C0", linestyle=":", label="predicted scale, p = λ/4")
    ax.set(xscale="log", xlabel="p / (λ/4)", ylabel="count / that with one-hot inputs")
    title = f"n = {ds.attrs['n_features']}, m = {ds.attrs['n_hidden']}, weights above {level}"
    return finish_axes(ax, "lower left", title=title, ylim=(-0.03, max(1.2, ax.get_ylim()[1])))


@plot_function
def plot_remedy(ds: xr.Dataset, ax: Axes, i: int = 0) -> Axes:
    """Draw the share of split neurons that parted, at the i-th lam, against time; lines are predicted."""
    fine = np.linspace(0.0, 1.05 * float(ds["time"].max()), 200)
    for k, size in enumerate(ds["eps"].values):
        line, _ = theory.separated_share(fine, 1.0, size, correlation=ds.attrs["correlation"], left=ZERO)
        ax.plot(fine, line, color=f"C{k}", label=f"perturbation {size:g}")
        some = ds.isel(lam=i, eps=k)
        found = [share(int(hits), int(some["pairs"])) for hits in some["apart"].values]
        style = {"color": f"C{k}", "markersize": 3, "elinewidth": 0.8, "fmt": MARKS[k], "capsize": 0}
        draw_estimates(ax, some["time"], found, **style)
    ax.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    title = f"λ = {float(ds['lam'][i]):g} (printed loss), {int(ds['pairs'][i])} pairs"
    ax.set(xlabel="time since the split × λ/4", ylabel="share of pairs parted")
    return finish_axes(ax, "upper left", title=title, ylim=(-0.03, 1.2))  # no share is above 1: there is room


@plot_function
def plot_untied(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw |D|/|E| of learned features against time, and the drift of one neuron from equal lengths."""
    fine = np.geomspace(float(ds["time"].min()), float(ds["time"].max()), 100)
    ax.plot(fine, untied_length_ratio(fine), color="C0", label="one neuron, l1 on activations")
    for k, case in enumerate(ds["case"].values):
        values = ds["norm_ratio"].sel(case=case).transpose("time", "run")
        _means(ax, ds["time"], values, k, str(case))
    size_axis(ax, ds["time"], yscale="log", xlabel="time × λ/2", ylabel="|D| / |E|, learned features")
    ax.set_title("n = {n_features}, m = {n_hidden}, λ = {lam:g} (printed loss)".format(**ds.attrs))
    ax.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    ax.minorticks_off()
    legend = {"title": f"{ds.sizes['run']} seeds", "loc": "upper left", "ncols": 2}
    return finish_axes(ax, legend, ylim=(0.9, 5 * ax.get_ylim()[1]))
