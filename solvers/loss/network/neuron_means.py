"""Means of hidden neurons, of their products with each other and with targets, and their derivatives."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Any, cast

import numpy as np
from scipy.special import erfc

from ....theory.features.values.law import Values
from ....theory.features.values.parts import all_transforms
from ....theory.validation import ComplexArray, FloatArray, IntArray
from ..methods.outputs import Law
from .density_table import SMOOTH, Table, table_of
from .halves import merged_product, on_moments, pair_product, rounding_of_neuron
from .jumps import Series, gaussian_taper, lattice_series, mass_at_threshold
from .nonzero import nonzero_features
from .pair_exact import by_patterns
from .pair_fourier import CHANGES, FIRST, KEPT, Side, both_on_twice, nodes
from .pair_fourier_kernels import TABLE, TAPERS, add_line, cut, waves_of

__all__ = ["HiddenNeuron", "Means", "NeuronContext", "pair_means", "unit_means"]


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
FEW = {True: 5, False: 4}
FEW_TARGETS = {True: 4, False: 3}
FEW_NORMAL = 12
FEW_ATOMS = 7
PATTERNS = 2**14  # of features that are not independent


@dataclass(frozen=True)
class NeuronContext:
    """The law, its table, and what targets hear of a value."""

    law: Law
    table: Table
    spans: FloatArray
    """For products of neurons."""
    atoms: FloatArray
    target_spans: FloatArray
    target_atoms: FloatArray
    target: str
    """"identity", "relu" or "abs" of the features."""
    mean: float
    """Mean of the target of a feature that is on."""
    cross: float
    """Mean of its product with the value."""
    square: float
    half: Values | None
    """The law of the size of the values, if they have both signs."""
    tol: float
    most: float
    """Frequencies times features, for a pair."""
    patterns: tuple[FloatArray, FloatArray] | None
    """Of features that are not independent: which are on (r, n), and the probabilities (r,)."""

    @classmethod
    def of(cls, law: Law, target: str, tol: float, most: float, bends: bool = True) -> "NeuronContext":
        """Return the setting of a law; `target` is what is to be made of single features."""
        law = nonzero(law) if bends else law
        patterns = None if law.independent or not bends else patterns_of(law)
        values = law.values
        table = table_of(values)
        low, _ = values.support
        ends = (table.edges[0], table.edges[-1]) if table.edges.size else (0.0, 0.0)
        spans = np.array([[*ends, 1.0]]) if table.edges.size else np.empty((0, 3))
        atoms = np.array([[v, chance, 1.0] for v, chance in values.atoms], float).reshape(-1, 3)
        half: Values | None = None
        target_spans, target_atoms = spans, atoms
        mean, cross, square = (float(values.moment(k)) for k in (1, 2, 2))
        if target != "identity" and low < 0.0:
            half = _half(values)
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
            most, patterns,
        )  # fmt: skip

    def with_identity(self) -> "NeuronContext":
        """Return the same where targets are the features."""
        values = self.law.values
        mean, square = float(values.moment(1)), float(values.moment(2))
        return replace(
            self, target_spans=self.spans, target_atoms=self.atoms, target="identity", mean=mean,
            cross=square, square=square, half=None,
        )  # fmt: skip

    @property
    def precision(self) -> float:
        """Error of exact integrals in units of the neurons' sizes; of smooth densities by Gauss points."""
        return 2.0**-42 if self.table.degree < 0 else 2.0**-46

    def exact(self, heard: int, targets: bool) -> bool:
        """Whether means over so many features are exact integrals, not sums over frequencies."""
        split = targets and self.target_spans.shape[0] > 1
        normal = self.law.values == "normal" and not split
        most = FEW_ATOMS if self.law.values.discrete else FEW_NORMAL if normal else 0
        if self.patterns is not None or heard <= most:
            return True
        smooth = self.table.degree >= 0 and not split
        return heard <= (FEW_TARGETS if targets else FEW)[smooth]


def nonzero(law: Law) -> Law:
    """Return the same law of x where a feature that is on is never 0."""
    if "nonzero" not in law.kept:
        features = nonzero_features(law.features)
        law.kept["nonzero"] = law if features is law.features else Law(features)
    return cast(Law, law.kept["nonzero"])


