"""SymPy derivations for sparse autoencoders on two features: angles of latents that hedge, tilt or absorb.

The features' directions are orthonormal, their values binary. Probabilities are q_1 and q_2 that the parent,
or the child, is on alone, and q_12 that both are; mu is half the l1 strength.
"""

from typing import Any

from ..derivation import Derivation, cached_derivation, derived, sp

__all__ = [
    "derive_absorbing_slope",
    "derive_code",
    "derive_hedging",
    "derive_hedging_quartic",
    "derive_tilt_slope",
]


def _symbols() -> tuple[Any, ...]:
    """Return the positive SymPy symbols q_1, q_2, q_12, mu and theta.

    They are the probabilities of a parent alone, its child alone and both, half the l1 strength, and the
    angle of an atom from the parent's direction.
    """
    symbols: tuple[Any, ...] = sp.symbols("q_1 q_2 q_12 mu theta", positive=True)
    return symbols


@cached_derivation
def derive_code() -> Derivation:
    r"""Derive the minimum of :math:`|x|^2 - 2 h k + h^2 + 2 \mu h` over h, with k = d x for a unit atom d.

    The minimum is at h = k - mu, if that is not negative. The symbol X is :math:`|x|^2`.

    >>> derive_code().expression
    X - (k - mu)**2
    """
    X, k, mu, h = sp.symbols("X k mu h", positive=True)
    cost = X - 2 * h * k + h**2 + 2 * mu * h
    best = sp.solve(sp.diff(cost, h), h)[0]
    return derived(X - sp.factor(X - cost.subs(h, best)))


@cached_derivation
def derive_hedging() -> Derivation:
    """Derive tan(2 theta) of the best single latent, without l1 penalty, from second moments m_ij of x.

    The error of a unit atom d at the angle theta, with the best codes, is E |x|^2 - d' M d, with M = (m_ij);
    theta is a stationary point.

    >>> derive_hedging().expression
    2*m_12/(m_11 - m_22)
    """
    m11, m12, m22, theta = sp.symbols("m_11 m_12 m_22 theta", positive=True)
    twice = sp.Symbol("t", real=True)
    c, s = sp.cos(theta), sp.sin(theta)
    slope = sp.expand(sp.diff(m11 * c**2 + 2 * m12 * c * s + m22 * s**2, theta))
    # c s is sin(2 theta)/2 and c^2 - s^2 is cos(2 theta): a multiple of cos(2 theta) times this.
    reduced = (slope.coeff(c * s) * twice / 2 + slope.coeff(c**2)).subs({c: 0, s: 0})
    return derived(sp.factor(sp.solve(reduced, twice)[0]))


@cached_derivation
def derive_hedging_quartic() -> Derivation:
    """Derive the polynomial in t = tan(theta/2) whose roots are the angles of one latent with an l1 penalty.

    A parent is on alone with probability q_1, and with its child with probability q_12; mu is half the
    strength. With best codes the objective is a constant minus the sum of q_1 (c - mu)^2 and q_12 (c + s -
    mu)^2, where c and s are cosine and sine of theta. The result has the coefficients from t^4 down.

    >>> len(derive_hedging_quartic().expression)
    5
    """
    q1, _, q12, mu, theta = _symbols()
    t = sp.Symbol("t", real=True)
    c, s = sp.cos(theta), sp.sin(theta)
    slope = sp.diff(-q1 * (c - mu) ** 2 - q12 * (c + s - mu) ** 2, theta) / 2
    at = slope.subs({c: (1 - t**2) / (1 + t**2), s: 2 * t / (1 + t**2)})
    polynomial = sp.Poly(sp.expand(sp.cancel(sp.together(at) * (1 + t**2) ** 2)), t)
    return derived(sp.Matrix([sp.factor(coeff) for coeff in polynomial.all_coeffs()]))


@cached_derivation
def derive_tilt_slope() -> Derivation:
    """Derive the slope in epsilon of the objective of two atoms at epsilon and 90° - epsilon.

    Each of two features is on alone with probability q_1, and both are on with q_12. A feature that is on
    alone is reconstructed by its own atom, two by both atoms with equal activations. The symbol theta is
    epsilon, and mu half the strength of the l1 penalty. At epsilon = 0 the slope is negative: the true
    dictionary is no minimum.

    >>> found = derive_tilt_slope()
    >>> found.symbols, found.expression.subs(found.symbols[-1], 0).factor()
    ((mu, q_1, q_12, theta), 4*mu*q_12*(mu - 1))
    """
    q1, _, q12, mu, epsilon = _symbols()
    h = sp.Symbol("h", positive=True)
    c, s = sp.cos(epsilon), sp.sin(epsilon)
    joint_cost = (1 - h * (c + s)) ** 2 * 2 + 4 * mu * h
    best = sp.solve(sp.diff(joint_cost, h), h)[0]
    total = 2 * q1 * (1 - (c - mu) ** 2) + q12 * joint_cost.subs(h, best)
    return derived(sp.diff(total, epsilon))


@cached_derivation
def derive_absorbing_slope() -> Derivation:
    """Derive the slope in theta of the objective, for the parent's atom and one at theta for both features.

    The second atom alone is active while the child is on alone, with probability q_2, and while both features
    are on, with q_12. mu is half the strength of the l1 penalty.

    >>> found = derive_absorbing_slope()
    >>> found.symbols, found.expression.subs({found.symbols[2]: 0, found.symbols[3]: sp.pi / 4})
    ((mu, q_12, q_2, theta), 0)
    """
    _, q2, q12, mu, theta = _symbols()
    c, s = sp.cos(theta), sp.sin(theta)
    total = q2 * (1 - (s - mu) ** 2) + q12 * (2 - (c + s - mu) ** 2)
    return derived(sp.diff(total, theta))
