r"""The exact loss of features that are on independently and uniform, without a sum over all patterns.

Let F_k(y) = max(y, 0)^k / k!, so that F_1 is the ReLU, 2 F_2 its square, and F_k' = F_(k-1). A feature of
weight w that is on with probability p turns the means U_k(y) of F_k over all smaller weights into

.. math:: (1 - p)\, U_k(y) + \frac{p}{w} \left( U_{k+1}(y + w) - U_{k+1}(y) \right).

So the mean at y = b is folded out of means at b plus the larger weights. Where no value of the smaller
weights reaches the kink at 0, F_k is a polynomial and U_k is a sum over their moments: most branches end
there early. The largest weights are taken first. Then abs(y) is at most n abs(w) where a kink is in reach, so
that the differences lose only a few digits however far the weights are apart: 2e-15 for outputs of order 1,
in random models whose weights differ by eight decades.
"""

import numpy as np
import numpy.typing as npt

from ....theory.arguments import FloatArray
from ....theory.kernels import check_interrupt, inner, kernel, plain
from ....theory.special.order import ascending
from .outputs import Ask, BoolArray, Law, Outputs, Rows

__all__ = ["ESTIMATE", "covers", "estimated_seconds", "solve", "terms"]

# Smaller weights count as 0: they move the output by less than rounding, and their powers would underflow.
_NONE = 1e-25

Integers = npt.NDArray[np.int64]
Tree = tuple[FloatArray, Integers, Integers, Integers]

# Rounding, in units of E (|b| + sum of |w| x)^2 where a feature is on, of b^2 where none is, and of slopes.
_ROUNDING, _ATOM, _SLOPES = 2.0**-47, 2.0**-50, 2.0**-44


@inner
def _factors(w: FloatArray, p: FloatArray) -> FloatArray:
    """Return p w^r / (r + 1)!, but 1 for r = 0, and p w^r / (r! (r + 2)): moments, and with the value."""
    n = w.size
    found = np.empty((2, n, n + 4))
    for j in range(n):
        power = p[j]
        for r in range(n + 4):
            found[0, j, r] = power / (r + 1) if r else 1.0
            found[1, j, r] = power / (r + 2)
            power *= w[j] / (r + 1)
    return found


@inner
def _moments(factors: FloatArray, at: int) -> FloatArray:
    """Return the moments over factorials of the sum of the l smallest weights, and those times the target."""
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
def _grown(w: FloatArray, b: float, most: int) -> tuple[Tree, int]:
    """Return the places y, the weights still ahead, and the children of all nodes, parents first.

    Node 1 is the root, node 0 stands for all that cannot be positive; a leaf's children are -1.
    """
    n = w.size
    low, high = np.zeros(n + 1), np.zeros(n + 1)
    for j in range(n):
        low[j + 1], high[j + 1] = low[j] + min(w[j], 0.0), high[j] + max(w[j], 0.0)
    y, level = np.empty(most), np.empty(most, np.int64)
    out, into = np.empty(most, np.int64), np.empty(most, np.int64)
    y[1], level[1], count, node = b, n, 2, 1
    while node < count:
        ahead = level[node]
        out[node] = into[node] = -1
        if y[node] + low[ahead] < 0.0:
            for side in range(2):
                z, child = y[node] + side * w[ahead - 1], 0
                if z + high[ahead - 1] >= 0.0:
                    child, count = count, count + 1
                    y[child], level[child] = z, ahead - 1
                if side:
                    into[node] = child
                else:
                    out[node] = child
        node += 1
    return (y, level, out, into), count


@inner
def _powers(y: float, F: FloatArray, top: int) -> None:
    F[0] = 1.0
    for k in range(1, top):
        F[k] = F[k - 1] * y / k


@inner
def _fold(T: FloatArray, node: int, one: int, two: int, c: float, v: float, top: int) -> None:
    """Fold a table's rows of both children, `one` off and `two` on, to that of their parent."""
    for k in range(top):
        T[node, k] = (1.0 - c) * T[one, k] + c / v * (T[two, k + 1] - T[one, k + 1])


