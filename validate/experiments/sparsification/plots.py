"""Figures of sparsification: theory is a line, exact runs are dots, their means have Student's intervals."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL
from ..drawing import draw_means, finish_axes, plot_function, plot_theory_vs_experiment

NAMES = {"nonzeros": "nonzero weights m'", "l1_norm": "l1 norm |W|$_1$"}


def _curves(ds: xr.Dataset, ax: Axes, name: str) -> Axes:
    law = ds[f"law_{name}"].assign_attrs(label="limit law")
    t, runs = ds["time"], ds[name].isel(time=slice(None, None, 4))
    ax.set(xscale="log", yscale="log")
    ax.plot(t, ds[f"source_{name}"], color="0.5", linestyle="--", label="source, constants 1")
    plot_theory_vs_experiment(law, runs.assign_attrs(long_name=NAMES[name]), ax)
    return finish_axes(ax, None, xlabel="time t")


@plot_function
def plot_nonzeros(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the number of nonzero weights against time (Fig. 2); of `run_fig2`."""
    return _curves(ds, ax, "nonzeros")


@plot_function
def plot_l1_norm(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the l1 norm against time (Fig. 2); of `run_fig2`."""
    return _curves(ds, ax, "l1_norm")


@plot_function
def plot_deviation(ds: xr.Dataset, ax: Axes, name: str = "nonzeros") -> Axes:
    """Draw the ratio of curves ("nonzeros" or "l1_norm") to the limit law with the interval of single runs.

    Of `run_fig2`.
    """
    t, law, some = ds["time"].values, ds[f"law_{name}"].values, slice(None, None, 4)
    spread, source = ds[f"law_{name}_std"].values / law, ds[f"source_{name}"].values / law
    band = "one run: ± 1 s.d. (law)"
    ax.fill_between(t, 1 - spread, 1 + spread, color="C0", alpha=0.15, linewidth=0, label=band)
    ax.axhline(1, color="C0", label="limit law")
    style = {"color": "C1", "markersize": 3, "elinewidth": 0.8, "capsize": 0}
    label = f"mean of {ds.sizes['run']} exact runs, {LEVEL:.0%} interval"
    ratios = ds[name].transpose("time", "run").values / law[:, None]
    draw_means(ax, t[some], ratios[some], label=label, **style)
    ax.plot(t, source, color="0.5", linestyle="--", label="source, constants 1")
    ax.set(xscale="log", yscale="log", ylim=(0.2, 8), xlabel="time t", ylabel=f"{NAMES[name]} / limit law")
    ax.set_yticks([0.3, 0.5, 1, 2, 3], ["0.3", "0.5", "1", "2", "3"])
    ax.minorticks_off()
    return finish_axes(ax, "upper right")


@plot_function
def plot_relative_variance(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the relative variance of the survivors between its bounds (Fig. 7); of `run_fig7`."""
    t = ds["time"].values
    some = ds["nonzeros"].values > 1  # a weight alone has no variance
    for name, colour, style, label in (
        ("lower", "C2", "-", "bounds, these weights"),
        ("upper", "C2", "-", None),
        ("ideal_lower", "C4", "--", "bounds, ideal weights"),
        ("ideal_upper", "C4", "--", None),
    ):
        ax.plot(t[some], ds[name].values[some], color=colour, linestyle=style, linewidth=1, label=label)
    ax.plot(t, ds["limit"].values, color="C0", label="limit of many weights")
    ax.plot(t[some], ds["relative_variance"].values[some], "o", color="C1", markersize=2.5, label="exact run")
    high = np.nanmax(ds["upper"].values[some]) if some.any() else 1.0
    ax.set(xscale="log", ylim=(0, 1.05 * high))
    return finish_axes(ax, xlabel="time t", ylabel="relative variance of survivors")
