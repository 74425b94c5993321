r"""The l1 force on one encoding, solved exactly: drop times of all weights, norms at any times.

Without interference the flow of Lecomte et al. (2024), §2.4, in the normal form (constants 4 dropped),

.. math:: dW/dt = (1 - |W|^2) W - \lambda\, \mathrm{sign}(W),

moves every weight that is not zero yet by the same affine map, :math:`|w_k(t)| = A(t) (|w_k(0)| - c(t))_+`.
With :math:`Q(c) = \sum_k (|w_k(0)| - c)_+^2` and :math:`g = 1/A` the m equations become

.. math:: dg/dc = (Q(c)/g^2 - 1)/\lambda, \qquad dt/dc = 1/(\lambda g).

Weight k drops at the time :math:`t(|w_k(0)|)`. The equation is stiff when lam is small, so it is solved by
Radau IIA collocation (5 stages, order 9, L-stable) with dense output, in steps that stride over many weights
as far as a bound on the error from Q's kinks allows.
"""

from .limit import LimitLaw, limit_law
from .solution import Sparsification, solve, weights_at

__all__ = ["LimitLaw", "Sparsification", "limit_law", "solve", "weights_at"]
