"""The least objective of two unit atoms with the best activations, on two binary features, with a bound."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.results import result
from ...theory.validation import FloatArray

__all__ = ["PairOptimum", "best_pair", "pair_costs"]

# Boxes of angles that are looked at, at most.
MOST_BOXES = 4_000_000


@result
class PairOptimum:
    """Least objective of two atoms: an upper bound `value`, attained at `angles`, and a `lower_bound`."""

    value: float
    """Objective of `angles`: an upper bound."""
    lower_bound: float
    """What no two atoms, with any encoder, come below."""
    angles: Any
    """Of both atoms, in radians from the first feature's direction."""
    boxes: int
    """Boxes of angles that were looked at."""


def pair_costs(x: tuple[float, float], first: Any, second: Any, l1: float) -> FloatArray:
    r"""Return the least :math:`\|x - D h\|^2 + \lambda (h_1 + h_2)` over :math:`h \ge 0` for two atoms D.

    The atoms are unit vectors in the plane at the angles `first` and `second`; `l1` is :math:`\lambda`.

    Examples
    --------
    >>> pair_costs((1.0, 1.0), 0.0, np.pi / 2, 0.2), pair_costs((1.0, 1.0), 0.0, np.pi / 4, 0.2)
    (array(0.38), array(0.27284271))
    """
    mu, square = 0.5 * l1, x[0] ** 2 + x[1] ** 2
    first, second = np.asarray(first, float), np.asarray(second, float)
    first_activation, second_activation = (
        x[0] * np.cos(at) + x[1] * np.sin(at) - mu for at in (first, second)
    )
    alone = square - np.maximum(np.maximum(first_activation, second_activation), 0.0) ** 2
    inner = np.cos(first - second)
    left = 1.0 - inner**2
    h1, h2 = (
        first_activation - inner * second_activation,
        second_activation - inner * first_activation,
    )  # times `left`
    is_open = left > 1e-13
    both = square - (h1 * first_activation + h2 * second_activation) / np.where(is_open, left, 1.0)
    return np.asarray(np.where(is_open & (h1 > 0.0) & (h2 > 0.0), np.minimum(both, alone), alone))


def best_pair(
    parent: float, child: float, both: float, l1: float, *, gap: float = 1e-4, kind: str = "all",
    near: float = 0.0,
) -> PairOptimum:  # fmt: skip
    r"""Return the least l1 objective of two latents on two binary features, with a proved bound.

    Directions are orthonormal, there is no decoder bias, and every pattern has its best activations: a lower
    bound for autoencoders with any encoder. Branch and bound over both angles: the page `sae` has the bound
    of the slope, at most :math:`4 \|x\|^3/(3 \sqrt3 \lambda)` for a pattern x. Only rounding is left out of
    account.

    Parameters
    ----------
    parent, child, both : float
        Probabilities that one feature is on alone, the other, and both; at least 0, with a sum of at most 1.
    l1 : float
        Strength, in (0, 2).
    gap : float, optional
        Between value and bound at which to stop, as a share of the error of rebuilding nothing.
    kind : {"all", "turned", "along"}, optional
        Which pairs are meant: those in which both atoms are more than `near` from both features' directions,
        as where a pair hedges, or all others, as where it recovers or absorbs. So it is certified which is
        better.
    near : float, optional
        Angle in radians, in [0, pi/4).

    Returns
    -------
    PairOptimum

    Raises
    ------
    ValueError
        If an argument lies outside its range, or the gap needs too many boxes.

    Examples
    --------
    >>> found = best_pair(0.2, 0.0, 0.05, 0.2, gap=1e-3)
    >>> found.value - found.lower_bound < 3e-4, round(found.value, 4)
    (True, 0.0516)
    """
    q = [
        validation.number(name, probability, 0.0, 1.0)
        for name, probability in (("parent", parent), ("child", child), ("both", both))
    ]
    if not 0.0 < sum(q) <= 1.0 + 1e-12:
        raise ValueError(f"`parent` must leave a sum in (0, 1]; got {q[0]}, {q[1]}, {q[2]}.")
    l1 = validation.number("l1", l1, 0.0, 2.0, brackets="()")
    gap = validation.number("gap", gap, 0.0, 1.0, brackets="()")
    kind = validation.choice("kind", kind, ("all", "turned", "along"))
    near = validation.number("near", near, 0.0, math.pi / 4.0, brackets="[)")
    patterns = list(zip(q, ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)), strict=True))
    nothing = q[0] + q[1] + 2.0 * q[2]
    # Both slopes at once: |x - D h|^2 + l1 (h_1 + h_2) <= |x|^2.
    steep = sum(share * 4.0 * (x[0] ** 2 + x[1] ** 2) ** 1.5 / (3.0**1.5 * l1) for share, x in patterns)

    def objective(first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the objective of atoms at these two angles, (k,)."""
        return np.asarray(
            sum(share * pair_costs(x, first, second, l1) for share, x in patterns if share > 0.0)
        )

    def is_of_kind(at: FloatArray, margin: float) -> npt.NDArray[np.bool_]:
        """Return a mask of the pairs of angles `at`, (k, 2), that the search's `kind` means, to `margin`."""
        if kind == "all":
            return np.ones(len(at), np.bool_)
        off = np.minimum(*(np.abs(np.angle(np.exp(1j * (at - feature)))) for feature in (0.0, 0.5 * np.pi)))
        if kind == "turned":
            return np.asarray(np.all(off > near - margin, axis=1))
        return np.asarray(np.any(off <= near + margin, axis=1))

    # The whole circle: an atom that points away from both features may correct what the other one overshoots.
    side = math.pi / 64.0
    grid = side * (np.arange(-64, 64) + 0.5)
    at = np.array([(a, b) for a in grid for b in grid if a <= b])
    value, angles, boxes, dropped = math.inf, (0.0, 0.0), 0, math.inf
    while True:
        at = at[is_of_kind(at, 0.5 * side)]
        if not len(at):  # what was left was of the other kind
            return PairOptimum(value, min(value, dropped), angles, boxes)
        values = objective(at[:, 0], at[:, 1])
        boxes += len(at)
        meant = np.where(is_of_kind(at, 0.0), values, math.inf)
        best = int(np.argmin(meant))
        if meant[best] < value:
            value, angles = float(meant[best]), (float(at[best, 0]), float(at[best, 1]))
        lower_bounds = values - steep * 0.5 * side
        bound = min(float(lower_bounds.min()), dropped)
        if value - bound <= gap * nothing:
            return PairOptimum(value, bound, angles, boxes)
        is_open = lower_bounds < value - gap * nothing
        if not is_open.all():
            dropped = min(dropped, float(lower_bounds[~is_open].min()))
        at, side = at[is_open], 0.5 * side
        if 4 * len(at) + boxes > MOST_BOXES:
            raise ValueError(f"`gap` must be larger for {MOST_BOXES} boxes to do; got {gap}.")
        shifts = 0.5 * side * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)])
        at = (at[:, None, :] + shifts).reshape(-1, 2)
