r"""Levels of the weights of independent uniform features: what kernels of the loss and its gradient share.

The output is ReLU(a x + b + nu) with the interference nu = sum_j m_j x_j. Its loss is E g(b + nu), with
g(t) = E (x - ReLU(a x + t))^2. Patterns of on and off with at most one other feature on are integrated one by
one (`loss_none_on`, `loss_one_on`). The others fall into levels. The entries m_j are sorted by size. A level
holds the patterns in which all entries of the levels before are off, and at least one that is not small
beside the largest of the level is on. So each level has its own scale, and its transform decays at that
scale. With A_j(s) = E exp(s m_j x_j) and N_j = prod_{k<j} (1-p_k), the transform D(s) of a level, started
from D = S = 0, follows

    D <- D A_j + N_j S v_j,   S <- S + v_j/(1-p_j) (large entries only),   v_j = A_j - (1-p_j),

which subtracts nothing, however small p is. The level's mean of J(t + nu), for J(t) = 0 far to the
left and a polynomial far to the right, is a Bromwich integral, and Poisson's formula makes the sum
over its lattice exact but for known images: for P = 2 pi/h, c = kappa/P and t + nu in [-P, P],

    (h / 2 pi) sum_k K(s_k) D(s_k) exp(s_k t) = E J(t + nu) + sum_{l>0} e^(-kappa l) E J(t + nu + l P),

s_k = c + i h k, where K is the transform of J. The images on the right are polynomials in the
moments of the level; what escapes [-P, P] is bounded by Chernoff, what is cut off at large k by
|A_j(s)| <= 1 - p_j + p_j min(phi(c m_j), (1 + e^(c m_j)) / |s m_j|), phi(z) = (e^z - 1)/z.
"""

import math
from typing import NamedTuple

import numpy as np

from ....theory.compile.kernels import inner
from ....theory.features.values.uniform import transform
from ....theory.special.order import ascending
from ....theory.validation import FloatArray, IntArray

__all__ = [
    "BLOCK",
    "GAUSS",
    "KAPPA",
    "LEAST_P",
    "NEGLIGIBLE",
    "ROWS_TO_CHECK",
    "SMALL",
    "STEEP",
    "UNIT",
    "WORK",
    "Four",
    "Level",
    "Three",
    "absolute_level",
    "add_uniform_term",
    "advance_sweep",
    "choose_blocks",
    "combine",
    "complex_expm1",
    "count_large",
    "cumulative_p_off",
    "expm1_at",
    "fill_table",
    "find_inputs",
    "loss_none_on",
    "loss_one_on",
    "mean_of",
    "moments_of",
    "p_at_most_one_on",
    "period_of",
    "rounding_correction",
    "rounding_of_product",
    "sizes_of",
    "sort_by_size",
    "start_block",
    "transform_at",
    "transforms_of",
]

Four = tuple[float, float, float, float]
Three = tuple[float, float, float]


class Level(NamedTuple):
    """A set of on/off patterns: of features with weights m, of falling size, on with probabilities p.

    A pattern belongs to the level if two or more features are on, and one of the first `large` among them,
    whose weights are of similar size.
    """

    m: FloatArray
    large: int
    p: FloatArray


BLOCK = 64  # frequencies whose phases come from one table
KAPPA = 5.0  # terms outgrow their sum by kappa^-2 where tails are light, by e^kappa at worst
SMALL = 1.0 / 32.0  # entries below this part of the largest wait for a level of their own
# Chance that stands for 0 where a feature is always on: its inverse times e^(s m) is no overflow.
LEAST_P = 1e-200
NEGLIGIBLE = 1e-60  # entries as small as this change a loss by less than any double near p can show
WORK = 2.0**28  # factors per level at most, a quarter of a second; beyond it the error estimate grows
ROWS_TO_CHECK = 16  # outputs after which a signal is answered: a fast one takes as long as ten checks
UNIT = 2.0**-53  # rounding
STEEP = 0.01  # with derivatives, what is cut off of these counts so much
GAUSS = np.sqrt(0.15)  # three points are exact up to degree 5


@inner
def rounding_of_product(count: int, drift: float) -> float:
    """Return the rounding error of a product of `count` factors, in units of 2^-53.

    Factors are rounded at random, but for a common `drift`: it is 16 + 4 sqrt(count) + drift count.
    """
    return float(16.0 + 4.0 * np.sqrt(count) + drift * count)


