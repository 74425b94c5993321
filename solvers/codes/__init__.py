"""Optimal blocks and the envelope of structured codes; the exact Hessian at the Persian rug."""

from .blocks import Block, block, blocks
from .envelope import MODELS, Envelope, crossings, envelope, envelopes
from .graphs import adjacency, block_model
from .search import FoundBlock, find_block

__all__ = [
    "MODELS",
    "Block",
    "Envelope",
    "FoundBlock",
    "adjacency",
    "block",
    "block_model",
    "blocks",
    "crossings",
    "envelope",
    "envelopes",
    "find_block",
]
