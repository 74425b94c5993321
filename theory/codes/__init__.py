"""Structured codes beside the Persian rug: blocks, pairs, dropping, mixtures; lower bounds, with proofs."""

from . import derive
from .bounds import decoder_bound, interference_bound, relu_bound
from .derive import (
    derive_antipodal_loss,
    derive_collision_loss,
    derive_decoder_bound,
    derive_pair_cost,
    derive_priority_plane_loss,
    derive_relu_bound,
    derive_row_weights,
    derive_skew_pair,
)
from .interference import collision_loss, cut_polygon, pair_cost, small_p_constant
from .overlaps import CODES, Overlaps, overlaps, quadrangle, shifted, strongly_regular
from .pairs import antipodal_loss, antipodal_optimum, dropped_loss
from .priority import priority_constant, priority_map, priority_plane_loss, skew_pair_loss

__all__ = [
    "CODES",
    "Overlaps",
    "antipodal_loss",
    "antipodal_optimum",
    "collision_loss",
    "cut_polygon",
    "decoder_bound",
    "derive",
    "derive_antipodal_loss",
    "derive_collision_loss",
    "derive_decoder_bound",
    "derive_pair_cost",
    "derive_priority_plane_loss",
    "derive_relu_bound",
    "derive_row_weights",
    "derive_skew_pair",
    "dropped_loss",
    "interference_bound",
    "overlaps",
    "pair_cost",
    "priority_constant",
    "priority_map",
    "priority_plane_loss",
    "quadrangle",
    "relu_bound",
    "shifted",
    "skew_pair_loss",
    "small_p_constant",
    "strongly_regular",
]
