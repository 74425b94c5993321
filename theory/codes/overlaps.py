"""Codes of equal features: the inner products of one with the others, and the number of dimensions.

Two features of a code overlap by one of a few inner products. Around a feature of a strongly regular graph
with n corners of degree d and an eigenvalue tau < 0 of multiplicity m there are two, in m dimensions: tau/d
with the d neighbours, which are few and far away, and -(1 + tau)/(n - 1 - d) with the others, near a right
angle.

Subtracting the largest overlap mu > 0 of all, in one more dimension, leaves the model (G - mu)/(1 - mu)
without positive interference, whose loss is F p² + O(p³) without bias (`small_p_constant`). For the
generalised quadrangles GQ(q, q²) F ratio → 1/3 for large q: the loss tends to p sigma², what rank alone
leaves of the interference, without a logarithm.
"""

import math

import numpy as np

from .. import validation
from ..relu import polygon, polytope, simplex
from ..results import result
from ..validation import FloatArray

__all__ = ["CODES", "Overlaps", "overlaps", "strongly_regular"]


@result
class Overlaps:
    """Inner products of one feature of a code with the others, and how often each occurs."""

    name: str
    """Name of the code."""
    n_features: int
    """Number of encodings of the code."""
    n_hidden: int
    """Rank of the encodings' Gram matrix."""
    values: tuple[float, ...]
    """Distinct inner products with the other encodings, in units of the squared norm."""
    counts: tuple[int, ...]
    """Number of encodings with each of `values`; the counts add up to n_features - 1."""

    def row(self) -> FloatArray:
        """Return a row of the Gram matrix, shape (n_features,): 1 for the encoding itself, then overlaps."""
        validation.check_fits("n_features", self.n_features, self.n_features)
        return np.concatenate([[1.0], np.repeat(self.values, self.counts)])


def strongly_regular(
    name: str, n: int, degree: int, common_adjacent: int, common_nonadjacent: int
) -> Overlaps:
    """Return the overlaps of the code that has a feature for each corner of a strongly regular graph.

    Encodings are the corners' projections on the eigenspace of the adjacency matrix's least eigenvalue. See
    Brouwer and Van Maldeghem (2022), Strongly Regular Graphs, ch. 1.

    Parameters
    ----------
    name : str
        Name of the code, for the result.
    n, degree, common_adjacent, common_nonadjacent : int
        Numbers of corners, of neighbours of a corner, of common neighbours of two adjacent corners, and of
        common neighbours of two corners that are not adjacent.

    Returns
    -------
    Overlaps
        Exact. That a graph with these parameters exists is not checked.

    Raises
    ------
    ValueError
        If no graph can have these parameters, or the eigenvalue has no whole multiplicity.

    Examples
    --------
    >>> strongly_regular("Petersen", 10, 3, 0, 1)
    Overlaps(name='Petersen', n_features=10, n_hidden=4, values=(-0.666666667, 0.166666667), counts=(3, 6))
    """
    validation.instance("name", name, str)
    n = validation.integer("n", n, 3, 10**15)
    d = validation.integer("degree", degree, 1, n - 2)
    common_adjacent = validation.integer("common_adjacent", common_adjacent, 0, d - 1)
    common_nonadjacent = validation.integer("common_nonadjacent", common_nonadjacent, 0, d)
    if d * (d - common_adjacent - 1) != (n - d - 1) * common_nonadjacent:
        raise ValueError(
            "`common_nonadjacent` must satisfy degree (degree - common_adjacent - 1) = (n - degree - 1) "
            f"common_nonadjacent; got {common_nonadjacent!r}."
        )
    root = math.sqrt((common_adjacent - common_nonadjacent) ** 2 + 4 * (d - common_nonadjacent))
    tau = 0.5 * (common_adjacent - common_nonadjacent - root)
    m = 0.5 * (n - 1 + (2 * d + (n - 1) * (common_adjacent - common_nonadjacent)) / root)
    if abs(m - round(m)) > 1e-9:
        raise ValueError(f"`n` must give the least eigenvalue a whole multiplicity; got {n!r} with {m:g}.")
    return Overlaps(name, n, round(m), (tau / d, -(1.0 + tau) / (n - 1 - d)), (d, n - 1 - d))


