"""Kernels of points on a sphere: energy, gradient, Hessian, trust-region descents.

They are loops, because array expressions take Numba seconds each to compile.
"""

import math

import numpy as np
import numpy.typing as npt

from ....theory.arguments import FloatArray
from ....theory.kernels import kernel

__all__ = ["descend_all", "energy_and_gradient", "hessian", "project"]

IntArray = npt.NDArray[np.int64]


@kernel
def _inner(A: FloatArray, i: int, B: FloatArray, j: int) -> float:
    total = 0.0
    for k in range(A.shape[1]):
        total += A[i, k] * B[j, k]
    return total


@kernel
def _dot(A: FloatArray, B: FloatArray) -> float:
    total = 0.0
    for i in range(A.shape[0]):
        total += _inner(A, i, B, i)
    return total


@kernel
def _add(A: FloatArray, factor: float, B: FloatArray) -> None:
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            A[i, k] += factor * B[i, k]


@kernel
def _copy(A: FloatArray, B: FloatArray) -> None:
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            B[i, k] = A[i, k]


@kernel
def project(W: FloatArray, V: FloatArray) -> None:
    """Make the rows of `V` tangent to the sphere at the unit rows of `W`."""
    for i in range(W.shape[0]):
        along = _inner(W, i, V, i)
        for k in range(W.shape[1]):
            V[i, k] -= along * W[i, k]


@kernel
def energy_and_gradient(W: FloatArray, b: float, G: FloatArray) -> float:
    """Return the energy; `G` is filled with its gradient in all directions, not only along the sphere."""
    n, m = W.shape
    G[:] = 0.0
    total = 0.0
    for i in range(n):
        for j in range(i):
            c = b + _inner(W, i, W, j)
            if c > 0:
                total += 2 * c * c
                for k in range(m):
                    G[i, k] += 4 * c * W[j, k]
                    G[j, k] += 4 * c * W[i, k]
    return total


@kernel
def hessian(W: FloatArray, b: float, G: FloatArray, V: FloatArray, H: FloatArray) -> None:
    """Fill `H` with the Hessian on the sphere applied to the tangent `V`."""
    n, m = W.shape
    for i in range(n):
        along = _inner(W, i, G, i)
        for k in range(m):
            H[i, k] = -along * V[i, k]
    for i in range(n):
        for j in range(i):
            c = b + _inner(W, i, W, j)
            if c > 0:
                t = _inner(V, i, W, j) + _inner(W, i, V, j)
                for k in range(m):
                    H[i, k] += 4 * (t * W[j, k] + c * V[j, k])
                    H[j, k] += 4 * (t * W[i, k] + c * V[i, k])
    project(W, H)


@kernel
def _step(W: FloatArray, b: float, G: FloatArray, g: FloatArray, radius: float, work: FloatArray) -> float:
    """Fill ``work[0]`` with a step of length `radius` at most; return the decrease that it promises.

    Conjugate gradients on the quadratic model, which stop at the border or at negative curvature (Steihaug).
    """
    s, Hs, r, d, H = work[0], work[1], work[2], work[3], work[4]  # (unpacked, they would not be contiguous)
    work[:] = 0.0
    _add(r, -1.0, g)
    _add(d, -1.0, g)
    rr = _dot(g, g)
    norm = math.sqrt(rr)
    goal = norm * min(0.1, norm)  # superlinear near a minimum
    for _ in range(g.size):
        hessian(W, b, G, d, H)
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
        project(W, r)
        old, rr = rr, _dot(r, r)
        if math.sqrt(rr) <= goal:
            break
        for i in range(d.shape[0]):
            for k in range(d.shape[1]):
                d[i, k] = r[i, k] + rr / old * d[i, k]
    return -(_dot(g, s) + 0.5 * _dot(s, Hs))


@kernel
def _descend(W: FloatArray, b: float, tol: float, most: int) -> tuple[float, float, int]:
    """Move `W` to a minimum; return energy, gradient norm and steps."""
    n, m = W.shape
    work, G, g = np.empty((5, n, m)), np.empty((n, m)), np.empty((n, m))
    T, trial_G, trial_g = np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    energy, radius = energy_and_gradient(W, b, G), 0.5
    _copy(G, g)
    project(W, g)
    norm = math.sqrt(_dot(g, g))
    used = 0
    while used < most and norm > tol:
        used += 1
        promised = _step(W, b, G, g, radius, work)
        length = math.sqrt(_dot(work[0], work[0]))
        _copy(W, T)
        _add(T, 1.0, work[0])
        for i in range(n):
            size = math.sqrt(_inner(T, i, T, i))
            for k in range(m):
                T[i, k] /= size
        trial = energy_and_gradient(T, b, trial_G)
        _copy(trial_G, trial_g)
        project(T, trial_g)
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
            _copy(T, W)
            _copy(trial_G, G)
            _copy(trial_g, g)
    return energy, norm, used


@kernel
def descend_all(W: FloatArray, b: float, tol: float, most: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Move each of the arrangements W[s] to a minimum; return energies, gradient norms and steps."""
    starts = W.shape[0]
    energies, norms, used = np.empty(starts), np.empty(starts), np.empty(starts, np.int64)
    for s in range(starts):
        energies[s], norms[s], used[s] = _descend(W[s], b, tol, most)
    return energies, norms, used
