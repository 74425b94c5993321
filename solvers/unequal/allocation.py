"""The best allocation of the hidden neurons to features that differ, by one Lagrange multiplier."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from ...theory import validation
from ...theory.codes import antipodal_loss, antipodal_optimum
from ...theory.features import Features, ValueDistribution
from ...theory.unequal.capacity import independent, interference_variance
from ...theory.validation import FloatArray, IntArray
from ..results import Status, result
from .curve import DROPPED, EXACT, PAIR, RUG, SKEW, Curve, best_rug, curve, end_losses, pair_losses

__all__ = ["KINDS", "Allocation", "allocate", "allocation_of"]

KINDS = ("dropped", "rug", "pairs", "skew pairs", "kept")


# So many different p have a curve each; more share curves at as many places, evenly spaced in log p.
_NODES = 256
# Capacities of the kinds whose capacity is fixed; the rug's is not.
_FIXED = np.array([0.0, np.nan, 0.5, 0.5, 1.0])
# What a skew pair loses at its two outputs, over the probability that both are on.
_SKEW = np.array([5.0, 45.0]) / 162.0


@result
class Allocation:
    """The best allocation of capacity to features; arrays have the shape (n_features,)."""

    capacity: FloatArray
    """Share of a hidden dimension that each feature has, in [0, 1]; they sum to n_hidden."""
    kind: IntArray
    """How each feature is stored, as an index of `KINDS`: dropped, in the rug, in a pair, kept exactly."""
    partner: IntArray
    """The other feature of a pair, else -1."""
    a: FloatArray
    """Scale of the output; 0 for a dropped feature."""
    b: FloatArray
    """Bias, with a times the mean of the interference; E x for a dropped feature."""
    sigma: FloatArray
    """Standard deviation of the interference in units of the scale; inf for a dropped feature."""
    per_feature: FloatArray
    """Macroscopic loss of each output, without importance."""
    loss: float
    """Loss per feature: the mean of importance times `per_feature`."""
    multiplier: float
    """Lagrange multiplier: by how much one more hidden neuron lowers n_features times the loss."""
    gap: float
    """`loss` minus the dual value at this multiplier, a lower bound of all allocations of many features to
    these codes. Its numerical error is 1e-7 of the loss; 0 where rounding makes it negative."""
    status: Status
    """REACHED if the gap is as small as requested, else STALLED."""


class LagrangianChoices:
    """Best kind of storage and capacity of each class of features, at a Lagrange multiplier of capacity.

    A class is all features of the same `p` and `weight`, importance times scale². `values` is the law of
    values at scale 1, `codes` are the kinds of pairs that are allowed. A capacity is a feature's share of a
    hidden dimension; a class minimises weight * loss + multiplier * capacity of each of its features.
    """

    def __init__(
        self, values: ValueDistribution, p: FloatArray, weight: FloatArray, codes: tuple[str, ...]
    ) -> None:
        self.values, self.p, self.weight = values, p, weight
        nodes = np.unique(p)
        if nodes.size > _NODES:
            nodes = np.geomspace(nodes[0], nodes[-1], _NODES)
            nodes[-1] = p.max()
        self.curves: list[Curve] = [curve(values, float(node), codes) for node in nodes]
        self.right = np.clip(np.searchsorted(nodes, p), min(1, nodes.size - 1), None)
        self.left = np.maximum(self.right - 1, 0)
        step = np.log(nodes[self.right]) - np.log(nodes[self.left])
        share = (np.log(p) - np.log(nodes[self.left])) / np.where(step > 0.0, step, 1.0)
        self.share = np.where(step > 0.0, share, 0.0)
        # Where p is a node, its curve alone counts.
        self.left = np.where(self.share == 1.0, self.right, self.left)
        self.right = np.where(self.share == 0.0, self.left, self.right)
        self.drop_loss, self.neuron_loss = end_losses(values, p)
        self.pairs = pair_losses(codes, p)

    def _map_classes(
        self, node: IntArray, what: Callable[[Curve, IntArray], Any], kind: type
    ) -> npt.NDArray[Any]:
        """Return an array, of type `kind`, with a value for each class, from its curve of loss over capacity.

        Class i has the curve `curves[node[i]]`. what(curve, rows) is called once for each curve, with the
        indices `rows` of its classes, and returns their values.
        """
        order = np.argsort(node, kind="stable")
        values: npt.NDArray[Any] = np.empty(node.size, kind)
        cuts = np.searchsorted(node[order], np.arange(len(self.curves) + 1))
        for k, (start, stop) in enumerate(pairwise(cuts)):
            if stop > start:
                rows = order[start:stop]
                values[rows] = what(self.curves[k], rows)
        return values

    def _relative(self, multiplier: float) -> FloatArray:
        """Return multiplier/weight for each class, at most 1e300: the multiplier at weight 1."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.minimum(multiplier / self.weight, 1e300)

    def rug(self, multiplier: float) -> FloatArray:
        """Return the best capacity of each class, at a multiplier, if it is stored in the rug.

        The rug is the random code of Cowsik et al. (2024).
        """
        at = self._relative(multiplier)
        left, right = (
            self._map_classes(node, lambda curve, rows: np.log(curve.capacity_at(at[rows])), float)
            for node in (self.left, self.right)
        )
        return np.asarray(np.exp((1.0 - self.share) * left + self.share * right))

    def at(self, multiplier: float) -> tuple[IntArray, FloatArray]:
        """Return (kind, capacity) of the best way to store each class at a multiplier.

        Kinds are the integers DROPPED, RUG (a random code), PAIR, SKEW and EXACT.
        """
        at = self._relative(multiplier)
        left, right = (
            self._map_classes(node, lambda curve, rows: curve.kind(at[rows]), int)
            for node in (self.left, self.right)
        )
        capacity = self.rug(multiplier)
        differ = np.flatnonzero(left != right)
        if differ.size:
            value = [
                self.value(kinds[differ], capacity[differ], differ, multiplier) for kinds in (left, right)
            ]
            left[differ] = np.where(value[0] <= value[1], left[differ], right[differ])
        return left, np.where(left == RUG, capacity, _FIXED[left])

    def losses(self, kind: IntArray, capacity: FloatArray, rows: IntArray) -> FloatArray:
        """Return the losses of a feature of each class in `rows`, not weighted by importance or scale.

        `kind` says how each is stored (DROPPED, RUG, PAIR, SKEW or EXACT); `capacity` is read only for
        features in the rug.
        """
        losses_found = np.where(kind == DROPPED, self.drop_loss[rows], self.neuron_loss[rows])
        for pair_kind, losses in self.pairs.items():
            losses_found = np.where(kind == pair_kind, losses[rows], losses_found)
        mine = kind == RUG
        if np.any(mine):
            losses_found[mine] = best_rug(self.values, self.p[rows[mine]], capacity[mine])[2]
        return losses_found

    def value(self, kind: IntArray, capacity: FloatArray, rows: IntArray, multiplier: float) -> FloatArray:
        """Return weight * loss + multiplier * capacity of a feature of each class in `rows`.

        `kind` says how each is stored (DROPPED, RUG, PAIR, SKEW or EXACT); `capacity` is read only for
        features in the rug, as the other kinds have fixed capacities.
        """
        capacity_given = np.where(kind == RUG, capacity, _FIXED[kind])
        return np.asarray(
            self.weight[rows] * self.losses(kind, capacity_given, rows) + multiplier * capacity_given
        )

    def least(self, multiplier: float) -> FloatArray:
        """Return each class's least weight * loss + multiplier * capacity, over all ways to store it."""
        rows, capacity = np.arange(self.p.size), self.rug(multiplier)
        kinds = [DROPPED, RUG, EXACT, *self.pairs]
        values = [self.value(np.full(rows.size, kind), capacity, rows, multiplier) for kind in kinds]
        return np.asarray(np.min(values, axis=0))

    def highest(self) -> float:
        """Return a Lagrange multiplier of capacity so large that all features are dropped."""
        multipliers = np.array([curve.multipliers[0] for curve in self.curves])
        return float(2.0 * self.weight.max() * multipliers.max())


