"""Optimal blocks of like features, and the envelope of structured codes."""

from .blocks import Block, block, blocks
from .envelope import MODELS, Envelope, crossings, envelope, envelopes

__all__ = ["MODELS", "Block", "Envelope", "block", "blocks", "crossings", "envelope", "envelopes"]
