"""The width law: the loss against the number of hidden neurons, for features with power-law frequencies."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ...theory import arguments
from ...theory.features import Features
from ..training import train


def power_law(n_features: int, alpha: float, on: float = 1.0) -> Features:
    r"""Return the law of Liu, Liu and Gore (2025): p_i proportional to i^-alpha, uniform on [0, 2] if on.

    Parameters
    ----------
    n_features : int
    alpha : float
        0 for features that are alike.
    on : float, optional
        Mean number of features that are on, the sum of p.

    Raises
    ------
    ValueError
        If an argument is out of range, or the first p would be above 1.

    Examples
    --------
    >>> power_law(4, 1.0).p.round(2)
    array([0.48, 0.24, 0.16, 0.12])
    """
    n = arguments.integer("n_features", n_features, 2)
    falling = np.arange(1.0, n + 1) ** -arguments.number("alpha", alpha, 0)
    falling /= falling.sum()
    top = float(1 / falling[0])
    on = arguments.number("on", on, 0, top * (1 + 1e-12), brackets="(]", hint="No p is above 1.")
    return Features(n, np.minimum(on * falling, 1.0), scale=2.0)


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

    Adam from aligned weights, its rate falling from 1e-2 to 0 by half a cosine.

    Parameters
    ----------
    alpha : sequence of float
        Exponents of the frequencies, see `power_law`.
    n_hidden : sequence of int
    n_features, on
        As for `power_law`.
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
        ``loss_error``.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If PyTorch is not installed.
    """
    shape = [list(one) for one in (alpha, tied, weight_decay, n_hidden, steps, seeds)]
    names = ("alpha", "tied", "weight_decay", "n_hidden", "steps", "seed")
    hidden, seed = (np.ravel(one) for one in np.meshgrid(shape[3], shape[5], indexing="ij"))
    found: dict[str, list[Any]] = {}
    facts: dict[str, Any] = {}
    for exponent, bound, decay, length in itertools.product(*shape[:3], shape[4]):
        law = power_law(n_features, exponent, on)
        name = f"width_n{n_features}_on{on:g}_a{exponent:g}_t{bound}_d{decay:g}_s{length}_b{batch}"
        name += f"_m{'-'.join(map(str, shape[3]))}_r{'-'.join(map(str, shape[5]))}.ckpt"
        ds = train(
            n_features,
            hidden,
            law,
            seed,
            tied=bool(bound),
            schedule="converged",
            steps=length,
            batch_size=batch,
            weight_decay=decay,
            evaluation_samples=None,
            device=device,
            threads=1,
            checkpoint=Path(folder) / name if folder else None,
        )
        facts = {key: ds.attrs[key] for key in ("device_name", "torch_version")}
        found.setdefault("loss", []).append(ds["loss"].values[0])
        found.setdefault("loss_error", []).append(ds["loss_se"].values[0])
    # The loop has the lengths last, the models of one call after them.
    order = ("alpha", "tied", "weight_decay", "steps", "n_hidden", "seed")
    sizes = [len(shape[names.index(one)]) for one in order]
    data = {key: (order, np.reshape(values, sizes)) for key, values in found.items()}
    ds = xr.Dataset(data, dict(zip(names, shape, strict=True)))
    ds.attrs = {"n_features": n_features, "on": on, "batch": batch, **facts}
    return ds.transpose(*names, ...)
