"""Optimal blocks of like features, alone and along p, and the envelope of structured codes."""

from .blocks import Block, blocks
from .envelope import MODELS, Envelope, envelope, envelope_of
from .lines import Line, lines

__all__ = [
    "MODELS", "Block", "Envelope", "Line", "blocks", "envelope", "envelope_of", "lines",
]  # fmt: skip
