r"""Kernels of the means of two hidden neurons' product where few features are on: exact, piece by piece.

Given which features are on, z_1 = b_1 + sum of w_1m v_m and z_2 are linear in the values v. The mean of
z_1 1(z_1 > t_1) z_2 1(z_2 > t_2) over one value is known from integrals of the density between the places
where the neurons turn on. As a function of the next value it is smooth except where such a place passes an
end of the density, or the other neuron's place. Between these breakpoints Gauss points integrate it, exactly
for polynomial densities.
"""

import math

import numpy as np

from ....theory.arguments import FloatArray
from ....theory.kernels import kernel, shared
from ..methods.outputs import IntArray
from .table import SMOOTH, Table, between, density_at

__all__ = ["by_patterns", "cube_on", "pair_on"]

FAR = 30.0  # half sides of a cube from its middle to where neurons are 0: what cancels grows with it
PARALLEL = 1e-6  # squared sine of the angle between neurons that are not taken as parallel


@shared
def _clipped(
    low: float, high: float, first: int, last: int, unit: int, sum_and: tuple[float, float, float]
) -> tuple[float, float, int, int, float]:
    """Return the interval of a value where a neuron is on, which neuron ends it, and its share of a kink.

    The neuron is given as its sum without the value, the value's weight, and the threshold.
    """
    y, w, t = sum_and
    if w == 0.0:
        if y < t or (y == t and t > 0.0):
            return low, low, first, last, 0.0
        return low, high, first, last, 0.5 if y == t else 1.0
    v = (t - y) / w
    if w > 0.0 and v > low:
        return v, high, unit, last, 1.0
    if w < 0.0 and v < high:
        return low, v, first, unit, 1.0
    return low, high, first, last, 1.0


@shared
def _flux(
    table: Table,
    v: float,
    one: tuple[float, float, float],
    two: tuple[float, float, float],
) -> float:
    """Return how fast the mean changes as the place v at which neuron `one` jumps moves."""
    return density_at(table, v) * one[2] * (two[0] + two[1] * v) / abs(one[1])


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
    lo, hi, first, last, half1 = _clipped(low, high, 0, 0, 1, one)
    half2 = 1.0
    if bends:
        lo, hi, first, last, half2 = _clipped(lo, hi, first, last, 2, two)
    if not hi > lo:
        return
    y1, w1, t1 = one
    y2, w2, t2 = two
    m0, m1, m2 = between(table, lo, hi)
    out[0] = y1 * y2 * m0 + (y1 * w2 + y2 * w1) * m1 + w1 * w2 * m2
    out[1] = half1 * (y2 * m0 + w2 * m1)
    out[2] = half2 * (y1 * m0 + w1 * m1)
    out[3] = half1 * (y2 * m1 + w2 * m2)
    out[4] = half2 * (y1 * m1 + w1 * m2)
    for side in range(2):
        end, v = (first, lo) if side == 0 else (last, hi)
        if end == 1 and t1 != 0.0:
            flux = _flux(table, v, one, two)
            out[5] += flux
            out[7] += flux * v
        elif end == 2 and t2 != 0.0:
            flux = _flux(table, v, two, one)
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
    return _meetings(level, y1, y2, w, ends, corners, counts, places, count) if bends else count


@shared
def _meetings(
    level: int,
    y1: float,
    y2: float,
    w: FloatArray,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    places: FloatArray,
    count: int,
) -> int:
    """Add where both neurons turn on at one place, with all values below `level` but one at corners."""
    low, high = ends[level, 0], ends[level, 1]
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
            x = (c * z1 - a * z2) / det
            if ends[free, 0] < x < ends[free, 1]:
                count = _add_place(places, count, (a1 * z2 - c1 * z1) / det, low, high)
    return count


@shared
def _step(y: float, t: float) -> float:
    """Return whether a neuron is on, and the mean of both sides at the kink of a ReLU."""
    return 1.0 if y > t else 0.5 if y == t and t == 0.0 else 0.0


@shared
def _none_on(b: FloatArray, t: FloatArray, bends: bool, found: FloatArray) -> None:
    """Add the product of two neurons, and its derivatives by the biases, without any feature."""
    on1, on2 = _step(b[0], t[0]), _step(b[1], t[1]) if bends else 1.0
    z1 = b[0] if on1 > 0.0 else 0.0
    z2 = b[1] if on2 > 0.0 else 0.0
    found[0] += z1 * z2
    found[1] += on1 * z2
    found[2] += on2 * z1


