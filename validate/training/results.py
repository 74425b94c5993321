"""The dataset of trained models: losses, statistics of weights, histories."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...theory.features import Features
from . import engine
from .engine import Model
from .schedule import BLOCK
from .weights import weight_statistics


def dataset(
    models: Sequence[Model],
    losses: Sequence[dict[str, tuple[float, float]]],
    ends: Sequence[str],
    keep_weights: bool,
    attributes: dict[str, Any],
) -> xr.Dataset:
    """Return the dataset of `train`; a model that diverged has NaN and the status "diverged"."""
    n_features, widest = models[0].n_features, max(model.n_hidden for model in models)
    shape = (len(ends), len(models))
    values: dict[str, np.ndarray] = {name: np.full(shape, np.nan) for name in ("loss", "loss_se")}
    vectors = {name: np.full((*shape, n_features), np.nan) for name in ("diagonal", "bias")}
    if keep_weights:
        W_out = np.zeros((*shape, n_features, widest), dtype=np.float32)
        W_in = np.zeros((*shape, widest, n_features), dtype=np.float32)
    for (i, end), (j, model) in itertools.product(enumerate(ends), enumerate(models)):
        decoder, encoder, bias = engine.product(model, model.ends[end])
        if keep_weights:
            W_out[i, j, :, : model.n_hidden] = decoder
            W_in[i, j, : model.n_hidden] = encoder
        if model.status[end] == "diverged":
            continue
        M = decoder @ encoder
        values["loss"][i, j], values["loss_se"][i, j] = losses[j][end]
        vectors["diagonal"][i, j], vectors["bias"][i, j] = np.diagonal(M), bias
        for name, value in weight_statistics(M, bias).items():
            values.setdefault(name, np.full(shape, np.nan))[i, j] = value
    history = np.full((len(models), max(len(model.history) for model in models)), np.nan)
    for row, model in zip(history, models, strict=True):
        row[: len(model.history)] = model.history
    pair = ("end", "model")
    data: dict[str, Any] = {
        "n_features": n_features,
        "n_hidden": ("model", [model.n_hidden for model in models]),
        "p": ("model", [model.p for model in models]),
        "seed": ("model", [model.seed for model in models]),
        "status": (pair, [[model.status[end] for model in models] for end in ends]),
        "steps": (pair, [[model.end_steps[end] for model in models] for end in ends]),
        **{name: (pair, array) for name, array in values.items()},
        **{name: ((*pair, "feature"), array) for name, array in vectors.items()},
        "history": (("model", "block"), history),
    }
    if keep_weights:
        data["W_out"] = ((*pair, "feature", "hidden"), W_out)
        data["W_in"] = ((*pair, "hidden", "feature"), W_in)
    law = models[0].law
    if isinstance(law, Features):
        attributes = {**attributes, "values": law.values.name}
        for name in ("p", "scale", "importance"):
            data[f"law_{name}"] = ("feature", getattr(law, name))
    last_batch = BLOCK * np.arange(1, history.shape[1] + 1)
    return xr.Dataset(data, {"end": list(ends), "block": last_batch}, attributes)
