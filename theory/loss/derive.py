"""SymPy derivation of the loss on inputs with k features on, from its definition."""

from typing import Any

from ..results import result

__all__ = ["ClassLoss", "derive_class_loss", "symbols"]


@result
class ClassLoss:
    """Mean squared errors of an output over a pattern with k features on, in `symbols(k)`."""

    off: Any
    """E ReLU(b + g.u)², the output's own feature is off"""
    on: Any
    """E (u_1 - ReLU(b + g.u))², the output's own feature is the first"""


def symbols(k: int) -> tuple[Any, list[Any]]:
    """Return the bias b and the weights g1, ..., gk of all derivations here, real."""
    import sympy as sp

    return sp.Symbol("b", real=True), list(sp.symbols(f"g1:{k + 1}", real=True))


def _average(terms: dict[tuple[Any, int], Any], u: Any, weight: Any) -> dict[tuple[Any, int], Any]:
    """Integrate a sum of coefficients times (z)_+^q over u in [0, 1]; `terms` maps (z, q) to coefficients.

    z is affine in u with the slope `weight`, so (z)_+^(q+1) / ((q+1) weight) is an antiderivative.
    """
    out: dict[tuple[Any, int], Any] = {}
    for (z, q), coefficient in terms.items():
        for end, sign in ((1, 1), (0, -1)):
            key = (z.subs(u, end), q + 1)
            out[key] = out.get(key, 0) + sign * coefficient / ((q + 1) * weight)
    return out


def derive_class_loss(k: int) -> ClassLoss:
    r"""Integrate the squared error of an output over the cube of the k features that are on.

    Coordinates are integrated one after the other; the factor u_1 of the cross term goes by parts, from
    :math:`2 g_1 u_1 (z)_+ = \partial_1 (u_1 (z)_+^2) - (z)_+^2`.

    Returns
    -------
    ClassLoss
        Signed sums over the vertices of the cube, with ReLU as ``Max``. Exact for weights that are not
        zero, but they cancel in floating point. Evaluated with enough digits they are the oracle for
        `class_loss`.

    References
    ----------
    Elhage et al. (2022), L_k of the expansion by sparsity; L_1 is printed as an integral.

    Examples
    --------
    >>> derive_class_loss(1).off
    (-Max(0, b)**3 + Max(0, b + g1)**3)/(3*g1)
    """
    import sympy as sp

    b, g = symbols(k)
    u = list(sp.symbols(f"u1:{k + 1}"))
    z = b + sum(weight * x for weight, x in zip(g, u, strict=True))

    def over(terms: dict[tuple[Any, int], Any], first: int) -> Any:
        for x, weight in zip(u[first:], g[first:], strict=True):
            terms = _average(terms, x, weight)
        ramps = sum(c * sp.Max(0, end) ** q for (end, q), c in terms.items())
        return sp.together(ramps)

    off = over({(z, 2): sp.Integer(1)}, 0)
    cross = (over({(z.subs(u[0], 1), 2): sp.Integer(1)}, 1) - off) / (2 * g[0])
    return ClassLoss(off, sp.Rational(1, 3) - 2 * cross + off)
