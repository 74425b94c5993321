"""SymPy derivations of the macroscopic loss and its limits, from the definitions.

Equations and sections are those of Cowsik et al. (2024).
"""

from functools import cache
from typing import Any

from .. import validation
from ..derivation import Derivation, cached_derivation, sp

__all__ = [
    "derive_asymptotic_loss", "derive_asymptotic_shift", "derive_edgeworth_correction", "derive_gradient",
    "derive_linear_optimum", "derive_loss", "derive_optimal_scale", "derive_variance_bound",
    "derive_zero_ratio_limit",
]  # fmt: skip

_NORMAL = "The interference is normal with standard deviation sigma, in units of the diagonal a."


def symbols() -> tuple[Any, Any, Any, Any]:
    """Return the SymPy symbols a > 0, b, sigma > 0 and p > 0 of all derivations here.

    They are scale and bias of an output, the interference's standard deviation in units of the scale, and
    the probability that a feature is on.
    """
    a, sigma, p = sp.symbols("a sigma p", positive=True)
    return a, sp.Symbol("b", real=True), sigma, p


def _ramp_moments(mean: Any, deviation: Any) -> tuple[Any, Any]:
    """Return E y_+ and E y_+², SymPy expressions, of a normal y with this mean and standard deviation."""
    y, m, s = sp.Symbol("y"), sp.Symbol("m", real=True), sp.Symbol("s", positive=True)
    density = sp.exp(-((y - m) ** 2) / (2 * s**2)) / (sp.sqrt(2 * sp.pi) * s)
    first, second = (sp.simplify(sp.integrate(y**k * density, (y, 0, sp.oo))) for k in (1, 2))
    at = {m: mean, s: deviation}
    return first.subs(at), second.subs(at)


def _moments(p: Any) -> tuple[Any, Any]:
    """Return E x and E x² of a feature that is on with probability p, and then uniform on [0, 1]."""
    u = sp.Symbol("u")
    return p * sp.integrate(u, (u, 0, 1)), p * sp.integrate(u**2, (u, 0, 1))


@cache
def _loss_expressions() -> dict[str, Any]:
    """Return the SymPy expressions of the loss of a feature "off", of one "on", and of their mean, "loss".

    The output is ReLU(a (x + nu) + b), nu ~ N(0, sigma²); x is 0 for a feature that is off, uniform on [0, 1]
    for one that is on, which has the probability p.
    """
    a, b, sigma, p = symbols()
    u, x = sp.symbols("u x", real=True)
    _, off = _ramp_moments(b, a * sigma)
    first, second = _ramp_moments(a * u + b, a * sigma)
    # In x = (a u + b) / (sqrt(2) a sigma) the integrand has plain arguments, which SymPy integrates.
    width = sp.sqrt(2) * sigma
    integrand = sp.expand((u**2 - 2 * u * first + second).subs(u, width * x - b / a)) * width
    ends = (x, b / (a * width), (a + b) / (a * width))
    on = sp.integrate(sp.expand(integrand), ends)
    return {"off": off, "on": on, "loss": (1 - p) * off + p * on}


@cached_derivation
def derive_loss(part: str = "loss") -> Derivation:
    """Derive the macroscopic loss (Eq. 5), or a part of it, over nu ~ N(0, sigma²) and u ~ U[0, 1].

    Equations are those of Cowsik et al. (2024). The macroscopic loss is the limit of many features, in which
    the interference nu is normal. `part` is "on" for E (u - ReLU(a (u + nu) + b))² of a feature that is on,
    "off" for E ReLU(a nu + b)² of one that is off, or "loss" for (1 - p) off + p on. The result is a closed
    form in erfc and exp, whose terms cancel in doubles for small sigma or large shifts.

    >>> a, b, sigma, p = symbols()
    >>> derive_loss("off").expression.subs(b, 0)
    a**2*sigma**2/2
    """
    part = validation.choice("part", part, ("loss", "on", "off"))
    return Derivation(_loss_expressions()[part], symbols(), (_NORMAL,))


@cached_derivation
def derive_gradient(by: str) -> Derivation:
    """Derive the derivative of the macroscopic loss with respect to `by`: "a" (Eq. 15), "b" or "sigma".

    Equations are those of Cowsik et al. (2024). The loss is that of ReLU(a (x + nu) + b) with nu ~ N(0,
    sigma²), which `derive_loss` derives.

    >>> a, b, sigma, p = symbols()
    >>> derive_gradient("b").expression.subs({b: 0, p: 0})
    sqrt(2)*a*sigma/sqrt(pi)
    """
    variables = dict(zip(("a", "b", "sigma"), symbols(), strict=False))
    variable = variables[validation.choice("by", by, tuple(variables))]
    return Derivation(sp.diff(_loss_expressions()["loss"], variable), symbols(), (_NORMAL,))


