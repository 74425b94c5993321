r"""Kernels of the exact loss and its gradient for bounded values, by a sum over a lattice of frequencies.

Patterns with at most one other feature that is on and has a weight are integrated piece by piece
(`at_most_one_active`): they make the atom of the interference and the jumps of its density. For the others,
Poisson's formula turns the integral of `coefficient_with_slopes` into a sum over s_k = c + 2 pi i k / P,
c = kappa/P. The images of the loss on the right count e^-kappa. Those on the left need y > P, which
Chernoff's bound makes as rare. What is cut off above a frequency omega is bounded by
|phi| <= min(phi(c m), (1 + e^(c m))/(omega |m|)) for values uniform on [0, 1], and by the jumps of the
density and of its derivatives for others.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ....theory.compile.kernels import inner, kernel, non_literal
from ....theory.features.values.parts import KernelLaw, transforms
from ....theory.validation import FloatArray
from ..problem import Accuracy, Law, LossProblem, Outputs
from .at_most_one_active import (
    loss_and_second_derivatives_none_on,
    loss_and_second_derivatives_one_on,
    require_bounded_law,
)
from .transform_sums import OtherFeatures, add_nodes, coefficient_with_slopes, independent_features
from .transforms import SILENT, by_transforms

__all__ = ["ESTIMATE", "choose_lattice", "estimated_seconds", "integrate_output", "solve", "terms"]

ComplexArray = npt.NDArray[np.complex128]

BLOCK = 32  # frequencies are added in such steps
_PART = 4096  # frequencies that are in memory at a time
KAPPA = 34.0  # e^-34 is 2e-15
RARE = 71.0  # an image on the left has weight e^34 and must stay below rounding of the part with images
GROWTH = 9.0  # terms of the sum may outgrow it by e^9 before the period is widened
CHANGES = 7  # parts of the upper half of the frequencies, whose changes tell the error of derivatives
UNIT = 2.0**-53  # rounding


@inner
def _bound_transforms(law: KernelLaw, m: FloatArray, real: float, radius: float, phi: ComplexArray) -> None:
    """Write bounds of |E e^(s m_j v)|, for all s with Re s = real and |s| >= radius, to phi[j].

    m are the weights, v is a value of the `law`. For radius = 0 these are E e^(real m_j v) themselves.
    """
    for j in range(m.size):
        x = real * m[j]
        value = transforms(law.transform, complex(x, 0.0))[0].real
        if radius > 0.0 and law.ends.shape[0] > 0:
            bound = 0.0
            for k in range(law.atoms.shape[0]):
                bound += law.atoms[k, 1] * np.exp(x * law.atoms[k, 0])
            for k in range(law.jumps.shape[0]):
                fall = radius * abs(m[j])
                for _ in range(int(law.jumps[k, 2])):
                    fall *= radius * abs(m[j])
                bound += law.jumps[k, 1] * np.exp(x * law.jumps[k, 0]) / fall
            value = min(value, bound)
        phi[j] = value


@inner
def _bound_target_tail(law: KernelLaw, a: float, p_target_active: float, c: float, omega: float) -> float:
    """Return a bound of the integral of |K(s)| over s = c + i y, y > omega.

    K is the loss's Laplace transform, K(s) = 2 (1 - p)/s^3 + p (2 phi_0/s^3 - 2 phi_1/s^2), with phi_r = E
    v^r e^(a s v). The target has the weight a and, when on, a value v of the `law`; p is `p_target_active`,
    the probability that it is on.
    """
    total = (1.0 - p_target_active) / omega**2
    if p_target_active > 0.0:
        rise = np.exp(abs(c * a) * law.reach)
        square, product = rise, law.reach * rise
        if a != 0.0:
            unit = omega * abs(a)
            square = min(square, law.edge * (1.0 + rise) / unit)
            product = min(product, (law.edge * law.reach * rise + square) / unit)
        total += p_target_active * (square / omega**2 + 2.0 * product / omega)
    return total


@kernel
def choose_lattice(
    law: KernelLaw,
    m: FloatArray,
    a: float,
    b: float,
    p_target_active: float,
    others: OtherFeatures,
    tolerance: float,
    most: float,
) -> tuple[float, float, int, float]:
    """Return (c, h, count, bound): `count` frequencies s = c + i h k, and a bound of what those above add.

    The sum over frequencies is an output's loss from patterns with two or more other features on. The bound
    is at most `tolerance` unless `most` frequencies are too few. If y is never positive, `count` is 0. `law`
    is that of a feature's value when on. m are the weights of the other features, whose law is `others`; the
    output's own feature has the weight a and is on with probability `p_target_active`; b is the bias.
    """
    require_bounded_law(law)
    phi, top = np.empty(m.size, np.complex128), non_literal(2)
    start = abs(b) + (abs(a) * law.reach if p_target_active > 0.0 else 0.0)
    reach, longest = 0.0, 0.0
    for x in m:
        reach += max(x * law.low, x * law.high, 0.0)
        longest = max(longest, abs(x) * law.reach)
    period = start + reach
    if period == 0.0:  # y is never positive
        return 1.0, np.inf, 0, 0.0
    theta = 1.0 / period
    for j in range(m.size):
        phi[j] = 1.0
    share = max(coefficient_with_slopes(others, top, top, phi)[0].real, 1e-300)
    while theta * longest < 500.0:
        _bound_transforms(law, m, theta, 0.0, phi)
        mean = coefficient_with_slopes(others, top, top, phi)[0].real
        if not mean < 1e250:
            break
        # images fade by e^(kappa - theta P), at least by half, however rare the first is
        least_period = max(start + (np.log(mean / share + 1e-300) + RARE) / theta, (KAPPA + 1.0) / theta)
        period = min(period, least_period)
        theta *= 1.3
    for _ in range(60):
        _bound_transforms(law, m, KAPPA / period, 0.0, phi)
        mean = coefficient_with_slopes(others, top, top, phi)[0].real
        if np.log(mean + 1e-300) + KAPPA * start / period <= GROWTH:
            break
        period *= 1.2
    c, h = KAPPA / period, 2.0 * np.pi / period
    count = float(BLOCK)
    while True:
        omega = h * (count - 1.0)
        _bound_transforms(law, m, c, omega, phi)
        majorant = abs(coefficient_with_slopes(others, top, top, phi)[0])
        cut = np.exp(c * b) / np.pi * _bound_target_tail(law, a, p_target_active, c, omega) * majorant
        if cut <= tolerance or count >= most:
            return c, h, int(count), cut
        count = min(BLOCK * np.ceil(1.25 * count / BLOCK), most)


@inner
def _sum_at_most_one_on(
    law: KernelLaw, m: FloatArray, a: float, b: float, p_target_active: float, others: OtherFeatures
) -> tuple[FloatArray, FloatArray]:
    """Return loss and derivatives from patterns in which at most one other feature with a weight is on.

    The first array is [loss, by b, by a, size of the loss, size of derivatives], the second has the
    derivatives by m. The size is E (|x| + |terms of y|)^2 where anything is on: the unit of the rounding of
    y. m are the weights of the other features, whose law is `others`; the output's own feature has the weight
    a and is on with probability `p_target_active`; b is the bias. `law` is that of a value when on.
    """
    sums, by_m, phi = np.zeros(5), np.zeros(m.size), np.empty(m.size, np.complex128)
    for j in range(m.size):
        phi[j] = 1.0
    start = 2.0 * p_target_active * (1.0 + abs(a) + abs(b))
    top = non_literal(2)
    atom = loss_and_second_derivatives_none_on(b, a, p_target_active, law)
    none, of_none = coefficient_with_slopes(others, top, top - 2, phi)
    shares = coefficient_with_slopes(others, top, top - 1, phi)[1].real
    for k in range(3):
        sums[k] = none.real * atom[k]
    sums[4] = none.real * (start + abs(atom[1]))
    mine = law.reach * (1.0 + abs(a)) + abs(b)
    sums[3] = none.real * p_target_active * mine * mine
    for j in range(m.size):
        if others.has_weight[j] and shares[j] > 0.0:
            terms, push = loss_and_second_derivatives_one_on(b, m[j], a, p_target_active, law)
            for k in range(3):
                sums[k] += shares[j] * terms[k]
            sums[4] += shares[j] * (start + 2.0 * p_target_active * abs(m[j]) + abs(terms[1]))
            theirs = law.reach * abs(m[j])
            sums[3] += shares[j] * (
                p_target_active * (mine + theirs) ** 2 + (1.0 - p_target_active) * (abs(b) + theirs) ** 2
            )
            by_m[j] = shares[j] * push[0]
            phi[j] = terms[1]
    of_one = coefficient_with_slopes(others, top, top - 1, phi)[1]
    for j in range(m.size):
        if not others.has_weight[j]:
            by_m[j] = law.mean * (atom[1] * of_none[j].real + of_one[j].real)
    return sums, by_m


@inner
def _add_frequencies(
    law: KernelLaw,
    m: FloatArray,
    a: float,
    b: float,
    p_target_active: float,
    others: OtherFeatures,
    line: tuple[float, float],
    first: int,
    end: int,
    sums: FloatArray,
    by_m: FloatArray,
) -> None:
    """Add an output's terms at the frequencies `first`, ..., `end` - 1 to `sums`, derivatives by m to `by_m`.

    Frequency k is s = c + i h k, `line` being (c, h). m are the weights of the other features, whose law is
    `others`. The output's own feature has the weight a and is on with probability `p_target_active`; b is the
    bias. `sums` is [loss, by b, by a, size of the loss's terms, size of the derivatives' terms].
    """
    c, h = line
    s, weights = np.empty(_PART, np.complex128), np.empty(_PART, np.complex128)
    for start in range(first, end, _PART):
        count = min(_PART, end - start)
        for k in range(count):
            s[k], weights[k] = complex(c, h * (start + k)), h / np.pi
        if start == 0:
            weights[0] *= 0.5
        add_nodes(
            law.transform,
            s[:count],
            weights[:count],
            m,
            a,
            b,
            p_target_active,
            1.0,
            non_literal(2),
            others,
            sums,
            by_m,
        )


@kernel
def integrate_output(
    law: KernelLaw,
    m: FloatArray,
    a: float,
    b: float,
    p_target_active: float,
    others: OtherFeatures,
    tolerance: float,
    work: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (loss of an output, derivatives by m, errors), by a sum over frequencies.

    The first array is [loss, by b, by a, size of the loss's terms, size of the derivatives' terms]. The third
    is [rounding, truncation, four times the change of the loss by the upper half of the frequencies, error of
    the derivatives].

    b is the bias. a is the target's weight and `p_target_active` the probability that it is on. m are the
    weights of the other features, with the joint law `others`. `law` is that of the value of a feature that
    is on, with bounds. `tolerance` is the error of the loss to aim at, `work` the most frequencies times
    other features.
    """
    require_bounded_law(law)
    totals, by_m = _sum_at_most_one_on(law, m, a, b, p_target_active, others)
    # E 2 e d by Cauchy and Schwarz, for the error e = x - y and its rounding d
    size, slopes = totals[0] + 2.0 * np.sqrt(totals[0] * totals[3]) + 16.0 * UNIT * totals[3], totals[4]
    start, top, total_weight = abs(a) + abs(b), non_literal(2), 0.0
    phi, errors = np.empty(m.size, np.complex128), np.zeros(4)
    for j in range(m.size):
        phi[j] = 1.0
        total_weight += abs(m[j])
    share = coefficient_with_slopes(others, top, top, phi)[0].real
    if share * (1.0 + start + total_weight) ** 2 < 1e-300:
        errors[0], errors[3] = 16.0 * UNIT * size, 16.0 * UNIT * slopes
        return totals, by_m, errors
    rest = p_target_active * share * law.square
    size += rest
    most = BLOCK * max(np.floor(work / (m.size * BLOCK)), 1.0)
    c, h, count, cut = choose_lattice(law, m, a, b, p_target_active, others, tolerance, most)
    # by themselves: a million small terms would be rounded off the part that is known
    far, by_m_far, half = np.zeros(5), np.zeros(m.size), count // 2
    _add_frequencies(law, m, a, b, p_target_active, others, (c, h), non_literal(0), half, far, by_m_far)
    loss, slope = far[0], 0.0
    # Of atoms near the kink, what is cut off of a derivative swings with the frequency: one change may be 0.
    sums, of_m = np.empty((CHANGES, 3)), np.empty((CHANGES, m.size))
    for turn in range(CHANGES):
        sums[turn], of_m[turn] = far[:3], by_m_far
        first, end = half + (count - half) * turn // CHANGES, half + (count - half) * (turn + 1) // CHANGES
        _add_frequencies(law, m, a, b, p_target_active, others, (c, h), first, end, far, by_m_far)
    # Derivatives err by rounding and four times their largest change by the last parts of the upper half.
    for turn in range(CHANGES):
        slope = max(slope, abs(far[1] - sums[turn, 1]), abs(far[2] - sums[turn, 2]))
        for j in range(m.size):
            slope = max(slope, abs(by_m_far[j] - of_m[turn, j]))
    for j in range(m.size):
        by_m[j] += by_m_far[j]
    span = 4.0 * np.pi / h + start  # twice the period
    images = 4.0 * np.exp(-KAPPA) * share * (span + 1.0)
    noise = 16.0 + 4.0 * np.sqrt(m.size)
    errors[0] = images * span + UNIT * (16.0 * size + noise * far[3])
    errors[1], errors[2] = cut, 4.0 * abs(far[0] - loss)  # atoms have exceeded the change itself by 2.8
    errors[3] = 4.0 * slope + 2.0 * images + UNIT * (16.0 * slopes + noise * far[4])
    far[0] += totals[0] + rest
    far[1] += totals[1]
    far[2] += totals[2]
    return far, by_m, errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = (
    "what is cut off is proved, by the bound, or with few frequencies heuristic, by what half of them "
    "change; rounding and derivatives are heuristic, never exceeded in tests by exact arithmetic"
)


