"""Gradient flows of linear autoencoders, closed-form and integrated (Notes 2022)."""

from .closed import encoder_limit, exact_decoder_flow
from .flow import LinearFlow, gradient_flow

__all__ = ["LinearFlow", "encoder_limit", "exact_decoder_flow", "gradient_flow"]
