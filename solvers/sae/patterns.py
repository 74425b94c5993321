"""Laws whose patterns of features that are on can be listed: independent or not, few features."""

from itertools import product
from math import prod

import numpy as np

from ...theory.arguments import FloatArray
from ...theory.features import Features
from ...theory.models import Model
from ..loss.hidden.layer import FEW, Setting, Unit, _patterns
from ..loss.hidden.network import units_of
from ..loss.methods.outputs import Law

__all__ = [
    "MOST_LISTED",
    "Means",
    "affordable",
    "listed",
    "means_by_patterns",
    "rate_slopes",
    "second_moments",
    "setting_and_units",
    "squared_error",
]

# Features whose patterns are listed where they are not independent.
MOST_LISTED = 12
# Patterns of features, at most.
MOST_PATTERNS = 4096


def listed(features: Features) -> tuple[FloatArray, FloatArray]:
    """Return all patterns (r, n) of few features that have a probability, and these (r,).

    Examples
    --------
    >>> from superposition.theory.features import parent_child
    >>> rows, chances = listed(Features(2, 0.5, groups=[parent_child(0, [1], 0.25, 0.2)]))
    >>> rows.astype(int).tolist(), chances.round(3).tolist()
    ([[0, 0], [1, 0], [1, 1]], [0.75, 0.2, 0.05])
    """
    n, blocks = features.n_features, features.blocks
    count = prod(len(block.weights) for block in blocks)
    if n > MOST_LISTED or count > MOST_PATTERNS:
        rule = f"of independent features, or of at most {MOST_LISTED} with {MOST_PATTERNS} patterns"
        raise ValueError(
            f"`law` must be {rule}; got {n} features that are not independent, {count} patterns."
        )
    found: dict[bytes, tuple[FloatArray, float]] = {}
    for choice in product(*(range(len(block.weights)) for block in blocks)):
        row, chance = np.zeros(n), 1.0
        for block, at in zip(blocks, choice, strict=True):
            row[block.members] = block.patterns[at]
            chance *= float(block.weights[at])
        if chance > 0.0 and (features.exactly is None or row.sum() == features.exactly):
            before = found.get(row.tobytes(), (row, 0.0))[1]
            found[row.tobytes()] = row, before + chance
    rows = np.array([row for row, _ in found.values()])
    total = np.array([chance for _, chance in found.values()])
    return rows, total / total.sum()


def setting_and_units(whole: Model, law: Features, tol: float) -> tuple[Setting, list[Unit]]:
    """Return the setting of a law and the latents of a model of its features."""
    setting = Setting.of(Law(law), "identity", tol, 1.0)
    return setting, units_of(whole, setting)


def affordable(setting: Setting, rows: FloatArray, units: list[Unit], slopes: bool = False) -> None:
    """Refuse patterns in which a pair of latents reads more features than can be integrated.

    With `slopes` a feature counts whether it is read or not.
    """
    values = setting.law.values
    if values.discrete or values == "normal":
        return
    heard = np.array([np.full(rows.shape[1], True) if slopes else unit.w != 0.0 for unit in units])
    most, few = 0, FEW[setting.table.degree >= 0]
    for i in range(len(units)):
        for j in range(i, len(units)):
            most = max(most, int(np.max(rows @ np.maximum(heard[i], heard[j]), initial=0.0)))
    if most > few:
        rule = (
            f"have at most {few} features on that two latents read, where values are not discrete or normal"
        )
        raise ValueError(f"`law` must {rule}; got {most}.")


class Means:
    """Means of latents over listed patterns, in units of the values, with derivatives of the products.

    Attributes
    ----------
    mean : (n_latents,) ndarray of float64
        E h.
    by_targets : (n_latents, n) ndarray of float64
        E h x'.
    products : (n_latents, n_latents) ndarray of float64
        E h h'.
    pairs : list of (i, j, found, by_w)
        Of each pair: value, derivatives by both biases, fluxes at both thresholds; and the derivatives (2, n)
        by both rows of weights.
    """

    def __init__(self, count: int, n: int):
        self.mean, self.by_targets = np.zeros(count), np.zeros((count, n))
        self.products = np.zeros((count, count))
        self.pairs: list[tuple[int, int, FloatArray, FloatArray]] = []


