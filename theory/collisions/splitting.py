r"""A polysemantic neuron that is split in two: do the copies part, and when.

The remedy that Lecomte et al. (2024), §5, propose. A neuron holds feature i with a positive and feature j
with a negative weight; their encodings have a negative product, which the ReLU clips, so that neither feels
the other. Each plays a game of its own on the two copies, with weights of one sign and the sparsity force
:math:`\dot w_a = (1 - w_1^2 - w_2^2)\,w_a - \lambda` of the normal form: the same equations as those of two
encodings on one neuron, see :func:`superposition.theory.collisions.shared_drop_time`.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from .. import arguments
from ..arguments import Real, number, plain
from .neuron import critical_lam, shared_drop_time

__all__ = ["derive_split", "separated_share", "split_rate"]


def derive_split() -> dict[str, Any]:
    r"""Derive the growth of a difference between two equal copies with SymPy.

    Returns
    -------
    dict of str to sympy.Expr
        In the symbols w (each copy's weight) and lam: ``"rest"`` = the l1 strength at which equal copies of
        weight w rest; ``"difference"`` and ``"sum"``: the eigenvalues of the linear flow about them. With
        encoder a and decoder b of their own, both copies equal: ``"untied"``, the matrix of the linear flow
        of (a_1 - a_2, b_1 - b_2) over 1 - a.b, whose eigenvalues are 1 and -1. ``"benign"``: the
        interference that i and j exert on each other as long as both copies keep their signs, 0.

    Examples
    --------
    >>> derive_split()["difference"]
    1 - 2*w**2
    """
    import sympy

    w, w1, w2, v1, v2, lam = sympy.symbols("w w1 w2 v1 v2 lam", positive=True)
    a1, a2, b1, b2, a, b = sympy.symbols("a1 a2 b1 b2 a b", positive=True)
    flow = sympy.Matrix([(1 - w1**2 - w2**2) * x - lam for x in (w1, w2)])
    equal = {w1: w, w2: w}
    jacobian = flow.jacobian([w1, w2]).subs(equal)
    modes = {"difference": sympy.Matrix([1, -1]), "sum": sympy.Matrix([1, 1])}
    benefit = 1 - a1 * b1 - a2 * b2
    separate = sympy.Matrix([benefit * b1 - lam, benefit * b2 - lam, benefit * a1, benefit * a2])
    linear = separate.jacobian([a1, a2, b1, b2]).subs({a1: a, a2: a, b1: b, b2: b})
    gaps = sympy.Matrix([[1, 0], [-1, 0], [0, 1], [0, -1]])
    moved = linear * gaps
    pairs = sympy.Matrix(
        [[moved[0, k] - moved[1, k] for k in (0, 1)], [moved[2, k] - moved[3, k] for k in (0, 1)]]
    )
    return {
        "rest": sympy.expand(sympy.solve(flow[0].subs(equal), lam)[0]),
        **{name: sympy.expand((jacobian * mode)[0] / mode[0]) for name, mode in modes.items()},
        "untied": sympy.simplify(pairs / (2 * (1 - 2 * a * b))),
        "benign": sympy.Max(0, -w1 * v1 - w2 * v2),
    }


def split_rate(lam: npt.ArrayLike) -> Real:
    r"""Rate at which a small difference between two equal copies grows: exact.

    It is :math:`\lambda/w`, each copy resting at the larger root w of :math:`(1 - 2 w^2)\,w = \lambda`:
    :math:`\sqrt2\,\lambda` for small lam. The symmetric state is unstable, but only by the l1 force: at
    lam = 0 every pair of weights with the same sum of squares is at rest.

    Parameters
    ----------
    lam : array_like of float
        Strength of the l1 force, from 0 to sqrt(2/27), beyond which equal copies both die.

    Returns
    -------
    float or ndarray of float64
        Per unit of the normal form's time. Relative error 1e-15, at the upper end 1e-8 (a double root).

    Raises
    ------
    ValueError
        If `lam` is out of range.

    Examples
    --------
    >>> split_rate([0.0, 0.01]).round(6)
    array([0.      , 0.014244])
    """
    top = critical_lam(2)
    strength = arguments.real("lam", lam, 0.0, top, hint="Beyond it equal copies both die.")
    w = math.sqrt(2 / 3) * np.cos(np.arccos(np.clip(-strength / top, -1.0, 1.0)) / 3)
    return plain(np.asarray(strength / w))


def separated_share(
    t: npt.ArrayLike, lam: float, eps: float, *, correlation: float = 0.0, left: float = 0.0
) -> tuple[Real, Real]:
    r"""Shares of split neurons whose two features are on different, and on the same copy, after a time.

    The incoming weights of both copies are perturbed by normals of standard deviation `eps`, whose
    correlation within one copy is `correlation`. A feature keeps the copy on which its weight is larger in
    absolute value; i and j have opposite signs there, so they part if the differences of their signed weights
    between the copies, which have that correlation too, agree in sign. In the end that happens with
    probability :math:`1/2 + \arcsin(\rho)/\pi`: *one half* for independent noise, always for a shift that all
    incoming weights share.

    Parameters
    ----------
    t : array_like of float
        Time since the split, not negative.
    lam : float
        Strength of the l1 force, positive.
    eps : float
        Standard deviation of the perturbation, positive.
    correlation : float, optional
        From 0 to 1.
    left : float, optional
        Weight of the losing copy at which a feature counts as decided, in [0, sqrt(1/2)).

    Returns
    -------
    apart, together : float or ndarray of float64
        The rest is undecided. Asymptotic: encodings have length 1 up to O(lam), which is a relative error of
        the clock, and `eps` is small.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Lecomte et al. (2024), §5.

    Examples
    --------
    >>> apart, together = separated_share([100.0, 1000.0], 0.01, 0.01)
    >>> apart.round(2), together.round(2)
    (array([0. , 0.5]), array([0. , 0.5]))
    """
    clock = number("lam", lam, 0.0, brackets="()") * arguments.real("t", t, 0.0)
    eps = number("eps", eps, 0.0, brackets="()")
    rho = number("correlation", correlation, 0.0, 1.0)
    left = number("left", left, 0.0, math.sqrt(0.5), brackets="[)")
    # The first difference that is decided just now: the sum of the weights is sqrt(2 - gap^2), so that the
    # argument of asinh in shared_drop_time, sum over gap, gives the gap back.
    late = clock + np.asarray(shared_drop_time(left / math.sqrt(1 - left * left)))
    # Beyond 700 the gap is below 1e-300, and cosh would overflow.
    gap = math.sqrt(2) / np.cosh(np.minimum(math.sqrt(2) * late + math.asinh(1), 700.0))
    x = gap / (math.sqrt(2) * eps)
    # P(X > x, Y > x) of normals of correlation rho, by Owen's T.
    alone, slope = special.ndtr(-x), math.sqrt((1 - rho) / (1 + rho))
    apart = 2 * (alone - 2 * special.owens_t(x, slope))
    together = 2 * (alone - 2 * special.owens_t(x, 1 / slope if slope else math.inf))
    return plain(np.maximum(apart, 0.0)), plain(np.maximum(together, 0.0))
