"""Bounds on the energy of points on a sphere, by linear programming."""

from functools import partial
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev
from scipy import optimize, special

from ....theory import validation
from ....theory.validation import FloatArray, number

__all__ = ["linear_programming_bound"]

ROUNDS = 6  # linear programs on grids that are refined: three bring the excess below 1e-9 in all cases tried
# Beyond, the values of Gegenbauer polynomials leave the range in which they were checked.
MOST_HIDDEN, MOST_FEATURES = 10**5, 10**9


def _harmonics(m: int, degree: int) -> list[Chebyshev]:
    """Return Gegenbauer polynomials of degrees 0 to `degree` for the sphere in m dimensions, each 1 at 1.

    For m = 1, a sphere of two points, only degrees 0 and 1 are returned: the others have the same values.
    """
    if m == 1:  # two points: only even and odd
        return [Chebyshev([1.0]), Chebyshev([0.0, 1.0])]

    def value(k: int, c: FloatArray) -> FloatArray:
        """Return the polynomial of degree k, Gegenbauer's scaled to 1 at 1, at the inner products c."""
        if m == 2:
            return np.asarray(special.eval_chebyt(k, c))
        half = (m - 2) / 2
        return np.asarray(special.eval_gegenbauer(k, half, c) / special.eval_gegenbauer(k, half, 1.0))

    return [Chebyshev.interpolate(partial(value, k), k) for k in range(degree + 1)]


def _candidate_extrema(f: Chebyshev, low: float, high: float) -> FloatArray:
    """Return the ends of [low, high] and the stationary points of f between them."""
    roots = f.deriv().roots()
    inside = roots.real[(np.abs(roots.imag) < 1e-6) & (roots.real > low) & (roots.real < high)]
    return np.concatenate([[low, high], inside])


def _linear_programme(objective: FloatArray, m: int, t: float, degree: int) -> tuple[float, float]:
    """Return f_0 and h(1) of the polynomial h(c) <= ReLU(c - t)^2 of least sum of objective[k] f_k.

    h is the sum of f_k times Gegenbauer polynomials of degrees k up to `degree`, each 1 at 1, for the sphere
    in m dimensions, with f_k >= 0 for k >= 1; c is an inner product. If h exceeds the kernel ReLU(c - t)^2
    between the grid points, both results are lowered by the excess. RuntimeError if the linear program is not
    solved.
    """
    basis = _harmonics(m, degree)
    objective = objective[: len(basis)]
    grid = np.array([-1.0, 1.0]) if m == 1 else np.cos(np.linspace(0.0, np.pi, 500))
    square = Chebyshev([t * t + 0.5, -2 * t, 0.5])
    bounds = [(None, None)] + [(0.0, None)] * (len(basis) - 1)
    tight: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for _ in range(ROUNDS):
        values, kernel = np.stack([f(grid) for f in basis], axis=1), np.maximum(grid - t, 0.0) ** 2
        solution = optimize.linprog(objective, values, kernel, bounds=bounds, method="highs", options=tight)
        if solution.x is None:
            raise RuntimeError(f"the linear program was not solved: {solution.message}")
        # A tiny leading coefficient would spoil the roots of derivatives.
        weights = np.concatenate([solution.x[:1], np.where(solution.x[1:] > 1e-9, solution.x[1:], 0.0)])
        h = sum((float(w) * f for w, f in zip(weights, basis, strict=True) if w), Chebyshev([0.0]))
        points = grid
        if m > 1:
            points = np.concatenate(
                [_candidate_extrema(h, -1.0, t), _candidate_extrema(h - square, t, 1.0), grid]
            )
        # Between the points of the grid h may pass the kernel: where it does most, they join the grid.
        over = max(float(np.max(h(points) - np.maximum(points - t, 0.0) ** 2)), 0.0)
        if over < 1e-12:
            break
        grid = points
    # What is left of it is taken off.
    return float(weights[0]) - over, float(np.sum(weights)) - over


def linear_programming_bound(n_features: int, n_hidden: int, bias: float = 0.0, *, degree: int = 9) -> float:
    r"""Return the linear programming bound: a lower bound of the energy of all arrangements of unit vectors.

    For a polynomial :math:`h(c) = \sum_k f_k P_k(c) \le \mathrm{ReLU}(c + b)^2` on [-1, 1], with Gegenbauer
    polynomials P_k and f_k >= 0 for k >= 1, the energy is at least :math:`n^2 f_0 - n h(1)`; the program
    finds the best h. The method is Delsarte's and Yudin's (Discrete Math. Appl. 3 (1993) 75). The program
    compares h with the kernel on a grid of c; the largest excess of h between grid points, about 1e-9, is
    subtracted. Where n is a multiple of 5 the bound *equals* the energy of n/5 pentagons in 2 dimensions,
    from degree 8 on.

    Parameters
    ----------
    n_features, n_hidden : int
        n up to 1e9 and m up to 1e5.
    bias, degree : float, int, optional
        b, from -1 to 0, and the largest degree k, from 1 to 30.

    Returns
    -------
    float
        At least 0, and valid up to rounding, about 1e-12 n^2.

    Raises
    ------
    ValueError
        If a number is out of range.
    RuntimeError
        If the linear program is not solved.

    Examples
    --------
    >>> round(linear_programming_bound(5, 2), 6)
    0.954915
    """
    n = validation.integer("n_features", n_features, 1, MOST_FEATURES)
    m = validation.integer("n_hidden", n_hidden, 1, MOST_HIDDEN)
    t = -number("bias", bias, -1.0, 0.0)
    degree = validation.integer("degree", degree, 1, 30)
    # Scaled by n^2, which keeps the program's tolerances relative.
    objective = np.full(degree + 1, 1.0 / n)
    objective[0] -= 1.0
    constant, at_one = _linear_programme(objective, m, t, degree)
    return max(0.0, n * n * constant - n * at_one)
