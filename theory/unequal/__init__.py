"""Features that differ or depend on each other, in the large."""

from .blocks import BlockLoss, block_capacities, block_losses, least_noise, repeated, weakened

__all__ = ["BlockLoss", "block_capacities", "block_losses", "least_noise", "repeated", "weakened"]
