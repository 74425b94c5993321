"""From one time to the next: matrix products while weights are many, packed lists of weights when few."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...theory.arguments import FloatArray
from . import steps as kernels
from .steps import ARRIVED, LONGEST_STEP, NOT_FINITE, STEP_LIMIT, TOO_FINE

__all__ = ["Force", "March", "advance", "dense_run", "free_force", "start", "tied_force"]

# Packed steps do about m (density n)^2 multiplications, one by one; dense ones do 3 n^2 m of them by BLAS,
# which is some 40 times faster at it. Measured at n = 256, m = 1024: equal at a density of 0.12. The list
# may then grow.
_PACK_BELOW, _UNPACK_ABOVE = 0.12, 0.20
# A weight at rest is listed when the force on it is above this share of lam: at half of it the list would
# be twice as long as the weights that move, at nine tenths forces outside the list pass lam within a few
# steps.
_WATCHED = 0.75
# Dense steps between two counts of the weights to be listed; a count costs a tenth of a step.
_LOOK_EVERY = 16

Force = Callable[[FloatArray, FloatArray], None]
"""Writes the smooth force on the weights, its first argument, into the second."""


@dataclass
class March:
    """Where an integration stands: time, next step, steps kept and taken back, a code of `steps`."""

    t: float
    h: float
    tol: float
    """Error allowed in each step."""
    most: int
    """Steps that it may make."""
    curve: float = 0.0
    """Error of the last step over the cube of its length."""
    steps: int = 0
    rejected: int = 0
    code: int = ARRIVED

    @property
    def under_way(self) -> bool:
        """Whether nothing has stopped it."""
        return self.code == ARRIVED

    @property
    def left(self) -> int:
        """Steps that it may still make."""
        return self.most - self.steps - self.rejected


def tied_force(n_features: int) -> Force:
    """Return the smooth force of the tied model, (1 - |W_i|^2) W_i - sum_j ReLU(W_i.W_j) W_j."""
    G = np.empty((n_features, n_features))

    def force(W: FloatArray, out: FloatArray) -> None:
        np.dot(W, W.T, out=G)  # NumPy recognises the transpose and computes one half
        kernels.force_coefficients(G)
        np.dot(G, W, out=out)

    return force


def free_force(W: FloatArray, out: FloatArray) -> None:
    """Write the smooth force without interference, (1 - |W_i|^2) W_i."""
    np.multiply(W, 1.0 - np.einsum("ik,ik->i", W, W)[:, None], out=out)


def start(W: FloatArray, tol: float, most: int) -> March:
    """Return the march at time 0; the rates of the force are about 1 + 4 |W|^2, |W| the longest encoding."""
    with np.errstate(over="ignore"):
        longest = float(np.max(np.einsum("ik,ik->i", W, W)))
    return March(0.0, min(tol ** (1 / 3) / (1.0 + 4.0 * longest), LONGEST_STEP), tol, most)


def _listed(W: FloatArray, F: FloatArray, lam: float) -> npt.NDArray[np.bool_]:
    return np.asarray((W != 0.0) | (np.abs(F) > _WATCHED * lam))


def dense_run(
    W: FloatArray, force: Force, lam: FloatArray, march: March, until: float, *, stay: bool = True
) -> None:
    """Integrate W in place until the time `until`; with `stay` off only while many weights need following.

    `lam` holds the l1 strength of each row. Steps of the greatest length that come back to weights which were
    there before will do so for ever, since the next weights depend on the last ones only: the rest of the
    time is then skipped. What is at rest up to rounding ends in such a cycle, mostly in one step.
    """
    rows = np.repeat(np.arange(W.shape[0]), W.shape[1])
    F, end, work = np.empty((4, *W.shape)), np.empty_like(W), np.empty((2, W.shape[0]))
    w, f, e = W.reshape(-1), F.reshape(4, -1), end.reshape(-1)  # the same numbers as vectors
    force(W, F[0])
    kept, quiet = 0, 0
    seen = W.copy()
    while march.t < until:
        if march.left <= 0:
            march.code = STEP_LIMIT
            return
        if (
            not stay
            and kept % _LOOK_EVERY == 0
            and np.count_nonzero(_listed(W, F[0], lam[0])) <= _PACK_BELOW * W.size
        ):
            return
        last = march.t + march.h >= until
        h = until - march.t if last else march.h
        kernels.move(w, f[0], f[0], rows, lam, 0.5 * h, e)
        force(end, F[1])
        kernels.move(w, f[0], f[1], rows, lam, 0.75 * h, e)
        force(end, F[2])
        kernels.arrive(w, f, rows, lam, h, e)
        force(end, F[3])
        error = kernels.judge(w, f, rows, lam, h, e, work)
        proposed, curve = kernels.next_step(h, error, march.tol, march.curve)
        if not error <= march.tol:
            march.rejected += 1
            march.h = proposed
            if not march.t + march.h > march.t:
                march.code = TOO_FINE if np.isfinite(error) else NOT_FINITE
                return
            continue
        march.steps += 1
        kept += 1
        march.curve = max(march.curve, curve) if last else curve
        march.t = until if last else march.t + h
        march.h = max(march.h, proposed) if last else proposed
        W[...], F[0] = end, F[3]
        if h < LONGEST_STEP or proposed < LONGEST_STEP:
            quiet = 0
        elif quiet and np.array_equal(W, seen):
            march.t = until
        else:
            quiet += 1
            if quiet & (quiet - 1) == 0:  # a power of two, after Brent: cycles of any length are found
                seen[...] = W


def _packed_run(W: FloatArray, force: Force, lam: float, meet: bool, march: March, until: float) -> None:
    """Integrate W in place until the time `until`, following listed weights only, or till the list gets long.

    After some steps the force on all other weights is looked at. If one of them should have left zero so
    long ago that it matters at the tolerance asked for, the steps are taken back and fewer are made, with a
    new list.
    """
    G, F = np.zeros((W.shape[0], W.shape[0])), np.empty_like(W)
    span = 8 if meet else march.most
    force(W, F)
    while march.t < until and march.under_way:
        left = march.left
        if left <= 0:
            march.code = STEP_LIMIT
            return
        listed = _listed(W, F, lam)
        size = np.count_nonzero(listed)
        if size == 0:
            march.t = until  # encodings that are all zero feel no force: nothing moves any more
            return
        if size > _UNPACK_ABOVE * W.size:
            return
        columns, rows = np.divmod(np.flatnonzero(listed.T), W.shape[0])  # neuron by neuron
        first = np.append(0, np.cumsum(np.count_nonzero(listed, axis=0)))
        before = W[rows, columns]
        w = before.copy()
        t, h, curve, steps, rejected, march.code = kernels.packed_run(
            first, rows, w, G, lam, meet, march.t, until, march.h, march.tol, min(span, left), march.curve
        )
        G[:] = 0.0  # the next list clears its own overlaps only
        W[rows, columns] = w
        force(W, F)
        rest = np.where(listed, 0.0, np.abs(F))
        excess = math.sqrt(np.max(np.sum(np.maximum(rest - lam, 0.0) ** 2, axis=1)))
        # The force grew by that excess in the time passed: a weight missed at most half their product.
        if 0.5 * excess * (t - march.t) > march.tol:
            W[rows, columns] = before
            force(W, F)
            march.h = 0.5 * (t - march.t) if steps == 1 else march.h
            march.rejected += steps + rejected
            march.code = ARRIVED
            span = max(1, span // 2)
            continue
        if np.max(rest) < 0.5 * (1.0 + _WATCHED) * lam:
            span *= 2
        march.t, march.h, march.curve = t, h, curve
        march.steps += steps
        march.rejected += rejected


def advance(W: FloatArray, force: Force, lam: float, meet: bool, march: March, until: float) -> None:
    """Integrate W in place until the time `until`; `meet` says whether encodings interfere."""
    rows = np.full(W.shape[0], lam)
    while march.t < until and march.under_way:
        # Without an l1 force weights at rest wake at the least force: lists would not last.
        dense_run(W, force, rows, march, until, stay=lam == 0.0)
        if march.t < until and march.under_way:
            _packed_run(W, force, lam, meet, march, until)
