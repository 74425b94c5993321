"""Kernels of the integration in the threshold: sums over sorted weights, steps, times.

`v` are the sorted absolute weights, none of them zero; a place of the threshold c is given as the index i of
the first weight above it and the `gap` to that weight, which keeps its own precision where weights nearly
tie. The weights left are A (v - c), or (v - c)/g.

Arrays and numbers that several functions share: `blocks`, sums of `block_sums`; `lam`, the l1 force; `top`,
the index of the first of the largest weights, at which the integration ends; `table`, the steps of
`integrate_threshold`, of which k is one; q, (5,), the sums of (v - c)^2 at the nodes of a step.
"""

import math

import numpy as np

from ...theory.compile.kernels import check_interrupt, inner, kernel, non_literal
from ...theory.validation import FloatArray, IntArray

__all__ = [
    "N_COLUMNS", "START", "TIME", "block_sums", "drop_times", "integrate_threshold", "norms", "states",
    "sums_above_threshold",
]  # fmt: skip


_STAGES = 5
# What a step may do to t, relative: by the kinks of Q inside it (a bound), by the truncated polynomial (an
# estimate). Runs with both near rounding take a few times longer and differ by 1e-13.
_KINK_TOLERANCE = 2e-11
_STEP_TOLERANCE = 1e-11
# Largest error of interpolating (tau - x)_+^2 on [0, 1] at 0 and the 5 nodes, over x and tau (0.00556, found
# on a grid): what one weight inside a step of width h contributes to Q's error is at most this times h^2.
_KINK = 0.0056
# Steps over many weights compute with c itself; they need c's rounding to be small beside the weights left.
_RESOLUTION = 2e-5
_SHORTEST = 1e-280  # a step as short as this means that lam and the weights are out of all proportion
_BLOCK = 64  # weights a block: 16 bytes of sums for each 512 of weights
START, _WIDTH, TIME, _GAP, _FIRST, _RATE, _POLY = range(7)  # columns of the table of steps
N_COLUMNS = _POLY + _STAGES + 1


