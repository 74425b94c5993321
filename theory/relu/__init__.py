"""The ReLU output model (Elhage et al. 2022): loss by sparsity class, feature benefit, interference.

The loss by class lives in `superposition.theory.loss`; its names are here too. `derive` imports SymPy when it
is asked for something.
"""

from ..loss import Mixture, class_loss, dropped_bound, mixture_loss, worst_dropped_bound
from . import derive
from .derive import *  # noqa: F403 (all derivations, which its __all__ lists)
from .forces import corner_class_loss, feature_benefit, feature_dimensionality, interference
from .pair import aligned_pair_limit, onset_coefficient, onset_importance, steep_bound
from .polytopes import POLYTOPES, polygon, polygon_energy, polytope, simplex
from .sphere import code_loss, common_norm_loss, obtuse_pair_loss, thomson_bound, thomson_energy

__all__ = [
    "POLYTOPES", "Mixture", "aligned_pair_limit", "class_loss", "code_loss", "common_norm_loss",
    "corner_class_loss", "derive", "dropped_bound", "feature_benefit", "feature_dimensionality",
    "interference", "mixture_loss", "obtuse_pair_loss", "onset_coefficient", "onset_importance", "polygon",
    "polygon_energy", "polytope", "simplex", "steep_bound", "thomson_bound", "thomson_energy",
    "worst_dropped_bound",
]  # fmt: skip
__all__ += derive.__all__
