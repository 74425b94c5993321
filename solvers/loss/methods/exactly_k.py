"""The loss of equal uniform features as a sum over classes of inputs: those with exactly k features on.

It is the only method for a loss over few classes; over all of them `folding` is quicker.
"""

from math import comb

import numpy as np

from ....theory.loss.classes import class_weights, gradient_of_map, outputs
from ..problem import Accuracy, Law, LossProblem, Outputs

__all__ = ["ESTIMATE", "covers", "estimated_seconds", "solve", "terms"]

ESTIMATE = "heuristic: rounding of each pattern, in units of the square of the largest output"

# Features that may be on, as tables of the faces of a cube are made, and patterns in all.
MOST_ON = 11
PATTERNS = 20_000
ROUNDING = 1e-14  # of one pattern


def covers(problem: LossProblem) -> bool:
    """Return whether features are equal and uniform, and output i has feature i as its target, for all i.

    Also, at most `MOST_ON` features may be on, in at most `PATTERNS` patterns of on and off.
    """
    law = problem.law
    if not (law.features.has_equal_features and np.array_equal(problem.target, np.arange(law.n))):
        return False
    return (law.classes or 1) <= MOST_ON and terms(law) <= PATTERNS


def terms(law: Law) -> float:
    """Return the cost of an output: the number of on/off patterns in all classes of `law`.

    Class k has exactly k features on.
    """
    return float(sum(comb(law.n, k) for k in range((law.classes or 1) + 1)))


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output, as measured."""
    return 1e-6 * terms(problem.law)


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem, summed over classes of inputs with exactly k features on.

    Derivatives are set if `gradient`; `accuracy` makes no difference.
    """
    law, M, b = problem.law, problem.weights, problem.biases
    # Probabilities of one pattern with 0, 1, ... on; in the limit p -> 0 one feature is.
    chances = class_weights(law.n, float(law.p[0]), law.classes) if law.classes else np.array([0.0, 1.0])
    losses, by_M, by_b, ones = np.zeros(b.size), np.zeros(M.shape), np.zeros(b.size), np.ones(b.size)
    total = 0.0
    for k, chance in enumerate(chances):
        if chance > 0.0:
            total += comb(b.size, k) * chance
            losses += chance * outputs(M, b, k)
            if gradient:
                class_by_M, class_by_b = gradient_of_map(M, b, k, ones)
                by_M += chance * class_by_M
                by_b += chance * class_by_b
    size = np.abs(b) + np.abs(M).sum(axis=1) + 1.0
    return Outputs(losses, ROUNDING * total * size**2, by_M, by_b, 2.0 * ROUNDING * total * size)
