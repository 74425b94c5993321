"""Gradient flows of linear autoencoders, closed-form and integrated (Notes 2022)."""

from .closed import encoder_limit, exact_decoder_flow, exact_white_flow
from .flow import Flow, PairFlow, flow, flow_pair

__all__ = [
    "Flow",
    "PairFlow",
    "encoder_limit",
    "exact_decoder_flow",
    "exact_white_flow",
    "flow",
    "flow_pair",
]
