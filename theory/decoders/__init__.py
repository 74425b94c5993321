"""Elementwise decoders on the same noise: ReLU, JumpReLU, TopK and the Bayes-optimal one."""

from .loss import bayes_decoder, bayes_loss, jumprelu_loss, kept_share, topk_loss

__all__ = ["bayes_decoder", "bayes_loss", "jumprelu_loss", "kept_share", "topk_loss"]
