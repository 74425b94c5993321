"""The generalised Thomson problem: points on a sphere that pay for positive inner products only."""

import math
from dataclasses import dataclass

import numpy as np
from numba import prange

from ...theory import arguments
from ...theory.arguments import FloatArray, number
from ...theory.kernels import kernel, parallel_kernel
from .thomson_geometry import Geometry, geometry

__all__ = ["Thomson", "thomson"]

# Energies closer than this, beside 1 + energy, are one minimum: minima known to differ do so by 1e-3 or more,
# converged starts agree to 1e-12, and starts on slow, degenerate ones are within 1e-8 when they stop.
SAME = 1e-7


@dataclass(frozen=True)
class Thomson:
    """Least energy found and where; see :func:`thomson`."""

    W: FloatArray
    """Best arrangement, unit vectors, shape (n_features, n_hidden)."""
    energy: float
    """Its energy, summed over ordered pairs."""
    gradient_norm: float
    """Norm of the gradient on the sphere there: how far from stationary."""
    energies: FloatArray
    """Energies at the end of all starts, shape (starts,), in their order."""
    gradient_norms: FloatArray
    """Gradient norms at the end of all starts, shape (starts,)."""
    hits: int
    """How many starts ended at the best energy, to 1e-7 beside 1 + energy."""
    geometry: Geometry
    """What the best arrangement looks like."""


# --- Kernels: energy, gradient, Hessian; loops, because array expressions take Numba seconds each ----------


@kernel
def _dot(A: FloatArray, B: FloatArray) -> float:
    total = 0.0
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            total += A[i, k] * B[i, k]
    return total


@kernel
def _add(A: FloatArray, factor: float, B: FloatArray) -> None:
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            A[i, k] += factor * B[i, k]


@kernel
def _set(A: FloatArray, factor: float, B: FloatArray) -> None:
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            A[i, k] = factor * B[i, k]


@kernel
def _project(W: FloatArray, V: FloatArray) -> None:
    for i in range(W.shape[0]):
        along = 0.0
        for k in range(W.shape[1]):
            along += W[i, k] * V[i, k]
        for k in range(W.shape[1]):
            V[i, k] -= along * W[i, k]


@kernel
def _energy(W: FloatArray, b: float, G: FloatArray) -> float:
    """Return the energy; `G` is filled with its gradient in all directions, not only along the sphere."""
    n, m = W.shape
    _set(G, 0.0, W)
    total = 0.0
    for i in range(n):
        for j in range(i):
            c = b
            for k in range(m):
                c += W[i, k] * W[j, k]
            if c > 0:
                total += 2 * c * c
                for k in range(m):
                    G[i, k] += 4 * c * W[j, k]
                    G[j, k] += 4 * c * W[i, k]
    return total


@kernel
def _hessian(W: FloatArray, b: float, G: FloatArray, V: FloatArray, H: FloatArray) -> None:
    """Fill `H` with the Hessian on the sphere applied to the tangent `V`."""
    n, m = W.shape
    for i in range(n):
        along = 0.0
        for k in range(m):
            along += W[i, k] * G[i, k]
        for k in range(m):
            H[i, k] = -along * V[i, k]
    for i in range(n):
        for j in range(i):
            c, t = b, 0.0
            for k in range(m):
                c += W[i, k] * W[j, k]
                t += V[i, k] * W[j, k] + W[i, k] * V[j, k]
            if c > 0:
                for k in range(m):
                    H[i, k] += 4 * (t * W[j, k] + c * V[j, k])
                    H[j, k] += 4 * (t * W[i, k] + c * V[i, k])
    _project(W, H)


