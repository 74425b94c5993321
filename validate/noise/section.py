"""The part of the report on hidden noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from ...theory import noise as theory
from ..experiment import Figure, Section, Table
from ..training.engine import load_torch
from . import plots
from .drop import run_drop
from .mechanism import MECHANISM, judged, run_mechanism
from .runs import run_fig4, run_fig5
from .stuck import run_fig6, run_stuck
from .training import run_agreement

__all__ = ["report_section"]

LEVEL = 0.95

# Sizes that fit each profile: the quick one takes some twenty seconds of one core.
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "fig4": {"averaged_time": 200.0},
        "fig5": {"runs": 6},
        "drop": {"noise_std": (0.2, 0.3, 0.4), "runs": 4},
        "fig6": {},
        "stuck": {"n_features": (3, 4, 5, 6, 8, 10, 12), "runs": 12},
        "mechanism": {
            **MECHANISM["quick"],
            "runs": 8,
            "lone_runs": 400,
            "excess_kurtosis": (-2.0, -0.5, 0.0, 0.5, 3.0),
        },
        "agreement": {"steps": 1200, "runs": 24},
    },
    "full": {
        "fig4": {"runs": 40, "averaged_runs": 10, "averaged_time": 2000.0},
        "fig5": {"runs": 64, "steps": 100_000},
        "drop": {"runs": 64, "learning_rate": (0.02, 0.01, 0.005, 0.0025)},
        "fig6": {"runs": 40},
        "stuck": {
            "n_features": (4, 6, 8, 10, 12, 14, 16, 18, 20, 24),
            "n_hidden": 16,
            "noise_std": 0.15,
            "runs": 100,
        },
        "mechanism": MECHANISM["full"],
        "agreement": {"steps": 4000, "runs": 200},
    },
}

TEXT = """
Without the l1 term, noise on the hidden neurons sparsifies encodings if its excess kurtosis is negative. The
source infers this from the loss after one step, an effect of second order in the learning rate for encodings
that do not interfere. Theory here finds that the second order does not drive encodings there, and that
another effect of first order does: noise carries overlaps of encodings over the threshold of the ReLU, and
how often it does so depends on the shapes of the encodings. At first order only learning rate × steps counts,
and the flow of the noise-averaged loss has it all; that flow is what stands in black beside training.

Learning rates and l1 strengths are those of the printed loss, a sum over inputs and outputs.
"""
NO_TORCH = "PyTorch is not installed on this machine, so all here was trained by the compiled solver alone."


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the experiments on hidden noise and return their part of the report.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Seed of everything random here.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
        Without PyTorch, where it is not installed: the text says so.
    """
    sizes = SIZES[profile]
    progress("noise: which mechanism")
    mechanism = run_mechanism(**sizes["mechanism"], seed=seed)
    progress("noise: Fig. 4")
    fig4 = run_fig4(**sizes["fig4"], seed=seed)
    progress("noise: Fig. 5")
    fig5, drop = run_fig5(**sizes["fig5"], seed=seed), run_drop(**sizes["drop"], seed=seed)
    progress("noise: Fig. 6")
    fig6, often = run_fig6(**sizes["fig6"], seed=seed), run_stuck(**sizes["stuck"], seed=seed)
    said = [_of_mechanism(mechanism), _of_fig4(fig4), _of_fig5(fig5, drop), _of_fig6(fig6, often, fig5)]
    tables = [_mechanism_table(mechanism), _time_table(fig4), _stuck_table(often)]
    try:
        load_torch()
    except ImportError:
        said.append(NO_TORCH)
    else:
        progress("noise: PyTorch")
        tables.append(_agreement_table(run_agreement(**sizes["agreement"], seed=seed)))
    return Section(
        "noise",
        "Sparsity from hidden noise",
        "\n\n".join([TEXT, *said]),
        _figures(mechanism, fig4, fig5, drop, fig6, often),
        tables,
    )


