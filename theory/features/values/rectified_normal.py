"""Rectified normal values, max(0, ratio + N(0, 1)), which public data for sparse autoencoders have."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from ... import validation
from ...compile.kernels import inlined
from ...derivation import sp
from ...special.cut import LOG_ROOT, cut
from ...special.normal import POINTS, WEIGHTS
from ...validation import FloatArray
from .half_normal import transform as half_normal
from .law import Definition, Posterior, Three, ValueDistribution, register
from .normal import noisy_support

__all__ = ["RECTIFIED_NORMAL", "rectified_normal"]


@inlined
def _transform(z: complex, ratio: float) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of v = max(0, ratio + N(0, 1)).

    The atom at 0 adds P(v = 0) = erfc(ratio/sqrt(2))/2 to r = 0. The values above 0 add exp(-ratio^2/2)/2
    times the means E |y|^r e^((z + ratio)|y|) of a standard normal y (`half_normal`).
    """
    a, b, c = half_normal(z + ratio)
    share = 0.5 * math.exp(-0.5 * ratio * ratio)
    return 0.5 * math.erfc(ratio * math.sqrt(0.5)) + share * a, share * b, share * c


@inlined
def _nonzero_transform(z: complex, ratio: float) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of v = max(0, ratio + N(0, 1)) given v > 0.

    v > 0 has the probability erfc(-ratio/sqrt(2))/2.
    """
    a, b, c = half_normal(z + ratio)
    share = math.exp(-0.5 * ratio * ratio) / math.erfc(-ratio * math.sqrt(0.5))
    return share * a, share * b, share * c


def rectified_normal(ratio: float) -> ValueDistribution:
    r"""Law of values max(0, ratio + N(0, 1)): at scale sd and ratio mean/sd, max(0, mean + sd N(0, 1)).

    With probability :math:`\Phi(-\mathrm{ratio})` the value of a feature that is on is 0.

    Parameters
    ----------
    ratio : float
        From -5 to 30.

    Returns
    -------
    ValueDistribution
        Also known as "rectified-normal(ratio)", and with the ratio 1 as "rectified-normal".

    Examples
    --------
    >>> from superposition.theory.features import Features
    >>> mean, sd = 1.0, 0.25
    >>> x = Features(2, 0.1, rectified_normal(mean / sd), scale=sd)
    >>> x.mean.round(6), Features(2, 0.1, "rectified-normal(4)", sd).mean.round(6)
    (array([0.1, 0.1]), array([0.1, 0.1]))
    """
    return _law_of_ratio(float(validation.number("ratio", ratio, -5.0, 30.0)))


@lru_cache(maxsize=1024)
def _law_of_ratio(ratio: float) -> ValueDistribution:
    """Return the law of max(0, ratio + N(0, 1)), cached."""
    none, high = float(ndtr(-ratio)), max(ratio, 0.0) + 10.0
    # From this angle on, exp(z^2/2 + ratio z) stays below exp(1/2).
    square = 1.0 / (2.0 + max(ratio, 0.0) ** 2)

    def density(v: FloatArray) -> FloatArray:
        """Return the density at v > 0."""
        return np.asarray(np.exp(-0.5 * (v - ratio) ** 2 - LOG_ROOT))

    def moment(k: int) -> float:
        """Return E v^k."""
        if k == 0:
            return 1.0
        step = (high + 18.0) / 80  # up to the power 150
        v = step * (np.arange(80)[:, None] + POINTS)
        return float(step * np.sum(WEIGHTS * v**k * density(v)))

    def posterior(y: FloatArray, sigma: float) -> Posterior:
        """Return, for y = v + sigma Z, its log density, and mean and variance of v given y."""
        total, variance = 1.0 + sigma * sigma, sigma * sigma / (1.0 + sigma * sigma)
        share, first, second = cut((y + ratio * sigma * sigma) / total / np.sqrt(variance))
        on = share - 0.5 * (y - ratio) ** 2 / total - LOG_ROOT - 0.5 * np.log(total)
        off = log_ndtr(-ratio) - 0.5 * (y / sigma) ** 2 - LOG_ROOT - np.log(sigma)
        mean, positive = np.sqrt(variance) * first, expit(on - off)
        return (
            np.logaddexp(on, off),
            positive * mean,
            positive * (variance * second + expit(off - on) * mean**2),
        )

    def definition() -> Definition:
        """Return the law's density and atoms in SymPy."""
        v, exact = sp.Symbol("v", positive=True), sp.Rational(str(ratio))
        normal = sp.exp(-((v - exact) ** 2) / 2) / sp.sqrt(2 * sp.pi)
        return Definition(v, normal, sp.Integer(0), sp.oo, {sp.Integer(0): sp.erfc(exact / sp.sqrt(2)) / 2})

    return ValueDistribution(
        "rectified-normal" if ratio == 1.0 else f"rectified-normal({repr(ratio).removesuffix('.0')})",
        support=(0.0, np.inf),
        moment=moment,
        draw=lambda rng, size: np.maximum(ratio + rng.standard_normal(size), 0.0),
        definition=definition,
        atoms=((0.0, none),),
        density=density,
        typical=(0.0, high),
        transform=_transform,
        nonzero_transform=_nonzero_transform,
        shape=ratio,
        wedge=(float(np.arccos(np.sqrt(square))), max(1.0, math.sqrt(moment(2)))),
        # ndtri(0) would be infinite
        quantile=lambda torch, u: (torch.special.ndtri(u.clamp(min=2.0**-54)) + ratio).clamp(min=0.0),
        posterior=posterior,
        noisy_support=lambda sigma: (-12.0 * sigma, max(ratio, 0.0) + noisy_support(sigma)),
    )


RECTIFIED_NORMAL = _law_of_ratio(1.0)
register(RECTIFIED_NORMAL)
register(rectified_normal, "rectified-normal")
