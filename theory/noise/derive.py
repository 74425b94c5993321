r"""Derivations with SymPy: moments of the noise that reaches an output, one step, the effective potential.

Symbols: ``p2``, ``p4``, ... are power sums :math:`p_k = \sum_j W_j^k` of an encoding's weights, ``m`` their
number, ``mu2``, ``mu4``, ... are moments of the noise on one neuron, ``u`` is :math:`W \cdot \xi`, ``R`` is
:math:`|\xi|^2`, ``eta`` the learning rate. The cumulants of :math:`W \cdot \xi` are those of the noise times
p_k, so that all holds for any number of hidden neurons.

One step on an encoding without interference, with its ReLU on, is
:math:`W' = W - 2\eta (|W|^2 - 1 + W \cdot \xi)(2W + \xi)`; the source puts |W| = 1.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import arguments
from ..derivation import Derivation, derived, once, sp

__all__ = [
    "derive_edgeworth",
    "derive_fourth_norm_diffusion",
    "derive_fourth_norm_drift",
    "derive_fourth_norm_step",
    "derive_gradient",
    "derive_moment",
    "derive_next_step_loss",
    "derive_next_step_square",
    "derive_normal_relu",
    "derive_quartic_flow",
    "derive_random_drift",
    "derive_random_fourth_norm",
    "derive_sparsifying_rate",
    "derive_squared_norm",
    "expectation",
]

SYMMETRIC = "The noise is independent on each neuron and symmetric about 0."
LONE = "The encoding's own ReLU is on, all others are off."

Table = Callable[[int, int], Any]


# --- Moments ----------------------------------------------------------------------------------------------


@cache
def _ring() -> dict[str, Any]:
    """Return the symbols as elements of a ring of polynomials, in which sums and products are fast."""
    from sympy import ZZ
    from sympy.polys.rings import ring

    names = ["w", "m", *(f"p{k}" for k in range(1, 25)), *(f"mu{k}" for k in range(2, 25, 2))]
    polynomials, *symbols = ring(names, ZZ)
    return {"1": polynomials.one, **dict(zip(names, symbols, strict=True))}


def _others(a: int, b: int, moment: Table, cumulant: Table) -> Any:
    """Return the joint moment of two variables less its term with the joint cumulant of the same order.

    One derivative of exp(cumulant function), in the first variable that is left.
    """
    da, db = (1, 0) if a else (0, 1)
    return sum(
        math.comb(a - da, i)
        * math.comb(b - db, j)
        * cumulant(i + da, j + db)
        * moment(a - da - i, b - db - j)
        for i in range(a - da + 1)
        for j in range(b - db + 1)
        if (i + da, j + db) != (a, b)
    )


def _joint_moments(cumulant: Table) -> Table:
    """Return the joint moments of two variables as a function, given their joint cumulants."""

    @cache
    def moment(a: int, b: int) -> Any:
        return cumulant(a, b) + _others(a, b, moment, cumulant) if a or b else _ring()["1"]

    return moment


def _joint_cumulants(moment: Table) -> Table:
    """Return the joint cumulants of two variables as a function, given their joint moments."""

    @cache
    def cumulant(a: int, b: int) -> Any:
        return moment(a, b) - _others(a, b, moment, cumulant) if a or b else 0 * _ring()["1"]

    return cumulant


def _sum(k: int) -> Any:
    """Return p_k, with p_0 = m, in the ring."""
    return _ring()[f"p{k}" if k else "m"]


def _noise_moment(k: int) -> Any:
    """Return the k-th moment of the noise in the ring, 0 if k is odd."""
    return 0 * _ring()["1"] if k % 2 else _ring()[f"mu{k}" if k else "1"]


@cache
def _noise_cumulant(k: int) -> Any:
    """Return the k-th cumulant of the noise in the ring of its moments."""
    return _joint_cumulants(lambda a, _: _noise_moment(a))(k, 0)


@cache
def _projection() -> Table:
    """Return the joint moments of W.xi and |xi|^2; cumulants of sums over independent neurons add up."""
    one_neuron = _joint_cumulants(lambda a, b: _noise_moment(a + 2 * b))
    return _joint_moments(lambda a, b: one_neuron(a, b) * _sum(a))


def _mean(expression: Any, other: str, moment: Table) -> Any:
    """Average a polynomial over u and another variable, given their joint moments."""
    terms = sp.Poly(sp.expand(expression), sp.Symbol("u"), sp.Symbol(other)).terms()
    return sp.expand(sum(factor * moment(*powers).as_expr() for powers, factor in terms))


@once
def derive_moment(power: int = 4, square_power: int = 0) -> Derivation:
    r"""Derive :math:`E (W \cdot \xi)^a (|\xi|^2)^b` for any number of neurons.

    Parameters
    ----------
    power, square_power : int, optional
        a, from 0 to 12, and b, from 0 to 4.

    Returns
    -------
    Derivation
        0 if `power` is odd.

    Examples
    --------
    >>> derive_moment(2, 1).expression
    m*mu2**2*p2 - mu2**2*p2 + mu4*p2
    """
    a, b = arguments.integer("power", power, 0, 12), arguments.integer("square_power", square_power, 0, 4)
    return derived(_projection()(a, b).as_expr(), SYMMETRIC)


def expectation(expression: Any) -> Any:
    """Mean over the noise of a polynomial in u and R, for any number of neurons: exact.

    Parameters
    ----------
    expression : SymPy expression
        A polynomial in the symbols u and R. Text is not one: SymPy would run it as code.

    Returns
    -------
    SymPy expression
        In power sums of the weights and moments of the noise.

    Raises
    ------
    ValueError
        If it is no SymPy expression, or no polynomial.

    Examples
    --------
    >>> import sympy
    >>> expectation(sympy.Symbol("u") ** 2)
    mu2*p2
    """
    u, R = sp.symbols("u R")
    whole = sp.Integer(expression) if isinstance(expression, int) else expression
    if not isinstance(whole, sp.Expr) or not whole.is_polynomial(u, R):
        raise ValueError(f"`expression` must be a SymPy polynomial in u and R; got {expression!r}.")
    return _mean(whole, "R", lambda a, b: derive_moment(a, b).expression)


@once
def derive_random_fourth_norm() -> Derivation:
    r"""Derive the mean of :math:`|W|_4^4` over random unit vectors: :math:`3/(m + 2)`.

    A normal vector is a random direction times an independent length, so that :math:`m\, E x^4` is the mean
    looked for times :math:`E |x|^4 = m^2 + 2m`.

    Lecomte et al. (2024), Fig. 4, has 3/m, its limit.

    Examples
    --------
    >>> derive_random_fourth_norm().expression
    3/(m + 2)
    """
    m, t = sp.symbols("m t")
    fourth = sp.diff(sp.exp(t**2 / 2), t, 4).subs(t, 0)
    length = sp.diff((1 - 2 * t) ** (-m / 2), t, 2).subs(t, 0)  # of the chi-squared law
    return derived(sp.simplify(m * fourth / length), "All directions of W are equally likely.")


# --- One step ---------------------------------------------------------------------------------------------


@once
def derive_gradient(n_features: int = 3, n_hidden: int = 3) -> Derivation:
    r"""Derive the gradient of the loss on input e_1, :math:`2 (|W_1|^2 - 1 + W_1 \cdot \xi)(2 W_1 + \xi)`.

    The loss is differentiated with a symbol 0 or 1 for each ReLU, then the first is on, the others are off.
    It is a matrix (n_features, n_hidden) in the symbols W_00, ..., xi_0, ...; all rows but the first are 0.
    Lecomte et al. (2024), §3.2, App. C.1, at |W_1| = 1. (In its chain rule the Jacobian of h is the identity
    of size m; it prints n.)

    Examples
    --------
    >>> derive_gradient(2, 1).expression[1, 0]
    0
    """
    n = arguments.integer("n_features", n_features, 1, 30)
    m = arguments.integer("n_hidden", n_hidden, 1, 30)
    W = sp.Matrix(n, m, lambda i, j: sp.Symbol(f"W_{i}{j}", real=True))
    noise = sp.Matrix(1, m, lambda _, j: sp.Symbol(f"xi_{j}", real=True))
    on = [sp.Symbol(f"on_{i}") for i in range(n)]
    loss = sum((on[i] * W.row(i).dot(W.row(0) + noise) - int(i == 0)) ** 2 for i in range(n))
    switched = {gate: int(i == 0) for i, gate in enumerate(on)}
    return derived(W.applyfunc(lambda w: sp.expand(sp.diff(loss, w).subs(switched))), LONE)


@once
def derive_squared_norm() -> Derivation:
    r"""Derive the squared length after one step: Lecomte et al. (2024), App. C.2, at p2 = 1.

    Examples
    --------
    >>> derive_squared_norm().expression.subs("p2", 1)
    4*R*eta**2*u**2 + 16*eta**2*u**3 + 16*eta**2*u**2 - 4*eta*u**2 - 8*eta*u + 1
    """
    eta, u, R = sp.symbols("eta u R")
    square = sp.Symbol("p2")
    error = square - 1 + u
    along, noisy = 1 - 4 * eta * error, -2 * eta * error  # W' = along W + noisy xi
    return derived(sp.expand(along**2 * square + 2 * along * noisy * u + noisy**2 * R), LONE)


@once
def derive_next_step_square() -> Derivation:
    """Derive the mean squared length after one step, a polynomial in eta."""
    return derived(expectation(derive_squared_norm().expression), LONE, SYMMETRIC)


@once
def derive_next_step_loss() -> Derivation:
    r"""Derive :math:`E (|W'|^2 - 1 + W' \cdot \xi')^2` after one step: a polynomial of degree 4 in eta.

    At |W| = 1 the part of order eta^2 that knows the shape of W is
    :math:`16 \eta^2 (\mu_4 - 3\sigma^4)|W|_4^4`, the implicit regulariser of Lecomte et al. (2024), App. C.2.
    That is a property of the *loss*. Where the encoding drifts, :func:`derive_fourth_norm_drift` says.
    """
    square = derive_squared_norm().expression
    new = sp.Symbol("v")  # v is W'.xi', of variance mu2 |W'|^2
    part = sp.Poly(sp.expand((square - 1 + new) ** 2), new).coeff_monomial
    loss = expectation(part(1) + sp.Symbol("mu2") * square * part(new**2))
    return derived(
        loss, LONE, SYMMETRIC, "The noise of the loss has the law of the step's, independent of it."
    )


@once
def derive_fourth_norm_step() -> Derivation:
    r"""Derive :math:`E |W'|_4^4` after one step: a polynomial of degree 4 in eta.

    Examples
    --------
    >>> import sympy
    >>> sympy.factor(derive_fourth_norm_step().expression.coeff("eta", 1))
    -8*p4*(mu2 + 2*p2 - 2)
    """
    eta, u, x, w = sp.symbols("eta u x w")
    after = (w - 2 * eta * (sp.Symbol("p2") - 1 + u) * (2 * w + x)) ** 4
    return derived(_over_entries(after), LONE, SYMMETRIC)


def _over_entries(expression: Any) -> Any:
    """Average over u = W.xi and one entry x of the noise; add up over the weights w."""
    w = sp.Symbol("w")
    # The joint cumulants of u and x are those of the noise times w^a.
    entry = _joint_moments(lambda a, b: _noise_cumulant(a + b) * (_ring()["w"] ** a if b else _sum(a)))
    terms = sp.Poly(_mean(expression, "x", entry), w).terms()
    return sp.expand(sum(factor * _sum(k).as_expr() for (k,), factor in terms))


@cache
def _cubes() -> Table:
    """Return the joint moments of u = W.xi and v = sum_j W_j^3 xi_j."""
    return _joint_moments(lambda i, j: _noise_cumulant(i + j) * _sum(i + 3 * j))


@once
def derive_fourth_norm_drift() -> Derivation:
    r"""Derive the mean change of the shape :math:`F = p_4/p_2^2` in one step, to order eta^2.

    The first order vanishes for *any* length. At |W| = 1 the second is
    :math:`8 \eta^2 [\sigma^4 (3 - (m+2) p_4) + 2 (\mu_4 - 3\sigma^4)(p_4 - 4 p_6 + 3 p_4^2)]`. Its first part
    pulls every shape towards that of a random vector, 3/(m + 2). In the second part
    :math:`p_4 - 4p_6 + 3p_4^2` is positive for spread encodings: negative excess kurtosis *lowers* F. Bipolar
    noise does not feel a flat encoding at all: (1, 1)/sqrt(2) is where it ends at m = 2.
    Lecomte et al. (2024), §3.2, infers the opposite from the loss after a step.

    Examples
    --------
    >>> derive_fourth_norm_drift().expression.coeff("eta", 1)
    0
    """
    p2, p4, eta, u, v, w, x = sp.symbols("p2 p4 eta u v w x")
    error = p2 - 1 + u
    # W' - W = -2 eta error (2W + xi): changes of p2 and p4, first and second order in eta.
    p4_first = _mean(-8 * error * (2 * p4 + v), "v", _cubes())
    p2_first = _mean(-4 * error * (2 * p2 + u), "v", _cubes())
    p4_second = _over_entries(24 * error**2 * w**2 * (2 * w + x) ** 2)
    p2_second = _over_entries(4 * error**2 * (2 * w + x) ** 2)
    cross = _mean(32 * error**2 * (2 * p4 + v) * (2 * p2 + u), "v", _cubes())
    spread = _mean(16 * error**2 * (2 * p2 + u) ** 2, "v", _cubes())
    first = p4_first / p2**2 - 2 * p4 * p2_first / p2**3
    second = p4_second / p2**2 - 2 * p4 * p2_second / p2**3 - 2 * cross / p2**3 + 3 * p4 * spread / p2**4
    return derived(sp.expand(eta * first + eta**2 * second), LONE, SYMMETRIC, "Terms in eta^3 are left out.")


@once
def derive_fourth_norm_diffusion() -> Derivation:
    """Derive the variance of the change of F in one step, to order eta^2."""
    p2, p4, eta, u, v = sp.symbols("p2 p4 eta u v")
    variance = _mean(64 * eta**2 * (p2 - 1 + u) ** 2 * (v - p4 * u / p2) ** 2, "v", _cubes()) / p2**4
    return derived(sp.expand(variance), LONE, SYMMETRIC, "Terms in eta^3 are left out.")


@once
def derive_random_drift() -> Derivation:
    r"""Derive the mean of the drift at |W| = 1 over all directions of W.

    It is :math:`48 \eta^2 (\mu_4 - 3\sigma^4) m (m-1)/((m+2)(m+4)(m+6))`: the sign of the excess kurtosis.

    Examples
    --------
    >>> derive_random_drift().expression
    -48*eta**2*m*(m - 1)*(3*mu2**2 - mu4)/((m + 2)*(m + 4)*(m + 6))
    """
    m, p2, p4, p6 = sp.symbols("m p2 p4 p6")
    # A normal vector's moments over those of its length: |x|^(2k) has mean m (m+2) ... (m+2k-2).
    lengths = [sp.prod([m + 2 * i for i in range(k)]) for k in (2, 3, 4)]
    means = [m * 3 / lengths[0], m * 15 / lengths[1], (m * 105 + m * (m - 1) * 9) / lengths[2]]
    drift = sp.Poly(sp.expand(derive_fourth_norm_drift().expression.subs(p2, 1)), p4, p6)
    over = zip((p4, p6, p4**2), means, strict=True)
    mean = drift.coeff_monomial(1) + sum(drift.coeff_monomial(part) * value for part, value in over)
    return derived(sp.factor(mean), LONE, SYMMETRIC, "All directions of W are equally likely.")


# --- Many encodings ---------------------------------------------------------------------------------------


@once
def derive_normal_relu() -> Derivation:
    r"""Integrate 1, y and y^2 over y > 0 for y normal with mean g and variance v.

    A column: :math:`\Phi(z)`, :math:`g \Phi(z) + \sqrt v\, n(z)`, :math:`(g^2 + v)\Phi(z) + g \sqrt v\, n(z)`
    with z = g/sqrt(v).

    Examples
    --------
    >>> derive_normal_relu().expression[0]
    1 - erfc(sqrt(2)*g/(2*sqrt(v)))/2
    """
    g, v, y = sp.Symbol("g", real=True), sp.Symbol("v", positive=True), sp.Symbol("y", real=True)
    density = sp.exp(-((y - g) ** 2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)
    parts = [sp.simplify(sp.integrate(y**k * density, (y, 0, sp.oo))) for k in range(3)]
    return Derivation(sp.Matrix(parts), (g, v), ("The noise is normal.",))


@once
def derive_edgeworth() -> Derivation:
    r"""Derive what the fourth cumulant of the noise adds to E ReLU(g + W.xi)^2, to first order.

    By the cumulants, :math:`E f(g + u) = e^{c_4 \partial^4/24 + \dots} E f(g + u_{normal})`, where
    :math:`c_4 = \kappa\sigma^4 p_4`. In the symbols g, sigma, kurtosis, s = p2 and p4 that gives
    :math:`-\tfrac1{12} \kappa \sigma^2 \frac{p_4}{s}\, z\, n(z)` with :math:`z = g/(\sigma \sqrt s)`.
    """
    kurtosis = sp.Symbol("kurtosis", real=True)
    s, sigma, p4 = sp.symbols("s sigma p4", positive=True)
    normal = derive_normal_relu()
    g, v = normal.symbols
    added = kurtosis * sigma**4 * p4 / 24 * sp.diff(normal.expression[2], g, 4)
    return Derivation(
        sp.simplify(added.subs(v, sigma**2 * s)),
        (g, s, sigma, kurtosis, p4),
        (SYMMETRIC, "First order in the excess kurtosis.", "Weights are spread: p4 is small beside s^2."),
    )


@once
def derive_sparsifying_rate() -> Derivation:
    r"""Derive the rate B of the effective potential's force :math:`B W_j^3` at one fixed overlap g.

    The force is minus the derivative of :func:`derive_edgeworth` in p4, times that of p4 in W_j, which is
    :math:`4 W_j^3`. (The part along W only changes the length.) So
    :math:`B = \kappa \sigma^2 z\, n(z)/(3 s)` with :math:`z = g/(\sigma \sqrt s)`.
    """
    edgeworth = derive_edgeworth()
    *symbols, p4 = edgeworth.symbols
    rate = -4 * sp.diff(edgeworth.expression, p4)
    return Derivation(sp.simplify(rate), tuple(symbols), edgeworth.assumptions)


@once
def derive_quartic_flow(n_weights: int = 3) -> Derivation:
    r"""Derive the solution of :math:`dW_j/d(Bt) = W_j^3 - |W|_4^4 W_j` at |W| = 1, by its parameter tau.

    For :math:`u_j = W_j^{-2}` it says :math:`u_j' = 2 S u_j - 2` with one :math:`S = |W|_4^4` for all j.
    With :math:`u_j = g r_j` and :math:`g' = 2 S g` that is :math:`dr_j/d\tau = -1` in the time
    :math:`d\tau = 2\,d(Bt)/g`, and :math:`g = \sum_j 1/r_j`, since the squares add up to 1.

    The column Bt, x_1, x_2, ... for 2 to 20 weights in the symbols tau, x1, x2, ... (starts of all but the
    last, which is one less their sum).

    Examples
    --------
    >>> derive_quartic_flow(2).symbols
    (tau, x1)
    """
    tau = sp.Symbol("tau")
    free = sp.symbols(f"x1:{arguments.integer('n_weights', n_weights, 2, 20)}", positive=True)
    first = [*free, 1 - sum(free)]
    r, left = sp.Function("r"), sp.Symbol("q", positive=True)
    shares = [1 / sp.dsolve(r(tau).diff(tau) + 1, r(tau), ics={r(0): 1 / x}).rhs for x in first]
    # d(Bt) = g dtau/2: each share is x/q of q = 1 - tau x, which falls from 1
    clock = sum(sp.integrate(1 / left, (left, 1 - tau * x, 1)) for x in first) / 2
    column = sp.Matrix([clock, *(share / sum(shares) for share in shares)])
    return Derivation(column, (tau, *free), ("The squared weights add up to 1.",))
