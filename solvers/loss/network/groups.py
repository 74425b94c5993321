r"""Products over groups of features, which are independent units, for sums over frequencies.

A unit is a group, or one feature alone. The transform of a weighted sum of features is a product over units,
each a sum over its patterns q of on and off:

.. math:: \prod_u \sum_{q \in u} P(q) \prod_{j\;on\;in\;q} \varphi_j

A unit's factor is a polynomial, linear in each transform. Written feature by feature, x + r y phi_j with x
the part where j is off and r y that where it is on, parts that are equal but for a number are shared. So
features that are independent given others, as children of a parent are, cost a step each, not one for each
pattern.
"""

from typing import NamedTuple

import numpy as np

from ....theory.compile.kernels import check_interrupt, inlined, kernel
from ....theory.features.counts import IndependentGroup
from ....theory.validation import BoolArray, ComplexArray, FloatArray, IntArray
from ..methods.transform_sums import OtherFeatures, coefficient, coefficient_of_single_features
from ..methods.transforms import pack_units

__all__ = [
    "UnitFactors",
    "add_grouped_neuron_means",
    "apply_steps",
    "differentiate_steps",
    "list_patterns",
    "marginal_blocks",
    "none_and_ones",
    "unit_factors",
    "unit_products",
    "with_directions",
]


def marginal_blocks(blocks: list[IndependentGroup], features: IntArray, n: int) -> list[IndependentGroup]:
    """Return the law of some of n features as independent groups, whose members are indices into `features`.

    `blocks` are the independent groups and single features of all n.
    """
    position = np.full(n, -1)
    position[features] = np.arange(features.size)
    marginal = []
    for members, patterns, weights in blocks:
        at = position[members]
        is_possible, is_left = weights > 0.0, at >= 0
        if not is_left.any():
            continue
        rows, chances = patterns[is_possible], weights[is_possible]
        if not is_left.all():
            rows, which = np.unique(rows[:, is_left], axis=0, return_inverse=True)
            chances = np.asarray(np.bincount(which.ravel(), chances), np.float64)
        marginal.append(IndependentGroup(at[is_left], rows, chances))
    return marginal


def list_patterns(blocks: list[IndependentGroup], n: int) -> tuple[FloatArray, FloatArray]:
    """Return all on/off patterns of n features in independent blocks, (r, n), and probabilities, (r,)."""
    on, chances = np.zeros((1, n)), np.ones(1)
    for members, patterns, weights in blocks:
        count = chances.size
        on = np.repeat(on, weights.size, axis=0)
        on[:, members] = np.tile(patterns, (count, 1))
        chances = np.outer(chances, weights).ravel()
    return on, chances


def none_and_ones(others: OtherFeatures) -> tuple[float, FloatArray]:
    """Return (probability that no input is on, (n,) probabilities that each is the only one, 0 for others).

    Inputs are features with a weight; `others` is the law of n features.
    """
    phi = (~others.has_weight).astype(np.complex128)
    slope = np.empty(phi.size, np.complex128)
    none = coefficient(others, 2, 0, phi, slope).real
    coefficient(others, 2, 1, phi, slope)
    return none, slope.real * others.has_weight


def unit_products(
    others: OtherFeatures, top: int, phi: ComplexArray, slopes: ComplexArray | None = None
) -> ComplexArray:
    """Return sums (K,), over the patterns with `top` inputs on or more, of products of transforms phi (n, K).

    A pattern counts with its probability times phi_j of each feature that is on; inputs are features with a
    weight. `others` is the law of the n features. The derivatives by phi are written to `slopes` (n, K),
    unless that is None.
    """
    values, at = np.empty(phi.shape[1], np.complex128), np.empty(phi.shape[0], np.complex128)
    if others.single_p.size == at.size:
        _write_single_products(others.single_p, top, phi, at, values, slopes)
    else:
        _write_products(others, top, phi, at, values, slopes)
    return values


