r"""Priority codes of features that differ, or depend on each other: an upper bound at every n_features.

Two dimensions, a *plane*, hold any number of features, sorted by priority (`theory.codes.priority`). In the
limit of a wide spread of lengths an output is exact unless a feature before it is on that it is not
orthogonal to: any but the one before it, and for the last one of four or more also the first. Such a feature
*silences* the output, which then loses x_i² at most. So output i of a plane loses

.. math:: I_i s_i^2 \frac13 P(\text{i is on, and so is a feature that silences it}),

for any joint law of on and off. Exclusive features never silence each other; a synchronous pair fires
together, and next to each other its members do not silence each other. So a plane holds whole groups, and the
order inside it is searched for. The pages "Features that differ" and "Correlations" say more.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .. import validation
from ..compile.kernels import check_interrupt, inner, kernel
from ..features import Features
from ..validation import FloatArray, IntArray
from .blocks import marginal_chances
from .capacity import uniform

__all__ = ["priority_loss", "priority_weights"]


# Numbers of kept features that are tried before neighbours are.
_SPLITS = 25
# Features of a plane whose order is searched for, where features are not independent.
_SWAPPED = 64
# The group of a feature that is independent of all others.
_NONE = -1


def priority_loss(law: Features, n_hidden: int) -> float:
    """Loss per feature of the best priority code found, an upper bound on the least loss.

    A *plane* is two hidden dimensions that several features share. Lengths of its encodings have ratios that
    tend to infinity: while a feature is on, most outputs of features with shorter encodings are 0. Other
    features are exact, with a hidden dimension of their own. Features are sorted by p (importance
    scale²)^(1/2): the first ones are exact, the others are distributed over the planes. A search finds how
    many are exact. If there are groups, neighbours within planes of up to 64 features are swapped while the
    loss falls. `loss_bound` is a lower bound for all models.

    Parameters
    ----------
    law : Features
        Law with values uniform on [0, scale]; independent features, or groups.
    n_hidden : int
        At least 1.

    Returns
    -------
    float
        Mean of importance times the loss of each feature, to rounding: the infimum over a family of models
        ReLU(M x + b) with rank(M) <= n_hidden, so an upper bound of the least loss at this n_features.

    Raises
    ------
    ValueError
        If an argument is out of range, features are not uniform, or `law` fixes how many features are on.

    Examples
    --------
    >>> from superposition.theory import codes
    >>> round(priority_loss(Features(80, 0.01), 20), 9), round(codes.priority_plane_loss(0.01, 8), 9)
    (8.2094e-05, 8.2094e-05)
    """
    return _best_code(law, n_hidden)[0]


def priority_weights(
    law: Features, n_hidden: int, reach: float = 1e4
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights of a code of exact features and priority planes, whose lengths differ by a finite factor.

    An exact feature has a hidden dimension of its own. A plane is two hidden dimensions that several features
    share, with ever shorter encodings: while a feature is on, most outputs of features with shorter encodings
    are usually 0. Errors are those of `priority_loss`.

    Parameters
    ----------
    law : Features
        Law with values uniform on [0, scale]; independent features, or groups.
    n_hidden : int
        At least 1.
    reach : float, optional
        Length of the longest encoding of a plane over that of the shortest, from 1 to 1e12; lengths fall
        geometrically. As `reach` grows, the loss tends to that of `priority_loss`, in which, however, outputs
        on a plane are dropped where that is better.

    Returns
    -------
    W_out : (n_features, n_hidden) ndarray of float64
    W_in : (n_hidden, n_features) ndarray of float64
    b : (n_features,) ndarray of float64
        For a dropped feature its mean, otherwise 0.

    Examples
    --------
    >>> W_out, W_in, b = priority_weights(Features(4, 0.1), 2, reach=1e3)
    >>> (W_out @ W_in).diagonal().round(12), np.linalg.norm(W_in, axis=0).round(3)
    (array([1., 1., 1., 1.]), array([1.   , 0.1  , 0.01 , 0.001]))
    """
    reach = validation.number("reach", reach, 1, 1e12)
    _, alone, planes = _best_code(law, n_hidden)
    n, m, n_alone = law.n_features, int(n_hidden), alone.size
    validation.check_fits("n_hidden", n_hidden, 2 * n * m)
    W_out, W_in, b = np.zeros((n, m)), np.zeros((m, n)), law.mean.copy()
    W_out[alone, np.arange(n_alone)] = W_in[np.arange(n_alone), alone] = 1.0
    b[alone] = 0.0
    for plane_index, these in enumerate(planes):
        k = these.size
        angle, read = plane_angles(k)
        size = reach ** -np.linspace(0.0, 1.0, k) if k > 1 else np.ones(1)
        target_weight = size * np.cos(read - angle)
        axes = n_alone + 2 * plane_index + np.arange(2)
        W_in[np.ix_(axes, these)] = size * np.stack([np.cos(angle), np.sin(angle)])
        W_out[np.ix_(these, axes)] = np.stack([np.cos(read), np.sin(read)], axis=1) / target_weight[:, None]
        b[these] = 0.0
    return W_out, W_in, b


