"""Smooth forces of the interference flow (`Force` of `solvers.flow.inclusion`), dense and listed.

Of n encodings, rows of W, a listed force gets some of the weights: `w`, neuron by neuron, `rows` the row of W
of each, those of neuron k at first[k]:first[k + 1]; a dense one gets all of W, flat. G, (n, n), is scratch.
"""

import numpy as np

from ...theory.compile.kernels import kernel
from ...theory.validation import FloatArray, IntArray

__all__ = ["free_force", "free_listed", "tied_force", "tied_listed"]


@kernel
def _gram_to_coefficients(G: FloatArray) -> None:
    """Replace the Gram matrix G = W W', (n, n), by the matrix C with which the smooth force is C W.

    Row i of the force is (1 - |W_i|^2) W_i - sum_j ReLU(W_i.W_j) W_j, the sum over j other than i.
    """
    for i in range(G.shape[0]):
        for j in range(G.shape[1]):
            G[i, j] = min(-G[i, j], 0.0) if i != j else 1.0 - G[i, i]


def tied_force(w: FloatArray, first: IntArray, rows: IntArray, G: FloatArray, out: FloatArray) -> None:
    """Write to `out` the smooth force of the tied model, (1 - |W_i|^2) W_i - sum_j ReLU(W_i.W_j) W_j.

    `w` is the flat matrix W; `first` and `rows` are not used, and G, (n, n), is overwritten.
    """
    W = w.reshape(len(G), -1)
    np.dot(W, W.T, out=G)  # NumPy recognises the transpose and computes one half
    _gram_to_coefficients(G)
    np.dot(G, W, out=out.reshape(W.shape))


def free_force(w: FloatArray, first: IntArray, rows: IntArray, G: FloatArray, out: FloatArray) -> None:
    """Write to `out` the smooth force without interference, (1 - |W_i|^2) W_i, of the flat matrix w.

    `first` and `rows` are not used; G, (n, n), only says the number n of encodings.
    """
    W = w.reshape(len(G), -1)
    np.multiply(W, 1.0 - np.einsum("ik,ik->i", W, W)[:, None], out=out.reshape(W.shape))


@kernel
def free_listed(w: FloatArray, first: IntArray, rows: IntArray, G: FloatArray, out: FloatArray) -> None:
    """Write to `out` the smooth force without interference, (1 - |W_i|^2) w[e], on each listed weight w[e].

    w[e] is a weight of the encoding i = rows[e]; weights that are not listed are 0. `first` is not used. G,
    (n, n), gets the squared lengths |W_i|^2 on its diagonal.
    """
    for i in range(G.shape[0]):
        G[i, i] = 0.0
    for e in range(rows.size):
        G[rows[e], rows[e]] += w[e] * w[e]
    for e in range(rows.size):
        out[e] = (1.0 - G[rows[e], rows[e]]) * w[e]


@kernel
def tied_listed(w: FloatArray, first: IntArray, rows: IntArray, G: FloatArray, out: FloatArray) -> None:
    """Write to `out` the smooth force of the tied model on each listed weight w[e].

    The force is (1 - |W_i|^2) W_i - sum_j ReLU(W_i.W_j) W_j, the sum over j other than i. w[e] is a weight of
    the encoding i = rows[e], and neuron k has the weights w[first[k]:first[k + 1]]; weights that are not
    listed are 0. G, (n, n), is overwritten.
    """
    free_listed(w, first, rows, G, out)
    for k in range(first.size - 1):
        for a in range(first[k], first[k + 1]):
            for b in range(a + 1, first[k + 1]):
                G[rows[a], rows[b]] = 0.0
    for k in range(first.size - 1):
        for a in range(first[k], first[k + 1]):
            for b in range(a + 1, first[k + 1]):
                G[rows[a], rows[b]] += w[a] * w[b]
    for k in range(first.size - 1):
        for a in range(first[k], first[k + 1]):
            for b in range(a + 1, first[k + 1]):
                overlap = max(G[rows[a], rows[b]], 0.0)
                out[a] -= overlap * w[b]
                out[b] -= overlap * w[a]
