"""SymPy derivations: the definitions integrated, with nothing taken from print."""

from dataclasses import dataclass
from typing import Any

__all__ = [
    "MacroscopicLoss",
    "derive_gradient",
    "derive_linear_optimum",
    "derive_loss",
    "derive_optimal_scale",
    "derive_variance_bound",
    "derive_zero_ratio_limit",
    "symbols",
]


@dataclass(frozen=True)
class MacroscopicLoss:
    """SymPy expressions in `symbols()`."""

    off: Any
    """E ReLU(a nu + b)²"""
    on: Any
    """E (u - ReLU(a (u + nu) + b))²"""
    loss: Any
    """(1 - p) off + p on"""


def symbols() -> tuple[Any, Any, Any, Any]:
    """Return the symbols a > 0, b, sigma > 0, p > 0 of all derivations here."""
    import sympy as sp

    a, sigma, p = sp.symbols("a sigma p", positive=True)
    return a, sp.Symbol("b", real=True), sigma, p


def _ramp_moments(mean: Any, deviation: Any) -> tuple[Any, Any]:
    """E y_+ and E y_+² of a normal y, integrated."""
    import sympy as sp

    y, m, s = sp.Symbol("y"), sp.Symbol("m", real=True), sp.Symbol("s", positive=True)
    density = sp.exp(-((y - m) ** 2) / (2 * s**2)) / (sp.sqrt(2 * sp.pi) * s)
    first, second = (sp.simplify(sp.integrate(y**k * density, (y, 0, sp.oo))) for k in (1, 2))
    at = {m: mean, s: deviation}
    return first.subs(at), second.subs(at)


def derive_loss() -> MacroscopicLoss:
    """Integrate the definition of the macroscopic loss over nu ~ N(0, sigma²) and u ~ U[0, 1].

    Returns
    -------
    MacroscopicLoss
        Closed forms in erfc and exp: exact, but they cancel in floating point for small sigma or large
        shifts. Evaluated with enough digits they are the oracle for `on_loss`, `off_loss` and `loss`.

    References
    ----------
    Cowsik et al. (2024), Eq. 5 and §4.1.

    Examples
    --------
    >>> a, b, sigma, p = symbols()
    >>> derive_loss().off.subs(b, 0)
    a**2*sigma**2/2
    """
    import sympy as sp

    a, b, sigma, p = symbols()
    u, x = sp.symbols("u x", real=True)
    off = _ramp_moments(b, a * sigma)[1]
    first, second = _ramp_moments(a * u + b, a * sigma)
    # In x = (a u + b) / (sqrt(2) a sigma) the integrand has plain arguments, which SymPy integrates.
    width = sp.sqrt(2) * sigma
    integrand = sp.expand((u**2 - 2 * u * first + second).subs(u, width * x - b / a)) * width
    ends = (x, b / (a * width), (a + b) / (a * width))
    on = sp.integrate(sp.expand(integrand), ends)
    return MacroscopicLoss(off, on, (1 - p) * off + p * on)


def derive_gradient() -> dict[str, Any]:
    """Differentiate the macroscopic loss.

    Returns
    -------
    dict of str to SymPy expression
        The derivatives by ``"a"``, ``"b"`` and ``"sigma"``.

    References
    ----------
    Cowsik et al. (2024), Eq. 15 for the derivative by a.

    Examples
    --------
    >>> sorted(derive_gradient())
    ['a', 'b', 'sigma']
    """
    import sympy as sp

    a, b, sigma, _ = symbols()
    loss = derive_loss().loss
    return {name: sp.diff(loss, by) for name, by in (("a", a), ("b", b), ("sigma", sigma))}


def derive_optimal_scale() -> tuple[Any, Any]:
    """Minimise over a at fixed beta = b/a, where the loss is a quadratic polynomial in a.

    Returns
    -------
    scale, loss : SymPy expressions in b (which stands for beta), sigma and p
        E[x R] / E[R²] and the loss there, E x² - E[x R]² / E[R²], with R = ReLU(x + nu + beta).

    References
    ----------
    Cowsik et al. (2024), Eq. 16.

    Examples
    --------
    >>> scale, _ = derive_optimal_scale()
    >>> round(scale.subs(dict(zip(symbols(), (1, 0, 1, 1)))).evalf(), 6)
    0.376597
    """
    import sympy as sp

    a, b, _, p = symbols()
    loss = derive_loss().loss
    # The loss is c0 + c1 a + c2 a² in a at fixed beta = b/a; values at a = 1, 2 and the limit a → 0
    # (E x² = p/3) give the coefficients.
    at_1, at_2 = (loss.subs({a: k, b: k * b}, simultaneous=True) for k in (1, 2))
    c0 = p / sp.Integer(3)
    c2 = sp.expand((at_2 - 2 * at_1 + c0) / 2)
    c1 = sp.expand(at_1 - c0 - c2)
    return -c1 / (2 * c2), c0 - c1**2 / (4 * c2)


