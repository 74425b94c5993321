r"""Kernels of the exact loss for independent uniform features, where two or more disturb an output.

The output is ReLU(a x + b + nu) with the interference nu = sum_j m_j x_j. Its loss is E g(b + nu), with
g(t) = E (x - ReLU(a x + t))^2. `few` has the patterns of on and off with at most one other feature on. The
others fall into levels. The entries m_j are sorted by size. A level holds the patterns in which all entries
of the levels before are off, and at least one that is not small beside the largest of the level is on. So
each level has its own scale, and its transform decays at that scale. With A_j(s) = E exp(s m_j x_j) and
N_j = prod_{k<j} (1-p_k), the transform D(s) of a level, started from D = S = 0, follows

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
import numpy.typing as npt

from ....theory.compile.kernels import check_interrupt, inner, kernel
from ....theory.features.values.uniform import transform
from ....theory.special.order import ascending
from ....theory.validation import FloatArray
from ...parallel import parallel_concat
from .outputs import AccuracyRequest, BoolArray, Law, Outputs, Rows

__all__ = ["ESTIMATE", "NEGLIGIBLE", "covers", "estimated_seconds", "rows_uniform", "solve", "terms"]

Four = tuple[float, float, float, float]
Three = tuple[float, float, float]


class Level(NamedTuple):
    """Entries that fall in size with their probabilities; `large` of them are not small beside the first.

    A pattern belongs to the level if two or more entries are on, and one of the first `large` among them.
    """

    m: FloatArray
    large: int
    p: FloatArray


BLOCK = 64  # frequencies whose phases come from one table
CHUNK = 32  # blocks kept in the second-level cache together
KAPPA = 5.0  # terms outgrow their sum by kappa^-2 where tails are light, by e^kappa at worst
SMALL = 1.0 / 32.0  # entries below this part of the largest wait for a level of their own
# Chance that stands for 0 where a feature is always on: its inverse times e^(s m) is no overflow.
NEVER = 1e-200
NEGLIGIBLE = 1e-60  # entries as small as this change a loss by less than any double near p can show
WORK = 2.0**28  # factors per level at most, a quarter of a second; beyond it the error estimate grows
UNIT = 2.0**-53  # rounding
STEEP = 0.01  # with derivatives, what is cut off of these counts so much
GAUSS = np.sqrt(0.15)  # three points are exact up to degree 5


@inner
def noise_of(count: int, drift: float) -> float:
    """Return the rounding error of `count` factors in units of 2^-53: a random walk, and `drift` for each."""
    return float(16.0 + 4.0 * np.sqrt(count) + drift * count)


@inner
def all_off(p: FloatArray) -> FloatArray:
    """Return N_j = prod_{k<j} (1 - p_k) for j = 0, ..., n; where p_k = 1, a factor of NEVER stands for 0."""
    none = np.empty(p.size + 1)
    log, rest, none[0] = 0.0, 1.0, 1.0
    for j in range(p.size):
        if p[j] < 0.5:
            log += np.log1p(-p[j])
        else:
            rest *= max(1.0 - p[j], NEVER)  # the difference is exact
        none[j + 1] = np.exp(log) * rest
    return none


@inner
def repair(p: FloatArray) -> float:
    """Return the factor that corrects a product of factors near 1 for the rounding of each 1 - p."""
    total = 1.0
    for p_j in p:
        total += (1.0 - (1.0 - p_j)) - p_j
    return total


@inner
def blend(alpha: float, u: Four, beta: float, v: Four) -> Four:
    return (
        alpha * u[0] + beta * v[0],
        alpha * u[1] + beta * v[1],
        alpha * u[2] + beta * v[2],
        alpha * u[3] + beta * v[3],
    )


@inner
def spread(v: Four, x: float) -> Four:
    """Return the raw moments 0 to 3 of y + x u, u uniform, from those of y."""
    return (
        v[0],
        v[1] + x * v[0] / 2.0,
        v[2] + x * (v[1] + x * v[0] / 3.0),
        v[3] + x * (1.5 * v[2] + x * (v[1] + x * v[0] / 4.0)),
    )


@inner
def moments_of(level: Level, t: float) -> Four:
    """Return the raw moments 0 to 3 of t + nu over the patterns of a level."""
    m, large, p = level
    none_on, one_on, more_on = (1.0, t, t * t, t * t * t), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    for j in range(m.size):
        off = 1.0 - p[j]
        more_on = blend(off, more_on, p[j], spread(blend(1.0, one_on, 1.0, more_on), m[j]))
        one_on = blend(off, one_on, p[j] if j < large else 0.0, spread(none_on, m[j]))
        none_on = blend(off, none_on, 0.0, none_on)
    return blend(repair(p), more_on, 0.0, more_on)


@inner
def mean_of(polynomial: Four, moments: Four, shift: float) -> float:
    """Return the mean of a polynomial of y + shift, by its coefficients, from the raw moments 0 to 3 of y."""
    c, v = polynomial, moments
    return (
        c[0] * v[0]
        + c[1] * (v[1] + shift * v[0])
        + c[2] * (v[2] + shift * (2.0 * v[1] + shift * v[0]))
        + c[3] * (v[3] + shift * (3.0 * v[2] + shift * (3.0 * v[1] + shift * v[0])))
    )


@inner
def absolute_level(level: Level) -> Level:
    m = np.empty(level.m.size)
    for j in range(m.size):
        m[j] = abs(level.m[j])
    return Level(m, level.large, level.p)


@inner
def sizes_of(polynomial: Four) -> Four:
    return abs(polynomial[0]), abs(polynomial[1]), abs(polynomial[2]), abs(polynomial[3])


@inner
def _polynomial_part(level: Level, t: float, polynomial: Four) -> tuple[float, float]:
    """Return (the level's mean of a polynomial of t + nu, its rounding error)."""
    value = mean_of(polynomial, moments_of(level, t), 0.0)
    size = mean_of(sizes_of(polynomial), moments_of(absolute_level(level), abs(t)), 0.0)
    return value, UNIT * noise_of(level.m.size, 0.015625) * size


@inner
def _majorant(level: Level, real: float, radius: float) -> float:
    """Return a bound of |D(s)| for Re s = real, |s| >= radius; for radius = 0, D(real) itself."""
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
def _period(level: Level, side: float, start: float, growth: Three, tolerance: float, theta: float) -> float:
    """Return the period at which Chernoff's bound with theta makes the images on one side `tolerance`.

    Where tau = start + side nu - l P is positive, image l is wrong by no more than the polynomial
    growth of tau, and tau^k <= (k / (e theta))^k e^(theta tau).
    """
    mean = _majorant(level, side * theta, 0.0) if theta * abs(level.m[0]) < 500.0 else np.inf
    if not mean < 1e250:
        return np.inf
    scale = 1.0 / (math.e * theta)
    bound = scale * (growth[0] + scale * (4.0 * growth[1] + 27.0 * scale * growth[2]))
    log = theta * start + np.log(2.0 * bound) + np.log(mean) - np.log(tolerance)
    # images fade by e^(side kappa - theta P), at least by half: twice the first bounds them all
    return float(max(side * KAPPA + log, KAPPA + 1.0) / theta)


@inner
def _half_period(
    level: Level, side: float, start: float, growth: Three, tolerance: float
) -> tuple[float, float]:
    """Return (least period for which images on one side, 1 or -1, are negligible; bound of their error)."""
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
    best = _period(level, side, start, growth, tolerance, guess)
    for factor in (1.5, 1.0 / 1.5):
        theta = factor * guess
        while theta * reach > 0.5:
            period = _period(level, side, start, growth, tolerance, theta)
            if not period < best and (best < np.inf or factor > 1.0):
                break
            best = min(best, period)
            theta *= factor
    return (best, tolerance) if best < hard else (hard, 0.0)


@inner
def advance(
    acc: FloatArray, table: FloatArray, rise: complex, weight: float, p: float, skip: float, add: float
) -> None:
    """Update D and S in `acc` by one feature, at the frequencies of one block.

    The rows of `acc` are Re and Im of 1/s, D, S, and what rounding has added to D and S: thousands of equal
    factors would round alike. `table` holds e^(i h m f) - 1 and `rise` is e^(s m) - 1 at the block's
    first s, so that e^z - 1 never comes from a difference.
    """
    real, imag = rise.real, rise.imag
    for f in range(BLOCK):
        turn_re, turn_im = table[f], table[BLOCK + f]
        e_re = real + turn_re + (real * turn_re - imag * turn_im)
        e_im = imag + turn_im + (real * turn_im + imag * turn_re)
        v_re = (e_re * acc[f] - e_im * acc[BLOCK + f]) * weight
        v_im = (e_re * acc[BLOCK + f] + e_im * acc[f]) * weight
        d_re, d_im = acc[2 * BLOCK + f], acc[3 * BLOCK + f]
        s_re, s_im = acc[4 * BLOCK + f], acc[5 * BLOCK + f]
        g_re, g_im = d_re + skip * s_re, d_im + skip * s_im
        step = (g_re * v_re - g_im * v_im) - p * d_re - acc[6 * BLOCK + f]
        acc[2 * BLOCK + f] = d_re + step
        acc[6 * BLOCK + f] = (acc[2 * BLOCK + f] - d_re) - step
        step = (g_re * v_im + g_im * v_re) - p * d_im - acc[7 * BLOCK + f]
        acc[3 * BLOCK + f] = d_im + step
        acc[7 * BLOCK + f] = (acc[3 * BLOCK + f] - d_im) - step
        step = add * v_re - acc[8 * BLOCK + f]
        acc[4 * BLOCK + f] = s_re + step
        acc[8 * BLOCK + f] = (acc[4 * BLOCK + f] - s_re) - step
        step = add * v_im - acc[9 * BLOCK + f]
        acc[5 * BLOCK + f] = s_im + step
        acc[9 * BLOCK + f] = (acc[5 * BLOCK + f] - s_im) - step


@inner
def fill_table(table: FloatArray, angle: float) -> None:
    """Fill `table` with Re, then Im of e^(i angle f) - 1, f = 0 .. BLOCK - 1, by doubling, to rounding."""
    table[0], table[BLOCK] = 0.0, 0.0
    width, half = 1, np.sin(0.5 * angle)
    while width < BLOCK:
        re, im = -2.0 * half * half, np.sin(angle * width)
        for f in range(width):
            f_re, f_im = table[f], table[BLOCK + f]
            table[width + f] = f_re + re + (f_re * re - f_im * im)
            table[BLOCK + width + f] = f_im + im + (f_re * im + f_im * re)
        width, half = 2 * width, im


@inner
def rise_of(s: complex, x: float) -> complex:
    """Return e^(s x) - 1."""
    rise, half = np.expm1(s.real * x), np.sin(0.5 * s.imag * x)
    return complex(rise - 2.0 * (1.0 + rise) * half * half, (1.0 + rise) * np.sin(s.imag * x))


@inner
def rise_at(table: FloatArray, rise: complex, f: int) -> complex:
    """Return e^(s x) - 1 at frequency f of a block, from that of its first and the table of `fill_table`."""
    turn = complex(table[f], table[BLOCK + f])
    return rise + turn + rise * turn


@inner
def transforms_of(z: complex, rise: complex, inverse: complex) -> tuple[complex, complex, complex]:
    """Return E v^r e^(z v), r = 0, 1, 2, v uniform on [0, 1], from e^z - 1 and 1/z unless z is small."""
    if z.real * z.real + z.imag * z.imag <= 2.25:
        return transform(z)
    order_0 = rise * inverse
    order_1 = (rise + 1.0 - order_0) * inverse
    return order_0, order_1, (rise + 1.0 - 2.0 * order_1) * inverse


@inner
def _cut_off(level: Level, a: float, t: float, shape: Three, c: float, omega: float) -> float:
    """Return a bound of what the lattice sum loses above the frequency omega: 1/pi times an integral."""
    tail = abs(shape[0]) / omega**2 + 2.0 * abs(shape[2]) / omega**3
    if shape[1] != 0.0:
        factor, slope, _ = transform(complex(c * a, 0.0))
        square, product = factor.real, slope.real
        if a != 0.0:
            rise, unit = np.exp(c * a), omega * abs(a)
            square = min(square, (1.0 + rise) / unit)
            product = min(product, (rise * (1.0 + 1.0 / unit) + 1.0 / unit) / (2.0 * unit))
        tail += shape[1] * (square / omega**2 + 2.0 * product / omega)
    return float(np.exp(c * t) / np.pi * tail * _majorant(level, c, omega))


@inner
def first_of_block(acc: FloatArray, c: float, h: float, block: int) -> None:
    """Fill `acc` with 1/s of a block of frequencies s = c + i h k, and with D = S = 0."""
    acc[2 * BLOCK :] = 0.0
    for f in range(BLOCK):
        k = h * (block * BLOCK + f)
        inverse = 1.0 / (c * c + k * k)
        acc[f], acc[BLOCK + f] = c * inverse, -k * inverse


@inner
def _lattice_sum(
    level: Level, a: float, t: float, shape: Three, c: float, h: float, blocks: int
) -> tuple[float, float]:
    """Return (sum over the lattice, sum of its terms' sizes, which rounding errors are in units of)."""
    m, large, p = level
    acc = np.empty((min(blocks, CHUNK), 10 * BLOCK))
    table = np.empty(2 * BLOCK)
    mean = 0.0
    for p_j in p:
        mean += p_j
    noise = noise_of(m.size, 2.0 * (mean / m.size))
    none = all_off(p)
    total, lost, size = 0.0, 0.0, 0.0
    tables, by_inverse = np.empty((2, 2 * BLOCK)), 1.0 / a if a != 0.0 else 0.0
    fill_table(tables[0], h * t)
    fill_table(tables[1], h * a)
    for start in range(0, blocks, CHUNK):
        check_interrupt(True)
        count = min(CHUNK, blocks - start)
        for i in range(count):
            first_of_block(acc[i], c, h, start + i)
        for j in range(m.size):
            x = m[j]
            add = 1.0 / max(1.0 - p[j], NEVER) if j < large else 0.0
            fill_table(table, h * x)
            for i in range(count):
                rise = rise_of(complex(c, h * ((start + i) * BLOCK)), x)
                advance(acc[i], table, rise, p[j] / x, p[j], none[j], add)
        for i in range(count):
            first_s = complex(c, h * ((start + i) * BLOCK))
            rise_t, rise_a = rise_of(first_s, t), rise_of(first_s, a)
            for f in range(BLOCK):
                k = (start + i) * BLOCK + f
                s, u = complex(c, h * k), complex(acc[i, f], acc[i, BLOCK + f])
                # of J = shape[0] t_+^2 + shape[2] t_+^3, and for shape = (1 - p, p, 0) of all of g - p/3
                term = 2.0 * u * u * u * (shape[0] + 3.0 * shape[2] * u)
                if shape[1] != 0.0:
                    order_0, order_1, _ = transforms_of(a * s, rise_at(tables[1], rise_a, f), u * by_inverse)
                    term += 2.0 * shape[1] * u * u * (order_0 * u - order_1)
                term *= 1.0 + rise_at(tables[0], rise_t, f)
                term *= complex(acc[i, 2 * BLOCK + f], acc[i, 3 * BLOCK + f])
                twice = 1.0 if k == 0 else 2.0
                size += twice * (abs(term.real) + abs(term.imag)) * (noise + (c + h * k) * abs(t))
                step = twice * term.real - lost  # compensated: there may be millions of terms
                new = total + step
                lost = (new - total) - step
                total = new
    return total, size


@inner
def period_of(
    level: Level, ends: tuple[float, float], growth: Three, tolerance: float
) -> tuple[float, float]:
    """Return (period of the lattice, bound of the error by its images on both sides)."""
    right, escaped = _half_period(level, 1.0, ends[0], growth, 0.02 * tolerance)
    left, missed = _half_period(level, -1.0, -ends[1], growth, 0.02 * tolerance)
    return max(right, left), escaped + missed


@inner
def blocks_of(
    level: Level,
    a: float,
    t: float,
    shape: Three,
    line: tuple[float, float],
    allowed: float,
    slopes: bool,
    most: float,
) -> tuple[int, float]:
    """Return (number of blocks of frequencies, `most` at most; bound of what is cut off above them).

    `line` is c and h. Of derivatives more is cut off, by the frequency in units of the largest weight.
    """
    c, h = line
    most = min(most, max(np.floor(WORK / (level.m.size * BLOCK)), 1.0))
    blocks, steep = 1.0, abs(level.m[0]) if slopes else 0.0
    while True:
        omega = h * (BLOCK * blocks - 1.0)
        cut = _cut_off(level, a, t, shape, c, omega)
        if cut * max(STEEP * steep * omega, 1.0) <= allowed or blocks >= most:
            return int(blocks), cut
        blocks = min(np.ceil(1.2 * blocks), most)


@inner
def _bromwich(
    level: Level,
    a: float,
    t: float,
    shape: Three,
    polynomial: Four,
    ends: tuple[float, float],
    growth: Three,
    tolerance: float,
) -> tuple[float, float]:
    """Return the level's mean of J(t + nu), J = 0 on the left and `polynomial` on the right, and its error.

    J vanishes where ends[0] + nu < 0 and is the polynomial where ends[1] + nu > 0; `growth` bounds
    what it is, or the polynomial is too much, at a distance beyond.
    """
    period, escaped = period_of(level, ends, growth, tolerance)
    moments, absolute = moments_of(level, t), moments_of(absolute_level(level), abs(t))
    image, size = 0.0, 0.0
    for l in range(1, 12):  # e^-60 is below rounding, also where the cubes grow as l^3
        image += np.exp(-KAPPA * l) * mean_of(polynomial, moments, l * period)
        size += np.exp(-KAPPA * l) * mean_of(sizes_of(polynomial), absolute, l * period)
    size *= UNIT * noise_of(level.m.size, 0.015625)
    c, h = KAPPA / period, 2.0 * np.pi / period
    blocks, cut = blocks_of(level, a, t, shape, (c, h), max(0.9 * tolerance, 0.1 * size), False, np.inf)
    total, rounding = _lattice_sum(level, a, t, shape, c, h, blocks)
    return total / period - image, cut + escaped + size + UNIT * rounding / period


@inner
def _level(level: Level, p_target_active: float, a: float, b: float, tolerance: float) -> tuple[float, float]:
    """Return (sum of g - p_target_active/3 over the patterns of a level, its error)."""
    low, high = b, b
    for x in level.m:
        low += min(x, 0.0)
        high += max(x, 0.0)
    if high <= min(0.0, -a):  # never on
        return 0.0, 0.0
    polynomial = (p_target_active / 3.0 * a * (a - 2.0), p_target_active * (a - 1.0), 1.0, 0.0)
    if low >= max(0.0, -a):  # never off
        return _polynomial_part(level, b, polynomial)
    at_zero, at_edge = low < 0.0 < high, low < -a < high
    if (at_zero and at_edge) or abs(a) < 0.25 * (high - low):
        ends = (b + max(a, 0.0), b + min(a, 0.0))
        return _bromwich(
            level,
            a,
            b,
            (1.0 - p_target_active, p_target_active, 0.0),
            polynomial,
            ends,
            (p_target_active, 1.0, 0.0),
            tolerance,
        )
    # g - own/3 = (1-own) t_+^2 - cubic t_+^3 - own/a (t+a)_+^2 + cubic (t+a)_+^3, one kink of which is met
    # at most; the scale of nu may then be far below that of a
    cubic = p_target_active * (a + 1.0) / (3.0 * a * a)
    value, error = 0.0, 0.0
    for t, second, third, met in (
        (b, 1.0 - p_target_active, -cubic, at_zero),
        (a + b, -p_target_active / a, cubic, at_edge),
    ):
        part, miss = 0.0, 0.0
        if met:
            shape, growth = (second, 0.0, third), (0.0, abs(second), abs(third))
            part, miss = _bromwich(level, a, t, shape, (0.0, 0.0, second, third), (t, t), growth, tolerance)
        elif low - b + t >= 0.0:
            part, miss = _polynomial_part(level, t, (0.0, 0.0, second, third))
        value, error = value + part, error + miss
    return value, error


@inner
def _output_loss(
    row: FloatArray, chances: FloatArray, p_target_active: float, a: float, b: float, tolerance: float
) -> tuple[float, float]:
    """Return (loss from patterns with two or more of `row` on, a bound of its error)."""
    m, p = np.empty(row.size), np.empty(row.size)
    for j in range(row.size):
        m[j] = -abs(row[j])
    order = ascending(m)
    for j in range(row.size):
        m[j], p[j] = row[order[j]], chances[order[j]]
    none = all_off(p)
    size, share, loss, error = m.size, tolerance, 0.0, 0.0
    while m.size > 1:
        share *= 0.5
        ahead = none[size - m.size]
        total_weight, large = 0.0, 0
        for m_j in m:
            total_weight += abs(m_j)
            large += 1 if abs(m_j) >= SMALL * abs(m[0]) else 0
        reach = abs(a) + abs(b) + total_weight
        rest = ahead * (p_target_active + reach * (reach + p_target_active))
        if rest < 0.01 * tolerance:
            error += rest
            break
        level = Level(m, large, p)
        value, miss = _level(level, p_target_active, a, b, share / ahead)
        loss += ahead * (value + p_target_active / 3.0 * moments_of(level, b)[0])
        error += ahead * miss
        m, p = m[large:], p[large:]
    return loss, error + UNIT * noise_of(size, 0.0) * (loss + p_target_active)


@inner
def loss_none_on(t: float, a: float, p_target_active: float) -> Three:
    """Return g(t) = E (x - ReLU(a x + t))^2 and its derivatives by t and by a, for x uniform where on."""
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
    """Return the mean of g(b + m v), g of `loss_none_on`, over v on [0, 1], and derivatives by b, m and a.

    Gauss points between the breakpoints of the cubics of g give them exactly.
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


@inner
def _few_on(
    row: FloatArray, p: FloatArray, p_target_active: float, a: float, b: float
) -> tuple[float, float]:
    """Return (loss from patterns with at most one of `row` on, its rounding error)."""
    back = np.empty(p.size)
    for j in range(p.size):
        back[j] = p[p.size - 1 - j]
    ahead, behind = all_off(p), all_off(back)
    loss, largest, lost = ahead[row.size] * loss_none_on(b, a, p_target_active)[0], 0.0, 0.0
    for j in range(row.size):
        share = ahead[j] * p[j] * behind[row.size - 1 - j]
        step = share * loss_one_on(b, row[j], a, p_target_active)[0] - lost
        new = loss + step  # compensated: thousands of equal terms would round alike
        lost = (new - loss) - step
        loss = new
        largest = max(largest, abs(row[j]))
    return loss, 16.0 * UNIT * (loss + p_target_active * (1.0 + abs(a) + abs(b) + largest))


@kernel
def rows_uniform(
    M: FloatArray,
    features: npt.NDArray[np.int64],
    b: FloatArray,
    p: FloatArray,
    tol: float,
    unit: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the losses of the outputs and their errors, (count,) each.

    Row i of `M` and b[i] make the output that wants features[i]. Feature j is on with probability p[j]. The
    error to aim at is `tol` in units of the loss, or of unit[features[i]], the loss of the output that is
    always 0, if that is larger.
    """
    losses, errors = np.empty(b.size), np.empty(b.size)
    for i in range(b.size):
        p_target_active, a = p[features[i]], M[i, features[i]]
        row, on, count = np.empty(p.size), np.empty(p.size), 0
        for j in range(p.size):
            if j != features[i] and abs(M[i, j]) > NEGLIGIBLE:
                row[count], on[count], count = M[i, j], p[j], count + 1
        m, chances = row[:count], on[:count]
        few_on_loss, error = _few_on(m, chances, p_target_active, a, b[i])
        # p may be so small that its part underflows; the smallest normal number asks for all there is
        tolerance = max(tol * max(unit[features[i]], few_on_loss), 2.3e-308)
        many, miss = _output_loss(m, chances, p_target_active, a, b[i], tolerance)
        losses[i], errors[i] = few_on_loss + many, error + miss
    return losses, errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = "what is cut off is proved; rounding is heuristic, never exceeded in tests by exact arithmetic"


def covers(rows: Rows, law: Law) -> BoolArray:
    """Return a mask of the outputs that `solve` takes: all with a ReLU, of independent uniform features."""
    return np.full(rows.b.size, rows.relu and law.independent and law.values.uniform)


def terms(law: Law) -> float:
    """Return the least number of factors for an output: one block of frequencies times n."""
    return float(BLOCK * law.n)


# Seconds of an output of 30 features to an error of 1e-5, measured, and how many times that to 1e-12: of
# losses, and with derivatives. Few features take at least as long as the rest of the call.
SECONDS = {False: (4e-5, 12.0), True: (8e-5, 90.0)}
LEAST_SECONDS = 5e-5


def estimated_seconds(rows: Rows, law: Law, request: AccuracyRequest) -> float:
    """Return the seconds that `solve` takes for an output, as measured, whatever its weights."""
    seconds, growth = SECONDS[request.slopes]
    digits = min(max(-np.log10(request.tol), 5.0), 12.0)
    return float(LEAST_SECONDS + (0.1 + law.n / 30.0) * seconds * growth ** ((digits - 5.0) / 7.0))


def solve(rows: Rows, law: Law, request: AccuracyRequest) -> Outputs:
    """Return losses and errors of the outputs, with derivatives if `request.slopes`, else empty arrays."""
    from .uniform_slopes import rows_uniform_slopes

    most = np.inf if request.frequencies is None else max(float(request.frequencies // BLOCK), 1.0)

    def part(which: slice) -> tuple[FloatArray, ...]:
        arrays = rows.M[which], rows.features[which], rows.b[which], law.p, request.tol, law.aim
        if request.slopes:
            return tuple(rows_uniform_slopes(*arrays, most))
        return *rows_uniform(*arrays), np.empty((0, law.n)), np.empty(0), np.empty(0)

    return Outputs(*parallel_concat(part, rows.b.size, request.workers))
