"""The ReLU output model against its theory: phases, polygons, classes of inputs, the sphere, training.

Sources: Elhage et al. (2022), Notes (2022, section 3).
"""

from .phases import MODELS, run_phases
from .plots import *  # noqa: F403  # its `__all__` says what
from .plots import __all__ as _plots
from .polygons import run_polygons
from .sphere import run_thomson
from .trained import run_trained, trained_loss
from .truncation import dropping_table, run_truncation

__all__ = [
    "MODELS", "dropping_table", "trained_loss", "run_phases", "run_polygons", "run_thomson",
    "run_trained", "run_truncation", *_plots,
]  # fmt: skip
