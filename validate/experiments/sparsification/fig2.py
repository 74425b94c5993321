"""Fig. 2 of Lecomte et al. (2024): nonzero weights and l1 norms against time, and the limit law."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.sparsification import limit_law, solve
from ....solvers.statistics import LEVEL
from ....theory.annotations import as_annotated
from ....theory.validation import integers
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent
from ...runner.findings import Criterion, post_hoc
from ..drawing import draw_means, finish_axes, plot_function, plot_theory_vs_experiment
from .encodings import (
    LAM,
    SCALE,
    SYMBOLS,
    TABLE_TIMES,
    M,
    describe_settings,
    flow_times,
    initial_weights,
    stack_results,
    table_columns,
)

# With fewer left, the mean of the runs itself scatters by more than a few per cent.
MANY = Criterion("weights left by the law", ">=", post_hoc(100))


@as_annotated
def run_fig2(
    m: int = M,
    lam: float = LAM,
    scale: float = SCALE,
    times: npt.ArrayLike | None = None,
    runs: int = 16,
    seed: int = 0,
) -> xr.Dataset:
    """Solve one encoding's l1 flow exactly from random weights, beside the limit law and printed curves.

    Parameters
    ----------
    m, lam : int, float
        Number of weights, at least 8; strength of the l1 force, positive.
    scale : float
        Initial length; the weights are normal with standard deviation scale/sqrt(m).
    times : array_like of float, optional
        Flow times, sorted; `default_times` if not given.
    runs, seed : int
        Independent initialisations, at least 2; run r begins from ``default_rng([seed, r])``.

    Returns
    -------
    xarray.Dataset
        Over (run, time): `nonzeros`, the number of nonzero weights, `l1_norm`, `l2_norm`, and
        `relative_variance`, the variance of nonzero absolute weights over their squared mean. Over time: the
        limit law (`law_nonzeros`, `law_l1_norm`, `law_relative_variance`, `law_nonzeros_std`,
        `law_l1_norm_std`) and the curves that Lecomte et al. (2024) draw, 1/(1/sqrt(m) + lam t) and its
        square (`source_l1_norm`, `source_nonzeros`).

    Examples
    --------
    >>> ds = run_fig2(1000, 1e-3, times=[10, 1000], runs=4)
    >>> ds["nonzeros"].dims
    ('run', 'time')
    """
    m, runs = integers(m=(m, 8), runs=(runs, 2))
    t = flow_times(times, m, lam)
    law = limit_law(t, lam, m, scale)
    # What the source's figure draws: App. B's solution with a relative variance of 1 at all times.
    source_l1 = 1 / (1 / m**0.5 + lam * t)
    exact = stack_results(*(solve(initial_weights(m, scale, seed, run), lam, t) for run in range(runs)))
    names = ("nonzeros", "l1_norm", "relative_variance", "nonzeros_std", "l1_norm_std")
    curves = {f"law_{name}": getattr(law, name) for name in names}
    curves |= {"source_nonzeros": source_l1**2, "source_l1_norm": source_l1}
    data: dict[str, Any] = {name: (("run", "time"), values) for name, values in exact.items()}
    data |= {name: ("time", values) for name, values in curves.items()}
    coords = {"time": t, "run": np.arange(runs, dtype=np.int32)}
    return xr.Dataset(data, coords, {"m": m, "lam": lam, "scale": scale, "seed": seed})


AXIS_LABELS = {"nonzeros": "nonzero weights m'", "l1_norm": "l1 norm |W|$_1$"}


def _draw_curves(ds: xr.Dataset, ax: Axes, name: str) -> Axes:
    """Draw `name` ("nonzeros" or "l1_norm") of all runs, the limit law and the source's curve against time.

    The limit law is the mean for many weights, the curve that of Lecomte et al. (2024); `ds` is from
    `run_fig2`.
    """
    law = ds[f"law_{name}"].assign_attrs(label="limit law")
    t, runs = ds["time"], ds[name].isel(time=slice(None, None, 4))
    ax.set(xscale="log", yscale="log")
    ax.plot(t, ds[f"source_{name}"], color="0.5", linestyle="--", label="source, constants 1")
    plot_theory_vs_experiment([law], runs, ax)
    return finish_axes(ax, None, xlabel="time t", ylabel=AXIS_LABELS[name])


@plot_function
def plot_nonzeros(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the number of nonzero weights against time (Fig. 2); `ds` is from `run_fig2`."""
    return _draw_curves(ds, ax, "nonzeros")


