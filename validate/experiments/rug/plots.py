"""Figures of the rug: theory is a line, trained models are markers, means have 95 % intervals."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ..drawing import draw_means, finish_axes, plot_function, size_axis

__all__ = [
    "plot_bias_map", "plot_excess", "plot_finite_size", "plot_loss_against_p",
    "plot_loss_against_ratio", "plot_onset", "plot_profile", "plot_rug",
]  # fmt: skip

# Marker and colour of a model's size (Okabe and Ito).
STYLES = {
    64: ("v", "C4"), 128: ("o", "C1"), 256: ("s", "C2"), 512: ("D", "C3"), 1024: ("^", "C5"),
    2048: ("<", "C6"), 4096: ("P", "C2"), 8192: ("X", "C5"),
}  # fmt: skip
COLOURS = ("C1", "C2", "C3", "C4", "C5", "C6")


def _markers(ax: Axes, ds: xr.Dataset, x: str, sizes: np.ndarray | None) -> None:
    """Draw models, open at the stopping rule and filled after further steps.

    A legend names the `sizes`, also those that this panel does not show.
    """
    for n in np.unique(ds["n_features"]):
        marker, colour = STYLES.get(int(n), ("x", "C6"))
        mine = ds.isel(model=ds["n_features"].values == n)
        for end in range(mine.sizes["end"]):
            face = colour if end == mine.sizes["end"] - 1 else "none"
            look: dict[str, Any] = {"color": colour, "markerfacecolor": face, "alpha": 0.85}
            look |= {"markersize": 3.6, "markeredgewidth": 0.8}
            ax.plot(mine[x], mine["trained"].isel(end=end), marker, **look)
    for n in () if sizes is None else np.unique(sizes):
        marker, colour = STYLES.get(int(n), ("x", "C6"))
        ax.plot([], [], marker, color=colour, markersize=3.6, label=f"n = {n}")


@plot_function
def plot_rug(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the matrix as an image (Fig. 1)."""
    reach = float(abs(ds["rug"]).quantile(0.999))
    image = ax.imshow(ds["rug"], cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="R$_{ij}$ (diagonal = 1)", shrink=0.85, extend="max")
    ax.grid(False)
    return finish_axes(ax, None, xlabel="input j", ylabel="output i")


def _lines(ax: Axes, line: xr.Dataset, x: str) -> None:
    """Draw the rug and the affine optimum in units of the loss at ratio 0."""
    zero = line["zero_ratio_loss"]
    ax.plot(line[x], line["loss"] / zero, color="C0", label="Persian rug")
    ax.plot(line[x], line["linear_loss"] / zero, color="0.5", linestyle="--", label="affine optimum")
    ax.set(yscale="log", ylabel="loss / loss at ratio 0")


@plot_function
def plot_loss_against_ratio(ds: xr.Dataset, ax: Axes, p: float, legend: bool = False) -> Axes:
    """Draw the loss against the ratio at one p (Fig. 2): theory, affine optimum, trained models."""
    line = ds.sel(p=p)
    _lines(ax, line, "ratio")
    ax.axvline(p, color="0.8", linewidth=0.8, zorder=0)
    some = ds.isel(model=np.isclose(ds["model_p"], p))
    _markers(ax, some, "model_ratio", ds["n_features"].values if legend else None)
    rug = float((line["loss"] / line["zero_ratio_loss"]).sel(ratio=0.9, method="nearest"))
    low = np.fmin.reduce([rug, 0.3, *some["trained"].values.ravel()])
    ax.set(ylim=(0.6 * low, 1.6), xlim=(0, 1), xlabel="ratio n_hidden / n_features")
    return finish_axes(ax, "lower left" if legend else None, title=f"p = {p:g}")


@plot_function
def plot_loss_against_p(ds: xr.Dataset, ax: Axes, ratio: float, legend: bool = False) -> Axes:
    """Draw the loss against p near one ratio: lines at the ratio, trained models within 5 % of it."""
    line = ds.sel(ratio=ratio, method="nearest")
    _lines(ax, line, "p")
    small = (line["asymptotic_loss"] / line["zero_ratio_loss"]).where(ds["p"] < 0.03)
    ax.plot(ds["p"], small, color="C6", linestyle=":", linewidth=2, label="small-p law")
    some = ds.isel(model=np.abs(ds["model_ratio"].values / ratio - 1) < 0.05)
    _markers(ax, some, "model_p", ds["n_features"].values if legend else None)
    place, title = "lower right" if legend else None, f"ratio ≈ {ratio:g}"
    return finish_axes(ax, place, xscale="log", xlabel="feature probability p", title=title)


