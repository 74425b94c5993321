"""Polysemantic neurons split in two (Lecomte et al. 2024, §5), and where their features end."""

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.results import frozen, result
from ...theory.validation import FloatArray
from .counts import ON, ZERO

PROTOCOLS = ("tied", "untied")
OUTCOMES = ("apart", "together", "undecided", "lost")


@result
class Split:
    """Encoder and decoder after a split, and the pairs of features that shared a neuron.

    Attributes
    ----------
    encoder, decoder : (n_features, wider) ndarray
        Columns are neurons; the last ones are the second copies. One array if the protocol is "tied".
    pairs, copies : (split neurons, 2) ndarray of int64
        The two features of each neuron that was split, and the columns of its two copies.
    """

    encoder: FloatArray
    decoder: FloatArray
    pairs: npt.NDArray[np.int64]
    copies: npt.NDArray[np.int64]


def split_neurons(
    W: npt.ArrayLike,
    eps: float,
    *,
    protocol: str = "tied",
    correlation: float = 0.0,
    rng: np.random.Generator | int | None = None,
) -> Split:
    """Return encodings with every neuron that holds two features duplicated, and its copies perturbed.

    Neurons that hold three or more features (weights above `ON`) are left alone.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row. Not modified.
    eps : float
        Standard deviation of the normal noise that every incoming weight of every copy gets.
    protocol : {"tied", "untied"}, optional
        "untied" is the source's: each copy has the incoming weights and half the outgoing ones, which needs a
        separate decoder. "tied" divides the weights by sqrt(2) on each copy. Both leave the function of the
        network unchanged, apart from the noise.
    correlation : float, optional
        Correlation of the noise of any two weights of a copy, in [0, 1]; 1 shifts all of them alike.
    rng : Generator, int or None, optional
        Draws the noise.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        If `W` is not a finite matrix or another argument is out of range.

    Examples
    --------
    >>> split = split_neurons([[1.0, 0.0], [-1.0, 0.0]], 0.0)
    >>> split.encoder.round(3).tolist(), split.pairs.tolist(), split.copies.tolist()
    ([[0.707, 0.0, 0.707], [-0.707, 0.0, -0.707]], [[0, 1]], [[0, 2]])
    """
    W = validation.matrix("W", W)
    eps = validation.number("eps", eps, 0)
    rho = validation.number("correlation", correlation, 0, 1)
    protocol = validation.choice("protocol", protocol, PROTOCOLS)
    rng = validation.generator("rng", rng)
    holds = np.abs(W) > ON
    neurons = np.flatnonzero(holds.sum(axis=0) == 2)
    pairs = np.array([np.flatnonzero(holds[:, k]) for k in neurons], dtype=np.int64).reshape(-1, 2)
    copies = np.stack([neurons, W.shape[1] + np.arange(neurons.size)], axis=1)
    incoming, outgoing = (np.sqrt(0.5), np.sqrt(0.5)) if protocol == "tied" else (1.0, 0.5)
    encoder, decoder = (np.hstack([W, W[:, neurons]]) for _ in range(2))
    for column in copies.ravel():
        shared, independent = rng.standard_normal(), rng.standard_normal(W.shape[0])
        noise = np.sqrt(rho) * shared + np.sqrt(1 - rho) * independent
        encoder[:, column] = incoming * encoder[:, column] + eps * noise
        decoder[:, column] *= outgoing
    encoder = frozen(encoder)
    return Split(encoder, encoder if protocol == "tied" else decoder, pairs, copies)


def _checked_pairs(name: str, value: npt.ArrayLike, size: int) -> npt.NDArray[np.int64]:
    """Return `value` as an (any, 2) array of integers from 0 to `size` - 1; ValueError if it is not one.

    The message of the error calls it `name`.
    """
    array = validation.whole_numbers(name, value, 0, size - 1)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"`{name}` must have shape (any, 2); got {array.shape}.")
    return array.astype(np.int64)


def outcomes(W: npt.ArrayLike, pairs: npt.ArrayLike, copies: npt.ArrayLike) -> dict[str, int]:
    """Return how many split neurons' pairs of features end apart, together, undecided or lost.

    A feature has decided when one copy holds it (weight above `ON`, 0.5) and the other is below `ZERO`, 0.02.

    Parameters
    ----------
    W : (n_features, wider) array_like of float
        Encodings, one a row.
    pairs, copies : (split neurons, 2) array_like of int
        The two features that each neuron held, and the columns of W that are its two copies, as
        `split_neurons` returns them.

    Returns
    -------
    dict of str to int
        ``apart``, ``together``: both features have decided, for different copies or for the same.
        ``undecided``: at least one has both copies above `ZERO`. ``lost``: at least one is held by neither
        copy, or the run has diverged (NaN).

    Examples
    --------
    >>> outcomes([[1.0, 0.0], [0.0, -1.0]], [[0, 1]], [[0, 1]])
    {'apart': 1, 'together': 0, 'undecided': 0, 'lost': 0}
    """
    weights = validation.doubles("W", W)  # a run that has diverged has nan
    if weights.ndim != 2:
        raise ValueError(f"`W` must be a matrix, of two axes; got shape {weights.shape}.")
    features = _checked_pairs("pairs", pairs, weights.shape[0])[:, :, None]
    columns = _checked_pairs("copies", copies, weights.shape[1])[:, None, :]
    if len(features) != len(columns):
        raise ValueError(f"`pairs`, `copies` must be as many; got {len(features)}, {len(columns)}.")
    size = np.abs(weights)[features, columns]  # (pair, feature, copy)
    undecided = np.any(size.min(axis=2) >= ZERO, axis=1)
    decided = ~undecided & np.all(size.max(axis=2) > ON, axis=1)
    differ = np.ptp(size.argmax(axis=2), axis=1) > 0
    masks = (decided & differ, decided & ~differ, undecided, ~undecided & ~decided)
    return {name: int(mask.sum()) for name, mask in zip(OUTCOMES, masks, strict=True)}
