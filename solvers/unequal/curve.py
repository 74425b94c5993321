"""The macroscopic loss of one feature as a function of its capacity, and its convex envelope.

Everything is at scale 1 and importance 1. The loss f(c) is concave up to about three quarters of the least
capacity of a feature that is not dropped, convex from there on, and for p >= 0.85 concave again near c = 1
(measured on grids). So the envelope has a straight piece at its beginning, often one at its end, and one on
each side of a pair.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator

from ...theory.codes import antipodal_loss, skew_pair_loss
from ...theory.features import ValueDistribution
from ...theory.validation import FloatArray
from .. import decoders, rug
from ..codes.envelope import hull

__all__ = [
    "DROPPED",
    "EXACT",
    "PAIR",
    "RUG",
    "SKEW",
    "Curve",
    "best_rug",
    "curve",
    "end_losses",
    "pair_losses",
]

DROPPED, RUG, PAIR, SKEW, EXACT = range(5)

# Points of the search for where the envelope leaves the line from a dropped feature, and of the rest. Values
# that are not uniform have no fast optimum of scale and bias.
_POINTS = {True: (40, 112), False: (20, 40)}
_LEAST = 1e-300


def end_losses(values: ValueDistribution, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (loss of a dropped feature, loss of one kept exactly) for each p.

    `values` is the law of the value of a feature that is on. A ReLU loses negative values even if exact.
    """
    first, second = values.moment(1), values.moment(2)
    variance = p * (second - first**2 + (1.0 - p) * first**2)
    # A ReLU loses the negative half of the values at any interference.
    return variance, 0.5 * variance if values.support[0] < 0.0 else np.zeros_like(p)