@plot_function
def plot_onset(ds: xr.Dataset, ax: Axes) -> Axes:
    """Zoom on ratio ≈ p, where the loss drops: loss at ratio/p, with the ratio where the bias vanishes."""
    for p, colour in zip((0.001, 0.01, 0.05, 0.1, 0.4), COLOURS, strict=False):
        line = ds.sel(p=p, method="nearest")
        zero = float(line["zero_ratio_loss"])
        ax.plot(ds["ratio"] / p, line["loss"] / zero, color=colour, label=f"p = {p:g}")
        cross = float(line["crossover_ratio"])
        height = np.interp(cross, ds["ratio"], line["loss"] / zero)
        ax.plot(cross / p, height, "|", color=colour, markersize=12)
        mine = np.isclose(ds["model_p"], p)
        if mine.any():
            some = ds.isel(model=mine, end=-1)
            ax.plot(some["model_ratio"] / p, some["trained"], "o", color=colour, markersize=3, alpha=0.8)
    ax.axvline(1, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xscale="log", xlim=(0.1, 10), ylim=(0, 1.05))
    return finish_axes(ax, xlabel="ratio / p", ylabel="loss / loss at ratio 0")


@plot_function
def plot_excess(ds: xr.Dataset, ax: Axes, ratio: float) -> Axes:
    """Draw loss/theory against n_features near one ratio: means over seeds with their intervals.

    An end that a run did not come to is nan, and left out.
    """
    sizes = np.unique(ds["n_features"])
    near = np.abs(ds["model_ratio"].values / ratio - 1) < 0.05
    for p, colour in zip(np.unique(ds["model_p"]), COLOURS, strict=False):
        for end in range(ds.sizes["end"]):
            filled = end == ds.sizes["end"] - 1
            mine = near & (ds["model_p"].values == p)
            over = 1 + ds["excess"].values[end]
            rows = [np.where(mine & (ds["n_features"].values == n), over, np.nan) for n in sizes]
            if np.isfinite(rows).sum(axis=1).max() < 2:
                continue
            look: dict[str, Any] = {"color": colour, "markerfacecolor": colour if filled else "white"}
            look |= {"fmt": "o-" if filled else "o:", "markersize": 4, "linewidth": 1, "capsize": 0}
            draw_means(ax, sizes, rows, label=f"p = {p:g}" if filled else None, **look)
    ax.axhline(1, color="C0")
    size_axis(ax, sizes, yscale="log")
    return finish_axes(ax, ylabel="trained loss / rug's optimum", title=f"ratio ≈ {ratio:g}")


@plot_function
def plot_finite_size(ds: xr.Dataset, ax: Axes, case: int = 0) -> Axes:
    """Draw the finite-size rug over the macroscopic loss: exact per draw, simulated with its error."""
    ds = ds.isel(case=case)
    for draw in range(ds.sizes["draw"]):
        some = ds.isel(draw=draw)
        # Side by side, so that bars do not overlap.
        x = ds["n_features"].values * (1 + 0.05 * (draw - (ds.sizes["draw"] - 1) / 2))
        names = ("simulated", "simulated_half", "exact")
        simulated, half, exact = (some[name] / some["macroscopic"] for name in names)
        said = ("simulated", "exact, each draw") if draw == 0 else (None, None)
        ax.errorbar(x, simulated, half, fmt="o", color="C1", markersize=3, elinewidth=0.8, label=said[0])
        ax.plot(x, exact, "_", color="C2", markersize=9, label=said[1])
    ax.axhline(1, color="C0", label="macroscopic (n → ∞)")
    ax.set(xscale="log", xlabel="n_features", ylabel="rug's loss / macroscopic loss")
    return finish_axes(ax, title=f"p = {float(ds['p']):g}, ratio = {float(ds['ratio']):g}")


@plot_function
def plot_profile(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss over the shift b/(a sigma), the scale optimal: one minimum, which moves through 0."""
    for k, ratio in enumerate(ds["ratio"].values):
        some = ds.isel(ratio=k)
        colour = COLOURS[k % len(COLOURS)]
        ax.plot(ds["shift"], some["profile"], color=colour, label=f"ratio = {ratio:g}")
        ax.plot(some["best_shift"], some["best"], "o", color=colour, markersize=4)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlim=(-5, 6), title=f"p = {ds.attrs['p']:g}")
    return finish_axes(ax, xlabel="shift b / (a σ)", ylabel="loss / loss at ratio 0")


@plot_function
def plot_bias_map(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the optimal shift b/(a sigma) over the plane, and the line where the bias changes sign."""
    shift = (ds["b"] / (ds["a"] * ds["sigma"])).where(ds["sigma"] > 0)
    look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -4, "vmax": 4, "shading": "nearest"}
    mesh = ax.pcolormesh(ds["p"], ds["ratio"], shift.T, rasterized=True, **look)
    ax.figure.colorbar(mesh, ax=ax, label="optimal shift b / (a σ)", extend="both")
    ax.plot(ds["p"], ds["crossover_ratio"], color="C0", label="b = 0")
    ax.plot(ds["p"], ds["p"], color="0.4", linestyle=":", label="ratio = p")
    ax.set(xlabel="feature probability p", ylabel="ratio n_hidden / n_features")
    ax.grid(False)
    framed = {"loc": "lower right", "frameon": True, "framealpha": 0.9}
    return finish_axes(ax, framed, xscale="log", yscale="log", ylim=(float(ds["ratio"].min()), 1))
