"""Figures of the ReLU output model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ....solvers.relu import PHASES
from ....solvers.statistics import share
from ....theory import validation
from ..drawing import draw_estimates, finish_axes, largest_interval, plot_function
from .phases import MODELS
from .sphere import LOSSES
from .trained import trained_loss

__all__ = [
    "plot_cost", "plot_excess", "plot_pattern_excess", "plot_phases", "plot_polygons", "plot_reached",
    "plot_shares", "plot_thomson",
]  # fmt: skip

# Okabe and Ito's colours; each phase also has its name written into it.
COLOURS = ("#0072B2", "#CC79A7", "#009E73", "#E69F00")
MARKERS = "osD^v"
DENSITY = "density p = 1 - S"
IMPORTANCE = "importance of the second feature"


def _curve(ax: Axes, x: npt.ArrayLike, y: npt.ArrayLike, k: int, line: str = "-", **style: Any) -> None:
    """Draw a curve with the k-th marker and, unless another is given, the k-th colour."""
    whole: dict[str, Any] = {"color": f"C{k % 7}", "markersize": 4.5} | style
    ax.plot(x, y, MARKERS[k % len(MARKERS)] + line, **whole)


def _set(ax: Axes, legend: str | Mapping[str, Any] | None = "best", **settings: Any) -> Axes:
    """As `finish_axes`; logarithmic axes of few decades get plain numbers."""
    finish_axes(ax, legend, **settings)
    for name, axis in (("xscale", ax.xaxis), ("yscale", ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        if settings.get(name) == "log" and high < 1e4 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
    return ax


def _model(ds: xr.Dataset, ax: Axes, model: int) -> xr.Dataset:
    return ds.isel(model=validation.integer("model", model, 0, len(MODELS) - 1))


@plot_function
def plot_phases(ds: xr.Dataset, ax: Axes, model: int = 0) -> Axes:
    """Draw the phases of one of `MODELS`, the paler the smaller an encoding is, and transitions as dots.

    `ds` is from `run_phases`.
    """
    one = _model(ds, ax, model)
    phase = one["phase"].values
    colour = np.array([colors.to_rgb(name) for name in COLOURS])[phase]
    strength = np.where(np.isin(phase, (0, 1)), 0.75, 0.2 + 0.55 * one["share"].values)[..., None]
    shown = 1.0 - strength * (1.0 - colour)
    ax.pcolormesh(ds["p"], ds["importance"], shown.transpose(1, 0, 2), shading="nearest", rasterized=True)
    ours = ds["transition_model"].values == model
    for is_jump, label, face in ((True, "jump", "black"), (False, "continuous transition", "white")):
        mine = ds.isel(transition=ours & (ds["is_jump"].values == is_jump))
        if mine.sizes["transition"]:
            at = mine["transition_importance"].values
            p = np.tile(mine["transition_p"].values, 2)
            ax.plot(p, np.concatenate([at, 1.0 / at]), "ok", label=label, mfc=face, markersize=4.5)
    outline = [withStroke(linewidth=2.5, foreground="white")]
    for index in np.unique(phase):
        i, j, _ = largest_interval(phase == index)
        place = float(ds["p"][i]), float(ds["importance"][j])
        ax.text(*place, PHASES[index], ha="center", va="center", path_effects=outline)
    ax.set(xlim=ds["p"].values[[0, -1]], ylim=ds["importance"].values[[0, -1]])
    ax.grid(False)
    legend = {"loc": "lower right", "frameon": True, "framealpha": 0.9} if ours.any() else None
    return _set(ax, legend, yscale="log", xlabel=DENSITY, ylabel=IMPORTANCE, title=MODELS[model])


@plot_function
def plot_pattern_excess(ds: xr.Dataset, ax: Axes, model: int = 0) -> Axes:
    """Draw by how much the best of the four patterns picked by hand misses the best; of `run_phases`."""
    one = _model(ds, ax, model)
    excess = 100.0 * (one["pattern_loss"] / one["loss"] - 1.0).values.T
    place = ds["p"], ds["importance"]
    mesh = ax.pcolormesh(*place, excess, shading="nearest", rasterized=True, cmap="cividis", vmin=0.0)
    ax.figure.colorbar(mesh, ax=ax, label="excess loss, %", shrink=0.85)
    differs = (one["pattern"] != one["phase"]).values.T
    ax.contourf(*place, differs, levels=[0.5, 1.5], colors="none", hatches=["////"])
    ax.grid(False)
    title = f"patterns picked by hand, {MODELS[model]}"
    return _set(ax, None, yscale="log", xlabel=DENSITY, ylabel=IMPORTANCE, title=title)


@plot_function
def plot_polygons(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw what each arrangement saves, and the best models found as markers; of `run_polygons`."""
    for i, name in enumerate(ds["arrangement"].values):
        ax.plot(ds["p"], ds["saved"][i], color=f"C{i % 7}", linestyle="-" if i < 7 else "--", label=str(name))
    for i, n in enumerate(ds["n_features"].values):
        style = {"color": "0.35", "markerfacecolor": "none", "label": f"best of {n} features"}
        _curve(ax, ds["p"], ds["best_saved"][i], i, "", **style)
    for at in ds["crossing_p"].values:
        ax.axvline(at, color="0.8", linewidth=0.8, zorder=0)
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    return _set(ax, beside, xscale="log", xlabel=DENSITY, ylabel="features' worth of loss saved")


