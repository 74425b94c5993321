"""Figures of the symmetry of trained weights and of the Hessian at the rug."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ..drawing import size_axis
from ..statistics import student
from .structure import SHARES
from .symmetry import by_cell

# The statistics of Figs. 4-7: name in the dataset, label.
STATISTICS = {
    "diagonal_sd": "s.d. of the diagonal (Fig. 4)",
    "bias_sd": "s.d. of the bias (Fig. 5)",
    "row_variance_spread": "s.d. / mean of row variances (Fig. 6)",
    "lyapunov_max": "Lyapunov ratio (Fig. 7)",
}
SHOWN = ((0.01, 0.25), (0.05, 0.25), (0.1, 0.12), (0.1, 0.25), (0.1, 0.5))


def plot_symmetry(ds: xr.Dataset, ax: Axes, name: str, label: str, legend: bool = False) -> Axes:
    """Draw means over seeds against n_features with intervals, open at the stopping rule; of `run_stored`."""
    cells = by_cell(ds)[name]
    for k, (p, ratio) in enumerate(SHOWN):
        for end in ds["end"].values:
            line = cells.sel(end=end, p=p, ratio=ratio).dropna("n_features", how="all")
            found = [student(one.dropna("seed").values) for one in line.transpose("n_features", "seed")]
            last = end == ds["end"].values[-1]
            means, half = np.transpose(found)
            look: dict[str, Any] = {"color": f"C{k + 1}", "markerfacecolor": f"C{k + 1}" if last else "none"}
            look |= {"fmt": "o-" if last else "o:", "markersize": 3.6, "linewidth": 1}
            text = f"p = {p:g}, ratio {ratio:g}" if last else None
            ax.errorbar(line["n_features"], means, half, label=text, **look)
    sizes = np.unique(ds["n_features"])
    if name == "lyapunov_max":
        ax.plot(sizes, np.sqrt(8 / np.pi / sizes), color="0.5", linestyle="--", label="Gaussian rows, mean")
    ax.set(yscale="log", ylabel=label)
    size_axis(ax, sizes)
    if legend:
        ax.legend(fontsize=7)
    return ax


def plot_shares(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw which codes the features of models use at the last end, one bar a model; of `run_structure`."""
    at = ds.isel(end=-1)
    left = np.zeros(at.sizes["model"])
    rows = np.arange(at.sizes["model"])
    for k, name in enumerate(SHARES):
        ax.barh(rows, at[name], left=left, color=f"C{k}", label=name)
        left += at[name].values
    names = [f"{p:g}, {r:g}" for p, r in zip(at["p"].values, at["ratio"].values, strict=True)]
    ax.set_yticks(rows, names, fontsize=7)
    ax.set(xlabel="share of the features", ylabel="p, ratio", xlim=(0, 1))
    ax.invert_yaxis()
    ax.legend(fontsize=7, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def plot_curvature(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the least curvature at the rug against n_features; of `run_hessian`."""
    for c in range(ds.sizes["case"]):
        case = ds.isel(case=c)
        label = f"p = {float(case['p'][0]):g}, ratio {float(case['ratio'][0]):g}"
        ax.plot(ds["n_features"], -case["lowest"], "o-", color=f"C{c + 1}", markersize=3.6, label=label)
    sizes = ds["n_features"].values
    ax.plot(sizes, 0.3 * sizes**-0.5, color="0.5", linestyle="--", label="n$^{-1/2}$")
    ax.set(yscale="log", ylabel="- least curvature / p")
    size_axis(ax, sizes)
    ax.legend(fontsize=7)
    return ax