@shared
def _gathered(out: FloatArray, share: float, found: FloatArray, by_w: FloatArray) -> None:
    """Add what `_leaf` wrote, fluxes to the derivatives too."""
    found[0] += share * out[0]
    for unit in range(2):
        found[1 + unit] += share * (out[1 + unit] + out[5 + unit])
        found[3 + unit] += share * out[5 + unit]
        by_w[unit, 0] += share * (out[3 + unit] + out[7 + unit])


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

    `w` (2, k) are the weights of both neurons, `ends` (k, 2) the intervals of the values. `corners` has where
    the density ends or jumps within these, and then edges between which it is smooth; `counts` (k, 2) how
    many there are of the former, and of both. The second neuron is linear unless it `bends`.
    To `found` are added the value, the derivatives by b_1 and b_2, and the fluxes at both thresholds, which
    are minus the derivatives by these. To `by_w` (2, k) are added the derivatives by the weights. Fluxes are
    right where the weight of feature 0 is not 0.
    """
    k = w.shape[1]
    if k == 0:
        _none_on(b, t, bends, found)
        return
    out = np.empty(9)
    if k == 1:
        one, two = (b[0], w[0, 0], t[0]), (b[1], w[1, 0], t[1])
        _leaf(table, ends[0, 0], ends[0, 1], one, two, bends, out)
        _gathered(out, 1.0, found, by_w)
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
        _gathered(out, share, found, by_w)
        for m in range(1, k):
            by_w[0, m] += share * value[m] * (out[1] + out[5])
            by_w[1, m] += share * value[m] * (out[2] + out[6])


@shared
def _centre_of_face(
    w: FloatArray, zc: FloatArray, crosses: FloatArray, free: FloatArray, x: FloatArray
) -> bool:
    """Move x to the nearest point where neurons that bend in a face are 0; return whether there is one."""
    g11, g22, g12 = 0.0, 0.0, 0.0
    for m in range(free.size):
        if free[m] > 0.0:
            g11 += w[0, m] * w[0, m] * crosses[0]
            g22 += w[1, m] * w[1, m] * crosses[1]
            g12 += w[0, m] * w[1, m] * crosses[0] * crosses[1]
    g11, g22 = g11 + 1.0 - crosses[0], g22 + 1.0 - crosses[1]
    det = g11 * g22 - g12 * g12
    if not det > PARALLEL * g11 * g22:
        return False
    z1, z2 = zc[0] * crosses[0], zc[1] * crosses[1]
    for _ in range(2):  # the second time what rounding has left
        step1, step2 = (g22 * z1 - g12 * z2) / det, (g11 * z2 - g12 * z1) / det
        for m in range(free.size):
            if free[m] > 0.0:
                move = w[0, m] * step1 * crosses[0] + w[1, m] * step2 * crosses[1]
                x[m] -= move
                z1 -= w[0, m] * move * crosses[0]
                z2 -= w[1, m] * move * crosses[1]
    return True


@shared
def _edge(
    w: FloatArray, zc: FloatArray, crosses: FloatArray, j: int, half: float, x: FloatArray, state: FloatArray
) -> None:
    """Write the integrals over an edge, x[j] from x[j] - half to x[j] + half."""
    k = x.size
    low, high = -half, half
    for unit in range(2):
        if crosses[unit] > 0.0:
            place = -zc[unit] / w[unit, j]
            if w[unit, j] > 0.0:
                low = max(low, place)
            else:
                high = min(high, place)
    if not high > low:
        return
    size, at = high - low, 0.5 * (low + high)
    z1, z2, wide = zc[0] + w[0, j] * at, zc[1] + w[1, j] * at, size * size / 12.0
    state[0], state[1], state[2] = size, size * z1, size * z2
    state[3] = size * (z1 * z2 + w[0, j] * w[1, j] * wide)
    for m in range(k):
        v = x[m] + at if m == j else x[m]
        state[4 + m], state[4 + k + m], state[4 + 2 * k + m] = size * v, size * v * z1, size * v * z2
    state[4 + k + j] += size * w[0, j] * wide
    state[4 + 2 * k + j] += size * w[1, j] * wide


@shared
def _whole_face(
    w: FloatArray, zc: FloatArray, free: FloatArray, half: FloatArray, x: FloatArray, state: FloatArray
) -> None:
    """Write the integrals over a face where no neuron bends; x is its centre."""
    k, size, both = x.size, 1.0, zc[0] * zc[1]
    for m in range(k):
        if free[m] > 0.0:
            size *= 2.0 * half[m]
            both += w[0, m] * w[1, m] * half[m] * half[m] / 3.0
    state[0], state[1], state[2], state[3] = size, size * zc[0], size * zc[1], size * both
    for m in range(k):
        wide = half[m] * half[m] / 3.0 if free[m] > 0.0 else 0.0
        state[4 + m] = size * x[m]
        state[4 + k + m] = size * (x[m] * zc[0] + w[0, m] * wide)
        state[4 + 2 * k + m] = size * (x[m] * zc[1] + w[1, m] * wide)


@shared
def _sum_facets(
    face: int, power: IntArray, ends: FloatArray, free: FloatArray, at: FloatArray, states: FloatArray,
    sums: FloatArray,
) -> None:  # fmt: skip
    """Write the sum of a face's facets, times their distances from a point."""
    sums[:] = 0.0
    for m in range(free.size):
        if free[m] > 0.0:
            sums += (at[m] - ends[m, 0]) * states[face - 2 * power[m]]
            sums += (ends[m, 1] - at[m]) * states[face - power[m]]


