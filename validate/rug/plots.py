"""Figures of the rug: theory is a line, an experiment is markers with its standard error."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

__all__ = [
    "plot_bias_map",
    "plot_excess",
    "plot_finite_size",
    "plot_loss_against_p",
    "plot_loss_against_ratio",
    "plot_onset",
    "plot_profile",
    "plot_rug",
]

# Marker and colour of a model's size (Okabe and Ito), open at the stopping rule, filled at convergence.
STYLES = {64: ("v", "C4"), 128: ("o", "C1"), 256: ("s", "C2"), 512: ("D", "C3"), 1024: ("^", "C5")}
COLOURS = ("C1", "C2", "C3", "C4", "C5", "C6")


def _style(n_features: int) -> tuple[str, str]:
    return STYLES.get(int(n_features), ("x", "C6"))


def _markers(ax: Axes, x: np.ndarray, y: xr.DataArray, se: xr.DataArray, n_features: np.ndarray) -> None:
    """Draw every seed at both ends, with ± 1 standard error of its evaluation."""
    for n in np.unique(n_features):
        marker, colour = _style(n)
        mine = n_features == n
        for end in range(y.sizes["end"]):
            converged = end == y.sizes["end"] - 1
            ax.errorbar(
                x[mine],
                y.isel(end=end).values[mine],
                se.isel(end=end).values[mine],
                fmt=marker,
                color=colour,
                markerfacecolor=colour if converged else "none",
                markersize=3.6,
                markeredgewidth=0.8,
                elinewidth=0.8,
                alpha=0.85,
            )


def _size_legend(ax: Axes, n_features: np.ndarray, loc: str) -> None:
    """Add a legend with an entry for every size, also for those that this panel does not show."""
    for n in np.unique(n_features):
        marker, colour = _style(n)
        ax.plot([], [], marker, color=colour, markersize=3.6, label=f"n = {n}")
    ax.legend(loc=loc)


def plot_rug(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the matrix as an image (Fig. 1)."""
    reach = float(np.abs(ds["rug"]).quantile(0.999))
    image = ax.imshow(ds["rug"], cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="R$_{ij}$ (diagonal = 1)", shrink=0.85, extend="max")
    ax.set(xlabel="input j", ylabel="output i")
    ax.grid(False)
    return ax


def plot_loss_against_ratio(ds: xr.Dataset, ax: Axes, p: float, legend: bool = False) -> Axes:
    """Draw the loss against the ratio at one p (Fig. 2): theory, affine optimum, trained models."""
    line = ds.sel(p=p)
    zero = float(line["zero_ratio_loss"])
    ax.plot(ds["ratio"], line["loss"] / zero, color="C0", label="Persian rug")
    ax.plot(ds["ratio"], line["linear_loss"] / zero, color="0.5", linestyle="--", label="affine optimum")
    ax.axvline(p, color="0.8", linewidth=0.8, zorder=0)
    mine = np.isclose(ds["model_p"], p)
    if mine.any():
        some = ds.isel(model=mine)
        _markers(
            ax, some["model_ratio"].values, some["trained"], some["trained_se"], some["n_features"].values
        )
    low = min(float((line["loss"] / zero).sel(ratio=0.9, method="nearest")), 0.3)
    if mine.any():
        low = min(low, float(some["trained"].min()))
    ax.set(
        yscale="log",
        ylim=(0.6 * low, 1.6),
        xlim=(0, 1),
        xlabel="ratio n_hidden / n_features",
        ylabel="loss / loss at ratio 0",
        title=f"p = {p:g}",
    )
    if legend:
        _size_legend(ax, ds["n_features"].values, "lower left")
    return ax


def plot_loss_against_p(ds: xr.Dataset, ax: Axes, ratio: float, legend: bool = False) -> Axes:
    """Draw the loss against p near one ratio: lines at the ratio, trained models within 5 % of it."""
    line = ds.sel(ratio=ratio, method="nearest")
    ax.plot(ds["p"], line["loss"] / ds["zero_ratio_loss"], color="C0", label="Persian rug")
    ax.plot(ds["p"], line["linear_loss"] / ds["zero_ratio_loss"], color="0.5", linestyle="--", label="affine")
    small = ds["p"].values < 0.03
    ax.plot(
        ds["p"][small],
        (line["asymptotic_loss"] / ds["zero_ratio_loss"])[small],
        color="C6",
        linestyle=":",
        linewidth=2,
        label="small-p law",
    )
    some = ds.isel(model=np.abs(ds["model_ratio"].values / ratio - 1) < 0.05)
    _markers(ax, some["model_p"].values, some["trained"], some["trained_se"], some["n_features"].values)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="feature probability p",
        ylabel="loss / loss at ratio 0",
        title=f"ratio ≈ {ratio:g}",
    )
    if legend:
        _size_legend(ax, ds["n_features"].values, "lower right")
    return ax