@inner
def cumulative_p_off(p: FloatArray) -> FloatArray:
    """Return N_j = prod_{k<j} (1 - p_k), the probabilities that all features before j are off, (n + 1,).

    Where p_k = 1, a factor of `LEAST_P` stands for 0.
    """
    none = np.empty(p.size + 1)
    log, rest, none[0] = 0.0, 1.0, 1.0
    for j in range(p.size):
        if p[j] < 0.5:
            log += np.log1p(-p[j])
        else:
            rest *= max(1.0 - p[j], LEAST_P)  # the difference is exact
        none[j + 1] = np.exp(log) * rest
    return none


@inner
def rounding_correction(p: FloatArray) -> float:
    """Return the factor by which the product of all rounded 1 - p_j has to be multiplied to correct it."""
    total = 1.0
    for p_j in p:
        total += (1.0 - (1.0 - p_j)) - p_j
    return total


@inner
def combine(alpha: float, u: Four, beta: float, v: Four) -> Four:
    """Return alpha u + beta v, entry by entry."""
    return (
        alpha * u[0] + beta * v[0],
        alpha * u[1] + beta * v[1],
        alpha * u[2] + beta * v[2],
        alpha * u[3] + beta * v[3],
    )


@inner
def add_uniform_term(v: Four, x: float) -> Four:
    """Return the raw moments 0 to 3 of y + x u, u uniform on [0, 1], from `v`, those of y."""
    return (
        v[0],
        v[1] + x * v[0] / 2.0,
        v[2] + x * (v[1] + x * v[0] / 3.0),
        v[3] + x * (1.5 * v[2] + x * (v[1] + x * v[0] / 4.0)),
    )


@inner
def moments_of(level: Level, t: float) -> Four:
    """Return the raw moments 0 to 3 of t + nu, nu = sum_j m_j x_j, over a level, a set of on/off patterns.

    They are sums over the patterns, with their probabilities; moment 0 is the probability of the level.
    """
    m, large, p = level
    none_on, one_on, more_on = (1.0, t, t * t, t * t * t), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    for j in range(m.size):
        off = 1.0 - p[j]
        more_on = combine(off, more_on, p[j], add_uniform_term(combine(1.0, one_on, 1.0, more_on), m[j]))
        one_on = combine(off, one_on, p[j] if j < large else 0.0, add_uniform_term(none_on, m[j]))
        none_on = combine(off, none_on, 0.0, none_on)
    return combine(rounding_correction(p), more_on, 0.0, more_on)


@inner
def mean_of(polynomial: Four, moments: Four, shift: float) -> float:
    """Return the mean of a polynomial of y + shift from the raw moments 0 to 3 of y.

    `polynomial` has its coefficients, lowest power first.
    """
    c, v = polynomial, moments
    return (
        c[0] * v[0]
        + c[1] * (v[1] + shift * v[0])
        + c[2] * (v[2] + shift * (2.0 * v[1] + shift * v[0]))
        + c[3] * (v[3] + shift * (3.0 * v[2] + shift * (3.0 * v[1] + shift * v[0])))
    )


@inner
def absolute_level(level: Level) -> Level:
    """Return the level, a set of on/off patterns, with the absolute values of its weights."""
    m = np.empty(level.m.size)
    for j in range(m.size):
        m[j] = abs(level.m[j])
    return Level(m, level.large, level.p)


@inner
def sizes_of(polynomial: Four) -> Four:
    """Return the absolute values of the coefficients of a polynomial."""
    return abs(polynomial[0]), abs(polynomial[1]), abs(polynomial[2]), abs(polynomial[3])


@inner
def _bound_transform(level: Level, real: float, radius: float) -> float:
    """Return a bound of |E e^(s nu)| over a level for all s with Re s = real and |s| >= radius.

    The `level` is a set of on/off patterns, and E sums over them, with their probabilities; nu = sum_j m_j
    x_j. For radius = 0 the result is E e^(real nu) itself.
    """
    m, large, p = level
    none_on, one_on, more_on = 1.0, 0.0, 0.0
    for j in range(m.size):
        rise = np.expm1(real * m[j])
        bound = rise / (real * m[j]) if rise != 0.0 else 1.0
        if radius > 0.0:
            bound = min(bound, (2.0 + rise) / (radius * abs(m[j])))
        off, on = 1.0 - p[j], p[j] * bound
        more_on = more_on * (off + on) + one_on * on
        one_on = one_on * off + (none_on * on if j < large else 0.0)
        none_on *= off
    return more_on


