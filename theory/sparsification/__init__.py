"""Sparsification under l1 (Lecomte et al. 2024): derivations, limit law, inequality of the survivors.

The derivations are in the module `derive`, which imports SymPy when it is asked for something.
"""

from .limit import LimitLaw, limit_law
from .moments import ParametricLaw, limiting_relative_variance, parametric_law, truncated_moments
from .spread import ideal_weights, relative_variance, relative_variance_bounds, scaling_law

__all__ = [
    "LimitLaw",
    "ParametricLaw",
    "ideal_weights",
    "limit_law",
    "limiting_relative_variance",
    "parametric_law",
    "relative_variance",
    "relative_variance_bounds",
    "scaling_law",
    "truncated_moments",
]