@shared
def _from_facets(
    a1: float, a2: float, dimension: int, x: FloatArray, sums: FloatArray, state: FloatArray
) -> None:
    """Write the integrals over a face from those over its facets, times their distances from x.

    Where z_i bends it is 0 at x, so that those places are no facets; otherwise it is a_i. A function that is
    homogeneous around x, of degree q, has the integral `sums`/(dimension + q).
    """
    k, m = x.size, float(dimension)
    size = sums[0] / m
    d1, d2 = (sums[1] - a1 * sums[0]) / (m + 1.0), (sums[2] - a2 * sums[0]) / (m + 1.0)
    both = (sums[3] - a1 * sums[2] - a2 * sums[1] + a1 * a2 * sums[0]) / (m + 2.0)
    state[0], state[1], state[2] = size, d1 + a1 * size, d2 + a2 * size
    state[3] = both + a1 * d2 + a2 * d1 + a1 * a2 * size
    for j in range(k):
        v, of_v = x[j], sums[4 + j]
        e = (of_v - v * sums[0]) / (m + 1.0)
        e1 = (sums[4 + k + j] - v * sums[1] - a1 * of_v + v * a1 * sums[0]) / (m + 2.0)
        e2 = (sums[4 + 2 * k + j] - v * sums[2] - a2 * of_v + v * a2 * sums[0]) / (m + 2.0)
        state[4 + j] = e + v * size
        state[4 + k + j] = e1 + v * d1 + a1 * (e + v * size)
        state[4 + 2 * k + j] = e2 + v * d2 + a2 * (e + v * size)


@shared
def _by_boxes(
    table: Table, w: FloatArray, zc: FloatArray, free: FloatArray, ends: FloatArray, corners: FloatArray,
    counts: FloatArray, x: FloatArray, state: FloatArray,
) -> None:  # fmt: skip
    """Write what faces need in which both neurons bend, by nested integrals."""
    k = x.size
    which = np.flatnonzero(free)
    size = which.size
    inner, found, by_w = np.empty((2, size)), np.zeros(5), np.zeros((2, size))
    b, t = zc.copy(), np.zeros(2)
    for m in range(size):
        inner[:, m] = w[:, which[m]]
        b -= inner[:, m] * x[which[m]]
    share = table.density[0, 0] ** size
    pair_on(
        table, inner, b, t, True, ends[which].copy(), corners[which].copy(), counts[which].copy(), found, by_w
    )
    state[1], state[2], state[3] = found[2] / share, found[1] / share, found[0] / share
    for m in range(k):
        state[4 + k + m], state[4 + 2 * k + m] = x[m] * state[1], x[m] * state[2]
    for m in range(size):
        state[4 + k + which[m]], state[4 + 2 * k + which[m]] = by_w[1, m] / share, by_w[0, m] / share


