"""SymPy derivations of the losses and bounds of codes."""

from typing import Any

from ..derivation import Derivation, cached_derivation, sp

__all__ = [
    "derive_antipodal_loss", "derive_collision_loss", "derive_decoder_bound", "derive_pair_cost",
    "derive_priority_plane_loss", "derive_relu_bound", "derive_row_weights", "derive_skew_pair",
]  # fmt: skip


@cached_derivation
def derive_pair_cost() -> Derivation:
    r"""Derive f(c), the loss of an output ReLU(x - c y) while its feature x and another feature y are on.

    The loss :math:`\int_0^1\!\int_0^1 (x - \mathrm{ReLU}(x - c y))^2\,dx\,dy` has a formula for c <= 1 and
    another for c > 1.

    >>> derive_pair_cost().expression
    Piecewise((-c**3/6 + c**2/3, c <= 1), (1/3 - 1/(6*c), True))
    """
    x, y, c = sp.symbols("x y c", positive=True)
    # The output is 0 for x < c y, and x - c y above.
    given_y = sp.integrate(x**2, (x, 0, c * y)) + sp.integrate((c * y) ** 2, (x, c * y, 1))
    weak = sp.expand(sp.integrate(sp.expand(given_y), (y, 0, 1)))
    strong = sp.expand(sp.integrate(sp.expand(given_y), (y, 0, 1 / c)) + (1 - 1 / c) / 3)
    return Derivation(sp.Piecewise((weak, c <= 1), (strong, True)), (c,))


@cached_derivation
def derive_skew_pair() -> Derivation:
    """Derive c < 1 and F, a column, of the least loss F p² of ReLU([[1, -c], [-1/c, 1]] x), as p → 0.

    p is the probability that a feature is on. The antipodal pair, c = 1, has F = 1/6: a maximum of F(c)
    between two minima.

    >>> list(derive_skew_pair().expression)
    [1/3, 25/162]
    """
    cost = derive_pair_cost()
    (c,) = cost.symbols
    (weak, _), (strong, _) = cost.expression.args
    both = (weak + strong.subs(c, 1 / c)) / 2
    (best,) = [root for root in sp.solve(sp.diff(both, c), c) if sp.diff(both, c, 2).subs(c, root) > 0]
    return Derivation(sp.Matrix([best, both.subs(c, best)]), (), ("p → 0, and the lengths are free.",))


@cached_derivation
def derive_antipodal_loss() -> Derivation:
    r"""Integrate the loss E (x_1 - a R)² = p/3 - 2 a E[x_1 R] + a² E[R²] of one output of an antipodal pair.

    The output a R, with :math:`R = \mathrm{ReLU}(x_1 - x_2 + \beta)`, has the scale a >= 0 and the bias a
    beta, beta from 0 to 1. Each feature is on with probability p.

    >>> unit = derive_antipodal_loss().expression.subs({"a": 1, "beta": 0})
    >>> unit.expand()
    p**2/6
    """
    u, v = sp.symbols("u v", positive=True)
    p, a, beta = sp.symbols("p a beta")
    q = 1 - p

    def pair_mean(power: int, factor: Any) -> Any:
        """Return the integral of factor (u - v + beta)_+^power over u and v in [0, 1], as if both are on."""
        inner = sp.expand(factor * (u - v + beta) ** power)
        low = sp.integrate(sp.expand(sp.integrate(inner, (v, 0, u + beta))), (u, 0, 1 - beta))
        return low + sp.integrate(sp.expand(sp.integrate(inner, (v, 0, 1))), (u, 1 - beta, 1))

    target_loss = sp.integrate(sp.expand((u + beta) ** 2), (u, 0, 1))
    other = sp.integrate(sp.expand((beta - v) ** 2), (v, 0, beta))
    cross = p * q * sp.integrate(sp.expand(u * (u + beta)), (u, 0, 1)) + p**2 * pair_mean(1, u)
    square = q**2 * beta**2 + p * q * (target_loss + other) + p**2 * pair_mean(2, sp.Integer(1))
    loss = p / 3 - 2 * a * sp.expand(cross) + a**2 * sp.expand(square)
    return Derivation(loss, (p, a, beta), ("0 <= beta <= 1 and a >= 0.",))


