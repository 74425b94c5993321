"""Means of hidden neurons, of their products with each other and with targets, and their derivatives.

A neuron is h = z 1(z > t), z = w x + b: a ReLU for t = 0. Its *flux* is t times the density of z at t, or
that times what h is multiplied by: minus the derivative of a mean by t, and its part in the derivative by b.
Names that several functions share: `context`, what all neurons have in common; `unit`, a neuron, or `first`
and `second`, two; `inputs`, the features that a neuron reads or that these depend on, `either` those of one
of two; w, (2, n), the weights of these in both; s, a neuron's frequencies, phi, (3, inputs, s.size), E v^r
e^{i s w v}; `slopes`, whether derivatives by weights are needed; g0 or `start` and g, the linear function g0
+ sum of g_l target(x_l) of the targets.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Any, cast

import numpy as np
from scipy.special import erfc

from ....theory.features.counts import IndependentGroup
from ....theory.features.values.law import ValueDistribution
from ....theory.features.values.parts import all_transforms
from ....theory.validation import BoolArray, ComplexArray, FloatArray, IntArray
from ..methods.transform_sums import OtherFeatures, independent_features
from ..methods.transforms import pack_units
from ..problem import Law
from .density_table import SMOOTH, DensityTable, table_of
from .groups import (
    UnitFactors,
    add_grouped_neuron_means,
    list_patterns,
    marginal_blocks,
    none_and_ones,
    unit_factors,
    unit_products,
    with_directions,
)
from .halves import merged_product, on_moments, pair_product, rounding_of_neuron
from .jumps import LatticeSeries, gaussian_taper, lattice_series, mass_at_threshold
from .nonzero import nonzero_features, patterns_given
from .pair_exact import add_pattern_means
from .pair_fourier import CHANGES, FIRST, MOST_STORED, PairSide, count_frequency_pairs, sum_both_many
from .pair_fourier_kernels import TABLE, TAPERS, add_neuron_means, add_tapered_sums, characteristic_function

__all__ = ["HiddenNeuron", "NeuronContext", "PairMeans", "pair_means", "unit_means"]


TAIL = 1e-5  # of the tolerance: what values beyond the reach of the lattice may add
MOST = 4096  # of a neuron by itself
FINER = 1e-2  # of the tolerance, of means of one neuron: they cost little
PAIR = 2.0**23  # terms for a pair, at least
SAFE = 4.0  # changes may fall slowly, or be small by chance
_HOELDER = 7.0 / 8.0  # of a probability, beside a norm of exponent 8
_FALL = 8.0  # changes are not believed to fall faster than that when frequencies double
# Most features of a pair of neurons for which integrals are exact, by whether densities are polynomials; then
# of a neuron with targets, where a target with a kink counts as a density that is none. Of normal values the
# two sums of any pattern are two normal variables. Where there are atoms alone, the sums of halves of the
# features take less time than all patterns from 8 features on.
MOST_EXACT = {True: 5, False: 4}
MOST_EXACT_TARGETS = {True: 4, False: 3}
MOST_EXACT_NORMAL = 12
MOST_EXACT_ATOMS = 7
MOST_EXACT_PATTERNS = 2**10  # of groups, where integrals are exact


_ON_OR_OFF = np.array([[0], [1]])


@dataclass(frozen=True)
class NeuronContext:
    """What all neurons of a network share: law, density table, targets and tolerances."""

    law: Law
    table: DensityTable
    spans: FloatArray
    """(spans, 3): (low, high, 1) of each interval of the density of values, for products of neurons."""
    atoms: FloatArray
    """(atoms, 3): (value, probability, 1)."""
    target_spans: FloatArray
    """As `spans`, for products with targets; the last entry is target(v)/v."""
    target_atoms: FloatArray
    target: str
    """"identity", "relu" or "abs" of the features."""
    mean: float
    """E target(v) of the value v of a feature that is on."""
    cross: float
    """E v target(v)."""
    square: float
    """E target(v)^2."""
    half: ValueDistribution | None
    """The law of |v|, if values have both signs and targets are not the features; else None."""
    tol: float
    most: float
    """Most frequencies times features, for a pair of neurons."""
    dependent: list[IndependentGroup] | None
    """If features are not independent, the independent groups and single features; else None."""

    @classmethod
    def of(cls, law: Law, target: str, tol: float, most: float, is_nonlinear: bool = True) -> "NeuronContext":
        """Return the context of a law and of targets f(x_j), f being "identity", "relu" or "abs" by `target`.

        `tol` is the error to aim at, in units of the neurons' root mean squares; `most` is the most terms,
        frequencies times features, of the sums for a pair of neurons. Unless `is_nonlinear`, the context is
        for linear neurons, which need second moments alone. ValueError if exactly k features are on, in too
        many patterns.
        """
        law = nonzero_law(law) if is_nonlinear else law
        dependent = None if law.independent or not is_nonlinear else _units_of(law)
        values = law.values
        table = table_of(values)
        low, _ = values.support
        ends = (table.edges[0], table.edges[-1]) if table.edges.size else (0.0, 0.0)
        spans = np.array([[*ends, 1.0]]) if table.edges.size else np.empty((0, 3))
        atoms = np.array([[v, chance, 1.0] for v, chance in values.atoms], float).reshape(-1, 3)
        half: ValueDistribution | None = None
        target_spans, target_atoms = spans, atoms
        mean, cross, square = (float(values.moment(k)) for k in (1, 2, 2))
        if target != "identity" and low < 0.0:
            half = _law_of_size(values)
            of_negative = 0.0 if target == "relu" else -1.0
            target_spans = np.array([[0.0, ends[1], 1.0], [ends[0], 0.0, of_negative]])
            share = 0.5 if target == "relu" else 1.0
            mean = share * float(half.moment(1))
            cross = 0.5 * float(values.moment(2)) if target == "relu" else 0.0
            square = share * float(half.moment(2))
        else:
            target = "identity"
        return cls(
            law, table, spans, atoms, target_spans, target_atoms, target, mean, cross, square, half, tol,
            most, dependent,
        )  # fmt: skip

    def with_identity(self) -> "NeuronContext":
        """Return this context with the features themselves as targets."""
        values = self.law.values
        mean, square = float(values.moment(1)), float(values.moment(2))
        return replace(
            self, target_spans=self.spans, target_atoms=self.atoms, target="identity", mean=mean,
            cross=square, square=square, half=None,
        )  # fmt: skip

    @property
    def precision(self) -> float:
        """Rounding error of exact integrals over the neurons' sizes; larger if densities are no polynomials.

        The size is a neuron's root mean square, or the product of those of two neurons.
        """
        return 2.0**-42 if self.table.degree < 0 else 2.0**-46

    @property
    def slope_precision(self) -> float:
        """Rounding error of derivatives of exact integrals, over the neurons' sizes plus their own.

        It is larger than `precision` if densities are no polynomials: derivatives are less smooth than means.
        """
        return 2.0**-35 if self.table.degree < 0 else self.precision

    def blocks(self, features: IntArray) -> list[IndependentGroup]:
        """Return the law of which of some features are on, as independent groups and single features.

        Members are indices into `features`.
        """
        if self.dependent is None:
            p = self.law.p[features]
            return [
                IndependentGroup(np.array([k]), _ON_OR_OFF, np.array([1.0 - q, q])) for k, q in enumerate(p)
            ]
        return cast(list[IndependentGroup], self._from_cache("blocks", features, self._marginal_blocks))

    def _marginal_blocks(self, features: IntArray) -> list[IndependentGroup]:
        """Return the independent groups and single features of some `features`, computed anew.

        `features` are dependent; `blocks` stores the result. Members are indices into `features`.
        """
        assert self.dependent is not None
        return marginal_blocks(self.dependent, features, self.law.n)

    def _from_cache(self, name: str, features: IntArray, make: Callable[[IntArray], Any]) -> Any:
        """Return make(features), from the law's cache if `name` with these features is there."""
        key = name, features.tobytes()
        if key not in self.law.cache:
            self.law.cache[key] = make(features)
        return self.law.cache[key]

    def closure(self, is_read: BoolArray) -> IntArray:
        """Return the indices of features in `is_read`, and of all on which these depend; extend this mask."""
        for block in self.dependent or ():
            is_read[block.members] = is_read[block.members].any()
        return np.flatnonzero(is_read)

    def pattern_law(self, features: IntArray) -> OtherFeatures:
        """Return the law of some features as `OtherFeatures`, for sums over frequencies.

        All count as inputs with a weight.
        """
        if self.dependent is None:
            return independent_features(self.law.p[features])
        return cast(OtherFeatures, self._from_cache("others", features, self._pack))

    def _pack(self, features: IntArray) -> OtherFeatures:
        """Return the law of some dependent `features` as `OtherFeatures`, computed anew.

        All count as inputs with a weight; `pattern_law` stores the result.
        """
        return pack_units(self.blocks(features), np.full(features.size, True), None)

    def directions(self, features: IntArray, is_read: BoolArray) -> OtherFeatures:
        """Return the law that `with_directions` makes of dependent `features`, for derivatives by transforms.

        Of these features those in the mask `is_read` have a weight.
        """
        signed = np.where(is_read, features, ~features)
        law = self._from_cache(
            "directions", signed, lambda _: with_directions(self.blocks(features), is_read)
        )
        return cast(OtherFeatures, law)

    def none_and_ones(self, features: IntArray) -> tuple[float, FloatArray]:
        """Return (probability that no one of some features is on, (n,) those that each is the only one)."""
        if self.dependent is None:
            return _p_none_and_one(self.law.p[features])
        known = self._from_cache("none", features, lambda features: none_and_ones(self.pattern_law(features)))
        return cast(tuple[float, FloatArray], known)

    def factors(self, features: IntArray) -> UnitFactors:
        """Return the `UnitFactors` of some features: steps that compute the factor of each unit.

        A unit is an independent group or single feature; its factor is the sum over its on/off patterns of
        their probability times the transforms of the features that are on.
        """
        if self.dependent is None:
            p, steps = self.law.p[features], np.arange(features.size + 1)
            return UnitFactors(steps, steps[:-1].copy(), 0 * steps, None, 1.0 - p, p, 1)
        return cast(
            UnitFactors,
            self._from_cache("factors", features, lambda features: unit_factors(self.blocks(features))),
        )

    def is_exact(self, features: IntArray, targets: bool) -> bool:
        """Return whether means over some features are exact integrals, not sums over frequencies.

        `targets` says whether they are means of products with targets.
        """
        split = targets and self.target_spans.shape[0] > 1
        normal = self.law.values == "normal" and not split
        most = MOST_EXACT_ATOMS if self.law.values.discrete else MOST_EXACT_NORMAL if normal else 0
        smooth = self.table.degree >= 0 and not split
        most = max(most, (MOST_EXACT_TARGETS if targets else MOST_EXACT)[smooth])
        if self.dependent is None:
            return features.size <= most
        highest, patterns = self._from_cache("sizes", features, self._sizes)
        return bool(highest <= most and patterns <= max(MOST_EXACT_PATTERNS, 2.0**most))

    def _sizes(self, features: IntArray) -> tuple[int, float]:
        """Return (most features that may be on at once, number of on/off patterns)."""
        blocks = self.blocks(features)
        patterns = float(np.exp(min(sum(np.log(block.weights.size) for block in blocks), 500.0)))
        return sum(int(block.patterns.sum(axis=1).max()) for block in blocks), patterns

    def sides(self, either: IntArray, w: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return (inputs of the first neuron alone, of the second alone, of both), as indices into `either`.

        `w` (2, n) are the weights of both neurons for the features `either`. If a group of dependent features
        has inputs of a neuron, all its features count as such.
        """
        is_input = w != 0.0
        if self.dependent is not None and not is_input.all():
            for block in self.blocks(either):
                is_input[:, block.members] = is_input[:, block.members].any(axis=1)[:, None]
        first, second = is_input
        return (
            np.flatnonzero(first & ~second),
            np.flatnonzero(second & ~first),
            np.flatnonzero(first & second),
        )


def nonzero_law(law: Law) -> Law:
    """Return the law of the same x in which a feature counts as on exactly where it is not 0."""
    if "nonzero" not in law.cache:
        features = nonzero_features(law.features)
        law.cache["nonzero"] = law if features is law.features else Law(features)
    return cast(Law, law.cache["nonzero"])


def _units_of(law: Law) -> list[IndependentGroup]:
    """Return the independent groups and single features of a law, with their on/off patterns.

    If exactly k features are on, there is one group, of all features.
    """
    features = law.features
    return (
        features.blocks
        if features.exactly is None
        else [IndependentGroup(np.arange(law.n), *patterns_given(features))]
    )


def _law_of_size(values: ValueDistribution) -> ValueDistribution:
    """Return the law of |v| of symmetric or normal values; ValueError for others."""
    from ....theory.features.values import law_named

    known = {"symmetric": "uniform", "normal": "half-normal"}
    if str(values) not in known:
        raise ValueError(f"`target` must be 'identity' for {values!r} values; their sizes have no known law.")
    return law_named("values", known[str(values)])


def _frequency_taper(count: int) -> FloatArray:
    """Return weights (1 + count,) of frequencies: 1 of frequency 0, then falling smoothly from 2 to 0.

    They blur an activation over a width period/count. A sum over frequencies that ends smoothly leaves out
    less than one that ends at once.
    """
    x = (np.arange(1, count + 1) / count - 0.2) / 0.8
    return np.asarray(np.r_[1.0, erfc(4.0 * (2.0 * x - 1.0))], np.float64)


def _complement(n: int, excluded: IntArray) -> IntArray:
    """Return the indices below n that are not in `excluded`; quicker than `np.setdiff1d` on few."""
    is_other = np.full(n, True)
    is_other[excluded] = False
    return np.flatnonzero(is_other)


def _p_none_and_one(p: FloatArray) -> tuple[float, FloatArray]:
    """Return (probability that no feature is on, (n,) probabilities that each is the only one on)."""
    off = 1.0 - p
    product_before, product_after = np.cumprod(np.r_[1.0, off]), np.cumprod(np.r_[1.0, off[::-1]])[::-1]
    return float(product_before[-1]), p * product_before[:-1] * product_after[1:]


def _rms(law: Law, w: FloatArray, b: float) -> float:
    """Return the root of the mean square of w x + b."""
    mean = float(w @ law.mean)
    if not law.independent:
        return float(np.sqrt(max(float(w @ law.pairs @ w) + b * (2.0 * mean + b), 0.0)))
    spread = float(w**2 @ (law.square - law.mean**2))
    return float(np.sqrt((mean + b) ** 2 + max(spread, 0.0)))


class HiddenNeuron:
    """A hidden neuron h = z 1(z > t), z = w x + b, for x in units of the scales, with its frequencies.

    `context` is what all neurons of the network share; w, (n,), are its weights, t is its threshold, 0 for a
    ReLU.
    """

    def __init__(self, context: NeuronContext, w: FloatArray, b: float, t: float):
        self.context, self.w, self.b, self.t = context, np.ascontiguousarray(w), float(b), float(t)
        self.inputs = context.closure(self.w != 0.0)
        self.p = context.law.p[self.inputs]
        self.rms = _rms(context.law, w, self.b)
        self._reach: tuple[float, float, float] | None = None
        self._phase_factors = np.empty((self.inputs.size, 0), np.complex128)
        self._size = np.inf
        self.chance_beyond = 0.0  # a bound of the probability that z is beyond the reach
        self._s, self._phi = np.empty(0), np.empty((3, self.inputs.size, 0), np.complex128)
        self._changes: dict[int, FloatArray] = {}
        self._mass: dict[int, float] = {}

    @cached_property
    def input_law(self) -> OtherFeatures:
        """The law of the inputs as `OtherFeatures`, for sums over frequencies."""
        if self.context.dependent is None:
            return independent_features(self.p)
        return pack_units(self.context.blocks(self.inputs), self.w[self.inputs] != 0.0, None)

    @cached_property
    def terms(self) -> float:
        """Bound of the mean of |b| + t + sum_j |w_j x_j|, in whose units z = w x + b has rounding errors."""
        size, rms = np.abs(self.w[self.inputs]), float(self.context.law.values.moment(2)) ** 0.5
        return float(abs(self.b) + self.t + rms * (size @ self.p + np.sqrt(size**2 @ self.p)))

    @cached_property
    def series(self) -> LatticeSeries | None:
        """The neuron's exact Fourier series, a finite one, if values are atoms on a lattice; else None."""
        return lattice_series(self) if self.context.law.values.discrete else None

    def jump_error(self, count: int) -> float:
        """Return a bound of the error of P(z > t) from `count` frequencies, which blur the jump at z = t.

        If values have atoms, it is the probability that z is near t; else it is 0.
        """
        if not self.context.atoms.size:
            return 0.0
        if count not in self._mass:
            self._mass[count] = mass_at_threshold(self, count)
        return self._mass[count]

    @property
    def reach(self) -> tuple[float, float, float]:
        """(Largest z - t that counts, half the period of h in z, error of the mean by larger |z|).

        z is the pre-activation, t the threshold. Sums over frequencies treat h as periodic in z.
        """
        if self._reach is None:
            (up, over, high, far), (down, under, low, back) = (
                self._one_sided_reach(1.0),
                self._one_sided_reach(-1.0),
            )
            self._size, self.chance_beyond = high + low + abs(self.b) + self.t, far + back
            high, low = max(self.b - self.t + up, 0.0), max(self.t - self.b + down, 0.0)
            least = max(0.05 * (high + low), 1e-250)
            high, low = 1.02 * max(high, least), 1.02 * max(low, least)
            self._reach = high, high + low, over + under
        return self._reach

    @property
    def size(self) -> float:
        """A bound of (E |h|^8)^(1/8) for the neuron h."""
        _ = self.reach
        return self._size

    def copy_cache_from(self, other: "HiddenNeuron") -> None:
        """Copy the cached reach and transforms of `other`, the same neuron in another context."""
        self._reach, self._size, self.chance_beyond = other.reach, other.size, other.chance_beyond
        self._s, self._phi = other._s, other._phi

    def phase_factors(self, turn: float, count: int) -> ComplexArray:
        """Return e^{i turn s w} for each input, of weight w, and frequency s, (inputs, 1 + count).

        `turn`, 1/2 or 1, is the factor of y in the formula for E e^{iyv} of the law's values, and the same in
        all calls; the result is stored.
        """
        if self._phase_factors.shape[1] < count + 1:
            s = self.lattice(count)
            factors: ComplexArray = np.exp(1j * turn * np.outer(self.w[self.inputs], s))
            if count > MOST_STORED:
                return factors
            self._phase_factors = factors
        return self._phase_factors[:, : count + 1]

    def _log_mean(self, theta: float) -> float:
        """Return log E e^{theta (w x)}, inf where it diverges or overflows."""
        x = theta * self.w[self.inputs]
        values = self.context.law.values
        if np.any(x >= 0.95 * values.pole):
            return np.inf
        out = np.empty((3, x.size), np.complex128)
        with np.errstate(all="ignore"):
            all_transforms(values.parts.transform, x.astype(np.complex128), out)
            if self.context.dependent is None:
                log_mean = float(np.sum(np.log1p(self.p * (out[0].real - 1.0))))
            else:
                log_mean = float(np.log(unit_products(self.input_law, 0, out[0, :, None].copy())[0].real))
        return log_mean if np.isfinite(log_mean) else np.inf

    def _one_sided_reach(self, side: float) -> tuple[float, float, float, float]:
        r"""Return (size T of w x at which h is cut off on one side, error, norm of w x, tail probability).

        `side` is 1 or -1. The error is that of h in the norm of exponent q = 8/7, the norm is that of the
        part of w x on this side, of exponent 8, for Hoelder's inequality. By Chernoff's bound E (w x - T)_+^q
        is at most :math:`(q/(e \theta))^q e^{-\theta T} E e^{\theta w x}`; within the next half period the
        periodic function is off by at most twice that, and by the threshold.
        """
        law, w, q = self.context.law, self.w[self.inputs], 8.0 / 7.0
        low, high = law.values.support
        best, error, size, chance = np.inf, 0.0, np.inf, 0.0
        if np.isfinite([low, high]).all():
            best = size = float(np.sum(np.maximum(np.maximum(side * w * low, side * w * high), 0.0)))
        aim = TAIL * self.context.tol * max(self.rms, 1e-250)
        unit = float(np.sqrt(np.sum(w**2 * law.square[self.inputs])))
        unit = max(unit, float(np.abs(w).max(initial=0.0)) * float(np.sqrt(law.values.moment(2))), 1e-250)
        last, worse = np.inf, 0
        for theta in 1.25 ** np.arange(-10.0, 50.0) / unit:
            tail = self._log_mean(side * float(theta))
            if not np.isfinite(tail) or worse == 4:
                break
            size = min(size, 8.0 / (np.e * theta) * float(np.exp(min(tail / 8.0, 600.0))))
            off = 2.0 * q / (np.e * theta) + self.t
            far = (max(tail, 0.0) + q * max(np.log(off / aim), 0.0)) / theta
            worse, last = 0 if far < last else worse + 1, far
            if far < best:
                best, error = float(far), float(min(aim, off))
                chance = error / off
        return best, error, size, chance

    def lattice(self, count: int) -> FloatArray:
        """Return the neuron's frequencies s, (1 + count,): 0 and `count` odd multiples of pi/`reach[1]`."""
        return np.concatenate([np.zeros(1), np.pi / self.reach[1] * np.arange(1.0, 2.0 * count, 2.0)])

    def frequencies(self, count: int) -> tuple[FloatArray, ComplexArray]:
        """Return (frequencies s (1 + count,); transforms E v^r e^{iyv}, r = 0, 1, 2, (3, inputs, 1 + count)).

        The frequencies are those of `lattice`. v is the value of an input that is on, and y = s w with its
        weight w. Means of e^{isz} and their derivatives follow from these.
        """
        if self._s.size < count + 1:
            known = self._s.size
            s = self.lattice(count)
            y, values = np.outer(self.w[self.inputs], s[known:]), self.context.law.values
            new = characteristic_function(values, float(np.abs(y).max(initial=0.0))).at(values, y)
            phi = np.concatenate([self._phi, new], axis=2)
            if count > MOST_STORED:  # many neurons would fill the memory
                return s, phi
            self._s, self._phi = s, phi
        return self._s[: count + 1], self._phi[:, :, : count + 1]

    def _coefficients(self, s: FloatArray, at_zero: float, others: ComplexArray) -> ComplexArray:
        """Return the coefficients c_s of a function c_0 + 2 Re sum_s c_s e^{i s w x} at the frequencies s.

        Its coefficients in z - t, of e^{i s (z - t)} with z = w x + b, are `at_zero` at frequency 0 and
        `others` at the rest; they get the phases e^{i s (b - t)}.
        """
        return np.asarray(np.r_[at_zero, np.exp(1j * s[1:] * (self.b - self.t)) * others], np.complex128)

    def activation_coefficients(self, s: FloatArray) -> ComplexArray:
        """Return Fourier coefficients c_s of the activation z 1(z > t) at the frequencies s, shape of s.

        z 1(z > t) = c_0 + 2 Re sum of c_s e^{i s w x}, with period 2 `reach[1]`; s are 0 and odd multiples of
        pi/`reach[1]`.
        """
        return self.ramp_coefficients(s) + self.t * self.step_coefficients(s)

    def ramp_coefficients(self, s: FloatArray) -> ComplexArray:
        """Return Fourier coefficients c_s of (z - t) 1(z > t) at the frequencies s, shape of s.

        (z - t) 1(z > t) = c_0 + 2 Re sum of c_s e^{i s w x}, with period 2 `reach[1]`; s are 0 and odd
        multiples of pi/`reach[1]`.
        """
        rise, half, _ = self.reach
        w = s[1:]
        return self._coefficients(s, 0.5 * rise, -(1.0 - np.exp(-1j * w * rise)) / (half * w * w))

    def step_coefficients(self, s: FloatArray) -> ComplexArray:
        """Return the Fourier coefficients of the step 1(z > t) at the frequencies s, shape of s.

        z = w x + b is the pre-activation, t the threshold. The step is c_0 + 2 Re sum of c_s e^{i s w x},
        with period 2 `reach[1]`; s are 0 and odd multiples of pi/`reach[1]`.
        """
        return self._coefficients(s, 0.5, np.asarray(1.0 / (1j * self.reach[1] * s[1:]), np.complex128))

    def rounding(self, weight: ComplexArray) -> float:
        """Return the rounding error of a sum over frequencies with coefficients `weight`."""
        table_error = TABLE * float(self.p.sum()) if self.context.law.values.sides < 0 else 0.0
        return (2.0**-50 + table_error) * float(np.abs(weight).sum())

    def truncation_changes(self, count: int) -> FloatArray:
        """Return by how much the neuron's mean changes, (CHANGES,), as its sum over frequencies ends earlier.

        Entry k is for a sum that ends smoothly at the share TAPERS[k + 1] of `count` frequencies, not at all
        of them. The mean is over patterns with two or more features on; changes are in units of `rms`.
        """
        if count not in self._changes:
            s, phi = self.frequencies(count)
            rest = unit_products(self.input_law, 2, np.ascontiguousarray(phi[0]))
            sums, twice = np.zeros(TAPERS.size), np.where(s > 0.0, 2.0, 1.0)
            add_tapered_sums((self.activation_coefficients(s) * twice * rest).real, TAPERS, sums)
            self._changes[count] = np.abs(sums[0] - sums[1:]) / max(self.rms, 1e-250)
        return self._changes[count]

    def delta_coefficients(self, s: FloatArray) -> ComplexArray:
        """Return Fourier coefficients c_s of t times the delta function of z - t, z = w x + b, shape of s.

        The function is c_0 + 2 Re sum of c_s e^{i s w x}, with period 2 `reach[1]`; s are 0 and odd multiples
        of pi/`reach[1]`.
        """
        return self._coefficients(s, 0.0, np.full(s.size - 1, self.t / self.reach[1] + 0j))


@dataclass
class PairMeans:
    """E h_1 h_2 of two neurons, with its error and derivatives.

    `by_b` (2,) are the derivatives by the biases, `flux` (2,) is minus those by the thresholds, `by_w` (2, n)
    are those by the weights.
    """

    value: float
    error: float
    by_b: FloatArray
    flux: FloatArray
    by_w: FloatArray
    slope_error: float
    method: str
    changes: FloatArray
    """(CHANGES,): several estimates, with sign, of what sums over frequencies leave out; not in `error`."""

    @property
    def largest_error(self) -> float:
        """Largest error of the value, including truncation."""
        return self.error + float(np.abs(self.changes).max())


def _slope_rounding(context: NeuronContext, rms: float, sums: FloatArray, by_w: FloatArray) -> float:
    """Return the rounding error of derivatives of E h_1 h_2: by weights, `by_w`, and by biases, sums[1:].

    `rms` is the sum of the root mean squares of both neurons; the relative precision is
    `context.slope_precision`.
    """
    size = np.abs(sums[1:]).sum() + np.abs(by_w).max(initial=0.0)
    return context.slope_precision * float(4.0 * rms + size)


def _sum_patterns(
    context: NeuronContext,
    units: tuple[FloatArray, FloatArray, FloatArray],
    on: FloatArray,
    chances: FloatArray,
    is_nonlinear: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return E h_1 h_2, derivatives by b_1, b_2 and minus those by t_1, t_2, (5,); by weights, (2, n).

    They are sums over patterns of exact integrals, for the law of `context`. `units` are weights (2, n),
    biases and thresholds of both neurons, `on` (r, n) the patterns, `chances` (r,) their probabilities.
    Unless `is_nonlinear` the second neuron is a linear function of the targets.
    """
    w, b, t = units
    sums, by_w = np.zeros((1, 5)), np.zeros(w.shape)
    spans, atoms = (
        (context.spans, context.atoms) if is_nonlinear else (context.target_spans, context.target_atoms)
    )
    # With at most one feature on, most of the kernel is neither needed nor compiled.
    several = on.sum(axis=1).max(initial=0.0) > 1.0
    spherical = context.law.values == "normal" and spans.shape[0] == 1 if several else None
    slack = np.array([rounding_of_neuron(context, w[k], b[k], t[k]) for k in range(2)])
    add_pattern_means(
        context.table, spans, atoms, np.ascontiguousarray(on, float), np.ascontiguousarray(chances), w, b, t,
        slack, is_nonlinear, spherical, sums, by_w,
    )  # fmt: skip
    return sums[0], by_w


def _all_patterns(context: NeuronContext, features: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return (all possible patterns of some features in `context`, (r, n); their probabilities (r,))."""
    on, chances = list_patterns(context.blocks(features), features.size)
    return on[chances > 0.0], chances[chances > 0.0]


def _patterns_with(count: int, *which: Any) -> FloatArray:
    """Return patterns of `count` features, (r, count), with one or two features on.

    In row k feature which[0][k] is on and, if `which` has two arrays, which[1][k].
    """
    on = np.zeros((which[0].size, count))
    for pattern in which:
        on[np.arange(pattern.size), pattern] = 1.0
    return on


def pair_means(first: HiddenNeuron, second: HiddenNeuron, slopes: bool) -> PairMeans:
    """Return the `PairMeans` of the neurons `first` and `second`: E h_1 h_2, its error and derivatives.

    Derivatives by the weights, (2, n), are set if `slopes`.
    """
    context, law = first.context, first.context.law
    n = law.n
    if first is second and not context.is_exact(first.inputs, targets=False):
        return _second_moment(first, slopes)
    either = np.union1d(first.inputs, second.inputs)
    if context.dependent is not None and not slopes:  # what depends on inputs matters for slopes alone
        either = either[(first.w[either] != 0.0) | (second.w[either] != 0.0)]
    w = np.ascontiguousarray(np.stack([first.w[either], second.w[either]]))
    b, t = np.array([first.b, second.b]), np.array([first.t, second.t])
    scale, by_w = first.rms * second.rms, np.zeros((2, n))
    if context.is_exact(either, targets=False):
        method, error, slope_error, changes = "pair_exact", 0.0, 0.0, np.zeros(CHANGES)
        on, chances = _all_patterns(context, either)
        sums, by = _sum_patterns(context, (w, b, t), on, chances, True)
    else:
        method, sums, by, error, slope_error, changes = _many_inputs(
            context, first, second, either, (w, b, t), slopes
        )
    by_w[:, either] = by
    error += context.precision * scale
    slope_error += _slope_rounding(context, first.rms + second.rms, sums, by)
    rest = _complement(n, either)
    by_w[:, rest] = sums[1:3, None] * law.mean[rest]
    return PairMeans(
        float(sums[0]), float(error), sums[1:3], sums[3:5], by_w, float(slope_error), method, changes
    )


def _many_inputs(
    context: NeuronContext, first: HiddenNeuron, second: HiddenNeuron, either: IntArray,
    units: tuple[FloatArray, FloatArray, FloatArray], slopes: bool,
) -> tuple[str, FloatArray, FloatArray, float, float, FloatArray]:  # fmt: skip
    """Return (method, and the mean of two neurons' product, its derivatives and errors) if inputs are many.

    The entries after the method's name are: value, derivatives by b_1, b_2 and minus those by t_1, t_2, (5,);
    by weights, (2, n), if `slopes`; error of the value; error of derivatives; changes of the value as sums
    over frequencies end earlier, (CHANGES,), which estimate the truncation error. The neurons are `first` and
    `second`, in `context`; `units` are weights (2, n), biases and thresholds of both, and `either` the inputs
    of either.
    """
    w = units[0]
    rounding = 2.0**-46 * first.terms * second.terms
    if context.law.values.discrete:
        listed = pair_product(context, first, second, either, w, slopes)
        if listed is not None:
            sums = np.r_[listed[0], 0.0, 0.0]
            return "sums of atoms", sums, listed[1], rounding, 0.0, np.zeros(CHANGES)
        merged = None if slopes else merged_product(context, first, second, either, w)
        if merged is not None:
            sums = np.r_[merged[0], np.zeros(4)]
            return "sums of atoms", sums, np.zeros(w.shape), rounding + merged[1], 0.0, np.zeros(CHANGES)
    return "pair_fourier", *_pair_by_frequencies(context, first, second, either, units, slopes)


def _second_moment(unit: HiddenNeuron, slopes: bool) -> PairMeans:
    """Return the `PairMeans` of a neuron with itself, from E h^2 = E h z with its linear z: h is z or 0.

    Derivatives by the weights may be nan unless `slopes`.
    """
    linear_neuron = HiddenNeuron(unit.context.with_identity(), unit.w, unit.b, unit.t)
    linear_neuron.copy_cache_from(unit)
    means = unit_means(linear_neuron, unit.b, unit.w, by_weights=slopes)
    value = unit.b * means.mean + float(unit.w @ means.by_targets)
    by_w = np.stack([means.by_w, means.by_targets])
    size = abs(unit.b) + 2.0 * float(np.sqrt(unit.w @ unit.w))  # errors by features have any sign
    return PairMeans(
        value, means.error * size, np.array([means.by_b, means.mean]), np.array([means.flux, 0.0]), by_w,
        means.slope_error * max(size, 1.0), means.method, np.zeros(CHANGES),
    )  # fmt: skip


def least_terms(first: HiddenNeuron, second: HiddenNeuron) -> float:
    """Return the least number of terms that E h_1 h_2 of the neurons `first` and `second` takes.

    For few inputs these are all patterns, each an exact integral; for many inputs, two double sums over
    `FIRST` frequencies of each neuron.
    """
    context, inputs = first.context, np.union1d(first.inputs, second.inputs)
    if not context.is_exact(inputs, targets=False):
        both = np.intersect1d(first.inputs, second.inputs).size
        return 2.0 * count_frequency_pairs(FIRST) * max(both, 1)
    if context.dependent is not None:
        on = _all_patterns(context, inputs)[0].sum(axis=1)
    else:
        k = np.arange(inputs.size + 1)
        on = np.repeat(k, [comb(inputs.size, int(first)) for first in k])
    if context.law.values.discrete:
        return float(np.sum(len(context.atoms) ** on))
    pieces = max(context.table.panels.size - 1, 1) * (4.0 if context.table.degree >= 0 else SMOOTH)
    return float(np.sum(pieces ** np.clip(on - 1.0, 0.0, 1.0 if context.law.values == "normal" else None)))


def _pair_by_frequencies(
    context: NeuronContext,
    neuron_1: HiddenNeuron,
    neuron_2: HiddenNeuron,
    either: IntArray,
    units: tuple[FloatArray, FloatArray, FloatArray],
    slopes: bool,
) -> tuple[FloatArray, FloatArray, float, float, FloatArray]:
    """Return the mean of two neurons' product, its derivatives and errors, by sums over frequencies.

    The tuple is value, derivatives by b_1, b_2 and minus those by t_1, t_2, (5,); by weights, (2, n), if
    `slopes`; error of the value; error of derivatives; changes of the value as sums end earlier, (CHANGES,),
    which estimate the truncation error. The neurons are `neuron_1` and `neuron_2`, in `context`; `units` are
    weights (2, n), biases and thresholds of both, and `either` the inputs of either. These are inputs of one
    neuron alone, of the other, or of both: patterns with at most one of each kind on are exact. Patterns with
    two or more inputs of one neuron on are a sum over its frequencies, those with two or more of both a
    double sum.
    """
    w, _, _ = units
    n = either.size
    alone1, alone2, both = kinds = context.sides(either, w)
    (a0, a1), (b0, b1), (c0, c1) = (context.none_and_ones(either[kind]) for kind in kinds)

    # Patterns in which at most one feature of each kind is on, but three: exact.
    def pairs(x: IntArray, y: IntArray) -> tuple[IntArray, IntArray]:
        """Return all pairs of an entry of x with one of y, as two arrays."""
        return np.repeat(x, y.size), np.tile(y, x.size)

    none = np.zeros((1, n))
    on = [none, _patterns_with(n, alone1), _patterns_with(n, alone2), _patterns_with(n, both)]
    on += [
        _patterns_with(n, *pairs(alone1, alone2)),
        _patterns_with(n, *pairs(both, alone2)),
        _patterns_with(n, *pairs(both, alone1)),
    ]
    chances = [np.array([a0 * b0 * c0]), a1 * b0 * c0, a0 * b1 * c0, a0 * b0 * c1]
    chances += [np.outer(a1, b1).ravel() * c0, np.outer(c1, b1).ravel() * a0, np.outer(c1, a1).ravel() * b0]
    totals, by_w = _sum_patterns(context, units, np.concatenate(on), np.concatenate(chances), True)
    error, slope_error, changes = 0.0, 0.0, np.zeros(CHANGES)
    # One neuron has at most one input on, the other two or more of its own: a sum over its frequencies.
    for turn, (first, second, single, double, s0, s1) in enumerate(
        ((neuron_1, neuron_2, alone1, alone2, a0, a1), (neuron_2, neuron_1, alone2, alone1, b0, b1))
    ):
        if double.size < 2:
            continue
        order = [0, 1] if turn == 0 else [1, 0]
        part = _one_input_with_many(context, first, second, (w[order[0]], w[order[1]]), either,
                        (single, both, double), (s0, s1, c0, c1))  # fmt: skip
        totals[0] += part[0][0]
        totals[1:3] += part[0][1:3][order]
        totals[3:5] += part[0][3:5][order]
        by_w += part[1][order]
        error, slope_error = error + part[2], slope_error + part[3]
    # Both have two inputs on or more.
    if alone1.size + both.size >= 2 and alone2.size + both.size >= 2:
        of_one = PairSide(neuron_1, alone1, context.pattern_law(either[alone1]), a0, a1, w[0])
        of_two = PairSide(neuron_2, alone2, context.pattern_law(either[alone2]), b0, b1, w[1])
        factors = context.factors(either[both])
        sum_values, by, *further, changes = sum_both_many(
            (of_one, of_two), either, both, factors, c0, c1, slopes
        )
        totals += sum_values
        by_w += by
        error, slope_error = error + further[0], slope_error + further[1]
    return totals, by_w, error, slope_error, changes


def _value_nodes(
    context: NeuronContext, unit: HiddenNeuron, w: float, fast: float
) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes and weights over the value v of an input with weight w in neuron `unit`.

    Panels are split at the neuron's kink, and resolve the oscillation e^{i fast v}. The law of v is that of
    `context`.
    """
    v, weights = [context.atoms[:, 0]], [context.atoms[:, 1]]
    table = context.table
    if table.edges.size:
        low, high = table.panels[0], table.panels[-1]
        step = 12.0 / max(abs(fast), 1e-300)
        breakpoints = [table.panels]
        if w != 0.0:
            breakpoints.append(np.clip([(unit.t - unit.b) / w], low, high))
        edges = np.unique(np.concatenate(breakpoints))
        pieces = [np.linspace(a, c, 1 + int(np.ceil((c - a) / step))) for a, c in pairwise(edges)]
        edges = np.unique(np.concatenate(pieces))
        gauss, rule = table.nodes[20, :20], table.weights[20, :20]
        width = np.diff(edges)[:, None]
        at = (edges[:-1, None] + width * gauss).ravel()
        density = context.law.values.density
        assert density is not None
        v.append(at)
        weights.append((width * rule).ravel() * density(at))
    return np.concatenate(v), np.concatenate(weights)


def _nodes_of_inputs(
    context: NeuronContext, unit: HiddenNeuron, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes and weights, (m, nodes), over the values of inputs of weights w (m, 1), not 0.

    Panels are split at the kink of the neuron `unit`, and at 0, where targets may have a kink. The law of
    values is that of `context`.
    """
    table, atoms = context.table, np.broadcast_to(context.atoms.T[:2, None], (2, w.size, len(context.atoms)))
    if not table.edges.size:
        return atoms[0], atoms[1]
    low, high = table.panels[0], table.panels[-1]
    kinks = np.clip(np.hstack([(unit.t - unit.b) / w, np.zeros(w.shape)]), low, high)
    edges = np.sort(np.hstack([np.broadcast_to(table.panels, (w.size, table.panels.size)), kinks]), axis=1)
    width = np.diff(edges)[:, :, None]
    v = (edges[:, :-1, None] + width * table.nodes[20, :20]).reshape(w.size, -1)
    assert context.law.values.density is not None
    weights = (width * table.weights[20, :20]).reshape(w.size, -1) * context.law.values.density(v)
    return np.hstack([atoms[0], v]), np.hstack([atoms[1], weights])


def _sum_at_most_one_on(
    unit: HiddenNeuron, directions: OtherFeatures, g: FloatArray, start: float
) -> tuple[FloatArray, FloatArray]:
    """Return contributions to means of the neuron `unit` from patterns with at most one weighted input on.

    The first array, (5 + n,), has E h, dE h/db, dE hG/db, -dE hG/dt (the flux), P(z > t), and E h target(x_l)
    for each of the n inputs; b is the neuron's bias, t its threshold, and G = start + sum of g_l target(x_l).
    The second, (n,), has the derivatives of E hG by the inputs' weights. `directions` is the result of
    `with_directions` for the inputs.
    """
    # The mean over a pattern is a product over features; h is averaged over the weighted input that is on.
    context, n = unit.context, g.size
    of_value, of_target = context.law.moment(1), context.mean
    slack = rounding_of_neuron(context, unit.w[unit.inputs], unit.b, unit.t)

    def on(z: FloatArray) -> FloatArray:
        """Return 1 where the neuron is on at pre-activation z, 0 where off, 0.5 at the kink of a ReLU."""
        half = 0.5 * ((np.abs(z) <= slack) & (unit.t == 0.0))
        return np.where(z > unit.t + slack, 1.0, half)

    # Means of 1, target, v and v target, with h, with its step, and at the threshold; without a weight alone.
    means = np.empty((3, 4, n, 1), np.complex128)
    means[..., 0] = np.array([1.0, of_target, of_value, context.cross])[:, None]
    inputs = np.flatnonzero(unit.w[unit.inputs])
    w = unit.w[unit.inputs[inputs]][:, None]
    v, weights = _nodes_of_inputs(context, unit, w)
    z = unit.b + w * v
    step = on(z)
    v_threshold, heights = (unit.t - unit.b) / w, np.zeros(w.shape)
    if unit.t > 0.0 and context.law.values.density is not None:
        inside = (context.table.edges[0] < v_threshold) & (v_threshold < context.table.edges[-1])
        heights[inside] = context.law.values.density(v_threshold[inside])
        heights *= unit.t / np.abs(w)
    at_threshold = _with_target(context, v_threshold, heights)
    means[0, :, inputs, 0] = _with_target(context, v, weights * z * (step == 1.0)).T
    means[1, :, inputs, 0] = (_with_target(context, v, weights * step) + at_threshold).T
    means[2, :, inputs, 0] = at_threshold.T
    low, by_w = np.zeros(5 + n), np.zeros(n)
    step0 = float(on(np.array([unit.b]))[0])
    h0 = unit.b if step0 == 1.0 else 0.0

    def add(n_on: int, at: int, weight: float, weight_slope: float) -> ComplexArray:
        """Add patterns with `n_on` inputs on to `low` and `by_w`; return their sums of 1 and of G."""
        constant, target, value, both = means[at]
        out, axis_sums = np.zeros(n + 2), np.empty((2, 1), np.complex128)
        add_grouped_neuron_means(
            directions, n_on, np.array([weight + 0j]), np.array([weight_slope + 0j]), constant, value, target,
            both, g, start, out, axis_sums, by_w,
        )  # fmt: skip
        low[0] += out[0]
        low[5:] += out[1:-1]
        low[2] += out[-1]
        return axis_sums[:, 0]

    none = add(0, 0, h0, step0)
    add(1, 0, 1.0, 0.0)
    rate, flux = add(1, 1, 0.0, 1.0), add(1, 2, 0.0, 0.0)
    low[1] = step0 * none[0].real + rate[0].real
    low[3], low[4] = flux[1].real, low[1] - flux[0].real
    return low, by_w


def _with_target(context: NeuronContext, v: FloatArray, weights: FloatArray) -> FloatArray:
    """Return weighted sums of 1, f(v), v and v f(v) over each row of the values v, (4, rows).

    `weights` has the shape of v, and f is the targets' function in `context`.
    """
    target = {"identity": v, "relu": np.maximum(v, 0.0), "abs": np.abs(v)}[context.target]
    return np.stack([np.sum(weights * f, axis=1) for f in (1.0, target, v, v * target)])


def _one_input_with_many(
    context: NeuronContext, first: HiddenNeuron, second: HiddenNeuron, w: tuple[FloatArray, FloatArray],
    either: IntArray,
    kinds: tuple[IntArray, IntArray, IntArray], chances: tuple[Any, ...],
) -> tuple[FloatArray, FloatArray, float, float]:  # fmt: skip
    """Return the part of E h_1 h_2 where `first` has at most one input on, and `second` two or more.

    The two or more are inputs of `second` alone. The tuple is value, derivatives by both biases and minus
    those by both thresholds, (5,); derivatives by weights (2, n); error of the value; error of the
    derivatives; `first` comes before `second` in each array. w are the weights of both for the features
    `either`, whose law is in `context`. `kinds` are indices into `either`: the inputs of `first` alone, of
    both, of `second` alone. `chances` are the probability that no input of `first` alone is on, those that
    each is the only one of these, and the same two for the inputs of both.
    """
    single, both, double = kinds
    s0, s1, c0, c1 = chances
    w1, w2 = w
    of_double, others = np.searchsorted(second.inputs, either[double]), context.pattern_law(either[double])

    def on(z: FloatArray) -> FloatArray:
        """Return 1 where `first` is on at pre-activation z, 0 where off, 0.5 at the kink of a ReLU."""
        return np.where(z > first.t, 1.0, np.where((z == first.t) & (first.t == 0.0), 0.5, 0.0))

    start = np.array([first.b])
    step0 = float(on(start)[0])
    act0 = first.b if step0 > 0.0 else 0.0

    def fluxes(j: int, s: FloatArray | None) -> ComplexArray:
        """Return the flux of `first` through input j, then that times the input's value, (2, s.size).

        At v0 the input brings `first` to its threshold t: the flux is t p(v0) e^{i s w_2j v0}/|w_1j|, p being
        the density of v. `s` are frequencies of `second`, None for 0 alone.
        """
        table = context.table
        v0 = (first.t - first.b) / w1[j] if w1[j] != 0.0 else np.inf
        if first.t == 0.0 or not table.edges.size or not table.edges[0] < v0 < table.edges[-1]:
            return np.zeros((2, 1 if s is None else s.size), np.complex128)
        assert context.law.values.density is not None
        height = float(context.law.values.density(np.array([v0]))[0]) * first.t / abs(w1[j])
        wave = np.ones(1, np.complex128) if s is None else np.exp(1j * s * w2[j] * v0)
        return np.stack([height * wave, height * v0 * wave])

    # What `first` makes of one of its own, by itself: activation, its step, and both times the value.
    alone = np.zeros((single.size, 4))
    own_flux = np.zeros((single.size, 2))
    for at, j in enumerate(single):
        v, weights = _value_nodes(context, first, w1[j], 0.0)
        z = first.b + w1[j] * v
        step = on(z)
        z = z * (step > 0.0)
        alone[at] = weights @ z, weights @ step, weights @ (v * z), weights @ (v * step)
        own_flux[at] = fluxes(int(j), None)[:, 0].real
    base = s0 * c0 * np.array([act0, step0]) + c0 * (s1 @ alone[:, :2] if single.size else np.zeros(2))
    base_flux = c0 * float(s1 @ own_flux[:, 0]) if single.size else 0.0

    sums, by_w = np.zeros(5), np.zeros((2, either.size))
    error = slope_error = 0.0
    count, previous, now = 32, np.full(5, np.inf), np.full(5, np.inf)
    scale = first.rms * second.rms
    while True:
        s, phi = second.frequencies(count)
        twice = _frequency_taper(count)
        weight = second.activation_coefficients(s) * twice
        rest = unit_products(others, 2, phi[0, of_double])
        # Means over the value of an input of both.
        waves = np.zeros((both.size, 4, s.size), np.complex128)
        flux_waves = np.zeros((both.size, 2, s.size), np.complex128)
        for at, j in enumerate(both):
            v, weights = _value_nodes(context, first, w1[j], float(w2[j] * s[-1]))
            z = first.b + w1[j] * v
            step = on(z)
            z = z * (step > 0.0)
            wave = np.exp(np.outer(v, 1j * s * w2[j]))
            waves[at] = np.stack([weights * z, weights * step, weights * v * z, weights * v * step]) @ wave
            flux_waves[at] = fluxes(int(j), s)
        inner = base[:, None] + s0 * np.einsum("c,cks->ks", c1, waves[:, :2])
        inner_flux = base_flux + s0 * np.einsum("c,cs->s", c1, flux_waves[:, 0])
        terms = weight * rest
        sums[0] = np.sum(terms * inner[0]).real
        sums[1] = np.sum(terms * (inner[1] + inner_flux)).real
        sums[2] = np.sum(terms * 1j * s * inner[0]).real
        sums[3] = np.sum(terms * inner_flux).real
        sums[4] = np.sum(second.delta_coefficients(s) * twice * rest * inner[0]).real
        last, change = now, np.abs(sums - previous)
        now = change.copy()
        change = np.maximum(change, last / _FALL)
        if change[0] <= context.tol * scale or count >= MOST:
            break
        previous, count = sums.copy(), 2 * count
    slope = np.empty((double.size, s.size), np.complex128)
    unit_products(others, 2, phi[0, of_double], slope)
    slope *= phi[1, of_double]
    by_w[0, double] = np.sum((weight * (inner[1] + inner_flux) * slope).real, axis=1)
    by_w[1, double] = np.sum((weight * 1j * s * inner[0] * slope).real, axis=1)
    real_sum, slope_sum = np.sum(terms).real, np.sum(terms * 1j * s).real
    if single.size:
        by_w[0, single] = c0 * s1 * (alone[:, 3] + own_flux[:, 1]) * real_sum
        by_w[1, single] = c0 * s1 * alone[:, 2] * slope_sum
    for at, j in enumerate(both):
        by_w[0, j] = s0 * c1[at] * np.sum(terms * (waves[at, 3] + flux_waves[at, 1])).real
        by_w[1, j] = s0 * c1[at] * np.sum(terms * 1j * s * waves[at, 2]).real
    rounding = second.rounding(weight) * float(np.abs(inner).max(initial=0.0))
    error = SAFE * float(change[0]) + rounding + second.reach[2] * first.size + 2.0**-44 * scale
    if second.t > 0.0:
        error += second.t * first.size * second.jump_error(count) ** _HOELDER
    slope_error = 4.0 * SAFE * float(change.max()) + 2.0**-42 * (first.rms + second.rms)
    slope_error += rounding * (1.0 + float(s[-1])) + second.reach[2] * (1.0 + np.pi / second.reach[1])
    return sums, by_w, error, slope_error


@dataclass
class UnitMeans:
    """Means of one neuron h with g = g_0 + sum of g_l target(x_l), a linear function of the targets.

    `by_w` (n,) are the derivatives of E h g by the weights, `flux` is minus the one by the threshold.
    """

    mean: float
    """E h."""
    on: float
    """Derivative of `mean` by the bias; without a threshold P(z > 0) + P(z = 0) / 2."""
    by_targets: FloatArray
    """(n,): E h target(x_l)."""
    by_b: float
    """Derivative of E h g by the bias."""
    flux: float
    by_w: FloatArray
    error: float
    """Largest error of `mean` and `by_targets`."""
    target_errors: FloatArray
    """(n,): errors of `by_targets`, most of them far below the largest."""
    slope_error: float
    active: float
    """P(z > t)."""
    active_error: float
    method: str


def unit_means(
    unit: HiddenNeuron, g0: float, g: FloatArray, share: float = 1.0, by_weights: bool = True
) -> UnitMeans:
    """Return the `UnitMeans` of a neuron h: E h, E h target(x_l), derivatives of E h g by weights and bias.

    The neuron h is `unit`, and g = g0 + sum of g_l target(x_l). The error aimed at is `share` times `FINER`
    times the tolerance. Derivatives by weights may be nan unless `by_weights`: sums over frequencies take a
    third less time without them.
    """
    context, law = unit.context, unit.context.law
    n, inputs, p = law.n, unit.inputs, unit.p
    others = _complement(n, inputs)
    target_means = law.p * context.mean
    start = g0 + float(g[others] @ target_means[others])
    exact = context.is_exact(inputs, targets=True)
    listed = on_moments(unit, False) if context.law.values.discrete and not exact else None
    if listed is not None:
        return _unit_means_from_moments(unit, g0, g, *listed)
    error, slope_error, active_error = context.precision * unit.rms, 0.0, context.precision
    changes = np.zeros(inputs.size + 3)  # of E h, E h target(x_l), a derivative and P(z > t), as last seen
    is_group_sum = not exact and context.dependent is not None
    if is_group_sum:
        directions = context.directions(inputs, unit.w[inputs] != 0.0)
        low, slopes = _sum_at_most_one_on(unit, directions, g[inputs], start)
        mean, targets, rate, by_b, flux, active = low[0], low[5:], *low[1:5]
        slope_error = context.slope_precision * (4.0 * unit.rms + float(np.abs(low).sum()))
    else:
        if exact:
            on, chances = _all_patterns(context, inputs)
        else:
            none, ones = _p_none_and_one(p)
            on = np.concatenate([np.zeros((1, inputs.size)), np.eye(inputs.size)])
            chances = np.r_[none, ones]

        def with_linear(w2: FloatArray, b2: float) -> tuple[FloatArray, FloatArray]:
            """Return means over patterns of h l, l the linear function of targets of weights w2 and bias b2.

            The first array, (5,), has E h l, derivatives by both biases, and minus the derivatives by both
            thresholds; the second, (2, inputs), has the derivatives by the weights of both.
            """
            units = (
                np.ascontiguousarray(np.stack([unit.w[inputs], w2])),
                np.array([unit.b, b2]),
                np.array([unit.t, 0.0]),
            )
            return _sum_patterns(context, units, on, chances, False)

        mean_sums, by = with_linear(g[inputs], start)
        linear_mean, _ = with_linear(np.zeros(inputs.size), 1.0)
        mean, rate, targets, slopes = mean_sums[2], linear_mean[1], by[1].copy(), by[0].copy()
        by_b, flux = mean_sums[1], mean_sums[3]
        slope_error = _slope_rounding(context, unit.rms + 1.0, linear_mean, by)
        active = linear_mean[1] - linear_mean[3]
    if not exact:
        count, previous, last = 64, np.full(inputs.size + 3, np.inf), np.full(inputs.size + 3, np.inf)
        of_inputs = np.ascontiguousarray(g[inputs])

        def sums(of_w: bool) -> tuple[FloatArray, ComplexArray, FloatArray]:
            """Return sums over frequencies where two or more inputs are on: three arrays.

            They are E h, E h target(x_l) and the derivative by the bias of E h G, (inputs + 2,);
            E e^{i s w x} and E G e^{i s w x} at each frequency s, (2, count + 1); and the derivatives of
            E h G by the weights, (inputs,), 0 unless `of_w`. G is start + sum of g_l target(x_l).
            """
            of_value, of_slope = np.ascontiguousarray(phi[0]), np.ascontiguousarray(phi[1])
            of_target, of_target_slope = map(np.ascontiguousarray, _target_transforms(context, unit, s, phi))
            out, slope_sums, by = (
                np.zeros(inputs.size + 2),
                np.empty((2, count + 1), np.complex128),
                np.zeros(inputs.size),
            )
            law_of_inputs: Any = (directions, 2) if is_group_sum else (p, none, ones)
            add: Callable[..., None] = add_grouped_neuron_means if is_group_sum else add_neuron_means
            add(
                *law_of_inputs, weight, weight_slope, of_value, of_slope, of_target, of_target_slope,
                of_inputs, start, out, slope_sums, by if of_w else None,
            )  # fmt: skip
            return out, slope_sums, by

        while True:
            if unit.series is not None:
                s, phi, weight, weight_slope, steps, _ = unit.series
                count, flux_of = s.size - 1, np.zeros(s.size, np.complex128)
            else:
                (s, phi), tapered = unit.frequencies(count), _frequency_taper(count)
                # A step at an atom is to rise without overshooting: then what is off has a bound.
                steps = unit.step_coefficients(s) * (gaussian_taper(count) if context.atoms.size else tapered)
                ramp = unit.ramp_coefficients(s) * tapered
                weight, weight_slope = (
                    ramp + unit.t * steps,
                    1j * s * (ramp + unit.t * unit.step_coefficients(s) * tapered),
                )
                flux_of = unit.delta_coefficients(s) * tapered
            now, slope_sums, _ = sums(False)
            now = np.r_[now, np.sum(steps * slope_sums[0]).real]
            step = np.abs(now - previous)
            if unit.series is not None:
                break
            changes, last = np.maximum(step, last / _FALL), step
            if changes[:-2].max() <= share * FINER * context.tol * unit.rms or count >= MOST:
                break
            previous, count = now, 2 * count
        slopes += sums(True)[2] if by_weights else np.nan
        mean += now[0]
        targets += now[1:-2]
        by_b += now[-2]
        rate += np.sum(weight_slope * slope_sums[0]).real
        flux += np.sum(flux_of * slope_sums[1]).real
        active += now[-1]
        rounding, beyond, jump = unit.rounding(weight), unit.reach[2], 0.0
        if unit.series is not None:
            rounding, beyond = unit.series.rounding * float(np.abs(weight).sum()), 0.0
            active_error = unit.series.rounding * float(np.abs(steps).sum())
        else:
            jump = unit.jump_error(count)
            active_error = SAFE * float(changes[-1]) + unit.chance_beyond + unit.rounding(steps) + 2.0**-44
        error += unit.t * jump
        error += beyond + rounding + 2.0**-44 * unit.rms
        slope_error += 4.0 * SAFE * float(changes[:-1].max()) + beyond * (1.0 + np.pi / unit.reach[1])
        slope_error += rounding * (1.0 + float(s[-1])) + 2.0**-42
        active_error += jump
    active, active_error = _without_kink(unit, active, active_error)
    by_targets, by_w = mean * target_means, np.zeros(n)
    by_targets[inputs] = targets
    target_errors = (error + SAFE * changes[0]) * np.abs(target_means)
    target_errors[inputs] = error + SAFE * changes[1:-2]
    error += SAFE * float(changes[:-2].max())
    by_w[inputs] = slopes
    by_w[others] = law.mean[others] * by_b + _covariances(context, others, g) * rate
    method = "pair_exact" if exact else "pair_fourier"
    return UnitMeans(
        mean, rate, by_targets, by_b, flux, by_w, error, target_errors, slope_error, active, active_error,
        method,
    )  # fmt: skip


def _without_kink(unit: HiddenNeuron, active: float, error: float) -> tuple[float, float]:
    """Return P(z > t) of the neuron `unit` and its error; `active` also has half of P(z = 0) at a kink.

    `error` is that of `active`. There is a kink for t = 0 alone. If values have a density, z is 0 only where
    the bias is 0, up to rounding, and no feature with a weight is on. If they are atoms, the probability is
    that of a neuron with bias and threshold raised by the same amount, which has no kink.
    """
    context = unit.context
    if unit.t > 0.0:
        return active, error
    if context.atoms.size:
        shift = float(np.abs(unit.w).max(initial=0.0)) or 1.0
        above = HiddenNeuron(context, unit.w, unit.b + shift, shift)
        means = unit_means(above, 0.0, np.zeros(context.law.n))
        return means.active, means.active_error
    if abs(unit.b) > rounding_of_neuron(context, unit.w[unit.inputs], unit.b, unit.t):
        return active, error
    weighted = np.flatnonzero(unit.w)
    none = context.none_and_ones(weighted)[0] if weighted.size else 1.0
    return active - 0.5 * none, error


def _unit_means_from_moments(
    unit: HiddenNeuron, g0: float, g: FloatArray, on: FloatArray, kink: FloatArray
) -> UnitMeans:
    """Return the `UnitMeans` of a neuron with g0 + sum of g_l target(x_l), from the matrices of `on_moments`.

    They are means of 1(z > t) u u' for u = (1, inputs) of `unit`: `on` is for means; `kink`, which counts
    half at the kink of a ReLU, for derivatives.
    """
    context, law, inputs = unit.context, unit.context.law, unit.inputs
    others = _complement(law.n, inputs)
    target_means = law.p * context.mean
    coefficients = np.r_[unit.b, unit.w[inputs]]
    of_h = coefficients @ on
    start = g0 + float(g[others] @ target_means[others])
    of_g = np.r_[start, g[inputs]] @ kink
    mean, by_b = float(of_h[0]), float(of_g[0])
    by_targets, by_w = mean * target_means, law.mean * by_b
    by_targets[inputs], by_w[inputs] = of_h[1:], of_g[1:]
    by_w[others] += _covariances(context, others, g) * kink[0, 0]
    error, flat = (
        2.0**-46 * unit.terms,
        2.0**-46 * (abs(start) + float(np.abs(g[inputs]) @ law.p[inputs]) + 1.0),
    )
    return UnitMeans(
        mean, float(kink[0, 0]), by_targets, by_b, 0.0, by_w, error, np.full(law.n, error), flat,
        float(on[0, 0]), 2.0**-46, "sums of atoms",
    )  # fmt: skip


def _covariances(context: NeuronContext, others: IntArray, g: FloatArray) -> FloatArray:
    """Return the covariances of the features `others` with the sum of g_l target(x_l) over all features.

    `others` are independent of a neuron; `context` has the law of the features.
    """
    law = context.law
    p, first = law.p[others], law.moment(1)
    covariances = g[others] * (p * context.cross - p**2 * first * context.mean)
    if context.dependent is not None and others.size:
        joint = law.features.pair_probability()[np.ix_(others, others)] - np.outer(p, p)
        np.fill_diagonal(joint, 0.0)
        covariances += first * context.mean * (joint @ g[others])
    return covariances


def _target_transforms(
    context: NeuronContext, unit: HiddenNeuron, s: FloatArray, phi: ComplexArray
) -> tuple[ComplexArray, ComplexArray]:
    """Return (E target(v) e^{zv}, its derivative by z) at z = i s w, (inputs, s.size) each.

    w are the weights of the inputs of `unit`, phi their transforms E v^r e^{zv}; the target is that of
    `context`.
    """
    if context.half is None:
        return phi[1], phi[2]
    y = np.outer(unit.w[unit.inputs], s)
    up = characteristic_function(context.half, float(np.abs(y).max(initial=0.0))).at(context.half, y)
    if context.target == "relu":
        return 0.5 * up[1], 0.5 * up[2]
    down = up.conj()
    return 0.5 * (up[1] + down[1]), 0.5 * (up[2] - down[2])
