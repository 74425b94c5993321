r"""The exact loss of independent features, uniform on [0, 1] or [-1, 1] when on, without a sum over patterns.

Let F_k(y) = max(y, 0)^k / k!, so that F_1 is the ReLU, 2 F_2 its square, and F_k' = F_(k-1). A feature of
weight w that is on with probability p, and then uniform on [l, 1], turns the means U_k(y) of F_k over all
smaller weights into

.. math:: (1 - p)\, U_k(y) + \frac{p}{(1 - l) w} \left( U_{k+1}(y + w) - U_{k+1}(y + l w) \right).

So the mean at y = b is folded out of means at b plus the larger weights: two places for each where l = 0,
three where l = -1. Where no value of the smaller weights reaches the kink at 0, F_k is a polynomial and U_k
is a sum over their moments: most branches end there early. The largest weights are taken first. Then abs(y)
is at most n abs(w) where a kink is in reach, so that the differences lose only a few digits however far the
weights are apart: 2e-15 for outputs of order 1, in random models whose weights differ by eight decades.

Arrays and numbers that several functions share, of one output: `w` and `p`, its n weights in order of rising
size and the probabilities that these features are on; `at`, the place of the target among them; `edge`, l,
the least value of a feature that is on, 0 or -1; `tree`, the `count` nodes of `_build_tree`; `off`, `top`,
`bottom`, the nodes that follow a node where the folded feature is off, is 1, is `edge`; `orders`, how many k
a row of means has. Derivatives are taken backwards: an array X_by has those of the loss with respect to the
entries of X.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from ....theory.compile.kernels import check_interrupt, inner, kernel, non_literal
from ....theory.special.order import ascending
from ....theory.validation import FloatArray
from ..problem import Accuracy, Law, LossProblem, Outputs

__all__ = ["ESTIMATE", "estimated_seconds", "solve", "terms"]

# Smaller weights count as 0, as their powers would underflow; by what the loss may change is in its error.
_NONE = 1e-25

Integers = npt.NDArray[np.int64]
Tree = tuple[FloatArray, Integers, Integers, Integers, Integers]

# Rounding, in units of E (|b| + sum of |w| x)^2 where a feature is on, of b^2 where none is, and of slopes.
_ROUNDING, _ATOM, _SLOPES = 2.0**-47, 2.0**-50, 2.0**-44


@inner
def _term_moments(w: FloatArray, p: FloatArray, edge: float) -> FloatArray:
    """Return E x^m (w x)^r / r! for m = 0, 1, 2, each feature x of weight w, and r < n + 4: (3, n, n + 4).

    A feature is on with probability p and then uniform on [edge, 1], else 0; the entry for m = r = 0 is 1.
    """
    n = w.size
    factors, ends, power = np.empty((3, n, n + 4)), np.empty(n + 6), 1.0
    for k in range(n + 6):  # (k + 1) times the integral of x^k
        power *= edge
        ends[k] = 1.0 - power
    for j in range(n):
        power = p[j] / (1.0 - edge)
        for r in range(n + 4):
            for m in range(3):
                factors[m, j, r] = power * ends[m + r] / (m + r + 1)
            power *= w[j] / (r + 1)
        factors[0, j, 0] = 1.0
    return factors


@inner
def _sum_moments(factors: FloatArray, at: int) -> FloatArray:
    """Return E nu^r/r! and E x nu^r/r!, (2, n + 1, n + 4), of the sum nu of the first l terms w_j x_j.

    Axes 1 and 2 are l, from 0 to n, and r. Terms are in order of rising weight, and x is the target, feature
    `at` in this order; E x nu^r/r! is 0 where it is not among the l. `factors`, (3, n, n + 4), are moments of
    single terms: E x_j^m (w_j x_j)^r/r! at [m, j, r], m = 0, 1, 2.
    """
    _, n, orders = factors.shape
    h = np.zeros((2, n + 1, orders))
    h[0, 0, 0] = 1.0
    for j in range(n):
        for r in range(orders):
            for s in range(r + 1):
                h[0, j + 1, r] += h[0, j, s] * factors[0, j, r - s]
                if j > at:
                    h[1, j + 1, r] += h[1, j, s] * factors[0, j, r - s]
                elif j == at:
                    h[1, j + 1, r] += h[0, j, s] * factors[1, j, r - s]
    return h


@inner
def _build_tree(w: FloatArray, b: float, edge: float, most: int) -> tuple[Tree, int]:
    """Return ((y, level, off, top, bottom), number of nodes) of the tree that averages features one by one.

    Node i is a pre-activation y[i] to which the first level[i] weights are still to be added, times their
    features' values. Node 1 is the root, with y = b and all of `w` ahead. The children take in the last
    weight ahead: off[i] where its feature is off, top[i] where its value is 1, bottom[i] where it is `edge`,
    the least value (the same as off[i] if that is 0). A leaf, positive whatever is ahead, has children -1;
    node 0 stands for all y that cannot become positive. There are at most `most` nodes, parents first.
    """
    n = w.size
    low, high = np.zeros(n + 1), np.zeros(n + 1)
    for j in range(n):
        low[j + 1], high[j + 1] = low[j] + min(w[j], edge * w[j]), high[j] + max(w[j], edge * w[j])
    y, level, children = np.empty(most), np.empty(most, np.int64), np.empty((3, most), np.int64)
    y[1], level[1], count, node = b, n, 2, 1
    while node < count:
        ahead = level[node]
        children[:, node] = -1
        if y[node] + low[ahead] < 0.0:
            for side in range(3):
                if side == 2 and edge == 0.0:
                    children[2, node] = children[0, node]
                    continue
                z = y[node] + (0.0, 1.0, edge)[side] * w[ahead - 1]
                children[side, node] = 0
                if z + high[ahead - 1] >= 0.0:
                    children[side, node], count = count, count + 1
                    y[count - 1], level[count - 1] = z, ahead - 1
        node += 1
    return (y, level, children[0], children[1], children[2]), count


@inner
def _ramp_powers(y: float, F: FloatArray, top: int) -> None:
    """Write y^k/k! for k < top to `F`."""
    F[0] = 1.0
    for k in range(1, top):
        F[k] = F[k - 1] * y / k


@inner
def _fold_row(
    T: FloatArray, node: int, off: int, top: int, bottom: int, c: float, width: float, orders: int
) -> None:
    """Write row `node` of the table T, means of F_k(y) = y_+^k/k! for k < `orders`, from its children's rows.

    The children are the nodes where the folded feature is off (`off`), where its value is 1 (`top`), and
    where it is `edge`, the least one (`bottom`). `c` is the probability that the feature is on, and `width`
    is (1 - edge) times its weight.
    """
    for k in range(orders):
        T[node, k] = (1.0 - c) * T[off, k] + c / width * (T[top, k + 1] - T[bottom, k + 1])


@inner
def _backpropagate_fold(
    T: FloatArray,
    T_by: FloatArray,
    node: int,
    off: int,
    top: int,
    bottom: int,
    c: float,
    v: float,
    edge: float,
    orders: int,
) -> float:
    """Add derivatives through row `node` of T to its children's rows of T_by; return that by the weight v.

    T has a row of means of F_k(y) = y_+^k/k!, k < `orders`, for each node of a tree of pre-activations y, and
    T_by the loss's derivatives by these. The children are the nodes where the folded feature, of weight v, is
    off (`off`), 1 (`top`), and `edge`, the least value (`bottom`); c is the probability that it is on. With s
    = c / (1 - edge) an entry of the row is T_k = (1 - c) T_off,k + s (T_top,k+1 - T_bottom,k+1) / v, and its
    derivative by v is (s (T_top,k - edge T_bottom,k) - (T_k - (1 - c) T_off,k)) / v.
    """
    slope, share = 0.0, c / (1.0 - edge)
    for k in range(orders):
        push = T_by[node, k]
        T_by[off, k] += (1.0 - c) * push
        T_by[bottom, k + 1] -= share / v * push
        T_by[top, k + 1] += share / v * push
        moved = share * (T[top, k] - edge * T[bottom, k])
        slope += push * (moved - T[node, k] + (1.0 - c) * T[off, k]) / v
    return slope


@inner
def _fill_means(
    tree: Tree,
    count: int,
    w: FloatArray,
    p: FloatArray,
    at: int,
    edge: float,
    h: FloatArray,
    U: FloatArray,
    V: FloatArray,
) -> None:
    """Fill U with the means of F_k(y) = y_+^k/k! at all nodes of a tree, V with those of x F_k, x the target.

    `tree` is that of `_build_tree`, with `count` nodes: pre-activations y to which the first l of the n terms
    w_j x_j are still to be added. Row i of U and V, (nodes, n + 4), has the means over these terms for node
    i, column k for F_k. V is set only where x is among the l. h[0, l, r] and h[1, l, r] are E nu^r/r! and E x
    nu^r/r! of the sum nu of the first l terms. w and p are the weights in order of rising size and the
    probabilities that their features are on, `edge` is the least value of one that is on, and x is feature
    `at`.
    """
    y, level, off, top, bottom = tree
    n = w.size
    F = np.empty(n + 4)
    for k in range(n + 4):
        U[0, k] = V[0, k] = 0.0
    for node in range(count - 1, 0, -1):
        ahead = level[node]
        orders = 3 + n - ahead
        if off[node] < 0:
            _ramp_powers(y[node], F, orders)
            for k in range(orders):
                total, times = 0.0, 0.0
                for r in range(k + 1):
                    total += F[k - r] * h[0, ahead, r]
                    times += F[k - r] * h[1, ahead, r]
                U[node, k], V[node, k] = total, times
            continue
        v, c, off_child, top_child, bottom_child = (
            w[ahead - 1],
            p[ahead - 1],
            off[node],
            top[node],
            bottom[node],
        )
        width = (1.0 - edge) * v
        _fold_row(U, node, off_child, top_child, bottom_child, c, width, orders)
        if ahead - 1 > at:
            _fold_row(V, node, off_child, top_child, bottom_child, c, width, orders - 1)
        elif ahead - 1 == at:  # by parts
            for k in range(orders - 1):
                ends = U[top_child, k + 1] - edge * U[bottom_child, k + 1]
                V[node, k] = c / width * (ends - (U[top_child, k + 2] - U[bottom_child, k + 2]) / v)


@inner
def _backpropagate_means(
    tree: Tree,
    count: int,
    w: FloatArray,
    p: FloatArray,
    at: int,
    edge: float,
    work: tuple[FloatArray, ...],
    slope: FloatArray,
    h_by: FloatArray,
) -> None:
    """Add a loss's derivatives by weights to `slope`, by moments to `h_by`, from those by the root's means.

    `work` is (U, V, U_by, V_by), with a row for each node of a tree: U and V as `_fill_means` leaves them,
    means of F_k(y) = y_+^k/k! and of x F_k for the target x; U_by and V_by for the loss's derivatives by
    these, of which only row 1, the root's, is set before. `tree`, with `count` nodes, is that of
    `_build_tree`. `slope` is (n,). `h_by`, (2, n + 1, n + 4), is for derivatives by the moments E nu^r/r! and
    E x nu^r/r! of the sum nu of the first l terms w_j x_j, at [0, l, r] and [1, l, r]. w and p are the
    weights in order of rising size and the probabilities that their features are on, `edge` is the least
    value of one that is on, and x is feature `at`.
    """
    y, level, off, top, bottom = tree
    U, V, U_by, V_by = work
    n = w.size
    F = np.empty(n + 4)
    for node in range(1, count):
        ahead = level[node]
        orders = 3 + n - ahead
        if off[node] < 0:
            _ramp_powers(y[node], F, orders)
            for k in range(orders):
                for r in range(k + 1):
                    h_by[0, ahead, r] += U_by[node, k] * F[k - r]
                    h_by[1, ahead, r] += V_by[node, k] * F[k - r]
            continue
        v, c, off_child, top_child, bottom_child = (
            w[ahead - 1],
            p[ahead - 1],
            off[node],
            top[node],
            bottom[node],
        )
        for child in (off_child, top_child, bottom_child):
            for k in range(orders + 1):
                U_by[child, k] = V_by[child, k] = 0.0
        slope[ahead - 1] += _backpropagate_fold(
            U, U_by, node, off_child, top_child, bottom_child, c, v, edge, orders
        )
        if ahead - 1 > at:
            slope[ahead - 1] += _backpropagate_fold(
                V, V_by, node, off_child, top_child, bottom_child, c, v, edge, orders - 1
            )
        elif ahead - 1 == at:
            share = c / (1.0 - edge)
            for k in range(orders - 1):
                push = V_by[node, k]
                U_by[top_child, k + 1] += share / v * push
                U_by[bottom_child, k + 1] -= edge * share / v * push
                U_by[top_child, k + 2] -= share / v / v * push
                U_by[bottom_child, k + 2] += share / v / v * push
                ends = share * (U[top_child, k] - edge * edge * U[bottom_child, k])
                slope[at] += push * (ends - 2.0 * V[node, k]) / v


@inner
def _backpropagate_moments(
    factors: FloatArray, at: int, h: FloatArray, h_by: FloatArray, slope: FloatArray
) -> None:
    """Add a loss's derivatives by weights, through the moments h, to `slope` (n,), from those by h in `h_by`.

    h, (2, n + 1, n + 4), has E nu^r/r! and E x nu^r/r!, at [0, l, r] and [1, l, r], of the sum nu of the
    first l terms w_j x_j in order of rising weight; x is the target, feature `at` in this order. `h_by`, of
    the same shape, is overwritten. `factors`, (3, n, n + 4), are moments of single terms: E x_j^m (w_j
    x_j)^r/r! at [m, j, r].
    """
    _, n, orders = factors.shape
    for j in range(n - 1, -1, -1):
        for t in range(orders):
            push, times = 0.0, 0.0
            for s in range(orders - t):
                by, by_times = h_by[0, j + 1, s + t], h_by[1, j + 1, s + t]
                push += by * h[0, j, s]
                h_by[0, j, s] += by * factors[0, j, t]
                if j > at:
                    push += by_times * h[1, j, s]
                    h_by[1, j, s] += by_times * factors[0, j, t]
                elif j == at:
                    times += by_times * h[0, j, s]
                    h_by[0, j, s] += by_times * factors[1, j, t]
            if t > 0:  # the derivatives of the factors have one more x
                slope[j] += push * factors[1, j, t - 1] + times * factors[2, j, t - 1]


@inner
def _row_loss(
    row: FloatArray,
    i: int,
    b: float,
    chances: FloatArray,
    edge: float,
    slopes: bool,
    work: tuple[FloatArray, ...],
    by: FloatArray,
) -> tuple[float, float]:
    """Return (E (x_i - R)^2 - E x_i^2, its derivative by b) of the output R = ReLU(row . x + b).

    Its target is feature i. Feature j is on with probability chances[j] and then uniform on [edge, 1]. With
    `slopes` the derivatives by the row are written to `by`. `work` has four scratch arrays with a row for
    each node of the tree (`_build_tree`): two for means at the nodes; two for derivatives by these, unused
    without `slopes`.
    """
    n = row.size
    w, sizes, p, at, most = np.empty(n), np.empty(n), np.empty(n), non_literal(0), 0.0
    for j in range(n):
        sizes[j] = abs(row[j]) if abs(row[j]) > _NONE and chances[j] > 0.0 else 0.0
    order = ascending(sizes)
    for j in range(n):
        w[j], p[j] = row[order[j]] if sizes[order[j]] > 0.0 else 0.0, chances[order[j]]
        most += max(w[j], edge * w[j])
        if order[j] == i:
            at = j
    if b + most < 0.0:  # never positive: the tree has no root
        for j in range(n):
            by[j] = 0.0
        return 0.0, 0.0
    factors = _term_moments(w, p, edge)
    h = _sum_moments(factors, at)
    U, V, U_by, V_by = work
    tree, count = _build_tree(w, b, edge, U.shape[0])
    _fill_means(tree, count, w, p, at, edge, h, U, V)
    if slopes:
        for k in range(n + 4):
            U_by[1, k] = V_by[1, k] = 0.0
        U_by[1, 2], V_by[1, 1] = 2.0, -2.0
        slope, h_by = np.zeros(n), np.zeros(h.shape)
        _backpropagate_means(tree, count, w, p, at, edge, work, slope, h_by)
        _backpropagate_moments(factors, at, h, h_by, slope)
        for j in range(n):
            by[order[j]] = slope[j]
    return 2.0 * U[1, 2] - 2.0 * V[1, 1], 2.0 * U[1, 1] - 2.0 * V[1, 0]


@kernel
def _rows_by_folds(
    M: FloatArray,
    features: Integers,
    b: FloatArray,
    chances: FloatArray,
    edge: float,
    nodes: int,
    slopes: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return losses, their errors, derivatives by rows and biases, and their errors, as in `Outputs`.

    Output k is ReLU(M_k . x + b_k) and its target feature features[k]. Feature j is on with probability
    chances[j] and then uniform on [edge, 1]. `nodes` is the largest number of pre-activations that the
    recursion over an output's features visits (`terms`). Without `slopes` derivatives by rows are not set.
    """
    count, n = M.shape
    losses, errors, by_M, by_b = np.empty(count), np.empty(count), np.empty((count, n)), np.empty(count)
    slope_errors = np.empty(count)
    orders = n + 4
    back = nodes if slopes else 1
    work = (
        np.empty((nodes, orders)),
        np.empty((nodes, orders)),
        np.empty((back, orders)),
        np.empty((back, orders)),
    )
    p_any = 0.0
    for chance in chances:
        p_any += chance
    p_any = min(p_any, 1.0)  # bounds the probability that any feature is on
    for k in range(count):
        check_interrupt(n > 8)
        p_target_active = chances[features[k]]
        row_loss, by_b[k] = _row_loss(M[k], features[k], b[k], chances, edge, slopes, work, by_M[k])
        losses[k] = p_target_active / 3.0 + row_loss
        mean, variance, ramp, tiny_mean, tiny_square = 0.0, 0.0, max(b[k], 0.0), 0.0, 0.0
        for j in range(n):
            if abs(M[k, j]) <= _NONE:
                tiny_mean += 0.5 * chances[j] * abs(M[k, j])
                tiny_square += chances[j] * M[k, j] * M[k, j] / 3.0
            ramp += 0.5 * chances[j] * max(M[k, j], edge * M[k, j])
            mean += 0.5 * chances[j] * abs(M[k, j])
            variance += chances[j] * M[k, j] * M[k, j] / 3.0
        on = p_any * b[k] * b[k] + 2.0 * abs(b[k]) * mean + mean * mean + variance + p_target_active / 3.0
        errors[k] = _ROUNDING * on + _ATOM * max(b[k], 0.0) ** 2
        # |E (e + d)^2 - E e^2| <= 2 (E e^2 E d^2)^(1/2) + E d^2 with the sum d of terms that count as 0
        tiny_square += tiny_mean * tiny_mean
        errors[k] += 2.0 * np.sqrt(max(losses[k], 0.0) * tiny_square) + tiny_square
        slope_errors[k] = 2.0 * _SLOPES * (ramp + p_target_active)
    return losses, errors, by_M, by_b, slope_errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = (
    "heuristic: rounding in units of E (|b| + sum of |w| x)^2, never exceeded in tests by exact arithmetic"
)

