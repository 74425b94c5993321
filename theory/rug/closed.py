r"""Kernels of the Gaussian channel y = v + sigma Z, accurate where the textbook form cancels.

`squared_error` is the loss of a thresholded line at one value v: ReLU, JumpReLU (`line_errors`), outputs of
blocks. The other kernels integrate it over v uniform on [0, 1], for the macroscopic loss. All use the ramp
moments H_n and tails T_n of `theory.special.normal`, and assume valid input: a > 0, sigma >= 0, p in (0, 1].
"""

import math

import numpy as np

from ..compile.kernels import inlined, inner, kernel, ufunc
from ..special.normal import ramps, tails
from ..validation import FloatArray

_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)

# For sigma > 1 the integrand of the on-loss varies by little over u in [0, 1], differences of ramp
# moments would cancel, and ten Gauss-Legendre points integrate it to rounding (error bound 1e-21).
_QUADRATURE_FROM = 1.0
_NODES = 0.5 * (np.polynomial.legendre.leggauss(10)[0] + 1.0)
_WEIGHTS = 0.5 * np.polynomial.legendre.leggauss(10)[1]

Four = tuple[float, float, float, float]


@inlined
def squared_error(v: float, missing: float, x: float, s: float, jump: float, at: Four) -> float:
    """Return E (v - D)^2 where D = Y if Z > -x, else 0; Y = v - missing + s Z is `jump` at Z = -x.

    Z is standard normal, and `at` is tails(|x|), that is E (Z - |x|)_+^n / n! for n = 0 to 3. The result is a
    loss plus a remainder in these tails: for x <= 0 the loss v^2 of D = 0, for x > 0 the loss of D = Y. No
    sum loses more than a digit.
    """
    t0, t1, t2, _ = at
    if x <= 0.0:
        return v * v + jump * (jump - 2.0 * v) * t0 - 2.0 * (v - jump) * s * t1 + 2.0 * s * s * t2
    affine = missing * missing + s * s * (1.0 - 2.0 * t2)
    return affine + jump * (2.0 * v - jump) * t0 - 2.0 * (v - jump) * s * t1


@inner
def _off_loss(a: float, b: float, sigma: float) -> float:
    """Return E ReLU(a nu + b)^2, nu normal with deviation sigma: the loss of a feature that is off."""
    s = a * sigma
    if s == 0.0:
        return b * b if b > 0.0 else 0.0
    return squared_error(0.0, -b, b / s, s, 0.0, tails(abs(b / s)))


@inner
def _squared_distance(left: float, right: float) -> float:
    """Return the mean square on [0, 1] of the line from `left` to `right`; all terms are positive."""
    twice = left + right  # a power would be a function of its own, and be compiled
    return (twice * twice + left * left + right * right) / 6.0


@inner
def _on_loss(a: float, shrink: float, b: float, sigma: float) -> float:
    """Return E (u - ReLU(a (u + nu) + b))^2, u uniform on [0, 1]: the loss of a feature that is on.

    nu is normal with standard deviation sigma. `shrink` is 1 - a, which matters where sigma is so small that
    a rounds to 1. The integral over u is split where the mean pre-activation a u + b changes sign. Where it
    is negative, the loss is u^2, of the output 0, plus a remainder; where positive, that of the affine output
    plus a remainder. The remainders are tails, and no sum loses more than a digit.
    """
    s = a * sigma
    if sigma > _QUADRATURE_FROM:
        return _on_loss_by_quadrature(a, shrink, b, sigma)
    start = -b / a  # the u at which a u + b = 0
    d1 = shrink - b
    if sigma == 0.0:
        if start <= 0.0:
            return _squared_distance(-b, d1)
        if start >= 1.0:
            return 1.0 / 3.0
        return start * start * start / 3.0 + (1.0 - start) * _squared_distance(start, d1)
    z = b / s
    x1 = (a + b) / s
    _, _, t2_right, t3_right = tails(abs(x1))
    _, _, _, t3_left = tails(abs(z))
    if z >= 0.0:
        tail = (1.0 + a) * sigma * (t3_left - t3_right) - t2_right
        return _squared_distance(-b, d1) + s * s - 2.0 * s * sigma * tail
    if x1 <= 0.0:
        return 1.0 / 3.0 + 2.0 * s * sigma * ((1.0 + a) * sigma * (t3_right - t3_left) - t2_right)
    tail = t2_right + (1.0 + a) * sigma * (t3_right - t3_left)
    inside = start * start * start / 3.0 - s * sigma * start
    outside = (1.0 - start) * (_squared_distance(start, d1) + s * s)
    return inside + outside + 2.0 * s * sigma * tail


@inner
def _on_loss_by_quadrature(a: float, shrink: float, b: float, sigma: float) -> float:
    """Return E (u - ReLU(a (u + nu) + b))^2, u uniform on [0, 1], nu ~ N(0, sigma²), by quadrature over u.

    `shrink` is 1 - a. The rule is for sigma > 1.
    """
    s, total = a * sigma, 0.0
    for k in range(_NODES.size):
        u = _NODES[k]
        x = (a * u + b) / s
        total += _WEIGHTS[k] * squared_error(u, shrink * u - b, x, s, 0.0, tails(abs(x)))
    return total


