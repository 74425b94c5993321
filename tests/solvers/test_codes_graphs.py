"""Blocks against exact losses of the models they stand for, and the graphs behind them."""

import numpy as np
import pytest

from superposition.solvers import codes, rug
from superposition.solvers.codes import adjacency, block_model
from superposition.theory import codes as theory
from superposition.theory.rug import zero_ratio_loss


def _block(name, p, shift=False):
    return codes.blocks([p], [name])[shift][0]


def _union(parts):
    n = sum(M.shape[0] for M in parts)
    whole, at = np.zeros((n, n)), 0
    for M in parts:
        whole[at : at + len(M), at : at + len(M)] = M
        at += len(M)
    return whole


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize(
    "name", ["pentagon", "icosahedron", "Petersen", "Clebsch", "quadrangle 2", "Gewirtz"]
)
def test_block_is_the_exact_loss_of_its_model(name, shift):
    one = _block(name, 0.05, shift)
    M, b = block_model(one)
    assert np.linalg.matrix_rank(M, tol=1e-9) == one.n_hidden
    exact = rug.exact_loss(M, b, 0.05, tol=1e-10)
    assert abs(exact.loss - one.loss) <= 1e-10 * 0.05
    assert np.ptp(exact.per_feature) <= 2e-10 * 0.05


def test_independent_blocks_average():
    first, second = _block("pentagon", 0.1), _block("pair", 0.1)
    (M, b), (N, c) = block_model(first), block_model(second)
    whole = _union([M, N, N, np.zeros((1, 1))])
    biases = np.concatenate([np.full(5, b), np.full(4, c), [0.05]])
    expected = (5 * first.loss + 4 * second.loss + zero_ratio_loss(0.1)) / 10
    assert rug.exact_loss(whole, biases, 0.1).loss == pytest.approx(expected, rel=1e-9)


GRAPHS = {
    "Petersen": (10, 3, 0, 1),
    "Clebsch": (16, 5, 0, 2),
    "Hoffman-Singleton": (50, 7, 0, 1),
    "Gewirtz": (56, 10, 0, 2),
    "M22": (77, 16, 0, 4),
    "Higman-Sims": (100, 22, 0, 6),
    "McLaughlin": (275, 112, 30, 56),
    "quadrangle 2": (27, 10, 1, 5),
    "quadrangle 3": (112, 30, 2, 10),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_strongly_regular(name):
    n, degree, common, apart = GRAPHS[name]
    A = adjacency(name)
    ones, eye = np.ones((n, n), int), np.eye(n, dtype=int)
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_array_equal(A @ A, degree * eye + common * A + apart * (ones - eye - A))
    assert theory.overlaps(name).n_features == n
    code = theory.overlaps(name)
    G = np.where(A == 1, code.values[0], code.values[1])
    np.fill_diagonal(G, 1.0)
    assert np.linalg.matrix_rank(G, tol=1e-8) == code.n_hidden
