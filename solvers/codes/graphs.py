"""Adjacency matrices of the graphs behind the codes, and the models that blocks stand for."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...theory import validation
from ...theory.codes import overlaps
from ...theory.codes.overlaps import code_points
from ...theory.validation import FloatArray, IntArray
from .blocks import Block


def _disjoint(sets: IntArray) -> IntArray:
    """Return the adjacency matrix that joins disjoint sets; `sets` has a row of 0 and 1 for each set."""
    return np.asarray(sets @ sets.T == 0, dtype=np.int64)


def _petersen() -> IntArray:
    """Return the adjacency matrix of the Petersen graph: pairs out of five, joined if disjoint."""
    pairs = itertools.combinations(range(5), 2)
    return _disjoint(np.array([[int(i in pair) for i in range(5)] for pair in pairs]))


def _clebsch() -> IntArray:
    """Return the adjacency matrix of words of four bits, joined if they differ in one bit or in all four."""
    words = np.arange(16)
    return np.isin(words[:, None] ^ words, (1, 2, 4, 8, 15)).astype(np.int64)


def _hoffman_singleton() -> IntArray:
    """Return the adjacency matrix of the Hoffman-Singleton graph, (50, 50).

    It has five pentagons P_h and five pentagrams Q_i; vertex j of P_h is joined to vertex h i + j of Q_i.
    """
    A = np.zeros((50, 50), np.int64)
    for h, i, j in itertools.product(range(5), repeat=3):
        A[5 * h + j, 25 + 5 * i + (h * i + j) % 5] = 1
    for h, j in itertools.product(range(5), repeat=2):
        A[5 * h + j, 5 * h + (j + 1) % 5] = 1
        A[25 + 5 * h + j, 25 + 5 * h + (j + 2) % 5] = 1
    return np.asarray(A | A.T)


def _heptads() -> IntArray:
    """Return the 253 blocks of S(4, 7, 23), rows of 0 and 1: words of weight 7 of the binary Golay code."""
    generator = [1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1] + 11 * [0]  # 1 + x² + x⁴ + x⁵ + x⁶ + x¹⁰ + x¹¹
    basis = np.array([np.roll(generator, k) for k in range(12)])
    words = np.array(list(itertools.product((0, 1), repeat=12))) @ basis % 2
    return np.asarray(words[words.sum(axis=1) == 7], dtype=np.int64)


def _hexads() -> IntArray:
    """Return the 77 blocks of S(3, 6, 22), rows of 0 and 1 over 22 points."""
    blocks = _heptads()
    return np.asarray(blocks[blocks[:, 0] == 1][:, 1:])


def _gewirtz() -> IntArray:
    """Return the adjacency matrix of the Gewirtz graph, (56, 56).

    Vertices are the blocks of S(3, 6, 22) that avoid one fixed point of the 22, joined if disjoint.
    """
    blocks = _hexads()
    return _disjoint(blocks[blocks[:, 0] == 0])


def _higman_sims() -> IntArray:
    """Return the adjacency matrix of the Higman-Sims graph, (100, 100).

    Vertices are, in this order, an extra one, the 22 points and the 77 blocks of S(3, 6, 22). The extra one
    is joined to all points, a point to the blocks that contain it, and blocks to disjoint blocks.
    """
    blocks = _hexads()
    A = np.zeros((100, 100), np.int64)
    A[0, 1:23] = 1
    A[1:23, 23:] = blocks.T
    A = A + A.T
    A[23:, 23:] = _disjoint(blocks)
    return A


def _mclaughlin() -> IntArray:
    """Return the adjacency matrix of the McLaughlin graph, (275, 275).

    It is made of S(4, 7, 23), blocks of 7 among 23 points. Vertices are the 22 points other than the first;
    77 hexads, the blocks that contain the first point, without it; and 176 heptads, the blocks that do not. A
    point is joined to hexads that do not contain it and to heptads that do. Two hexads are joined if
    disjoint, a hexad and a heptad if they share 3 points, two heptads if they share 1.
    """
    blocks = _heptads()
    contains_first = blocks[blocks[:, 0] == 1][:, 1:]
    free = blocks[blocks[:, 0] == 0][:, 1:]
    parts: Any = [
        [np.zeros((22, 22), np.int64), 1 - contains_first.T, free.T],
        [1 - contains_first, contains_first @ contains_first.T == 0, contains_first @ free.T == 3],
        [free, free @ contains_first.T == 3, free @ free.T == 1],
    ]
    return np.block(parts)


def _quadrangle(q: int) -> IntArray:
    """Return the adjacency matrix of the generalised quadrangle GQ(q, q²), for a prime q.

    Its n = (q + 1)(q³ + 1) points are the zeros of the quadratic form x0 x1 + x2 x3 + N(x4, x5) in projective
    5-space over GF(q), an elliptic quadric: N is a form that is 0 only at 0. Two points are joined if the
    bilinear form of the quadric is 0 at them.
    """
    form = np.zeros((6, 6), np.int64)
    form[0, 1] = form[2, 3] = form[4, 4] = 1
    if q == 2:
        form[4, 5] = form[5, 5] = 1
    else:  # minus a number that is no square
        form[5, 5] = -next(s for s in range(2, q) if pow(s, (q - 1) // 2, q) == q - 1)
    points = np.array([x for x in itertools.product(range(q), repeat=6) if any(x)])
    leading = points[np.arange(len(points)), np.argmax(points != 0, axis=1)]
    points = points[leading == 1]
    points = points[np.einsum("ij,jk,ik->i", points, form, points) % q == 0]
    A = np.asarray(points @ (form + form.T) @ points.T % q == 0, dtype=np.int64)
    np.fill_diagonal(A, 0)
    return A


_MAKERS: dict[str, Callable[[], IntArray]] = {
    "Petersen": _petersen,
    "Clebsch": _clebsch,
    "Hoffman-Singleton": _hoffman_singleton,
    "Gewirtz": _gewirtz,
    "M22": lambda: _disjoint(_hexads()),
    "Higman-Sims": _higman_sims,
    "McLaughlin": _mclaughlin,
    "quadrangle 2": lambda: _quadrangle(2),
    "quadrangle 3": lambda: _quadrangle(3),
    "quadrangle 5": lambda: _quadrangle(5),
}


def adjacency(name: str) -> IntArray:
    """Return the adjacency matrix of a strongly regular graph.

    Parameters
    ----------
    name : str
        "Petersen", "Clebsch", "Hoffman-Singleton", "Gewirtz", "M22", "Higman-Sims", "McLaughlin", or
        "quadrangle q" for q = 2, 3, 5.

    Returns
    -------
    (n, n) ndarray of int64
        Adjacency matrix.

    References
    ----------
    Brouwer and Van Maldeghem (2022), Strongly Regular Graphs, ch. 10.

    Examples
    --------
    >>> adjacency("Higman-Sims").sum(axis=1).max()
    22
    """
    return _MAKERS[validation.choice("name", name, tuple(_MAKERS))]()


def block_model(block: Block) -> tuple[FloatArray, float]:
    """Return (M, b) of a block's model ReLU(M x + b): M = a (G - shift)/(1 - shift), G the Gram matrix.

    Parameters
    ----------
    block : Block

    Returns
    -------
    M, b : (n_features, n_features) ndarray of float64, float
        M of rank `block.n_hidden`, to rounding.

    Raises
    ------
    ValueError
        If the code's graph is none of those that `adjacency` constructs.

    Examples
    --------
    >>> from superposition.solvers.codes import blocks
    >>> M, b = block_model(blocks([0.1], ["pair"])[0][0])
    >>> M.round(4)
    array([[ 1.0116, -1.0116],
           [-1.0116,  1.0116]])
    """
    name = validation.instance("block", block, Block).name.removesuffix(" shifted")
    if name in _MAKERS:
        near, far = overlaps(name).values
        A = adjacency(name)
        gram = np.where(A == 1, near, far) + (1.0 - far) * np.eye(len(A))
    else:
        points = code_points(name)
        gram = points @ points.T
    return block.a * (gram - block.shift) / (1.0 - block.shift), block.b
