"""Hierarchies of features: a child is on only if its parent is; children may exclude each other."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..validation import FloatArray, IntArray
from .groups import Group

__all__ = ["Node", "Step", "count_patterns", "hierarchy_group", "walk"]


class Node(NamedTuple):
    """A feature of a hierarchy, with its children, which can be on only if it is.

    >>> hierarchy_group(Node(0, (Node(1), Node(2)), exclusive=True), np.array([0.5, 0.5, 0.5]))[1:]
    (array([[0, 0, 0],
           [1, 0, 0],
           [1, 1, 0],
           [1, 0, 1]]), array([0.5   , 0.125 , 0.1875, 0.1875]))
    """

    feature: int | None
    """Index; None for a node that only holds children, which depend on the nearest feature above it."""
    children: tuple["Node", ...] = ()
    exclusive: bool = False
    """Of children that would be on at once, one stays on, each with the same probability."""
    scales: bool = False
    """The children's values are multiplied by the value, over its mean, of the nearest feature above them."""

    @property
    def competitors(self) -> tuple["Node", ...]:
        """The children of which at most one is on: if the node is `exclusive`, all with a feature; else none.

        A child without a feature only holds its own children, and does not compete.
        """
        featured = tuple(child for child in self.children if child.feature is not None)
        return featured if self.exclusive and len(featured) > 1 else ()

    @property
    def rivals(self) -> list[int]:
        """Features of the children of which at most one is on, as indices; descendants are not listed."""
        return [child.feature for child in self.competitors if child.feature is not None]

    @property
    def independent_children(self) -> tuple["Node", ...]:
        """The children that no sibling excludes: all, or if the node is `exclusive` those without a feature.

        A child without a feature only holds its own children.
        """
        return tuple(c for c in self.children if c.feature is None) if self.competitors else self.children


class _PatternLaw(NamedTuple):
    """Joint law of which of k features are on: their indices, on/off patterns, the patterns' probabilities.

    `patterns` is (n_patterns, k) of 0 and 1, a column for each entry of `features`; `probabilities` is
    (n_patterns,).
    """

    features: list[int]
    patterns: IntArray
    probabilities: FloatArray


class Step(NamedTuple):
    """A node that `walk` visits, with its position in the tree."""

    node: Node
    parent_feature: int | None
    """The nearest feature above the node; None if there is none."""
    scaled: bool
    """Whether the node's value is multiplied by that of `parent_feature`."""


def walk(nodes: Sequence[Node], parent_feature: int | None = None, scaled: bool = False) -> Iterator[Step]:
    """Yield a `Step` for each of `nodes` and all nodes below them, parents before their children.

    A step is (node, nearest feature above it or None, whether that feature's value scales the node's).
    `parent_feature` is the nearest feature above `nodes`, and `scaled` says whether its value scales theirs.
    """
    for node in nodes:
        yield Step(node, parent_feature, scaled and parent_feature is not None)
        yield from walk(node.children, parent_feature if node.feature is None else node.feature, node.scales)


def count_patterns(node: Node) -> int:
    """Return how many on/off patterns are possible for the features of `node` and below it in the tree.

    A feature is on only if all features above it are, and of competing children at most one is on.
    """
    return _count_below(node) + (node.feature is not None)


def _count_below(node: Node) -> int:
    """Return how many on/off patterns are possible for the features below `node`, given that `node` is on."""
    return prod(map(count_patterns, node.independent_children)) * (
        1 + sum(map(_count_below, node.competitors))
    )


def hierarchy_group(root: Node, p: FloatArray) -> Group:
    """Return the group, for `Features`, of the features of `root` and below it.

    A group is the indices of its features, their on/off patterns, one a row, and the patterns' probabilities.

    Parameters
    ----------
    root : Node
    p : (n_features,) array_like
        Probability that a feature is on if its parent is, and no sibling excludes it.
    """
    law = _law_at_and_below(root, p)
    return np.array(law.features, np.int64), law.patterns, law.probabilities


def _law_at_and_below(node: Node, p: FloatArray) -> _PatternLaw:
    """Return the law of the features of `node` and below it, given that the parent of `node` is on.

    The law is the features' indices, their on/off patterns, (n_patterns, k), and the patterns' probabilities.
    p, (n_features,), has for each feature the probability that it is on if its parent is, and no sibling
    excludes it.
    """
    if node.feature is None:
        return _law_below(node, p)
    return _alternatives(1.0 - p[node.feature], [(node, p[node.feature])], p)


def _law_below(node: Node, p: FloatArray) -> _PatternLaw:
    """Return the law of the features below `node`, given that `node` is on.

    The law is the features' indices, their on/off patterns, (n_patterns, k), and the patterns' probabilities.
    p, (n_features,), has for each feature the probability that it is on if its parent is, and no sibling
    excludes it.
    """
    laws = [_law_at_and_below(child, p) for child in node.independent_children]
    if node.competitors:
        on = p[node.rivals]
        # Of those that would be on, each stays on alike: E 1/(1 + others) = integral of E t^others.
        t, weights = np.polynomial.legendre.leggauss(on.size // 2 + 1)
        factors = 1.0 - on[:, None] * (0.5 - 0.5 * t)
        wins = [q * (np.delete(factors, i, 0).prod(0) @ weights) / 2.0 for i, q in enumerate(on)]
        laws.append(
            _alternatives(float(np.prod(1.0 - on)), list(zip(node.competitors, wins, strict=True)), p)
        )
    joint = _PatternLaw([], np.zeros((1, 0), np.int64), np.ones(1))
    for law in laws:
        upper = np.repeat(joint.patterns, len(law.patterns), axis=0)
        joint = _PatternLaw(
            joint.features + law.features,
            np.hstack([upper, np.tile(law.patterns, (len(joint.patterns), 1))]),
            np.outer(joint.probabilities, law.probabilities).ravel(),
        )
    return joint


def _alternatives(none: float, nodes: list[tuple[Node, float]], p: FloatArray) -> _PatternLaw:
    """Return the law of the features of `nodes` and below them, if at most one of the nodes is on.

    `nodes` are pairs of a node and the probability that it is on; with probability `none` no node is. The law
    is the features' indices, their on/off patterns, (n_patterns, k), and the patterns' probabilities. p,
    (n_features,), has for each feature the probability that it is on if its parent is, and no sibling
    excludes it.
    """
    laws = [_law_below(node, p) for node, _ in nodes]
    sizes = [1 + len(law.features) for law in laws]
    features = [f for (node, _), law in zip(nodes, laws, strict=True) for f in (node.feature, *law.features)]
    tables, chances, first = [np.zeros((1, sum(sizes)), np.int64)], [np.array([none])], 0
    for (_, chance), law, size in zip(nodes, laws, sizes, strict=True):
        table = np.zeros((len(law.patterns), sum(sizes)), np.int64)
        table[:, first], table[:, first + 1 : first + size] = 1, law.patterns
        tables.append(table)
        chances.append(chance * law.probabilities)
        first += size
    return _PatternLaw([f for f in features if f is not None], np.vstack(tables), np.concatenate(chances))
