r"""Exact Hessian of the loss of one output by its own weights and bias."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory.features import Features, ValueDistribution, as_features
from ...theory.features.values.law import transforms_at
from ...theory.results import result
from ...theory.validation import ComplexArray, FloatArray, integer, number, real, vector
from .dispatch import solve
from .methods.at_most_one_active import (
    loss_and_second_derivatives_none_on,
    loss_and_second_derivatives_one_on,
)
from .methods.fourier import choose_lattice
from .methods.transform_sums import independent_features
from .methods.transforms import SILENT
from .problem import LARGEST, Accuracy, LossProblem, law_of

__all__ = ["RowDerivatives", "row_hessian"]


FREQUENCIES_IN_MEMORY = 512
FREQUENCIES = 8192
NEGLIGIBLE = 1e-18  # where the transform is smaller, no higher frequency counts
ROUNDING = 1e-14  # of sums over frequencies, in units of E (|x| + |y|)^2
STEP = 1e-3  # of the differences, in units of the largest weight


@result
class RowDerivatives:
    """Loss of one output and its derivatives; coordinates are the row's n entries, then the bias."""

    loss: float
    """Loss per feature, E (x_i - ReLU(row . x + b))^2, without importance."""
    gradient: FloatArray
    """Shape (n + 1,)."""
    hessian: FloatArray
    """Symmetric, shape (n + 1, n + 1)."""
    error_estimate: float
    """Error of the loss, heuristic: a few times its change with half or 3/4 of the frequencies."""
    gradient_error: float
    """Largest error of the gradient's entries, in the same way."""
    hessian_error: float
    """Largest error of the Hessian's entries; by differences, from their step and errors of the gradient."""


def row_hessian(
    row: npt.ArrayLike, i: int, b: float, law: Any, *, frequencies: int = FREQUENCIES
) -> RowDerivatives:
    r"""Exact loss of one output with its gradient and Hessian.

    Parameters
    ----------
    row, i, b : (n,) array_like of float, int, float
        The output is ReLU(row . x + b), and is to reconstruct feature i.
    law : float or Features
        Law of the data; a number is the probability that a feature is on, as for `exact_loss`.
    frequencies : int, optional
        Terms of the lattice sum, the only approximation.

    Returns
    -------
    RowDerivatives
        For independent features uniform on [0, scale] or [-scale, scale], the sum over frequencies behind
        `exact_loss` is differentiated term by term. What is cut off falls like frequencies^-2; double
        `frequencies` to see it. For random codes (Persian rugs) of 16 to 64 features the Hessian is good to
        about 1e-7 of its largest entry. For all other laws it is the fourth-order central difference of the
        exact gradient, good to about 1e-8 where the loss is smooth: not for binary values, not at b = 0, and
        not where the pre-activation is 0 for the target alone at an end of its values.

    Examples
    --------
    >>> found = row_hessian([1.0, -0.2, 0.1, -0.1], 0, -0.1, 0.1)
    >>> round(found.loss, 6), found.hessian.shape, bool(np.allclose(found.hessian, found.hessian.T))
    (0.001255, (5, 5), True)
    """
    row = vector("row", row)
    i = integer("i", i, 0, row.size - 1)
    row = real("row", row, -LARGEST, LARGEST)
    b, law = number("b", b, -LARGEST, LARGEST), as_features(law, row.size)
    frequencies = integer("frequencies", frequencies, 1, 2**24)
    if not law.independent or law.values.sides < 1:
        return _derivatives_by_differences(row, i, b, law)
    unit = float(law.scale[i])
    stretch = np.append(law.scale / unit, 1.0 / unit)
    derivatives = _analytic_derivatives(row * stretch[:-1], i, b / unit, law, frequencies)
    scales = stretch * unit
    hessian, largest = derivatives.hessian * np.outer(scales, scales), float(scales.max())
    errors = (
        derivatives.error_estimate * unit**2,
        derivatives.gradient_error * largest * unit,
        derivatives.hessian_error * largest**2,
    )
    return RowDerivatives(derivatives.loss * unit**2, derivatives.gradient * scales * unit, hessian, *errors)


