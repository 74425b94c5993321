r"""Laws of the value of a feature that is on, at scale 1: moments E v^k and transforms E v^r exp(z v)."""

import math

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..kernels import kernel, shared
from .normal import POINTS, WEIGHTS

__all__ = ["VALUES", "transforms", "value_moment", "value_transform"]

VALUES = ("uniform", "binary", "half-normal", "exponential", "symmetric", "normal")

Three = tuple[complex, complex, complex]

_REACH = 46.0  # exp(-46) is below rounding, also after a factor 46^2
_HALF_MEAN = math.sqrt(2.0 / math.pi)
_TERMS = 40  # of the series up to |z| = 1; the last is below 1e-20


def _normal_moment(k: int) -> float:
    """E |N(0, 1)|^k."""
    return 2 ** (k / 2) * math.gamma((k + 1) / 2) / math.sqrt(math.pi)


_HALF_SERIES = np.array(
    [[_normal_moment(j + r) / math.gamma(j + 1) for j in range(_TERMS)] for r in range(3)]
)


@shared
def _uniform(z: complex) -> Three:
    """Uniform on [0, 1]: (e^z - 1)/z and its derivatives."""
    if abs(z) > 1.5:
        growth = np.exp(z)
        first = (growth - 1.0) / z
        second = (growth - first) / z
        return first, second, (growth - 2.0 * second) / z
    a, b, c, term = 0j, 0j, 0j, 1.0 + 0j
    for k in range(24):  # the terms are z^k/k! times the moments
        a += term / (k + 1)
        b += term / (k + 2)
        c += term / (k + 3)
        term *= z / (k + 1)
    return a, b, c


@shared
def _symmetric(z: complex) -> Three:
    """Uniform on [-1, 1]: sinh(z)/z and its derivatives."""
    if abs(z) > 2.0:
        up, down = 0.5 * np.exp(z), 0.5 * np.exp(-z)
        first = (up - down) / z
        second = (up + down - first) / z
        return first, second, (up - down - 2.0 * second) / z
    a, b, c, term = 0j, 0j, 0j, 1.0 + 0j
    for k in range(0, 28, 2):
        a += term / (k + 1)
        c += term / (k + 3)
        term *= z / (k + 1)
        b += term / (k + 3)
        term *= z / (k + 2)
    return a, b, c


@shared
def _normal(z: complex) -> Three:
    """N(0, 1): exp(z^2/2) and its derivatives."""
    value = np.exp(0.5 * z * z)
    return value, z * value, (1.0 + z * z) * value


@shared
def _half_normal(z: complex) -> Three:
    r"""|N(0, 1)|: exp(z^2/2) erfc(-z/sqrt(2)) and its derivatives.

    Near 0 by the series. Left of the imaginary axis by quadrature of the definition along a ray: turned by a
    third of the angle of -z, both exp(z v) and exp(-v^2/2) fall along it, so nothing cancels. On the right by
    reflection: the integral over all v belongs to the normal law.
    """
    a, b, c = 0j, 0j, 0j
    if abs(z) <= 1.0:
        power = 1.0 + 0j
        for j in range(_TERMS):
            a += power * _HALF_SERIES[0, j]
            b += power * _HALF_SERIES[1, j]
            c += power * _HALF_SERIES[2, j]
            power *= z
        return a, b, c
    left = z if z.real <= 0.0 else -z
    size, angle = abs(left), math.atan2(-left.imag, -left.real)
    turn = angle / 3.0
    fall, curve = math.cos(angle - turn), 0.5 * math.cos(2.0 * turn) / size**2
    length = 2.0 * _REACH / (fall + math.sqrt(fall**2 + 4.0 * curve * _REACH))
    linear = np.exp(1j * (angle - turn))
    square = 0.5 * np.exp(-2j * turn) / size**2
    for k in range(POINTS.size):
        t = length * POINTS[k]
        weight = WEIGHTS[k] * np.exp(-t * (linear + t * square))
        a += weight
        b += t * weight
        c += t * t * weight
    step = np.exp(-1j * turn) / size
    a *= _HALF_MEAN * length * step
    b *= _HALF_MEAN * length * step**2
    c *= _HALF_MEAN * length * step**3
    if z.real <= 0.0:
        return a, b, c
    whole = _normal(z)
    return 2.0 * whole[0] - a, 2.0 * whole[1] + b, 2.0 * whole[2] - c


