"""Figures of hidden noise: theory in black or as lines, measured means with intervals."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import share
from ..drawing import draw_estimates, draw_means, finish_axes, plot_function
from .mechanism import judge_mechanism

__all__ = [
    "plot_drop", "plot_fig4", "plot_fig5_lam", "plot_fig5_noise", "plot_fig6", "plot_kurtosis",
    "plot_number", "plot_rates", "plot_stuck", "plot_weights",
]  # fmt: skip

_FOURTH = "mean fourth norm $|W_i|_4^4$"
_GROWTH = "growth of $|W_i|_4^4/|W_i|_2^4$"
_SIGMA = "standard deviation σ of bipolar noise"
_RESTING = "0.5"


def _means(ax: Axes, x: xr.DataArray, values: xr.DataArray, **style: Any) -> None:
    draw_means(ax, x, values.transpose(..., "run"), **{"color": "C1", "markersize": 3.5} | style)


@plot_function
def plot_fig4(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw mean fourth norms against time under bipolar and normal noise (Fig. 4); of `run_fig4`."""
    t = ds["t"].values
    for k, std in enumerate(ds["noise_std"].values):
        runs = ds["fourth_norm"].isel(noise_std=k)
        colour = f"C{k + 1}"
        both = runs.sel(noise="bipolar")
        ax.fill_between(t, both.min("run"), both.max("run"), color=colour, alpha=0.2, linewidth=0)
        ax.plot(t, both.mean("run"), color=colour, label=f"bipolar, σ = {std:g}")
        ax.plot(t, runs.sel(noise="normal").mean("run"), color=colour, linewidth=0.8, linestyle="--")
        if ds.sizes["averaged_run"]:
            sure = ds["averaged"].isel(noise_std=k).mean("averaged_run")
            ax.plot(t, sure, color="C0", linewidth=1, label=None if k else "flow of averaged loss")
        if ds["predicted_time"][k] <= t[-1]:
            ax.plot(ds["predicted_time"][k], 0.5, "v", color=colour, markersize=6, markeredgecolor="C0")
    ax.plot([], [], color=_RESTING, linestyle="--", linewidth=0.8, label="normal, same colours")
    ax.plot([], [], "v", color="w", markeredgecolor="C0", label="predicted time to 1/2")
    ax.axhline(3 / ds.attrs["n_hidden"], color=_RESTING, linewidth=0.8, linestyle=":", label="3/m")
    legend = {"ncols": 2, "loc": "upper center"}
    return finish_axes(ax, legend, xlabel="learning rate × steps", ylabel=_FOURTH, ylim=(0, 1.35))


def _fig5(ds: xr.Dataset, ax: Axes, x: str, name: str, power: int, labels: tuple[str, str]) -> Axes:
    at, quiet = ds[x].values, float(ds["quiet"].isel(step=-1).mean())
    ax.axhline(quiet, color=_RESTING, linewidth=0.8, linestyle=":", label="no noise, no l1")
    grown = ds[name].isel(step=-1).mean("run").values - quiet
    k = int(np.argmin(np.abs(grown - 0.1)))
    line = quiet + grown[k] * (at / at[k]) ** power
    ax.plot(at[line < 1], line[line < 1], color=_RESTING, linestyle="--", label=f"power {power}, as printed")
    ax.plot(at, ds[name.replace("by_", "") + "_drop"], color="C0", label=labels[0])
    for k, step in enumerate(ds["step"].values):
        _means(ax, ds[x], ds[name].isel(step=k), color=f"C{k + 1}", label=f"{step} steps")
    return finish_axes(ax, "upper left", xscale="log", xlabel=labels[1], ylabel=_FOURTH, ylim=(0, 1.8))


