r"""Means over the noise of one output's ReLU(g + W.xi) and its square: exact, normal, and between the two.

All is done for a projection of unit variance: the overlap g and the weights are divided by the standard
deviation :math:`\sigma |W|_2` of W.xi first.
"""

import math

import numpy as np
import numpy.typing as npt

from ..arguments import FloatArray, choice, real, vector
from ..results import result
from ..special import ramp_moments
from .moments import family

__all__ = ["METHODS", "ReluMoments", "relu_moments"]

METHODS = ("exact", "edgeworth", "normal")
_HALF = 2**16  # states of half of the weights that take a few hundredths of a second
_FAR = 60.0  # times sqrt(ratio m), in standard deviations: no law reaches further with probability 1e-80
_TAIL = 8.6  # standard deviations beyond which a normal variable has probability 1e-17
_NODES, _BLOCK = 2**15, 2**11


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
    """E [g + W.xi > 0] xi_j, half of what the weights do to `mean`, shape (..., m), that of g in front."""
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
    r"""Mean of ReLU(g + W.xi), of its square, and of its products with the noise.

    Parameters
    ----------
    g : array_like of float
        Overlaps: what reaches the output without noise.
    w : array_like of float, shape (m,)
        The output's encoding.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Noise on the hidden neurons, independent on each.
    noise_std : float
        Its standard deviation, not negative.
    excess_kurtosis : float, optional
        For ``"three-point"`` noise only.
    method : {"exact", "edgeworth", "normal"}, optional
        ``"normal"`` takes normal noise of the same variance; ``"edgeworth"`` adds the first order of the
        excess kurtosis times p = |W|_4^4/|W|_2^4, and leaves out terms of order p^2.

    Returns
    -------
    ReluMoments

    Raises
    ------
    ValueError
        If an argument is out of range, a name is another, or a result too large for a float.

    Notes
    -----
    Absolute errors of ``"exact"``, in units of the standard deviation of W.xi: bipolar noise on up to 32
    nonzero weights and three-point noise on up to 20 is summed over all states (two sorted halves), to
    1e-14. All else inverts the characteristic function by a sum that stops at t = T: `mean`, `second` and
    `mean_noise` to 2e-9 for uniform and Laplace noise. For more discrete weights than are listed the
    characteristic function may come back to 1, and the bounds are 1/(pi T) for `mean` and `mean_noise`,
    1/(pi T^2) for `second`, with T = 12000: 3e-5 and 3e-9, met only by nearly equal weights. (T is smaller
    for three-point noise of positive excess kurtosis.) `on` is a step function for discrete noise and
    converges slowly where g is a step. Normal noise is closed-form; below 0 its relative error grows like
    3e-15 (g/spread)^2.

    References
    ----------
    Model of Lecomte et al. (2024), §3.1.

    Examples
    --------
    >>> moments = relu_moments(-0.1, [0.6, 0.8], "bipolar", 0.1)
    >>> round(float(moments.second), 12), round(float(moments.mean), 12)
    (0.0004, 0.01)
    """
    overlap, weights = real("g", g), real("w", vector("w", w), -1e150, 1e150)
    name, std, ratio = family(noise, noise_std, excess_kurtosis)
    choice("method", method, METHODS)
    flat = overlap.ravel()
    size = float(np.max(np.abs(weights)))
    with np.errstate(over="ignore", invalid="ignore"):
        norm = math.sqrt(float(np.sum((weights / size) ** 2))) if size else 1.0
        spread = std * size * norm
        # Where no noise changes the sign of the output. The table is for the rest.
        gate = np.where(flat > 0, 1.0, 0.0)
        table = [gate, gate * flat, gate * (flat**2 + spread**2), np.zeros((flat.size, weights.size))]
        table.append(std * np.outer(gate, std * weights))
        near = np.flatnonzero(np.abs(flat) <= min(_FAR * math.sqrt(ratio * weights.size), 1e10) * spread)
        if spread > 0 and near.size:
            z, unit = flat[near] / spread, weights / size / norm
            if method != "exact" or name == "normal":
                found = _series(z, unit, ratio - 3 if method == "edgeworth" else 0.0)
            else:
                found = _exact(z, unit, name, ratio)
            for part, some, scale in zip(
                table, found, (1.0, spread, spread**2, std, std * spread), strict=True
            ):
                part[near] = some * scale
    if not all(np.all(np.isfinite(part)) for part in table):
        raise ValueError(f"`g`, `w` and `noise_std` must have finite moments; got {size:g}, {std:g}.")
    shapes = [overlap.shape] * 3 + [(*overlap.shape, weights.size)] * 2
    return ReluMoments(*(part.reshape(shape) for part, shape in zip(table, shapes, strict=True)))


Table = list[FloatArray]