@inner
def _unfold(
    T: FloatArray, T_by: FloatArray, node: int, one: int, two: int, c: float, v: float, top: int
) -> float:
    """Hand the derivatives by a parent's row to its children; return the one by the weight v."""
    slope = 0.0
    for k in range(top):
        push = T_by[node, k]
        T_by[one, k] += (1.0 - c) * push
        T_by[one, k + 1] -= c / v * push
        T_by[two, k + 1] += c / v * push
        slope += push * (c * T[two, k] - T[node, k] + (1.0 - c) * T[one, k]) / v
    return slope


@inner
def _up(
    tree: Tree, count: int, w: FloatArray, p: FloatArray, at: int, h: FloatArray, U: FloatArray, V: FloatArray
) -> None:
    """Fill the means: U of F_k, V of the target's value times F_k, where the target is among those ahead."""
    y, level, out, into = tree
    n = w.size
    F = np.empty(n + 4)
    for k in range(n + 4):
        U[0, k] = V[0, k] = 0.0
    for node in range(count - 1, 0, -1):
        ahead = level[node]
        top = 3 + n - ahead
        if out[node] < 0:
            _powers(y[node], F, top)
            for k in range(top):
                total, times = 0.0, 0.0
                for r in range(k + 1):
                    total += F[k - r] * h[0, ahead, r]
                    times += F[k - r] * h[1, ahead, r]
                U[node, k], V[node, k] = total, times
            continue
        v, c, one, two = w[ahead - 1], p[ahead - 1], out[node], into[node]
        _fold(U, node, one, two, c, v, top)
        if ahead - 1 > at:
            _fold(V, node, one, two, c, v, top - 1)
        elif ahead - 1 == at:
            for k in range(top - 1):
                V[node, k] = c / v * (U[two, k + 1] - (U[two, k + 2] - U[one, k + 2]) / v)


@inner
def _down(
    tree: Tree,
    count: int,
    w: FloatArray,
    p: FloatArray,
    at: int,
    work: tuple[FloatArray, ...],
    slope: FloatArray,
    h_by: FloatArray,
) -> None:
    """Go from the derivatives of the result by the root's means to those by weights and moments."""
    y, level, out, into = tree
    U, V, U_by, V_by = work
    n = w.size
    F = np.empty(n + 4)
    for node in range(1, count):
        ahead = level[node]
        top = 3 + n - ahead
        if out[node] < 0:
            _powers(y[node], F, top)
            for k in range(top):
                for r in range(k + 1):
                    h_by[0, ahead, r] += U_by[node, k] * F[k - r]
                    h_by[1, ahead, r] += V_by[node, k] * F[k - r]
            continue
        v, c, one, two = w[ahead - 1], p[ahead - 1], out[node], into[node]
        for child in (one, two):
            for k in range(top + 1):
                U_by[child, k] = V_by[child, k] = 0.0
        slope[ahead - 1] += _unfold(U, U_by, node, one, two, c, v, top)
        if ahead - 1 > at:
            slope[ahead - 1] += _unfold(V, V_by, node, one, two, c, v, top - 1)
        elif ahead - 1 == at:
            for k in range(top - 1):
                push = V_by[node, k]
                U_by[two, k + 1] += c / v * push
                U_by[two, k + 2] -= c / v / v * push
                U_by[one, k + 2] += c / v / v * push
                slope[at] += push * (c * U[two, k] - 2.0 * V[node, k]) / v


@inner
def _moments_down(
    factors: FloatArray, p: FloatArray, at: int, h: FloatArray, h_by: FloatArray, slope: FloatArray
) -> None:
    """Go from the derivatives by moments to those by weights; `h_by` is overwritten."""
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
            if t > 0:  # the derivatives of the factors, from those of one order less
                slope[j] += push * (factors[0, j, t - 1] if t > 1 else p[j]) * t / (t + 1)
                slope[j] += times * factors[1, j, t - 1] * (t + 1) / (t + 2)


