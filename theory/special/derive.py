"""SymPy derivations of ramp moments and of the roots of a cubic."""

from .. import validation
from ..derivation import Derivation, cached_derivation, sp

__all__ = ["derive_cubic_roots", "derive_ramp_moment"]


@cached_derivation
def derive_ramp_moment(order: int) -> Derivation:
    """Derive E (Z - w)_+^order over a standard normal Z, for an order from 0 to 30: a function of w.

    >>> derive_ramp_moment(1).expression
    -w*erfc(sqrt(2)*w/2)/2 + sqrt(2)*exp(-w**2/2)/(2*sqrt(pi))
    """
    order = validation.integer("order", order, 0, 30)
    w, y = sp.Symbol("w", real=True), sp.Symbol("y", positive=True)
    density = sp.exp(-((y + w) ** 2) / 2) / sp.sqrt(2 * sp.pi)
    moment = sp.expand(sp.simplify(sp.integrate(y**order * density, (y, 0, sp.oo))))
    return Derivation(moment, (w,), ("Z is standard normal.",))


@cached_derivation
def derive_cubic_roots() -> Derivation:
    """Derive the roots of x - x^3 = kappa by the triple angle, and the distance of the upper two.

    The substitution is x = A cos(v), with A such that x - x^3 is a multiple of cos(3v). The result is a
    column of the low, middle and high root, and of the distance between the last two.

    >>> roots = derive_cubic_roots()
    >>> roots.expression.subs(roots.symbols[0], 0).T
    Matrix([[-1, 0, 1, 1]])
    """
    kappa, scale = sp.Symbol("kappa", nonnegative=True), sp.Symbol("A", positive=True)
    v, cosine = sp.symbols("v c")
    triple = sp.Poly(sp.expand_trig(sp.cos(3 * v)).subs(sp.cos(v), cosine), cosine)
    cubic = sp.Poly((scale * cosine) ** 3 - scale * cosine, cosine)  # -kappa at a root
    ratio = cubic.coeff_monomial(cosine**3) / triple.coeff_monomial(cosine**3)
    (size,) = sp.solve(cubic.coeff_monomial(cosine) - ratio * triple.coeff_monomial(cosine), scale)
    angle = sp.acos(-kappa / ratio.subs(scale, size))  # of cos(3v); pi/2 at kappa = 0
    high, low, middle = (size * sp.cos((angle + turn) / 3) for turn in (0, 2 * sp.pi, -2 * sp.pi))
    column = sp.Matrix([low, middle, high, high - middle])
    return Derivation(column, (kappa,), ("kappa >= 0; beyond 2/sqrt(27) the angle is complex.",))
