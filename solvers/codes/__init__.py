"""Optimal blocks of like features, and the envelope of structured codes."""

from .blocks import Block, blocks
from .envelope import MODELS, Envelope, envelope, envelopes

__all__ = ["MODELS", "Block", "Envelope", "blocks", "envelope", "envelopes"]
