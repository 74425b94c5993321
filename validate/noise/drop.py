"""Why fourth norms drop at strong noise (right end of Fig. 5b): shorter encodings, or other shapes."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...theory import arguments
from .runs import descend_from, starts

__all__ = ["run_drop"]


def run_drop(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: Sequence[float] = (0.2, 0.3, 0.4, 0.5),
    learning_rate: Sequence[float] = (0.02, 0.005),
    time: float = 400.0,
    runs: int = 8,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Measure lengths and shapes under strong bipolar noise at several learning rates.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 2.
    noise_std, learning_rate : sequence of float
        Positive.
    time : float
        learning_rate * steps of each run.
    runs : int
        At least 2; the same first weights throughout.
    seed : int

    Returns
    -------
    xarray.Dataset
        Over (noise_std, learning_rate, run), means over encodings: ``fourth_norm``, |W_i|_4^4; ``shape``,
        |W_i|_4^4/|W_i|_2^4; ``square``, |W_i|_2^2.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The square of a length is what the noise-averaged loss sets, at any learning rate. A shape that depends on
    the learning rate is an effect of second order: noise in the gradient turns encodings about.

    Examples
    --------
    >>> run_drop(2, 2, (0.2,), (0.1,), 1.0, 2)["shape"].shape
    (1, 1, 2)
    """
    n = arguments.integer("n_features", n_features, 2)
    m = arguments.integer("n_hidden", n_hidden, 2)
    stds = np.atleast_1d(arguments.real("noise_std", noise_std, 0.0, brackets="()"))
    rates = np.atleast_1d(arguments.real("learning_rate", learning_rate, 0.0, brackets="()"))
    time = arguments.number("time", time, 0.0, brackets="()")
    W0 = starts(n, m, arguments.integer("runs", runs, 2), seed)
    found = np.empty((3, stds.size, rates.size, len(W0)))
    for k, l in np.ndindex(stds.size, rates.size):
        made = descend_from(
            W0, "bipolar", stds[k], float(rates[l]), time, np.random.default_rng([seed, 700, k, l])
        )
        fourth, square = made.fourth_norm[:, 0], made.l2_norm[:, 0] ** 2
        found[:, k, l] = [values.mean(axis=1) for values in (fourth, fourth / square**2, square)]
    axes = ("noise_std", "learning_rate", "run")
    return xr.Dataset(
        {
            name: (axes, values)
            for name, values in zip(("fourth_norm", "shape", "square"), found, strict=True)
        },
        {"noise_std": stds, "learning_rate": rates, "run": range(len(W0))},
        {"n_features": n, "n_hidden": m, "time": time, "seed": seed},
    )
