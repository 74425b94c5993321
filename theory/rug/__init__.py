"""The Persian rug (Cowsik et al. 2024): macroscopic loss, variance bound, limits, sharp asymptotics."""

from .asymptotics import asymptotic_loss, asymptotic_shift
from .finite import finite_size_correction
from .loss import linear_loss, loss, off_loss, on_loss, optimal_scale, sigma, zero_ratio_loss

__all__ = [
    "asymptotic_loss",
    "asymptotic_shift",
    "finite_size_correction",
    "linear_loss",
    "loss",
    "off_loss",
    "on_loss",
    "optimal_scale",
    "sigma",
    "zero_ratio_loss",
]