def plot_onset(ds: xr.Dataset, ax: Axes) -> Axes:
    """Zoom on ratio ≈ p, where the loss drops: loss at ratio/p, with the ratio where the bias vanishes."""
    for p, colour in zip((0.001, 0.01, 0.05, 0.1, 0.4), COLOURS, strict=False):
        line = ds.sel(p=p, method="nearest")
        zero = float(line["zero_ratio_loss"])
        ax.plot(ds["ratio"] / p, line["loss"] / zero, color=colour, label=f"p = {p:g}")
        cross = float(line["crossover_ratio"])
        ax.plot(
            cross / p, np.interp(cross, ds["ratio"], line["loss"] / zero), "|", color=colour, markersize=12
        )
        mine = np.isclose(ds["model_p"], p)
        if mine.any():
            some = ds.isel(model=mine, end=-1)
            ax.plot(some["model_ratio"] / p, some["trained"], "o", color=colour, markersize=3, alpha=0.8)
    ax.set(xscale="log", xlim=(0.1, 10), ylim=(0, 1.05), xlabel="ratio / p", ylabel="loss / loss at ratio 0")
    ax.axvline(1, color="0.8", linewidth=0.8, zorder=0)
    ax.legend()
    return ax


def plot_excess(ds: xr.Dataset, ax: Axes, ratio: float) -> Axes:
    """Draw loss/theory against n_features near one ratio: mean over seeds ± its standard error."""
    near = ds.isel(model=np.abs(ds["model_ratio"].values / ratio - 1) < 0.05)
    near = near.isel(model=near["origin"].values == "reference")
    for p, colour in zip(np.unique(near["model_p"]), COLOURS, strict=False):
        for end in range(near.sizes["end"]):
            converged = end == near.sizes["end"] - 1
            sizes, means, errors = [], [], []
            for n in np.unique(near["n_features"]):
                runs = (near["model_p"].values == p) & (near["n_features"].values == n)
                values = 1 + near["excess"].isel(end=end).values[runs]
                if values.size > 1:
                    sizes.append(n)
                    means.append(values.mean())
                    errors.append(values.std(ddof=1) / np.sqrt(values.size))
            ax.errorbar(
                sizes,
                means,
                errors,
                fmt="o-" if converged else "o:",
                color=colour,
                markerfacecolor=colour if converged else "white",
                markersize=4,
                linewidth=1,
                label=f"p = {p:g}" if converged else None,
            )
    ax.axhline(1, color="C0")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="n_features",
        ylabel="trained loss / rug's optimum",
        title=f"ratio ≈ {ratio:g}",
    )
    ticks = np.unique(near["n_features"])
    ax.set_xticks(ticks, [str(n) for n in ticks])
    ax.minorticks_off()
    if ticks.size:
        ax.legend()
    return ax


def plot_finite_size(ds: xr.Dataset, ax: Axes, case: int = 0) -> Axes:
    """Draw the finite-size rug over the macroscopic loss: exact per draw, simulated with its error."""
    ds = ds.isel(case=case)
    sizes = ds["n_features"].values
    for draw in range(ds.sizes["draw"]):
        some = ds.isel(draw=draw)
        shift = 1 + 0.05 * (draw - (ds.sizes["draw"] - 1) / 2)  # side by side, so that bars do not overlap
        ax.errorbar(
            sizes * shift,
            some["simulated"] / some["macroscopic"],
            some["simulated_se"] / some["macroscopic"],
            fmt="o",
            color="C1",
            markersize=3,
            elinewidth=0.8,
            label="simulated, ± 1 SE" if draw == 0 else None,
        )
        ax.plot(
            sizes * shift,
            some["exact"] / some["macroscopic"],
            "_",
            color="C2",
            markersize=9,
            label="exact, each draw" if draw == 0 else None,
        )
    ax.axhline(1, color="C0", label="macroscopic (n → ∞)")
    ax.set(
        xscale="log",
        xlabel="n_features",
        ylabel="rug's loss / macroscopic loss",
        title=f"p = {float(ds['p']):g}, ratio = {float(ds['ratio']):g}",
    )
    ax.legend()
    return ax


def plot_profile(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss over the shift b/(a sigma), the scale optimal: one minimum, which moves through 0."""
    for k, ratio in enumerate(ds["ratio"].values):
        some = ds.isel(ratio=k)
        colour = COLOURS[k % len(COLOURS)]
        ax.plot(ds["shift"], some["profile"], color=colour, label=f"ratio = {ratio:g}")
        ax.plot(some["best_shift"], some["best"], "o", color=colour, markersize=4)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(
        xlabel="shift b / (a σ)",
        ylabel="loss / loss at ratio 0",
        title=f"p = {ds.attrs['p']:g}",
        xlim=(-5, 6),
    )
    ax.legend()
    return ax


def plot_bias_map(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the optimal shift b/(a sigma) over the plane, and the line where the bias changes sign."""
    shift = (ds["b"] / (ds["a"] * ds["sigma"])).where(ds["sigma"] > 0)
    mesh = ax.pcolormesh(
        ds["p"], ds["ratio"], shift.T, cmap="RdBu_r", vmin=-4, vmax=4, shading="nearest", rasterized=True
    )
    ax.figure.colorbar(mesh, ax=ax, label="optimal shift b / (a σ)", extend="both")
    ax.plot(ds["p"], ds["crossover_ratio"], color="C0", label="b = 0")
    ax.plot(ds["p"], ds["p"], color="0.4", linestyle=":", label="ratio = p")
    ax.set(xscale="log", yscale="log", xlabel="feature probability p", ylabel="ratio n_hidden / n_features")
    ax.set_ylim(float(ds["ratio"].min()), 1)
    ax.legend(loc="lower right", frameon=True, framealpha=0.9)
    ax.grid(False)
    return ax
