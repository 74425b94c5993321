"""SymPy derivation of the loss on inputs with k features on, from its definition."""

from typing import Any

from ..derivation import Derivation, cached_derivation, sp
from ..validation import integer

__all__ = ["derive_class_loss"]


def _average(terms: dict[tuple[Any, int], Any], u: Any, weight: Any) -> dict[tuple[Any, int], Any]:
    """Return the integral over u in [0, 1] of a sum of coefficients times (z)_+^q, as a dict like `terms`.

    `terms` maps (z, q) to coefficients.

    z is affine in u with the slope `weight`, so (z)_+^(q+1) / ((q+1) weight) is an antiderivative.
    """
    out: dict[tuple[Any, int], Any] = {}
    for (z, q), coefficient in terms.items():
        for end, sign in ((1, 1), (0, -1)):
            key = (z.subs(u, end), q + 1)
            out[key] = out.get(key, 0) + sign * coefficient / ((q + 1) * weight)
    return out


@cached_derivation
def derive_class_loss(k: int) -> Derivation:
    r"""Derive the squared error of an output, integrated over the cube of the k features that are on.

    Coordinates are integrated one after the other, which doubles the terms (k is 8 at most); the factor u_1
    of the cross term goes by parts, from :math:`2 g_1 u_1 (z)_+ = \partial_1 (u_1 (z)_+^2) - (z)_+^2`. A
    column: E ReLU(b + g.u)², of an output whose own feature is off, and E (u_1 - ReLU(b + g.u))², whose own
    feature is the first. Signed sums over the vertices of the cube, with ReLU as ``Max``. They cancel in
    floating point; evaluated with enough digits they are the oracle for `class_loss`. See Elhage et al.
    (2022), L_k of the expansion by sparsity; L_1 is printed as an integral.

    >>> derive_class_loss(1).expression[0]
    (-Max(0, b)**3 + Max(0, b + g1)**3)/(3*g1)
    """
    k = integer("k", k, 1, 8)
    b, g = sp.Symbol("b", real=True), list(sp.symbols(f"g1:{k + 1}", real=True))
    u = list(sp.symbols(f"u1:{k + 1}"))
    z = b + sum(weight * x for weight, x in zip(g, u, strict=True))

    def over(terms: dict[tuple[Any, int], Any], first: int) -> Any:
        for x, weight in zip(u[first:], g[first:], strict=True):
            terms = _average(terms, x, weight)
        ramps = sum(c * sp.Max(0, end) ** q for (end, q), c in terms.items())
        return sp.together(ramps)

    off = over({(z, 2): sp.Integer(1)}, 0)
    cross = (over({(z.subs(u[0], 1), 2): sp.Integer(1)}, 1) - off) / (2 * g[0])
    column = sp.Matrix([off, sp.Rational(1, 3) - 2 * cross + off])
    return Derivation(column, (b, *g), ("No weight is 0.",))
