"""The best split of the hidden neurons among features that differ, by one price."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.codes import antipodal_loss, antipodal_optimum
from ...theory.features import Features, Values
from ...theory.unequal.capacity import independent
from ..results import Status, result
from .curve import DROPPED, KEPT, PAIR, RUG, SKEW, Curve, best_rug, curve, ends, pair_losses

__all__ = ["CODES", "KINDS", "Split", "finished", "optimum"]

CODES = ("rug", "pairs", "skew pairs")
KINDS = ("dropped", "rug", "pairs", "skew pairs", "kept")

IntArray = npt.NDArray[np.int64]

# So many different p have a curve each; more share curves at as many places, evenly spaced in log p.
_NODES = 256
# Capacities of the kinds whose capacity is fixed; the rug's is not.
_FIXED = np.array([0.0, np.nan, 0.5, 0.5, 1.0])
# What a skew pair loses at its two outputs, over the probability that both are on.
_SKEW = np.array([5.0, 45.0]) / 162.0


@result
class Split:
    """The best split of the hidden neurons among features; arrays have the shape (n_features,).

    Attributes
    ----------
    capacity : ndarray of float64
        What each feature gets of the n_hidden dimensions, in [0, 1]; they sum to `n_hidden`.
    kind : ndarray of int64
        How it is stored, as an index into `KINDS`: dropped, in the rug, in a pair, kept exactly.
    partner : ndarray of int64
        The other feature of a pair, else -1.
    a, b, sigma : ndarray of float64
        Scale and bias of the output, and the standard deviation of its interference in units of the scale; b
        includes a times the mean of the interference. A dropped feature has a = 0, b = E x, sigma = inf.
    per_feature : ndarray of float64
        Macroscopic loss of each output, without importance.
    loss : float
        Loss per feature: the mean of importance times `per_feature`.
    price : float
        What one more hidden neuron would take from n_features times the loss.
    gap : float
        `loss` less the dual value at this price, which no split of many features into these codes goes below.
        It counts the feature that is left over where whole features are, and is numerical, to 1e-7 of the
        loss; never shown below 0.
    status : Status
    """

    capacity: FloatArray
    kind: IntArray
    partner: IntArray
    a: FloatArray
    b: FloatArray
    sigma: FloatArray
    per_feature: FloatArray
    loss: float
    price: float
    gap: float
    status: Status


class Menu:
    """What features of each class, of one p and weight, do at a price."""

    def __init__(self, values: Values, p: FloatArray, weight: FloatArray, codes: tuple[str, ...]) -> None:
        self.values, self.p, self.weight = values, p, weight
        nodes = np.unique(p)
        if nodes.size > _NODES:
            nodes = np.geomspace(nodes[0], nodes[-1], _NODES)
            nodes[-1] = p.max()
        self.curves: list[Curve] = [curve(values, float(one), codes) for one in nodes]
        self.right = np.clip(np.searchsorted(nodes, p), min(1, nodes.size - 1), None)
        self.left = np.maximum(self.right - 1, 0)
        step = np.log(nodes[self.right]) - np.log(nodes[self.left])
        share = (np.log(p) - np.log(nodes[self.left])) / np.where(step > 0.0, step, 1.0)
        self.share = np.where(step > 0.0, share, 0.0)
        # Where p is a node, its curve alone counts.
        self.left = np.where(self.share == 1.0, self.right, self.left)
        self.right = np.where(self.share == 0.0, self.left, self.right)
        self.dropped, self.kept = ends(values, p)
        self.pairs = pair_losses(codes, p)

    def _each(self, node: IntArray, what: Callable[[Curve, IntArray], Any], kind: type) -> npt.NDArray[Any]:
        """Return `what` of each class by the curve of its node."""
        order = np.argsort(node, kind="stable")
        found: npt.NDArray[Any] = np.empty(node.size, kind)
        cuts = np.searchsorted(node[order], np.arange(len(self.curves) + 1))
        for k, (start, stop) in enumerate(pairwise(cuts)):
            if stop > start:
                rows = order[start:stop]
                found[rows] = what(self.curves[k], rows)
        return found

    def _relative(self, price: float) -> FloatArray:
        """Return the price over the weight: that of a feature of weight 1."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.minimum(price / self.weight, 1e300)

    def rug(self, price: float) -> FloatArray:
        """Return the capacity that each class has in the rug at a price."""
        at = self._relative(price)
        left, right = (
            self._each(node, lambda one, rows: np.log(one.inside(at[rows])), float)
            for node in (self.left, self.right)
        )
        return np.asarray(np.exp((1.0 - self.share) * left + self.share * right))

    def at(self, price: float) -> tuple[IntArray, FloatArray]:
        """Return kind and capacity of each class at a price."""
        at = self._relative(price)
        left, right = (
            self._each(node, lambda one, rows: one.kind(at[rows]), int) for node in (self.left, self.right)
        )
        capacity = self.rug(price)
        differ = np.flatnonzero(left != right)
        if differ.size:
            value = [self.value(kinds[differ], capacity[differ], differ, price) for kinds in (left, right)]
            left[differ] = np.where(value[0] <= value[1], left[differ], right[differ])
        return left, np.where(left == RUG, capacity, _FIXED[left])

    def losses(self, kind: IntArray, capacity: FloatArray, rows: IntArray) -> FloatArray:
        """Return the loss of some classes, stored in a way and at a capacity."""
        found = np.where(kind == DROPPED, self.dropped[rows], self.kept[rows])
        for one, losses in self.pairs.items():
            found = np.where(kind == one, losses[rows], found)
        mine = kind == RUG
        if np.any(mine):
            found[mine] = best_rug(self.values, self.p[rows[mine]], capacity[mine])[2]
        return found

    def value(self, kind: IntArray, capacity: FloatArray, rows: IntArray, price: float) -> FloatArray:
        """Return weight times loss plus price times capacity."""
        given = np.where(kind == RUG, capacity, _FIXED[kind])
        return np.asarray(self.weight[rows] * self.losses(kind, given, rows) + price * given)

    def least(self, price: float) -> FloatArray:
        """Return the least value of each class: the terms of the dual."""
        rows, capacity = np.arange(self.p.size), self.rug(price)
        kinds = [DROPPED, RUG, KEPT, *self.pairs]
        values = [self.value(np.full(rows.size, one), capacity, rows, price) for one in kinds]
        return np.asarray(np.min(values, axis=0))

    def highest(self) -> float:
        """Return a price at which all features are dropped."""
        prices = np.array([one.prices[0] for one in self.curves])
        return float(2.0 * self.weight.max() * prices.max())


