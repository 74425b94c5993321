"""Optimal blocks and the envelope of structured codes; the exact Hessian at the Persian rug."""

from .blocks import Block, block, blocks
from .envelope import MODELS, Envelope, crossings, envelope, envelopes
from .graphs import adjacency, block_model
from .hessian import RowDerivatives, row_derivatives
from .hessian_model import Curvatures, curvatures
from .hessian_rug import RugHessian, RugPoint, rug_hessian, rug_point

__all__ = [
    "MODELS",
    "Block",
    "Curvatures",
    "Envelope",
    "RowDerivatives",
    "RugHessian",
    "RugPoint",
    "adjacency",
    "block",
    "block_model",
    "blocks",
    "crossings",
    "curvatures",
    "envelope",
    "envelopes",
    "row_derivatives",
    "rug_hessian",
    "rug_point",
]
