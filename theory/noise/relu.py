r"""Means over the noise of one output's ReLU(g + W.xi) and of its square.

Exact, or in the approximation that W.xi is normal or nearly so (first Edgeworth correction).
"""

import math

import numpy as np
import numpy.typing as npt

from ..compile.kernels import check_interrupt, inner, kernel
from ..results import result
from ..special import ramp_moments
from ..special.order import ascending
from ..validation import FloatArray, IntArray, choice, real, vector
from .moments import noise_law

__all__ = [
    "METHODS", "MOST_STATES", "Means", "ReluMoments", "can_list", "means_by_states", "noise_values",
    "relu_means", "relu_moments",
]  # fmt: skip

METHODS = ("exact", "edgeworth", "normal")
MOST_STATES = 2**20  # of half of the weights, some 50 MB: 40 bipolar or 24 three-point weights
_FAR = 60.0  # times sqrt(ratio m), in standard deviations: no law reaches further with probability 1e-80
_TAIL = 8.6  # standard deviations beyond which a normal variable has probability 1e-17
_NODES, _BLOCK = 2**15, 2**11

Means = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
"""Those of `ReluMoments`."""


@result
class ReluMoments:
    """Means over the noise of the output ReLU(g + W.xi), for each overlap g; see :func:`relu_moments`."""

    on: FloatArray
    """Probability of g + W.xi > 0, in the shape of g."""
    mean: FloatArray
    """E ReLU(g + W.xi), in the shape of g."""
    second: FloatArray
    """E ReLU(g + W.xi)^2, in the shape of g."""
    on_noise: FloatArray
    """E [g + W.xi > 0] xi_j: the derivative of `mean` in W_j at fixed g, shape (..., m)."""
    mean_noise: FloatArray
    """E ReLU(g + W.xi) xi_j: half the derivative of `second` in W_j at fixed g, shape (..., m)."""


def relu_moments(
    g: npt.ArrayLike,
    w: npt.ArrayLike,
    noise: str,
    noise_std: float,
    *,
    excess_kurtosis: float | None = None,
    method: str = "exact",
) -> ReluMoments:
    """Means of ReLU(g + W.xi), of its square and of products with the noise xi: Lecomte et al. (2024), §3.1.

    Errors of ``"exact"`` are absolute here, in units of the standard deviation of W.xi. Bipolar noise on up
    to 40 nonzero weights, and three-point noise on up to 24, is summed over all its states, with an error of
    1e-14. For normal noise there is a closed form; for g < 0 its relative error grows like 3e-15 g², with g
    in the same units.

    All other noise inverts the characteristic function by a sum that stops at t = T. For uniform and Laplace
    noise `mean`, `second` and `mean_noise` have errors of 2e-9. For discrete noise on more weights the
    characteristic function may return to 1 at large t: the bounds are 1/(pi T) for `mean` and `mean_noise`,
    1/(pi T^2) for `second`, with T = 12000 (smaller for three-point noise of positive excess kurtosis). That
    is 3e-5 and 3e-9, met only by nearly equal weights. For discrete noise `on` is a step function of g, and
    converges slowly near its steps.

    Parameters
    ----------
    g : array_like of float
        Overlaps: pre-activations of the output without noise.
    w : array_like of float, shape (m,)
        The output's encoding.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Noise on the hidden neurons, independent on each.
    noise_std, excess_kurtosis : float, the second optional
        Standard deviation of the noise, not negative, and, for ``"three-point"`` noise only, its excess
        kurtosis.
    method : {"exact", "edgeworth", "normal"}, optional
        ``"normal"`` takes normal noise of the same variance; ``"edgeworth"`` adds the first order of the
        excess kurtosis times p = |W|_4^4/|W|_2^4, and leaves out terms of order p^2.

    Returns
    -------
    ReluMoments
        With y = g + W.xi: `on`, P(y > 0), `mean`, E ReLU(y), and `second`, E ReLU(y)^2, in the shape of g;
        `on_noise`, E [y > 0] xi_j, and `mean_noise`, E ReLU(y) xi_j, with the weights' axis last.

    Raises
    ------
    ValueError
        If an argument is out of range, or a result too large for a float.

    Examples
    --------
    >>> moments = relu_moments(-0.1, [0.6, 0.8], "bipolar", 0.1)
    >>> round(float(moments.second), 12), round(float(moments.mean), 12)
    (0.0004, 0.01)
    """
    overlap, weights = real("g", g), real("w", vector("w", w), -1e150, 1e150)
    name, std, ratio = noise_law(noise, noise_std, excess_kurtosis)
    with np.errstate(over="ignore", invalid="ignore"):
        means = relu_means(overlap.ravel(), weights, name, std, ratio, choice("method", method, METHODS))
    if not all(np.all(np.isfinite(part)) for part in means):
        size = np.max(np.abs(weights))
        raise ValueError(f"`g`, `w` and `noise_std` must have finite moments; got {size:g}, {std:g}.")
    return ReluMoments(*(part.reshape(overlap.shape + part.shape[1:]) for part in means))


