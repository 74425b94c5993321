r"""One neuron: the weights at which it rests, and which of two encodings that share it keeps it.

Flows are in the normal form, constants 4 dropped; see the package.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from .. import validation
from ..special import cubic_roots
from ..validation import Real, number, scalar_or_array

__all__ = [
    "critical_lam", "kept_after_conflict", "resting_weights", "separated_share", "shared_drop_time",
    "untied_length_ratio",
]  # fmt: skip


def shared_drop_time(ratio: npt.ArrayLike) -> Real:
    r"""Time, in units 1/lam, until a weak l1 force lam makes the smaller of two weights of equal sign 0.

    The two weights are those of two encodings on one neuron, or of one encoding on two neurons. Each follows
    :math:`w_i' = w_i (1 - w_1^2 - w_2^2) - \lambda` (Lecomte et al. 2024). For lam -> 0 their squares add up
    to 1 after a time of order 1. From then on their ratio r falls as :math:`r' = -\lambda (1 - r) \sqrt{1 +
    r^2}`, so that

    .. math:: \lambda T = \tfrac{1}{\sqrt2} \left(\mathrm{asinh}\frac{1 + r}{1 - r}
              - \mathrm{asinh}\, 1\right).

    Parameters
    ----------
    ratio : array_like of float
        Smaller weight over larger weight at the start, in [0, 1). The flow changes it by the l1 force alone.

    Returns
    -------
    float or ndarray of float64
        lam T, with a relative error of order lam.

    Examples
    --------
    >>> round(shared_drop_time(0.8), 6)
    1.422749
    """
    r = validation.real("ratio", ratio, 0.0, 1.0, brackets="[)")
    return scalar_or_array(np.asarray((np.arcsinh((1 + r) / (1 - r)) - math.asinh(1)) / math.sqrt(2)))


@validation.finite
def critical_lam(sharing: int = 1) -> float:
    r"""Largest l1 strength lam at which equal weights of `sharing` encodings on one neuron can rest: exact.

    The rest points are the roots of :math:`w (1 - q w^2) = \lambda`. For lam above :math:`2/\sqrt{27 q}` none
    is positive.

    Parameters
    ----------
    sharing : int, optional
        Number q of encodings, at least 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(critical_lam(), 6)
    0.3849
    """
    return 2 / math.sqrt(27 * validation.integer("sharing", sharing, 1))


def resting_weights(lam: npt.ArrayLike) -> tuple[Real, Real]:
    """Positive roots of w (1 - w^2) = lam, the weights at which an encoding with one nonzero weight rests.

    The larger root, 1 - lam/2 - ..., is stable. A weight below the smaller root, lam + lam^3 + ..., dies.
    Errors are those of `shared_drop_time`.

    Parameters
    ----------
    lam : array_like of float
        Strength of the l1 force, from 0 to 2/sqrt(27).

    Returns
    -------
    stable, unstable : float or ndarray of float64
        Relative error 2e-15.

    Examples
    --------
    >>> stable, unstable = resting_weights(0.01)
    >>> round(stable, 6), round(unstable, 9)
    (0.994962, 0.010001)
    """
    strength = validation.real("lam", lam, 0.0, critical_lam(), hint="Beyond it no weight survives.")
    roots = cubic_roots(strength)
    return scalar_or_array(roots.high.real), scalar_or_array(roots.middle.real)


def kept_after_conflict(x1: npt.ArrayLike, x2: npt.ArrayLike) -> tuple[Real, Real]:
    r"""Weights of two encodings on the one neuron that they share, after one of them has lost it: exact.

    Both encodings have length 1, and zero weights are held at zero.

    The flow conserves :math:`(1 - x_1^2)/(1 - x_2^2)` while :math:`x_1 x_2` decays. So the larger weight, say
    x_1, ends at :math:`\sqrt{(x_1^2 - x_2^2)/(1 - x_2^2)}` and the smaller at 0; equal ones both end at 0.
    This is a limit: the l1 force must be weak on the time scale 1 of the conflict, and yet hold the zero
    weights, which otherwise become negative as in :func:`pair_flow`. Errors are those of `shared_drop_time`.

    Parameters
    ----------
    x1, x2 : array_like of float
        Sizes of the shared weights, in [0, 1): each encoding has other weights of its own.

    Returns
    -------
    kept1, kept2 : float or ndarray of float64
        The sizes that are left.

    Examples
    --------
    >>> kept_after_conflict(0.8, 0.6)
    (0.6614378277661477, 0.0)
    """
    a, b = np.broadcast_arrays(
        validation.real("x1", x1, 0.0, 1.0, brackets="[)"), validation.real("x2", x2, 0.0, 1.0, brackets="[)")
    )
    gap = (a - b) * (a + b)
    kept1 = np.sqrt(np.maximum(gap, 0.0) / ((1 - b) * (1 + b)))
    kept2 = np.sqrt(np.maximum(-gap, 0.0) / ((1 - a) * (1 + a)))
    return scalar_or_array(kept1), scalar_or_array(kept2)


def untied_length_ratio(lam_t: npt.ArrayLike) -> Real:
    r"""Ratio |D|/|E| of a feature's decoder weight D to its encoder weight E on one neuron; both start at 1.

    The two are not tied, and follow :math:`\dot E = (1 - D \cdot E) D - \lambda\,\mathrm{sign}(E)` and
    :math:`\dot D = (1 - D \cdot E) E` (a factor 2 is dropped, so that equal weights move as tied ones do).
    With D = u and E = 1/u these equations become :math:`u^3/3 - 1/u + 2/3 = \lambda t`, and the ratio u^2
    goes to infinity. Lecomte et al. (2024), App. A, "Tied weights", expects nearly equal weights. Errors are
    those of `shared_drop_time`.

    Parameters
    ----------
    lam_t : array_like of float
        l1 strength times time, as in these equations; not negative.

    Returns
    -------
    float or ndarray of float64
        Asymptotic for lam -> 0 (D.E = 1 up to O(lam)).

    Examples
    --------
    >>> untied_length_ratio([0.0, 1.0, 10.0]).round(3)
    array([1.   , 2.11 , 9.434])
    """
    clock = validation.real("lam_t", lam_t, 0.0)
    # Newton's method from the right of the root of an increasing, convex function falls to it monotonically.
    u = np.cbrt(3 * clock + 1)
    for _ in range(60):
        step = (u**3 / 3 - 1 / u + 2 / 3 - clock) / (u * u + 1 / (u * u))
        u = u - step
        if np.all(np.abs(step) <= 1e-15 * u):
            break
    return scalar_or_array(np.asarray(u * u))


@validation.finite
def separated_share(
    t: npt.ArrayLike, lam: float, eps: float, *, correlation: float = 0.0, left: float = 0.0
) -> tuple[Real, Real]:
    r"""Shares of split neurons whose two features have settled on different copies, and on the same copy.

    A neuron that holds feature i with a positive and feature j with a negative weight is split in two copies.
    Neither feature receives interference from the other, and the two weights of each follow the equations of
    `shared_drop_time`. At the split every incoming weight is perturbed by a normal variable of standard
    deviation `eps`; the two on one copy have the correlation `correlation`. A feature keeps the copy on which
    its weight is larger in absolute value. In the end the two features are on different copies with
    probability :math:`1/2 + \arcsin(\rho)/\pi`, :math:`\rho` the correlation. See Lecomte et al. (2024), §5.

    Parameters
    ----------
    t : array_like of float
        Time since the split, not negative.
    lam, eps : float
        Strength of the l1 force and standard deviation of the perturbation, positive.
    correlation : float, optional
        From 0 to 1.
    left : float, optional
        A feature has settled once its weight on the copy that it leaves is at most this, in [0, sqrt(1/2)).

    Returns
    -------
    apart, together : float or ndarray of float64
        Shares on different copies and on the same copy; the rest has not settled. Asymptotic: encodings have
        length 1 up to O(lam), which is a relative error of the clock, and `eps` is small.

    Examples
    --------
    >>> apart, together = separated_share([100.0, 1000.0], 0.01, 0.01)
    >>> apart.round(2), together.round(2)
    (array([0. , 0.5]), array([0. , 0.5]))
    """
    clock = number("lam", lam, 0.0, brackets="()") * validation.real("t", t, 0.0)
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
    p_separated = 2 * (alone - 2 * special.owens_t(x, slope))
    p_together = 2 * (alone - 2 * special.owens_t(x, 1 / slope if slope else math.inf))
    return scalar_or_array(np.maximum(p_separated, 0.0)), scalar_or_array(np.maximum(p_together, 0.0))
