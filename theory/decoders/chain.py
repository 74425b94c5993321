"""The source's chain of inequalities for a feature that is on: no elementwise decoder errs less (App. D)."""

import numpy as np
from scipy.special import erf, ndtr

__all__ = ["WITHIN_ONE", "chain_constant", "interior_probability"]

WITHIN_ONE = float(erf(2**-0.5))  # P(|Z| <= 1)


def _density(x: float) -> float:
    return float(1 / np.sqrt(2 * np.pi) * np.exp(-0.5 * np.square(x)))


def interior_probability(sigma: float) -> float:
    """Return P(sigma <= u + nu <= 1 - sigma)."""

    def antiderivative(x: float) -> float:
        return float(x * ndtr(x) + _density(x))

    # The density of y is Phi(y/sigma) - Phi((y - 1)/sigma).
    high, low = (1 - sigma) / sigma, 1.0
    return sigma * (
        antiderivative(high)
        - antiderivative(low)
        - antiderivative(high - 1 / sigma)
        + antiderivative(low - 1 / sigma)
    )


def chain_constant() -> float:
    """Return C' of the source's chain: P(R), times Var[Z | |Z| <= 1], times P(y inside) at sigma = 1/4."""
    variance = 1 - 2 * _density(1.0) / WITHIN_ONE
    return WITHIN_ONE * variance * interior_probability(0.25)
