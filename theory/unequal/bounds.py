r"""A lower bound of the loss of features that differ, for every choice of weights and every n_features.

The model is ReLU(M x + b) with a matrix of rank m at most; features are independent, feature i is on with
probability p_i and then uniform on [0, s_i]. What follows is the proof of `theory.codes.relu_bound` (page
`codes` of the documentation) with p, the scales and theta of each feature its own; numbers of steps are those
there.

**Rows (steps 1 to 5).** Write w_i = I_i s_i², kappa_j = p_j (1 - p_j), c_ij = M_ij s_j/(M_ii s_i) and 1/D_i =
h/p_i + 9/(4 (1 - p_i)). In units of s_i the output is that of features on [0, 1] with the weights c_ij.

- Steps 1 and 2: given x_i = u the variance of the output is at least the sum over j of the variances of its
  means given x_j, each p_j (1 - p_j) E_y N_j² at least. Row i is on with probability p_i, so the loss is B +
  a² p_i sum_j kappa_j E N_j² or more; B has the p_i of the row.
- Steps 3 and 5 know p only by pi(t) = E pi_j(t + c x_j) <= E_y pi_j(t + c y), true at every p_j.
- Step 4 has the p_i of the row alone. So with q_i = sum_j kappa_j psi(\|c_ij\|) the loss of row i is at least
  w_i R_i(q_i), R_i(q) = D_i p_i q/(D_i + p_i q); it is w_i D_i where M_ii <= 0, as p_i/3 - p_i²/4 >= D_i.

**Rank (step 6).** Rows and columns are scaled without a change of rank. Draw feature i with probability
theta_i from some rows with M_ii > 0. The same projection gives m >= sum_i theta_i (1 - sum_j theta_j chi_ij)
and m >= sum_i theta_i prod_j (1 - theta_j chi_ij), with chi = c²/(1 + c²).

**Line (step 7).** For a mu > 0 let theta_j = min(1, kappa_j/mu). As C psi >= chi, sum_j theta_j chi_ij <= C
q_i/mu. Draw from the rows with M_ii > 0 and q_i < mu/C, and write z_i = C q_i/mu for them and z_i = 1 for the
others: sum_i theta_i (1 - z_i) <= m. R_i is concave and grows, so that every row loses w_i R_i(mu/C) z_i or
more. The total is at least

.. math:: \min \left\{ \sum_i w_i R_i(\mu/C)\, z_i :
          0 \le z_i \le 1, \sum_i \theta_i (1 - z_i) \le m \right\},

a knapsack: z_i = 0 where the loss over theta_i is largest, until m is spent.

**Logarithm (step 8).** With the first family let theta_i = min(kappa_i/mu, 1 - exp(-7 kappa_i/(6 mu))), so
that max(theta_i, -(6/7) log(1 - theta_i)) <= kappa_i/mu. By step 8, z_i = theta_i exp(-C q_i/mu), and z_i = 0
where M_ii <= 0, sum to m at most. With x_i = p_i q_i/D_i = beta_i log(theta_i/z_i), beta_i = p_i mu/(C D_i),
row i loses w_i D_i x_i/(1 + x_i) or more. For every lambda >= 0 the total is at least

.. math:: \sum_i \min_{0 \le z \le \theta_i} \left( w_i D_i \frac{x_i(z)}{1 + x_i(z)} + \lambda z \right)
          - \lambda m .

The loss of a row is concave in z down to x = 2 beta - 1 and convex below. So the minimum is at z = 0, at z =
theta or where the slope vanishes in the convex part: with u = x/beta = log(theta/z), at the larger root of
u = 2 log(1 + beta u) + g, g = log(lambda theta/(w D beta)). There is one where 1/(2 beta) + log(2 beta) +
g/2 is 1 at least.

Every mu and lambda gives a bound; the function searches for good ones.

**Groups.** Let S hold one feature of each group, and independent features. Given all the others, y, the
outputs of S are those of a model of the features of S alone, with the weights M_SS, of rank m at most, and
with the biases b_i + sum_k M_ik y_k. The features of S are independent, and on with the probabilities p_i(y)
that y leaves them. So both bounds hold with these. At one mu and lambda each is a sum over i of what p_i(y)
alone decides, less lambda m (the knapsack is the largest of these, sum_i min(w_i R_i, lambda theta_i) -
lambda m). So is its mean over y: the same sum, in which feature i counts once for each pattern of the rest of
its group, by the probability of this pattern. Selections S_1, S_2, ... in turn take the first, the second,
... feature of each group, from the start again in smaller ones; a feature that is in t of them has the weight
w_i/t in each, and the total is at least the sum over the selections. Where y decides whether feature i is on,
it adds nothing: the bound is 0 for groups that are always on together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arguments
from ..arguments import FloatArray
from ..features import Features
from .blocks import unconditioned
from .capacity import uniform

__all__ = ["loss_bound"]

# Step 5 of the proof: C and h of the two families. C of the second one leaves room for rounding.
FIRST, SECOND = (19.0 / 5.0, 11.0 / 3.0), (81.0 / 25.0 * (1.0 + 1e-12), 37.0 / 2.0)

# Classes of features with which mu and lambda are looked for, and values of mu that are tried.
_CLASSES, _TRIED = 400, 25


def loss_bound(law: Features, n_hidden: int) -> float:
    r"""Bound from below of the loss of any model ReLU(M x + b) with rank(M) <= n_hidden.

    Parameters
    ----------
    law : Features
        Values uniform on [0, scale]; independent features, each p 1e-100 at least, or groups.
    n_hidden : int
        At least 1.

    Returns
    -------
    float
        Mean of importance times the loss of each feature. Proved, see the module, at every n_features and for
        all biases; rounding is 1e-12 of it. For features that are alike `theory.codes.relu_bound` or more.
        0 for groups that are on together or not at all.

    Raises
    ------
    ValueError
        If an argument is out of range, features are not uniform, or `law` is given exactly so many on.

    Notes
    -----
    O(n log n), for groups times their size and their number of patterns; a million features take a second or
    two.

    Examples
    --------
    >>> law = Features(1000, 1.0 / np.arange(1, 1001) ** 1.2 / 4.0)
    >>> round(1000 * loss_bound(law, 20), 6)
    0.001739

    Features of which one of each four is on, or none:

    >>> from superposition.theory.features import exclusive
    >>> law = Features(400, 0.1, groups=[exclusive(range(i, i + 4), 0.1) for i in range(0, 400, 4)])
    >>> round(1000 * loss_bound(law, 40), 6)
    1.221871
    """
    features = unconditioned("law", uniform(law))
    m = arguments.integer("n_hidden", n_hidden, 1)
    return sum(_total(rows, m) for rows in _selections(features)) / features.n_features


def _selections(law: Features) -> list[FloatArray]:
    """Return rows (p, weight, how often) of the selections, of what may be lost."""
    weight = law.importance * law.scale**2
    alone = np.setdiff1d(np.arange(law.n_features), [i for members, _, _ in law.groups for i in members])
    arguments.probability("p", law.p[alone][(weight[alone] > 0.0) & (law.p[alone] < 1.0)], low=1e-100)
    count = max([members.size for members, _, _ in law.groups], default=1)
    found = []
    for k in range(count):
        parts = [np.stack([law.p[alone], weight[alone] / count, np.ones(alone.size)])]
        for members, patterns, chances in law.groups:
            one = k % members.size
            share = weight[members[one]] / len(range(one, count, members.size))
            _, rest = np.unique(np.delete(patterns, one, axis=1), axis=0, return_inverse=True)
            often = np.bincount(rest.ravel(), chances)
            with np.errstate(invalid="ignore"):
                on = np.bincount(rest.ravel(), chances * patterns[:, one]) / often
            parts.append(np.stack([on, np.full(on.size, share), often]))
        rows = np.concatenate(parts, axis=1)
        # What is of no importance, or sure, loses nothing here.
        rows = rows[:, (rows[1] > 0.0) & (rows[0] >= 1e-100) & (rows[0] < 1.0) & (rows[2] > 0.0)]
        found.append(rows[:, np.argsort(rows[0])])
    return found


def _total(rows: FloatArray, m: int) -> float:
    """Return the best bound on the total loss of a selection."""
    if rows[2].sum() <= m:
        return 0.0
    found, coarse = 0.0, _classes(rows)
    for bound, family in ((_line, FIRST), (_line, SECOND), (_logarithm, FIRST)):
        mu = _best(bound, coarse, m, family)
        found = max(found, bound(rows, m, mu, family))
    return float(found)


def _classes(rows: FloatArray) -> FloatArray:
    """Return neighbours put together, with their number: good enough to look for mu."""
    same = np.append(True, np.any(rows[:2, 1:] != rows[:2, :-1], axis=0))
    starts = np.flatnonzero(same)
    if starts.size > _CLASSES:
        log = np.log(rows[0])
        width = max((log[-1] - log[0]) / _CLASSES, 1e-300)
        starts = np.flatnonzero(np.append(True, np.diff(np.floor((log - log[0]) / width)) > 0.0))
    number = np.diff(np.append(starts, rows.shape[1]))
    means = (np.add.reduceat(part, starts) / number for part in rows[:2])
    return np.stack([*means, np.add.reduceat(rows[2], starts)])


def _best(total: Callable[..., float], rows: FloatArray, m: int, family: tuple[float, float]) -> float:
    """Return the mu of the largest bound found: the best of a grid, refined by the golden section."""

    def bound(mu: float) -> float:
        return total(rows, m, mu, family)

    kappa = rows[0] * (1.0 - rows[0])
    low, high = np.log(kappa.min() / 4.0), np.log(4.0 * (rows[2] @ kappa) / m)
    at = np.linspace(min(low, high), high, _TRIED)
    values = [bound(float(np.exp(one))) for one in at]
    k = int(np.argmax(values))
    left, right = at[max(k - 1, 0)], at[min(k + 1, at.size - 1)]
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    inner, outer = right - golden * (right - left), left + golden * (right - left)
    first, second = bound(float(np.exp(inner))), bound(float(np.exp(outer)))
    while right - left > 1e-5:
        if first >= second:
            right, outer, second = outer, inner, first
            inner = right - golden * (right - left)
            first = bound(float(np.exp(inner)))
        else:
            left, inner, first = inner, outer, second
            outer = left + golden * (right - left)
            second = bound(float(np.exp(outer)))
    found = {float(one): value for one, value in zip(at, values, strict=True)} | {inner: first, outer: second}
    # where theta of a class becomes 1 the bound has a kink, which may be its maximum
    near = np.log(kappa[(np.log(kappa) > left - 1e-6) & (np.log(kappa) < right + 1e-6)])
    found |= {float(one): bound(float(np.exp(one))) for one in near[:: max(near.size // 20, 1)]}
    return float(np.exp(max(found, key=lambda one: found[one])))


def _dead(p: FloatArray, h: float) -> FloatArray:
    """Return D, the loss that no row exceeds in the bound."""
    return p * (1.0 - p) / (h * (1.0 - p) + 2.25 * p)


def row_loss(p: FloatArray, mu: FloatArray | float, family: tuple[float, float]) -> Any:
    """Return R(mu/C), the least loss of a row whose interference is mu/C; see step 7."""
    C, h = family
    dead, push = _dead(p, h), p * mu / C
    return dead * push / (dead + push)


def row_logarithm(p: FloatArray, mu: FloatArray | float, family: tuple[float, float]) -> tuple[Any, Any]:
    """Return D and beta of step 8: a row at z loses D x/(1 + x) or more, x = beta log(theta/z)."""
    C, h = family
    dead = _dead(p, h)
    return dead, p / (C * dead) * mu


def _line(rows: FloatArray, m: int, mu: float, family: tuple[float, float]) -> float:
    """Return the bound of step 7 on the total loss."""
    p, w, counts = rows
    theta, loss = np.minimum(p * (1.0 - p) / mu, 1.0), w * row_loss(p, mu, family)
    order = np.argsort(-loss / theta)
    spent = np.cumsum((counts * theta)[order])
    taken = np.clip((m - spent) / (counts * theta)[order] + 1.0, 0.0, 1.0)
    return float((counts * loss)[order] @ (1.0 - taken))


def _logarithm(rows: FloatArray, m: int, mu: float, family: tuple[float, float]) -> float:
    """Return the bound of step 8 on the total loss, at a good lambda."""
    p, w, counts = rows
    kappa = p * (1.0 - p) / mu
    theta = np.minimum(np.minimum(kappa, -np.expm1(-7.0 / 6.0 * kappa)), 1.0 - 1e-9)
    if counts @ theta <= m:
        return 0.0
    dead, beta = row_logarithm(p, mu, family)
    scarce = np.log(w * dead * beta / theta)

    def at(log_price: float) -> Any:
        """Return value less lambda m, and what the z sum to."""
        price = np.exp(log_price)
        u = np.maximum(_larger_root(beta, log_price - scarce), 0.0)
        x, z = beta * u, theta * np.exp(-u)
        value = w * dead * x / (1.0 + x) + price * z
        none = w * dead < value
        least, z = np.where(none, w * dead, value), np.where(none, 0.0, z)
        # the end z = theta, where the inner point is a worse one
        whole = price * theta < least
        least, z = np.where(whole, price * theta, least), np.where(whole, theta, z)
        return counts @ least - price * m, counts @ z

    # The sum of the z falls with the price; the value is concave in it, and best where they sum to m.
    low = high = float(np.log(np.max(w * dead / theta)))
    while at(low)[1] < m:
        low -= 2.0
    while at(high)[1] > m:
        high += 2.0
    while high - low > 1e-6:  # what is missed goes with the square
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle)[1] > m else (low, middle)
    return float(max(at(low)[0], at(high)[0]))


def _larger_root(beta: FloatArray, g: FloatArray) -> FloatArray:
    """Return the larger root of u = 2 log(1 + beta u) + g; 0 where there is none.

    With y = (1 + beta u)/(2 beta) it is the root above 1 of y - log y = s, and Newton's steps fall to it
    from y = 1 + sqrt(2 (s - 1)) + s - 1. They are taken in u, which y loses in rounding where beta is small.
    """
    over = 0.5 / beta + np.log(2.0 * beta) + 0.5 * g - 1.0  # s - 1
    u = 2.0 * np.log(2.0 * beta) + g + 2.0 * np.sqrt(2.0 * np.maximum(over, 0.0))
    for _ in range(8):
        x = np.maximum(beta * u, 2.0 * beta - 1.0)
        u = u - (u - 2.0 * np.log1p(x) - g) / np.maximum(1.0 - 2.0 * beta / (1.0 + x), 1e-12)
    return np.where(over >= 0.0, u, 0.0)
