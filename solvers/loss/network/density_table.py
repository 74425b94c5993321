"""The density of a law of values as polynomials, with the integrals that kernels of hidden layers need."""

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ....theory.compile.kernels import inlined
from ....theory.features.values.law import ValueDistribution
from ....theory.special.normal import POINTS, WEIGHTS
from ....theory.validation import FloatArray

__all__ = ["SMOOTH", "DensityTable", "density_at", "integrals_between", "table_of"]

DEGREE = 14  # of a polynomial that stands for a smooth density on a panel of WIDTH: good to 1e-16
WIDTH = 0.5
SMOOTH = 20  # Gauss points on a panel of a smooth density; fewer on a part of it
_MOST = 24


class DensityTable(NamedTuple):
    """The density of a law of values, as polynomials between edges, with cumulative integrals."""

    edges: FloatArray
    """(P + 1,): ends of the P panels, on each of which the density is a polynomial."""
    density: FloatArray
    """(P, d): coefficients of the density in x, which goes from -1 to 1 on a panel, lowest power first."""
    integrals: FloatArray
    """(3, P, d + 3): coefficients in x of the integrals of v^r times the density from the panel's left edge
    on."""
    cumulative: FloatArray
    """(3, P + 1): these integrals from the first edge up to each edge."""
    panels: FloatArray
    """Edges between which values are integrated at Gauss points, those of one feature excepted: these have
    closed forms."""
    corners: FloatArray
    """Where the density jumps."""
    kinks: FloatArray
    """Edges of `panels` at which a smooth density is split."""
    degree: int
    """Degree of the density, or -1 if it is no polynomial."""
    nodes: FloatArray
    """(25, 24): Gauss points on [0, 1]; row q has q of them."""
    weights: FloatArray


