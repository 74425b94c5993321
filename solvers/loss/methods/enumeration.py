r"""The exact loss of few features, summed over all patterns of on and off.

Given a pattern, and signs of symmetric values, the output is the ReLU of an affine function over a cube. The
moments of that are in `theory.loss.cube`. For binary values it is one number. Nothing is truncated and
nothing cancels, so that weights may differ by any factor.
"""

from math import comb

import numpy as np
import numpy.typing as npt

from ....theory.compile.kernels import check_interrupt, inner, kernel, non_literal
from ....theory.features import Features
from ....theory.features.counts import IndependentGroup, blocks_given
from ....theory.features.values.parts import KernelLaw
from ....theory.loss.cube import pattern_gradient, pattern_loss
from ....theory.validation import FloatArray
from ..problem import Accuracy, Law, LossProblem, Outputs

__all__ = [
    "ESTIMATE",
    "blocks",
    "estimated_seconds",
    "pattern_masks",
    "pattern_probabilities",
    "rows_by_patterns",
    "solve",
    "terms",
]

# Distance from the kink, over the sum of the sizes of k terms and over k + 8, that counts as none: rounding,
# as in `theory.model.rounding_of_sum`, which is no kernel.
KINK = 2.0**-52


def blocks(law: Features) -> list[IndependentGroup]:
    """Return the blocks of a law, groups and single features, with the probabilities of their patterns.

    If exactly k features are on, the probability of a pattern with h on is multiplied by e^(s h), with one s
    for which the mean number on is k, and normalised. The law given that k are on stays the same.
    """
    return law.blocks if law.exactly is None else blocks_given(law.blocks, law.exactly)


def pattern_masks(block: IndependentGroup) -> npt.NDArray[np.int64]:
    """Return the patterns of a block as integers: bit k is 1 where its k-th member is on."""
    return np.asarray(block.patterns @ (1 << np.arange(block.members.size, dtype=np.int64)), np.int64)


def pattern_probabilities(law: Features) -> FloatArray:
    """Return the probability of each pattern q, (2^n,), where bit j of q says whether feature j is on."""
    on = (np.arange(2**law.n_features)[:, None] >> np.arange(law.n_features)) & 1
    probabilities = np.ones(on.shape[0])
    for block in blocks(law):
        share = np.bincount(pattern_masks(block), block.weights, 2**block.members.size)
        probabilities *= share[pattern_masks(block._replace(patterns=on[:, block.members]))]
    if law.exactly is not None:
        probabilities = np.where(on.sum(axis=1) == law.exactly, probabilities, 0.0)
        probabilities /= probabilities.sum()
    return probabilities


@inner
def _loss_of_binary_pattern(g: FloatArray, b: float, target: int, slope: FloatArray) -> tuple[float, float]:
    """Return (x - ReLU(b + sum g))^2 for binary values and its derivative by b; write those by g to `slope`.

    `g` has the weights of the features that are on. `target` is the position of the target x among them, or
    -1: then x = 0, else 1. Where the sum is 0 but for rounding, derivatives are means of both sides.
    """
    z, lost, size = b, 0.0, abs(b)
    for x in g:  # compensated: at z = 0 the derivative jumps
        new = z + x
        lost += (z - new) + x if abs(z) >= abs(x) else (x - new) + z
        z = new
        size += abs(x)
    z += lost
    error = (1.0 if target >= 0 else 0.0) - max(z, 0.0)
    is_at_kink = abs(z) <= KINK * (g.size + 8.0) * size
    by_b = -error if is_at_kink else -2.0 * error if z > 0.0 else 0.0
    slope[:] = by_b
    return error * error, by_b


@inner
def _loss_of_uniform_pattern(
    g: FloatArray,
    b: float,
    target: int,
    sign: FloatArray,
    works: tuple[FloatArray, FloatArray],
    slope: FloatArray,
) -> tuple[float, float]:
    """Return the mean loss over values sign_j u_j, u_j uniform on [0, 1], and its derivative by b.

    `g` has the weights of the features that are on, `sign` 1 or -1 for each, and `target` is the position of
    the target among them, or -1 if it is off. Derivatives by g are written to `slope`. For k features on,
    `works` are zeroed scratch arrays of at least (3, 3^k) and (2 k + 4, 3^k). For a target -u the mean is E
    (u + R)^2 = 2 E u^2 + 2 E R^2 - E (u - R)^2, R being the output.
    """
    signed = g * sign
    if target < 0 or sign[target] > 0.0:
        loss = pattern_loss(signed, b, target, works[0])
        by_b = -2.0 * pattern_gradient(signed, b, target, works[1], slope)
        slope *= -2.0 * sign
        return loss, by_b
    none = non_literal(-1)
    loss = (
        2.0 / 3.0 + 2.0 * pattern_loss(signed, b, none, works[0]) - pattern_loss(signed, b, target, works[0])
    )
    other = np.empty(g.size)
    by_b = -4.0 * pattern_gradient(signed, b, none, works[1], slope)
    by_b += 2.0 * pattern_gradient(signed, b, target, works[1], other)
    slope[:] = (-4.0 * slope + 2.0 * other) * sign
    return loss, by_b


@inner
def _add_compensated(total: float, lost: float, term: float) -> tuple[float, float]:
    """Return (total + term, `lost` + what rounding loses of this sum), as in Neumaier's compensated sum."""
    new = total + term
    if abs(total) >= abs(term):
        return new, lost + ((total - new) + term)
    return new, lost + ((term - new) + total)


