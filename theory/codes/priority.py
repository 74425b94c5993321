r"""Codes with weights of very different size: two dimensions for any number of features.

Where encodings differ by orders of magnitude, a small feature does not disturb the outputs of larger ones,
and a large one may silence the outputs of all smaller ones. Only the interference of larger features has to
be negative, :math:`u_i \cdot v_j \le 0` for j before i, which in the plane asks no more than that corner i
lies outside the cone of the corners before it. In the limit of a wide spread of sizes an output is exact
unless a larger feature is on that it is not orthogonal to.
"""

import numpy as np
import numpy.typing as npt

from .. import validation
from ..unequal.priority import plane_angles, planes_alike
from ..validation import FloatArray, Real, scalar_or_array

__all__ = ["priority_constant", "priority_map", "priority_plane_loss", "skew_pair_loss"]

# Most features of a code whose loss is summed.
_MOST = 1e6


def skew_pair_loss(p: npt.ArrayLike) -> Real:
    """Loss per feature of two features on one direction, encodings of lengths 1 and 3: 25 p²/162.

    The outputs are ReLU(x_1 - x_2/3) and ReLU(x_2 - 3 x_1), without bias. Their loss is 7 % below the p²/6 of
    antipodal pairs of equal lengths, which are a saddle for models whose decoder is free. The formula is
    exact at every p for these weights; bias and scale would lower the loss a little.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Of the shape of `p`.

    Examples
    --------
    >>> round(skew_pair_loss(0.1), 9)
    0.00154321
    """
    on = validation.probability("p", p)
    return scalar_or_array(25.0 * on * on / 162.0)


@validation.finite
def priority_constant(n_features: npt.ArrayLike) -> Real:
    """Return F of the loss F p² + O(p³) of a priority code of n features, ((n - 1)(n - 2)/2 - 1)/(3 n).

    Encodings of such a code differ in length by orders of magnitude. An output equals its feature, but is 0
    while certain features with longer encodings are on. With the ratio n_hidden/n_features = 2/n, F is about
    1/(3 ratio) - 1/2. `n_features`, n, is a whole number from 4 to 1e6, as for `priority_plane_loss`; p is
    the probability that a feature is on.

    Examples
    --------
    >>> priority_constant([4, 8])
    array([0.16666667, 0.83333333])
    """
    n = validation.whole_numbers("n_features", n_features, 4, _MOST)
    return scalar_or_array(((n - 1.0) * (n - 2.0) / 2.0 - 1.0) / (3.0 * n))


@validation.finite
def priority_plane_loss(p: npt.ArrayLike, n_features: npt.ArrayLike) -> Real:
    r"""Infimum of the loss per feature of priority codes of n equal features on two dimensions.

    .. math:: L = \frac{p}{3n} \sum_i \left(1 - (1 - p)^{k_i}\right), \quad k = 0, 0, 1, \dots, n - 3, n - 3

    Encodings of such a code differ in length by orders of magnitude: while a feature with a longer one is on,
    it keeps outputs of shorter ones at 0. k_i features do this to output i. Finite weights come as close to
    the infimum as one likes, see `priority_map`. As p → 0 at ratio = 2/n = c p it tends to :math:`\frac p3 (1
    - \frac c2 (1 - e^{-2/c}))`: of the features that are on, two dimensions keep one. For features that
    differ see `superposition.theory.unequal.priority_loss`.

    Parameters
    ----------
    p, n_features : array_like
        Probability that a feature is on, in (0, 1], and n, a whole number from 4 to 1e6; they broadcast.

    Returns
    -------
    float or ndarray of float64
        Relative error 1e-12.

    Examples
    --------
    >>> round(priority_plane_loss(0.01, 8) / 0.01**2, 6)
    0.820937
    """
    n = validation.whole_numbers("n_features", n_features, 4, _MOST)
    on, n = validation.broadcast(p=validation.probability("p", p), n_features=n)
    return scalar_or_array(planes_alike(on.flatten(), n.flatten()).reshape(on.shape))


@validation.finite
def priority_map(n_features: int, spread: float) -> FloatArray:
    """Return the matrix of rank 2 of a priority code with encodings of lengths 1, 1/spread, 1/spread², ....

    Longer encodings have priority: as `spread` grows, a feature that is on changes outputs of longer
    encodings ever less. It leaves outputs of shorter encodings alone, or pushes them below 0, where the ReLU
    cuts them off.

    The first n - 2 encodings point at growing angles from 0 to 90 degrees, the last two at 180 and 270. Each
    output is orthogonal to the feature before it, the last one to the first and the last but one. The
    diagonal is 1; there is no bias.

    Parameters
    ----------
    n_features : int
        n, a whole number of at least 4.
    spread : float
        At least 1; the loss approaches `priority_plane_loss` as it grows.

    Examples
    --------
    >>> priority_map(4, 2.0) @ [0.0, 0.3, 0.0, 0.8]        # the last output is cut off
    array([ 0. ,  0.1,  0. , -0.4])
    """
    n = validation.integer("n_features", n_features, 4)
    validation.check_fits("n_features", n_features, n**2)
    spread = validation.number("spread", spread, 1)
    angle, read = plane_angles(n)
    products = np.cos(read[:, None] - angle)
    products[np.abs(products) < 1e-15] = 0.0
    size = spread ** -np.arange(n, dtype=np.float64)
    M: FloatArray = products * size / (np.diag(products) * size)[:, None]
    return M
