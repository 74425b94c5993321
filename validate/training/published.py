"""Training as in the public code of Cowsik et al. (2024), until its stopping rule ends it."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory import validation
from ...theory.annotations import as_annotated
from . import engine
from .points import MOST_EVALUATION_SAMPLES, grid
from .results import VECTORS, dataset
from .run import one_thread_each, reach_end
from .schedule import BLOCK, STOPPING_RULE, is_falling

# Of github.com/KfirD/PersianRug, utils/model_scan.py and model.py: batches of an epoch (30,000 samples in
# batches of 1024, the last of which is smaller there), most epochs, the window of the rule, Adam's epsilon
# beside the mean over the features.
EPOCH, EPOCHS, WINDOW, EPSILON = 30, 1500, 200, 1e-7


def continues_training(losses: Sequence[float]) -> bool:
    """Return whether the code of Cowsik et al. (2024) trains one more epoch, given all batch losses so far.

    The losses of the epoch that has just ended do not count. Training continues if there are at most 400
    others, or if the mean of their last 200 is below that of the 200 before.

    Examples
    --------
    >>> losses = [1.0] * 430, [1.0] * 450, np.linspace(2, 1, 450)
    >>> [continues_training(given) for given in losses]
    [True, False, True]
    """
    seen = losses[: len(losses) - EPOCH]
    if len(seen) <= 2 * WINDOW:
        return True
    return bool(np.mean(seen[-WINDOW:]) < np.mean(seen[-2 * WINDOW : -WINDOW]))


@as_annotated
def run_published(
    n_features: int,
    p: npt.ArrayLike,
    ratio: npt.ArrayLike,
    seeds: npt.ArrayLike = (0,),
    *,
    init: str = "linear",
    most_epochs: int = EPOCHS,
    evaluation_samples: int = 2**19,
    precision: str = "float32",
    cuda_graph: bool = False,
    device: str = "auto",
) -> xr.Dataset:
    """Train models of one shape as the public code does; return losses and weight statistics.

    The code is that of Cowsik et al. (2024): the rate is constant, 3e-3/sqrt(n_features), epochs have 30
    batches of 1024 samples, and training ends once the mean loss of 200 batches is no longer below that of
    the 200 before. Inputs are uniform on [0, 1] with probability p, else 0; losses are per feature.

    Parameters
    ----------
    n_features : int
        Number of features, at least 2.
    p, ratio : array_like
        A single p, and a single ratio n_hidden / n_features.
    seeds : array_like of int
        Seeds of the models.
    init : {"linear", "aligned", "normal"}
        First weights: uniform on ±1/sqrt(fan_in), which the public code has; encodings on the unit sphere;
        or Gaussian. See `train`.
    most_epochs : int
        Number of epochs after which training always ends.
    evaluation_samples : int
        Fresh samples on which a model is evaluated where its training ended.
    precision : {"float32", "tf32", "bf16"}
        Precision of the factors of matrix products, as in `train`.
    cuda_graph : bool
        Repeat a step as one CUDA graph, as in `train`.
    device : {"auto", "cpu", "cuda"}
        "auto" is CUDA if there is one.

    Returns
    -------
    xarray.Dataset
        The dataset of `train` (status, steps, loss and weight statistics of each model), without variables of
        single features, and with the only end "stopping rule". Further variables are ``text_steps`` (model),
        the steps after which the rule of the paper's text (100 batches in place of 200) would have ended the
        same training, 0 if never; and ``epoch_losses`` (model, epoch), means over epochs, nan after the end.

    References
    ----------
    .. [1] github.com/KfirD/PersianRug at commit e178d0b, ``utils/model_scan.py`` and ``model.py``.

    Examples
    --------
    >>> ds = run_published(4, [0.1], [0.5], most_epochs=2, evaluation_samples=2)
    >>> ds["status"].item(), ds["steps"].item()
    ('step limit', 60)
    """
    hidden, ps, seed = grid(n_features, p, ratio, seeds)
    if len({*zip(hidden, ps, strict=True)}) > 1:
        raise ValueError(f"`p`, `ratio` must be one number each; got {len(ps)} models.")
    epochs = validation.integer("most_epochs", most_epochs, 1)
    samples = validation.integer("evaluation_samples", evaluation_samples, 2, MOST_EVALUATION_SAMPLES)
    torch = engine.load_torch()
    torch_device = engine.choose_device(torch, device)
    engine.check_precision(torch, precision, torch_device)
    began, batch, epsilon = time.perf_counter(), 1024, EPSILON * n_features
    models = [
        engine.new_model(torch, torch_device, n_features, int(m), float(q), int(s), False, init, 0.0, epsilon)
        for m, q, s in zip(hidden, ps, seed, strict=True)
    ]
    losses = _train_until_stopped(torch, models, epochs, batch, precision, cuda_graph)
    evaluated = [
        {STOPPING_RULE: engine.evaluate(torch, model, STOPPING_RULE, samples, batch)} for model in models
    ]
    history = np.full((len(models), max(map(len, losses)) // EPOCH), np.nan)
    for means, model_losses in zip(history, losses, strict=True):
        means[: len(model_losses) // EPOCH] = np.reshape(model_losses, (-1, EPOCH)).mean(axis=1)
    settings = {
        "init": init,
        "precision": precision,
        "device": torch_device.type,
        "evaluation_samples": samples,
    }
    settings |= {"most_epochs": epochs, **engine.provenance(torch, torch_device, began)}
    settings["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    ds = dataset(models, evaluated, [STOPPING_RULE], False, settings)
    return ds.drop_vars([*VECTORS, "history", "block"]).assign(
        text_steps=("model", [_stop_by_text(model_losses) for model_losses in losses]),
        epoch_losses=(("model", "epoch"), history),
    )


def _train_until_stopped(
    torch: Any, models: list[engine.ModelState], epochs: int, batch: int, precision: str, cuda_graph: bool
) -> list[list[float]]:
    """Train models in place until the stopping rule or `epochs` ends each; return their batch losses.

    The losses are a list for each model, per feature. The rule is that of the public code of Cowsik et al.
    (2024), checked after each epoch (`continues_training`). `batch` is the number of samples in a batch,
    `precision` that of the products' factors, "float32", "tf32" or "bf16"; with `cuda_graph` a step is
    repeated as a CUDA graph.
    """
    losses: list[list[float]] = [[] for _ in models]
    with one_thread_each(torch, 1):
        while active := [k for k, model in enumerate(models) if not model.finished]:
            rates = np.full((EPOCH, len(active)), 3e-3 / models[0].n_features ** 0.5)
            block = engine.run_block(torch, [models[k] for k in active], rates, batch, precision, cuda_graph)
            for k, column in zip(active, block.T, strict=True):
                losses[k] += column.tolist()
                over = continues_training(losses[k])
                if not over or len(losses[k]) == EPOCH * epochs:
                    models[k].finished = True
                    reach_end(models[k], STOPPING_RULE, "step limit" if over else "reached")
    return losses


def _stop_by_text(losses: Sequence[float]) -> int:
    """Return the number of batches after which the rule of Cowsik et al. (2024), §2, ends training, or 0.

    By this rule training ends once the mean loss of 100 batches is not below that of the 100 before; 0 stands
    for never. `losses` are those of the batches.
    """
    means = np.reshape(losses[: len(losses) // BLOCK * BLOCK], (-1, BLOCK)).mean(axis=1)
    ends = (k for k in range(2, len(means) + 1) if not is_falling(means[:k]))
    return BLOCK * next(ends, 0)
