"""The ReLU output model (Elhage et al. 2022): loss by sparsity class, feature benefit, interference.

The derivations are in the module `derive`, which imports SymPy when it is asked for something.
"""

from .classes import (
    class_loss,
    class_loss_gradient,
    class_loss_gradient_of_map,
    class_loss_of_map,
    class_loss_per_feature,
)
from .dropped import dropped_bound, worst_dropped_bound
from .forces import corner_class_loss, feature_benefit, feature_dimensionality, interference
from .mixture import (
    Mixture,
    mixture_loss,
    mixture_loss_gradient,
    mixture_loss_of_map,
)
from .phases import onset_coefficient, onset_importance, steep_bound
from .polytopes import POLYTOPES, cross_polytope, polygon, polygon_energy, polytope, simplex
from .thomson import antipodal_energy, capacity_bounds, thomson_bound, thomson_energy
from .thomson_loss import code_loss, common_norm_loss, obtuse_pair_loss, obtuse_second_class

__all__ = [
    "POLYTOPES",
    "Mixture",
    "antipodal_energy",
    "capacity_bounds",
    "class_loss",
    "class_loss_gradient",
    "class_loss_gradient_of_map",
    "class_loss_of_map",
    "class_loss_per_feature",
    "code_loss",
    "common_norm_loss",
    "corner_class_loss",
    "cross_polytope",
    "dropped_bound",
    "feature_benefit",
    "feature_dimensionality",
    "interference",
    "mixture_loss",
    "mixture_loss_gradient",
    "mixture_loss_of_map",
    "obtuse_pair_loss",
    "obtuse_second_class",
    "onset_coefficient",
    "onset_importance",
    "polygon",
    "polygon_energy",
    "polytope",
    "simplex",
    "steep_bound",
    "thomson_bound",
    "thomson_energy",
    "worst_dropped_bound",
]
