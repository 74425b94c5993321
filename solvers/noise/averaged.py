"""Gradient of the noise-averaged loss, fast enough for many thousand steps.

:func:`superposition.theory.noise.noise_averaged_gradient` says what it is, for every noise. Here are kernels
for normal noise and for noise on points. The output j sees W_i.W_j + W_j.xi. With normal noise that is
normal. With noise on points (bipolar, three-point) W_j.xi has exponentially many atoms, but it is a sum of
two halves: each half is listed and sorted, with sums of probabilities and moments from the top, and where the
other half crosses the threshold of the ReLU two pointers find.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...theory.arguments import number
from ...theory.kernels import kernel
from ...theory.noise import noise_averaged_gradient
from ...theory.noise.moments import family, three_point
from .descent import LARGEST

__all__ = ["Gradient", "gradient_for"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

Gradient = Callable[[FloatArray, FloatArray], None]
"""Writes the gradient at the weights, its first argument, into the second."""

MOST_ATOMS = 2**20  # of half an encoding, some 50 MB: 40 bipolar or 24 three-point weights


@kernel
def _overlap(W: FloatArray, i: int, j: int) -> float:
    total = 0.0
    for k in range(W.shape[1]):
        total += W[i, k] * W[j, k]
    return total


@kernel
def _normal_slopes(g: float, s: float, own: bool) -> tuple[float, float]:
    """Return the derivatives of E f(g + s Z) by g and by s^2; f is ReLU^2, or (ReLU - 1)^2 if `own`."""
    if s == 0.0:
        above, density = (1.0 if g > 0.0 else 0.0), 0.0
    else:
        above = 0.5 * math.erfc(-g / s * math.sqrt(0.5))
        density = math.exp(-0.5 * (g / s) ** 2) / math.sqrt(2.0 * math.pi)
    slope = 2.0 * (g * above + s * density)
    if own:
        return slope - 2.0 * above, above - (density / s if s > 0.0 else 0.0)
    return slope, above


@kernel
def _normal_gradient(W: FloatArray, std: float, G: FloatArray) -> None:
    n, m = W.shape
    G[:] = 0.0
    for j in range(n):
        s = std * math.sqrt(_overlap(W, j, j))
        for i in range(n):
            slope, by_variance = _normal_slopes(_overlap(W, i, j), s, i == j)
            for k in range(m):
                G[i, k] += slope * W[j, k]
                G[j, k] += slope * W[i, k] + 2.0 * std * std * by_variance * W[j, k]


@kernel
def _half(
    w: FloatArray, values: FloatArray, shares: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """List the atoms of w.xi in ascending order: codes, positions, probabilities, sums from the top.

    Digit k of a code, in base values.size, is the index of xi_k. Row p of the sums holds the totals of
    probability, and of probability times x, over the atoms from p on.
    """
    base = values.size
    x, share = np.zeros(base**w.size), np.ones(base**w.size)
    size = 1
    for k in range(w.size):
        for digit in range(base - 1, -1, -1):  # the block of digit 0 is what the others are made of
            for p in range(size):
                x[digit * size + p] = x[p] + values[digit] * w[k]
                share[digit * size + p] = share[p] * shares[digit]
        size *= base
    order = np.argsort(x)
    x, share = x[order], share[order]
    sums = np.zeros((size + 1, 2))
    for p in range(size - 1, -1, -1):
        sums[p, 0] = sums[p + 1, 0] + share[p]
        sums[p, 1] = sums[p + 1, 1] + share[p] * x[p]
    return order, x, share, sums


@kernel
def _cross(
    g: float,
    own: bool,
    x: FloatArray,
    share: FloatArray,
    others: FloatArray,
    sums: FloatArray,
    out: FloatArray,
) -> float:
    """Add to out[p] the slope f'(g + x + x') averaged over x', times the probability of atom p of x.

    Return the total. `others` are the atoms x' and `sums` their sums.
    """
    total = 0.0
    q = others.size
    for p in range(x.size):
        y = g + x[p]
        while q > 0 and y + others[q - 1] > 0.0:
            q -= 1
        slope = 2.0 * share[p] * ((y - 1.0 if own else y) * sums[q, 0] + sums[q, 1])
        out[p] += slope
        total += slope
    return total


@kernel
def _expand(
    weights: IntArray, order: IntArray, slopes: FloatArray, values: FloatArray, row: FloatArray
) -> None:
    """Add E[slope xi_k] to the row, for the weights of one half."""
    by_code = np.empty(order.size)
    by_code[order] = slopes
    block = 1
    for k in weights:
        for first in range(0, order.size, block * values.size):
            for digit in range(values.size):
                start = first + digit * block
                for code in range(start, start + block):
                    row[k] += values[digit] * by_code[code]
        block *= values.size


@kernel
def _points_gradient(W: FloatArray, values: FloatArray, shares: FloatArray, G: FloatArray) -> None:
    n, m = W.shape
    variance = float(np.sum(shares * values * values))
    G[:] = 0.0
    for j in range(n):
        reach = float(np.max(values) * np.sum(np.abs(W[j])))
        alive = np.flatnonzero(W[j])
        left, right = alive[: alive.size // 2], alive[alive.size // 2 :]
        order, x, share, sums = _half(W[j][left], values, shares)
        order_, x_, share_, sums_ = _half(W[j][right], values, shares)
        slopes, slopes_ = np.zeros(x.size), np.zeros(x_.size)
        for i in range(n):
            own = i == j
            g = _overlap(W, i, j)
            slope = 0.0  # if off for all noise
            if g > reach:  # on for all noise: a polynomial
                slope = 2.0 * (g - 1.0 if own else g)
                for k in range(m):
                    G[j, k] += 2.0 * variance * W[j, k]
            elif g > -reach:
                slope = _cross(g, own, x, share, x_, sums_, slopes)
                _cross(g, own, x_, share_, x, sums, slopes_)
            for k in range(m):
                G[i, k] += slope * W[j, k]
                G[j, k] += slope * W[i, k]
        _expand(left, order, slopes, values, G[j])
        _expand(right, order_, slopes_, values, G[j])


def gradient_for(noise: str, noise_std: float, excess_kurtosis: float | None, n_hidden: int) -> Gradient:
    """Check what describes the noise; return the fastest gradient there is."""
    name, std, ratio = family(noise, number("noise_std", noise_std, 0.0, LARGEST), excess_kurtosis)
    if name == "normal":
        return lambda W, G: _normal_gradient(W, std, G)
    if name in ("bipolar", "three-point"):
        size, share = three_point(ratio - 3.0)
        values, shares = np.array([-size, 0.0, size]), np.array([0.5 * share, 1.0 - share, 0.5 * share])
        likely = shares > 0.0
        values, shares = std * values[likely], shares[likely]
        if values.size ** (n_hidden - n_hidden // 2) <= MOST_ATOMS:
            return lambda W, G: _points_gradient(W, values, shares, G)

    def by_theory(W: FloatArray, G: FloatArray) -> None:
        G[:] = noise_averaged_gradient(W, name, std, excess_kurtosis=excess_kurtosis)

    return by_theory
