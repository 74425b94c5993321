"""Hierarchies by listing all that can fire, and draws against moments known otherwise."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from superposition.theory.features import Features
from superposition.theory.features.copula import CopulaFeatures
from superposition.theory.features.trees import Node, count_patterns, hierarchy_group

CHAIN = Node(2, (Node(0, (Node(1),)),))
EXCLUSIVE = Node(0, (Node(1, (Node(4),)), Node(2, (Node(5), Node(6))), Node(3)), exclusive=True)
HOLDER = Node(None, (Node(0), Node(None, (Node(1), Node(2)), exclusive=True), Node(3, (Node(4), Node(5)))))
MIXED = Node(1, (Node(0), Node(2), Node(None, (Node(3),))), exclusive=True)
P = np.array([0.6, 0.7, 0.5, 0.4, 0.3, 0.2, 0.9])
SAMPLES = 200_000


def left_on(nodes, firing):
    """Yield (features, probability): which of the firing ones stay on, by the rule, one winner at a time."""
    if not nodes:
        yield frozenset(), 1.0
        return
    node, *rest = nodes
    for others, chance in left_on(rest, firing):
        if node.feature is not None and node.feature not in firing:
            yield others, chance
            continue
        rivals = {child.feature for child in node.children} - {None}
        winners = sorted(rivals & firing) if node.exclusive and len(rivals & firing) > 1 else [None]
        for winner in winners:
            stays = firing if winner is None else firing - (rivals - {winner})
            for below, more in left_on(list(node.children), stays):
                yield others | below | ({node.feature} - {None}), chance * more / len(winners)


@pytest.mark.parametrize("root", [CHAIN, EXCLUSIVE, HOLDER, MIXED])
def test_hierarchies_have_the_patterns_that_can_fire(root):
    group = indices, table, probabilities = hierarchy_group(root, P)
    expected = {}
    for fires in product((False, True), repeat=indices.size):
        firing = frozenset(indices[list(fires)].tolist())
        p_firing = np.prod(np.where(fires, P[indices], 1.0 - P[indices]))
        for on, chance in left_on([root], firing):
            expected[on] = expected.get(on, 0.0) + p_firing * chance
    found = {frozenset(indices[row > 0].tolist()): p for row, p in zip(table, probabilities, strict=True)}
    assert found == pytest.approx(expected, abs=1e-15)
    assert len(table) == len(expected) == count_patterns(root)
    # and so have draws
    on = (CopulaFeatures(P, roots=[root]).sample(SAMPLES, rng=1) > 0).astype(float)
    exact = Features(7, P, groups=[group]).pair_probability()
    assert np.all(np.abs(on.T @ on / SAMPLES - exact) <= 4.5 * np.sqrt(exact * (1.0 - exact) / SAMPLES))


def test_features_fire_together_as_their_normal_variables_are_large():
    factor = np.array([[0.6, 0.0], [0.5, -0.7], [0.0, 0.8], [0.0, 0.0]])
    correlation = factor @ factor.T
    np.fill_diagonal(correlation, 1.0)
    p = np.array([0.3, 0.1, 0.5, 0.2])
    on = CopulaFeatures(p, factor=factor).sample(SAMPLES, rng=2)
    ends = norm.ppf(p)
    for i, j in zip(*np.triu_indices(4, 1), strict=True):
        covariance = [[1.0, correlation[i, j]], [correlation[i, j], 1.0]]
        exact = multivariate_normal.cdf(ends[[i, j]], cov=covariance)
        assert abs(np.mean(on[:, i] * on[:, j]) - exact) < 4.5 * np.sqrt(exact / SAMPLES)


def test_values_are_scaled_by_those_above():
    """A child's value is its own times the parent's over the parent's mean, and so on below it."""
    root = Node(0, (Node(None, (Node(1, (Node(2),), scales=True),), scales=True),))
    mean, std = np.array([5.0, 4.0, 3.0]), np.array([1.0, 0.5, 0.25])
    law = CopulaFeatures([0.5, 0.8, 0.9], mean, std, roots=[root])
    x = law.sample(SAMPLES, rng=3)
    first, second = x[:, 0] / 5.0, x[:, 1] / 4.0
    relative = 1.0 + (std / mean) ** 2  # E v^2 / (E v)^2: nothing is cut at 0 here
    for values, exact in (
        (first * second, 0.4 * relative[0]),
        (first * x[:, 2] / 3.0, 0.36 * relative[0]),
        (second * x[:, 2] / 3.0, 0.36 * relative[0] * relative[1]),
    ):
        assert abs(values.mean() - exact) < 4.5 * values.std() / SAMPLES**0.5
