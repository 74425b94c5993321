"""SymPy derivations for features that differ."""

from typing import Any

from ..derivation import Derivation, cached_derivation, sp

__all__ = [
    "derive_chord_loss", "derive_interference_variance", "derive_row_loss", "derive_tail_loss",
    "derive_weak_interference_loss",
]  # fmt: skip


@cached_derivation
def derive_interference_variance() -> Derivation:
    """Derive v (1 - c)/c, the variance of the interference in units of the diagonal, at capacity c.

    v is the variance of a feature, and c its share in the variance of its output.

    >>> derive_interference_variance().expression
    -variance*(capacity - 1)/capacity
    """
    v, c, noise = sp.symbols("variance capacity noise", positive=True)
    (variance,) = sp.solve(sp.Eq(c, v / (v + noise)), noise)
    return Derivation(sp.factor(variance), (v, c))


@cached_derivation
def derive_row_loss() -> Derivation:
    """Derive D p q/(D + p q), the minimum of D s² + p q (1 - s)² over s: the least loss of an output.

    D is the loss of a dead output, q its interference, p the probability that its feature is on. D s² is the
    error of the output's mean; see the page "Features that differ".

    >>> derive_row_loss().expression
    D*p*q/(D + p*q)
    """
    D, p, q, s = sp.symbols("D p q s", positive=True)
    loss = D * s**2 + p * q * (1 - s) ** 2
    (best,) = sp.solve(sp.diff(loss, s), s)
    return Derivation(sp.factor(sp.simplify(loss.subs(s, best))), (D, p, q))


@cached_derivation
def derive_chord_loss() -> Derivation:
    """Derive the chord that replaces an output's loss where it is not convex, in the proof of `loss_bound`.

    An output with the share z of the dimensions loses D x/(1 + x) at least, where x = beta log(theta/z); D is
    the loss of a dead output, and theta the probability with which the proof of `theory.unequal.loss_bound`
    draws its feature. The chord is the straight line from the loss 0 at z = theta that touches this curve, at
    the z with log(theta/z) = u. The result is a column of the beta for which it touches at u, and of the
    chord's value over D at z = r.

    >>> derive_chord_loss().expression[0]
    -(u - exp(u) + 1)/u**2
    """
    beta, theta, r, u, z = sp.symbols("beta theta r u z", positive=True)
    loss = 1 - 1 / (1 + beta * sp.log(theta / z))
    touch = theta * sp.exp(-u)
    height, slope = (sp.simplify(expression.subs(z, touch)) for expression in (loss, sp.diff(loss, z)))
    (bias,) = sp.solve(sp.Eq(height, slope * (touch - theta)), beta)
    chord = sp.simplify(height.subs(beta, bias) * (theta - r) / (theta - touch))
    return Derivation(sp.Matrix([sp.factor(bias), chord]), (u, r, theta), ("0 < r < theta, u > 0.",))


@cached_derivation
def derive_weak_interference_loss() -> Derivation:
    """Derive the loss of two features that share m dimensions so that the slopes of their losses are equal.

    A feature loses kappa (1/c - 1) at its capacity c < 1, with a constant kappa for each feature. The two
    capacities sum to m.

    >>> found = derive_weak_interference_loss()
    >>> sp.expand(found.expression.subs(dict(zip(found.symbols, [1, 4]))))
    -5 + 9/m
    """
    first, second, m, c = sp.symbols("kappa_1 kappa_2 m c", positive=True)
    loss = first * (1 / c - 1) + second * (1 / (m - c) - 1)
    first_root, second_root = (sp.sqrt(-sp.diff(kappa / c, c)) for kappa in (first, second))
    (best,) = sp.solve(sp.Eq(first_root, second_root.subs(c, m - c)), c)
    return Derivation(sp.simplify(loss.subs(c, best)), (first, second, m), ("c_1 < 1 and c_2 < 1.",))


@cached_derivation
def derive_tail_loss() -> Derivation:
    """Derive the loss, divided by kappa_1, of features whose kappa falls by a power law, on m neurons.

    Feature i has kappa_i = kappa_1 i^{-2 alpha} and loses kappa_i (1/c_i - 1) at capacity c_i. The first s
    features have capacity 1 and lose nothing; feature i > s has capacity (s/i)^alpha. The capacities sum to
    m.

    >>> found = derive_tail_loss()
    >>> found.expression.subs(found.symbols[0], 2)
    16/(3*m**3)
    """
    alpha, m, s, i = sp.symbols("alpha m s i", positive=True)
    beyond = 1 + alpha  # an exponent that SymPy sees to be above 1

    def tail(power: Any) -> Any:
        """Return the integral of i^-power from s to infinity, power > 1."""
        over = sp.integrate(i**-beyond, (i, s, sp.oo), conds="none")
        return sp.simplify(over).subs(alpha, power - 1)

    head = sp.solve(sp.Eq(m, sp.simplify(s + s**alpha * tail(alpha))), s)[0]
    loss = s**-alpha * tail(alpha) - tail(2 * alpha)
    tail_loss = sp.simplify(loss.subs(s, head))
    return Derivation(tail_loss, (alpha, m), ("alpha > 1.", "Sums are integrals."))
