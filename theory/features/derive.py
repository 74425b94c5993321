"""SymPy derivations: independent features that are uniform on [0, 1] when on, and laws of values."""

from typing import Any

from .. import validation
from ..derivation import Derivation, cached_derivation, sp
from .values.law import definition

__all__ = [
    "derive_chernoff_bound", "derive_eigenvalues", "derive_moments", "derive_value_moment",
    "derive_value_transform",
]  # fmt: skip

_INDEPENDENT = "Features are independent, each is on with probability p and then uniform on [0, 1]."


@cached_derivation
def derive_moments(name: str) -> Derivation:
    """Derive the moment `name` of one feature or of a pair, an attribute of `SparseUniform`.

    The moment is "moment" (a function of p and the power k), "mean", "second_moment", "variance",
    "pair_moment" or "pair_zero_probability" (functions of p).

    >>> derive_moments("variance").expression
    -p**2/4 + p/3
    """
    p, u, k = sp.symbols("p u k", positive=True)
    moment = sp.simplify((1 - p) * 0 + p * sp.integrate(u**k, (u, 0, 1)))  # off: x^k = 0; on: x = u
    mean, second = moment.subs(k, 1), moment.subs(k, 2)
    moments = {
        "moment": moment,
        "mean": mean,
        "second_moment": second,
        "variance": sp.expand(second - mean**2),
        "pair_moment": mean * mean,  # independent
        "pair_zero_probability": sp.expand((1 - p) ** 2 + 2 * p * (1 - p)),
    }
    name = validation.choice("name", name, tuple(moments))
    return Derivation(moments[name], (p, k) if name == "moment" else (p,), (_INDEPENDENT,))


@cached_derivation
def derive_eigenvalues(matrix: str) -> Derivation:
    """Derive the eigenvalues, with multiplicities, of the "covariance" or "second_moment" of n features.

    `matrix` is one of these two names. All diagonal entries are equal, and all other entries are equal. So
    the eigenvectors are the vector of ones, and n - 1 differences of two unit vectors. The result has a row
    (eigenvalue, multiplicity) for each.

    >>> derive_eigenvalues("second_moment").expression
    Matrix([
    [n*p**2/4 - p**2/4 + p/3,     1],
    [          -p**2/4 + p/3, n - 1]])
    """
    names = ("second_moment", "pair_moment", "mean")
    diagonal, other, mean = (derive_moments(name).expression for name in names)
    p, n = sp.Symbol("p", positive=True), sp.Symbol("n", positive=True, integer=True)
    if validation.choice("matrix", matrix, ("covariance", "second_moment")) == "covariance":
        diagonal, other = diagonal - mean**2, other - mean**2
    ones, difference = sp.expand(diagonal + (n - 1) * other), sp.expand(diagonal - other)
    rows: list[Any] = [[ones, 1], [difference, n - 1]] if ones != difference else [[ones, n]]
    return Derivation(sp.Matrix(rows), (p, n), (_INDEPENDENT,))


@cached_derivation
def derive_chernoff_bound() -> Derivation:
    """Derive the logarithm of Chernoff's bound on P(at least k of n features are on), for k > n p.

    With K the number of features on, Markov's inequality bounds the probability by E exp(t (K - k)) at the
    best t. The logarithm is -n KL(k/n, p).

    >>> bound = derive_chernoff_bound()
    >>> n, k, p = bound.symbols
    >>> bound.expression.subs(k, n * p).simplify()
    0
    """
    n, k, p, s = sp.symbols("n k p s", positive=True)  # s = exp(t)
    one_feature = (1 - p) + p * s
    log_bound = n * sp.log(one_feature) - k * sp.log(s)
    (best,) = sp.solve(sp.numer(sp.together(sp.diff(log_bound, s))), s)
    return Derivation(log_bound.subs(s, best), (n, k, p), (_INDEPENDENT, "n p < k < n."))


@cached_derivation
def derive_value_moment(values: Any) -> Derivation:
    """Integrate E v^k over the value of a feature that is on, at scale 1: a function of k.

    `values` is one of `VALUES`, or another law that has a definition in SymPy.

    >>> derive_value_moment("uniform").expression
    1/(k + 1)
    """
    v, right, left, end, atoms = definition(values)
    k = sp.Symbol("k", positive=True, integer=True)
    sides = [sp.integrate(v**k * density, (v, 0, end)) for density in (right, left)]
    if sides[0].has(sp.exp_polar):  # beside a square, e^v is integrated as cosh(v) + sinh(v)
        rotated = sp.expand(right, power_exp=True).replace(
            lambda term: isinstance(term, sp.exp) and sp.degree(term.args[0], v) == 1,
            lambda term: sp.cosh(term.args[0]) + sp.sinh(term.args[0]),
        )
        sides[0] = sp.integrate(sp.expand(v**k * rotated), (v, 0, end))
    moment = sides[0] + (-1) ** k * sides[1]
    moment += sum(chance * atom**k for atom, chance in atoms.items())
    return Derivation(sp.simplify(moment), (k,), ("k is a positive integer.",))


@cached_derivation
def derive_value_transform(values: Any) -> Derivation:
    """Derive E exp(z v) over the value v of a feature that is on, a function of z.

    `values` is one of `VALUES`, or another law that has a definition in SymPy, as for `derive_value_moment`.

    >>> derive_value_transform("symmetric").expression
    sinh(z)/z
    """
    v, right, left, end, atoms = definition(values)
    z, s = sp.Symbol("z"), sp.Symbol("s", negative=True)
    sides = (
        sp.integrate(sp.exp(sign * s * v) * density, (v, 0, end), conds="none")
        for sign, density in ((1, right), (-1, left))
    )
    transform = sum(sides) + sum(chance * sp.exp(s * atom) for atom, chance in atoms.items())
    return Derivation(
        sp.simplify(transform).subs(s, z),
        (z,),
        ("Derived for negative z; it holds wherever the mean exists.",),
    )
