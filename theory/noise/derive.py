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

from .. import validation
from ..derivation import Derivation, cached_derivation, derived, sp
from ..special import derive_ramp_moment

__all__ = [
    "derive_edgeworth", "derive_fourth_norm_drift", "derive_gradient", "derive_moment",
    "derive_next_step_loss", "derive_next_step_square", "derive_normal_relu", "derive_quartic_flow",
    "derive_random_drift", "derive_random_fourth_norm", "derive_sparsifying_rate", "derive_squared_norm",
    "expectation",
]  # fmt: skip

SYMMETRIC = "The noise is independent on each neuron and symmetric about 0."
LONE = "The encoding's own ReLU is on, all others are off."

Orders = Callable[[int, int], Any]
"""Joint moments, or cumulants, of two variables as a function of their orders."""


# --- Moments ----------------------------------------------------------------------------------------------


@cache
def _ring() -> dict[str, Any]:
    """Return a dict from names to elements of a SymPy polynomial ring, in which sums and products are fast.

    The names are "1", "w" (a weight of the encoding), "m" (the number of neurons), "p1", "p2", ... (power
    sums of the weights) and "mu2", "mu4", ... (moments of the noise on a neuron).
    """
    from sympy import ZZ
    from sympy.polys.rings import ring

    names = ["w", "m", *(f"p{k}" for k in range(1, 25)), *(f"mu{k}" for k in range(2, 25, 2))]
    polynomials, *symbols = ring(names, ZZ)
    return {"1": polynomials.one, **dict(zip(names, symbols, strict=True))}


def _moment_less_cumulant(a: int, b: int, moment: Orders, cumulant: Orders) -> Any:
    """Return the joint moment of orders (a, b) minus the joint cumulant of the same orders.

    `moment` and `cumulant` are functions of (a, b), which are called for lower orders only.
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


def _joint_moments(cumulant: Orders) -> Orders:
    """Return the function (a, b) -> joint moment of two variables with the joint cumulants cumulant(a, b)."""

    @cache
    def moment(a: int, b: int) -> Any:
        """Return the joint moment of orders (a, b) of two variables with these joint cumulants."""
        return cumulant(a, b) + _moment_less_cumulant(a, b, moment, cumulant) if a or b else _ring()["1"]

    return moment


def _powers_cumulants(k: int, l: int) -> Orders:
    """Return the function (a, b) -> joint cumulant of xi^k and xi^l, for the noise xi on one neuron.

    Its results are polynomials, elements of `_ring`, in the noise's moments mu2, mu4, ....
    """

    def moment(a: int, b: int) -> Any:
        """Return the joint moment of orders (a, b) of xi^k and xi^l."""
        power = k * a + l * b
        return 0 * _ring()["1"] if power % 2 else _ring()[f"mu{power}" if power else "1"]

    @cache
    def cumulant(a: int, b: int) -> Any:
        """Return the joint cumulant of orders (a, b) of xi^k and xi^l."""
        return moment(a, b) - _moment_less_cumulant(a, b, moment, cumulant) if a or b else 0 * _ring()["1"]

    return cumulant


def _power_sum(k: int) -> Any:
    """Return the power sum p_k = sum_j W_j^k of an encoding's weights as an element of `_ring`; p_0 is m."""
    return _ring()[f"p{k}" if k else "m"]


@cache
def _moments_of_sums(first: tuple[int, int], second: tuple[int, int]) -> Orders:
    """Return the function (a, b) -> joint moment of orders a, b of two sums over neurons j of W_j^i xi_j^k.

    `first` and `second` are (i, k) of the two sums. Neurons are independent, so their cumulants add up. The
    moments are elements of `_ring`, polynomials in power sums of the weights W_j and moments of the noise.
    """
    (i, k), (j, l) = first, second
    neuron = _powers_cumulants(k, l)
    return _joint_moments(lambda a, b: neuron(a, b) * _power_sum(i * a + j * b))


