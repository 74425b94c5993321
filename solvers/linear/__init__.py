"""Gradient flows of linear autoencoders, closed-form and integrated (Notes 2022)."""

from .closed import ExactFlow, ExactPairFlow, encoder_limit, exact_decoder_flow, exact_white_flow
from .flow import Flow, PairFlow, flow, flow_pair

__all__ = [
    "ExactFlow",
    "ExactPairFlow",
    "Flow",
    "PairFlow",
    "encoder_limit",
    "exact_decoder_flow",
    "exact_white_flow",
    "flow",
    "flow_pair",
]
