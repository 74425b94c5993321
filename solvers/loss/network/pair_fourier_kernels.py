r"""Kernels of the mean of two hidden neurons' product where many features may be on: a sum over a lattice.

An activation z 1(z > t) is, within the reach of z, a periodic function: with y = z - t it rises from 0 at
y = 0 to r, stays there up to y = L, falls, and stays at 0. Taken off its mean it changes sign with L, so that
it has odd frequencies only:

.. math:: z\,1(z > t) = \frac{r + t}{2} + \sum_{k\;odd} \left(-\frac{1 - e^{-i w r}}{L w^2} +
    \frac{t}{i L w}\right) e^{i w y}, \quad w = \pi k/L, \quad r - L \le y \le r

So the mean of a product is a double sum of the characteristic function of both neurons, a product over
features. Where a neuron receives at most one feature that is on, it does not fall off: these patterns are
left out here, and added exactly elsewhere.

Arrays that several functions share: `waves`, the characteristic function of values; `rows` and `columns`, the
frequencies of the first and of the second neuron; one row k with the columns `low` to `high` - 1, M of them;
`units`, the n inputs of both neurons, and u, the number of one; rows of M complex numbers in two arrays, such
as `re` and `im`; `p_ones` (n,), the probabilities that one of these inputs alone is on. Sums by frequency:
`real_sums` and `slope_sums` (n, K), and `axis_sums1` and `axis_sums2` (4, K), from which derivatives by
weights follow.
"""

from functools import lru_cache
from math import gamma
from typing import NamedTuple

import numpy as np

from ....theory.compile.kernels import check_interrupt, inlined, kernel
from ....theory.features.values.law import ValueDistribution
from ....theory.features.values.parts import all_transforms
from ....theory.validation import ComplexArray, FloatArray, IntArray
from .groups import UnitFactors, apply_steps, differentiate_steps

__all__ = [
    "NARROW",
    "TABLE",
    "TAPERS",
    "CharacteristicFunction",
    "FrequencyAxis",
    "add_block",
    "add_neuron_means",
    "add_tapered_sums",
    "characteristic_function",
]


DEGREE = 5  # of the polynomials of a table
TABLE = 1e-13  # what they are off by
TAPERS = np.array([1.0, 0.85, 0.7, 0.6, 0.5])  # where sums end, as a share of the frequencies
NARROW = 16.0  # frequencies of one neuron beyond which fewer of the other are needed


class CharacteristicFunction(NamedTuple):
    """E e^{iyv} and E v e^{iyv} of a law, by a formula or from a table of polynomials in y."""

    sides: int
    """1 for values uniform on [0, 1], 2 on [-1, 1], 0 for values that are 1, -1 for a table."""
    per_cell: float
    """Cells of the table for a unit of y."""
    table: FloatArray
    """(3, cells, DEGREE + 1, 2): for r = 0, 1, 2 and each cell, coefficients of E v^r e^{iyv}, the lowest
    power first, real and imaginary."""

    @property
    def turn(self) -> float:
        """Factor of y in the sines and cosines of the formula for E e^{iyv}.

        It is 1/2 for values on [0, 1], where E e^{iyv} = e^{iy/2} sin(y/2)/(y/2), else 1.
        """
        return 0.5 if self.sides == 1 else 1.0

    def at(self, values: ValueDistribution, y: FloatArray) -> ComplexArray:
        """Return E v^r e^{iyv} of `values` for r = 0, 1, 2, (3, *y.shape)."""
        out = np.empty((3, y.size), np.complex128)
        flat = np.ascontiguousarray(y.ravel(), np.float64)
        if self.sides < 0:
            _interpolate_all(self.per_cell, self.table, flat, out)
        else:
            all_transforms(values.parts.transform, np.asarray(1j * flat, np.complex128), out)
        return out.reshape((3, *y.shape))


