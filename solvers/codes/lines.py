"""Codes at their best parameters along p: optimised at some values of p, interpolated between these.

The best parameters jump where one local optimum overtakes another, and the loss has a kink there. So values
of p are added until the loss half way between two neighbours is what the others say, or these all but touch.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import interpolate, optimize

from ...theory import validation
from ...theory.codes import CODES, Overlaps, overlaps
from ...theory.rug import zero_ratio_loss
from ...theory.validation import FloatArray
from ..results import result
from .blocks import _SHIFTED, LEAST_P, Block, _best_end, _best_parameters, _loss_over_square

__all__ = ["Line", "lines"]

_NAMES = tuple(name for name in CODES if name != "pair")
_STENCIL = 6  # solved values that a value between them is made of
_CLOSE = 4e-6  # of log p: neighbours at a kink are no closer
_FAR = 0.22  # of log p: neighbours at first
_NOISY = 1e-3  # below, differences of losses say little of the gradient: parameters matter by fractions of p
_SAME = 1e-7  # losses that differ by less, relative, are equal


def _interpolate(nodes: FloatArray, values: npt.ArrayLike, at: float) -> FloatArray:
    """Return the interpolant of `values` at `at`: the polynomial through the six nodes nearest to it.

    `nodes`, ascending, has three of the six on either side of `at`, but near its ends. `values` has a row for
    each node; the result has the shape of a row.
    """
    right = int(np.clip(np.searchsorted(nodes, at), _STENCIL // 2, nodes.size - _STENCIL // 2))
    six = slice(right - _STENCIL // 2, right + _STENCIL // 2)
    return np.asarray(interpolate.krogh_interpolate(nodes[six] - at, np.asarray(values)[six], 0.0))


@result
class Line:
    """A code, shifted or not, at its best parameters for rising values of p."""

    name: str
    """Name of the code, followed by the word shifted if the shift is free."""
    n_features: int
    """Features of one block."""
    n_hidden: int
    """Hidden dimensions of one block, one of them for the shift if it is free."""
    p: FloatArray
    """(n,) values, six or more, ascending, at which parameters were optimised."""
    a: FloatArray
    """(n,) best scales."""
    b: FloatArray
    """(n,) best biases."""
    shift: FloatArray
    """(n,) best shifts."""
    loss: FloatArray
    """(n,) losses per feature."""

    def at(self, p: float) -> Block:
        """Return the block at one p, by interpolation in log p of loss, scale, bias and shift.

        Parameters
        ----------
        p : float
            From the least to the largest of `self.p`.

        Returns
        -------
        Block
            Its loss is the code's least, with a relative error of about ten times the `tol` of `lines`.

        Examples
        --------
        >>> (plain,) = lines(["triangle"], low=0.1, high=0.12, tol=1e-3)
        >>> round(plain.at(0.11).loss, 7)
        0.0015109
        """
        on = validation.number("p", p, float(self.p[0]), float(self.p[-1]))
        columns = np.log(self.loss / zero_ratio_loss(self.p)), np.log(self.a), self.b, self.shift
        loss, scale, bias, shift = _interpolate(np.log(self.p), np.stack(columns, axis=1), float(np.log(on)))
        best = float(zero_ratio_loss(on) * np.exp(loss))
        sizes = self.name, self.n_features, self.n_hidden
        return Block(*sizes, on, float(np.exp(scale)), float(bias), float(shift), best)


class _Course:
    """The best parameters of a code known so far, at values of p that are added one by one.

    `p` starts with the initial values, ascending; the shift is optimised if `free`, else 0. The attribute `x`
    has (log scale, bias/scale, shift) for each p.
    """

    def __init__(self, code: Overlaps, free: bool, p: FloatArray) -> None:
        self.code, self.free = code, free
        self.bounds = [(-6.0, 2.0), (-5.0, 50.0), (-0.9, 0.9) if free else (0.0, 0.0)]
        self.p: list[float] = p.tolist()
        self.x, self.loss = [np.zeros(3)] * p.size, [np.inf] * p.size
        for k in range(p.size):
            self.descend_from_scratch(k)
        for k in range(p.size - 1, 0, -1):  # what was found at one p reaches all others
            self.descend_from(k - 1, self.x[k])
        for k in range(p.size - 1):
            self.descend_from(k + 1, self.x[k])

    def descend_from_scratch(self, k: int) -> None:
        """Minimise the exact loss at the k-th p from standard starts; store the result if it is better.

        "Better" is a smaller loss than that stored for this p.
        """
        self.descend_from(k, _best_parameters(self.code, np.array([self.p[k]]), self.free)[0])

    def descend_from(self, k: int, start: FloatArray) -> bool:
        """Minimise the exact loss at the k-th p from `start`; store a smaller loss than that stored before.

        `start` is (log scale, bias/scale, shift). Return whether the loss fell by more than the fraction
        `_SAME`.
        """
        q = self.p[k]
        loss = partial(_loss_over_square, self.code, q, max(1e-12, 1e-6 * q))
        x = _best_end(loss, [start], self.bounds)
        if self.free and q < _NOISY:
            corners = np.vstack([x, x + q * np.eye(3)])
            how: Any = {"initial_simplex": corners, "xatol": 0.01 * q, "fatol": 1e-9, "maxiter": 100}
            x = optimize.minimize(loss, x, method="Nelder-Mead", bounds=self.bounds, options=how).x
        scaled_loss = q * q * _loss_over_square(self.code, q, 1e-12, x)
        lower = scaled_loss < self.loss[k] * (1.0 - _SAME)
        if scaled_loss < self.loss[k]:
            self.x[k], self.loss[k] = x, scaled_loss
        return lower

    def add_between(self, k: int, tol: float) -> bool:
        """Add the geometric mean of the (k-1)-th and k-th p if its loss is needed; return whether it was.

        It is needed if its least loss differs from the interpolated one by more than `tol`, relatively. Its
        parameters are then starts at the next p on either side, and so on as long as losses fall.
        """
        middle = float(np.sqrt(self.p[k - 1] * self.p[k]))
        expected = self.interpolated_log_loss(middle)
        self.p.insert(k, middle)
        self.x.insert(k, self.x[k])
        self.loss.insert(k, np.inf)
        self.descend_from_scratch(k)
        self.descend_from(k, self.x[k - 1])
        self.descend_from(k, self.x[k + 1])
        if abs(np.log(self.loss[k] / zero_ratio_loss(middle)) - expected) <= tol:
            for history in (self.p, self.x, self.loss):
                del history[k]
            return False
        for step in (-1, 1):  # on, as long as what was found here is better there
            j = k + step
            while 0 <= j < len(self.p) and self.descend_from(j, self.x[j - step]):
                j += step
        return True

    def interpolated_log_loss(self, at: float) -> float:
        """Return log(loss / loss of a dropped feature), interpolated at the probability `at`."""
        p = np.array(self.p)
        return float(
            _interpolate(np.log(p), np.log(np.array(self.loss) / zero_ratio_loss(p)), float(np.log(at)))
        )


def _optimised_course(code: Overlaps, free: bool, p: FloatArray, tol: float) -> _Course:
    """Return a code's best parameters at enough p to interpolate its loss to a relative error `tol`.

    `p` are the initial values of p, ascending; others are added between them. The shift is optimised if
    `free`, else 0.
    """
    course = _Course(code, free, p)
    fine: set[tuple[float, float]] = set()
    todo = True
    while todo:
        todo, k = False, 1
        while k < len(course.p):
            interval = course.p[k - 1], course.p[k]
            if interval not in fine and np.log(interval[1] / interval[0]) > _CLOSE:
                if course.add_between(k, tol):
                    neighbours = course.p[max(0, k - _STENCIL // 2 - 1) : k + _STENCIL // 2 + 2]
                    fine.difference_update(pairwise(neighbours))  # they are made of other values now
                    todo, k = True, k + 1  # both halves are for the next round, when others are there
                else:
                    fine.add(interval)
            k += 1
    return course


def lines(
    names: Sequence[str] = _NAMES, *, low: float = LEAST_P, high: float = 1.0, tol: float = 1e-6
) -> list[Line]:
    """Return codes, shifted and not, at their best scale, bias and shift along p.

    A shifted code is one from whose Gram matrix a constant, the shift, is subtracted; see `blocks`.

    Parameters
    ----------
    names : sequence of str, optional
        Codes such as "pentagon", by default all of `theory.codes.CODES` but "pair", whose loss is a closed
        form and which is not allowed.
    low, high, tol : float, optional
        Range of p, in [1e-6, 1], and relative error of interpolated losses. Where the loss at the geometric
        mean of two neighbouring p differs by more from the interpolated one, that p is added.

    Returns
    -------
    list of Line
        One for each code, and one more for its shifted form if it has positive interference to subtract and a
        dimension to spare. An optimum found at one p is followed to all others, so a loss may be less than
        what `blocks` finds at this p alone.

    Examples
    --------
    >>> (plain, shifted) = lines(["Petersen"], low=0.1, high=0.12, tol=1e-4)
    >>> shifted.name, shifted.p.size, float(shifted.loss[0].round(6))
    ('Petersen shifted', 6, 0.004528)
    """
    names = validation.choices("names", names, _NAMES)
    low = validation.number("low", low, LEAST_P, 1, brackets="[)")
    high = validation.number("high", high, low, 1, brackets="(]")
    tol = validation.number("tol", tol, 1e-7, 1)
    p = np.geomspace(low, high, max(_STENCIL, 1 + int(np.ceil(np.log(high / low) / _FAR))))
    code_lines = []
    for name in names:
        code = overlaps(name)
        free = max(code.values) > 0.0 and code.n_hidden + 1 < code.n_features
        for shifted in (False, True) if free else (False,):
            course = _optimised_course(code, shifted, p, tol)
            x, losses = np.array(course.x), np.array(course.loss)
            a = np.exp(x[:, 0])
            sizes = name + _SHIFTED * shifted, code.n_features, code.n_hidden + shifted
            code_lines.append(Line(*sizes, np.array(course.p), a, a * x[:, 1], x[:, 2], losses))
    return code_lines
