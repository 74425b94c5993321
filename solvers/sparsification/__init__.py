"""The l1 force on one encoding, solved exactly: drop times of all weights, norms at any times.

Without interference all weights move by the same affine map, and the m equations of Lecomte et al. (2024),
§2.4, become one curve (the page "Sparsification under l1"). It is stiff when lam is small, and solved by
Radau IIA collocation (5 stages, order 9, L-stable) with dense output, in steps that stride over many weights
as far as a bound on the error from Q's kinks allows, Q(c) = sum_k (|w_k(0)| - c)_+².
"""

from .limit import LimitLaw, limit_law
from .solution import Sparsification, solve, weights_at

__all__ = ["LimitLaw", "Sparsification", "limit_law", "solve", "weights_at"]
