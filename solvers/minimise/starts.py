"""Models from which descents start: random ones, and ordered ones, which are often near the best.

A model is (W_out, W_in, b), of shapes (n, m), (m, n) and (n,), for n features and m hidden neurons. `mean`,
(n,), are the biases of outputs that give their feature's mean.
"""

import numpy as np

from ...theory.features import Features
from ...theory.validation import FloatArray, IntArray

__all__ = [
    "exchanged_model",
    "exclusive_groups",
    "group_starts",
    "ordered_starts",
    "perturbed_model",
    "random_starts",
    "redrawn_model",
]

# Noise of ordered starts, so that a descent leaves a saddle that they may stand on.
_ORDERED_NOISE = 0.01
# Random starts by turns have long encodings and a common bias, or short ones and the mean of each feature as
# bias: both kinds find minima that the other misses.
_LONG_ENCODING = 1.0
_SHORT_ENCODING = 0.6
_LONG_BIAS = -0.05
# How much a free decoder differs from the transpose of the encoder.
_DECODER_NOISE = 0.3
# Length over that of another feature below which a feature is hardly encoded.
_HARDLY_ENCODED = 0.5
_OPPOSITE_SHARE = 0.3  # of new directions that begin opposite to another feature
_OPPOSITE_NOISE = 0.1

Model = tuple[FloatArray, FloatArray, FloatArray]


def random_starts(n: int, m: int, count: int, mean: FloatArray, rng: np.random.Generator) -> list[Model]:
    """Return `count` random models of n features and m neurons, with long and short encodings in turn.

    Encodings are normal. Long ones have the bias -0.05, short ones each feature's `mean`; W_out is W_in' plus
    noise.
    """
    models = []
    for k in range(count):
        long = k % 2 == 0
        W = rng.normal(scale=(_LONG_ENCODING if long else _SHORT_ENCODING) * m**-0.5, size=(n, m))
        b = np.full(n, _LONG_BIAS) if long else mean
        models.append((W + _DECODER_NOISE * rng.normal(size=(n, m)), W.T, b))
    return models


def exclusive_groups(law: Features) -> list[IntArray]:
    """Return the members of each exclusive group: two or more features, never two of them on at a time."""
    return [
        np.asarray(members)
        for members, patterns, chances in law.groups
        if len(members) > 1 and np.all(np.sum(patterns, axis=1)[np.asarray(chances) > 0.0] <= 1)
    ]


def _simplex(k: int, m: int, rng: np.random.Generator) -> FloatArray:
    """Return the k vertices of a regular simplex, unit vectors, randomly rotated, (k, min(k - 1, m)).

    The first vertex lies on the first axis. If m < k - 1, only m coordinates of each vertex are returned.
    """
    left, sizes, _ = np.linalg.svd(np.eye(k) - 1.0 / k)
    points = (left * sizes)[:, : k - 1]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    basis = np.linalg.qr(np.column_stack([points[0], rng.normal(size=(k - 1, k - 2))]))[0]
    points = (points @ basis)[:, : min(k - 1, m)] * np.sign(points[0] @ basis[:, 0])
    return np.asarray(points)


