"""SymPy derivations for the ReLU output model, from its definition."""

from typing import Any

from ..derivation import Derivation, cached_derivation, sp
from ..loss.derive import derive_class_loss
from .pair import checked_sign

__all__ = [
    "derive_antiprism", "derive_bias_trade_off", "derive_class_loss", "derive_code_loss",
    "derive_common_norm", "derive_onset", "derive_projection", "derive_sphere_losses", "derive_steep_bound",
    "derive_thomson_bound", "derive_tricapped_prism", "derive_truncated_bias",
]  # fmt: skip


def _stationary(loss: Any, x: Any) -> list[Any]:
    """Return the root x of the derivative of `loss` by the symbol x, and the loss there, SymPy expressions.

    A ValueError is raised unless there is exactly one root.
    """
    (best,) = sp.solve(sp.diff(loss, x), x)
    return [sp.factor(sp.radsimp(expression)) for expression in (best, loss.subs(x, best))]


@cached_derivation
def derive_projection() -> Derivation:
    """Derive (x + z)² - x²: the error that ReLU saves over a linear output at the pre-activation -z < 0.

    For x >= 0 the difference is not negative, so ReLU never increases the error of a feature; it is negative
    for x < -z/2. For a pre-activation >= 0 both errors are equal.

    >>> derive_projection().expression
    z*(2*x + z)
    """
    x, z = sp.Symbol("x", real=True), sp.Symbol("z", positive=True)
    linear, ramp = (x - (-z)) ** 2, (x - sp.Max(0, -z)) ** 2
    return Derivation(sp.factor(linear - ramp), (x, z), ("The pre-activation is -z < 0.",))


@cached_derivation
def derive_bias_trade_off() -> Derivation:
    """Derive the losses of a feature's output and of another output at bias -t, while only the feature is on.

    The result is a column of five, for 0 < t < 1. Entry 1 is the loss of the feature's output at squared norm
    m > t, entry 2 the loss of the other output at overlap c > t (at c <= t it is 0). Entries 3 and 4 are
    their derivatives by t at t = 0, the first at m = 1. Entry 5 is 3 times the other output's loss over (c -
    t)², its loss where the feature has the value 1; the ratio is 1 only without bias.

    >>> derive_bias_trade_off().expression[1]
    (c - t)**3/(3*c)
    """
    t, c, m, x = sp.symbols("t c m x", positive=True)
    excess = sp.Symbol("excess", positive=True)  # c - t: SymPy would factor the other sign out
    active_loss = sp.integrate(sp.expand((c * x - t) ** 2), (x, t / c, 1)).subs(t, c - excess)
    active_loss = sp.factor(active_loss).subs(excess, c - t)
    silent = sp.integrate(x**2, (x, 0, t / m))
    target_loss = silent + sp.integrate(sp.expand((x - m * x + t) ** 2), (x, t / m, 1))
    own_slope = sp.diff(target_loss.subs(m, 1), t).subs(t, 0)
    kept_slope = sp.simplify(sp.diff(active_loss, t).subs(t, 0))
    corner = sp.cancel(3 * active_loss / (c - t) ** 2)
    column = sp.Matrix([sp.factor(target_loss), active_loss, own_slope, kept_slope, corner])
    return Derivation(column, (t, c, m), ("0 < t < 1, t < m and t < c.",))


@cached_derivation
def derive_truncated_bias() -> Derivation:
    """Derive the best bias of an output without weights, over all inputs and over those with at most one on.

    The loss of the output b > 0 is b² where its feature is off and 1/3 - b + b² where the feature is on. The
    result is a column: p/2, the best bias for all inputs and the expected value of the feature (Elhage et al.
    2022), and the best bias for inputs with at most one of n features on.

    >>> derive_truncated_bias().expression[1]
    p/(2*(n*p - p + 1))
    """
    p, n, x = sp.symbols("p n x", positive=True)
    b = sp.Symbol("b", positive=True)
    on = sp.integrate(sp.expand((x - b) ** 2), (x, 0, 1))
    full = (1 - p) * b**2 + p * on
    # (1 - p)^(n - 1) is common to both classes
    first = (1 - p) * b**2 + p * (on + (n - 1) * b**2)
    column = sp.Matrix([_stationary(loss, b)[0] for loss in (full, first)])
    return Derivation(column, (p, n), ("The output has no weights and a positive bias.",))


# --- Two features in one dimension --------------------------------------------------------------------------