def _figures(
    mechanism: xr.Dataset,
    fig4: xr.Dataset,
    fig5: xr.Dataset,
    drop: xr.Dataset,
    fig6: xr.Dataset,
    often: xr.Dataset,
) -> list[Figure]:
    size = f"n = {fig4.attrs['n_features']}, m = {fig4.attrs['n_hidden']}"
    noise = f"bipolar noise, σ = {mechanism.attrs['noise_std']:g}"
    return [
        Figure(
            "mechanism",
            "First or second order?",
            f"m = {mechanism.attrs['n_hidden']}, {noise} unless said otherwise, learning rate × steps = "
            f"{mechanism.attrs['time']:g}. Growth is that of the mean of |W_i|_4^4/|W_i|_2^4 beyond the same "
            "descent without noise; bars are two standard errors.",
            mechanism,
            (plots.plot_rates, plots.plot_number, plots.plot_kurtosis),
            columns=3,
            size=(3.6, 3.2),
        ),
        Figure(
            "fig4",
            "Fig. 4: sparsification under bipolar and normal noise",
            f"{size}, learning rate {fig4.attrs['learning_rate']:g}, as in the authors' code. Bands: range "
            f"of {fig4.sizes['run']} runs. The flow of the averaged loss is that of "
            f"{fig4.sizes['averaged_run']} of these starts. Triangles: predicted times, in which no constant "
            "is fitted.",
            fig4,
            plots.plot_fig4,
            size=(7.0, 3.8),
        ),
        Figure(
            "fig5",
            "Fig. 5: after a fixed number of steps",
            f"{size}, {fig5.attrs['steps']} steps of {fig5.attrs['learning_rate']:g}, {fig5.sizes['run']} "
            "runs; bars are two standard errors. Black: fourth norm of one-hot encodings, shortened by the "
            "l1 force, or by noise from the inputs of others.",
            fig5,
            (plots.plot_fig5_lam, plots.plot_fig5_noise),
        ),
        Figure(
            "drop",
            "Fig. 5: why fourth norms drop at strong noise",
            f"{size}, bipolar noise, learning rate × steps = {drop.attrs['time']:g}, {drop.sizes['run']} "
            "runs.",
            drop,
            plots.plot_drop,
        ),
        Figure(
            "fig6",
            "Fig. 6: an encoding that stays spread",
            f"n = {fig6.attrs['n_features']}, m = {fig6.attrs['n_hidden']}, σ = {fig6.attrs['noise_std']:g}, "
            f"learning rate {fig6.attrs['learning_rate']:g}.",
            fig6,
            (plots.plot_fig6, plots.plot_weights),
        ),
        Figure(
            "stuck",
            "Fig. 6: how often",
            f"m = {often.attrs['n_hidden']}, σ = {often.attrs['noise_std']:g}, learning rate × steps = "
            f"{often.attrs['time']:g}; exact binomial intervals ({often.attrs['confidence']:.0%}).",
            often,
            plots.plot_stuck,
        ),
    ]


def _with_limits(found: tuple[float, float, float], digits: str = ".3g") -> str:
    return f"{found[0]:{digits}} [{found[1]:{digits}}, {found[2]:{digits}}]"


def _of_mechanism(ds: xr.Dataset) -> str:
    found = judged(ds, LEVEL)
    rate, std = ds.attrs["source_rate"], ds.attrs["noise_std"]
    grown = float(ds["by_rate"].sel(learning_rate=rate, method="nearest").mean())
    printed = float(ds["regulariser"].sel(learning_rate=rate, method="nearest"))
    true = float(ds["drift"].sel(learning_rate=rate, method="nearest"))
    share = _with_limits(found["share"], ".3f")
    return (
        f"The mechanism (intervals of {LEVEL:.0%}). At fixed learning rate × steps growth goes with the "
        f"power {_with_limits(found['power'])} of the learning rate; first order wants 0, a regulariser of "
        f"second order 1. Extrapolated to learning rate 0 the growth is {share} times that at the source's "
        f"settings (rate {rate:g}, σ = {std:g}): this is the share of "
        f"first order. Encodings that descended the printed regulariser would have grown by {printed:.2g}, "
        f"{printed / grown:.1%} of the {grown:.2g} measured; the second order that encodings really feel "
        f"without interference would have changed them by {true:.2g}. One encoding alone, which the printed "
        f"argument is about, changes by {_with_limits(found['lone'])} at σ = {ds.attrs['lone_std']:g}, and "
        f"should by {float(ds['lone_predicted']):.2g} according to theory; sparser would be positive. Growth "
        f"beyond that of normal noise changes sign at the excess kurtosis {_with_limits(found['crossing'])}."
    )


