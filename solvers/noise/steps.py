"""Kernels of noisy gradient descent, with the random numbers of a NumPy Generator for each run."""

import math

import numpy as np

from ...theory.compile.kernels import check_interrupt, inner, kernel
from ...theory.validation import FloatArray

__all__ = ["KINDS", "LONGEST", "fill_noise", "largest_squared_length", "run_steps"]


BIPOLAR, UNIFORM, NORMAL, LAPLACE, THREE_POINT = range(5)
KINDS = dict(zip(("bipolar", "uniform", "normal", "laplace", "three-point"), range(5), strict=True))

# The squared length of an encoding at which a run stops. The cubes of a step and the fourth powers of the
# summaries are still far from overflow there.
LONGEST = 1e60

_SIGNS = 32  # that one uniform number gives


@inner
def _fill_signs(rng: np.random.Generator, std: float, out: FloatArray) -> None:
    """Fill `out` with +-`std` at random signs; one random number gives many signs."""
    for first in range(0, out.size, _SIGNS):
        bits = np.int64(rng.random() * 2.0**_SIGNS)
        for k in range(min(_SIGNS, out.size - first)):
            out[first + k] = std if (bits >> k) & 1 else -std


@kernel
def fill_noise(rng: np.random.Generator, kind: int, kurtosis: float, std: float, out: FloatArray) -> None:
    """Fill `out` with independent symmetric noise of standard deviation `std`.

    `kind` is 0 for bipolar noise, 1 uniform, 2 normal, 3 Laplace, 4 three-point (`KINDS`); `kurtosis` is the
    excess kurtosis of three-point noise, and other kinds do not use it.
    """
    flat = out.reshape(-1)
    if kind == BIPOLAR:
        _fill_signs(rng, std, flat)
    elif kind == UNIFORM:
        for k in range(flat.size):
            flat[k] = std * math.sqrt(3.0) * (2.0 * rng.random() - 1.0)
    elif kind == NORMAL:
        for k in range(flat.size):
            flat[k] = std * rng.standard_normal()
    elif kind == LAPLACE:
        for k in range(flat.size):
            flat[k] = std * rng.laplace(0.0, math.sqrt(0.5))
    else:
        atom, share = std * math.sqrt(3.0 + kurtosis), 1.0 / (3.0 + kurtosis)
        for k in range(flat.size):
            u = rng.random()
            flat[k] = 0.0 if u >= share else atom if u < 0.5 * share else -atom


@inner
def _multiply_row(h: FloatArray, T: FloatArray, a: FloatArray) -> None:
    """Write the product h T of a vector h and a matrix T to a."""
    m, n = T.shape
    unrolled = n // 4 * 4
    for j in range(0, unrolled, 4):
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        for k in range(m):
            a0 += h[k] * T[k, j]
            a1 += h[k] * T[k, j + 1]
            a2 += h[k] * T[k, j + 2]
            a3 += h[k] * T[k, j + 3]
        a[j], a[j + 1], a[j + 2], a[j + 3] = a0, a1, a2, a3
    for j in range(unrolled, n):
        a0 = 0.0
        for k in range(m):
            a0 += h[k] * T[k, j]
        a[j] = a0


@inner
def _add_gradient(
    W: FloatArray, T: FloatArray, xi: FloatArray, share: float, h: FloatArray, a: FloatArray, G: FloatArray
) -> None:
    """Add to G `share` times the gradient of sum_i |ReLU(W (W_i + xi_i)) - e_i|^2; T is W transposed.

    `xi` is the noise in the hidden layer, one row for each input e_i or one for all. h and a are scratch, for
    the hidden activations and the output pre-activations of an input.
    """
    n, m = W.shape
    for i in range(n):
        row = min(i, xi.shape[0] - 1)  # one row of noise is that of all inputs
        for k in range(m):
            h[k] = W[i, k] + xi[row, k]
        _multiply_row(h, T, a)
        for j in range(n):
            if a[j] > 0.0:
                slope = 2.0 * share * (a[j] - 1.0 if j == i else a[j])
                for k in range(m):
                    G[j, k] += slope * h[k]  # as decoder
                for k in range(m):
                    G[i, k] += slope * W[j, k]  # as encoder


@kernel
def largest_squared_length(W: FloatArray) -> float:
    """Return the largest squared length of a row of W; inf if one is nan."""
    top = 0.0
    for i in range(W.shape[0]):
        size = 0.0
        for k in range(W.shape[1]):
            size += W[i, k] * W[i, k]
        if not size <= top:
            top = size if size > top else math.inf
    return top


@kernel
def run_steps(
    W: FloatArray,
    rng: np.random.Generator,
    kind: int,
    kurtosis: float,
    std: float,
    rate: float,
    lam: float,
    rows: int,
    draws: int,
    steps: int,
) -> int:
    """Descend W in place by `steps` steps; return how many were made: fewer if a row became too long.

    Each step averages the gradient over `draws` draws of the noise, (rows, n_hidden): `rows` is n_features,
    or 1 if all inputs share the noise. `kind` is an index of `KINDS` ("bipolar", "uniform", ...), `std` the
    noise's standard deviation, `kurtosis` the excess kurtosis of three-point noise, `rate` the learning rate,
    `lam` the strength of the l1 term.
    """
    n, m = W.shape
    T, G, xi = np.empty((m, n)), np.empty((n, m)), np.zeros((rows, m))
    h, a = np.empty(m), np.empty(n)
    for done in range(steps):
        check_interrupt(done % 64 == 63 or draws * n * m > 100_000)
        for i in range(n):
            for k in range(m):
                T[k, i] = W[i, k]
                G[i, k] = lam * np.sign(W[i, k])
        for _ in range(draws):
            if std > 0.0:
                fill_noise(rng, kind, kurtosis, std, xi)
            _add_gradient(W, T, xi, 1.0 / draws, h, a, G)
        for i in range(n):
            for k in range(m):
                G[i, k] = W[i, k] - rate * G[i, k]
        if not largest_squared_length(G) <= LONGEST:
            return done
        for i in range(n):  # Numba compiles `W[:] = G` for seconds
            for k in range(m):
                W[i, k] = G[i, k]
    return steps
