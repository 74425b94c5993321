r"""A lower bound of the loss of features that differ, for every choice of weights and every n_features.

The model is ReLU(M x + b) with a matrix of rank n_hidden at most. Feature i is on with probability p_i and
then uniform on [0, s_i]; features are independent, or form groups. The theorem and its proof, step by step,
are on the page "A bound for features that differ" (``docs/unequal-bound.rst``), which builds on the proof
for features that are alike (`theory.codes.bounds`). "Correlations: the theory" proves the bound of groups.

Each mu of the proof gives two bounds on the total loss, `_line_bound` and `_logarithm_bound`. For features
that are alike the best mu is known in closed form (`alike_bound`); for others it is searched for.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, elementwise, minimize_scalar

from .. import validation
from ..features import Features
from ..validation import FloatArray, Real
from .blocks import marginal_chances
from .capacity import uniform

__all__ = ["loss_bound"]

# Step 5 of the proof: C and h of its two families of weights. C of the second one leaves room for rounding.
FIRST, SECOND = (19.0 / 5.0, 11.0 / 3.0), (81.0 / 25.0 * (1.0 + 1e-12), 37.0 / 2.0)
# Step 8 of the proof: up to this draw theta is the draw itself.
_RATE = 7.0 / 6.0
_TURN = brentq(lambda draw: draw + np.expm1(-_RATE * draw), 0.1, 0.5, xtol=1e-15)
_MOST_CLASSES = 400  # of features, with which mu is searched for
_MU_POINTS = 25  # values of mu that are tried first


def loss_bound(law: Features, n_hidden: int) -> float:
    """Lower bound on the loss of every model ReLU(M x + b) with rank(M) <= n_hidden.

    The cost is O(n log n), for groups times their size and number of patterns: a second or two for a million
    features. For synchronous groups the bound is 0.

    Parameters
    ----------
    law : Features
        Law with values uniform on [0, scale]; independent features, with p of at least 1e-100, or groups.
    n_hidden : int
        At least 1.

    Returns
    -------
    float
        Mean of importance times the loss of each feature: the largest bound known. Proved at every n_features
        and for all biases (see the module); relative rounding error 1e-12. For equal features it is at least
        `theory.codes.decoder_bound`, which holds for any decoder.

    Raises
    ------
    ValueError
        If an argument is out of range, features are not uniform, or `law` fixes how many features are on.

    Examples
    --------
    >>> law = Features(1000, 1.0 / np.arange(1, 1001) ** 1.2 / 4.0)
    >>> round(1000 * loss_bound(law, 20), 6)
    0.001739
    """
    features = marginal_chances("law", uniform(law))
    n, m = features.n_features, min(validation.integer("n_hidden", n_hidden, 1), features.n_features)
    bound = sum(_best_bound(rows, m) for rows in _selections(features)) / n
    if features.has_equal_features and m < n:
        least = float(np.min(features.importance * features.scale**2))
        bound = max(bound, least * float(any_decoder_bound(float(features.p[0]), m / n)))
    return bound


def any_decoder_bound(p: Real, ratio: Real) -> FloatArray:
    """Return a lower bound on the loss per feature of any decoder of n_hidden linear measurements.

    This is `theory.codes.decoder_bound` without checks: p in (0, 1], ratio = n_hidden/n_features; arrays
    broadcast.
    """
    left, rate = np.maximum(p - ratio, 0.0), math.log(math.pi * math.e / 6.0)
    shrink = np.where(left > 0.0, np.exp(-rate * ratio / np.maximum(left, 1e-300)), 0.0)
    return np.asarray(left / (2.0 * math.pi * math.e) * shrink)


def alike_bound(p: Real, ratio: Real) -> FloatArray:
    """Return a lower bound on the loss per feature of ReLU(M x + b) for equal features, in broadcast shape.

    It is the larger of two bounds, by steps 7 and 8 of the proof on the page "A bound for features that
    differ". Arrays broadcast and are not checked: p in (0, 1), ratio = rank(M)/n_features in (0, 1].
    """
    shape = np.broadcast(p, ratio).shape
    p, r = np.atleast_1d(*np.broadcast_arrays(p, ratio))
    p = np.maximum(p, 1e-200)  # of rarer features the bound is below the doubles
    kappa, bounds = p * (1.0 - p), np.zeros(p.shape)
    for C, h in (FIRST, SECOND):
        theta = np.minimum(r + np.sqrt(r * (r + p * kappa / (C * _dead_share(p, h)))), 1.0)
        bounds = np.maximum(bounds, (1.0 - r / theta) * row_loss(p, kappa / theta, (C, h)))
    # The page's v = log(theta/z) at z = ratio, and beta v = x; strength is beta at a draw of 1.
    draw = _best_draw(r)
    dead, strength = row_logarithm(p, kappa, FIRST)
    beta, v = strength / draw, np.log(_sampled_weights(draw)) - np.log(r)
    inner = (v > 0.0) & (beta * v * v <= np.expm1(v) - v)
    bounds = np.maximum(bounds, np.where(inner, dead * beta * v / (1.0 + beta * v), 0.0))
    # Elsewhere some rows are drawn and lose nothing, and the others all have one v, which decides on mu.
    chord = ~inner & (v > 0.0)
    if np.any(chord):
        args = (strength[chord], r[chord])
        candidates = np.geomspace(0.3, 60.0, 20)
        at = np.clip(np.argmin(_negative_chord(candidates[:, None], *args), axis=0), 1, 18)
        bracket = tuple(candidates[at + i] for i in (-1, 0, 1))
        best = elementwise.find_minimum(_negative_chord, bracket, args=args)
        bounds[chord] = np.maximum(bounds[chord], dead[chord] * np.maximum(-best.f_x, 0.0))
    return bounds.reshape(shape)


def _sampled_weights(draw: FloatArray) -> FloatArray:
    """Return theta = min(draw, 1 - exp(-7 draw/6)), below 1 also after rounding, for draw = p (1 - p)/mu.

    theta is the probability with which step 8 of the proof on the page "A bound for features that differ"
    draws a feature; mu > 0 is the proof's free number.
    """
    return np.minimum(np.minimum(draw, -np.expm1(-_RATE * draw)), 1.0 - 1e-9)


def _best_draw(ratio: FloatArray) -> FloatArray:
    """Return the draw = p (1 - p)/mu at which log(theta/ratio)/draw is largest.

    `ratio` is rank(M)/n_features. In the proof of `loss_bound` mu > 0 is a free number, and theta = min(draw,
    1 - exp(-7 draw/6)) the probability with which a feature is drawn.
    """
    rare = math.e * ratio
    draw = np.maximum(-np.log1p(-np.minimum(np.sqrt(ratio), 0.9)) / _RATE, _TURN)
    for _ in range(4):  # Newton's steps on the slope: a root finder of SciPy takes milliseconds a call
        x = _RATE * draw
        stay = np.exp(-x)
        slope = np.log1p(-stay) - np.log(ratio) - x * stay / (1.0 - stay)
        draw = np.maximum(draw - slope * (1.0 - stay) ** 2 / (_RATE * x * stay), _TURN)
    return np.where(rare <= _TURN, rare, draw)


def _negative_chord(u: FloatArray, strength: FloatArray, ratio: FloatArray) -> FloatArray:
    """Return minus the value at z = `ratio` of the chord that touches at u = log(theta/z), in units of D.

    With the share z of the dimensions an output loses at least D x/(1 + x), x = beta log(theta/z); D is the
    loss of a dead output. The chord is the line from loss 0 at z = theta that touches this curve, with the
    beta for which it does so at u. `ratio` is the mean of z over the outputs, whose mean loss is at least the
    chord's value there. `strength` is beta times draw = p (1 - p)/mu, and theta = min(draw, 1 - exp(-7
    draw/6)) the probability with which the proof draws a feature.
    """
    mixed = (1.0 - (1.0 + u) * np.exp(-u)) / np.expm1(-u) ** 2
    theta = _sampled_weights(strength * u * u / (np.expm1(u) - u))
    return np.asarray(mixed * (ratio / np.maximum(theta, 1e-300) - 1.0))


def _selections(law: Features) -> list[FloatArray]:
    """Return an array for each choice of one member from every group, with rows p, weight and number.

    The features of a choice are independent, and the loss is at least the sum of the bounds of all choices.
    There are as many choices as members in the largest group. The weight of a feature, importance times
    scale², is divided equally among the choices that contain it.

    A column is a feature without a group, with the number 1; or a chosen member together with one pattern of
    the rest of its group. Then p is conditional on that pattern, and the number is the pattern's probability.
    Columns rise with p; features without weight, or always on, are left out.
    """
    weight = law.importance * law.scale**2
    alone = np.setdiff1d(np.arange(law.n_features), [i for members, _, _ in law.groups for i in members])
    validation.probability("p", law.p[alone][(weight[alone] > 0.0) & (law.p[alone] < 1.0)], low=1e-100)
    count = max([members.size for members, _, _ in law.groups], default=1)
    selections = []
    for k in range(count):
        parts = [np.stack([law.p[alone], weight[alone] / count, np.ones(alone.size)])]
        for members, patterns, chances in law.groups:
            member = k % members.size
            share = weight[members[member]] / len(range(member, count, members.size))
            _, rest = np.unique(np.delete(patterns, member, axis=1), axis=0, return_inverse=True)
            often = np.bincount(rest.ravel(), chances)
            with np.errstate(invalid="ignore"):
                on = np.bincount(rest.ravel(), chances * patterns[:, member]) / often
            parts.append(np.stack([on, np.full(on.size, share), often]))
        rows = np.concatenate(parts, axis=1)
        # A feature of no importance, or one that is always on, loses nothing here.
        rows = rows[:, (rows[1] > 0.0) & (rows[0] >= 1e-100) & (rows[0] < 1.0) & (rows[2] > 0.0)]
        selections.append(rows[:, np.argsort(rows[0])])
    return selections


def _best_bound(rows: FloatArray, m: int) -> float:
    """Return the best lower bound on the total loss of classes of features, for matrices M of rank m.

    Each column of `rows` is a class: p, weight (importance times scale²) and number of its features.
    """
    if rows[2].sum() <= m:
        return 0.0
    coarse = _merge_similar_rows(rows)
    if np.all(rows[:2] == rows[:2, :1]):
        number = rows[2].sum()
        return float(number * rows[1, 0] * alike_bound(float(rows[0, 0]), m / number))
    total = 0.0
    for bound, family in ((_line_bound, FIRST), (_line_bound, SECOND), (_logarithm_bound, FIRST)):
        total = max(total, bound(rows, m, _best_mu(bound, coarse, m, family), family))
    return total


def _merge_similar_rows(rows: FloatArray) -> FloatArray:
    """Return at most some 400 classes of features, in which neighbours of similar p are averaged.

    A class is a column of `rows` and of the result: p, weight (importance times scale²) and number of
    features. Columns rise with p.
    """
    same = np.append(True, np.any(rows[:2, 1:] != rows[:2, :-1], axis=0))
    starts = np.flatnonzero(same)
    if starts.size > _MOST_CLASSES:
        log = np.log(rows[0])
        width = max((log[-1] - log[0]) / _MOST_CLASSES, 1e-300)
        starts = np.flatnonzero(np.append(True, np.diff(np.floor((log - log[0]) / width)) > 0.0))
    number = np.diff(np.append(starts, rows.shape[1]))
    means = (np.add.reduceat(part, starts) / number for part in rows[:2])
    return np.stack([*means, np.add.reduceat(rows[2], starts)])


def _best_mu(total: Callable[..., float], rows: FloatArray, m: int, family: tuple[float, float]) -> float:
    """Return the mu > 0 with the largest lower bound total(rows, m, mu, family), by a grid and refinement.

    mu is the free number of the proof on the page "A bound for features that differ", `family` its constants
    (C, h). A column of `rows` is a class of features: p, weight (importance times scale²) and number of
    features; m is n_hidden.
    """

    def bound(log_mu: float) -> float:
        """Return the lower bound `total` at this logarithm of mu."""
        return total(rows, m, float(np.exp(log_mu)), family)

    kappa = rows[0] * (1.0 - rows[0])
    low, high = np.log(kappa.min() / 4.0), np.log(4.0 * (rows[2] @ kappa) / m)
    at = np.linspace(min(low, high), high, _MU_POINTS)
    values = {float(mu): bound(float(mu)) for mu in at}
    k = int(np.argmax(list(values.values())))
    ends = at[max(k - 1, 0)], at[min(k + 1, at.size - 1)]
    refined = minimize_scalar(lambda x: -bound(x), bounds=ends, method="bounded", options={"xatol": 1e-5})
    values[float(refined.x)] = -float(refined.fun)
    # where theta of a class becomes 1 the bound has a kink, which may be its maximum
    near = np.log(kappa[np.abs(np.log(kappa) - refined.x) < 1e-4])
    values |= {float(mu): bound(float(mu)) for mu in near[:: max(near.size // 20, 1)]}
    return float(np.exp(max(values, key=lambda mu: values[mu])))


def _dead_share(p: FloatArray, h: float) -> FloatArray:
    """Return D = 1/(h/p + 9/(4 (1 - p))), a lower bound on the loss of an output with diagonal weight <= 0.

    p is the probability that the feature is on, h a constant of the proof on the page "A bound for features
    that differ".
    """
    return np.asarray(p * (1.0 - p) / (h * (1.0 - p) + 2.25 * p))


def row_loss(p: FloatArray, mu: FloatArray | float, family: tuple[float, float]) -> FloatArray:
    """Return D p q/(D + p q) at q = mu/C, a lower bound on the loss of an output with interference q.

    D = 1/(h/p + 9/(4 (1 - p))) bounds the loss of an output with diagonal weight <= 0. p are the
    probabilities of the outputs' features, and the result has their shape. `family` are the constants (C, h)
    and mu > 0 the free number of the proof on the page "A bound for features that differ", whose step 7 this
    is.
    """
    C, h = family
    dead, push = _dead_share(p, h), p * mu / C
    return np.asarray(dead * push / (dead + push))


def row_logarithm(
    p: FloatArray, mu: FloatArray | float, family: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return D and beta = p mu/(C D): an output loses D x/(1 + x) or more, with x = beta log(theta/z).

    D = 1/(h/p + 9/(4 (1 - p))) bounds the loss of an output with diagonal weight <= 0; both arrays have the
    shape of p, the probabilities of the outputs' features. z, from 0 to theta, is the output's share of the
    n_hidden dimensions. `family` are the constants (C, h) and mu > 0 the free number of the proof on the page
    "A bound for features that differ", whose step 8 this is; theta is the probability with which the proof
    draws the feature.
    """
    C, h = family
    dead = _dead_share(p, h)
    return dead, np.asarray(p / (C * dead) * mu)