def _of_fig4(ds: xr.Dataset) -> str:
    last = ds["fourth_norm"].isel(step=-1).mean("run")
    sizes = ", ".join(
        f"{float(last.sel(noise='bipolar', noise_std=std)):.2f} against "
        f"{float(last.sel(noise='normal', noise_std=std)):.2f}"
        for std in ds["noise_std"].values
    )
    stds = ", ".join(f"{std:g}" for std in ds["noise_std"].values)
    said = f"Figure 4. Last fourth norms under bipolar against normal noise, σ = {stds}: {sizes}."
    runs = ds.sizes["averaged_run"]
    if not runs:
        return said
    trained = ds["fourth_norm"].sel(noise="bipolar").isel(run=slice(runs)).mean("run")
    gap = np.abs(trained - ds["averaged"].mean("averaged_run", skipna=False))
    return said + (
        f" The flow of the averaged loss differs from training with the same first weights ({runs} of "
        f"{ds.sizes['run']}) by {float(gap.mean()):.3f} on average over σ and times, and by "
        f"{float(gap.max()):.2f} at most, where norms rise fastest."
    )


def _of_fig5(ds: xr.Dataset, drop: xr.Dataset) -> str:
    lam, std = (ds[f"{name}_power"].values for name in ("lam", "noise"))
    at = drop.isel(noise_std=-1)
    by_rate = "; ".join(
        f"rate {float(rate):g}: shape {float(at['shape'].sel(learning_rate=rate).mean()):.2f}, squared "
        f"length {float(at['square'].sel(learning_rate=rate).mean()):.2f}"
        for rate in drop["learning_rate"]
    )
    return (
        f"Figure 5. Where growth is seen and not saturated it goes as the power {_with_limits(tuple(lam))} "
        f"of λ (printed: 1) and {_with_limits(tuple(std))} of σ (printed: 4). For σ theory has an onset "
        f"rather than a power: below about {ds.attrs['silent_std']:.3f} random encodings find overlaps that "
        "bounded noise cannot carry over the threshold, and then feel nothing more. The source puts the drop "
        "at strong noise down to lengths. Lengths and shapes |W_i|_4^4/|W_i|_2^4 at equal learning rate × "
        f"steps, σ = {float(at['noise_std']):g}: {by_rate}. What depends on the rate is of second order, "
        "noise in the gradient that turns encodings about at random: it acts against sparsity."
    )


def _of_fig6(ds: xr.Dataset, often: xr.Dataset, fig5: xr.Dataset) -> str:
    weakest = fig5.isel(noise_std=0)
    std = float(weakest["noise_std"])
    silent = float(np.asarray(theory.silent_l1_norm(fig5.attrs["n_features"], "bipolar", std)))
    inside = often.where(often["n_features"] <= often.attrs["n_hidden"], drop=True)
    sparse = inside["sparse"] * 2 > inside["n_features"]
    having = int(((inside["stuck"] > 0) & sparse).sum())
    return (
        "Figure 6. An encoding counts as stuck if |W_i|_4^4/|W_i|_2^4 is below 1/2 while it is above for "
        f"more than half of its run's encodings. {int(ds['found'])} of {ds.attrs['runs']} runs have one. In "
        f"the run shown it keeps {float(ds['owned']):.0%} of its squared length on neurons that others own. "
        f"The flow of the averaged loss leaves {int(ds['still_stuck'].sum())} stuck, at a gradient of length "
        f"{float(ds['slope']):.1g} and with a smallest curvature of {float(ds['curvature']):.2g}; positive "
        f"is a strict minimum. Its loss is {float(ds['loss']):.4f}. The symmetric minimum in which one "
        f"encoding opposes all others at once has {float(ds['loss_spread']):.4f}, with a fourth norm of "
        f"{float(ds['spread_norm']):.3f} for this encoding, near 1/(n-1); that in which all are near one-hot "
        f"has {float(ds['loss_sparse']):.4f}. The lower of the two is what encodings seek: the source has "
        f"the spread encoding kept from a better place. With n up to m, {having} of {int(sparse.sum())} runs "
        f"that sparsified have a stuck encoding. The figure is said to be at σ = 0.01. At σ = {std:g} (n = "
        f"{fig5.attrs['n_features']}) the last fourth norm is {float(weakest['by_noise'].mean()):.4f}, "
        f"without noise {float(fig5['quiet'].mean()):.4f}: such noise must disturb encodings only if their "
        f"mean |W_i|_1 is above {silent:.3g}, and no unit encoding on {fig5.attrs['n_hidden']} neurons has "
        f"more than {fig5.attrs['n_hidden'] ** 0.5:.3g}."
    )