def _mean_of_polynomial(expression: Any, other: str, moment: Orders) -> Any:
    """Return the mean, a SymPy expression, of `expression`, a polynomial in u and the variable named `other`.

    moment(a, b) is the joint moment of orders a of u and b of the other variable, an element of `_ring`.
    """
    terms = sp.Poly(sp.expand(expression), sp.Symbol("u"), sp.Symbol(other)).terms()
    return sp.expand(sum(factor * moment(*powers).as_expr() for powers, factor in terms))


@cached_derivation
def derive_moment(power: int = 4, square_power: int = 0) -> Derivation:
    r"""Derive :math:`E (W \cdot \xi)^a (|\xi|^2)^b` for any number of neurons; 0 if a is odd.

    a is `power`, from 0 to 12, and b is `square_power`, from 0 to 4.

    >>> derive_moment(2, 1).expression
    m*mu2**2*p2 - mu2**2*p2 + mu4*p2
    """
    a, b = validation.integer("power", power, 0, 12), validation.integer("square_power", square_power, 0, 4)
    return derived(_moments_of_sums((1, 1), (0, 2))(a, b).as_expr(), SYMMETRIC)


def expectation(expression: Any) -> Any:
    """Mean over the noise xi of a polynomial in u = W.xi and R = |xi|^2, for any number of neurons: exact.

    Parameters
    ----------
    expression : SymPy expression
        A polynomial in the symbols u and R. Text is refused, as SymPy would run it as code.

    Returns
    -------
    SymPy expression
        Mean in terms of power sums of the weights, p2, p4, ..., and moments of the noise, mu2, mu4, ....

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
    polynomial = sp.Integer(expression) if isinstance(expression, int) else expression
    if not isinstance(polynomial, sp.Expr) or not polynomial.is_polynomial(u, R):
        raise ValueError(f"`expression` must be a SymPy polynomial in u and R; got {expression!r}.")
    return _mean_of_polynomial(polynomial, "R", lambda a, b: derive_moment(a, b).expression)


@cached_derivation
def derive_random_fourth_norm() -> Derivation:
    r"""Derive the mean of :math:`|W|_4^4` over random unit vectors: :math:`3/(m + 2)`.

    A normal vector is a random direction times an independent length, so that :math:`m\, E x^4` is the mean
    of :math:`|W|_4^4` times :math:`E |x|^4 = m^2 + 2m`.

    Lecomte et al. (2024), Fig. 4, has the limit 3/m.

    >>> derive_random_fourth_norm().expression
    3/(m + 2)
    """
    m, t = sp.symbols("m t")
    fourth = sp.diff(sp.exp(t**2 / 2), t, 4).subs(t, 0)
    length = sp.diff((1 - 2 * t) ** (-m / 2), t, 2).subs(t, 0)  # of the chi-squared law
    return derived(sp.simplify(m * fourth / length), "All directions of W are equally likely.")


# --- One step ---------------------------------------------------------------------------------------------


@cached_derivation
def derive_gradient(n_features: int = 3, n_hidden: int = 3) -> Derivation:
    r"""Derive the gradient of the loss on input e_1, :math:`2 (|W_1|^2 - 1 + W_1 \cdot \xi)(2 W_1 + \xi)`.

    Only the first output is active; xi is the noise on the neurons. The result is a matrix (n_features,
    n_hidden) in the symbols W_00, ..., xi_0, ...; all rows but the first are 0. Lecomte et al. (2024), §3.2,
    App. C.1, have it at |W_1| = 1 (in their chain rule the Jacobian of h has size m, not n as printed).

    >>> derive_gradient(2, 1).expression[1, 0]
    0
    """
    n = validation.integer("n_features", n_features, 1, 30)
    m = validation.integer("n_hidden", n_hidden, 1, 30)
    W = sp.Matrix(n, m, lambda i, j: sp.Symbol(f"W_{i}{j}", real=True))
    noise = sp.Matrix(1, m, lambda _, j: sp.Symbol(f"xi_{j}", real=True))
    on = [sp.Symbol(f"on_{i}") for i in range(n)]
    loss = sum((on[i] * W.row(i).dot(W.row(0) + noise) - int(i == 0)) ** 2 for i in range(n))
    switched = {gate: int(i == 0) for i, gate in enumerate(on)}
    return derived(W.applyfunc(lambda w: sp.expand(sp.diff(loss, w).subs(switched))), LONE)


@cached_derivation
def derive_squared_norm() -> Derivation:
    """Derive |W|² after one step of descent on the encoding W's own input, with noise xi on the neurons.

    The result is a polynomial in the learning rate eta, u = W.xi, R = |xi|² and p2 = |W|²; Lecomte et al.
    (2024), App. C.2, have it at p2 = 1.

    >>> derive_squared_norm().expression.subs("p2", 1)
    4*R*eta**2*u**2 + 16*eta**2*u**3 + 16*eta**2*u**2 - 4*eta*u**2 - 8*eta*u + 1
    """
    eta, u, R = sp.symbols("eta u R")
    square = sp.Symbol("p2")
    error = square - 1 + u
    shrinkage, noisy = 1 - 4 * eta * error, -2 * eta * error  # W' = along W + noisy xi
    return derived(sp.expand(shrinkage**2 * square + 2 * shrinkage * noisy * u + noisy**2 * R), LONE)


@cached_derivation
def derive_next_step_square() -> Derivation:
    """Derive the mean over the noise of |W|^2 after one step of descent on the encoding W's own input.

    The result is a polynomial in the learning rate eta, the power sums of W and the moments of the noise.
    """
    return derived(expectation(derive_squared_norm().expression), LONE, SYMMETRIC)


@cached_derivation
def derive_next_step_loss() -> Derivation:
    r"""Derive :math:`E (|W'|^2 - 1 + W' \cdot \xi')^2`, the loss after a step to W', under new noise xi'.

    The result is a polynomial of degree 4 in the learning rate eta. The step is one of descent on the
    encoding W's own input, with noise xi.

    At |W| = 1 the part of order eta^2 that depends on the shape of W is :math:`16 \eta^2 (\mu_4 -
    3\sigma^4)|W|_4^4`, the implicit regulariser of Lecomte et al. (2024), App. C.2. This is a property of the
    *loss*; for the drift of the encoding see :func:`derive_fourth_norm_drift`.
    """
    square = derive_squared_norm().expression
    new = sp.Symbol("v")  # v is W'.xi', of variance mu2 |W'|^2
    part = sp.Poly(sp.expand((square - 1 + new) ** 2), new).coeff_monomial
    loss = expectation(part(1) + sp.Symbol("mu2") * square * part(new**2))
    return derived(
        loss, LONE, SYMMETRIC, "The noise of the loss has the law of the step's, independent of it."
    )


def _over_entries(expression: Any) -> Any:
    """Return the sum over neurons of E f(u, x, w) for the polynomial f = `expression` in these three symbols.

    u is W.xi, x the noise on the neuron, w its weight. The result is in power sums of the weights and moments
    of the noise.
    """
    neuron = _powers_cumulants(1, 1)
    entry = _joint_moments(lambda a, b: neuron(a, b) * (_ring()["w"] ** a if b else _power_sum(a)))
    terms = sp.Poly(_mean_of_polynomial(expression, "x", entry), sp.Symbol("w")).terms()
    return sp.expand(sum(factor * _power_sum(k).as_expr() for (k,), factor in terms))


@cached_derivation
def derive_fourth_norm_drift() -> Derivation:
    r"""Derive the mean change of the shape :math:`F = p_4/p_2^2` in one step, to order eta^2.

    p_k is the sum of W_j^k over the m neurons, eta the learning rate of a step of descent on the encoding's
    own input, sigma and mu_4 are the noise's standard deviation and fourth moment. The first order in eta
    vanishes for *any* length. At |W| = 1 the second order is :math:`8 \eta^2 [\sigma^4 (3 - (m+2) p_4) + 2
    (\mu_4 - 3\sigma^4)(p_4 - 4 p_6 + 3 p_4^2)]`. The first term pulls every shape towards that of a random
    vector, 3/(m + 2). In the second term :math:`p_4 - 4p_6 + 3p_4^2` is positive for spread encodings:
    negative excess kurtosis *lowers* F. Lecomte et al. (2024), §3.2, infers the opposite from the loss after
    a step.

    >>> derive_fourth_norm_drift().expression.coeff("eta", 1)
    0
    """
    p2, p4, eta, u, v, w, x = sp.symbols("p2 p4 eta u v w x")
    error = p2 - 1 + u
    cubes = _moments_of_sums((1, 1), (3, 1))  # of u = W.xi and v = sum_j W_j^3 xi_j
    # W' - W = -2 eta error (2W + xi): changes of p2 and p4, first and second order in eta.
    p4_first = _mean_of_polynomial(-8 * error * (2 * p4 + v), "v", cubes)
    p2_first = _mean_of_polynomial(-4 * error * (2 * p2 + u), "v", cubes)
    p4_second = _over_entries(24 * error**2 * w**2 * (2 * w + x) ** 2)
    p2_second = _over_entries(4 * error**2 * (2 * w + x) ** 2)
    cross = _mean_of_polynomial(32 * error**2 * (2 * p4 + v) * (2 * p2 + u), "v", cubes)
    spread = _mean_of_polynomial(16 * error**2 * (2 * p2 + u) ** 2, "v", cubes)
    first = p4_first / p2**2 - 2 * p4 * p2_first / p2**3
    second = p4_second / p2**2 - 2 * p4 * p2_second / p2**3 - 2 * cross / p2**3 + 3 * p4 * spread / p2**4
    return derived(sp.expand(eta * first + eta**2 * second), LONE, SYMMETRIC, "Terms in eta^3 are left out.")


@cached_derivation
def derive_random_drift() -> Derivation:
    r"""Derive the mean over all directions of W, |W| = 1, of the change of F = p_4/p_2^2 in one step.

    The mean is :math:`48 \eta^2 (\mu_4 - 3\sigma^4) m (m-1)/((m+2)(m+4)(m+6))` and has the sign of the excess
    kurtosis.

    W has m weights; eta is the learning rate of the step, on the encoding's own input, and sigma and mu_4 are
    the noise's standard deviation and fourth moment.

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


