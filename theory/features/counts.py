r"""The number of features that are on, and the law of the features given that number.

A law is a list of independent blocks: a group, or one feature alone. A block is a table of patterns with
weights. The number on is a sum over blocks, so its probabilities are a product of polynomials, one for each
block, whose coefficients are all positive: nothing cancels.

Given that exactly k are on, the weights of a pattern with c features on may be multiplied by :math:`e^{sc}`:
the law given k stays what it is. With the s at which k is the expected number, no probability that is needed
underflows. The factor is the same power of one double, times powers of two, as logarithms of weights of
1e-100 and less would lose two digits.
"""

from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..validation import FloatArray, IntArray

__all__ = [
    "IndependentGroup",
    "blocks_given",
    "count_polynomial",
    "draw_given",
    "possible",
    "probabilities_given",
]

_STEEPEST = 1000.0  # beyond it, exp(s) makes up for any ratio of doubles


class IndependentGroup(NamedTuple):
    """A set of features whose joint on/off pattern is independent of all other features."""

    members: IntArray
    """(g,) their indices."""
    patterns: IntArray
    """(k, g) of 0 and 1."""
    weights: FloatArray
    """(k,) probabilities, sum 1."""

    def polynomial(self) -> FloatArray:
        """Return the probabilities that 0, 1, ... of the members are on."""
        return np.asarray(np.bincount(self.patterns.sum(axis=1), self.weights), np.float64)


def count_polynomial(blocks: list[IndependentGroup]) -> FloatArray:
    """Return the probabilities that 0, 1, ... features are on, counted over all `blocks` together.

    The result is the product of the blocks' polynomials, which are multiplied in pairs of similar size. A
    block is a group of features that are independent of all others.
    """
    factors = [block.polynomial() for block in blocks]
    while len(factors) > 1:
        odd = factors[-1:] if len(factors) % 2 else []
        factors = [np.convolve(*pair) for pair in zip(factors[:-1:2], factors[1::2], strict=True)] + odd
    return factors[0]


def possible(groups: list[IndependentGroup], sure: int, unsure: int, k: int) -> bool:
    """Return whether exactly k features can be on.

    `sure` is the number of features outside the groups whose probability is 1, `unsure` the number of those
    whose probability is below 1.
    """
    sums = 1  # bit c is set if c can be on in the groups
    for group in groups:
        counts = set(group.patterns[group.weights > 0].sum(axis=1).tolist())
        sums = reduce(or_, (sums << count for count in counts))
    return any(sums >> (k - sure - extra) & 1 for extra in range(min(unsure, k - sure) + 1))


def blocks_given(blocks: list[IndependentGroup], k: int) -> list[IndependentGroup]:
    """Return `blocks` with their patterns' weights changed so that the mean number of features on is k.

    Each weight is multiplied by e^(s count), with the number of features on in the pattern and one s for all,
    and normalised. The conditional law, given that exactly k are on, stays the same.
    """
    from scipy.optimize import brentq

    counts = np.concatenate([block.patterns.sum(axis=1) for block in blocks])
    weights = np.concatenate([block.weights for block in blocks])
    sizes = np.array([block.weights.size for block in blocks])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    low = np.minimum.reduceat(np.where(weights > 0, counts, counts.max()), starts)
    high = np.maximum.reduceat(np.where(weights > 0, counts, 0), starts)

    def shares(new: FloatArray) -> FloatArray:
        """Return probabilities of counts, block after block: weights `new` over their sum in the block."""
        return np.asarray(new / np.repeat(np.add.reduceat(new, starts), sizes))

    def expected(s: float) -> float:
        """Return the mean number of features on if weights are multiplied by e^(s count)."""
        heights = logs + s * counts
        new = np.exp(heights - np.repeat(np.maximum.reduceat(heights, starts), sizes))
        return float(shares(new) @ counts)

    if low.sum() < k < high.sum():
        s = float(brentq(lambda s: expected(s) - k, -_STEEPEST, _STEEPEST, xtol=1e-6)) / np.log(2.0)
        twos = np.round(s)
        digits, powers = np.frexp(weights)
        powers = powers + (twos * counts).astype(np.int64)
        tops = np.maximum.reduceat(np.where(weights > 0.0, powers, -(2**40)), starts)
        new = np.ldexp(digits, np.maximum(powers - np.repeat(tops, sizes), -2000))
        new *= (2.0 ** (s - twos)) ** counts
    else:
        new = np.where(counts == np.repeat(low if k <= low.sum() else high, sizes), weights, 0.0)
    fresh = np.split(shares(new), starts[1:])
    return [IndependentGroup(b.members, b.patterns, w) for b, w in zip(blocks, fresh, strict=True)]


