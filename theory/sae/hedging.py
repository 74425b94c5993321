"""One latent on two features: the angle at which it hedges, and checks for the whole package."""

import math

import numpy as np
import numpy.typing as npt

from .. import validation
from ..validation import FloatArray

__all__ = ["check_hedging", "code_cost", "hedging_angle", "hedging_angle_l1", "hedging_quartic", "strength"]


def check_hedging(**chances: float) -> tuple[float, ...]:
    """Return the probabilities `chances` of exclusive patterns as floats, or raise a ValueError.

    They must be in (0, 1], with a sum of at most 1.
    """
    checked = tuple(
        validation.number(name, chance, 0.0, 1.0, brackets="(]") for name, chance in chances.items()
    )
    if sum(checked) > 1.0 + 1e-12:
        raise ValueError(
            f"`{next(iter(chances))}` must leave a sum of at most 1; got {', '.join(map(str, checked))}."
        )
    return checked


def strength(l1: float) -> float:
    """Return an l1 strength as a float; raise a ValueError unless it is in [0, 2)."""
    return validation.number("l1", l1, 0.0, 2.0, brackets="[)")


def code_cost(square: float, projection: float, l1: float) -> float:
    r"""Return the least of :math:`|x - h d|^2 + \lambda h` over activations h of one unit atom d.

    `square` is :math:`|x|^2`, `projection` is d.x, and `l1` is the strength :math:`\lambda`.

    Examples
    --------
    >>> code_cost(1.0, 1.0, 0.2)
    0.18999999999999995
    """
    return square - max(projection - 0.5 * l1, 0.0) ** 2


def hedging_angle(second_moment: npt.ArrayLike) -> float:
    r"""Return the angle from the first feature at which one latent has the least error, without l1 penalty.

    For activations that are not negative, and no decoder bias, the leading eigenvector of the second moments
    m_ij is best as encoder and decoder: :math:`\tan 2\theta = 2 m_{12}/(m_{11} - m_{22})`. So the latent
    mixes both features if they are ever on together, even if they are independent. With a decoder bias and a
    latent that is always on, the same holds for the covariance, and independent features are not mixed. The
    page `sae` has the proof.

    Parameters
    ----------
    second_moment : (2, 2) array_like of float
        E x x' or, with a decoder bias, the covariance; `Features.second_moment` has its diagonal.

    Returns
    -------
    float
        In radians, in (-pi/2, pi/2].

    Raises
    ------
    ValueError
        If `second_moment` is not symmetric, or has equal eigenvalues, for which all angles are equally good.

    Examples
    --------
    >>> parent_child = [[0.25, 0.05], [0.05, 0.05]]  # binary: P(parent) = 0.25, P(child) = 0.05
    >>> round(math.degrees(hedging_angle(parent_child)), 3)
    13.283
    """
    m = validation.real("second_moment", validation.matrix("second_moment", second_moment, (2, 2)))
    if m[0, 1] != m[1, 0]:
        raise ValueError(f"`second_moment` must be symmetric; got {validation.short_repr(second_moment)}.")
    if m[0, 1] == 0.0 and m[0, 0] == m[1, 1]:
        raise ValueError(
            f"`second_moment` must have two eigenvalues; got {validation.short_repr(second_moment)}."
        )
    angle = 0.5 * math.atan2(2.0 * m[0, 1], m[0, 0] - m[1, 1])
    return angle + math.pi if angle <= -0.5 * math.pi else angle


def hedging_quartic(parent: float, both: float, l1: float) -> FloatArray:
    """Return the polynomial in t = tan(theta/2) of which the angle theta of `hedging_angle_l1` is a root.

    `parent` and `both` are the probabilities that the parent is on alone and with its child, `l1` is the
    strength of the penalty. The result, (5,), has the coefficients from t^4 down.
    """
    q1, q12 = check_hedging(parent=parent, both=both)
    mu = 0.5 * strength(l1)
    return np.array([
        -q12 * (mu + 1.0), -2.0 * (q1 + mu * (q1 + q12)), 6.0 * q12, 2.0 * (q1 - mu * (q1 + q12)), q12 * (mu -
        1.0),
    ])  # fmt: skip


def hedging_angle_l1(parent: float, both: float, l1: float) -> float:
    """Return the angle of one latent on a binary parent and child, with an l1 penalty and no decoder bias.

    The latent always mixes both features, whatever the penalty, unless it is off. The page `sae` has the
    objective.

    Parameters
    ----------
    parent, both : float
        Probabilities that the parent is on alone, and with its child.
    l1 : float
        Strength of the penalty on the activation times the norm of the decoder column, in [0, 2).

    Returns
    -------
    float
        In radians from the parent's direction, in (0, pi/4]; 0 where it is less than rounding errors.

    Examples
    --------
    >>> [round(math.degrees(hedging_angle_l1(0.2, 0.05, one)), 3) for one in (0.0, 0.2, 1.0)]
    [13.283, 13.536, 15.9]
    """
    q1, q12 = check_hedging(parent=parent, both=both)
    mu = 0.5 * strength(l1)
    quartic = hedging_quartic(q1, q12, l1)
    if abs(quartic[0]) < 1e-100 * np.abs(quartic).max():
        quartic[0] = 0.0  # its root is as good as infinite
    roots = np.roots(quartic)
    real = roots[np.abs(roots.imag) < 1e-7].real
    angles = 2.0 * np.arctan(real[(real > 0.0) & (real <= math.tan(math.pi / 8.0) + 1e-12)])
    # Where the parent alone is below the penalty, the pattern with both features decides.
    # A root that is so near 0 that rounding hides it is 0.
    angles = np.minimum(np.append(angles, [math.pi / 4.0, 0.0]), math.pi / 4.0)
    loss = -q1 * np.maximum(np.cos(angles) - mu, 0.0) ** 2
    loss -= q12 * np.maximum(np.cos(angles) + np.sin(angles) - mu, 0.0) ** 2
    return float(angles[np.argmin(loss)])
