"""Matrices that realise a split of the hidden neurons: tight frames whose rows have given lengths."""

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import Features
from ...theory.unequal.capacity import independent
from ...theory.validation import FloatArray
from .allocation import Allocation, allocation_of
from .curve import DROPPED, EXACT, PAIR, RUG, SKEW

__all__ = ["realise", "tight_frame"]

# Rounds of alternating projections at most, and how far off a squared length may stay, relatively.
_ROUNDS, _NEAR = 2000, 1e-12


def tight_frame(squares: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Return F (n, size) with F'F = I whose rows have the squared lengths `squares`, in (0, 1).

    The relative error of the lengths is 1e-12, else a ValueError is raised. The method is the alternating
    projections of Tropp, Dhillon, Heath and Strohmer (2005) from random directions: rows to their lengths,
    then F to the nearest matrix with orthonormal columns.
    """
    frame = rng.standard_normal((squares.size, size))
    frame *= np.sqrt(squares / np.sum(frame**2, axis=1))[:, None]
    worst = np.inf
    for turn in range(_ROUNDS):
        values, vectors = np.linalg.eigh(frame.T @ frame)
        frame = frame @ (vectors / np.sqrt(np.maximum(values, 1e-300))) @ vectors.T
        lengths = np.minimum(np.sum(frame**2, axis=1), 1.0 - 1e-15)
        worst = float(np.max(np.abs(lengths / squares - 1.0)))
        if worst <= _NEAR:
            return np.asarray(frame)
        ratio = squares * (1.0 - lengths) / (lengths * (1.0 - squares))
        # Few rows may be near each other, and their steps then go too far.
        frame *= np.clip(ratio ** (0.5 if turn < 100 else 0.2), 0.2, 5.0)[:, None]
    raise ValueError(
        f"`split` must have capacities that a frame can be given; got some missed by {worst:.2g}."
    )


def realise(
    split: Allocation | npt.ArrayLike, law: Features, *, rng: np.random.Generator | int | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return a model ReLU(W_out W_in x + b) whose outputs have the capacities of a split.

    Features of the rug share a random projection, with their capacities (shares of a hidden dimension) on its
    diagonal, scaled so that output i has the best scale a_i of `allocate` (the page "Features that differ").
    Features kept exactly have a hidden neuron each, a pair has one for both. Biases subtract the mean of the
    interference.

    Parameters
    ----------
    split : Allocation, or (n,) array_like of float
        Result of `allocate`, or capacities that sum to a whole number: 0 drops a feature, 1 keeps it exactly,
        all others share one projection. Scales and biases are then the best ones.
    law, rng : Features, Generator or int
        Law of the independent features of the split, and source of randomness of the projection.

    Returns
    -------
    W_out, W_in, b : (n, n_hidden), (n_hidden, n), (n,) ndarray of float64
        Relative errors of the capacities are 1e-12, after some ten rounds of O(n n_hidden²) if n is several
        times n_hidden.

    Raises
    ------
    ValueError
        If capacities do not sum to a whole number within 1e-6.

    Examples
    --------
    >>> from superposition.theory.unequal import capacities
    >>> law = Features(4, [0.5, 0.5, 0.1, 0.1])
    >>> W_out, W_in, b = realise([0.75, 0.75, 0.25, 0.25], law, rng=0)
    >>> W_in.shape, capacities(W_out @ W_in, law).round(9)
    ((2, 4), array([0.75, 0.75, 0.25, 0.25]))
    """
    features = independent(law)
    n = features.n_features
    rng = validation.generator("rng", rng)
    name = "split"
    if not isinstance(split, Allocation):
        share = validation.real(name, validation.vector(name, split, n), 0, 1).copy()
        kind = np.where(share == 0.0, DROPPED, np.where(share == 1.0, EXACT, RUG))
        split = allocation_of(features, kind, share, np.full(n, -1), (0.0, 0.0), 0.5)
    elif split.capacity.size != n:
        raise ValueError(f"`split` must be for {n} features; got one for {split.capacity.size}.")
    total = float(split.capacity.sum())
    m = round(total)
    if abs(total - m) > 1e-6 or m < 1:
        raise ValueError(f"`split` must have capacities that sum to a whole number above 0; got {total:g}.")
    validation.check_fits("split", f"{n} features", 4.0 * n * m)
    W_out, W_in, at = np.zeros((n, m)), np.zeros((m, n)), 0
    for feature in np.flatnonzero(split.kind == EXACT):
        W_out[feature, at] = W_in[at, feature] = 1.0
        at += 1
    for feature in np.flatnonzero(np.isin(split.kind, (PAIR, SKEW)) & (split.partner > np.arange(n))):
        other = int(split.partner[feature])
        # output one weighs the other feature by -sigma_one/sd(x_other), and the reverse is the inverse
        weight = split.sigma[feature] / np.sqrt(features.variance[other])
        W_in[at, feature], W_in[at, other] = 1.0, -weight
        W_out[feature, at], W_out[other, at] = split.a[feature], -split.a[other] / weight
        at += 1
    rug = np.flatnonzero(split.kind == RUG)
    if rug.size:
        spread, share = np.sqrt(features.variance[rug]), split.capacity[rug]
        share = share * ((m - at) / share.sum())
        frame = tight_frame(share, m - at, rng)
        W_out[rug, at:] = (split.a[rug] * spread / share)[:, None] * frame
        W_in[at:, rug] = frame.T / spread
    means = features.mean
    diagonal = np.einsum("ij,ji->i", W_out, W_in)
    b = split.b - (W_out @ (W_in @ means) - diagonal * means)
    return W_out, W_in, b