@cached_derivation
def derive_optimal_scale() -> Derivation:
    """Derive the best scale a at fixed beta = b/a, and the loss there, which is quadratic in a (Eq. 16).

    See Cowsik et al. (2024). The result is a column of the scale E[x R] / E[R²], with R = ReLU(x + nu + beta)
    and nu ~ N(0, sigma²), and of the loss there, E x² - E[x R]² / E[R²]; the symbol b stands for beta.

    >>> scale = derive_optimal_scale().expression[0]
    >>> round(scale.subs(dict(zip(symbols(), (1, 0, 1, 1)))).evalf(), 6)
    0.376597
    """
    a, b, sigma, p = symbols()
    loss = _loss_expressions()["loss"]
    # The loss is c0 + c1 a + c2 a² in a at fixed beta = b/a; values at a = 1, 2 and the limit a → 0
    # (E x² = p/3) give the coefficients.
    at_1, at_2 = (loss.subs({a: k, b: k * b}, simultaneous=True) for k in (1, 2))
    c0 = _moments(p)[1]
    c2 = sp.expand((at_2 - 2 * at_1 + c0) / 2)
    c1 = sp.expand(at_1 - c0 - c2)
    column = sp.Matrix([-c1 / (2 * c2), c0 - c1**2 / (4 * c2)])
    return Derivation(column, (b, sigma, p), (_NORMAL, "b stands for beta = b/a."))


@cached_derivation
def derive_zero_ratio_limit() -> Derivation:
    """Derive the loss for sigma → ∞ at a fixed shift z = b/(a sigma) and the best scale, and its infimum.

    The result is a column of the limit p/3 - p²/4 · E[ReLU(Z + z)]² / E[ReLU(Z + z)²] and of its infimum p/3
    - p²/4, reached as z → ∞; Cowsik et al. (2024), §4.3.1, print p/3 - p²/9.

    >>> derive_zero_ratio_limit().expression[1]
    -p**2/4 + p/3
    """
    p, z = symbols()[-1], sp.Symbol("z", real=True)
    first, second = _ramp_moments(z, sp.Integer(1))
    mean, square = _moments(p)
    # Once sigma dwarfs u, the output does not depend on u: x and R are independent.
    # The share is at most 1 (Jensen) and tends to 1 as the ReLU stops clipping.
    share = first**2 / second
    losses = [square - mean**2 * part for part in (share, sp.limit(share, z, sp.oo))]
    return Derivation(sp.Matrix(losses), (z, p), (_NORMAL, "sigma is infinite."))


@cached_derivation
def derive_variance_bound() -> Derivation:
    """Derive the least mean interference variance of unit-diagonal matrices of rank n_hidden (App. C).

    See Cowsik et al. (2024). The squared Frobenius norm is at least the sum of squared eigenvalues (Schur).
    At most n_hidden eigenvalues differ from 0, and their sum is n_features; the sum of their squares is least
    where all are equal. The result is a column of the least mean variance, and of the common eigenvalue
    n_features/n_hidden of the matrices that attain it (not 1, as the source says).

    >>> derive_variance_bound().expression[1]
    n_features/n_hidden
    """
    p = symbols()[-1]
    n_features, n_hidden, common, multiplier = sp.symbols("n_features n_hidden lambda mu", positive=True)
    conditions = [sp.diff(common**2 - multiplier * common, common), n_hidden * common - n_features]
    (solution,) = sp.solve(conditions, [common, multiplier], dict=True)
    mean, square = _moments(p)
    bound = sp.factor((square - mean**2) * (n_hidden * solution[common] ** 2 - n_features) / n_features)
    diagonal = "The diagonal of decoder times encoder is 1, its rank at most n_hidden."
    return Derivation(sp.Matrix([bound, solution[common]]), (p, n_features, n_hidden), (diagonal,))


@cached_derivation
def derive_linear_optimum() -> Derivation:
    """Derive a, b and the loss of the best affine output a (x + nu) + b at the least interference nu.

    The result is a column: a = ratio = n_hidden/n_features, b = (1 - ratio) p/2, and the loss (p/3 - p²/4)(1
    - ratio). x is a feature, on with probability p.

    >>> derive_linear_optimum().expression[0]
    ratio
    """
    a, b, _, p = symbols()
    ratio = sp.Symbol("ratio", positive=True)
    mean, square = _moments(p)
    noise = (square - mean**2) * (1 / ratio - 1)
    # E (x - a x - a nu - b)², with nu of mean zero and uncorrelated with x
    loss = (1 - a) ** 2 * square - 2 * (1 - a) * b * mean + b**2 + a**2 * noise
    (best,) = sp.solve([sp.diff(loss, a), sp.diff(loss, b)], [a, b], dict=True)
    column = sp.Matrix([sp.factor(value) for value in (best[a], best[b], loss.subs(best))])
    return Derivation(column, (p, ratio), ("The interference has the least variance.",))


# --- Small p ------------------------------------------------------------------------------------------------


