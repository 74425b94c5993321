"""Kernels of the exact loss with its gradient for independent uniform features: levels, by a sweep back.

The transform D of a level is made by D <- D A_j + N_j S v_j, S <- S + v_j/(1 - p_j). A sweep back carries the
derivatives lambda by D and mu by S, from lambda = 1 and mu = 0:

    dD/dv_j = lambda (D + N_j S) + mu/(1 - p_j),   mu <- mu + lambda N_j v_j,   lambda <- lambda A_j,

with D and S as they were before feature j. So all derivatives by m_j take as long as two or three losses do.
Those of v_j = p_j phi_0(s m_j) are p_j s phi_1(s m_j) = p_j (e^z - phi_0(z))/m_j with z = s m_j, by a
series where z is small. The derivative by b gives the transform K a factor s; by the own weight a it is that
of K.

Arrays and numbers that several functions share: `level`, a set of on/off patterns (`Level`), and the
interference nu = sum_j m_j x_j in them; a block of `BLOCK` frequencies s = c + i h k, `line` being (c, h), of
which the first `width` are used; scratch arrays whose rows belong to a block, real and imaginary parts in
turn: `acc`, that of `advance_sweep`, `cache`, D + N_j S before feature j, `adjoint`, lambda and mu, `work`, v
and its derivative; `table` and `rise`, of e^(s m_j) - 1, as for `transform_at`; `p_none`, the N_j; t, the
pre-activation without nu; `most`, the most blocks of frequencies; `tolerance`, the error of the loss to aim
at.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.compile.kernels import check_interrupt, inner, kernel
from ....theory.validation import FloatArray
from .uniform_levels import (
    BLOCK,
    KAPPA,
    LEAST_P,
    ROWS_TO_CHECK,
    STEEP,
    UNIT,
    Four,
    Level,
    Three,
    absolute_level,
    add_uniform_term,
    advance_sweep,
    choose_blocks,
    combine,
    complex_expm1,
    count_large,
    cumulative_p_off,
    expm1_at,
    fill_table,
    find_inputs,
    loss_none_on,
    loss_one_on,
    mean_of,
    moments_of,
    p_at_most_one_on,
    period_of,
    rounding_correction,
    rounding_of_product,
    sizes_of,
    sort_by_size,
    start_block,
    transform_at,
    transforms_of,
)

__all__ = ["rows_uniform_slopes"]

ComplexArray = npt.NDArray[np.complex128]

CHUNK = 8  # blocks kept in the second-level cache together
PARTS = 7  # of the upper half of the frequencies, whose changes tell the error of derivatives
PIECES = 8  # of a block, between which parts may end
# What is cut off of a derivative has been up to 6 times the largest change by the last parts, of 4,000 rows.
CHANGE = 16.0
SERIES = 1.0 / 16.0  # |z| below which the derivative of phi_0 comes from its series
# Derivatives of images that escape outgrow these by e theta/2, where theta is at most twice the log of their
# tolerance over the period.
ESCAPED = 120.0


@inner
def _shift_polynomial(c: Four, shift: float) -> Four:
    """Return c' such that c' . (raw moments 0 to 3 of y) is the mean of the polynomial c of y + shift.

    `c` has the coefficients, lowest power first.
    """
    return (
        c[0] + shift * (c[1] + shift * (c[2] + shift * c[3])),
        c[1] + shift * (2.0 * c[2] + 3.0 * shift * c[3]),
        c[2] + 3.0 * shift * c[3],
        c[3],
    )


@inner
def _derivative_of_polynomial(c: Four) -> Four:
    """Return the coefficients of the derivative of a polynomial with coefficients c, lowest power first."""
    return c[1], 2.0 * c[2], 3.0 * c[3], 0.0


@inner
def _dot(c: Four, v: Four) -> float:
    """Return the sum of products of the entries of c and v."""
    return c[0] * v[0] + c[1] * v[1] + c[2] * v[2] + c[3] * v[3]


@inner
def _uniform_term_adjoint(c: Four, x: float) -> Four:
    """Return c' such that c' . (moments of y) = c . (moments of y + x u), for raw moments 0 to 3.

    u is uniform on [0, 1] and independent of y, as for `add_uniform_term`.
    """
    return (
        c[0] + x * (c[1] / 2.0 + x * (c[2] / 3.0 + x * c[3] / 4.0)),
        c[1] + x * (c[2] + x * c[3]),
        c[2] + 1.5 * x * c[3],
        c[3],
    )


@inner
def _uniform_term_slope(c: Four, v: Four, x: float) -> float:
    """Return the derivative by x of c . (raw moments 0 to 3 of y + x u), from those of y in v.

    u is uniform on [0, 1] and independent of y, as for `add_uniform_term`.
    """
    return (
        c[1] * v[0] / 2.0
        + c[2] * (v[1] + x * v[0] / 1.5)
        + c[3] * (1.5 * v[2] + x * (2.0 * v[1] + 0.75 * x * v[0]))
    )


@inner
def _add_moment_slopes(level: Level, t: float, c: Four, by_m: FloatArray) -> None:
    """Add to `by_m` the derivatives by m of c . (raw moments 0 to 3 of t + nu over a level).

    A level is a set of on/off patterns (`Level`), over which moments sum with their probabilities; nu = sum_j
    m_j x_j. c has four factors, such as the coefficients of a polynomial of t + nu.
    """
    m, large, p = level
    states = np.empty((m.size, 8))
    none_on, one_on, more_on = (1.0, t, t * t, t * t * t), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    for j in range(m.size):
        off, any_on = 1.0 - p[j], combine(1.0, one_on, 1.0, more_on)
        for k in range(4):
            states[j, k], states[j, 4 + k] = none_on[k], any_on[k]
        more_on = combine(off, more_on, p[j], add_uniform_term(any_on, m[j]))
        one_on = combine(off, one_on, p[j] if j < large else 0.0, add_uniform_term(none_on, m[j]))
        none_on = combine(off, none_on, 0.0, none_on)
    of_more, of_one = combine(rounding_correction(p), c, 0.0, c), (0.0, 0.0, 0.0, 0.0)
    for j in range(m.size - 1, -1, -1):
        none_on = states[j, 0], states[j, 1], states[j, 2], states[j, 3]
        any_on = states[j, 4], states[j, 5], states[j, 6], states[j, 7]
        slope = _uniform_term_slope(of_more, any_on, m[j])
        if j < large:
            slope += _uniform_term_slope(of_one, none_on, m[j])
        by_m[j] += p[j] * slope
        back = _uniform_term_adjoint(of_more, m[j])
        of_one = combine(1.0 - p[j], of_one, p[j], back)
        of_more = combine(1.0 - p[j], of_more, p[j], back)


@inner
def _store_prefix(cache: FloatArray, acc: FloatArray, p_none: float, width: int) -> None:
    """Write D + N_j S at the first `width` frequencies of one block to `cache`, for the sweep back.

    D and S, in `acc`, are those of `advance_sweep` over the features before j: transforms E e^(s nu) of the
    interference nu over patterns with two or more, and with just one feature on. `acc` has parts of `BLOCK`
    entries: Re and Im of 1/s, of D, and of S. N_j, `p_none`, is the probability that all features before j
    are off. `cache` gets real parts first, imaginary ones from `BLOCK` on.
    """
    for f in range(width):
        cache[f] = acc[2 * BLOCK + f] + p_none * acc[4 * BLOCK + f]
        cache[BLOCK + f] = acc[3 * BLOCK + f] + p_none * acc[5 * BLOCK + f]


@inner
def _factor_slopes(
    work: FloatArray,
    acc: FloatArray,
    table: FloatArray,
    rise: complex,
    s: complex,
    h: float,
    x: float,
    p: float,
    width: int,
) -> None:
    """Write Re and Im of v = p E e^(s x u), u uniform on [0, 1], and of its derivative by x to `work`.

    x is a feature's weight, p the probability that it is on. The frequencies are the first `width` of a
    block, from `s` on, `h` apart. `acc` begins with Re and Im of 1/s, `table` holds Re and Im of e^(i h x f)
    - 1 for frequency f of the block, and `rise` is e^(s x) - 1 at its first s. In `work`, `acc` and `table`
    each part has `BLOCK` entries.
    """
    weight, per_x = p / x, 1.0 / x
    for f in range(width):
        e_re, e_im, v_re, v_im = transform_at(acc, table, rise, weight, f)
        work[f], work[BLOCK + f] = v_re, v_im
        work[2 * BLOCK + f] = (p + p * e_re - v_re) * per_x
        work[3 * BLOCK + f] = (p * e_im - v_im) * per_x
    if abs(s) * abs(x) >= SERIES:
        return
    z_re = s.real * x
    for f in range(width):
        z_im = (s.imag + h * f) * x
        if z_re * z_re + z_im * z_im < SERIES * SERIES:
            z = complex(z_re, z_im)
            order_1 = 1.0 / 5760.0 + z / 45360.0
            for denominator in (840.0, 144.0, 30.0, 8.0, 3.0, 2.0):
                order_1 = 1.0 / denominator + z * order_1
            slope = p * complex(s.real, s.imag + h * f) * order_1
            work[2 * BLOCK + f], work[3 * BLOCK + f] = slope.real, slope.imag


@inner
def _retreat_sweep(
    adjoint: FloatArray, cache: FloatArray, work: FloatArray, off: float, skip: float, add: float, width: int
) -> None:
    """Take lambda and mu in `adjoint`, a sum's derivatives by the transforms D and S, back across feature j.

    The sum is over frequencies. lambda becomes lambda (off + v), mu becomes mu + skip lambda v. D and S are
    those of `advance_sweep` over the features up to j: transforms E e^(s nu) of the interference nu over
    patterns with two or more, and with just one feature on. `off` is 1 - p_j, `skip` is N_j, the probability
    that all features before are off, and `add` is 1/(1 - p_j) for a large feature, else 0. `cache` has D +
    N_j S from before feature j, and `work` has v = p_j E e^(s m_j u), then its derivative by m_j, at `width`
    frequencies. v is overwritten by terms of the derivative of the sum by m_j: their real parts, then their
    sizes. Parts of arrays have `BLOCK` entries: Re and Im of lambda and of mu in `adjoint`, Re and Im of each
    in `cache` and `work`.
    """
    for f in range(width):
        f_im, f_2 = BLOCK + f, 2 * BLOCK + f
        f_3 = BLOCK + f_2
        l_re, l_im, g_re, g_im = adjoint[f], adjoint[f_im], cache[f], cache[f_im]
        u_re, u_im, v_re, v_im = adjoint[f_2], adjoint[f_3], work[f], work[f_im]
        slope_re, slope_im = work[f_2], work[f_3]
        meets_re = l_re * g_re - l_im * g_im + add * u_re
        meets_im = l_re * g_im + l_im * g_re + add * u_im
        step_re, step_im = l_re * v_re - l_im * v_im, l_re * v_im + l_im * v_re
        adjoint[f_2], adjoint[f_3] = u_re + skip * step_re, u_im + skip * step_im
        adjoint[f], adjoint[f_im] = off * l_re + step_re, off * l_im + step_im
        term = meets_re * slope_re - meets_im * slope_im
        work[f], work[f_im] = term, abs(term) + abs(meets_re * slope_im + meets_im * slope_re)


@inner
def _part_of_piece(piece: int, pieces: int) -> int:
    """Return the index of the partial sum to which piece number `piece` of the frequencies belongs.

    It is 0 in the lower half of all `pieces`, and 1 to `PARTS` in the upper one. The estimate of what is cut
    off is how much the last partial sums change the result.
    """
    half = pieces // 2
    return 0 if piece < half else 1 + min((piece - half) * PARTS // (pieces - half), PARTS - 1)


class LatticeSums(NamedTuple):
    """Sums over frequencies: `terms`, what rounding took off them, and `sizes` for rounding errors.

    The first two have a row for each part of the frequencies. Columns are the derivatives by m, then the
    loss, its derivative by t, and by a.
    """

    terms: FloatArray
    compensation: FloatArray
    sizes: FloatArray


class Sweep(NamedTuple):
    """What a sweep forth through an output's features leaves for the sweep back, at blocks of frequencies.

    `acc`, (blocks, 10 BLOCK), has 1/s and the transforms D and S over all features, with rounding errors;
    `cache`, (blocks, n, 2 BLOCK), D + N_j S from before feature j; `tables` (n, 2 BLOCK) and `rises` (blocks,
    n) give e^(s m_j) - 1; `adjoint`, (blocks, 4 BLOCK), is for derivatives by D and S. Parts of `BLOCK`
    entries are real and imaginary by turns; `width` of them are used.
    """

    acc: FloatArray
    cache: FloatArray
    tables: FloatArray
    rises: ComplexArray
    adjoint: FloatArray
    width: int


@inner
def _sweep_forth(
    level: Level, line: tuple[float, float], start: int, p_none: FloatArray, sweep: Sweep
) -> None:
    """Fill `sweep`, for the blocks of frequencies from `start` on, with the transforms before each feature.

    The transforms D and S are those of `advance_sweep` for the `level` at s = c + i h k, `line` being (c, h).
    `p_none` has the probabilities N_j that all features before j are off. Of the `sweep`, `acc` gets D and S
    over all features, a row for each block; `cache` gets D + N_j S from before each feature j, `tables` and
    `rises` the exponentials e^(s m_j) - 1 in two factors. `width` frequencies of a block are used.
    """
    (m, large, p), (c, h), acc = level, line, sweep.acc
    for i in range(acc.shape[0]):
        start_block(acc[i], c, h, start + i)
    for j in range(m.size):
        add = 1.0 / max(1.0 - p[j], LEAST_P) if j < large else 0.0
        fill_table(sweep.tables[j], h * m[j], sweep.width)
        for i in range(acc.shape[0]):
            rise = complex_expm1(complex(c, h * ((start + i) * BLOCK)), m[j])
            sweep.rises[i, j] = rise
            _store_prefix(sweep.cache[i, j], acc[i], p_none[j], sweep.width)
            advance_sweep(acc[i], sweep.tables[j], rise, p[j] / m[j], p[j], p_none[j], add, sweep.width)


@inner
def _add_terms(
    block: int,
    blocks: int,
    line: tuple[float, float],
    a: float,
    t: float,
    shape: Three,
    by_a: Three,
    noise: float,
    acc: FloatArray,
    adjoint: FloatArray,
    tables: FloatArray,
    sums: LatticeSums,
    used: int,
) -> None:
    """Add one block's terms of a mean over a level, and of its derivatives by t and a, to `sums`.

    The mean is that of J(t + nu), with J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) +
    shape_2 t_+^3, for the value v of a target of weight a that is on. `by_a` has the derivatives by a of
    shape_0, of t, and of shape_2. The block is number `block` of `blocks`; `used` of its frequencies c + i h
    k count, `line` being (c, h). `acc` has Re and Im of 1/s, then of D, the level's transform E e^(s nu), and
    `adjoint` gets Re and Im of the derivatives by D, all in parts of `BLOCK` entries. `noise` is the relative
    rounding error of D, and `tables`, two rows, have e^(i h k t) - 1 and e^(i h k a) - 1 at the block's
    frequencies, k from 0 on. `sums` has a row of terms for each part of the frequencies; its last three
    columns are the loss and its derivatives by t and a.
    """
    (c, h), n, width = line, sums.sizes.size - 3, used // PIECES
    first_s, by_inverse = complex(c, h * block * BLOCK), 1.0 / a if a != 0.0 else 0.0
    rise_t, rise_a = complex_expm1(first_s, t), complex_expm1(first_s, a)
    adjoint[2 * BLOCK :] = 0.0
    for piece in range(PIECES):
        value, value_t, value_a, size, size_t, size_a = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for f in range(piece * width, (piece + 1) * width):
            k = block * BLOCK + f
            s, u = complex(c, h * k), complex(acc[f], acc[BLOCK + f])
            square = 2.0 * u * u
            K = square * u * (shape[0] + 3.0 * shape[2] * u)
            K_a = square * u * (by_a[0] + 3.0 * by_a[2] * u)
            if shape[1] != 0.0:
                rise = expm1_at(tables[1], rise_a, f)
                order_0, order_1, order_2 = transforms_of(a * s, rise, u * by_inverse)
                K += shape[1] * square * (order_0 * u - order_1)
                K_a += 2.0 * shape[1] * u * (order_1 * u - order_2)
            K_t = s * K
            K_a += by_a[1] * K_t
            wave = (1.0 + expm1_at(tables[0], rise_t, f)) * (1.0 if k == 0 else 2.0)
            first, D = K * wave, wave * complex(acc[2 * BLOCK + f], acc[3 * BLOCK + f])
            adjoint[f], adjoint[BLOCK + f] = first.real, first.imag
            term, term_t, term_a = K * D, K_t * D, K_a * D
            value, value_t, value_a = value + term.real, value_t + term_t.real, value_a + term_a.real
            size += abs(term.real) + abs(term.imag)
            size_t += abs(term_t.real) + abs(term_t.imag)
            size_a += abs(term_a.real) + abs(term_a.imag)
        part = _part_of_piece(block * PIECES + piece, PIECES * blocks)
        lost = noise + (c + h * (block * BLOCK + (piece + 1) * width)) * abs(t)
        for index, total, total_size in (
            (n, value, size),
            (n + 1, value_t, size_t),
            (n + 2, value_a, size_a),
        ):
            step = total - sums.compensation[part, index]  # compensated: there may be millions of terms
            new = sums.terms[part, index] + step
            sums.compensation[part, index] = (new - sums.terms[part, index]) - step
            sums.terms[part, index] = new
            sums.sizes[index] += lost * total_size


@inner
def _sweep_back(
    level: Level,
    line: tuple[float, float],
    t: float,
    start: int,
    blocks: int,
    noise: float,
    p_none: FloatArray,
    sweep: Sweep,
    sums: LatticeSums,
) -> None:
    """Add to `sums` the terms of a mean's derivatives by the weights m, at some blocks of frequencies.

    Frequencies are c + i h k, k = 0, 1, …, with `line` (c, h). The blocks are those from `start` on that fit
    into `sweep`, of `blocks` in all. The mean is over a `level`, a set of on/off patterns of features with
    weights m, of a function of t + their interference. `_sweep_forth` has filled `sweep` with transforms over
    the features before each, `_add_terms` its `adjoint` with derivatives by those over all features. `p_none`
    are the probabilities that all features before each are off, and `noise` is the relative rounding error of
    a transform. Column j of `sums` is for m_j, its rows for parts of the frequencies.
    """
    (m, large, p), (c, h), width = level, line, sweep.width // PIECES
    work = np.empty(4 * BLOCK)
    for j in range(m.size - 1, -1, -1):
        add = 1.0 / max(1.0 - p[j], LEAST_P) if j < large else 0.0
        for i in range(sweep.acc.shape[0]):
            s = complex(c, h * ((start + i) * BLOCK))
            _factor_slopes(
                work, sweep.acc[i], sweep.tables[j], sweep.rises[i, j], s, h, m[j], p[j], sweep.width
            )
            _retreat_sweep(sweep.adjoint[i], sweep.cache[i, j], work, 1.0 - p[j], p_none[j], add, sweep.width)
            lost = 2.0 * noise + (c + h * ((start + i + 1) * BLOCK)) * abs(t)
            for piece in range(PIECES):
                term, size = 0.0, 0.0
                for f in range(piece * width, (piece + 1) * width):
                    term += work[f]
                    size += work[BLOCK + f]
                sums.terms[_part_of_piece((start + i) * PIECES + piece, PIECES * blocks), j] += term
                sums.sizes[j] += lost * size


@inner
def _lattice_sums(
    level: Level,
    a: float,
    t: float,
    shape: Three,
    by_a: Three,
    line: tuple[float, float],
    blocks: int,
    width: int,
) -> tuple[FloatArray, FloatArray]:
    """Return (sums over frequencies, (PARTS + 1, n + 3); sizes for their rounding errors, (n + 3,)).

    Both are to be divided by the period 2 pi/h. Row k has the sums over part k of the frequencies:
    derivatives by m, then the mean of J(t + nu) over the `level`, a set of on/off patterns with interference
    nu, and its derivatives by t and by a. J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) +
    shape_2 t_+^3, for the value v of a target of weight a that is on. `by_a` has the derivatives by a of
    shape_0, of t, and of shape_2. Frequencies are c + i h k, `line` being (c, h), in `blocks` blocks of which
    the first `width` are used.
    """
    n, p, chunk = level.m.size, level.p, min(blocks, CHUNK)
    sums = LatticeSums(np.zeros((PARTS + 1, n + 3)), np.zeros((PARTS + 1, n + 3)), np.zeros(n + 3))
    acc, cache = np.empty((chunk, 10 * BLOCK)), np.empty((chunk, n, 2 * BLOCK))
    tables, rises = np.empty((n, 2 * BLOCK)), np.empty((chunk, n), np.complex128)
    adjoint, own_tables = np.empty((chunk, 4 * BLOCK)), np.empty((2, 2 * BLOCK))
    fill_table(own_tables[0], line[1] * t, width)
    fill_table(own_tables[1], line[1] * a, width)
    total_p = 0.0
    for p_j in p:
        total_p += p_j
    noise, none = rounding_of_product(n, 2.0 * (total_p / n)), cumulative_p_off(p)
    for start in range(0, blocks, chunk):
        check_interrupt(start > 0)
        count = min(chunk, blocks - start)
        sweep = Sweep(acc[:count], cache, tables, rises, adjoint, width)
        _sweep_forth(level, line, start, none, sweep)
        for i in range(count):
            _add_terms(
                start + i, blocks, line, a, t, shape, by_a, noise, acc[i], adjoint[i], own_tables, sums, width
            )
        _sweep_back(level, line, t, start, blocks, noise, none, sweep, sums)
    return sums.terms, sums.sizes


@inner
def _add_bromwich(
    level: Level,
    a: float,
    t: float,
    shape: Three,
    by_a: Three,
    polynomial: Four,
    polynomial_by_a: Four,
    ends: tuple[float, float],
    growth: Three,
    tolerance: float,
    most: float,
    out: FloatArray,
    by_m: FloatArray,
) -> None:
    """Add the mean of J(t + nu) over a level to `out`, and its derivatives by m to `by_m`.

    A level is a set of on/off patterns (`Level`), over which the mean sums with their probabilities; nu =
    sum_j m_j x_j. J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) + shape_2 t_+^3, for the
    value v of a target of weight a that is on. J(t + nu) is 0 where ends[0] + nu < 0, and a polynomial of t +
    nu with the coefficients `polynomial` where ends[1] + nu > 0. At a distance d past such an end, J, or its
    difference from the polynomial, is at most sum_k growth[k] d^(k + 1). `by_a` has the derivatives by a of
    shape_0, of t, and of shape_2, `polynomial_by_a` those of the coefficients. `out` is [loss, by b, by a,
    error, error of derivatives]. `tolerance` is the error of the loss to aim at; with a finite number `most`
    of blocks of frequencies it may be exceeded, and is estimated.
    """
    n, (period, escaped) = level.m.size, period_of(level, ends, growth, tolerance)
    moments, absolute = moments_of(level, t), moments_of(absolute_level(level), abs(t))
    of_mean, of_t, of_a = (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    size, slope_size, slope = 0.0, 0.0, _derivative_of_polynomial(polynomial)
    for l in range(1, 12):  # e^-60 is below rounding, also where the cubes grow as l^3
        fade = np.exp(-KAPPA * l)
        of_mean = combine(1.0, of_mean, fade, _shift_polynomial(polynomial, l * period))
        of_t = combine(1.0, of_t, fade, _shift_polynomial(slope, l * period))
        of_a = combine(1.0, of_a, fade, _shift_polynomial(polynomial_by_a, l * period))
        size += fade * mean_of(sizes_of(polynomial), absolute, l * period)
        slope_size += fade * mean_of(sizes_of(slope), absolute, l * period)
        slope_size += fade * mean_of(sizes_of(polynomial_by_a), absolute, l * period)
    size *= UNIT * rounding_of_product(n, 0.015625)
    slope_size *= UNIT * rounding_of_product(n, 0.015625)
    c, h = KAPPA / period, 2.0 * np.pi / period
    largest_shape = (abs(shape[0]) + abs(a * by_a[0]), shape[1], abs(shape[2]) + abs(a * by_a[2]))
    allowed, steep = max(0.9 * tolerance, 0.1 * size), STEEP * abs(level.m[0])
    blocks, width, cut = choose_blocks(level, a, t, largest_shape, (c, h), allowed, steep, most)
    sums, sizes = _lattice_sums(level, a, t, shape, by_a, (c, h), blocks, width)
    change, slope_change, largest = 0.0, 0.0, 0.0
    for j in range(n + 3):
        total, rest = 0.0, 0.0
        for part in range(PARTS, -1, -1):
            total += sums[part, j]
            if part > 0:
                rest = max(rest, abs(total))
        sums[0, j] = total / period
        if j == n:
            change = rest / period
        else:
            slope_change, largest = max(slope_change, rest / period), max(largest, sizes[j] / period)
    for j in range(n):
        by_m[j] += sums[0, j]
    _add_moment_slopes(level, t, combine(-1.0, of_mean, 0.0, of_mean), by_m)
    by_t = sums[0, n + 1] - _dot(of_t, moments)
    out[0] += sums[0, n] - _dot(of_mean, moments)
    out[1] += by_t
    out[2] += sums[0, n + 2] - _dot(of_a, moments)
    if most < np.inf:
        cut = min(cut, 4.0 * change)
    out[3] += cut + escaped + size + UNIT * sizes[n] / period
    out[4] += CHANGE * slope_change + ESCAPED / period * escaped + slope_size + UNIT * largest


@inner
def _add_polynomial(
    level: Level, t: float, polynomial: Four, polynomial_by_a: Four, out: FloatArray, by_m: FloatArray
) -> None:
    """Add the mean of a polynomial of t + nu over a level to `out`, and its derivatives by m to `by_m`.

    A level is a set of on/off patterns (`Level`), over which the mean sums with their probabilities; nu =
    sum_j m_j x_j. `polynomial` has the coefficients, lowest power first, `polynomial_by_a` their derivatives
    by the target's weight a. `out` is [loss, by b, by a, error, error of derivatives].
    """
    moments, absolute = moments_of(level, t), moments_of(absolute_level(level), abs(t))
    slope, noise = _derivative_of_polynomial(polynomial), UNIT * rounding_of_product(level.m.size, 0.015625)
    out[0] += _dot(polynomial, moments)
    out[1] += _dot(slope, moments)
    out[2] += _dot(polynomial_by_a, moments)
    out[3] += noise * _dot(sizes_of(polynomial), absolute)
    out[4] += noise * (_dot(sizes_of(slope), absolute) + _dot(sizes_of(polynomial_by_a), absolute))
    _add_moment_slopes(level, t, polynomial, by_m)


@inner
def _add_level(
    level: Level,
    p_target_active: float,
    a: float,
    b: float,
    tolerance: float,
    most: float,
    out: FloatArray,
    by_m: FloatArray,
) -> None:
    """Add the mean of g(b + nu) - p_target_active/3 over a level to `out`, derivatives by m to `by_m`.

    g(t) is the loss E (x - ReLU(a x + t))^2 over the target x, which has the weight a and is on with
    probability `p_target_active`; b is the bias. A level is a set of on/off patterns (`Level`) of the other
    features, over which the mean sums with their probabilities; nu is their interference. `out` is [loss, by
    b, by a, error, error of derivatives]; `tolerance` is the error to aim at, `most` the most blocks of
    frequencies.
    """
    low, high = b, b
    for x in level.m:
        low += min(x, 0.0)
        high += max(x, 0.0)
    if high <= min(0.0, -a):  # never on
        return
    polynomial = (p_target_active / 3.0 * a * (a - 2.0), p_target_active * (a - 1.0), 1.0, 0.0)
    polynomial_by_a = (p_target_active / 1.5 * (a - 1.0), p_target_active, 0.0, 0.0)
    if low >= max(0.0, -a):  # never off
        _add_polynomial(level, b, polynomial, polynomial_by_a, out, by_m)
        return
    at_zero, at_edge = low < 0.0 < high, low < -a < high
    if (at_zero and at_edge) or abs(a) < 0.25 * (high - low):
        shape, growth = (1.0 - p_target_active, p_target_active, 0.0), (p_target_active, 1.0, 0.0)
        ends, by_a = (b + max(a, 0.0), b + min(a, 0.0)), (0.0, 0.0, 0.0)
        _add_bromwich(
            level, a, b, shape, by_a, polynomial, polynomial_by_a, ends, growth, tolerance, most, out, by_m
        )
        return
    # as `uniform_fourier` splits g - p_target_active/3; the second ramp moves with a
    cubic, inverse = p_target_active * (a + 1.0) / (3.0 * a * a), 1.0 / a
    cubic_by_a = -p_target_active * inverse * inverse * (1.0 + 2.0 * inverse) / 3.0
    for t, second, third, second_by_a, third_by_a, moves, has_kink in (
        (b, 1.0 - p_target_active, -cubic, 0.0, -cubic_by_a, 0.0, at_zero),
        (
            a + b,
            -p_target_active * inverse,
            cubic,
            p_target_active * inverse * inverse,
            cubic_by_a,
            1.0,
            at_edge,
        ),
    ):
        if not has_kink and low - b + t < 0.0:
            continue
        polynomial = (0.0, 0.0, second, third)
        polynomial_by_a = (0.0, 2.0 * moves * second, second_by_a + 3.0 * moves * third, third_by_a)
        if has_kink:
            shape, by_a, ends = (second, 0.0, third), (second_by_a, moves, third_by_a), (t, t)
            growth = (0.0, abs(second) + abs(a * second_by_a), abs(third) + abs(a * third_by_a))
            _add_bromwich(
                level,
                a,
                t,
                shape,
                by_a,
                polynomial,
                polynomial_by_a,
                ends,
                growth,
                tolerance,
                most,
                out,
                by_m,
            )
        else:
            _add_polynomial(level, t, polynomial, polynomial_by_a, out, by_m)


@inner
def _add_many_on(
    row: FloatArray,
    chances: FloatArray,
    p_target_active: float,
    a: float,
    b: float,
    tolerance: float,
    most: float,
    out: FloatArray,
    by_row: FloatArray,
) -> None:
    """Add the loss with two or more features of `row` on to `out`, and its derivatives to `by_row`.

    `row` has the weights of the other features, on with probabilities `chances`; a is the target's weight,
    `p_target_active` the probability that it is on, and b the bias. `out` is [loss, by b, by a, error, error
    of derivatives]; `tolerance` is the error to aim at, with at most `most` blocks of frequencies.
    """
    order, m, p = sort_by_size(row, chances)
    none, part = cumulative_p_off(p), np.empty(5)
    size, share, first = m.size, tolerance, 0
    while size - first > 1:
        share *= 0.5
        ahead, m_left, p_left = none[first], m[first:], p[first:]
        large, total_weight = count_large(m_left)
        reach = abs(a) + abs(b) + total_weight
        rest = ahead * (p_target_active + reach * (reach + p_target_active))
        if rest < 0.01 * tolerance:
            out[3] += rest
            out[4] += 2.0 * ahead * (p_target_active + reach)
            break
        level, part[:], by_m = Level(m_left, large, p_left), 0.0, np.zeros(m_left.size)
        _add_level(level, p_target_active, a, b, share / ahead, most, part, by_m)
        part[0] += p_target_active / 3.0 * moments_of(level, b)[0]
        for k in range(5):
            out[k] += ahead * part[k]
        for j in range(by_m.size):
            by_row[order[first + j]] += ahead * by_m[j]
        first += large
    out[3] += UNIT * rounding_of_product(size, 0.0) * (out[0] + p_target_active)


@inner
def _write_at_most_one_on(
    row: FloatArray,
    p: FloatArray,
    p_target_active: float,
    a: float,
    b: float,
    out: FloatArray,
    by_row: FloatArray,
) -> None:
    """Write the loss with at most one feature of `row` on to `out`, and its derivatives to `by_row`.

    `row` has the weights of the other features, on with probabilities p; a is the target's weight,
    `p_target_active` the probability that it is on, and b the bias. `out`, overwritten, is [loss, by b, by a,
    error, error of derivatives].
    """
    none, alone = p_at_most_one_on(p)
    atom = loss_none_on(b, a, p_target_active)
    scale = p_target_active * (1.0 + abs(a) + abs(b))
    size, largest, lost, moved = none * (scale + abs(atom[1])), 0.0, 0.0, 0.0
    for k in range(3):
        out[k] = none * atom[k]
    for j in range(row.size):
        share, terms = alone[j], loss_one_on(b, row[j], a, p_target_active)
        step = share * terms[0] - lost
        new = out[0] + step  # compensated: thousands of equal terms would round alike
        lost = (new - out[0]) - step
        out[0] = new
        out[1] += share * terms[1]
        out[2] += share * terms[3]
        by_row[j] = share * terms[2]
        # Rounding of b + m v moves the loss by its derivative, and that by twice the share where it is > 0.
        reach, p_above = abs(b) + abs(row[j]), abs(max(b + row[j], 0.0) - max(b, 0.0)) / abs(row[j])
        moved += share * abs(terms[1]) * reach
        size += share * (scale + 2.0 * p_target_active * abs(row[j]) + abs(terms[1]) + p_above * reach)
        largest = max(largest, abs(row[j]))
    out[3] = UNIT * (16.0 * (out[0] + p_target_active * (1.0 + abs(a) + abs(b) + largest)) + 4.0 * moved)
    out[4] = 16.0 * UNIT * size


@kernel
def rows_uniform_slopes(
    M: FloatArray,
    features: npt.NDArray[np.int64],
    b: FloatArray,
    p: FloatArray,
    tol: float,
    unit: FloatArray,
    most: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return losses, their errors, derivatives by rows and biases, and their errors, as in `Outputs`.

    Output i has the weights M[i], the bias b[i] and the target feature features[i]. Feature j is on with
    probability p[j], and then uniform on [0, 1]. The error of a loss to aim at is `tol` times the loss or
    unit[features[i]], the loss of an output 0, whichever is larger. A sum has at most `most` blocks of
    frequencies.
    """
    losses, errors, by_b, slope_errors = (
        np.empty(b.size),
        np.empty(b.size),
        np.empty(b.size),
        np.empty(b.size),
    )
    by_M = np.empty(M.shape)
    for i in range(b.size):
        check_interrupt(i % ROWS_TO_CHECK == 0)
        target, out = features[i], np.zeros(5)
        p_target_active, a = p[target], M[i, target]
        index = find_inputs(M[i], target)
        row, chances = M[i][index], p[index]
        by_row = np.zeros(index.size)
        _write_at_most_one_on(row, chances, p_target_active, a, b[i], out, by_row)
        # p may be so small that its part underflows; the smallest normal number asks for all there is
        tolerance = max(tol * max(unit[target], out[0]), 2.3e-308)
        _add_many_on(row, chances, p_target_active, a, b[i], tolerance, most, out, by_row)
        losses[i], by_b[i], errors[i], slope_errors[i] = out[0], out[1], out[3], out[4]
        for j in range(p.size):
            by_M[i, j] = (
                0.5 * p[j] * out[1]
            )  # of an input without a weight, which is independent of the output
        for k in range(index.size):
            by_M[i, index[k]] = by_row[k]
        by_M[i, target] = out[2]
    return losses, errors, by_M, by_b, slope_errors