@cached_derivation
def derive_onset(sign: int) -> Derivation:
    """Derive the change of the loss when a dropped feature gets a small encoding: (cost, cubic, gain, drag).

    Start from w = (1, 0), b = (0, p/2): feature 1 is exact and feature 2 is dropped. Then set w2 = `sign`
    eps, w1 = 1 + alpha eps and b1 = delta eps; `sign` is -1 or 1, the sign of w1 w2. Twice the change of the
    loss per feature is

        eps^2 (cost - importance gain) + eps^3 (cubic + importance drag) + O(eps^4),

    with the importance of feature 2. The result is a column of these four coefficients, functions of p, alpha
    and delta. Cost and cubic come from output 1, gain and drag from output 2.

    >>> derive_onset(-1).expression[2]
    -p**2/4 + p/3
    """
    sign = checked_sign(sign)
    p, alpha, delta, u, v = sp.symbols("p alpha delta u v", real=True)
    y = sign * v + delta
    # Where y is positive and where it is negative; ReLU(y) and ReLU(-y) with x2 off.
    above, below = ((0, delta), (delta, 1)) if sign < 0 else ((-delta, 1), (0, -delta))
    off_above, off_below = (delta, 0) if sign < 0 else (0, -delta)

    def over_second(on: Any, off: Any, start: Any = 0, end: Any = 1) -> Any:
        """Return the mean over x2: `on` for x2 = v in [start, end] when it is on, `off` when it is off."""
        return p * sp.integrate(sp.expand(on), (v, start, end)) + (1 - p) * off

    def pair_mean(expression: Any) -> Any:
        """Return the mean of an expression in u and v, the features' values; v = 0 if the second is off."""
        inner = sp.integrate(sp.expand(expression), (u, 0, 1))
        return over_second(inner, inner.subs(v, 0))

    first, second = 2 * alpha * u + y, alpha**2 * u + alpha * sign * v
    cost = p * pair_mean(first**2) + (1 - p) * over_second(y**2, off_above**2, *above)
    cubic = (
        2 * p * pair_mean(first * second)
        # for u < -eps y the output is clipped: u^2 instead of (eps y)^2
        - sp.Rational(2, 3) * p * over_second((-y) ** 3, off_below**3, *below)
        + 2 * alpha * (1 - p) * over_second(y * sign * v, 0, *above)
    )
    variance = p / 3 - p**2 / 4
    # output 2, eps^2 x2 + sign eps w1 x1 + b2, stays positive, so it is affine
    eps = sp.Symbol("epsilon")
    affine = sp.expand(variance * ((1 - eps**2) ** 2 + eps**2 * (1 + alpha * eps) ** 2))
    parts = [cost, cubic, -affine.coeff(eps, 2), affine.coeff(eps, 3)]
    where = "0 <= delta <= 1" if sign < 0 else "-1 <= delta <= 0"
    column = sp.Matrix([sp.expand(part) for part in parts])
    return Derivation(column, (p, alpha, delta), (f"eps is small and positive, {where}.",))


@cached_derivation
def derive_steep_bound() -> Derivation:
    """Derive the minimum over t of E (u - ReLU(a u + t))^2, u uniform on [0, 1], as a function of a >= 1.

    >>> derive_steep_bound().expression
    (a - 1)**2/(3*(a + 1)**2)
    """
    a, start, u = sp.symbols("a s u", positive=True)
    loss = start**3 / 3 + sp.integrate(sp.expand((u - a * (u - start)) ** 2), (u, start, 1))
    roots = [root for root in sp.solve(sp.diff(loss, start), start) if root != 1]
    values = [sp.factor(loss.subs(start, root)) for root in roots]
    return Derivation(min(values, key=lambda value: value.subs(a, 2)), (a,), ("a >= 1.",))


# --- Points on a sphere -------------------------------------------------------------------------------------


@cached_derivation
def derive_thomson_bound() -> Derivation:
    r"""Derive the lower bound on the energy of unit vectors, :func:`superposition.theory.relu.thomson_bound`.

    A parabola h below the energy's kernel, :math:`h(c) \le \mathrm{ReLU}(c - t)^2` for c from -1 to 1, with
    nonnegative coefficients of c and c^2, bounds the energy: over all i and j, the sum of :math:`W_i \cdot
    W_j` is not negative and the sum of :math:`(W_i \cdot W_j)^2` is at least n^2/m; the n terms with i = j
    are h(1) each. The parabola used touches the kernel at c = 1/u - 1 and is 0 at c = -1. The result is a
    column: the parabola with its free number u, the best u, and the bound at the best u. t is minus the bias.

    >>> derive_thomson_bound().expression[1]
    m*(n - 2)/(m*n - 4*m + n)
    """
    n, m, t, u, c, depth = sp.symbols("n m t u c depth", positive=True)
    parabola = (c - t) ** 2 - depth * (c + 1 - 1 / u) ** 2  # touches (c - t)^2 with any depth
    (least,) = sp.solve(parabola.subs(c, -1), depth)
    parabola = parabola.subs(depth, least)
    square, _, constant = sp.Poly(parabola, c).all_coeffs()
    bound = n**2 * (constant + square / m) - n * parabola.subs(c, 1)
    column = sp.Matrix([parabola, *_stationary(bound, u)])
    return Derivation(column, (n, m, t, u, c), ("n (1 - m t) > 2 m (1 - t), 0 <= t <= 1.",))


