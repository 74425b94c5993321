"""Kernels of the mean of two hidden neurons' product where few features are on: exact, piece by piece.

Given which features are on, z_1 = b_1 + sum of w_1m v_m and z_2 are linear in the values v. The mean of
z_1 1(z_1 > t_1) z_2 1(z_2 > t_2) over one value is known from integrals of the density between the places
where the neurons turn on. As a function of the next value it is smooth except where such a place passes an
end of the density, or the other neuron's place. Between these breakpoints Gauss points integrate it, exactly
for polynomial densities.

Arrays that several functions share: `table`, the density of a value; w (2, k), b (2,) and t (2,), weights,
biases and thresholds of both neurons; `is_nonlinear`, without which the second neuron is the linear function
z_2; `ends` (k, 2), the interval of each of the k values; `corners`, of each value the places where the
density ends or jumps there, then edges between which it is smooth, and `counts` (k, 2), the numbers of the
former and of both. A *line* is a neuron as a function of one value v: (its sum without v, the weight of v,
its threshold). A *flux* is what the jump of a neuron at its threshold adds to derivatives by biases: minus
the derivative by the threshold.
"""

import math

import numpy as np

from ....theory.compile.kernels import check_interrupt, inlined, inner, kernel, non_literal
from ....theory.validation import FloatArray, IntArray
from .density_table import SMOOTH, DensityTable, density_at, integrals_between

__all__ = ["add_pair_mean", "add_pattern_means"]


@inlined
def _clip_to_on(
    low: float, high: float, first: int, last: int, unit: int, line: tuple[float, float, float]
) -> tuple[float, float, int, int, float]:
    """Return (low, high, first, last, slope): the part of [low, high] where a neuron is on, and its slope.

    The neuron is `line`: (its sum without the value v, the weight of v, its threshold). `first` and `last`
    say which neuron's threshold, 1 or 2, makes the low and the high end, 0 if none does; where this neuron's
    does, they become `unit`, its number. The slope is 0.5 if the sum is at the kink of a ReLU for all v, 0
    where it is off for all v, else 1.
    """
    y, w, t = line
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


@inlined
def _threshold_flux(
    table: DensityTable, v: float, line_1: tuple[float, float, float], line_2: tuple[float, float, float]
) -> float:
    """Return the flux of neuron `line_1` at the value v: what its jump there adds to dE h_1 h_2/db_1.

    h_1 and h_2 are the activations of neuron `line_1` and of the other one, `line_2`. A line is (a neuron's
    sum without the value v, the weight of v, its threshold); `table` has the density of v.
    """
    return density_at(table, v) * line_1[2] * (line_2[0] + line_2[1] * v) / abs(line_1[1])


@inlined
def _integrate_innermost(
    table: DensityTable,
    low: float,
    high: float,
    line_1: tuple[float, float, float],
    line_2: tuple[float, float, float],
    is_nonlinear: bool,
    out: FloatArray,
) -> None:
    """Write the integrals over low < v < high of two neurons' product and its derivatives to `out`, (9,).

    The measure is the density of v in `table`. Entries: the product; its derivatives by both biases, but for
    jumps; these times v; the fluxes at both thresholds, what jumps add to the derivatives; fluxes times v.
    The neurons are `line_1` and `line_2`, each (its sum without the value v, the weight of v, its threshold);
    without `is_nonlinear` the second one is linear.
    """
    for k in range(9):
        out[k] = 0.0
    none = non_literal(0)
    lo, hi, first, last, half1 = _clip_to_on(low, high, none, none, none + 1, line_1)
    half2 = 1.0
    if is_nonlinear:
        lo, hi, first, last, half2 = _clip_to_on(lo, hi, first, last, none + 2, line_2)
    if not hi > lo:
        return
    y1, w1, t1 = line_1
    y2, w2, t2 = line_2
    m0, m1, m2 = integrals_between(table, lo, hi)
    out[0] = y1 * y2 * m0 + (y1 * w2 + y2 * w1) * m1 + w1 * w2 * m2
    out[1] = half1 * (y2 * m0 + w2 * m1)
    out[2] = half2 * (y1 * m0 + w1 * m1)
    out[3] = half1 * (y2 * m1 + w2 * m2)
    out[4] = half2 * (y1 * m1 + w1 * m2)
    for side in range(2):
        end, v = (first, lo) if side == 0 else (last, hi)
        if end == 1 and t1 != 0.0:
            flux = _threshold_flux(table, v, line_1, line_2)
            out[5] += flux
            out[7] += flux * v
        elif end == 2 and t2 != 0.0:
            flux = _threshold_flux(table, v, line_2, line_1)
            out[6] += flux
            out[8] += flux * v


