r"""Blocks of features that depend on each other, independent of other blocks: the noise and loss of a block.

The *capacity matrix* C of a block of features with the covariance S is its block of the projection on the
rows of M S^(1/2), 0 <= C <= 1. It says how much interference from all other blocks the outputs of the block
must receive (`least_noise`), and for one feature it is the capacity of Scherlis et al. (2022). With many
other blocks that interference is normal, which gives the loss of the block (`block_losses`). The theorem, its
proof and when it is attained are in the section "Capacity matrices" of the page "Correlations".
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .. import validation
from ..compile.kernels import check_interrupt, inner, kernel
from ..features import Features
from ..features.groups import Group, group
from ..results import result
from ..rug.closed import squared_error
from ..special.normal import POINTS, WEIGHTS, tails
from ..validation import FloatArray, IntArray

__all__ = [
    "MOST", "BlockLoss", "block_capacities", "block_losses", "independent_copies", "least_noise",
    "partial_dependence",
]  # fmt: skip

MOST = 4  # features of a block whose losses are integrated


_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
# The normal law is cut where its density is below the rounding of 1.
_REACH = 8.6
# Noise of 0 is replaced by this much, in units of the scale, so that the rule stays the same.
_LEAST = 1e-13
_SHORT = 4  # points of a Gauss rule
_LONG = 8
_SHORT_RULE, _LONG_RULE = (np.polynomial.legendre.leggauss(count) for count in (_SHORT, _LONG))
_SHORT_X, _SHORT_W = (_SHORT_RULE[0] + 1.0) / 2.0, _SHORT_RULE[1] / 2.0
_LONG_X, _LONG_W = (_LONG_RULE[0] + 1.0) / 2.0, _LONG_RULE[1] / 2.0


@result
class BlockLoss:
    """Losses of the outputs ReLU(alpha_i.x + b_i + s_i Z) of a block, and their derivatives.

    A block is a group of features that depend on each other; alpha_i are the coefficients of output i.
    """

    per_feature: FloatArray
    """(k,): expected squared errors, without importance."""
    by_coefficients: FloatArray
    """(k, k): derivatives of the loss of output i by alpha_i, in row i."""
    by_b: FloatArray
    """(k,): derivative of the loss of each output by its bias b_i."""
    by_variance: FloatArray
    """(k,): derivative of the loss of each output by the variance s_i^2 of its interference."""


@inner
def _quadrature_rule(t: float, slope: float, second: float, s: float, x: FloatArray, w: FloatArray) -> int:
    """Write nodes u in [0, 1] to `x`, weights to `w`, for a function of y = t + slope u; return their number.

    The function has kinks at y = 0 and y = -second, smoothed over a width s, and is a polynomial of degree 7
    at most elsewhere.
    """
    cuts = np.zeros(6)
    cuts[5] = 1.0
    wide = _REACH * s / max(abs(slope), 1e-300)
    for j in range(2):
        kink = (-t - j * second) / slope if slope != 0.0 else 0.0
        cuts[1 + 2 * j] = min(max(kink - wide, 0.0), 1.0)
        cuts[2 + 2 * j] = min(max(kink + wide, 0.0), 1.0)
    low1, high1, low2, high2 = cuts[1], cuts[2], cuts[3], cuts[4]
    for i in range(2, 5):
        value, j = cuts[i], i
        while j > 1 and cuts[j - 1] > value:
            cuts[j] = cuts[j - 1]
            j -= 1
        cuts[j] = value
    count = 0
    for i in range(5):
        start, length = cuts[i], cuts[i + 1] - cuts[i]
        if length <= 0.0:
            continue
        middle = start + 0.5 * length
        if low1 < middle < high1 or low2 < middle < high2:
            for j in range(POINTS.size):
                x[count + j], w[count + j] = start + length * POINTS[j], length * WEIGHTS[j]
            count += POINTS.size
        else:
            for j in range(_SHORT):
                x[count + j], w[count + j] = start + length * _SHORT_X[j], length * _SHORT_W[j]
            count += _SHORT
    return count


@inner
def _add_point(t: float, s: float, target: float, x: FloatArray, weight: float, out: FloatArray) -> None:
    """Add `weight` times the loss at one point x of a quadrature, and its derivatives, to `out`.

    The loss is E (target - ReLU(t + s z))^2 over a standard normal z. t is the mean of the output's
    pre-activation: a bias plus coefficients times the values x of features. `out` has the loss, then its
    derivatives with respect to s^2, to t, and to each coefficient: x.size + 3 numbers.
    """
    at = t / s
    far = tails(abs(at))
    h0, h1 = (far[0], far[1]) if at <= 0.0 else (1.0 - far[0], at + far[1])
    out[0] += weight * squared_error(target, target - t, at, s, 0.0, far)
    slope = 2.0 * weight * (s * h1 - target * h0)
    density = _INV_SQRT_2PI * math.exp(-0.5 * at * at) if abs(at) < 39.0 else 0.0
    out[1] += weight * (h0 - target * density / s)
    out[2] += slope
    for j in range(x.size):
        out[3 + j] += slope * x[j]


@inner
def _steepest_first(on: IntArray, slopes: FloatArray, order: IntArray) -> int:
    """Write to `order` the features that are on, by descending size of `slopes`; return how many are on."""
    count = 0
    for j in range(on.size):
        if on[j]:
            slot = count
            while slot > 0 and abs(slopes[order[slot - 1]]) < abs(slopes[j]):
                order[slot] = order[slot - 1]
                slot -= 1
            order[slot] = j
            count += 1
    return count


@inner
def _add_pattern(
    on: IntArray,
    slopes: FloatArray,
    b: float,
    s: float,
    chance: float,
    i: int,
    uniform: bool,
    out: FloatArray,
) -> None:
    """Add to `out` the loss and derivatives of output i for one pattern of on and off, with weight `chance`.

    The output is ReLU(slopes.x + b + s z), z a standard normal variable, and its target is x_i. `on` says
    which features are on, and `uniform` whether their values are uniform on [0, 1], or always 1. `out` has
    the loss, then its derivatives with respect to s^2, bias and coefficients.

    For one or two uniform values the quadrature is split at kinks. For three or four it is split for the
    value with the steepest slope; each of the others has 8 points.
    """
    k = on.size
    x, order = np.zeros(k), np.zeros(k, np.int64)
    count, start = 0, b
    if uniform:
        count = _steepest_first(on, slopes, order)
    else:
        for j in range(k):
            x[j] = on[j]
            start += slopes[j] * on[j]
    nodes = np.empty((4, 220))
    x1, w1, x2, w2 = nodes[0], nodes[1], nodes[2], nodes[3]
    first, second = order[0], order[min(1, k - 1)]
    steep, flat = slopes[first] * (count > 0), slopes[second] * (count == 2)
    for node in range(_LONG ** (count - 1 if count > 2 else 0)):
        outside, weight, left = start, chance, node
        for position in range(1, count if count > 2 else 0):
            j = order[position]
            x[j] = _LONG_X[left % _LONG]
            weight *= _LONG_W[left % _LONG]
            outside += slopes[j] * x[j]
            left //= _LONG
        outer = inner = 1
        x1[0], w1[0], x2[0], w2[0] = 0.0, 1.0, 0.0, 1.0
        if count == 2:
            outer = _quadrature_rule(outside, flat, steep, s, x2, w2)
        for q in range(outer):
            t = outside + flat * x2[q]
            if count == 2:
                x[second] = x2[q]
            if count > 0:
                inner = _quadrature_rule(t, steep, 0.0, s, x1, w1)
            for p in range(inner):
                if count > 0:
                    x[first] = x1[p]
                _add_point(t + steep * x1[p], s, x[i], x, weight * w2[q] * w1[p], out)


@kernel
def losses(
    patterns: IntArray,
    chances: FloatArray,
    uniform: bool,
    alpha: FloatArray,
    b: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """Return rows (loss, its derivatives with respect to variance, bias and coefficients), one an output.

    A block is a group of k features that depend on each other; its on/off patterns, one a row, have the
    probabilities `chances`. Output i is ReLU(alpha_i.x + b_i + z_i), with row i of `alpha`, (k, k), and
    normal z_i of variance[i]. Values of features that are on are uniform on [0, 1] if `uniform`, else 1.
    """
    k = b.size
    out = np.zeros((k, 3 + k))
    for i in range(k):
        check_interrupt(True)
        s = max(math.sqrt(variance[i]), _LEAST)
        for r in range(chances.size):
            if chances[r] > 0.0:
                _add_pattern(patterns[r], alpha[i], b[i], s, chances[r], i, uniform, out[i])
    return out


def table(law: Features) -> tuple[IntArray, FloatArray]:
    """Return all patterns of a law of few features, one a row, and their probabilities."""
    patterns, chances = np.zeros((1, law.n_features), np.int64), np.ones(1)
    for block in law.blocks:
        padding = np.zeros((len(block.patterns), law.n_features), np.int64)
        padding[:, block.members] = block.patterns
        patterns = (patterns[:, None] + padding).reshape(-1, law.n_features)
        chances = np.multiply.outer(chances, block.weights).ravel()
    return patterns, chances


def block_law(name: str, law: Features) -> Features:
    """Return `law`; ValueError unless it has at most 4 features, uniform or binary, and no `exactly`."""
    validation.instance(name, law, Features)
    if law.n_features > MOST:
        raise ValueError(f"`{name}` must have at most {MOST} features; got {law.n_features}.")
    if law.values.sides not in (0, 1):
        raise ValueError(f"`{name}` must have values that are uniform or binary; got {law.values!r}.")
    return marginal_chances(name, law)


def marginal_chances(name: str, law: Features) -> Features:
    """Return `law`; raise a ValueError if it fixes the number of features that are on (`exactly`)."""
    if law.exactly is not None:
        raise ValueError(f"`{name}` must not be given exactly so many on; got {law.exactly}.")
    return law


def block_losses(
    coefficients: npt.ArrayLike, b: npt.ArrayLike, variance: npt.ArrayLike, law: Features
) -> BlockLoss:
    r"""Losses of the outputs of a block that receives normal interference from all other blocks.

    .. math:: E\,(x_i - (\alpha_i \cdot x + b_i + s_i Z)_+)^2

    A block is a group of features that depend on each other, or a single one.

    Parameters
    ----------
    coefficients : (k, k) array_like of float
        Row i is alpha_i, the weights of output i on the features of its own block; of size 1e50 at most.
    b, variance : float or (k,) array_like of float
        Biases, with the means of the interference, of size 1e50 at most, and the variances s_i^2 of the
        interference, from 0 to 1e100.
    law : Features
        Law of the block's features, at most 4, uniform or binary.

    Returns
    -------
    BlockLoss
        Exact to rounding for binary values. For uniform values, if at most two are on at once, the error is
        1e-14 of E x_i^2: the quadrature is split at the kinks of the integrand. With three or four on at once
        it is 1e-6 of E x_i^2, as the third and fourth are integrated by 8 points.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or `law` has other values or more features.

    Examples
    --------
    >>> pair = Features(2, 0.1)  # independent; opposite directions, no noise: p^2/6
    >>> block_losses([[1, -1], [-1, 1]], 0.0, 0.0, pair).per_feature.round(9)
    array([0.00166667, 0.00166667])
    """
    law = block_law("law", law)
    k = law.n_features
    alpha = validation.real(
        "coefficients", validation.matrix("coefficients", coefficients, (k, k)), -1e50, 1e50
    )
    bias = validation.real("b", validation.numbers_or_repeat("b", b, k), -1e50, 1e50)
    noise = validation.real("variance", validation.numbers_or_repeat("variance", variance, k), 0, 1e100)
    units = law.scale
    loss_terms = losses(
        *table(law),
        law.values.uniform,
        np.ascontiguousarray(alpha * units / units[:, None]),
        bias / units,
        noise / units**2,
    )
    return BlockLoss(
        loss_terms[:, 0] * units**2,
        loss_terms[:, 3:] * np.outer(units, units),
        loss_terms[:, 2] * units,
        loss_terms[:, 1],
    )


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """Return the symmetric square root of a covariance matrix; negative eigenvalues count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def least_noise(
    capacity: npt.ArrayLike, coefficients: npt.ArrayLike, covariance: npt.ArrayLike
) -> FloatArray:
    r"""Least variance of the interference that outputs of a block receive from other blocks.

    .. math:: z'(C^{-1} - 1)z, \qquad z = S^{1/2}\alpha

    The capacity matrix C is the block's part of the projection on the rows of M S^(1/2), M being decoder
    times encoder and S the features' covariance. The formula holds for every model with this capacity matrix;
    the page "Correlations" has the proof. Errors are those of `block_losses`.

    Parameters
    ----------
    capacity : (k, k) array_like of float
        Capacity matrix C of the block, in the coordinates of the symmetric root of S; 0 <= C <= 1.
    coefficients : (rows, k) array_like of float
        Row i is alpha for one output, its weights on the features of the block.
    covariance : (k, k) array_like of float
        S, positive definite.

    Returns
    -------
    (rows,) ndarray of float64
        Infinite where z is outside the range of C.

    Examples
    --------
    >>> least_noise([[0.5, -0.5], [-0.5, 0.5]], [[1, -1], [1, 0]], 0.1 * np.eye(2))
    array([ 0., inf])
    """
    k = len(validation.matrix("capacity", capacity))
    C = validation.matrix("capacity", capacity, (k, k))
    S = validation.matrix("covariance", covariance, (k, k))
    alpha = validation.real(
        "coefficients", validation.matrix("coefficients", coefficients, (None, k)), -1e100, 1e100
    )
    for name, matrix in (("capacity", C), ("covariance", S)):
        if np.abs(matrix - matrix.T).max() > 1e-9 * np.abs(matrix).max():
            raise ValueError(f"`{name}` must be symmetric; got {validation.short_repr(matrix)}.")
    least = np.linalg.eigvalsh(S)[[0, -1]]
    if least[0] <= 1e-12 * least[1]:
        raise ValueError(f"`covariance` must be positive definite; got an eigenvalue {least[0]:g}.")
    values, V = np.linalg.eigh((C + C.T) / 2)
    if values[0] < -1e-12 or values[-1] > 1 + 1e-12:
        worst = values[0] if values[0] < -1e-12 else values[-1]
        raise ValueError(f"`capacity` must have eigenvalues in [0, 1]; got {worst:g}.")
    z = alpha @ symmetric_root(S) @ V
    is_large = values > 1e-12
    lost = np.abs(z[:, ~is_large]).max(axis=1, initial=0.0) > 1e-9 * np.abs(z).max(axis=1)
    noise = z[:, is_large] ** 2 @ (1.0 / values[is_large] - 1.0)
    return np.where(lost, np.inf, np.maximum(noise, 0.0))


