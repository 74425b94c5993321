r"""Encodings that meet: interference, overlaps, one neuron shared, how many end polysemantic.

All flows are in the normal form of Lecomte et al. (2024), footnote 5 (constants 4 dropped, so that a loss
with l1 strength 4 lam runs four times faster):

.. math:: dW_i/dt = (1 - |W_i|^2) W_i - \sum_{j \ne i} \mathrm{ReLU}(W_i \cdot W_j) W_j
          - \lambda\, \mathrm{sign}(W_i).

What is exact, asymptotic or heuristic is said function by function.
"""

from . import derive
from .counts import (
    expected_collisions,
    expected_polysemantic,
    polysemantic_pmf,
    quoted_polysemantic,
)
from .derive import *  # noqa: F403
from .neuron import critical_lam, escape_weight, kept_after_conflict, shared_drop_time, surviving_weight
from .overlaps import feature_benefit, initial_interference, overlap_rate, pair_flow
from .splitting import separated_share, split_rate
from .untied import untied_length_ratio

__all__ = [
    "critical_lam",
    "escape_weight",
    "expected_collisions",
    "expected_polysemantic",
    "feature_benefit",
    "initial_interference",
    "kept_after_conflict",
    "overlap_rate",
    "pair_flow",
    "polysemantic_pmf",
    "quoted_polysemantic",
    "separated_share",
    "shared_drop_time",
    "split_rate",
    "surviving_weight",
    "untied_length_ratio",
]
__all__ += derive.__all__