@kernel
def _step(W: FloatArray, b: float, G: FloatArray, g: FloatArray, radius: float, work: FloatArray) -> float:
    """Fill ``work[0]`` with a step of length `radius` at most; return the decrease that it promises.

    Conjugate gradients on the quadratic model, which stop at the border or at negative curvature (Steihaug).
    """
    s, Hs, r, d, H = work[0], work[1], work[2], work[3], work[4]
    _set(s, 0.0, g)
    _set(Hs, 0.0, g)
    _set(r, -1.0, g)
    _set(d, -1.0, g)
    rr = _dot(g, g)
    norm = math.sqrt(rr)
    goal = norm * min(0.1, norm)  # superlinear near a minimum
    for _ in range(g.size):
        _hessian(W, b, G, d, H)
        bend, dd, sd, ss = _dot(d, H), _dot(d, d), _dot(s, d), _dot(s, s)
        length = rr / bend if bend > 1e-14 * dd else math.inf
        if bend <= 1e-14 * dd or ss + 2 * length * sd + length * length * dd >= radius * radius:
            length = (math.sqrt(max(sd * sd + dd * (radius * radius - ss), 0.0)) - sd) / dd
            _add(s, length, d)
            _add(Hs, length, H)
            break
        _add(s, length, d)
        _add(Hs, length, H)
        _add(r, -length, H)
        _project(W, r)
        old, rr = rr, _dot(r, r)
        if math.sqrt(rr) <= goal:
            break
        for i in range(d.shape[0]):
            for k in range(d.shape[1]):
                d[i, k] = r[i, k] + rr / old * d[i, k]
    return -(_dot(g, s) + 0.5 * _dot(s, Hs))


@kernel
def _descend(W: FloatArray, b: float, tol: float, max_steps: int) -> tuple[float, float]:
    """Move `W` to a minimum; return energy and gradient norm."""
    n, m = W.shape
    work = np.empty((5, n, m))
    G, g, T, trial_G, trial_g = (
        np.empty((n, m)),
        np.empty((n, m)),
        np.empty((n, m)),
        np.empty((n, m)),
        W.copy(),
    )
    energy, radius = _energy(W, b, G), 0.5
    _set(g, 1.0, G)
    _project(W, g)
    norm = math.sqrt(_dot(g, g))
    for _ in range(max_steps):
        if norm <= tol:
            break
        promised = _step(W, b, G, g, radius, work)
        length = math.sqrt(_dot(work[0], work[0]))
        _set(T, 1.0, W)
        _add(T, 1.0, work[0])
        for i in range(n):
            size = 0.0
            for k in range(m):
                size += T[i, k] * T[i, k]
            for k in range(m):
                T[i, k] /= math.sqrt(size)
        trial = _energy(T, b, trial_G)
        _set(trial_g, 1.0, trial_G)
        _project(T, trial_g)
        trial_norm = math.sqrt(_dot(trial_g, trial_g))
        # Below rounding of the energy only the gradient can tell progress.
        if promised < 1e-13 * (1e-3 + energy):
            quality = 1.0 if trial_norm < norm else -1.0
            if quality < 0 and radius < 1e-14:
                break
        else:
            quality = (energy - trial) / promised
        if quality < 0.25:
            radius = 0.25 * length
        elif quality > 0.75 and length > 0.99 * radius:
            radius = min(2 * radius, 2.0)
        if quality > 0:
            energy, norm = trial, trial_norm
            _set(W, 1.0, T)
            _set(G, 1.0, trial_G)
            _set(g, 1.0, trial_g)
    return energy, norm


@parallel_kernel
def _descend_all(
    W: FloatArray, b: float, tol: float, max_steps: int, energies: FloatArray, norms: FloatArray
) -> None:
    for s in prange(W.shape[0]):
        energies[s], norms[s] = _descend(W[s], b, tol, max_steps)


# --- Public ------------------------------------------------------------------------------------------------


