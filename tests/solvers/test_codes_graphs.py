"""Blocks against exact losses of the models they stand for, and the graphs behind them."""

import numpy as np
import pytest

from superposition.solvers import codes, rug
from superposition.solvers.codes import adjacency, block_model
from superposition.theory import codes as theory


@pytest.mark.parametrize(
    "name", ["pentagon", "icosahedron", "Petersen", "Clebsch", "quadrangle 2", "Gewirtz"]
)
def test_block_is_the_exact_loss_of_its_model(name):
    for (one,) in codes.blocks([0.05], [name]):
        M, b = block_model(one)
        assert np.linalg.matrix_rank(M, tol=1e-9) == one.n_hidden
        exact = rug.exact_loss(M, b, 0.05, tol=1e-10)
        assert abs(exact.loss - one.loss) <= 1e-10 * 0.05
        assert np.ptp(exact.per_feature) <= 2e-10 * 0.05


GRAPHS = {
    "Petersen": (10, 3, 0, 1), "Clebsch": (16, 5, 0, 2), "Hoffman-Singleton": (50, 7, 0, 1),
    "Gewirtz": (56, 10, 0, 2), "M22": (77, 16, 0, 4), "Higman-Sims": (100, 22, 0, 6),
    "McLaughlin": (275, 112, 30, 56), "quadrangle 2": (27, 10, 1, 5), "quadrangle 3": (112, 30, 2, 10),
}  # fmt: skip


def test_graphs_are_strongly_regular():
    for name, (n, degree, common, apart) in GRAPHS.items():
        A, code = adjacency(name), theory.overlaps(name)
        ones, eye = np.ones((n, n), int), np.eye(n, dtype=int)
        np.testing.assert_array_equal(A, A.T)
        np.testing.assert_array_equal(A @ A, degree * eye + common * A + apart * (ones - eye - A))
        assert code.n_features == n
        G = np.where(A == 1, code.values[0], code.values[1])
        np.fill_diagonal(G, 1.0)
        assert np.linalg.matrix_rank(G, tol=1e-8) == code.n_hidden
