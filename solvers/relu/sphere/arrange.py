"""The generalised Thomson problem: unit vectors whose energy is that of positive inner products only."""

from dataclasses import replace
from functools import partial

import numpy as np

from ....theory import validation
from ....theory.validation import FloatArray, number
from ...minimise.descent import DescentResult, Round, lbfgs, newton, successive_elimination
from ...results import Status, result
from ..arrangement import Geometry, geometry, unit_rows

__all__ = ["SAME", "Thomson", "thomson"]

# Energies closer than this, relative to 1 + energy, are one minimum: those known to differ do so by 1e-3,
# starts on degenerate ones are within 1e-8 when they stop.
SAME = 1e-7
MOST_WORK = 10**10  # a start takes n^2 m microseconds or more, so the largest problem takes hours
_NEWTON = 600  # coordinates up to which Newton's method finishes the best arrangement


@result
class Thomson:
    """Arrangement of the least energy found; see :func:`thomson`."""

    W: FloatArray
    """Best arrangement, unit vectors. Shape (n_features, n_hidden)."""
    energy: float
    """Energy of `W`, summed over ordered pairs."""
    gradient_norm: float
    """Norm of the gradient on the sphere at `W`."""
    energies: FloatArray
    """Final energy of the descent from each start. Shape (starts,)."""
    gradient_norms: FloatArray
    """Final norm of the gradient of each descent. Shape (starts,)."""
    hits: int
    """Number of starts that ended within 1e-7 (1 + energy) of the best energy."""
    geometry: Geometry
    """Inner products and orthogonal parts of the best arrangement."""
    status: Status
    """CONVERGED if the gradient is within the tolerance, STALLED if rounding or a kink stopped the descent,
    STEPS if its steps ran out."""


def energy_and_gradient(W: FloatArray, bias: float) -> tuple[float, FloatArray]:
    """Return the energy sum_(i != j) ReLU(W_i.W_j + bias)^2 and its gradient with respect to W.

    The gradient is not projected on the sphere.
    """
    over = W @ W.T + bias
    np.fill_diagonal(over, 0.0)
    over = np.maximum(over, 0.0)
    return float(np.sum(over * over)), 4.0 * over @ W


def _energy_of_directions(x: FloatArray, shape: tuple[int, int], bias: float) -> tuple[float, FloatArray]:
    """Return sum_(i != j) ReLU(W_i.W_j + bias)^2, W_i the unit vector along row i of x, and its gradient.

    x and the gradient with respect to x are flat; `shape` is (n, m), for n rows.
    """
    W = x.reshape(shape)
    lengths = np.sqrt(np.einsum("ik,ik->i", W, W))[:, None]
    W = W / lengths
    energy, by = energy_and_gradient(W, bias)
    return energy, ((by - np.einsum("ik,ik->i", W, by)[:, None] * W) / lengths).ravel()


def energy_hessian(W: FloatArray, bias: float) -> FloatArray:
    """Return the Hessian of the energy on the sphere, (n m, n m), 0 along the normals.

    The energy of the unit vectors W, (n, m), is sum_(i != j) ReLU(W_i.W_j + bias)^2. At its kink ReLU counts
    as off.
    """
    n, m = W.shape
    over = W @ W.T + bias
    np.fill_diagonal(over, -1.0)
    slope, curvature, same = 4.0 * np.maximum(over, 0.0), 4.0 * (over > 0.0), np.eye(m)
    H = np.einsum("ij,jk,il->ikjl", curvature, W, W) + np.einsum("ij,kl->ikjl", slope, same)
    diagonal = np.einsum("ij,jk,jl->ikl", curvature, W, W) - np.einsum("ij,ij,kl->ikl", slope, W @ W.T, same)
    H[np.arange(n), :, np.arange(n), :] += diagonal
    tangent = same - W[:, :, None] * W[:, None, :]
    return np.asarray(np.einsum("ikp,ipjq,jql->ikjl", tangent, H, tangent).reshape(n * m, n * m))


def _refine_by_newton(W: FloatArray, bias: float) -> FloatArray:
    """Return the unit vectors W moved to a stationary point of the energy by Newton's method.

    The energy is sum_(i != j) ReLU(W_i.W_j + bias)^2. A step is made only if it halves the gradient.
    """
    shape = W.shape

    def gradient(x: FloatArray) -> FloatArray:
        """Return the gradient of the energy by the flat vector x."""
        return _energy_of_directions(x, shape, bias)[1]

    def slope(x: FloatArray) -> float:
        """Return the norm of the gradient."""
        return float(np.linalg.norm(gradient(x)))

    none = np.zeros((W.size, 0))
    for _ in range(12):  # Newton steps
        x = newton(gradient, W.ravel(), energy_hessian(W, bias), none, slope, 1)[0]
        W = x.reshape(shape) / np.linalg.norm(x.reshape(shape), axis=1, keepdims=True)
    return W


