"""The mean of two hidden neurons' product where both have two inputs on or more: a sum over frequencies."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....theory.validation import ComplexArray, FloatArray, IntArray
from ..methods.transform_sums import OtherFeatures
from .groups import UnitFactors, unit_products
from .pair_fourier_kernels import (
    NARROW,
    TABLE,
    TAPERS,
    CharacteristicFunction,
    FrequencyAxis,
    add_block,
    characteristic_function,
)

if TYPE_CHECKING:
    from .neuron_means import HiddenNeuron, NeuronContext

__all__ = ["CHANGES", "FIRST", "MOST_STORED", "PairSide", "count_frequency_pairs", "sum_both_many"]


FIRST = 32  # frequencies of each neuron to begin with, at least
FINER = 1.2  # steps from there to as many as each neuron by itself needs
AHEAD = 5.0  # a pair needs somewhat more
GROWTH = 2.5  # most by which the frequencies of a pair grow in a step
FAR = 1e3  # times the tolerance: what is estimated to be left out is then sure to need that step
MOST_STORED = 512  # transforms of so many frequencies are kept
MOST = 4096
SAFE, SAFE_ATOMS = 3.0, 12.0  # atoms near a threshold make differences erratic
CHANGES = TAPERS.size - 1


class PairSide(NamedTuple):
    """One neuron of a pair, with the features that are inputs of it alone."""

    unit: HiddenNeuron
    exclusive_inputs: IntArray
    """Features that are inputs of it alone."""
    exclusive_law: OtherFeatures
    """The law of these features."""
    p_none: float
    """Probability that none of these features is on."""
    p_ones: FloatArray
    """Probabilities that each of these features alone is on."""
    w: FloatArray
    """Its weights of the inputs of either neuron."""


class _NeuronPair(NamedTuple):
    """A pair of neurons, with the features that are inputs of either and of both (`common_inputs`)."""

    sides: tuple[PairSide, PairSide]
    either: IntArray
    common_inputs: IntArray
    """Inputs of both neurons."""
    factors: UnitFactors
    """Steps that compute the factors of the common inputs' units."""
    p_none: float
    p_ones: FloatArray
    """Probabilities that none, and that each alone, of the common inputs is on."""

    def characteristic_function(self, count: int) -> CharacteristicFunction:
        """Return E e^{iyv} of a feature's value v, up to the largest y for `count` frequencies.

        The largest y is the maximum, over features that are inputs of both neurons, of |s_1 w_1| + |s_2 w_2|
        with the last frequency s and the feature's weight w of each neuron.
        """
        far = sum(
            float(side.unit.lattice(count)[-1]) * np.abs(side.w[self.common_inputs]) for side in self.sides
        )
        return characteristic_function(self.sides[0].unit.context.law.values, float(np.max(far, initial=0.0)))

    def own_transforms(self, side: PairSide, count: int) -> ComplexArray:
        """Return E v^r e^{i s w v}, r = 0, 1, 2, of the inputs that only the neuron of `side` reads.

        v is the value of such an input, w its weight; s runs over the first 1 + `count` frequencies of the
        neuron. Shape (3, inputs, 1 + count).
        """
        if side.exclusive_inputs.size == 0:
            return np.empty((3, 0, 1 + count), np.complex128)
        at = np.searchsorted(side.unit.inputs, self.either[side.exclusive_inputs])
        return np.ascontiguousarray(side.unit.frequencies(count)[1][:, at])

    def frequency_axis(
        self, waves: CharacteristicFunction, side: PairSide, count: int, which: slice, as_rows: bool,
        biases: bool,
    ) -> FrequencyAxis:  # fmt: skip
        """Return the frequencies `which` of a neuron, with its coefficients there and its inputs' transforms.

        The neuron is that of `side`, and `which` selects from its 1 + `count` frequencies; `waves` is the
        characteristic function of values. The frequencies are rows of the double sum, >= 0, if `as_rows`,
        else columns, of both signs. Fluxes, for derivatives by biases, are None unless `biases`.
        """
        unit = side.unit
        s, own_transforms = unit.lattice(count), self.own_transforms(side, count)[0]
        product = unit_products(side.exclusive_law, 0, own_transforms)
        if waves.sides >= 0:
            phases = unit.phase_factors(waves.turn, count)
            if self.common_inputs.size < unit.inputs.size:
                phases = phases[np.searchsorted(unit.inputs, self.either[self.common_inputs])]
        else:
            phases = np.zeros((self.common_inputs.size, s.size), np.complex128)
        parts: list[Any] = [s, np.arange(1.0 + count), product, side.p_ones @ own_transforms, phases]
        coefficients = [unit.activation_coefficients(s), *([unit.delta_coefficients(s)] if biases else [])]
        if as_rows:
            twice = np.where(s > 0.0, 2.0, 1.0)  # they stand for both signs
            parts = [part[..., which] for part in (*parts, *(twice * part for part in coefficients))]
        else:
            parts = [_with_negative(part, which) for part in (*parts, *coefficients)]
            parts[0][: parts[0].size // 2] *= -1.0
        of_common = np.ascontiguousarray(side.w[self.common_inputs])
        parts[4:5] = [parts[4].real, parts[4].imag]
        x, number, product, one_active, cosines, sines, weight, *flux = map(np.ascontiguousarray, parts)
        return FrequencyAxis(
            x, number, weight, flux[0] if flux else None, product, one_active, side.p_none, cosines, sines,
            of_common,
        )  # fmt: skip

    def double_sum(
        self, waves: CharacteristicFunction, count: int, biases: bool, slopes: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return double sums over frequencies for E h_1 h_2 and derivatives: (by tapers, by weights).

        The first array, (tapers, 5), has a row for each taper, a set of weights with which a sum ends
        smoothly: the value and, with `biases`, the derivatives by both biases and minus those by both
        thresholds. The second is (2, n). With `slopes` only the second is computed, else only the first; the
        other one is 0. Pairs of frequencies, with numbers k and l, count if max(k, l) sqrt(1 + min(k,
        l)/NARROW) < `count`; `waves` is the characteristic function of values.
        """
        sums, by_w = np.zeros((TAPERS.size, 5)), np.zeros((2, self.either.size))
        # Rows as far as both neurons have as many, with all columns; then columns beyond, of the other one.
        k = np.arange(1.0, count + 1.0)
        square = 1 + int(np.sum(k * np.sqrt(1.0 + k / NARROW) < count))
        for order, first in (((0, 1), 0), ((1, 0), square))[: 2 if square <= count else 1]:
            selections = slice(0, square), slice(first, None)
            axes = [
                self.frequency_axis(waves, self.sides[side], count, which, side == order[0], biases)
                for side, which in zip(order, selections, strict=True)
            ]
            axis_sums = [np.zeros((4, axis.x.size), np.complex128) for axis in axes]
            part, by = np.zeros((TAPERS.size, 5)), np.zeros((2, self.common_inputs.size))
            (rows, columns), (by_rows, by_columns) = axes, axis_sums
            add_block(
                waves,
                rows,
                columns,
                self.factors,
                self.p_none,
                self.p_ones,
                float(count),
                part,
                by if slopes else None,
                by_rows,
                by_columns,
            )
            sums += part[:, [0, 1, 2, 3, 4] if order[0] == 0 else [0, 2, 1, 4, 3]]
            by_w[:, self.common_inputs] += by[list(order)]
            if slopes:
                for side, which, axis_sum in zip(order, selections, axis_sums, strict=True):
                    self._add_own_slopes(side, count, which, side == order[0], axis_sum, by_w)
        return sums, by_w

    def _add_own_slopes(
        self, at: int, count: int, which: slice, as_rows: bool, axis_sums: ComplexArray, by_w: FloatArray
    ) -> None:
        """Add derivatives by both neurons' weights of inputs of neuron `at` alone to `by_w`, (2, inputs).

        The derivatives are of a double sum over both neurons' frequencies, in which a term is X times the
        product of these inputs' transforms plus Y times its part where one of them is on. `axis_sums` (4, K)
        is for the K frequencies s, `which` of the 1 + `count` of this neuron: rows 0 and 1 have sums over the
        other neuron's frequencies of X and of Y times i s, for this neuron's weights; rows 2 and 3 have X and
        Y times i times the other's frequencies, for the other's weights. Frequencies of this neuron are rows
        of the double sum if `as_rows`, else columns, which have both signs.
        """
        side = self.sides[at]
        if side.exclusive_inputs.size == 0:
            return
        phi, slope, _ = self.own_transforms(side, count)
        phi, slope = (
            np.ascontiguousarray(part[:, which] if as_rows else _with_negative(part, which))
            for part in (phi, slope)
        )
        without_feature = np.empty(phi.shape, np.complex128)
        unit_products(side.exclusive_law, 0, phi, without_feature)
        for n, unit in enumerate((at, 1 - at)):
            x, y = axis_sums[2 * n], axis_sums[2 * n + 1]
            by_w[unit, side.exclusive_inputs] += np.sum(
                (slope * (without_feature * x + side.p_ones[:, None] * y)).real, axis=1
            )


def sum_both_many(
    sides: tuple[PairSide, PairSide], either: IntArray, both: IntArray, factors: UnitFactors, none: float,
    ones: FloatArray, slopes: bool,
) -> tuple[FloatArray, FloatArray, float, float, FloatArray]:  # fmt: skip
    """Return the part of E h_1 h_2 from patterns in which both neurons have two or more inputs on.

    The tuple is: value, derivatives by both biases and minus those by both thresholds, (5,) (derivatives are
    0 without `slopes`); derivatives by weights (2, n); error of the value without truncation; error of
    derivatives; and the truncation error, with sign, as each shorter taper estimates it, (CHANGES,). `sides`
    are the neurons, `either` the inputs of either, `both` the indices into these of the common inputs, and
    `factors` the units of the latter; `none` and `ones` are the probabilities that none and that each alone
    of the common inputs is on.
    """
    first, second = sides[0].unit, sides[1].unit
    pair, context = _NeuronPair(sides, either, both, factors, none, ones), first.context
    aim = context.tol * first.rms * second.rms
    safe = SAFE_ATOMS if context.atoms.size else SAFE
    jumps = sum(unit.t != 0.0 for unit in (first, second))
    tail_ratios, count = tail_factors(jumps), _initial_frequencies(first, second, both.size, jumps)
    while True:
        waves = pair.characteristic_function(count)
        sums, by_w = pair.double_sum(waves, count, slopes)
        changes = safe * tail_ratios[:, None] * (sums[0] - sums[1:])
        change = np.abs(changes).max(axis=0)
        next_count = int(
            np.ceil(count * np.clip(1.1 * (change[0] / max(aim, 1e-300)) ** (1.0 / 3.0), 1.3, GROWTH))
        )
        if change[0] <= aim or not _is_affordable(next_count, both.size, context):
            break
        count = next_count
    if slopes:
        _, by_w = pair.double_sum(waves, count, False, True)
    s, t = (unit.lattice(count) for unit in (first, second))
    table = TABLE * float(context.law.p[either].sum()) if waves.sides < 0 else 0.0
    rounding = (2.0**-48 + 4.0 * table) * float(
        np.abs(first.activation_coefficients(s)).sum() * np.abs(second.activation_coefficients(t)).sum()
    )
    beyond = first.reach[2] * second.size + second.reach[2] * first.size
    error = beyond + rounding + 2.0**-44 * first.rms * second.rms
    for jumping, other in (
        (first, second),
        (second, first),
    ):  # at atoms near a threshold, by Hoelder's inequality
        if jumping.t > 0.0:
            error += jumping.t * other.size * jumping.jump_error(count) ** (7.0 / 8.0)
    rates = np.pi / first.reach[1] + np.pi / second.reach[1]
    slope_error = 4.0 * float(change.max()) + beyond * (1.0 + rates)
    slope_error += rounding * (1.0 + float(s[-1] + t[-1])) + 2.0**-40 * (first.rms + second.rms)
    return sums[0], by_w, error, slope_error, changes[:, 0]


def _initial_frequencies(first: HiddenNeuron, second: HiddenNeuron, both: int, jumps: int) -> int:
    """Return the number of frequencies to begin with: as many as `first` or `second` needs by itself.

    The sum over pairs of frequencies converges about where the sums over those of one neuron do. If these are
    far from it at the most frequencies that are kept, there are `GROWTH` times as many. `both` is the number
    of inputs of both neurons, `jumps` the number of neurons with a threshold.
    """
    context, count = first.context, FIRST
    safe, tail_ratios = SAFE_ATOMS if context.atoms.size else SAFE, tail_factors(jumps)
    while True:
        left = safe * sum(
            float(np.max(tail_ratios * unit.truncation_changes(count))) for unit in (first, second)
        )
        finer_count = int(FINER * count)
        if AHEAD * left <= context.tol:
            return count
        if finer_count > MOST_STORED or not _is_affordable(finer_count, both, context):
            break
        count = finer_count
    next_count = int(np.ceil(GROWTH * count))
    is_next = left > FAR * context.tol and _is_affordable(next_count, both, context)
    return next_count if is_next else count


def _is_affordable(count: int, both: int, context: NeuronContext) -> bool:
    """Return whether a double sum up to frequency `count` takes no more terms than `context` allows.

    `both` is the number of inputs of both neurons.
    """
    return count <= MOST and count_frequency_pairs(count) * max(both, 1) <= context.most


def tail_factors(jumps: int) -> FloatArray:
    """Return ratios (CHANGES,): what the longest sum leaves out, over its difference from each shorter one.

    `jumps` is the number of neurons with a threshold. What is left beyond frequency k falls with k^(jumps -
    3): the sum falls slowest for parallel neurons, whose characteristic function is 1 along a diagonal;
    coefficients fall with k^-2 there, with k^-1 where a neuron jumps. A double sum of reach r has the
    diagonal up to a k that grows as r^(2/3).
    """
    return np.asarray(1.0 / (TAPERS[1:] ** (-2.0 / 3.0 * (3 - jumps)) - 1.0))


@lru_cache(256)
def count_frequency_pairs(count: float) -> float:
    """Return the number of pairs of frequencies of a double sum up to `count`, to a few in a thousand.

    Frequencies have the numbers k >= 0 and, of both signs, l; pairs with max(k, |l|) sqrt(1 + min(k,
    |l|)/NARROW) < `count` are summed.
    """
    k = np.arange(0.0, count + 1.0)
    low, high = np.zeros(k.size), np.full(k.size, float(count))
    for _ in range(12):  # where max(k, l) sqrt(1 + min(k, l)/NARROW) is `count`
        middle = 0.5 * (low + high)
        is_included = np.maximum(k, middle) * np.sqrt(1.0 + np.minimum(k, middle) / NARROW) < count
        low, high = np.where(is_included, middle, low), np.where(is_included, high, middle)
    return float(np.sum(2.0 * low + 1.0))


def _with_negative(row: Any, which: slice) -> Any:
    """Return the entries `which` of a row over frequencies >= 0, preceded by those of their negatives.

    The latter are the complex conjugates, in rising order of frequency; frequency 0, if it is there, comes
    once.
    """
    selected = row[..., which]
    return np.concatenate([selected[..., : 0 if which.start == 0 else None : -1].conj(), selected], axis=-1)
