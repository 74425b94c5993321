"""Lower bounds of the loss that hold for every choice of weights.

`decoder_bound` is for any decoder of n_hidden linear measurements, below ratio = p; `relu_bound` for any
model ReLU(M x + b) whose matrix has rank n_hidden at most, tied or not, with any biases, at every n_features.
The page "Structured codes" has the proof.
"""

import numpy.typing as npt

from .. import validation
from ..unequal.bounds import alike_bound, any_decoder_bound
from ..validation import Real, scalar_or_array

__all__ = ["decoder_bound", "relu_bound"]


@validation.finite
def relu_bound(p: npt.ArrayLike, ratio: npt.ArrayLike) -> Real:
    """Lower bound on the loss of any model ReLU(M x + b) with rank(M) <= n_hidden.

    The losses of the best codes known are at most 3 times the bound for p <= 0.1 and ratio >= 0.1, and 1.5
    times for ratio >= 1/2. For features that differ see `superposition.theory.unequal.loss_bound`.

    Parameters
    ----------
    p, ratio : array_like of float
        Probability that a feature is on, in (0, 1), and n_hidden/n_features, in (0, 1]; they broadcast.

    Returns
    -------
    float or ndarray of float64
        Loss per feature, a proved bound at every n_features (see the module); relative rounding error 1e-12.
        As p → 0 the bound is 25 (1 - ratio)/81 p² for ratio >= 1/2, at least 25/(324 ratio) p² for ratio <
        1/2, and 5/(19 e ratio) p² for small ratio.

    Examples
    --------
    >>> round(relu_bound(1e-9, 0.5) / 1e-18, 4), round(25 / 162, 4)
    (0.1543, 0.1543)
    """
    on = validation.real("p", p, 0, 1, brackets="()")
    r = validation.real("ratio", ratio, 0, 1, brackets="(]")
    validation.broadcast(p=on, ratio=r)
    return scalar_or_array(alike_bound(on, r))


@validation.finite
def decoder_bound(p: npt.ArrayLike, ratio: npt.ArrayLike) -> Real:
    r"""Lower bound on the loss per feature of any decoder of n_hidden linear measurements.

    .. math:: L \ge \frac{p - r}{2 \pi e} \left(\frac{6}{\pi e}\right)^{r/(p - r)}
              \quad (r = \mathrm{ratio} < p), \qquad L \ge 0 \text{ else.}

    The bound holds at every n_features; the page "Structured codes" has the proof. For ratio >= p no positive
    bound exists: for n → ∞ the loss of the best decoder is 0 (Wu and Verdú 2010, Rényi information dimension:
    fundamental limits of almost lossless analog compression).

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].
    ratio : array_like of float
        r, n_hidden/n_features, in [0, 1].

    Returns
    -------
    float or ndarray of float64
        Of the broadcast shape.

    Examples
    --------
    >>> round(decoder_bound(0.1, 0.05), 6), decoder_bound(0.1, 0.2)
    (0.002057, 0.0)
    """
    on, r = validation.probability("p", p), validation.real("ratio", ratio, 0, 1)
    return scalar_or_array(any_decoder_bound(on, r))
