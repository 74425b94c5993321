"""SymPy derivations of what codes cost."""

from typing import Any

from ..derivation import Derivation

__all__ = ["derive_antipodal_loss", "derive_pair_cost", "derive_priority_loss", "derive_skew_pair"]


def derive_pair_cost() -> Derivation:
    r"""Integrate f(c), the cost of two features that are on together, one of which lowers the other by c.

    Returns
    -------
    Derivation
        :math:`\int_0^1\!\int_0^1 (x - \mathrm{ReLU}(x - c y))^2\,dx\,dy` in c, of two pieces.

    Examples
    --------
    >>> derive_pair_cost().expression
    Piecewise((-c**3/6 + c**2/3, c <= 1), (1/3 - 1/(6*c), True))
    """
    import sympy as sp

    x, y, c = sp.symbols("x y c", positive=True)
    # The output is 0 for x < c y, and x - c y above.
    given_y = sp.integrate(x**2, (x, 0, c * y)) + sp.integrate((c * y) ** 2, (x, c * y, 1))
    weak = sp.expand(sp.integrate(sp.expand(given_y), (y, 0, 1)))
    strong = sp.expand(sp.integrate(sp.expand(given_y), (y, 0, 1 / c)) + (1 - 1 / c) / 3)
    return Derivation(sp.Piecewise((weak, c <= 1), (strong, True)), (c,))


def derive_skew_pair() -> Derivation:
    """Minimise the cost of the pair [[1, -c], [-1/c, 1]], a matrix of rank 1, over c.

    Returns
    -------
    Derivation
        A column: the best c below 1, and F of the loss F p² there. c = 1, the antipodal pair, is a maximum of
        the cost, 1/6, between two minima.

    Examples
    --------
    >>> list(derive_skew_pair().expression)
    [1/3, 25/162]
    """
    import sympy as sp

    cost = derive_pair_cost()
    (c,) = cost.symbols
    (weak, _), (strong, _) = cost.expression.args
    both = (weak + strong.subs(c, 1 / c)) / 2
    (best,) = [root for root in sp.solve(sp.diff(both, c), c) if sp.diff(both, c, 2).subs(c, root) > 0]
    return Derivation(sp.Matrix([best, both.subs(c, best)]), (), ("p → 0, and the lengths are free.",))


def derive_antipodal_loss() -> Derivation:
    r"""Integrate the loss of one output of an antipodal pair, p/3 - 2 a E[x R] + a² E[R²].

    Returns
    -------
    Derivation
        In p, the scale a and the shift beta = b/a, with :math:`R = \mathrm{ReLU}(x_1 - x_2 + \beta)`.

    Examples
    --------
    >>> unit = derive_antipodal_loss().expression.subs({"a": 1, "beta": 0})
    >>> unit.expand()
    p**2/6
    """
    import sympy as sp

    u, v = sp.symbols("u v", positive=True)
    p, a, beta = sp.symbols("p a beta")
    q = 1 - p

    def both(power: int, factor: Any) -> Any:
        """Mean of factor (u - v + beta)_+^power: v up to u + beta while that is below 1, then up to 1."""
        inner = sp.expand(factor * (u - v + beta) ** power)
        low = sp.integrate(sp.expand(sp.integrate(inner, (v, 0, u + beta))), (u, 0, 1 - beta))
        return low + sp.integrate(sp.expand(sp.integrate(inner, (v, 0, 1))), (u, 1 - beta, 1))

    own = sp.integrate(sp.expand((u + beta) ** 2), (u, 0, 1))
    other = sp.integrate(sp.expand((beta - v) ** 2), (v, 0, beta))
    cross = p * q * sp.integrate(sp.expand(u * (u + beta)), (u, 0, 1)) + p**2 * both(1, u)
    square = q**2 * beta**2 + p * q * (own + other) + p**2 * both(2, sp.Integer(1))
    loss = p / 3 - 2 * a * sp.expand(cross) + a**2 * sp.expand(square)
    return Derivation(loss, (p, a, beta), ("0 <= beta <= 1 and a >= 0.",))


def derive_priority_loss() -> Derivation:
    """Sum the loss of a priority code over its outputs.

    An output is lost, at p/3, when a larger feature is on that silences it: i - 1 features silence output
    i + 1 for i from 1 to n - 2, and n - 3 the last one.

    Returns
    -------
    Derivation
        The loss per feature in p and n.

    Examples
    --------
    >>> import sympy as sp
    >>> found = derive_priority_loss()
    >>> sp.series(found.expression.subs("n", 6), found.symbols[0], 0, 3)
    p**2/2 + O(p**3)
    """
    import sympy as sp

    p, n = sp.symbols("p n")
    geometric = (1 - (1 - p) ** (n - 2)) / p  # the sum of (1 - p)^k over k = 0, ..., n - 3
    lost = (n - 2) - geometric + 1 - (1 - p) ** (n - 3)
    return Derivation(p / (3 * n) * lost, (p, n), ("An infinite spread of lengths, and n >= 4.",))
