"""Features that differ or depend on each other, in the large: the best codes, matrices that realise them."""

from .blocks import BlockOptimum, BlockPart, block_optimum, realise_blocks
from .codes import LawEnvelope, envelope
from .realise import realise
from .split import CODES, KINDS, Split, optimum
from .width import MeanField, WidthLaw, mean_field, width_law

__all__ = [
    "CODES",
    "KINDS",
    "BlockOptimum",
    "BlockPart",
    "LawEnvelope",
    "MeanField",
    "Split",
    "WidthLaw",
    "block_optimum",
    "envelope",
    "mean_field",
    "optimum",
    "realise",
    "realise_blocks",
    "width_law",
]
