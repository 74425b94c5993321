"""Features that differ: capacities of a matrix of low rank, the interference they leave, a proved bound."""

from . import derive
from .bounds import loss_bound
from .capacity import capacities, finite_size_correction, interference_variance
from .derive import derive_interference_variance, derive_row_loss, derive_tail_loss, derive_window_loss
from .priority import priority_loss
from .window import power_law, tail_loss, window_split

__all__ = [
    "capacities",
    "derive",
    "derive_interference_variance",
    "derive_row_loss",
    "derive_tail_loss",
    "derive_window_loss",
    "finite_size_correction",
    "interference_variance",
    "loss_bound",
    "power_law",
    "priority_loss",
    "tail_loss",
    "window_split",
]
