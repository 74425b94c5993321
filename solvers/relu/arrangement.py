"""The geometry of an arrangement of directions: inner products, orthogonal parts and their names."""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from ...theory import validation
from ...theory.loss import checks
from ...theory.relu import POLYTOPES, feature_dimensionality, polygon, polytope, simplex
from ...theory.validation import FloatArray, IntArray
from ..results import result

__all__ = ["CLOSE", "Geometry", "geometry", "named_groups", "represented", "shapes"]

# Inner products closer than this are equal: minima reach 1e-7 in position when flat, 1e-12 otherwise.
CLOSE = 1e-6
LEAST_OUTPUT = 1e-3  # a feature is represented when its own output, at value 1, is above this

# Encodings shorter than this are dropped, and inner products of directions closer than this are equal.
_SAME = 1e-3


@result
class Geometry:
    """Inner products of an arrangement's directions and its orthogonal parts; see :func:`geometry`."""

    inner: FloatArray
    """Distinct inner products of different features, ascending. Shape (n_values,)."""
    counts: IntArray
    """Number of unordered pairs with each value of `inner`. Shape (n_values,)."""
    dimensionality: FloatArray
    """Share of a dimension that each feature uses, 1/sum_j (W_i . W_j)^2 on unit vectors. Shape (n,)."""
    positions: int
    """Distinct directions: fewer than features when some coincide."""
    antipodal: int
    """Pairs of opposite directions, coinciding ones counted once."""
    parts: tuple[str, ...]
    """Sorted names of the parts that are orthogonal to each other; `k in r`: k features, rank r, no name."""
    name: str
    """The parts in words, such as `antipodal pair + pentagon`."""


@cache
def _catalogue() -> tuple[tuple[str, int, FloatArray], ...]:
    """Return (name, dimension, sorted inner products) of all arrangements of unit vectors that have a name.

    "pentagon" and "antipodal pair" are such names; inner products are those of different vectors.
    """
    named = [("single", np.eye(1)), ("antipodal pair", simplex(1))]
    named += [(name, polytope(name)) for name in POLYTOPES]
    named += [(f"simplex of {m + 1}", simplex(m)) for m in range(5, 33)]
    named += [(f"{k}-gon", polygon(k)) for k in range(8, 33)]
    return tuple((name, W.shape[1], _sorted_inner_products(W)) for name, W in named)


def _sorted_inner_products(W: FloatArray) -> FloatArray:
    """Return the inner products of different rows of W in ascending order."""
    return np.sort((W @ W.T)[np.triu_indices(len(W), 1)])


def _name_of_part(W: FloatArray, weights: IntArray, tol: float) -> str:
    """Return the name of an arrangement of unit vectors W, such as "2 x pentagon", or "7 in 3" if unknown.

    `weights` are the numbers of features in each direction, a row of W. Inner products are equal if they
    differ by at most `tol`.
    """
    rank = int(np.linalg.matrix_rank(W, tol=tol))
    n, inner = len(W), _sorted_inner_products(W)
    if np.all(weights == weights[0]):
        for name, m, known in _catalogue():
            if m == rank and known.size == inner.size and np.allclose(known, inner, rtol=0, atol=tol):
                return f"{weights[0]} x {name}" if weights[0] > 1 else name
    total = int(weights.sum())
    return f"{total} in {rank}" + (f" at {n} positions" if total > n else "")


def _orthogonal_parts(units: FloatArray, tol: float) -> tuple[FloatArray, list[tuple[str, IntArray]]]:
    """Return (distinct directions, list of (name, rows) of the orthogonal parts) of the unit vectors `units`.

    `units` has a vector in each row; the rows of a part are indices. Vectors have one direction if their
    inner product is within `tol` of 1, and are orthogonal if it is within `tol` of 0.
    """
    labels = connected_components(units @ units.T > 1 - tol, directed=False)[1]
    first, weights = np.unique(labels, return_index=True, return_counts=True)[1:]
    distinct = units[first]
    blocks = connected_components(np.abs(distinct @ distinct.T) > tol, directed=False)[1]
    parts = []
    for k in range(blocks.max(initial=-1) + 1):
        mine = blocks == k
        parts.append((_name_of_part(distinct[mine], weights[mine], tol), np.flatnonzero(mine[labels])))
    return distinct, parts


def _checked_rows(W: npt.ArrayLike, tol: float) -> tuple[FloatArray, float]:
    """Return (W as a matrix, tol); ValueError if W is empty or not finite, or `tol` is not in (0, 0.5].

    A ValueError is also raised if the inner products of W's rows do not fit in memory.
    """
    W = validation.matrix("W", W)
    validation.check_fits("W", f"shape {W.shape}", 8.0 * len(W) ** 2)
    return W, validation.number("tol", tol, 0, 0.5, brackets="(]")


