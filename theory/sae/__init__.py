"""Sparse autoencoders on two features: when one latent hedges, and when two tilt or absorb.

The derivations are in the module `derive`, which imports SymPy when it is asked for something.
"""

from . import derive
from .absorption import absorbing_pair, absorption_bracket, tilted_pair, true_pair_loss
from .hedging import hedging_angle, hedging_angle_l1

__all__ = [
    "absorbing_pair", "absorption_bracket", "derive", "hedging_angle", "hedging_angle_l1", "tilted_pair",
    "true_pair_loss",
]  # fmt: skip