@shared
def transforms(kind: int, z: complex) -> Three:
    """Return E v^r exp(z v) for r = 0, 1, 2 and the law VALUES[kind]; see `value_transform`."""
    if kind == 0:
        return _uniform(z)
    if kind == 1:
        value = np.exp(z)
        return value, value, value
    if kind == 2:
        return _half_normal(z)
    if kind == 3:
        value = 1.0 / (1.0 - z)
        return value, value**2, 2.0 * value**3
    if kind == 4:
        return _symmetric(z)
    if kind == 5:
        return _normal(z)
    raise ValueError("`kind` must be the number of a law in `VALUES` that has a transform.")


@kernel
def _all_transforms(kind: int, z: npt.NDArray[np.complex128], out: npt.NDArray[np.complex128]) -> None:
    for i in range(z.size):
        out[0, i], out[1, i], out[2, i] = transforms(kind, z[i])


def value_transform(values: str, z: npt.ArrayLike) -> npt.NDArray[np.complex128]:
    r"""Transform :math:`\varphi_r(z) = E\,v^r e^{zv}` of the value of a feature that is on, r = 0, 1, 2.

    Parameters
    ----------
    values : str
        One of `VALUES`.
    z : array_like of complex
        Anywhere that the result is a double; for "exponential" the real part must be below 1, where the mean
        exists.

    Returns
    -------
    ndarray of complex128, shape (3,) + z.shape
        Each is the derivative of the one before. Relative error below 4e-15 times max(1, \|z\|) for
        normal and half-normal |z|^2, which is what a rounding of z does; absolute near zeros.

    Raises
    ------
    ValueError
        If z is outside the domain, or a result is too large for a double.

    Examples
    --------
    >>> value_transform("uniform", 0.0)
    array([1.        +0.j, 0.5       +0.j, 0.33333333+0.j])
    """
    return value_transforms("z", values, complex_numbers("z", z))


def complex_numbers(name: str, value: npt.ArrayLike) -> npt.NDArray[np.complex128]:
    """Return finite complex numbers."""
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # rows of different lengths, tensors that have a gradient
        array = np.empty(0, object)
    if array.dtype.kind == "c" and not np.ma.isMaskedArray(value):
        found = array.astype(np.complex128)
    else:
        found = arguments.real(name, value).astype(np.complex128)
    if not np.all(np.isfinite(found)):
        raise ValueError(f"`{name}` must be finite; got {found[~np.isfinite(found)].flat[0]}.")
    return found


def value_transforms(name: str, values: str, z: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    """Evaluate `value_transform` for a caller who calls z by another name."""
    kind = VALUES.index(arguments.choice("values", values, VALUES))
    if kind == 3 and np.any(z.real >= 1):
        raise ValueError(f"`{name}` must have a real part (times scale) below 1; got {z.real.max():g}.")
    out = np.empty((3, z.size), np.complex128)
    _all_transforms(kind, z.ravel(), out)
    for worst in z.ravel()[~np.isfinite(out).all(axis=0)]:
        raise ValueError(f"`{name}` must be smaller: the transform overflows; got {worst}.")
    return out.reshape((3, *z.shape))


def value_moment(values: str, k: int) -> float:
    """Moment E v^k of the value of a feature that is on, at scale 1; a few roundings off.

    Parameters
    ----------
    values : str
        One of `VALUES`.
    k : int
        From 0 to 150.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> value_moment("exponential", 3), value_moment("symmetric", 3)
    (6.0, 0.0)
    """
    arguments.choice("values", values, VALUES)
    k = arguments.integer("k", k, 0, 150)
    if values in ("symmetric", "normal") and k % 2:
        return 0.0
    if values in ("uniform", "symmetric"):
        return 1 / (k + 1)
    if values == "binary":
        return 1.0
    if values == "exponential":
        return float(math.factorial(k))
    if values in ("normal", "half-normal"):
        return _normal_moment(k)
    raise ValueError(f"`values` must be a law whose moments are known; got {values!r}.")