@inner
def _chernoff_period(
    level: Level, side: float, start: float, growth: Three, tolerance: float, theta: float
) -> float:
    """Return the period P of a lattice for which Chernoff's bound of the images' error is `tolerance`.

    A sum over frequencies 2 pi/P apart adds images of the mean over the `level`, a set of on/off patterns:
    image l = 1, 2, … is shifted by l P to one `side`, 1 or -1. The known form of an image is wrong where tau
    = start + side nu - l P > 0 for the interference nu, by at most sum_k growth[k] tau^(k + 1). With the
    parameter theta > 0 of the bound, tau^k <= (k / (e theta))^k e^(theta tau). P is inf where e^(theta nu) is
    too large.
    """
    mean = _bound_transform(level, side * theta, 0.0) if theta * abs(level.m[0]) < 500.0 else np.inf
    if not mean < 1e250:
        return np.inf
    scale = 1.0 / (math.e * theta)
    bound = scale * (growth[0] + scale * (4.0 * growth[1] + 27.0 * scale * growth[2]))
    log = theta * start + np.log(2.0 * bound) + np.log(mean) - np.log(tolerance)
    # images fade by e^(side kappa - theta P), at least by half: twice the first bounds them all
    return float(max(side * KAPPA + log, KAPPA + 1.0) / theta)


@inner
def _least_period(
    level: Level, side: float, start: float, growth: Three, tolerance: float
) -> tuple[float, float]:
    """Return (least period at which images on one side, 1 or -1, are negligible; bound of their error).

    Images l = 1, 2, … are copies of the mean over the `level`, a set of on/off patterns, shifted by l P, that
    a sum over frequencies adds. The known form of image l is wrong where tau = start + side nu - l P > 0 for
    the interference nu, by at most sum_k growth[k] tau^(k + 1). The error of all is to be at most
    `tolerance`.
    """
    m, p = level.m, level.p
    reach, square = 0.0, 0.0
    for j in range(m.size):
        rise = max(side * m[j], 0.0)
        reach, square = reach + rise, square + p[j] * rise * rise
    hard = start + reach
    if reach == 0.0:
        return hard, 0.0
    # the period falls up to the best theta and rises behind it; a normal law would have it near the guess
    guess = np.sqrt(6.0 * max(np.log(square / tolerance), 1.0) / square)
    guess = max(min(guess, 400.0 / abs(m[0])), 1.0 / reach)
    best = _chernoff_period(level, side, start, growth, tolerance, guess)
    for factor in (1.5, 1.0 / 1.5):
        theta = factor * guess
        while theta * reach > 0.5:
            period = _chernoff_period(level, side, start, growth, tolerance, theta)
            if not period < best and (best < np.inf or factor > 1.0):
                break
            best = min(best, period)
            theta *= factor
    return (best, tolerance) if best < hard else (hard, 0.0)


@inner
def _add_compensated(acc: FloatArray, at: int, lost: int, old: float, gain: float) -> None:
    """Write old + gain - acc[lost] to acc[at], and the rounding error of this to acc[lost] (Kahan)."""
    step = gain - acc[lost]
    new = old + step
    acc[at], acc[lost] = new, (new - old) - step


@inner
def transform_at(acc: FloatArray, table: FloatArray, rise: complex, weight: float, f: int) -> Four:
    """Return Re and Im of e^z - 1 with z = s m, and of weight (e^z - 1)/s, at frequency f of a block.

    m is a feature's weight, and s = c + i h k the frequency. `acc` begins with Re and then Im of 1/s, `BLOCK`
    entries each, `table` holds e^(i h m f) - 1 likewise, and `rise` is e^(s m) - 1 at the block's first s. So
    e^z - 1 never comes from a difference.
    """
    real, imag = rise.real, rise.imag
    turn_re, turn_im = table[f], table[BLOCK + f]
    e_re = real + turn_re + (real * turn_re - imag * turn_im)
    e_im = imag + turn_im + (real * turn_im + imag * turn_re)
    inverse_re, inverse_im = acc[f], acc[BLOCK + f]
    v_re = (e_re * inverse_re - e_im * inverse_im) * weight
    v_im = (e_re * inverse_im + e_im * inverse_re) * weight
    return e_re, e_im, v_re, v_im