def alone(
    unit: Unit, rows: FloatArray, chances: FloatArray, bias: float, threshold: float, quiet: FloatArray,
    w2: FloatArray, b2: float,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return what a latent and a linear function w2 x + b2 of the features make together."""
    weights = np.ascontiguousarray(np.stack([unit.w, w2]))
    units = (weights, np.array([bias, b2]), np.array([threshold, 0.0]))
    return _patterns(unit.setting, units, rows, chances, False, quiet)


def means_by_patterns(
    setting: Setting, units: list[Unit], rows: FloatArray, chances: FloatArray, slopes: bool = False
) -> Means:
    """Return the means of latents, and of their products with each other and the features.

    Without `slopes` the features that a latent, or a pair, does not read are left out of the integrals.
    """
    affordable(setting, rows, units, slopes)
    count, n = len(units), rows.shape[1]
    found = Means(count, n)
    for i, unit in enumerate(units):
        quiet = np.full(n, np.nan) if slopes else np.where(unit.w == 0.0, setting.mean, np.nan)
        one, by = alone(unit, rows, chances, unit.b, unit.t, quiet, np.zeros(n), 1.0)
        found.mean[i], found.by_targets[i] = one[0], by[1]
        for j in range(i, count):
            other = units[j]
            either = np.flatnonzero(np.ones(n) if slopes else (unit.w != 0.0) | (other.w != 0.0))
            w = np.ascontiguousarray(np.stack([unit.w, other.w])[:, either])
            both = (w, np.array([unit.b, other.b]), np.array([unit.t, other.t]))
            seen = np.ascontiguousarray(rows[:, either])
            value, slope = _patterns(setting, both, seen, chances, True, np.full(either.size, np.nan))
            by_w = np.zeros((2, n))
            by_w[:, either] = slope
            found.products[i, j] = found.products[j, i] = value[0]
            found.pairs.append((i, j, value, by_w))
    return found


def second_moments(setting: Setting, rows: FloatArray, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return E x and E x x' over listed patterns, in units of the values."""
    joint = (rows.T * chances) @ rows
    p = joint.diagonal().copy()
    square = joint * setting.mean**2
    np.fill_diagonal(square, p * float(setting.law.values.moment(2)))
    return p * setting.mean, square


def squared_error(
    whole: Model, found: Means, phi: FloatArray, moments: tuple[FloatArray, FloatArray]
) -> tuple[float, float]:
    """Return E |phi x - V h - c|^2 over listed patterns, and the sum of the sizes of its terms."""
    V, c = whole.W_out, whole.b
    mean, square = moments
    terms = (
        np.sum(phi @ square * phi), np.sum((V.T @ V) * found.products), c @ c,
        -2.0 * np.sum((V.T @ phi) * found.by_targets), 2.0 * c @ V @ found.mean, -2.0 * c @ phi @ mean,
    )  # fmt: skip
    return max(float(sum(terms)), 0.0), float(sum(map(abs, terms)))


def rate_slopes(unit: Unit, rows: FloatArray, chances: FloatArray) -> tuple[float, FloatArray, float]:
    """Return P(h > 0) over listed patterns, its derivatives by the weights (n,), and the one by the bias.

    The derivative of E z 1(z > t) is E v 1(z > t) plus a flux, which is t v times the density of z at t.
    Shifted to thresholds of one and of 0 a latent is on together, and the difference is the flux.
    """
    n = rows.shape[1]
    loud, nothing = np.full(n, np.nan), np.zeros(n)
    one = float(np.abs(unit.w).max(initial=0.0)) or 1.0
    at_one, by_one = alone(unit, rows, chances, unit.b - unit.t + one, one, loud, nothing, 1.0)
    _, by_zero = alone(unit, rows, chances, unit.b - unit.t, 0.0, loud, nothing, 1.0)
    return float(at_one[1] - at_one[3]), (by_one[0] - by_zero[0]) / one, float(at_one[3]) / one