def _quadrangle(q: int) -> Overlaps:
    """Return the `Overlaps` of the code made from the generalised quadrangle GQ(q, q²).

    The code has a feature for each of the (q + 1)(q³ + 1) points of this strongly regular graph. It exists
    for every prime power q, which is not checked: q is a whole number from 2 to 1000.
    """
    q = validation.integer("q", q, 2, 1000)
    return strongly_regular(f"quadrangle {q}", (q + 1) * (q**3 + 1), q * (q * q + 1), q - 1, q * q + 1)


def code_points(name: str) -> FloatArray:
    """Return the encodings of the code `name`, unit vectors, one a row: "pair", a polytope, "simplex 3", ....

    A code is an arrangement of encodings of equal length. Codes made from graphs are not among these.
    """
    kind, _, number = name.rpartition(" ")
    if kind in ("simplex", "polygon") and number.isdecimal():
        return simplex(int(number)) if kind == "simplex" else polygon(int(number))
    return simplex(1) if name == "pair" else polytope(name)


def _overlaps_of_points(name: str, W: FloatArray) -> Overlaps:
    """Return the `Overlaps` with this `name` of the unit vectors W, one a row: inner products with the first.

    Each distinct inner product, to 14 decimals, is listed with the number of rows that have it.
    """
    products = W[1:] @ W[0]
    rounded = np.round(products, 14) + 0.0
    values, counts = np.unique(rounded, return_counts=True)
    exact = tuple(float(products[rounded == value].mean()) if value else 0.0 for value in values)
    return Overlaps(name, W.shape[0], W.shape[1], exact, tuple(int(count) for count in counts))


_GRAPHS = {
    "Petersen": (10, 3, 0, 1),
    "Clebsch": (16, 5, 0, 2),
    "Hoffman-Singleton": (50, 7, 0, 1),
    "Gewirtz": (56, 10, 0, 2),
    "M22": (77, 16, 0, 4),
    "Higman-Sims": (100, 22, 0, 6),
    "McLaughlin": (275, 112, 30, 56),
}
_POINTS = (
    "pair",
    "triangle",
    "tetrahedron",
    "pentagon",
    "hexagon",
    "square antiprism",
    "icosahedron",
    "24-cell",
)

CODES: tuple[str, ...] = (*_POINTS, *_GRAPHS, *(f"quadrangle {q}" for q in (2, 3, 4, 5)))
"""Names that :func:`overlaps` knows, beside ``"simplex m"``, ``"polygon n"`` and ``"quadrangle q"``."""


def overlaps(name: str) -> Overlaps:
    """Return the `Overlaps` of the code with this name: inner products of one encoding with the others.

    A code is an arrangement of encodings of equal length.

    Parameters
    ----------
    name : str
        One of :data:`CODES`, or ``"simplex m"``, ``"polygon n"``, ``"quadrangle q"`` with a number, for
        quadrangles from 2 to 1000. "Petersen" is the rectified 5-cell, "Clebsch" the demipenteract,
        "quadrangle 2" the polytope 2_21.

    Returns
    -------
    Overlaps

    Raises
    ------
    ValueError
        If the name is not known, or its number is out of range.

    Examples
    --------
    >>> overlaps("Higman-Sims").n_hidden
    22
    """
    kind, _, number = name.rpartition(" ") if isinstance(name, str) else ("", "", "")
    numbered = kind in ("simplex", "polygon", "quadrangle") and number.isdecimal()
    if numbered and kind == "quadrangle":
        return _quadrangle(int(number))
    if not numbered:
        validation.choice("name", name, CODES)
    return (
        strongly_regular(name, *_GRAPHS[name])
        if name in _GRAPHS
        else _overlaps_of_points(name, code_points(name))
    )
