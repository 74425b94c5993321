"""Maker of the certificates for `check_alignment.py`: nearly pure neurons that hold more features."""

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import short_repr
from .check_alignment import KIND, MOST_FEATURES, Rejected
from .make import probability, rounded_up, save, sum_over_cubes, to_fraction

__all__ = ["alignment_certificate"]

# Rows of W, beta, V and c of neurons that are never off; arrays of Fraction.
Network = tuple[Any, Any, Any, Any]

_GRID = 10**6  # reciprocal of the step to which the largest slope is rounded down
_SLOPES = [Fraction(j, 4) for j in range(1, 5)]  # of two features that two neurons share with a third


@as_annotated
def alignment_certificate(
    n_features: int, n_hidden: int, p: Any, delta: Any, *, path: str | Path
) -> Fraction:
    r"""Write a certificate that nearly pure neurons have a lower loss than pure ones; return their loss.

    The network is :math:`\mathrm{ReLU}(V\,\mathrm{ReLU}(W x + \beta) + c)`, its loss the expected squared
    error of this output as an estimate of x; features are uniform on [0, 1] where they are on. A pure neuron
    reads a single feature. The network is the best of the constructions on the page about problem O48: two
    features on a neuron with small or large output weights, two neurons that share a feature, three that
    share one.

    Parameters
    ----------
    n_features, n_hidden : int
        n and k, with k < n <= 8.
    p : number, Fraction or text
        Probability that a feature is on.
    delta : number, Fraction or text
        From 1e-10 to 1/2: each neuron has at least 1 - delta of its squared weights on one feature.
    path : path
        The JSON file.

    Returns
    -------
    Fraction
        The exact loss, summed over features.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate.proofs.certificates import check
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loss = alignment_certificate(2, 1, "1/10", "1/2500", path=folder + "/pair.json")
    ...     check(folder + "/pair.json").accepted, round(float(loss), 7)  # pure: 0.0308333
    (True, 0.0033013)
    """
    n = validation.integer("n_features", n_features, 2, MOST_FEATURES)
    k = validation.integer("n_hidden", n_hidden, 1, n - 1)
    chance, impurity = probability(p), to_fraction("delta", delta)
    if not Fraction(1, 10**10) <= impurity <= Fraction(1, 2):
        raise ValueError(f"`delta` must be in [1e-10, 1/2]; got {short_repr(delta)}.")
    pure = (n - k) * chance * (4 - 3 * chance) / 12
    losses = []
    for network in _networks(n, k, chance, impurity):
        W, beta, V, c = network
        losses.append((sum_over_cubes(V @ W, V @ beta + c, chance, [Fraction(1)] * n), network))
    value, (W, beta, V, c) = min(losses, key=lambda pair: pair[0])
    statement = {
        "kind": KIND,
        "bound": min(rounded_up(value), pure),
        "delta": impurity,
        "n_features": n,
        "n_hidden": k,
        "p": chance,
    }
    proof = {"W": W.tolist(), "V": V.tolist(), "beta": beta.tolist(), "c": c.tolist()}
    try:
        save(path, "alignment_certificate", statement, proof, loss=str(float(value)))
    except Rejected as error:
        raise ValueError(f"`p` and `delta` must be what is checked; {error}.") from error
    return value


def _networks(n: int, k: int, p: Fraction, delta: Fraction) -> Iterator[Network]:
    """Yield networks (W, beta, V, c) of all constructions for n features and k neurons.

    A network is ReLU(V ReLU(W x + beta) + c), with arrays of fractions, W (k, n), V (n, k); features are on
    with probability p. Each neuron has at least the share 1 - delta of its squared weights on one feature.
    """
    slope = Fraction(isqrt(int(delta / (1 - delta) * _GRID**2)), _GRID)
    for block in (_gentle_pair(slope, p), _steep_pair(slope)):
        yield _network_of_blocks([block] * min(k, n - k), n, k, p)
    if k >= 2:
        for angle in _SLOPES:
            yield _network_of_blocks([_two_neurons(slope, angle, p)], n, k, p)
    if k >= 3:
        yield _network_of_blocks([_three_neurons(n - k + 3, delta)], n, k, p)