def _multiply_polynomials(polynomial: FloatArray, table: FloatArray) -> FloatArray:
    """Return each row of `table`, a polynomial, multiplied by `polynomial`, in the shape of `table`.

    Coefficients start at the power 0; powers beyond those of the table are left out.
    """
    out = np.zeros_like(table)
    for count in np.flatnonzero(polynomial[: table.shape[-1]]):
        out[..., count:] += polynomial[count] * table[..., : table.shape[-1] - count]
    return out


def _suffix_probabilities(blocks: list[IndependentGroup], k: int) -> FloatArray:
    """Return P(c features are on in blocks b, b + 1, ...) at [b, c], shape (blocks + 1, k + 1)."""
    table = np.zeros((len(blocks) + 1, k + 1))
    table[-1, 0] = 1.0
    for b in range(len(blocks) - 1, -1, -1):
        table[b] = _multiply_polynomials(blocks[b].polynomial(), table[b + 1])
    return table


def _completion_probabilities(block: IndependentGroup, suffix: FloatArray) -> FloatArray:
    """Return P(k features are on in all | pattern of `block`, c on in the blocks before) at [pattern, c].

    `suffix`, (k + 1,), has the probabilities that 0, ..., k features are on in the blocks after `block`. The
    result has shape (patterns, k + 1).
    """
    k = suffix.size - 1
    missing = k - np.arange(k + 1) - block.patterns.sum(axis=1)[:, None]
    return np.where(missing >= 0, suffix[np.maximum(missing, 0)], 0.0)


def probabilities_given(blocks: list[IndependentGroup], k: int, *, pairs: bool) -> FloatArray:
    """Return P(feature is on), (n,), or with `pairs` P(both are on), (n, n), given that exactly k are on.

    `blocks` are groups of features that are independent of each other. The cost is O(n k) without pairs,
    O(n^2 k) with them; all terms are positive.
    """
    blocks = blocks_given(blocks, k)
    order = np.concatenate([block.members for block in blocks])
    n, suffixes = order.size, _suffix_probabilities(blocks, k)
    out = np.zeros((n, n) if pairs else n)
    so_far = np.zeros((n if pairs else 0, k + 1))
    prefix = np.zeros(k + 1)
    prefix[0] = 1.0
    seen = 0
    for b, block in enumerate(blocks):
        left = block.weights[:, None] * _completion_probabilities(block, suffixes[b + 1])
        on = left @ prefix  # of each pattern
        now = slice(seen, seen + block.members.size)
        if pairs:
            out[:seen, now] = so_far[:seen] @ left.T @ block.patterns
            out[now, :seen] = out[:seen, now].T
            out[now, now] = (block.patterns.T * on) @ block.patterns
            so_far[:seen] = _multiply_polynomials(block.polynomial(), so_far[:seen])
            for pattern, weight in zip(block.patterns, block.weights, strict=True):
                count = pattern.sum()
                so_far[now, count:] += np.multiply.outer(pattern * weight, prefix[: max(k + 1 - count, 0)])
        else:
            out[now] = on @ block.patterns
        prefix = _multiply_polynomials(block.polynomial(), prefix)
        seen = now.stop
    back = np.argsort(order)
    out = out[np.ix_(back, back)] if pairs else out[back]
    return np.asarray(out / suffixes[0, k])


def draw_given(
    blocks: list[IndependentGroup], k: int, size: int, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Draw which features are on given that exactly k are: `size` rows, with a column for each feature.

    `blocks` are groups of features that are independent of each other.
    """
    blocks = blocks_given(blocks, k)
    suffixes = _suffix_probabilities(blocks, k)
    on = np.zeros((size, sum(block.members.size for block in blocks)), np.bool_)
    left = np.full(size, k)
    for b, block in enumerate(blocks):
        # Of each pattern, as a function of how many are on before; column k - left is the one that counts.
        chances = np.cumsum(
            block.weights[:, None] * _completion_probabilities(block, suffixes[b + 1]), axis=0
        )[:, ::-1]
        draws = rng.random(size)
        pattern = np.empty(size, np.int64)
        for number in np.unique(left):
            rows = left == number
            steps = chances[:, number]
            steps_drawn = np.searchsorted(steps, draws[rows] * steps[-1], side="right")
            pattern[rows] = np.minimum(steps_drawn, np.searchsorted(steps, steps[-1]))
        on[:, block.members] = block.patterns[pattern]
        left -= block.patterns.sum(axis=1)[pattern]
    return on