def unit_rows(W: FloatArray, least: float) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return (unit vectors along the rows of W longer than `least`, mask of those rows)."""
    size = max(float(np.abs(W).max()), np.finfo(np.float64).tiny)  # squares of large entries overflow
    rows = W / size
    lengths = np.linalg.norm(rows, axis=1)
    is_represented = lengths > least / size
    return np.asarray(rows[is_represented] / lengths[is_represented, None]), is_represented


def geometry(W: npt.ArrayLike, *, tol: float = CLOSE) -> Geometry:
    """Return the inner products of an arrangement's directions, and its orthogonal parts with their names.

    A part has a name if its sorted inner products are those of a known polytope in as many dimensions. "2 x
    pentagon" has two features, of the same direction, at each vertex.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row. Only directions matter; zero rows are left out.
    tol : float, optional
        Inner products of unit vectors within this are equal, in (0, 0.5].

    Returns
    -------
    Geometry

    Raises
    ------
    ValueError
        If `W` is not a finite matrix, or all its rows are zero, or `tol` is out of range.

    Examples
    --------
    >>> found = geometry([[1, 0], [-1, 0], [0, 1], [0, 2]])
    >>> found.name, found.antipodal, found.positions
    ('2 x single + antipodal pair', 1, 3)
    """
    W, tol = _checked_rows(W, tol)
    units, is_represented = unit_rows(W, 0.0)
    if not is_represented.any():
        raise ValueError(f"`W` must have a row that is not zero; got {len(W)} zero rows.")
    inner = _sorted_inner_products(units)
    # Gaps above the tolerance part the values.
    groups = np.split(inner, np.flatnonzero(np.diff(inner) > tol) + 1) if inner.size else []
    distinct, part_of_unit = _orthogonal_parts(units, tol)
    parts = sorted(name for name, _ in part_of_unit)
    part_counts = [(part, parts.count(part)) for part in dict.fromkeys(parts)]
    return Geometry(
        inner=np.array([group.mean() for group in groups]),
        counts=np.array([group.size for group in groups], dtype=np.int64),
        dimensionality=feature_dimensionality(units),
        positions=len(distinct),
        antipodal=int(np.sum(np.triu(distinct @ distinct.T < tol - 1, 1))),
        parts=tuple(parts),
        name=" + ".join(f"{many} {part}s" if many > 1 else part for part, many in part_counts),
    )


def named_groups(W: npt.ArrayLike, *, tol: float = 1e-3) -> str:
    """Return a model's orthogonal groups of features in words, with the names that `geometry` gives them.

    W, (n_features, n_hidden), has one encoding a row; all may be zero. Groups are orthogonal to each other,
    and the numbers are those of the features, from 0. A feature is "dropped" if its encoding is not longer
    than `tol`; inner products of unit vectors are equal if they differ by at most `tol`. Errors are those of
    `geometry`.

    Examples
    --------
    >>> named_groups([[1, 0], [0, 1.0], [0, -1.0], [0, 0]])
    'single 0, antipodal pair 1-2, dropped 3'
    """
    W, tol = _checked_rows(W, tol)
    units, is_represented = unit_rows(W, tol)
    rows = np.flatnonzero(is_represented)
    groups = [(rows[members].tolist(), name) for name, members in _orthogonal_parts(units, tol)[1]]
    groups += [([int(i)], "dropped") for i in np.flatnonzero(~is_represented)]
    return ", ".join(f"{name} {'-'.join(map(str, members))}" for members, name in sorted(groups))


def represented(W: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return a mask of the features that a model ReLU(W W' x + b) responds to.

    Parameters
    ----------
    W, b : (n_features, n_hidden), (n_features,) array_like of float
        Encodings, one a row, and biases, with the errors of `geometry`.

    Returns
    -------
    (n_features,) ndarray of bool
        True if |W_i|^2 + b_i, the output at the value 1 of feature i alone, and |W_i| are above 1e-3.

    Examples
    --------
    >>> represented([[1.0], [-1.0], [0.1]], [0.0, 0.0, -0.1])
    array([ True,  True, False])
    """
    W = checks.encodings(W)
    square = np.square(W).sum(axis=1)
    return np.asarray(
        (square + validation.vector("b", b, len(W)) > LEAST_OUTPUT) & (square > LEAST_OUTPUT**2)
    )


def shapes(W: np.ndarray) -> str:
    """Return a model's groups of features in words, such as '2 antipodal pairs, 1 dropped'.

    W, (n_features, n_hidden), has one encoding a row; groups, named by `geometry`, are orthogonal to each
    other.
    """
    is_represented = np.linalg.norm(W, axis=1) > _SAME
    dropped = [f"{np.sum(~is_represented)} dropped"] if not is_represented.all() else []
    return ", ".join(
        ([geometry(W[is_represented], tol=_SAME).name] if is_represented.any() else []) + dropped
    )
