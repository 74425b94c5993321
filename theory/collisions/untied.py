r"""Encoder and decoder of their own, and inputs that are not basis vectors (Lecomte et al. 2024, App. A).

The normal form drops the factor 2 of the untied gradient, so that equal weights move as tied ones do:

.. math:: \dot E_i = (1 - D_i \cdot E_i) D_i - \lambda\,\mathrm{sign}(E_i), \qquad
          \dot D_i = (1 - D_i \cdot E_i) E_i ,

without interference. The l1 term is on the activations, which are the encodings.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import Real, plain

__all__ = ["derive_untied", "untied_length_ratio"]


def derive_untied() -> dict[str, Any]:
    r"""Derive the balance of the two lengths, and how inputs enter, with SymPy.

    Returns
    -------
    dict of str to SymPy object
        ``"balance"``: the rate of |D|^2 - |E|^2 for one feature and two neurons, less 2 lam |E|_1: 0, so
        that the decoder grows and the encoder shrinks as long as there is an l1 term on the activations.
        ``"drift"``: residual of :func:`untied_length_ratio`, 0. ``"inputs"``: two features shown as inputs
        (a, b) and c (-b, a), orthogonal, with squares r = a^2 + b^2 and c^2 r; the motion of their encodings
        less r and c^2 r times the motion under basis vectors: zero matrix. So the dynamics is the same for
        orthonormal inputs, and for others the clock of each encoding runs by the square of its input.

    Examples
    --------
    >>> derived = derive_untied()
    >>> derived["balance"], derived["inputs"]
    (0, Matrix([
    [0, 0],
    [0, 0]]))
    """
    import sympy

    lam, a, b, c = sympy.symbols("lam a b c", positive=True)
    e, d = sympy.symbols("e1:3", positive=True), sympy.symbols("d1:3", real=True)
    learned = 1 - sum(x * y for x, y in zip(d, e, strict=True))
    rates = [2 * y * learned * x - 2 * x * (learned * y - lam) for x, y in zip(e, d, strict=True)]
    u = sympy.Symbol("u", positive=True)  # D = u, E = 1/u on one neuron: d(u^2 - u^-2)/dt = 2 lam / u
    speed = (2 * lam / u) / sympy.diff(u**2 - u**-2, u)
    drift = sympy.diff(u**3 / 3 - 1 / u, u) * speed - lam
    # Encoder A (inputs, neurons): the encodings are Q A. All outputs and activations positive.
    A, D = (sympy.Matrix(2, 2, sympy.symbols(f"{name}:2:2")) for name in ("A", "D"))
    Q = sympy.Matrix([[a, b], [-c * b, c * a]])

    def slope(encodings: Any) -> Any:
        loss = sum(x**2 for x in encodings * D.T - sympy.eye(2)) + lam * sum(encodings)
        return A.applyfunc(lambda x: sympy.diff(loss, x))

    at_basis = slope(A).subs(dict(zip(A, Q * A, strict=True)), simultaneous=True)
    moved = Q * slope(Q * A) - (a**2 + b**2) * sympy.diag(1, c**2) * at_basis
    return {
        "balance": sympy.expand(sum(rates) - 2 * lam * sum(e)),
        "drift": sympy.simplify(drift),
        "inputs": moved.applyfunc(sympy.expand),
    }


def untied_length_ratio(lam_t: npt.ArrayLike) -> Real:
    r"""Length of a decoding over that of its encoding, one neuron, a time after both were 1.

    With :math:`D = u` and :math:`E = 1/u` on one neuron, :math:`u^3/3 - 1/u + 2/3 = \lambda t`: the ratio u^2
    goes to infinity as :math:`(3 \lambda t)^{2/3}`, and no state is at rest.

    Parameters
    ----------
    lam_t : array_like of float
        l1 strength times time, both in the normal form, not negative.

    Returns
    -------
    float or ndarray of float64
        Asymptotic for lam -> 0 (D E = 1 up to O(lam)).

    Raises
    ------
    ValueError
        If `lam_t` is negative or not finite.

    References
    ----------
    Lecomte et al. (2024), App. A, "Tied weights", which expects nearly equal weights.

    Examples
    --------
    >>> untied_length_ratio([0.0, 1.0, 10.0]).round(3)
    array([1.   , 2.11 , 9.434])
    """
    clock = arguments.real("lam_t", lam_t, 0.0)
    # Newton's method from the right of the root of an increasing, convex function falls to it monotonically.
    u = np.cbrt(3 * clock + 1)
    for _ in range(60):
        step = (u**3 / 3 - 1 / u + 2 / 3 - clock) / (u * u + 1 / (u * u))
        u = u - step
        if np.all(np.abs(step) <= 1e-15 * u):
            break
    return plain(np.asarray(u * u))
