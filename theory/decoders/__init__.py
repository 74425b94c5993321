"""Elementwise decoders on the same noise: ReLU, JumpReLU, TopK and the Bayes-optimal one."""

from .derive import derive_line_loss, derive_posterior
from .loss import active_fraction, bayes_decoder, bayes_loss, jumprelu_loss, topk_loss

__all__ = [
    "active_fraction", "bayes_decoder", "bayes_loss", "derive_line_loss", "derive_posterior",
    "jumprelu_loss", "topk_loss",
]  # fmt: skip
