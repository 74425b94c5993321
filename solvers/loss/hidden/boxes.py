r"""Kernels of the means of two hidden neurons' product where few features are on: exact, piece by piece.

Given which features are on, z_1 = b_1 + sum of w_1m v_m and z_2 are linear in the values v. The mean of
z_1 1(z_1 > t_1) z_2 1(z_2 > t_2) over one value is known from integrals of the density between the places
where the neurons turn on. As a function of the next value it is smooth but where such a place passes an end of
the density, or the other neuron's place: between these breakpoints Gauss points integrate it, exactly for
polynomial densities.
"""

import math

import numpy as np

from ....theory.arguments import FloatArray
from ....theory.kernels import kernel, shared
from .table import SMOOTH, Table, between, density_at

__all__ = ["MOST_ON", "by_patterns", "pair_on"]

MOST_ON = 6  # features that are on


@shared
def _leaf(
    table: Table,
    low: float,
    high: float,
    one: tuple[float, float, float],
    two: tuple[float, float, float],
    bends: bool,
    out: FloatArray,
) -> None:
    """Write value, slopes by b_1 and b_2, these times v, fluxes at both thresholds, and these times v.

    A neuron is given as its sum without the value, the value's weight, and the threshold.
    """
    out[:] = 0.0
    y1, w1, t1 = one
    y2, w2, t2 = two
    lo, hi, end1, end2 = low, high, 0, 0  # which neuron makes the lower end, and which the upper one
    half1, half2 = 1.0, 1.0
    if w1 > 0.0:
        if (t1 - y1) / w1 > lo:
            lo, end1 = (t1 - y1) / w1, 1
    elif w1 < 0.0:
        if (t1 - y1) / w1 < hi:
            hi, end2 = (t1 - y1) / w1, 1
    elif y1 < t1 or (y1 == t1 and t1 > 0.0):
        return
    elif y1 == t1:
        half1 = 0.5
    if bends:
        if w2 > 0.0:
            if (t2 - y2) / w2 > lo:
                lo, end1 = (t2 - y2) / w2, 2
        elif w2 < 0.0:
            if (t2 - y2) / w2 < hi:
                hi, end2 = (t2 - y2) / w2, 2
        elif y2 < t2 or (y2 == t2 and t2 > 0.0):
            return
        elif y2 == t2:
            half2 = 0.5
    if not hi > lo:
        return
    m0, m1, m2 = between(table, lo, hi)
    out[0] = y1 * y2 * m0 + (y1 * w2 + y2 * w1) * m1 + w1 * w2 * m2
    out[1] = half1 * (y2 * m0 + w2 * m1)
    out[2] = half2 * (y1 * m0 + w1 * m1)
    out[3] = half1 * (y2 * m1 + w2 * m2)
    out[4] = half2 * (y1 * m1 + w1 * m2)
    for side in range(2):  # where a neuron jumps, the mean changes with the place
        end, v = (end1, lo) if side == 0 else (end2, hi)
        if end == 1 and t1 != 0.0:
            flux = density_at(table, v) * t1 * (y2 + w2 * v) / abs(w1)
            out[5] += flux
            out[7] += flux * v
        elif end == 2 and t2 != 0.0:
            flux = density_at(table, v) * t2 * (y1 + w1 * v) / abs(w2)
            out[6] += flux
            out[8] += flux * v


@shared
def _add_place(places: FloatArray, count: int, v: float, low: float, high: float) -> int:
    if low < v < high:
        at = count
        while at > 0 and places[at - 1] > v:
            places[at] = places[at - 1]
            at -= 1
        places[at] = v
        return count + 1
    return count


