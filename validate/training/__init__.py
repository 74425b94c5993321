"""Reference training of the autoencoder ReLU(W_out W_in x + b), many models at once, on CPU or CUDA."""

from .exact import exact_loss
from .points import grid, models_at
from .run import train
from .schedule import falling, learning_rates
from .statistics import DROPPED, weight_statistics

__all__ = [
    "DROPPED",
    "exact_loss",
    "falling",
    "grid",
    "learning_rates",
    "models_at",
    "train",
    "weight_statistics",
]
