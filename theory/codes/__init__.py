"""Structured codes of equal features: pairs, blocks, priority codes, dropping; proved lower bounds."""

from .bounds import decoder_bound, relu_bound
from .derive import *  # noqa: F403  # its `__all__` says what
from .derive import __all__ as _derivations
from .interference import collision_loss, cut_polygon, pair_cost, small_p_constant
from .overlaps import CODES, Overlaps, overlaps, strongly_regular
from .pairs import antipodal_loss, antipodal_optimum
from .priority import priority_constant, priority_map, priority_plane_loss, skew_pair_loss

__all__ = [
    "CODES", "Overlaps", "antipodal_loss", "antipodal_optimum", "collision_loss", "cut_polygon",
    "decoder_bound", "overlaps", "pair_cost", "priority_constant", "priority_map",
    "priority_plane_loss", "relu_bound", "skew_pair_loss", "small_p_constant", "strongly_regular",
    *_derivations,
]  # fmt: skip
