"""Bounds on the loss from classes of many features on, derived in the notes of each function."""

import numpy as np
from numpy.typing import ArrayLike

from ..features import SparseUniform
from ..validation import FloatArray, Real, integer, number
from . import checks

__all__ = ["dropped_bound", "truncated_share", "worst_dropped_bound"]

# Bounds are raised by this factor, which covers their own rounding (tails are good to 2e-14 n^(1/2)).
ROUNDING_UP = 1.0 + 1e-10


def _tail_probability(p: float, n: int, least: int) -> float:
    """Return P(at least `least` of n features are on), each independently with probability p.

    `least` and n may be 0 or less.
    """
    if least <= 0:
        return 1.0
    return float(SparseUniform(p).tail(n, least)) if n > 0 else 0.0


def _linear_errors(
    sums: tuple[Real, Real], start: Real, slope: Real, p: float, n: int, up_to: int
) -> tuple[Real, Real]:
    """Return E (c + a.x)^2 over two sets of patterns of n features x, where all other patterns count as 0.

    First, c = `start`, over patterns with more than `up_to` features on. Second, c = start + slope u with an
    independent u, uniform on [0, 1], over patterns with `up_to` or more on. A feature is on with probability
    p, and then uniform on [0, 1]. `sums` are those of the weights a_j and of their squares.
    """
    total, squares = sums
    pairs = total * total - squares

    def second_moment(mean: Real, square: Real, least: int) -> Real:
        """Return E (c + a.x)^2 over patterns with `least` or more on; `mean` is E c, `square` is E c^2."""
        tail_one, tail_two = _tail_probability(p, n - 1, least - 1), _tail_probability(p, n - 2, least - 2)
        moment = square * _tail_probability(p, n, least) + mean * total * p * tail_one
        return moment + squares * (p / 3.0) * tail_one + pairs * (p * p / 4.0) * tail_two

    end = start + slope
    square = (start * start + start * end + end * end) / 3.0
    return (second_moment(start, start * start, up_to + 1), second_moment(start + slope / 2.0, square, up_to))


def truncated_share(M: FloatArray, b: FloatArray, p: float, up_to: int) -> FloatArray:
    """Return an upper bound, (n,), on each output's loss from patterns with more than `up_to` features on.

    The outputs are ReLU(M x + b), and p is the probability that a feature is on.
    """
    n, slope = b.size, np.diag(M) - 1.0
    others = M - np.diag(np.diag(M))
    positive = np.maximum(others, 0.0)
    sums, positive_sums = ((w.sum(axis=1), (w * w).sum(axis=1)) for w in (others, positive))
    # Own feature off: ReLU(z) is at most |z|. On: ReLU brings z nearer to x >= 0.
    off, on = _linear_errors(sums, b, slope, p, n - 1, up_to)
    # ReLU(z) is at most what the positive terms of z make alone; (x - ReLU(z))^2 <= x^2 + (ReLU(z) - x)_+^2.
    ramp, rise = np.maximum(b, 0.0), np.maximum(slope, 0.0)
    positive_off, positive_on = _linear_errors(positive_sums, ramp, rise, p, n - 1, up_to)
    on = np.minimum(on, _tail_probability(p, n - 1, up_to) / 3.0 + positive_on)
    return np.asarray((1.0 - p) * np.minimum(off, positive_off) + p * on) * ROUNDING_UP


def dropped_bound(
    M: ArrayLike, b: ArrayLike, p: float, up_to: int, importance: ArrayLike | None = None
) -> float:
    """Upper bound on the part of the loss of ReLU(M x + b) from inputs with more than `up_to` features on.

    Features are independent and uniform on [0, 1] when on. As x >= 0, each error is at most that of the
    linear output z = M x + b. An output whose feature is off is at most the sum of the positive terms of z.
    The second moments of both, over the patterns with more than K = `up_to` features on, are quadratic in M
    with binomial tails as coefficients.

    Parameters
    ----------
    M : (n, n) array_like of float
        Row i makes output i. Entries up to 1e50. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    p : float
        Probability that a feature is on, in (0, 1], the same for all features; p = 1 - S.
    up_to : int
        Largest number K of features on that is not counted, 0 <= K <= n.
    importance : (n,) array_like of float, optional
        Weights of the features' errors, at least 0; 1 by default.

    Returns
    -------
    float
        At least sum_(k > K) p^k (1 - p)^(n-k) L_k, a total over features. L_k is the sum, over all sets of k
        features, of the mean loss while exactly these are on. Rounding is included: the bound is raised by a
        factor of 1 + 1e-10.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> print(f"{dropped_bound(pair, 0.0, 0.01, 1):.4g}, in truth {0.01**2 / 3:.4g}")
    6.667e-05, in truth 3.333e-05
    """
    M, b = checks.square(M, b)
    p = number("p", p, 0, 1, brackets="(]")
    weights = checks.importances(importance, b.size)
    up_to = integer("up_to", up_to, 0, b.size)
    return float(weights @ truncated_share(M, b, p, up_to)) if up_to < b.size else 0.0


def worst_dropped_bound(n_features: int, p: float, up_to: int, norm: float = 1.0, bias: float = 0.0) -> float:
    """Upper bound, for all tied models, on the loss from inputs with more than `up_to` features on.

    For norm 1, bias 0, K = `up_to` = 1 and D p << 1 the bound is D (D - 1) (7 D - 6) p²/12; models with all
    W_i equal attain it except for one term. It is less than the loss D p/3 of the zero model only if D² p <
    4/7 or so. Notes (2022), §3.1, leaves the error open; the page "Small ReLU models" has the proof. p is the
    probability that a feature is on; ranges and errors are those of `dropped_bound`.

    Parameters
    ----------
    n_features : int
        Number of features D, at least 1.
    norm, bias : float, optional
        Largest norm of an encoding, from 0 to 1e25, and largest bias, from 0 to 1e50 (negative biases are
        allowed at any size).

    Returns
    -------
    float
        At least sum_(k > K) p^k (1 - p)^(D-k) L_k, a total over features of importance 1, for every W with
        |W_i| <= norm, every b with b_i <= bias and every number of hidden neurons. Rounding is included, as
        in `dropped_bound`.

    Examples
    --------
    >>> zero_model = 100 * 1e-5 / 3
    >>> round(worst_dropped_bound(100, 1e-5, 1) / zero_model, 3)
    0.172
    """
    n = integer("n_features", n_features, 1, 10**15)
    p = number("p", p, 0, 1, brackets="(]")
    up_to = integer("up_to", up_to, 0, n)
    overlap = number("norm", norm, 0, checks.LARGEST_ENTRY**0.5) ** 2
    bias = number("bias", bias, 0, checks.LARGEST_ENTRY)
    sums = (n - 1) * overlap, (n - 1) * overlap**2
    off, on = _linear_errors(sums, bias, max(overlap - 1.0, 0.0), p, n - 1, up_to)
    on += _tail_probability(p, n - 1, up_to) / 3.0
    return float(n * ((1.0 - p) * off + p * on) * ROUNDING_UP) if up_to < n else 0.0