@cached_derivation
def derive_priority_plane_loss() -> Derivation:
    """Derive the loss per feature of a priority code of n features on two dimensions, a function of p and n.

    p is the probability that a feature is on. Encodings of a priority code differ in length by orders of
    magnitude, so that a feature with a longer one silences outputs of shorter ones: while it is on, these
    outputs are 0. An output loses its feature's square while it is silenced, and nothing otherwise. The
    outputs are silenced by 0, 0, 1, 2, ..., n - 3 and n - 3 features.

    >>> found = derive_priority_plane_loss()
    >>> sp.series(found.expression.subs("n", 6), found.symbols[0], 0, 3)
    p**2/2 + O(p**3)
    """
    p, n, k, u = sp.symbols("p n k u")
    on = sp.Symbol("q")  # a chance 1 - p for which SymPy sums
    exact = sp.summation(on**k, (k, 0, n - 3)).args[-1][0].subs(on, 1 - p)  # of 1 or more outputs
    lost = (n - 2) - exact + 1 - (1 - p) ** (n - 3)
    loss = p / n * sp.integrate(u**2, (u, 0, 1)) * lost
    return Derivation(loss, (p, n), ("An infinite spread of lengths, and n >= 4.",))


@cached_derivation
def derive_collision_loss() -> Derivation:
    """Derive the loss of an output that equals its feature while the n - 1 other features are off, else 0.

    This bounds the loss of an output between 0 and its feature. p is the probability that a feature is on.

    >>> derive_collision_loss().expression
    p*(1 - (1 - p)**(n - 1))/3
    """
    p, n, u = sp.symbols("p n u")
    return Derivation(p * sp.integrate(u**2, (u, 0, 1)) * (1 - (1 - p) ** (n - 1)), (p, n))


