"""The loss of alike uniform features over the classes of inputs with exactly k of them on.

It is the only method for a loss over few classes; over all of them `folds` is quicker.
"""

from math import comb

import numpy as np

from ....theory.loss.classes import gradient_of_map, outputs
from .outputs import AccuracyRequest, BoolArray, Law, Outputs, Rows

__all__ = ["ESTIMATE", "covers", "estimated_seconds", "solve", "terms"]

ESTIMATE = "heuristic: rounding of each pattern, in units of the square of the largest output"

# Features that may be on, as tables of the faces of a cube are made, and patterns in all.
MOST_ON = 11
PATTERNS = 20_000
ROUNDING = 1e-14  # of one pattern


def covers(rows: Rows, law: Law) -> BoolArray:
    """Return a mask, all or none: whether the loss is over few classes of alike uniform features."""
    is_square = rows.relu and np.array_equal(rows.features, np.arange(law.n))
    has_few_classes = (
        "classes" in law.cache and law.features.alike and law.cache["classes"].size <= MOST_ON + 1
    )
    has_few_classes = has_few_classes and terms(law) <= PATTERNS
    return np.full(rows.b.size, is_square and has_few_classes)


def terms(law: Law) -> float:
    """Return the number of on/off patterns in all classes, the cost of an output."""
    return float(sum(comb(law.n, k) for k in range(law.cache["classes"].size)))


def estimated_seconds(rows: Rows, law: Law, request: AccuracyRequest) -> float:
    """Return the seconds that `solve` takes for an output, as measured."""
    return 1e-6 * terms(law)


def solve(rows: Rows, law: Law, request: AccuracyRequest) -> Outputs:
    """Return each output's loss and derivatives, summed over the classes of inputs with exactly k on."""
    M, _, b, _ = rows
    losses, by_M, by_b, ones = np.zeros(b.size), np.zeros(M.shape), np.zeros(b.size), np.ones(b.size)
    total = 0.0
    for k, chance in enumerate(law.cache["classes"]):
        if chance > 0.0:
            total += comb(b.size, k) * chance
            losses += chance * outputs(M, b, k)
            if request.slopes:
                class_by_M, class_by_b = gradient_of_map(M, b, k, ones)
                by_M += chance * class_by_M
                by_b += chance * class_by_b
    size = np.abs(b) + np.abs(M).sum(axis=1) + 1.0
    return Outputs(losses, ROUNDING * total * size**2, by_M, by_b, 2.0 * ROUNDING * total * size)
