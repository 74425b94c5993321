"""The best decoder of each kind, for one Gaussian interference."""

from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from ...theory import validation
from ...theory.decoders import active_fraction, bayes_loss
from ...theory.decoders.line import best_line, line_losses
from ...theory.decoders.loss import LARGEST_K, channel, topk_lost, topk_nodes
from ...theory.features import ValueDistribution
from ...theory.results import result
from .evolution import variance_of

__all__ = ["DECODERS", "Decoder", "TopK", "optimum", "topk_optimum"]

DECODERS = ("affine", "soft", "hard", "relu", "jumprelu", "bayes")

# In units of sigma: step of the scan over thresholds, since the loss can have two minima; below every value
# by BELOW all outputs are kept; no noise reaches ABOVE.
SPACING, BELOW, ABOVE = 0.25, 9.0, 38.0


@result
class Decoder:
    """Decoder of least loss of its kind: a y + b where y > theta, else 0; arrays of one shape, or floats.

    `theta` is -inf if all outputs are kept. For "bayes", which has no such form, theta, a and b are NaN.
    `loss` is per feature.
    """

    theta: Any
    a: Any
    b: Any
    loss: Any


def optimum(
    p: npt.ArrayLike,
    sigma: npt.ArrayLike,
    decoder: str = "jumprelu",
    *,
    values: str | ValueDistribution = "uniform",
) -> Decoder:
    r"""Return the decoder of least loss among those of one kind, for y = x + sigma Z with Z normal.

    All decoders but "bayes" are 0 up to a threshold theta, -inf if affine, and linear above it. For each
    theta the best line, where it is free, is a linear regression, solved in closed form. Thresholds are
    scanned in steps of sigma/4, and each minimum of the scan is refined. The best gated ReLU is a JumpReLU,
    and ReLU is a stationary point of its loss, the minimum where features are not rare. If sigma is large the
    best threshold may lie below all outputs; the decoder is then affine, except a ReLU of values of both
    signs.

    Parameters
    ----------
    p, sigma : array_like of float
        Probability that a feature is on, in [1e-100, 1]; standard deviation of the interference, from 1e-100
        to 1e3, in units of the weight with which the output reads its own feature.
    decoder : {"affine", "soft", "hard", "relu", "jumprelu", "bayes"}
        Affine is a y + b, and bayes E[x | y]. The others are 0 except where y > theta: there soft is
        y - theta, hard y, relu a (y - theta), and jumprelu a y + b.
    values : str or ValueDistribution, optional
        Law of the value of a feature that is on, at scale 1; see `superposition.theory.features.Features`.

    Returns
    -------
    Decoder
        Relative error of the loss below 1e-9, unless it is below 1e-28 p; of theta, a, b its square root.

    Examples
    --------
    >>> relu, jump, bayes = (optimum(1e-3, 0.03, kind).loss for kind in ("relu", "jumprelu", "bayes"))
    >>> round(relu / bayes, 3), round(jump / bayes, 3)
    (2.005, 1.082)
    """
    on, s, values = channel(p, sigma, values)
    if validation.choice("decoder", decoder, (*DECODERS, "topk")) == "topk":
        raise ValueError("`decoder` must act on each output alone; got 'topk', which `topk_optimum` solves.")
    on, s = validation.broadcast(p=on, sigma=s)
    optima = np.vectorize(partial(_best_decoder, values, decoder), otypes=[np.float64] * 4)(on, s)
    return Decoder(*(part[()] for part in optima))