def _radau(stages: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (nodes in (0, 1], matrix, fit) of the collocation method Radau IIA with s = `stages` nodes.

    The matrix is (s, s). `fit`, (s + 1, s + 1), maps values at 0 and at the nodes to the coefficients of the
    polynomial through them, lowest power first.
    """
    series = np.zeros(stages + 1)
    series[-2:] = -1, 1  # the nodes are the zeros of P_s - P_(s-1)
    nodes = (np.sort(np.polynomial.legendre.legroots(series).real) + 1) / 2
    nodes[-1] = 1
    powers = np.arange(1, stages + 1)
    matrix = nodes[:, None] ** powers / powers @ np.linalg.inv(np.vander(nodes, increasing=True))
    return nodes, matrix, np.linalg.inv(np.vander(np.append(0, nodes), increasing=True))


_NODES, _MATRIX, _FIT = _radau(_STAGES)


@kernel
def block_sums(v: FloatArray) -> FloatArray:
    """Return a row (sum of v - v_k, sum of (v - v_k)^2) over v[k:] for each k = 0, 64, 128, ...

    v ascends, so that no term is negative.
    """
    totals = np.empty(((v.size + _BLOCK - 1) // _BLOCK, 2))
    for j in range(totals.shape[0] - 1, -1, -1):
        first, end = j * _BLOCK, min(v.size, (j + 1) * _BLOCK)
        norm_1 = norm_2 = 0.0
        for i in range(first + 1, end):
            e = v[i] - v[first]
            norm_1 += e
            norm_2 += e * e
        if end < v.size:
            gap, n = v[end] - v[first], v.size - end
            norm_2 += totals[j + 1, 1] + gap * (2 * totals[j + 1, 0] + n * gap)
            norm_1 += totals[j + 1, 0] + n * gap
        totals[j, 0] = norm_1
        totals[j, 1] = norm_2
    return totals


@kernel
def sums_above_threshold(v: FloatArray, blocks: FloatArray, i: int, gap: float) -> tuple[float, float]:
    """Return (sum of v - c, sum of (v - c)^2) over v[i:], all above c = v[i] - gap; v ascends.

    `blocks` is block_sums(v).
    """
    end = (i // _BLOCK + 1) * _BLOCK
    norm_1 = norm_2 = 0.0
    for k in range(i + 1, min(v.size, end)):
        e = v[k] - v[i]
        norm_1 += e
        norm_2 += e * e
    if end < v.size:
        e, n = v[end] - v[i], v.size - end
        norm_2 += blocks[i // _BLOCK + 1, 1] + e * (2 * blocks[i // _BLOCK + 1, 0] + n * e)
        norm_1 += blocks[i // _BLOCK + 1, 0] + n * e
    n = v.size - i
    return float(norm_1 + n * gap), float(norm_2 + gap * (2 * norm_1 + n * gap))


@inner
def _first_above(v: FloatArray, c: float, low: int) -> int:
    """Return the least index i >= low with v[i] > c, by bisection; v ascends."""
    high = v.size
    while low < high:
        middle = (low + high) // 2
        if v[middle] > c:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def _choose_step(
    v: FloatArray,
    blocks: FloatArray,
    top: int,
    i: int,
    gap: float,
    c: float,
    g: float,
    lam: float,
    width: float,
) -> tuple[float, float, int]:
    """Return (end, width, index of the first weight above the end) of the next step of the threshold c.

    The step begins at c = v[i] - gap, where v[i] is the first of the ascending weights above c; it is not
    longer than `width` and ends at v[top - 1] at the latest. The index is i if it ends at v[i]. `blocks` is
    block_sums(v), `lam` the l1 force, and nonzero weights are (v - c)/g.
    """
    while width > gap:
        end = min(c + width, v[top - 1])
        j = top if end == v[top - 1] else _first_above(v, end, i)
        inside = j - i
        if inside < 3:  # not worth a bound
            break
        _, q = sums_above_threshold(v, blocks, j, v[j] - end)
        if end * _RESOLUTION > math.sqrt(q / (v.size - j)):
            break
        width = end - c
        # An error of Q shifts 1/g by its share in 2 Q where g follows Q, in lam g^3 / width where g lags.
        excess = _KINK * inside * width * width / (_KINK_TOLERANCE * (2 * q + lam * g**3 / width))
        if excess <= 1:
            return end, width, j
        width *= min(0.9, max(0.05, 0.9 * excess ** (-1 / 3)))  # the bound grows with the cube of the width
    if width < gap:
        return v[i] - (gap - width), width, i
    return v[i], gap, i


@inner
def _q_at_nodes(
    v: FloatArray, blocks: FloatArray, i: int, gap: float, c: float, j: int, width: float, q: FloatArray
) -> None:
    """Write the sum of (v - c)^2 over v > c to q, (5,), for the threshold c at each node of a step.

    The step begins at c = v[i] - gap, where v[i] is the first of the ascending weights above c, and has this
    `width`; v[j] is the first weight above its end. `blocks` is block_sums(v).
    """
    if j == i:
        n = v.size - i
        norm_1, norm_2 = sums_above_threshold(v, blocks, i, 0.0)
        for p in range(_STAGES):
            e = gap - _NODES[p] * width
            q[p] = norm_2 + e * (2 * norm_1 + n * e)
    else:
        k = i
        for p in range(_STAGES):
            node = c + _NODES[p] * width
            k = j if p == _STAGES - 1 else _first_above(v, node, k)
            _, q[p] = sums_above_threshold(v, blocks, k, v[k] - node)


@inner
def _eliminate(a: FloatArray, b: FloatArray) -> bool:
    """Overwrite b by the solution x of a x = b; return False if `a`, which is overwritten, is singular."""
    n = b.size
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if not abs(a[p, k]) > 0:
            return False
        for j in range(k, n):
            a[k, j], a[p, j] = a[p, j], a[k, j]
        b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= factor * a[k, j]
            b[i] -= factor * b[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            b[k] -= a[k, j] * b[j]
        b[k] /= a[k, k]
    return True


@inner
def _collocate(q: FloatArray, start: float, rate: float, g: FloatArray) -> bool:
    """Solve rate (g_i - start) = sum_j M_ij (q_j / g_j^2 - 1) by Newton's method from the guess g, in place.

    Return whether it converged. M is the matrix of Radau IIA, g_i and q_i are g and the sum of (v - c)^2 at
    node i of a step of the threshold c, `start` is g at its start, and `rate` the l1 force over its width.
    """
    # In this form, with rate = lam / width, nothing overflows or cancels however stiff the equation is.
    jacobian = np.empty((_STAGES, _STAGES))
    change = np.empty(_STAGES)
    for _ in range(12):
        for i in range(_STAGES):
            change[i] = rate * (start - g[i])
            for j in range(_STAGES):
                ratio = q[j] / (g[j] * g[j])
                change[i] += _MATRIX[i, j] * (ratio - 1)
                jacobian[i, j] = _MATRIX[i, j] * 2 * ratio / g[j]
            jacobian[i, i] += rate
        if not _eliminate(jacobian, change):
            return False
        worst = 0.0
        for i in range(_STAGES):
            worst = max(worst, abs(change[i]) / g[i])
            g[i] += change[i]
        if not worst < 1:  # a stretch factor would change sign
            return False
        if worst < 1e-8:  # convergence is quadratic: one more round would change nothing
            return True
    return False


@inner
def _interpolate_step(table: FloatArray, k: int, x: float) -> tuple[float, float]:
    """Return (A, time since the step began) at the fraction x in [0, 1] of step k of the threshold c.

    Nonzero weights are A (v - c). Row k of `table`, from `integrate_threshold`, has the step's width / lam
    and the coefficients of P; the time is x P(x) width / lam, and A the derivative of x P(x).
    """
    stretch = 0.0
    time = 0.0
    for j in range(_STAGES, -1, -1):
        stretch = stretch * x + (j + 1) * table[k, _POLY + j]
        time = time * x + table[k, _POLY + j]
    return stretch, time * x * table[k, _RATE]


@inner
def _try_step(
    q: FloatArray, g: float, lam: float, width: float, table: FloatArray, k: int, values: FloatArray
) -> float:
    """Solve step k of the threshold c; return an estimate of its error, inf if it could not be solved.

    1/A at the step's five nodes is written to `values`, and width, width / `lam` and the coefficients of P to
    row k of `table`: A is the derivative of x P(x) at the fraction x in [0, 1] of the step. The previous row
    gives the first guess. g is 1/A at the start of the step, q the sum of (v - c)^2 at its nodes, `lam` the
    l1 force; nonzero weights are A (v - c).
    """
    ratio = width / table[k - 1, _WIDTH] if k > 0 else np.inf
    for p in range(_STAGES):  # guess: the last step's polynomial, continued
        values[p] = g
        if ratio < 2.5:
            stretch, _ = _interpolate_step(table, k - 1, 1 + _NODES[p] * ratio)
            if stretch > 0:
                values[p] = 1 / stretch
    if not _collocate(q, g, lam / width, values):
        values[:] = g
        if not _collocate(q, g, lam / width, values):
            return np.inf
    for j in range(_STAGES + 1):
        term = _FIT[j, 0] / g
        for p in range(_STAGES):
            term += _FIT[j, p + 1] / values[p]
        table[k, _POLY + j] = term / (j + 1)
    table[k, _WIDTH] = width
    table[k, _RATE] = width / lam
    # The last term of the polynomial as a Chebyshev coefficient on [0, 1], beside the function itself.
    return float(abs(term) * 2 * 4.0**-_STAGES * min(g, values[_STAGES - 1]))


@kernel
def integrate_threshold(v: FloatArray, blocks: FloatArray, top: int, lam: float) -> tuple[FloatArray, float]:
    """Return (table of the steps of the threshold c, 1/A at the end), from c = 0 until only v[top:] exceed c.

    v are the ascending initial weights, from `top` on all equal; those above c have become A (v - c).
    `blocks` is block_sums(v), `lam` the l1 force. Each row of the table is a step, the last one the end: c at
    its start, width in c, time at its start, distance from c to the next weight, index of this weight,
    width / lam, and the coefficients of a polynomial P. At the fraction x in [0, 1] of the step,
    x P(x) width / lam has passed since its start, and A is the derivative of x P(x). The table is empty if
    `lam` and the weights differ too much in size.
    """
    table = np.zeros((256, N_COLUMNS))
    values, q = np.empty(_STAGES), np.empty(_STAGES)
    k, i, gap, c, g, time = non_literal(0), non_literal(0), v[0], 0.0, 1.0, 0.0
    wish = (
        0.05 * lam / max(1.0, sums_above_threshold(v, blocks, i, gap)[1])
    )  # the length relaxes within lam / (2 |W|^2)
    while i < top:
        end, width, j = _choose_step(v, blocks, top, i, gap, c, g, lam, wish)
        if not width > _SHORTEST:
            return table[:0], g
        check_interrupt(k % 256 == 255)
        _q_at_nodes(v, blocks, i, gap, c, j, width, q)
        error = _try_step(q, g, lam, width, table, k, values)
        factor = 0.9 * (_STEP_TOLERANCE / max(error, 1e-300)) ** (1 / _STAGES)
        if not error <= _STEP_TOLERANCE:
            wish = width * max(0.1, factor)
            continue
        table[k, START], table[k, TIME], table[k, _GAP], table[k, _FIRST] = c, time, gap, i
        time += _interpolate_step(table, k, 1.0)[1]
        g = values[_STAGES - 1]
        c = end
        if j > i:
            i, gap = j, v[j] - c
            wish = width * min(2.0, factor)
        elif width < gap:
            gap -= width
            wish = width * min(4.0, factor)
        else:
            while v[i] == c:
                i += 1
            gap = v[i] - c
            wish = max(wish, width * min(4.0, factor))
        k += 1
        if k == table.shape[0]:
            longer = np.zeros((2 * k, N_COLUMNS))
            for row in range(k):  # Numba compiles slices that are assigned to for seconds
                for column in range(N_COLUMNS):
                    longer[row, column] = table[row, column]
            table = longer
    table[k] = 0.0
    table[k, START], table[k, TIME] = c, time
    return table[: k + 1], g


@inner
def _time_at(table: FloatArray, k: int, c: float) -> float:
    """Return the time at which the threshold is c, in step k, row k of `table` (`integrate_threshold`)."""
    width = table[k, _WIDTH]
    return float(
        table[k, TIME] + (_interpolate_step(table, k, (c - table[k, START]) / width)[1] if width > 0 else 0.0)
    )


def drop_times(w0: FloatArray, table: FloatArray, fill_value: float) -> FloatArray:
    """Return the time at which each weight of w0 becomes 0, as the threshold passes its absolute value.

    Weights above the threshold at the end of `table`, the steps of `integrate_threshold`, get `fill_value`.
    """
    starts = table[:, START].copy()
    last = starts.size - 1
    scale = 4 * last / starts[last] if last > 0 else 0.0
    # Bins over c make the search for a weight's step short.
    bins = np.maximum(np.searchsorted(starts * scale, np.arange(4.0 * last + 2), side="left") - 1, 0)
    times = np.full(w0.size, fill_value)
    _fill_drop_times(w0, table, starts, scale, bins, times)
    return times


@kernel
def _fill_drop_times(
    w0: FloatArray, table: FloatArray, starts: FloatArray, scale: float, bins: IntArray, times: FloatArray
) -> None:
    """Write the time at which each weight of w0 becomes 0 to `times`, for weights that do so within `table`.

    A weight becomes 0 when the threshold c passes its absolute value. `table` has the steps of
    `integrate_threshold`, `starts` c at the start of each; bins[int(c scale)] and the next entry bound the
    index of the step in which c lies.
    """
    top = starts[starts.size - 1]
    for i in range(w0.size):
        c = abs(w0[i])
        if c <= top:
            low, high = bins[int(c * scale)], bins[int(c * scale) + 1]
            while high > low:
                middle = (low + high + 1) // 2
                if starts[middle] <= c:
                    low = middle
                else:
                    high = middle - 1
            times[i] = _time_at(table, low, c)


@inner
def _fraction_at_time(table: FloatArray, k: int, t: float) -> float:
    """Return the fraction x in [0, 1] of step k that the threshold has passed at the time t.

    t is the time since the integration began and lies within step k, row k of `table`
    (`integrate_threshold`).
    """
    elapsed = t - table[k, TIME]
    low, high = 0.0, 1.0
    x = elapsed / (table[k + 1, TIME] - table[k, TIME])
    for _ in range(60):
        stretch, time = _interpolate_step(table, k, x)
        if time < elapsed:
            low = x
        else:
            high = x
        new = x + (elapsed - time) / (stretch * table[k, _RATE])
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - x) <= 1e-16:
            break
        x = new
    return float(x)


@kernel
def states(v: FloatArray, table: FloatArray, t: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return arrays (i, v[i] - c, A) at the times t: the nonzero weights are A (v - c) for v from v[i] on.

    v are the ascending initial weights, c is the threshold, and `table` has its steps
    (`integrate_threshold`). t ascends, and lies before the last step's end.
    """
    firsts = np.empty(t.size, np.int64)
    gaps = np.empty(t.size)
    stretches = np.empty(t.size)
    k = 0
    for n in range(t.size):
        while table[k + 1, TIME] <= t[n]:
            k += 1
        x = _fraction_at_time(table, k, t[n])
        i = int(table[k, _FIRST])
        gap = table[k, _GAP] - x * table[k, _WIDTH]
        if table[k, _WIDTH] > table[k, _GAP]:
            c = table[k, START] + x * table[k, _WIDTH]
            i = _first_above(v, c, i)
            # Rounding in c must not contradict the drop times: from its drop time on a weight is zero.
            while i > table[k, _FIRST] and _time_at(table, k, v[i - 1]) > t[n]:
                i -= 1
            while v[i] < table[k + 1, START] and _time_at(table, k, v[i]) <= t[n]:
                i += 1
            gap = max(0.0, v[i] - c)
        firsts[n], gaps[n], stretches[n] = i, gap, _interpolate_step(table, k, x)[0]
    return firsts, gaps, stretches


@kernel
def norms(
    v: FloatArray, blocks: FloatArray, first: IntArray, gap: FloatArray, stretch: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (l1 norm, l2 norm) of the nonzero weights, `stretch` (v - c), at each time; 0 if there are none.

    v ascends; v[first] is the first nonzero weight at a time, and c = v[first] - gap the threshold. `blocks`
    is block_sums(v).
    """
    norm_1, norm_2 = np.zeros(first.size), np.zeros(first.size)
    for n in range(first.size):
        if first[n] < v.size:
            total, squares = sums_above_threshold(v, blocks, first[n], gap[n])
            norm_1[n] = stretch[n] * total
            norm_2[n] = stretch[n] * math.sqrt(squares)
    return norm_1, norm_2