@inner
def _row(
    row: FloatArray,
    i: int,
    b: float,
    chances: FloatArray,
    slopes: bool,
    work: tuple[FloatArray, ...],
    by: FloatArray,
) -> tuple[float, float]:
    """Return E R^2 - 2 E x_i R for the output R, its derivative by b; with `slopes` write those by row."""
    n = row.size
    w, p, at, most = np.empty(n), np.empty(n), plain(0), 0.0
    for j in range(n):
        w[j] = abs(row[j])
    order = ascending(w)
    for j in range(n):
        w[j], p[j] = row[order[j]] if abs(row[order[j]]) > _NONE else 0.0, chances[order[j]]
        most += max(w[j], 0.0)
        if order[j] == i:
            at = j
    if b + most < 0.0:  # never positive: the tree has no root
        for j in range(n):
            by[j] = 0.0
        return 0.0, 0.0
    factors = _factors(w, p)
    h = _moments(factors, at)
    U, V, U_by, V_by = work
    tree, count = _grown(w, b, U.shape[0])
    _up(tree, count, w, p, at, h, U, V)
    if slopes:
        for k in range(n + 4):
            U_by[1, k] = V_by[1, k] = 0.0
        U_by[1, 2], V_by[1, 1] = 2.0, -2.0
        slope, h_by = np.zeros(n), np.zeros(h.shape)
        _down(tree, count, w, p, at, work, slope, h_by)
        _moments_down(factors, p, at, h, h_by, slope)
        for j in range(n):
            by[order[j]] = slope[j]
    return 2.0 * U[1, 2] - 2.0 * V[1, 1], 2.0 * U[1, 1] - 2.0 * V[1, 0]


@kernel
def _by_folds(
    M: FloatArray, features: Integers, b: FloatArray, chances: FloatArray, slopes: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    count, n = M.shape
    losses, errors, by_M, by_b = np.empty(count), np.empty(count), np.empty((count, n)), np.empty(count)
    slope_errors = np.empty(count)
    nodes, orders = 2 ** (n + 1), n + 4
    back = nodes if slopes else 1
    work = (
        np.empty((nodes, orders)),
        np.empty((nodes, orders)),
        np.empty((back, orders)),
        np.empty((back, orders)),
    )
    some = 0.0
    for chance in chances:
        some += chance
    some = min(some, 1.0)  # bounds the probability that any feature is on
    for k in range(count):
        check_interrupt(n > 8)
        own = chances[features[k]]
        found, by_b[k] = _row(M[k], features[k], b[k], chances, slopes, work, by_M[k])
        losses[k] = own / 3.0 + found
        mean, variance, ramp = 0.0, 0.0, max(b[k], 0.0)
        for j in range(n):
            ramp += 0.5 * chances[j] * max(M[k, j], 0.0)
            mean += 0.5 * chances[j] * abs(M[k, j])
            variance += chances[j] * M[k, j] * M[k, j] / 3.0
        on = some * b[k] * b[k] + 2.0 * abs(b[k]) * mean + mean * mean + variance + own / 3.0
        errors[k] = _ROUNDING * on + _ATOM * max(b[k], 0.0) ** 2
        slope_errors[k] = 2.0 * _SLOPES * (ramp + own)
    return losses, errors, by_M, by_b, slope_errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = (
    "heuristic: rounding in units of E (|b| + sum of |w| x)^2, never exceeded in tests by exact arithmetic"
)

# Features up to which the tables of its tree, some 40 MB, are small.
MOST = 16


def covers(rows: Rows, law: Law) -> BoolArray:
    """Return which outputs it can do: all with a ReLU, of few independent uniform features."""
    few = law.n <= MOST and "classes" not in law.kept
    return np.full(rows.b.size, few and rows.relu and law.independent and law.values.uniform)


def terms(law: Law) -> float:
    """Return the number of nodes of an output's tree, at most."""
    return float(2.0 ** (law.n + 1))


def estimated_seconds(rows: Rows, law: Law, ask: Ask) -> float:
    """Return the seconds that an output takes: measured, for random weights; most branches end early."""
    return float((2e-4 if ask.slopes else 1.5e-4) * 2.0 ** (law.n - 14))


def solve(rows: Rows, law: Law, ask: Ask) -> Outputs:
    """Return the folded means."""
    return Outputs(*_by_folds(rows.M, rows.features, rows.b, law.p, ask.slopes))
