"""The Persian rug at finite size: optimum, Hadamard operators, exact finite-size loss."""

from ..loss import Loss as ExactLoss
from ..loss import exact_loss, row_loss
from .hadamard import RugMatrix, random_projector, rug_matrix, walsh_hadamard
from .optimum import Optimum, crossover_ratio, optimum
from .rows import RowStatistics, row_statistics

__all__ = [
    "ExactLoss",
    "Optimum",
    "RowStatistics",
    "RugMatrix",
    "crossover_ratio",
    "exact_loss",
    "optimum",
    "random_projector",
    "row_loss",
    "row_statistics",
    "rug_matrix",
    "walsh_hadamard",
]