def find_prices(menu: Any, counts: IntArray, n_hidden: int) -> tuple[float, float]:
    """Return two prices next to each other: at the lower one the features ask for n_hidden or more.

    The menu has the method `at`, of kinds and capacities at a price, and `highest`, a price above all.
    """
    asked: dict[float, float] = {}

    def excess(log_price: float) -> float:
        asked[log_price] = float(counts @ menu.at(float(np.exp(log_price)))[1]) - n_hidden
        return asked[log_price]

    high = np.log(menu.highest())
    low, step = high, 1.0
    while excess(low) < 0.0 and low > -600.0:
        low, step = low - step, 2.0 * step
    above = [one for one, rest in asked.items() if rest < 0.0]
    high = min(above, default=low)
    for turn in range(200):
        if high - low <= 1e-13 or asked[low] == 0.0:
            break
        # the line between both ends, kept away from them, and every third time the middle
        share = asked[low] / (asked[low] - asked[high]) if turn % 3 < 2 else 0.5
        at = low + (high - low) * float(np.clip(share, 0.01, 0.99))
        low, high = (at, high) if excess(at) >= 0.0 else (low, at)
    if asked[low] == 0.0:  # what is asked for at this price is what there is
        high = low
    return float(np.exp(low)), float(np.exp(high))


