"""Macroscopic codes of features that differ or depend on each other, and matrices that realise them."""

from .allocation import KINDS, Allocation, allocate
from .blocks import BlockOptimum, BlockPart, block_optimum, realise_blocks
from .codes import CodeAllocation, allocate_codes
from .directions import MeanField, mean_field
from .realise import realise

__all__ = [
    "KINDS",
    "Allocation",
    "BlockOptimum",
    "BlockPart",
    "CodeAllocation",
    "MeanField",
    "allocate",
    "allocate_codes",
    "block_optimum",
    "mean_field",
    "realise",
    "realise_blocks",
]
