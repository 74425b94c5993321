"""Features that differ or depend on each other: capacities, their interference, a proved bound."""

from . import derive
from .blocks import (
    BlockLoss,
    block_capacities,
    block_losses,
    independent_copies,
    least_noise,
    partial_dependence,
)
from .bounds import loss_bound
from .capacity import capacities, finite_size_correction, interference_variance
from .derive import (
    derive_chord_loss,
    derive_interference_variance,
    derive_row_loss,
    derive_tail_loss,
    derive_weak_interference_loss,
)
from .priority import priority_loss, priority_weights
from .width import power_law, tail_loss, weak_interference

__all__ = [
    "BlockLoss", "block_capacities", "block_losses", "capacities", "derive", "derive_chord_loss",
    "derive_interference_variance", "derive_row_loss", "derive_tail_loss", "derive_weak_interference_loss",
    "finite_size_correction", "independent_copies", "interference_variance", "least_noise", "loss_bound",
    "partial_dependence", "power_law", "priority_loss", "priority_weights", "tail_loss", "weak_interference",
]  # fmt: skip
