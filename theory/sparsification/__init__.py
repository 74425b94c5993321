"""Sparsification under l1 (Lecomte et al. 2024): derivations, limits, inequality of surviving weights.

The derivations are in the module `derive`, which imports SymPy when it is asked for something.
"""

from . import derive
from .moments import ParametricLaw, limiting_relative_variance, parametric_law, truncated_moments
from .spread import relative_variance_bounds, scaling_law

__all__ = [
    "ParametricLaw", "derive", "limiting_relative_variance", "parametric_law", "relative_variance_bounds",
    "scaling_law", "truncated_moments",
]  # fmt: skip
