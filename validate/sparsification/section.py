"""Sparsification's part of the report."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr

from ..section import Figure, Section, Table
from ..statistics import LEVEL, student
from ..training.engine import load_torch
from . import plots, runs

__all__ = ["report_section"]

# Sizes that fit each profile; the figures are at the source's parameters in both.
SIZES = {
    "quick": {"runs": 64, "agreement": {"m": 1000, "lam": 1e-3, "runs": 16}},
    "full": {"runs": 400, "agreement": {"m": 10_000, "lam": 1e-4, "runs": 32}},
}
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


NO_TORCH = "\n\nPyTorch is not installed on this machine, so the table of the four routes is left out."


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the experiments on one encoding and return their part of the report.

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
        Without the route by training if PyTorch is not installed: the text says so.
    """
    sizes = SIZES[profile]
    progress(f"sparsification: {sizes['runs']} exact runs")
    fig2 = runs.run_fig2(runs=sizes["runs"], seed=seed)
    fig7 = runs.run_fig7(seed=seed)
    text, tables = TEXT + _what_was_found(fig2), [_law_table(fig2)]
    try:
        load_torch()
    except ImportError:
        text += NO_TORCH
    else:
        small = sizes["agreement"]
        progress(f"sparsification: four routes at m = {small['m']}")
        agreement = runs.run_agreement(
            small["m"], small["lam"], times=np.array(SHOWN) / small["lam"], runs=small["runs"], seed=seed
        )
        tables.append(_agreement_table(agreement))
    return Section(
        "sparsification",
        "Sparsification under l1",
        text,
        _figures(fig2, fig7),
        tables,
    )


def _what_was_found(ds: xr.Dataset) -> str:
    """Say from the numbers how far the source's curves and the limit law are from the mean of exact runs."""
    sentences = []
    for name, label in (("nonzeros", "m'"), ("l1_norm", "|W|_1")):
        mean = ds[name].mean("run").values
        source = ds[f"source_{name}"].values / mean
        law = ds[f"law_{name}"].values / mean
        sentences.append(
            f"{label}: the source's curve lies between {source.min():.2f} and {source.max():.2f} times the "
            f"mean of {ds.sizes['run']} exact runs, the limit law between {law.min():.3f} and "
            f"{law.max():.3f} times."
        )
    return "\n\n" + " ".join(sentences)


def _figures(fig2: xr.Dataset, fig7: xr.Dataset) -> list[Figure]:
    m, lam, scale = (fig2.attrs[k] for k in ("m", "lam", "scale"))
    setting = f"m = {m}, lam = {lam:g}, first weights of standard deviation {scale:g}/sqrt(m)"
    return [
        Figure(
            "fig2", "Fig. 2: sparsification", setting + ".", fig2, (plots.plot_nonzeros, plots.plot_l1_norm)
        ),
        Figure(
            "fig2-ratio",
            "Fig. 2 beside the limit law",
            setting + ". The band is the predicted standard deviation of a single run.",
            fig2,
            (
                partial(plots.plot_deviation, name="nonzeros"),
                partial(plots.plot_deviation, name="l1_norm"),
            ),
        ),
        Figure(
            "fig7",
            "Fig. 7: how unequal the survivors are",
            setting + ". Between drops the run moves from its lower to its upper bound; the limit begins at "
            "pi/2 - 1 and tends to 1.",
            fig7,
            plots.plot_relative_variance,
        ),
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
