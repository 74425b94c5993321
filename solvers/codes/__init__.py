"""Optimal blocks of like features, alone and along p; the envelope of structured codes; exact curvatures."""

from .blocks import Block, blocks
from .envelope import MODELS, Envelope, envelope, envelope_of
from .graphs import adjacency, block_model
from .hessian import Curvatures, RugHessian, RugPoint, curvatures, rug_hessian, rug_point
from .lines import Line, lines

__all__ = [
    "MODELS", "Block", "Curvatures", "Envelope", "Line", "RugHessian", "RugPoint", "adjacency", "block_model",
    "blocks", "curvatures", "envelope", "envelope_of", "lines", "rug_hessian", "rug_point",
]  # fmt: skip