def terms(law: Law) -> float:
    """Return the least cost of an output: the `BLOCK` frequencies s that are added at once, times features.

    Each feature has a transform E e^(s v) at each frequency s.
    """
    return float(BLOCK * law.n)


# Seconds for each factor of the transform with its derivatives, and how many times that with groups.
SECONDS_PER_FACTOR = 2.3e-7
# Seconds that an output takes besides.
SECONDS = 5e-4
GROUPS = 15.0
# Outputs on which the number of frequencies is estimated.
ESTIMATED_ON = 4


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output.

    The estimate follows from the largest number of frequencies that a sample of the outputs needs. If values
    are atoms alone, their transform does not decay, and as many frequencies are summed as `accuracy` allows.
    """
    law = problem.law
    times = SECONDS_PER_FACTOR * law.n * (1.0 if law.independent else GROUPS)
    most = accuracy.max_terms / law.n
    if accuracy.max_frequencies is not None:
        return times * min(float(accuracy.max_frequencies), most)
    if not law.values.pieces:
        return times * most
    seconds = []
    for k in range(0, problem.biases.size, max(problem.biases.size // ESTIMATED_ON, 1)):
        row, b, i = problem.weights[k], float(problem.biases[k]), int(problem.target[k])
        is_nonzero = np.abs(row) > SILENT * min(float(np.abs(row).max()), 1.0)
        is_nonzero[i] = False
        if is_nonzero.sum() > 1 and not b + np.abs(row).sum() <= 0.0:
            others = independent_features(law.p[is_nonzero])
            tolerance = float(max(accuracy.tol * law.aim[i], np.finfo(np.float64).tiny))
            limits = float(law.p[i]), others, tolerance, float(np.floor(most))
            seconds.append(
                float(choose_lattice(law.values.parts, row[is_nonzero], float(row[i]), b, *limits)[2])
            )
    return SECONDS + times * max(seconds, default=1.0)


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem, with derivatives, by sums over a lattice of frequencies.

    `accuracy` has the error to aim at and the most terms; `gradient` makes no difference.
    """
    law = problem.law
    parts, least = law.values.parts, np.finfo(np.float64).tiny
    tolerance = np.maximum(accuracy.tol * law.aim[problem.target], least)
    work = accuracy.max_terms if accuracy.max_frequencies is None else float(accuracy.max_frequencies) * law.n

    def integrate(
        k: int, m: FloatArray, a: float, b: float, p_active: float, others: OtherFeatures, _: FloatArray
    ) -> Any:
        """Return the kernel's loss, derivatives and errors of output k, whose weights on the others are m.

        Its own feature has the weight a and is on with probability `p_active`; b is its bias.
        """
        return integrate_output(parts, m, a, b, p_active, others, tolerance[k], work)

    return by_transforms(problem, accuracy, integrate, True)
