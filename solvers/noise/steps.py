"""Kernels of noisy gradient descent: a stream of random numbers for each run, noise, steps, summaries.

The stream is NumPy's SFC64, continued inside compiled code, and normal and Laplace numbers come from NumPy's
own algorithms, so that NumPy itself can say what the numbers should be (the tests do so). A run reads
its own stream only: results cannot depend on which thread computes it.
"""

import math

import numpy as np
import numpy.typing as npt
from numba import prange

from ...theory.kernels import kernel, parallel_kernel

__all__ = [
    "BIPOLAR",
    "DIVERGED",
    "DONE",
    "LAPLACE",
    "LONGEST",
    "NORMAL",
    "THREE_POINT",
    "UNIFORM",
    "fill",
    "loss",
    "run_all",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

BIPOLAR, UNIFORM, NORMAL, LAPLACE, THREE_POINT = range(5)
DONE, DIVERGED = range(2)

# The squared length of an encoding at which a run stops. The cubes of a step and the fourth powers of the
# summaries are still far from overflow there.
LONGEST = 1e60

# Without a type of their own Numba would turn a mixture of signed and unsigned integers into floats.
_U0, _U1, _U3, _U8, _U9 = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(8), np.uint64(9)
_U11, _U24, _U40 = np.uint64(11), np.uint64(24), np.uint64(40)
_LOW8, _LOW52 = np.uint64(2**8 - 1), np.uint64(2**52 - 1)

_TAIL = 3.6541528853610088  # where the tail begins if 256 layers have equal areas


def _ziggurat() -> tuple[Words, FloatArray, FloatArray]:
    """Return thresholds, widths and heights of 256 layers of equal area under exp(-x^2/2).

    Layer 0 is the lowest, with the tail; 1 the uppermost and narrowest, 255 the widest above the tail.
    Marsaglia and Tsang, J. Stat. Softw. 5 (2000) 8, with the 52 bits that NumPy has.
    """
    foot = math.exp(-0.5 * _TAIL**2)
    area = _TAIL * foot + math.sqrt(0.5 * math.pi) * math.erfc(_TAIL / math.sqrt(2.0))
    edges, heights = np.zeros(257), np.ones(257)
    edges[256], edges[255], heights[255] = area / foot, _TAIL, foot
    for i in range(254, 0, -1):
        heights[i] = heights[i + 1] + area / edges[i + 1]
        edges[i] = math.sqrt(-2.0 * math.log(heights[i]))
    widths = np.r_[edges[256], edges[1:256]]
    inner = np.r_[edges[255], edges[:255]]
    return (inner / widths * 2.0**52).astype(np.uint64), widths / 2.0**52, heights[:256]


_THRESHOLDS, _WIDTHS, _HEIGHTS = _ziggurat()


@kernel
def _word(state: Words) -> np.uint64:
    """Return the next 64 bits of SFC64."""
    out = state[0] + state[1] + state[3]
    state[3] += _U1
    state[0] = state[1] ^ (state[1] >> _U11)
    state[1] = state[2] + (state[2] << _U3)
    state[2] = ((state[2] << _U24) | (state[2] >> _U40)) + out
    return np.uint64(out)


@kernel
def _unit(state: Words) -> float:
    """Return a number in [0, 1), a multiple of 2^-53."""
    return float(np.float64(_word(state) >> _U11) * 2.0**-53)


@kernel
def _normal(state: Words) -> float:
    """Return a standard normal number by the ziggurat."""
    while True:
        word = _word(state)
        layer = word & _LOW8
        sign = -1.0 if (word >> _U8) & _U1 else 1.0
        whole = (word >> _U9) & _LOW52
        x = float(np.float64(whole) * _WIDTHS[layer])
        if whole < _THRESHOLDS[layer]:
            return sign * x
        if layer == _U0:
            while True:
                x = -math.log1p(-_unit(state)) / _TAIL
                y = -math.log1p(-_unit(state))
                if y + y > x * x:
                    return -(_TAIL + x) if (whole >> _U8) & _U1 else _TAIL + x
        else:
            low, high = _HEIGHTS[layer], _HEIGHTS[layer - _U1]
            if (high - low) * _unit(state) + low < math.exp(-0.5 * x * x):
                return sign * x


@kernel
def _laplace(state: Words) -> float:
    """Return a Laplace number of variance 1."""
    while True:
        u = _unit(state)
        if u >= 0.5:
            return -math.log(2.0 - u - u) * math.sqrt(0.5)
        if u > 0.0:
            return math.log(u + u) * math.sqrt(0.5)


@kernel
def _other(state: Words, kind: int, atom: float, share: float) -> float:
    """Return a number of variance 1 that is not bipolar; +-atom with probability share if three-point."""
    if kind == UNIFORM:
        return math.sqrt(3.0) * (2.0 * _unit(state) - 1.0)
    if kind == NORMAL:
        return _normal(state)
    if kind == LAPLACE:
        return _laplace(state)
    u = _unit(state)
    if u >= share:
        return 0.0
    return atom if u < 0.5 * share else -atom


@kernel
def fill(state: Words, kind: int, kurtosis: float, std: float, out: FloatArray) -> None:
    """Fill a matrix with independent noise of the given kind and standard deviation."""
    rows, columns = out.shape
    if kind == BIPOLAR:
        bits, left = _U0, 0
        for i in range(rows):
            for k in range(columns):
                if left == 0:
                    bits, left = _word(state), 64
                out[i, k] = std if bits & _U1 else -std
                bits >>= _U1
                left -= 1
    else:
        atom, share = math.sqrt(3.0 + kurtosis), 1.0 / (3.0 + kurtosis)
        for i in range(rows):
            for k in range(columns):
                out[i, k] = std * _other(state, kind, atom, share)


@kernel
def _outputs(h: FloatArray, T: FloatArray, a: FloatArray) -> None:
    """Write h T into a. Four sums side by side make one vector instruction and hide each other's latency."""
    m, n = T.shape
    whole = n // 4 * 4
    for j in range(0, whole, 4):
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        for k in range(m):
            a0 += h[k] * T[k, j]
            a1 += h[k] * T[k, j + 1]
            a2 += h[k] * T[k, j + 2]
            a3 += h[k] * T[k, j + 3]
        a[j], a[j + 1], a[j + 2], a[j + 3] = a0, a1, a2, a3
    for j in range(whole, n):
        a0 = 0.0
        for k in range(m):
            a0 += h[k] * T[k, j]
        a[j] = a0


@kernel
def _add_gradient(
    W: FloatArray, T: FloatArray, xi: FloatArray, share: float, h: FloatArray, a: FloatArray, G: FloatArray
) -> None:
    """Add to G `share` times the gradient of sum_i |ReLU(W (W_i + xi_i)) - e_i|^2; T is W transposed.

    With one row of noise all inputs have the same; h and a are room for hidden layer and outputs.
    """
    n, m = W.shape
    for i in range(n):
        row = min(i, xi.shape[0] - 1)
        for k in range(m):
            h[k] = W[i, k] + xi[row, k]
        _outputs(h, T, a)
        for j in range(n):
            if a[j] > 0.0:
                slope = 2.0 * share * (a[j] - 1.0 if j == i else a[j])
                for k in range(m):
                    G[j, k] += slope * h[k]  # as decoder
                for k in range(m):
                    G[i, k] += slope * W[j, k]  # as encoder


@kernel
def loss(W: FloatArray, lam: float) -> float:
    """Return the loss without noise, sum_i (1 - |W_i|^2)^2 + sum_{j != i} ReLU(W_i.W_j)^2 + lam |W_i|_1."""
    n, m = W.shape
    total = 0.0
    for i in range(n):
        for j in range(i + 1):
            a = 0.0
            for k in range(m):
                a += W[i, k] * W[j, k]
            if j == i:
                total += (1.0 - a) ** 2
            elif a > 0.0:
                total += 2.0 * a * a
        for k in range(m):
            total += lam * abs(W[i, k])
    return total


@kernel
def _longest(W: FloatArray) -> float:
    """Return the largest squared length of a row, infinity if that is not a number."""
    top = 0.0
    for i in range(W.shape[0]):
        size = 0.0
        for k in range(W.shape[1]):
            size += W[i, k] * W[i, k]
        if not size <= top:
            top = size if size > top else math.inf
    return top


@kernel
def _record(W: FloatArray, fourth: FloatArray, length: FloatArray) -> None:
    for i in range(W.shape[0]):
        second, power = 0.0, 0.0
        for k in range(W.shape[1]):
            square = W[i, k] * W[i, k]
            second += square
            power += square * square
        length[i] = math.sqrt(second)
        fourth[i] = power


@kernel
def _run(
    W: FloatArray,
    state: Words,
    kind: int,
    kurtosis: float,
    std: float,
    rate: float,
    lam: float,
    rows: int,
    draws: int,
    stops: IntArray,
    fourth: FloatArray,
    length: FloatArray,
    losses: FloatArray,
    path: FloatArray,
) -> tuple[int, int]:
    """Descend in place to the last of the stops; return the steps that were made and a code."""
    n, m = W.shape
    T, G, xi = np.empty((m, n)), np.empty((n, m)), np.zeros((rows, m))
    h, a = np.empty(m), np.empty(n)
    done = 0
    if not _longest(W) <= LONGEST:
        return done, DIVERGED
    for stop in range(stops.size):
        while done < stops[stop]:
            for i in range(n):
                for k in range(m):
                    T[k, i] = W[i, k]
                    G[i, k] = lam * np.sign(W[i, k])
            for _ in range(draws):
                if std > 0.0:
                    fill(state, kind, kurtosis, std, xi)
                _add_gradient(W, T, xi, 1.0 / draws, h, a, G)
            for i in range(n):
                for k in range(m):
                    G[i, k] = W[i, k] - rate * G[i, k]
            if not _longest(G) <= LONGEST:
                return done, DIVERGED
            W[:] = G
            done += 1
        _record(W, fourth[stop], length[stop])
        losses[stop] = loss(W, lam)
        if path.shape[0] > 0:
            path[stop] = W
    return done, DONE


@parallel_kernel
def run_all(
    W: FloatArray,
    states: Words,
    kind: int,
    kurtosis: FloatArray,
    std: FloatArray,
    rate: FloatArray,
    lam: FloatArray,
    rows: int,
    draws: int,
    stops: IntArray,
    fourth: FloatArray,
    length: FloatArray,
    losses: FloatArray,
    path: FloatArray,
    done: IntArray,
    codes: IntArray,
) -> None:
    """Descend from all W[run] in place, summaries into the arrays that follow the stops."""
    for run in prange(W.shape[0]):
        done[run], codes[run] = _run(
            W[run], states[run], kind, kurtosis[run], std[run], rate[run], lam[run], rows, draws, stops,
            fourth[run], length[run], losses[run], path[run],
        )  # fmt: skip
