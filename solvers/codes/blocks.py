"""Blocks of equal features at the best scale, bias and shift, by the exact loss of one output."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.codes import CODES, Overlaps, antipodal_loss, antipodal_optimum, overlaps
from ...theory.validation import FloatArray
from ..loss import row_loss
from ..minimise.descent import DescentResult, Round, lbfgs, successive_elimination
from ..results import result
from ..rug.optimum import optimum

__all__ = ["Block", "blocks"]

# Below, the loss of a block, of order p², drowns in the error of its computation, a fraction of p.
LEAST_P = 1e-6
_ROUNDING = 1e-14  # rounding of the overlaps, to either side of zero
_SHIFTED = " shifted"  # ends the names of codes with a free shift


@result
class Block:
    """A code at its best parameters: outputs ReLU(a (G - shift)/(1 - shift) x + b), G the Gram matrix."""

    name: str
    """Name of the code, followed by the word shifted if the shift is free."""
    n_features: int
    """Features of one block."""
    n_hidden: int
    """Hidden dimensions of one block, one of them for the shift if it is free."""
    p: float
    """Probability that a feature is on."""
    a: float
    """Scale."""
    b: float
    """Bias."""
    shift: float
    """Constant that is subtracted from all entries of G."""
    loss: float
    """Exact loss per feature at these parameters, to about 1e-12 p/3."""

    @property
    def shifted(self) -> bool:
        """Whether a constant, the shift, is subtracted from all entries of the Gram matrix G."""
        return self.name.endswith(_SHIFTED)

    @property
    def ratio(self) -> float:
        """n_hidden/n_features of the block."""
        return self.n_hidden / self.n_features


def _loss_over_square(code: Overlaps, p: float, tol: float, x: FloatArray) -> float:
    """Return the exact loss per feature over p² of a code at x = (log scale, bias over scale, shift).

    The model is ReLU(M x + b) with M = scale (G - shift)/(1 - shift), where G is the code's Gram matrix.
    `tol` is the error to aim at, relative to the loss or to E x_i^2, whichever is larger.
    """
    a, shift = float(np.exp(x[0])), float(x[2])
    row = a * (code.row() - shift) / (1.0 - shift)
    row[np.abs(row) < _ROUNDING] = 0.0
    return row_loss(row, 0, a * float(x[1]), p, tol=tol).loss / p**2


def _best_end(
    loss: Callable[[FloatArray], float], starts: Sequence[npt.ArrayLike], bounds: list[tuple[float, float]]
) -> FloatArray:
    """Return the x of least loss(x) that L-BFGS-B, started from each of `starts`, finds within `bounds`."""

    def search(
        end: DescentResult,
    ) -> DescentResult:  # the gradient of one output's loss would cost fifty losses and more
        """Return the end of a descent on `loss` from `end`, with the gradient by differences."""
        return lbfgs(loss, end.x, gradient=False, bounds=bounds, ftol=1e-12, gtol=1e-7)

    return successive_elimination([DescentResult.at(x) for x in starts], [Round(search)])[0][0].x


def _best_parameters(code: Overlaps, p: FloatArray, free: bool) -> FloatArray:
    """Return, for each p, the row (log scale, bias/scale, shift) of least exact loss of `code`.

    The shift is optimised if `free`, else 0. Descents at a p also start from the parameters found at the next
    larger p.
    """
    largest = max(0.0, *code.values)
    # Sparse, or as if interference were normal: at 544 random places one of these had the best known end.
    sparse = [0.02, -0.01, largest] if free else [0.1, -0.9 * largest, 0.0]
    bounds = [(-6.0, 2.0), (-5.0, 50.0), (-0.9, 0.9) if free else (0.0, 0.0)]
    best: dict[float, FloatArray] = {}
    for p_k in np.unique(p)[::-1].tolist():
        loss = partial(_loss_over_square, code, p_k, max(1e-12, 1e-6 * p_k))
        rug = optimum(p_k, code.n_hidden / code.n_features)
        normal = [float(np.log(rug.a)), float(rug.b / rug.a), 0.0]
        best[p_k] = _best_end(loss, [*list(best.values())[-1:], normal, sparse], bounds)
    return np.array([best[p_k] for p_k in p.tolist()])


def blocks(p: npt.ArrayLike, names: Sequence[str] = CODES, *, tied: bool = False) -> list[list[Block]]:
    """Return each code at its best scale, bias and, unless tied, shift, at each p.

    A code is a set of unit vectors with Gram matrix G, one a feature, and its model ReLU(M x + b) with
    M = a (G - shift)/(1 - shift): the shift is subtracted from all entries of G.

    Parameters
    ----------
    p : (n,) array_like of float
        Probabilities that a feature is on, in [1e-6, 1].
    names : sequence of str, optional
        Codes such as "pair" or "pentagon", all of `theory.codes.CODES` by default.
    tied : bool, optional
        Whether to leave out the shifted codes, which are not tied.

    Returns
    -------
    list of list of Block
        For each code, or code and shift, its blocks at each p in the order given. Pairs are in closed form;
        for others L-BFGS-B minimises the exact loss of one row, which stands for all, from two starts and the
        parameters at the next larger p. Each loss is that of a model, but not proved to be the least.

    Examples
    --------
    >>> (found,) = blocks([0.01, 0.1], ["pair"])
    >>> [round(one.loss, 9) for one in found]
    [1.6661e-05, 0.001659742]
    """
    on = validation.probability("p", validation.vector("p", p), low=LEAST_P)
    tied = validation.flag("tied", tied)
    blocks_by_p = []
    for name in validation.choices("names", names, CODES):
        code = overlaps(name)
        # A shift pays where there is positive interference to subtract, and a dimension to spare.
        free = not tied and max(code.values) > 0.0 and code.n_hidden + 1 < code.n_features
        for shifted in (False, True) if free else (False,):
            if name == "pair":
                scale, bias = np.array(antipodal_optimum(on))
                shift, losses = np.zeros(on.size), np.asarray(antipodal_loss(on))
            else:
                x = _best_parameters(code, on, shifted)
                scale, shift = np.exp(x[:, 0]), x[:, 2]
                bias = scale * x[:, 1]
                losses = np.array(
                    [
                        q * q * _loss_over_square(code, q, 1e-12, y)
                        for q, y in zip(on.tolist(), x, strict=True)
                    ]
                )
            sizes = name + _SHIFTED * shifted, code.n_features, code.n_hidden + shifted
            columns = np.stack([on, scale, bias, shift, losses], axis=1).tolist()
            blocks_by_p.append([Block(*sizes, *column) for column in columns])
    return blocks_by_p