def find_multipliers(class_choices: Any, counts: IntArray, n_hidden: int) -> tuple[float, float]:
    """Return (low, high), adjacent multipliers between which the features' capacity passes n_hidden.

    At `low` the capacity is n_hidden or more. Both are equal if n_hidden is met exactly, or never reached.
    class_choices.at(multiplier)[1] has the capacity of a feature of each class, `counts` the number of
    features in each.
    """

    @cache
    def excess(log_multiplier: float) -> float:
        """Return by how much the features' capacity at a multiplier exceeds n_hidden."""
        return float(counts @ class_choices.at(float(np.exp(log_multiplier)))[1]) - n_hidden

    low = high = float(np.log(class_choices.highest()))
    step = 1.0
    while excess(low) < 0.0 and low > -600.0:
        high, low, step = low, low - step, 2.0 * step
    if low == high or excess(low) <= 0.0:
        return float(np.exp(low)), float(np.exp(low))
    root = float(brentq(excess, low, high, xtol=1e-13))
    root_error = 0.0 if excess(root) == 0.0 else 1e-13 + 8.9e-16 * abs(root)  # how far off brentq may be
    return float(np.exp(root - root_error)), float(np.exp(root + root_error))


def _fill_neurons(
    kinds: tuple[IntArray, IntArray], shares: tuple[FloatArray, FloatArray], back: IntArray, n_hidden: int
) -> tuple[IntArray, FloatArray]:
    """Return (kind, capacity) of each feature, of total capacity at most n_hidden.

    `kinds` and `shares` have the kind and capacity of each class at two multipliers, the lower one, with
    more capacity, first; `back` is the class of each feature. As many features as fit get the first, the
    others the second.
    """
    upper, lower = (kind[back] for kind in kinds)
    wide, capacity = (share[back] for share in shares)
    kind, capacity = lower.copy(), capacity.copy()
    left = n_hidden - float(capacity.sum())
    moves = np.flatnonzero(upper != lower)
    gain = wide[moves] - capacity[moves]
    fits = moves[np.cumsum(gain) <= left * (1.0 + 1e-12)]
    kind[fits], capacity[fits] = upper[fits], wide[fits]
    return kind, capacity