@inlined
def _insert_sorted(breakpoints: FloatArray, count: int, v: float, low: float, high: float) -> int:
    """Insert v into the sorted `breakpoints` if low < v < high, and return their new count."""
    if low < v < high:
        at = count
        while at > 0 and breakpoints[at - 1] > v:
            breakpoints[at] = breakpoints[at - 1]
            at -= 1
        breakpoints[at] = v
        return count + 1
    return count


@inlined
def _write_breakpoints(
    level: int,
    y1: float,
    y2: float,
    w: FloatArray,
    is_nonlinear: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    panels: FloatArray,
    breakpoints: FloatArray,
) -> int:
    """Write the kinks of the mean over values below `level` to `breakpoints`, sorted; return their count.

    Values are integrated one inside the other; the mean is a function of value number `level`, given those of
    higher numbers. `y1` and `y2` are the sums of both neurons over the latter, with bias, minus their
    thresholds. w (2, k) are the weights of both neurons, of which the second is linear unless `is_nonlinear`;
    `ends` (k, 2) are the values' intervals. `corners` has for each value where the density ends or jumps,
    then edges between which it is smooth, `counts` (k, 2) the numbers of the former and of both; `panels` are
    such edges for all values.
    """
    low, high = ends[level, 0], ends[level, 1]
    breakpoints[0], breakpoints[1] = low, high
    count = non_literal(2)
    for v in panels:
        count = _insert_sorted(breakpoints, count, v, low, high)
    for unit in range(2 if is_nonlinear else 1):
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
            count = _insert_sorted(breakpoints, count, -z / steep, low, high)
    return (
        _add_joint_kinks(level, y1, y2, w, ends, corners, counts, breakpoints, count)
        if is_nonlinear
        else count
    )


@inlined
def _smoothness_scales(k: int, w: FloatArray, is_nonlinear: bool, panels: FloatArray) -> FloatArray:
    """Return lengths (k,) on which the mean over features 0 to m - 1 is smooth in the value of feature m.

    A length is the width of the density's narrowest panel times min(1, smallest |w_j / w_m| over features j <
    m). `panels` are the panels' edges, w (2, k) the weights of both neurons; those of the second count if
    `is_nonlinear`, that is unless it is a linear one.
    """
    scale, least = np.empty(k), np.inf
    for q in range(panels.size - 1):
        least = min(least, panels[q + 1] - panels[q])
    for level in range(k):
        narrow = 1.0
        for unit in range(2 if is_nonlinear else 1):
            for m in range(level):
                if 0.0 < abs(w[unit, m]) < narrow * abs(w[unit, level]):
                    narrow = abs(w[unit, m]) / abs(w[unit, level])
        scale[level] = least * narrow
    return scale


@inlined
def _add_joint_kinks(
    level: int,
    y1: float,
    y2: float,
    w: FloatArray,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    breakpoints: FloatArray,
    count: int,
) -> int:
    """Add to `breakpoints` where value number `level` can put both neurons at thresholds; return the count.

    All values of lower number but one are at corners then, where the density ends or jumps, and that one is
    anywhere between its `ends` (k, 2). `corners` has the corners of each value, `counts`[:, 0] their numbers.
    w (2, k) are the weights of both neurons, `y1` and `y2` their sums over the values of higher number, with
    bias, minus their thresholds. `breakpoints` has `count` entries so far.
    """
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
                count = _insert_sorted(breakpoints, count, (a1 * z2 - c1 * z1) / det, low, high)
    return count


