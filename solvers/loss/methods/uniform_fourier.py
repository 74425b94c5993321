"""The exact loss of independent uniform features: kernels of the loss alone, and the method.

`uniform_levels` has the mathematics, `uniform_slopes` the kernels with derivatives.
"""

import numpy as np
import numpy.typing as npt

from ....theory.compile.kernels import check_interrupt, inner, kernel
from ....theory.validation import FloatArray
from ...parallel import parallel_concat
from ..problem import Accuracy, Law, LossProblem, Outputs
from .uniform_levels import (
    BLOCK,
    KAPPA,
    LEAST_P,
    ROWS_TO_CHECK,
    UNIT,
    Four,
    Level,
    Three,
    absolute_level,
    advance_sweep,
    choose_blocks,
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
    rounding_of_product,
    sizes_of,
    sort_by_size,
    start_block,
    transforms_of,
)
from .uniform_slopes import rows_uniform_slopes

__all__ = ["ESTIMATE", "estimated_seconds", "rows_uniform", "solve", "terms"]

CHUNK = 32  # blocks kept in the second-level cache together


@inner
def _polynomial_mean(level: Level, t: float, polynomial: Four) -> tuple[float, float]:
    """Return (mean of a polynomial of t + nu over a level, rounding error).

    The `level` has the on/off patterns with two or more features on, at least one of the first `level.large`;
    nu = sum_j m_j x_j. A mean over it is the sum of its patterns' probabilities times their means.
    `polynomial` has the coefficients, lowest power first.
    """
    value = mean_of(polynomial, moments_of(level, t), 0.0)
    size = mean_of(sizes_of(polynomial), moments_of(absolute_level(level), abs(t)), 0.0)
    return value, UNIT * rounding_of_product(level.m.size, 0.015625) * size


@inner
def _lattice_sum(
    level: Level, a: float, t: float, shape: Three, c: float, h: float, blocks: int
) -> tuple[float, float]:
    """Return (S, rounding error of S in units of 2^-53): S h/(2 pi) is the mean of J(t + nu) over a level.

    That is but for images, copies of the mean shifted by multiples of the period 2 pi/h, which a sum over
    frequencies adds. The `level` has the on/off patterns with two or more features on, at least one of the
    first `level.large`; nu = sum_j m_j x_j. J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) +
    shape_2 t_+^3, for the value v of a target of weight a that is on. Frequencies are s = c + i h k in
    `blocks` blocks of `BLOCK`.
    """
    m, large, p = level
    acc = np.empty((min(blocks, CHUNK), 10 * BLOCK))
    table = np.empty(2 * BLOCK)
    mean = 0.0
    for p_j in p:
        mean += p_j
    noise = rounding_of_product(m.size, 2.0 * (mean / m.size))
    none = cumulative_p_off(p)
    total, lost, size = 0.0, 0.0, 0.0
    tables, by_inverse = np.empty((2, 2 * BLOCK)), 1.0 / a if a != 0.0 else 0.0
    fill_table(tables[0], h * t, BLOCK)
    fill_table(tables[1], h * a, BLOCK)
    for start in range(0, blocks, CHUNK):
        check_interrupt(start % (16 * CHUNK) == 8 * CHUNK)
        count = min(CHUNK, blocks - start)
        for i in range(count):
            start_block(acc[i], c, h, start + i)
        for j in range(m.size):
            x = m[j]
            add = 1.0 / max(1.0 - p[j], LEAST_P) if j < large else 0.0
            fill_table(table, h * x, BLOCK)
            for i in range(count):
                rise = complex_expm1(complex(c, h * ((start + i) * BLOCK)), x)
                advance_sweep(acc[i], table, rise, p[j] / x, p[j], none[j], add, BLOCK)
        for i in range(count):
            first_s = complex(c, h * ((start + i) * BLOCK))
            rise_t, rise_a = complex_expm1(first_s, t), complex_expm1(first_s, a)
            for f in range(BLOCK):
                k = (start + i) * BLOCK + f
                s, u = complex(c, h * k), complex(acc[i, f], acc[i, BLOCK + f])
                # of J = shape[0] t_+^2 + shape[2] t_+^3, and for shape = (1 - p, p, 0) of all of g - p/3
                term = 2.0 * u * u * u * (shape[0] + 3.0 * shape[2] * u)
                if shape[1] != 0.0:
                    order_0, order_1, _ = transforms_of(a * s, expm1_at(tables[1], rise_a, f), u * by_inverse)
                    term += 2.0 * shape[1] * u * u * (order_0 * u - order_1)
                term *= 1.0 + expm1_at(tables[0], rise_t, f)
                term *= complex(acc[i, 2 * BLOCK + f], acc[i, 3 * BLOCK + f])
                twice = 1.0 if k == 0 else 2.0
                size += twice * (abs(term.real) + abs(term.imag)) * (noise + (c + h * k) * abs(t))
                step = twice * term.real - lost  # compensated: there may be millions of terms
                new = total + step
                lost = (new - total) - step
                total = new
    return total, size