def patterns_of(law: Law) -> tuple[FloatArray, FloatArray]:
    """Return which features are on, (r, n), and the probabilities (r,), of features that are not independent.

    Groups join one after the other; patterns that cannot reach `exactly` are left out on the way.
    """
    if "patterns" in law.kept:
        return cast(tuple[FloatArray, FloatArray], law.kept["patterns"])
    features, wanted = law.features, law.features.exactly
    most = law.n if law.values.discrete or law.values == "normal" else FEW[bool(law.values.pieces)]
    on, chances = np.zeros((1, law.n)), np.ones(1)
    left = sum(int(block.patterns.sum(axis=1).max()) for block in features.blocks)
    for block in features.blocks:
        kept = block.weights > 0.0
        table, shares = np.asarray(block.patterns, float)[kept], block.weights[kept]
        left -= int(np.asarray(block.patterns).sum(axis=1).max())
        on = np.repeat(on, shares.size, axis=0)
        on[:, block.members] = np.tile(table, (chances.size, 1))
        chances = np.outer(chances, shares).ravel()
        if wanted is not None:
            count = on.sum(axis=1)
            possible = (count <= wanted) & (count + left >= wanted)
            on, chances = on[possible], chances[possible]
        if chances.size > PATTERNS:
            rule = f"at most {PATTERNS:,} patterns where features are not independent and hidden neurons bend"
            raise ValueError(f"`law` must have {rule}; got more, of {law.n} features.")
    highest = int(on.sum(axis=1).max())
    if highest > most:
        rule = f"at most {most} features on at once where they are not independent, for {law.values!r} values"
        raise ValueError(f"`law` must have {rule}; got {highest}.")
    law.kept["patterns"] = on, chances / chances.sum()
    return cast(tuple[FloatArray, FloatArray], law.kept["patterns"])


def _half(values: Values) -> Values:
    """Return the law of |v| of values that are as likely as their negatives."""
    from ....theory.features.values import law_named

    known = {"symmetric": "uniform", "normal": "half-normal"}
    if str(values) not in known:
        raise ValueError(f"`target` must be 'identity' for {values!r} values; their sizes have no known law.")
    return law_named("values", known[str(values)])


def _taper(count: int) -> FloatArray:
    """Return weights of 0, 1, and of odd frequencies, that fall smoothly from 2 to 0.

    What is cut off then matters less than at a sharp edge.

    They blur an activation over a period/count, to all orders: its mean changes by what is not smooth there.
    """
    x = (np.arange(1, count + 1) / count - 0.2) / 0.8
    return np.asarray(np.r_[1.0, erfc(4.0 * (2.0 * x - 1.0))], np.float64)


def _others(n: int, some: IntArray) -> IntArray:
    """Return the indices below n that are not among some; quicker than NumPy's of sets, on few."""
    left = np.full(n, True)
    left[some] = False
    return np.flatnonzero(left)


def _none_and_one(p: FloatArray) -> tuple[float, FloatArray]:
    """Return the probabilities that no feature is on, and that each one alone is."""
    off = 1.0 - p
    before, after = np.cumprod(np.r_[1.0, off]), np.cumprod(np.r_[1.0, off[::-1]])[::-1]
    return float(before[-1]), p * before[:-1] * after[1:]


def _rms(law: Law, w: FloatArray, b: float) -> float:
    """Return the root of the mean square of w x + b."""
    mean = float(w @ law.mean)
    if not law.independent:
        return float(np.sqrt(max(float(w @ law.pairs @ w) + b * (2.0 * mean + b), 0.0)))
    spread = float(w**2 @ (law.square - law.mean**2))
    return float(np.sqrt((mean + b) ** 2 + max(spread, 0.0)))


