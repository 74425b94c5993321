"""The best capacity matrix and coefficients of blocks of features that depend on each other.

With C = V diag(g²) V' and z_i = V diag(g) t_i the noise of `theory.unequal.blocks` is the sum over a of (1 -
g_a²) t_ia², smooth up to g = 0 (a direction dropped) and g = 1 (kept exactly). With a Lagrange multiplier
lambda, the `price` of capacity, each block minimises (loss + lambda tr C)/k over V (angles of rotations), g,
t and biases, the variables x of a descent, from many starts. Mixtures of blocks are the lower convex hull of
loss over capacity, which the slopes of chords find.
"""

import dataclasses
from functools import reduce
from itertools import combinations, product
from typing import Any

import numpy as np

from ...theory import validation
from ...theory.features import Features
from ...theory.results import frozen
from ...theory.unequal.blocks import block_law, block_losses, losses, symmetric_root, table
from ...theory.validation import FloatArray
from ..minimise.descent import DescentResult, Round, lbfgs, successive_elimination
from ..results import Status, result
from .realise import tight_frame

__all__ = ["BlockOptimum", "BlockPart", "block_optimum", "realise_blocks"]

# Ends of descents count as one if objective and capacity differ by less, in units of the zero model's loss.
_SAME = 1e-9
_NEAR = 0.05  # a state is kept for other prices while its objective is within this share of the least
_CORNER = 1e-9  # capacities per feature that differ by less are one
_EQUAL = 1e-4  # two kinds of blocks whose numbers differ by less, relative to the largest, are one
_SLOPE = 1e-6  # largest entry of the projected gradient of a descent that has converged, in the same units
# Steps of a descent at most, those of the first one from each start, and how many of these go on.
_STEPS, _FIRST, _POOL = 500, 60, 5
# Prices that are tried at most; starts, each of a tenth of a second or more.
_PRICES, _MOST_STARTS = 60, 10_000

State = tuple[float, float, FloatArray]  # capacity per feature, loss, and the variables of a descent


@result
class BlockPart:
    """One kind of block of k features in a mixture, and its share of the blocks."""

    share: float
    """Share of the blocks that are of this kind, from 0 to 1."""
    capacity: FloatArray
    """Capacity matrix C, in the coordinates of the symmetric root of the covariance, shape (k, k)."""
    coefficients: FloatArray
    """Row i has the weights of output i on the features of its block, shape (k, k): features with positive
    entries share a direction, with negative ones they are opposite."""
    b: FloatArray
    """Biases, with the means of the interference, shape (k,)."""
    noise: FloatArray
    """Standard deviations of the interference from other blocks, shape (k,)."""
    per_feature: FloatArray
    """Expected squared errors, without importance, shape (k,)."""
    loss: float
    """Loss per feature: the mean of importance times `per_feature`."""
    ratio: float
    """Neurons per feature, tr C/k."""
    directions: FloatArray
    """Eigenvectors of C, as columns, shape (k, q)."""
    capacities: FloatArray
    """Eigenvalues of C, shape (q,)."""


@result
class BlockOptimum:
    """The best mixture of blocks at a ratio; random `starts`, `steps` in all and `status` of the last."""

    parts: tuple[BlockPart, ...]
    """One kind of block, or two where a mixture is better."""
    loss: float
    """Loss per feature: the mean of importance times squared error."""
    multiplier: float
    """Lagrange multiplier: by how much one more neuron per feature lowers the loss."""
    gap: float
    """`loss` minus the least Lagrangian found at this multiplier; 0 to rounding if the search is finished. It
    is not proved that no lower one exists."""
    starts: int
    steps: int
    status: Status


def _covariance_root(covariance: FloatArray) -> FloatArray:
    """Return R (k, rank) with R R' = covariance: the symmetric root if the rank is full."""
    values, vectors = np.linalg.eigh(covariance)
    is_large = values > 1e-12 * values[-1]
    return (
        symmetric_root(covariance)
        if is_large.all()
        else np.asarray(vectors[:, is_large] * np.sqrt(values[is_large]))
    )


