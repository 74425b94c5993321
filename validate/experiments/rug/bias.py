"""The optimal bias of the rug: its sign over p and ratio, and the loss around the minimum."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....theory import rug as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ..drawing import DIVERGING, finish_axes, plot_function
from .losses import COLOURS, run_theory

PLANE = {"p": np.geomspace(1e-6, 1, 121), "ratio": np.geomspace(1e-6, 1, 121)}


PROFILE = {"p": 0.05, "ratio": [0.005, 0.02, 0.032, 0.05, 0.1, 0.3], "shift": np.linspace(-5, 6, 221)}


@as_annotated
def run_bias(p: float, ratio: npt.ArrayLike, shift: npt.ArrayLike) -> xr.Dataset:
    """Compute the macroscopic loss against the shift b/(a sigma), at the best scale for each shift.

    Macroscopic is the limit of many features in Cowsik et al. (2024): outputs are ReLU(a (x + sigma Z) + b),
    with the scale a, the bias b and normal interference sigma Z. p is the probability that a feature is on,
    `ratio` are values of n_hidden/n_features, which set sigma, and `shift` those of the shift.

    Returns
    -------
    xarray.Dataset
        Losses over the loss at ratio 0: ``profile`` (ratio, shift), at these shifts, and ``best`` (ratio), at
        the best shift, which is ``best_shift`` (ratio).
    """
    ratio, shift = validation.numbers_or_repeat("ratio", ratio), validation.numbers_or_repeat("shift", shift)
    sigma = theory.sigma(p, ratio)[:, None]
    a = theory.optimal_scale(shift * sigma, sigma, p)
    zero = theory.zero_ratio_loss(p)
    best = solvers.optimum(p, ratio)
    columns = {
        "profile": (("ratio", "shift"), theory.loss(a, a * shift * sigma, sigma, p) / zero),
        "best_shift": ("ratio", best.b / (best.a * best.sigma)),
        "best": ("ratio", best.loss / zero),
    }
    return xr.Dataset(columns, {"ratio": ratio, "shift": shift}, {"p": p})


@plot_function
def plot_profile(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss against the shift b/(a sigma) at the best scale a, for each ratio.

    `ds` is from `run_bias`.
    """
    for k, ratio in enumerate(ds["ratio"].values):
        at_ratio = ds.isel(ratio=k)
        colour = COLOURS[k % len(COLOURS)]
        ax.plot(ds["shift"], at_ratio["profile"], color=colour, label=f"ratio = {ratio:g}")
        ax.plot(at_ratio["best_shift"], at_ratio["best"], "o", color=colour, markersize=4)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlim=(-5, 6), title=f"p = {ds.attrs['p']:g}")
    return finish_axes(ax, xlabel="shift b / (a σ)", ylabel="loss / loss at ratio 0")


@plot_function
def plot_bias_map(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the optimal shift b/(a sigma) over (p, ratio), and the line where the bias changes sign.

    Outputs are ReLU(a (x + sigma Z) + b) with normal interference sigma Z, in the limit of many features.
    `ds` is from `run_theory`: a, b and sigma of the least loss over p and ratio = n_hidden/n_features.
    """
    shift = (ds["b"] / (ds["a"] * ds["sigma"])).where(ds["sigma"] > 0)
    look: dict[str, Any] = {"cmap": DIVERGING, "vmin": -4, "vmax": 4, "shading": "nearest"}
    mesh = ax.pcolormesh(ds["p"], ds["ratio"], shift.T, rasterized=True, **look)
    ax.figure.colorbar(mesh, ax=ax, label="optimal shift b / (a σ)", extend="both")
    ax.plot(ds["p"], ds["crossover_ratio"], color="C0", label="b = 0")
    ax.plot(ds["p"], ds["p"], color="0.4", linestyle=":", label="ratio = p")
    ax.set(xlabel="feature probability p", ylabel="ratio n_hidden / n_features")
    ax.grid(False)
    framed = {"loc": "lower right", "frameon": True, "framealpha": 0.9}
    return finish_axes(ax, framed, xscale="log", yscale="log", ylim=(float(ds["ratio"].min()), 1))


def _show_bias(profile: xr.Dataset, plane: xr.Dataset) -> TopicContent:
    """Return the two figures of the report's part "bias": the bias at which random codes have the least loss.

    One has the loss against the shift b/(a sigma) (`profile`, from `run_bias`), the other the best shift over
    p and ratio, and the line where it changes sign (`plane`, from `run_theory`).
    """
    sparse = float(plane["crossover_ratio"][0] / plane["p"][0])
    moves = "One minimum, which moves through zero bias: a crossover, not a jump"
    signs = "Where the optimal bias is negative (sparse regime) and positive (almost affine)"
    of_profile = "Macroscopic loss over the shift, the scale optimal at each; dots mark the minimum."
    of_signs = f"The bias vanishes on the black line; for small p it is ratio = {sparse:.3f} p."
    figures = [
        Figure("profile", moves, of_profile, profile, plot_profile, size=(5.2, 3.6)),
        Figure("bias", signs, of_signs, plane, plot_bias_map, size=(5.2, 3.8)),
    ]
    return TopicContent("", figures)


RUNS = {
    "plane": Run(run_theory, PLANE, PLANE, seconds=3),
    "profile": Run(run_bias, PROFILE, PROFILE),
}
TOPICS = [Topic("bias", ["profile", "plane"], _show_bias, claims=["C18"])]