def _best_decoder(
    values: ValueDistribution, decoder: str, p: float, sigma: float
) -> tuple[float, float, float, float]:
    """Return (theta, a, b, loss) of the best decoder of the kind `decoder`, a name in `DECODERS`.

    The decoder is a y + b for y > theta, else 0; theta, a and b are NaN for "bayes". A feature is on with
    probability p and then has the law `values`; sigma is the standard deviation of the interference.
    """
    if decoder == "bayes":
        return np.nan, np.nan, np.nan, float(bayes_loss(p, sigma, values=values))
    mean, variance = p * values.moment(1), variance_of(p, values)
    a = variance / (variance + sigma * sigma)
    affine = -np.inf, a, (1.0 - a) * mean, variance * sigma * sigma / (variance + sigma * sigma)
    # A ReLU cuts negative outputs: of values that are not negative it loses no more than an affine decoder.
    linear = decoder in ("affine", "jumprelu") or (decoder == "relu" and values.support[0] >= 0.0)
    if decoder == "affine" or (linear and affine[3] == 0.0):  # x may be constant
        return affine
    # All outputs kept: below the scan an output is nearly its value, and to drop it only loses.
    limit = affine if linear else (-np.inf, 1.0, 0.0, sigma * sigma if decoder == "hard" else np.inf)

    def line(theta: float) -> tuple[float, float, float]:
        """Return a, 1 - a and b of the best a y + b above the threshold theta, for this kind of decoder."""
        if decoder == "soft":
            return 1.0, 0.0, -theta
        if decoder == "hard":
            return 1.0, 0.0, 0.0
        return best_line(values, theta, sigma, p, decoder == "relu")

    def loss(shift: float) -> float:
        """Return the least loss of this kind of decoder at the threshold shift times sigma."""
        theta = shift * sigma
        return sum(line_losses(values, theta, *line(theta), sigma, p))

    low = -BELOW if decoder != "relu" else -BELOW - (affine[2] / a) / sigma
    # Off and on are as likely at most there; a larger threshold drops what is surely on.
    high = np.sqrt(-2.0 * np.log(p)) + 2.0 * np.sqrt(max(-np.log(sigma), 0.0)) + 4.0
    # But with a line that is given it can be best to keep nothing; and values alone are 1/sigma away.
    if decoder in ("soft", "hard") or values.discrete:
        high = max(high, ABOVE)
    scan = np.arange(low, high + SPACING, SPACING)
    losses = np.array([loss(shift) for shift in scan])
    least = np.flatnonzero(
        (losses[1:-1] <= losses[:-2]) & (losses[1:-1] <= losses[2:]) & (losses[1:-1] <= 1.01 * losses.min())
    )
    candidates = [(losses[0], scan[0]), (losses[-1], scan[-1])]
    for k in least:
        inside = minimize_scalar(
            loss, bounds=(scan[k], scan[k + 2]), method="bounded", options={"xatol": 1e-7}
        )
        candidates.append((float(inside.fun), float(inside.x)))
    best, shift = min(candidates)
    if limit[3] <= best:
        return limit
    theta = shift * sigma
    a, _, b = line(theta)
    return theta, a, b, best


@result
class TopK:
    """Best TopK decoder: of the `k` largest outputs y the line a y + b, else 0. `loss` is per feature."""

    k: int
    a: float
    b: float
    loss: float


def topk_optimum(
    n_features: int,
    p: float,
    sigma: float,
    *,
    k: int | None = None,
    values: str | ValueDistribution = "uniform",
) -> TopK:
    """Return the TopK decoder of least loss over scale and bias, and over k if `k` is None.

    Parameters
    ----------
    n_features, k : int, optional
        Number of outputs among which TopK selects, up to 2^53, and number that it keeps, 1 to n_features.
    p, sigma : float
        Probability that a feature is on, and standard deviation of the interference. Errors are those of
        `optimum`.
    values : str or ValueDistribution, optional
        Law of the value of a feature that is on, at scale 1.

    Returns
    -------
    TopK
        Relative error of the loss below 1e-8 at its k. First all k up to 16 and some larger ones are tried.
        Then k is refined between the neighbours of the best one, where the loss is taken to have one minimum.

    Examples
    --------
    >>> best = topk_optimum(256, 0.01, 0.05)          # 2.6 features are on, on average
    >>> best.k, round(best.loss / optimum(0.01, 0.05).loss, 2)
    (7, 1.43)
    """
    n = validation.integer("n_features", n_features, 1, LARGEST_K)
    on, s, values = channel(p, sigma, values)
    q, noise = float(validation.number("p", on, 0.0, 1.0)), float(validation.number("sigma", s, 0.0, np.inf))

    @cache
    def best(k: int) -> TopK:
        """Return the best TopK decoder that keeps k outputs."""
        nodes = topk_nodes(values, k, n, noise, q)
        y, off, on, mean, _, _, power_kept = nodes
        # y - x is regressed on what is kept, as in `best_line`
        weights, error = power_kept * (off + on), power_kept * (off * y + on * (y - mean))
        m0, m1 = weights.sum(), weights @ y
        middle = m1 / m0
        shrink = (error @ (y - middle)) / (weights @ (y - middle) ** 2)
        a, b = 1.0 - shrink, shrink * middle - error.sum() / m0
        return TopK(k, a, b, topk_lost(nodes, a, b))

    if k is not None:
        return best(validation.integer("k", k, 1, n))
    # As n grows, the best k tends to what the best threshold keeps; of few features it is another one.
    theta = _best_decoder(values, "jumprelu", q, noise)[0]
    share = float(active_fraction(max(theta, -BELOW * noise), q, noise, values=values))
    limit = share * n * np.array([0.7, 0.9, 0.97, 0.99, 1.0, 1.01, 1.03, 1.1, 1.4])
    counts = np.concatenate([np.arange(1, 17), np.geomspace(16, max(n, 16), 24), limit])
    counts = np.unique(np.clip(np.round(counts), 1, n))
    losses = [best(int(k_try)).loss for k_try in counts]
    at = int(np.argmin(losses))
    low, high = int(counts[max(at - 1, 0)]), int(counts[min(at + 1, counts.size - 1)])
    while high - low > 4:
        third = (high - low) // 3
        if best(low + third).loss <= best(high - third).loss:
            high -= third
        else:
            low += third
    return min((best(k_try) for k_try in range(low, high + 1)), key=lambda result: result.loss)