def _gauss_rules() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [0, 1] of Gauss rules with 1 to 24 points, in the rows 1 to 24."""
    nodes, weights = np.zeros((2, _MOST + 1, _MOST))
    for q in range(1, _MOST + 1):
        x, w = np.polynomial.legendre.leggauss(q)
        nodes[q, :q], weights[q, :q] = 0.5 + 0.5 * x, 0.5 * w
    return nodes, weights


_NODES, _WEIGHTS = _gauss_rules()


def _rescale_polynomial(coefficients: FloatArray, low: float, high: float) -> FloatArray:
    """Return the coefficients of a polynomial in x from its `coefficients` in v, both lowest power first.

    x goes from -1 to 1 as v goes from `low` to `high`.
    """
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    polynomial = np.zeros(1)
    for c in coefficients[::-1]:
        polynomial = np.polynomial.polynomial.polyadd(np.convolve(polynomial, [middle, half]), [c])
    return polynomial[: coefficients.size]


@lru_cache(64)
def table_of(values: ValueDistribution) -> DensityTable:
    """Return the density of `values` as polynomials between edges, with integrals; no edges without one.

    The integrals are of v^r times the density, r = 0, 1, 2. A density that is given by polynomials keeps its
    pieces; others are fitted by polynomials on intervals of one width.
    """
    corners = kinks = np.empty(0)
    if values.density is None:
        edges, rows, panels, degree = np.empty(0), np.empty((0, 1)), np.empty(0), 0
    elif values.pieces:
        pieces = [(float(a), float(b), np.asarray(c, float)) for a, b, c in values.pieces]
        degree = max(c.size - 1 for *_, c in pieces)
        edges = np.unique([end for a, b, _ in pieces for end in (a, b)])
        rows = np.zeros((edges.size - 1, degree + 1))
        for a, b, c in pieces:
            for k in range(edges.size - 1):
                if a <= edges[k] and edges[k + 1] <= b:
                    rows[k, : c.size] += _rescale_polynomial(c, edges[k], edges[k + 1])
        panels = corners = edges
    else:
        low, high = values.reach
        edges = np.linspace(low, high, 1 + int(np.ceil((high - low) / WIDTH)))
        degree = -1
        rows = np.array([_fit_polynomials(values, a, b) for a, b in pairwise(edges)])
        panels = _smooth_panels(values, low, high)
        corners = np.array([end for end in values.support if np.isfinite(end)])
        kinks = np.setdiff1d(panels, corners)
    count, size = rows.shape
    integrals, cumulative = np.zeros((3, count, size + 3)), np.zeros((3, count + 1))
    for k in range(count):
        half, middle = 0.5 * (edges[k + 1] - edges[k]), 0.5 * (edges[k + 1] + edges[k])
        times = rows[k]
        for r in range(3):
            antiderivative = np.polynomial.polynomial.polyint(times, lbnd=-1.0) * half
            integrals[r, k, : antiderivative.size] = antiderivative
            cumulative[r, k + 1] = cumulative[r, k] + antiderivative.sum()
            times = np.convolve(times, [middle, half])
    return DensityTable(edges, rows, integrals, cumulative, panels, corners, kinks, degree, _NODES, _WEIGHTS)


def _smooth_panels(values: ValueDistribution, low: float, high: float) -> FloatArray:
    """Return edges of few panels from `low` to `high` on which Gauss points are exact to rounding.

    They integrate |v|^r, r = 0, ..., 8, times the density of `values` and times its square: an interval is
    halved until two Gauss rules agree to 4e-15 of a moment of order r or r - 1.
    """
    assert values.density is not None
    density, powers = values.density, np.arange(9)[:, None]
    total = np.array([abs(values.moment(2 * (r // 2))) for r in range(9)])

    def integral(low: float, high: float, nodes: FloatArray, weights: FloatArray) -> FloatArray:
        """Return integrals from `low` to `high` of |v|^r times the density and times its square, r = 0..8."""
        v = low + (high - low) * nodes
        mass = weights * density(v) * np.abs(v) ** powers  # its square: where the next one is as steep
        return np.asarray((high - low) * np.sum(np.concatenate([mass, mass * density(v)]), axis=1))

    def ends(low: float, high: float) -> list[float]:
        """Return upper ends of the panels into which `low` to `high` is halved until the rules agree."""
        coarse = integral(low, high, _NODES[SMOOTH, :SMOOTH], _WEIGHTS[SMOOTH, :SMOOTH])
        if np.all(np.abs(coarse - integral(low, high, POINTS, WEIGHTS)) <= 4e-15 * np.tile(total, 2)):
            return [high]
        middle = 0.5 * (low + high)
        return ends(low, middle) + ends(middle, high)

    return np.array([low, *ends(low, high)])


def _fit_polynomials(values: ValueDistribution, low: float, high: float) -> FloatArray:
    """Return the coefficients of the polynomial in x that fits the density of `values` from `low` to `high`.

    x goes from -1 to 1 there; the lowest power comes first.
    """
    assert values.density is not None
    density = values.density

    def at(x: Any) -> Any:
        """Return the density at x, which goes from -1 to 1 as v goes from `low` to `high`."""
        return density(0.5 * (low + high) + 0.5 * (high - low) * np.asarray(x, float))

    fit: Any = np.polynomial.chebyshev.chebinterpolate(at, DEGREE)
    return np.asarray(np.polynomial.chebyshev.cheb2poly(fit), float)


@inlined
def _find_panel(edges: FloatArray, v: float) -> int:
    """Return the index k for which edges[k] <= v < edges[k + 1], by bisection; the last for larger v."""
    low, high = 0, edges.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if v >= edges[middle]:
            low = middle
        else:
            high = middle
    return low


@inlined
def density_at(table: DensityTable, v: float) -> float:
    """Return the density at v, which lies between the table's edges."""
    k = _find_panel(table.edges, v)
    low, high = table.edges[k], table.edges[k + 1]
    x = (2.0 * v - low - high) / (high - low)
    value = 0.0
    for j in range(table.density.shape[1] - 1, -1, -1):
        value = value * x + table.density[k, j]
    return value


@inlined
def _integrals_up_to(table: DensityTable, v: float) -> tuple[float, float, float]:
    """Return the integrals of v^r times the table's density from its first edge up to v, r = 0, 1, 2."""
    k = _find_panel(table.edges, v)
    low, high = table.edges[k], table.edges[k + 1]
    x = (2.0 * v - low - high) / (high - low)
    a, b, c = 0.0, 0.0, 0.0
    for j in range(table.integrals.shape[2] - 1, -1, -1):
        a = a * x + table.integrals[0, k, j]
        b = b * x + table.integrals[1, k, j]
        c = c * x + table.integrals[2, k, j]
    return a + table.cumulative[0, k], b + table.cumulative[1, k], c + table.cumulative[2, k]


@inlined
def integrals_between(table: DensityTable, low: float, high: float) -> tuple[float, float, float]:
    """Return the integrals of v^r times the table's density from `low` to `high`, r = 0, 1, 2."""
    if table.degree == 0 and table.edges.size == 2:  # without cancellation
        f, width = table.density[0, 0], high - low
        middle = 0.5 * (low + high)
        mass = f * width
        return mass, mass * middle, mass * (middle * middle + width * width / 12.0)
    a, b, c = _integrals_up_to(table, high)
    d, e, f = _integrals_up_to(table, low)
    return a - d, b - e, c - f
