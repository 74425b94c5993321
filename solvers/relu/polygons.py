"""Regular polygons in the plane: the best norm and bias of features that are alike, and which stores most."""

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize

from ...theory import arguments
from ...theory.arguments import FloatArray
from ..loss import value_and_gradient
from ..results import Status, result

__all__ = ["ARRANGEMENTS", "Polygon", "arrangement_name", "crossings", "polygon", "saved_by"]

# Biases to start from: silent, nearly silent, nearly affine, affine.
_BIASES = (-0.4, -0.1, 0.05, 0.3)
# Gradient norm, in units of p, below which a polygon counts as converged.
_CONVERGED = 1e-6
# Arrangements that are no polygon, and names of polygons, as `solvers.relu.geometry` has them.
ARRANGEMENTS = {1: "2 singles", 2: "antipodal pair + single", 4: "2 antipodal pairs"}
_POLYGONS = {3: "triangle", 5: "pentagon", 6: "hexagon", 7: "heptagon"}
# Crossings are located to this, relative.
_WIDTH = 1e-3


@result
class Polygon:
    """The best regular polygon: k features at equal angles in the plane, one norm, one bias."""

    k: int
    """Number of features."""
    p: float
    """Probability that a feature is on."""
    a: float
    """Squared norm of the encodings."""
    b: float
    """Bias."""
    loss: float
    """Exact loss per feature."""
    gain: float
    """k times (loss of a dropped feature, p/3 - p²/4, minus `loss`): what the polygon saves in all."""
    gradient_norm: float
    """Length of the gradient by log a and b, over p."""
    status: Status
    """CONVERGED if that is below 1e-6, else STALLED."""


def polygon(k: int, p: float) -> Polygon:
    r"""Minimise the exact loss of k features on a regular polygon over the common norm and bias.

    The features are alike, so a critical point among regular polygons is one among all models. The polygon
    with the largest `gain` is the best way to store some of many features as one polygon.

    Parameters
    ----------
    k : int
        Number of features, 2 to 32. k = 2 is the antipodal pair, which needs one dimension only.
    p : float
        Probability that a feature is on, in [1e-4, 1]. One number, as the features have to be alike.

    Returns
    -------
    Polygon
        Loss to 1e-9 relative.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    BFGS from four biases; that no other minimum is lower is not proven. `solvers.minimise` cannot do this:
    most polygons are saddles among all models, and it leaves saddles.

    Examples
    --------
    >>> pentagon = polygon(5, 0.05)
    >>> round(pentagon.a, 3), round(pentagon.b, 3), round(pentagon.gain, 6)
    (1.287, -0.246, 0.071305)
    """
    size, on = arguments.integer("k", k, 2, 32), arguments.number("p", p, 1e-4, 1)
    cosines = np.cos(2.0 * np.pi * np.arange(size) / size)
    cosines[np.abs(cosines) < 1e-15] = 0.0
    M = np.array([np.roll(cosines, i) for i in range(size)])

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        a = float(np.exp(x[0]))
        value, by_M, by_b = value_and_gradient(a * M, float(x[1]), on, tol=1e-11, rows=[0])
        return value / on, np.array([a * (by_M[0] @ cosines), by_b[0]]) / on

    minimize: Any = optimize.minimize  # its stubs know no objective that returns its gradient too
    ends = [minimize(loss, (0.0, b), jac=True, method="BFGS", options={"gtol": 1e-9}) for b in _BIASES]
    best = min(ends, key=lambda end: float(end.fun))
    least, slope = float(best.fun) * on, float(np.linalg.norm(best.jac))
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


def arrangement_name(k: int) -> str:
    """Return what an arrangement in the plane is called, by its key or its number of corners."""
    return (ARRANGEMENTS | _POLYGONS).get(k, f"{k}-gon")


@lru_cache(maxsize=1024)
def _one(k: int, p: float) -> float:
    return polygon(k, p).gain / (p / 3.0 - p**2 / 4.0)


def saved_by(k: int, p: float) -> float:
    """Return what an arrangement saves, by its key in `ARRANGEMENTS` or its number of corners."""
    if k not in ARRANGEMENTS:
        return _one(k, p)
    pairs = k // 2  # of two parts; the others are single features, which lose nothing
    return pairs * _one(2, p) + (2 - pairs)


def crossings(order: list[int], saved: np.ndarray, p: np.ndarray) -> list[tuple[float, str, str]]:
    """Return where the winner changes: p, the winner below, the winner above."""
    winner = np.array(order)[saved.argmax(axis=0)]

    def ahead(x: float, a: int, b: int) -> float:
        return saved_by(a, x) - saved_by(b, x)

    found = []
    for j in np.flatnonzero(np.diff(winner)):
        low, high = int(winner[j]), int(winner[j + 1])
        at = optimize.brentq(ahead, p[j], p[j + 1], (low, high), rtol=_WIDTH)
        found.append((float(at), arrangement_name(low), arrangement_name(high)))
    return found