def relu_means(g: FloatArray, w: FloatArray, name: str, std: float, ratio: float, method: str) -> Means:
    """Return on, mean, second, on_noise and mean_noise of `ReluMoments` for a vector g of overlaps.

    With y = g + w.xi they are P(y > 0), E ReLU(y), E ReLU(y)^2, shape (g.size,), E [y > 0] xi_j and E ReLU(y)
    xi_j, shape (g.size, w.size). w is the output's encoding. The noise has the law `name`, standard deviation
    `std` and fourth moment `ratio` std^4; `method` is "exact", "edgeworth" or "normal", as for
    `relu_moments`.
    """
    size = float(np.max(np.abs(w)))
    norm = math.sqrt(float(np.sum((w / (size or 1.0)) ** 2)))
    spread = std * size * norm
    # First for overlaps so large that no noise changes the output's sign.
    gate = np.where(g > 0, 1.0, 0.0)
    on_noise, mean_noise = np.zeros((g.size, w.size)), std * np.outer(gate, std * w)
    means = (gate, gate * g, gate * (g**2 + spread**2), on_noise, mean_noise)
    near = np.abs(g) <= min(_FAR * math.sqrt(ratio * w.size), 1e10) * spread
    if spread > 0 and np.any(near):
        z, unit = g[near] / spread, np.ascontiguousarray(w / size / norm)
        values, shares = noise_values(ratio)
        if method != "exact" or name == "normal":
            column_means = _edgeworth_means(z, unit, ratio - 3 if method == "edgeworth" else 0.0)
        elif name in ("bipolar", "three-point") and can_list(values, int(np.count_nonzero(unit))):
            column_means = means_by_states(z, unit, values, shares)
        else:
            column_means = _invert_transform(z, unit, name, ratio)
        scales = (1.0, spread, spread**2, std, std * spread)
        for part, is_column, scale in zip(means, column_means, scales, strict=True):
            part[near] = is_column * scale
    return means


def _edgeworth_means(z: FloatArray, w: FloatArray, kurtosis: float) -> Means:
    """Return on, mean, second, on_noise, mean_noise of ReLU(z + w.xi) to first order in the kurtosis of xi.

    With y = z + w.xi they are P(y > 0), E ReLU(y), E ReLU(y)^2, (z.size,), E [y > 0] xi_j and E ReLU(y) xi_j,
    (z.size, w.size). w has length 1; the noise xi has unit variance and the excess kurtosis `kurtosis`.
    """
    near = np.clip(z, -40.0, 40.0)  # beyond, the density is 0
    density = np.exp(-0.5 * near**2) / math.sqrt(2 * math.pi)
    # Derivatives of the second moment in z of order 4, 5, 6, 7: Hermite polynomials times the density.
    d4, d5 = -2 * near * density, 2 * (near**2 - 1) * density
    d6 = -2 * (near**3 - 3 * near) * density
    d7 = 2 * (near**4 - 6 * near**2 + 3) * density
    on, mean, second = np.moveaxis(ramp_moments(z, 2), -1, 0)
    fourth = kurtosis * float(np.sum(w**4))
    cubes = kurtosis * w**3
    on_noise = np.outer(density + fourth * d7 / 48, w) + np.outer(d5 / 12, cubes)
    mean_noise = np.outer(on + fourth * d6 / 48, w) + np.outer(d4 / 12, cubes)
    return on + fourth * d6 / 48, mean + fourth * d5 / 48, second + fourth * d4 / 24, on_noise, mean_noise


# --- Discrete noise: sum over all its states ----------------------------------------------------------------

Half = tuple[IntArray, FloatArray, FloatArray, FloatArray]


