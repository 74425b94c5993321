r"""Codes with weights of very different size: two dimensions for any number of features.

Where encodings differ by orders of magnitude, a small feature does not disturb the outputs of larger ones,
and a large one may silence the outputs of all smaller ones. Only the interference of larger features has to
be negative, :math:`u_i \cdot v_j \le 0` for j before i, which in the plane asks no more than that corner i
lies outside the cone of the corners before it. In the limit of a wide spread of sizes an output is exact
unless a larger feature is on that it is not orthogonal to.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray, Real, plain

__all__ = ["derive_skew_pair", "priority_constant", "priority_loss", "priority_map", "skew_pair_loss"]


def derive_skew_pair() -> tuple[Any, Any]:
    """Minimise the cost of the pair [[1, -c], [-1/c, 1]], a matrix of rank 1, over c, with SymPy.

    Returns
    -------
    c, constant : sympy.Expr
        The best c below 1, and F of the loss F p² there. c = 1, the antipodal pair, is a maximum of the
        cost, 1/6, between two minima.

    Examples
    --------
    >>> derive_skew_pair()
    (1/3, 25/162)
    """
    import sympy as sp

    from .interference import derive_pair_cost

    weak, strong = derive_pair_cost()
    (c,) = weak.free_symbols
    cost = (weak + strong.subs(c, 1 / c)) / 2
    best = [root for root in sp.solve(sp.diff(cost, c), c) if sp.diff(cost, c, 2).subs(c, root) > 0]
    return best[0], cost.subs(c, best[0])


def skew_pair_loss(p: npt.ArrayLike) -> Real:
    r"""Loss per feature of two features on one direction whose encodings differ in length by 3: 25 p²/162.

    The outputs are ReLU(x_1 - x_2/3) and ReLU(x_2 - 3 x_1), without bias. It is 7 % below the p²/6 of
    antipodal pairs of equal lengths, which are a saddle for models whose decoder is free.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Exact at every p for these weights; bias and scale would lower it a little.

    Raises
    ------
    ValueError
        If `p` lies outside (0, 1].

    Examples
    --------
    >>> round(skew_pair_loss(0.1), 9)
    0.00154321
    """
    on = arguments.real("p", p, 0, 1, brackets="(]")
    return plain(np.asarray(25.0 * on * on / 162.0))


def priority_constant(n_features: npt.ArrayLike) -> Real:
    r"""Return F of the law L = F p² + O(p³) of a priority code, ((n - 1)(n - 2)/2 - 1)/(3 n).

    At ratio 2/n it is about 1/(3 ratio) - 1/2.

    Parameters
    ----------
    n_features : array_like of int
        Features on two dimensions, at least 4.

    Returns
    -------
    float or ndarray of float64

    Raises
    ------
    ValueError
        If `n_features` is not whole or below 4.

    Examples
    --------
    >>> priority_constant([4, 8])
    array([0.16666667, 0.83333333])
    """
    n = _checked(n_features)
    return plain(np.asarray(((n - 1.0) * (n - 2.0) / 2.0 - 1.0) / (3.0 * n)))


def _checked(n_features: npt.ArrayLike) -> FloatArray:
    n = arguments.whole("n_features", n_features)
    if np.any(n < 4):
        raise ValueError(f"`n_features` must be at least 4; got {n[n < 4].flat[0]:g}.")
    return n


def priority_loss(p: npt.ArrayLike, n_features: npt.ArrayLike) -> Real:
    r"""Loss per feature of a priority code, in the limit of an infinite spread of sizes.

    .. math:: L = \frac{p}{3n} \sum_i \left(1 - (1 - p)^{k_i}\right), \quad k = 0, 0, 1, \dots, n - 3, n - 3

    An infimum: finite weights come as close as one likes, see `priority_map`. As p → 0 at ratio = 2/n = c p
    it tends to :math:`\frac p3 (1 - \frac c2 (1 - e^{-2/c}))`: two dimensions keep one of the features that
    are on.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].
    n_features : array_like of int
        n, the features on two dimensions, at least 4. Broadcasts with `p`.

    Returns
    -------
    float or ndarray of float64
        Relative error 1e-12.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(priority_loss(0.01, 8) / 0.01**2, 6)
    0.820937
    """
    on = arguments.real("p", p, 0, 1, brackets="(]")
    n = _checked(n_features)
    on, n = np.broadcast_arrays(on, n)
    found = np.empty(on.shape)
    for place in np.ndindex(on.shape):
        silencing = np.arange(int(n[place]) - 2, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept_out = -np.expm1(np.where(silencing > 0.0, silencing * np.log1p(-on[place]), 0.0))
        found[place] = on[place] / (3.0 * n[place]) * (kept_out.sum() + kept_out[-1])
    return plain(found)


def priority_map(n_features: int, spread: float) -> FloatArray:
    r"""Return the matrix of rank 2 of a priority code with encodings of lengths 1, 1/spread, 1/spread², ....

    Directions: n - 2 at growing angles from 0 to 90 degrees, then one at 180 and one at 270. Each output is
    orthogonal to the feature before it, the last one to the first and the last but one.

    Parameters
    ----------
    n_features : int
        n, at least 4.
    spread : float
        At least 1; the loss approaches `priority_loss` as it grows.

    Returns
    -------
    (n, n) ndarray of float64
        Unit diagonal; use it without bias.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> priority_map(4, 2.0) @ [0.0, 0.3, 0.0, 0.8]        # the last feature is silenced
    array([ 0. ,  0.1,  0. , -0.4])
    """
    n = arguments.integer("n_features", n_features, 4)
    spread = arguments.number("spread", spread, 1)
    angle = np.concatenate([np.linspace(0.0, 0.5 * np.pi, n - 2), [np.pi, 1.5 * np.pi]])
    # Orthogonal to the feature before it and away from those before that one.
    read = np.concatenate([[0.0], angle[: n - 2] + 0.5 * np.pi, [1.5 * np.pi]])
    products = np.cos(read[:, None] - angle)
    products[np.abs(products) < 1e-15] = 0.0
    size = spread ** -np.arange(n, dtype=np.float64)
    M: FloatArray = products * size / (np.diag(products) * size)[:, None]
    return M