def thomson(
    n_features: int,
    n_hidden: int,
    bias: float = 0.0,
    *,
    starts: int = 64,
    rng: np.random.Generator | int | None = 0,
    steps: int = 5000,
    workers: int | None = None,
) -> Thomson:
    r"""Return the unit vectors of least energy from many random starts (a generalised Thomson problem).

    The energy is :math:`\sum_{i \ne j} \mathrm{ReLU}(W_i \cdot W_j + b)^2`, `theory.relu.thomson_energy`.
    Descents are by L-BFGS-B on the directions of free rows; the best end is refined by Newton's method, and
    has converged where the gradient's norm is below 1e-12 n. Lower bounds are
    `superposition.theory.relu.thomson_bound` and `linear_programming_bound`.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 1.
    bias : float, optional
        b, from -1 to 0: inner products up to -b add nothing to the energy.
    starts, steps, rng : int, int, Generator, optional
        Number of uniformly random starts, most steps of each descent, and what draws the starts.
    workers : int, optional
        Threads that share the starts; all of Numba's by default. The result does not depend on it.

    Returns
    -------
    Thomson
        The best arrangement, its geometry, and the energies of all starts.

    Raises
    ------
    ValueError
        If a number is out of range, or the starts together would take hours.

    Examples
    --------
    >>> found = thomson(7, 3, starts=16)
    >>> round(found.energy, 6), found.geometry.name
    (0.954915, 'antipodal pair + pentagon')
    """
    n, m = validation.integer("n_features", n_features, 1), validation.integer("n_hidden", n_hidden, 1)
    b = number("bias", bias, -1.0, 0.0)
    starts = validation.integer("starts", starts, 1)
    steps = validation.integer("steps", steps, 1, 10**9)
    if starts * n * n * m > MOST_WORK:
        raise ValueError(
            "`n_features` must be smaller: `starts` times n_features^2 n_hidden may be 1e10 at most; "
            f"got {n} with {m} hidden neurons and {starts} starts."
        )
    W = validation.generator("rng", rng).normal(size=(starts, n, m))
    W /= np.linalg.norm(W, axis=2, keepdims=True)
    least = 1e-13 * n

    def descend_to_units(start: DescentResult) -> DescentResult:
        """Return the end of a descent from a start, with unit vectors, their energy and gradient's norm."""
        sphere = partial(_energy_of_directions, shape=(n, m), bias=b)
        end = lbfgs(sphere, start.x, steps=steps, ftol=0.0, gtol=0.0, gradient_norm_tol=least)
        units = unit_rows(end.x.reshape(n, m), 0.0)[0]
        energy, by = _energy_of_directions(units.ravel(), (n, m), b)
        return replace(end, x=units, value=energy, slope=float(np.linalg.norm(by)))

    threads = None if workers is None else validation.integer("workers", workers, 1)
    ends, _ = successive_elimination(
        [DescentResult.at(x) for x in W.reshape(starts, -1)],
        [Round(descend_to_units)],
        workers=threads,
        keep_all=True,
    )
    energies, norms = np.array([end.value for end in ends]), np.array([end.slope for end in ends])
    # Among starts that agree the one that converged furthest speaks.
    same = energies <= energies.min() + SAME * (1 + energies.min())
    best = int(np.argmin(np.where(same, norms, np.inf)))
    arrangement = ends[best].x
    if n * m <= _NEWTON and m > 1:
        arrangement = _refine_by_newton(arrangement, b)
        energies[best], by = _energy_of_directions(arrangement.ravel(), (n, m), b)
        norms[best] = np.linalg.norm(by)
    unfinished = Status.STEPS if ends[best].status is Status.STEPS else Status.STALLED
    return Thomson(
        W=arrangement,
        energy=float(energies[best]),
        gradient_norm=float(norms[best]),
        energies=energies,
        gradient_norms=norms,
        hits=int(same.sum()),
        geometry=geometry(arrangement),
        status=Status.CONVERGED if norms[best] <= 1e-12 * n else unfinished,
    )