def _derivatives_by_differences(row: FloatArray, i: int, b: float, law: Features) -> RowDerivatives:
    """Return loss, gradient and Hessian of an output for target i, by 4-point differences of the gradient.

    The output is ReLU(row . x + b).
    """
    at = np.append(row, b)
    step = STEP * max(float(np.abs(at).max()), 1e-3)
    far = np.repeat([0.0, -2.0, -1.0, 1.0, 2.0], [1] + 4 * [at.size])[:, None]
    moved = at + step * far * np.vstack([np.zeros(at.size), *4 * [np.eye(at.size)]])
    rows = LossProblem.scaled(law_of(law, row.size), moved[:, :-1], moved[:, -1], np.full(len(moved), i))
    outputs, _ = solve(rows, Accuracy(1e-13, workers=None), True)
    gradients = np.column_stack([outputs.by_M, outputs.by_b])
    ends = gradients[1:].reshape(4, at.size, at.size)
    hessian = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / (12.0 * step)
    coarse, slope_error = (ends[2] - ends[1]) / (2.0 * step), float(outputs.slope_errors.max())
    # The weights of the four gradients sum to 18/12 in size.
    error = float(np.abs(hessian - coarse).max()) + 1.5 * slope_error / step
    errors = float(outputs.errors[0]), float(outputs.slope_errors[0]), error
    return RowDerivatives(float(outputs.losses[0]), gradients[0], 0.5 * (hessian + hessian.T), *errors)


