"""The exact solution for one encoding: integration in the threshold, then the largest weights alone."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.validation import FloatArray, IntArray
from ..flow.explicit import checked_times
from ..results import frozen, result
from .equal import equal_weights
from .threshold import (
    N_COLUMNS,
    START,
    TIME,
    block_sums,
    drop_times,
    integrate_threshold,
    norms,
    states,
    sums_above_threshold,
)

__all__ = ["Sparsification", "solve", "weights_at"]


@result
class Sparsification:
    """Exact solution of the l1 flow of one encoding at the times `t`; see :func:`solve`.

    `nonzeros` counts the weights that are not zero, `l1_norm` is the sum of their sizes, `l2_norm` their
    Euclidean length, all of shape (n_times,).
    """

    t: FloatArray
    nonzeros: IntArray
    l1_norm: FloatArray
    l2_norm: FloatArray
    drop_times: FloatArray
    """Time at which each weight becomes zero, (m,), in the order of `w0`; inf if never, 0 for a zero."""
    died: bool
    """Whether no weight survives: lam is too large, or the weights began too small."""

    @property
    def relative_variance(self) -> FloatArray:
        """Variance of the nonzero absolute weights over their squared mean, shape (n_times,); nan if none."""
        ratio = np.divide(self.l2_norm, self.l1_norm, out=np.ones_like(self.l1_norm), where=self.l1_norm > 0)
        return np.where(self.nonzeros > 0, np.maximum(self.nonzeros * ratio**2 - 1, 0.0), np.nan)


class _Motion(NamedTuple):
    """Which weights are nonzero at the times, and their sizes: |w_k| = stretch (size_k - size_first + gap).

    This holds for k >= `first`, by ascending initial size; other weights are 0. `blocks` has the sums of
    `block_sums` over `sizes`, `steps` the table of `integrate_threshold`.
    """

    sizes: FloatArray  # absolute weights that are not zero, sorted
    blocks: FloatArray
    steps: FloatArray
    death: float  # when the largest weights drop
    first: IntArray  # per time: the smallest weight left, `sizes.size` if none is
    gap: FloatArray  # its distance to the threshold
    stretch: FloatArray


def _solve_motion(w0: FloatArray, lam: float, t: FloatArray) -> _Motion:
    """Return which weights of the encoding w0 are nonzero at the times t, and their sizes, as a `_Motion`.

    `lam` is the strength of the l1 force.
    """
    sizes = np.abs(w0)
    sizes.sort()
    sizes = sizes[np.searchsorted(sizes, 0.0, side="right") :]
    first, gap, stretch = np.full(t.shape, sizes.size), np.zeros_like(t), np.zeros_like(t)
    steps = np.zeros((1, N_COLUMNS))
    if sizes.size == 0:
        return _Motion(sizes, np.zeros((1, 2)), steps, 0.0, first, gap, stretch)
    blocks = block_sums(sizes)
    norm = sums_above_threshold(sizes, blocks, 0, sizes[0])[1]
    if not np.isfinite(norm):
        raise ValueError(f"`w0` must have a finite Euclidean norm; got an entry of size {sizes[-1]:g}.")
    if lam == 0:  # one factor for all weights, logistic
        first[:], gap[:], stretch[:] = 0, sizes[0], 1 / np.sqrt(np.exp(-2 * t) - norm * np.expm1(-2 * t))
        return _Motion(sizes, blocks, steps, math.inf, first, gap, stretch)
    top = int(np.searchsorted(sizes, sizes[-1]))
    steps, g = integrate_threshold(sizes, blocks, top, lam)
    if steps.size == 0:
        raise ValueError(
            f"`lam` must be of a size that floating-point numbers can hold beside `w0`; got {lam:g} and "
            f"weights up to {sizes[-1]:g}."
        )
    end, survivors = float(steps[-1, TIME]), sizes.size - top
    many = int(np.searchsorted(t, end))
    first[:many], gap[:many], stretch[:many] = states(sizes, steps, t[:many])
    width = (sizes[top] - steps[-1, START]) / g
    length, death = equal_weights(survivors**0.5 * width, survivors**0.5 * lam, t[many:] - end)
    first[many:][length > 0], gap[many:], stretch[many:] = top, length / survivors**0.5, 1.0
    return _Motion(sizes, blocks, steps, end + death, first, gap, stretch)


def _checked_arguments(
    w0: npt.ArrayLike, lam: float, t: npt.ArrayLike
) -> tuple[FloatArray, float, FloatArray]:
    """Return w0 as a vector, lam as a float of at least 0, and t as sorted times; ValueError for others."""
    w0 = np.ascontiguousarray(validation.vector("w0", w0))
    return w0, validation.number("lam", lam, 0), checked_times(t)


def solve(w0: npt.ArrayLike, lam: float, t: npt.ArrayLike) -> Sparsification:
    r"""Return the exact solution of the flow of one encoding under feature benefit and the l1 force.

    The flow is :math:`dW/dt = (1 - |W|^2) W - \lambda\, \mathrm{sign}(W)` in the normal form (constants 4
    dropped: a loss with l1 strength 4 lam, time four times faster); a weight that reaches zero stays there.

    Parameters
    ----------
    w0 : (m,) array_like of float
        Initial weights, any signs and order, with ties and zeros allowed. Not modified.
    lam, t : float, (n_times,) array_like of float
        Strength of the l1 force, at least 0; flow times, not negative, sorted. A number is one time.

    Returns
    -------
    Sparsification
        At its drop time a weight counts as zero. Relative errors of norms and drop times are at most 1e-10,
        commonly 1e-13; they are larger for initial lengths beyond a thousand, and for an encoding that dies
        they are relative to lam times t. Ten million weights take some three times as long as sorting them.
        The model is that of Lecomte et al. (2024), §2.4.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or the squares in `w0` overflow.

    Examples
    --------
    >>> result = solve([0.3, -0.9, 0.4], lam=0.1, t=[0, 2, 5, 20])
    >>> result.drop_times.round(6)
    array([3.556778,      inf, 5.256652])
    """
    w0, lam, t = _checked_arguments(w0, lam, t)
    motion = _solve_motion(w0, lam, t)
    l1_norm, l2_norm = norms(motion.sizes, motion.blocks, motion.first, motion.gap, motion.stretch)
    return Sparsification(
        t=t.copy(),
        nonzeros=motion.sizes.size - motion.first,
        l1_norm=l1_norm,
        l2_norm=l2_norm,
        drop_times=frozen(drop_times(w0, motion.steps, motion.death)),
        died=math.isfinite(motion.death),
    )


def weights_at(w0: npt.ArrayLike, lam: float, t: float) -> FloatArray:
    """Return the weights of one encoding at time t of the flow of `solve`, (m,), in the order of `w0`.

    Parameters
    ----------
    w0 : (m,) array_like of float
        Weights at time 0, any signs and order. Not modified.
    lam : float
        Strength of the l1 force, at least 0.
    t : float
        Flow time, at least 0.

    Returns
    -------
    (m,) ndarray of float64
        A weight w of `w0` that is still nonzero has the size A (|w| - c), with a threshold c and a factor A
        common to all, and an error of at most 1e-10 A |w|. Weights that have reached zero are 0.

    Examples
    --------
    >>> weights_at([0.3, -0.9, 0.4], lam=0.1, t=1000).round(6)
    array([ 0.      , -0.945649,  0.      ])
    """
    w0, lam, times = _checked_arguments(w0, lam, validation.number("t", t))
    motion = _solve_motion(w0, lam, times)
    first, gap, stretch = int(motion.first[0]), motion.gap[0], motion.stretch[0]
    if first == motion.sizes.size:
        return np.zeros_like(w0)
    smallest = motion.sizes[first]
    left = np.abs(w0) >= smallest
    return np.where(left, np.copysign(stretch * ((np.abs(w0) - smallest) + gap), w0), 0.0)