@inner
def _bromwich_mean(
    level: Level,
    a: float,
    t: float,
    shape: Three,
    polynomial: Four,
    ends: tuple[float, float],
    growth: Three,
    tolerance: float,
) -> tuple[float, float]:
    """Return (mean of J(t + nu) over a level, bound of its error), by a sum over frequencies.

    The `level` has the on/off patterns with two or more features on, at least one of the first `level.large`;
    nu = sum_j m_j x_j. J(t) = shape_0 t_+^2 + shape_1 (E (v - ReLU(a v + t))^2 - 1/3) + shape_2 t_+^3, for
    the value v of a target of weight a that is on. J(t + nu) is 0 where ends[0] + nu < 0, and a polynomial of
    t + nu with the coefficients `polynomial` where ends[1] + nu > 0. At a distance d past such an end, J, or
    its difference from the polynomial, is at most sum_k growth[k] d^(k + 1). `tolerance` is the error to aim
    at.
    """
    period, escaped = period_of(level, ends, growth, tolerance)
    moments, absolute = moments_of(level, t), moments_of(absolute_level(level), abs(t))
    image, size = 0.0, 0.0
    for l in range(1, 12):  # e^-60 is below rounding, also where the cubes grow as l^3
        image += np.exp(-KAPPA * l) * mean_of(polynomial, moments, l * period)
        size += np.exp(-KAPPA * l) * mean_of(sizes_of(polynomial), absolute, l * period)
    size *= UNIT * rounding_of_product(level.m.size, 0.015625)
    c, h = KAPPA / period, 2.0 * np.pi / period
    blocks, _, cut = choose_blocks(level, a, t, shape, (c, h), max(0.9 * tolerance, 0.1 * size), 0.0, np.inf)
    total, rounding = _lattice_sum(level, a, t, shape, c, h, blocks)
    return total / period - image, cut + escaped + size + UNIT * rounding / period


@inner
def _level_loss(
    level: Level, p_target_active: float, a: float, b: float, tolerance: float
) -> tuple[float, float]:
    """Return (mean of g(b + nu) - p_target_active/3 over a level, bound of its error).

    g(t) is the loss E (x - ReLU(a x + t))^2 over the target x, which has the weight a and is on with
    probability `p_target_active`; b is the bias. The `level` has the on/off patterns of the other features
    with two or more on, at least one of the first `level.large`; nu = sum_j m_j x_j is their interference.
    `tolerance` is the error to aim at.
    """
    low, high = b, b
    for x in level.m:
        low += min(x, 0.0)
        high += max(x, 0.0)
    if high <= min(0.0, -a):  # never on
        return 0.0, 0.0
    polynomial = (p_target_active / 3.0 * a * (a - 2.0), p_target_active * (a - 1.0), 1.0, 0.0)
    if low >= max(0.0, -a):  # never off
        return _polynomial_mean(level, b, polynomial)
    at_zero, at_edge = low < 0.0 < high, low < -a < high
    if (at_zero and at_edge) or abs(a) < 0.25 * (high - low):
        ends = (b + max(a, 0.0), b + min(a, 0.0))
        return _bromwich_mean(
            level,
            a,
            b,
            (1.0 - p_target_active, p_target_active, 0.0),
            polynomial,
            ends,
            (p_target_active, 1.0, 0.0),
            tolerance,
        )
    # With p = p_target_active: g - p/3 = (1-p) t_+^2 - cubic t_+^3 - p/a (t+a)_+^2 + cubic (t+a)_+^3. One
    # kink of it is met at most; the scale of nu may then be far below that of a
    cubic = p_target_active * (a + 1.0) / (3.0 * a * a)
    value, error = 0.0, 0.0
    for t, second, third, has_kink in (
        (b, 1.0 - p_target_active, -cubic, at_zero),
        (a + b, -p_target_active / a, cubic, at_edge),
    ):
        part, miss = 0.0, 0.0
        if has_kink:
            shape, growth = (second, 0.0, third), (0.0, abs(second), abs(third))
            part, miss = _bromwich_mean(
                level, a, t, shape, (0.0, 0.0, second, third), (t, t), growth, tolerance
            )
        elif low - b + t >= 0.0:
            part, miss = _polynomial_mean(level, t, (0.0, 0.0, second, third))
        value, error = value + part, error + miss
    return value, error