def _arrays(*parts: Any) -> Network:
    """Return a network (W, beta, V, c) as object arrays of fractions, from nested lists of numbers."""
    return tuple(np.vectorize(Fraction, otypes=[object])(part) for part in parts)


def _network_of_blocks(blocks: list[Network], n: int, k: int, p: Fraction) -> Network:
    """Return a network (W, beta, V, c) of n features on k neurons, made of smaller networks and of copies.

    The `blocks`, networks of features and neurons of their own, come first; each neuron that is left copies
    one more feature. The outputs of all other features are constant, p/2, their mean; p is the probability
    that a feature is on. Arrays are of fractions: W (k, n), beta (k,), V (n, k), c (n,).
    """
    W, beta, V, c = _arrays(np.zeros((k, n)), np.zeros(k), np.zeros((n, k)), np.full(n, p / 2))
    row = column = 0
    for block in blocks + [_arrays([[1]], [0], [[1]], [0])] * k:
        neurons, features = block[0].shape
        if row + neurons <= k:
            rows, columns = slice(row, row + neurons), slice(column, column + features)
            W[rows, columns], beta[rows], V[columns, rows], c[columns] = block
            row, column = row + neurons, column + features
    return W, beta, V, c


def _gentle_pair(slope: Fraction, p: Fraction) -> Network:
    """Return (W, beta, V, c) of one neuron for two features, with input x_0 - slope x_1 + beta.

    Both output weights are small: W is (1, 2), beta is `slope`, V = W'/(1 + slope^2), and c gives the outputs
    the mean p/2 of a feature, with p the probability that it is on.
    """
    u = np.array([Fraction(1), -slope])
    V = u / (1 + slope**2)
    return _arrays([u], [slope], V[:, None], p / 2 * (1 - V * (1 - slope)) - V * slope)


def _steep_pair(slope: Fraction) -> Network:
    """Return (W, beta, V, c) of one neuron for two features, with input x_0 - slope x_1 + beta.

    The output weight of feature 1 is large: W is (1, 2), V = (1, -1/slope)', beta is `slope`, and c =
    (-slope, 1).
    """
    return _arrays([[1, -slope]], [slope], [[1], [-1 / slope]], [-slope, 1])


def _two_neurons(slope: Fraction, angle: Fraction, p: Fraction) -> Network:
    """Return (W, beta, V, c) of two neurons for features 0 to 2: W is (2, 3), V (3, 2).

    The first neuron reads x_0, the second x_0 + (slope/2) (x_1 - angle x_2); outputs 1 and 2 use their
    difference. `angle` is at most 1; p is the probability that a feature is on.
    """
    scale = slope / 2  # the pair's encodings have squares 1 + angle^2 <= 2
    (u,), (beta,), V, c = _gentle_pair(angle, p)
    out = np.hstack([-V, V]) / scale
    return _arrays([[1, 0, 0], [1, *(scale * u)]], [0, scale * beta], np.vstack([[1, 0], out]), [0, *c])


def _three_neurons(n: int, delta: Fraction) -> Network:
    """Return (W, beta, V, c) of three neurons for n features; V W has the diagonal 1, no other entry above 0.

    (V W)_ij = 1 - (i - j)^2 for i, j = 1, ..., n - 1. All three neurons read feature 0 with weights so large
    that their square is at least the share 1 - delta of the sum of a neuron's squared weights.
    """
    j = np.arange(n).astype(object)  # sums of integers of any size
    reach = int(sum((1 + j[1:] ** 2) ** 2) * (1 - delta) / delta)
    W = np.array([j**0, j**0 + j, j**0 + j**2]) * Fraction(1)
    V = np.array([2 - j**2 - 2 * j, 2 * j, -(j**0)]).T * Fraction(1)
    scale = isqrt(reach) + 1
    W[:, 0] *= scale
    V[0] /= scale
    return _arrays(W, np.zeros(3), V, np.zeros(n))
