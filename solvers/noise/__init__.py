"""Noisy gradient descent, and descent on the noise-averaged loss (Lecomte et al. 2024, §3)."""

from .descent import Descent, descend, descend_averaged

__all__ = ["Descent", "descend", "descend_averaged"]
