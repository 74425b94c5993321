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
from ...theory.results import result
from ...theory.special import VALUES, value_moment
from ..threads import each, together
from . import lattice, wedge
from .folds import by_folds
from .patterns import blocks, by_patterns, chances, masks
from .sweep import Others, independent, sweep
from .uniform import NEGLIGIBLE, rows_uniform

__all__ = [
    "FOLDED",
    "LARGEST",
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
# Values with bounds; up to so many features, all patterns are summed.
FEW = {"uniform": 6, "symmetric": 4, "binary": 14}
# Independent uniform features up to which derivatives are folded: 0.2 ms for 9.
FOLDED = 9
# Factors that a row's lattice sum may take: a second or two.
WORK = 2.0**26
# Values without bounds, b > 0: E (x - y)^2 is taken away, not E x^2, while it is at most so many E x^2.
NEAR = 4.0
# An error estimate above this share of the loss and of the largest E x^2 means that digits are lost.
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


@dataclass(frozen=True)
class Outputs:
    """Losses of outputs, their errors, and the derivatives of each by its own row and bias."""

    losses: FloatArray
    errors: FloatArray
    by_M: FloatArray
    by_b: FloatArray


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
) -> Outputs:
    """Integrate the transform of each output, for each state of its own feature where that is needed.

    For values without bounds E x^2, or E (x - y)^2 where y is `near` x, is to be added.
    """
    count, n = M.shape
    kind, bounded, mean = VALUES.index(law.values), law.values in FEW, value_moment(law.values, 1)
    losses, errors, by_M, by_b = np.zeros(count), np.zeros(count), np.zeros((count, n)), np.zeros(count)
    plain, share = law.independent, 1.0
    units = [] if plain else blocks(law)
    if law.exactly is not None:
        every = _packed(units, np.ones(n, np.bool_), law.exactly)
        share = sweep(every, 0, 0, np.ones(n, np.complex128))[0].real

    def solve(k: int) -> None:
        i = int(features[k])
        kept, own = np.arange(n) != i, float(law.p[i])
        heard = np.abs(M[k]) > (lattice.SILENT if bounded else 0.0)
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
                found, by_m, error = lattice.case(kind, m, a, b[k], on, others, allowed[k], work)
            else:
                found, by_m, error = wedge.case(kind, m, a, b[k], on, others, p, near[k])
            chance /= share
            losses[k] += chance * found[0]
            by_b[k] += chance * found[1]
            by_M[k, i] += chance * found[2]
            slope += chance * by_m
            errors[k] += chance * error
        rest = ~kept
        rest[i] = False
        by_M[k, kept], by_M[k, rest] = slope, mean * law.p[rest] * by_b[k]

    each(solve, count)
    return Outputs(losses, errors, by_M, by_b)


def _without_relu(law: Features, M: FloatArray, features: IntArray, b: FloatArray) -> Outputs:
    """Return E (x - y)^2 of the outputs y = M x + b, from second moments."""
    second, mean = law.second_moment_matrix() / np.outer(law.scale, law.scale), law.mean / law.scale
    left = np.eye(law.n_features)[features] - M
    along, shift = left @ second, left @ mean
    sizes, far = np.abs(left), np.abs(b)
    terms = np.sum(sizes @ np.abs(second) * sizes, axis=1) + 2.0 * far * (sizes @ np.abs(mean)) + far**2
    return Outputs(
        np.sum(along * left, axis=1) - 2.0 * b * shift + b * b,
        _rounding(law) * terms,
        2.0 * (b[:, None] * mean - along),
        2.0 * (b - shift),
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
    )


def _without_bounds(law: Features, M: FloatArray, features: IntArray, b: FloatArray) -> Outputs:
    """Return the outputs for values without bounds: what `wedge` integrates and what it leaves out."""
    own, found = law.second_moment[features] / law.scale[features] ** 2, _without_relu(law, M, features, b)
    near = (b > 0.0) & (found.losses <= NEAR * own)
    part, rest = _by_transforms(law, M, features, b, own, 0.0, near), _silenced(law, features, found, near)
    return Outputs(*(getattr(part, name) + getattr(rest, name) for name in part.__dataclass_fields__))