def plane_angles(k: int) -> tuple[FloatArray, FloatArray]:
    """Return the angles of k encodings in two dimensions, and of the directions that their outputs read.

    Both are (k,), in radians, with the longest encoding first. The first max(k - 2, 2) encodings are in the
    first quadrant, the others at 180 and 270 degrees. Each output has weight 0 on the feature before it, and
    weights of at most 0 on earlier ones.
    """
    first = max(k - 2, 2)
    angle = np.append(np.linspace(0.0, 0.5 * np.pi, first), [np.pi, 1.5 * np.pi])[:k]
    return angle, np.append(0.0, np.append(angle[:first] + 0.5 * np.pi, 1.5 * np.pi))[:k]


class _PlaneAssignment:
    """Assignment of a law's features to planes, and the total loss of that code.

    A plane is two hidden dimensions that several features share, listed by priority: while one of higher
    priority is on, the outputs of most later ones are 0. `table` describes the groups: for each feature its
    probability p, its `group`, -1 for none, and its `column` in the group's patterns; where each group's
    `rows` begin in `patterns`, of 0 and 1, a row for each pattern; and the patterns' probabilities `chances`.
    """

    def __init__(self, law: Features) -> None:
        n, p = marginal_chances("law", uniform(law)).n_features, np.ascontiguousarray(law.p)
        self.weight = law.importance * law.scale**2
        self.dropped = self.weight * (p / 3.0 - p**2 / 4.0)
        self.order = np.argsort(-p * np.sqrt(self.weight), kind="stable")
        self.grouped = bool(law.groups)
        # the group of each feature, or none, its column there, and the rows of each group
        group, column = np.full(n, _NONE), np.zeros(n, np.int64)
        rows = np.cumsum([0] + [len(chances) for _, _, chances in law.groups])
        patterns = np.zeros((rows[-1], max([0] + [law_group[0].size for law_group in law.groups])), np.int64)
        chances = np.empty(rows[-1])
        for g, (members, table, chance) in enumerate(law.groups):
            group[members], column[members] = g, np.arange(members.size)
            patterns[rows[g] : rows[g + 1], : members.size], chances[rows[g] : rows[g + 1]] = table, chance
        self.table = p, group, column, rows, patterns, chances

    def deal(self, n_exact: int, n_planes: int, keep_groups: bool) -> tuple[IntArray, IntArray]:
        """Return the features of all planes, one plane after the other, and where each plane starts.

        A plane is two hidden dimensions that several features share. Features are sorted by p (importance
        scale²)^(1/2). All but the first `n_exact` are dealt to `n_planes` planes in turn, forwards and
        backwards; if `keep_groups`, groups are dealt as a whole. The last of the starts is the number of
        features dealt.
        """
        rest = self.order[n_exact:]
        unit = np.arange(rest.size)
        if keep_groups:
            group = self.table[1][rest]
            of_group = np.where(group == _NONE, group.size + rest, group)
            _, first, unit = np.unique(of_group, return_index=True, return_inverse=True)
            unit = np.argsort(np.argsort(first))[unit]
        turn, column = np.divmod(unit, n_planes)
        plane = np.where(turn % 2 == 0, column, n_planes - 1 - column)
        by_plane = np.lexsort((turn, plane))
        return rest[by_plane], np.searchsorted(plane[by_plane], np.arange(n_planes + 1))

    def total(self, n_exact: int, n_planes: int) -> tuple[float, IntArray, IntArray]:
        """Return the total loss, the features on planes, plane by plane, and where each plane starts.

        `n_exact` features are exact: each has a hidden dimension of its own, and no loss. The others share
        `n_planes` planes, of two dimensions each; if there are groups, in the better of two assignments. A
        feature is dropped, its output a constant, where that is better. Without planes all of them are
        dropped, and the starts are [0]; otherwise the last of the starts is the number of features on planes.
        """
        if n_planes == 0:
            rest = self.order[n_exact:]
            return float(self.dropped[rest].sum()), rest, np.zeros(1, np.int64)
        candidates = []
        for keep_groups in (True, False) if self.grouped else (False,):
            flat, starts = self.deal(n_exact, n_planes, keep_groups)
            swapped = _SWAPPED if self.grouped else 0
            loss = _total_plane_loss(flat, starts, self.weight, self.dropped, self.table, swapped)
            candidates.append((loss, flat, starts))
        return min(candidates, key=lambda candidate: candidate[0])


