"""The width law: the loss against the number of hidden neurons, for features with power-law frequencies."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ....solvers import rug
from ....solvers.loss import exact_loss
from ....solvers.unequal import KINDS, allocate, allocate_codes, realise
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.unequal import capacities, loss_bound, power_law, priority_loss
from ....theory.validation import FloatArray, integer, number
from ...runner.declarations import from_rows
from ...training import train

Model = tuple[FloatArray, FloatArray, FloatArray]  # W_out, W_in, b
MODEL = ("alpha", "tied", "weight_decay", "n_hidden", "steps", "seed")
# Closer to 0 or 1 a feature counts as dropped, or kept exactly.
EDGE = 1e-9


def source_law(alpha: float, n_features: int, on: float) -> Features:
    """Return the law of the source, values uniform on [0, 2]."""
    on = number("on", on, 1e-90, integer("n_features", n_features, 1))
    return power_law(alpha, n_features, on, scale=2.0)


def normal_losses(capacity: FloatArray, law: Features) -> FloatArray:
    """Return the losses of features with these capacities if all interference were normal.

    At the best scales and biases; values uniform on [0, scale].

    Examples
    --------
    >>> normal_losses(np.array([0.0, 0.5, 1.0]), Features(3, 0.1)).round(5)
    array([0.03083, 0.00638, 0.     ])
    """
    inside = rug.optimum(law.p, np.clip(capacity, EDGE, 1 - EDGE)).loss * law.scale**2
    return np.where(capacity < EDGE, law.variance, np.where(capacity > 1 - EDGE, 0.0, inside))


def measured(M: FloatArray, law: Features) -> dict[str, float]:
    """Return what is said of the weights of a model ReLU(M x + b)."""
    capacity = capacities(M, law)
    off = M * np.sqrt(law.variance)
    np.fill_diagonal(off, 0.0)
    own = np.sign(np.diagonal(M))[:, None]
    weight = np.diagonal(M) ** 2 > 0
    energy = np.sum(off[weight] ** 2)
    return {
        "capacity": float(capacity.sum()),
        "normal": float(normal_losses(capacity, law).mean()),
        "opposed": float(np.sum(np.minimum(off * own, 0.0)[weight] ** 2) / energy) if energy else np.nan,
    }


def trained(
    law: Features, n_hidden: Any, seed: Any, steps: int, batch: int, **more: Any
) -> tuple[xr.Dataset, list[Model]]:
    """Train models by Adam; return their exact losses and their weights at the end.

    The losses are in the dataset of `validate.training.train`, of whose attributes device and version stay.
    """
    settings: dict[str, Any] = {"schedule": "converged", "evaluation_samples": None, "threads": 1}
    settings |= {"steps": steps, "batch_size": batch, "keep_weights": True, **more}
    ds = train(law.n_features, n_hidden, law, seed, **settings).isel(end=0)
    ds.attrs = {key: ds.attrs[key] for key in ("device_name", "torch_version")}
    weights = (ds[name].values.astype(np.float64) for name in ("W_out", "W_in", "bias"))
    return ds, list(zip(*weights, strict=True))


@as_annotated
def run_width(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    n_hidden: Sequence[int] = (1, 3, 10, 32, 100),
    *,
    n_features: int = 128,
    on: float = 1.0,
    tied: Sequence[int] = (0, 1),
    weight_decay: Sequence[float] = (0.0,),
    steps: Sequence[int] = (2000, 8000),
    seeds: Sequence[int] = range(2),
    batch: int = 512,
    device: str = "auto",
    folder: str = "",
) -> xr.Dataset:
    """Train models on features with power-law frequencies and measure their exact losses.

    Adam, its rate falling from 1e-2 by half a cosine.

    Parameters
    ----------
    alpha : sequence of float
        Exponents of the frequencies, p_i proportional to i^-alpha.
    n_hidden : sequence of int
    n_features : int
    on : float
        Mean number of features that are on; values are uniform on [0, 2].
    tied : sequence of int
        1 for W_out = W_in', as in the source, 0 for free weights.
    weight_decay : sequence of float
        See `validate.training.train`; the source has -1 to 1.
    steps : sequence of int
        Lengths of training, multiples of 100, each with its own schedule: what the losses still fall tells
        how far they are from convergence.
    seeds : sequence of int
        Of first weights and data.
    batch : int
        Fresh samples in each step; 2048 in the source.
    device : {"auto", "cpu", "cuda"}
    folder : str, optional
        Where the state of training is kept, so that a run that was broken off goes on.

    Returns
    -------
    xarray.Dataset
        Of (alpha, tied, weight_decay, n_hidden, steps, seed): ``loss`` per feature, exact, and
        ``loss_error``; ``capacity``, the sum of capacities; ``normal``, the loss if interference with these
        capacities were normal; ``opposed``, the share of the variance of interference that comes from
        weights whose sign is not the output's own.
    """
    shape: list[list[Any]] = [list(one) for one in (alpha, tied, weight_decay, n_hidden, steps, seeds)]
    hidden, seed = (np.ravel(one) for one in np.meshgrid(shape[3], shape[5], indexing="ij"))
    rows, facts = [], {}
    for exponent, bound, decay, length in itertools.product(*shape[:3], shape[4]):
        law = source_law(exponent, n_features, on)
        name = f"width_n{n_features}_on{on:g}_a{exponent:g}_t{bound}_d{decay:g}_s{length}_b{batch}"
        name += f"_m{'-'.join(map(str, shape[3]))}_r{'-'.join(map(str, shape[5]))}.ckpt"
        checkpoint = Path(folder) / name if folder else None
        given = {"tied": bool(bound), "weight_decay": decay, "device": device, "checkpoint": checkpoint}
        ds, models = trained(law, hidden, seed, length, batch, **given)
        facts = ds.attrs
        rows += [
            {"loss": loss, "loss_error": error, **measured(decoder @ encoder, law)}
            for loss, error, (decoder, encoder, _) in zip(
                ds["loss"].values, ds["loss_se"].values, models, strict=True
            )
        ]
    # The loop has the lengths last, the models of one call after them.
    places = dict(zip(MODEL, shape, strict=True))
    order = ("alpha", "tied", "weight_decay", "steps", "n_hidden", "seed")
    ds = from_rows(rows, **{name: len(places[name]) for name in order}).assign_coords(places)
    told = {"n_features": n_features, "on": on, "batch": batch}
    return ds.transpose(*MODEL).assign_attrs(told | facts)


@as_annotated
def run_split(
    alpha: Sequence[float] = (0.0, 1.0, 2.0),
    n_hidden: Sequence[int] = (1, 3, 10, 32, 100),
    *,
    n_features: int = 128,
    on: float = 1.0,
    seed: int = 0,
) -> xr.Dataset:
    """Compute the best split of the hidden neurons at the places of `run_width`, and bounds of the loss.

    Parameters
    ----------
    alpha, n_hidden, n_features, on
        As for `run_width`.
    seed : int
        Of the matrices that realise a split.

    Returns
    -------
    xarray.Dataset
        Of (alpha, n_hidden): ``loss``, the least per feature if each is dropped, kept, in the rug or in a
        pair, for many features that are on at a time. ``bound``, proved, is below every model, and
        ``priority``, the exact loss of a code, is above the best; ``envelope`` is that of the best codes of
        like features, if there are many copies of each. ``realised``, the exact loss of a matrix that
        realises the split, is NaN if none is found. Of (alpha, n_hidden, kind): ``count`` of features.

    Examples
    --------
    >>> ds = run_split([1.0], [2], n_features=16)
    >>> bool((ds["bound"] <= ds["priority"]).all()), ds["count"].sum("kind").item()
    (True, 16)
    """
    rows = []
    for exponent, m in itertools.product(alpha, n_hidden):
        law = source_law(exponent, n_features, on)
        best = allocate(law, m, codes=("rug", "pairs", "skew pairs"))
        try:
            model = realise(best, law, rng=np.random.default_rng([seed, n_features, m]))
            realised = exact_loss(model[0] @ model[1], model[2], law, tol=1e-6).loss
        except ValueError:  # no tight frame has rows of these lengths, to the eye of the search
            realised = np.nan
        rows.append(
            {
                "loss": best.loss - best.gap,
                "bound": loss_bound(law, m),
                "priority": priority_loss(law, m),
                "envelope": allocate_codes(law, m).loss,
                "realised": realised,
                "count": ("kind", np.bincount(best.kind, minlength=len(KINDS))),
            }
        )
    ds = from_rows(rows, alpha=alpha, n_hidden=n_hidden).assign_coords(kind=list(KINDS))
    return ds.assign_attrs(n_features=n_features, on=on)