@shared
def _breakpoints(
    level: int,
    y1: float,
    y2: float,
    w: FloatArray,
    bends: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    panels: FloatArray,
    places: FloatArray,
) -> int:
    """Write where the mean over the values below `level` is not smooth in the value of `level`."""
    low, high = ends[level, 0], ends[level, 1]
    places[0], places[1] = low, high
    count = 2
    for v in panels:
        count = _add_place(places, count, v, low, high)
    for unit in range(2 if bends else 1):
        steep = w[unit, level]
        if steep == 0.0:
            continue
        total = 1
        for m in range(level):
            total *= int(counts[m, 1 if abs(steep) > abs(w[unit, m]) else 0])
        for number in range(total):
            rest, z = number, y1 if unit == 0 else y2
            for m in range(level):
                size = int(counts[m, 1 if abs(steep) > abs(w[unit, m]) else 0])
                z += w[unit, m] * corners[m, rest % size]
                rest //= size
            count = _add_place(places, count, -z / steep, low, high)
    if not bends:
        return count
    a, c = w[0, level], w[1, level]
    for free in range(level):
        a1, c1 = w[0, free], w[1, free]
        det = a * c1 - c * a1
        total = 1
        for m in range(level):
            if m != free:
                total *= int(counts[m, 0])
        if det == 0.0:
            continue
        for number in range(total):
            rest, z1, z2 = number, y1, y2
            for m in range(level):
                if m != free:
                    v = corners[m, rest % int(counts[m, 0])]
                    rest //= int(counts[m, 0])
                    z1 += w[0, m] * v
                    z2 += w[1, m] * v
            x = (a1 * 0.0 - a * z2 + c * z1) / det
            if ends[free, 0] < x < ends[free, 1]:
                count = _add_place(places, count, (a1 * z2 - c1 * z1) / det, low, high)
    return count


