"""Phase diagram of two features in one dimension, from the exact loss."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.ndimage import minimum_filter

from ....theory import validation
from ....theory.validation import FloatArray, IntArray
from ...parallel import parallel_concat
from ...results import result
from .kernels import least_loss_table, polish_all

__all__ = ["PHASES", "PhaseDiagram", "families", "phase_diagram"]


PHASES = ("first alone", "second alone", "antipodal", "same sign")

_STEP, _SIZE = 0.1, 25  # the best encodings found are all below 1.1; the lattice of starts reaches 2.5
# Starts next to the states with one feature dropped: encodings of the other feature.
_NEAR = (-0.3, -0.05, -0.01, 0.01, 0.05, 0.3)
_ZERO = 1e-5  # with free biases an encoding counts as zero below this; without, none ever is
_ANTIPODAL, _DROPPED, _SAME = 0, 1, 2  # families: w1 w2 negative, one encoding zero, w1 w2 positive
_TIE, _ROUNDING = 1e-12, 1e-13  # differences of losses below this are rounding


@result
class PhaseDiagram:
    """Global minima of the model ReLU(W W' x + b) with two features in one dimension.

    On a grid of n_p probabilities `p` that a feature is on and n_r importances of the second feature (the
    first one's is 1), with free biases or, without `bias`, zero ones.
    """

    p: FloatArray
    importance: FloatArray
    bias: bool
    W: FloatArray
    """Encodings, the first one not negative. Shape (n_p, n_r, 2, 1)."""
    b: FloatArray
    """Biases. Shape (n_p, n_r, 2)."""
    loss: FloatArray
    """Loss per feature, (F1 + importance F2)/2. Shape (n_p, n_r)."""
    phase: IntArray
    """Index into `PHASES`. Shape (n_p, n_r)."""
    family_W: FloatArray
    """Encodings of the best minimum of each of the `families`. Shape (n_p, n_r, 3, 2)."""
    family_loss: FloatArray
    """Losses of `family_W`, inf where no such minimum was found. Shape (n_p, n_r, 3)."""


def families(W: FloatArray, bias: bool) -> IntArray:
    """Return 0 where w1 w2 < 0, 1 where w1 or w2 is zero, 2 where w1 w2 > 0, for W = (w1, w2), (..., 2).

    These numbers stand for the families antipodal, dropped and same sign. With free biases (`bias`)
    encodings below 1e-5 count as zero.
    """
    dropped = np.min(np.abs(W), axis=-1) <= (_ZERO if bias else 0.0)
    return np.where(dropped, _DROPPED, np.where(W[..., 0] * W[..., 1] < 0.0, _ANTIPODAL, _SAME))


@lru_cache(maxsize=8)
def _output_losses_on_lattice(p: float, bias: bool) -> FloatArray:
    """Return both outputs' losses at pairs of encodings on a lattice, (26, 51, 2), at their best biases.

    The model is two features in one dimension, on with probability p and then uniform on [0, 1]. The first
    encoding is 0, 0.1, ..., 2.5, the second -2.5 to 2.5; without `bias` biases are 0. The array is read-only
    and cached.
    """
    second: FloatArray = _STEP * np.arange(-_SIZE, _SIZE + 1, dtype=np.float64)
    first = second[_SIZE:]
    (losses,) = parallel_concat(lambda part: (least_loss_table(first[part], second, p, bias),), first.size)
    losses.flags.writeable = False
    return np.asarray(losses)


class _Column:
    """Column of the phase diagram: at one p and each importance, the best minimum of each family.

    `r` has the importances. `x`, (r.size, 3, 4), has (w1, w2, b1, b2) of each minimum, `loss`, (r.size, 3),
    its loss; biases are free, or 0 without `bias`.
    """

    def __init__(self, p: float, r: FloatArray, bias: bool, workers: int | None):
        self.p, self.r, self.bias, self.workers = p, r, bias, workers
        self.x = np.zeros((r.size, 3, 4))
        self.loss = np.full((r.size, 3), np.inf)

    def keep(self, at: IntArray, x: FloatArray, loss: FloatArray) -> None:
        """Store the points x[k], at the importances r[at[k]], whose loss is below that of the stored minimum.

        A point is (w1, w2, b1, b2), and is compared with the minimum of its family (`families`). The sign of
        its encodings is changed in place so that the first one is not negative.
        """
        first = np.where(x[:, 0] != 0.0, x[:, 0], x[:, 1])
        x[:, :2] *= np.where(first < 0.0, -1.0, 1.0)[:, None]
        cell = 3 * at + families(x[:, :2], self.bias)
        order = np.lexsort((loss, cell))
        cells, where = np.unique(cell[order], return_index=True)
        best = order[where]
        better = loss[best] < self.loss.flat[cells] * (1.0 - _ROUNDING)
        self.loss.reshape(-1)[cells[better]] = loss[best[better]]
        self.x.reshape(-1, 4)[cells[better]] = x[best[better]]

    def polish(self, at: IntArray, x: FloatArray, fit: bool) -> None:
        """Move x[k] to a minimum at the importance r[at[k]], in place, and store it if its loss is lower.

        A row of x is (w1, w2, b1, b2), two encodings and biases. With `fit` the biases start at the best ones
        for the encodings.
        """

        def move(part: slice) -> tuple[FloatArray]:
            """Move the points of a slice to minima in place, and return their losses."""
            return (polish_all(x[part], self.r[at[part]], self.p, self.bias, fit),)

        self.keep(at, x, *parallel_concat(move, at.size, self.workers, least=16))

    def search(self) -> None:
        """Search for the minima of all families at all importances, and store them.

        Newton's method starts at local minima over a lattice of encodings, at models with one feature
        dropped, and at the minima of neighbouring importances.
        """
        every = np.arange(self.r.size)
        if self.bias:
            # One feature alone is exact, a critical point for every importance. It comes first, so that it is
            # not replaced by a solution that differs from it by rounding.
            missed = 0.5 * (self.p / 3.0 - self.p**2 / 4.0)
            for feature, importance in ((0, self.r), (1, np.ones_like(self.r))):
                x = np.zeros((every.size, 4))
                x[:, feature], x[:, 3 - feature] = 1.0, 0.5 * self.p
                self.keep(every, x, missed * importance)
        lattice_losses = _output_losses_on_lattice(self.p, self.bias)
        total = lattice_losses[..., 0] + self.r[:, None, None] * lattice_losses[..., 1]
        at, i, j = np.nonzero(total <= minimum_filter(total, size=(1, 3, 3), mode="nearest"))
        near = np.array([W for small in _NEAR for W in ((1.0, small), (small, 1.0))])
        starts = np.concatenate([_STEP * np.stack([i, j - _SIZE], axis=-1), np.tile(near, (every.size, 1))])
        at = np.concatenate([at, np.repeat(every, near.shape[0])])
        x = np.concatenate([starts, np.zeros_like(starts)], axis=1)
        self.polish(at, x, True)
        for step in (1, -1, 1, -1):
            at, family = np.nonzero(np.isfinite(self.loss))
            inside = (at + step >= 0) & (at + step < self.r.size)
            at, family = at[inside], family[inside]
            x = self.x[at, family]
            self.polish(at + step, x, False)


def phase_diagram(
    p: npt.ArrayLike, importance: npt.ArrayLike, *, bias: bool = True, workers: int | None = None
) -> PhaseDiagram:
    r"""Return the models of two features in one dimension with the least exact loss, on a grid.

    The best biases follow in closed form, so the search has two dimensions. Newton's method starts at local
    minima over a lattice of encodings (spacing 0.1 up to 2.5), at and near models with one feature dropped,
    and at the solutions of neighbouring grid points. This does not prove that no minimum is missed: see
    `certify`. The page "Small ReLU models" of the documentation describes the phases.

    Parameters
    ----------
    p : (n_p,) array_like of float, or one number
        Probabilities that a feature is on, in [1e-4, 1].
    importance : (n_r,) array_like of float, or one number
        Importances of the second feature, in [1e-4, 1e4], in order of size; the first one's is 1.
    bias, workers : bool, int, optional
        Whether the two biases are free, else zero; threads to use, all of Numba's by default.

    Returns
    -------
    PhaseDiagram
        Losses to 1e-13 relative; encodings and biases to about 1e-7, as a minimum is flat.

    Examples
    --------
    >>> found = phase_diagram([0.1, 0.9], [0.3, 1.0])
    >>> [[PHASES[i] for i in row] for row in found.phase]
    [['antipodal', 'antipodal'], ['first alone', 'antipodal']]
    """
    on = np.atleast_1d(validation.real("p", p, 1e-4, 1))
    r = np.atleast_1d(validation.real("importance", importance, 1e-4, 1e4))
    on, r = validation.vector("p", on), validation.vector("importance", r)
    if np.any(np.diff(r) <= 0):
        at = int(np.argmax(np.diff(r) <= 0)) + 1
        raise ValueError(f"`importance` must increase; got {r[at]:g} after {r[at - 1]:g}.")
    validation.check_fits("p", on.size, 32.0 * on.size * r.size)
    bias = validation.flag("bias", bias)
    threads = None if workers is None else validation.integer("workers", workers, 1)
    columns = [_Column(float(x), r, bias, threads) for x in on]
    for column in columns:
        column.search()
    points = np.array([column.x for column in columns])
    losses = np.array([column.loss for column in columns])
    # Where two families tie, the simpler model is meant: a dropped feature, then the antipodal pair.
    order = np.array([_DROPPED, _ANTIPODAL, _SAME])
    tied = losses[..., order] <= losses.min(axis=-1, keepdims=True) * (1.0 + _TIE)
    family = order[np.argmax(tied, axis=-1)]
    best = np.take_along_axis(points, family[..., None, None], axis=-2)[..., 0, :]
    alone = (np.abs(best[..., 1]) > np.abs(best[..., 0])).astype(np.int64)
    return PhaseDiagram(
        p=on,
        importance=r,
        bias=bias,
        W=best[..., :2, None],
        b=best[..., 2:],
        loss=np.take_along_axis(losses, family[..., None], axis=-1)[..., 0],
        phase=np.where(family == _DROPPED, alone, np.where(family == _ANTIPODAL, 2, 3)),
        family_W=points[..., :2],
        family_loss=losses,
    )
