"""Losses of large models beside copies of small ones, and after more steps."""

import numpy as np
import xarray as xr

from ....solvers.statistics import LEVEL, Estimate, from_standard_error, mean
from ...runner.declarations import Table, Topic, TopicContent
from .symmetry import CELLS, describe_ends, stored_models


def above_copies(models: xr.Dataset, level: float = LEVEL) -> Estimate:
    """Return (least loss of the largest models) / (least loss of smaller models) - 1, with its interval.

    Copies of a small model side by side, each with features and neurons of its own, have its loss per
    feature. So a larger model of higher loss is not optimal.

    `models` has ``n_features``, ``loss`` and ``loss_se``, at one p, ratio and end of training. The interval
    allows for the choice of the least losses: limits hold for all losses together at the confidence `level`
    (Bonferroni).
    """
    single_level = 1 - (1 - level) / models.sizes["model"]
    pairs = zip(models["loss"].values, models["loss_se"].values, strict=True)
    estimates = [from_standard_error(*pair, single_level) for pair in pairs]
    losses = np.array([(estimate.value, estimate.low, estimate.high) for estimate in estimates])
    largest = models["n_features"].values == models["n_features"].values.max()
    value, low, high = map(float, losses[largest].min(axis=0))
    best_small, least, most = map(float, losses[~largest].min(axis=0))
    return Estimate(value / best_small - 1, low / most - 1, high / least - 1, level, len(losses))


def _show_copies(trained: xr.Dataset, longer: xr.Dataset) -> TopicContent:
    """Return text and table of the report's part "copies": large models against copies of small ones.

    The table has, by p and ratio, mean losses by n_features, and (best loss of the largest models) / (that of
    copies of the best smaller model) - 1. Both datasets are from `run_stored`; models of `longer` were
    trained for more steps, and the text compares the two.
    """
    rows = []
    for p, ratio in (cell for cell in CELLS if cell[1] != 0.12):  # of which no number of copies is a model
        near = np.isclose(trained["ratio"], ratio) & (trained["p"].values == p)
        models = trained.isel(end=-1, model=near)
        models = models.isel(model=np.isfinite(models["loss"].values))
        losses = [f"{n}: {mean(at_size['loss']).value:.4g}" for n, at_size in models.groupby("n_features")]
        rows.append((f"{p:g}", f"{ratio:g}", ", ".join(losses), f"{above_copies(models):+.1%}"))
    n, p, ratio = (float(longer[name][0]) for name in ("n_features", "p", "ratio"))
    is_same_cell = (trained["n_features"] == n) & (trained["p"] == p) & np.isclose(trained["ratio"], ratio)
    same_cell = trained.isel(model=np.flatnonzero(is_same_cell))
    short, long = (mean(ds["loss"].isel(end=-1).values) for ds in (same_cell, longer))
    text = (
        f"{describe_ends(trained)}. More steps change little: for {n:g} features at p = {p:g}, "
        f"ratio {ratio:g} the loss is {short:.4g} after {trained.attrs['steps']} steps and {long:.4g} "
        f"after {longer.attrs['steps']}."
    )
    table = Table(
        "What large models miss: copies of small ones",
        ("p", "ratio", "n_features: mean loss", "best of the largest over copies of the best other"),
        rows,
        f"Losses after {trained.attrs['steps']} steps. Last column: less 1; its interval, {LEVEL:.0%}, "
        "covers the errors of all losses together, so that the best may be picked. Above 0 no model of the "
        "largest size is optimal, whatever its structure.",
    )
    return TopicContent(text, tables=[table])


RUNS = {"longer": stored_models(schedule="converged", steps=40_000)}
TOPICS = [Topic("copies", ["symmetry", "longer"], _show_copies)]