@cached_derivation
def derive_sphere_losses() -> Derivation:
    """Derive the losses of outputs with one and two features on, for lengths 1 or 0 without bias.

    The result is a column of means over values uniform on [0, 1]. With one feature on: the loss of its own
    output for length 1, and for length 0; and the loss of another output at inner product c > 0 (at c <= 0 it
    is 0). With two on: the loss of the output of one of them, at inner product -a >= -1.

    >>> derive_sphere_losses().expression.T
    Matrix([[0, 1/3, c**2/3, -a**3/6 + a**2/3]])
    """
    x, y = sp.symbols("x y", nonnegative=True)
    a, c = sp.symbols("a c", positive=True)
    active_loss, dropped = (sp.integrate((x - length * x) ** 2, (x, 0, 1)) for length in (1, 0))
    overlap = sp.integrate((c * x) ** 2, (x, 0, 1))
    # ReLU(x - a y) is 0 for x below a y, and x - a y above: a y is at most 1.
    over_first = sp.integrate(x**2, (x, 0, a * y)) + sp.integrate((a * y) ** 2, (x, a * y, 1))
    pair = sp.expand(sp.integrate(over_first, (y, 0, 1)))
    return Derivation(sp.Matrix([active_loss, dropped, overlap, pair]), (a, c), ("0 < a <= 1, 0 < c.",))


@cached_derivation
def derive_common_norm() -> Derivation:
    """Derive the best common length of n features whose directions have the `thomson_energy` E.

    E is the sum of ReLU(W_i.W_j)^2 over ordered pairs of unit vectors. The result is a column: the squared
    length, and the loss with one feature on, summed over features.

    >>> derive_common_norm().expression.T
    Matrix([[n/(E + n), E*n/(3*(E + n))]])
    """
    n, E, s = sp.symbols("n E s", positive=True)
    column = sp.Matrix(_stationary((n * (1 - s) ** 2 + s**2 * E) / 3, s))
    return Derivation(column, (n, E), ("There is no bias.",))


@cached_derivation
def derive_code_loss() -> Derivation:
    """Derive length and bias without interference, if no inner product of directions exceeds mu.

    The result is a column: the best squared length s, the bias -s mu, and the loss of one feature.

    >>> derive_code_loss().expression[2]
    mu**2*(mu + 3)/12
    """
    x, s, mu = sp.symbols("x s mu", positive=True)
    silent = sp.integrate(x**2, (x, 0, mu))
    loss = silent + sp.integrate(sp.expand((x - s * (x - mu)) ** 2), (x, mu, 1))
    best, least = _stationary(loss, s)
    column = sp.Matrix([best, sp.factor(-best * mu), least])
    return Derivation(column, (mu,), ("0 < mu < 1.",))


@cached_derivation
def derive_antiprism() -> Derivation:
    """Derive the heights at which a square antiprism, bare or with both caps, has the least `thomson_energy`.

    The result is a column of numbers: for 8 points the squared height of the two squares above and below the
    equator and the energy, then both for 10 points, which include the poles.

    The energy is the sum of ReLU(W_i.W_j)^2 over ordered pairs of points on the unit sphere.

    >>> derive_antiprism().expression[1]
    -16*(-5 + 2*sqrt(2))/17
    """
    x = sp.Symbol("x", positive=True)
    # Each of the 8 points: two neighbours in its square at x, two in the other at (1 - x)/sqrt(2) - x.
    bare = 8 * (2 * x**2 + 2 * ((1 - x) / sp.sqrt(2) - x) ** 2)
    column = sp.Matrix([*_stationary(bare, x), *_stationary(bare + 16 * x, x)])
    return Derivation(column, (), ("The squares lie at opposite heights.",))


@cached_derivation
def derive_tricapped_prism() -> Derivation:
    """Derive the height at which a triangular prism with three caps has the least `thomson_energy`.

    The result is a column of numbers: the squared height of the triangles above and below the equator, and
    the energy.

    The energy is the sum of ReLU(W_i.W_j)^2 over ordered pairs of points on the unit sphere.

    >>> derive_tricapped_prism().expression.T
    Matrix([[8/17, 63/17]])
    """
    x = sp.Symbol("x", positive=True)
    # Ordered pairs: 24 of a cap and its corners, 12 within triangles, 6 along the edges between them.
    energy = 24 * (1 - x) / 4 + 12 * (x - (1 - x) / 2) ** 2 + 6 * (1 - 2 * x) ** 2
    return Derivation(sp.Matrix(_stationary(energy, x)), (), ("The caps lie on the equator.",))
