"""The exact expected loss of any model ReLU(M x + b) at any law of the data, with its derivatives."""

from .exact import evaluator, exact_gradient, exact_loss, row_loss, value_and_gradient
from .expansion import LossExpansion, ToyLoss, loss_expansion
from .hessian import RowDerivatives, row_hessian
from .result import Loss

__all__ = [
    "Loss",
    "LossExpansion",
    "RowDerivatives",
    "ToyLoss",
    "evaluator",
    "exact_gradient",
    "exact_loss",
    "loss_expansion",
    "row_hessian",
    "row_loss",
    "value_and_gradient",
]