def _series(z: FloatArray, w: FloatArray, kurtosis: float) -> Table:
    """Evaluate the closed form for normal noise and the first order in the kurtosis, at unit variance."""
    density = np.exp(-0.5 * np.minimum(np.abs(z), 40.0) ** 2) / math.sqrt(2 * math.pi)
    near = np.clip(z, -40.0, 40.0)  # beyond, the density is 0
    # Derivatives of the second moment in z of order 4, 5, 6, 7: Hermite polynomials times the density.
    d4, d5 = -2 * near * density, 2 * (near**2 - 1) * density
    d6 = -2 * (near**3 - 3 * near) * density
    d7 = 2 * (near**4 - 6 * near**2 + 3) * density
    on, mean, second = np.moveaxis(ramp_moments(z, 2), -1, 0)
    fourth = kurtosis * float(np.sum(w**4))
    cubes = kurtosis * w**3
    on_noise = np.outer(0.5 * (density + fourth * d7 / 48) * 2, w) + np.outer(d5 / 12, cubes)
    mean_noise = np.outer(on + fourth * d6 / 48, w) + np.outer(d4 / 12, cubes)
    return [on + fourth * d6 / 48, mean + fourth * d5 / 48, second + fourth * d4 / 24, on_noise, mean_noise]


def _exact(z: FloatArray, w: FloatArray, name: str, ratio: float) -> Table:
    active = np.flatnonzero(w)
    values = {"bipolar": 2, "three-point": 2 if ratio == 1 else 3}.get(name)
    if values is not None and values ** -(-active.size // 2) <= _HALF:
        part = _listed(z, w[active], ratio, values)
    else:
        part = _inverted(z, w[active], name, ratio)
    whole = [np.zeros((z.size, w.size)) for _ in range(2)]
    for full, some in zip(whole, part[3:], strict=True):
        full[:, active] = some
    return [*part[:3], *whole]


# --- Discrete noise: list the states ----------------------------------------------------------------------


def _half(w: FloatArray, ratio: float, values: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return all states of the noise on these weights, sorted by their sums; the sums; probabilities."""
    level = math.sqrt(ratio)
    points = np.array([-level, level]) if values == 2 else np.array([-level, 0.0, level])
    weights = np.full(2, 0.5) if values == 2 else np.array([0.5 / ratio, 1 - 1 / ratio, 0.5 / ratio])
    states = np.zeros((1, 0))
    probability = np.ones(1)
    for _ in w:
        fresh = np.repeat(points, len(states))[:, None]
        states = np.hstack([np.tile(states, (values, 1)), fresh])
        probability = (weights[:, None] * probability).ravel()
    sums = states @ w
    order = np.argsort(sums, kind="stable")
    return states[order], sums[order], probability[order]


def _listed(z: FloatArray, w: FloatArray, ratio: float, values: int) -> Table:
    """Sum over all states: for each of one half, those of the other that switch the ReLU on are a tail."""
    middle = w.size // 2
    halves = [_half(part, ratio, values) for part in (w[:middle], w[middle:])]
    tails = []
    for _, sums, probability in halves:
        terms = np.stack([probability, probability * sums, probability * sums**2])
        tails.append(np.hstack([np.cumsum(terms[:, ::-1], axis=1)[:, ::-1], np.zeros((3, 1))]))
    out = [np.zeros(z.size) for _ in range(3)] + [np.zeros((z.size, w.size)) for _ in range(2)]
    for i, overlap in enumerate(z):
        for h, columns in ((0, slice(0, middle)), (1, slice(middle, None))):
            states, sums, probability = halves[h]
            start = overlap + sums
            first = np.searchsorted(halves[1 - h][1], -start, side="right")
            on, along, square = tails[1 - h][:, first]
            mean = np.maximum(start * on + along, 0.0)
            out[3][i, columns] = (probability * on) @ states
            out[4][i, columns] = (probability * mean) @ states
            if h:
                out[0][i] = probability @ on
                out[1][i] = probability @ mean
                out[2][i] = probability @ np.maximum(start * (start * on + 2 * along) + square, 0.0)
    return out


# --- Everything else: invert the characteristic function ----------------------------------------------------


def _characteristic(x: FloatArray, name: str, ratio: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Characteristic function of the unit noise at x >= 0, its derivative, a falling bound of its size."""
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


def _rests(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Product over the last axis, and the same without each of its entries (which may be 0)."""
    before = np.ones_like(values)
    before[:, 1:] = np.cumprod(values, axis=1)[:, :-1]
    after = np.ones_like(values)
    after[:, :-1] = np.cumprod(values[:, ::-1], axis=1)[:, -2::-1]
    return before[:, -1] * values[:, -1], before * after


def _inverted(z: FloatArray, w: FloatArray, name: str, ratio: float) -> Table:
    """Add to the normal closed form the Fourier integral of the difference of characteristic functions.

    The trapezoidal rule with a step pi/reach repeats that difference with the period 2 reach, and is exact
    up to what lies beyond reach, 1e-16. So the point where the sum stops is the only error.
    """
    size: FloatArray = np.abs(w)
    largest = float(size.max())
    reach = _TAIL
    if name == "laplace":
        reach += 40 * largest / math.sqrt(2)
    if name == "three-point" and ratio > 3:  # else no moment exceeds the normal one's, and no tail either
        reach += 25 * math.sqrt(ratio) * largest  # Bernstein's inequality at e^-37
    inside = np.flatnonzero(np.abs(z) < reach)
    out = _series(z, w, 0.0)
    x = z[inside]
    step = math.pi / reach
    sums = [np.zeros(x.size) for _ in range(3)] + [np.zeros((x.size, w.size)) for _ in range(2)]
    for start in range(1, _NODES, _BLOCK):
        t: FloatArray = step * np.arange(float(start), float(start + _BLOCK))
        value, slope, limit = _characteristic(t[:, None] * size, name, ratio)
        product, rest = _rests(value)
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
