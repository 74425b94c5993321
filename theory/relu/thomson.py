r"""The Thomson limit: features as points on a sphere that pay for positive inner products only.

With one feature on, no bias, lengths 1 and equal importances, the loss of the ReLU model is a third of

.. math:: E(W) = \sum_{i \ne j} \mathrm{ReLU}(W_i \cdot W_j)^2

(ordered pairs), up to a third for each feature of length 0. Here: what this energy can be. The module
`thomson_loss` says what the loss makes of it, `polytopes` has arrangements with a closed form.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import Real, matrix, number, plain, real, whole

__all__ = [
    "antipodal_energy",
    "capacity_bounds",
    "derive_thomson_bound",
    "thomson_bound",
    "thomson_energy",
]


def derive_thomson_bound() -> dict[str, Any]:
    r"""Derive the bound of :func:`thomson_bound`, with SymPy.

    A parabola h below the energy's kernel, :math:`h(c) \le \mathrm{ReLU}(c - t)^2` for c from -1 to 1, with
    nonnegative coefficients of c and c^2, bounds the energy: the sum of :math:`W_i \cdot W_j` over all i
    and j is not negative, that of its square at least n^2/m, and the n terms with i = j are h(1) each. The
    parabola is :math:`(c - t)^2 - (1 + t)^2 (u c - 1 + u)^2`: 0 at c = -1, and it touches the kernel where
    c = 1/u - 1.

    Returns
    -------
    dict of str to sympy.Expr
        In n, m, t (minus the bias) and c. ``"parabola"`` with its free number u, ``"best"`` for u, and
        ``"bound"``, the bound at the best u. Exact.
    """
    import sympy

    n, m, t, u, c = sympy.symbols("n m t u c", positive=True)
    parabola = (c - t) ** 2 - (1 + t) ** 2 * (u * c - 1 + u) ** 2
    square, _, constant = sympy.Poly(parabola, c).all_coeffs()
    bound = n**2 * (constant + square / m) - n * parabola.subs(c, 1)
    (best,) = sympy.solve(sympy.diff(bound, u), u)
    return {
        "parabola": parabola,
        "best": sympy.factor(best),
        "bound": sympy.factor(sympy.together(bound.subs(u, best))),
    }


def thomson_energy(W: npt.ArrayLike, bias: float = 0.0) -> float:
    r"""Energy of the generalised Thomson problem, summed over ordered pairs.

    .. math:: E(W) = \sum_{i \ne j} \mathrm{ReLU}(W_i \cdot W_j + b)^2

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, row i is feature i. Taken as they are: give them length 1 for points on the sphere.
    bias : float, optional
        A bias b shared by all outputs.

    Returns
    -------
    float
        Relative error 1e-14 times n_hidden. A third of it is the loss with one feature on if all lengths are
        1 and b is 0; for another b it is what that feature costs the other outputs at its largest value, 1.

    Raises
    ------
    ValueError
        If `W` is not a finite matrix or `bias` not a number.

    References
    ----------
    Elhage et al. (2022), "ReLU": L_1 at x_i = 1, uniform importance.

    Examples
    --------
    >>> thomson_energy([[1, 0], [0, 1], [0.6, 0.8], [-1, 0]])
    2.0
    """
    W = matrix("W", W)
    G = W @ W.T + number("bias", bias)
    np.fill_diagonal(G, 0.0)
    return float(np.sum(np.square(np.maximum(G, 0.0))))


def thomson_bound(n_features: npt.ArrayLike, n_hidden: npt.ArrayLike, bias: npt.ArrayLike = 0.0) -> Real:
    r"""Energy that no arrangement of unit vectors goes below: a proved bound in closed form.

    .. math:: E \ge \frac{n\, (n (1 - m t) - 2 m (1 - t))^2}{m\, (n (m + 1) - 4 m)}
              \quad\text{if}\quad n (1 - m t) > 2 m (1 - t), \qquad t = -b,

    and 0 otherwise. Without bias it is :math:`n (n - 2m)^2 / (m (n (m+1) - 4m))` for n > 2m.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        n and m, at least 1.
    bias : array_like of float, optional
        b, from -1 to 0.

    Returns
    -------
    float or ndarray of float64

    Raises
    ------
    ValueError
        If a number is not whole or below 1, or `bias` is outside [-1, 0].

    Notes
    -----
    *No more than 2m points have energy 0*: the bound is positive beyond, which proves it. Its condition with
    a bias is Levenshtein's second bound on spherical codes, n <= 2m (1 - t)/(1 - m t) points with inner
    products up to t: the energy is 0 exactly for such codes, which a bias -t makes free of interference.

    At n <= 2m the energy decides nothing: see :func:`superposition.theory.relu.obtuse_second_class`. Far
    above 2m the bound is short by a factor that grows with m: it tends to n^2/(m (m+1)), antipodal sets to
    n^2/(2m). The bounds by linear programming in :func:`superposition.solvers.relu.programmed_bound` are
    sharper, and need a solver. Equal to the minimum for even n at m = 1.

    References
    ----------
    Proof in :func:`derive_thomson_bound`. The method is Yudin's (Discrete Math. Appl. 3 (1993) 75); the case
    of codes is Levenshtein's.

    Examples
    --------
    >>> thomson_bound(5, 2), thomson_bound(4, 2)
    (0.35714285714285715, 0.0)
    """
    n, m = whole("n_features", n_features), whole("n_hidden", n_hidden)
    t = -real("bias", bias, -1.0, 0.0)
    excess = np.asarray(n * (1 - m * t) - 2 * m * (1 - t))
    excess = np.where(excess > 0, excess, 0.0)
    # Positive wherever the excess is: n > 2m there.
    below = np.where(excess > 0, m * (n * (m + 1) - 4 * m), 1.0)
    return plain(np.asarray(n * excess**2 / below))


def antipodal_energy(n_features: npt.ArrayLike, n_hidden: npt.ArrayLike) -> Real:
    r"""Least energy, without bias, among sets that hold -W_i with every W_i: n (n - 2m)/(2m), exact.

    In such a set half of the sum of all squared inner products belongs to positive ones, so the energy is
    half the frame potential, at least n^2/(2m), less the n terms with i = j. Tight frames reach it: antipodal
    regular polygons, cube, icosahedron, dodecahedron, 24-cell, 600-cell.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        n and m, at least 1. An odd n has no such set: the value then only interpolates.

    Returns
    -------
    float or ndarray of float64
        0 for n up to 2m.

    Raises
    ------
    ValueError
        If a number is not whole or below 1.

    Notes
    -----
    For m = 2 the hexagon is the best found, but beyond n = 6, and from n = 2m + 2 on for m from 3 to 5, sets
    without that symmetry have less. For 12 points in 3 dimensions 11.097, the icosahedron 12.

    Examples
    --------
    >>> antipodal_energy(12, 3)
    12.0
    """
    n, m = whole("n_features", n_features), whole("n_hidden", n_hidden)
    return plain(np.asarray(np.maximum(n * (n - 2 * m), 0.0) / (2 * m)))


def capacity_bounds(n_hidden: npt.ArrayLike) -> tuple[Real, Real]:
    r"""Bounds on how many features' worth of loss one-sparse inputs let a model without bias save: proved.

    The capacity is the largest value of :math:`n - 3 L_1` (importances 1, no bias) over all n, directions and
    lengths. Since lengths only enter as :math:`3 L_1 = n - 2 \sum_i s_i + \sum_{ij} s_i s_j
    \mathrm{ReLU}(\hat W_i \cdot \hat W_j)^2` with s_i = |W_i|^2, it is the inverse of the least mean energy
    of two points drawn independently from one law on the sphere. It does not grow with n: beyond it features
    can be dropped, or share the directions of those that are kept, and this loss is the same.

    Parameters
    ----------
    n_hidden : array_like of int
        m, at least 1.

    Returns
    -------
    lower, upper : float or ndarray of float64
        2m, from antipodal pairs on the axes, and m (m + 1), from the limit of :func:`thomson_bound`.

    Raises
    ------
    ValueError
        If `n_hidden` is not whole or below 1.

    Examples
    --------
    >>> capacity_bounds(3)
    (6.0, 12.0)
    """
    m = whole("n_hidden", n_hidden)
    return plain(np.asarray(2 * m)), plain(np.asarray(m * (m + 1)))
