"""Regular polygons in the plane with the best norm and bias, for equal features."""

import numpy as np

from ...theory import validation
from ...theory.validation import FloatArray
from ..loss import value_and_gradient
from ..minimise.descent import DescentResult, Round, lbfgs, successive_elimination
from ..results import Status, result

__all__ = ["Polygon", "best_polygon"]

# Biases to start from: silent, nearly silent, nearly affine, affine.
_BIASES = (-0.4, -0.1, 0.05, 0.3)
_CONVERGED = 1e-6  # gradient norm, in units of p, below which a polygon counts as converged


@result
class Polygon:
    """The best regular polygon: k features of this p, of one squared norm `a` and one bias `b`."""

    k: int
    p: float
    a: float
    b: float
    loss: float
    """Exact loss per feature."""
    gain: float
    """k times (loss of a dropped feature, p/3 - p²/4, minus `loss`): what the polygon saves in all."""
    gradient_norm: float
    """Length of the gradient by log a and b, over p."""
    status: Status
    """CONVERGED if `gradient_norm` is below 1e-6, else STALLED."""


def best_polygon(k: int, p: float) -> Polygon:
    r"""Return the regular polygon of k features with the norm and bias of least exact loss.

    The polygon with the largest `gain` (total loss of k dropped features minus that of the polygon) is the
    best way to store some of many features as one polygon. The result is a critical point among all models,
    often a saddle, which `minimise` leaves.

    Parameters
    ----------
    k, p : int, float
        Number of features, 2 (the antipodal pair) to 32, and the probability that one is on, in [1e-4, 1].

    Returns
    -------
    Polygon
        The best end of descents from four biases, not proved to be the best polygon; relative error of the
        loss 1e-9.

    Examples
    --------
    >>> pentagon = best_polygon(5, 0.05)
    >>> round(pentagon.a, 3), round(pentagon.b, 3), round(pentagon.gain, 6)
    (1.287, -0.246, 0.071305)
    """
    size, on = validation.integer("k", k, 2, 32), validation.number("p", p, 1e-4, 1)
    cosines = np.cos(2.0 * np.pi * np.arange(size) / size)
    cosines[np.abs(cosines) < 1e-15] = 0.0
    M = np.array([np.roll(cosines, i) for i in range(size)])

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        """Return the polygon's loss per feature over p, and its gradient, at x = (log squared norm, bias)."""
        a = float(np.exp(x[0]))
        value, by_M, by_b = value_and_gradient(a * M, float(x[1]), on, tol=1e-11, rows=[0])
        return value / on, np.array([a * (by_M[0] @ cosines), by_b[0]]) / on

    starts = [DescentResult.at((0.0, b)) for b in _BIASES]
    best = successive_elimination(starts, [Round(lambda end: lbfgs(loss, end.x, gtol=1e-9))])[0][0]
    least, slope = best.value * on, best.slope
    return Polygon(
        k=size,
        p=on,
        a=float(np.exp(best.x[0])),
        b=float(best.x[1]),
        loss=least,
        gain=size * (on / 3.0 - on * on / 4.0 - least),
        gradient_norm=slope,
        status=Status.CONVERGED if slope <= _CONVERGED else Status.STALLED,
    )