def _counted(
    kinds: tuple[IntArray, IntArray], shares: tuple[FloatArray, FloatArray], back: IntArray, n_hidden: int
) -> tuple[IntArray, FloatArray]:
    """Return kind and capacity of each feature: of the higher price, and of the lower for as many as fit."""
    more, less = (kind[back] for kind in kinds)
    wide, capacity = (share[back] for share in shares)
    kind, capacity = less.copy(), capacity.copy()
    left = n_hidden - float(capacity.sum())
    moves = np.flatnonzero(more != less)
    gain = wide[moves] - capacity[moves]
    fits = moves[np.cumsum(gain) <= left * (1.0 + 1e-12)]
    kind[fits], capacity[fits] = more[fits], wide[fits]
    return kind, capacity


def _paired(kind: IntArray, capacity: FloatArray, p: FloatArray, weight: FloatArray) -> IntArray:
    """Return the partners of features in pairs, of neighbouring p; one that is left over joins the rug."""
    partner = np.full(kind.size, -1)
    for one in (PAIR, SKEW):
        members = np.flatnonzero(kind == one)
        members = members[np.lexsort((weight[members], p[members]))]
        if members.size % 2:
            kind[members[-1]] = RUG
            members = members[:-1]
        first, second = members[::2], members[1::2]
        if one == SKEW:  # the heavier one gets the output that hears less
            first, second = (
                np.where(weight[first] >= weight[second], x, y) for x, y in ((first, second), (second, first))
            )
            capacity[first], capacity[second] = 0.9, 0.1
        partner[first], partner[second] = second, first
    return partner


def _spent(kind: IntArray, capacity: FloatArray, n_hidden: int) -> None:
    """Give what is left to the rug, whose features all pay the same for it, or to one dropped feature."""
    for _ in range(50):
        left = n_hidden - float(capacity.sum())
        free = np.flatnonzero((kind == RUG) & (capacity < 1.0))
        had = float(capacity[free].sum())
        if abs(left) <= 1e-14 * n_hidden:
            break
        if left > 0.5 * had and np.any(kind == DROPPED):
            one = int(np.flatnonzero(kind == DROPPED)[0])
            kind[one], capacity[one] = RUG, min(left, 1.0)
        elif free.size:
            capacity[free] = np.minimum(capacity[free] * (1.0 + left / had), 1.0)
        else:
            break
    kind[(kind == RUG) & (capacity >= 1.0)] = KEPT


