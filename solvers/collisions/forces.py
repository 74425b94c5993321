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
    """Turn the Gram matrix G = W W', (n, n), in place into the matrix C with the smooth force C W.

    The force is (1 - |W_i|^2) W_i - sum_j ReLU(W_i.W_j) W_j in row i.
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

    `first` and `rows` are not used, and of G, (n, n), only the length.
    """
    W = w.reshape(len(G), -1)
    np.multiply(W, 1.0 - np.einsum("ik,ik->i", W, W)[:, None], out=out.reshape(W.shape))


@kernel
def free_listed(w: FloatArray, first: IntArray, rows: IntArray, G: FloatArray, out: FloatArray) -> None:
    """Write the smooth force without interference on a list of weights, (1 - |W_i|^2) w, to `out`.

    Weight w[e] is of the encoding i = rows[e], and weights not listed are 0; G, (n, n), gets the squared
    lengths |W_i|^2 on its diagonal, `first` is not used.
    """
    for i in range(G.shape[0]):
        G[i, i] = 0.0
    for e in range(rows.size):
        G[rows[e], rows[e]] += w[e] * w[e]
    for e in range(rows.size):
        out[e] = (1.0 - G[rows[e], rows[e]]) * w[e]


@kernel
def tied_listed(w: FloatArray, first: IntArray, rows: IntArray, G: FloatArray, out: FloatArray) -> None:
    """Write (1 - |W_i|^2) W_i - sum_j ReLU(W_i.W_j) W_j, the smooth force, on a list of weights w to `out`.

    Weight w[e] is of the encoding rows[e], those of neuron k are w[first[k]:first[k + 1]], and weights not
    listed are 0. G, (n, n), is scratch for lengths and overlaps of the encodings.
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