@cached_derivation
def derive_normal_relu() -> Derivation:
    r"""Derive E [y > 0], E ReLU(y) and E ReLU(y)^2, a column, for y normal with mean g and variance v.

    The entries are :math:`\Phi(z)`, :math:`g \Phi(z) + \sqrt v\, n(z)`, :math:`(g^2 + v)\Phi(z) + g \sqrt v\,
    n(z)` with z = g/sqrt(v), from :func:`superposition.theory.special.derive_ramp_moment`.

    >>> derive_normal_relu().expression[0]
    1 - erfc(sqrt(2)*g/(2*sqrt(v)))/2
    """
    g, v = sp.Symbol("g", real=True), sp.Symbol("v", positive=True)
    units = [derive_ramp_moment(k) for k in range(3)]
    parts = [unit.expression.subs(unit.symbols[0], -g / sp.sqrt(v)) for unit in units]
    column = sp.Matrix([sp.expand(part * sp.sqrt(v) ** k) for k, part in enumerate(parts)])
    return Derivation(column, (g, v), ("The noise is normal.",))


@cached_derivation
def derive_edgeworth() -> Derivation:
    r"""Derive the term that the noise's fourth cumulant adds to E ReLU(g + W.xi)^2, to first order.

    g is an overlap, W the output's encoding, xi the noise on the neurons. By the cumulants, :math:`E f(g + u)
    = e^{c_4 \partial^4/24 + \dots} E f(g + u_{normal})`, where :math:`c_4 = \kappa\sigma^4 p_4`. In the
    symbols g, sigma, kurtosis, s = p2 and p4 (power sums of W) the term is :math:`-\tfrac1{12} \kappa
    \sigma^2 \frac{p_4}{s}\, z\, n(z)` with :math:`z = g/(\sigma \sqrt s)` and the standard normal density n.
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


@cached_derivation
def derive_sparsifying_rate() -> Derivation:
    r"""Derive the rate B of the effective potential's force :math:`B W_j^3` at one fixed overlap g.

    The force moves the weights W_j of an encoding W, whose output receives the overlap g and the noise.

    The force is minus the derivative of :func:`derive_edgeworth` by p4, times dp4/dW_j = :math:`4 W_j^3`.
    (The component along W only changes the length.) So :math:`B = \kappa \sigma^2 z\, n(z)/(3 s)` with
    :math:`z = g/(\sigma \sqrt s)`, s = |W|^2, the standard normal density n, and the noise's standard
    deviation sigma and excess kurtosis kappa.
    """
    edgeworth = derive_edgeworth()
    *symbols, p4 = edgeworth.symbols
    rate = -4 * sp.diff(edgeworth.expression, p4)
    return Derivation(sp.simplify(rate), tuple(symbols), edgeworth.assumptions)


@cached_derivation
def derive_quartic_flow(n_weights: int = 3) -> Derivation:
    r"""Derive W(t) of :math:`dW_j/d(Bt) = W_j^3 - |W|_4^4 W_j` at |W| = 1, as functions of a parameter tau.

    The differences of the :math:`1/x_j = 1/W_j^2` change by a common factor, so that :math:`x_j(\tau) \propto
    1/(1/x_j(0) - \tau)`, at the time :math:`2 B t = -\sum_j \ln(1 - \tau x_j(0))`.

    The result is a column of Bt and of the `n_weights` (2 to 20) x_j at that time. Its symbols are tau and
    x1, x2, ..., the x_j at the start; the last x_j is 1 minus the sum of the others. B is the rate of
    :func:`derive_sparsifying_rate`.

    >>> derive_quartic_flow(2).symbols
    (tau, x1)
    """
    tau, w, y, begin, p4, f, f_rate, tau_rate = sp.symbols("tau w y y0 p4 f f_t tau_t", positive=True)
    free = sp.symbols(f"x1:{validation.integer('n_weights', n_weights, 2, 20)}", positive=True)
    speed = sp.expand(sp.diff(w**-2, w) * (w**3 - p4 * w)).subs(w, 1 / sp.sqrt(y))  # of y = 1/w^2
    # It has to be that of f(Bt) (y(0) - tau(Bt)) whatever y(0) is: powers of y(0).
    trial = f * (begin - tau)
    rest = sp.expand(sp.diff(trial, f) * f_rate + sp.diff(trial, tau) * tau_rate - speed.subs(y, trial))
    rate = sp.solve(sp.Poly(rest, begin).all_coeffs(), [f_rate, tau_rate], dict=True)[0][tau_rate]
    first = [*free, 1 - sum(free)]
    shares = [1 / (1 / x - tau) for x in first]  # f is their sum, as the x_j add up to 1
    # Time is the integral of 1/rate, which is linear in f: a sum of one real logarithm for each weight.
    slow = sp.integrate((1 / rate).subs(f, 1 / (1 / y - tau)), tau)
    odds = sp.simplify(sp.exp(2 * (slow - slow.subs(tau, 0))))
    clock = sum(sp.log(odds.subs(y, x)) for x in first) / 2
    column = sp.Matrix([clock, *(share / sum(shares) for share in shares)])
    return Derivation(column, (tau, *free), ("The squared weights add up to 1.",))
