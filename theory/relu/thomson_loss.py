r"""What the ReLU model's loss makes of points on a sphere: lengths, biases, and two features on at a time.

Losses are summed over features and input patterns, importances 1, as :func:`class_loss` has them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import Real, plain, real, whole

__all__ = [
    "code_loss",
    "common_norm_loss",
    "derive_code_loss",
    "derive_common_norm",
    "derive_sphere_losses",
    "obtuse_pair_loss",
    "obtuse_second_class",
]


def derive_sphere_losses() -> dict[str, Any]:
    """Derive the losses with one and two features on for lengths 1 or 0 without bias, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        Integrals over values uniform on [0, 1], exact. ``"kept"``: the own output of a feature of length 1.
        ``"dropped"``: of length 0. ``"overlap"``: another output, at inner product c > 0 (at c <= 0 it is 0).
        ``"pair"``: the own output of a feature when another one is on too, at inner product -a >= -1.
    """
    import sympy

    x, y = sympy.symbols("x y", nonnegative=True)
    a, c = sympy.symbols("a c", positive=True)
    # ReLU(x - a y) is 0 for x below a y, and x - a y above: a y is at most 1.
    covered = sympy.integrate(x**2, (x, 0, a * y))
    shifted = sympy.integrate((a * y) ** 2, (x, a * y, 1))
    return {
        "kept": sympy.integrate((x - x) ** 2, (x, 0, 1)),
        "dropped": sympy.integrate(x**2, (x, 0, 1)),
        "overlap": sympy.integrate((c * x) ** 2, (x, 0, 1)),
        "pair": sympy.expand(sympy.integrate(covered + shifted, (y, 0, 1))),
    }


def derive_common_norm() -> dict[str, Any]:
    """Derive the best common length of n features with energy E on the unit sphere, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        ``"square"``, the squared length, and ``"loss"``, the loss with one feature on, in n and E. Exact.
    """
    import sympy

    n, E, s = sympy.symbols("n E s", positive=True)
    loss = (n * (1 - s) ** 2 + s**2 * E) / 3
    (best,) = sympy.solve(sympy.diff(loss, s), s)
    return {"square": best, "loss": sympy.factor(loss.subs(s, best))}


def derive_code_loss() -> dict[str, Any]:
    """Derive length and bias that make all interference free when no inner product exceeds mu, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        ``"square"``, the squared length s, ``"bias"`` = -s mu, and ``"loss"``, of one feature, in mu. Exact.
    """
    import sympy

    x, s, mu = sympy.symbols("x s mu", positive=True)
    silent = sympy.integrate(x**2, (x, 0, mu))
    loss = silent + sympy.integrate(sympy.expand((x - s * (x - mu)) ** 2), (x, mu, 1))
    (best,) = sympy.solve(sympy.diff(loss, s), s)
    best = sympy.factor(best)
    return {"square": best, "bias": sympy.factor(-best * mu), "loss": sympy.factor(loss.subs(s, best))}


def common_norm_loss(n_features: npt.ArrayLike, energy: npt.ArrayLike) -> Real:
    r"""Loss with one feature on when the features of an arrangement share their best length: exact.

    .. math:: L_1 = \tfrac13 \min_s\, (n (1 - s)^2 + s^2 E) = \frac{n E}{3 (n + E)},
              \qquad s = |W_i|^2 = \frac{n}{n + E}.

    It rises with the energy, so the same arrangement is best, but never exceeds n/3; with length 1 it is E/3.

    Parameters
    ----------
    n_features : array_like of int
        n, at least 1: the features that are kept. Each other one adds 1/3.
    energy : array_like of float
        Energy E on the unit sphere, not negative, without bias.

    Returns
    -------
    float or ndarray of float64
        Summed over features, importances 1.

    Raises
    ------
    ValueError
        If `n_features` is not whole or below 1, or `energy` negative.

    Notes
    -----
    With a length for each, :math:`3 L_1 = n - 2 \sum_i s_i + \sum_{ij} s_i s_j K_{ij}` where K is 1 on the
    diagonal and :math:`\mathrm{ReLU}(\hat W_i \cdot \hat W_j)^2` beside it. If all features have the same
    interference and K is positive semidefinite, a common length is best; if not, the order of arrangements
    can change. The decagon's K is not: its common length gives 2, dropping every other corner 1.934.

    Examples
    --------
    >>> common_norm_loss(2, 2.0)
    0.3333333333333333
    """
    n, energy = whole("n_features", n_features), real("energy", energy, 0.0)
    return plain(np.asarray(n * energy / (3 * (n + energy))))


def code_loss(n_features: npt.ArrayLike, largest: npt.ArrayLike) -> Real:
    r"""Loss with one feature on of an arrangement whose interference a bias makes free: exact.

    If no inner product of the directions exceeds mu, the bias :math:`-\mu |W_i|^2` silences all of them. With
    the best length, :math:`|W_i|^2 = (2 + \mu)/(2 (1 - \mu))`, the features' own errors add up to

    .. math:: L_1 = n\, \frac{3 \mu^2 + \mu^3}{12},

    below n/3 for every mu < 1. It is least for the arrangement with the smallest mu, that is for the best
    spherical code and not for the least energy; a bound from above on the least L_1 with bias.

    Parameters
    ----------
    n_features : array_like of int
        n, at least 1: the features that are kept. Each other one adds 1/3.
    largest : array_like of float
        mu, the largest inner product of two directions, in [0, 1).

    Returns
    -------
    float or ndarray of float64
        Summed over features, importances 1.

    Raises
    ------
    ValueError
        If `n_features` is not whole or below 1, or `largest` is outside [0, 1).

    Examples
    --------
    >>> code_loss(5, 0.25)
    0.08463541666666667
    """
    n, mu = whole("n_features", n_features), real("largest", largest, 0.0, 1.0, brackets="[)")
    return plain(np.asarray(n * mu**2 * (3 + mu) / 12))


def obtuse_pair_loss(inner: npt.ArrayLike) -> Real:
    r"""Loss of one output when it and another feature are on, at an inner product of at most 0: exact.

    .. math:: \int_0^1\!\!\int_0^1 (x - \mathrm{ReLU}(x + c y))^2\, dx\, dy = \frac{c^2}{3} + \frac{c^3}{6},
              \qquad -1 \le c \le 0.

    Parameters
    ----------
    inner : array_like of float
        c, from -1 to 0, of two encodings of length 1 without bias.

    Returns
    -------
    float or ndarray of float64

    Raises
    ------
    ValueError
        If `inner` is outside [-1, 0].

    Examples
    --------
    >>> obtuse_pair_loss(-1.0)
    0.16666666666666666
    """
    c = real("inner", inner, -1.0, 0.0)
    return plain(np.asarray(c * c * (2 + c) / 6))


def obtuse_second_class(n_features: npt.ArrayLike, n_hidden: npt.ArrayLike) -> Real:
    r"""Least loss with two features on among unit vectors without acute angles, no bias.

    Up to n = 2m the energy is 0 for every set without acute angles, and the loss with two features on
    decides: the sum over ordered pairs of :func:`obtuse_pair_loss`. Its minimum is (n - m)/3, or 0 up to
    n = m, attained by n - m antipodal pairs and 2m - n more features, all orthogonal.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        n and m, at least 1, n at most 2m.

    Returns
    -------
    float or ndarray of float64
        Summed over features and pairs, importances 1. Exact.

    Raises
    ------
    ValueError
        If a number is not whole or below 1, or n is above 2m.

    Notes
    -----
    A set of unit vectors without acute angles falls into blocks, orthogonal to each other, within which
    neighbours in the graph of negative inner products are connected. In a block I - N is the Gram matrix, N
    has no negative entry and is irreducible, so its largest eigenvalue is simple (Perron and Frobenius): each
    block has at most one linear dependency. Hence n - m blocks or more have one, with two vectors at
    least, and n <= 2m. Up to n = m + 1 one block may do, an open set of arrangements; at n = 2m only the
    m antipodal pairs on orthogonal axes are left.

    Each dependent block costs at least 1/3, what a pair does. Let v > 0 be its dependency with |v| = 1, so
    that Nv = v. By Cauchy and Schwarz

    .. math:: 1 = v'Nv \le \Big(\sum_{i \ne j} N_{ij}^2 (2 - N_{ij})\Big)^{1/2}
              \Big(\sum_{i \ne j} \frac{v_i^2 v_j^2}{2 - N_{ij}}\Big)^{1/2},

    and the last sum is at most 1/2: 1/(2 - N) <= (1 + N)/2, and q'Nq <= |q|^2 for q = v^2, since I - N has
    no negative eigenvalue. Hence the first sum is at least 2, and the block's loss, a sixth of it, at least
    1/3.

    Examples
    --------
    >>> obtuse_second_class(5, 3)
    0.6666666666666666
    """
    n, m = whole("n_features", n_features), whole("n_hidden", n_hidden)
    if np.any(n > 2 * m):
        n, m = np.broadcast_arrays(n, m)
        bad = n > 2 * m
        raise ValueError(
            f"`n_features` must be at most twice `n_hidden`, the most that have energy 0; "
            f"got {n[bad].flat[0]:g} with {m[bad].flat[0]:g} hidden neurons."
        )
    return plain(np.asarray(np.maximum(n - m, 0.0) / 3))
