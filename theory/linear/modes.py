"""Aligned starts, from which each eigen-direction moves by itself, in closed form (Saxe et al. 2014)."""

import numpy as np
import numpy.typing as npt

from ..validation import Real, choice, finite, real, scalar_or_array

__all__ = ["aligned_mode", "aligned_pair"]

_LARGEST = 1e75  # squares of weights and of products of them must stay finite


@finite
def aligned_mode(w: npt.ArrayLike, eigenvalue: npt.ArrayLike, t: npt.ArrayLike, rule: str = "tied") -> Real:
    r"""Singular value of tied weights along one eigenvector at time t.

    If W W' commutes with :math:`\Sigma` at the start, the left singular vectors of W are eigenvectors of
    :math:`\Sigma` and do not move. Each singular value follows :math:`\dot w = c\lambda w(1 - w^2)`, with c =
    2 for the gradient flow of the tied loss and c = 1 for the flows of encoder and decoder. The page "Linear
    autoencoders" has the solution. See Saxe, McClelland and Ganguli, ICLR (2014), Eq. 12; Notes (2022), Eq.
    28.

    Parameters
    ----------
    w : array_like of float
        Singular value at time 0, of either sign, at most 1e75 in size; broadcast with the others.
    eigenvalue, t : array_like of float
        Eigenvalue of the covariance, and time in the flows as `growth_rates` writes them; at least 0.
    rule : {"tied", "encoder", "decoder"}, optional
        The flow.

    Returns
    -------
    float or ndarray of float64
        Relative error a few roundings, times (1 + c eigenvalue t) where the result is still far below 1.

    Examples
    --------
    >>> aligned_mode(0.1, 1.0, [0.0, 1.0, 2.0, 10.0]).round(4)
    array([0.1   , 0.5962, 0.9838, 1.    ])
    """
    double = 2.0 if choice("rule", rule, ("tied", "encoder", "decoder")) == "tied" else 1.0
    w = real("w", w, -_LARGEST, _LARGEST)
    rate = double * (real("eigenvalue", eigenvalue, 0) * real("t", t, 0))
    rise, left = -np.expm1(-2 * rate), np.exp(-rate)
    # a hypotenuse, so that no square underflows before the weight has grown
    return scalar_or_array(np.asarray(w / np.hypot(w * np.sqrt(rise), np.where(w == 0, 1.0, left))))


@finite
def aligned_pair(
    a: npt.ArrayLike, b: npt.ArrayLike, eigenvalue: npt.ArrayLike, t: npt.ArrayLike
) -> tuple[Real, Real]:
    r"""Return decoder and encoder weight along one eigenvector at time t, balanced or not.

    If :math:`A = U\,\mathrm{diag}(a)\,R` and :math:`B = R'\,\mathrm{diag}(b)\,U'` with eigenvectors U and an
    orthogonal R at the start, A and B keep this form, with :math:`\dot a = \lambda(1-ab)b`, :math:`\dot b =
    \lambda(1-ab)a`. The difference :math:`k = a^2-b^2` is conserved; the squares of a + b and a - b obey
    scalar Riccati equations with the rate :math:`\lambda\sqrt{4+k^2}`: unbalanced weights converge faster.
    Unless a + b = 0 at the start, ab tends to 1. See Saxe, McClelland and Ganguli, ICLR (2014), appendix A;
    Notes (2022), Eqs. 20, 21. `eigenvalue` is that of the covariance and `t` the time, both at least 0;
    errors are those of `aligned_mode`.

    Parameters
    ----------
    a, b : array_like of float
        Weights at time 0, at most 1e75 in size; broadcast with the others.

    Returns
    -------
    a, b : float or ndarray of float64
        Absolute error a few roundings of the larger of the two, times (1 + eigenvalue t) while they grow.

    Examples
    --------
    >>> a, b = aligned_pair(2.0, 0.0, 1.0, [0.0, 0.5, 100.0])
    >>> (a * b).round(6)
    array([0.      , 0.876876, 1.      ])
    """
    a, b = real("a", a, -_LARGEST, _LARGEST), real("b", b, -_LARGEST, _LARGEST)
    plus, minus = a + b, a - b
    root = np.hypot(2.0, plus * minus)
    rate = real("eigenvalue", eigenvalue, 0) * real("t", t, 0) * root
    rise, left = np.sqrt(-np.expm1(-rate)), np.exp(-rate / 2)
    large = np.sqrt(2 + root)
    # Roots of the Riccati equations for the squares, as hypotenuses: all terms are positive, no square
    # underflows, and what is divided by a weight of zero is infinite, so that it rests.
    start = np.where(plus == 0, np.inf, large * left / np.abs(plus))
    up = np.hypot(np.hypot(large, plus * minus / large * left), minus * rise)
    up = up / np.hypot(np.hypot(rise, start), minus / large)
    down = np.hypot(np.hypot(plus * minus / large, large * left), plus * rise)
    down = down / np.hypot(np.hypot(rise, plus / large * left), large / np.abs(minus))
    up, down = np.copysign(up, plus), np.copysign(down, minus)
    return scalar_or_array(np.asarray((up + down) / 2)), scalar_or_array(np.asarray((up - down) / 2))