class HiddenNeuron:
    """A hidden neuron z 1(z > t), z = w x + b, in units of the values, with its lattice of frequencies."""

    def __init__(self, setting: NeuronContext, w: FloatArray, b: float, t: float):
        self.setting, self.w, self.b, self.t = setting, np.ascontiguousarray(w), float(b), float(t)
        self.heard = np.flatnonzero(w) if setting.law.independent else np.arange(w.size)
        self.p = setting.law.p[self.heard]
        self.rms = _rms(setting.law, w, self.b)
        self._reach: tuple[float, float, float] | None = None
        self._turned = np.empty((self.heard.size, 0), np.complex128)
        self._size = np.inf
        self.chance_beyond = 0.0  # a bound of the probability that z is beyond the reach
        self._s, self._phi = np.empty(0), np.empty((3, self.heard.size, 0), np.complex128)
        self._ends: dict[int, FloatArray] = {}
        self._mass: dict[int, float] = {}

    @cached_property
    def terms(self) -> float:
        """The size that the terms of z have, on the average: what its rounding is in units of."""
        size, rms = np.abs(self.w[self.heard]), float(self.setting.law.values.moment(2)) ** 0.5
        return float(abs(self.b) + self.t + rms * (size @ self.p + np.sqrt(size**2 @ self.p)))

    @cached_property
    def series(self) -> Series | None:
        """A finite series that is exact, where values are atoms and pre-activations lie on a lattice."""
        return lattice_series(self) if self.setting.law.values.discrete else None

    def jump_error(self, count: int) -> float:
        """Return what P(z > t) may be off by from so many frequencies, but for what these leave out.

        It is the probability of what is near the threshold, where values have atoms; densities have none
        there.
        """
        if not self.setting.atoms.size:
            return 0.0
        if count not in self._mass:
            self._mass[count] = mass_at_threshold(self, count)
        return self._mass[count]

    @property
    def reach(self) -> tuple[float, float, float]:
        """What z - t rises to, the half period of the lattice, and what the neuron is off by beyond."""
        if self._reach is None:
            (up, over, high, far), (down, under, low, back) = self._within(1.0), self._within(-1.0)
            self._size, self.chance_beyond = high + low + abs(self.b) + self.t, far + back
            high, low = max(self.b - self.t + up, 0.0), max(self.t - self.b + down, 0.0)
            least = max(0.05 * (high + low), 1e-250)
            high, low = 1.02 * max(high, least), 1.02 * max(low, least)
            self._reach = high, high + low, over + under
        return self._reach

    @property
    def size(self) -> float:
        """A bound of the neuron's norm of exponent 8, which is found with its reach."""
        _ = self.reach
        return self._size

    def reach_of(self, other: "HiddenNeuron") -> None:
        """Take over what is known of the same neuron."""
        self._reach, self._size, self.chance_beyond = other.reach, other.size, other.chance_beyond
        self._s, self._phi = other._s, other._phi

    def turned(self, turn: float, count: int) -> ComplexArray:
        """Return e^{i turn s w} of the features heard, (n, 1 + count), by frequency."""
        if self._turned.shape[1] < count + 1:
            s, _ = self.frequencies(count)
            found: ComplexArray = np.exp(1j * turn * np.outer(self.w[self.heard], s))
            if count > KEPT:
                return found
            self._turned = found
        return self._turned[:, : count + 1]

    def _log_mean(self, theta: float) -> float:
        """Return log E e^{theta (w x)}."""
        x = theta * self.w[self.heard]
        values = self.setting.law.values
        if np.any(x >= 0.95 * values.pole):
            return np.inf
        out = np.empty((3, x.size), np.complex128)
        with np.errstate(all="ignore"):
            all_transforms(values.parts.transform, x.astype(np.complex128), out)
            found = float(np.sum(np.log1p(self.p * (out[0].real - 1.0))))
        return found if np.isfinite(found) else np.inf

    def _within(self, side: float) -> tuple[float, float, float, float]:
        r"""Return how far w x reaches to a side, what the neuron is off by beyond, w x, and the chance of it.

        The two in the middle in the norms of exponents q = 8/7 and 8, for Hoelder's inequality. By
        Chernoff's bound E (w x - T)_+^q is at most
        :math:`(q/(e \theta))^q e^{-\theta T} E e^{\theta w x}`; within the next half period the periodic
        function is off by at most twice that, and by the threshold.
        """
        law, w, q = self.setting.law, self.w[self.heard], 8.0 / 7.0
        low, high = law.values.support
        best, error, size, chance = np.inf, 0.0, np.inf, 0.0
        if np.isfinite([low, high]).all():
            best = size = float(np.sum(np.maximum(np.maximum(side * w * low, side * w * high), 0.0)))
        aim = TAIL * self.setting.tol * max(self.rms, 1e-250)
        unit = float(np.sqrt(np.sum(w**2 * law.square[self.heard])))
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

    def frequencies(self, count: int) -> tuple[FloatArray, ComplexArray]:
        """Return 0 and so many odd frequencies, and E v^r e^{isv} at s w of features, (3, n, 1 + count)."""
        if self._s.size < count + 1:
            known = self._s.size
            s = np.r_[0.0, np.pi / self.reach[1] * np.arange(1.0, 2.0 * count, 2.0)]
            y, values = np.outer(self.w[self.heard], s[known:]), self.setting.law.values
            new = waves_of(values, float(np.abs(y).max(initial=0.0))).at(values, y)
            phi = np.concatenate([self._phi, new], axis=2)
            if count > KEPT:  # many neurons would fill the memory
                return s, phi
            self._s, self._phi = s, phi
        return self._s[: count + 1], self._phi[:, :, : count + 1]

    def _coefficients(self, s: FloatArray, at_zero: float, others: ComplexArray) -> ComplexArray:
        return np.asarray(np.r_[at_zero, np.exp(1j * s[1:] * (self.b - self.t)) * others], np.complex128)

    def weight(self, s: FloatArray) -> ComplexArray:
        """Return the activation's coefficients, with the bias, at 0 and odd frequencies."""
        return self.ramp(s) + self.t * self.step(s)

    def ramp(self, s: FloatArray) -> ComplexArray:
        """Return those of (z - t) 1(z > t)."""
        rise, half, _ = self.reach
        w = s[1:]
        return self._coefficients(s, 0.5 * rise, -(1.0 - np.exp(-1j * w * rise)) / (half * w * w))

    def step(self, s: FloatArray) -> ComplexArray:
        """Return those of 1(z > t)."""
        return self._coefficients(s, 0.5, np.asarray(1.0 / (1j * self.reach[1] * s[1:]), np.complex128))

    def rounding(self, weight: ComplexArray) -> float:
        """Return what rounding adds to a sum with such weights."""
        one = TABLE * float(self.p.sum()) if self.setting.law.values.sides < 0 else 0.0
        return (2.0**-50 + one) * float(np.abs(weight).sum())

    def ends(self, count: int) -> FloatArray:
        """Return how much the neuron's mean, over its size, changes where the sum ends earlier and earlier.

        That is the mean where two features or more are on, from so many frequencies.
        """
        if count not in self._ends:
            s, phi = self.frequencies(count)
            none, ones = _none_and_one(self.p)
            rest = np.prod(1.0 - self.p[:, None] * (1.0 - phi[0]), axis=0) - none - ones @ phi[0]
            sums = cut((self.weight(s) * np.where(s > 0.0, 2.0, 1.0) * rest).real, TAPERS)
            self._ends[count] = np.abs(sums[0] - sums[1:]) / max(self.rms, 1e-250)
        return self._ends[count]

    def flux(self, s: FloatArray) -> ComplexArray:
        """Return those of the threshold times a delta function at it."""
        return self._coefficients(s, 0.0, np.full(s.size - 1, self.t / self.reach[1] + 0j))


