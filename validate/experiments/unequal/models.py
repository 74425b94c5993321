"""Trained models of the width law: features with power-law frequencies, and losses by their weights."""

from typing import Any

import numpy as np
import xarray as xr

from ....solvers import rug
from ....theory.features import Features
from ....theory.unequal import capacities, power_law
from ....theory.validation import FloatArray, integer, number
from ...training import train

Model = tuple[FloatArray, FloatArray, FloatArray]  # W_out, W_in, b
EDGE = 1e-9  # a capacity closer than this to 0 or 1 counts as dropped, or kept exactly
PLACE_COLUMNS = {"alpha": "{alpha:g}", "m": "{n_hidden}"}  # of tables, as formats


def source_law(alpha: float, n_features: int, on: float) -> Features:
    """Return the law of Liu et al. (2025) for `n_features`: p_i proportional to i^-alpha with sum `on`.

    Values are uniform on [0, 2] if a feature is on.
    """
    on = number("on", on, 1e-90, integer("n_features", n_features, 1))
    return power_law(alpha, n_features, on, scale=2.0)


def normal_losses(capacity: FloatArray, law: Features) -> FloatArray:
    """Return the loss of each feature at its capacity if all interference were normal.

    `capacity` has each feature's share of a dimension (`theory.unequal.capacities`). Scales and biases are
    the best ones; values are uniform on [0, scale].

    Examples
    --------
    >>> normal_losses(np.array([0.0, 0.5, 1.0]), Features(3, 0.1)).round(5)
    array([0.03083, 0.00638, 0.     ])
    """
    inside = rug.optimum(law.p, np.clip(capacity, EDGE, 1 - EDGE)).loss * law.scale**2
    return np.where(capacity < EDGE, law.variance, np.where(capacity > 1 - EDGE, 0.0, inside))


def measure_interference(M: FloatArray, law: Features) -> dict[str, float]:
    """Return by name the capacities, and measures of the interference, of a model ReLU(M x + b).

    "capacity": the sum over outputs of the share of the output's variance that is due to its own feature.
    "normal": the loss per feature if interference were normal. "opposed": over outputs i with M_ii not 0, the
    share of sum_(j != i) M_ij^2 var(x_j) from M_ij whose sign is opposite to that of M_ii (nan if there is
    none).
    """
    capacity = capacities(M, law)
    off = M * np.sqrt(law.variance)
    np.fill_diagonal(off, 0.0)
    sign = np.sign(np.diagonal(M))[:, None]
    has_weight = np.diagonal(M) ** 2 > 0
    energy = np.sum(off[has_weight] ** 2)
    opposed = np.sum(np.minimum(off * sign, 0.0)[has_weight] ** 2)
    return {
        "capacity": float(capacity.sum()),
        "normal": float(normal_losses(capacity, law).mean()),
        "opposed": float(opposed / energy) if energy else np.nan,
    }


def train_models(
    law: Features, n_hidden: Any, seed: Any, steps: int, batch: int, **options: Any
) -> tuple[xr.Dataset, list[Model]]:
    """Train models by Adam; return a dataset of exact losses, and the final (W_out, W_in, b) of each model.

    There are `steps` steps on a `batch` of samples each. `n_hidden` and `seed` broadcast, an entry for each
    model; `options` are further arguments of `validate.training.train`, such as `tied`. The dataset has for
    each model ``loss``, ``loss_se`` and statistics of weights, as from `train`, and the attributes for device
    and version.
    """
    settings: dict[str, Any] = {"schedule": "converged", "evaluation_samples": None, "threads": 1}
    settings |= {"steps": steps, "batch_size": batch, "keep_weights": True, **options}
    ds = train(law.n_features, n_hidden, law, seed, **settings).isel(end=0)
    ds.attrs = {key: ds.attrs[key] for key in ("device_name", "torch_version")}
    weights = (ds[name].values.astype(np.float64) for name in ("W_out", "W_in", "bias"))
    return ds, list(zip(*weights, strict=True))