def characteristic_function(values: ValueDistribution, y: float) -> CharacteristicFunction:
    """Return the `CharacteristicFunction` of `values`: a formula, or a table for arguments up to y."""
    if values.sides >= 0:
        return CharacteristicFunction(values.sides, 1.0, np.zeros((3, 1, 1, 1)))
    # Chebyshev points leave (h/2)^d E |v|^d/(2^(d - 1) d!) of a cell of width h, d = DEGREE + 1.
    d = DEGREE + 1
    even = 2 * (DEGREE // 2 + 2)  # odd moments of symmetric values are 0
    size = float(values.moment(even)) ** (1.0 / even)
    width = 2.0 * (TABLE * 2.0**DEGREE * gamma(d + 1)) ** (1.0 / d) / max(size, 1e-100)
    return _tabulate(values, 1.0 / width, 1 << int(np.ceil(np.log2(y / width + 2.0))))


@lru_cache(16)
def _tabulate(values: ValueDistribution, per_cell: float, cells: int) -> CharacteristicFunction:
    """Return a table of E v^r e^{iyv}, r = 0, 1, 2, v of the law `values`: a polynomial in y on each cell.

    The `cells` cells begin at y = 0; `per_cell` is their number for a unit of y.
    """
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    y = ((np.arange(cells)[:, None] + 0.5 + 0.5 * nodes) / per_cell).ravel()
    out = np.empty((3, y.size), np.complex128)
    all_transforms(values.parts.transform, np.asarray(1j * y, np.complex128), out)
    powers = out.reshape(3, cells, DEGREE + 1) @ np.linalg.inv(np.vander(nodes, increasing=True)).T
    return CharacteristicFunction(-1, per_cell, np.stack([powers.real, powers.imag], axis=-1))


@inlined
def _interpolate(per_cell: float, table: FloatArray, y: float) -> tuple[float, float]:
    """Return Re and Im of E v^r e^{iyv} from the table of one r, with `per_cell` cells for a unit of y.

    `table`, (cells, DEGREE + 1, 2), has real and imaginary coefficients of a polynomial for each cell of |y|,
    the lowest power first; its variable goes from -1 to 1 in the cell.
    """
    at = abs(y) * per_cell
    cell = int(at)
    x = 2.0 * (at - cell) - 1.0
    row = table[cell]
    re, im = row[DEGREE, 0], row[DEGREE, 1]
    for j in range(DEGREE - 1, -1, -1):
        re, im = re * x + row[j, 0], im * x + row[j, 1]
    return re, im if y >= 0.0 else -im


@kernel
def _interpolate_all(per_cell: float, table: FloatArray, y: FloatArray, out: ComplexArray) -> None:
    """Write E v^r e^{iyv}, r = 0, 1, 2, at all y to `out` (3, y.size), v being the value of a feature.

    `table`, (3, cells, DEGREE + 1, 2), has for each r and cell the coefficients of a polynomial, the lowest
    power first, real and imaginary. Cell k is that of abs(y) from k / `per_cell` to (k + 1) / `per_cell`; the
    polynomial's variable goes from -1 to 1 there.
    """
    for i in range(y.size):
        for r in range(3):
            re, im = _interpolate(per_cell, table[r], y[i])
            out[r, i] = complex(re, im)


# Of the series of sin(x)/x and of its slope: multiplied by, as a division takes ten times as long.
_S1, _S2, _S3, _S4, _S5 = (1.0 / (2 * k * (2 * k + 1)) for k in range(1, 6))
_C0, _C1, _C2, _C3, _C4, _C5 = 1.0 / 3.0, *(1.0 / (2 * k * (2 * k + 3)) for k in range(1, 6))


@inlined
def _sinc(x: float, sine: float) -> float:
    """Return sin(x)/x from x and its `sine`, by its series near 0."""
    q = x * x
    near = 1.0 - q * _S1 * (1.0 - q * _S2 * (1.0 - q * _S3 * (1.0 - q * _S4 * (1.0 - q * _S5))))
    far = sine / x
    return near if q < 0.09 else far


@inlined
def _sinc_slope(x: float, sine: float, cosine: float) -> float:
    """Return -(sin(x)/x)' from x, its `sine` and `cosine`, by its series near 0."""
    q = x * x
    near = x * _C0 * (1.0 - q * _C1 * (1.0 - q * _C2 * (1.0 - q * _C3 * (1.0 - q * _C4 * (1.0 - q * _C5)))))
    far = (sine - x * cosine) / q
    return near if q < 0.09 else far


@inlined
def _transform_row(
    waves: CharacteristicFunction, x1: float, u: float, x2: FloatArray, v: float, c1: float, s1: float,
    cosines: FloatArray, sines: FloatArray, re: FloatArray, im: FloatArray,
) -> None:  # fmt: skip
    """Write E e^{iyz} at y = x1 u + x2 v, for the array x2 of frequencies, to `re` and `im`.

    z is a feature's value, u and v are its weights in two neurons, x1 a frequency of the first, x2 those of
    the second. `waves` is the characteristic function of z. Its formula needs `c1` and `s1`, cosine and
    sine of turn x1 u, and `cosines` and `sines`, of turn x2 v, with turn = `waves.turn`.
    """
    if waves.sides == 2:
        for l in range(re.size):
            re[l] = _sinc(x1 * u + x2[l] * v, s1 * cosines[l] + c1 * sines[l])
            im[l] = 0.0
    elif waves.sides == 1:
        for l in range(re.size):
            cosine, sine = c1 * cosines[l] - s1 * sines[l], s1 * cosines[l] + c1 * sines[l]
            value = _sinc(0.5 * (x1 * u + x2[l] * v), sine)
            re[l] = value * cosine
            im[l] = value * sine
    elif waves.sides == 0:
        for l in range(re.size):
            re[l] = c1 * cosines[l] - s1 * sines[l]
            im[l] = s1 * cosines[l] + c1 * sines[l]
    else:
        table = waves.table[0]
        for l in range(re.size):
            re[l], im[l] = _interpolate(waves.per_cell, table, x1 * u + x2[l] * v)


@inlined
def _transform_slope_row(
    waves: CharacteristicFunction, x1: float, u: float, x2: FloatArray, v: float, c1: float, s1: float,
    cosines: FloatArray, sines: FloatArray, re: FloatArray, im: FloatArray,
) -> None:  # fmt: skip
    """Write E z e^{iyz} at y = x1 u + x2 v, for the array x2 of frequencies, to `re` and `im`.

    z is a feature's value, u and v are its weights in two neurons, x1 a frequency of the first, x2 those of
    the second. `waves` is the characteristic function of z. Its formula needs `c1` and `s1`, cosine and
    sine of turn x1 u, and `cosines` and `sines`, of turn x2 v, with turn = `waves.turn`.
    """
    if waves.sides == 2:
        for l in range(re.size):
            cosine, sine = c1 * cosines[l] - s1 * sines[l], s1 * cosines[l] + c1 * sines[l]
            re[l] = 0.0
            im[l] = _sinc_slope(x1 * u + x2[l] * v, sine, cosine)
    elif waves.sides == 1:
        for l in range(re.size):
            cosine, sine = c1 * cosines[l] - s1 * sines[l], s1 * cosines[l] + c1 * sines[l]
            x = 0.5 * (x1 * u + x2[l] * v)
            even, odd = 0.5 * _sinc(x, sine), 0.5 * _sinc_slope(x, sine, cosine)
            re[l] = cosine * even - sine * odd
            im[l] = sine * even + cosine * odd
    elif waves.sides == 0:
        for l in range(re.size):
            re[l] = c1 * cosines[l] - s1 * sines[l]
            im[l] = s1 * cosines[l] + c1 * sines[l]
    else:
        table = waves.table[1]
        for l in range(re.size):
            re[l], im[l] = _interpolate(waves.per_cell, table, x1 * u + x2[l] * v)


class FrequencyAxis(NamedTuple):
    """The frequencies of one neuron, with its Fourier coefficients and its inputs' transforms at each.

    As rows of a double sum they stand for both signs, as columns they have both, in rising order.
    """

    x: FloatArray
    """(K,): 0 and odd multiples of pi/L."""
    number: FloatArray
    """(K,): the number 0, 1, 2, … of each frequency, without sign."""
    weight: ComplexArray
    """(K,): coefficients of the activation, twice those of rows that stand for both signs."""
    flux: ComplexArray | None
    """(K,): coefficients of the delta function at the threshold; None where no derivatives are needed."""
    product: ComplexArray
    """(K,): product of the factors of inputs of this neuron alone."""
    one_active: ComplexArray
    """(K,): the part of `product` where just one of these inputs is on."""
    p_none: float
    """The part of `product` where none of these inputs is on."""
    cosines: FloatArray
    """(n, K): cosines of turn x w, of inputs of both neurons."""
    sines: FloatArray
    w: FloatArray
    """(n,): weights of these."""


@inlined
def _taper(x: float) -> float:
    """Return a weight that falls smoothly from 1 at x = 0.2 to 0 at x = 1."""
    y = min(max((x - 0.2) / 0.8, 0.0), 1.0)
    return 1.0 - y**5 * (126.0 + y * (-420.0 + y * (540.0 + y * (-315.0 + 70.0 * y))))


@kernel
def add_tapered_sums(terms: FloatArray, tapers: FloatArray, sums: FloatArray) -> None:
    """Add the sum over frequencies of a neuron's `terms` (K,), ended at each share in `tapers`, to `sums`.

    Weights fall smoothly to 0 at this share of the K frequencies. `sums` is (tapers.size,).
    """
    for n in range(tapers.size):
        for k in range(terms.size):
            sums[n] += _taper(k / ((terms.size - 1) * tapers[n])) * terms[k]


@inlined
def _pair_distance(k: float, l: float) -> float:
    """Return the distance from 0 of frequencies k and l of two neurons, at which double sums end.

    It is more than max(k, l) where both are large: coefficients fall with k^2 l^2, so of a large k fewer l
    are needed.
    """
    return float(max(k, l) * np.sqrt(1.0 + min(k, l) / NARROW))


@inlined
def _write_tapers(k: float, numbers: FloatArray, count: float, far: FloatArray, cuts: FloatArray) -> None:
    """Write the weights of frequency number k with those of `numbers` (M,) to `cuts` (tapers, M).

    Row n ends, smoothly, at the distance `count` times TAPERS[n]; `far` (M,) is scratch.
    """
    for at in range(far.size):
        far[at] = _pair_distance(k, numbers[at]) / count
    for n in range(TAPERS.size):
        share, cut = TAPERS[n], cuts[n]
        for at in range(far.size):
            cut[at] = _taper(far[at] / share)


@inlined
def _add_row(
    rows: FrequencyAxis, k: int, columns: FrequencyAxis, low: int, c0: float, cuts: FloatArray,
    flux1: ComplexArray | None, flux2: ComplexArray | None, both_re: FloatArray, both_im: FloatArray,
    alone_re: FloatArray, alone_im: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Add a row of terms of a double sum to `sums` (tapers, 5): value and, with fluxes, its derivatives.

    The value is E h_1 h_2 from patterns in which both neurons have two or more inputs on; derivatives are by
    both biases, and minus those by both thresholds. The row is frequency k of `rows`, of the first neuron,
    with the columns l from `low` on of the second. Row n of `sums` gets terms with the weights `cuts`[n], 0
    from some n on. `both_re` + i `both_im` is the product of the transforms over the inputs of both neurons,
    an entry for each column, `alone_re` + i `alone_im` its part where one of these is on, `c0` the
    probability that none is.
    """
    whole1, one1, none1 = rows.product[k], rows.one_active[k], rows.p_none
    for at in range(both_re.size):
        l = low + at
        both, alone = complex(both_re[at], both_im[at]), complex(alone_re[at], alone_im[at])
        whole2, one2, none2 = columns.product[l], columns.one_active[l], columns.p_none
        first = none1 * (c0 + alone) + one1 * c0  # at most one input of neuron 1 on
        second = none2 * (c0 + alone) + one2 * c0
        rest = whole1 * whole2 * both - first * whole2 - second * whole1
        rest += c0 * (none1 + one1) * (none2 + one2) + none1 * none2 * alone
        term, row_term = rest * columns.weight[l], rest * rows.weight[k]
        value = rows.weight[k] * term
        for n in range(TAPERS.size):
            cut = cuts[n, at]
            if cut == 0.0:
                break  # the others end earlier
            sums[n, 0] += cut * value.real
            if flux1 is not None and flux2 is not None:
                sums[n, 1] -= cut * rows.x[k] * value.imag
                sums[n, 2] -= cut * columns.x[l] * value.imag
                sums[n, 3] += cut * (flux1[k] * term).real
                sums[n, 4] += cut * (flux2[l] * row_term).real


@inlined
def _add_row_slopes(
    rows: FrequencyAxis, k: int, columns: FrequencyAxis, low: int, c0: float, count: float,
    both_re: FloatArray, both_im: FloatArray, alone_re: FloatArray, alone_im: FloatArray,
    term_parts: FloatArray, axis_sums1: ComplexArray, axis_sums2: ComplexArray,
) -> None:  # fmt: skip
    """Add a row of terms of a double sum to `axis_sums1` and `axis_sums2`, and write to `term_parts`.

    They are for derivatives by inputs of the first neuron alone, of the second alone, and of both. The row is
    frequency k of `rows`, of the first neuron, with the `columns` l from `low` on of the second; terms fall
    smoothly to 0 where max(k, l) sqrt(1 + min(k, l)/NARROW) is `count`. `both_re` + i `both_im` is the
    product of the transforms over the inputs of both neurons, `alone_re` + i `alone_im` its part where one of
    these is on, `c0` the probability that none is. `term_parts` (4, M), for M columns: Re and Im of a
    coefficient times the product over all features, and of the coefficient of patterns with one of the common
    inputs on. `axis_sums1` and `axis_sums2` (4, K), for the K frequencies s of one neuron: a term is X times
    the product of transforms over the inputs of this neuron alone, plus Y times its part where one is on.
    Rows 0 and 1 add X and Y, times i s, over the other neuron's frequencies, rows 2 and 3 add X and Y times i
    times those.
    """
    s, whole1, one1, none1 = 1j * rows.x[k], rows.product[k], rows.one_active[k], rows.p_none
    for at in range(both_re.size):
        l = low + at
        both, alone = complex(both_re[at], both_im[at]), complex(alone_re[at], alone_im[at])
        whole2, one2, none2, t = columns.product[l], columns.one_active[l], columns.p_none, 1j * columns.x[l]
        far = _pair_distance(rows.number[k], columns.number[l]) / count
        weight = _taper(far) * rows.weight[k] * columns.weight[l]
        product = weight * whole1 * whole2 * both
        single = weight * (none1 * whole2 + none2 * whole1 - none1 * none2)
        term_parts[0, at], term_parts[1, at], term_parts[2, at], term_parts[3, at] = (
            product.real,
            product.imag,
            single.real,
            single.imag,
        )
        # By inputs of neuron 1 alone: whole1 -> its part without the feature, one1 -> none.
        first, second = none1 * (c0 + alone) + one1 * c0, none2 * (c0 + alone) + one2 * c0
        x, y = weight * (whole2 * both - second), weight * c0 * (none2 + one2 - whole2)
        axis_sums1[0, k] += s * x
        axis_sums1[1, k] += s * y
        axis_sums1[2, k] += t * x
        axis_sums1[3, k] += t * y
        x, y = weight * (whole1 * both - first), weight * c0 * (none1 + one1 - whole1)
        axis_sums2[0, l] += t * x
        axis_sums2[1, l] += t * y
        axis_sums2[2, l] += s * x
        axis_sums2[3, l] += s * y


@inlined
def _multiply_factor(
    off: float, chance: float, re: FloatArray, im: FloatArray, both_re: FloatArray, both_im: FloatArray
) -> None:
    """Multiply the products both_re + i both_im by a feature's factors off + chance (re + i im), in place."""
    for l in range(re.size):
        a, b, x, y = off + chance * re[l], chance * im[l], both_re[l], both_im[l]
        both_re[l] = x * a - y * b
        both_im[l] = x * b + y * a


@inlined
def _add_scaled(share: float, part: FloatArray, total: FloatArray) -> None:
    """Add `share` times the array `part` to `total`."""
    for l in range(part.size):
        total[l] += share * part[l]


@inlined
def _replace_by_derivative(
    off: float, chance: float, single: float, term_parts: FloatArray, re: FloatArray, im: FloatArray
) -> None:
    """Replace a feature's transform re + i im by the derivative of the terms with respect to it.

    A term, one for each of M frequencies, is a coefficient times the product over all features, minus what
    patterns with one feature on add. This feature's factor is off + chance (re + i im). `term_parts` (4, M)
    has Re and Im of the coefficient times the product, and of the coefficient of these patterns; `single` is
    the probability that this feature alone is on, or 0 if that part is subtracted elsewhere.
    """
    product_re, product_im, single_re, single_im = term_parts[0], term_parts[1], term_parts[2], term_parts[3]
    for l in range(re.size):
        a, b = off + chance * re[l], chance * im[l]
        share = chance / (a * a + b * b + 1e-300)
        x, y = product_re[l] * a + product_im[l] * b, product_im[l] * a - product_re[l] * b
        re[l] = share * x
        im[l] = share * y
    for l in range(re.size):
        re[l] -= single * single_re[l]
        im[l] -= single * single_im[l]


@inlined
def _write_unit_rows(
    waves: CharacteristicFunction, rows: FrequencyAxis, k: int, columns: FrequencyAxis, low: int, high: int,
    units: UnitFactors, steps: tuple[IntArray, FloatArray] | None, u: int, re: FloatArray, im: FloatArray,
) -> int:  # fmt: skip
    """Write transforms of unit u's features, then further rows, to `re`, `im`; return the last row's number.

    Unit u of `units` is a single feature or a group of dependent ones. Rows, (M,), are E e^{iyv} of each
    feature's value v, then products and sums of earlier rows, step by step up to the last, of which the
    unit's factor is a linear function. They are at y = x1 w_1 + x2 w_2: x1 is frequency k of `rows`, of the
    first neuron, x2 the M `columns` `low` to `high` - 1 of the second. `waves` is the characteristic function
    of values, `steps` are those of `units`.
    """
    for at in range(units.first[u], units.first[u + 1]):
        c, row = units.member[at], at - units.first[u]
        _transform_row(
            waves, rows.x[k], rows.w[c], columns.x[low:high], columns.w[c], rows.cosines[c, k],
            rows.sines[c, k], columns.cosines[c, low:high], columns.sines[c, low:high], re[row], im[row],
        )  # fmt: skip
    if steps is None:
        return 0
    return apply_steps(units, steps, u, re, im)


@inlined
def _apply_chain_rule(
    single: float,
    term_parts: FloatArray,
    re: FloatArray,
    im: FloatArray,
    by_re: FloatArray,
    by_im: FloatArray,
) -> None:
    """Turn a group's derivatives by a feature's transform, `by_re` + i `by_im`, into those of terms.

    This is in place. Derivatives are of the group's sum over its on/off patterns. A term, one for each of M
    frequencies, is a coefficient times the product of all groups' sums, minus the part of patterns with a
    single feature on. `re` + i `im` is the derivative of the term by this group's sum. The part where the
    feature alone is on is subtracted: its probability `single` times the coefficient, whose real and
    imaginary parts are the rows 2 and 3 of `term_parts`.
    """
    single_re, single_im = term_parts[2], term_parts[3]
    for l in range(re.size):
        a, b = by_re[l], by_im[l]
        by_re[l] = re[l] * a - im[l] * b - single * single_re[l]
        by_im[l] = re[l] * b + im[l] * a - single * single_im[l]


@inlined
def _add_unit_slopes(
    waves: CharacteristicFunction, rows: FrequencyAxis, k: int, columns: FrequencyAxis, low: int, high: int,
    units: UnitFactors, steps: tuple[IntArray, FloatArray] | None, u: int, last: int, p_ones: FloatArray,
    term_parts: FloatArray, slope: FloatArray, values: FloatArray, by_rows: FloatArray, real_sums: FloatArray,
    slope_sums: FloatArray,
) -> None:  # fmt: skip
    """Add derivatives for unit u's features to `real_sums` and, times the row's frequency, to `slope_sums`.

    Both are (n, K), a row for each feature and a column for each frequency of the second neuron; derivatives
    by a feature's weights follow from their sums over columns. Unit u of `units` is a feature or a group of
    dependent ones. A term of the double sum over frequencies is a coefficient times the product of the units'
    factors, minus what patterns with one feature on add to it. Here are the terms of frequency k of the first
    neuron, in `rows`, and of M of the second, `columns` `low` to `high` - 1. `waves` and `steps` are as for
    `_write_unit_rows`.

    `values` (2, steps, M), overwritten, has real and imaginary parts of the rows of `_write_unit_rows`, the
    last of which is number `last`. `term_parts` (4, M) has real and imaginary part of the coefficient times
    the product of all factors, and of the coefficient of the patterns with one feature on, whose
    probabilities are `p_ones` (n,). `slope` (2, M) and `by_rows`, of the shape of `values`, are scratch.
    """
    x1, x2, first = rows.x[k], columns.x[low:high], units.first[u]
    is_single = last == 0
    value_re, value_im, slope_re, slope_im = values[0, last], values[1, last], slope[0], slope[1]
    single = p_ones[units.member[first]] if is_single else 0.0
    _replace_by_derivative(units.p_off[u], units.p_on[u], single, term_parts, value_re, value_im)
    if steps is not None and not is_single:
        differentiate_steps(units, steps, u, values[0], values[1], by_rows[0], by_rows[1])
    for at in range(first, units.first[u + 1]):
        c, re, im = units.member[at], value_re, value_im
        if not is_single:
            re, im = by_rows[0, at - first], by_rows[1, at - first]
            _apply_chain_rule(p_ones[c], term_parts, value_re, value_im, re, im)
        _transform_slope_row(
            waves, x1, rows.w[c], x2, columns.w[c], rows.cosines[c, k], rows.sines[c, k],
            columns.cosines[c, low:high], columns.sines[c, low:high], slope_re, slope_im,
        )  # fmt: skip
        to, to_slope = real_sums[c, low:high], slope_sums[c, low:high]
        for l in range(x2.size):  # sums are kept by column: the compiler does not reorder one sum
            term = slope_re[l] * im[l] + slope_im[l] * re[l]
            to[l] += term
            to_slope[l] += x1 * term


@inlined
def _range_within(k: float, numbers: FloatArray, count: float) -> tuple[int, int]:
    """Return (low, high): columns low to high - 1 have a distance below `count` with row number k.

    Rows and columns are frequencies of two neurons; `numbers` are those of the columns. The distance of
    numbers k and l from 0 is max(k, l) sqrt(1 + min(k, l)/NARROW).
    """
    low, high = 0, numbers.size
    while low < high and _pair_distance(k, numbers[low]) >= count:
        low += 1
    while high > low and _pair_distance(k, numbers[high - 1]) >= count:
        high -= 1
    return low, high


@kernel
def add_block(
    waves: CharacteristicFunction, rows: FrequencyAxis, columns: FrequencyAxis, units: UnitFactors,
    p_none: float, p_ones: FloatArray, count: float, sums: FloatArray,
    by_w: FloatArray | None, axis_sums1: ComplexArray, axis_sums2: ComplexArray,
) -> None:  # fmt: skip
    """Add the double sum over both neurons' frequencies to `sums`, or its derivatives by weights to `by_w`.

    The sum is E h_1 h_2 where both neurons have two or more inputs on. Pairs of frequencies, with numbers k
    and l, count if max(k, l) sqrt(1 + min(k, l)/NARROW) < `count`. They are `rows` of the first neuron and
    `columns` of the second, `waves` is the characteristic function of values. `units` are the n inputs of
    both neurons, `p_none` and `p_ones` (n,) the probabilities that none and that each alone of these is on.

    If `by_w` is None, `sums` (5, 5) gets a row for each taper, which ends the sum earlier and earlier: the
    value and, unless fluxes are None, its derivatives by both biases and minus those by both thresholds.
    Otherwise `by_w` (2, n) gets the derivatives by the weights. Those by inputs of one neuron alone follow
    from `axis_sums1` and `axis_sums2`, (4, K), for the first and the second, at its K frequencies s: a term
    is X times the product of these inputs' transforms plus Y times its part where one is on. Rows 0 and 1 add
    X and Y, times i s, over the other neuron's frequencies, rows 2 and 3 add X and Y times i times those.
    """
    many = columns.x.size
    work, unit_rows = np.empty((10, many)), np.empty((2, units.most_rows, many))
    if by_w is not None:
        by_unit_rows = np.empty((2, units.most_rows, many))
        real_sums, slope_sums = np.zeros((p_ones.size, many)), np.zeros((p_ones.size, many))
    for k in range(rows.x.size):
        check_interrupt(k % 16 == 15)
        low, high = _range_within(rows.number[k], columns.number, count)
        if high == low:
            continue
        # Loops below go over a whole array and write few: only then does the compiler take several at once.
        both_re, both_im = work[0, low:high], work[1, low:high]
        alone_re, alone_im = work[2, low:high], work[3, low:high]
        values = unit_rows[:, :, low:high]
        for l in range(high - low):
            both_re[l], both_im[l], alone_re[l], alone_im[l] = 1.0, 0.0, 0.0, 0.0
        for u in range(units.p_off.size):
            last = _write_unit_rows(
                waves, rows, k, columns, low, high, units, units.steps, u, values[0], values[1]
            )
            for at in range(units.first[u], units.first[u + 1]):
                _add_scaled(p_ones[units.member[at]], values[0, at - units.first[u]], alone_re)
                _add_scaled(p_ones[units.member[at]], values[1, at - units.first[u]], alone_im)
            _multiply_factor(
                units.p_off[u], units.p_on[u], values[0, last], values[1, last], both_re, both_im
            )
        if by_w is None:
            cuts = work[5:10, low:high]
            _write_tapers(rows.number[k], columns.number[low:high], count, work[4, low:high], cuts)
            _add_row(
                rows, k, columns, low, p_none, cuts, rows.flux, columns.flux, both_re, both_im, alone_re,
                alone_im, sums,
            )  # fmt: skip
            continue
        term_parts, slope = work[4:8, low:high], work[8:10, low:high]
        _add_row_slopes(
            rows,
            k,
            columns,
            low,
            p_none,
            count,
            both_re,
            both_im,
            alone_re,
            alone_im,
            term_parts,
            axis_sums1,
            axis_sums2,
        )
        for u in range(units.p_off.size):
            last = _write_unit_rows(
                waves, rows, k, columns, low, high, units, units.steps, u, values[0], values[1]
            )
            _add_unit_slopes(
                waves, rows, k, columns, low, high, units, units.steps, u, last, p_ones, term_parts, slope,
                values, by_unit_rows[:, :, low:high], real_sums, slope_sums,
            )  # fmt: skip
    if by_w is not None:
        for c in range(p_ones.size):
            for l in range(many):
                by_w[0, c] -= slope_sums[c, l]
                by_w[1, c] -= columns.x[l] * real_sums[c, l]


@kernel
def add_neuron_means(
    p: FloatArray, p_none: float, p_ones: FloatArray, weight: ComplexArray, weight_slope: ComplexArray,
    phi: ComplexArray, slope: ComplexArray, psi: ComplexArray, psi_slope: ComplexArray, g: FloatArray,
    start: float, out: FloatArray, axis_sums: ComplexArray, by_w: FloatArray | None,
) -> None:  # fmt: skip
    """Add means of one neuron h over its frequencies to `out`, where two or more of its n inputs are on.

    To `out` (n + 2,) are added E h, E h target(x_l) for each input l, and the derivative by the bias of E h
    G, with G = start + sum of `g`_l target(x_l); unless `by_w` is None, the derivatives of E h G by the
    weights are added to it. Inputs are on with probabilities p; `p_none` and `p_ones` (n,) are the
    probabilities that none and that each alone is. `weight` (K,) are the neuron's Fourier coefficients,
    `weight_slope` those of its derivative by z = w x + b. `phi`, `slope`, `psi` and `psi_slope` (n, K) are E
    e^{uv}, E v e^{uv}, E target(v) e^{uv} and its derivative by u, at u = i s w_l: w_l are the inputs'
    weights, v their values when on, s the K frequencies. `axis_sums` (2, K) is set to E e^{i s w x} and E G
    e^{i s w x} over these patterns: summed with coefficients of any function f of z they are E f and E f G.
    """
    n = p.size
    without_feature, sigma = np.empty(n, np.complex128), np.empty(n, np.complex128)
    for k in range(weight.size):
        check_interrupt(k % 1024 == 1023)
        product, alone = 1.0 + 0j, 0j
        for c in range(n):
            product *= 1.0 - p[c] + p[c] * phi[c, k]
            alone += p_ones[c] * phi[c, k]
        rest, linear, total = product - p_none - alone, 0j, 0j
        for c in range(n):
            f = 1.0 - p[c] + p[c] * phi[c, k]
            share = p[c] / (f if f != 0.0 else 1e-200 + 0j)
            without_feature[c], sigma[c] = share * product - p_ones[c], share * psi[c, k]
            linear += g[c] * without_feature[c] * psi[c, k]
            total += g[c] * sigma[c]
            out[1 + c] += (weight[k] * without_feature[c] * psi[c, k]).real
        axis_sums[0, k], axis_sums[1, k] = rest, start * rest + linear
        out[0] += (weight[k] * rest).real
        out[n + 1] += (weight_slope[k] * axis_sums[1, k]).real
        if by_w is None:
            continue
        for c in range(n):
            twice = (without_feature[c] + p_ones[c]) * (total - g[c] * sigma[c])
            inner = (
                slope[c, k] * (start * without_feature[c] + twice)
                + g[c] * psi_slope[c, k] * without_feature[c]
            )
            by_w[c] += (weight_slope[k] * inner).real