@dataclass
class Means:
    """A mean of a product, what it is off by, and its derivatives; `flux` is minus that by the threshold."""

    value: float
    error: float
    by_b: FloatArray
    flux: FloatArray
    by_w: FloatArray
    slope_error: float
    method: str
    changes: FloatArray
    """What sums are off by that are cut off, with sign, by several estimates; not in `error`."""

    @property
    def off(self) -> float:
        """What the value is off by."""
        return self.error + float(np.abs(self.changes).max())


def _rounding(setting: NeuronContext, rms: float, found: FloatArray, by_w: FloatArray) -> float:
    """Return what derivatives from exact integrals are off by."""
    size = np.abs(found[1:]).sum() + np.abs(by_w).max(initial=0.0)
    return setting.precision * float(4.0 * rms + size)


def _patterns(
    setting: NeuronContext,
    units: tuple[FloatArray, FloatArray, FloatArray],
    on: FloatArray,
    chances: FloatArray,
    bends: bool,
    quiet: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    w, b, t = units
    found, by_w = np.zeros((1, 5)), np.zeros(w.shape)
    spans, atoms = (setting.spans, setting.atoms) if bends else (setting.target_spans, setting.target_atoms)
    spherical = setting.law.values == "normal" and spans.shape[0] == 1
    slack = np.array([rounding_of_neuron(setting, w[k], b[k], t[k]) for k in range(2)])
    by_patterns(
        setting.table, spans, atoms, np.ascontiguousarray(on, float), np.ascontiguousarray(chances), w, b, t,
        slack, bends, quiet, spherical, found, by_w,
    )  # fmt: skip
    return found[0], by_w


def _all_patterns(setting: NeuronContext, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return which features may be on, and the probabilities."""
    if setting.patterns is not None:
        return setting.patterns
    n = p.size
    on = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)
    chances = np.prod(np.where(on > 0.0, p, 1.0 - p), axis=1)
    return on[chances > 0.0], chances[chances > 0.0]


def _sets(count: int, *which: Any) -> FloatArray:
    """Return patterns of `count` features with the given ones on, a row for each."""
    on = np.zeros((which[0].size, count))
    for one in which:
        on[np.arange(one.size), one] = 1.0
    return on


def pair_means(one: HiddenNeuron, two: HiddenNeuron, slopes: bool) -> Means:
    """Return E h_1 h_2 of two neurons, with derivatives by their weights (2, n) and biases."""
    setting, law = one.setting, one.setting.law
    n = law.n
    if one is two and not setting.exact(one.heard.size, targets=False):
        return _second_moment(one)
    either = np.union1d(one.heard, two.heard)
    w = np.ascontiguousarray(np.stack([one.w[either], two.w[either]]))
    b, t, p = np.array([one.b, two.b]), np.array([one.t, two.t]), law.p[either]
    loud = np.full(either.size, np.nan)
    scale = one.rms * two.rms
    by_w, read = np.zeros((2, n)), np.any(w != 0.0, axis=0)
    if setting.exact(either.size, targets=False):
        method, error, slope_error, changes = "boxes", 0.0, 0.0, np.zeros(CHANGES)
        on, chances = _all_patterns(setting, p)
        if not slopes:  # features that are not independent and that neither hears matter for slopes alone
            either, on, w, loud = either[read], on[:, read], np.ascontiguousarray(w[:, read]), loud[read]
        found, by = _patterns(setting, (w, b, t), on, chances, True, loud)
    else:
        method, found, by, error, slope_error, changes = _of_many(
            setting, one, two, either, (w, b, t), slopes
        )
    by_w[:, either] = by
    error += setting.precision * scale
    slope_error += _rounding(setting, one.rms + two.rms, found, by)
    rest = _others(n, either)
    by_w[:, rest] = found[1:3, None] * law.mean[rest]
    return Means(
        float(found[0]), float(error), found[1:3], found[3:5], by_w, float(slope_error), method, changes
    )


def _of_many(
    setting: NeuronContext, one: HiddenNeuron, two: HiddenNeuron, either: IntArray,
    units: tuple[FloatArray, FloatArray, FloatArray], slopes: bool,
) -> tuple[str, FloatArray, FloatArray, float, float, FloatArray]:  # fmt: skip
    """Return method, means, derivatives, errors of both, and changes: sums of atoms, or over frequencies."""
    w = units[0]
    rounding = 2.0**-46 * one.terms * two.terms
    if setting.law.values.discrete:
        listed = pair_product(setting, one, two, either, w, slopes)
        if listed is not None:
            found = np.r_[listed[0], 0.0, 0.0]
            return "sums of atoms", found, listed[1], rounding, 0.0, np.zeros(CHANGES)
        merged = None if slopes else merged_product(setting, one, two, either, w)
        if merged is not None:
            found = np.r_[merged[0], np.zeros(4)]
            return "sums of atoms", found, np.zeros(w.shape), rounding + merged[1], 0.0, np.zeros(CHANGES)
    return "lattice of pairs", *_by_lattice(setting, one, two, either, units, slopes)


def _second_moment(unit: HiddenNeuron) -> Means:
    """Return E h^2: where h is not 0 it is z, so that this is the mean of h and a linear function, z."""
    plain = HiddenNeuron(unit.setting.with_identity(), unit.w, unit.b, unit.t)
    plain.reach_of(unit)
    one = unit_means(plain, unit.b, unit.w)
    value = unit.b * one.mean + float(unit.w @ one.by_targets)
    by_w = np.stack([one.by_w, one.by_targets])
    size = abs(unit.b) + 2.0 * float(np.sqrt(unit.w @ unit.w))  # errors by features have any sign
    return Means(
        value, one.error * size, np.array([one.by_b, one.mean]), np.array([one.flux, 0.0]), by_w,
        one.slope_error * max(size, 1.0), one.method, np.zeros(CHANGES),
    )  # fmt: skip


def least_terms(one: HiddenNeuron, two: HiddenNeuron) -> float:
    """Return the terms that a pair takes at least: pieces of integrals, or the first two sums."""
    setting, heard = one.setting, np.union1d(one.heard, two.heard)
    if not setting.exact(heard.size, targets=False):
        both = np.intersect1d(one.heard, two.heard).size
        return 2.0 * nodes(FIRST) * max(both, 1)
    if setting.patterns is not None:
        on = setting.patterns[0].sum(axis=1)
    else:
        k = np.arange(heard.size + 1)
        on = np.repeat(k, [comb(heard.size, int(one)) for one in k])
    if setting.law.values.discrete:
        return float(np.sum(len(setting.atoms) ** on))
    pieces = max(setting.table.panels.size - 1, 1) * (4.0 if setting.table.degree >= 0 else SMOOTH)
    return float(np.sum(pieces ** np.clip(on - 1.0, 0.0, 1.0 if setting.law.values == "normal" else None)))


def _by_lattice(
    setting: NeuronContext,
    one: HiddenNeuron,
    two: HiddenNeuron,
    either: IntArray,
    units: tuple[FloatArray, FloatArray, FloatArray],
    slopes: bool,
) -> tuple[FloatArray, FloatArray, float, float, FloatArray]:
    w, _, _ = units
    n, p = either.size, setting.law.p[either]
    alone1 = np.flatnonzero((w[0] != 0.0) & (w[1] == 0.0))
    alone2 = np.flatnonzero((w[0] == 0.0) & (w[1] != 0.0))
    both = np.flatnonzero((w[0] != 0.0) & (w[1] != 0.0))
    a0, a1 = _none_and_one(p[alone1])
    b0, b1 = _none_and_one(p[alone2])
    c0, c1 = _none_and_one(p[both])

    # Patterns in which at most one feature of each kind is on, but three: exact.
    def pairs(x: IntArray, y: IntArray) -> tuple[IntArray, IntArray]:
        return np.repeat(x, y.size), np.tile(y, x.size)

    none = np.zeros((1, n))
    on = [none, _sets(n, alone1), _sets(n, alone2), _sets(n, both)]
    on += [_sets(n, *pairs(alone1, alone2)), _sets(n, *pairs(both, alone2)), _sets(n, *pairs(both, alone1))]
    chances = [np.array([a0 * b0 * c0]), a1 * b0 * c0, a0 * b1 * c0, a0 * b0 * c1]
    chances += [np.outer(a1, b1).ravel() * c0, np.outer(c1, b1).ravel() * a0, np.outer(c1, a1).ravel() * b0]
    quiet = np.full(n, np.nan)
    found, by_w = _patterns(setting, units, np.concatenate(on), np.concatenate(chances), True, quiet)
    error, slope_error, changes = 0.0, 0.0, np.zeros(CHANGES)
    # One neuron hears at most one, the other hears two or more by itself: a sum over its frequencies.
    for turn, (first, second, single, double, s0, s1, d0, d1) in enumerate(
        ((one, two, alone1, alone2, a0, a1, b0, b1), (two, one, alone2, alone1, b0, b1, a0, a1))
    ):
        if double.size < 2:
            continue
        part = _by_line(setting, first, second, (w[0], w[1]) if turn == 0 else (w[1], w[0]), p,
                        (single, both, double), (s0, s1, c0, c1, d0, d1))  # fmt: skip
        order = [0, 1] if turn == 0 else [1, 0]
        found[0] += part[0][0]
        found[1:3] += part[0][1:3][order]
        found[3:5] += part[0][3:5][order]
        by_w += part[1][order]
        error, slope_error = error + part[2], slope_error + part[3]
    # Both hear two or more.
    if alone1.size + both.size >= 2 and alone2.size + both.size >= 2:
        of_one, of_two = Side(one, alone1, a0, a1, w[0]), Side(two, alone2, b0, b1, w[1])
        sums, by, *more, changes = both_on_twice((of_one, of_two), either, both, p, c0, c1, slopes)
        found += sums
        by_w += by
        error, slope_error = error + more[0], slope_error + more[1]
    return found, by_w, error, slope_error, changes


def _value_nodes(
    setting: NeuronContext, unit: HiddenNeuron, w: float, fast: float
) -> tuple[FloatArray, FloatArray]:
    """Return values and weights of a feature for means behind a neuron and oscillations e^{i fast v}."""
    v, weights = [setting.atoms[:, 0]], [setting.atoms[:, 1]]
    table = setting.table
    if table.edges.size:
        low, high = table.panels[0], table.panels[-1]
        step = 12.0 / max(abs(fast), 1e-300)
        places = [table.panels]
        if w != 0.0:
            places.append(np.clip([(unit.t - unit.b) / w], low, high))
        edges = np.unique(np.concatenate(places))
        pieces = [np.linspace(a, c, 1 + int(np.ceil((c - a) / step))) for a, c in pairwise(edges)]
        edges = np.unique(np.concatenate(pieces))
        gauss, rule = table.nodes[20, :20], table.weights[20, :20]
        width = np.diff(edges)[:, None]
        at = (edges[:-1, None] + width * gauss).ravel()
        density = setting.law.values.density
        assert density is not None
        v.append(at)
        weights.append((width * rule).ravel() * density(at))
    return np.concatenate(v), np.concatenate(weights)


def _by_line(
    setting: NeuronContext, first: HiddenNeuron, second: HiddenNeuron, w: tuple[FloatArray, FloatArray],
    p: FloatArray,
    kinds: tuple[IntArray, IntArray, IntArray], chances: tuple[Any, ...],
) -> tuple[FloatArray, FloatArray, float, float]:  # fmt: skip
    """Return the part where `first` hears at most one feature, and `second` by itself two or more.

    Derivatives are those by the weights of `first`, then of `second`.
    """
    single, both, double = kinds
    s0, s1, c0, c1, d0, d1 = chances
    w1, w2 = w
    size = p.size
    of_double = np.searchsorted(np.flatnonzero(w2), double)

    def on(z: FloatArray) -> FloatArray:
        return np.where(z > first.t, 1.0, np.where((z == first.t) & (first.t == 0.0), 0.5, 0.0))

    start = np.array([first.b])
    step0 = float(on(start)[0])
    act0 = first.b if step0 > 0.0 else 0.0

    def fluxes(j: int, s: FloatArray | None) -> ComplexArray:
        """Return the flux at the threshold of `first`, and times the value, at frequencies of `second`."""
        v0 = (first.t - first.b) / w1[j]
        table = setting.table
        if first.t == 0.0 or not table.edges.size or not table.edges[0] < v0 < table.edges[-1]:
            return np.zeros((2, 1 if s is None else s.size), np.complex128)
        assert setting.law.values.density is not None
        height = float(setting.law.values.density(np.array([v0]))[0]) * first.t / abs(w1[j])
        wave = np.ones(1, np.complex128) if s is None else np.exp(1j * s * w2[j] * v0)
        return np.stack([height * wave, height * v0 * wave])

    # What `first` makes of one of its own, by itself: activation, its step, and both times the value.
    alone = np.zeros((single.size, 4))
    own_flux = np.zeros((single.size, 2))
    for at, j in enumerate(single):
        v, weights = _value_nodes(setting, first, w1[j], 0.0)
        z = first.b + w1[j] * v
        step = on(z)
        z = z * (step > 0.0)
        alone[at] = weights @ z, weights @ step, weights @ (v * z), weights @ (v * step)
        own_flux[at] = fluxes(int(j), None)[:, 0].real
    base = s0 * c0 * np.array([act0, step0]) + c0 * (s1 @ alone[:, :2] if single.size else np.zeros(2))
    base_flux = c0 * float(s1 @ own_flux[:, 0]) if single.size else 0.0

    found, by_w = np.zeros(5), np.zeros((2, size))
    error = slope_error = 0.0
    count, before, now = 32, np.full(5, np.inf), np.full(5, np.inf)
    scale = first.rms * second.rms
    while True:
        s, phi = second.frequencies(count)
        twice = _taper(count)
        weight = second.weight(s) * twice
        factors = 1.0 - p[double][:, None] + p[double][:, None] * phi[0, of_double]
        whole = np.prod(factors, axis=0)
        rest = whole - d0 - d1 @ phi[0, of_double]
        # Means over the value of a feature that both hear.
        waves = np.zeros((both.size, 4, s.size), np.complex128)
        flux_waves = np.zeros((both.size, 2, s.size), np.complex128)
        for at, j in enumerate(both):
            v, weights = _value_nodes(setting, first, w1[j], float(w2[j] * s[-1]))
            z = first.b + w1[j] * v
            step = on(z)
            z = z * (step > 0.0)
            wave = np.exp(np.outer(v, 1j * s * w2[j]))
            waves[at] = np.stack([weights * z, weights * step, weights * v * z, weights * v * step]) @ wave
            flux_waves[at] = fluxes(int(j), s)
        inner = base[:, None] + s0 * np.einsum("c,cks->ks", c1, waves[:, :2])
        inner_flux = base_flux + s0 * np.einsum("c,cs->s", c1, flux_waves[:, 0])
        terms = weight * rest
        found[0] = np.sum(terms * inner[0]).real
        found[1] = np.sum(terms * (inner[1] + inner_flux)).real
        found[2] = np.sum(terms * 1j * s * inner[0]).real
        found[3] = np.sum(terms * inner_flux).real
        found[4] = np.sum(second.flux(s) * twice * rest * inner[0]).real
        last, change = now, np.abs(found - before)
        now = change.copy()
        change = np.maximum(change, last / _FALL)
        if change[0] <= setting.tol * scale or count >= MOST:
            break
        before, count = found.copy(), 2 * count
    slope = phi[1, of_double] * (
        p[double][:, None] * whole / np.where(factors == 0.0, 1e-200, factors) - d1[:, None]
    )
    by_w[0, double] = np.sum((weight * (inner[1] + inner_flux) * slope).real, axis=1)
    by_w[1, double] = np.sum((weight * 1j * s * inner[0] * slope).real, axis=1)
    plain, tilted = np.sum(terms).real, np.sum(terms * 1j * s).real
    if single.size:
        by_w[0, single] = c0 * s1 * (alone[:, 3] + own_flux[:, 1]) * plain
        by_w[1, single] = c0 * s1 * alone[:, 2] * tilted
    for at, j in enumerate(both):
        by_w[0, j] = s0 * c1[at] * np.sum(terms * (waves[at, 3] + flux_waves[at, 1])).real
        by_w[1, j] = s0 * c1[at] * np.sum(terms * 1j * s * waves[at, 2]).real
    rounding = second.rounding(weight) * float(np.abs(inner).max(initial=0.0))
    error = SAFE * float(change[0]) + rounding + second.reach[2] * first.size + 2.0**-44 * scale
    if second.t > 0.0:
        error += second.t * first.size * second.jump_error(count) ** _HOELDER
    slope_error = 4.0 * SAFE * float(change.max()) + 2.0**-42 * (first.rms + second.rms)
    slope_error += rounding * (1.0 + float(s[-1])) + second.reach[2] * (1.0 + np.pi / second.reach[1])
    return found, by_w, error, slope_error


@dataclass
class UnitMeans:
    """Means of one neuron h, with a linear function of the targets, g = g_0 + sum of g_l target(x_l)."""

    mean: float
    """E h."""
    on: float
    """Derivative of `mean` by the bias; P(h > 0) without a threshold."""
    by_targets: FloatArray
    """(n,): E h target(x_l)."""
    by_b: float
    """Derivative of E h g by the bias."""
    flux: float
    by_w: FloatArray
    error: float
    """Of `mean` and `by_targets`."""
    slope_error: float
    active: float
    """P(z > t)."""
    active_error: float
    method: str


def unit_means(unit: HiddenNeuron, g0: float, g: FloatArray, share: float = 1.0) -> UnitMeans:
    """Return means of a neuron with targets, and the derivatives of E h g, to a share of `FINER`."""
    setting, law = unit.setting, unit.setting.law
    n, heard, p = law.n, unit.heard, unit.p
    others = _others(n, heard)
    target_means = law.p * setting.mean
    start = g0 + float(g[others] @ target_means[others])
    quiet = np.full(heard.size, np.nan)
    exact = setting.exact(heard.size, targets=True)
    listed = on_moments(unit, False) if setting.law.values.discrete and not exact else None
    if listed is not None:
        return _from_moments(unit, g0, g, *listed)
    if exact:
        on, chances = _all_patterns(setting, p)
    else:
        none, ones = _none_and_one(p)
        on = np.concatenate([np.zeros((1, heard.size)), np.eye(heard.size)])
        chances = np.r_[none, ones]

    def with_linear(w2: FloatArray, b2: float) -> tuple[FloatArray, FloatArray]:
        units = (
            np.ascontiguousarray(np.stack([unit.w[heard], w2])),
            np.array([unit.b, b2]),
            np.array([unit.t, 0.0]),
        )
        return _patterns(setting, units, on, chances, False, quiet)

    found, by = with_linear(g[heard], start)
    plain, _ = with_linear(np.zeros(heard.size), 1.0)
    mean, rate, targets, slopes = found[2], plain[1], by[1].copy(), by[0].copy()
    by_b, flux, error = found[1], found[3], setting.precision * unit.rms
    slope_error = _rounding(setting, unit.rms + 1.0, plain, by)
    active = plain[1] - plain[3]
    active_error = setting.precision
    if not exact:
        count, before, last = 64, np.full(heard.size + 3, np.inf), np.full(3, np.inf)
        of_heard = np.ascontiguousarray(g[heard])

        def sums(of_w: bool) -> tuple[FloatArray, ComplexArray, FloatArray]:
            psi = _target_transforms(setting, unit, s, phi)
            out, along, by = (
                np.zeros(heard.size + 2),
                np.empty((2, count + 1), np.complex128),
                np.zeros(heard.size),
            )
            add_line(
                weight, tilted, p, none, ones, phi[0], phi[1], *psi, of_heard, start, of_w, out, along, by
            )
            return out, along, by

        while True:
            if unit.series is not None:
                s, phi, weight, tilted, steps, _ = unit.series
                count, flux_of = s.size - 1, np.zeros(s.size, np.complex128)
            else:
                (s, phi), tapered = unit.frequencies(count), _taper(count)
                # A step at an atom is to rise without overshooting: then what is off has a bound.
                steps = unit.step(s) * (gaussian_taper(count) if setting.atoms.size else tapered)
                ramp = unit.ramp(s) * tapered
                weight, tilted = ramp + unit.t * steps, 1j * s * (ramp + unit.t * unit.step(s) * tapered)
                flux_of = unit.flux(s) * tapered
            now, along, _ = sums(False)
            now = np.r_[now, np.sum(steps * along[0]).real]
            each = np.abs(now - before)
            step = np.array([each[:-2].max(), each[-2], each[-1]])
            change, last = np.maximum(step, last / _FALL), step
            if unit.series is not None:
                change = np.zeros(3)
                break
            if change[0] <= share * FINER * setting.tol * unit.rms or count >= MOST:
                break
            before, count = now, 2 * count
        slopes += sums(True)[2]
        mean += now[0]
        targets += now[1:-2]
        by_b += now[-2]
        rate += np.sum(tilted * along[0]).real
        flux += np.sum(flux_of * along[1]).real
        active += now[-1]
        rounding, beyond, jump = unit.rounding(weight), unit.reach[2], 0.0
        if unit.series is not None:
            rounding, beyond = unit.series.rounding * float(np.abs(weight).sum()), 0.0
            active_error = unit.series.rounding * float(np.abs(steps).sum())
        else:
            jump = unit.jump_error(count)
            active_error = SAFE * float(change[2]) + unit.chance_beyond + unit.rounding(steps) + 2.0**-44
        error += unit.t * jump
        error += SAFE * float(change[0]) + beyond + rounding + 2.0**-44 * unit.rms
        slope_error += 4.0 * SAFE * float(change[:2].max()) + beyond * (1.0 + np.pi / unit.reach[1])
        slope_error += rounding * (1.0 + float(s[-1])) + 2.0**-42
        active_error += jump
    by_targets, by_w = mean * target_means, np.zeros(n)
    by_targets[heard] = targets
    by_w[heard] = slopes
    chance, cross = law.p[others], setting.cross
    own = g[others] * (chance * cross - law.mean[others] * target_means[others])
    by_w[others] = law.mean[others] * by_b + own * rate
    method = "boxes" if exact else "lattice of pairs"
    return UnitMeans(
        mean, rate, by_targets, by_b, flux, by_w, error, slope_error, active, active_error, method
    )


def _from_moments(
    unit: HiddenNeuron, g0: float, g: FloatArray, on: FloatArray, kink: FloatArray
) -> UnitMeans:
    """Return means of a neuron from E 1(z > t) u u', u = (1, features heard); `kink` is for derivatives."""
    setting, law, heard = unit.setting, unit.setting.law, unit.heard
    others = _others(law.n, heard)
    target_means = law.p * setting.mean
    coefficients = np.r_[unit.b, unit.w[heard]]
    of_h = coefficients @ on
    start = g0 + float(g[others] @ target_means[others])
    of_g = np.r_[start, g[heard]] @ kink
    mean, by_b = float(of_h[0]), float(of_g[0])
    by_targets, by_w = mean * target_means, law.mean * by_b
    by_targets[heard], by_w[heard] = of_h[1:], of_g[1:]
    own = g[others] * (law.p[others] * setting.cross - law.mean[others] * target_means[others])
    by_w[others] += own * kink[0, 0]
    error, flat = (
        2.0**-46 * unit.terms,
        2.0**-46 * (abs(start) + float(np.abs(g[heard]) @ law.p[heard]) + 1.0),
    )
    return UnitMeans(
        mean, float(kink[0, 0]), by_targets, by_b, 0.0, by_w, error, flat, float(on[0, 0]), 2.0**-46,
        "sums of atoms",
    )  # fmt: skip


def _target_transforms(
    setting: NeuronContext, unit: HiddenNeuron, s: FloatArray, phi: ComplexArray
) -> tuple[ComplexArray, ComplexArray]:
    """Return E target(v) e^{zv} and its derivative at z = s w, for each feature heard."""
    if setting.half is None:
        return phi[1], phi[2]
    y = np.outer(unit.w[unit.heard], s)
    up = waves_of(setting.half, float(np.abs(y).max(initial=0.0))).at(setting.half, y)
    if setting.target == "relu":
        return 0.5 * up[1], 0.5 * up[2]
    down = up.conj()
    return 0.5 * (up[1] + down[1]), 0.5 * (up[2] - down[2])