def _line_bound(rows: FloatArray, m: int, mu: float, family: tuple[float, float]) -> float:
    """Return the lower bound, by step 7 of the proof, on the total loss of classes of features.

    A column of `rows` is a class: p, weight (importance times scale²) and number of features; m is n_hidden.
    mu is the free number and `family` the constants (C, h) of the proof on the page "A bound for features
    that differ". The bound is the minimum of a knapsack problem.
    """
    p, w, counts = rows
    theta, loss = np.minimum(p * (1.0 - p) / mu, 1.0), w * row_loss(p, mu, family)
    order = np.argsort(-loss / theta)
    spent = np.cumsum((counts * theta)[order])
    taken = np.clip((m - spent) / (counts * theta)[order] + 1.0, 0.0, 1.0)
    return float((counts * loss)[order] @ (1.0 - taken))


def _logarithm_bound(rows: FloatArray, m: int, mu: float, family: tuple[float, float]) -> float:
    """Return the lower bound, by step 8 of the proof, on the total loss of classes of features.

    A column of `rows` is a class: p, weight (importance times scale²) and number of features; m is n_hidden.
    mu is the free number and `family` the constants (C, h) of the proof on the page "A bound for features
    that differ". The bound is maximised over the Lagrange multiplier of the m dimensions.
    """
    p, w, counts = rows
    theta = _sampled_weights(p * (1.0 - p) / mu)
    if counts @ theta <= m:
        return 0.0
    dead, beta = row_logarithm(p, mu, family)
    scarce = np.log(w * dead * beta / theta)

    def at(log_multiplier: float) -> tuple[float, float]:
        """Return the lower bound at this log of lambda, and its derivative by lambda: shares less m."""
        multiplier = np.exp(log_multiplier)
        u = np.maximum(_larger_root(beta, log_multiplier - scarce), 0.0)
        x, z = beta * u, theta * np.exp(-u)
        value = w * dead * x / (1.0 + x) + multiplier * z
        none = w * dead < value
        least, z = np.where(none, w * dead, value), np.where(none, 0.0, z)
        # the end z = theta, where the inner point is a worse one
        is_dropped = multiplier * theta < least
        least, z = np.where(is_dropped, multiplier * theta, least), np.where(is_dropped, theta, z)
        return float(counts @ least - multiplier * m), float(counts @ z - m)

    # The sum of the z falls with lambda; the value is concave in lambda, and largest where they sum to m.
    low = high = float(np.log(np.max(w * dead / theta)))
    while at(low)[1] < 0.0:
        low -= 2.0
    while at(high)[1] > 0.0:
        high += 2.0
    if low == high:
        return at(low)[0]
    return at(brentq(lambda x: at(x)[1], low, high, xtol=1e-11))[0]


def _larger_root(beta: FloatArray, g: FloatArray) -> FloatArray:
    """Return the larger root of u = 2 log(1 + beta u) + g; 0 where there is none.

    y = (1 + beta u)/(2 beta) is the root above 1 of y - log y = s, a branch of Lambert's W. Newton's steps
    fall to it from y = 1 + sqrt(2 (s - 1)) + s - 1. They are taken in u: for small beta u is lost to the
    rounding of y, and so with SciPy's function.
    """
    over = 0.5 / beta + np.log(2.0 * beta) + 0.5 * g - 1.0  # s - 1
    u = 2.0 * np.log(2.0 * beta) + g + 2.0 * np.sqrt(2.0 * np.maximum(over, 0.0))
    for _ in range(8):
        x = np.maximum(beta * u, 2.0 * beta - 1.0)
        u = u - (u - 2.0 * np.log1p(x) - g) / np.maximum(1.0 - 2.0 * beta / (1.0 + x), 1e-12)
    return np.where(over >= 0.0, u, 0.0)