@kernel
def _write_single_products(
    p: FloatArray, top: int, phi: ComplexArray, at: ComplexArray, values: ComplexArray,
    slopes: ComplexArray | None,
) -> None:  # fmt: skip
    """Write `unit_products` of features that are on independently, with probabilities p, to `values`.

    `at`, (n,), is scratch.
    """
    for k in range(values.size):
        check_interrupt(k % 256 == 255)
        for j in range(p.size):
            at[j] = phi[j, k]
        if slopes is None:
            values[k] = coefficient_of_single_features(p, top, at, None)
        else:
            values[k] = coefficient_of_single_features(p, top, at, at)
            for j in range(p.size):
                slopes[j, k] = at[j]


@kernel
def _write_products(
    others: OtherFeatures, top: int, phi: ComplexArray, at: ComplexArray, values: ComplexArray,
    slopes: ComplexArray | None,
) -> None:  # fmt: skip
    """Write `unit_products` of any law `others` to `values`; `at`, (n,), is scratch."""
    slope = np.empty(0 if slopes is None else at.size, np.complex128)
    for k in range(values.size):
        check_interrupt(k % 256 == 255)
        for j in range(at.size):
            at[j] = phi[j, k]
        values[k] = coefficient(others, top, top, at, slope)
        if slopes is not None:
            for j in range(at.size):
                slopes[j, k] = slope[j]


# --- Means of one neuron with a linear function of the targets ----------------------------------------------


def with_directions(blocks: list[IndependentGroup], has_weight: BoolArray) -> OtherFeatures:
    """Return a law whose sum over patterns is c P + sum_j d_j dP/dphi_j, for the sum P of `blocks`.

    P is the sum over on/off patterns of their probability times phi_j of each feature j that is on. `blocks`
    have n features, of which those in the mask `has_weight` have a weight. The law returned has 2n + 1
    features, with the transforms phi_j, then d_j, then c. The last n + 1 are counted, and exactly one of them
    is on.
    """
    n = has_weight.size
    units = [IndependentGroup(np.array([2 * n]), np.array([[0], [1]]), np.ones(2))]
    for members, patterns, weights in blocks:
        rows, at = np.nonzero(patterns)
        both = np.hstack([patterns, np.zeros_like(patterns)])
        changed = both[rows]
        changed[np.arange(rows.size), at] = 0
        changed[np.arange(rows.size), at + members.size] = 1
        units.append(
            IndependentGroup(
                np.r_[members, members + n], np.vstack([both, changed]), np.r_[weights, weights[rows]]
            )
        )
    packed = pack_units(units, np.r_[has_weight, has_weight, False], 1)
    return packed._replace(is_counted=np.arange(2 * n + 1) >= n)


@kernel
def add_grouped_neuron_means(
    others: OtherFeatures, n_on: int, weight: ComplexArray, weight_slope: ComplexArray, phi: ComplexArray,
    slope: ComplexArray, psi: ComplexArray, psi_slope: ComplexArray, g: FloatArray, start: float,
    out: FloatArray, axis_sums: ComplexArray, by_w: FloatArray | None,
) -> None:  # fmt: skip
    """Add means of one neuron h over its frequencies to `out`, for inputs in groups.

    The means are over patterns where `n_on` inputs are on, or two or more for n_on = 2. To `out` (n + 2,) are
    added E h, E h target(x_l) for each input l, and the derivative by the bias of E h G, with G = start + sum
    of `g`_l target(x_l); unless `by_w` is None, the derivatives of E h G by the weights are added to it.
    `others` is the law of the n inputs, extended to 2n + 1 features by `with_directions`. `weight` (K,) are
    the neuron's Fourier coefficients, `weight_slope` those of its derivative by w x + b. `phi`, `slope`,
    `psi` and `psi_slope` (n, K) are E e^{uv}, E v e^{uv}, E target(v) e^{uv} and its derivative by u, at u =
    i s w_l: w_l are the inputs' weights, v their values when on, s the K frequencies. `axis_sums` (2, K) is
    set to E e^{i s w x} and E G e^{i s w x} over these patterns.
    """
    n = g.size
    at, by = np.empty(2 * n + 1, np.complex128), np.empty(2 * n + 1, np.complex128)
    for k in range(weight.size):
        check_interrupt(k % 256 == 255)
        for c in range(n):
            at[c], at[n + c] = phi[c, k], g[c] * psi[c, k]
        at[2 * n] = start
        axis_sums[1, k] = coefficient(others, 2, n_on, at, by)
        axis_sums[0, k] = by[2 * n]
        out[0] += (weight[k] * axis_sums[0, k]).real
        out[n + 1] += (weight_slope[k] * axis_sums[1, k]).real
        for c in range(n):
            out[1 + c] += (weight[k] * by[n + c] * psi[c, k]).real
            if by_w is not None:
                by_w[c] += (weight_slope[k] * (slope[c, k] * by[c] + g[c] * psi_slope[c, k] * by[n + c])).real