@inner
def advance_sweep(
    acc: FloatArray,
    table: FloatArray,
    rise: complex,
    weight: float,
    p: float,
    skip: float,
    add: float,
    width: int,
) -> None:
    """Update the transforms D and S in `acc` by one more feature: D <- D A + skip v S, S <- S + add v.

    D is E e^(s nu) of the interference nu over the level: the patterns of the features so far with two or
    more on, at least one of them large (one of the first few, of largest weights). S is E e^(s nu) over the
    patterns with just one feature on, a large one, divided by the probability that all are off. A = 1 - p + v
    is the transform of the new feature, v its part where it is on, with probability p. `skip` is the
    probability that all features before are off, `add` is 1/(1 - p) for a large feature, else 0. `acc` has
    parts of `BLOCK` frequencies s, of which `width` are used: Re and Im of 1/s, D, S, and the rounding errors
    of sums D and S (thousands of equal factors would round alike). `weight` is p over the feature's weight m,
    `table` holds e^(i h m f) - 1 for frequency f of the block, `rise` is e^(s m) - 1 at its first s.
    """
    for f in range(width):
        _, _, v_re, v_im = transform_at(acc, table, rise, weight, f)
        at_d, at_s = 2 * BLOCK + f, 4 * BLOCK + f
        d_re, d_im, s_re, s_im = acc[at_d], acc[at_d + BLOCK], acc[at_s], acc[at_s + BLOCK]
        g_re, g_im = d_re + skip * s_re, d_im + skip * s_im
        _add_compensated(acc, at_d, at_d + 4 * BLOCK, d_re, (g_re * v_re - g_im * v_im) - p * d_re)
        _add_compensated(acc, at_d + BLOCK, at_d + 5 * BLOCK, d_im, (g_re * v_im + g_im * v_re) - p * d_im)
        _add_compensated(acc, at_s, at_s + 4 * BLOCK, s_re, add * v_re)
        _add_compensated(acc, at_s + BLOCK, at_s + 5 * BLOCK, s_im, add * v_im)


@inner
def fill_table(table: FloatArray, angle: float, width: int) -> None:
    """Fill `table` with e^(i angle f) - 1 for f < width: real parts first, imaginary ones from BLOCK on.

    The entries are exact to rounding.
    """
    table[0], table[BLOCK] = 0.0, 0.0
    filled, half = 1, np.sin(0.5 * angle)
    while filled < width:
        re, im = -2.0 * half * half, np.sin(angle * filled)
        for f in range(filled):
            f_re, f_im = table[f], table[BLOCK + f]
            table[filled + f] = f_re + re + (f_re * re - f_im * im)
            table[BLOCK + filled + f] = f_im + im + (f_re * im + f_im * re)
        filled, half = 2 * filled, im


@inner
def complex_expm1(s: complex, x: float) -> complex:
    """Return e^(s x) - 1 without cancellation."""
    rise, half = np.expm1(s.real * x), np.sin(0.5 * s.imag * x)
    return complex(rise - 2.0 * (1.0 + rise) * half * half, (1.0 + rise) * np.sin(s.imag * x))


@inner
def expm1_at(table: FloatArray, rise: complex, f: int) -> complex:
    """Return e^(s x) - 1 at frequency f of a block, f = 0, 1, ..., from its value at f = 0, `rise`.

    `table` has e^(i h x f) - 1, h being the step of the frequencies, real parts first and imaginary ones from
    `BLOCK` on.
    """
    turn = complex(table[f], table[BLOCK + f])
    return rise + turn + rise * turn


@inner
def transforms_of(z: complex, rise: complex, inverse: complex) -> tuple[complex, complex, complex]:
    """Return E v^r e^(z v), r = 0, 1, 2, v uniform on [0, 1], from `rise` = e^z - 1 and `inverse` = 1/z.

    Where z is small, only z is used.
    """
    if z.real * z.real + z.imag * z.imag <= 2.25:
        return transform(z)
    order_0 = rise * inverse
    order_1 = (rise + 1.0 - order_0) * inverse
    return order_0, order_1, (rise + 1.0 - 2.0 * order_1) * inverse


