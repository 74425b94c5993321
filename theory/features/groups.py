"""Groups of features that are not independent, as `Features` takes them."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import validation
from ..compile.kernels import check_interrupt, kernel
from ..validation import BoolArray, FloatArray, IntArray

__all__ = ["Group", "PackedGroups", "exclusive", "group", "pack_groups", "parent_child", "set_patterns",
           "set_values", "synchronous"]  # fmt: skip

Group = tuple[IntArray, IntArray, FloatArray]

_MOST_FEATURES = 2**31
# Samples whose features stay in the first cache while all groups are set.
_ROWS = 64


def _checked_indices(name: str, value: npt.ArrayLike, n: int = _MOST_FEATURES) -> IntArray:
    """Return `value` as a vector of distinct indices below n; else raise a ValueError about `name`."""
    return validation.indices(name, validation.vector(name, value), n, distinct=True)


def _checked_chances(name: str, value: npt.ArrayLike, n: int) -> FloatArray:
    """Return n probabilities, a single one repeated; raise a ValueError about `name` for other values."""
    return validation.real(name, validation.numbers_or_repeat(name, value, n), 0, 1)


def group(name: str, value: Any, n: int) -> Group:
    """Return `value`, a group among n features, as arrays (indices, patterns, probabilities).

    These are the indices (g,) of its features, patterns (r, g) of 0 (off) and 1 (on), and the probabilities
    (r,) of the patterns, normalised here. A ValueError with the argument's `name` is raised if `value` is not
    such a triple.
    """
    if not isinstance(value, Sequence) or len(value) != 3:
        made_by = "as `synchronous`, `exclusive` and `parent_child` of theory.features make it"
        raise ValueError(
            f"`{name}` must be (indices, patterns, probabilities), {made_by}; "
            f"got {validation.short_repr(value)}."
        )
    indices = _checked_indices(f"{name} indices", value[0], n)
    table = validation.matrix(f"{name} patterns", value[1], (None, indices.size))
    wrong = table[(table != 0) & (table != 1)]
    if wrong.size:
        raise ValueError(f"`{name} patterns` must be 0 or 1; got {wrong[0]:g}.")
    rows, times = np.unique(table, axis=0, return_counts=True)
    if len(rows) < len(table):
        twice = rows[times > 1][0].astype(int).tolist()
        raise ValueError(f"`{name} patterns` must be distinct; got {twice} twice.")
    chances = validation.vector(f"{name} probabilities", value[2], len(table))
    total = float(validation.real(f"{name} probabilities", chances, 0, 2).sum())
    if abs(total - 1) > 1e-12:
        raise ValueError(f"`{name} probabilities` must sum to 1; got {total!r}.")
    return indices, table.astype(np.int64), chances / total


def synchronous(indices: npt.ArrayLike, p: float) -> Group:
    """Return a group of features that are on together, or off together.

    Parameters
    ----------
    indices : (g,) array_like of int
        Which features.
    p : float
        Probability that they are on.

    Returns
    -------
    indices, patterns, probabilities : ndarray
        A group, as `Features` takes it: the indices; the possible patterns, one a row, of 0 (off) and 1 (on),
        with a column for each index; and the probabilities of the patterns.

    Examples
    --------
    >>> synchronous([0, 3], 0.25)[1:]
    (array([[0, 0],
           [1, 1]]), array([0.75, 0.25]))
    """
    members = _checked_indices("indices", indices)
    p = validation.number("p", p, 0, 1, brackets="(]")
    return members, np.outer([0, 1], np.ones(members.size, np.int64)), np.array([1 - p, p])


def exclusive(indices: npt.ArrayLike, p: npt.ArrayLike) -> Group:
    """Return a group of features of which at most one is on.

    A group is arrays as from `synchronous`: indices, on/off patterns and their probabilities.

    Parameters
    ----------
    indices : (g,) array_like of int
        Which features.
    p : float or (g,) array_like of float
        Probability of each feature; their sum is at most 1.

    Examples
    --------
    >>> exclusive([0, 3], [0.25, 0.5])
    (array([0, 3]), array([[0, 0],
           [1, 0],
           [0, 1]]), array([0.25, 0.25, 0.5 ]))
    """
    members = _checked_indices("indices", indices)
    chances = _checked_chances("p", p, members.size)
    total = float(chances.sum())
    if total > 1 + 1e-12:
        raise ValueError(f"`p` must sum to at most 1; got {total:g}.")
    table = np.eye(members.size + 1, members.size, -1, dtype=np.int64)
    return members, table, np.concatenate([[max(1 - total, 0.0)], chances])


def parent_child(parent: int, children: npt.ArrayLike, p_parent: float, p_child: npt.ArrayLike) -> Group:
    """Return a group of a parent and its children, which can be on only if the parent is, then independently.

    A group is arrays as from `synchronous`: indices, on/off patterns and their probabilities.

    Parameters
    ----------
    parent : int
        Index of the parent.
    children : (g,) array_like of int
        Indices of the children; at most 16, as all their patterns are listed.
    p_parent : float
        Probability that the parent is on.
    p_child : float or (g,) array_like of float
        Probability of each child to be on, given that the parent is.

    Examples
    --------
    >>> parent_child(2, [5], 0.5, 0.5)
    (array([2, 5]), array([[0, 0],
           [1, 0],
           [1, 1]]), array([0.5 , 0.25, 0.25]))
    """
    young = _checked_indices("children", children)
    if young.size > 16:
        raise ValueError(f"`children` must be at most 16; got {young.size}.")
    members = np.append(validation.integer("parent", parent, 0, _MOST_FEATURES - 1), young)
    p = validation.number("p_parent", p_parent, 0, 1, brackets="(]")
    q = _checked_chances("p_child", p_child, young.size)
    below = np.array(list(product((0, 1), repeat=young.size)), np.int64)
    table = np.zeros((len(below) + 1, young.size + 1), np.int64)
    table[1:, 0], table[1:, 1:] = 1, below
    return members, table, np.append(1 - p, p * np.where(below, q, 1 - q).prod(axis=1))


class PackedGroups(NamedTuple):
    """The tables of many groups, one after the other, for `set_patterns`."""

    members: IntArray
    """Features, those of group g from first_member[g] to first_member[g + 1]."""
    first_member: IntArray
    edges: FloatArray
    """Cumulated probabilities of patterns, those of group g from first_edge[g] to first_edge[g + 1]."""
    first_edge: IntArray
    patterns: BoolArray
    """Rows of patterns, those of group g from first_pattern[g] on."""
    first_pattern: IntArray


def pack_groups(groups: Sequence[Group]) -> PackedGroups:
    """Return the tables of `groups`, one or more, as `PackedGroups`."""
    members, tables, chances = zip(*groups, strict=True)
    edges = [np.cumsum(chance) for chance in chances]
    first_member, first_edge, first_pattern = (
        np.cumsum([0, *(array.size for array in arrays)]) for arrays in (members, edges, tables)
    )
    return PackedGroups(
        np.concatenate(members), first_member, np.concatenate([edge / edge[-1] for edge in edges]),
        first_edge, np.concatenate([table.ravel() > 0 for table in tables]), first_pattern,
    )  # fmt: skip


@kernel
def set_patterns(groups: PackedGroups, draws: FloatArray, on: BoolArray) -> None:
    """Set on[s, i] to True where feature i of `groups` is on in sample s; it must be False before.

    `on` has shape (size, n). Uniform `draws`, (groups, size), choose the patterns: each the first whose
    cumulated probability is above its draw.
    """
    size = draws.shape[1]
    for start in range(0, size, _ROWS):
        check_interrupt(start % 16384 == 0)
        for g in range(draws.shape[0]):
            first, count = groups.first_member[g], groups.first_member[g + 1] - groups.first_member[g]
            edges = groups.edges[groups.first_edge[g] : groups.first_edge[g + 1]]
            table = groups.first_pattern[g]
            off = 0.0 if np.any(groups.patterns[table : table + count]) else edges[0]
            for s in range(start, min(start + _ROWS, size)):
                if draws[g, s] < off:  # most often: nothing is on in the first pattern
                    continue
                pattern = np.searchsorted(edges, draws[g, s], side="right")
                at = table + pattern * count
                for k in range(count):
                    if groups.patterns[at + k]:
                        on[s, groups.members[first + k]] = True


@kernel
def set_values(on: BoolArray, scale: FloatArray, values: FloatArray, x: FloatArray) -> None:
    """Write `scale`[i] times the next of `values` to x[s, i] where on[s, i]; `on` and x are (size, n)."""
    at = 0
    for s in range(len(x)):
        check_interrupt(s % 16384 == 0)
        for j in range(scale.size):
            if on[s, j]:
                x[s, j] = scale[j] * values[at]
                at += 1