def _best_code(law: Features, n_hidden: int) -> tuple[float, IntArray, list[IntArray]]:
    """Return loss per feature, exact features and planes of the best priority code on n_hidden dimensions.

    Exact features have a dimension of their own. A plane is two dimensions that several features share: while
    one of higher priority is on, the outputs of most later ones are 0. Exact features, and those of each
    plane in order of priority, are arrays of indices.
    """
    dealer = _PlaneAssignment(law)
    n, m = law.n_features, validation.integer("n_hidden", n_hidden, 1)
    if m >= n:
        return 0.0, dealer.order, []
    totals: dict[int, tuple[float, IntArray, IntArray]] = {}

    def total(n_exact: int) -> None:
        """Store total loss and planes of the code with `n_exact` features exact, unless they are stored."""
        if n_exact not in totals:
            totals[n_exact] = dealer.total(n_exact, (m - n_exact) // 2)

    counts = np.unique(np.round(m * np.linspace(0.0, 1.0, _SPLITS) ** 2)).astype(int)
    counts = np.unique(counts - (m - counts) % 2)  # no dimension is left over, but one where m is odd and 1
    for n_exact in counts[counts >= 0]:
        total(int(n_exact))
    step = m
    while step > 1:  # neighbours of the best, ever nearer
        step //= 2
        best = min(totals, key=lambda n_exact: totals[n_exact][0])
        for near in (best - 2 * step, best + 2 * step):
            if 0 <= near <= m:
                total(near)
    n_exact = min(totals, key=lambda n_exact: totals[n_exact][0])
    loss, flat, starts = totals[n_exact]
    planes = [flat[start:end] for start, end in pairwise(starts)]
    return loss / n, dealer.order[:n_exact], planes


Table = tuple[FloatArray, IntArray, IntArray, IntArray, IntArray, FloatArray]
Work = tuple[npt.NDArray[np.bool_], FloatArray, IntArray]


@inner
def _let_silence(j: int, count: int, table: Table, work: Work) -> int:
    """Add feature j to those that silence later outputs of its plane; return how many groups silence them.

    While a feature that silences is on, the later outputs are 0. A group silences if one of its features
    does; `count` is the number of such groups before the call. `table` has six arrays: of each feature its
    probability, its group (-1 for none) and its column in the group's patterns; where each group's rows of
    patterns begin; the patterns; and their probabilities. `work`, three arrays, is updated: for each pattern,
    whether a silencing feature is on in it; for each group the probability of these patterns, -1 for a group
    that does not silence, and as last entry the probability that a silencing feature without a group is on;
    and the indices of the groups that silence.
    """
    (p, group, column, rows, patterns, chances), (marked, some_on, silencing) = table, work
    g = group[j]
    if g == _NONE:
        some_on[-1] += (1.0 - some_on[-1]) * p[j]
        return count
    if some_on[g] < 0.0:
        silencing[count] = g
        count += 1
    some_on[g] = 0.0
    for row in range(rows[g], rows[g + 1]):
        if patterns[row, column[j]]:
            marked[row] = True
        if marked[row]:
            some_on[g] += chances[row]
    return count


@inner
def _reset_silence(plane: IntArray, table: Table, work: Work) -> int:
    """Reset `work` so that no feature of `plane` silences later outputs; return 0, the number that do.

    While a feature that silences is on, later outputs are 0. `plane` has the indices of the features that may
    have silenced outputs so far. `table` and `work` are described in `_let_silence`. Flags of patterns are
    set to False, probabilities of groups to -1, and the probability for features without a group to 0.
    """
    (_, group, _, rows, _, _), (marked, some_on, _) = table, work
    for j in plane:
        if group[j] != _NONE:
            marked[rows[group[j]] : rows[group[j] + 1]] = False
            some_on[group[j]] = -1.0
    some_on[-1] = 0.0
    return 0


@inner
def _plane_loss(plane: IntArray, weight: FloatArray, dropped: FloatArray, table: Table, work: Work) -> float:
    """Return the total loss of the features that share one plane, two dimensions, of a priority code.

    `plane` has the indices of these features, the highest priority first: while a feature is on, the outputs
    of most later ones are 0. Of every feature of the law, `weight` has importance times scale², and `dropped`
    the loss if its output is a constant instead, which is used where it is less. `table` describes the law in
    six arrays: of each feature its probability, its group (-1 for none) and its column in the group's
    patterns; where each group's rows of patterns begin; the patterns; and their probabilities. `work`, three
    scratch arrays, is overwritten: a flag for each pattern, a float for each group and one more, and an
    integer for each group.
    """
    (p, group, column, rows, patterns, chances), (marked, some_on, silencing) = table, work
    k, total = plane.size, 0.0
    count = _reset_silence(plane, table, work)
    for i in range(k):
        if i > 1:
            count = _let_silence(plane[i - 2], count, table, work)
        if i > 2 and i == k - 1:  # the last one is orthogonal to the first as well
            count = _reset_silence(plane, table, work)
            for j in plane[1 : i - 1]:
                count = _let_silence(j, count, table, work)
        g, p_target_active, lost, others = group[plane[i]], 0.0, 0.0, some_on[-1]
        if g == _NONE:
            p_target_active = p[plane[i]]
        else:
            for row in range(rows[g], rows[g + 1]):
                if patterns[row, column[plane[i]]]:
                    if marked[row]:
                        lost += chances[row]
                    else:
                        p_target_active += chances[row]
        for member in silencing[:count]:
            if member != g:
                others += (1.0 - others) * some_on[member]
        total += min(weight[plane[i]] * (lost + p_target_active * others) / 3.0, dropped[plane[i]])
    return total


@inner
def _independent_plane_loss(plane: IntArray, weight: FloatArray, dropped: FloatArray, p: FloatArray) -> float:
    """Return the total loss of one plane of independent features, to rounding even for a million of them.

    A plane is two hidden dimensions that the features share; while one of higher priority is on, the outputs
    of most later ones are 0. `plane` has the features' indices in order of priority; `weight` is each
    feature's importance times scale², `dropped` its loss if the output is a constant; p are the
    probabilities.
    """
    k, total, lost = plane.size, 0.0, 0.0
    later, missed = 0.0, 0.0  # chance that one is on that silences output i, but for the first of the plane
    for i in range(2, k):
        if i > 2:
            later_before, later_total = later, (1.0 - later) * p[plane[i - 2]] + missed
            later = later_before + later_total
            missed = later_total - (later - later_before)  # what rounding takes
        # the last one is orthogonal to the first as well
        others = later if i > 2 and i == k - 1 else later + (1.0 - later) * p[plane[0]]
        feature = plane[i]
        later_before, later_total = total, min(weight[feature] * p[feature] * others / 3.0, dropped[feature])
        total = later_before + later_total
        lost += later_total - (total - later_before)
    return total + lost


@kernel
def planes_alike(p: FloatArray, n: FloatArray) -> FloatArray:
    """Return the loss per feature of n[i] features on one plane, for each i; p and n are vectors.

    A plane is two hidden dimensions; while one of the features is on, the outputs of most later ones are 0.
    Each feature is on with probability p[i], and then uniform on [0, 1], with importance 1.
    """
    plane, losses = np.zeros(int(n.max()) if n.size else 0, np.int64), np.empty(p.size)  # all are feature 0
    weight, dropped = np.ones(1), np.full(1, np.inf)
    for k in range(p.size):
        losses[k] = _independent_plane_loss(plane[: int(n[k])], weight, dropped, p[k : k + 1]) / n[k]
    return losses


@kernel
def _total_plane_loss(
    flat: IntArray, starts: IntArray, weight: FloatArray, dropped: FloatArray, table: Table, swapped: int
) -> float:
    """Return the total loss of all planes of a priority code, with an improved order in the smaller ones.

    A plane is two hidden dimensions that several features share, listed by priority: while one of higher
    priority is on, the outputs of most later ones are 0. If there are groups, neighbours in planes of at most
    `swapped` features are swapped, in place, as long as that lowers the loss.

    `flat` lists the features of all planes, those of plane k from starts[k] on; `weight` is each feature's
    importance times scale², `dropped` its loss if the output is a constant. `table` has six arrays: of each
    feature its probability, its group (-1 for none) and its column in the group's patterns; where each
    group's rows of patterns begin; the patterns; and their probabilities.
    """
    _, _, _, rows, _, chances = table
    work = np.empty(chances.size, np.bool_), np.empty(rows.size), np.empty(rows.size, np.int64)
    total = 0.0
    for plane_index in range(starts.size - 1):
        plane = flat[starts[plane_index] : starts[plane_index + 1]]
        if rows.size == 1:
            total += _independent_plane_loss(plane, weight, dropped, table[0])
            continue
        best = _plane_loss(plane, weight, dropped, table, work)
        better = plane.size <= swapped
        while better:
            check_interrupt(True)
            better = False
            for i in range(plane.size - 1):
                plane[i], plane[i + 1] = plane[i + 1], plane[i]
                loss = _plane_loss(plane, weight, dropped, table, work)
                if loss < best * (1.0 - 1e-12):
                    best, better = loss, True
                else:
                    plane[i], plane[i + 1] = plane[i + 1], plane[i]
        total += best
    return total
