"""Features that differ or depend on each other: capacities, what interference they leave, a proved bound."""

from . import derive
from .blocks import BlockLoss, block_capacities, block_losses, least_noise, repeated, weakened
from .bounds import loss_bound
from .capacity import capacities, finite_size_correction, interference_variance
from .derive import derive_interference_variance, derive_row_loss, derive_tail_loss, derive_window_loss
from .priority import priority_loss, priority_weights
from .window import power_law, tail_loss, window_split

__all__ = [
    "BlockLoss",
    "block_capacities",
    "block_losses",
    "capacities",
    "derive",
    "derive_interference_variance",
    "derive_row_loss",
    "derive_tail_loss",
    "derive_window_loss",
    "finite_size_correction",
    "interference_variance",
    "least_noise",
    "loss_bound",
    "power_law",
    "priority_loss",
    "priority_weights",
    "repeated",
    "tail_loss",
    "weakened",
    "window_split",
]
