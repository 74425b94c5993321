"""Sparsification's part of the report."""

from functools import partial

import numpy as np
import xarray as xr

from ..experiment import Experiment, Figure, Section, Shown, Table, Topic
from ..statistics import LEVEL, student
from . import plots, runs

__all__ = ["SECTION"]

MANY = 100  # with fewer left, the mean of the runs itself scatters by more than a few per cent
SHOWN = (1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)  # times of the tables, in 1/lam

TEXT = """
Without interference the l1 force acts on each encoding by itself, and all its weights that are left are
the same affine function of their first values. That turns the m equations into one, driven by a quadratic
between neighbouring weights: it is solved exactly. For many normal weights the same equation gives a
limit law in which no constant is fitted, including the last few weights, whose order statistics are
known. Time is that of the normal form of the flow (constants 4 dropped).

The source has orders of magnitude: three regimes with constants that it leaves open. With all of them 1
they miss the exact solution by the factors below. In the middle regime the constants are 2 for the number
and 1 for the norm, up to logarithms.
"""


def _times(lam: float) -> list[float]:
    return [u / lam for u in SHOWN]


def _show_curves(ds: xr.Dataset) -> Shown:
    return Shown(_what_was_found(ds), _curves(ds), [_law_table(ds)], _headline(ds))


def _headline(ds: xr.Dataset) -> str:
    ratio = ds["law_nonzeros"] / ds["nonzeros"].mean("run")
    off = float(abs(ratio - 1).where(ds["law_nonzeros"] >= MANY).max())
    return (
        "Sparsification under l1 has a limit law without a fitted constant: it is within "
        f"{off:.1%} of the mean of {ds.sizes['run']} exact runs while {MANY} weights or more are left."
    )


def _show_variance(ds: xr.Dataset) -> Shown:
    figure = Figure(
        "fig7",
        "Fig. 7: how unequal the survivors are",
        _setting(ds) + ". Between drops the run moves from its lower to its upper bound; the limit begins at "
        "pi/2 - 1 and tends to 1.",
        ds,
        plots.plot_relative_variance,
    )
    return Shown("", [figure])


def _show_routes(ds: xr.Dataset) -> Shown:
    return Shown("", (), [_agreement_table(ds)])


def _what_was_found(ds: xr.Dataset) -> str:
    """Say from the numbers how far the source's curves and the limit law are from the mean of exact runs."""
    sentences = []
    for name, label in (("nonzeros", "m'"), ("l1_norm", "|W|_1")):
        mean = ds[name].mean("run").values
        early = ds["time"].values <= 1 / ds.attrs["lam"]
        source = (ds[f"source_{name}"].values / mean)[early]
        law = ds[f"law_{name}"].values / mean
        sentences.append(
            f"{label}: up to t = 1/lam the source's curve lies between {source.min():.2f} and "
            f"{source.max():.2f} times the mean of {ds.sizes['run']} exact runs, the limit law between "
            f"{law.min():.3f} and {law.max():.3f} times."
        )
    return " ".join(sentences)


def _setting(ds: xr.Dataset) -> str:
    m, lam, scale = (ds.attrs[k] for k in ("m", "lam", "scale"))
    return f"m = {m}, lam = {lam:g}, first weights of standard deviation {scale:g}/sqrt(m)"


def _curves(ds: xr.Dataset) -> list[Figure]:
    ratios = [partial(plots.plot_deviation, name=name) for name in ("nonzeros", "l1_norm")]
    band = "The band is the predicted standard deviation of a single run."
    return [
        Figure(
            "fig2",
            "Fig. 2: sparsification",
            f"{_setting(ds)}.",
            ds,
            (plots.plot_nonzeros, plots.plot_l1_norm),
        ),
        Figure("fig2-ratio", "Fig. 2 beside the limit law", f"{_setting(ds)}. {band}", ds, ratios),
    ]


def _mean_and_error(values: np.ndarray, digits: str = ".4g") -> str:
    return f"{values.mean():{digits}} ± {values.std(ddof=1) / values.size**0.5:.2g}"


def _law_table(ds: xr.Dataset) -> Table:
    rows = []
    for u in SHOWN:
        at = ds.sel(time=u / ds.attrs["lam"], method="nearest")
        row: list[object] = [f"{float(at['time']) * ds.attrs['lam']:.3g}"]
        for name in ("nonzeros", "l1_norm"):
            values = at[name].values.astype(float)
            law = float(at[f"law_{name}"])
            row += [
                _mean_and_error(values),
                f"{law:.4g}",
                f"{values.std(ddof=1):.2g} / {float(at[f'law_{name}_std']):.2g}",
                f"{float(at[f'source_{name}']) / values.mean():.2f}",
            ]
        rows.append(row)
    head = ("exact mean", "limit law", "s.d. of runs / law", "source / exact")
    return Table(
        "The limit law and the exact solution",
        ("lam t", *(f"m': {h}" for h in head), *(f"|W|_1: {h}" for h in head)),
        rows,
        f"{ds.sizes['run']} exact runs; means ± standard error; the law has no fitted constant.",
    )


def _agreement_table(ds: xr.Dataset) -> Table:
    lam, rows = ds.attrs["lam"], []
    for t in ds["time"].values:
        at = ds.sel(time=t)
        row: list[object] = [f"{t * lam:.3g}"]
        for name in ("nonzeros", "l1_norm"):
            exact = at[name].values.astype(float)
            mean, half = student(exact)
            row += [f"{mean:.4g} ± {half:.2g}", f"{float(at[f'law_{name}']):.4g}"]
            for route in ("flow", "trained"):
                row.append(f"{np.max(np.abs(at[f'{route}_{name}'].values / exact - 1)):.1e}")
        rows.append(row)
    head = (f"exact, {LEVEL:.0%}", "limit law", "flow", "PyTorch")
    return Table(
        "One encoding by four routes",
        ("lam t", *(f"m': {h}" for h in head), *(f"|W|_1: {h}" for h in head)),
        rows,
        f"m = {ds.attrs['m']}, lam = {lam:g}, {ds.sizes['run']} runs. For the full flow (interference off) "
        f"and for PyTorch (plain gradient descent, learning rate {ds.attrs['learning_rate']:g}) the largest "
        "relative difference, over runs, from the exact solution from the same first weights.",
    )


SECTION = Section(
    "sparsification",
    "Sparsification under l1",
    TEXT,
    # The figures are at the source's parameters in both profiles.
    {
        "fig2": Experiment(runs.run_fig2, quick={"runs": 64}, full={"runs": 400}, seconds=3),
        "fig7": Experiment(runs.run_fig7),
        "agreement": Experiment(
            runs.run_agreement,
            quick={"m": 1000, "lam": 1e-3, "times": _times(1e-3), "runs": 16},
            full={"m": 10_000, "lam": 1e-4, "times": _times(1e-4), "runs": 32},
            torch=True,
            seconds=8,
        ),
    },
    [
        Topic("curves", ["fig2"], _show_curves, claims=["L7", "L8", "L9"]),
        Topic("variance", ["fig7"], _show_variance, claims=["L11", "L13"]),
        Topic("routes", ["agreement"], _show_routes),
    ],
)
