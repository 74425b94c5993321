"""Blocks of alike features: the best scale, bias and shift, by the exact loss of one output."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import interpolate, optimize

from ...theory import arguments
from ...theory.codes import CODES, Overlaps, antipodal_loss, antipodal_optimum, overlaps
from ..loss import row_loss
from ..results import result

__all__ = ["Block", "block", "blocks"]

FloatArray = npt.NDArray[np.float64]

# Below, the loss of a block, of order p², drowns in the error of its computation, a fraction of p.
LEAST_P = 1e-6

# Rounding of the overlaps, to either side of zero.
_ROUNDING = 1e-14

# Ends the names of codes with a free shift.
_SHIFTED = " shifted"

# Values of p, evenly spaced in log p, at which parameters are optimised.
_NODES = 16


@result
class Block:
    """A code at its best parameters: outputs ReLU(a (G - shift)/(1 - shift) x + b), G the Gram matrix.

    Attributes
    ----------
    name : str
        The code's, with " shifted" if the shift is free.
    n_features, n_hidden : int
        Of one block; `n_hidden` counts the dimension that the shift takes.
    p, a, b, shift : float
    loss : float
        Exact loss per feature at these parameters, error below 1e-12 p/3 or so.
    """

    name: str
    n_features: int
    n_hidden: int
    p: float
    a: float
    b: float
    shift: float
    loss: float

    @property
    def shifted(self) -> bool:
        """Whether a dimension is spent on the shift."""
        return self.name.endswith(_SHIFTED)

    @property
    def ratio(self) -> float:
        """n_hidden/n_features."""
        return self.n_hidden / self.n_features


def _weights(code: Overlaps, shift: float) -> FloatArray:
    row = (code.row() - shift) / (1.0 - shift)
    row[np.abs(row) < _ROUNDING] = 0.0
    return row


def _starts(largest: float, free: bool) -> list[list[float]]:
    """Return log scale, bias over scale, shift: sparse, in between, almost affine."""
    if free:
        return [[0.02, -0.01, largest], [0.1, -0.3 * largest, 0.6 * largest], [-0.2, 0.1, 0.2 * largest]]
    return [[0.1, -0.9 * largest], [0.0, 0.01], [-0.4, 0.2]]


def _loss(code: Overlaps, p: float, x: Sequence[float], tol: float = 1e-12) -> float:
    """Loss over p at log scale, bias over scale and, if there is a third, shift."""
    a = float(np.exp(x[0]))
    row = a * _weights(code, float(x[2]) if len(x) == 3 else 0.0)
    return row_loss(row, 0, a * float(x[1]), p, tol=tol).loss / p


def _solve(code: Overlaps, p: float, free: bool, start: FloatArray | None) -> FloatArray:
    """Minimise `_loss` from `start`, the best parameters at a neighbouring p."""
    largest = max(0.0, *code.values)
    tol = max(1e-12, 1e-6 * p)

    def loss(x: Any) -> float:
        return _loss(code, p, x, tol)

    begin: list[Any] = [*_starts(largest, free)] if start is None else [start]
    first = np.array(min(begin, key=loss))
    # Parameters move by about this much from one p to the next; larger at the first.
    step = 0.05 if start is None else 0.02
    simplex = np.vstack([first, first + step * np.eye(first.size)])
    options: Any = {"xatol": 2e-4, "fatol": 1e-6 * p, "maxiter": 400, "initial_simplex": simplex}
    return np.asarray(optimize.minimize(loss, first, method="Nelder-Mead", options=options).x)


def _parameters(code: Overlaps, p: FloatArray, free: bool) -> FloatArray:
    """Return the best parameters at each p, shape (p, 2 or 3), between nodes by interpolation in log p."""
    nodes = np.unique(p)[::-1]
    if nodes.size > _NODES:
        nodes = np.geomspace(nodes[0], nodes[-1], _NODES)
    best: list[FloatArray] = []
    for one in nodes:
        best.append(_solve(code, float(one), free, best[-1] if best else None))
    if nodes.size == 1:
        return np.repeat([best[0]], p.size, axis=0)
    line = interpolate.PchipInterpolator(np.log(nodes[::-1]), np.array(best[::-1]))
    return np.asarray(line(np.clip(np.log(p), np.log(nodes[-1]), np.log(nodes[0]))))


def _blocks_of(code: Overlaps, p: FloatArray, free: bool) -> list[Block]:
    name = code.name + (_SHIFTED if free else "")
    found = []
    for one, x in zip(p, _parameters(code, p, free), strict=True):
        a, shift = float(np.exp(x[0])), float(x[2]) if free else 0.0
        least = one * _loss(code, float(one), x)
        sizes = name, code.n_features, code.n_hidden + free
        found.append(Block(*sizes, float(one), a, a * float(x[1]), shift, float(least)))
    return found


def _can_shift(code: Overlaps) -> bool:
    """Whether there is positive interference to subtract, and fewer dimensions than features then."""
    return max(code.values) > 0.0 and code.n_hidden + 1 < code.n_features


def blocks(p: npt.ArrayLike, names: Sequence[str] = CODES, *, tied: bool = False) -> list[list[Block]]:
    """Find the best scale, bias and, unless tied, shift of codes at each p.

    Parameters
    ----------
    p : (n,) array_like of float
        Probabilities that a feature is on, in [1e-6, 1].
    names : sequence of str, optional
        Codes, see `theory.codes.overlaps`.
    tied : bool, optional
        Leave out the shifted codes, whose decoder is not the transpose of their encoder.

    Returns
    -------
    list of list of Block
        For each code, or code and shift, its blocks at each p in the order given.

    Raises
    ------
    ValueError
        If `p` is out of range or a name is not known.

    Notes
    -----
    Pairs in closed form; otherwise Nelder and Mead on the exact loss of one row, which stands for all
    because every feature of a code sees the same. Parameters to 1e-3, so that losses are within 1e-5 of the
    code's least (a bound from above in any case, as each is the exact loss of a model). With more than 16
    different p the parameters are found at 16 of them and interpolated, which adds less than 2e-3, mostly
    below 1e-4, relative; losses are those at the interpolated parameters.

    Examples
    --------
    >>> (found,) = blocks([0.01, 0.1], ["pair"])
    >>> [round(one.loss, 9) for one in found]
    [1.6661e-05, 0.001659742]
    """
    on = arguments.real("p", arguments.vector("p", p), LEAST_P, 1)
    tied = arguments.flag("tied", tied)
    found = []
    for name in names:
        code = overlaps(name)
        if code.name == "pair":
            scale, bias = antipodal_optimum(on)
            losses = antipodal_loss(on)
            triples = zip(on, scale, bias, losses, strict=True)
            found.append(
                [Block("pair", 2, 1, float(q), float(a), float(b), 0.0, float(v)) for q, a, b, v in triples]
            )
            continue
        variants = (False, True) if not tied and _can_shift(code) else (False,)
        found.extend(_blocks_of(code, on, free) for free in variants)
    return found


def block(name: str, p: float, *, shift: bool = False) -> Block:
    """Find the best scale and bias, and shift if asked for, of one code.

    Parameters
    ----------
    name : str
        See `theory.codes.overlaps`.
    p : float
        Probability that a feature is on, in [1e-6, 1].
    shift : bool, optional
        Whether a multiple of the all-ones matrix may be subtracted, at the price of one dimension. The code
        must have positive interference then.

    Returns, Raises and Notes are those of `blocks`.

    Examples
    --------
    >>> one = block("Higman-Sims", 0.01, shift=True)
    >>> one.ratio, round(one.loss / 0.01**2, 3)
    (0.23, 1.403)
    """
    on, shift = arguments.number("p", p, LEAST_P, 1), arguments.flag("shift", shift)
    found = blocks([on], [name], tied=not shift)
    if shift and len(found) == 1:
        raise ValueError(f"`shift` must be False for a code without positive interference; got {shift!r}.")
    return found[-1][0]
