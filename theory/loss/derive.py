"""SymPy derivations: the loss on inputs with k features on, its gradient, its mean over a posterior."""

import math
from itertools import product
from typing import Any

from ..derivation import Derivation, cached_derivation, sp
from ..validation import integer

__all__ = [
    "derive_class_gradient", "derive_class_loss", "derive_langevin_variance", "derive_localised_llc",
]  # fmt: skip


def _integrate_ramps(terms: dict[tuple[Any, int], Any], u: Any, weight: Any) -> dict[tuple[Any, int], Any]:
    """Return the integral over u in [0, 1] of the sum of c (z)_+^q over `terms`, {(z, q): c}, as such a dict.

    Each z is affine in u with the slope `weight`, so (z)_+^(q+1) / ((q+1) weight) is an antiderivative.
    """
    out: dict[tuple[Any, int], Any] = {}
    for (z, q), coefficient in terms.items():
        for end, sign in ((1, 1), (0, -1)):
            key = (z.subs(u, end), q + 1)
            out[key] = out.get(key, 0) + sign * coefficient / ((q + 1) * weight)
    return out


def _differentiate_ramps(terms: dict[tuple[Any, int], Any], x: Any) -> dict[tuple[Any, int], Any]:
    """Return the derivative by x of the sum of c (z)_+^q over `terms`, {(z, q): c}, as such a dict."""
    out: dict[tuple[Any, int], Any] = {}
    for (z, q), coefficient in terms.items():
        out[z, q] = out.get((z, q), 0) + sp.diff(coefficient, x)
        out[z, q - 1] = out.get((z, q - 1), 0) + q * coefficient * sp.diff(z, x)
    return out


def _as_ramps(terms: dict[tuple[Any, int], Any]) -> Any:
    """Return the sum of c (z)_+^q over `terms`, {(z, q): c}, as an expression with `Max`."""
    return sp.together(sum(c * sp.Max(0, z) ** q for (z, q), c in terms.items()))


def _class_terms(k: int) -> tuple[tuple[Any, ...], list[dict[tuple[Any, int], Any]]]:
    """Return the symbols (b, g1, …) and two sums of c (z)_+^q, as dicts {(z, q): c}.

    The first sum is E ReLU(b + g.u)², the error of an output whose own feature is off while k others are on.
    The second is E (u_1 - ReLU(b + g.u))² - 1/3, for an output whose own feature is the first of the k that
    are on.
    """
    k = integer("k", k, 1, 8)
    b, g = sp.Symbol("b", real=True), list(sp.symbols(f"g1:{k + 1}", real=True))
    u = list(sp.symbols(f"u1:{k + 1}"))
    z = b + sum(weight * x for weight, x in zip(g, u, strict=True))

    def integral(terms: dict[tuple[Any, int], Any], first: int) -> dict[tuple[Any, int], Any]:
        """Return the integral of `terms`, {(z, q): c}, over u_first, u_(first + 1), ..., each in [0, 1]."""
        for x, weight in zip(u[first:], g[first:], strict=True):
            terms = _integrate_ramps(terms, x, weight)
        return terms

    off = integral({(z, 2): sp.Integer(1)}, 0)
    on = {key: coefficient * (1 + 1 / g[0]) for key, coefficient in off.items()}
    for key, coefficient in integral({(z.subs(u[0], 1), 2): sp.Integer(1)}, 1).items():
        on[key] = on.get(key, 0) - coefficient / g[0]
    return (b, *g), [off, on]


@cached_derivation
def derive_class_loss(k: int) -> Derivation:
    """Derive an output's mean squared error with k features on, a column: its own feature off, and on.

    The entries are E ReLU(b + g.u)² and E (u_1 - ReLU(b + g.u))², with u uniform on the cube [0, 1]^k, k at
    most 8: signed sums over the vertices of the cube, with ReLU as ``Max``. Each integration over a
    coordinate doubles the terms. In floating point the terms cancel; evaluated with enough digits they check
    `class_loss`. See Elhage et al. (2022), L_k of the expansion by sparsity; L_1 is printed as an integral.

    >>> derive_class_loss(1).expression[0]
    (-Max(0, b)**3 + Max(0, b + g1)**3)/(3*g1)
    """
    symbols, (off, on) = _class_terms(k)
    column = sp.Matrix([_as_ramps(off), sp.Rational(1, 3) + _as_ramps(on)])
    return Derivation(column, symbols, ("No weight is 0.",))


