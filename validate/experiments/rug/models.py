"""Trained models of the rug: their excess over theory, and tables of their means over seeds."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from ....solvers import rug as solvers
from ....solvers.statistics import student
from ....theory import rug as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Table
from ...training import grid, train
from ..drawing import plot_function

# What is kept of a training run: enough for the figures and tables, without the loss histories.
MODEL_COLUMNS = ("n_features", "n_hidden", "p", "seed", "steps", "loss", "loss_se", "dropped", "lyapunov_max")


WEIGHT_STATISTICS = ("diagonal_mean", "diagonal_sd", "bias_mean", "bias_sd")


# At which losses of several sizes are compared; with n_hidden whole, those of models are near these.
RATIOS = (0.12, 0.25, 0.5)


# A phase of training after which the loss is more than this many times what it was has broken the model.
# Chosen when all stored models had been seen: their factors are below 1, or 1.49 and more.
LARGEST_RISE = 1.25


@as_annotated
def mask_broken_phases(trained: xr.Dataset) -> xr.Dataset:
    """Return models with nan at the ends of training phases in which the loss rose by over a quarter.

    `trained` has variables over (end, model), one of them ``loss``, with an end for each phase of training;
    all its floats over (end, model) are masked. A learning rate that is too large switches outputs off for
    good. Weights and losses then tell nothing about the phase before or the optimum.

    Examples
    --------
    >>> ds = xr.Dataset({"loss": (("end", "model"), [[0.2, 0.2], [0.1, 0.9]])})
    >>> mask_broken_phases(ds)["loss"].values.tolist()
    [[0.2, 0.2], [0.1, nan]]
    """
    is_unbroken = ~(trained["loss"] > LARGEST_RISE * trained["loss"].shift(end=1))
    floats = [
        name for name, variable in trained.items() if "end" in variable.dims and variable.dtype.kind == "f"
    ]
    return trained.assign({name: trained[name].where(is_unbroken) for name in floats})


def nearest_ratio(ratio: npt.ArrayLike) -> FloatArray:
    """Return for each ratio the one of 0.12, 0.25 and 0.5 that is within 5 % of it, or nan.

    Examples
    --------
    >>> nearest_ratio([0.117, 0.3])
    array([0.12,  nan])
    """
    off = np.abs(np.asarray(ratio)[:, None] / RATIOS - 1)
    return np.where(off.min(axis=1) < 0.05, np.array(RATIOS)[off.argmin(axis=1)], np.nan)


@as_annotated
def run_trained(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    steps: int,
    evaluation_samples: int | None = None,
    init: str = "aligned",
    schedule: str = "both",
    device: str = "auto",
    keep_weights: bool = False,
) -> xr.Dataset:
    """Train the models of the product p × ratio × seeds and add the losses of theory.

    Models have `n_features`, and one of `seeds` each. First weights are "aligned" (W_out = W_in'), "linear"
    (independent) or "normal", by `init`. `schedule` says where training ends: at a stopping rule ("paper"),
    "converged" after `steps` steps of falling learning rate, or at "both" in turn. With `keep_weights` the
    dataset has the weights, too. These and `device` are arguments of `superposition.validate.training.train`.
    Losses are exact unless `evaluation_samples` is passed, the number of fresh samples that evaluate them.

    Returns
    -------
    xarray.Dataset
        Of (model): sizes, p, seed, and the loss of the rug, ``optimum``. Of (end, model), ends being those of
        the schedule: ``loss`` per feature, ``excess`` = loss/optimum - 1, and statistics of the weights; see
        `with_theory`.
    """
    settings: dict[str, Any] = {"init": init, "steps": steps, "evaluation_samples": evaluation_samples}
    settings |= {"schedule": schedule, "device": device, "keep_weights": keep_weights}
    trained = train(n_features, *grid(n_features, p, ratio, seeds), **settings)
    return with_theory(trained, "this run")


@plot_function
def with_theory(trained: xr.Dataset, origin: str) -> xr.Dataset:
    """Return the variables of a training run that figures need, with the macroscopic optimum added.

    The macroscopic optimum is the rug of least loss in the limit of many features, see `solvers.rug.optimum`.

    Parameters
    ----------
    trained : xarray.Dataset
        From `superposition.validate.training.train`.
    origin : str
        Where the run was made, "this run" or "reference".

    Returns
    -------
    xarray.Dataset
        Sizes, losses, statistics and weights, if there are any, with nan at ends of phases that broke a model
        (`mask_broken_phases`). Also, per model: ``ratio``; the rug's loss ``optimum``, scale ``optimum_a``
        and bias ``optimum_b``; the loss at ratio 0, ``zero_ratio_loss``; ``origin``. Per end and model:
        ``excess`` = loss/optimum - 1 and ``excess_se``, the standard error of the evaluation alone.
    """
    weights = ("W_out", "W_in", "bias") if "W_out" in trained else ()
    ds = mask_broken_phases(trained[[*MODEL_COLUMNS, *WEIGHT_STATISTICS, *weights]].load())
    p = validation.real("p", ds["p"].values, 0, 1, brackets="(]")
    ratio = ds["n_hidden"].values / ds["n_features"].values
    best = solvers.optimum(p, ratio)
    ds = ds.assign(
        n_features=("model", np.broadcast_to(ds["n_features"].values, p.shape)),
        ratio=("model", ratio),
        optimum=("model", best.loss),
        optimum_a=("model", best.a),
        optimum_b=("model", best.b),
        zero_ratio_loss=("model", theory.zero_ratio_loss(p)),
        origin=("model", np.full(p.size, origin)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # at ratio 1 the optimum is 0
        return ds.assign(excess=ds["loss"] / ds["optimum"] - 1, excess_se=ds["loss_se"] / ds["optimum"])


INTERVALS = "± and bars: Student's 95 % interval of the mean over seeds."


def format_mean(values: npt.ArrayLike, digits: str = "+.1%") -> str:
    """Return the mean of `values` over seeds ± half its 95 % interval as text; for one seed the value alone.

    `digits` is the format of the numbers.
    """
    if np.size(values) == 1:
        return f"{np.ravel(values)[0]:{digits}}"
    mean, half = student(values)
    return f"{mean:{digits}} ± {half:{digits.removeprefix('+')}}"


def models_frame(trained: xr.Dataset) -> pd.DataFrame:
    """Return a frame with a row for each model of `trained` at each end of training.

    It has a column for each variable, and ``ratio ≈``: 0.12, 0.25 or 0.5, whichever is within 5 % of the
    ratio. Models of other ratios are left out.
    """
    frame = trained.to_dataframe().reset_index()
    frame["ratio ≈"] = nearest_ratio(frame["ratio"])
    return frame.dropna(subset=["ratio ≈"])


def means_table(
    title: str, frame: pd.DataFrame, values: dict[str, str], by: list[str], caption: str
) -> Table:
    """Return a table of means over seeds, grouped by the columns `by`.

    `frame` has a row for each model and end of training; `values` maps its columns to number formats. `title`
    stands above, `caption` below the table.
    """
    formats = {name: partial(format_mean, digits=digits) for name, digits in values.items()}
    means = frame.dropna(subset=["loss"]).pivot_table(list(values), by, "end", aggfunc=formats)
    means.columns = [f"{name}, {end}" for name, end in means.columns]
    return Table.of(title, means.fillna("–").reset_index(), f"{caption} {INTERVALS}")


# Quick models have three seeds, for an interval, and converge; full ones stop at the source's rule as well.
QUICK_MODELS: dict[str, Any] = {"n_features": 64, "seeds": range(3), "steps": 1500, "schedule": "converged"}
FULL_MODELS: dict[str, Any] = {"n_features": 128, "seeds": range(5), "steps": 20_000}
