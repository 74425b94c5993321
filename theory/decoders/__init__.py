"""Elementwise decoders on the same noise: ReLU, JumpReLU, TopK and the Bayes-optimal one."""

from .derive import derive_line_loss, derive_posterior
from .loss import bayes_decoder, bayes_loss, jumprelu_gradient, jumprelu_loss, kept_share, topk_loss

__all__ = [
    "bayes_decoder",
    "bayes_loss",
    "derive_line_loss",
    "derive_posterior",
    "jumprelu_gradient",
    "jumprelu_loss",
    "kept_share",
    "topk_loss",
]
