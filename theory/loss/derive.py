"""SymPy derivations of the loss on inputs with k features on, and of its gradient, from the definition."""

from typing import Any

from ..derivation import Derivation, cached_derivation, sp
from ..validation import integer

__all__ = ["derive_class_gradient", "derive_class_loss"]


def _integrate_ramps(terms: dict[tuple[Any, int], Any], u: Any, weight: Any) -> dict[tuple[Any, int], Any]:
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


def _differentiate_ramps(terms: dict[tuple[Any, int], Any], x: Any) -> dict[tuple[Any, int], Any]:
    """Return the derivative by x of a sum of coefficients times (z)_+^q, as a dict like `terms`."""
    out: dict[tuple[Any, int], Any] = {}
    for (z, q), coefficient in terms.items():
        out[z, q] = out.get((z, q), 0) + sp.diff(coefficient, x)
        out[z, q - 1] = out.get((z, q - 1), 0) + q * coefficient * sp.diff(z, x)
    return out


def _as_ramps(terms: dict[tuple[Any, int], Any]) -> Any:
    """Return a sum of coefficients times (z)_+^q as an expression with `Max`."""
    return sp.together(sum(c * sp.Max(0, z) ** q for (z, q), c in terms.items()))


def _class_terms(k: int) -> tuple[tuple[Any, ...], list[dict[tuple[Any, int], Any]]]:
    """Return the symbols (b, g1, …) and sums of coefficients times (z)_+^q, as dicts: one for each output.

    The first is E ReLU(b + g.u)², of an output whose own feature is off, the second E (u_1 - ReLU(b + g.u))²
    - 1/3, of one whose own feature is the first.
    """
    k = integer("k", k, 1, 8)
    b, g = sp.Symbol("b", real=True), list(sp.symbols(f"g1:{k + 1}", real=True))
    u = list(sp.symbols(f"u1:{k + 1}"))
    z = b + sum(weight * x for weight, x in zip(g, u, strict=True))

    def over(terms: dict[tuple[Any, int], Any], first: int) -> dict[tuple[Any, int], Any]:
        """Return the integral of terms over all values from `first` on."""
        for x, weight in zip(u[first:], g[first:], strict=True):
            terms = _integrate_ramps(terms, x, weight)
        return terms

    off = over({(z, 2): sp.Integer(1)}, 0)
    on = {key: coefficient * (1 + 1 / g[0]) for key, coefficient in off.items()}
    for key, coefficient in over({(z.subs(u[0], 1), 2): sp.Integer(1)}, 1).items():
        on[key] = on.get(key, 0) - coefficient / g[0]
    return (b, *g), [off, on]


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
    symbols, (off, on) = _class_terms(k)
    column = sp.Matrix([_as_ramps(off), sp.Rational(1, 3) + _as_ramps(on)])
    return Derivation(column, symbols, ("No weight is 0.",))


@cached_derivation
def derive_class_gradient(k: int) -> Derivation:
    """Derive the derivatives of `derive_class_loss` by b and the weights, a column for each of its entries.

    Rows are the derivatives by b, g1, …, gk: the gradient of an output's loss by its bias and by its row of
    M = W_out W_in, for the features that are on. With M the chain rule gives those by the weights: dL/dW_out
    is (dL/dM) W_in', and dL/dW_in is W_out' (dL/dM).

    >>> derive_class_gradient(1).expression[0, 0]
    (-Max(0, b)**2 + Max(0, b + g1)**2)/g1
    """
    symbols, entries = _class_terms(k)
    rows = [[_as_ramps(_differentiate_ramps(terms, symbol)) for terms in entries] for symbol in symbols]
    return Derivation(sp.Matrix(rows), symbols, ("No weight is 0.",))
