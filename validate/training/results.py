"""The dataset of trained models: losses, statistics of weights, histories."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...theory.features import Features
from . import engine
from .engine import ModelState
from .schedule import BLOCK
from .weights import weight_statistics

_PAIR = ("end", "model")
# Numbers of a model's single features, the others are of the model.
VECTORS = ("diagonal", "bias")


def _numbers_at_end(model: ModelState, end: str, loss: tuple[float, float]) -> dict[str, Any]:
    """Return numbers of a model with the weights that it had at one `end` of its training, by name.

    The names are "loss" and "loss_se", the pair `loss` (mean over samples, its standard error); "diagonal"
    and "bias", (n_features,) each, the diagonal of M = W_out W_in and the output bias b; and the scalars of
    `weight_statistics`, such as mean and standard deviation of both. `end` is "stopping rule" or "converged".
    """
    decoder, encoder, bias = engine.unpack_parameters(model, model.ends[end])
    M = decoder @ encoder
    vectors = {"diagonal": M.diagonal().copy(), "bias": bias}
    return {"loss": loss[0], "loss_se": loss[1], **vectors, **weight_statistics(M, bias)}


def _by_end_and_model(rows: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return dataset variables over (end, model), or (end, model, feature), from rows[end][model][name].

    Ends are those of training, "stopping rule" and "converged". Missing numbers are NaN.
    """
    names = dict.fromkeys(name for row in rows for numbers in row for name in numbers)
    return {
        name: (
            (*_PAIR, "feature") if name in VECTORS else _PAIR,
            np.array([[numbers.get(name, np.nan) for numbers in row] for row in rows]),
        )
        for name in names
    }


def _padded_weights(models: Sequence[ModelState], ends: Sequence[str]) -> dict[str, Any]:
    """Return dataset variables W_out and W_in of all models, padded with zeros to the largest n_hidden.

    Both have the axes (end, model, ...); `ends` are names of ends of training, such as "converged".
    """
    shape = (len(ends), len(models), models[0].n_features, max(model.n_hidden for model in models))
    W_out, W_in = np.zeros((2, *shape), dtype=np.float32)
    for i, j in np.ndindex(shape[:2]):
        decoder, encoder, _ = engine.unpack_parameters(models[j], models[j].ends[ends[i]])
        W_out[i, j, :, : models[j].n_hidden], W_in[i, j, :, : models[j].n_hidden] = decoder, encoder.T
    return {
        "W_out": ((*_PAIR, "feature", "hidden"), W_out),
        "W_in": ((*_PAIR, "hidden", "feature"), W_in.swapaxes(2, 3)),
    }


def dataset(
    models: Sequence[ModelState],
    losses: Sequence[dict[str, tuple[float, float]]],
    ends: Sequence[str],
    keep_weights: bool,
    attributes: dict[str, Any],
) -> xr.Dataset:
    """Return the dataset of `train`: status, steps, loss, weight statistics and histories of the losses.

    A model that diverged has NaN and the status "diverged". `losses` has for each of the models (loss, error)
    by end of training, as `engine.evaluate` returns them; `ends` are the names of all ends, `attributes`
    those of the dataset. With `keep_weights` the dataset has W_out and W_in too.
    """
    n_features, law = models[0].n_features, models[0].law
    nothing = {"loss": np.nan, "loss_se": np.nan} | dict.fromkeys(VECTORS, np.full(n_features, np.nan))
    numbers = [
        [
            _numbers_at_end(model, end, known[end]) if end in known else nothing
            for model, known in zip(models, losses, strict=True)
        ]
        for end in ends
    ]
    history = np.full((len(models), max(len(model.history) for model in models)), np.nan)
    for row, model in zip(history, models, strict=True):
        row[: len(model.history)] = model.history
    data: dict[str, Any] = {
        "n_features": n_features,
        "n_hidden": ("model", [model.n_hidden for model in models]),
        "p": ("model", [model.p for model in models]),
        "seed": ("model", [model.seed for model in models]),
        "status": (_PAIR, [[model.status[end] for model in models] for end in ends]),
        "steps": (_PAIR, [[model.end_steps[end] for model in models] for end in ends]),
        **_by_end_and_model(numbers),
        "history": (("model", "block"), history),
        **(_padded_weights(models, ends) if keep_weights else {}),
    }
    if isinstance(law, Features):
        attributes = {**attributes, "values": law.values.name}
        data |= {f"law_{name}": ("feature", getattr(law, name)) for name in ("p", "scale", "importance")}
    last_batch = BLOCK * np.arange(1, history.shape[1] + 1)
    return xr.Dataset(data, {"end": list(ends), "block": last_batch}, attributes)