def _pair_classes(kind: IntArray, capacity: FloatArray, p: FloatArray, weight: FloatArray) -> IntArray:
    """Return the index of each feature's partner, of neighbouring p; -1 for features in no pair.

    If the number of features of a kind of pair is odd, the last one's `kind` is set to RUG. In skew pairs
    `capacity` is set, larger for the feature of larger `weight`.
    """
    partner = np.full(kind.size, -1)
    for pair_kind in (PAIR, SKEW):
        members = np.flatnonzero(kind == pair_kind)
        members = members[np.lexsort((weight[members], p[members]))]
        if members.size % 2:
            kind[members[-1]] = RUG
            members = members[:-1]
        first, second = members[::2], members[1::2]
        if pair_kind == SKEW:  # the heavier one gets the output that receives less interference
            first, second = (
                np.where(weight[first] >= weight[second], x, y) for x, y in ((first, second), (second, first))
            )
            capacity[first], capacity[second] = 0.9, 0.1
        partner[first], partner[second] = second, first
    return partner


def _distribute_rest(kind: IntArray, capacity: FloatArray, n_hidden: int) -> None:
    """Change capacities in place until they sum to n_hidden.

    The missing capacity goes to the features in the rug, in proportion to their capacities, or to a dropped
    feature, which joins the rug. `kind` is changed in place for this feature, and to EXACT for features that
    reach capacity 1.
    """
    for _ in range(50):
        left = n_hidden - float(capacity.sum())
        free = np.flatnonzero((kind == RUG) & (capacity < 1.0))
        had = float(capacity[free].sum())
        if abs(left) <= 1e-14 * n_hidden:
            break
        if left > 0.5 * had and np.any(kind == DROPPED):
            feature = int(np.flatnonzero(kind == DROPPED)[0])
            kind[feature], capacity[feature] = RUG, min(left, 1.0)
        elif free.size:
            capacity[free] = np.minimum(capacity[free] * (1.0 + left / had), 1.0)
        else:
            break
    kind[(kind == RUG) & (capacity >= 1.0)] = EXACT


