"""Optimiser against optimum: how low exact descents come, from the priority code and from trained models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers.loss import exact_loss
from ....solvers.minimise import descend
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.unequal import loss_bound, priority_loss, priority_weights
from ....theory.validation import FloatArray
from ...runner.declarations import from_rows
from .width import Model, source_law, trained

# Noise that moves the exact zeros of a code's weights, relative to what an output answers to its own feature.
STIR = 0.01


def perturbed(model: Model, reach: float, rng: np.random.Generator) -> Model:
    """Return a code that is moved by noise: of 1/100 if dropped, else of 1/(100 reach) of each length.

    The longest encodings then change outputs by 1/100 of what the shortest ones do.

    Examples
    --------
    >>> code = np.eye(2, 1), np.eye(1, 2), np.zeros(2)
    >>> W_out, W_in, b = perturbed(code, 100.0, np.random.default_rng(0))
    >>> bool((W_out != code[0]).all()), float(abs(W_out[0] - 1.0).max()) < 1e-3
    (True, True)
    """

    def moved(W: FloatArray, axis: int) -> FloatArray:
        length = np.linalg.norm(W, axis=axis, keepdims=True)
        size = STIR * np.where(length > 0.0, length / reach, 1.0)
        return np.asarray(W + size * rng.normal(size=W.shape) / np.sqrt(W.shape[axis]))

    return moved(model[0], 1), moved(model[1], 0), model[2]


def silencing(model: Model) -> dict[str, float]:
    """Return the strongest weight of another feature, over the output's own, and the negative share of all.

    Of outputs whose own weight is more than 1/10.
    """
    M = model[0] @ model[1]
    own = np.diagonal(M)
    heard = own > 0.1
    if not heard.any():
        return {"strongest": np.nan, "negative": np.nan}
    others = (M / np.where(heard, own, 1.0)[:, None])[heard]
    others[np.arange(len(others)), np.flatnonzero(heard)] = 0.0
    return {"strongest": float(np.abs(others).max()), "negative": float(np.mean(others < 0.0))}


def _descended(model: Model, law: Features, steps: int) -> dict[str, float]:
    """Return where an exact descent begins and ends, and what its last tenth of steps gains."""
    last = max(1, steps // 10)
    first = descend(*model, law, steps=max(1, steps - last), tol=1e-9)
    end = descend(first.W_out, first.W_in, first.b, law, steps=last, tol=1e-9)
    return {
        "start": exact_loss(model[0] @ model[1], model[2], law, tol=1e-6).loss,
        "loss": end.loss,
        "gain": 1.0 - end.loss / first.loss,
        "gradient": end.gradient_norm,
        **silencing((end.W_out, end.W_in, end.b)),
    }


@as_annotated
def run_descended(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    n_hidden: Sequence[int] = (1, 2, 4, 8, 16),
    *,
    n_features: int = 24,
    on: float = 1.0,
    seed: int = 0,
    train_steps: int = 2000,
    batch: int = 512,
    steps: int = 100,
    reach: float = 1e4,
) -> xr.Dataset:
    """Descend by the exact gradient, with free weights, at places of the width law.

    Parameters
    ----------
    alpha, n_hidden, n_features, on
        As for `run_width`.
    seed : int
        Of training, and of the noise that moves the code's exact zeros.
    train_steps, batch : int
        Of training, as in `run_width`.
    steps : int
        Steps of L-BFGS on the exact loss. Its memory is cleared before the last tenth.
    reach : float
        Longest over shortest encoding of a plane where the descent from the code begins.

    Returns
    -------
    xarray.Dataset
        Of (alpha, n_hidden): ``bound`` and ``priority``. Of (alpha, n_hidden, begin), where begin is "code"
        or "trained": the exact losses ``start`` and ``loss``; ``gain`` of the last tenth of steps, relative;
        ``gradient``, the length of the gradient over the loss of the zero model; ``strongest`` and
        ``negative``, of the weights of other features.
    """
    rows: list[dict[str, float]] = []
    places: list[dict[str, float]] = []
    facts: dict[str, Any] = {}
    for exponent in alpha:
        law = source_law(exponent, n_features, on)
        found, models = trained(law, list(n_hidden), seed, train_steps, batch, device="cpu")
        facts = found.attrs
        for m, (W_out, W_in, b) in zip(n_hidden, models, strict=True):
            rng = np.random.default_rng([seed, n_features, m])
            code = perturbed(priority_weights(law, m, reach), reach, rng)
            rows += [_descended(model, law, steps) for model in (code, (W_out[:, :m], W_in[:m], b))]
            places.append({"bound": loss_bound(law, m), "priority": priority_loss(law, m)})
    ends = from_rows(rows, alpha=alpha, n_hidden=n_hidden, begin=["code", "trained"])
    ds = ends.merge(from_rows(places, alpha=alpha, n_hidden=n_hidden))
    given = {"n_features": n_features, "on": on, "seed": seed, "batch": batch, "reach": reach}
    return ds.assign_attrs(given | {"steps": steps, "train_steps": train_steps} | facts)