@kernel
def cube_on(
    table: Table, w: FloatArray, b: FloatArray, bends: bool, ends: FloatArray, corners: FloatArray,
    counts: FloatArray, found: FloatArray, by_w: FloatArray,
) -> None:  # fmt: skip
    """Add what `pair_on` does, for uniform values and no thresholds, from face to face of the cube.

    A homogeneous function of degree q has, over a polytope of k dimensions, an integral of 1/(k + q) times
    those over its facets, each times its distance from the centre of homogeneity (Lasserre, 1998). The
    centre is where both neurons are 0, as near to the middle as can be. Where that is far outside, or
    both neurons are parallel within the face, nested integrals take its place.
    """
    k = w.shape[1]
    half, power = 0.5 * (ends[:, 1] - ends[:, 0]), np.ones(k + 1, np.int64)
    for m in range(k):
        power[m + 1] = 3 * power[m]
    states, sums = np.zeros((power[k], 4 + 3 * k)), np.empty(4 + 3 * k)
    free, x, at, zc, crosses = np.empty(k), np.empty(k), np.empty(k), np.empty(2), np.empty(2)
    for face in range(power[k]):
        dimension, last, off = 0, 0, False
        zc[:] = b
        wide1, wide2 = 0.0, 0.0
        for m in range(k):  # digits: 0 and 1 are the ends, 2 is between
            digit = (face // power[m]) % 3
            free[m] = 1.0 if digit == 2 else 0.0
            x[m] = ends[m, 0] + half[m] if digit == 2 else ends[m, digit]
            zc += w[:, m] * x[m]
            if digit == 2:
                dimension, last = dimension + 1, m
                wide1, wide2 = wide1 + abs(w[0, m]) * half[m], wide2 + abs(w[1, m]) * half[m]
        crosses[0] = 1.0 if abs(zc[0]) < wide1 else 0.0
        crosses[1] = 1.0 if bends and abs(zc[1]) < wide2 else 0.0
        off = (crosses[0] == 0.0 and zc[0] + wide1 <= 0.0 and (zc[0] < 0.0 or wide1 > 0.0)) or (
            bends and crosses[1] == 0.0 and zc[1] + wide2 <= 0.0 and (zc[1] < 0.0 or wide2 > 0.0)
        )
        if off:
            continue
        state = states[face]
        if crosses[0] + crosses[1] == 0.0:
            _whole_face(w, zc, free, half, x, state)
            continue
        if dimension == 1:
            _edge(w, zc, crosses, last, half[last], x, state)
            continue
        at[:] = x
        near = _centre_of_face(w, zc, crosses, free, at)
        for m in range(k):
            near = near and abs(at[m] - x[m]) <= FAR * half[m]
        if not near:
            _by_boxes(table, w, zc, free, ends, corners, counts, x, state)
            continue
        _sum_facets(face, power, ends, free, at, states, sums)
        a1, a2 = zc[0] + np.sum(w[0] * (at - x)), zc[1] + np.sum(w[1] * (at - x))
        _from_facets(a1 * (1.0 - crosses[0]), a2 * (1.0 - crosses[1]), dimension, at, sums, state)
    share, state = table.density[0, 0] ** k, states[power[k] - 1]
    found[0] += share * state[3]
    found[1] += share * state[2]
    found[2] += share * state[1]
    for m in range(k):
        by_w[0, m] += share * state[4 + 2 * k + m]
        by_w[1, m] += share * state[4 + k + m]


@shared
def _steepest_first(free: IntArray, members: IntArray, k: int, w: FloatArray, bends: bool) -> None:
    """Put first the feature that moves both neurons most: its integral is in closed form."""
    best, least = 0, -1.0
    for m in range(k):
        j = members[free[m]]
        small = min(abs(w[0, j]), abs(w[1, j])) if bends else abs(w[0, j])
        if small > least:
            best, least = m, small
    if k > 0:
        free[0], free[best] = free[best], free[0]


@shared
def _corners(table: Table, low: float, high: float, corners: FloatArray, counts: FloatArray) -> None:
    """Write where the density ends or jumps between two ends, and other edges within which it is smooth."""
    count, at_zero = 0, False
    for c in table.corners:
        if low <= c <= high:
            corners[count] = c
            count += 1
            at_zero = at_zero or c == 0.0
    if (low == 0.0 or high == 0.0) and not at_zero:
        corners[count] = 0.0
        count += 1
    counts[0] = count
    for c in table.bends:
        if low < c < high:
            corners[count] = c
            count += 1
    counts[1] = count


@shared
def _members(
    on: FloatArray, w: FloatArray, quiet: FloatArray, members: IntArray, state: IntArray
) -> tuple[int, float]:
    """Write which features of a pattern are on, and return how many, and what quiet ones add."""
    size, shift = 0, 0.0
    for j in range(on.size):
        if on[j] > 0.0 and np.isnan(quiet[j]):
            members[size] = j
            state[size] = 0
            size += 1
        elif on[j] > 0.0:
            shift += w[1, j] * quiet[j]
    return size, shift


@shared
def _placed(
    number: int,
    chance: float,
    size: int,
    members: IntArray,
    state: IntArray,
    free: IntArray,
    inside: int,
    atoms: FloatArray,
    w: FloatArray,
    at: FloatArray,
) -> tuple[int, float]:
    """Write which values of a pattern are at which atoms; return how many are not, and the probability."""
    k, kinds = 0, inside + atoms.shape[0]
    for m in range(size):
        j = members[m]
        state[m] = number % kinds
        number //= kinds
        if state[m] < inside:
            free[k] = m
            k += 1
        else:
            v, share, coefficient = atoms[state[m] - inside]
            chance *= share
            at[0] += w[0, j] * v
            at[1] += w[1, j] * v * coefficient
    return k, chance


@shared
def _free_part(
    table: Table,
    spread: FloatArray,
    at: FloatArray,
    t: FloatArray,
    bends: bool,
    spherical: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    part: FloatArray,
    by_part: FloatArray,
) -> None:
    """Write the mean over values within their spans, with its derivatives."""
    k = spread.shape[1]
    part[:], by_part[:] = 0.0, 0.0
    if not spherical or k <= 2:
        _on(table, spread.copy(), at, t, bends, ends[:k], corners[:k], counts[:k], part, by_part)
        return
    turned, axes = _turned(spread)
    by_two = np.zeros((2, 2))
    _on(table, turned, at, t, bends, ends[:2], corners[:2], counts[:2], part, by_two)
    for m in range(k):
        for unit in range(2):
            by_part[unit, m] = by_two[unit, 0] * axes[0, m] + by_two[unit, 1] * axes[1, m]


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
    share of it. `on` (r, n) are patterns, `chances` (r,) their probabilities. Where `quiet` is not nan, only
    a linear second neuron hears the feature, and `quiet` is what it hears on the average. `spherical` values
    are standard normal: only the lengths of the weights and their angle count.
    """
    n = w.shape[1]
    inside, kinds = spans.shape[0], spans.shape[0] + atoms.shape[0]
    members, state, free = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    spread, ends = np.empty((2, n)), np.empty((n, 2))
    corners, counts = np.empty((n, table.corners.size + table.bends.size + 1)), np.empty((n, 2))
    part, by_part, at = np.empty(5), np.empty((2, n)), np.empty(2)
    for r in range(chances.size):
        size, shift = _members(on[r], w, quiet, members, state)
        for number in range(kinds**size):
            at[0], at[1] = b[0], b[1] + shift
            k, share = _placed(number, chances[r], size, members, state, free, inside, atoms, w, at)
            if share == 0.0:
                continue
            _steepest_first(free, members, k, w, bends)
            for m in range(k):
                j, span = members[free[m]], spans[state[free[m]]]
                spread[0, m], spread[1, m] = w[0, j], w[1, j] * span[2]
                ends[m, 0], ends[m, 1] = span[0], span[1]
                _corners(table, span[0], span[1], corners[m], counts[m])
            _free_part(table, spread[:, :k], at, t, bends, spherical, ends, corners, counts, part, by_part)
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
    """Run `cube_on` where it can, or `pair_on`: twice where feature 0 does not move one that jumps."""
    k = w.shape[1]
    flat = table.degree == 0 and table.edges.size == 2 and t[0] == 0.0 and t[1] == 0.0
    if k >= 3 and flat and np.any(w[0] != 0.0) and (not bends or np.any(w[1] != 0.0)):
        cube_on(table, w, b, bends, ends, corners, counts, found, by_w)
        return
    pair_on(table, w, b, t, bends, ends, corners, counts, found, by_w)
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