def noise_values(ratio: float) -> tuple[FloatArray, FloatArray]:
    """Return values and probabilities of noise on 3 points, or 2, with unit variance and E xi^4 = ratio."""
    level, share = math.sqrt(ratio), 1 / ratio
    if share == 1:
        return np.array([-level, level]), np.array([0.5, 0.5])
    return np.array([-level, 0.0, level]), np.array([0.5 * share, 1 - share, 0.5 * share])


def can_list(values: FloatArray, n_weights: int) -> bool:
    """Return whether noise vectors are few enough to list: at most `MOST_STATES` for half of the weights.

    Each entry of a noise vector is one of `values`. Two halves suffice for sums over all noise vectors.
    """
    return bool(values.size ** (n_weights - n_weights // 2) <= MOST_STATES)


@inner
def _half_states(w: FloatArray, values: FloatArray, shares: FloatArray) -> Half:
    """Return all noise vectors xi on the weights w, by ascending w.xi: order, sums, probability, totals.

    Each xi_k is one of `values` with the probabilities `shares`. `order` has the vectors' codes (digit k in
    base values.size is the index of the value of xi_k), `sums` has w.xi and `probability` the vectors'
    probabilities. Row p of `totals` sums the probability times 1, w.xi and (w.xi)^2 over the vectors from p
    on.
    """
    sums, probability = np.zeros(1), np.ones(1)
    for weight in w:
        sums = (weight * values.reshape(-1, 1) + sums).ravel()
        probability = (shares.reshape(-1, 1) * probability).ravel()
    order = ascending(sums)
    sums, probability = sums[order], probability[order]
    totals = np.zeros((sums.size + 1, 3))
    for p in range(sums.size - 1, -1, -1):
        part = probability[p]
        for power in range(3):
            totals[p, power] = totals[p + 1, power] + part
            part *= sums[p]
    return order, sums, probability, totals


@inner
def _means_over_halves(
    g: float, half: Half, other: Half, values: FloatArray, products: FloatArray
) -> tuple[float, float, float]:
    """Return P(y > 0), E ReLU(y), E ReLU(y)^2 of y = g + w.xi, by a sum over all noise vectors xi.

    `half` and `other` are results of `_half_states`, with the same `values`, for the two halves of the
    weights. To `products`, (2, weights of `half`), are added E [y > 0] xi_k in row 0 and E ReLU(y) xi_k in
    row 1.
    """
    order, sums, probability, _ = half
    _, others, _, totals = other
    size, first = sums.size, others.size
    on, mean, second = 0.0, 0.0, 0.0
    if g + sums[-1] + others[-1] <= 0.0:  # off for all noise
        return on, mean, second
    by_code = np.empty((2, size))
    for p in range(size):
        y = g + sums[p]
        while first > 0 and y + others[first - 1] > 0.0:
            first -= 1
        share, first_moment, second_moment = totals[first, 0], totals[first, 1], totals[first, 2]
        ramp = max(y * share + first_moment, 0.0)
        by_code[0, order[p]] = probability[p] * share
        by_code[1, order[p]] = probability[p] * ramp
        on += probability[p] * share
        mean += probability[p] * ramp
        second += probability[p] * max(y * (y * share + 2.0 * first_moment) + second_moment, 0.0)
    for k in range(products.shape[1] - 1, -1, -1):  # sum over the last digit that is left
        size //= values.size
        for kind in range(2):
            for code in range(size):
                total = 0.0
                for digit in range(values.size):
                    part = by_code[kind, digit * size + code]
                    products[kind, k] += values[digit] * part
                    total += part
                by_code[kind, code] = total
    return on, mean, second


@kernel
def means_by_states(g: FloatArray, w: FloatArray, values: FloatArray, shares: FloatArray) -> Means:
    """Return on, mean, second, on_noise, mean_noise of ReLU(g + w.xi) by a sum over all states of the noise.

    With y = g + w.xi they are P(y > 0), E ReLU(y), E ReLU(y)^2, (g.size,), E [y > 0] xi_j and E ReLU(y) xi_j,
    (g.size, w.size). Each xi_k is one of `values` with the probabilities `shares`; w may have zeros.
    """
    means, products = np.empty((3, g.size)), np.zeros((2, g.size, w.size))
    used = np.flatnonzero(w)
    middle = used.size // 2
    left, right = (
        _half_states(w[used[:middle]], values, shares),
        _half_states(w[used[middle:]], values, shares),
    )
    for i in range(g.size):
        check_interrupt(True)
        sums = np.zeros((2, used.size))
        _means_over_halves(g[i], left, right, values, sums[:, :middle])
        means[0, i], means[1, i], means[2, i] = _means_over_halves(
            g[i], right, left, values, sums[:, middle:]
        )
        for k in range(used.size):  # Numba compiles slices that are assigned to for seconds
            products[0, i, used[k]], products[1, i, used[k]] = sums[0, k], sums[1, k]
    return means[0], means[1], means[2], products[0], products[1]


# --- Everything else: invert the characteristic function ----------------------------------------------------


def _characteristic(x: FloatArray, name: str, ratio: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the characteristic function f of a noise at x >= 0, f', and a bound on |f| that falls with x.

    `name` is the noise's law, with variance 1 and the fourth moment `ratio`.
    """
    if name == "laplace":
        value = 1 / (1 + x * x / 2)
        return value, -x * value * value, value
    if name == "uniform":
        y = math.sqrt(3) * x
        value = np.sinc(y / math.pi)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(y < 1e-2, -y / 3 + y**3 / 30 - y**5 / 840, (np.cos(y) - value) / y)
            return value, math.sqrt(3) * slope, np.minimum(1.0, 1 / y)
    level = math.sqrt(ratio)
    value = 1 - (1 - np.cos(level * x)) / ratio
    return value, -np.sin(level * x) / level, np.ones_like(x)


def _products_without_each(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the product of each row of `values`, (n, m), and the products without one entry each, (n, m)."""
    prefix = np.ones_like(values)
    prefix[:, 1:] = np.cumprod(values, axis=1)[:, :-1]
    suffix = np.ones_like(values)
    suffix[:, :-1] = np.cumprod(values[:, ::-1], axis=1)[:, -2::-1]
    return prefix[:, -1] * values[:, -1], prefix * suffix


def _invert_transform(z: FloatArray, w: FloatArray, name: str, ratio: float) -> Means:
    """Return on, mean, second, on_noise and mean_noise of ReLU(z + w.xi), from characteristic functions.

    With y = z + w.xi they are P(y > 0), E ReLU(y), E ReLU(y)^2, (z.size,), E [y > 0] xi_j and E ReLU(y) xi_j,
    (z.size, w.size); w has length 1; the noise xi has the law `name`, unit variance and the fourth moment
    `ratio`. The Fourier integral of the difference of characteristic functions is added to the means for
    normal noise.

    The trapezoidal rule with step pi/reach is exact up to the probability 1e-16 beyond `reach`, so that only
    the truncation of the sum matters.
    """
    size: FloatArray = np.abs(w)
    largest = float(size.max())
    reach = _TAIL
    if name == "laplace":
        reach += 40 * largest / math.sqrt(2)
    if name == "three-point" and ratio > 3:  # else no moment exceeds the normal one's, and no tail either
        reach += 25 * math.sqrt(ratio) * largest  # Bernstein's inequality at e^-37
    inside = np.flatnonzero(np.abs(z) < reach)
    out = _edgeworth_means(z, w, 0.0)
    x = z[inside]
    step = math.pi / reach
    sums = [np.zeros(x.size) for _ in range(3)] + [np.zeros((x.size, w.size)) for _ in range(2)]
    for start in range(1, _NODES, _BLOCK):
        t: FloatArray = step * np.arange(float(start), float(start + _BLOCK))
        value, slope, limit = _characteristic(t[:, None] * size, name, ratio)
        product, rest = _products_without_each(value)
        normal = np.exp(-0.5 * t * t)
        gap = normal - product
        # Derivative of the gap in each weight, with the weight's sign.
        slopes = (-w * (t * t * normal)[:, None]) - np.sign(w) * t[:, None] * slope * rest
        sine, cosine = np.sin(np.outer(x, t)), np.cos(np.outer(x, t))
        sums[0] -= sine @ (gap / t)
        sums[1] += cosine @ (gap / t**2)
        sums[2] += 2 * (sine @ (gap / t**3))
        sums[3] += cosine @ (slopes / t[:, None] ** 2)
        sums[4] += sine @ (slopes / t[:, None] ** 3)
        if np.prod(limit[-1]) < 1e-12 * t[-1]:
            break
    for part, total in zip(out, sums, strict=True):
        part[inside] += total * (step / math.pi)
    return out