@inlined
def _activity(y: float, t: float) -> float:
    """Return 1 where a neuron with sum y and threshold t is on, 0 where off, 0.5 at the kink of a ReLU."""
    return 1.0 if y > t else 0.5 if y == t and t == 0.0 else 0.0


@inlined
def _add_none_on(b: FloatArray, t: FloatArray, is_nonlinear: bool, sums: FloatArray) -> None:
    """Add the product of two neurons where no feature is on, and its derivatives by b_1 and b_2, to sums[:3].

    b and t are their biases and thresholds; the second is linear unless `is_nonlinear`.
    """
    on1, on2 = _activity(b[0], t[0]), _activity(b[1], t[1]) if is_nonlinear else 1.0
    z1 = b[0] if on1 > 0.0 else 0.0
    z2 = b[1] if on2 > 0.0 else 0.0
    sums[0] += z1 * z2
    sums[1] += on1 * z2
    sums[2] += on2 * z1


@inlined
def _add_integrals(out: FloatArray, share: float, sums: FloatArray, by_w: FloatArray) -> None:
    """Add `share` times the integrals `out` of `_integrate_innermost` over one value v to `sums` and `by_w`.

    `out`, (9,), has two neurons' product, its derivatives by both biases but for jumps, these times v, what
    jumps at both thresholds add, and that times v. `sums` (5,) gets the product, its derivatives by both
    biases, and minus those by both thresholds; column 0 of `by_w` (2, …) gets the derivatives by both
    neurons' weights of v.
    """
    sums[0] += share * out[0]
    for unit in range(2):
        sums[1 + unit] += share * (out[1 + unit] + out[5 + unit])
        sums[3 + unit] += share * out[5 + unit]
        by_w[unit, 0] += share * (out[3 + unit] + out[7 + unit])


@inlined
def _add_mean_of_one(
    table: DensityTable, k: int, w: FloatArray, b: FloatArray, t: FloatArray, is_nonlinear: bool,
    ends: FloatArray, out: FloatArray, sums: FloatArray, by_w: FloatArray,
) -> None:  # fmt: skip
    """Add the mean of two neurons' product over the value of one feature, or of none for k = 0.

    As `add_pair_mean` for k < 2; `out` (9,) is scratch.
    """
    if k == 0:
        _add_none_on(b, t, is_nonlinear, sums)
        return
    line_1, line_2 = (b[0], w[0, 0], t[0]), (b[1], w[1, 0], t[1])
    _integrate_innermost(table, ends[0, 0], ends[0, 1], line_1, line_2, is_nonlinear, out)
    _add_integrals(out, 1.0, sums, by_w)


