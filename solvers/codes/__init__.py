"""Optimal blocks and the envelope of structured codes; the exact Hessian at the Persian rug."""

from .blocks import Block, block, blocks
from .envelope import MODELS, Envelope, crossings, envelope, envelopes
from .graphs import adjacency, block_model
from .hessian_model import Curvatures, curvatures
from .hessian_rug import RugHessian, RugPoint, rug_hessian, rug_point
from .structure import Structure, structure

__all__ = [
    "MODELS",
    "Block",
    "Curvatures",
    "Envelope",
    "RugHessian",
    "RugPoint",
    "Structure",
    "adjacency",
    "block",
    "block_model",
    "blocks",
    "crossings",
    "curvatures",
    "envelope",
    "envelopes",
    "rug_hessian",
    "rug_point",
    "structure",
]