def thomson(
    n_features: int,
    n_hidden: int,
    bias: float = 0.0,
    *,
    starts: int = 64,
    rng: np.random.Generator | int = 0,
    max_steps: int = 5000,
) -> Thomson:
    r"""Minimise the energy of n unit vectors in m dimensions from many random starts.

    .. math:: E(W) = \sum_{i \ne j} \mathrm{ReLU}(W_i \cdot W_j + b)^2, \qquad |W_i| = 1.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 1.
    bias : float, optional
        b, from -1 to 0: inner products up to -b are free.
    starts : int, optional
        Independent uniformly random arrangements to start from.
    rng : Generator or int, optional
        Generator, or seed of one, that draws the starts.
    max_steps : int, optional
        Steps after which a start ends, wherever it is.

    Returns
    -------
    Thomson
        The best arrangement, its geometry, and the energies of all starts.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Trust-region Newton steps by conjugate gradients, on exact derivatives, until the gradient's norm is below
    1e-13 n. The second derivatives jump where an inner product passes -b; minima that lie there (all of
    energy 0) are reached slowly: tens of steps otherwise, hundreds there. A start costs about n^2 m
    microseconds. Starts are shared among Numba's threads, and the numbers do not depend on how many.

    It finds local minima, and the least of them is a bound from above on the minimum; compare
    :func:`superposition.theory.relu.thomson_bound` and
    :func:`superposition.solvers.relu.programmed_bound` below. For n up to 16 and m up to 5 the best energy
    was found by 8 of 128 starts or more; the rarest is n = 12, m = 3.

    Least energies found with 128 starts (seed 0):

    ====  ============  ============  ============  ============
    n     m = 2         m = 3         m = 4         m = 5
    ====  ============  ============  ============  ============
    5     0.954915      0             0             0
    6     3             0             0             0
    7     5.431978      0.954915      0             0
    8     7.808169      2.043833      0             0
    9     10.686292     3.705882      0.954915      0
    10    13.819660     5.956167      1.666667      0
    11    18.389877     8.522694      3.091532      0.954915
    12    23.007563     11.097410     4.421053      1.666667
    13    27.844803     13.852079     6.408037      2.660539
    14    33.125000     16.916375     8.816399      4.032938
    15    38.594235     20.294118     11.249994     5.284939
    16    45.529112     24.054089     14.058706     6.4
    ====  ============  ============  ============  ============

    They are: up to 2m antipodal pairs and all else without acute angles; at 2m + 1 a pentagon and antipodal
    pairs; for m = 2 the hexagon, and from n = 7 on points at 5 positions, two or more at some of them; for
    m = 3 square antiprism, tricapped prism and bicapped antiprism, and from n = 12 on coinciding
    points at 9 positions; for m = 4, n = 10 the rectified 5-cell, for m = 5, n = 16 the demipenteract.
    The kernel is not positive definite: unlike charges, points come to lie on each other.

    References
    ----------
    Elhage et al. (2022), "ReLU". Steps: Absil, Baker and Gallivan, Found. Comput. Math. 7 (2007) 303.

    Examples
    --------
    >>> found = thomson(7, 3, starts=16)
    >>> round(found.energy, 6), found.geometry.name
    (0.954915, 'antipodal pair + pentagon')
    """
    n, m = arguments.integer("n_features", n_features, 1), arguments.integer("n_hidden", n_hidden, 1)
    b = number("bias", bias, -1.0, 0.0)
    starts = arguments.integer("starts", starts, 1)
    max_steps = arguments.integer("max_steps", max_steps, 1)
    W = np.random.default_rng(rng).normal(size=(starts, n, m))
    W /= np.linalg.norm(W, axis=2, keepdims=True)
    energies, norms = np.empty(starts), np.empty(starts)
    _descend_all(W, b, 1e-13 * n, max_steps, energies, norms)
    # Among starts that agree the one that converged furthest speaks.
    same = energies <= energies.min() + SAME * (1 + energies.min())
    best = int(np.argmin(np.where(same, norms, np.inf)))
    return Thomson(
        W=W[best].copy(),
        energy=float(energies[best]),
        gradient_norm=float(norms[best]),
        energies=energies,
        gradient_norms=norms,
        hits=int(same.sum()),
        geometry=geometry(W[best]),
    )