class _Problem:
    """The Lagrangian of one block, with its gradient: loss per feature plus a multiplier times the capacity.

    A block is the features of the `law`, which may depend on each other; they are in units of their scales.
    Capacity is the block's share of the hidden dimensions, per feature.
    """

    def __init__(self, law: Features) -> None:
        self.law, self.k = law, law.n_features
        self.patterns, self.chances = table(law)
        self.uniform = law.values.uniform
        self.weights = law.importance * law.scale**2 / self.k
        self.covariance = law.covariance() / np.outer(law.scale, law.scale)
        self.root = _covariance_root(self.covariance)
        self.q = self.root.shape[1]
        # the coefficients that write z: exact where the covariance has full rank, else the shortest
        self.unroot = np.linalg.pinv(self.root).T
        self.mean = law.mean / law.scale
        self.planes = list(combinations(range(self.q), 2))
        self.unit = float(self.weights @ np.diag(self.covariance))
        free, all_free = np.full(len(self.planes), np.inf), np.full((self.q + 1) * self.k, np.inf)
        zeros, ones = np.zeros(self.q), np.ones(self.q)
        self.bounds = np.concatenate([-free, zeros, -all_free]), np.concatenate([free, ones, all_free])
        # the search stops here: the losses of three and four features are not better than this
        self.closed = 1e-14 if self.k <= 2 else 1e-9
        self.steps = 0

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return (angles, g (q,), t (k, q), biases (k,)) from the variables x of a descent.

        The capacity matrix is V diag(g²) V', with V the product of rotations by the angles. Output i has the
        coefficients V diag(g) t_i, in the coordinates in which the features' covariance is 1.
        """
        angles, g, t, b = np.split(x, np.cumsum([len(self.planes), self.q, self.q * self.k]))
        return angles, g, t.reshape(self.k, self.q), b

    def rotation(self, angles: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return (product of rotations by `angles`, (q, q); list of its derivatives by each angle).

        Rotation k is in the plane of the two axes planes[k].
        """
        turns, slopes = [], []
        for (i, j), angle in zip(self.planes, angles.tolist(), strict=True):
            turn, slope = np.eye(self.q), np.zeros((self.q, self.q))
            turn[i, i] = turn[j, j] = slope[j, i] = np.cos(angle)
            turn[j, i] = np.sin(angle)
            turn[i, j] = slope[i, i] = slope[j, j] = -turn[j, i]
            slope[i, j] = -turn[i, i]
            turns.append(turn)
            slopes.append(slope)

        def product(factors: list[FloatArray]) -> FloatArray:
            """Return the product of the matrices `factors`."""
            return reduce(np.matmul, factors, np.eye(self.q))

        by = [product([*turns[:a], slope, *turns[a + 1 :]]) for a, slope in enumerate(slopes)]
        return product(turns), by

    def angles(self, axis: FloatArray) -> FloatArray:
        """Return the angles, one for each plane, of a rotation with first column `axis`, a unit vector."""
        angles, left = np.zeros(len(self.planes)), axis.copy()
        for a, (i, j) in enumerate(self.planes[: self.q - 1]):  # those of axis 0 come first
            angles[a] = np.arctan2(left[j], left[i])
            left[i], left[j] = np.hypot(left[i], left[j]), 0.0
        return angles

    def model(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return (V, g, coefficients alpha, biases b, variances of noise) at the variables x of a descent.

        The capacity matrix is V diag(g²) V', with V (q, q), g (q,) and q the rank of the features'
        covariance. Output i of the k features is ReLU(alpha_i . features + b_i + noise_i), with alpha (k, k)
        and normal noise, the interference of other blocks.
        """
        angles, g, t, b = self.split(x)
        V = self.rotation(angles)[0]
        return V, g, (t * g) @ V.T @ self.unroot.T, b, t**2 @ (1.0 - g**2)

    def losses(self, alpha: FloatArray, b: FloatArray, variance: FloatArray) -> FloatArray:
        """Return a row (loss, its derivatives by variance, bias and coefficients) an output, (k, 3 + k).

        Output i is ReLU(alpha_i . x + b_i + normal noise of variance[i]), with `alpha` (k, k).
        """
        return losses(self.patterns, self.chances, self.uniform, np.ascontiguousarray(alpha), b, variance)

    def value(self, x: FloatArray, price: float) -> tuple[float, FloatArray]:
        """Return (loss + price * capacity per feature, its gradient), the Lagrangian at the variables x."""
        angles, g, t, b = self.split(x)
        V, by_angle = self.rotation(angles)
        back = self.unroot @ V  # alpha_i = back (g t_i)
        outputs = self.losses((t * g) @ back.T, b, t**2 @ (1.0 - g**2))
        level = float(self.weights @ outputs[:, 0]) + price * float(g @ g) / self.k
        by_alpha, by_variance = self.weights[:, None] * outputs[:, 3:], self.weights * outputs[:, 1]
        at = by_alpha @ back
        by_t = at * g + 2.0 * t * (1.0 - g**2) * by_variance[:, None]
        by_g = np.sum(at * t, axis=0) - 2.0 * g * (by_variance @ t**2) + 2.0 * price * g / self.k
        by_V = self.unroot.T @ by_alpha.T @ (t * g)
        turns = [float(np.sum(by_V * by_one_angle)) for by_one_angle in by_angle]
        return level, np.concatenate([turns, by_g, by_t.ravel(), self.weights * outputs[:, 2]])

    def start(self, alpha: FloatArray, g: FloatArray, angles: FloatArray, shift: float) -> FloatArray:
        """Return the variables x of a model of capacity matrix V diag(g²) V', V the rotation by `angles`.

        With R the covariance's root, outputs have the coefficients alpha R V diag(g) V' R^-1, which is alpha
        if all g are 1. All biases are `shift`, or the features' means if all g are 0.
        """
        V = self.rotation(angles)[0]
        t = alpha @ self.root @ V
        return np.concatenate([angles, g, t.ravel(), np.where(g.any(), shift, self.mean)])

    def starts(self, count: int, rng: np.random.Generator) -> list[FloatArray]:
        """Return variables x to start descents from: those of fixed codes, and `count` random ones.

        The fixed codes keep all features in part (capacity 0.49), exactly, or not at all, or let two of them
        share one direction.
        """
        k, q = self.k, self.q
        zero, turn = np.zeros(len(self.planes)), np.full(len(self.planes), np.pi / 4)
        identity = np.eye(k)
        deviation = np.sqrt(np.diag(self.covariance))
        models = [
            self.start(identity, np.full(q, 0.7), angles, -0.2 * float(deviation.mean()))
            for angles in [zero, turn][: 1 + (q > 1)]
        ]
        models.append(self.start(identity, np.ones(q), zero, 0.0))
        models.append(self.start(np.zeros((k, k)), np.zeros(q), zero, 0.0))
        # one direction that two features share, evenly or not, on the same side or on opposite ones
        for i, j in combinations(range(k) if q > 1 else (), 2):
            for lean in (-1.0, -1.0 / 3.0, -3.0, 1.0):
                shared = np.zeros(k)
                shared[i], shared[j] = 1.0, lean
                axis = shared @ self.root
                length = float(np.linalg.norm(axis))
                angles = self.angles(axis / length)
                x = self.start(identity, np.r_[1.0, np.full(q - 1, 0.1)], angles, 0.0)
                t = self.split(x)[2]  # a view
                t[[i, j], 0] = length, length / lean
                models.append(x)
        for _ in range(count):
            alpha = identity + 0.5 * rng.normal(size=(k, k))
            angles = rng.uniform(-np.pi / 2, np.pi / 2, len(self.planes))
            g, shift = np.asarray(rng.uniform(size=q)), -0.3 * rng.random() * float(deviation.mean())
            models.append(self.start(alpha, g, angles, shift))
        return models

    def descend(self, x: FloatArray, price: float, steps: int = _STEPS) -> DescentResult:
        """Return the end of a descent from x, of at most `steps` steps, on the Lagrangian at `price`."""

        def scaled(y: FloatArray) -> tuple[float, FloatArray]:
            """Return the Lagrangian and its gradient over the zero model's loss."""
            level, by = self.value(y, price)
            return level / self.unit, by / self.unit

        bounds = list(zip(*self.bounds, strict=True))
        end = lbfgs(scaled, x, bounds=bounds, steps=steps, ftol=1e-15, gtol=1e-10)
        self.steps += end.steps
        return end

    def lagrangian_and_slope(self, x: FloatArray, price: float) -> tuple[float, float]:
        """Return (Lagrangian, largest entry of its projected gradient) at x, for the multiplier `price`.

        Both are divided by the loss of constant outputs, the means of the features.
        """
        level, by = self.value(x, price)
        moved = np.clip(x - by / self.unit, *self.bounds)
        return level / self.unit, float(np.abs(x - moved).max())

    def capacity_and_loss(self, x: FloatArray) -> tuple[float, float]:
        """Return (capacity per feature, loss per feature) at the variables x."""
        _, g, alpha, b, variance = self.model(x)
        return float(g @ g) / self.k, float(self.weights @ self.losses(alpha, b, variance)[:, 0])


class _BlockSearch:
    """Search for the lower hull of loss over capacity, by descents at the slopes of its chords.

    Descents are on the Lagrangian of `problem`, from `starts` and from the best ends so far, the `pool`.
    """

    def __init__(self, problem: _Problem, starts: list[FloatArray]) -> None:
        self.problem, self.starts = problem, starts
        self.pool: list[FloatArray] = []
        self.status = Status.CONVERGED

    def best(self, price: float, *, anew: bool = False) -> State:
        """Return (capacity, loss, x) of the least Lagrangian found at the multiplier `price` by descents.

        Descents start from the `pool`; with `anew`, also from all `starts`.
        """
        problem, begin = self.problem, self.pool
        if anew:  # the best of all starts join the pool and go on
            begin = [*self._distinct_ends(self.starts, price, _FIRST)[:_POOL], *self.pool]
        ends = self._distinct_ends(begin, price, _STEPS)
        self.pool = ends[:_POOL]
        _, slope = problem.lagrangian_and_slope(self.pool[0], price)
        self.status = Status.CONVERGED if slope < _SLOPE else Status.STALLED
        return *problem.capacity_and_loss(self.pool[0]), self.pool[0]

    def _distinct_ends(self, begin: list[FloatArray], price: float, steps: int) -> list[FloatArray]:
        """Return the distinct ends of descents from `begin` on the Lagrangian at `price`, the best first.

        Starts and ends are vectors of variables x. Each descent has at most `steps` steps.
        """
        problem = self.problem

        def is_same(left: DescentResult, right: DescentResult) -> bool:
            """Return whether two ends have the same Lagrangian."""
            difference = problem.capacity_and_loss(left.x)[0] - problem.capacity_and_loss(right.x)[0]
            return abs(left.value - right.value) < _SAME and abs(difference) < 1e3 * _SAME

        round_ = Round(lambda end: problem.descend(end.x, price, steps), len(begin), _NEAR)
        return [
            end.x
            for end in successive_elimination([DescentResult.at(x) for x in begin], [round_], is_same)[0]
        ]

    def hull(self, ratio: float, *ends: State) -> tuple[State, State, float]:
        """Return (low, high, minus the slope) of the lower hull at a ratio: the codes on either side of it.

        A code is a `State` (capacity, loss, x), and the ratio n_hidden/n_features a capacity. The hull is
        that of `ends` and of the codes that descents find below it.
        """
        states = list(ends)
        for _ in range(_PRICES):
            low, high, prices = _hull_chord(states, ratio)
            # codes that are no minima at the first prices may be best at the last
            for price, anew in [(prices[0], not self.pool), *((price, True) for price in prices)]:
                corner = self.best(price, anew=anew)
                gain = low[1] + price * low[0] - corner[1] - price * corner[0]
                if gain > self.problem.closed * self.problem.unit:  # more than rounding
                    states.append(corner)
                    break
            else:
                break
        return low, high, prices[0]


def _hull_chord(states: list[State], ratio: float) -> tuple[State, State, list[float]]:
    """Return (low, high, multipliers): the codes on both sides of a ratio on the lower hull, and slopes.

    `states` are codes (capacity, loss, x), the hull is the lower convex hull of loss over capacity, and
    `ratio` is a capacity. If a state of this very ratio is a corner of the hull, it is both low and high. To
    find a code below the hull, minimise loss + multiplier * capacity: the multipliers are minus the slope of
    the edge, or three numbers between those of the two edges that meet at the corner.
    """
    left = [state for state in states if state[0] < ratio - _CORNER]
    right = [state for state in states if state[0] > ratio + _CORNER]

    def at(pair: tuple[State, State]) -> float:
        """Return the loss of a mixture of the two states at the ratio."""
        (low, best, _), (high, least, _) = pair
        return best - (best - least) * (ratio - low) / (high - low)

    low, high = min(product(left, right), key=at)
    inside = [state for state in states if abs(state[0] - ratio) <= _CORNER]
    corner = min(inside, key=lambda point: point[1], default=None)
    if corner is None or at((low, high)) < corner[1]:
        return low, high, [(low[1] - high[1]) / (high[0] - low[0])]
    steep = min((point[1] - corner[1]) / (ratio - point[0]) for point in left)
    flat = max((corner[1] - point[1]) / (point[0] - ratio) for point in right)
    if flat <= 0.0:  # nothing is lost at the corner
        flat = steep / 4.0
    return corner, corner, [float(steep ** (1.0 - part) * flat**part) for part in (0.5, 0.1, 0.9)]


def _make_part(problem: _Problem, share: float, x: FloatArray) -> BlockPart:
    """Return the `BlockPart` of the model of `problem` at the variables x, a `share` of the blocks."""
    V, g, alpha, b, variance = problem.model(x)
    per = problem.losses(alpha, b, variance)[:, 0]
    units = problem.law.scale
    # in the coordinates of the symmetric root, also where the covariance has no full rank
    whitened = np.linalg.pinv(symmetric_root(problem.law.covariance())) @ (problem.root * units[:, None])
    axes = whitened @ V
    return BlockPart(
        share,
        frozen((axes * g**2) @ axes.T),
        frozen(alpha * units[:, None] / units),
        b * units,
        np.sqrt(variance) * units,
        per * units**2,
        float(problem.weights @ per),
        float(g @ g) / problem.k,
        axes,
        g**2,
    )


def _is_same_code(left: BlockPart, right: BlockPart) -> bool:
    """Return whether two kinds of blocks have equal capacities, coefficients, biases and noise."""
    return all(
        np.allclose(first, second, rtol=_EQUAL, atol=_EQUAL * np.abs(first).max())
        for first, second in (
            (left.capacity, right.capacity),
            (left.coefficients, right.coefficients),
            (left.b, right.b),
            (left.noise, right.noise),
        )
    )


def block_optimum(law: Features, ratio: float, *, starts: int = 6, rng: Any = 0) -> BlockOptimum:
    """Return the best macroscopic code of independent copies of a block at a ratio.

    A block is a few features that depend on each other. A code gives shares of dimensions to combinations of
    them, and coefficients and biases to the outputs. In the macroscopic limit of many blocks
    (`theory.unequal.block_losses`) interference between them is normal. Antipodal pairs, polygons of
    exclusive features, dropped features and mixtures of two kinds of blocks are included.

    Parameters
    ----------
    law : Features
        Law of one block: at most 4 features, uniform or binary, with groups or without.
    ratio : float
        n_hidden/n_features, from 1e-6 and below 1.
    starts, rng : int, Generator or int, optional
        Random starts, in addition to fixed ones, and their source of randomness.

    Returns
    -------
    BlockOptimum
        The best code found, not proved to be the best; see `gap`.

    Examples
    --------
    >>> from superposition.theory.features import exclusive
    >>> best = block_optimum(Features(2, 0.1, groups=[exclusive([0, 1], 0.1)]), 0.5)
    >>> best.loss < 1e-9, best.parts[0].coefficients.round(3) + 0.0  # both on one direction, opposite
    (True, array([[ 1., -1.],
           [-1.,  1.]]))
    """
    law = block_law("law", law)
    ratio = validation.number("ratio", ratio, 1e-6, 1, brackets="[)")
    count, generator = validation.integer("starts", starts, 0, _MOST_STARTS), validation.generator("rng", rng)
    problem = _Problem(law)
    most = problem.q / problem.k
    if ratio >= most:
        raise ValueError(f"`ratio` must be below {most:g}, where nothing is lost; got {ratio:g}.")
    search = _BlockSearch(problem, problem.starts(count, generator))
    zero, q, planes = np.zeros((problem.k, problem.k)), problem.q, np.zeros(len(problem.planes))
    nothing = 0.0, problem.unit, problem.start(zero, np.zeros(q), planes, 0.0)
    everything = most, 0.0, problem.start(np.eye(problem.k), np.ones(q), planes, 0.0)
    low, high, price = search.hull(ratio, nothing, everything)
    near = np.abs(low[2] - high[2]).max() < 1e-2
    share = (ratio - low[0]) / (high[0] - low[0]) if high[0] > low[0] else 0.0
    if near:  # one kind: on the way between two states of one branch
        parts = [_make_part(problem, 1.0, low[2] + share * (high[2] - low[2]))]
    else:
        parts = [_make_part(problem, w, x) for w, x in ((1 - share, low[2]), (share, high[2])) if w > 1e-9]
        if len(parts) == 2 and _is_same_code(*parts):
            parts = [dataclasses.replace(max(parts, key=lambda part: part.share), share=1.0)]
    loss = sum(part.share * (part.loss - price * part.ratio) for part in parts) + price * ratio
    optimum = search.best(price)
    gap = loss - (optimum[1] + price * (optimum[0] - ratio))
    return BlockOptimum(tuple(parts), float(loss), price, float(gap), count, problem.steps, search.status)


def _matches_law(part: BlockPart, law: Features) -> bool:
    """Return whether `part` has the losses that its coefficients, biases and noise have under `law`."""
    if part.b.shape != (law.n_features,):
        return False
    losses = block_losses(part.coefficients, part.b, part.noise**2, law).per_feature
    return np.allclose(losses, part.per_feature, rtol=1e-6, atol=1e-6 * law.second_moment.max())


def realise_blocks(
    best: BlockOptimum, law: Features, n_blocks: int, *, rng: Any = 0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a model of finite size in which every direction of the blocks is a tight frame.

    A direction is a combination of a block's features; all blocks' encodings of it form the tight frame.

    Parameters
    ----------
    best, law, n_blocks : BlockOptimum, Features, int
        Result of `block_optimum`, the law of one block that it belongs to, and the number of blocks, enough
        for one neuron. Capacities are rounded to whole neurons. Errors are those of `block_optimum`.
    rng : Generator or int, optional
        Source of randomness of the frames, or its seed.

    Returns
    -------
    W_out, W_in, b : (n, m), (m, n), (n,) ndarray of float64
        For the law `theory.unequal.independent_copies(law, n_blocks)`.

    Examples
    --------
    >>> law = Features(1, 0.1)
    >>> W_out, W_in, b = realise_blocks(block_optimum(law, 0.5, starts=1), law, 8)
    >>> W_out.shape, b.shape
    ((8, 4), (8,))
    """
    validation.instance("best", best, BlockOptimum)
    law = block_law("law", law)
    count, generator = validation.integer("n_blocks", n_blocks, 1), validation.generator("rng", rng)
    k = law.n_features
    if not all(_matches_law(part, law) for part in best.parts):
        raise ValueError(
            f"`law` must be the one that `best` was found for; got {validation.short_repr(law)}."
        )
    symmetric = symmetric_root(law.covariance())
    inverse = np.linalg.pinv(symmetric)
    validation.check_fits("n_blocks", count, float(k * min(count, 2**62)) ** 2)
    ends = np.round(np.cumsum([0.0] + [part.share for part in best.parts]) * count).astype(int)
    W_out: list[FloatArray] = []
    W_in: list[FloatArray] = []
    b = np.empty((count, k))
    for part, first, last in zip(best.parts, ends[:-1], ends[1:], strict=True):
        size = int(last - first)
        b[first:last] = part.b
        if size == 0:
            continue
        z = part.coefficients @ symmetric @ part.directions
        for a, c in enumerate(part.capacities):
            rank = round(c * size)
            if rank == 0:
                continue
            is_full_rank = rank == size
            F = np.eye(size) if is_full_rank else tight_frame(np.full(size, rank / size), rank, generator)
            write = np.zeros((count, k, rank))
            read = np.zeros((count, k, rank))
            write[first:last] = F[:, None, :] * (z[:, a] * size / rank)[None, :, None]
            read[first:last] = F[:, None, :] * (inverse @ part.directions[:, a])[None, :, None]
            W_out.append(write.reshape(-1, rank))
            W_in.append(read.reshape(-1, rank).T)
    if not W_out:
        raise ValueError(f"`n_blocks` must be so large that there is a neuron; got {count}.")
    out, into = np.concatenate(W_out, axis=1), np.concatenate(W_in)
    M = (out @ into).reshape(count, k, count, k)
    # The mean of the interference from other blocks is in the bias of a part.
    inside = np.einsum("gigj->gij", M) @ law.mean
    return out, into, (b - M.sum(axis=2) @ law.mean + inside).ravel()