@kernel
def line_errors(v: FloatArray, theta: float, a: float, shrink: float, b: float, sigma: float) -> FloatArray:
    """Return E (v - D(v + sigma Z))^2 at each v; D(y) = a y + b if y > theta, else 0; `shrink` is 1 - a."""
    s, jump, errors = a * sigma, a * theta + b, np.empty(v.size)
    for k in range(v.size):
        x = (v[k] - theta) / sigma
        errors[k] = squared_error(v[k], shrink * v[k] - b, x, s, jump, tails(abs(x)))
    return errors


@ufunc
def off_kernel(a: float, b: float, sigma: float) -> float:
    """Return E ReLU(a nu + b)^2, nu ~ N(0, sigma²): the loss of a feature that is off, broadcasting."""
    return _off_loss(a, b, sigma)


@ufunc
def on_kernel(a: float, b: float, sigma: float) -> float:
    """Return E (u - ReLU(a (u + nu) + b))^2, nu normal: the loss of a feature that is on, broadcasting.

    u is uniform on [0, 1], and nu has the standard deviation sigma.
    """
    return _on_loss(a, 1.0 - a, b, sigma)


@ufunc
def loss_kernel(a: float, b: float, sigma: float, p: float) -> float:
    """Return the macroscopic loss (1 - p) L_off + p L_on, broadcasting: a sum of positive terms.

    The output is ReLU(a (x + nu) + b): x a feature, on with probability p, nu ~ N(0, sigma²) interference.
    """
    return (1.0 - p) * _off_loss(a, b, sigma) + p * _on_loss(a, 1.0 - a, b, sigma)


@inner
def _ramp_moment_rises(z: float, sigma: float, left: Four) -> tuple[float, float, float, float, float]:
    r"""Return H_n(z + 1/sigma) - H_n(z), n = 0..3, and :math:`\int_0^1 u H_1(z + u/\sigma) du / \sigma`.

    H_n(x) is E (Z + x)_+^n / n!, and `left` has the H_n(z). Where the differences would cancel, for sigma > 1
    unless z < -2 sigma, each is computed by quadrature as an integral of H_(n-1).
    """
    if sigma <= _QUADRATURE_FROM or z < -2.0 * sigma:
        right = ramps(z + 1.0 / sigma)
        d3 = right[3] - left[3]
        return right[0] - left[0], right[1] - left[1], right[2] - left[2], d3, right[2] - sigma * d3
    d0 = d1 = d2 = d3 = first = 0.0
    for k in range(_NODES.size):
        x = z + _NODES[k] / sigma
        h0, h1, h2, _ = ramps(x)
        weight = _WEIGHTS[k] / sigma
        d0 += weight * _INV_SQRT_2PI * math.exp(-0.5 * x * x)
        d1 += weight * h0
        d2 += weight * h1
        d3 += weight * h2
        first += weight * _NODES[k] * h1
    return d0, d1, d2, d3, first


@inner
def best_scale(z: float, sigma: float, p: float) -> Four:
    """Return a, 1 - a and two slopes of the loss by the bias; a is the best scale at the bias a sigma z.

    The output is ReLU(a (x + nu) + b): x a feature, on with probability p, nu ~ N(0, sigma²) interference.

    With R = ReLU(x + nu + sigma z), a = E[x R] / E[R^2] (Eq. 16 of Cowsik et al. 2024) and 1 - a = E[(R - x)
    R] / E[R^2]. The slopes are the contributions of features off and on to dL/db/(2 sigma), where dL/db = 2
    E[(ReLU(y) - x) 1(y > 0)] for the pre-activation y.
    """
    left = ramps(z)
    d0, d1, d2, d3, first = _ramp_moment_rises(z, sigma, left)
    h1, h2 = left[1], left[2]
    off = (1.0 - p) * 2.0 * h2
    square = off + 2.0 * p * sigma * d3  # E R^2 / sigma^2
    a, shrink = p * first / square, (off + p * sigma * (d1 + z * d2)) / square
    return a, shrink, (1.0 - p) * a * h1, p * sigma * (d0 + z * d1 - shrink * d2)


@ufunc
def scale_kernel(z: float, sigma: float, p: float) -> float:
    """Return the scale a of least loss at the bias a sigma z, broadcasting.

    The output is ReLU(a (x + nu) + b): x a feature, on with probability p, nu ~ N(0, sigma²) interference.
    """
    return best_scale(z, sigma, p)[0]


@ufunc
def slope_kernel(z: float, sigma: float, p: float) -> float:
    """Return dL/db/(2 sigma) of the macroscopic loss L at the best scale a and the bias b = a sigma z.

    The output is ReLU(a (x + nu) + b): x a feature, on with probability p, nu ~ N(0, sigma²) interference.
    """
    _, _, off, on = best_scale(z, sigma, p)
    return off + on


@inner
def profile(z: float, sigma: float, p: float) -> tuple[float, float]:
    """Return the best scale a at the bias a sigma z, and the loss there; accurate also if a rounds to 1.

    The output is ReLU(a (x + nu) + b): x a feature, on with probability p, nu ~ N(0, sigma²) interference.
    """
    a, shrink, _, _ = best_scale(z, sigma, p)
    b = a * sigma * z
    return a, (1.0 - p) * _off_loss(a, b, sigma) + p * _on_loss(a, shrink, b, sigma)
