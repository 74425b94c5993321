"""The best codes of features that differ or depend on each other, in the large."""

from .blocks import BlockOptimum, BlockPart, block_optimum, realise_blocks

__all__ = ["BlockOptimum", "BlockPart", "block_optimum", "realise_blocks"]
