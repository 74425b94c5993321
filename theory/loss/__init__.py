"""The loss over few active features in closed form: class by class, all classes, and what truncation omits.

Inputs with exactly k features on form class k. Each of its patterns is a cube of values, over which the
squared error of an affine + ReLU output integrates exactly. Values are uniform on [0, 1] and features alike,
since a class weighs all its patterns the same; `superposition.solvers.loss.exact_loss` takes any law.
"""

from . import derive
from .classes import (
    Mixture,
    class_loss,
    class_loss_gradient,
    class_loss_gradient_of_map,
    class_loss_of_map,
    class_loss_per_feature,
    mixture_loss,
    mixture_loss_gradient,
    mixture_loss_of_map,
)
from .derive import derive_class_loss
from .dropped import dropped_bound, worst_dropped_bound

__all__ = [
    "Mixture",
    "class_loss",
    "class_loss_gradient",
    "class_loss_gradient_of_map",
    "class_loss_of_map",
    "class_loss_per_feature",
    "derive",
    "derive_class_loss",
    "dropped_bound",
    "mixture_loss",
    "mixture_loss_gradient",
    "mixture_loss_of_map",
    "worst_dropped_bound",
]
