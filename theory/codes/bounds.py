r"""Lower bounds of the loss that hold for every choice of weights.

`decoder_bound`: any decoder of n_hidden linear measurements, below ratio = p. `loss_bound`: any model
ReLU(M x + b) whose matrix has rank n_hidden at most, tied or not, with any biases, at every n_features.

**Proof of `loss_bound`.** Write r for n_hidden/n_features, k = p² (1 - p), and 1/D = h/p + 9/(4 (1 - p))
with an h of step 5. Take a row i with a = M_ii > 0, c_j = M_ij/a for the other features, S = b_i/a + sum c_j
x_j, S_j the same without feature j, pi(t) = P(S > -t), pi_j(t) = P(S_j > -t). The output is a (x_i + S)₊.
Let u and y be uniform on [0, 1].

1. Given x_i = u the output has the mean a g(u), g(u) = E (u + S)₊ = g(0) + ∫_0^u pi. The loss of the row is
   B + a² E Var[(x_i + S)₊ | x_i], where B = E (x_i - a g(x_i))² = p ∫_0^1 e(u)² du + (1 - p) a² g(0)² with
   e(u) = u - a g(u).
2. For each u the variance is at least the sum over j of the variances of E[(u + S)₊ | x_j] (independent x_j;
   Hoeffding). Let N_j(u, y) be how far this mean moves when x_j goes from 0 to y. Its variance is at least p
   (1 - p) E_y N_j². As x_i is on with probability p, the loss is at least B + a² k sum_j E N_j(u, y)².
3. Weigh N_j by a Z(u, y) >= 0 that does not fall with y and depends on c = \|c_j\|. With k_y(t) the integral
   of Z(., y) from t to min(t + c y, 1), and K = E_y k_y, scale Z so that ∫_0^1 K = 1. Then E \|N_j\| Z >=
   A_j = ∫_0^1 K pi: If c_j < 0, \|N_j\| is the integral of pi_j from u - c y to u, and pi_j >= pi. If c_j >
   0, it is that from u to u + c y, so that E_u N_j Z >= ∫_0^1 k_y(t) pi_j(t + c y) dt. Neither factor falls
   with y, so the mean over y is at least ∫_0^1 K(t) E_y pi_j(t + c y) dt (Chebyshev), and pi(t) = E pi_j(t +
   c x_j) is at most this mean of pi_j. By Cauchy-Schwarz E N_j² >= psi(c) A_j² with psi = 1/E Z².
4. K(1) = 0. By parts, 1 - a A_j = ∫_0^1 -K' e + K(0) a g(0), so (1 - a A_j)² is at most (∫ K'²/p + K(0)²/(1
   - p)) B (Cauchy-Schwarz), and with the weights of step 5 at most B/D. For B < D the loss of the row is
   thus at least B + k q (1 - sqrt(B/D))², q = sum_j psi(\|c_j\|). The least value over B is R(q) = D k q/(D
   + k q): at least this, below D, the row loses whatever B is. A row with a <= 0 loses D: its output and x_i
   have no positive covariance, so that it loses the variance of x_i, p/3 - p²/4 >= D.
5. Two families of weights, each with min(u, c y), up to its scale, for large c (psi is the `pair_cost`
   then):

   - first, y (1 + (2 c - 1) u²) for c <= 6/5, h = 11/3: (19/5) psi >= chi + chi²/6, with chi = c²/(1 + c²);
   - second, y (1 + (7 c - 1) u⁸) for c <= 1/10, h = 37/2: (81/25) psi >= chi.

   Both have ∫ K'² <= h and K(0) <= 3/2. On six ranges of c all three are rational functions of c
   (`derive_row_weights`), so that these are signs of polynomials: their roots can be counted exactly
   (Sturm).
6. Rank. Draw each of some rows with a > 0 with probability theta (B_i = 1, else 0), and keep these rows and
   columns. If P projects on the rows of what is kept, its rank is the sum of the P_ii, and P_ii is at least
   the square of entry i of row i scaled to length 1. So n r >= sum_i B_i/(1 + sum_j B_j c_ij²), and with
   chi_ij as in 5, 1/(1 + sum_j B_j c_ij²) is at least 1 - sum_j B_j chi_ij and prod_j (1 - B_j chi_ij).
7. *Line.* Let C be 19/5 or 81/25, with its h, q* = 1/(C theta), and draw from the rows with a > 0 and q_i <
   q*: n r >= sum theta (1 - theta sum_j chi_ij) >= sum theta (1 - q_i/q*). R is concave, so these rows lose
   R(q*) q_i/q* or more, and the others R(q*). Together the mean loss is at least R(q*) (1 - r/theta).
8. *Logarithm.* With the first family, draw from all rows with a > 0: n r >= sum theta prod_j (1 - theta
   chi_ij). As -log(1 - theta chi) <= theta chi + (-log(1 - theta) - theta) chi² <= m (chi + chi²/6) with m =
   max(theta, -(6/7) log(1 - theta)), n r >= sum z_i for z_i = theta exp(-C m q_i), and z_i = 0 where a <= 0.
   So a row loses R(log(theta/z_i)/(C m)) or more, which is D at z_i = 0, falls, and is convex on [0, theta]
   if C m >= 2 k/D. The mean loss is at least the same at z = r < theta (Jensen).

Any theta <= 1 gives a bound in 7; the best one is r + sqrt(r² + r k/(C D)), or 1. Any theta < 1 with C m >=
2 k/D gives one in 8. Rounding cannot matter: 3.77 would do for 19/5, and 81/25 is taken a little larger.
"""

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray, Real, plain

