"""SymPy derivations: the definitions integrated or solved."""

from typing import Any

from .. import arguments
from .values import VALUES

__all__ = ["derive_cubic_roots", "derive_ramp_moment", "derive_value_law"]


def derive_ramp_moment(order: int) -> Any:
    """Integrate E (Z + x)_+^order over a standard normal Z; an expression in the real symbol x.

    Examples
    --------
    >>> derive_ramp_moment(1)
    x*erf(sqrt(2)*x/2)/2 + x/2 + sqrt(2)*exp(-x**2/2)/(2*sqrt(pi))
    """
    import sympy as sp

    order = arguments.integer("order", order, 0, 30)
    x, y = sp.Symbol("x", real=True), sp.Symbol("y", positive=True)
    density = sp.exp(-((y - x) ** 2) / 2) / sp.sqrt(2 * sp.pi)
    return sp.expand(sp.simplify(sp.integrate(y**order * density, (y, 0, sp.oo))))


def derive_cubic_roots() -> dict[str, Any]:
    r"""Solve x - x^3 = kappa in the angle eta with 1 - kappa sqrt(27)/2 = 2 sin^2(eta/2) = 1 - cos(eta).

    With x = (2/sqrt(3)) cos(v), the triple angle turns the equation into cos(3 v) = -cos(eta).

    Returns
    -------
    dict of str to sympy.Expr
        In the symbol kappa: ``"low"``, ``"middle"``, ``"high"`` and ``"apart"``, the last less the one before.

    Examples
    --------
    >>> [root.subs("kappa", 0) for root in derive_cubic_roots().values()]
    [-1, 0, 1, 1]
    """
    import sympy as sp

    kappa = sp.Symbol("kappa", nonnegative=True)
    eta = 2 * sp.asin(sp.sqrt((1 - kappa * sp.sqrt(27) / 2) / 2))
    low, middle, high = (2 / sp.sqrt(3) * sp.cos((sp.pi + turn) / 3) for turn in (2 * sp.pi - eta, eta, -eta))
    return {
        "low": -2 / sp.sqrt(3) * sp.cos(eta / 3),
        "middle": middle,
        "high": high,
        "apart": 2 * sp.sin(eta / 3),
    }


def derive_value_law(values: str) -> dict[str, Any]:
    """Integrate E v^k and E exp(z v) over the value of a feature that is on, at scale 1.

    Returns
    -------
    dict of str to sympy.Expr
        ``"moment"`` in the positive integer symbol k, ``"transform"`` in the symbol z.

    Examples
    --------
    >>> derive_value_law("exponential")
    {'moment': gamma(k + 1), 'transform': 1/(1 - z)}
    """
    import sympy as sp

    k, z = sp.Symbol("k", positive=True, integer=True), sp.Symbol("z", negative=True)
    v = sp.Symbol("v", positive=True)
    arguments.choice("values", values, VALUES)
    if values == "binary":
        return {"moment": sp.Integer(1), "transform": sp.exp(sp.Symbol("z"))}
    density, end, both = {
        "uniform": (sp.Integer(1), 1, 0),
        "half-normal": (sp.sqrt(2 / sp.pi) * sp.exp(-(v**2) / 2), sp.oo, 0),
        "exponential": (sp.exp(-v), sp.oo, 0),
        "symmetric": (sp.Rational(1, 2), 1, 1),
        "normal": (sp.exp(-(v**2) / 2) / sp.sqrt(2 * sp.pi), sp.oo, 1),
    }[values]
    # A symmetric law has the same density at v and -v.
    moment = sp.integrate(v**k * density, (v, 0, end)) * (1 + both * (-1) ** k)
    right, left = (sp.integrate(sp.exp(sign * z * v) * density, (v, 0, end)) for sign in (1, -1))
    transform = right + both * left
    return {"moment": sp.simplify(moment), "transform": sp.simplify(transform).subs(z, sp.Symbol("z"))}
