r"""Arrangements of unit vectors with a closed form for their energy: polygons, polytopes, orthogonal sums.

Energies are those of :func:`superposition.theory.relu.thomson_energy` without bias. Orthogonal pieces add
theirs, and antipodal pairs have none: a pentagon and a pair are 7 points in 3 dimensions with the pentagon's.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..loss.checks import MOST
from ..validation import FloatArray, Real, check_fits, choice, finite, integer, scalar_or_array, whole_numbers

__all__ = ["POLYTOPES", "polygon", "polygon_energy", "polytope", "simplex"]


def polygon(n_features: int) -> FloatArray:
    """Return the unit vectors of the corners of a regular polygon.

    Parameters
    ----------
    n_features : int
        Number of corners, at least 3.

    Returns
    -------
    (n_features, 2) ndarray of float64

    Examples
    --------
    >>> polygon(3).round(3)
    array([[ 1.   ,  0.   ],
           [-0.5  ,  0.866],
           [-0.5  , -0.866]])
    """
    n = integer("n_features", n_features, 1)
    check_fits("n_features", n, 4 * n)
    angle = 2 * math.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def simplex(n_hidden: int) -> FloatArray:
    """Return the m + 1 corners of the regular simplex in m dimensions, with inner products -1/m and energy 0.

    Parameters
    ----------
    n_hidden : int
        m, at least 1.

    Returns
    -------
    (m + 1, m) ndarray of float64
        Unit vectors, one a row.

    Raises
    ------
    ValueError
        If `n_hidden` is not a whole number of at least 1, or too large.

    Examples
    --------
    >>> simplex(1)
    array([[ 1.],
           [-1.]])
    """
    m = integer("n_hidden", n_hidden, 1)
    check_fits("n_hidden", m, m * (m + 1))
    # Column k: what corner k has in its own direction, and all later ones against it.
    W = np.zeros((m + 1, m))
    for k in range(m):
        height = math.sqrt((m + 1) * (m - k) / (m * (m - k + 1)))
        W[k, k] = height
        W[k + 1 :, k] = -height / (m - k)
    return W


@finite
def polygon_energy(n_features: npt.ArrayLike) -> Real:
    r"""`thomson_energy` of the n corners of a regular polygon, as unit vectors: exact.

    .. math:: E = \frac n4 \begin{cases}
              n - 4 & n\ \text{even} \\
              n - 3 - 1/\cos(\pi/n) & n = 5, 9, 13, \dots \\
              n - 5 + 1/\cos(\pi/n) & n = 3, 7, 11, \dots \end{cases}

    The energy is the sum of ReLU(W_i.W_j)^2 over ordered pairs. The relative error is 1e-14. For n = 3 and 4,
    where E = 0, the absolute error is 1e-15. Errors are those of `simplex`.

    Parameters
    ----------
    n_features : array_like of int
        n, at least 3.

    Examples
    --------
    >>> round(polygon_energy(5), 6), polygon_energy(6)
    (0.954915, 3.0)
    """
    n = whole_numbers("n_features", n_features, 3, MOST)
    turn = np.cos(np.pi / n)
    odd = np.where(n % 4 == 1, n - 3 - 1 / turn, n - 5 + 1 / turn)
    return scalar_or_array(np.asarray(np.where(n % 2 == 0, n * (n - 4), n * odd) / 4))


def _all_signs(*values: float) -> list[tuple[float, ...]]:
    """Return all points (±v_1, ±v_2, ...) with the given coordinates' sizes, sorted."""
    return sorted(set(itertools.product(*((v, -v) for v in values))))


def _cyclic_shifts(points: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Return, for each of `points`, its three cyclic shifts of the coordinates."""
    return [p[k:] + p[:k] for p in points for k in range(3)]


def _two_rings(square: float, upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Return the points, (2 k, 3), of two rings at opposite heights on the unit sphere, the upper one first.

    `upper` and `lower`, (k, 2), are unit vectors of the plane; `square` is the square of the height.
    """
    height, radius = math.sqrt(square), math.sqrt(1 - square)
    layers = [np.c_[radius * ring, np.full(len(ring), z)] for ring, z in ((upper, height), (lower, -height))]
    return np.concatenate(layers)


def _antiprism(square: float) -> FloatArray:
    """Return the 8 corners of a square antiprism, unit vectors (8, 3), at the heights ±sqrt(square)."""
    ring = polygon(8)
    return _two_rings(square, ring[::2], ring[1::2])


def _tricapped_prism() -> FloatArray:
    """Return the 9 corners of the tricapped triangular prism of least energy, unit vectors, (9, 3)."""
    ring = polygon(6)
    return np.concatenate([_two_rings(8 / 17, ring[::2], ring[::2]), np.c_[ring[1::2], np.zeros(3)]])


def _rectified_simplex() -> FloatArray:
    """Return all sums of two corners of the 4-simplex, (10, 4), not normalised: the rectified 5-cell."""
    corners = simplex(4)
    return np.array([corners[i] + corners[j] for i, j in itertools.combinations(range(5), 2)])


def _icositetrachoron() -> FloatArray:
    """Return the 24 corners (±1, ±1, 0, 0) of the 24-cell, with the coordinates in all orders."""
    axes = itertools.combinations(range(4), 2)
    return np.array([a * np.eye(4)[i] + b * np.eye(4)[j] for i, j in axes for a, b in _all_signs(1, 1)])


_GOLDEN = (1 + math.sqrt(5)) / 2

_MAKERS: dict[str, Callable[[], FloatArray]] = {
    "triangle": lambda: polygon(3),
    "pentagon": lambda: polygon(5),
    "hexagon": lambda: polygon(6),
    "heptagon": lambda: polygon(7),
    "tetrahedron": lambda: simplex(3),
    "square antiprism": lambda: _antiprism((1 + 3 * math.sqrt(2)) / 17),
    "tricapped prism": _tricapped_prism,
    "bicapped antiprism": lambda: np.r_[_antiprism((5 * math.sqrt(2) - 4) / 17), [[0, 0, 1], [0, 0, -1]]],
    "cube": lambda: np.array(_all_signs(1, 1, 1)),
    "icosahedron": lambda: np.array(_cyclic_shifts(_all_signs(0.0, 1.0, _GOLDEN))),
    "cuboctahedron": lambda: np.array(_cyclic_shifts(_all_signs(0.0, 1.0, 1.0))),
    "dodecahedron": lambda: np.array(
        _all_signs(1, 1, 1) + _cyclic_shifts(_all_signs(0.0, 1 / _GOLDEN, _GOLDEN))
    ),
    "5-cell": lambda: simplex(4),
    "rectified 5-cell": _rectified_simplex,
    "24-cell": _icositetrachoron,
    "demipenteract": lambda: np.array([p for p in _all_signs(1, 1, 1, 1, 1) if math.prod(p) > 0]),
}

POLYTOPES: tuple[str, ...] = tuple(_MAKERS)
"""Names that :func:`polytope` knows."""


def polytope(name: str) -> FloatArray:
    """Return the arrangement `name` of points on the sphere as unit vectors, one a row.

    Parameters
    ----------
    name : str
        One of :data:`POLYTOPES`.

    Returns
    -------
    (n_features, n_hidden) ndarray of float64
        Unit vectors, to 1e-15.

    Examples
    --------
    >>> polytope("icosahedron").shape
    (12, 3)
    """
    W = _MAKERS[choice("name", name, POLYTOPES)]()
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))