def derive_zero_ratio_limit() -> tuple[Any, Any, Any]:
    """Let sigma → ∞ at a fixed shift z = b/(a sigma), the scale optimal.

    Returns
    -------
    loss, infimum, z : SymPy expressions
        The limit p/3 - p²/4 · E[ReLU(Z + z)]² / E[ReLU(Z + z)²] as a function of the shift, its
        infimum p/3 - p²/4, reached as z → ∞, and the symbol z.

    References
    ----------
    Cowsik et al. (2024), §4.3.1, which prints p/3 - p²/9.

    Examples
    --------
    >>> derive_zero_ratio_limit()[1]
    -p**2/4 + p/3
    """
    import sympy as sp

    *_, p = symbols()
    z = sp.Symbol("z", real=True)
    u = sp.Symbol("u", positive=True)
    first, second = _ramp_moments(z, sp.Integer(1))
    mean, square = (sp.integrate(u**k, (u, 0, 1)) for k in (1, 2))
    # Once sigma dwarfs u, the output does not depend on u: x and R are independent.
    loss = p * square - p**2 * mean**2 * first**2 / second
    # The share first²/second is at most 1 (Jensen) and tends to 1 as the ReLU stops clipping.
    return loss, sp.expand(sp.simplify(sp.limit(loss, z, sp.oo))), z


def derive_variance_bound() -> tuple[Any, Any]:
    """Bound the mean interference variance of unit-diagonal matrices of rank at most n_hidden.

    The squared Frobenius norm is at least the sum of squared eigenvalues (Schur). With n_hidden
    eigenvalues that sum to n_features, the stationary point of that sum under the constraint is where
    all are equal, and the sum is convex, so it is the minimum.

    Returns
    -------
    bound, eigenvalue : SymPy expressions in p, n_features, n_hidden
        Least mean variance, and the common eigenvalue n_features/n_hidden of the matrices that attain
        it (not 1, as the source says).

    References
    ----------
    Cowsik et al. (2024), App. C, Eqs. 18-22.

    Examples
    --------
    >>> derive_variance_bound()[1]
    n_features/n_hidden
    """
    import sympy as sp

    *_, p = symbols()
    n_features, n_hidden = sp.symbols("n_features n_hidden", positive=True)
    eigenvalue, multiplier, u = sp.symbols("lambda mu u", positive=True)
    stationary = sp.solve(
        [sp.diff(eigenvalue**2 - multiplier * eigenvalue, eigenvalue), n_hidden * eigenvalue - n_features],
        [eigenvalue, multiplier],
        dict=True,
    )[0]
    least = n_hidden * stationary[eigenvalue] ** 2
    variance = p * sp.integrate(u**2, (u, 0, 1)) - (p * sp.integrate(u, (u, 0, 1))) ** 2
    return sp.factor(variance * (least - n_features) / n_features), stationary[eigenvalue]


def derive_linear_optimum() -> tuple[Any, Any, Any]:
    """Minimise the loss of the affine output a (x + nu) + b over a and b at the least interference.

    Returns
    -------
    a, b, loss : SymPy expressions in p and ratio
        ratio, (1 - ratio) p/2 and (p/3 - p²/4)(1 - ratio).

    References
    ----------
    Cowsik et al. (2024), §2 (the loss falls linearly in n_hidden).

    Examples
    --------
    >>> derive_linear_optimum()[0]
    ratio
    """
    import sympy as sp

    a, b, _, p = symbols()
    ratio = sp.Symbol("ratio", positive=True)
    mean, square = p / sp.Integer(2), p / sp.Integer(3)
    noise = (square - mean**2) * (1 / ratio - 1)
    # E (x - a x - a nu - b)², with nu of mean zero and uncorrelated with x
    loss = (1 - a) ** 2 * square - 2 * (1 - a) * b * mean + b**2 + a**2 * noise
    best = sp.solve([sp.diff(loss, a), sp.diff(loss, b)], [a, b], dict=True)[0]
    best = {name: sp.factor(value) for name, value in best.items()}
    return best[a], best[b], sp.factor(loss.subs(best))