@cached_derivation
def derive_decoder_bound() -> Derivation:
    """Derive a lower bound on the loss of any decoder of r n measurements, per feature, by entropies.

    The proof tells the decoder which K of the n features are on; the entropy of their values, uniform on a
    cube, is 0. The bound is convex in K and does not decrease, so K may be replaced by its mean n p, with p
    the probability that a feature is on. The page "Structured codes" has the steps.

    >>> round(float(derive_decoder_bound().evaluate({"p": 0.1, "r": 0.05})), 6)
    0.002057
    """
    p, r, v = sp.symbols("p r v", positive=True)
    x = sp.Symbol("x", real=True)
    density = sp.exp(-(x**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)
    minus_log = x**2 / (2 * v) + sp.log(2 * sp.pi * v) / 2
    entropy = sp.simplify(sp.integrate(sp.expand(density * minus_log), (x, -sp.oo, sp.oo)))
    d = p - r
    (least,) = sp.solve(entropy + r / d * entropy.subs(v, sp.Rational(1, 12)), v)
    return Derivation(d * least, (p, r), ("r < p.",))


@cached_derivation
def derive_row_weights() -> Derivation:
    r"""Derive 1/E Z², K(0) and ∫ K'² of the weights Z(u, y) in the proof of `relu_bound`, as functions of c.

    c is the size of one interference weight in units of the diagonal, \|M_ij/M_ii\|; u and y are uniform on
    [0, 1]; K(t) is the mean over y of the integral of Z from t to min(t + c y, 1), and Z is scaled so that ∫
    K = 1. The result has three columns and a row for each range of c: [0, 1] and [1, 6/5] for Z ∝ y (1 + (2 c
    - 1) u²), [0, 1/10] for Z ∝ y (1 + (7 c - 1) u⁸), and [1/10, 1/2], [1/2, 1] and [1, ∞) for Z ∝ min(u, c
    y).

    >>> derive_row_weights().expression[5, 0]
    (2*c - 1)/(6*c)
    """
    c, t, u, y = sp.symbols("c t u y", positive=True)

    def integral(what: Any, symbol: Any, low: Any, high: Any) -> Any:
        """Return the integral of the polynomial `what` over `symbol` from `low` to `high`."""
        antiderivative = sp.Poly(what, symbol).integrate()
        return sp.expand(antiderivative.eval(high) - antiderivative.eval(low))

    def row(below: Any, above: Any, top: Any, parts: list[tuple[Any, Any, Any, Any]]) -> list[Any]:
        """Return 1/E Z², K(0) and ∫ K'², factored, for the Z that is `below` where u < c y, else `above`.

        Up to y = top, c y is below 1. `parts` has a row (low, high, last, turn) for each range of t: last is
        the largest y at which t + c y < 1, turn that at which c y < t.
        """

        def mean(below: Any, above: Any) -> Any:
            """Return the integral over u and y in [0, 1] of `below` where u < c y, `above` elsewhere."""
            both = integral(below, u, 0, c * y) + integral(above, u, c * y, 1)
            return integral(both, y, 0, top) + integral(integral(below, u, 0, 1), y, top, 1)

        start, square, mass = mean(below, 0), mean(below**2, above**2), mean(u * below, c * y * above)
        steep = 0
        for low, high, last, turn in parts:
            gained = integral(above.subs(u, t + c * y), y, 0, last)
            lost = integral(above.subs(u, t), y, 0, turn) + integral(below.subs(u, t), y, turn, 1)
            steep += integral((gained - lost) ** 2, t, low, high)
        return [sp.factor(unity) for unity in (mass**2 / square, start / mass, steep / mass**2)]

    unity, late, early = sp.Integer(1), (1 - t) / c, t / c
    flat, steep = y * (1 + (2 * c - 1) * u**2), y * (1 + (7 * c - 1) * u**8)
    rows = [
        row(flat, flat, unity, [(0, 1 - c, unity, unity), (1 - c, 1, late, unity)]),
        row(flat, flat, 1 / c, [(0, 1, late, unity)]),
        row(steep, steep, unity, [(0, 1 - c, unity, unity), (1 - c, 1, late, unity)]),
        row(u, c * y, unity, [(0, c, unity, early), (c, 1 - c, unity, unity), (1 - c, 1, late, unity)]),
        row(u, c * y, unity, [(0, 1 - c, unity, early), (1 - c, c, late, early), (c, 1, late, unity)]),
        row(u, c * y, 1 / c, [(0, 1, late, early)]),
    ]
    return Derivation(sp.Matrix(rows), (c,))


@cached_derivation
def derive_relu_bound() -> Derivation:
    """Derive three lower bounds on the loss of ReLU(M x + b), a column: one logarithmic, two linear in r.

    The two linear ones differ by constants of the proof, which is on the page "Structured codes". Symbols are
    p, the ratio r = n_hidden/n_features, and the probabilities with which the proof draws features: theta, at
    most 1, for the linear bounds, and s for the logarithmic one.

    >>> values = {"p": 0.1, "r": 0.25, "s": 0.5, "theta": 0.6}
    >>> [round(float(value), 6) for value in derive_relu_bound().evaluate(values)]
    [0.002493, 0.001994, 0.001446]
    """
    p, r, s, theta, q, a, C, h = sp.symbols("p r s theta q a C h", positive=True)
    k, dead = p**2 * (1 - p), 1 / (h / p + sp.Rational(3, 2) ** 2 / (1 - p))
    # 4. What a row loses whose interference is q, with a for a A_j.
    loss = dead * (1 - a) ** 2 + k * q * a**2
    (best,) = sp.solve(sp.diff(loss, a), a)
    row = sp.simplify(loss.subs(a, best))
    # 7 and 8.
    first, second = (
        {C: sp.Rational(19, 5), h: sp.Rational(11, 3)},
        {C: sp.Rational(81, 25), h: sp.Rational(37, 2)},
    )
    m = sp.Max(s, -sp.log(1 - s) / (1 + sp.Rational(1, 6)))
    line = row.subs(q, 1 / (C * theta)) * (1 - r / theta)
    logarithm = row.subs(q, sp.log(s / r) / (C * m))
    bounds = [logarithm.subs(first), line.subs(first), line.subs(second)]
    return Derivation(sp.Matrix(bounds), (p, r, s, theta))
