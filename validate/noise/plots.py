"""Figures of hidden noise: theory in black or as lines, measured means with standard errors."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from .mechanism import judged

__all__ = [
    "plot_drop",
    "plot_fig4",
    "plot_fig5_lam",
    "plot_fig5_noise",
    "plot_fig6",
    "plot_kurtosis",
    "plot_number",
    "plot_rates",
    "plot_stuck",
    "plot_weights",
]

_FOURTH = "mean fourth norm $|W_i|_4^4$"
_GROWTH = "growth of $|W_i|_4^4/|W_i|_2^4$"
_RESTING = "0.5"


def _mean(ds: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return means over runs and two standard errors."""
    values = ds[name].transpose(..., "run").values
    return values.mean(axis=-1), 2 * values.std(axis=-1, ddof=1) / values.shape[-1] ** 0.5


def _random(ds: xr.Dataset, ax: Axes) -> None:
    ax.axhline(3 / ds.attrs["n_hidden"], color=_RESTING, linewidth=0.8, linestyle=":", label="3/m")


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
    _random(ds, ax)
    ax.set(xlabel="learning rate × steps", ylabel=_FOURTH, ylim=(0, 1.35))
    ax.legend(ncols=2, loc="upper center")
    return ax


def _fig5(ds: xr.Dataset, ax: Axes, x: str, name: str, prefix: str, label: str) -> Axes:
    at = ds[x].values
    mean, error = _mean(ds, name)
    quiet = float(ds["quiet"].mean())
    estimate, low, high = ds[f"{prefix}_power"].values
    ax.axhline(quiet, color=_RESTING, linewidth=0.8, linestyle=":", label="no noise, no l1")
    if np.isfinite(estimate):
        k = int(np.argmin(np.abs(mean - quiet - 0.1)))
        line = quiet + (mean[k] - quiet) * (at / at[k]) ** estimate
        seen = line < 1
        ax.plot(
            at[seen],
            line[seen],
            color="C2",
            linestyle="--",
            label=f"growth as power {estimate:.2f} [{low:.2f}, {high:.2f}]",
        )
    ax.plot(at, ds[f"{prefix}_drop"], color="C0", label=label)
    ax.errorbar(at, mean, error, fmt="o", color="C1", markersize=3.5, capsize=2, label="measured")
    ax.set(xscale="log", ylabel=_FOURTH, ylim=(0, 1.7))
    return ax


