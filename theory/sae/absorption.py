"""Two latents on two features: full absorption, where one latent stands for both, and tilted pairs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import validation
from ..features.values import law_named
from .hedging import check_hedging, code_cost, strength

__all__ = [
    "absorbing_pair", "absorbing_slope", "absorption_bracket", "tilt_slope", "tilted_pair", "true_pair_loss",
]  # fmt: skip


def true_pair_loss(parent: float, child: float, both: float, l1: float) -> float:
    r"""Return the l1 objective of the true dictionary of two binary features, with the best activations.

    Each feature that is on adds :math:`\lambda - \lambda^2/4`, with the strength :math:`\lambda`.

    Parameters
    ----------
    parent, child : float
        Probabilities that only the parent is on, and that only the child is on, which may be 0.
    both : float
        Probability that both are on.
    l1 : float
        Strength of the l1 penalty, in [0, 2).

    Returns
    -------
    float
        Expected squared error plus l1 penalty.

    Examples
    --------
    >>> true_pair_loss(0.2, 0.0, 0.05, 0.2)
    0.056999999999999995
    """
    q1, q2, q12 = _checked_chances(parent, child, both)
    return (q1 + q2 + 2.0 * q12) * code_cost(1.0, 1.0, strength(l1))


def absorbing_slope(child: float, both: float, l1: float, angle: float) -> float:
    r"""Return the derivative with respect to `angle` of the objective of `absorbing_pair`.

    The objective is the squared error plus the l1 penalty, for two binary features.

    One atom is the parent's direction; the other, at `angle` to it, is for both features. With :math:`q_2`
    the probability `child` of the child alone, :math:`q_{12}` the probability of `both` and :math:`\mu` half
    the strength `l1` the derivative is :math:`-2 q_2 (\sin\theta - \mu)_+\cos\theta - 2 q_{12} (\cos\theta +
    \sin\theta - \mu)(\cos\theta - \sin\theta)`.
    """
    mu, c, s = 0.5 * l1, math.cos(angle), math.sin(angle)
    return -2.0 * child * max(s - mu, 0.0) * c - 2.0 * both * (c + s - mu) * (c - s)


def absorbing_pair(parent: float, child: float, both: float, l1: float) -> tuple[float, float]:
    r"""Return angle and objective of the best atom for both features, beside the parent's own atom.

    The features are binary, with orthonormal directions. The atom for both is the only active one while both
    features are on, and while the child is on alone. If the child is never on alone (a hierarchy), the angle
    is 45° and **no dictionary of any size with any encoder has a smaller objective**; that of the true
    dictionary is larger by :math:`q_{12} \mu (4 - 2\sqrt2 - \mu)`, for every strength and every probability.
    The page `sae` has the proof. `parent`, `child` and `both` are the probabilities :math:`q_1, q_2, q_{12}`
    of the parent alone, the child alone and both, :math:`\mu` is half the strength `l1`; ranges and errors
    are those of `true_pair_loss`.

    Returns
    -------
    angle : float
        In radians from the parent's direction, in [pi/4, pi/2).
    objective : float
        Expected squared error plus l1 penalty.

    Examples
    --------
    >>> angle, objective = absorbing_pair(0.2, 0.0, 0.05, 0.2)
    >>> round(math.degrees(angle), 6), round(objective, 8)
    (45.0, 0.05164214)
    """
    q1, q2, q12 = _checked_chances(parent, child, both)
    strength(l1)

    def cost(angle: float) -> float:
        """Return the objective at the angle of the second atom."""
        s, u = math.sin(angle), math.cos(angle) + math.sin(angle)
        return q1 * code_cost(1.0, 1.0, l1) + q2 * code_cost(1.0, s, l1) + q12 * code_cost(2.0, u, l1)

    # Beyond the penalty at which an atom at 45° drops the child alone, there are two minima.
    step = 0.25 * math.pi / 1024
    best = min(range(1024), key=lambda k: cost(0.25 * math.pi + k * step))
    low, high = (0.25 * math.pi + step * max(best + side, 0) for side in (-1, 1))
    if best == 0 and absorbing_slope(q2, q12, l1, 0.25 * math.pi) >= 0.0:
        return 0.25 * math.pi, cost(0.25 * math.pi)
    angle = _sign_change(lambda at: absorbing_slope(q2, q12, l1, at), low, high)
    return angle, cost(angle)


def absorption_bracket(values: Any = "uniform", scale: float = 1.0) -> tuple[float, float]:
    r"""Return the L0 strengths up to which absorption never pays, and above which it beats zero error.

    A parent and a child have orthonormal directions, and values of one law with moments m_1 and m_2; the
    child is on only if the parent is. Up to the first strength, :math:`m_2 - m_1^2`, the true dictionary with
    thresholds :math:`\sqrt{\lambda_0}` is better than any code in which one fixed latent is the only active
    one while both features are on. Above the second, :math:`m_2 - m_1^4/m_2`, a latent that reads the child,
    and outputs the child plus the best multiple of the child's value for the parent, beats the dictionary
    that reconstructs both without error. Both statements hold for all probabilities. For binary values both
    strengths are 0: absorption then always pays.

    Neither strength bounds *partial* absorption, where several latents take turns. This pays at every
    strength if values go down to 0. The page `sae` has the proofs.

    Parameters
    ----------
    values : str or ValueDistribution, optional
        Law of the values, which must not be negative.
    scale : float, optional
        Scale of both features' values, between 1e-50 and 1e50.

    Returns
    -------
    whole, beyond : float
        The two strengths.

    Raises
    ------
    ValueError
        If values may be negative, or an argument lies outside its range.

    Examples
    --------
    >>> absorption_bracket("uniform"), absorption_bracket("binary")
    ((0.08333333333333331, 0.14583333333333331), (0.0, 0.0))
    """
    law = law_named("values", values)
    size = validation.number("scale", scale, 1e-50, 1e50)  # beyond, moments and their ratios are no doubles
    if law.support[0] < 0.0:
        raise ValueError(f"`values` must not be negative; got {law!r}.")
    m1, m2 = float(law.moment(1)) * size, float(law.moment(2)) * size**2
    return m2 - m1**2, m2 - m1**4 / m2


def _checked_chances(parent: float, child: float, both: float) -> tuple[float, float, float]:
    """Return the probabilities of the parent alone, the child alone (may be 0) and both, as floats.

    A ValueError is raised unless they are in (0, 1], or 0 for the child, and add up to at most 1.
    """
    q2 = validation.number("child", child, 0.0, 1.0)
    if q2 == 0.0:
        q1, q12 = check_hedging(parent=parent, both=both)
        return q1, 0.0, q12
    q1, q2, q12 = check_hedging(parent=parent, child=q2, both=both)
    return q1, q2, q12


def tilt_slope(alone: float, both: float, l1: float, angle: float) -> float:
    r"""Return the derivative with respect to `angle` of the objective of `tilted_pair`.

    The objective is the squared error plus the l1 penalty, for two binary features.

    The two atoms are at epsilon, `angle`, and 90° - epsilon. With q the probability of each feature `alone`,
    :math:`q_{12}` the probability of `both`, :math:`\mu` half the strength `l1` and :math:`u = \cos\epsilon +
    \sin\epsilon` the derivative is :math:`4 q (\cos\epsilon - \mu)_+ \sin\epsilon - 4 q_{12} \mu (1 -
    \mu/u)(\cos\epsilon - \sin\epsilon)/u^2`.
    """
    mu, c, s = 0.5 * l1, math.cos(angle), math.sin(angle)
    u = c + s
    return 4.0 * alone * max(c - mu, 0.0) * s - 4.0 * both * mu * (1.0 - mu / u) * (c - s) / u**2


def tilted_pair(alone: float, both: float, l1: float) -> tuple[float, float]:
    r"""Return angle and objective of the best pair of atoms at epsilon and 90° - epsilon.

    The features are binary, with orthonormal directions. A feature that is on alone is reconstructed by its
    own atom; two that are on together by both atoms with equal activations. With an l1 penalty the true
    dictionary is never a minimum for features that are ever on together (`tilt_slope` at 0); for weak
    penalties the angle is about :math:`\mu q_{12}/q`.

    Parameters
    ----------
    alone, both : float
        Probability that the first feature is on alone, the same as for the second, and that both are on.
    l1 : float
        Strength of the l1 penalty, in [0, 2). Errors are those of `true_pair_loss`.

    Returns
    -------
    angle : float
        epsilon in radians, in [0, pi/4], at the lowest minimum; at pi/4 the atoms coincide.
    objective : float
        Expected squared error plus l1 penalty.

    Examples
    --------
    >>> angle, objective = tilted_pair(0.1, 0.05, 0.2)
    >>> round(math.degrees(angle), 4), round(objective, 8)
    (2.5291, 0.05660414)
    """
    q, q12 = check_hedging(alone=alone, both=both)
    mu = 0.5 * strength(l1)
    # A strong penalty makes several minima: one where the slope turns positive, and one at 45 degrees once
    # an atom there does not code its feature alone.
    steps = 0.25 * math.pi / 4096 * np.arange(4097)
    slopes = [tilt_slope(q, q12, l1, float(angle)) for angle in steps]
    minima = [
        _sign_change(lambda angle: tilt_slope(q, q12, l1, angle), float(low), float(high))
        for low, high, left, right in zip(steps, steps[1:], slopes, slopes[1:], strict=False)
        if left < 0.0 <= right
    ]
    minima.append(float(steps[-1]) if mu >= math.cos(steps[-1]) else 0.0)

    def cost(angle: float) -> float:
        """Return the objective at the tilt `angle`."""
        c, u = math.cos(angle), math.cos(angle) + math.sin(angle)
        return 2.0 * q * (1.0 - max(c - mu, 0.0) ** 2) + 2.0 * q12 * (1.0 - (1.0 - mu / u) ** 2)

    best = min(minima, key=cost)
    return best, cost(best)


def _sign_change(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return the point at which `slope`, negative at `low` and not at `high`, changes sign, by bisection."""
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return low
