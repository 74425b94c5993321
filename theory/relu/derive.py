"""SymPy derivations for the ReLU output model, from its definition; nothing is taken from print."""

from typing import Any

from ..loss.derive import derive_class_loss
from .pair import checked_sign

__all__ = [
    "derive_antiprism",
    "derive_bias_trade_off",
    "derive_class_loss",
    "derive_code_loss",
    "derive_common_norm",
    "derive_onset",
    "derive_projection",
    "derive_sphere_losses",
    "derive_steep_bound",
    "derive_thomson_bound",
    "derive_tricapped_prism",
    "derive_truncated_bias",
]


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
    import sympy

    x, z = sympy.Symbol("x", real=True), sympy.Symbol("z", positive=True)
    linear, ramp = (x - (-z)) ** 2, (x - sympy.Max(0, -z)) ** 2
    return {"gain": sympy.factor(linear - ramp)}


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
    import sympy

    t, c, m, x = sympy.symbols("t c m x", positive=True)
    excess = sympy.Symbol("excess", positive=True)  # c - t: SymPy would factor the other sign out
    kept = sympy.factor(sympy.integrate(sympy.expand((c * x - t) ** 2), (x, t / c, 1)).subs(t, c - excess))
    kept = kept.subs(excess, c - t)
    silent = sympy.integrate(x**2, (x, 0, t / m))
    own = silent + sympy.integrate(sympy.expand((x - m * x + t) ** 2), (x, t / m, 1))
    return {
        "own": sympy.factor(own),
        "kept": kept,
        "own_slope": sympy.diff(own.subs(m, 1), t).subs(t, 0),
        "kept_slope": sympy.simplify(sympy.diff(kept, t).subs(t, 0)),
        "corner": sympy.cancel(3 * kept / (c - t) ** 2),
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
    import sympy

    p, n, x = sympy.symbols("p n x", positive=True)
    b = sympy.Symbol("b", positive=True)
    on = sympy.integrate(sympy.expand((x - b) ** 2), (x, 0, 1))
    full = (1 - p) * b**2 + p * on
    # (1 - p)^(n - 1) is common to both classes
    first = (1 - p) * b**2 + p * (on + (n - 1) * b**2)
    solved = [sympy.solve(sympy.diff(loss, b), b)[0] for loss in (full, first)]
    return {"full": solved[0], "truncated": sympy.factor(solved[1])}


# --- Two features in one dimension -------------------------------------------------------------------------


def derive_onset(sign: int) -> tuple[Any, Any, Any, Any]:
    r"""Derive with SymPy how the loss changes when a dropped feature gets a small encoding.

    Start from w = (1, 0), b = (0, p/2): feature 1 is exact and feature 2 is dropped. Set w2 = `sign` eps,
    w1 = 1 + alpha eps and b1 = delta eps. Then, with y = `sign` x2 + delta, the first output errs by eps (2
    alpha x1 + y) while x1 is on, and returns eps ReLU(y) while it is off; the second gains.

    Parameters
    ----------
    sign : {-1, 1}
        Sign of w1 w2.

    Returns
    -------
    cost, cubic, gain, drag : sympy.Expr
        In the symbols p, alpha, delta: twice the change of the loss per feature is, up to eps^4,
        eps^2 (cost - importance gain) + eps^3 (cubic + importance drag).

    Raises
    ------
    ValueError
        If `sign` is neither -1 nor 1.

    Examples
    --------
    >>> cost, cubic, gain, drag = derive_onset(-1)
    >>> gain
    -p**2/4 + p/3
    """
    import sympy

    sign = checked_sign(sign)
    p, alpha, delta, u, v = sympy.symbols("p alpha delta u v", real=True)
    y = sign * v + delta
    # y is positive for v below -delta/sign if sign < 0, above it if sign > 0
    low, high = (sympy.Integer(0), delta) if sign < 0 else (-delta, sympy.Integer(1))

    def over_second(on: Any, off: Any, start: Any = 0, end: Any = 1) -> Any:
        """Mean over x2, on for v in [start, end], off with the given value."""
        return p * sympy.integrate(sympy.expand(on), (v, start, end)) + (1 - p) * off

    def both(expression: Any) -> Any:
        inner = sympy.integrate(sympy.expand(expression), (u, 0, 1))
        return over_second(inner, inner.subs(v, 0))

    first, second = 2 * alpha * u + y, alpha**2 * u + alpha * sign * v
    # with x2 off, y is delta: positive for sign -1, negative for +1
    positive = delta if sign < 0 else sympy.Integer(0)
    negative = sympy.Integer(0) if sign < 0 else -delta
    cost = p * both(first**2) + (1 - p) * over_second(y**2, positive**2, low, high)
    clip_low, clip_high = (delta, sympy.Integer(1)) if sign < 0 else (sympy.Integer(0), -delta)
    cubic = (
        2 * p * both(first * second)
        # for u < -eps y the output is clipped: u^2 instead of (eps y)^2
        - sympy.Rational(2, 3) * p * over_second((-y) ** 3, negative**3, clip_low, clip_high)
        + 2 * alpha * (1 - p) * over_second(y * sign * v, 0, low, high)
    )
    variance = p / 3 - p**2 / 4
    # output 2, eps^2 x2 + sign eps w1 x1 + b2, stays positive, so it is affine
    eps = sympy.Symbol("epsilon")
    affine = sympy.expand(variance * ((1 - eps**2) ** 2 + eps**2 * (1 + alpha * eps) ** 2))
    return (
        sympy.expand(cost),
        sympy.expand(cubic),
        sympy.expand(-affine.coeff(eps, 2)),
        sympy.expand(affine.coeff(eps, 3)),
    )


def derive_steep_bound() -> Any:
    r"""Derive with SymPy the least of E (u - ReLU(a u + t))^2 over t for u uniform on [0, 1] and a >= 1.

    Returns
    -------
    sympy.Expr
        In the symbol a.

    Examples
    --------
    >>> derive_steep_bound()
    (a - 1)**2/(3*(a + 1)**2)
    """
    import sympy

    a, start, u = sympy.symbols("a s u", positive=True)
    loss = start**3 / 3 + sympy.integrate(sympy.expand((u - a * (u - start)) ** 2), (u, start, 1))
    slope = sympy.factor(sympy.diff(loss, start))
    stationary = [root for root in sympy.solve(slope, start) if root != 1]
    return min((sympy.factor(loss.subs(start, root)) for root in stationary), key=lambda e: e.subs(a, 2))


# --- Points on a sphere ------------------------------------------------------------------------------------


def derive_thomson_bound() -> dict[str, Any]:
    r"""Derive the bound of :func:`thomson_bound`, with SymPy.

    A parabola h below the energy's kernel, :math:`h(c) \le \mathrm{ReLU}(c - t)^2` for c from -1 to 1, with
    nonnegative coefficients of c and c^2, bounds the energy: the sum of :math:`W_i \cdot W_j` over all i
    and j is not negative, that of its square at least n^2/m, and the n terms with i = j are h(1) each. The
    parabola is :math:`(c - t)^2 - (1 + t)^2 (u c - 1 + u)^2`: 0 at c = -1, and it touches the kernel where
    c = 1/u - 1.

    Returns
    -------
    dict of str to sympy.Expr
        In n, m, t (minus the bias) and c. ``"parabola"`` with its free number u, ``"best"`` for u, and
        ``"bound"``, the bound at the best u. Exact.
    """
    import sympy

    n, m, t, u, c = sympy.symbols("n m t u c", positive=True)
    parabola = (c - t) ** 2 - (1 + t) ** 2 * (u * c - 1 + u) ** 2
    square, _, constant = sympy.Poly(parabola, c).all_coeffs()
    bound = n**2 * (constant + square / m) - n * parabola.subs(c, 1)
    (best,) = sympy.solve(sympy.diff(bound, u), u)
    return {
        "parabola": parabola,
        "best": sympy.factor(best),
        "bound": sympy.factor(sympy.together(bound.subs(u, best))),
    }


def derive_sphere_losses() -> dict[str, Any]:
    """Derive the losses with one and two features on for lengths 1 or 0 without bias, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        Integrals over values uniform on [0, 1], exact. ``"kept"``: the own output of a feature of length 1.
        ``"dropped"``: of length 0. ``"overlap"``: another output, at inner product c > 0 (at c <= 0 it is 0).
        ``"pair"``: the own output of a feature when another one is on too, at inner product -a >= -1.
    """
    import sympy

    x, y = sympy.symbols("x y", nonnegative=True)
    a, c = sympy.symbols("a c", positive=True)
    # ReLU(x - a y) is 0 for x below a y, and x - a y above: a y is at most 1.
    covered = sympy.integrate(x**2, (x, 0, a * y))
    shifted = sympy.integrate((a * y) ** 2, (x, a * y, 1))
    return {
        "kept": sympy.integrate((x - x) ** 2, (x, 0, 1)),
        "dropped": sympy.integrate(x**2, (x, 0, 1)),
        "overlap": sympy.integrate((c * x) ** 2, (x, 0, 1)),
        "pair": sympy.expand(sympy.integrate(covered + shifted, (y, 0, 1))),
    }


def derive_common_norm() -> dict[str, Any]:
    """Derive the best common length of n features with energy E on the unit sphere, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        ``"square"``, the squared length, and ``"loss"``, the loss with one feature on, in n and E. Exact.
    """
    import sympy

    n, E, s = sympy.symbols("n E s", positive=True)
    loss = (n * (1 - s) ** 2 + s**2 * E) / 3
    (best,) = sympy.solve(sympy.diff(loss, s), s)
    return {"square": best, "loss": sympy.factor(loss.subs(s, best))}


def derive_code_loss() -> dict[str, Any]:
    """Derive length and bias that make all interference free when no inner product exceeds mu, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        ``"square"``, the squared length s, ``"bias"`` = -s mu, and ``"loss"``, of one feature, in mu. Exact.
    """
    import sympy

    x, s, mu = sympy.symbols("x s mu", positive=True)
    silent = sympy.integrate(x**2, (x, 0, mu))
    loss = silent + sympy.integrate(sympy.expand((x - s * (x - mu)) ** 2), (x, mu, 1))
    (best,) = sympy.solve(sympy.diff(loss, s), s)
    best = sympy.factor(best)
    return {"square": best, "bias": sympy.factor(-best * mu), "loss": sympy.factor(loss.subs(s, best))}


def derive_antiprism() -> dict[str, Any]:
    """Derive the heights with which a square antiprism, bare or with both caps, has least energy, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        ``"bare"`` and ``"bare energy"`` (8 points), ``"capped"`` and ``"capped energy"`` (10 points, with
        the poles): the square of the height of the squares above the equator, and the energy there. Exact.
    """
    import sympy

    x = sympy.Symbol("x", positive=True)
    # Each of the 8 points: two neighbours in its square at x, two in the other at (1 - x)/sqrt(2) - x.
    bare = 8 * (2 * x**2 + 2 * ((1 - x) / sympy.sqrt(2) - x) ** 2)
    found = {}
    for name, energy in (("bare", bare), ("capped", bare + 16 * x)):
        (best,) = sympy.solve(sympy.diff(energy, x), x)
        found[name] = sympy.radsimp(best)
        found[f"{name} energy"] = sympy.radsimp(sympy.expand(energy.subs(x, best)))
    return found


def derive_tricapped_prism() -> dict[str, Any]:
    """Derive the height with which a triangular prism with three caps has least energy, with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        ``"square"``, the square of the height of the triangles above the equator, and ``"energy"``. Exact.
    """
    import sympy

    x = sympy.Symbol("x", positive=True)
    # Ordered pairs: 24 of a cap and its corners, 12 within triangles, 6 along the edges between them.
    energy = 24 * (1 - x) / 4 + 12 * (x - (1 - x) / 2) ** 2 + 6 * (1 - 2 * x) ** 2
    (best,) = sympy.solve(sympy.diff(energy, x), x)
    return {"square": best, "energy": energy.subs(x, best)}
