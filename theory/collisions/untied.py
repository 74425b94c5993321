r"""Encoder and decoder of their own, and inputs that are not basis vectors (Lecomte et al. 2024, App. A).

The normal form drops the factor 2 of the untied gradient, so that equal weights move as tied ones do:

.. math:: \dot E_i = (1 - D_i \cdot E_i) D_i - \lambda\,\mathrm{sign}(E_i), \qquad
          \dot D_i = (1 - D_i \cdot E_i) E_i ,

without interference. The l1 term is on the activations, which are the encodings.
"""

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import Real, plain

__all__ = ["untied_length_ratio"]


def untied_length_ratio(lam_t: npt.ArrayLike) -> Real:
    r"""Length of a decoding over that of its encoding, one neuron, a time after both were 1.

    With :math:`D = u` and :math:`E = 1/u` on one neuron, :math:`u^3/3 - 1/u + 2/3 = \lambda t`: the ratio u^2
    goes to infinity as :math:`(3 \lambda t)^{2/3}`, and no state is at rest.

    Parameters
    ----------
    lam_t : array_like of float
        l1 strength times time, both in the normal form, not negative.

    Returns
    -------
    float or ndarray of float64
        Asymptotic for lam -> 0 (D E = 1 up to O(lam)).

    Raises
    ------
    ValueError
        If `lam_t` is negative or not finite.

    References
    ----------
    Lecomte et al. (2024), App. A, "Tied weights", which expects nearly equal weights.

    Examples
    --------
    >>> untied_length_ratio([0.0, 1.0, 10.0]).round(3)
    array([1.   , 2.11 , 9.434])
    """
    clock = arguments.real("lam_t", lam_t, 0.0)
    # Newton's method from the right of the root of an increasing, convex function falls to it monotonically.
    u = np.cbrt(3 * clock + 1)
    for _ in range(60):
        step = (u**3 / 3 - 1 / u + 2 / 3 - clock) / (u * u + 1 / (u * u))
        u = u - step
        if np.all(np.abs(step) <= 1e-15 * u):
            break
    return plain(np.asarray(u * u))