def optimum(law: Features, n_hidden: int, codes: Sequence[str] = ("rug",), *, tol: float = 1e-5) -> Split:
    r"""Split n_hidden dimensions among features that differ, for the least macroscopic loss.

    With the capacity c_i the interference of output i has the variance :math:`v_i (1 - c_i)/c_i`, and the
    loss is :math:`f_i(c_i)` with the best scale and bias. Capacities sum to n_hidden at most, and every such
    split is attained (`theory.unequal.capacity`). What is minimised is

    .. math:: \frac1n \sum_i I_i f_i(c_i), \qquad \sum_i c_i = m .

    At one price lambda each feature alone minimises :math:`I_i f_i(c) + \lambda c`. The loss over c is not
    convex, so a feature is dropped above some price, and jumps to a capacity of p (common) to 40 p (rare)
    below it. In the limit of many features, where any share of a class may jump, the sum of the minima less
    lambda m is the least loss.

    Parameters
    ----------
    law : Features
        Law of independent features.
    n_hidden : int
        m, at least 1.
    codes : sequence of {"rug", "pairs", "skew pairs"}, optional
        How features may be stored, beside dropped, kept exactly and in the rug, which are always allowed.
        Pairs take two features of neighbouring p, for one dimension (`theory.codes.antipodal_loss`, and
        `skew_pair_loss` of untied models); they take uniform values.
    tol : float, optional
        The status says whether the gap is below `tol` times the loss and the price of one neuron.

    Returns
    -------
    Split
        Losses are those of the optimum of scale and bias at the capacities found, which sum to n_hidden to
        1e-12; `gap` says how far they may be from the best. Up to 256 different p have a curve of loss over
        capacity each; from there on curves are shared, at a gap of 1e-6 or less of the loss.

    Raises
    ------
    ValueError
        If an argument is out of range, features are not independent or p is below 1e-100.

    Notes
    -----
    For many features that are heard at once: the interference is taken to be normal. A million features with
    different p take less than a minute. Values that are not uniform have no fast optimum of scale and bias:
    60 places on the curve of each p, 0.1 to 0.3 s each.

    Examples
    --------
    >>> law = Features(3000, np.repeat([0.1, 0.01], [1000, 2000]))
    >>> best = optimum(law, 600)
    >>> best.capacity[[0, -1]].round(4), round(best.loss, 7), best.gap < 1e-9
    (array([0.484, 0.058]), 0.003431, True)
    """
    features = independent(law)
    n = features.n_features
    m = arguments.integer("n_hidden", n_hidden, 1)
    tol = arguments.number("tol", tol, 0.0, 1.0, brackets="()")
    names = arguments.choices("codes", codes, CODES)
    if not features.values.uniform and names != ("rug",):
        raise ValueError(
            f"`codes` must be ['rug'] for values that are not uniform; got {arguments.shown(codes)}."
        )
    p = arguments.probability("p", features.p, low=1e-100)
    weight = features.importance * features.scale**2
    classes, back, counts = np.unique(np.stack([p, weight]), axis=1, return_inverse=True, return_counts=True)
    if m >= np.count_nonzero(weight):  # all that matter are kept, then the others
        kept = np.zeros(n, np.int64)
        kept[np.argsort(weight == 0.0, kind="stable")[:m]] = KEPT
        dual = float(weight @ ends(features.values, p)[1])
        return finished(features, kept, kept / KEPT, np.full(n, -1), (0.0, dual), tol)
    menu = Menu(features.values, classes[0], classes[1], tuple(sorted(names)))
    prices = find_prices(menu, counts, m)
    found = [menu.at(price) for price in prices]
    kind, capacity = _counted((found[0][0], found[1][0]), (found[0][1], found[1][1]), back, m)
    partner = _paired(kind, capacity, p, weight)
    _spent(kind, capacity, m)
    dual = float(counts @ menu.least(prices[1])) - prices[1] * m
    return finished(features, kind, capacity, partner, (prices[1], dual), tol)


def finished(
    law: Features,
    kind: IntArray,
    capacity: FloatArray,
    partner: IntArray,
    bound: tuple[float, float],
    tol: float,
) -> Split:
    """Evaluate every feature where it has come to lie."""
    n, p, scale = law.n_features, law.p, law.scale
    dropped, kept = ends(law.values, p)
    a, b, loss = np.ones(n), np.zeros(n), kept.copy()
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
    with np.errstate(divide="ignore"):
        sigma = np.sqrt(law.variance * (1.0 - capacity) / capacity)
    for one, size in ((skew, np.where(high, 1.0 / 3.0, 3.0)), (two, np.ones(two.size))):
        # a pair hears its partner in units of its own scale
        sigma[one] = size * scale[one] * np.sqrt(law.variance[partner[one]]) / scale[partner[one]]
        others = dropped[partner[one]] * size**2
        capacity[one] = dropped[one] / (dropped[one] + others)
    per_feature = loss * scale**2
    total = float(np.sum(law.importance * per_feature))
    price, dual = bound
    gap = max(total - dual, 0.0) / n
    # Whole features may leave a part of one neuron to the wrong one.
    status = Status.REACHED if gap <= (tol * total + price) / n else Status.STALLED
    fields = capacity, kind, partner, a, b * scale, sigma, per_feature
    return Split(*fields, total / n, price, gap, status)
