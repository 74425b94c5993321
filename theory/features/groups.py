"""Groups of features that are not independent, as `Features` takes them."""

from itertools import product

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray

__all__ = ["exclusive", "parent_child", "synchronous"]

IntArray = npt.NDArray[np.int64]
Group = tuple[IntArray, IntArray, FloatArray]


def synchronous(indices: npt.ArrayLike, p: float) -> Group:
    """Features that are on together, with probability p, or off together.

    Examples
    --------
    >>> synchronous([0, 3], 0.25)
    (array([0, 3]), array([[0, 0],
           [1, 1]]), array([0.75, 0.25]))
    """
    members = np.asarray(indices)
    p = arguments.number("p", p, 0, 1, brackets="(]")
    return members, np.outer([0, 1], np.ones(members.size, np.int64)), np.array([1 - p, p])


def exclusive(indices: npt.ArrayLike, p: npt.ArrayLike) -> Group:
    """Features of which at most one is on: each with probability p, or its own p; their sum is at most 1.

    Examples
    --------
    >>> exclusive([0, 3], [0.25, 0.5])
    (array([0, 3]), array([[0, 0],
           [1, 0],
           [0, 1]]), array([0.25, 0.25, 0.5 ]))
    """
    members = np.asarray(indices)
    chances = np.broadcast_to(arguments.real("p", p, 0, 1), members.shape)
    total = float(arguments.number("sum of p", chances.sum(), 0, 1 + 1e-12))
    table = np.eye(members.size + 1, members.size, -1, dtype=np.int64)
    return members, table, np.concatenate([[max(1 - total, 0.0)], chances])


def parent_child(parent: int, children: npt.ArrayLike, p_parent: float, p_child: npt.ArrayLike) -> Group:
    """Features that can be on only if their parent is: then independently, each with probability p_child.

    Examples
    --------
    >>> parent_child(2, [5], 0.5, 0.5)
    (array([2, 5]), array([[0, 0],
           [1, 0],
           [1, 1]]), array([0.5 , 0.25, 0.25]))
    """
    young = np.atleast_1d(children)
    arguments.integer("number of children", young.size, 1, 16)  # a table of 2^16 patterns
    p = arguments.number("p_parent", p_parent, 0, 1, brackets="(]")
    q = np.broadcast_to(arguments.real("p_child", p_child, 0, 1), young.shape)
    below = np.array(list(product((0, 1), repeat=young.size)), np.int64)
    table = np.zeros((len(below) + 1, young.size + 1), np.int64)
    table[1:, 0], table[1:, 1:] = 1, below
    return np.append(parent, young), table, np.append(1 - p, p * np.where(below, q, 1 - q).prod(axis=1))