def best_rug(
    values: ValueDistribution, p: FloatArray, capacity: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (best scale, best bias, loss) of features in the rug, arrays of the shape of p and `capacity`.

    The rug is the random code of Cowsik et al. (2024); a capacity, between 0 and 1, is a feature's share of a
    dimension. A feature is on with probability p and then has the law `values`.
    """
    if values.uniform:
        optimum = rug.optimum(p, capacity)
        return np.asarray(optimum.a), np.asarray(optimum.b), np.asarray(optimum.loss)
    variance, _ = end_losses(values, p)
    sigma = np.sqrt(variance * (1.0 - capacity) / capacity)
    pairs, back = np.unique(np.stack([p, sigma]), axis=1, return_inverse=True)
    best = decoders.optimum(pairs[0], pairs[1], "relu", values=values)
    a, b, loss = (np.asarray(part)[back.ravel()] for part in (best.a, best.b, best.loss))
    return a, b, loss


def pair_losses(codes: tuple[str, ...], p: FloatArray) -> dict[int, FloatArray]:
    """Return {kind: losses for each p at capacity 1/2} of PAIR and SKEW, if `codes` names them."""
    losses = {}
    if "pairs" in codes:
        losses[PAIR] = np.asarray(antipodal_loss(p))
    if "skew pairs" in codes:
        losses[SKEW] = np.asarray(skew_pair_loss(p))
    return losses


@dataclass(frozen=True)
class Curve:
    """Lower convex envelope of a feature's loss over its capacity, by the Lagrange multiplier of capacity.

    kinds[k] is best for multipliers between multipliers[k] and multipliers[k - 1]. In the rug the capacity is
    between `low` and `high`; `log_capacity` interpolates its logarithm over that of the multiplier, or is
    None if the capacity is always `low`.
    """

    kinds: tuple[int, ...]
    multipliers: FloatArray
    low: float
    high: float
    log_capacity: Any

    def kind(self, multiplier: FloatArray) -> Any:
        """Return the kind (DROPPED, RUG, ...) of least loss + multiplier * capacity, at each multiplier."""
        return np.asarray(self.kinds)[np.searchsorted(-self.multipliers, -multiplier)]

    def capacity_at(self, multiplier: FloatArray) -> FloatArray:
        """Return the capacity of least loss + multiplier * capacity in the rug, at each multiplier."""
        if self.log_capacity is None:
            return np.full(multiplier.shape, self.low)
        at = np.clip(np.log(np.maximum(multiplier, _LEAST)), self.log_capacity.x[0], self.log_capacity.x[-1])
        return np.asarray(np.clip(np.exp(self.log_capacity(at)), self.low, self.high))


def _slopes(angle: FloatArray, c: FloatArray, f: FloatArray, end_loss: float) -> Any:
    """Return -df/dc, for the loss f and the capacity c, at all grid points but both ends.

    Grid points are c = c[0]^((1 + cos angle)/2), with equal steps of `angle` from 0 to pi; f has the losses
    there, and `end_loss` is the loss at c = 1.
    """
    by_angle = c[1:-1] * np.log(c[0]) * -0.5 * np.sin(angle[1:-1])
    vanishes = float(
        end_loss == 0.0
    )  # what is kept exactly may lose nothing: then f falls as 1 - c at the end
    log_f = np.log(f[:-1]) - vanishes * np.log1p(-c[:-1])
    # Even in the angle at both ends, where the derivative of c vanishes too: the last value by three others.
    log_f = np.append(log_f, log_f[:-4:-1] @ (1.5, -0.6, 0.1) if vanishes else np.log(end_loss))
    by_log = CubicSpline(angle, log_f, bc_type="clamped")(angle[1:-1], 1) / by_angle
    return f[1:-1] * (vanishes / (1.0 - c[1:-1]) - by_log)


@lru_cache(maxsize=4096)
def curve(values: ValueDistribution, p: float, codes: tuple[str, ...]) -> Curve:
    """Return the convex envelope of a feature's loss over its capacity in the rug and in `codes`.

    Of `codes` only "pairs" and "skew pairs" count, points of capacity 1/2. The feature is on with probability
    p and then has the law `values`. Losses are exact at the grid's points; slopes are those of a spline of
    the logarithm of the loss. The slope of a straight piece has an error of second order in the grid's step.
    """
    on = np.array([p])
    dropped, represented_loss = (float(end[0]) for end in end_losses(values, on))
    # Rare features have more decades of capacity: no fewer points in each.
    coarse, fine = np.maximum(_POINTS[values.uniform], (int(-np.log(p)), int(-3.0 * np.log(p))))

    def losses(c: FloatArray) -> FloatArray:
        """Return the losses in the rug (see `best_rug`) at the capacities c."""
        return best_rug(values, np.full(c.shape, p), c)[2]

    c = np.geomspace(0.03 * p, 1.0, coarse)[:-1]
    first = int(np.argmax((dropped - losses(c)) / c))
    low = c[max(first - 1, 0)]
    # Half of the cosine's period: steps shrink to both ends, and 1 - c goes with the square of the angle.
    angle = np.linspace(0.0, np.pi, fine)
    c = low ** (0.5 + 0.5 * np.cos(angle))
    c[-1] = 1.0
    f = np.append(losses(c[:-1]), represented_loss)
    slope = np.empty(fine)
    slope[1:-1] = _slopes(angle, c, f, represented_loss)
    slope[0] = (f[0] - f[1]) / (c[1] - c[0])
    slope[-1] = 3.0 * slope[-2] - 3.0 * slope[-3] + slope[-4]
    slope = np.maximum(slope, _LEAST)

    # The smooth part: the rug's own corners after the line from a dropped feature, and the point before them
    # if the loss is convex there, while the slope falls.
    hull_index = hull(np.append(0.0, c), np.append(dropped, f))[1:] - 1
    last_rug = hull_index[0] - 1
    part = (
        np.append(last_rug, hull_index)
        if last_rug >= 0 and slope[last_rug] > slope[hull_index[0]]
        else hull_index
    )
    ahead = bool(hull_index[-2] < fine - 2)  # a straight piece leads up to c = 1
    part = part[: part.size - ahead]
    part = part[slope[part] <= np.minimum.accumulate(slope[part])]
    part = part[np.append(True, np.diff(slope[part]) < 0.0)]
    interpolant = None
    if part.size > 1:
        interpolant = PchipInterpolator(np.log(slope[part])[::-1], np.log(c[part])[::-1])
    points = [(0.0, dropped, DROPPED), *((x, y, RUG) for x, y in zip(c[:-1], f[:-1], strict=True))]
    points += [(0.5, float(y[0]), kind) for kind, y in pair_losses(codes, on).items()]
    points = [*points, (1.0, represented_loss, EXACT)]
    x, y = (np.array([point[k] for point in points]) for k in (0, 1))
    corners = hull(x, y)
    kinds = np.array([points[k][2] for k in corners])
    multiplier = -np.diff(y[corners]) / np.diff(x[corners])
    if not ahead and x[corners[-2]] == c[-2]:
        multiplier[-1] = slope[-1]
    new = np.flatnonzero(kinds[1:] != kinds[:-1])
    pieces = tuple(kinds[np.append(new, kinds.size - 1)].tolist())
    return Curve(pieces, multiplier[new], float(low), float(c[part[-1]]), interpolant)
