r"""One neuron that two encodings share: who keeps it, when the other leaves.

Flows are in the normal form, constants 4 dropped; see the package.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import Real, plain

__all__ = [
    "critical_lam",
    "derive_conflict",
    "derive_shared_neuron",
    "escape_weight",
    "kept_after_conflict",
    "shared_drop_time",
    "surviving_weight",
]


# --- One neuron, two encodings
# ----------------------------------------------------------------------------------


def derive_shared_neuron() -> dict[str, Any]:
    r"""Derive the motion of two equal-signed weights that are all their encodings have, with SymPy.

    :math:`w_i' = w_i (1 - w_1^2 - w_2^2) - \lambda` is the flow of *one* encoding with these two weights.

    Returns
    -------
    dict of str to sympy.Expr
        In the symbols w1, w2, lam: ``"ratio_rate"``, the derivative of w2/w1, 0 at lam = 0, and
        ``"gap_rate"``, that of ln(w1 - w2). In r: ``"drop_residual"``, 0 if :func:`shared_drop_time` is the
        integral of 1/((1 - r) sqrt(1 + r^2)).
    """
    import sympy

    w1, w2, lam = sympy.symbols("w1 w2 lam", positive=True)
    r = sympy.Symbol("r", positive=True)
    d1, d2 = (w * (1 - w1**2 - w2**2) - lam for w in (w1, w2))
    time = sympy.asinh((1 + r) / (1 - r)) / sympy.sqrt(2)
    slope = 1 / ((1 - r) * sympy.sqrt(1 + r**2))
    return {
        "ratio_rate": sympy.factor(sympy.simplify((d2 * w1 - w2 * d1) / w1**2)),
        "gap_rate": sympy.factor(sympy.simplify((d1 - d2) / (w1 - w2))),
        # Both are positive on (0, 1), so equal squares suffice, and squares simplify.
        "drop_residual": sympy.simplify(sympy.diff(time, r) ** 2 - slope**2),
    }


def shared_drop_time(ratio: npt.ArrayLike) -> Real:
    r"""Time, times lam, after which the smaller of two equal-signed weights is gone: asymptotic for lam -> 0.

    After a time of order 1 the squares of the two add up to 1, and their ratio r falls as
    :math:`r' = -\lambda (1 - r) \sqrt{1 + r^2}`, so that

    .. math:: \lambda T = \tfrac{1}{\sqrt2} \left(\mathrm{asinh}\frac{1 + r}{1 - r}
              - \mathrm{asinh}\, 1\right).

    So a malign collision of encodings with nothing else takes a time of order 1/lam, and longer the closer
    they are.

    Parameters
    ----------
    ratio : array_like of float
        Smaller weight over larger weight, in [0, 1): it does not change while lam is not felt.

    Returns
    -------
    float or ndarray of float64
        lam T, with a relative error of order lam.

    Raises
    ------
    ValueError
        If `ratio` is outside [0, 1).

    Examples
    --------
    >>> round(shared_drop_time(0.8), 6)
    1.422749
    """
    r = arguments.real("ratio", ratio, 0.0, 1.0, brackets="[)")
    return plain(np.asarray((np.arcsinh((1 + r) / (1 - r)) - math.asinh(1)) / math.sqrt(2)))


def critical_lam(sharing: int = 1) -> float:
    r"""Largest lam at which equal weights of that many encodings on one neuron can rest: exact.

    The rest points are the roots of :math:`w (1 - q w^2) = \lambda`, gone beyond :math:`2/\sqrt{27 q}`.

    Parameters
    ----------
    sharing : int, optional
        Number q of encodings with equal weights there, at least 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `sharing` is not a whole number of at least 1.

    Examples
    --------
    >>> round(critical_lam(), 6)
    0.3849
    """
    return 2 / math.sqrt(27 * arguments.integer("sharing", sharing, 1))


def _root(lam: npt.ArrayLike, branch: int) -> Real:
    top = critical_lam()
    strength = arguments.real("lam", lam, 0.0, top, hint="Beyond it no weight survives.")
    # w (1 - w^2) = lam by w = (2/sqrt 3) cos v: cos 3v = -lam sqrt(27)/2.
    angle = np.arccos(np.clip(-strength / top, -1.0, 1.0)) / 3 - branch * 2 * math.pi / 3
    w = 2 / math.sqrt(3) * np.cos(angle)
    # One step of Newton's method: the cosine of an angle near a right one has an absolute error only.
    slope = 1 - 3 * w * w
    with np.errstate(divide="ignore", invalid="ignore"):
        better = w - np.where(np.abs(slope) > 1e-3, (w * (1 - w * w) - strength) / slope, 0.0)
    return plain(np.asarray(better))


def surviving_weight(lam: npt.ArrayLike) -> Real:
    r"""Weight at which an encoding with one nonzero weight rests: exact, stable root of w (1 - w^2) = lam.

    Parameters
    ----------
    lam : array_like of float
        Strength of the l1 force, from 0 to 2/sqrt(27).

    Returns
    -------
    float or ndarray of float64
        1 - lam/2 - ... for small lam. Relative error 1e-15, at the upper end 1e-8 (a double root).

    Raises
    ------
    ValueError
        If `lam` is out of range.

    Examples
    --------
    >>> round(surviving_weight(0.01), 6)
    0.994962
    """
    return _root(lam, 0)


def escape_weight(lam: npt.ArrayLike) -> Real:
    r"""Weight below which a lone weight dies: exact, the unstable root of w (1 - w^2) = lam.

    Parameters
    ----------
    lam : array_like of float
        Strength of the l1 force, from 0 to 2/sqrt(27).

    Returns
    -------
    float or ndarray of float64
        lam + lam^3 + ... for small lam. Absolute error 1e-16, at the upper end 1e-8 (a double root).

    Raises
    ------
    ValueError
        If `lam` is out of range.

    Examples
    --------
    >>> round(escape_weight(0.01), 9)
    0.010001
    """
    return _root(lam, 1)


def derive_conflict() -> dict[str, Any]:
    r"""Derive who gives way when encodings (x1, y1) and (x2, y2) share only the neuron of x, with SymPy.

    Each has the norm y of weights of its own; lam = 0, and zero weights are held at zero, as the source
    assumes (it takes a lam above x1 x2 y to hold them).

    Returns
    -------
    dict of str to sympy.Expr
        ``"ratio_rate"`` = (ln(x1/x2))': of the shared weights that one gains whose *own* weights are
        smaller, which is the larger one only if both encodings are equally long. ``"invariant_rate"``: the
        rate of (1 - x1^2)/(1 - x2^2) at unit lengths, 0.
    """
    import sympy

    x1, x2, y1, y2 = sympy.symbols("x1 x2 y1 y2", positive=True)
    d1 = x1 * (1 - x1**2 - y1**2) - x1 * x2**2
    d2 = x2 * (1 - x2**2 - y2**2) - x2 * x1**2
    # On the unit spheres: the interference, less its component along the encoding.
    u1, u2 = (-2 * x1**2 * x2**2 * (1 - x**2) for x in (x1, x2))
    q = (1 - x1**2) / (1 - x2**2)
    rate = sympy.diff(q, x1) * u1 / (2 * x1) + sympy.diff(q, x2) * u2 / (2 * x2)
    return {"ratio_rate": sympy.simplify(d1 / x1 - d2 / x2), "invariant_rate": sympy.simplify(rate)}


def kept_after_conflict(x1: npt.ArrayLike, x2: npt.ArrayLike) -> tuple[Real, Real]:
    r"""Shared weights of two encodings after their conflict: exact for unit lengths and zeros held at zero.

    On the unit spheres :math:`(1 - x_1^2)/(1 - x_2^2)` is conserved while :math:`x_1 x_2` decays, so the
    larger weight ends at :math:`\sqrt{(x_1^2 - x_2^2)/(1 - x_2^2)}`, the smaller at 0; equal ones both end
    at 0.

    Parameters
    ----------
    x1, x2 : array_like of float
        Sizes of the shared weights, in [0, 1): each encoding has other weights of its own.

    Returns
    -------
    kept1, kept2 : float or ndarray of float64
        The sizes that are left.

    Raises
    ------
    ValueError
        If a weight is outside [0, 1).

    Notes
    -----
    A limit model: the l1 force must be weak on the time scale 1 of the conflict, and yet hold
    the zero weights (lam above x1 x2 times the other's own weight). Where it does not, those become
    negative instead, as in :func:`pair_flow`, and no weight drops quickly.

    Examples
    --------
    >>> kept_after_conflict(0.8, 0.6)
    (0.6614378277661477, 0.0)
    """
    a, b = np.broadcast_arrays(
        arguments.real("x1", x1, 0.0, 1.0, brackets="[)"), arguments.real("x2", x2, 0.0, 1.0, brackets="[)")
    )
    gap = (a - b) * (a + b)
    kept1 = np.sqrt(np.maximum(gap, 0.0) / ((1 - b) * (1 + b)))
    kept2 = np.sqrt(np.maximum(-gap, 0.0) / ((1 - a) * (1 + a)))
    return plain(kept1), plain(kept2)
