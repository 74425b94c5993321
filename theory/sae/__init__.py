"""Sparse autoencoders on two features: when one latent hedges, and when two tilt or absorb.

The derivations are in the module `derive`, which imports SymPy when it is asked for something.
"""

from . import derive
from .absorption import absorbing_pair, absorbing_slope, absorption_bracket, true_pair_loss
from .hedging import code_cost, hedging_angle, hedging_angle_l1, hedging_quartic
from .tilt import tilt_slope, tilted_pair

__all__ = [
    "absorbing_pair", "absorbing_slope", "absorption_bracket", "code_cost", "derive", "hedging_angle",
    "hedging_angle_l1", "hedging_quartic", "tilt_slope", "tilted_pair", "true_pair_loss",
]  # fmt: skip
