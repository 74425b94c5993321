"""The least objective of two unit atoms with the best activations, on two binary features, with a bound."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.model import Model
from ...theory.results import result
from ...theory.validation import FloatArray

__all__ = ["PairOptimum", "best_pair", "pair_codes", "pair_encoder"]

# Boxes of angles that are looked at, at most.
MOST_BOXES = 4_000_000
# The kinds of pairs, each with the one that has all others.
KINDS = {"turned": "along", "along": "turned", "apart": "shared", "shared": "apart"}
# Per unit of both angles 1 / sqrt(C) changes by at most this over the strength, for a pattern's least cost C.
_ROOT_SLOPE = 2.0 / 27.0**0.5


@result
class PairOptimum:
    """Least objective of two atoms: an upper bound `value`, attained at `angles`, and a `lower_bound`."""

    value: float
    """Objective of `angles`: an upper bound."""
    lower_bound: float
    """Lower bound of the objective of any two atoms with any encoder."""
    angles: Any
    """Angles of both atoms, in radians from the first feature's direction."""
    boxes: int
    """Number of boxes of angles that were examined."""


def pair_codes(
    x: tuple[float, float], first: Any, second: Any, l1: float, prefix_weight: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return (h_1, h_2, cost): the activations of two latents of least cost for an input `x`.

    The cost of :math:`h \ge 0` is :math:`(1 - w) \|x - h_1 d_1 - h_2 d_2\|^2 + w \|x - h_1 d_1\|^2 + \lambda
    (h_1 + h_2)`, with w the `prefix_weight` and :math:`\lambda` the strength `l1`. The atoms are unit vectors
    in the plane at the angles `first` and `second`.

    Examples
    --------
    >>> pair_codes((1.0, 1.0), 0.0, np.pi / 2, 0.2)[2], pair_codes((1.0, 1.0), 0.0, np.pi / 4, 0.2)[2]
    (array(0.38), array(0.27284271))
    """
    m, square = 1.0 - prefix_weight, x[0] ** 2 + x[1] ** 2
    first, second = np.asarray(first, float), np.asarray(second, float)
    # The cost is |x|^2 - 2 b h + h Q h, with Q = (1, m g; m g, m) and g the cosine between the atoms.
    b1, b2 = (
        share * (x[0] * np.cos(at) + x[1] * np.sin(at)) - 0.5 * l1
        for share, at in ((1.0, first), (m, second))
    )
    inner = m * np.cos(first - second)
    left = m - inner**2
    h1, h2 = m * b1 - inner * b2, b2 - inner * b1  # times `left`
    is_open = left > 1e-13
    over = np.where(is_open, left, 1.0)
    gains = np.maximum(b1, 0.0) ** 2, np.maximum(b2, 0.0) ** 2 / m
    alone, both = np.maximum(*gains), (h1 * b1 + h2 * b2) / over
    use_both = is_open & (h1 > 0.0) & (h2 > 0.0)
    first_alone = gains[0] >= gains[1]
    return (
        np.asarray(np.where(use_both, h1 / over, np.where(first_alone, np.maximum(b1, 0.0), 0.0))),
        np.asarray(np.where(use_both, h2 / over, np.where(first_alone, 0.0, np.maximum(b2, 0.0) / m))),
        np.asarray(square - np.where(use_both, np.maximum(both, alone), alone)),
    )


def pair_encoder(
    angles: tuple[float, float], l1: float, *, cosine: float = 0.0, prefix_weight: float = 0.0
) -> Model | None:
    """Return the ReLU autoencoder of two unit atoms with the best activations for each pattern of features.

    Parameters
    ----------
    angles : (float, float)
        Angles of both atoms, in radians; the features' directions are at 0 and arccos(cosine).
    l1, cosine, prefix_weight : float
        Strength of the l1 penalty, below 2; cosine of the features' directions; weight of the squared error
        of the first latent alone. Errors are those of `best_pair`.

    Returns
    -------
    Model or None
        None if no affine encoder has these activations. The activations at the three patterns with a feature
        on fix the affine map; its value with both features off must not be positive.

    Examples
    --------
    >>> pair_encoder((0.0, np.pi / 4), 0.2).b_in.round(3)
    array([ 0.   , -0.707])
    """
    theta = validation.vector("angles", angles, 2)
    first, second = theta
    l1, cosine, prefix_weight = _check_objective(l1, cosine, prefix_weight)
    phi = _directions(cosine)
    codes = np.array(
        [pair_codes((x[0], x[1]), first, second, l1, prefix_weight)[:2] for x in (*phi.T, phi.sum(axis=1))]
    )
    alone, both = codes[:2].copy(), codes[2]
    excess = alone.sum(axis=0) - both
    for latent in range(2):  # an activation of 0 may have any pre-activation that is not positive
        off = alone[:, latent] == 0.0
        if excess[latent] > 0.0 and off.any():
            alone[off, latent] -= excess[latent] / off.sum()
            excess[latent] = 0.0
    if excess.max() > 0.0:
        return None
    W_in = (alone - excess).T @ np.linalg.inv(phi)
    return Model(W_in, excess, "relu", np.array([np.cos(theta), np.sin(theta)]), output="identity")


def _check_objective(l1: float, cosine: float, prefix_weight: float) -> tuple[float, float, float]:
    """Return (l1, cosine, prefix_weight) as floats; ValueError unless in [1e-100, 2), (-1, 1) and [0, 1)."""
    return (
        validation.number("l1", l1, 1e-100, 2.0, brackets="[)"),
        validation.number("cosine", cosine, -1.0, 1.0, brackets="()"),
        validation.number("prefix_weight", prefix_weight, 0.0, 1.0, brackets="[)"),
    )


def _directions(cosine: float) -> FloatArray:
    """Return two unit vectors of the plane with this `cosine`, as columns, the first at the angle 0."""
    return np.array([[1.0, cosine], [0.0, math.sqrt(1.0 - cosine**2)]])


def best_pair(
    parent: float, child: float, both: float, l1: float, *, cosine: float = 0.0, prefix_weight: float = 0.0,
    gap: float = 1e-4, kind: str = "all", near: float = 0.0,
) -> PairOptimum:  # fmt: skip
    r"""Return the least l1 objective of two latents on two binary features, with a proved bound.

    There is no decoder bias, and every pattern has its best activations, so that the result is a lower bound
    for autoencoders with any encoder. Branch and bound over both angles uses two bounds of the slope of a
    pattern's cost C, given on the page `sae`, :math:`16 \|x\|^3/(27 \lambda)` and :math:`4 C^{3/2}/(\sqrt{27}
    \lambda)`. Rounding errors are not bounded.

    Parameters
    ----------
    parent, child, both : float
        Probabilities that only the first feature is on, only the second, and both; at least 0, with a sum of
        at most 1.
    l1 : float
        Strength, from 1e-100 and below 2.
    cosine : float, optional
        Cosine of the features' directions, unit vectors; in (-1, 1).
    prefix_weight : float, optional
        Weight w, in [0, 1), of a Matryoshka objective: the squared error counts 1 - w times, that of the
        first latent alone w times, the penalty once.
    gap : float, optional
        Difference of value and bound at which to stop, as a share of the squared error of the output 0.
    kind : {"all", "turned", "along", "apart", "shared"}, optional
        Pairs of atoms to minimise over, by default all. "turned": both atoms are more than `near` from both
        features' directions (a pair that hedges); "along": all other pairs (which recover or absorb).
        "apart": each feature's direction has an atom within `near`; "shared": all other pairs. The bounds of
        two complementary kinds certify which is better.
    near : float, optional
        Angle in radians, in [0, pi/4), above 0 for "apart" and "shared".

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
    l1, cosine, w = _check_objective(l1, cosine, prefix_weight)
    gap = validation.number("gap", gap, 0.0, 1.0, brackets="()")
    kind = validation.choice("kind", kind, ("all", *KINDS))
    brackets = "()" if kind in ("apart", "shared") else "[)"
    near = validation.number("near", near, 0.0, math.pi / 4.0, brackets=brackets)
    phi = _directions(cosine)
    patterns = [(share, (x[0], x[1])) for share, x in zip(q, (*phi.T, phi.sum(axis=1)), strict=True)]
    nothing = sum(share * (x[0] ** 2 + x[1] ** 2) for share, x in patterns)

    # The whole circle: an atom that points away from both features may correct what the other one overshoots.
    side = math.pi / 64.0
    grid = side * (np.arange(-64, 64) + 0.5)
    at = np.array([(a, b) for a in grid for b in grid if w > 0.0 or a <= b])  # without w they may be swapped
    value, angles, boxes, dropped = math.inf, (0.0, 0.0), 0, math.inf
    while True:
        at = at[_is_of_kind(at, kind, cosine, near + 0.5 * side, near - 0.5 * side)]
        if not len(at):  # what was left was of the other kind
            return PairOptimum(value, min(value, dropped), angles, boxes)
        values, lower_bounds = _bounds(patterns, l1, w, at, 0.5 * side)
        boxes += len(at)
        meant = np.where(_is_of_kind(at, kind, cosine, near, near), values, math.inf)
        best = int(np.argmin(meant))
        if meant[best] < value:
            value, angles = float(meant[best]), (float(at[best, 0]), float(at[best, 1]))
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


def _bounds(
    patterns: list[tuple[float, tuple[float, float]]], l1: float, w: float, at: FloatArray, reach: float
) -> tuple[FloatArray, FloatArray]:
    """Return (objectives, lower bounds), (k,) each, of pairs of atoms at the angles `at`, (k, 2).

    A bound holds for all pairs whose angles both differ by at most `reach` radians from these. `patterns` are
    (probability, activations (x, y)), `l1` is the strength of the penalty and w the prefix's weight.
    """
    values, lower = np.zeros((2, len(at)))
    for share, x in patterns:
        cost = np.maximum(pair_codes(x, at[:, 0], at[:, 1], l1, w)[2], 0.0)
        by_length = cost - 16.0 * (x[0] ** 2 + x[1] ** 2) ** 1.5 / (27.0 * l1) * reach
        by_cost = cost / (1.0 + _ROOT_SLOPE / l1 * reach * np.sqrt(cost)) ** 2
        values += share * cost
        lower += share * np.maximum(by_length, by_cost)
    return values, lower


def _is_of_kind(
    at: FloatArray, kind: str, cosine: float, reach: float, least: float
) -> npt.NDArray[np.bool_]:
    """Return a mask, (k,), of the pairs of atoms at the angles `at`, (k, 2), that are of this `kind`.

    "turned": both atoms are far from both features' directions; "along": all other pairs. "apart": each
    feature's direction has an atom near it; "shared": all other pairs; "all": all. An atom is near a
    direction if their angle is at most `reach`, far if it exceeds `least`; a pair between may be of both
    kinds. `cosine` is that of the features' directions.
    """
    if kind == "all":
        return np.ones(len(at), np.bool_)
    # Angle of each feature's direction to the atom that is nearest, (k, 2).
    off = np.column_stack([
        np.abs(np.angle(np.exp(1j * (at - feature)))).min(axis=1) for feature in (0.0, math.acos(cosine))
    ])  # fmt: skip
    is_right = off > least if kind in ("turned", "shared") else off <= reach
    return np.asarray(is_right.all(axis=1) if kind in ("turned", "apart") else is_right.any(axis=1))
