"""Best small networks of ReLU neurons and a linear readout, beside the lower bound and the naive network."""

from ..loss.network.naive import naive_loss
from .mixing import MixedNetwork, best_mixed_network
from .power import PowerNetwork, best_power, power_loss
from .search import BestNetwork, best_network, best_readout, network_loss

__all__ = [
    "BestNetwork",
    "MixedNetwork",
    "PowerNetwork",
    "best_mixed_network",
    "best_network",
    "best_power",
    "best_readout",
    "naive_loss",
    "network_loss",
    "power_loss",
]