# Features up to which its tables are small, by the sides of their values: 40 MB at most for 16 on [0, 1];
# 13 on [-1, 1] took 190 MB with equal weights, whose branches end late, and 13 MB with random ones.
MOST = {1: 16, 2: 13}
# Nodes up to which there are derivatives, which double the tables and take three times as long.
MOST_NODES_WITH_SLOPES = 2.0**19
# Seconds for each node of the tree of an output, with the share that is never made; with derivatives.
SECONDS_PER_NODE = 4.6e-9
SECONDS_PER_NODE_WITH_SLOPES = 1.2e-8
# Features on [-1, 1] from which nodes are counted: equal weights have 20 times as many as others.
COUNTED_FROM = 10
# Seconds for each node that is made; with derivatives.
SECONDS_PER_COUNTED = 1e-7
SECONDS_PER_COUNTED_WITH_SLOPES = 2.7e-7


def terms(law: Law) -> float:
    """Return the most nodes that an output's tree may have; inf for values that are not uniform.

    A node is a pre-activation. Features are averaged over one by one: each turns a node into two, or three
    for values of both signs. One more node stands for outputs of 0.
    """
    sides = law.values.sides
    if sides < 1:  # no values that it covers
        return np.inf
    return float(((sides + 1.0) ** min(law.n + 1, 99) - 1.0) / sides + 1.0)


