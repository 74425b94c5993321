r"""The sharp small-p law of the optimum: no constants left open.

For interference :math:`\sigma \ll 1` write b = -a t sigma. The best scale is :math:`a = 1 + \tfrac32 t
\sigma`, the best shift balances the losses on and off, :math:`4 H_1(-t) = p\,t`, and to next-to-leading order
in sigma the loss is

.. math:: L = p\sigma^2 \left[ 1 + t^2/4 + \sigma (t + t^3/12) \right]
              + (1 - p)\, \sigma^2 \, 2 H_2(-t) \, (1 + 3 t \sigma),

with a relative error of order (t sigma)².
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, lambertw

from .. import validation
from ..special import ramp_moments
from .loss import sigma

__all__ = ["asymptotic_loss", "asymptotic_shift"]


def asymptotic_shift(p: ArrayLike) -> Any:
    r"""Optimal shift t = -b/(a sigma) as p → 0: the root of 4 E(Z - t)_+ = p t.

    The output is ReLU(a (x + nu) + b) with interference nu of standard deviation sigma; Z is standard normal.
    As p → 0, t slowly approaches :math:`\sqrt{2 \log(1/p)}`; Cowsik et al. (2024), Eq. 12, have sigma t ~
    sigma sqrt(log 1/p) without the constant. For the range of validity see `asymptotic_loss`.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Within 1e-6 of the root for p <= 0.01.

    Examples
    --------
    >>> round(asymptotic_shift(1e-6), 4)
    4.4049
    """
    on = validation.probability("p", p)
    constant = 4.0 / np.sqrt(2.0 * np.pi)
    # Large shifts solve t³ exp(t²/2) = constant/p; two steps of Newton's method follow.
    t = np.sqrt(3.0 * lambertw(constant ** (2.0 / 3.0) / on ** (2.0 / 3.0) / 3.0).real)
    for _ in range(2):
        h0 = np.sqrt(np.pi / 2.0) * erfcx(t / np.sqrt(2.0))  # H_0(-t) and H_1(-t) in units of the density
        h1 = 1.0 - t * h0
        gap = np.log(constant * h1 / t) - 0.5 * t * t - np.log(on)
        t = t + gap / (h0 / h1 + 1.0 / t)
    return t[()]


@validation.finite
def asymptotic_loss(p: ArrayLike, ratio: ArrayLike) -> Any:
    """Optimal macroscopic loss per feature as p → 0 at fixed ratio, in closed form.

    The macroscopic loss is the limit of many features, whose interference is normal. With t =
    `asymptotic_shift(p)`, sigma = `sigma(p, ratio)` and a standard normal Z the loss is p sigma² (1 + t²/4 +
    sigma (t + t³/12)) + (1 - p) sigma² E (Z - t)_+² (1 + 3 t sigma). Its ratio to the exact optimum is 1 +
    O((t sigma)²) = 1 + O(p log(1/p) (1/ratio - 1)). Cowsik et al. (2024), Eqs. 13 and 17, have O(p²/ratio log
    1/p) without the constant. `p` is the probability that a feature is on, `ratio` is n_hidden/n_features.
    Errors are those of `sigma`; a ValueError is raised also where the result overflows.

    Returns
    -------
    float or ndarray of float64
        Asymptotic: the relative error is below 2 (t sigma)² for p <= 0.01 and t sigma <= 0.3.

    Examples
    --------
    >>> round(asymptotic_loss(1e-6, 0.25) / 1e-12, 6)
    6.309746
    """
    s, t, on = sigma(p, ratio), asymptotic_shift(p), np.asarray(p, dtype=np.float64)
    on_loss = 1.0 + t * t / 4.0 + s * t * (1.0 + t * t / 12.0)
    off_loss = ramp_moments(-t, 2)[..., 2] * (1.0 + 3.0 * t * s)
    return (s * s * (on * on_loss + (1.0 - on) * off_loss))[()]