@inner
def _bound_cut_off(level: Level, a: float, t: float, shape: Three, c: float, omega: float) -> float:
    """Return a bound of the part of the lattice sum above the frequency omega: 1/pi times an integral.

    Frequencies are c + i y, y > omega. The sum is that for E J(t + nu) over a `level`, a set of on/off
    patterns with the interference nu. J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) +
    shape_2 t_+^3, for the value v of a target of weight a that is on.
    """
    tail = abs(shape[0]) / omega**2 + 2.0 * abs(shape[2]) / omega**3
    if shape[1] != 0.0:
        factor, slope, _ = transform(complex(c * a, 0.0))
        square, product = factor.real, slope.real
        if a != 0.0:
            rise, unit = np.exp(c * a), omega * abs(a)
            square = min(square, (1.0 + rise) / unit)
            product = min(product, (rise * (1.0 + 1.0 / unit) + 1.0 / unit) / (2.0 * unit))
        tail += shape[1] * (square / omega**2 + 2.0 * product / omega)
    return float(np.exp(c * t) / np.pi * tail * _bound_transform(level, c, omega))


@inner
def start_block(acc: FloatArray, c: float, h: float, block: int) -> None:
    """Fill `acc` for a block of frequencies s = c + i h k: with 1/s, and 0 for the transforms D and S.

    k goes from `block` times BLOCK on. `acc` is the array that `advance_sweep` updates feature by feature, in
    parts of `BLOCK` entries: Re and Im of 1/s, of D and of S, then rounding errors of D and S. D and S are
    transforms E e^(s nu) of the interference of no features yet.
    """
    acc[2 * BLOCK :] = 0.0
    for f in range(BLOCK):
        k = h * (block * BLOCK + f)
        inverse = 1.0 / (c * c + k * k)
        acc[f], acc[BLOCK + f] = c * inverse, -k * inverse


@inner
def period_of(
    level: Level, ends: tuple[float, float], growth: Three, tolerance: float
) -> tuple[float, float]:
    """Return (period of the lattice for a level's mean, bound of the error by its copies on both sides).

    The mean is that of J(t + nu) over the `level`, a set of on/off patterns, with nu = sum_j m_j x_j. A sum
    over frequencies adds copies of it, a period apart. J(t + nu) is 0 where ends[0] + nu < 0, and a
    polynomial where ends[1] + nu > 0. At a distance d past such an end, J, or its difference from the
    polynomial, is at most sum_k growth[k] d^(k + 1). `tolerance` is the error to aim at.
    """
    right, escaped = _least_period(level, 1.0, ends[0], growth, 0.02 * tolerance)
    left, missed = _least_period(level, -1.0, -ends[1], growth, 0.02 * tolerance)
    return max(right, left), escaped + missed


@inner
def choose_blocks(
    level: Level,
    a: float,
    t: float,
    shape: Three,
    line: tuple[float, float],
    allowed: float,
    steep: float,
    most: float,
) -> tuple[int, int, float]:
    """Return (number of blocks of frequencies, frequencies used of each block, bound of what the sum omits).

    The sum over frequencies is that for E J(t + nu), with the interference nu of the on/off patterns `level`,
    and J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) + shape_2 t_+^3, for the value v of a
    target of weight a that is on. Frequencies are s = c + i h k with `line` = (c, h), `BLOCK` to a block; of
    a single block a quarter or half may do. There are at most `most` blocks.

    The bound is of the terms above the last frequency omega. Unless `most` is reached, the bound times max(1,
    `steep` omega) is at most `allowed`: derivatives lose more than the loss does.
    """
    c, h = line
    most = min(most, max(np.floor(WORK / (level.m.size * BLOCK)), 1.0))
    blocks = 0.25 if most <= 1.0 else 1.0
    while True:
        omega = h * (BLOCK * blocks - 1.0)
        cut = _bound_cut_off(level, a, t, shape, c, omega)
        if cut * max(steep * omega, 1.0) <= allowed or blocks >= most:
            return int(np.ceil(blocks)), int(BLOCK * min(blocks, 1.0)), cut
        blocks = min(np.ceil(1.2 * blocks) if blocks >= 1.0 else 2.0 * blocks, most)


