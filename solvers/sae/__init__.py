"""Sparse autoencoders on features that are known: errors, sparsity, what latents detect, and optima, exactly."""

from .folding import folded
from .measure import Autoencoder, measure
from .objective import Objective, ObjectiveValue

__all__ = ["Autoencoder", "Objective", "ObjectiveValue", "folded", "measure"]
