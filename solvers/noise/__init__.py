"""Noisy gradient descent and the flow of the noise-averaged loss (Lecomte et al. 2024, §3)."""

from .descent import Descent, descend, descend_averaged, flow

__all__ = ["Descent", "descend", "descend_averaged", "flow"]