@cache
def _small_sigma_expansion() -> tuple[Any, Any, Any, Any, Any]:
    """Return t, c2, c3, the off-loss over a² sigma² and the best scale a, for small sigma at b = -a t sigma.

    These are SymPy expressions for the output ReLU(a (x + nu) + b), nu ~ N(0, sigma²). The off-loss is the
    error at x = 0; the error for x uniform on [0, 1] is sigma² (c2 + c3 sigma).
    """
    a, b, sigma, _ = symbols()
    t, slope = sp.Symbol("t", positive=True), sp.Symbol("alpha", real=True)
    left, right = (sp.sqrt(2) * end / (2 * a * sigma) for end in (b, a + b))
    # At u = 1 the ReLU is on but for exp(-1/(2 sigma²)). At u = 0, where the pre-activation is -a t sigma,
    # its chance to be on is that of a feature that is off, of order p: times p, that is dropped.
    far = {sp.erfc(left): 2, sp.erf(left): -1, sp.erfc(right): 0, sp.erf(right): 1}
    on = _loss_expressions()["on"].subs(far).replace(sp.exp, lambda _: sp.Integer(0))
    scale = 1 + slope * sigma
    on = sp.expand(sp.cancel(on.subs(b, -a * t * sigma).subs(a, scale) / sigma**2))
    series = [on.coeff(sigma, k) for k in (0, 1)]
    (best,) = sp.solve(sp.diff(series[0], slope), slope)  # 3 t/2; what is of order sigma² does not count
    off = sp.expand(_loss_expressions()["off"].subs(b, -a * t * sigma) / (a * sigma) ** 2)
    return t, *(sp.expand(c.subs(slope, best)) for c in series), off, scale.subs(slope, best)


@cached_derivation
def derive_asymptotic_loss() -> Derivation:
    """Derive the loss at b = -a t sigma and the best a for small sigma, to next-to-leading order.

    The loss is the macroscopic one, of ReLU(a (x + nu) + b) with nu ~ N(0, sigma²). The result is a function
    of the shift t, sigma and p.

    >>> t, sigma, p = derive_asymptotic_loss().symbols
    >>> derive_asymptotic_loss().expression.subs(p, 1)
    sigma**2*(sigma*(t**3/12 + t) + t**2/4 + 1)
    """
    _, _, sigma, p = symbols()
    t, second, third, off, scale = _small_sigma_expansion()
    square = sp.series(scale**2, sigma, 0, 2).removeO()
    loss = p * sigma**2 * (second + sigma * third) + (1 - p) * sigma**2 * off * square
    small = "sigma is small, and so is the chance to be on of order p."
    return Derivation(loss, (t, sigma, p), (_NORMAL, small))


@cached_derivation
def derive_asymptotic_shift() -> Derivation:
    """Derive dL/dt/sigma² of the loss's leading order L at the shift t; its zero is the best shift.

    L is `derive_asymptotic_loss` for small p, with the bias b = -a t sigma. The result is p t/2 - 2 E(Z -
    t)_+ for a standard normal Z, a function of t and p.

    >>> derive_asymptotic_shift().expression
    p*t/2 + t*erfc(sqrt(2)*t/2) - sqrt(2)*exp(-t**2/2)/sqrt(pi)
    """
    p = symbols()[-1]
    t, second, _, off, _ = _small_sigma_expansion()
    slope = sp.expand(sp.simplify(sp.diff(p * second + off, t)))
    return Derivation(slope, (t, p), (_NORMAL, "p is small against 1, and so is sigma."))


@cached_derivation
def derive_edgeworth_correction() -> Derivation:
    r"""Derive the change of the loss by the first terms of Edgeworth's expansion of the interference.

    If nu has cumulants kappa_3, kappa_4 beside its variance, E f(nu) changes by :math:`\kappa_3/6\; E f''' +
    \kappa_4/24\; E f''''`, and a derivative by nu is a times one by b. The interference is :math:`\sum_j m_j
    x_j`, with the output's weights m_j on the other features in units of the diagonal. Its cumulants are
    those of x times power sums of the m_j.

    >>> [str(symbol) for symbol in derive_edgeworth_correction().symbols]
    ['a', 'b', 'sigma', 'p', 'sum_of_cubes', 'sum_of_fourths']
    """
    a, b, _, p = symbols()
    s = sp.Symbol("s")
    sums = sp.symbols("sum_of_cubes sum_of_fourths", real=True)
    transform = sum(p / (k + 1) * s**k / sp.factorial(k) for k in range(1, 5))  # less 1, to order s^4
    log = sp.expand(sum((-1) ** (j + 1) * transform**j / sp.Integer(j) for j in range(1, 5)))
    change = sum(
        log.coeff(s, k)
        * a**k
        * total
        * sp.diff(_loss_expressions()["loss"], b, k)  # kappa_k / k! is the coefficient
        for k, total in zip((3, 4), sums, strict=True)
    )
    return Derivation(change, (*symbols(), *sums), (_NORMAL, "To first order in the cumulants 3 and 4."))
