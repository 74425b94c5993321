"""SymPy derivations for the ReLU output model, from its definition; nothing is taken from print."""

from dataclasses import dataclass
from itertools import product
from typing import Any

__all__ = [
    "ClassLoss",
    "derive_bias_trade_off",
    "derive_class_loss",
    "derive_projection",
    "derive_recursion",
    "derive_truncated_bias",
    "symbols",
]


@dataclass(frozen=True)
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


def derive_recursion(k: int, q: int) -> Any:
    r"""Residual of the recursion over faces in the vertex sum of :math:`E (b + g\cdot u)_+^q`.

    Euler's theorem and Gauss's give :math:`(k + q) F_q(b) = q b F_{q-1}(b) + \sum_j F_q(b + g_j)`, with
    the weight j left out on the right. Whether a vertex counts is a symbol h = 0 or 1 for each, so that the
    statement is checked in all regions at once.

    Returns
    -------
    residual : Expr
        Zero. Applied around a point of the plane z = 0 the first term on the right vanishes: the form
        that the kernels use.

    Examples
    --------
    >>> derive_recursion(2, 2)
    0
    """
    import sympy as sp

    b, g = symbols(k)

    def mean(q: int, free: list[int], base: Any, held: list[int]) -> Any:
        total = sp.Integer(0)
        for vertex in product((0, 1), repeat=len(free)):
            on = sorted(held + [j for j, v in zip(free, vertex, strict=True) if v])
            z = base + sum(g[j] for j in free if j in on)
            counts = sp.Symbol("h_" + "".join(map(str, on)))
            total += (-1) ** (len(free) - sum(vertex)) * counts * z ** (q + len(free))
        scale = sp.factorial(q) / sp.factorial(q + len(free))
        return scale * total / sp.prod([g[j] for j in free])

    everything = list(range(k))
    faces = sum(mean(q, [i for i in everything if i != j], b + g[j], [j]) for j in everything)
    lower = q * b * mean(q - 1, everything, b, [])
    return sp.simplify((k + q) * mean(q, everything, b, []) - lower - faces)


def derive_projection() -> dict[str, Any]:
    """Subtract the squared error of ReLU from that of the linear output, at a pre-activation -z < 0.

    Returns
    -------
    dict of str to Expr
        `gain` = (x + z)² - x² = z (z + 2 x), in the positive symbol z: never negative for x >= 0, whence
        ReLU never makes things worse, and negative for x < -z/2. For a pre-activation >= 0 both are equal.

    References
    ----------
    Elhage et al. (2022), on feature benefit.

    Examples
    --------
    >>> derive_projection()["gain"]
    z*(2*x + z)
    """
    import sympy as sp

    x, z = sp.Symbol("x", real=True), sp.Symbol("z", positive=True)
    linear, ramp = (x - (-z)) ** 2, (x - sp.Max(0, -z)) ** 2
    return {"gain": sp.factor(linear - ramp)}


def derive_bias_trade_off() -> dict[str, Any]:
    """Integrate what a bias -t leaves in L_1, 0 < t < 1: of the output's own feature, and of an overlap c.

    Returns
    -------
    dict of str to Expr
        `own`, the loss of the own output at norm² = m > t; `kept`, that of an overlap c > t (overlaps c <= t
        cost nothing); `own_slope` and `kept_slope`, their derivatives by t at t = 0, the first at m = 1;
        `corner`, the ratio of 3 times `kept` to its integrand at x = 1, which is 1 only without bias.

    References
    ----------
    Elhage et al. (2022), on negative bias.

    Examples
    --------
    >>> terms = derive_bias_trade_off()
    >>> terms["kept"], terms["own_slope"], terms["kept_slope"], terms["corner"]
    ((c - t)**3/(3*c), 0, -c, (c - t)/c)
    """
    import sympy as sp

    t, c, m, x = sp.symbols("t c m x", positive=True)
    excess = sp.Symbol("excess", positive=True)  # c - t: SymPy would factor the other sign out
    kept = sp.factor(sp.integrate(sp.expand((c * x - t) ** 2), (x, t / c, 1)).subs(t, c - excess))
    kept = kept.subs(excess, c - t)
    silent = sp.integrate(x**2, (x, 0, t / m))
    own = silent + sp.integrate(sp.expand((x - m * x + t) ** 2), (x, t / m, 1))
    return {
        "own": sp.factor(own),
        "kept": kept,
        "own_slope": sp.diff(own.subs(m, 1), t).subs(t, 0),
        "kept_slope": sp.simplify(sp.diff(kept, t).subs(t, 0)),
        "corner": sp.cancel(3 * kept / (c - t) ** 2),
    }


def derive_truncated_bias() -> dict[str, Any]:
    """Minimise over the bias of an output without weights, in all classes and in classes 0 and 1.

    The output b > 0 costs b² where its feature is off and 1/3 - b + b² where it is on.

    Returns
    -------
    dict of str to Expr
        `full`, p/2, the expected value of the feature, and `truncated`, in the symbols p and n.

    References
    ----------
    Elhage et al. (2022): the bias of a feature that is not represented takes its expected value.

    Examples
    --------
    >>> derive_truncated_bias()["truncated"]
    p/(2*(n*p - p + 1))
    """
    import sympy as sp

    p, n, x = sp.symbols("p n x", positive=True)
    b = sp.Symbol("b", positive=True)
    on = sp.integrate(sp.expand((x - b) ** 2), (x, 0, 1))
    full = (1 - p) * b**2 + p * on
    # (1 - p)^(n - 1) is common to both classes
    first = (1 - p) * b**2 + p * (on + (n - 1) * b**2)
    solved = [sp.solve(sp.diff(loss, b), b)[0] for loss in (full, first)]
    return {"full": solved[0], "truncated": sp.factor(solved[1])}