def block_capacities(M: npt.ArrayLike, law: Features) -> list[FloatArray]:
    """Capacity matrices of a model: the diagonal blocks of the projection on the rows of M S^(1/2).

    S is the features' covariance. Errors are those of `block_losses`.

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder.
    law : Features
        Law of n features; its groups are the blocks, and each other feature is a block of one.

    Returns
    -------
    list of (k, k) ndarray of float64
        In the order of `law.blocks`. Their traces sum to the rank of M (singular values below 1e-10 of the
        largest count as 0).

    Examples
    --------
    >>> found = block_capacities([[1, -1], [-1, 1]], Features(2, 0.1))
    >>> [one.round(3).item() for one in found]
    [0.5, 0.5]
    """
    validation.instance("law", law, Features)
    n = law.n_features
    A = validation.matrix("M", M, (n, n)).copy()
    members = [block.members for block in law.blocks]
    covariance = law.covariance()
    for member in members:
        A[:, member] = A[:, member] @ symmetric_root(covariance[np.ix_(member, member)])
    _, values, rows = np.linalg.svd(A)
    rows = rows[: int(np.sum(values > 1e-10 * values[0]))]
    return [np.asarray(rows[:, member].T @ rows[:, member]) for member in members]


def partial_dependence(table: Group, strength: float) -> Group:
    """Return a mixture of a group with independent features of the same probabilities.

    Parameters
    ----------
    table : indices, patterns, probabilities
        One of the `groups` of `Features`, of at most 16 features.
    strength : float
        Weight of the group in the mixture: 1 leaves it unchanged, 0 makes the features independent.

    Returns
    -------
    indices, patterns, probabilities : ndarray
        Patterns of probability 0 are left out.

    Raises
    ------
    ValueError
        If `strength` lies outside [0, 1] or `table` is no such group.

    Examples
    --------
    >>> from superposition.theory.features import exclusive
    >>> partial_dependence(exclusive([0, 1], 0.1), 0.5)[2].round(4)
    array([0.805, 0.095, 0.095, 0.005])
    """
    members, patterns, chances = group("table", table, 2**31)
    share = validation.number("strength", strength, 0, 1)
    k = members.size
    if k > 16:
        raise ValueError(f"`table` must have at most 16 features; got {k}.")
    p = chances @ patterns
    every = np.arange(2**k)[:, None] >> np.arange(k) & 1
    mixed = (1 - share) * np.where(every, p, 1 - p).prod(axis=1)
    np.add.at(mixed, patterns @ (1 << np.arange(k)), share * chances)
    is_mixed = mixed > 0
    return members, every[is_mixed], mixed[is_mixed] / mixed.sum()


def independent_copies(law: Features, copies: int) -> Features:
    """Return the law of `copies` independent copies of a block, one after the other.

    Errors are those of `block_losses`.

    Parameters
    ----------
    law : Features
        Law of one block, without `exactly`.
    copies : int

    Returns
    -------
    Features
        Law of copies times law.n_features features.

    Examples
    --------
    >>> from superposition.theory.features import exclusive
    >>> independent_copies(Features(2, 0.1, groups=[exclusive([0, 1], 0.1)]), 3).n_features
    6
    """
    marginal_chances("law", validation.instance("law", law, Features))
    count, k = validation.integer("copies", copies, 1), law.n_features
    # Refused before the work begins. A group takes 0.3 ms, as long as ten thousand doubles.
    validation.check_fits("copies", count, float(min(count, 2**62)) * (12.0 * k + 10_000.0 * len(law.groups)))
    groups: Sequence[Group] = [
        (members + k * c, patterns, chances)
        for c in range(count)
        for members, patterns, chances in law.groups
    ]
    p, scale, importance = (np.tile(array, count) for array in (law.p, law.scale, law.importance))
    return Features(count * k, p, law.values, scale, importance, groups)