def _with_bounds(
    law: Features, M: FloatArray, features: IntArray, b: FloatArray, allowed: FloatArray, work: float
) -> Outputs:
    """Return the outputs for bounded values: by moments where the ReLU never bends, else by transforms."""
    low = -1.0 if law.values == "symmetric" else 0.0
    least, most = b + np.minimum(low * M, M).sum(axis=1), b + np.maximum(low * M, M).sum(axis=1)
    bent, near = (least < 0.0) & (most > 0.0), least >= 0.0
    if bent.all():  # no second moments, n^2 of them
        return _by_transforms(law, M, features, b, allowed, work, near)
    found = _silenced(law, features, _without_relu(law, M, features, b), near)
    part = _by_transforms(law, M[bent], features[bent], b[bent], allowed[bent], work, near[bent])
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
) -> Outputs:
    """Return the outputs asked for; row k of `M` and b[k] make the output that wants features[k].

    Everything is in units of the features' scales: y_i/scale_i has the weights M_ij scale_j/scale_i.
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
    kind = VALUES.index(law.values)
    allowed = np.maximum(tol * p[features] * value_moment(law.values, 2), np.finfo(np.float64).tiny)
    uniform = law.independent and law.values == "uniform"
    if uniform and slopes and law.n_features <= FOLDED:
        found = Outputs(*by_folds(rows, features, bias, p))
    elif law.n_features <= FEW.get(law.values, 0):
        found = Outputs(*by_patterns(rows, features, bias, np.array(chances(law)), kind))
    elif uniform and not slopes:
        losses, errors = together(
            lambda part: rows_uniform(rows[part], features[part], bias[part], p, tol), bias.size
        )
        found = Outputs(losses, errors, np.empty((0, 0)), np.empty(0))
    elif law.values not in FEW:
        found = _without_bounds(law, rows, features, bias)
    else:
        work = WORK if most is None else float(most) * law.n_features
        found = _with_bounds(law, rows, features, bias, allowed, work)
    losses, errors = found.losses * units**2, found.errors * units**2
    lost = ~(errors <= max(LOST, 2.0 * tol) * (np.abs(losses) + law.second_moment.max()))
    if most is None and np.any(lost):
        k = int(np.flatnonzero(lost)[0])
        raise ValueError(
            f"`M` must have entries that double precision can tell apart; the loss of row {k}, "
            f"{losses[k]:.3g}, would be off by up to {errors[k]:.3g}."
        )
    if not slopes:
        return Outputs(losses, errors, found.by_M, found.by_b)
    return Outputs(losses, errors, found.by_M * np.outer(units, law.scale), found.by_b * units)


def _law(law: Any, n: int) -> Features:
    features = as_features(law, n)
    least = features.p[features.p > 0.0].min(initial=1.0)
    if least < LEAST:
        raise ValueError(f"`law` must have probabilities of 0 or at least {LEAST:g}; got {least:g}.")
    return features


def _asked(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, rows: Any, tol: float, slopes: bool, most: int | None = None
) -> tuple[FloatArray, Outputs]:
    """Return the outputs asked for, all by default, and their importances."""
    M = real("M", matrix("M", M), -LARGEST, LARGEST)
    n = M.shape[1]
    if M.shape[0] != n:
        raise ValueError(f"`M` must be square; got shape {M.shape}.")
    bias, features = real("b", arguments.each("b", b, n), -LARGEST, LARGEST), _law(law, n)
    picked = np.arange(n) if rows is None else arguments.indices("rows", rows, n)
    tol = number("tol", tol, 0.0, 1.0, brackets="()")
    found = outputs(features, M[picked], picked, bias[picked], tol, slopes, most)
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
) -> tuple[float, FloatArray, FloatArray]:
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
        Terms of a lattice sum at most, whatever the bound; by default some 2^26/n_features.

    Returns
    -------
    loss : float
        The exact loss per feature, importance included, from the same sum as the gradient.
    by_M : (n, n) ndarray of float64
        Derivatives of the loss, one row for each output asked for. Where an output is 0 with positive
        probability, at a kink, they are those of the output that stays off.
    by_b : (n,) ndarray of float64

    Raises
    ------
    ValueError
        As in `exact_loss`.

    Examples
    --------
    >>> loss, by_M, by_b = value_and_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> round(loss, 6), by_b.round(4)
    (0.000933, array([-0.006, -0.006, -0.006]))
    """
    most = None if frequencies is None else integer("frequencies", frequencies, 1, 2**24)
    importance, found = _asked(M, b, law, rows, tol, True, most)
    weights = importance / importance.size
    return float(weights @ found.losses), weights[:, None] * found.by_M, weights * found.by_b


def exact_gradient(
    M: npt.ArrayLike, b: npt.ArrayLike, law: Any, *, tol: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the exact loss per feature by M and by b.

    Brute force agrees to 1e-10 of the largest entry of a row, with weights that differ by twelve decades.

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
        As in `exact_loss`.

    Examples
    --------
    >>> by_M, by_b = exact_gradient(np.eye(3), np.full(3, -0.1), 0.1)
    >>> by_M.round(4)[0], by_b.round(4)
    (array([-0.0033, -0.0003, -0.0003]), array([-0.006, -0.006, -0.006]))
    """
    return value_and_gradient(M, b, law, tol=tol)[1:]
