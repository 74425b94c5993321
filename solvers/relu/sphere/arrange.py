"""The generalised Thomson problem: points on a sphere that pay for positive inner products only."""

import numpy as np
import numpy.typing as npt

from ....theory import arguments
from ....theory.arguments import FloatArray, number
from ...results import Status, result
from ...threads import together
from ..arrangement import Geometry, geometry, units_of
from .kernels import descend_all

__all__ = ["SAME", "Curvature", "Thomson", "curvature", "thomson"]

# Energies closer than this, beside 1 + energy, are one minimum: those known to differ do so by 1e-3 or more,
# converged starts agree to 1e-12, and starts on slow, degenerate ones are within 1e-8 when they stop.
SAME = 1e-7
# An eigenvalue below this is zero: true ones of known minima are above 0.01, rounding leaves 1e-12.
FLAT = 1e-6
# A start takes about n^2 m microseconds, so the largest problem takes hours.
MOST_WORK = 10**10


@result
class Thomson:
    """Least energy found and where; see :func:`thomson`."""

    W: FloatArray
    """Best arrangement, unit vectors. Shape (n_features, n_hidden)."""
    energy: float
    """Its energy, summed over ordered pairs."""
    gradient_norm: float
    """Norm of the gradient on the sphere there: how far from stationary."""
    energies: FloatArray
    """Energies at the end of every start, in their order. Shape (starts,)."""
    gradient_norms: FloatArray
    """Norms of the gradient there. Shape (starts,)."""
    hits: int
    """How many starts ended at the best energy, to 1e-7 beside 1 + energy."""
    geometry: Geometry
    """What the best arrangement looks like."""
    status: Status
    """CONVERGED if the gradient of the best one is within the tolerance, STALLED if rounding or a kink of the
    second derivative stopped it before, STEPS if its steps ran out."""


def thomson(
    n_features: int,
    n_hidden: int,
    bias: float = 0.0,
    *,
    starts: int = 64,
    rng: np.random.Generator | int | None = 0,
    steps: int = 5000,
) -> Thomson:
    """Minimise :func:`superposition.theory.relu.thomson_energy` of unit vectors from many random starts.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 1.
    bias : float, optional
        b, from -1 to 0: inner products up to -b are free.
    starts : int, optional
        Independent uniformly random arrangements to start from.
    rng : Generator, int or None, optional
        Draws the starts.
    steps : int, optional
        Steps after which a start ends, wherever it is.

    Returns
    -------
    Thomson
        The best arrangement, its geometry, and the energies of all starts.

    Raises
    ------
    ValueError
        If a number is out of range, or the starts together would take hours.

    Notes
    -----
    Trust-region Newton steps by conjugate gradients (Absil, Baker and Gallivan, Found. Comput. Math. 7 (2007)
    303) until the gradient's norm is below 1e-13 n; below 1e-12 n it counts as converged. Minima where the
    second derivatives jump, as an inner product is -b (all of energy 0), take hundreds of steps, others tens.
    A start costs about n^2 m microseconds; Numba's threads share the starts.

    The least of the minima found is a bound from above. Bounds from below are
    :func:`superposition.theory.relu.thomson_bound` and
    :func:`superposition.solvers.relu.linear_programming_bound`.

    Examples
    --------
    >>> found = thomson(7, 3, starts=16)
    >>> round(found.energy, 6), found.geometry.name
    (0.954915, 'antipodal pair + pentagon')
    """
    n, m = arguments.integer("n_features", n_features, 1), arguments.integer("n_hidden", n_hidden, 1)
    b = number("bias", bias, -1.0, 0.0)
    starts = arguments.integer("starts", starts, 1)
    steps = arguments.integer("steps", steps, 1, 10**9)
    if starts * n * n * m > MOST_WORK:
        raise ValueError(
            "`n_features` must be smaller: `starts` times n_features^2 n_hidden may be 1e10 at most; "
            f"got {n} with {m} hidden neurons and {starts} starts."
        )
    W = arguments.generator("rng", rng).normal(size=(starts, n, m))
    W /= np.linalg.norm(W, axis=2, keepdims=True)
    energies, norms, used = together(lambda part: descend_all(W[part], b, 1e-13 * n, steps), starts)
    # Among starts that agree the one that converged furthest speaks.
    same = energies <= energies.min() + SAME * (1 + energies.min())
    best = int(np.argmin(np.where(same, norms, np.inf)))
    unfinished = Status.STEPS if used[best] >= steps else Status.STALLED
    return Thomson(
        W=W[best],
        energy=float(energies[best]),
        gradient_norm=float(norms[best]),
        energies=energies,
        gradient_norms=norms,
        hits=int(same.sum()),
        geometry=geometry(W[best]),
        status=Status.CONVERGED if norms[best] <= 1e-12 * n else unfinished,
    )


@result
class Curvature:
    """Second derivatives of the energy on the sphere; see :func:`curvature`."""

    eigenvalues: FloatArray
    """Eigenvalues of the Hessian, ascending. Shape (n_features (n_hidden - 1),)."""
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
        As for `thomson`.

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
    derivative jumps. Such contacts count half: the mean of the two sides. That is exact without bias for a
    feature at right angles to both of an antipodal pair, as in all minima of positive energy known here.

    Examples
    --------
    >>> angle = 2 * np.pi * np.arange(5) / 5
    >>> found = curvature(np.c_[np.cos(angle), np.sin(angle)])
    >>> found.index, found.flat, found.rotations
    (0, 0, 1)
    """
    W = arguments.matrix("W", W)
    arguments.fits("W", W.shape, float(W.size) ** 2 * 3)
    b = number("bias", bias, -1.0, 0.0)
    units, kept = units_of(W, 0.0)
    if not kept.all():
        raise ValueError(f"`W` must have no zero row; got one at index {int(np.argmin(kept))}.")
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