def _analytic_derivatives(
    row: FloatArray, i: int, b: float, law: Features, frequencies: int
) -> RowDerivatives:
    """Return loss, gradient and Hessian of an output for uniform values, by sums over `frequencies` terms.

    The output is ReLU(row . x + b), its target feature i.
    """
    n, p_target_active = row.size, float(law.p[i])
    mean, square = law.values.moment(1), law.values.moment(2)
    is_nonzero = np.abs(row) > SILENT
    is_nonzero[i] = False
    task = row[is_nonzero], law.p[is_nonzero], float(row[i]), p_target_active, b, law.values
    sums: tuple[Any, ...] = _sums_over_inputs(*task, frequencies)
    loss, (by_b, by_a), by_m, corner, mixed, block = sums
    changes = np.zeros(3)
    for part, times in ((2, 4.0), (4, 2.0)):
        fewer: tuple[Any, ...] = _sums_over_inputs(*task, frequencies // part)
        change = [float(np.abs(np.subtract(x, y)).max(initial=0.0)) for x, y in zip(sums, fewer, strict=True)]
        changes = np.maximum(changes, times * np.array([change[0], max(change[1:3]), max(change[3:])]))
    size = (
        p_target_active * square + b * b + float(law.p @ row**2)
    )  # that of the terms that rounding is in units of
    errors = (changes + ROUNDING * size).tolist()
    # A feature of weight 0 is independent of the output's noise: in place of x_j stand its moments.
    others = np.flatnonzero(np.arange(n) != i)
    silent = others[~is_nonzero[others]]
    index = np.append(np.flatnonzero(is_nonzero), n)
    spread = np.zeros((index.size, n + 1))
    spread[np.arange(index.size), index] = 1.0
    spread[-1, silent] = mean * law.p[silent]
    gradient = np.append(by_m, by_b) @ spread
    hessian = spread.T @ np.block([[block, mixed[:1].T], [mixed[:1], corner[:1, :1]]]) @ spread
    hessian[silent, silent] = square * law.p[silent] * corner[0, 0]
    gradient[i] = by_a
    hessian[i] = hessian[:, i] = np.append(mixed[1], corner[0, 1]) @ spread
    hessian[i, i] = corner[1, 1]
    return RowDerivatives(max(loss, 0.0), gradient, hessian, *errors)


def _third_transform(values: ValueDistribution, z: ComplexArray, second: ComplexArray) -> ComplexArray:
    """Return E v^3 e^(z v) for v uniform on an interval, the law `values`, from `second`, E v^2 e^(z v)."""
    (low, high, (density,)) = values.pieces[0]
    edge = density * (high**3 * np.exp(high * z) - low**3 * np.exp(low * z))
    near, series, term = np.abs(z) <= 0.5, np.zeros_like(z), np.ones_like(z)
    for k in range(14):
        series += term * values.moment(k + 3)
        term = np.where(near, term * z / (k + 1), 0.0)
    return np.where(near, series, (edge - 3.0 * second) / np.where(near, 1.0, z))


def _sums_over_inputs(
    m: FloatArray,
    p: FloatArray,
    a: float,
    p_target_active: float,
    b: float,
    values: ValueDistribution,
    frequencies: int,
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the loss of an output, its derivatives by (b, a) and by m, and three blocks of its Hessian.

    `a` is the weight of the output's own feature, which is on with probability `p_target_active`. `m` has the
    weights of the other features, on with probabilities `p`; `values` is the law of those on, and
    `frequencies` the number of terms. The blocks are by (b, a) twice, (2, 2); by (b, a) and m, (2, m.size);
    by m twice, (m.size, m.size).
    """
    parts = values.parts
    off = np.concatenate([[1.0], np.cumprod(1.0 - p)])
    none = float(off[-1])
    alone = p * off[:-1] * np.concatenate([np.cumprod((1.0 - p)[::-1])[::-1][1:], [1.0]])[: p.size]
    pointwise_sums = none * np.array(loss_and_second_derivatives_none_on(b, a, p_target_active, parts))
    by_m, second = np.zeros(m.size), np.zeros((3, m.size))
    for j in range(m.size):
        one_on_terms, (d_m, d_mm, d_bm, d_am) = loss_and_second_derivatives_one_on(
            b, float(m[j]), a, p_target_active, parts
        )
        pointwise_sums += alone[j] * np.array(one_on_terms)
        by_m[j], second[:, j] = alone[j] * d_m, alone[j] * np.array([d_mm, d_bm, d_am])
    loss = pointwise_sums[0] + p_target_active * values.moment(2) * (1.0 - none - alone.sum())
    by_ba, corner = (
        pointwise_sums[1:3].copy(),
        np.array([[pointwise_sums[3], pointwise_sums[4]], [pointwise_sums[4], pointwise_sums[5]]]),
    )
    mixed, block = second[1:].copy(), np.diag(second[0])
    known = float(loss), by_ba, by_m, corner, mixed, block
    if m.size < 2:  # all patterns are known, and there is no mass whose period could be chosen
        return known
    c, h, count, _ = choose_lattice(parts, m, a, b, p_target_active, independent_features(p), np.inf, 1.0)
    if not count:  # y is never positive
        return known
    for start in range(0, frequencies, FREQUENCIES_IN_MEMORY):
        k = np.arange(start, min(start + FREQUENCIES_IN_MEMORY, frequencies))
        s = np.asarray(c + 1j * h * k, np.complex128)
        f, mine = transforms_at(values, "s", s[:, None] * m), transforms_at(values, "s", s * a)
        weight = np.exp(s * b) * h / np.pi * np.where(k == 0, 0.5, 1.0)
        K = (
            weight
            * (
                2.0 * (1.0 - p_target_active + p_target_active * mine[0]) / s
                - 2.0 * p_target_active * mine[1]
            )
            / s**2
        )
        K_a = weight * 2.0 * p_target_active * (mine[1] / s - mine[2]) / s
        K_aa = weight * 2.0 * p_target_active * (mine[2] / s - _third_transform(values, s * a, mine[2]))
        factors = 1.0 - p + p * f[0]
        product = factors.prod(axis=1)
        rest = product - none - (alone * f[0]).sum(axis=1)
        left = p * (product[:, None] / factors) - alone  # where a factor is replaced
        loss += float((K * rest).real.sum())
        by_ba += [(s * K * rest).real.sum(), (K_a * rest).real.sum()]
        slopes = left * f[1] * s[:, None]
        by_m += (K @ slopes).real
        across = (s * K_a * rest).real.sum()
        corner += [[(s * s * K * rest).real.sum(), across], [across, (K_aa * rest).real.sum()]]
        mixed += (np.array([s * K, K_a]) @ slopes).real
        ratio = p * f[1] * s[:, None] / factors
        pairs = (((K * product)[:, None] * ratio).T @ ratio).real
        np.fill_diagonal(pairs, ((K * s * s) @ (left * f[2])).real)
        block += pairs
        if np.abs(product).max() + none + float(np.sum(alone)) < NEGLIGIBLE:
            break
    return float(loss), by_ba, by_m, corner, mixed, block