@plot_function
def plot_shares(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of two or more features on in loss and inputs; of `run_truncation`."""
    ax.plot(ds["on"], ds["given_on"][-1], color="C0", label="share of the inputs that are not 0")
    for i, kind in enumerate(ds["kind"].values):
        for j, n in enumerate(ds["n_features"].values):
            _curve(ax, ds["on"], ds["share"][i, j], j, "", color=f"C{i + 1}", label=f"{kind}, D = {n}")
        ax.plot(ds["on"], ds["bound"][i, -1], ":", color=f"C{i + 1}", label=f"bound for {kind}")
    ax.set(xlabel="expected number of features on, D (1 - S)", ylabel="share of two or more on")
    return _set(ax, {"loc": "lower right", "fontsize": 7}, xscale="log", yscale="log")


@plot_function
def plot_cost(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw what it costs to choose models without two or more on; of `run_truncation`."""
    for i, name in enumerate(ds["small"].values):
        # Differences below 1e-9 are rounding.
        _curve(ax, ds["small_p"], np.maximum(ds["regret"][i], 1e-9), i, label=str(name))
    ax.set(title="models chosen without two or more on", ylabel="loss above the best, relative")
    return _set(ax, xscale="log", yscale="log", xlabel=DENSITY)


@plot_function
def plot_thomson(ds: xr.Dataset, ax: Axes, n_hidden: int = 2) -> Axes:
    """Draw the four losses over that of the model that represents nothing; of `run_thomson`."""
    known = np.unique(ds["n_hidden"].values).tolist()
    if n_hidden not in known:
        raise ValueError(f"`n_hidden` must be one of {known}; got {n_hidden!r}.")
    mine = ds.isel(size=ds["n_hidden"].values == n_hidden).sortby("n_features")
    for i, (name, label) in enumerate(LOSSES.items()):
        _curve(ax, mine["n_features"], mine[name] / (mine["n_features"] / 3.0), i, label=label)
    ax.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(ylabel="L$_1$ / that of the zero model", title=f"{n_hidden} hidden dimensions")
    return _set(ax, xlabel="features")


def _cases(ds: xr.Dataset, ax: Axes, **settings: Any) -> Axes:
    ax.set_xticks(range(ds.sizes["case"]), [str(case).replace(", ", "\n") for case in ds["case"].values])
    return _set(ax, **settings)


@plot_function
def plot_excess(ds: xr.Dataset, ax: Axes, optimiser: str = "adam") -> Axes:
    """Draw each trained model's exact loss over the least, and where gradient flow ends; of `run_trained`."""
    optimiser = validation.choice("optimiser", optimiser, tuple(map(str, ds["optimiser"].values)))
    one = ds.sel(optimiser=optimiser)
    spread = np.linspace(-0.15, 0.15, ds.sizes["run"])
    kinds = (("trained", f"trained ({optimiser})"), ("flow", "gradient flow on the exact loss"))
    for k, (name, label) in enumerate(kinds):
        for i, least in enumerate(one["least"].values):
            style: dict[str, Any] = {"color": f"C{k + 1}", "alpha": 0.7, "label": None if i else label}
            ax.plot(i + 0.4 * (k - 0.5) + spread, one[name][i] / least, "os"[k], markersize=3, **style)
    ax.axhline(1.0, color="C0", linewidth=1.0, label="exact minimum", zorder=0)
    return _cases(ds, ax, yscale="log", ylabel="loss / least loss")


@plot_function
def plot_reached(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of seeds that end in the global minimum with exact 95 % intervals; of `run_trained`."""
    settled = trained_loss(ds, "settled")
    kinds = {"gradient flow": trained_loss(ds, "flow")}
    kinds |= {str(name): settled.sel(optimiser=name) for name in ds["optimiser"].values}
    for k, (name, hit) in enumerate(kinds.items()):
        found = [share(int(hits), ds.sizes["run"]) for hits in hit.sum("run").values]
        x = np.arange(ds.sizes["case"]) + 0.2 * (k - (len(kinds) - 1) / 2)
        style = {"fmt": "soD^"[k], "color": ("C2", "C1", "C3", "C4")[k], "label": name}
        draw_estimates(ax, x, found, markersize=4.5, capsize=0, **style)
    return _cases(ds, ax, ylim=(-0.03, 1.03), ylabel="share at the global minimum")
