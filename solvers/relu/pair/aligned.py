"""Two features on one neuron that reads nearly one of them only, with free output weights."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from ....theory import validation
from ....theory.validation import FloatArray
from .kernels import least_over_bias

__all__ = ["alignment_frontier"]

_GAINS = 200  # own weights of an output that are tried before the best is refined


def _output_loss(target_weight: float, other: float, p: float, largest: float) -> float:
    """Return the least of E (x - ReLU(v (target_weight x + other y) + b))^2 over b and 0 <= v <= largest.

    The features x, the target, and y are on with probability p, and then uniform on [0, 1].
    """

    def loss(v: float) -> float:
        """Return the least loss over the bias at the output weight v."""
        return float(least_over_bias(v * target_weight, v * target_weight, v * other, v * other, p)[1])

    # Overshoot of own weights above 2 costs more than it can gain.
    grid = np.linspace(0.0, min(2.0 / target_weight, largest), _GAINS + 1)
    losses = [loss(v) for v in grid]
    at = int(np.argmin(losses))
    ends = grid[max(at - 1, 0)], grid[min(at + 1, _GAINS)]
    fine = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-9 * grid[-1]})
    return min(losses[at], float(fine.fun))


def alignment_frontier(
    p: float, impurity: npt.ArrayLike, *, largest_weight: float | None = None
) -> FloatArray:
    r"""Return the least loss found of two features on one neuron, for each bound on the neuron's impurity.

    The network is :math:`\mathrm{ReLU}(V\,\mathrm{ReLU}(W x + \beta) + c)` with two features, one neuron that
    is never off, and a row of W of length 1. At each impurity the output weights and biases minimise the
    exact loss, in double precision. A neuron that can be off may reach a lower loss, so the result is an
    upper bound of the least loss, close to it where such a neuron gains little.

    Parameters
    ----------
    p : float
        Probability that a feature is on, in (0, 1].
    impurity : array_like of float
        Increasing, each in (0, 1/2]: the largest share that the smaller weight may have of the row's squared
        length.
    largest_weight : float, optional
        Bound on each entry of V.

    Returns
    -------
    ndarray of float
        Loss summed over both features, not increasing, with the shape of `impurity`.

    Examples
    --------
    >>> losses = alignment_frontier(0.1, [1e-8, 4e-4])  # pure neurons lose 0.0308
    >>> losses.round(6).tolist(), alignment_frontier(0.1, [1e-8], largest_weight=1.0).round(6).tolist()
    ([0.003333, 0.003301], [0.030833])
    """
    p = validation.number("p", p, 0.0, 1.0, brackets="(]")
    shares = validation.vector("impurity", impurity)
    if not (np.all(np.diff(shares) > 0.0) and shares.size and shares[0] > 0.0 and shares[-1] <= 0.5):
        raise ValueError(
            f"`impurity` must increase, in (0, 1/2]; got {validation.short_repr(shares.tolist())}."
        )
    largest = np.inf if largest_weight is None else validation.number("largest_weight", largest_weight, 0.0)
    losses = [
        min(
            _output_loss(strong, sign * weak, p, largest) + _output_loss(weak, sign * strong, p, largest)
            for sign in (-1.0, 1.0)
        )
        for strong, weak in zip(np.sqrt(1.0 - shares), np.sqrt(shares), strict=True)
    ]
    return np.minimum.accumulate(losses)
