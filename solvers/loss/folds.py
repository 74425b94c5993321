r"""The exact loss of features that are on independently and uniform, without a sum over all patterns.

Let F_k(y) = max(y, 0)^k / k!, so that F_1 is the ReLU, 2 F_2 its square, and F_k' = F_(k-1). A feature of
weight w that is on with probability p turns the means U_k(y) of F_k over all smaller weights into

.. math:: (1 - p)\, U_k(y) + \frac{p}{w} \left( U_{k+1}(y + w) - U_{k+1}(y) \right).

So the mean at y = b is folded out of means at b plus the larger weights. Where no value of the smaller weights
reaches the kink at 0, F_k is a polynomial and U_k is a sum over their moments: most branches end there early.
Weights are taken by size, the largest first. Then abs(y) is at most n abs(w) where a kink is in reach, so that the
differences lose only a few digits however far the weights are apart.
"""

import numpy as np

from ...theory.arguments import FloatArray
from ...theory.kernels import kernel

__all__ = ["by_folds", "workspace"]

# Smaller weights count as 0: they move the output by less than any rounding, and their powers would underflow.
_NONE = 1e-25


def workspace(n: int) -> tuple[FloatArray, ...]:
    """Return the tables of one output, for `by_folds` to overwrite."""
    nodes, orders = 2 ** (n + 1), n + 4
    return tuple(np.empty((nodes, orders)) for _ in range(4))


