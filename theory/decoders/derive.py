"""SymPy derivations of the scalar channel: density of y, posterior of the value, loss of a line."""

from typing import Any

from ..derivation import Derivation, cached_derivation, sp
from ..features.values.law import definition

__all__ = ["derive_line_loss", "derive_posterior"]


@cached_derivation
def derive_posterior(values: Any) -> Derivation:
    r"""Derive the density of y = v + sigma Z, and mean and variance given y of the value v of a feature.

    .. math:: E[v \mid y] = y + \sigma^2 (\log f_1)'(y), \qquad
              \mathrm{Var}(v \mid y) = \sigma^2 + \sigma^4 (\log f_1)''(y)

    `values` is a law of the value at scale 1, one of `superposition.theory.features.VALUES` or another one
    that has a definition in SymPy. The result is a column of the density f_1(y), E[v | y] and Var(v | y),
    functions of sigma and y.

    >>> derive_posterior("normal").expression[1]
    y/(sigma**2 + 1)
    """
    v, right, left, end, atoms = definition(values)
    s, y = sp.Symbol("sigma", positive=True), sp.Symbol("y", real=True)
    noise = sp.exp(-((y - v) ** 2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))
    sides = (
        sp.integrate(sp.expand(density * noise, power_exp=False), (v, 0, end), conds="none").subs(y, at)
        for density, at in ((right, y), (left, -y))
    )
    evidence = sum(sides) + sum(chance * noise.subs(v, atom) for atom, chance in atoms.items())
    cleared = sp.expand_mul(evidence)  # error functions of both sides may cancel
    short = not cleared.has(sp.erf, sp.erfc)
    evidence = cleared if short else evidence
    slope = sp.diff(evidence, y) / evidence
    mean, variance = y + s**2 * slope, s**2 + s**4 * sp.diff(slope, y)
    if short:  # of the others it takes long and shows little
        evidence, mean, variance = (sp.simplify(expression) for expression in (evidence, mean, variance))
    return Derivation(sp.Matrix([evidence, mean, variance]), (s, y))


@cached_derivation
def derive_line_loss() -> Derivation:
    """Derive E (v - D(v + sigma Z))^2 over normal Z, for the decoder D(y) = a y + b where y > theta, else 0.

    The result is a function of a, b, sigma, theta and the value v of a feature.

    >>> loss = derive_line_loss()
    >>> round(float(loss.evaluate({"a": 1, "b": 0, "sigma": 1, "theta": 0, "v": 0})), 6)
    0.5
    """
    a, b, theta, v = sp.symbols("a b theta v", real=True)
    s, z = sp.Symbol("sigma", positive=True), sp.Symbol("z", real=True)
    density, edge = sp.exp(-(z**2) / 2) / sp.sqrt(2 * sp.pi), sp.Symbol("h", real=True)
    active_error = sp.expand((v - a * (v + s * z) - b) ** 2)
    moments = [sp.simplify(sp.integrate(z**k * density, (z, edge, sp.oo))) for k in range(3)]
    loss = sum(active_error.coeff(z, k) * moments[k] for k in range(3)) + v**2 * (1 - moments[0])
    return Derivation(loss.subs(edge, (theta - v) / s), (a, b, s, theta, v))
