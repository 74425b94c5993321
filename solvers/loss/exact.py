r"""The exact expected loss of any affine + ReLU model at any law of the data, without sampling."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray, integer, matrix, number, real, vector
from ...theory.features import Features, as_features
from ...theory.features.counts import Block
from ...theory.results import frozen, result
from ..threads import each, together
from . import lattice, wedge
from .folds import ASIDE, by_folds
from .patterns import blocks, by_patterns, chances, masks
from .sweep import Others, independent, sweep
from .uniform import NEGLIGIBLE, rows_uniform

__all__ = [
    "FOLDED",
    "LARGEST",
    "Gradient",
    "Loss",
    "exact_gradient",
    "exact_loss",
    "outputs",
    "row_loss",
    "value_and_gradient",
]

IntArray = npt.NDArray[np.int64]

# The kernels form fourth powers of entries and of their inverses.
LARGEST = 1e50
# Losses of rarer features leave the range of doubles.
LEAST = 1e-290
# Features up to which all patterns are summed, by the sides of their values; -1 for laws without such a sum.
FEW = {0: 14, 1: 6, 2: 4, -1: 0}
# Independent uniform features up to which derivatives are folded: 0.2 ms for 9.
FOLDED = 9
# Factors that a row's lattice sum may take: a second or two.
WORK = 2.0**26
# Values without bounds, b > 0: E (x - y)^2 is taken away, not E x^2, while it is at most so many E x^2.
NEAR = 4.0
# An error estimate above this share of the loss, or of a row's derivatives, and of the largest E x^2 means
# that digits are lost.
LOST = 0.01


@result
class Loss:
    """Expected loss of a model and how far from the truth it may be.

    Attributes
    ----------
    loss : float
        Loss per feature: the mean over the outputs of importance times `per_feature`.
    error_estimate : float
        What `loss` is off by at most.
    per_feature : (n,) ndarray of float64
        Expected squared error of each output, E (x_i - ReLU((M x + b)_i))^2, without importance.
    per_feature_error : (n,) ndarray of float64
        What each of them is off by at most.
    """

    loss: float
    error_estimate: float
    per_feature: FloatArray
    per_feature_error: FloatArray


@result
class Gradient:
    """Expected loss of a model with its derivatives, and how far from the truth they may be.

    Unpacks as ``loss, by_M, by_b``.

    Attributes
    ----------
    loss : float
        Loss per feature, from the same sum as the derivatives.
    error_estimate : float
        What `loss` is off by.
    by_M : (n, n) ndarray of float64
        Derivatives of the loss, one row for each output asked for.
    by_b : (n,) ndarray of float64
    gradient_error : (n,) ndarray of float64
        What each derivative by an output's row and bias is off by.
    """

    loss: float
    error_estimate: float
    by_M: FloatArray
    by_b: FloatArray
    gradient_error: FloatArray

    def __iter__(self) -> Iterator[Any]:
        return iter((self.loss, self.by_M, self.by_b))


@dataclass(frozen=True)
class Outputs:
    """Losses of outputs, derivatives of each by its own row and bias, and errors of both."""

    losses: FloatArray
    errors: FloatArray
    by_M: FloatArray
    by_b: FloatArray
    slope_errors: FloatArray


def _packed(units: list[Block], heard: npt.NDArray[np.bool_], total: int | None) -> Others:
    """Return the units as the kernels want them: arrays one after the other, and where each begins."""

    def joined(parts: list[Any], kind: type) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, kind), *parts])

    def ends(parts: list[Any]) -> IntArray:
        return np.cumsum([0, *(part.size for part in parts)], dtype=np.int64)

    members, weights = [unit.members for unit in units], [unit.weights for unit in units]
    numbers, chance = joined([masks(unit) for unit in units], np.int64), joined(weights, np.float64)
    arrays = ends(members), joined(members, np.int64), ends(weights), numbers, chance
    return Others(*arrays, heard, total is not None, total or 0, np.empty(0))


def _cases(
    law: Features, units: list[Block], i: int, heard: npt.NDArray[np.bool_]
) -> Iterator[tuple[float, float, Others]]:
    """Yield the states of feature i: their probability, 1 for on or 0 for off, and the law of all others."""
    (own,) = (unit for unit in units if i in unit.members)
    others = [
        Block(unit.members - (unit.members > i), unit.patterns, unit.weights)
        for unit in units
        if unit is not own
    ]
    for pattern, chance in zip(own.patterns, own.weights, strict=True):
        on = int(pattern[own.members == i][0])
        total = None if law.exactly is None else law.exactly - on
        if chance > 0.0 and (total is None or total >= 0):
            with_it = own.members[(pattern == 1) & (own.members != i)]
            certain = Block(with_it - (with_it > i), np.ones((1, with_it.size), np.int64), np.ones(1))
            yield float(chance), float(on), _packed([*others, certain], heard, total)


def _by_transforms(
    law: Features,
    M: FloatArray,
    features: IntArray,
    b: FloatArray,
    allowed: FloatArray,
    work: float,
    near: npt.NDArray[np.bool_],
    few: bool,
) -> Outputs:
    """Integrate the transform of each output, for each state of its own feature where that is needed.

    For values without bounds E x^2, or E (x - y)^2 where y is `near` x, is to be added. With `few`
    frequencies the error of the loss is what half of them change, if that is less than the bound.
    """
    count, n = M.shape
    parts, bounded, mean = law.values.parts, law.values.bounded, law.values.moment(1)
    losses, errors, by_M, by_b = np.zeros(count), np.zeros(count), np.zeros((count, n)), np.zeros(count)
    slope_errors = np.zeros(count)
    plain, share = law.independent, 1.0
    units = [] if plain else blocks(law)
    if law.exactly is not None:
        every = _packed(units, np.ones(n, np.bool_), law.exactly)
        share = sweep(every, 0, 0, np.ones(n, np.complex128))[0].real

    def solve(k: int) -> None:
        i = int(features[k])
        kept, own = np.arange(n) != i, float(law.p[i])
        largest = min(max(abs(b[k]), float(np.abs(M[k]).max())), 1.0)
        heard = np.abs(M[k]) > (lattice.SILENT * largest if bounded else 0.0)
        if plain:  # a feature of weight 0 is independent of the output: E x_j d/db is its derivative
            kept &= heard
        m, a, p = M[k, kept], float(M[k, i]), law.p[kept]
        if not plain:
            cases = list(_cases(law, units, i, heard[kept]))
        else:
            states = [(1.0, own)] if bounded else [(1.0 - own, 0.0), (own, 1.0)]
            cases = [(chance, on, independent(p)) for chance, on in states]
        slope = np.zeros(m.size)
        for chance, on, others in cases:
            if bounded:
                found, by_m, error = lattice.case(parts, m, a, b[k], on, others, allowed[k], work)
            else:
                found, by_m, error = wedge.case(parts, m, a, b[k], on, others, p, near[k])
            chance /= share
            losses[k] += chance * found[0]
            by_b[k] += chance * found[1]
            by_M[k, i] += chance * found[2]
            slope += chance * by_m
            rounding, cut, change, slope_error = error
            errors[k] += chance * (rounding + (min(cut, change) if few else cut))
            slope_errors[k] += chance * slope_error
        left = np.abs(M[k, ~heard & (np.arange(n) != i)])
        if left.any():  # Cauchy and Schwarz: E (2 e d + d^2) for the error e and what is left out, d
            length = float(left @ np.sqrt(law.on_probability()[~heard & (np.arange(n) != i)]))
            errors[k] += length * (2.0 * np.sqrt(abs(losses[k]) + errors[k]) + length)
        rest = ~kept
        rest[i] = False
        by_M[k, kept], by_M[k, rest] = slope, mean * law.p[rest] * by_b[k]

    each(solve, count)
    return Outputs(losses, errors, by_M, by_b, slope_errors)


def _without_relu(law: Features, M: FloatArray, features: IntArray, b: FloatArray) -> Outputs:
    """Return E (x - y)^2 of the outputs y = M x + b, from second moments."""
    second, mean = law.second_moment_matrix() / np.outer(law.scale, law.scale), law.mean / law.scale
    left = np.eye(law.n_features)[features] - M
    along, shift = left @ second, left @ mean
    sizes, far = np.abs(left), np.abs(b)
    pairs, steps = sizes @ np.abs(second), sizes @ np.abs(mean)
    terms = np.sum(pairs * sizes, axis=1) + 2.0 * far * steps + far**2
    slopes = np.maximum(pairs.max(axis=1) + far * np.abs(mean).max(), far + steps)
    return Outputs(
        np.sum(along * left, axis=1) - 2.0 * b * shift + b * b,
        _rounding(law) * terms,
        2.0 * (b[:, None] * mean - along),
        2.0 * (b - shift),
        2.0 * _rounding(law) * slopes,
    )


def _rounding(law: Features) -> float:
    return float(2.0**-53 * (16.0 + 4.0 * np.sqrt(law.n_features)))


def _silenced(law: Features, features: IntArray, found: Outputs, near: npt.NDArray[np.bool_]) -> Outputs:
    """Return the outputs that are `near`, and 0 for the others, which lose E x^2."""
    own = law.second_moment[features] / law.scale[features] ** 2
    return Outputs(
        np.where(near, found.losses, own),
        np.where(near, found.errors, _rounding(law) * own),
        np.where(near[:, None], found.by_M, 0.0),
        np.where(near, found.by_b, 0.0),
        np.where(near, found.slope_errors, 0.0),
    )


def _without_bounds(law: Features, M: FloatArray, features: IntArray, b: FloatArray) -> Outputs:
    """Return the outputs for values without bounds: what `wedge` integrates and what it leaves out."""
    own, found = law.second_moment[features] / law.scale[features] ** 2, _without_relu(law, M, features, b)
    near = (b > 0.0) & (found.losses <= NEAR * own)
    part, rest = (
        _by_transforms(law, M, features, b, own, 0.0, near, False),
        _silenced(law, features, found, near),
    )
    return Outputs(*(getattr(part, name) + getattr(rest, name) for name in part.__dataclass_fields__))


def _with_bounds(
    law: Features, M: FloatArray, features: IntArray, b: FloatArray, allowed: FloatArray, most: int | None
) -> Outputs:
    """Return the outputs for bounded values: by moments where the ReLU never bends, else by transforms."""
    low, high = min(law.values.support[0], 0.0), max(law.values.support[1], 0.0)
    least = b + np.minimum(low * M, high * M).sum(axis=1)
    highest = b + np.maximum(low * M, high * M).sum(axis=1)
    bent, near = (least < 0.0) & (highest > 0.0), least >= 0.0
    work, few = WORK if most is None else float(most) * law.n_features, most is not None
    if bent.all():  # no second moments, n^2 of them
        return _by_transforms(law, M, features, b, allowed, work, near, few)
    found = _silenced(law, features, _without_relu(law, M, features, b), near)
    part = _by_transforms(law, M[bent], features[bent], b[bent], allowed[bent], work, near[bent], few)
    for name in found.__dataclass_fields__:
        getattr(found, name)[bent] = getattr(part, name)
    return found


def outputs(
    law: Features,
    M: FloatArray,
    features: IntArray,
    b: FloatArray,
    tol: float,
    slopes: bool,
    most: int | None = None,
    refuse: bool = True,
) -> Outputs:
    """Return the outputs asked for; row k of `M` and b[k] make the output that wants features[k].

    Everything is in units of the features' scales: y_i/scale_i has the weights M_ij scale_j/scale_i. A sum
    over a lattice has `most` frequencies at most. Without `refuse`, lost digits are seen in the errors alone.
    """
    units = law.scale[features]
    rows = np.require(M * (law.scale / units[:, None]), np.float64, ["C", "W"])
    bias = np.require(b / units, np.float64, ["C", "W"])
    p = np.array(law.on_probability())
    if law.independent and not slopes:  # what no output hears changes nothing
        heard = np.any(np.abs(rows) > NEGLIGIBLE, axis=0)
        heard[features] = True
        if not heard.all():
            law = Features(int(heard.sum()), law.p[heard], law.values, law.scale[heard])
            places = np.cumsum(heard) - 1
            rows, features, p = np.ascontiguousarray(rows[:, heard]), places[features], p[heard]
    allowed = np.maximum(tol * p[features] * law.values.moment(2), np.finfo(np.float64).tiny)
    found = _outputs(law, rows, features, bias, p, allowed, tol, slopes, most)
    kink = (bias == 0.0) & (rows[np.arange(bias.size), features] == 0.0)
    if slopes and kink.any():  # y is 0 where no other feature is on that has a weight: the mean of both sides
        places = np.flatnonzero(kink)
        near = rows[places]
        aside = np.full(places.size, ASIDE)
        if law.values.atoms and not law.values.bounded:  # others that are on may be 0, and e^(s b) must fall
            least = np.where(near != 0.0, np.abs(near), np.inf).min(axis=1)
            aside = np.where(np.isfinite(least), 1e-12 * least, ASIDE)
        on, off = (
            _outputs(law, near, features[places], bias[places] + side, p, allowed[places], tol, True, most)
            for side in (aside, -aside)
        )
        found.by_M[places], found.by_b[places] = 0.5 * (on.by_M + off.by_M), 0.5 * (on.by_b + off.by_b)
        found.slope_errors[places] = np.maximum(on.slope_errors, off.slope_errors)
    losses, errors = found.losses * units**2, found.errors * units**2
    least = max(LOST, 2.0 * tol)
    if refuse:
        _refuse_lost("loss of", losses, errors, law, least, most)
    if not slopes:
        return Outputs(losses, errors, found.by_M, found.by_b, found.slope_errors)
    scales = np.outer(units, law.scale)
    by_M, slope_errors = found.by_M * scales, found.slope_errors * scales.max(axis=1)
    if refuse:
        _refuse_lost("derivatives by", np.abs(by_M).max(axis=1), slope_errors, law, least, most)
    slope_errors = np.maximum(slope_errors, found.slope_errors * units)
    return Outputs(losses, errors, by_M, found.by_b * units, slope_errors)


def _refuse_lost(
    name: str, sizes: FloatArray, errors: FloatArray, law: Features, least: float, most: int | None
) -> None:
    """Refuse errors above the share `least` of what they belong to and of the largest E x^2."""
    lost = ~(errors <= least * (np.abs(sizes) + law.second_moment.max()))
    if np.any(lost):
        k = int(np.flatnonzero(lost)[0])
        more = "" if most is None else f", or more `frequencies` than {most}"
        raise ValueError(
            f"`M` must have entries that double precision can tell apart{more}; the {name} row {k}, "
            f"{sizes[k]:.3g}, would be off by up to {errors[k]:.3g}."
        )


def _outputs(
    law: Features,
    rows: FloatArray,
    features: IntArray,
    bias: FloatArray,
    p: FloatArray,
    allowed: FloatArray,
    tol: float,
    slopes: bool,
    most: int | None,
) -> Outputs:
    """Return the outputs in units of scale, by the method that suits their law."""
    values = law.values
    if not values.bounded:
        values.need("law", "wedge", "bounds, or a transform that is bounded along a wedge")
    values.need("law", "transform")
    if law.independent and values.uniform and slopes and law.n_features <= FOLDED:
        return Outputs(*by_folds(rows, features, bias, p))
    if law.n_features <= FEW[values.sides]:
        return Outputs(*by_patterns(rows, features, bias, np.array(chances(law)), values.parts))
    if law.independent and values.uniform and not slopes:
        losses, errors = together(
            lambda part: rows_uniform(rows[part], features[part], bias[part], p, tol, values.parts), bias.size
        )
        return Outputs(losses, errors, np.empty((0, 0)), np.empty(0), np.empty(0))
    if values.bounded:
        return _with_bounds(law, rows, features, bias, allowed, most)
    return _without_bounds(law, rows, features, bias)


def _law(law: Any, n: int) -> Features:
    features = as_features(law, n)
    least = features.p[features.p > 0.0].min(initial=1.0)
    if least < LEAST:
        raise ValueError(f"`law` must have probabilities of 0 or at least {LEAST:g}; got {least:g}.")
    return features


def _asked(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    rows: Any,
    tol: float,
    slopes: bool,
    most: int | None = None,
    refuse: bool = True,
) -> tuple[FloatArray, Outputs]:
    """Return the outputs asked for, all by default, and their importances."""
    M = real("M", matrix("M", M), -LARGEST, LARGEST)
    n = M.shape[1]
    if M.shape[0] != n:
        raise ValueError(f"`M` must be square; got shape {M.shape}.")
    bias, features = real("b", arguments.each("b", b, n), -LARGEST, LARGEST), _law(law, n)
    picked = np.arange(n) if rows is None else arguments.indices("rows", rows, n)
    tol = number("tol", tol, 0.0, 1.0, brackets="()")
    found = outputs(features, M[picked], picked, bias[picked], tol, slopes, most, refuse)
    return features.importance[picked], found


def exact_loss(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12, rows: npt.ArrayLike | None = None
) -> Loss:
    r"""Exact expected loss per feature of the model ReLU(M x + b), by integrating the law of M x + b.

    .. math:: L = \frac1n \sum_i I_i\, E\,(x_i - \mathrm{ReLU}((M x + b)_i))^2

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder, row i makes output i. Any real matrix with entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    law : float or Features
        Law of the data. A number is the probability p in (0, 1] that a feature is on, p = 1 - S for sparsity
        S; features are then independent, alike and uniform on [0, 1].
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.
    rows : sequence of int, optional
        Outputs to restrict the loss to; all by default.

    Returns
    -------
    Loss
        `loss` is the mean over the outputs asked for, in their order in `per_feature`.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range, or if rounding would
        leave no more than two digits of a loss.

    Notes
    -----
    Few features with bounded values: all patterns are summed, and only rounding is left. Independent uniform
    features: a lattice sum, good to 4e-12 of p/3 for 512 features with random weights. Other bounded values,
    groups, exactly k on: a simpler sum, or moments where the ReLU of an output never bends. What the two sums
    cut off is bounded as `uniform` and `lattice` derive. Sums of binary values have atoms, where the bound
    stays at 1e-4 of the loss and takes seconds a row. Values without bounds: an integral that converges
    exponentially.

    Rounding is a model that brute force in exact arithmetic has not broken. It scales with the square of the
    range of the output. Weights may differ by any factor, except in the simpler sum, where the estimate grows
    with their spread. The cost is n^2 times the number of frequencies, 0.7 ns each for uniform values: a
    hundred where many features are on at once, up to some 1e4 where few are. Rows are shared among Numba's
    threads; results do not depend on their number.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])      # two features, one dimension, opposite signs
    >>> result = exact_loss(pair, 0.0, 0.1)
    >>> round(result.loss, 12), result.error_estimate < 1e-14        # both on: E min(u, v)^2 = 1/6
    (0.001666666667, True)
    >>> round(exact_loss(pair, 0.0, Features(2, 0.1, values="exponential")).loss, 12)  # E min^2 = 1/2
    0.005
    """
    weights, found = _asked(M, b, law, rows, tol, False)
    loss, error = np.mean(weights * found.losses), np.mean(weights * found.errors)
    return Loss(float(loss), float(error), found.losses, found.errors)


def row_loss(row: npt.ArrayLike, i: int, b: float, law: Any, *, tol: float = 1e-12) -> Loss:
    """Exact expected loss of one output, E (x_i - ReLU(row . x + b))^2.

    Parameters
    ----------
    row : (n,) array_like of float
        The output's weights; entries up to 1e50. Not modified.
    i : int
        The feature that the output is to reconstruct, 0 <= i < n.
    b : float
        Bias of the output.
    law, tol
        As for `exact_loss`.

    Returns
    -------
    Loss
        With vectors of size 1; `loss` includes the importance of feature i.

    Raises
    ------
    ValueError
        As in `exact_loss`.

    Examples
    --------
    >>> row = np.r_[0.5, np.full(4, 0.25)]
    >>> round(row_loss(row, 0, -0.1, 0.2).loss, 12)
    0.026922302302
    """
    row = real("row", vector("row", row), -LARGEST, LARGEST)
    law = _law(law, row.size)
    feature = np.array([integer("i", i, 0, row.size - 1)])
    bias = np.array([number("b", b, -LARGEST, LARGEST)])
    found = outputs(law, row[np.newaxis], feature, bias, number("tol", tol, 0.0, 1.0, brackets="()"), False)
    weight = float(law.importance[feature[0]])
    return Loss(weight * float(found.losses[0]), weight * float(found.errors[0]), found.losses, found.errors)


def value_and_gradient(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    *,
    tol: float = 1e-7,
    rows: npt.ArrayLike | None = None,
    frequencies: int | None = None,
) -> Gradient:
    """Return the exact loss with its derivatives by M and by b, for descents.

    Parameters
    ----------
    M, b, law
        As for `exact_loss`.
    tol : float, optional
        Error of the loss to aim at, in units of E x_i^2. Its bound is far from sharp: at the default the
        gradient of models of 16 to 128 features is good to 1e-9. Up to nine independent uniform features
        leave nothing but rounding.
    rows : sequence of int, optional
        Outputs to restrict loss and gradient to, as in `exact_loss`; all by default.
    frequencies : int, optional
        Terms of a lattice sum at most, whatever the bound; by default some 2^26/n_features. With it the error
        of the loss is an estimate as that of the gradient is.

    Returns
    -------
    Gradient
        Where an output is exactly 0 with positive probability while its feature is on, as that of a zero row
        with bias 0, the loss has a kink. Each derivative is then the mean of those to both sides, for every
        law: the derivative itself along directions where there is one. (PyTorch takes such outputs as off.)

    Raises
    ------
    ValueError
        As in `exact_loss`, and if no more than two digits of a row's derivatives would be left, next to the
        largest of them and the largest E x_j^2.

    Notes
    -----
    `gradient_error` has rounding, in units of 2 E (x_i + |y_i|) max(1, x_j). The derivatives may be far
    below that where they cancel: by M_ii of the model M = 1 - 1e-15 alone it is 2e-15 p/3, and off by
    1e-16 p. Where a sum over frequencies is cut off, it also has what the upper half of them changes.
    Both are estimates; brute force in exact arithmetic has not exceeded them.

    Examples
    --------
    >>> loss, by_M, by_b = value_and_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> round(loss, 6), by_b.round(4)
    (0.000933, array([-0.006, -0.006, -0.006]))
    """
    return gradient_of(M, b, law, tol=tol, rows=rows, frequencies=frequencies, refuse=True)


def gradient_of(
    M: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    *,
    tol: float,
    rows: npt.ArrayLike | None = None,
    frequencies: int | None,
    refuse: bool,
) -> Gradient:
    """Return `value_and_gradient`; without `refuse` also where its errors say that digits are lost."""
    most = None if frequencies is None else integer("frequencies", frequencies, 1, 2**24)
    importance, found = _asked(M, b, law, rows, tol, True, most, refuse)
    weights = importance / importance.size
    return Gradient(
        float(weights @ found.losses),
        float(weights @ found.errors),
        frozen(weights[:, None] * found.by_M),
        frozen(weights * found.by_b),
        frozen(weights * found.slope_errors),
    )


def exact_gradient(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the exact loss per feature by M and by b.

    Brute force agrees to 1e-10 of the largest entry of a row, with weights that differ by twelve decades, but
    where the derivatives themselves cancel: `value_and_gradient` returns them with their errors, and tells
    in which units these are.

    Parameters
    ----------
    M, b, law, tol
        As for `value_and_gradient`.

    Returns
    -------
    by_M : (n, n) ndarray of float64
    by_b : (n,) ndarray of float64

    Raises
    ------
    ValueError
        As in `exact_loss` and `value_and_gradient`.

    Examples
    --------
    >>> by_M, by_b = exact_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> by_M.round(4)[0], by_b.round(4)
    (array([-0.0033, -0.0003, -0.0003]), array([-0.006, -0.006, -0.006]))
    """
    found = value_and_gradient(M, b, law, tol=tol)
    return found.by_M.copy(), found.by_b.copy()
