r"""A polysemantic neuron that is split in two: do the copies part, and when.

The remedy that Lecomte et al. (2024), §5, propose. A neuron holds feature i with a positive and feature j
with a negative weight; their encodings have a negative product, which the ReLU clips, so that neither feels
the other. Each plays a game of its own on the two copies, with weights of one sign and the sparsity force
:math:`\dot w_a = (1 - w_1^2 - w_2^2)\,w_a - \lambda` of the normal form: the same equations as those of two
encodings on one neuron, see :func:`superposition.theory.collisions.shared_drop_time`.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from .. import arguments
from ..arguments import Real, number, plain
from .neuron import shared_drop_time

__all__ = ["separated_share"]


@arguments.finite
def separated_share(
    t: npt.ArrayLike, lam: float, eps: float, *, correlation: float = 0.0, left: float = 0.0
) -> tuple[Real, Real]:
    r"""Shares of split neurons whose two features are on different, and on the same copy, after a time.

    The incoming weights of both copies are perturbed by normals of standard deviation `eps`, whose
    correlation within one copy is `correlation`. A feature keeps the copy on which its weight is larger in
    absolute value; i and j have opposite signs there, so they part if the differences of their signed weights
    between the copies, which have that correlation too, agree in sign. In the end that happens with
    probability :math:`1/2 + \arcsin(\rho)/\pi`: *one half* for independent noise, always for a shift that all
    incoming weights share.

    Parameters
    ----------
    t : array_like of float
        Time since the split, not negative.
    lam : float
        Strength of the l1 force, positive.
    eps : float
        Standard deviation of the perturbation, positive.
    correlation : float, optional
        From 0 to 1.
    left : float, optional
        Weight of the losing copy at which a feature counts as decided, in [0, sqrt(1/2)).

    Returns
    -------
    apart, together : float or ndarray of float64
        The rest is undecided. Asymptotic: encodings have length 1 up to O(lam), which is a relative error of
        the clock, and `eps` is small.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Lecomte et al. (2024), §5.

    Examples
    --------
    >>> apart, together = separated_share([100.0, 1000.0], 0.01, 0.01)
    >>> apart.round(2), together.round(2)
    (array([0. , 0.5]), array([0. , 0.5]))
    """
    clock = number("lam", lam, 0.0, brackets="()") * arguments.real("t", t, 0.0)
    eps = number("eps", eps, 0.0, brackets="()")
    rho = number("correlation", correlation, 0.0, 1.0)
    left = number("left", left, 0.0, math.sqrt(0.5), brackets="[)")
    # The first difference that is decided just now: the sum of the weights is sqrt(2 - gap^2), so that the
    # argument of asinh in shared_drop_time, sum over gap, gives the gap back.
    late = clock + np.asarray(shared_drop_time(left / math.sqrt(1 - left * left)))
    # Beyond 700 the gap is below 1e-300, and cosh would overflow.
    gap = math.sqrt(2) / np.cosh(np.minimum(math.sqrt(2) * late + math.asinh(1), 700.0))
    x = gap / (math.sqrt(2) * eps)
    # P(X > x, Y > x) of normals of correlation rho, by Owen's T.
    alone, slope = special.ndtr(-x), math.sqrt((1 - rho) / (1 + rho))
    apart = 2 * (alone - 2 * special.owens_t(x, slope))
    together = 2 * (alone - 2 * special.owens_t(x, 1 / slope if slope else math.inf))
    return plain(np.maximum(apart, 0.0)), plain(np.maximum(together, 0.0))
