"""The part of the report on the ReLU output model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..experiment import Section
from ..training.engine import load_torch
from .findings import polygons_part, sphere_part, trained_part, truncation_part
from .pair_findings import phases_part
from .phases import run_phases
from .polygons import run_polygons
from .sphere import run_thomson
from .trained import run_trained
from .truncation import run_truncation

__all__ = ["report_section"]

# Sizes that fit each profile: the quick one takes some twenty seconds of one core, the full one minutes.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {
        "phases": {"size": 30, "transitions": 5},
        "polygons": {
            "p": (0.03, 0.1, 0.2, 0.4, 0.6, 0.8),
            "k": (3, 5, 6),
            "n_features": (3, 5),
            "starts": 2,
        },
        "truncation": {"small": ((3, 2), (5, 2)), "small_p": (0.02, 0.1), "starts": 8},
        "thomson": {
            "sizes": (*((n, 2) for n in range(3, 9)), *((n, 3) for n in range(6, 10))),
            "full": ((5, 2), (6, 2)),
            "p": (0.03, 0.1, 0.3),
            "starts": 6,
        },
        "trained": {
            "cases": ((2, 1, 0.1), (3, 2, 0.5), (5, 2, 0.3)),
            "optimisers": ("adam", "sgd"),
            "seeds": 20,
            "steps": 500,
            "batch": 256,
        },
    },
    "full": {
        "phases": {"size": 100, "transitions": 40, "gap": 1e-3},
        "polygons": {
            "p": tuple(np.geomspace(0.003, 0.95, 25).round(4).tolist()),
            "k": (3, 5, 6, 7, 8, 9, 10),
            "n_features": (3, 4, 5, 6),
            "starts": 12,
        },
        "truncation": {
            "n_features": (16, 64, 256),
            "small": ((3, 2), (4, 2), (5, 2), (6, 2), (6, 3), (7, 3)),
            "small_p": (0.001, 0.003, 0.01, 0.03, 0.1),
            "starts": 24,
        },
        "thomson": {
            "sizes": tuple((n, m) for m in (2, 3, 4) for n in range(m + 1, 13)),
            "full": ((5, 2), (6, 2), (7, 2), (7, 3)),
            "p": (0.01, 0.03, 0.1, 0.3),
            "starts": 48,
        },
        "trained": {
            "cases": ((2, 1, 0.1), (2, 1, 0.4), (3, 2, 0.1), (3, 2, 0.5), (5, 2, 0.05), (5, 2, 0.3)),
            "optimisers": ("adam", "sgd"),
            "seeds": 400,
            "steps": 4000,
            "batch": 512,
        },
    },
}

TEXT = """
The loss of the ReLU output model is a mixture over how many features are on, and each class has a closed
form, so small models can be solved without sampling and without training. Everything below is on those exact
losses, except for the models that are trained. Losses are per feature unless said otherwise.
"""
NO_TORCH = """
PyTorch is not installed on this machine, so no models were trained beside the exact minimisers.
"""


def report_section(profile: str, seed: int, progress: Callable[[str], None]) -> Section:
    """Run the experiments on the ReLU output model and return their part of the report.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Seed of everything random here.
    progress : callable
        Called with a line of text from time to time.

    Returns
    -------
    Section
        Without trained models if PyTorch is not installed: the text says so.
    """
    sizes = SIZES[profile]
    progress("relu: phase diagrams")
    parts = [phases_part(run_phases(**sizes["phases"]))]
    progress("relu: polygons")
    parts.append(polygons_part(run_polygons(**sizes["polygons"], seed=seed)))
    progress("relu: classes of inputs")
    parts.append(truncation_part(run_truncation(**sizes["truncation"], seed=seed)))
    progress("relu: the sphere picture")
    parts.append(sphere_part(run_thomson(**sizes["thomson"], seed=seed)))
    try:
        load_torch()
    except ImportError:
        parts.append((NO_TORCH, [], []))
    else:
        progress("relu: trained models")
        parts.append(trained_part(run_trained(**sizes["trained"], seed=seed)))
    return Section(
        "relu",
        "The ReLU output model",
        "\n\n".join([TEXT, *(text for text, _, _ in parts)]),
        [figure for _, figures, _ in parts for figure in figures],
        [table for _, _, tables in parts for table in tables],
    )
