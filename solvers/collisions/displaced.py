"""Initial weights, and numbers of polysemantic neurons if features that move avoid those in use."""

import math

import numpy as np
from scipy import optimize

from ...theory import validation
from ...theory.collisions import expected_polysemantic
from ...theory.validation import FloatArray, number


def first_weights(n: int, m: int, runs: int, scale: float, seed: int) -> FloatArray:
    """Return initial weights, (runs, n, m), normal with standard deviation scale/sqrt(m).

    Those of a run depend on `seed` and the run's index, not on the number of runs.

    Examples
    --------
    >>> bool((first_weights(2, 3, 5, 0.9, 0)[:2] == first_weights(2, 3, 2, 0.9, 0)).all())
    True
    """
    rngs = (np.random.default_rng([seed, n, m, r]) for r in range(runs))
    return np.stack([rng.normal(scale=scale / np.sqrt(m), size=(n, m)) for rng in rngs])


@validation.finite
def displaced_polysemantic(n_features: int, n_hidden: int, *, stayed: float, preference: float) -> float:
    r"""Return a heuristic mean number of polysemantic neurons if features that move avoid used neurons.

    A neuron has two places, one for each sign. A share `stayed` of the features keeps the neuron of the
    largest initial weight: random places. The others in turn take a random free place, with a probability
    proportional to 1 on an empty neuron and to `preference` beside another feature.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, each at least 1, with n <= 2m.
    stayed : float
        Share of the features that did not move, from 0 to 1.
    preference : float
        Relative probability of a place beside another feature, not negative; 1 gives `expected_polysemantic`.

    Returns
    -------
    float
        The mean, computed with the means of the numbers of empty and half-taken neurons (error of order 1).

    Examples
    --------
    >>> round(displaced_polysemantic(64, 128, stayed=0.41, preference=0.7), 3)
    6.396
    """
    n = validation.integer("n_features", n_features, 1, 10**6)
    m = validation.integer("n_hidden", n_hidden, 1, 10**15)
    expected_polysemantic(n, m)  # checks that there are places enough
    share, weight = number("stayed", stayed, 0.0, 1.0), number("preference", preference, 0.0)
    # The two weights over the larger of them, so that nothing overflows.
    near, far = (weight / max(weight, 1.0), 1.0 / max(weight, 1.0))
    placed = share * n
    pairs = placed * max(placed - 1, 0.0) / (2 * (2 * m - 1))
    moves = math.ceil(n - placed)
    for remaining in range(moves, 0, -1):
        part = (n - placed) / remaining  # 1, or a little less where `stayed` n is not whole
        single, empty = placed - 2 * pairs, max(m - placed + pairs, 0.0)
        taken, free = near * single, far * 2 * empty
        join = taken / (taken + free) if taken + free > 0 else 1.0
        pairs += max(part * join, part - empty)  # no more can go to empty neurons than there are
        placed += part
    return pairs


def fitted_preference(n_features: int, n_hidden: int, stayed: float, count: float) -> float:
    """Return the preference at which `displaced_polysemantic` gives `count`; nan if none up to 4 does.

    The preference is (probability that a moving feature takes a given place beside another one)/(probability
    of a given place on an empty neuron). `stayed` is the share of the features that keep the neuron of their
    largest initial weight, `count` a mean number of polysemantic neurons.
    """

    def excess(preference: float) -> float:
        """Return by how much the mean number at a preference exceeds `count`."""
        return displaced_polysemantic(n_features, n_hidden, stayed=stayed, preference=preference) - count

    low, high = 0.0, 4.0
    return float(optimize.brentq(excess, low, high)) if excess(low) <= 0 <= excess(high) else float("nan")