@inner
def find_inputs(row: FloatArray, target: int) -> IntArray:
    """Return the indices of the features other than `target` whose entry in `row` is not negligible."""
    index, count = np.empty(row.size, np.int64), 0
    for j in range(row.size):
        if j != target and abs(row[j]) > NEGLIGIBLE:
            index[count], count = j, count + 1
    return index[:count]


@inner
def sort_by_size(row: FloatArray, chances: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return (indices, entries of `row`, their `chances`), sorted by |entry|, the largest first."""
    m, p = np.empty(row.size), np.empty(row.size)
    for j in range(row.size):
        m[j] = -abs(row[j])
    order = ascending(m)
    for j in range(row.size):
        m[j], p[j] = row[order[j]], chances[order[j]]
    return order, m, p


@inner
def count_large(m: FloatArray) -> tuple[int, float]:
    """Return (number of entries of m of size at least `SMALL` |m[0]|, sum of the sizes of all entries)."""
    total_weight, large = 0.0, 0
    for m_j in m:
        total_weight += abs(m_j)
        large += 1 if abs(m_j) >= SMALL * abs(m[0]) else 0
    return large, total_weight


@inner
def p_at_most_one_on(p: FloatArray) -> tuple[float, FloatArray]:
    """Return (probability that no feature is on, (n,) probabilities that each is the only one on)."""
    back, alone = np.empty(p.size), np.empty(p.size)
    for j in range(p.size):
        back[j] = p[p.size - 1 - j]
    ahead, behind = cumulative_p_off(p), cumulative_p_off(back)
    for j in range(p.size):
        alone[j] = ahead[j] * p[j] * behind[p.size - 1 - j]
    return ahead[p.size], alone


@inner
def loss_none_on(t: float, a: float, p_target_active: float) -> Three:
    """Return g(t) = E (x - ReLU(a x + t))^2 and its derivatives by t and by a.

    The target x is on with probability `p_target_active`, and then uniform on [0, 1].
    """
    low, high = 0.0, 0.0  # where the output is on
    if a > 0.0:
        low, high = min(max(-t / a, 0.0), 1.0), 1.0
    elif a < 0.0:
        high = min(max(-t / a, 0.0), 1.0)
    elif t > 0.0:
        high = 1.0
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    node = half / np.sqrt(3.0)
    left, right = (1.0 - a) * (middle - node) - t, (1.0 - a) * (middle + node) - t
    loss = (low**3 + (1.0 - high) * (1.0 + high + high * high)) / 3.0 + half * (left * left + right * right)
    ramp, twice = max(t, 0.0), 2.0 * p_target_active * half
    by_t = 2.0 * (1.0 - p_target_active) * ramp - twice * (left + right)
    by_a = -twice * ((middle - node) * left + (middle + node) * right)
    return (1.0 - p_target_active) * ramp * ramp + p_target_active * loss, by_t, by_a


@inner
def loss_one_on(b: float, m: float, a: float, p_target_active: float) -> Four:
    """Return the mean of g(b + m v) over v uniform on [0, 1], and its derivatives by b, m and a.

    g(t) = E (x - ReLU(a x + t))^2 for the target x, on with probability `p_target_active` and then uniform on
    [0, 1].
    """
    first, second = min(max(-b / m, 0.0), 1.0), min(max(-(a + b) / m, 0.0), 1.0)
    ends = (0.0, min(first, second), max(first, second), 1.0)
    mean, by_b, by_m, by_a = 0.0, 0.0, 0.0, 0.0
    for piece in range(3):
        width, middle = ends[piece + 1] - ends[piece], 0.5 * (ends[piece + 1] + ends[piece])
        if width > 0.0:
            node = width * GAUSS
            low, high = middle - node, middle + node
            left, right = (
                loss_none_on(b + m * low, a, p_target_active),
                loss_none_on(b + m * high, a, p_target_active),
            )
            center = loss_none_on(b + m * middle, a, p_target_active)
            mean += width / 18.0 * (5.0 * (left[0] + right[0]) + 8.0 * center[0])
            by_b += width / 18.0 * (5.0 * (left[1] + right[1]) + 8.0 * center[1])
            by_m += width / 18.0 * (5.0 * (low * left[1] + high * right[1]) + 8.0 * middle * center[1])
            by_a += width / 18.0 * (5.0 * (left[2] + right[2]) + 8.0 * center[2])
    return mean, by_b, by_m, by_a
