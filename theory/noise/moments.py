r"""Moments of symmetric noise, and of its projection W.xi on an encoding W.

Power sums :math:`p_k = \sum_j W_j^k` carry all that a projection knows of W: the cumulants of W.xi are those
of the noise times p_k. So every moment here holds for any number of hidden neurons.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray, Real, choice, number, plain, real

__all__ = [
    "NOISES",
    "derive_moment",
    "derive_random_fourth_norm",
    "excess_kurtosis",
    "fourth_moment",
    "noise_moments",
    "three_point",
]

NOISES = ("bipolar", "uniform", "normal", "laplace", "three-point")
_SLACK = 1e-12  # a moment that a user computed in another order may be a few roundings lower


# --- The families -----------------------------------------------------------------------------------------


def excess_kurtosis(noise: str) -> float:
    r"""Excess kurtosis :math:`\mu_4/\sigma^4 - 3` of a noise: exact.

    Parameters
    ----------
    noise : {"bipolar", "uniform", "normal", "laplace"}
        The three-point family has any from -2 on, see :func:`three_point`.

    Returns
    -------
    float
        -2, -6/5, 0, 3.

    Raises
    ------
    ValueError
        If the noise has another name.

    References
    ----------
    Lecomte et al. (2024), §3.2.

    Examples
    --------
    >>> excess_kurtosis("bipolar")
    -2.0
    """
    return float(noise_moments(choice("noise", noise, NOISES[:-1]))[1] - 3)


def three_point(excess_kurtosis: float) -> tuple[float, float]:
    """Size and probability of the nonzero values of the unit-variance noise on (-c, 0, c): exact.

    Parameters
    ----------
    excess_kurtosis : float
        At least -2, which is bipolar noise.

    Returns
    -------
    size : float
        c, the square root of excess_kurtosis + 3.
    probability : float
        Probability of not being 0, 1/(excess_kurtosis + 3).

    Raises
    ------
    ValueError
        If the excess kurtosis is below -2, which no distribution has, or not one finite number.

    Examples
    --------
    >>> three_point(1.0)
    (2.0, 0.25)
    """
    ratio = number("excess_kurtosis", excess_kurtosis, -2.0) + 3
    return math.sqrt(ratio), 1 / ratio


def noise_moments(noise: str, noise_std: float = 1.0, *, excess_kurtosis: float | None = None) -> FloatArray:
    r"""Even moments :math:`E \xi^2, E \xi^4, E \xi^6, E \xi^8` of a noise: exact.

    Parameters
    ----------
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Distribution of the noise on one hidden neuron, symmetric about 0.
    noise_std : float, optional
        Its standard deviation, not negative.
    excess_kurtosis : float, optional
        At least -2; for ``"three-point"``, and only there.

    Returns
    -------
    ndarray of float64, shape (4,)
        Relative error 1e-15.

    Raises
    ------
    ValueError
        If the noise has another name, the standard deviation is negative or not finite, or
        `excess_kurtosis` is missing where it is needed, given where it is not, or below -2.

    Examples
    --------
    >>> noise_moments("laplace", 2.0)
    array([4.0000e+00, 9.6000e+01, 5.7600e+03, 6.4512e+05])
    """
    name, std, ratio = family(noise, noise_std, excess_kurtosis)
    k = np.arange(1.0, 5.0)
    unit = {
        "bipolar": np.ones(4),
        "uniform": 3**k / (2 * k + 1),
        "normal": np.array([1.0, 3.0, 15.0, 105.0]),
        "laplace": np.array([1.0, 6.0, 90.0, 2520.0]),
        "three-point": ratio ** (k - 1),
    }[name]
    return np.asarray(unit * std ** (2 * k))


def family(noise: str, noise_std: float, excess_kurtosis: float | None) -> tuple[str, float, float]:
    """Check the arguments that describe a noise; return its name, deviation and mu4/sigma^4."""
    name, std = choice("noise", noise, NOISES), number("noise_std", noise_std, 0.0)
    if (name == "three-point") != (excess_kurtosis is not None):
        raise ValueError(
            '`excess_kurtosis` must be given for "three-point" noise and for no other; '
            f"got {excess_kurtosis} with {name!r}."
        )
    if excess_kurtosis is not None:
        return name, std, three_point(excess_kurtosis)[0] ** 2
    return name, std, {"bipolar": 1.0, "uniform": 1.8, "normal": 3.0, "laplace": 6.0}[name]


# --- Projections ------------------------------------------------------------------------------------------


def fourth_moment(w: npt.ArrayLike, sigma: npt.ArrayLike, mu4: npt.ArrayLike) -> Real:
    r"""Fourth moment of the noise that reaches an output, :math:`E (W \cdot \xi)^4`: exact.

    .. math:: E (W \cdot \xi)^4 = 3 \sigma^4 |W|_2^4 + (\mu_4 - 3 \sigma^4) |W|_4^4
              = \mu_4 \sum_j W_j^4 + 3 \sigma^4 \sum_{j \ne k} W_j^2 W_k^2.

    Parameters
    ----------
    w : array_like of float, shape (..., m)
        Encodings, one a row, of any length.
    sigma, mu4 : array_like of float
        Standard deviation and fourth moment of the noise on one hidden neuron: independent on each,
        symmetric about 0. They broadcast over the encodings.

    Returns
    -------
    float or ndarray of float64
        The moment of each encoding; no large terms cancel: relative error 1e-15 times m.

    Raises
    ------
    ValueError
        If an argument is not finite, `sigma` is negative, or no distribution has these moments: `mu4` is at
        least sigma^4, as a square's mean is at least the mean's square, and 0 if sigma is. If the result
        is too large for a float.

    References
    ----------
    Lecomte et al. (2024), App. C.2. Its first line has 6 in place of 3: right only if each pair counts once.

    Examples
    --------
    >>> fourth_moment([1.0, 1.0], 1.0, 1.0)
    8.0
    """
    weights = real("w", w)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise ValueError(f"`w` must have shape (..., m) with m of at least 1; got {weights.shape}.")
    std, fourth = real("sigma", sigma, 0.0), real("mu4", mu4, 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        square = std**4
        bad = (fourth < square * (1 - _SLACK)) | ((std == 0) & (fourth > 0))
        if np.any(bad):
            low, got = (np.broadcast_to(x, bad.shape)[bad].flat[0] for x in (square, fourth))
            reason = "E xi^4 >= (E xi^2)^2" if got < low else "noise without variance is 0"
            raise ValueError(f"`mu4` must be at least sigma^4 = {low:g}, since {reason}; got {got:g}.")
        squares = weights**2
        total = squares.sum(axis=-1)
        moment = fourth * np.sum(squares**2, axis=-1) + 3 * square * np.sum(
            squares * (total[..., None] - squares), axis=-1
        )
    if not np.all(np.isfinite(moment)):
        raise ValueError(f"`w` and `mu4` must have a finite moment; got {np.abs(weights).max():g} at most.")
    return plain(np.asarray(moment))


Table = Callable[[int, int], Any]


def joint_moments(cumulant: Table) -> Table:
    """Return the joint moments of two variables as a function, given their joint cumulants."""

    @cache
    def moment(a: int, b: int) -> Any:
        if a == 0 and b == 0:
            return 1
        # One derivative of exp(cumulant function), in the first variable that is left.
        da, db = (1, 0) if a else (0, 1)
        return sum(
            math.comb(a - da, i)
            * math.comb(b - db, j)
            * cumulant(i + da, j + db)
            * moment(a - da - i, b - db - j)
            for i in range(a - da + 1)
            for j in range(b - db + 1)
        )

    return moment


def joint_cumulants(moment: Table) -> Table:
    """Return the joint cumulants of two variables as a function, given their joint moments."""

    @cache
    def cumulant(a: int, b: int) -> Any:
        if a == 0 and b == 0:
            return 0
        da, db = (1, 0) if a else (0, 1)
        return moment(a, b) - sum(
            math.comb(a - da, i)
            * math.comb(b - db, j)
            * cumulant(i + da, j + db)
            * moment(a - da - i, b - db - j)
            for i in range(a - da + 1)
            for j in range(b - db + 1)
            if (i + da, j + db) != (a, b)
        )

    return cumulant


def power_sum(k: int) -> Any:
    """Return the symbol of p_k, the sum of the k-th powers of the weights; p_0 is m."""
    import sympy

    return sympy.Symbol(f"p{k}" if k else "m")


def noise_moment(k: int) -> Any:
    """Return the symbol of the k-th moment of the noise, 0 if k is odd."""
    import sympy

    return 0 if k % 2 else sympy.Symbol(f"mu{k}") if k else sympy.Integer(1)


@cache
def noise_cumulant(k: int) -> Any:
    """Return the k-th cumulant of the noise in the symbols of its moments."""
    import sympy

    return sympy.expand(joint_cumulants(lambda a, _: noise_moment(a))(k, 0))


def _with_square(a: int, b: int) -> Any:
    """Return the joint cumulant of W.xi (a times) and |xi|^2 (b times): a sum over independent neurons."""
    return _one_neuron(a, b) * power_sum(a)


_one_neuron = joint_cumulants(lambda a, b: noise_moment(a + 2 * b))
_projection = joint_moments(_with_square)


def derive_moment(power: int, square_power: int = 0) -> Any:
    r"""Derive :math:`E (W \cdot \xi)^a (|\xi|^2)^b` for any number of neurons, with SymPy.

    Parameters
    ----------
    power, square_power : int
        a and b, not negative.

    Returns
    -------
    Expr
        In the symbols p2, p4, ... (sums of powers of the weights), m, and mu2, mu4, ... (moments of the
        noise); 0 if `power` is odd.

    Raises
    ------
    ValueError
        If a power is negative or not whole.

    Examples
    --------
    >>> derive_moment(2, 1)
    m*mu2**2*p2 - mu2**2*p2 + mu4*p2
    """
    import sympy

    a, b = arguments.integer("power", power, 0), arguments.integer("square_power", square_power, 0)
    return sympy.expand(_projection(a, b))


def derive_random_fourth_norm() -> Any:
    r"""Derive the mean of :math:`|W|_4^4` for a random unit vector of m entries, with SymPy.

    A normal vector is a random direction times an independent length, so that :math:`E x^4 \cdot m` is the
    mean looked for times :math:`E |x|^4 = m^2 + 2m`.

    Returns
    -------
    Expr
        3/(m + 2): 3/m asymptotically, as the source says.

    References
    ----------
    Lecomte et al. (2024), Fig. 4.

    Examples
    --------
    >>> derive_random_fourth_norm()
    3/(m + 2)
    """
    import sympy

    m, t = sympy.symbols("m t")
    normal = sympy.exp(t**2 / 2)
    chi_square = (1 - 2 * t) ** (-m / 2)
    fourth = sympy.diff(normal, t, 4).subs(t, 0)
    length = sympy.diff(chi_square, t, 2).subs(t, 0)
    return sympy.simplify(m * fourth / length)
