"""Reference training of the autoencoder ReLU(W_out W_in x + b), many models at once, on CPU or CUDA."""

from .exact import exact_loss
from .network import network_loss
from .points import grid, models_at
from .published import run_published
from .run import run_grid, train
from .schedule import is_falling, learning_rates
from .weights import DROPPED, weight_statistics

__all__ = [
    "DROPPED",
    "exact_loss",
    "grid",
    "is_falling",
    "learning_rates",
    "models_at",
    "network_loss",
    "run_grid",
    "run_published",
    "train",
    "weight_statistics",
]  # fmt: skip