def allocate(
    law: Features, n_hidden: int, codes: Sequence[str] = ("rug",), *, tol: float = 1e-5
) -> Allocation:
    r"""Return the split of n_hidden dimensions among features that differ with the least macroscopic loss.

    Let c_i, the capacity, be the share of a dimension that feature i has, and v_i its variance. Features
    share dimensions in the rug, the random code of Cowsik et al. (2024), where the interference of output i
    has the variance :math:`v_i (1 - c_i)/c_i`, and its loss is :math:`f_i(c_i)` at the best scale and bias.
    The split minimises

    .. math:: \frac1n \sum_i I_i f_i(c_i), \qquad \sum_i c_i = m .

    With a Lagrange multiplier lambda each feature alone minimises :math:`I_i f_i(c) + \lambda c`, which is
    not convex. Of many equal features, any share may take one of two equal minima and the rest the other one;
    in that limit the least loss is (sum of the minima - lambda m)/n.

    Parameters
    ----------
    law, n_hidden : Features, int
        Law of independent features, and m, at least 1.
    codes : sequence of {"rug", "pairs", "skew pairs"}, optional
        How features may be stored, in addition to dropped, kept exactly and in the rug. Pairs of features of
        neighbouring p (`theory.codes.antipodal_loss`, `skew_pair_loss`) need uniform values.
    tol : float, optional
        The status is REACHED if the gap is at most `tol` times the loss plus multiplier/n_features, the worth
        of one neuron; else STALLED.

    Returns
    -------
    Allocation
        Capacities sum to n_hidden with a relative error of 1e-12. For more than 256 different p, curves of
        loss over capacity are interpolated between 256 values of p, which raises the gap by at most 1e-6 of
        the loss. Interference is taken to be normal. A million features with different p take less than a
        minute; with values that are not uniform each p takes 6 to 18 s.

    Raises
    ------
    ValueError
        If an argument is out of range, features are not independent or p is below 1e-100.

    Examples
    --------
    >>> law = Features(3000, np.repeat([0.1, 0.01], [1000, 2000]))
    >>> best = allocate(law, 600)
    >>> best.capacity[[0, -1]].round(4), round(best.loss, 7), best.gap < 1e-9
    (array([0.484, 0.058]), 0.003431, True)
    """
    features = independent(law)
    n = features.n_features
    m = validation.integer("n_hidden", n_hidden, 1)
    tol = validation.number("tol", tol, 0.0, 1.0, brackets="()")
    names = validation.choices("codes", codes, KINDS[1:4])
    if not features.values.uniform and names != ("rug",):
        raise ValueError(
            f"`codes` must be ['rug'] for values that are not uniform; got {validation.short_repr(codes)}."
        )
    p = validation.probability("p", features.p, low=1e-100)
    weight = features.importance * features.scale**2
    classes, back, counts = np.unique(np.stack([p, weight]), axis=1, return_inverse=True, return_counts=True)
    if m >= np.count_nonzero(weight):  # all that matter are kept, then the others
        n_represented = np.zeros(n, np.int64)
        n_represented[np.argsort(weight == 0.0, kind="stable")[:m]] = EXACT
        dual = float(weight @ end_losses(features.values, p)[1])
        return allocation_of(features, n_represented, n_represented / EXACT, np.full(n, -1), (0.0, dual), tol)
    class_choices = LagrangianChoices(features.values, classes[0], classes[1], tuple(sorted(names)))
    multipliers = find_multipliers(class_choices, counts, m)
    choices = [class_choices.at(multiplier) for multiplier in multipliers]
    kind, capacity = _fill_neurons((choices[0][0], choices[1][0]), (choices[0][1], choices[1][1]), back, m)
    partner = _pair_classes(kind, capacity, p, weight)
    _distribute_rest(kind, capacity, m)
    dual = float(counts @ class_choices.least(multipliers[1])) - multipliers[1] * m
    return allocation_of(features, kind, capacity, partner, (multipliers[1], dual), tol)


def allocation_of(
    law: Features,
    kind: IntArray,
    capacity: FloatArray,
    partner: IntArray,
    bound: tuple[float, float],
    tol: float,
) -> Allocation:
    """Return the `Allocation` in which every feature is stored as `kind` (DROPPED, RUG, ...) at its capacity.

    `partner` is the other feature of a pair, else -1. `bound` is (multiplier of capacity, lower bound of the
    loss summed over features); the status is REACHED if the gap is at most tol * loss + multiplier/n.
    `capacity` is overwritten for pairs.
    """
    n, p, scale = law.n_features, law.p, law.scale
    dropped, represented_loss = end_losses(law.values, p)
    a, b, loss = np.ones(n), np.zeros(n), represented_loss.copy()
    out = kind == DROPPED
    a[out], b[out], loss[out] = 0.0, law.mean[out] / scale[out], dropped[out]
    mine = np.flatnonzero(kind == RUG)
    if mine.size:
        pairs, back = np.unique(np.stack([p[mine], capacity[mine]]), axis=1, return_inverse=True)
        best = best_rug(law.values, pairs[0], pairs[1])
        a[mine], b[mine], loss[mine] = (part[back.ravel()] for part in best)
    two = np.flatnonzero(kind == PAIR)
    if two.size:
        chances = p[two], p[partner[two]]
        a[two], b[two] = antipodal_optimum(*chances)
        b[two] -= a[two] * p[partner[two]] / 2.0  # with the mean of the interference
        loss[two] = antipodal_loss(*chances)
    skew = np.flatnonzero(kind == SKEW)
    high = capacity[skew] > 0.5
    loss[skew] = p[skew] * p[partner[skew]] * np.where(high, *_SKEW)
    b[skew] = -p[partner[skew]] / 2.0 * np.where(high, 1.0 / 3.0, 3.0)
    sigma = np.sqrt(interference_variance(capacity, law))
    for members, size in ((skew, np.where(high, 1.0 / 3.0, 3.0)), (two, np.ones(two.size))):
        # the interference from the partner, in units of the feature's own scale
        sigma[members] = (
            size * scale[members] * np.sqrt(law.variance[partner[members]]) / scale[partner[members]]
        )
        others = dropped[partner[members]] * size**2
        capacity[members] = dropped[members] / (dropped[members] + others)
    per_feature = loss * scale**2
    total = float(np.sum(law.importance * per_feature))
    multiplier, dual = bound
    gap = max(total - dual, 0.0) / n
    # Each feature has one kind only, so that a part of one neuron may be in the wrong place.
    status = Status.REACHED if gap <= (tol * total + multiplier) / n else Status.STALLED
    fields = capacity, kind, partner, a, b * scale, sigma, per_feature
    return Allocation(*fields, total / n, multiplier, gap, status)
