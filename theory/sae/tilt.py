"""Two latents on two features that are alike and sometimes on together: both tilt towards the other."""

import math

from .chances import checked, strength

__all__ = ["tilt_slope", "tilted_pair"]


def tilt_slope(alone: float, together: float, l1: float, angle: float) -> float:
    r"""Return the slope in the angle of the objective of two atoms that tilt; see `tilted_pair`.

    With :math:`u = \cos\epsilon + \sin\epsilon` it is
    :math:`4 q (\cos\epsilon - \mu) \sin\epsilon - 4 q_{12} \mu (1 - \mu/u)(\cos\epsilon - \sin\epsilon)/u^2`.
    """
    mu, c, s = 0.5 * l1, math.cos(angle), math.sin(angle)
    u = c + s
    return 4.0 * alone * (c - mu) * s - 4.0 * together * mu * (1.0 - mu / u) * (c - s) / u**2


def tilted_pair(alone: float, together: float, l1: float) -> tuple[float, float]:
    r"""Return angle and objective of the best pair of atoms at epsilon and 90° - epsilon.

    Binary features of orthonormal directions, each alone with probability `alone`. Alone, a feature is
    rebuilt by its own atom; on together, by both alike. With an l1 penalty the true dictionary is never a
    minimum for features that are ever on together (`tilt_slope` at 0); for weak penalties the angle is about
    :math:`\mu q_{12}/q`.

    Parameters
    ----------
    alone, together : float
        Probability that one given feature is on alone, and that both are.
    l1 : float
        Strength, in [0, 2).

    Returns
    -------
    angle : float
        In radians, in [0, pi/4).
    objective : float
        Squared error and l1 penalty.

    Raises
    ------
    ValueError
        If an argument lies outside its range.

    Examples
    --------
    >>> angle, objective = tilted_pair(0.1, 0.05, 0.2)
    >>> round(math.degrees(angle), 4), round(objective, 8)
    (2.5291, 0.05660414)
    """
    q, q12 = checked(alone=alone, together=together)
    mu = 0.5 * strength(l1)
    # The slope is negative at 0; the first place where it is not is a minimum.
    low, high, steps = 0.0, 0.25 * math.pi, 4096
    for k in range(1, steps + 1):
        at = 0.25 * math.pi * k / steps
        if math.cos(at) <= mu or tilt_slope(q, q12, l1, at) >= 0.0:
            low, high = 0.25 * math.pi * (k - 1) / steps, at
            break
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if tilt_slope(q, q12, l1, middle) < 0.0 else (low, middle)
    c, u = math.cos(low), math.cos(low) + math.sin(low)
    return low, 2.0 * q * (1.0 - max(c - mu, 0.0) ** 2) + 2.0 * q12 * (1.0 - (1.0 - mu / u) ** 2)
