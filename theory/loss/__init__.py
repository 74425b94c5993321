"""The loss over few active features in closed form: by class, over all classes, and bounds of the rest.

Inputs with exactly k features on form class k. Each of its patterns is a cube of values, over which the
squared error of an affine + ReLU output integrates exactly. Values are uniform on [0, 1] and features alike,
since a class weighs all its patterns the same; `superposition.solvers.loss.exact_loss` takes any law.
"""

from . import derive
from .classes import Mixture, class_loss, mixture_loss
from .derive import (
    derive_class_gradient,
    derive_class_loss,
    derive_langevin_variance,
    derive_localised_llc,
)
from .dropped import dropped_bound, worst_dropped_bound
from .localised import ChainLLC, ExpectedLLC, expected_llc, langevin_llc

__all__ = [
    "ChainLLC", "ExpectedLLC", "Mixture", "class_loss", "derive", "derive_class_gradient",
    "derive_class_loss", "derive_langevin_variance", "derive_localised_llc", "dropped_bound", "expected_llc",
    "langevin_llc", "mixture_loss", "worst_dropped_bound",
]  # fmt: skip