@cached_derivation
def derive_class_gradient(k: int) -> Derivation:
    """Derive the derivatives of an output's mean squared error with k features on, its own off or on.

    The two columns are for the own feature off and on. Rows are the derivatives by b, g1, …, gk: the output's
    bias, and its row of M = W_out W_in at the features that are on. By the chain rule dL/dW_out is (dL/dM)
    W_in', and dL/dW_in is W_out' (dL/dM).

    >>> derive_class_gradient(1).expression[0, 0]
    (-Max(0, b)**2 + Max(0, b + g1)**2)/g1
    """
    symbols, entries = _class_terms(k)
    rows = [[_as_ramps(_differentiate_ramps(terms, symbol)) for terms in entries] for symbol in symbols]
    return Derivation(sp.Matrix(rows), symbols, ("No weight is 0.",))


@cached_derivation
def derive_localised_llc(dimensions: int) -> Derivation:
    r"""Derive t E (L - L*) over the density exp(-t L - gamma |u|²/2), in 1 or 2 dimensions.

    The loss is :math:`L^* + \tfrac12 \sum h_i u_i^2 + \tfrac16 \sum L_{ijk} u_i u_j u_k + \tfrac1{24} \sum
    L_{ijkl} u_i u_j u_k u_l`. For large t the exponential is expanded, with the cubic term as small of first
    order and the quartic one as small of second order. The result is a column: the leading term, and the
    next.

    >>> derive_localised_llc(1).expression[0]
    h1*t/(2*(gamma + h1*t))
    """
    dimensions = integer("dimensions", dimensions, 1, 2)
    axes = range(1, dimensions + 1)
    t, gamma = sp.symbols("t gamma", positive=True)
    u, h = [[sp.Symbol(f"{name}{i}", positive=True) for i in axes] for name in "uh"]
    a = [t * x + gamma for x in h]

    def form(order: int) -> Any:
        """Return the homogeneous polynomial of this order, whose coefficients are derivatives of the loss."""
        return sum(
            sp.Symbol("L" + "".join(map(str, sorted(at)))) * math.prod(u[i - 1] for i in at)
            for at in product(axes, repeat=order)
        ) / sp.factorial(order)

    def mean(polynomial: Any) -> Any:
        """Return the mean of a polynomial in u over a Gaussian of mean 0 and precisions a."""
        even = [
            coefficient
            * math.prod(sp.factorial2(k - 1) / x ** (k // 2) for k, x in zip(powers, a, strict=True))
            for powers, coefficient in sp.Poly(sp.expand(polynomial), *u).terms()
            if not any(k % 2 for k in powers)
        ]
        return sum(even, sp.Integer(0))

    square, cubic, quartic = sum(x * y**2 for x, y in zip(h, u, strict=True)) / 2, form(3), form(4)
    weight = t**2 * cubic**2 / 2 - t * quartic  # of the second order, in exp(-t (cubic + quartic))
    leading = sp.factor(mean(t * square)) if dimensions == 1 else mean(t * square)
    next_order = mean(t * square * weight - t**2 * cubic**2 + t * quartic) - leading * mean(weight)
    column = sp.Matrix([leading, sp.together(next_order)])
    symbols = tuple(sorted(column.free_symbols, key=str))
    return Derivation(column, symbols, ("The minimum is at u = 0.", "h t + gamma is large."))


@cached_derivation
def derive_langevin_variance() -> Derivation:
    """Derive the stationary variance of u' = u - (eps/2) (a u + g) + sqrt(eps) xi, xi of variance 1.

    a is minus the curvature of the log density that is sampled. g is n beta times the sampling noise of the
    gradient: independent at each step, with the variance s2, which is 0 for the population loss.

    >>> derive_langevin_variance().expression
    -(eps*s2 + 4)/(a*(a*eps - 4))
    """
    a, eps, s2, variance = sp.symbols("a eps s2 v", positive=True)
    next_variance = (1 - eps * a / 2) ** 2 * variance + eps + (eps / 2) ** 2 * s2
    (stationary,) = sp.solve(next_variance - variance, variance)
    return Derivation(sp.factor(stationary), (a, eps, s2), ("0 < eps a < 4.",))