@inner
def add_pair_mean(
    table: DensityTable,
    k: int,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    is_nonlinear: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    by_w: FloatArray,
) -> None:
    """Add the mean of two neurons' product over the values of k features that are on to `sums` and `by_w`.

    `sums` (5,) gets the value, the derivatives by b_1 and b_2, and the fluxes at both thresholds, which are
    minus the derivatives by these; `by_w` (2, k) the derivatives by the weights. Fluxes are right where the
    weight of feature 0 is not 0. `table` has the density of a value. `w` (2, k or more) are the weights of
    both neurons, b and t their biases and thresholds; the second neuron is linear unless `is_nonlinear`.
    `ends` (k, 2) are the intervals of the values. `corners` has for each value where the density ends or
    jumps, then edges between which it is smooth, `counts` (k, 2) the numbers of the former and of both.
    """
    out = np.empty(9)
    if k < 2:
        _add_mean_of_one(table, k, w, b, t, is_nonlinear, ends, out, sums, by_w)
        return
    size = table.panels.size + 2
    most = 0.0
    for m in range(k):
        most = max(most, counts[m, 0], counts[m, 1])
    size += int(2.0 * most ** (k - 1) + (k - 1) * most ** max(k - 2, 0)) + 2
    breakpoints = np.empty((k, size))
    filled, interval, node = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    base, value, weight = np.zeros((k + 1, 2)), np.zeros(k), np.ones(k + 1)
    base[k, 0], base[k, 1] = b[0], b[1]
    points, scale = np.ones(k, np.int64), _smoothness_scales(k, w, is_nonlinear, table.panels)
    level = k - 1
    filled[level] = _write_breakpoints(
        level,
        b[0] - t[0],
        b[1] - t[1],
        w,
        is_nonlinear,
        ends,
        corners,
        counts,
        table.panels,
        breakpoints[level],
    )
    while True:
        if node[level] > 0 and node[level] == points[level]:
            node[level] = 0
            interval[level] += 1
        while (
            interval[level] < filled[level] - 1
            and breakpoints[level, interval[level] + 1] <= breakpoints[level, interval[level]]
        ):
            interval[level] += 1
        if interval[level] >= filled[level] - 1:
            level += 1
            if level == k:
                return
            continue
        first = breakpoints[level, interval[level]]
        width = breakpoints[level, interval[level] + 1] - first
        q = min((3 + level + table.degree * (level + 1)) // 2 + 1, 24)
        if table.degree < 0:
            share = width / scale[level]
            q = SMOOTH if share > 0.5 else 14 if share > 0.25 else 10 if share > 0.125 else 8
        points[level] = q
        v = first + width * table.nodes[q, node[level]]
        value[level] = v
        weight[level] = weight[level + 1] * width * table.weights[q, node[level]] * density_at(table, v)
        node[level] += 1
        base[level, 0] = base[level + 1, 0] + w[0, level] * v
        base[level, 1] = base[level + 1, 1] + w[1, level] * v
        if level > 1:
            check_interrupt(level == k - 1)
            level -= 1
            interval[level] = node[level] = 0
            y1, y2 = base[level + 1, 0] - t[0], base[level + 1, 1] - t[1]
            filled[level] = _write_breakpoints(
                level, y1, y2, w, is_nonlinear, ends, corners, counts, table.panels, breakpoints[level]
            )
            continue
        line_1, line_2 = (base[1, 0], w[0, 0], t[0]), (base[1, 1], w[1, 0], t[1])
        _integrate_innermost(table, ends[0, 0], ends[0, 1], line_1, line_2, is_nonlinear, out)
        share = weight[1]
        _add_integrals(out, share, sums, by_w)
        for m in range(1, k):
            by_w[0, m] += share * value[m] * (out[1] + out[5])
            by_w[1, m] += share * value[m] * (out[2] + out[6])


@inlined
def _put_steepest_first(free: IntArray, members: IntArray, k: int, w: FloatArray, is_nonlinear: bool) -> None:
    """Exchange the first of k entries of `free`, in place, with the feature that moves both neurons most.

    Entries are positions in `members`, the features that are on. The feature has the largest |w_1j|, or the
    largest min(|w_1j|, |w_2j|) if `is_nonlinear`, for the weights w (2, n) of both neurons.
    """
    best, least = 0, -1.0
    for m in range(k):
        j = members[free[m]]
        small = min(abs(w[0, j]), abs(w[1, j])) if is_nonlinear else abs(w[0, j])
        if small > least:
            best, least = m, small
    if k > 0:
        free[0], free[best] = free[best], free[0]


@inlined
def _write_corners(
    table: DensityTable, low: float, high: float, corners: FloatArray, counts: FloatArray
) -> None:
    """Write to `corners` where the density ends or jumps, then its other edges; to `counts` their numbers.

    They are values v from `low` to `high`, for the density in `table`; 0 counts as an end if it is `low` or
    `high`. `counts`[0] is the number of ends and jumps, `counts`[1] that of all entries.
    """
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
    for c in table.kinks:
        if low < c < high:
            corners[count] = c
            count += 1
    counts[1] = count


@inlined
def _list_active(on: FloatArray, r: int, members: IntArray) -> int:
    """Write the features that are on in row r of `on`, where it is 1, to `members`; return their number."""
    size = 0
    for j in range(on.shape[1]):
        if on[r, j] > 0.0:
            members[size] = j
            size += 1
    return size


@inlined
def _choose_values(
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
    """Write to `state` which atom or span each active feature's value is in, for choice `number`.

    The digits of `number`, the lowest one for the first feature, say which: one of the `inside` spans,
    intervals of the values' density, or one of the `atoms` (place, probability, factor), counted after the
    spans. `members` are the `size` features that are on. Return (number of values in spans, `chance` of the
    on/off pattern times the probabilities of the atoms). Indices into `members` of the values in spans are
    written to `free`. The terms of atoms, with the weights w (2, n), are added to both neurons' sums, `at`;
    the second neuron reads place times factor.
    """
    k, kinds = 0, inside + atoms.shape[0]
    for m in range(size):
        j = members[m]
        state[m] = number % kinds
        number //= kinds
        atom = state[m] - inside
        if atom < 0:
            free[k] = m
            k += 1
        else:
            v = atoms[atom, 0]
            chance *= atoms[atom, 1]
            at[0] += w[0, j] * v
            at[1] += w[1, j] * v * atoms[atom, 2]
    return k, chance


@inlined
def _write_mean_over_spans(
    table: DensityTable,
    k: int,
    spread: FloatArray,
    at: FloatArray,
    t: FloatArray,
    is_nonlinear: bool,
    spherical: bool | None,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    out: FloatArray,
    part: FloatArray,
    by_part: FloatArray,
) -> None:
    """Write the mean of two neurons' product over k values within their intervals to `part` and `by_part`.

    `part` (5,) gets [value, derivatives by both biases, minus those by both thresholds], `by_part` (2, k)
    those by the weights `spread` (2, k). `at` are the sums of both neurons without the k values. `table` has
    the density of a value, t (2,) the thresholds; the second neuron is linear unless `is_nonlinear`. If
    `spherical`, values are standard normal, and two axes are enough; None says that k < 2. `ends` (k, 2) are
    the values' intervals. `corners` has for each value where the density ends or jumps, then edges between
    which it is smooth, `counts` (k, 2) the numbers of the former and of both; `out` (9,) is scratch.
    """
    for m in range(k):
        by_part[0, m] = by_part[1, m] = 0.0
    for m in range(5):
        part[m] = 0.0
    if spherical is None:
        _add_mean_of_one(table, k, spread, at, t, is_nonlinear, ends, out, part, by_part)
        return
    if not spherical or k < 2:
        _write_pair_mean(table, k, spread, at, t, is_nonlinear, ends, corners, counts, part, by_part)
        return
    rotated, axes, by_two = np.zeros((2, 2)), np.zeros((2, k)), np.zeros((2, 2))
    _rotate_to_plane(k, spread, is_nonlinear, rotated, axes)
    _write_pair_mean(table, non_literal(2), rotated, at, t, is_nonlinear, ends, corners, counts, part, by_two)
    for m in range(k):
        for unit in range(2):
            by_part[unit, m] = by_two[unit, 0] * axes[0, m] + by_two[unit, 1] * axes[1, m]


@inlined
def _put_at_thresholds(at: FloatArray, t: FloatArray, slack: FloatArray, is_nonlinear: bool) -> None:
    """Set sums `at` of neurons (the second if `is_nonlinear`) to thresholds t that are within `slack`."""
    for unit in range(2 if is_nonlinear else 1):
        if abs(at[unit] - t[unit]) <= slack[unit]:
            at[unit] = t[unit]


@kernel
def add_pattern_means(
    table: DensityTable,
    spans: FloatArray,
    atoms: FloatArray,
    on: FloatArray,
    chances: FloatArray,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    slack: FloatArray,
    is_nonlinear: bool,
    spherical: bool | None,
    sums: FloatArray,
    by_w: FloatArray,
) -> None:
    """Add the mean of two neurons' product over patterns of features to `sums` and `by_w`.

    Row r of `sums`, or its only row, gets the part of pattern r: value, derivatives by both biases, minus
    those by both thresholds. `by_w` (2, n) gets the derivatives by weights in all patterns. The neurons have
    the weights w (2, n), biases b and thresholds t; the second is linear unless `is_nonlinear`. `on` (r, n)
    are patterns, `chances` (r,) their probabilities. The value of a feature that is on is in one of the
    `spans` (s, 3) of the density in `table`, or at one of the `atoms` (a, 3). Their rows are (low end, high
    end, factor) and (place, probability, factor); the second neuron reads a value there times the factor. If
    `spherical`, values are standard normal; None says that at most one feature is on at a time, for which
    little needs to be compiled. Sums that differ from a threshold by less than `slack` count as equal to it.
    """
    n = w.shape[1]
    inside, kinds = spans.shape[0], spans.shape[0] + atoms.shape[0]
    indices, vectors = np.empty((3, n), np.int64), np.empty((3, 9))
    members, state, free = indices[0], indices[1], indices[2]
    part, at, out = vectors[0], vectors[1], vectors[2]
    spread, by_part, ends, counts = np.empty((2, n)), np.empty((2, n)), np.empty((n, 2)), np.empty((n, 2))
    corners = np.empty((n, table.corners.size + table.kinks.size + 1))
    for r in range(chances.size):
        row, size = min(r, sums.shape[0] - 1), _list_active(on, r, members)
        for number in range(kinds**size):
            check_interrupt(number % 256 == 255 or r % 256 == 255)
            at[0], at[1] = b[0], b[1]
            k, share = _choose_values(number, chances[r], size, members, state, free, inside, atoms, w, at)
            if share == 0.0:
                continue
            _put_at_thresholds(at, t, slack, is_nonlinear)
            if spherical is not None:
                _put_steepest_first(free, members, k, w, is_nonlinear)
            for m in range(k):
                j, span = members[free[m]], state[free[m]]
                spread[0, m], spread[1, m] = w[0, j], w[1, j] * spans[span, 2]
                ends[m, 0], ends[m, 1] = spans[span, 0], spans[span, 1]
                if spherical is not None:
                    _write_corners(table, ends[m, 0], ends[m, 1], corners[m], counts[m])
            _write_mean_over_spans(
                table, k, spread, at, t, is_nonlinear, spherical, ends, corners, counts, out, part, by_part
            )
            for m in range(5):
                sums[row, m] += share * part[m]
            for m in range(k):
                j, span = members[free[m]], state[free[m]]
                by_w[0, j] += share * by_part[0, m]
                by_w[1, j] += share * by_part[1, m] * spans[span, 2]
            for m in range(size):
                atom = state[m] - inside
                if atom >= 0:
                    by_w[0, members[m]] += share * part[1] * atoms[atom, 0]
                    by_w[1, members[m]] += share * part[2] * atoms[atom, 0] * atoms[atom, 2]


@inlined
def _dot(k: int, a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of the first k entries of a and b."""
    total = 0.0
    for m in range(k):
        total += a[m] * b[m]
    return total


@inner
def _rotate_to_plane(
    k: int, w: FloatArray, is_nonlinear: bool, rotated: FloatArray, axes: FloatArray
) -> None:
    """Write two orthonormal axes (2, k) to `axes`, and both neurons' weights w on these to `rotated`.

    Both arrays are 0 before. The first axis is the direction of the first neuron's weights if it alone is
    nonlinear (not `is_nonlinear`). Otherwise it bisects the angle between both neurons' lines: no neuron's
    weight on the second axis is larger than on the first then, so that the mean over the first axis is smooth
    in the second at scale 1.
    """
    size1, size2 = math.sqrt(_dot(k, w[0], w[0])), math.sqrt(_dot(k, w[1], w[1]))
    if size1 == 0.0 and size2 == 0.0:
        return
    first, second = np.empty(k), np.empty(k)
    for m in range(k):
        first[m] = w[0, m] / size1 if size1 > 0.0 else w[1, m] / size2
        second[m] = w[1, m] / size2 if size2 > 0.0 else first[m]
    side = -1.0 if _dot(k, first, second) < 0.0 else 1.0
    for m in range(k):
        axes[0, m] = first[m] + side * second[m] if is_nonlinear else first[m]
        axes[1, m] = first[m] - side * second[m]
    _normalise(k, axes[0])
    _subtract_projection(k, axes[1], axes[0])
    if _normalise(k, axes[1]) > 0.0:
        _subtract_projection(k, axes[1], axes[0])
        _normalise(k, axes[1])
    for unit in range(2):
        for axis in range(2):
            rotated[unit, axis] = _dot(k, w[unit], axes[axis])
    if not is_nonlinear and size1 > 0.0:
        rotated[0, 1] = 0.0


@inlined
def _normalise(k: int, v: FloatArray) -> float:
    """Scale the vector v, of k entries, to length 1 unless it is 0; return the length it had."""
    length = math.sqrt(_dot(k, v, v))
    for m in range(k if length > 0.0 else 0):
        v[m] /= length
    return length


@inlined
def _subtract_projection(k: int, v: FloatArray, axis: FloatArray) -> None:
    """Subtract from the vector v, of k entries, its projection on the unit vector `axis`."""
    projection = _dot(k, v, axis)
    for m in range(k):
        v[m] -= projection * axis[m]


@inner
def _write_pair_mean(
    table: DensityTable,
    k: int,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    is_nonlinear: bool,
    ends: FloatArray,
    corners: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    by_w: FloatArray,
) -> None:
    """Write the mean of two neurons' product over k features' values, and derivatives, to `sums` and `by_w`.

    As `add_pair_mean` from 0, but derivatives by thresholds are right for any weights of feature 0. `sums`
    (5,) gets [value, derivatives by both biases, minus those by both thresholds], `by_w` (2, k) those by the
    weights w; b are the biases. `table` has the density of a value, t (2,) the thresholds; the second neuron
    is linear unless `is_nonlinear`. `ends` (k, 2) are the values' intervals. `corners` has for each value
    where the density ends or jumps, then edges between which it is smooth, `counts` (k, 2) the numbers of the
    former and of both.
    """
    add_pair_mean(table, k, w, b, t, is_nonlinear, ends, corners, counts, sums, by_w)
    for unit in range(2):
        if k < 2 or t[unit] == 0.0 or (unit == 1 and not is_nonlinear) or w[unit, 0] != 0.0:
            continue
        first = non_literal(0)
        for m in range(1, k):
            if abs(w[unit, m]) > abs(w[unit, first]):
                first = m
        if w[unit, first] == 0.0:
            continue
        part, by_part = np.zeros(5), np.zeros((2, k))
        _exchange_features(first, w, ends, corners, counts)
        add_pair_mean(table, k, w, b, t, is_nonlinear, ends, corners, counts, part, by_part)
        _exchange_features(first, w, ends, corners, counts)
        sums[1 + unit], sums[3 + unit] = part[1 + unit], part[3 + unit]
        for m in range(k):
            by_w[unit, first if m == 0 else 0 if m == first else m] = by_part[unit, m]


@inlined
def _exchange_features(
    first: int, w: FloatArray, ends: FloatArray, corners: FloatArray, counts: FloatArray
) -> None:
    """Exchange feature 0 with feature `first` in the arrays w, `ends`, `corners` and `counts`."""
    for unit in range(2):
        w[unit, 0], w[unit, first] = w[unit, first], w[unit, 0]
        ends[0, unit], ends[first, unit] = ends[first, unit], ends[0, unit]
        counts[0, unit], counts[first, unit] = counts[first, unit], counts[0, unit]
    for m in range(corners.shape[1]):
        corners[0, m], corners[first, m] = corners[first, m], corners[0, m]
