"""Two features in one dimension: the onset of a dropped feature's storage, and steep outputs."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import validation

__all__ = ["aligned_pair_limit", "checked_sign", "onset_coefficient", "onset_importance", "steep_bound"]

# Below, squares of p leave the range of doubles.
_LEAST_P = 1e-150


def checked_sign(sign: int) -> int:
    """Return `sign`, the sign of w1 w2, as an int; raise a ValueError if it is neither -1 nor 1."""
    if isinstance(sign, bool) or not isinstance(sign, int | np.integer) or sign not in (-1, 1):
        raise ValueError(f"`sign` must be -1 (antipodal) or 1 (same sign); got {sign!r}.")
    return int(sign)


def _onset_state(p: Any, sign: int) -> tuple[Any, Any, Any]:
    """Return alpha, delta and E y at which a small encoding of a dropped feature raises the loss least.

    Feature 1 is exact and feature 2 dropped, on one neuron. If feature 2 gets a small weight eps, the weight
    and bias of feature 1 change by alpha eps and delta eps; y = sign x2 + delta. p is the probability that a
    feature is on, `sign` that of the product of the two encodings.
    """
    if sign > 0:
        delta = -0.5 + 0.0 * p
    else:  # the positive root of p q delta^2 + (p/2 + 2 q^2) delta - p^2/4
        q = 1.0 - p
        linear = 0.5 * p + 2.0 * q * q
        delta = 0.5 * p * p / (linear + np.sqrt(linear * linear + p**3 * q))
    mean = sign * 0.5 * p + delta
    return -0.75 * mean, delta, mean


@validation.finite
def onset_importance(p: npt.ArrayLike, sign: int) -> Any:
    """Relative importance at which a dropped feature starts to lower the loss with a small encoding.

    Two features share one dimension, with free biases; the first is exact, the second dropped: w = (1, 0), b
    = (0, p/2). The first feature has importance 1. If the second one's importance is above the result, this
    state is a saddle; if below, a local minimum among states in which w1 w2 has this `sign`. As p → 0 the
    result tends to p for sign -1 and to 5/16 for sign 1; at p = 1 it is 1 for both. `derive_onset` has the
    loss near the state.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in [1e-150, 1].
    sign : {-1, 1}
        Sign of the product of the two encodings: -1 antipodal, 1 same sign.

    Returns
    -------
    float or ndarray of float64
        In (0, 1], relative error below 1e-13.

    Examples
    --------
    >>> round(onset_importance(0.6, -1), 9), round(onset_importance(0.6, 1), 9)
    (0.665398849, 0.745454545)
    """
    on = validation.real("p", p, _LEAST_P, 1)
    sign = checked_sign(sign)
    _, delta, mean = _onset_state(on, sign)
    # E y^2 - 3/4 (E y)^2 as a sum of positive terms
    spread = on / 3.0 - on * on / 4.0 + 0.25 * mean * mean
    clipped = (1.0 - on) * delta**2 + on * delta**3 / 3.0 if sign < 0 else on / 24.0
    cost = on * spread + (1.0 - on) * clipped
    return validation.scalar_or_array(np.asarray(cost / (on / 3.0 - on * on / 4.0)))


@validation.finite
def onset_coefficient(p: npt.ArrayLike, sign: int) -> Any:
    r"""Coefficient of \|w2\|³ in twice the loss per feature, at the importance where w2 = 0 turns unstable.

    w2 is the weight of the dropped feature. Where the coefficient is positive, for sign -1 at 0.5202 < p <
    0.8373 only, w2 can grow continuously from 0, unless a distant state has less loss. Where the coefficient
    is negative, a state with w2 != 0 has less loss already before the onset, so that w2 jumps. `p` is the
    probability that a feature is on, `sign` is 1 or -1, that of w1 w2; errors are those of
    `onset_importance`.

    Returns
    -------
    float or ndarray of float64
        Absolute error below 1e-14.

    Examples
    --------
    >>> [round(onset_coefficient(p, -1), 6) for p in (0.6, 1.0)]
    [0.002458, -0.010417]
    """
    on = validation.real("p", p, _LEAST_P, 1)
    sign = checked_sign(sign)
    alpha, delta, mean = _onset_state(on, sign)
    q = 1.0 - on
    variance = on / 3.0 - on * on / 4.0
    # means over x2 of s x2, y s x2
    drift = sign * 0.5 * on
    product = on / 3.0 + delta * drift
    cross = 2.0 * alpha**3 / 3.0 + alpha**2 * drift + 0.5 * alpha**2 * mean + alpha * product
    if sign < 0:
        clipped = on * (1.0 - delta) ** 4 / 4.0
        off = -on * delta**3 / 6.0
    else:
        clipped = on * delta**4 / 4.0 + q * (-delta) ** 3
        off = on * (1.0 + delta) ** 2 * (2.0 - delta) / 6.0
    cubic = 2.0 * on * cross - 2.0 / 3.0 * on * clipped + 2.0 * q * alpha * off
    drag = 2.0 * alpha * variance * np.asarray(onset_importance(on, sign))
    return validation.scalar_or_array(np.asarray(cubic + drag))


def steep_bound(a: npt.ArrayLike, p: npt.ArrayLike) -> Any:
    r"""Lower bound of the loss of an output with diagonal weight a, whatever its other weights and its bias.

    .. math:: E\,(x_i - \mathrm{ReLU}(a x_i + c))^2 \ge \frac p3 \left(\frac{a - 1}{a + 1}\right)^2
              \quad (a \ge 1),\ c \text{ independent of } x_i.

    Errors are those of `onset_importance`.

    Parameters
    ----------
    a, p : array_like of float
        Weight of the output on its own feature, \|W_i\|² in a tied model, at least 1, and the probability
        that the feature is on, in [0, 1]; they broadcast.

    Examples
    --------
    >>> round(steep_bound(3.0, 0.3), 12)
    0.025
    """
    steep = validation.real("a", a, 1)
    on = validation.real("p", p, 0, 1)
    validation.broadcast(a=steep, p=on)
    return validation.scalar_or_array(np.asarray(on / 3.0 * ((steep - 1.0) / (steep + 1.0)) ** 2))


def aligned_pair_limit(p: npt.ArrayLike, scaled_weight: npt.ArrayLike = 1.0) -> Any:
    r"""Least loss of two features on one neuron, summed over both, as the neuron's impurity tends to 0.

    The neuron's impurity is the smaller one of its two squared input weights, which add up to 1.

    .. math:: \min\left\{ v,\ \frac{p^2}{3} + (1 - p)(1 - \min(\tau, 1))^2\, v \right\},
              \qquad v = \frac{p (4 - 3p)}{12}.

    The network is ReLU(V ReLU(W x + beta) + c) with a row W of length 1, as in
    `solvers.relu.alignment_frontier`; the page on problem O48 has the proof.

    Parameters
    ----------
    p, scaled_weight : array_like of float
        Probability that a feature is on, in (0, 1], and :math:`\tau \ge 0`, the limit of sqrt(impurity) times
        the largest output weight allowed. From 1 on this restriction has no effect. They broadcast.

    Returns
    -------
    float or ndarray of float

    Examples
    --------
    >>> aligned_pair_limit([0.1, 0.9]).round(6).tolist(), round(aligned_pair_limit(0.1, 0.5), 6)
    ([0.003333, 0.0975], 0.010271)
    """
    on, tau = validation.probability("p", p), validation.real("scaled_weight", scaled_weight, 0)
    on, tau = validation.broadcast(p=on, scaled_weight=tau)
    dropped = on * (4.0 - 3.0 * on) / 12.0
    gated = on**2 / 3.0 + (1.0 - on) * np.maximum(1.0 - tau, 0.0) ** 2 * dropped
    return validation.scalar_or_array(np.minimum(dropped, gated))