def _simplices_on_own_axes(sizes: list[int], m: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return a (size, m) simplex for each of `sizes`, on separate axes as long as the m axes suffice."""
    axes, at, blocks = np.concatenate([rng.permutation(m) for _ in range(1 + sum(sizes) // m)]), 0, []
    for size in sizes:
        points = _simplex(size, m, rng)
        block = axes[at : at + points.shape[1]]
        placed = np.zeros((size, m))
        np.add.at(placed.T, block, (points @ _random_rotation(points.shape[1], rng)).T)
        at += points.shape[1]
        blocks.append(placed)
    return blocks


def _simplices_in_subspaces(sizes: list[int], m: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return a (size, m) simplex for each of `sizes`, in a random subspace."""
    shapes = [_simplex(size, m, rng) for size in sizes]
    return [points @ _random_rotation(m, rng)[: points.shape[1]] for points in shapes]


def _simplices_with_shared_axes(sizes: list[int], m: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return a (size, m) simplex for each of `sizes`: one direction of its own, other axes shared.

    The directions of the simplices are at the largest possible angles, or random if there are too many.
    """
    shared = min(max(sizes) - 2, m - 1)
    free = m - shared
    if 1 < len(sizes) <= free + 1:
        directions = _simplex(len(sizes), free, rng)
        directions = np.pad(directions, ((0, 0), (0, free - directions.shape[1])))
    else:
        directions = rng.normal(size=(len(sizes), free))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    blocks = []
    for size, direction in zip(sizes, directions, strict=True):
        points = _simplex(size, m, rng)[rng.permutation(size)]
        placed = np.zeros((size, m))
        placed[:, :free] = points[:, :1] * direction
        rest = points[:, 1 : 1 + shared]
        placed[:, free : free + rest.shape[1]] = rest
        blocks.append(placed)
    return blocks


def _random_rotation(m: int, rng: np.random.Generator) -> FloatArray:
    """Return a random orthogonal matrix, (m, m)."""
    return np.asarray(np.linalg.qr(rng.normal(size=(m, m)))[0])


def group_starts(
    n: int, m: int, law: Features, count: int, mean: FloatArray, rng: np.random.Generator
) -> list[Model]:
    """Return `count` models (W_out, W_in, b) in which each exclusive group is a simplex; [] without groups.

    Features that are never on together do not interfere if the angle of their encodings is obtuse. In turn
    the simplices share axes, have separate axes, or lie in random subspaces of the m dimensions. Features in
    no group have random encodings and their `mean` as bias.
    """
    groups, models = exclusive_groups(law), []
    arrangements = (_simplices_with_shared_axes, _simplices_on_own_axes, _simplices_in_subspaces)
    for k in range(count if groups else 0):
        W, b = rng.normal(scale=m**-0.5, size=(n, m)), mean.copy()
        order = [groups[at] for at in rng.permutation(len(groups))]
        shapes = arrangements[k % 3]([len(group) for group in order], m, rng)
        for members, points in zip(order, shapes, strict=True):
            W[members], b[members] = points, 0.0
        W += _ORDERED_NOISE * rng.normal(size=(n, m))
        models.append((W + _ORDERED_NOISE * rng.normal(size=(n, m)), W.T, b))
    return models


def _share_axes(n: int, m: int) -> list[FloatArray]:
    """Return encodings of at most n features, (count, m) each, that share the m axes or their planes.

    For a = 0 to m, there is one feature on each of a axes and an antipodal pair on each of the others. Two
    more have a triangle, or a pentagon, in each plane of two axes, and an antipodal pair on an axis left
    over.
    """
    shapes = []
    for a in range(m + 1):
        alone, pairs = np.eye(a, m), np.eye(m)[a:]
        shapes.append(np.vstack([alone, pairs, -pairs])[:n])
    for k in (3, 5):
        planes = m // 2
        turn = 2.0 * np.pi * np.arange(k) / k
        shape = np.zeros((k * planes, m))
        for plane in range(planes):
            shape[plane::planes, 2 * plane], shape[plane::planes, 2 * plane + 1] = np.cos(turn), np.sin(turn)
        rest = np.eye(m)[2 * planes :]
        shapes.append(np.vstack([shape, rest, -rest])[:n])
    return shapes


def exchanged_model(model: Model, i: int, j: int) -> Model:
    """Return a copy of a model in which features i and j have exchanged the directions of their weights.

    Each feature keeps its length and bias. If one length is less than half of another, they are exchanged
    too.
    """
    W_out, W_in, b = (np.array(part) for part in model)
    out, encoding = np.linalg.norm(W_out, axis=1), np.linalg.norm(W_in, axis=0)
    W_out[[i, j]], W_in[:, [i, j]] = W_out[[j, i]], W_in[:, [j, i]]
    if min(*out[[i, j]], *encoding[[i, j]]) > _HARDLY_ENCODED * max(*out[[i, j]], *encoding[[i, j]]):
        for lengths, rows in ((out, W_out), (encoding, W_in.T)):
            rows[i] *= lengths[i] / lengths[j]
            rows[j] *= lengths[j] / lengths[i]
    else:
        b[[i, j]] = b[[j, i]]
    return W_out, W_in, b


def redrawn_model(model: Model, rng: np.random.Generator) -> Model:
    """Return a copy of a model in which a random feature has a new direction.

    The direction is random, or nearly opposite to that of another feature.
    """
    W_out, W_in, b = (np.array(part) for part in model)
    n, m = W_out.shape
    i, j = rng.integers(n, size=2)
    new = np.asarray(rng.normal(size=m))
    if rng.random() < _OPPOSITE_SHARE:
        new = _OPPOSITE_NOISE * new - W_in[:, j]
    _set_direction((W_out, W_in, b), i, new)
    return W_out, W_in, b


def _set_direction(model: Model, i: int, direction: FloatArray) -> None:
    """Set the weights of feature i to `direction`, scaled to the longest encoding, and its bias to 0."""
    W_out, W_in, b = model
    new = direction * (np.linalg.norm(W_in, axis=0).max() / np.linalg.norm(direction))
    W_out[i], W_in[:, i], b[i] = new, new, 0.0


def perturbed_model(model: Model, equal_features: bool, rng: np.random.Generator) -> Model:
    """Return a copy of a model in which two random features exchange weights and bias, or one is redrawn.

    With `equal_features` one is always redrawn, as an exchange would change nothing.
    """
    W_out, W_in, b = (np.array(part) for part in model)
    n, m = W_out.shape
    i, j = rng.integers(n, size=2)
    if i != j and not equal_features and rng.random() < 0.5:
        W_out[[i, j]], W_in[:, [i, j]], b[[i, j]] = W_out[[j, i]], W_in[:, [j, i]], b[[j, i]]
    else:
        _set_direction((W_out, W_in, b), i, np.asarray(rng.normal(size=m)))
    return W_out, W_in, b


def ordered_starts(
    n: int, m: int, gain: FloatArray, mean: FloatArray, share_axes: bool, rng: np.random.Generator
) -> list[Model]:
    """Return models (W_out, W_in, b) with the features of most `gain` on axes, antipodes or a polygon.

    `gain`, (n,), is importance times second moment of each feature. Other features are dropped, with their
    `mean` as bias. Models are tied, with a little noise if there are more features than dimensions m or some
    are dropped. With `share_axes` and n > m > 2 the models are those of `_share_axes`. Else one model has
    antipodal pairs on the axes, and each other one k features on k axes or, for k > m, on one polygon.
    """
    order = np.argsort(-gain, kind="stable")
    share_axes = share_axes and n > m > 2  # where one polygon would leave most features dropped
    shapes = _share_axes(n, m) if share_axes else [np.vstack([np.eye(m), -np.eye(m)])[:n]]
    for k in range(1, 0 if share_axes else n + 1):
        if k <= m and k < n:
            shapes.append(np.eye(k, m))
        elif m >= 2 and k > 2:
            angles = 2.0 * np.pi * np.arange(k) / k
            shapes.append(np.pad(np.stack([np.cos(angles), np.sin(angles)], axis=1), ((0, 0), (0, m - 2))))
    models = []
    for shape in shapes:
        W, b = np.zeros((n, m)), mean.copy()
        W[order[: len(shape)]] = shape
        b[np.linalg.norm(W, axis=1) > 0.0] = 0.0
        if len(shape) < n or n > m:
            W += _ORDERED_NOISE * rng.normal(size=(n, m))
        noise = 0.0 if n <= m else _ORDERED_NOISE
        models.append((W + noise * rng.normal(size=(n, m)), W.T, b))
    return models
