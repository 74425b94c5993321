r"""Encodings that share neurons: interference, overlaps, one shared neuron, numbers of polysemantic ones.

All flows are in the normal form of Lecomte et al. (2024), footnote 5 (constants 4 dropped, so that a loss
with l1 strength 4 lam runs four times faster):

.. math:: dW_i/dt = (1 - |W_i|^2) W_i - \sum_{j \ne i} \mathrm{ReLU}(W_i \cdot W_j) W_j
          - \lambda\, \mathrm{sign}(W_i).

What is exact, asymptotic or heuristic is said function by function.
"""

from . import derive
from .counts import expected_collisions, expected_polysemantic, polysemantic_pmf, quoted_polysemantic
from .derive import *  # noqa: F403
from .neuron import (
    critical_lam,
    kept_after_conflict,
    resting_weights,
    separated_share,
    shared_drop_time,
    untied_length_ratio,
)
from .overlaps import initial_forces, overlap_rate, pair_flow

__all__ = [
    "critical_lam", "expected_collisions", "expected_polysemantic", "initial_forces", "kept_after_conflict",
    "overlap_rate", "pair_flow", "polysemantic_pmf", "quoted_polysemantic", "resting_weights",
    "separated_share", "shared_drop_time", "untied_length_ratio",
]  # fmt: skip
__all__ += derive.__all__