def count_nodes(problem: LossProblem) -> float:
    """Return an estimate of the mean number of nodes of an output's tree, for values on [-1, 1].

    Features are averaged over one by one, largest weight first. Each turns a node, a pre-activation, into
    three (feature off, value 1, value -1), unless the smaller weights that follow cannot reach the kink from
    there. The share of nodes from which they can is estimated as if pre-activations were normal.
    """
    sizes = -np.sort(-np.abs(problem.weights), axis=1)
    ahead = np.cumsum(sizes[:, ::-1], axis=1)[:, ::-1]
    previous = np.zeros(sizes.shape)
    previous[:, 1:] = np.cumsum(sizes[:, :-1] ** 2, axis=1)
    spread = np.sqrt(2.0 / 3.0 * previous) + 1e-300
    b = problem.biases[:, np.newaxis]
    with np.errstate(over="ignore"):
        shares = ndtr((ahead - b) / spread) - ndtr((-ahead - b) / spread)
    return float(np.mean(shares @ 3.0 ** np.arange(1, sizes.shape[1] + 1)))


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for outputs with random weights."""
    law = problem.law
    if law.values.sides == 2 and law.n >= COUNTED_FROM:
        return (SECONDS_PER_COUNTED_WITH_SLOPES if gradient else SECONDS_PER_COUNTED) * count_nodes(problem)
    return (SECONDS_PER_NODE_WITH_SLOPES if gradient else SECONDS_PER_NODE) * terms(law)


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem, by taking the mean over one feature after the other in closed form.

    Derivatives are set if `gradient`; `accuracy` makes no difference.
    """
    law = problem.law
    edge = 1.0 - law.values.sides  # the least value: 0 of uniform ones, -1 of symmetric ones
    arrays = problem.weights, problem.target, problem.biases
    return Outputs(*_rows_by_folds(*arrays, law.p, edge, int(terms(law)), gradient))
