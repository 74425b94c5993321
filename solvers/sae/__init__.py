"""Sparse autoencoders on features that are known: errors, sparsity and what their latents detect, exactly."""

from .measure import Autoencoder, measure

__all__ = ["Autoencoder", "measure"]
