"""Counts of collisions and dead features, norms, and how encoder and decoder agree."""

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.validation import FloatArray

# A neuron represents a feature when its weight is larger than ON in absolute value. Trained encodings are
# one-hot, with a weight of about 1 - lam_normal/2, so that every threshold between 0.25 and the 0.8 of the
# authors' published code gives the same counts; the tests and tables repeat them with a shifted one.
ON = 0.5
SHIFTED = (0.25, 0.8)

# Weights below ZERO count as zero. Steps that chatter leave weights of about learning_rate * lam (subgradient
# steps) or learning_rate (AdamW) where the flow has exact zeros.
ZERO = 0.02

# A feature is dead if less than this share of it is reconstructed: |W_i|^2 < DEAD.
DEAD = 0.25


def collision_counts(W: npt.ArrayLike, threshold: float = ON) -> dict[str, npt.NDArray[np.float64]]:
    """Return counts of collisions and norms of encodings, of one matrix or many (Lecomte et al. 2024, §2.2).

    Parameters
    ----------
    W : (..., n_features, n_hidden) array_like of float
        Encodings, one a row. Entries may be NaN (a diverged run), which gives NaN. Not modified.
    threshold : float
        A neuron represents a feature if its weight exceeds this in absolute value, in (0, 1).

    Returns
    -------
    dict of str to (...) ndarray of float64
        ``polysemantic``: neurons that represent at least two features. ``benign``, ``malign``: pairs of
        features that a neuron represents with opposite and with equal signs. ``dead``: features with |W_i|^2
        < `DEAD`, 0.25. ``nonzeros``, ``l1_norm``: per feature, weights above `ZERO`, 0.02, in absolute value
        and the sum of absolute values, averaged over the features.

    Raises
    ------
    ValueError
        If `W` is no matrix, or `threshold` out of range.

    Examples
    --------
    >>> found = collision_counts([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
    >>> found["polysemantic"], found["benign"], found["dead"], found["nonzeros"]
    (array(1.), array(1.), array(0.), array(1.33333333))
    """
    W = validation.doubles("W", W)
    if W.ndim < 2 or W.size == 0:
        raise ValueError(f"`W` must have at least two dimensions, none of them empty; got shape {W.shape}.")
    threshold = validation.number("threshold", threshold, 0, 1, brackets="()")
    size = np.abs(W)
    holds = size > threshold
    up, down = ((holds & (np.sign(W) == sign)).sum(axis=-2) for sign in (1, -1))
    with np.errstate(over="ignore"):
        dead = ((size**2).sum(axis=-1) < DEAD).sum(axis=-1)
    counts = {
        "polysemantic": (up + down >= 2).sum(axis=-1),
        "benign": (up * down).sum(axis=-1),
        "malign": (up * (up - 1) // 2 + down * (down - 1) // 2).sum(axis=-1),
        "dead": dead,
        "nonzeros": (size > ZERO).sum(axis=-1).mean(axis=-1),
        "l1_norm": size.sum(axis=-1).mean(axis=-1),
    }
    is_invalid = ~np.isfinite(W).all(axis=(-2, -1))
    return {name: np.where(is_invalid, np.nan, value) for name, value in counts.items()}


def signed_root(E: FloatArray, D: FloatArray) -> FloatArray:
    """Return sign(E_ik) sqrt(E_ik D_ik), 0 for a negative product, of encodings E and decodings D.

    For a tied model, E = D = W, the result is W.
    """
    return np.asarray(np.sign(E) * np.sqrt(np.maximum(E * D, 0)))


def agreement(E: FloatArray, D: FloatArray) -> dict[str, FloatArray]:
    """Return means over learned features i that compare encodings E_i and decodings D_i, rows of E and D.

    They are "mismatch", |E_i - D_i|/|D_i|; "cosine"; and "norm_ratio", |D_i|/|E_i|. A feature is learned if
    E_i . D_i >= 0.25 (`DEAD`). E and D are (..., n_features, n_hidden), each mean (...); NaN where no feature
    is learned.
    """
    inner, size_E, size_D = (E * D).sum(axis=-1), np.linalg.norm(E, axis=-1), np.linalg.norm(D, axis=-1)
    learned = inner >= DEAD
    count = learned.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        measures = {
            "mismatch": np.linalg.norm(E - D, axis=-1) / size_D,
            "cosine": inner / (size_E * size_D),
            "norm_ratio": size_D / size_E,
        }
        return {name: np.where(learned, value, 0).sum(axis=-1) / count for name, value in measures.items()}


def printed_loss(E: FloatArray, D: FloatArray, lam: FloatArray, *, both: bool) -> FloatArray:
    """Return the loss that Lecomte et al. (2024) print, of encodings E and decodings D.

    The loss is |ReLU(E D') - I|^2, summed over entries, plus lam times the l1 norm of E, or of E and D if
    `both`. E and D have the shape (runs, n_features, n_hidden), lam and the result (runs,).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        y = np.maximum(E @ D.swapaxes(-1, -2), 0)
        size = np.abs(E).sum(axis=(-2, -1))
        if both:
            size = size + np.abs(D).sum(axis=(-2, -1))
        return np.asarray(((y - np.eye(E.shape[1])) ** 2).sum(axis=(-2, -1)) + lam * size)
