r"""Lower bounds of the loss that hold for every choice of weights.

`decoder_bound`: any decoder of n_hidden linear measurements, below ratio = p. `loss_bound`: any model
ReLU(M x + b) whose matrix has rank n_hidden at most, tied or not, with any biases, at every n_features.

**Proof of `loss_bound`.** Write r for n_hidden/n_features. Take a row i with a = M_ii > 0, S = b_i/a + sum
c_j x_j over the other features, c_j = M_ij/a, g(u) = ReLU(u + S), and let l = E (u - a g(u))² be the loss
of its output while feature i is on. The loss per feature is at least p times the mean of l over rows.

1. Where S < -tau the output is 0 for u < tau, which costs tau³/3. So P(S < -tau) <= 3 l/tau³, and with
   feature j taken out of the sum, P(S_j >= -tau) >= s = 1 - 3 l/((1 - p) tau³).
2. With the mean g° of g over S, l = E (u - a g°)² + a² E (g - g°)². The slope of g° is between 0 and 1, so
   the first term is at least (1 - a)²/12 for a < 1. Minimised over a, l >= V/(1 + 12 V) with V = E (g -
   g°)², hence V <= l/(1 - 12 l).
3. V is at least the sum over j of the variances of E[g | x_j] (independent x_j; Hoeffding). Turning x_j on
   changes g by at least min(|c_j| x_j, u - tau) if S_j >= -tau and u > tau, always in one direction, so
   each of these variances is at least p (1 - p) s² (1 - tau)³ f(c_j), with f the `pair_cost`, and f(c) >=
   min(c², 1)/6. Together: sum_j min(c_j², 1) <= k l/p, with k = 6/((1 - p)(1 - 12 l) s² (1 - tau)³).
4. Fix l* < 1/12. Call a row good if a > 0 and l <= l*; for a <= 0, l is at least the variance 1/12. Draw
   each good row with probability theta, and delete a row of each ordered pair with \|c_ij\| > 1. A matrix
   with unit diagonal, of size T and squares beside the diagonal that add up to Q, has rank at least T²/(T +
   Q) >= T - Q. Taking means, n r >= theta G - theta² sum_good sum_j min(c_ij², 1) >= theta G - theta² k
   sum_good l_i / p, G the number of good rows. With n - G <= sum_bad l_i/l*, the mean l over all rows is at
   least (theta - r)/max(theta/l*, theta² k/p).

Any l*, tau, theta give a bound; the best on a grid is returned. As p/r → 0 it tends to p²/(24 r) for r <=
1/2, and to (1 - r) p²/6 above.
"""

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray, Real, plain

__all__ = ["decoder_bound", "interference_bound", "loss_bound"]

# Every pair of numbers gives a valid bound, so the grid only decides how much is given away (below 2 %).
_LEVELS = np.geomspace(1e-15, 1.0 / 13.0, 160)
_EDGES = np.geomspace(1e-4, 0.9, 120)


@arguments.finite
def interference_bound(ratio: npt.ArrayLike) -> Real:
    r"""Least mean over rows of the squared interference, each square counted as 1 at most.

    .. math:: \frac1n \sum_{i \ne j} \min(M_{ij}^2/M_{ii}^2,\, 1) \ge
              \begin{cases} 1/(4r) & r \le 1/2 \\ 1 - r & \text{else} \end{cases}
              \qquad (r = \mathrm{ratio})

    for every real matrix with positive diagonal and rank n_hidden at most (step 4 of the module's proof
    with all rows good).

    `ratio` is as for `loss_bound`. Without the cap the bound is 1/ratio - 1 (Cowsik et al. 2024, Eq. 6), but
    one huge entry may meet that.

    Examples
    --------
    >>> interference_bound([0.25, 0.75])
    array([1.  , 0.25])
    """
    r = arguments.real("ratio", ratio, 0, 1, brackets="(]")
    return plain(np.where(r <= 0.5, 0.25 / r, 1.0 - r))


@arguments.finite
def loss_bound(p: npt.ArrayLike, ratio: npt.ArrayLike) -> Real:
    r"""Bound from below of the loss of any model ReLU(M x + b) with rank(M) <= n_hidden.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1).
    ratio : array_like of float
        n_hidden/n_features, in (0, 1]. Broadcasts with `p`.

    Returns
    -------
    float or ndarray of float64
        Per feature, at every n_features. Proved; see the module. Of order p²/ratio while p is below ratio,
        with the constant 1/24 as p/ratio → 0.

    Raises
    ------
    ValueError
        If an argument is out of range.

    See Also
    --------
    decoder_bound : Another one, for any decoder, below ratio = p.

    Examples
    --------
    >>> round(loss_bound(1e-9, 0.25) * 0.25 / 1e-18, 3)
    0.041
    """
    on = arguments.real("p", p, 0, 1, brackets="()")
    on, r = arguments.together(p=on, ratio=arguments.real("ratio", ratio, 0, 1, brackets="(]"))
    found = np.empty(on.shape)
    for one in np.unique(on):
        found[on == one] = one * _mean_on_loss(float(one), r[on == one])
    return plain(found)


def _mean_on_loss(p: float, ratio: FloatArray) -> FloatArray:
    """Return the bound of step 4 on the mean l for each ratio, at the best level l*, tau and theta."""
    level = _LEVELS[:, None]
    s = np.maximum(1.0 - 3.0 * level / ((1.0 - p) * _EDGES**3), 0.0)
    k = np.min(6.0 / ((1.0 - p) * (1.0 - 12.0 * level) * s**2 * (1.0 - _EDGES) ** 3), axis=1)
    # Up to theta = p/(k l*) the first denominator is the larger one and the quotient rises; beyond, it peaks
    # at 2 r.
    theta = np.clip(2.0 * ratio[:, None], p / (k * _LEVELS), 1.0)
    steps = np.where(np.isfinite(k), theta * theta * k / p, np.inf)
    return np.asarray(np.max((theta - ratio[:, None]) / np.maximum(theta / _LEVELS, steps), axis=1))


@arguments.finite
def decoder_bound(p: npt.ArrayLike, ratio: npt.ArrayLike) -> Real:
    r"""Bound from below of the loss of any decoder whatever of n_hidden linear measurements.

    .. math:: L \ge \frac{p - r}{2 \pi e} \left(\frac{6}{\pi e}\right)^{r/(p - r)}
              \quad (r = \mathrm{ratio} < p), \qquad L \ge 0 \text{ else.}

    Per feature, at every n_features; `derive_decoder_bound` has the proof. Arguments are as for `loss_bound`;
    p = 1 and ratio = 0 are allowed too.

    Notes
    -----
    From ratio = p on no such bound can exist: m >= K + 1 generic measurements tell almost all K-sparse
    vectors apart, and for n → ∞ the loss of the best decoder is 0 (Wu and Verdú 2010).

    References
    ----------
    Wu and Verdú (2010), Rényi information dimension: fundamental limits of almost lossless analog
    compression.

    Examples
    --------
    >>> round(decoder_bound(0.1, 0.05), 6), decoder_bound(0.1, 0.2)
    (0.002057, 0.0)
    """
    on, r = arguments.probability("p", p), arguments.real("ratio", ratio, 0, 1)
    left = np.maximum(on - r, 0.0)
    shrink = np.where(left > 0.0, np.exp(-np.log(np.pi * np.e / 6.0) * r / left), 0.0)
    return plain(left / (2.0 * np.pi * np.e) * shrink)
