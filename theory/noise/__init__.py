r"""Hidden noise (Lecomte et al. 2024, §3, App. C): moments, one step, drift, effective potential.

The model is y = ReLU(W(W'x + xi)) with inputs e_i and xi_j independent, symmetric, of variance sigma^2. Three
effects of different order are kept apart, which the page "Hidden noise" explains: the loss *after* a step
(:func:`derive_next_step_loss`), the drift of one encoding's shape *alone* (:func:`derive_fourth_norm_drift`),
and the force on encodings *together* (:func:`sparsifying_rate`). Every function raises a ``ValueError`` that
names an argument which is out of range.
"""

from .derive import *  # noqa: F403
from .derive import __all__ as _derivations
from .drift import fourth_norm_drift, random_fourth_norm_drift
from .moments import NOISES, excess_kurtosis, fourth_moment, noise_moments
from .potential import effective_potential, noise_averaged_gradient, noise_averaged_loss, sparsifying_rate
from .predict import (
    interference_free_l1_norm,
    quartic_flow,
    quartic_time,
    regulariser_rate,
    simplex_rate,
    simplex_square,
    sparsification_time,
)
from .relu import ReluMoments, relu_moments

__all__ = [
    *_derivations, "NOISES", "ReluMoments", "effective_potential", "excess_kurtosis", "fourth_moment",
    "fourth_norm_drift", "noise_averaged_gradient", "noise_averaged_loss", "noise_moments", "quartic_flow",
    "quartic_time", "random_fourth_norm_drift", "regulariser_rate", "relu_moments",
    "interference_free_l1_norm", "simplex_rate", "simplex_square", "sparsification_time", "sparsifying_rate",
]  # fmt: skip
