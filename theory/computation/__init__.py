"""Computation in superposition: the loss of n hidden neurons and a linear readout for more targets than n.

The hidden neurons may be any functions of the input. With an output bias their summed squared error is at
least the sum of the smallest eigenvalues of the targets' covariance; where features are independent and alike
that is what the naive network loses, which computes n targets and gives the mean of the others.
"""

from . import derive
from .lower_bound import NETWORKS, TARGETS, Moments, equal_features_loss, loss_lower_bound, target_moments
from .rare import RareLosses, SharedNeuronLoss, fan_network, rare_losses, shared_loss

__all__ = [
    "NETWORKS",
    "TARGETS",
    "Moments",
    "RareLosses",
    "SharedNeuronLoss",
    "derive",
    "equal_features_loss",
    "fan_network",
    "loss_lower_bound",
    "rare_losses",
    "shared_loss",
    "target_moments",
]  # fmt: skip
