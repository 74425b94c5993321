"""Sparsification's part of the report."""

from functools import partial

import numpy as np
import xarray as xr

from ....solvers.statistics import LEVEL, student
from ...runner.declarations import Figure, Run, Section, Table, Topic, TopicContent
from ...runner.findings import Criterion, post_hoc
from . import plots, runs

# With fewer left, the mean of the runs itself scatters by more than a few per cent.
MANY = Criterion("weights left by the law", ">=", post_hoc(100))
NAMES = {"nonzeros": "m'", "l1_norm": "|W|_1"}
SHOWN = (1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)  # times of the tables, in 1/lam

TEXT = """
Without interference the l1 force acts on each encoding by itself, and all its weights that have not reached
zero are the same affine function of their first values. That turns the m equations into one, driven by a
quadratic between neighbouring weights: it is solved exactly. For many normal weights the same equation gives
a limit law in which no constant is fitted, including the last few weights, whose order statistics are
known. Time is that of the normal form of the flow (constants 4 dropped).

The source gives orders of magnitude: three regimes with unspecified constants. With all constants set to 1
they miss the exact solution by the factors below. In the middle regime the constants are 2 for the number
and 1 for the norm, up to logarithms.
"""


def _setting(ds: xr.Dataset) -> str:
    m, lam, scale = (ds.attrs[k] for k in ("m", "lam", "scale"))
    return f"m = {m}, lam = {lam:g}, first weights of standard deviation {scale:g}/sqrt(m)"


def _show_curves(ds: xr.Dataset) -> TopicContent:
    sentences = []
    for name, label in NAMES.items():
        mean = ds[name].mean("run")
        source = (ds[f"source_{name}"] / mean).where(ds["time"] <= 1 / ds.attrs["lam"])
        law = ds[f"law_{name}"] / mean
        sentences.append(
            f"{label}: up to t = 1/lam the source's curve lies between {float(source.min()):.2f} and "
            f"{float(source.max()):.2f} times the mean of {ds.sizes['run']} exact runs, the limit law "
            f"between {float(law.min()):.3f} and {float(law.max()):.3f} times."
        )
    band = "The band is the predicted standard deviation of a single run."
    both = (plots.plot_nonzeros, plots.plot_l1_norm)
    ratios = [partial(plots.plot_deviation, name=k) for k in NAMES]
    figures = [
        Figure("fig2", "Fig. 2: sparsification", f"{_setting(ds)}.", ds, both),
        Figure("fig2-ratio", "Fig. 2 beside the limit law", f"{_setting(ds)}. {band}", ds, ratios),
    ]
    ratio = ds["law_nonzeros"] / ds["nonzeros"].mean("run")
    off = float(abs(ratio - 1).where(MANY.satisfied(ds["law_nonzeros"])).max())
    headline = (
        "Sparsification under l1 has a limit law without a fitted constant: it is within "
        f"{off:.1%} of the mean of {ds.sizes['run']} exact runs while {MANY:g} weights or more are left."
    )
    return TopicContent(" ".join(sentences), figures, [_law_table(ds)], headline)


def _show_variance(ds: xr.Dataset) -> TopicContent:
    caption = (
        f"{_setting(ds)}. Between drops the run moves from its lower to its upper bound; the limit begins at "
        "pi/2 - 1 and tends to 1."
    )
    title = "Fig. 7: how unequal the survivors are"
    return TopicContent("", [Figure("fig7", title, caption, ds, plots.plot_relative_variance)])


def _columns(*head: str) -> tuple[str, ...]:
    return ("lam t", *(f"{label}: {h}" for label in NAMES.values() for h in head))


def _law_table(ds: xr.Dataset) -> Table:
    rows = []
    for u in SHOWN:
        at = ds.sel(time=u / ds.attrs["lam"], method="nearest")
        row = [f"{float(at['time']) * ds.attrs['lam']:.3g}"]
        for name in NAMES:
            values = at[name].values.astype(float)
            mean, spread = values.mean(), values.std(ddof=1)
            law, law_std, source = (
                float(at[key]) for key in (f"law_{name}", f"law_{name}_std", f"source_{name}")
            )
            row += [f"{mean:.4g} ± {spread / values.size**0.5:.2g}", f"{law:.4g}"]
            row += [f"{spread:.2g} / {law_std:.2g}", f"{source / mean:.2f}"]
        rows.append(row)
    columns = _columns("exact mean", "limit law", "s.d. of runs / law", "source / exact")
    caption = f"{ds.sizes['run']} exact runs; means ± standard error; the law has no fitted constant."
    return Table("The limit law and the exact solution", columns, rows, caption)


def _show_routes(ds: xr.Dataset) -> TopicContent:
    rows = []
    for t in ds["time"].values:
        at = ds.sel(time=t)
        row = [f"{t * ds.attrs['lam']:.3g}"]
        for name in NAMES:
            exact = at[name].values.astype(float)
            mean, half = student(exact)
            row += [f"{mean:.4g} ± {half:.2g}", f"{float(at[f'law_{name}']):.4g}"]
            routes = [at[f"{route}_{name}"].values for route in ("flow", "trained")]
            row += [f"{np.max(np.abs(found / exact - 1)):.1e}" for found in routes]
        rows.append(row)
    caption = (
        f"m = {ds.attrs['m']}, lam = {ds.attrs['lam']:g}, {ds.sizes['run']} runs. For the full flow "
        "(interference off) and for PyTorch (plain gradient descent, learning rate "
        f"{ds.attrs['learning_rate']:g}) the largest relative difference, over runs, from the exact solution "
        "from the same first weights."
    )
    columns = _columns(f"exact, {LEVEL:.0%}", "limit law", "flow", "PyTorch")
    return TopicContent("", (), [Table("One encoding by four routes", columns, rows, caption)])


SECTION = Section(
    "sparsification",
    "Sparsification under l1",
    TEXT,
    # The figures are at the source's parameters in both profiles.
    {
        "fig2": Run(runs.run_fig2, quick={"runs": 64}, full={"runs": 400}, seconds=3),
        "fig7": Run(runs.run_fig7),
        "agreement": Run(
            runs.run_agreement,
            quick={"m": 1000, "lam": 1e-3, "times": [u / 1e-3 for u in SHOWN], "runs": 16},
            full={"m": 10_000, "lam": 1e-4, "times": [u / 1e-4 for u in SHOWN], "runs": 32},
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