# --- Factors of units, row by row ---------------------------------------------------------------------------


class UnitFactors(NamedTuple):
    """Steps by which the factor of each unit follows from the transforms of its features.

    Unit u has the features member[first[u]], ..., member[first[u + 1] - 1] and the steps begin[u], ...,
    begin[u + 1] - 1. Its first rows are the features' transforms, and each step appends the row c + (row x) +
    r (row y) (row z). The factor is p_off[u] + p_on[u] times the last row.
    """

    first: IntArray
    member: IntArray
    begin: IntArray
    steps: tuple[IntArray, FloatArray] | None
    """(steps, 3): numbers of the rows x, y and z; x = -1 stands for 0, y = -1 for 1; and (steps, 2): c and r.
    None if all units are single features, for which little needs to be compiled."""
    p_off: FloatArray
    p_on: FloatArray
    most_rows: int
    """Most rows of a unit."""


def _list_steps(block: IndependentGroup) -> tuple[float, list[tuple[int, int, int, float, float]]]:
    """Return (factor of the last row, steps (x, y, z, c, r)) that compute the transform of the group `block`.

    The transform is E exp(i s w.x) over the features x of the group: the sum over its patterns of their
    probability times the transforms of the features that are on. A step appends the row c + (row x) + r (row
    y) (row z), where x = -1 stands for 0 and y = -1 for 1; the first rows are the transforms of single
    features, and the last row times the factor is the result. Patterns that differ in one feature alone share
    their steps.
    """
    order = np.lexsort(block.patterns.T[::-1])
    patterns, g = block.patterns[order], block.members.size
    terms = [(float(weight), -1) for weight in block.weights[order]]
    steps: dict[
        tuple[int, int, int, float, str], int
    ] = {}  # their numbers; ratios are equal but for rounding
    ratios: list[float] = []

    def step(x: int, y: int, j: int, c: float, ratio: float) -> int:
        """Return the number of the row c + row x + ratio (row y) phi_j, a new step if there is none."""
        key = x, y, j, c, f"{ratio:.12e}"
        if key not in steps:
            steps[key] = g + len(steps)
            ratios.append(ratio)
        return steps[key]

    for j in range(g - 1, -1, -1):
        is_first = np.r_[True, np.any(patterns[1:, :j] != patterns[:-1, :j], axis=1)]
        stack: list[tuple[float, int]] = []
        for (number, row), is_new, on in zip(terms, is_first, patterns[:, j], strict=True):
            if not is_new:
                off, x = stack.pop()
                stack.append((off, step(x, row, j, 1.0 if x < 0 else 0.0, number / off)))
            else:
                stack.append((number, step(-1, row, j, 0.0, 1.0) if on else row))
        terms, patterns = stack, patterns[is_first]
    rows = [(x, y, j, c, ratio) for (x, y, j, c, _), ratio in zip(steps, ratios, strict=True)]
    return terms[0][0], rows


def unit_factors(blocks: list[IndependentGroup]) -> UnitFactors:
    """Return the `UnitFactors` of blocks, groups and single features: the steps that compute their factors.

    The factor of a unit is the sum over its on/off patterns of their probability times the transforms of the
    features that are on.
    """
    off, on, begin, steps = [], [], [0], []
    for block in blocks:
        if block.members.size == 1:
            off.append(float(block.weights[block.patterns[:, 0] == 0].sum()))
            on.append(float(block.weights[block.patterns[:, 0] == 1].sum()))
        else:
            scale, of_block = _list_steps(block)
            steps += of_block
            off.append(0.0 if of_block else 1.0)  # without steps no feature is ever on
            on.append(scale if of_block else 0.0)
        begin.append(len(steps))
    first = np.cumsum([0, *(block.members.size for block in blocks)], dtype=np.int64)
    member = np.concatenate([np.empty(0, np.int64), *(block.members for block in blocks)])
    table = np.array(steps, np.float64).reshape(-1, 5)
    rows, numbers = table[:, :3].astype(np.int64), np.ascontiguousarray(table[:, 3:])
    most = int(np.max(np.diff(first) + np.diff(begin), initial=0))
    return UnitFactors(first, member, np.array(begin), (rows, numbers), np.array(off), np.array(on), most)