@inner
def _sum_over_patterns(
    row: FloatArray, i: int, b: float, weights: FloatArray, sides: int, by: FloatArray
) -> tuple[float, float, float, float]:
    """Return (loss, derivative by b, size of the loss, size of the derivatives) of one output.

    The output is ReLU(row . x + b), its target feature i. All are means over the on/off patterns q, with the
    probabilities weights[q]; bit j of q says whether feature j is on. The derivatives by the row are written
    to `by`. A rounding error is a small multiple of a size. `sides` is 0 for values that are 1, 1 for uniform
    ones on [0, 1], 2 for those on [-1, 1].
    """
    n = row.size
    on = np.empty(n, np.int64)
    loss, by_b, size, steep = 0.0, 0.0, 0.0, 0.0
    lost, lost_b, lost_by = 0.0, 0.0, np.zeros(n)  # compensated: thousands of terms
    by[:] = 0.0
    deepest = n if sides else 0
    faces = 3**deepest
    losses, slopes = np.zeros((3, faces)), np.zeros((2 * deepest + 4, faces))
    for q in range(weights.size):
        check_interrupt(q % 1024 == 1023)
        if weights[q] == 0.0:
            continue
        k, target = 0, non_literal(-1)
        for j in range(n):
            if (q >> j) & 1:
                if j == i:
                    target = k
                on[k] = j
                k += 1
        g, slope, sign = row[on[:k]], np.zeros(k), np.ones(k)
        reach = max(b, 0.0) if k == 0 else abs(b) + (1.0 if target >= 0 else 0.0) + np.sum(np.abs(g))
        size += weights[q] * reach * reach
        steep += weights[q] * 2.0 * reach
        signs = sides**k if sides else 1
        for r in range(signs):
            if sides == 0 or k == 0:
                part, push = _loss_of_binary_pattern(g, b, target, slope)
            else:
                for j in range(k):
                    sign[j] = -1.0 if (r >> j) & 1 else 1.0
                check_interrupt(k > 7)
                part, push = _loss_of_uniform_pattern(g, b, target, sign, (losses, slopes), slope)
            loss, lost = _add_compensated(loss, lost, weights[q] / signs * part)
            by_b, lost_b = _add_compensated(by_b, lost_b, weights[q] / signs * push)
            for j in range(k):
                by[on[j]], lost_by[on[j]] = _add_compensated(
                    by[on[j]], lost_by[on[j]], weights[q] / signs * slope[j]
                )
    by += lost_by
    return loss + lost, by_b + lost_b, size, steep


@kernel
def rows_by_patterns(
    M: FloatArray, features: npt.NDArray[np.int64], b: FloatArray, weights: FloatArray, law: KernelLaw
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return losses, their errors, derivatives by rows and biases, and their errors, as in `Outputs`.

    Output k is ReLU(M_k . x + b_k) and its target feature features[k]; weights[q] is the probability of the
    pattern q, bit j of which says whether feature j is on. Values are 1, or uniform on [0, 1] or [-1, 1].
    """
    if law.sides < 0:
        raise ValueError("`law` must be of values that are 1, or uniform on [0, 1] or [-1, 1].")
    count, n = M.shape
    losses, errors, by_M, by_b = np.empty(count), np.empty(count), np.empty((count, n)), np.empty(count)
    slope_errors = np.empty(count)
    for i in range(count):
        losses[i], by_b[i], size, steep = _sum_over_patterns(
            M[i], features[i], b[i], weights, law.sides, by_M[i]
        )
        # A pattern's weight is a product, off by 2 n units; its loss is off by 2**-48 of its size.
        rounding = 2.0**-48 + 2.0**-52 * (n + 1)
        errors[i], slope_errors[i] = rounding * size, rounding * steep
    return losses, errors, by_M, by_b, slope_errors


# --- The method --------------------------------------------------------------------------------------------

ESTIMATE = (
    "heuristic: rounding in units of E (|b| + sum of |w|)^2, never exceeded in tests by exact arithmetic"
)

# Features up to which all patterns are summed, by the sides of their values: a second at most.
MOST = {0: 14, 1: 8, 2: 8, -1: 0}
FALLBACK_RTOL = 1e-10  # they lose fewer digits than `folding`


def terms(law: Law) -> float:
    """Return the cost of an output: the sum over on/off patterns of the faces of the values' cubes."""
    return float({1: 4.0, 2: 7.0}.get(law.values.sides, 2.0) ** law.n)


def estimated_seconds(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> float:
    """Return the seconds that `solve(problem, accuracy, gradient)` takes for an output.

    Patterns without probability take no time.
    """
    law = problem.law
    growth, seconds = {0: (2.0, 1.1e-7), 1: (4.0, 4e-8), 2: (5.2, 4e-7), -1: (1.0, np.inf)}[law.values.sides]
    # A pattern of k features takes (growth - 1)^k, and all of n independent ones growth^n.
    free, sums = law.n, 1.0
    for members, patterns, _ in law.features.groups:
        free -= members.size
        sums *= float(np.sum((growth - 1.0) ** patterns.sum(axis=1)))
    sums *= growth**free
    if law.features.exactly is not None:
        sums = min(sums, comb(law.n, law.features.exactly) * (growth - 1.0) ** law.features.exactly)
    return float(seconds * sums)


def solve(problem: LossProblem, accuracy: Accuracy, gradient: bool) -> Outputs:
    """Return the `Outputs` of a problem, with derivatives, summed over all on/off patterns of the features.

    `accuracy` and `gradient` make no difference.
    """
    law = problem.law
    if "chances" not in law.cache:
        law.cache["chances"] = pattern_probabilities(law.features)
        if law.classes is not None:  # patterns of other classes do not count
            on = np.array([pattern.bit_count() for pattern in range(2**law.n)])
            law.cache["chances"][on > law.classes] = 0.0
    arrays = problem.weights, problem.target, problem.biases
    return Outputs(*rows_by_patterns(*arrays, law.cache["chances"], law.values.parts))
