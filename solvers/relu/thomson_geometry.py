"""What an arrangement of directions looks like: inner products, orthogonal parts, names, curvature."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from ...theory import arguments
from ...theory.arguments import FloatArray, number
from ...theory.relu.forces import feature_dimensionality
from ...theory.relu.polytopes import POLYTOPES, polytope, simplex

__all__ = ["Curvature", "Geometry", "curvature", "geometry"]

# Inner products closer than this are equal: minima reach 1e-7 in position when flat, 1e-12 otherwise.
CLOSE = 1e-6
# An eigenvalue below this is zero: true ones of minima in the table are above 0.01, rounding leaves 1e-12.
FLAT = 1e-6


@dataclass(frozen=True)
class Geometry:
    """Summary of an arrangement, from directions alone; see :func:`geometry`."""

    inner: FloatArray
    """Distinct inner products of different features, ascending, shape (n_values,)."""
    counts: npt.NDArray[np.int64]
    """How many unordered pairs have them, shape (n_values,)."""
    dimensionality: FloatArray
    """Share of a dimension that each feature uses, 1/sum_j (W_i . W_j)^2 on unit vectors, shape (n,)."""
    positions: int
    """Distinct directions: below n_features when some coincide."""
    antipodal: int
    """Pairs of opposite directions, coinciding ones counted once."""
    parts: tuple[str, ...]
    """Names of the parts that are orthogonal to each other, sorted; "k in r" where no name is known."""
    name: str
    """The parts in words."""


@cache
def _catalogue() -> tuple[tuple[str, int, FloatArray], ...]:
    """Return name, rank and sorted inner products of all arrangements with a name."""
    named = [(name, polytope(name)) for name in POLYTOPES]
    named += [(f"simplex of {m + 1}", simplex(m)) for m in range(5, 9)]
    return tuple((name, W.shape[1], _inner(W)) for name, W in named)


def _inner(W: FloatArray) -> FloatArray:
    return np.sort((W @ W.T)[np.triu_indices(len(W), 1)])


def _part(W: FloatArray, weights: npt.NDArray[np.int64]) -> str:
    rank = int(np.linalg.matrix_rank(W, tol=CLOSE))
    n, inner = len(W), _inner(W)
    times = f"{weights[0]} x " if weights[0] > 1 else ""
    if np.all(weights == weights[0]):
        if n == 1:
            return f"{times}single"
        if n == 2 and rank == 1:
            return f"{times}antipodal pair"
        for name, m, known in _catalogue():
            if m == rank and known.size == inner.size and np.allclose(known, inner, rtol=0, atol=CLOSE):
                return f"{times}{name}"
    total = int(weights.sum())
    return f"{total} in {rank}" + (f" at {n} positions" if total > n else "")


def geometry(W: npt.ArrayLike) -> Geometry:
    """Describe the directions of an arrangement.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, row i is feature i. Only directions matter; zero rows are left out.

    Returns
    -------
    Geometry

    Raises
    ------
    ValueError
        If `W` is not a finite matrix, or all its rows are zero.

    Notes
    -----
    Inner products are equal when they are within 1e-6. A part gets a name when its sorted inner products
    are those of a polytope that is known by name, in as many dimensions: no two of these share them. The
    order of features within a polytope is not compared.

    Examples
    --------
    >>> found = geometry([[1, 0], [-1, 0], [0, 1], [0, 2]])
    >>> found.name, found.antipodal, found.positions
    ('2 x single + antipodal pair', 1, 3)
    >>> found.inner, found.counts
    (array([-1.,  0.,  1.]), array([1, 4, 1]))
    """
    W = arguments.matrix("W", W)
    lengths = np.linalg.norm(W, axis=1)
    if not np.any(lengths > 0):
        raise ValueError(f"`W` must have a row that is not zero; got {len(W)} zero rows.")
    units = np.asarray(W[lengths > 0] / lengths[lengths > 0, None])
    inner = _inner(units)
    # Gaps above the tolerance part the values.
    groups = np.split(inner, np.flatnonzero(np.diff(inner) > CLOSE) + 1) if inner.size else []
    labels = connected_components(units @ units.T > 1 - CLOSE, directed=False)[1]
    first, weights = np.unique(labels, return_index=True, return_counts=True)[1:]
    distinct = units[first]
    G = distinct @ distinct.T
    blocks = connected_components(np.abs(G) > CLOSE, directed=False)[1]
    parts = sorted(_part(distinct[blocks == k], weights[blocks == k]) for k in range(blocks.max() + 1))
    counted = [(part, parts.count(part)) for part in dict.fromkeys(parts)]
    return Geometry(
        inner=np.array([group.mean() for group in groups]),
        counts=np.array([group.size for group in groups], dtype=np.int64),
        dimensionality=feature_dimensionality(units),
        positions=len(distinct),
        antipodal=int(np.sum(np.triu(G < CLOSE - 1, 1))),
        parts=tuple(parts),
        name=" + ".join(f"{many} {part}s" if many > 1 else part for part, many in counted),
    )


# --- Second derivatives -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curvature:
    """Second derivatives of the energy on the sphere; see :func:`curvature`."""

    eigenvalues: FloatArray
    """Eigenvalues of the Hessian, ascending, shape (n_features (n_hidden - 1),)."""
    index: int
    """How many are negative: 0 at a minimum."""
    flat: int
    """How many are zero and not due to rotations of the whole arrangement."""
    rotations: int
    """Dimension of the rotations that move the arrangement, all with eigenvalue zero."""
    contacts: int
    """Pairs with an inner product of -b, at which the second derivative jumps."""


def curvature(W: npt.ArrayLike, bias: float = 0.0) -> Curvature:
    """Return the Hessian's eigenvalues on the sphere, its index and its flat directions.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, no zero rows; only their directions matter.
    bias : float, optional
        The shared bias of the energy, from -1 to 0.

    Returns
    -------
    Curvature

    Raises
    ------
    ValueError
        If `W` is not a finite matrix or has a zero row, or `bias` is outside [-1, 0].

    Notes
    -----
    Eigenvalues below 1e-6 in size count as zero. Where an inner product equals -b (to 1e-6) the second
    derivative jumps: it is there on one side only. Such contacts count half, which is exact without bias for
    a feature at right angles to both of an antipodal pair, as in all minima of positive energy known
    here; in other cases it is the mean of the two sides. A dense matrix of size n (m - 1): meant for some
    hundred rows.

    Examples
    --------
    >>> angle = 2 * np.pi * np.arange(5) / 5
    >>> found = curvature(np.c_[np.cos(angle), np.sin(angle)])
    >>> found.index, found.flat, found.rotations
    (0, 0, 1)
    """
    W = arguments.matrix("W", W)
    b = number("bias", bias, -1.0, 0.0)
    lengths = np.linalg.norm(W, axis=1)
    if not np.all(lengths > 0):
        raise ValueError(f"`W` must have no zero row; got one at index {int(np.argmin(lengths))}.")
    units = np.asarray(W / lengths[:, None])
    n, m = units.shape
    C = units @ units.T + b
    np.fill_diagonal(C, -1.0)
    slope = 4 * np.maximum(C, 0.0)
    bend = np.where(np.abs(C) < FLAT, 2.0, np.where(C > 0, 4.0, 0.0))
    # Tangents of each row: what the row itself leaves of a complete orthonormal basis.
    frames = np.linalg.svd(units[:, None, :], full_matrices=True)[2][:, 1:, :]
    across = np.einsum("ikm,jm->ikj", frames, units)
    H = np.einsum("ij,ikj,jli->ikjl", bend, across, across)
    H += np.einsum("ij,ikm,jlm->ikjl", slope, frames, frames)
    own = np.einsum("ij,ikj,ilj->ikl", bend, across, across)
    own -= np.einsum("ij,ij,kl->ikl", slope, units @ units.T, np.eye(m - 1))
    H[np.arange(n), :, np.arange(n), :] += own
    size = n * (m - 1)
    eigenvalues = np.linalg.eigvalsh(H.reshape(size, size)) if size else np.empty(0)
    rank = int(np.linalg.matrix_rank(units, tol=FLAT))
    rotations = rank * (rank - 1) // 2 + rank * (m - rank)
    zero = int(np.sum(np.abs(eigenvalues) < FLAT))
    return Curvature(
        eigenvalues=eigenvalues,
        index=int(np.sum(eigenvalues <= -FLAT)),
        flat=zero - rotations,
        rotations=rotations,
        contacts=int(np.sum(np.triu(np.abs(C) < FLAT, 1))),
    )