@inlined
def apply_steps(
    units: UnitFactors, steps: tuple[IntArray, FloatArray], u: int, re: FloatArray, im: FloatArray
) -> int:
    """Write the rows of unit u's steps, for a group or feature, to `re`, `im`; return the last one's number.

    `re` and `im` (rows, frequencies) begin with the transforms of the unit's single features. Each of
    the `steps` of `units` writes the next row: a constant plus a row plus a number times the product of two
    rows.
    """
    rows, numbers = steps
    out = int(units.first[u + 1] - units.first[u] - 1)
    for s in range(units.begin[u], units.begin[u + 1]):
        out += 1
        x, y, z, c, r = rows[s, 0], rows[s, 1], rows[s, 2], numbers[s, 0], numbers[s, 1]
        z_re, z_im, out_re, out_im = re[z], im[z], re[out], im[out]
        if y < 0:
            for l in range(out_re.size):
                out_re[l] = c + r * z_re[l]
                out_im[l] = r * z_im[l]
        else:
            y_re, y_im = re[y], im[y]
            for l in range(out_re.size):
                out_re[l] = c + r * (y_re[l] * z_re[l] - y_im[l] * z_im[l])
                out_im[l] = r * (y_re[l] * z_im[l] + y_im[l] * z_re[l])
        if x >= 0:
            x_re, x_im = re[x], im[x]
            for l in range(out_re.size):
                out_re[l] += x_re[l]
                out_im[l] += x_im[l]
    return out


@inlined
def _add_product(r: float, a_re: FloatArray, a_im: FloatArray, b_re: FloatArray, b_im: FloatArray,
                 out_re: FloatArray, out_im: FloatArray) -> None:  # fmt: skip
    """Add r a b to out, for complex rows a, b and out in two parts, `_re` and `_im`."""
    for l in range(out_re.size):
        out_re[l] += r * (a_re[l] * b_re[l] - a_im[l] * b_im[l])
        out_im[l] += r * (a_re[l] * b_im[l] + a_im[l] * b_re[l])


@inlined
def differentiate_steps(
    units: UnitFactors, steps: tuple[IntArray, FloatArray], u: int, re: FloatArray, im: FloatArray,
    by_re: FloatArray, by_im: FloatArray,
) -> None:  # fmt: skip
    """Write the complex derivatives of the last row of unit u of `units` by each of its rows.

    Row k of `by_re` and `by_im`, (rows, columns), gets real and imaginary parts of those by row k. `re` and
    `im` are the real and imaginary parts of the rows: first the transforms of the unit's features, then those
    that `apply_steps` wrote by the `steps` of `units`.
    """
    rows, numbers = steps
    last = units.first[u + 1] - units.first[u] - 1 + units.begin[u + 1] - units.begin[u]
    by_re[: last + 1] = 0.0
    by_im[: last + 1] = 0.0
    by_re[last] = 1.0
    for back in range(units.begin[u + 1] - units.begin[u]):
        s, out = units.begin[u + 1] - 1 - back, last - back
        x, y, z, r = rows[s, 0], rows[s, 1], rows[s, 2], numbers[s, 1]
        out_re, out_im = by_re[out], by_im[out]
        if x >= 0:
            for l in range(out_re.size):
                by_re[x, l] += out_re[l]
                by_im[x, l] += out_im[l]
        if y < 0:
            for l in range(out_re.size):
                by_re[z, l] += r * out_re[l]
                by_im[z, l] += r * out_im[l]
        else:
            _add_product(r, out_re, out_im, re[y], im[y], by_re[z], by_im[z])
            _add_product(r, out_re, out_im, re[z], im[z], by_re[y], by_im[y])