@kernel
def _row(
    row: FloatArray, i: int, b: float, chances: FloatArray, work: tuple[FloatArray, ...], by: FloatArray
) -> tuple[float, float]:
    """Return E R^2 - 2 E x_i R for the output R, its derivative by b; write those by the row to `by`."""
    n = row.size
    U, V, U_by, V_by = work  # V_k is the mean of x_i F_k; the derivatives of the result by both
    order = np.argsort(np.abs(row))
    w, p, at = np.empty(n), chances[order], 0
    for j in range(n):
        w[j] = row[order[j]] if abs(row[order[j]]) > _NONE else 0.0
        if order[j] == i:
            at = j
    # Over the l smallest weights: the reach of their sum, its moments over factorials, and those times x_i.
    low, high = np.zeros(n + 1), np.zeros(n + 1)
    orders = n + 4
    h, hx, factor = np.zeros((n + 1, orders)), np.zeros((n + 1, orders)), np.zeros((2, n, orders))
    h[0, 0] = 1.0
    for j in range(n):
        low[j + 1], high[j + 1] = low[j] + min(w[j], 0.0), high[j] + max(w[j], 0.0)
        power = p[j]
        for r in range(orders):  # p w^r / (r + 1)! and p w^r / (r! (r + 2))
            factor[0, j, r] = power / (r + 1) if r else 1.0
            factor[1, j, r] = power / (r + 2)
            power *= w[j] / (r + 1)
        for r in range(orders):
            for s in range(r + 1):
                h[j + 1, r] += h[j, s] * factor[0, j, r - s]
                if j > at:
                    hx[j + 1, r] += hx[j, s] * factor[0, j, r - s]
                elif j == at:
                    hx[j + 1, r] += h[j, s] * factor[1, j, r - s]
    # The tree. Node 0 stands for all that cannot be positive; a node of level l has the l smallest weights ahead.
    most = U.shape[0]
    y, level = np.empty(most), np.empty(most, np.int64)
    out, into = np.empty(most, np.int64), np.empty(most, np.int64)
    U[0, :] = 0.0
    V[0, :] = 0.0
    y[1], level[1], count = b, n, 2
    node = 1
    while node < count:
        l = level[node]
        out[node] = into[node] = -1
        if y[node] + low[l] < 0.0:
            for side in range(2):
                z = y[node] + side * w[l - 1]
                child = 0
                if z + high[l - 1] >= 0.0:
                    child, count = count, count + 1
                    y[child], level[child] = z, l - 1
                if side:
                    into[node] = child
                else:
                    out[node] = child
        node += 1
    F = np.empty(orders)
    for node in range(count - 1, 0, -1):
        l = level[node]
        top = 2 + n - l
        if out[node] < 0:
            F[0] = 1.0
            for k in range(1, top + 1):
                F[k] = F[k - 1] * y[node] / k
            for k in range(top + 1):
                total, totalx = 0.0, 0.0
                for r in range(k + 1):
                    total += F[k - r] * h[l, r]
                    totalx += F[k - r] * hx[l, r]
                U[node, k], V[node, k] = total, totalx
            continue
        v, c, one, two = w[l - 1], p[l - 1], out[node], into[node]
        for k in range(top + 1):
            U[node, k] = (1.0 - c) * U[one, k] + c / v * (U[two, k + 1] - U[one, k + 1])
        for k in range(top):
            if l - 1 > at:
                V[node, k] = (1.0 - c) * V[one, k] + c / v * (V[two, k + 1] - V[one, k + 1])
            elif l - 1 == at:
                V[node, k] = c / v * (U[two, k + 1] - (U[two, k + 2] - U[one, k + 2]) / v)
    # Backwards: how the result depends on each mean, and through the folds and moments on the weights.
    U_by[1, :] = 0.0
    V_by[1, :] = 0.0
    U_by[1, 2], V_by[1, 1] = 2.0, -2.0
    slope, h_by, hx_by = np.zeros(n), np.zeros((n + 1, orders)), np.zeros((n + 1, orders))
    for node in range(1, count):
        l = level[node]
        top = 2 + n - l
        if out[node] < 0:
            F[0] = 1.0
            for k in range(1, top + 1):
                F[k] = F[k - 1] * y[node] / k
            for k in range(top + 1):
                for r in range(k + 1):
                    h_by[l, r] += U_by[node, k] * F[k - r]
            if l > at:
                for k in range(top):
                    for r in range(k + 1):
                        hx_by[l, r] += V_by[node, k] * F[k - r]
            continue
        v, c, one, two = w[l - 1], p[l - 1], out[node], into[node]
        for child in (one, two):
            U_by[child, : top + 2] = 0.0
            V_by[child, : top + 2] = 0.0
        for k in range(top + 1):
            push = U_by[node, k]
            U_by[one, k] += (1.0 - c) * push
            U_by[one, k + 1] -= c / v * push
            U_by[two, k + 1] += c / v * push
            slope[l - 1] += push * (c * U[two, k] - U[node, k] + (1.0 - c) * U[one, k]) / v
        if l - 1 < at:
            continue
        for k in range(top):
            push = V_by[node, k]
            if l - 1 > at:
                V_by[one, k] += (1.0 - c) * push
                V_by[one, k + 1] -= c / v * push
                V_by[two, k + 1] += c / v * push
                slope[l - 1] += push * (c * V[two, k] - V[node, k] + (1.0 - c) * V[one, k]) / v
            else:
                U_by[two, k + 1] += c / v * push
                U_by[two, k + 2] -= c / v / v * push
                U_by[one, k + 2] += c / v / v * push
                slope[l - 1] += push * (c * U[two, k] - 2.0 * V[node, k]) / v
    for j in range(n - 1, -1, -1):
        for t in range(orders):
            push, pushx = 0.0, 0.0
            for s in range(orders - t):
                push += h_by[j + 1, s + t] * h[j, s]
                h_by[j, s] += h_by[j + 1, s + t] * factor[0, j, t]
                if j > at:
                    push += hx_by[j + 1, s + t] * hx[j, s]
                    hx_by[j, s] += hx_by[j + 1, s + t] * factor[0, j, t]
                elif j == at:
                    pushx += hx_by[j + 1, s + t] * h[j, s]
                    h_by[j, s] += hx_by[j + 1, s + t] * factor[1, j, t]
            if t > 0:  # the derivatives of p w^t / (t + 1)! and of p w^t / (t! (t + 2)), from the entries before
                slope[j] += push * (factor[0, j, t - 1] if t > 1 else p[j]) * t / (t + 1)
                slope[j] += pushx * factor[1, j, t - 1] * (t + 1) / (t + 2)
    for j in range(n):
        by[order[j]] = slope[j]
    return 2.0 * U[1, 2] - 2.0 * V[1, 1], 2.0 * U[1, 1] - 2.0 * V[1, 0]


@kernel
def by_folds(
    M: FloatArray, b: FloatArray, chances: FloatArray, work: tuple[FloatArray, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the losses of all outputs, and the derivatives by the rows and the biases, for values on [0, 1]."""
    n = b.size
    losses, by_M, by_b = np.empty(n), np.empty((n, n)), np.empty(n)
    for i in range(n):
        found, by_b[i] = _row(M[i], i, b[i], chances, work, by_M[i])
        losses[i] = chances[i] / 3.0 + found
    return losses, by_M, by_b
