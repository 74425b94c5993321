"""The integrator of the linear flows: Dormand and Prince's pair of orders 5 and 4, error held row by row.

In the eigenbasis of the covariance each row of the weights (one eigen-direction) is multiplied by small
matrices that all rows share, so a row that is tiny now and matters later keeps its relative accuracy, and a
zero row stays zero.
"""

import numpy as np

from ...theory.arguments import FloatArray
from ...theory.kernels import kernel

__all__ = ["ARRIVED", "STEP_LIMIT", "march"]

ARRIVED, STEP_LIMIT = 0, 1

# Dormand and Prince (1980): stages, weights of order 5 (the last stage begins the next step), and their
# difference from the embedded weights of order 4.
_STAGES = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])

# Step-size control, as usual: a margin of 0.9, changes between 0.2 and 5.
_MARGIN, _LEAST, _MOST = 0.9, 0.2, 5.0
# Rows below this are held to an absolute error: they have decayed for good.
_NOTHING = 1e-150


@kernel
def _velocity(X: FloatArray, lam: FloatArray, encoder: float, decoder: float, out: FloatArray) -> None:
    """Write the velocity of tied weights, both flows weighted, or of A over B' if both weights are 0."""
    n, m = lam.size, X.shape[1]
    if encoder == 0.0 and decoder == 0.0:
        A, C = X[:n], X[n:]
        scaled = np.empty((n, m))
        for i in range(n):
            scaled[i] = lam[i] * C[i]
        spread, gram = np.dot(C.T, scaled), np.dot(A.T, A)  # B Sigma B' and A'A
        out[:n] = scaled - np.dot(A, spread)
        back = np.dot(C, gram)
        for i in range(n):
            out[n + i] = lam[i] * (A[i] - back[i])
        return
    out[:] = 0.0
    if encoder != 0.0:
        rest = X - np.dot(X, np.dot(X.T, X))
        for i in range(n):
            out[i] += encoder * lam[i] * rest[i]
    if decoder != 0.0:
        scaled = np.empty((n, m))
        for i in range(n):
            scaled[i] = lam[i] * X[i]
        out += decoder * (scaled - np.dot(X, np.dot(X.T, scaled)))


@kernel
def _worst(X: FloatArray, end: FloatArray, error: FloatArray, n: int) -> float:
    """Return the largest error of a row beside its length; rows i and n + i belong together."""
    worst = 0.0
    for i in range(n):
        size, off = 0.0, 0.0
        for j in range(i, X.shape[0], n):
            for k in range(X.shape[1]):
                size = max(size, abs(X[j, k]), abs(end[j, k]))
                off = max(off, abs(error[j, k]))
        ratio = off / max(size, _NOTHING)
        if not ratio <= worst:  # so written that nan wins
            worst = ratio
    return worst


@kernel
def march(
    X: FloatArray,
    lam: FloatArray,
    encoder: float,
    decoder: float,
    times: FloatArray,
    h: float,
    rtol: float,
    max_steps: int,
    out: FloatArray,
) -> tuple[float, int, int, int]:
    """Integrate X in place, write it at all times; return time reached, steps kept and rejected, a code."""
    t, kept, rejected = 0.0, 0, 0
    K = np.empty((7, *X.shape))
    end, error = np.empty_like(X), np.empty_like(X)
    _velocity(X, lam, encoder, decoder, K[0])
    for place in range(times.size):
        until = times[place]
        while t < until:
            if kept + rejected >= max_steps:
                return t, kept, rejected, STEP_LIMIT
            last = t + h >= until
            step = until - t if last else h
            for stage in range(6):
                end[:] = X
                for i in range(stage + 1):
                    weight = step * _STAGES[stage, i]
                    if weight != 0.0:
                        end += weight * K[i]
                _velocity(end, lam, encoder, decoder, K[stage + 1])
            error[:] = 0.0
            for i in range(7):
                error += (step * _ERROR[i]) * K[i]
            ratio = _worst(X, end, error, lam.size) / rtol
            factor = _LEAST
            if ratio == 0.0:
                factor = _MOST
            elif ratio > 0.0:
                factor = min(_MOST, max(_LEAST, _MARGIN * ratio**-0.2))
            if not ratio <= 1.0:
                rejected += 1
                h = step * factor
                continue
            kept += 1
            t = until if last else t + step
            h = max(h, step * factor) if last else step * factor
            X[:] = end
            K[0] = K[6]
        out[place] = X
    return t, kept, rejected, ARRIVED