@kernel
def pair_on(
    table: Table,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    bends: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    found: FloatArray,
    by_w: FloatArray,
) -> None:
    """Add the mean of a product, and its derivatives, for features that are all on.

    `w` (2, k) are the weights of both neurons, `ends` (k, 2) the intervals of the values, `corners` where the
    density ends or jumps in it, and then edges within which it is smooth; `counts` (k, 2) how many of the former,
    and of both. The second neuron is linear unless it `bends`.
    To `found` are added value, derivatives by b_1 and b_2, and the fluxes at both thresholds: minus the
    derivatives by these. To `by_w` (2, k) the derivatives by the weights, with fluxes. The fluxes want weights
    of feature 0 that are not 0.
    """
    k = w.shape[1]
    if k == 0:
        y1, y2 = b[0], b[1]
        on1 = 1.0 if y1 > t[0] else (0.5 if y1 == t[0] and t[0] == 0.0 else 0.0)
        on2 = 1.0 if y2 > t[1] or not bends else (0.5 if y2 == t[1] and t[1] == 0.0 else 0.0)
        z1 = y1 if on1 > 0.0 else 0.0
        z2 = y2 if on2 > 0.0 else 0.0
        found[0] += z1 * z2
        found[1] += on1 * z2
        found[2] += on2 * z1
        return
    out = np.empty(9)
    if k == 1:
        one, two = (b[0], w[0, 0], t[0]), (b[1], w[1, 0], t[1])
        _leaf(table, ends[0, 0], ends[0, 1], one, two, bends, out)
        found[0] += out[0]
        found[1] += out[1] + out[5]
        found[2] += out[2] + out[6]
        found[3] += out[5]
        found[4] += out[6]
        by_w[0, 0] += out[3] + out[7]
        by_w[1, 0] += out[4] + out[8]
        return
    size = table.panels.size + 2
    most = counts.max()
    size += int(2.0 * most ** (k - 1) + (k - 1) * most ** max(k - 2, 0)) + 2
    places = np.empty((k, size))
    filled, interval, node = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    base, value, weight = np.zeros((k + 1, 2)), np.zeros(k), np.ones(k + 1)
    base[k, 0], base[k, 1] = b[0], b[1]
    points, whole = np.ones(k, np.int64), table.panels[1] - table.panels[0]
    level = k - 1
    filled[level] = _breakpoints(
        level, b[0] - t[0], b[1] - t[1], w, bends, ends, corners, counts, table.panels, places[level]
    )
    while True:
        if node[level] > 0 and node[level] == points[level]:
            node[level] = 0
            interval[level] += 1
        while (
            interval[level] < filled[level] - 1
            and places[level, interval[level] + 1] <= places[level, interval[level]]
        ):
            interval[level] += 1
        if interval[level] >= filled[level] - 1:
            level += 1
            if level == k:
                return
            continue
        first = places[level, interval[level]]
        width = places[level, interval[level] + 1] - first
        q = min((3 + level + table.degree * (level + 1)) // 2 + 1, 24)
        if table.degree < 0:
            share = width / whole
            q = SMOOTH if share > 0.5 else 14 if share > 0.25 else 10 if share > 0.125 else 8
        points[level] = q
        v = first + width * table.nodes[q, node[level]]
        value[level] = v
        weight[level] = weight[level + 1] * width * table.weights[q, node[level]] * density_at(table, v)
        node[level] += 1
        base[level, 0] = base[level + 1, 0] + w[0, level] * v
        base[level, 1] = base[level + 1, 1] + w[1, level] * v
        if level > 1:
            level -= 1
            interval[level] = node[level] = 0
            y1, y2 = base[level + 1, 0] - t[0], base[level + 1, 1] - t[1]
            filled[level] = _breakpoints(
                level, y1, y2, w, bends, ends, corners, counts, table.panels, places[level]
            )
            continue
        one, two = (base[1, 0], w[0, 0], t[0]), (base[1, 1], w[1, 0], t[1])
        _leaf(table, ends[0, 0], ends[0, 1], one, two, bends, out)
        share = weight[1]
        found[0] += share * out[0]
        found[1] += share * (out[1] + out[5])
        found[2] += share * (out[2] + out[6])
        found[3] += share * out[5]
        found[4] += share * out[6]
        by_w[0, 0] += share * (out[3] + out[7])
        by_w[1, 0] += share * (out[4] + out[8])
        for m in range(1, k):
            by_w[0, m] += share * value[m] * (out[1] + out[5])
            by_w[1, m] += share * value[m] * (out[2] + out[6])


@kernel
def by_patterns(
    table: Table,
    spans: FloatArray,
    atoms: FloatArray,
    on: FloatArray,
    chances: FloatArray,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    bends: bool,
    quiet: FloatArray,
    spherical: bool,
    found: FloatArray,
    by_w: FloatArray,
) -> None:
    """Add the mean of a product over patterns of features, with its derivatives.

    A feature that is on has its value in one of the `spans` (s, 3) of the density, or at one of the `atoms`
    (a, 3): low and high end, or place and probability, and what the second neuron hears of the value, as a
    share of it. `on` (r, n) are patterns, `chances` (r,) their probabilities. Where `quiet` is not nan no
    neuron but a linear second one hears the feature, and this is what that hears on the average. `spherical` values are
    standard normal: only the weights' lengths and angle count.
    """
    n = w.shape[1]
    inside, kinds = spans.shape[0], spans.shape[0] + atoms.shape[0]
    members, state, free = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    spread, ends = np.empty((2, n)), np.empty((n, 2))
    corners, counts = np.empty((n, table.corners.size + table.bends.size + 1)), np.empty((n, 2))
    part, by_part, at = np.empty(5), np.empty((2, n)), np.empty(2)
    by_two = np.zeros((2, 2))
    for r in range(chances.size):
        size = 0
        shift, total = 0.0, 1
        for j in range(n):
            if on[r, j] > 0.0:
                if np.isnan(quiet[j]):
                    members[size] = j
                    state[size] = 0
                    size += 1
                    total *= kinds
                else:
                    shift += w[1, j] * quiet[j]
        for number in range(total):
            rest, k, share = number, 0, chances[r]
            at[0], at[1] = b[0], b[1] + shift
            for m in range(size):
                j = members[m]
                state[m] = rest % kinds
                rest //= kinds
                if state[m] < inside:
                    free[k] = m
                    k += 1
                else:
                    v, chance, coefficient = atoms[state[m] - inside]
                    share *= chance
                    at[0] += w[0, j] * v
                    at[1] += w[1, j] * v * coefficient
            if share == 0.0:
                continue
            best, least = 0, -1.0
            for m in range(k):  # the first one is integrated in closed form
                j = members[free[m]]
                small = min(abs(w[0, j]), abs(w[1, j])) if bends else abs(w[0, j])
                if small > least:
                    best, least = m, small
            if k > 0:
                free[0], free[best] = free[best], free[0]
            for m in range(k):
                j, span = members[free[m]], spans[state[free[m]]]
                spread[0, m], spread[1, m] = w[0, j], w[1, j] * span[2]
                ends[m, 0], ends[m, 1] = span[0], span[1]
                count = 0
                for c in table.corners:
                    if span[0] <= c <= span[1]:
                        corners[m, count] = c
                        count += 1
                if (span[0] == 0.0 or span[1] == 0.0) and not (
                    count > 0 and np.any(corners[m, :count] == 0.0)
                ):
                    corners[m, count] = 0.0
                    count += 1
                counts[m, 0] = count
                for c in table.bends:
                    if span[0] < c < span[1]:
                        corners[m, count] = c
                        count += 1
                counts[m, 1] = count
            part[:], by_part[:] = 0.0, 0.0
            if spherical and k > 2:
                turned, axes = _turned(spread[:, :k])
                _on(table, turned, at, t, bends, ends[:2], corners[:2], counts[:2], part, by_two)
                for m in range(k):
                    for unit in range(2):
                        by_part[unit, m] = by_two[unit, 0] * axes[0, m] + by_two[unit, 1] * axes[1, m]
                by_two[:] = 0.0
            else:
                whole = spread[:, :k].copy()
                _on(table, whole, at, t, bends, ends[:k], corners[:k], counts[:k], part, by_part)
            found += share * part
            for m in range(k):
                j, span = members[free[m]], spans[state[free[m]]]
                by_w[0, j] += share * by_part[0, m]
                by_w[1, j] += share * by_part[1, m] * span[2]
            for m in range(size):
                if state[m] >= inside:
                    v, _, coefficient = atoms[state[m] - inside]
                    by_w[0, members[m]] += share * part[1] * v
                    by_w[1, members[m]] += share * part[2] * v * coefficient
            for j in range(n):
                if on[r, j] > 0.0 and not np.isnan(quiet[j]):
                    by_w[1, j] += share * part[2] * quiet[j]


@shared
def _turned(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights of both neurons for two values on orthogonal axes, and these axes."""
    k = w.shape[1]
    turned, axes = np.zeros((2, 2)), np.zeros((2, k))
    turned[0, 0] = math.sqrt(np.sum(w[0] * w[0]))
    if turned[0, 0] > 0.0:
        axes[0] = w[0] / turned[0, 0]
    turned[1, 0] = np.sum(w[1] * axes[0])
    left = w[1] - turned[1, 0] * axes[0]
    turned[1, 1] = math.sqrt(np.sum(left * left))
    if turned[1, 1] > 0.0:
        axes[1] = left / turned[1, 1]
    return turned, axes


@shared
def _on(
    table: Table,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    bends: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    found: FloatArray,
    by_w: FloatArray,
) -> None:
    """Run `pair_on`, twice where the first feature does not move a neuron that jumps."""
    pair_on(table, w, b, t, bends, ends, corners, counts, found, by_w)
    k = w.shape[1]
    for unit in range(2):
        if k < 2 or t[unit] == 0.0 or (unit == 1 and not bends) or w[unit, 0] != 0.0:
            continue
        first = 0
        for m in range(1, k):
            if abs(w[unit, m]) > abs(w[unit, first]):
                first = m
        if w[unit, first] == 0.0:
            continue
        order = np.arange(k)
        order[0], order[first] = first, 0
        part, by_part = np.zeros(5), np.zeros((2, k))
        turned, other_ends = np.empty((2, k)), np.empty((k, 2))
        others, sizes = np.empty(corners.shape), np.empty((k, 2))
        for m in range(k):
            turned[:, m], other_ends[m] = w[:, order[m]], ends[order[m]]
            others[m], sizes[m] = corners[order[m]], counts[order[m]]
        pair_on(table, turned, b, t, bends, other_ends, others, sizes, part, by_part)
        found[1 + unit], found[3 + unit] = part[1 + unit], part[3 + unit]
        for m in range(k):
            by_w[unit, order[m]] = by_part[unit, m]
