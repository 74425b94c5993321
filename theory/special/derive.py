"""SymPy derivations: the definitions integrated or solved."""

from .. import arguments
from ..derivation import Derivation, once, sp

__all__ = ["derive_cubic_roots", "derive_ramp_moment"]


@once
def derive_ramp_moment(order: int) -> Derivation:
    """Integrate E (Z - w)_+^order over a standard normal Z.

    Parameters
    ----------
    order : int
        From 0 to 30.

    Returns
    -------
    Derivation
        A function of w.

    Raises
    ------
    ValueError
        If `order` is out of range.

    Examples
    --------
    >>> derive_ramp_moment(1).expression
    -w*erfc(sqrt(2)*w/2)/2 + sqrt(2)*exp(-w**2/2)/(2*sqrt(pi))
    """
    order = arguments.integer("order", order, 0, 30)
    w, y = sp.Symbol("w", real=True), sp.Symbol("y", positive=True)
    density = sp.exp(-((y + w) ** 2) / 2) / sp.sqrt(2 * sp.pi)
    moment = sp.expand(sp.simplify(sp.integrate(y**order * density, (y, 0, sp.oo))))
    return Derivation(moment, (w,), ("Z is standard normal.",))


@once
def derive_cubic_roots() -> Derivation:
    r"""Solve x - x^3 = kappa in the angle eta with 1 - kappa sqrt(27)/2 = 1 - cos(eta) = 2 sin^2(eta/2).

    With x = (2/sqrt(3)) cos(v) the triple angle turns the equation into cos(3 v) = -cos(eta), so that 3 v is
    pi + eta, pi - eta or 3 pi - eta.

    Returns
    -------
    Derivation
        A column of the low, middle and high root, and of the distance between the last two.

    Examples
    --------
    >>> roots = derive_cubic_roots()
    >>> roots.expression.subs(roots.symbols[0], 0).T
    Matrix([[-1, 0, 1, 1]])
    """
    kappa = sp.Symbol("kappa", nonnegative=True)
    eta = 2 * sp.asin(sp.sqrt((1 - kappa * sp.sqrt(27) / 2) / 2))
    # At kappa = 0, eta = pi/2.
    high, middle, low = (2 / sp.sqrt(3) * sp.cos(v / 3) for v in (sp.pi - eta, sp.pi + eta, 3 * sp.pi - eta))
    apart = 2 * sp.sin(eta / 3)  # by the formula for a difference of cosines
    column = sp.Matrix([low, middle, high, apart])
    return Derivation(column, (kappa,), ("kappa >= 0; beyond 2/sqrt(27), eta is imaginary.",))
