"""The law of features that counts a feature as on exactly where it is not 0."""

import numpy as np

from ....theory.features import Features
from ....theory.features.groups import Group
from ....theory.validation import FloatArray, IntArray

__all__ = ["nonzero_features", "patterns_given"]

# Most patterns of features of which exactly k are on.
PATTERNS = 2**14


def nonzero_features(features: Features) -> Features:
    """Return a law of the same x as `features` in which a feature is on exactly where it is not 0.

    If values may be 0, such as rectified normal ones, a feature that is on by `features` may be 0. Scores of
    activations count a feature as on only where it is not 0, and so does this law.

    Examples
    --------
    >>> law = nonzero_features(Features(2, 0.1, "rectified-normal(0)"))
    >>> law.p, law.mean.round(12) == Features(2, 0.1, "rectified-normal(0)").mean.round(12)
    (array([0.05, 0.05]), array([ True,  True]))
    """
    values = features.values.nonzero
    if values is features.values:
        return features
    share, groups = 1.0 - features.values.zero, list(features.groups)
    if features.exactly is not None:
        groups = [(np.arange(features.n_features), *patterns_given(features))]
    thinned = [_without_zero(group, share) for group in groups]
    n, scale, importance = features.n_features, features.scale, features.importance
    return Features(n, np.maximum(share * features.p, 1e-300), values, scale, importance, thinned)


def _without_zero(group: Group, share: float) -> Group:
    """Return a group whose features, if on, stay on with probability `share`, independently."""
    members, patterns, chances = group
    for j in range(members.size):
        on = patterns[:, j] > 0
        left = patterns[on].copy()
        left[:, j] = 0
        patterns = np.concatenate([patterns, left])
        chances = np.concatenate([np.where(on, share * chances, chances), (1.0 - share) * chances[on]])
        patterns, at = np.unique(patterns, axis=0, return_inverse=True)
        chances = np.asarray(np.bincount(at.ravel(), chances), np.float64)
    return members, patterns, chances


def patterns_given(features: Features) -> tuple[IntArray, FloatArray]:
    """Return the patterns (r, n) of `features` of which exactly k are on, and their probabilities (r,).

    k is `features.exactly`. Groups join one after the other; patterns that cannot reach k are left out on the
    way. ValueError if there are too many.
    """
    wanted = features.exactly
    assert wanted is not None
    on, chances = np.zeros((1, features.n_features), np.int64), np.ones(1)
    left = sum(int(block.patterns.sum(axis=1).max()) for block in features.blocks)
    for block in features.blocks:
        is_possible = block.weights > 0.0
        table, shares = block.patterns[is_possible], block.weights[is_possible]
        left -= int(block.patterns.sum(axis=1).max())
        on = np.repeat(on, shares.size, axis=0)
        on[:, block.members] = np.tile(table, (chances.size, 1))
        chances = np.outer(chances, shares).ravel()
        count = on.sum(axis=1)
        possible = (count <= wanted) & (count + left >= wanted)
        on, chances = on[possible], chances[possible]
        if chances.size > PATTERNS:
            rule = f"at most {PATTERNS:,} patterns of exactly {wanted} features on where hidden neurons bend"
            raise ValueError(f"`law` must have {rule}; got more, of {features.n_features} features.")
    return on, chances / chances.sum()
