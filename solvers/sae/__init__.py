"""Sparse autoencoders on known features: errors, sparsity, what latents detect, and optima, exactly."""

from .ceiling import DECODERS, Ceiling, ceiling
from .circle import PairOptimum, best_pair, pair_encoder
from .measure import Autoencoder, fold_norms, measure, measure_samples
from .objective import AutoencoderObjective, ObjectiveValue
from .optimum import PHASES, BestAutoencoder, best_autoencoder, descend, phase

__all__ = [
    "DECODERS",
    "PHASES",
    "Autoencoder",
    "AutoencoderObjective",
    "BestAutoencoder",
    "Ceiling",
    "ObjectiveValue",
    "PairOptimum",
    "best_autoencoder",
    "best_pair",
    "ceiling",
    "descend",
    "fold_norms",
    "measure",
    "measure_samples",
    "pair_encoder",
    "phase",
]  # fmt: skip