def _mechanism_table(ds: xr.Dataset) -> Table:
    found = judged(ds, LEVEL)
    rows = [
        ["power of the learning rate", _with_limits(found["power"]), "0", "1"],
        ["growth at learning rate 0", _with_limits(found["first"]), _averaged(found, ds), "0"],
        ["share of first order", _with_limits(found["share"], ".3f"), "1", "0"],
        [
            f"change of a lone encoding, σ = {ds.attrs['lone_std']:g}",
            _with_limits(found["lone"]),
            f"{float(ds['lone_predicted']):.3g} (second order)",
            "above 0",
        ],
        ["growth under normal noise", _with_limits(found["normal"]), "0", "0"],
        ["kurtosis at which growth changes sign", _with_limits(found["crossing"]), "0", "0"],
    ]
    return Table(
        "Which mechanism",
        ("", f"measured, {LEVEL:.0%}", "effective potential", "printed regulariser"),
        rows,
        f"m = {ds.attrs['n_hidden']}, {ds.sizes['run']} runs, {ds.sizes['lone_run']} lone encodings.",
    )


def _averaged(found: dict[str, tuple[float, float, float]], ds: xr.Dataset) -> str:
    if "gap" not in found:
        return "not computed"
    low, high = (-side for side in (found["gap"][2], found["gap"][1]))
    return f"flow less this: {-found['gap'][0]:.2g} [{low:.2g}, {high:.2g}], {ds.sizes['averaged_run']} runs"


def _time_table(ds: xr.Dataset) -> Table:
    rows = []
    for k, std in enumerate(ds["noise_std"].values):
        half = float(ds["half_time"][k])
        rows.append(
            [
                f"{std:g}",
                f"{half:.0f}" if np.isfinite(half) else f"not by {float(ds['t'][-1]):.0f}",
                f"{float(ds['predicted_time'][k]):.0f}",
            ]
        )
    return Table(
        "Time to a mean fourth norm of 1/2",
        ("σ", "training", "predicted"),
        rows,
        "Learning rate × steps, bipolar noise. The prediction has encodings at the overlaps of a simplex "
        "from the start, and does not know that bounded noise falls silent.",
    )


def _stuck_table(ds: xr.Dataset) -> Table:
    rows = []
    for k, n in enumerate(ds["n_features"].values):
        at = ds.isel(n_features=k)
        norm = float(at["norm"])
        rows.append(
            [
                int(n),
                f"{n / ds.attrs['n_hidden']:.2f}",
                _with_limits(
                    (float(at["sparsified"]), float(at["sparsified_low"]), float(at["sparsified_high"]))
                ),
                _with_limits((float(at["frequency"]), float(at["low"]), float(at["high"]))),
                f"{norm:.3f}" if np.isfinite(norm) else "none",
                f"{1 / (n - 1):.3f}",
            ]
        )
    return Table(
        "Stuck encodings",
        ("n", "n/m", "runs that sparsified", "runs with a stuck one", "its fourth norm", "1/(n-1)"),
        rows,
        f"m = {ds.attrs['n_hidden']}, {ds.sizes['run']} runs each; shares with exact binomial intervals, "
        f"{ds.attrs['confidence']:.0%}.",
    )


def _agreement_table(ds: xr.Dataset) -> Table:
    rows = []
    for name in ds["noise"].values:
        here, there = (
            ds["fourth_norm"].sel(noise=name, engine=engine).values for engine in ("Numba", "PyTorch")
        )
        rows.append(
            [
                str(name),
                *(f"{x.mean():.3f} ± {stats.sem(x):.2g}" for x in (here, there)),
                f"{stats.ks_2samp(here, there).pvalue:.2g}",
            ]
        )
    return Table(
        "The same by PyTorch",
        ("noise", "compiled solver", "PyTorch", "p-value"),
        rows,
        f"Mean fourth norms ± standard errors after {ds.attrs['steps']} steps of "
        f"{ds.attrs['learning_rate']:g} at σ = {ds.attrs['noise_std']:g}, {ds.sizes['run']} runs each with "
        "first weights and noise of their own; Kolmogorov and Smirnov's test of equal distributions.",
    )
