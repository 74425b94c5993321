"""The loss of outputs that are affine or constantly 0, from second moments: no ReLU changes its state."""

from dataclasses import replace

import numpy as np

from ....theory.validation import BoolArray, FloatArray
from ..problem import Accuracy, Law, LossProblem, Outputs, relative_rounding

__all__ = ["ESTIMATE", "affine_outputs", "estimated_seconds", "never_bends", "solve", "terms"]

ESTIMATE = "heuristic: rounding of sums of second moments, in units of their terms"


def preactivation_range(problem: LossProblem) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest pre-activation of each output, (k,) both; infinite if unbounded."""
    first, last = problem.law.values.support
    if not np.isfinite([first, last]).all():
        return np.full(problem.biases.size, -np.inf), np.full(problem.biases.size, np.inf)
    low, high = min(first, 0.0) * problem.weights, max(last, 0.0) * problem.weights
    if low.any():
        least, largest = np.minimum(low, high), np.maximum(low, high)
    else:
        least, largest = np.minimum(high, 0.0), np.maximum(high, 0.0)
    return problem.biases + least.sum(axis=1), problem.biases + largest.sum(axis=1)


def never_bends(problem: LossProblem) -> BoolArray:
    """Return a mask (k,) of outputs without ReLU, or whose ReLU never changes state."""
    if problem.activation == "identity":
        return np.ones(problem.biases.size, np.bool_)
    least, largest = preactivation_range(problem)
    return np.asarray((least >= 0.0) | (largest <= 0.0))


def terms(law: Law) -> float:
    """Return the number of terms of an output's sum: n for independent features, else n^2 pairs."""
    return float(law.n if law.independent else law.n**2)


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output."""
    return 1e-9 * terms(problem.law)


def affine_outputs(problem: LossProblem) -> Outputs:
    """Return losses E (x - y)^2 of a problem's affine outputs y = M x + b, with derivatives and errors."""
    law = problem.law
    left, b, mean = -problem.weights, problem.biases, law.mean
    left[np.arange(b.size), problem.target] += 1.0
    shift, sizes, far = left @ mean, np.abs(left), np.abs(b)
    steps = sizes @ np.abs(mean)
    if law.independent:  # no second moments, n^2 of them
        spread = law.p * (law.moment(2) - law.moment(1) ** 2 * law.p)
        covariances = shift[:, None] * mean + left * spread
        pairs = steps[:, None] * np.abs(mean) + sizes * spread
    else:
        covariances, pairs = left @ law.pairs, sizes @ np.abs(law.pairs)
    terms = np.sum(pairs * sizes, axis=1) + 2.0 * far * steps + far**2
    slopes = np.maximum(pairs.max(axis=1) + far * np.abs(mean).max(), far + steps)
    return Outputs(
        np.sum(covariances * left, axis=1) - 2.0 * b * shift + b * b,
        relative_rounding(law) * terms,
        2.0 * (b[:, None] * mean - covariances),
        2.0 * (b - shift),
        2.0 * relative_rounding(law) * slopes,
    )


def zero_where_off(problem: LossProblem, outputs: Outputs, on: BoolArray) -> Outputs:
    """Return a problem's `outputs` where the mask `on` is true, else those of y = 0: loss E x^2, slopes 0."""
    law = problem.law
    target_square = law.square[problem.target]
    return Outputs(
        np.where(on, outputs.losses, target_square),
        np.where(on, outputs.errors, relative_rounding(law) * target_square),
        np.where(on[:, None], outputs.by_M, 0.0),
        np.where(on, outputs.by_b, 0.0),
        np.where(on, outputs.slope_errors, 0.0),
    )


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem: of y = M x + b if an output is always on, of y = 0 if always off.

    Derivatives are set in any case; `accuracy` and `gradient` make no difference.
    """
    outputs, law = affine_outputs(problem), problem.law
    if problem.activation == "identity":
        return outputs
    least, largest = preactivation_range(problem)
    # An output that bends within rounding: R is off by that, E (x - R)^2 by 2 E |x| R + E R^2.
    largest_value = max(abs(end) for end in law.values.support)
    size = np.abs(problem.biases) + np.abs(problem.weights).sum(axis=1) * largest_value
    near = relative_rounding(law) * size
    near[np.minimum(np.abs(least), np.abs(largest)) > near] = 0.0
    target_square = law.square[problem.target]
    outputs = zero_where_off(problem, outputs, least >= 0.0)
    return replace(
        outputs, errors=outputs.errors + near * (2.0 * np.sqrt(target_square * law.p[problem.target]) + near)
    )
