"""Features that differ: capacities of a matrix of low rank, the interference they leave, a proved bound."""

from .capacity import capacities, finite_size_correction, interference_variance

__all__ = ["capacities", "finite_size_correction", "interference_variance"]