@plot_function
def plot_fig5_lam(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw last fourth norms against the l1 strength (Fig. 5a); of `run_fig5`."""
    return _fig5(ds, ax, "lam", "by_lam", 1, ("one-hot encodings", "λ of the printed loss"))


@plot_function
def plot_fig5_noise(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw last fourth norms against bipolar noise (Fig. 5b); of `run_fig5`."""
    ax.axvline(ds.attrs["silent_std"], ymax=0.6, color="C4", linewidth=1, label="can be silent below")
    return _fig5(ds, ax, "noise_std", "by_noise", 4, ("one-hot, orthogonal", _SIGMA))


@plot_function
def plot_drop(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw shapes and squared lengths under strong noise, by learning rate; of `run_drop`."""
    names = (("shape", "o-", "$|W_i|_4^4/|W_i|_2^4$"), ("square", "s--", "$|W_i|_2^2$"))
    for k, rate in enumerate(ds["learning_rate"].values):
        for name, fmt, label in names:
            values = ds[name].isel(learning_rate=k)
            _means(ax, ds["noise_std"], values, fmt=fmt, color=f"C{k + 1}", label=f"{label}, rate {rate:g}")
    ax.set(ylim=(0, 1.05), xticks=ds["noise_std"])
    return finish_axes(ax, "lower left", xlabel=_SIGMA, ylabel="mean over encodings")


@plot_function
def plot_fig6(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the fourth norm of each encoding of one run against time (Fig. 6a); of `run_fig6`."""
    styles: list[dict[str, Any]] = [{"color": "C1", "linewidth": 0.7}, {"color": "C2", "linewidth": 1.6}]
    for k, norms in enumerate(ds["fourth_norm"].values.T):
        ax.plot(ds["t"], norms, zorder=3 - k / 99, **styles[int(ds["stuck"][k])])
    for style, label in zip(styles, ("others", "stuck"), strict=True):
        ax.plot([], [], label=label, **style)
    at_rest = "spread encoding at the minimum of the averaged loss"
    ax.axhline(float(ds["spread_norm"]), color="C0", linewidth=1, label=at_rest)
    ax.set(xlabel="learning rate × steps", ylabel="fourth norm $|W_i|_4^4$")
    return finish_axes(ax, "upper left", ylim=(0, 1.6))


@plot_function
def plot_weights(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the last weights of that run (Fig. 6b); of `run_fig6`."""
    n, m = ds["W"].shape
    ax.grid(False)
    picture = ax.imshow(ds["W"].values, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    ax.set(xticks=range(0, m, max(1, m // 8)), yticks=range(n))
    ax.figure.colorbar(picture, ax=ax, label="weight")
    return finish_axes(ax, None, xlabel="neuron, sorted", ylabel="feature, sorted by fourth norm")


@plot_function
def plot_stuck(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw shares of runs with a stuck encoding, and of runs that sparsified, against n/m; of `run_stuck`."""
    ratio = ds["n_features"] / ds.attrs["n_hidden"]
    hits = {"most encodings sparse": 2 * ds["sparse"] > ds["n_features"], "with a stuck one": ds["stuck"] > 0}
    for k, (label, having) in enumerate(hits.items()):
        found = [share(int(count), ds.sizes["run"]) for count in having.sum("run")]
        draw_estimates(ax, ratio * (0.99 + 0.02 * k), found, fmt="o-", color=f"C{k + 1}", label=label)
    label = f"share of {ds.sizes['run']} runs"
    return finish_axes(ax, "upper left", xlabel="n/m", ylabel=label, ylim=(-0.05, 1.3))


@plot_function
def plot_rates(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth at fixed learning rate × steps against the learning rate; of `run_mechanism`."""
    rates = ds["learning_rate"].values
    ax.plot(rates, ds["regulariser"], color="C0", label="if the source's regulariser were descended")
    ax.plot(rates, ds["drift"], color="C0", linestyle=":", label="true second order, no interference")
    if ds.sizes["averaged_run"] == ds.sizes["run"]:  # else its starts are others than those of the markers
        sure = float(ds["averaged"].mean())
        ax.axhline(sure, color="C0", linestyle="--", label="first order: flow of the averaged loss")
    _means(ax, ds["learning_rate"], ds["by_rate"], label="measured")
    draw_estimates(ax, [0], [judge_mechanism(ds)["first"]], fmt="D", color="C2", label="at rate 0")
    top = float(ds["by_rate"].mean("run").max())
    ax.set_xticks([0, *rates], [f"{rate:g}" for rate in (0, *rates)])
    ends = (-0.04, 1.9 * max(top, 0.01))
    return finish_axes(ax, "upper right", xlabel="learning rate", ylabel=_GROWTH, ylim=ends)


@plot_function
def plot_number(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth against the number of encodings; of `run_mechanism`."""
    ax.axhline(0, color=_RESTING, linewidth=0.8)
    _means(ax, ds["n_features"], ds["by_number"])
    ax.set_xscale("log", base=2)
    ax.set_xticks(ds["n_features"].values, [str(k) for k in ds["n_features"].values])
    return finish_axes(ax, None, xlabel="encodings n", ylabel=_GROWTH)


@plot_function
def plot_kurtosis(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth beyond normal noise's against the excess kurtosis; of `run_mechanism`."""
    ax.axhline(0, color=_RESTING, linewidth=0.8)
    ax.axvline(0, color=_RESTING, linewidth=0.8)
    _means(ax, ds["excess_kurtosis"], ds["by_kurtosis"] - ds["by_normal"], fmt="o-")
    ax.set(xlabel="excess kurtosis, three-point noise", ylabel="growth beyond normal noise's")
    return ax
