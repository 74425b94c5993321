"""The Persian rug (Cowsik et al. 2024): macroscopic loss, variance bound, limits, sharp asymptotics.

All of it takes a number p and no other law: a rug treats all features alike, and the closed forms are
those of values uniform on [0, 1]. `superposition.solvers.loss` has the loss at any law.
"""

from .asymptotics import asymptotic_loss, asymptotic_shift
from .derive import *  # noqa: F403  # its `__all__` says what
from .derive import __all__ as _derivations
from .finite import edgeworth_correction
from .loss import linear_loss, loss, off_loss, on_loss, optimal_scale, sigma, zero_ratio_loss

__all__ = [
    "asymptotic_loss", "asymptotic_shift", "edgeworth_correction", "linear_loss", "loss", "off_loss",
    "on_loss", "optimal_scale", "sigma", "zero_ratio_loss", *_derivations,
]  # fmt: skip