@inner
def _loss_many_on(
    row: FloatArray, chances: FloatArray, p_target_active: float, a: float, b: float, tolerance: float
) -> tuple[float, float]:
    """Return (loss from patterns with two or more features of `row` on, a bound of its error).

    `row` has the weights of the other features, on with probabilities `chances`; a is the target's weight,
    `p_target_active` the probability that it is on, and b the bias. `tolerance` is the error to aim at.
    """
    _, m, p = sort_by_size(row, chances)
    none = cumulative_p_off(p)
    size, share, loss, error = m.size, tolerance, 0.0, 0.0
    while m.size > 1:
        share *= 0.5
        ahead = none[size - m.size]
        large, total_weight = count_large(m)
        reach = abs(a) + abs(b) + total_weight
        rest = ahead * (p_target_active + reach * (reach + p_target_active))
        if rest < 0.01 * tolerance:
            error += rest
            break
        level = Level(m, large, p)
        value, miss = _level_loss(level, p_target_active, a, b, share / ahead)
        loss += ahead * (value + p_target_active / 3.0 * moments_of(level, b)[0])
        error += ahead * miss
        m, p = m[large:], p[large:]
    return loss, error + UNIT * rounding_of_product(size, 0.0) * (loss + p_target_active)


@inner
def _loss_at_most_one_on(
    row: FloatArray, p: FloatArray, p_target_active: float, a: float, b: float
) -> tuple[float, float]:
    """Return (loss from patterns with at most one feature of `row` on, its rounding error).

    `row` has the weights of the other features, on with probabilities p; a is the target's weight,
    `p_target_active` the probability that it is on, and b the bias.
    """
    none, alone = p_at_most_one_on(p)
    loss, largest, lost, moved = none * loss_none_on(b, a, p_target_active)[0], 0.0, 0.0, 0.0
    for j in range(row.size):
        terms = loss_one_on(b, row[j], a, p_target_active)
        step = alone[j] * terms[0] - lost
        new = loss + step  # compensated: thousands of equal terms would round alike
        lost = (new - loss) - step
        loss = new
        moved += alone[j] * abs(terms[1]) * (abs(b) + abs(row[j]))  # by rounding of b + m v
        largest = max(largest, abs(row[j]))
    return loss, UNIT * (16.0 * (loss + p_target_active * (1.0 + abs(a) + abs(b) + largest)) + 4.0 * moved)


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

    Output i has the weights M[i], the bias b[i] and the target feature features[i]. Feature j is on with
    probability p[j], and then uniform on [0, 1]. The error to aim at is `tol` times the loss or
    unit[features[i]], the loss of an output 0, whichever is larger.
    """
    losses, errors = np.empty(b.size), np.empty(b.size)
    for i in range(b.size):
        check_interrupt(i % ROWS_TO_CHECK == 0)
        p_target_active, a = p[features[i]], M[i, features[i]]
        index = find_inputs(M[i], features[i])
        m, chances = M[i][index], p[index]
        few_on_loss, error = _loss_at_most_one_on(m, chances, p_target_active, a, b[i])
        # p may be so small that its part underflows; the smallest normal number asks for all there is
        tolerance = max(tol * max(unit[features[i]], few_on_loss), 2.3e-308)
        many, miss = _loss_many_on(m, chances, p_target_active, a, b[i], tolerance)
        losses[i], errors[i] = few_on_loss + many, error + miss
    return losses, errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = "what is cut off is proved; rounding is heuristic, never exceeded in tests by exact arithmetic"


def terms(law: Law) -> float:
    """Return the least cost of an output: the `BLOCK` frequencies s that are added at once, times features.

    Each feature has a transform E e^(s v) at each frequency s.
    """
    return float(BLOCK * law.n)


# Seconds of an output of 30 features to an error of 1e-5, measured, and how many times that to 1e-12: of
# losses, and with derivatives. Few features take at least as long as the rest of the call.
SECONDS = {False: (4e-5, 12.0), True: (8e-5, 90.0)}
LEAST_SECONDS = 5e-5
# Seconds of work below which threads cost more than they save.
_SECONDS_OF_PIECE = 1e-3


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output, as measured."""
    seconds, growth = SECONDS[gradient]
    digits = min(max(-np.log10(accuracy.tol), 5.0), 12.0)
    return float(LEAST_SECONDS + (0.1 + problem.law.n / 30.0) * seconds * growth ** ((digits - 5.0) / 7.0))


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool, least: int = 1) -> Outputs:
    """Return losses and errors of a problem's outputs, with derivatives if `gradient`, else empty arrays.

    `accuracy` has the error to aim at and the number of threads. Each thread takes at least `least` outputs
    at a time.
    """
    law = problem.law
    least = max(least, int(np.ceil(_SECONDS_OF_PIECE / estimated_seconds(problem, accuracy, gradient))))
    most = np.inf if accuracy.max_frequencies is None else max(float(accuracy.max_frequencies // BLOCK), 1.0)
    no_slopes = np.empty((0, law.n)), np.empty(0), np.empty(0)

    def part(which: slice) -> tuple[FloatArray, ...]:
        """Return the fields of `Outputs` for a slice of the outputs."""
        arrays = problem.weights[which], problem.target[which], problem.biases[which]
        if gradient:
            return tuple(rows_uniform_slopes(*arrays, law.p, accuracy.tol, law.aim, most))
        return *rows_uniform(*arrays, law.p, accuracy.tol, law.aim), *no_slopes

    return Outputs(*parallel_concat(part, problem.biases.size, accuracy.workers, least=least))