@plot_function
def plot_l1_norm(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the l1 norm against time (Fig. 2); `ds` is from `run_fig2`."""
    return _draw_curves(ds, ax, "l1_norm")


@plot_function
def plot_deviation(ds: xr.Dataset, ax: Axes, name: str = "nonzeros") -> Axes:
    """Draw two ratios to the limit law against time: the mean of exact runs, and the source's curve.

    Ratios are of `name`, "nonzeros" or "l1_norm"; a band shows one standard deviation of a run. The limit law
    is the mean for many weights, the curve that of Lecomte et al. (2024). `ds` is from `run_fig2`.
    """
    t, law, every_fourth = ds["time"].values, ds[f"law_{name}"].values, slice(None, None, 4)
    spread, source = ds[f"law_{name}_std"].values / law, ds[f"source_{name}"].values / law
    band = "one run: ± 1 s.d. (law)"
    ax.fill_between(t, 1 - spread, 1 + spread, color="C0", alpha=0.15, linewidth=0, label=band)
    ax.axhline(1, color="C0", label="limit law")
    style = {"color": "C1", "markersize": 3, "elinewidth": 0.8, "capsize": 0}
    label = f"mean of {ds.sizes['run']} exact runs, {LEVEL:.0%} interval"
    ratios = ds[name].transpose("time", "run").values / law[:, None]
    draw_means(ax, t[every_fourth], ratios[every_fourth], label=label, **style)
    ax.plot(t, source, color="0.5", linestyle="--", label="source, constants 1")
    ax.set(xscale="log", yscale="log", ylim=(0.2, 8))
    ax.set_yticks([0.3, 0.5, 1, 2, 3], ["0.3", "0.5", "1", "2", "3"])
    ax.minorticks_off()
    return finish_axes(ax, "upper right", xlabel="time t", ylabel=f"{AXIS_LABELS[name]} / limit law")


def _show_curves(ds: xr.Dataset) -> TopicContent:
    """Return text, figures and table of the report's part "curves", from `ds` of `run_fig2`.

    Figures have nonzero weights and l1 norm of an encoding against time, with the limit law and the source's
    curve, and their ratios to the law; the table has the same at eight times.
    """
    sentences = []
    for name, label in SYMBOLS.items():
        mean = ds[name].mean("run")
        source = (ds[f"source_{name}"] / mean).where(ds["time"] <= 1 / ds.attrs["lam"])
        law = ds[f"law_{name}"] / mean
        sentences.append(
            f"{label}: up to t = 1/lam the source's curve lies between {float(source.min()):.2f} and "
            f"{float(source.max()):.2f} times the mean of {ds.sizes['run']} exact runs, the limit law "
            f"between {float(law.min()):.3f} and {float(law.max()):.3f} times."
        )
    band = "The band is the predicted standard deviation of a single run."
    panels = (plot_nonzeros, plot_l1_norm)
    ratios = [partial(plot_deviation, name=k) for k in SYMBOLS]
    figures = [
        Figure("fig2", "Fig. 2: sparsification", f"{describe_settings(ds)}.", ds, panels),
        Figure("fig2-ratio", "Fig. 2 beside the limit law", f"{describe_settings(ds)}. {band}", ds, ratios),
    ]
    ratio = ds["law_nonzeros"] / ds["nonzeros"].mean("run")
    deviation = float(abs(ratio - 1).where(MANY.satisfied(ds["law_nonzeros"])).max())
    headline = (
        f"Sparsification under l1 has a limit law without a fitted constant: it is within {deviation:.1%} of "
        f"the mean of {ds.sizes['run']} exact runs while {MANY:g} weights or more are left."
    )
    return TopicContent(" ".join(sentences), figures, [_law_table(ds)], headline)


def _law_table(ds: xr.Dataset) -> Table:
    """Return the table of l1 norm and nonzeros at eight times, beside the limit law.

    Columns for both: the mean of the runs, the law (the mean for many weights), the standard deviation of
    runs and of the law, and (the curve of Lecomte et al. 2024) / (the mean). `ds` is from `run_fig2`.
    """
    rows = []
    for u in TABLE_TIMES:
        at_time = ds.sel(time=u / ds.attrs["lam"], method="nearest")
        row = [f"{float(at_time['time']) * ds.attrs['lam']:.3g}"]
        for name in SYMBOLS:
            values = at_time[name].values.astype(float)
            mean, spread = values.mean(), values.std(ddof=1)
            keys = (f"law_{name}", f"law_{name}_std", f"source_{name}")
            law, law_std, source = (float(at_time[key]) for key in keys)
            row += [f"{mean:.4g} ± {spread / values.size**0.5:.2g}", f"{law:.4g}"]
            row += [f"{spread:.2g} / {law_std:.2g}", f"{source / mean:.2f}"]
        rows.append(row)
    columns = table_columns("exact mean", "limit law", "s.d. of runs / law", "source / exact")
    caption = f"{ds.sizes['run']} exact runs; means ± standard error; the law has no fitted constant."
    return Table("The limit law and the exact solution", columns, rows, caption)


# At the source's parameters in both profiles.
RUNS = {"fig2": Run(run_fig2, quick={"runs": 64}, full={"runs": 400}, seconds=3)}
TOPICS = [Topic("curves", ["fig2"], _show_curves, claims=["L7", "L8", "L9"])]