__all__ = ["decoder_bound", "interference_bound", "loss_bound"]

# Step 5: C and h of the two families. C of the second one leaves room for rounding.
FIRST, SECOND = (19.0 / 5.0, 11.0 / 3.0), (81.0 / 25.0 * (1.0 + 1e-12), 37.0 / 2.0)


@arguments.finite
def interference_bound(ratio: npt.ArrayLike) -> Real:
    r"""Least mean over rows of the squared interference, a square x counted as x/(1 + x).

    .. math:: \frac1n \sum_{i \ne j} \frac{M_{ij}^2}{M_{ii}^2 + M_{ij}^2} \ge
              \begin{cases} 1/(4r) & r \le 1/2 \\ 1 - r & \text{else} \end{cases}
              \qquad (r = \mathrm{ratio})

    for every real matrix with positive diagonal and rank n_hidden at most (step 6 of the module's proof, all
    rows drawn with probability min(2 r, 1)). Antipodal pairs meet it.

    `ratio` is as for `loss_bound`. Squares themselves have 1/ratio - 1 (Cowsik et al. 2024, Eq. 6), but one
    huge entry may meet that.

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
        Per feature, at every n_features. Proved; see the module. In closed form, to 1e-14 relative. As p → 0,
        25 (1 - ratio)/81 p² for ratio >= 1/2, which skew pairs mixed with features kept reach, and 25/(324
        ratio) p² or more below; for small ratio 5/(19 e ratio) p².

    Raises
    ------
    ValueError
        If an argument is out of range.

    See Also
    --------
    decoder_bound : Another one, for any decoder, below ratio = p.

    Notes
    -----
    The best codes known are at most a factor 3 above it for p <= 0.1 and ratio >= 0.1, 1.5 for ratio >= 1/2.

    Examples
    --------
    >>> round(loss_bound(1e-9, 0.5) / 1e-18, 4), round(25 / 162, 4)
    (0.1543, 0.1543)
    """
    on = arguments.real("p", p, 0, 1, brackets="()")
    on, r = arguments.together(p=on, ratio=arguments.real("ratio", ratio, 0, 1, brackets="(]"))
    k = on * on * (1.0 - on)
    # 8. The best theta depends on r alone, but for what is allowed. This one is within 4 % of the best.
    C, ratio_k = FIRST[0], _k_over_d(on, FIRST[1])
    allowed = -np.expm1(-7.0 / 3.0 * ratio_k / C)
    theta = np.maximum(np.minimum(np.minimum(np.e * r, np.sqrt(r)), 0.9), allowed)
    m = np.maximum(theta, -6.0 / 7.0 * np.log1p(-theta))
    gain = np.log(theta) - np.log(r)  # theta/r may leave the doubles
    found = k * gain / (C * m + ratio_k * gain)
    for C, h in (FIRST, SECOND):  # 7.
        ratio_k = _k_over_d(on, h)
        theta = np.minimum(r + np.sqrt(r * (r + ratio_k / C)), 1.0)
        found = np.maximum(found, (1.0 - r / theta) * k / (C * theta + ratio_k))
    return plain(found)


def _k_over_d(p: FloatArray, h: float) -> FloatArray:
    return p * (h * (1.0 - p) + 2.25 * p)


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