def plot_fig5_lam(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw last fourth norms against the l1 strength (Fig. 5a); of `run_fig5`."""
    _fig5(ds, ax, "lam", "by_lam", "lam", "one-hot encodings")
    ax.set(xlabel="λ of the printed loss")
    ax.legend(loc="upper left")
    return ax


def plot_fig5_noise(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw last fourth norms against bipolar noise (Fig. 5b); of `run_fig5`."""
    _fig5(ds, ax, "noise_std", "by_noise", "noise", "one-hot, orthogonal")
    ax.axvline(
        ds.attrs["silent_std"], ymax=0.63, color="C4", linewidth=1, label="random encodings silent below"
    )
    ax.set(xlabel="standard deviation σ of bipolar noise")
    ax.legend(loc="upper left")
    return ax


def plot_drop(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw shapes and squared lengths under strong noise, by learning rate; of `run_drop`."""
    for k, rate in enumerate(ds["learning_rate"].values):
        at = ds.isel(learning_rate=k)
        for name, style, label in (
            ("shape", "o-", "$|W_i|_4^4/|W_i|_2^4$"),
            ("square", "s--", "$|W_i|_2^2$"),
        ):
            mean, error = _mean(at, name)
            ax.errorbar(
                at["noise_std"],
                mean,
                error,
                fmt=style,
                color=f"C{k + 1}",
                markersize=3.5,
                capsize=2,
                label=f"{label}, rate {rate:g}",
            )
    ax.set(xlabel="standard deviation σ of bipolar noise", ylabel="mean over encodings", ylim=(0, 1.05))
    ax.legend(loc="lower left")
    return ax


def plot_fig6(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the fourth norm of each encoding of one run against time (Fig. 6a); of `run_fig6`."""
    for k, norms in enumerate(ds["fourth_norm"].values.T):
        stays = bool(ds["stuck"][k])
        ax.plot(
            ds["t"], norms, color="C2" if stays else "C1", linewidth=1.6 if stays else 0.7, zorder=3 - k / 99
        )
    ax.plot([], [], color="C2", label="stuck")
    ax.plot([], [], color="C1", linewidth=0.7, label="others")
    ax.axhline(
        ds["spread_norm"],
        color="C0",
        linewidth=1,
        label="spread encoding at the minimum of the averaged loss",
    )
    ax.set(xlabel="learning rate × steps", ylabel="fourth norm $|W_i|_4^4$", ylim=(0, 1.6))
    ax.legend(loc="upper left")
    return ax


def plot_weights(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the last weights of that run (Fig. 6b); of `run_fig6`."""
    n, m = ds["W"].shape
    ax.grid(False)
    picture = ax.imshow(ds["W"].values, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    ax.set(xlabel="neuron, sorted", ylabel="feature, sorted by fourth norm")
    ax.set_xticks(range(0, m, max(1, m // 8)))
    ax.set_yticks(range(n))
    ax.figure.colorbar(picture, ax=ax, label="weight")
    return ax


def plot_stuck(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw shares of runs with a stuck encoding, and of runs that sparsified, against n/m; of `run_stuck`."""
    ratio = ds["n_features"].values / ds.attrs["n_hidden"]
    for name, low, high, colour, label, shift in (
        ("sparsified", "sparsified_low", "sparsified_high", "C1", "most encodings sparse", 0.99),
        ("frequency", "low", "high", "C2", "with a stuck encoding", 1.01),
    ):
        share = ds[name].values
        error = [share - ds[low].values, ds[high].values - share]
        ax.errorbar(
            ratio * shift, share, np.maximum(error, 0), fmt="o-", color=colour, capsize=2, label=label
        )
    ax.set(xlabel="n/m", ylabel=f"share of {ds.sizes['run']} runs", ylim=(-0.05, 1.3))
    ax.legend(loc="upper left")
    return ax


def plot_rates(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth at fixed learning rate × steps against the learning rate; of `run_mechanism`."""
    rates = ds["learning_rate"].values
    mean, error = _mean(ds, "by_rate")
    first, low, high = judged(ds)["first"]
    ax.plot(rates, ds["regulariser"], color="C0", label="if the source's regulariser were descended")
    ax.plot(rates, ds["drift"], color="C0", linestyle=":", label="true second order, no interference")
    if ds.sizes["averaged_run"] == ds.sizes["run"]:  # else its starts are others than those of the markers
        sure = float(ds["averaged"].mean())
        ax.axhline(sure, color="C0", linestyle="--", label="first order: flow of the averaged loss")
    ax.errorbar(rates, mean, error, fmt="o", color="C1", capsize=2, label="measured")
    ax.errorbar(
        [0], [first], [[first - low], [high - first]], fmt="D", color="C2", capsize=2, label="at rate 0"
    )
    ax.set(xlabel="learning rate", ylabel=_GROWTH, ylim=(-0.04, 1.9 * max(float(mean.max()), 0.01)))
    ax.set_xticks([0, *rates], [f"{rate:g}" for rate in (0, *rates)])
    ax.legend(loc="upper right")
    return ax


def plot_number(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth against the number of encodings; of `run_mechanism`."""
    mean, error = _mean(ds, "by_number")
    ax.axhline(0, color=_RESTING, linewidth=0.8)
    ax.errorbar(ds["n_features"], mean, error, fmt="o", color="C1", capsize=2)
    ax.set(xlabel="encodings n", ylabel=_GROWTH)
    ax.set_xscale("log", base=2)
    ax.set_xticks(ds["n_features"].values, [str(k) for k in ds["n_features"].values])
    return ax


def plot_kurtosis(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw growth beyond normal noise's against the excess kurtosis; of `run_mechanism`."""
    mean, error = _mean(ds.assign(beyond=ds["by_kurtosis"] - ds["by_normal"]), "beyond")
    ax.axhline(0, color=_RESTING, linewidth=0.8)
    ax.axvline(0, color=_RESTING, linewidth=0.8)
    ax.errorbar(ds["excess_kurtosis"], mean, error, fmt="o-", color="C1", capsize=2)
    ax.set(xlabel="excess kurtosis, three-point noise", ylabel="growth beyond normal noise's")
    return ax
