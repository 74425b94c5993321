"""The Hessian at the rug and of any model, against differences of the exact loss."""

import dataclasses

import numpy as np
import pytest

from superposition.solvers.codes import curvatures, rug_hessian, rug_point
from superposition.solvers.loss import row_hessian
from superposition.solvers.rug import exact_loss, optimum, walsh_hadamard
from superposition.theory.features import Features


def factors(point):
    basis = walsh_hadamard(np.eye(point.row.size))[:, point.rows] / np.sqrt(point.row.size)
    return basis * np.sqrt(point.eigenvalues), (basis * np.sqrt(point.eigenvalues)).T


@pytest.fixture(scope="module")
def saddle():
    point = rug_point(16, 8, 0.1, rng=0)
    return point, rug_hessian(point, frequencies=2048)


def test_symmetry_makes_the_point_critical_for_all_matrices(saddle):
    point, found = saddle
    W_out, W_in = factors(point)
    assert np.abs(W_out @ W_in - point.matrix()).max() < 1e-13
    assert point.loss == pytest.approx(exact_loss(point.matrix(), point.b, 0.1).loss, rel=1e-6)
    best = optimum(0.1, 0.5)
    P = W_out / np.sqrt(point.eigenvalues)
    rug_loss = exact_loss(2.0 * best.a * P @ P.T, best.b, 0.1).loss  # 2 P P' has a diagonal of 1
    assert point.loss < point.rug_loss == pytest.approx(rug_loss, rel=1e-6)
    whole = curvatures(W_out, W_in, np.full(16, point.b), 0.1, frequencies=2048)
    assert whole.slope < 1e-11
    # the blocks of the symmetry hold the same eigenvalues as the whole
    blocks = np.sort(np.concatenate(found.curvatures))
    assert np.abs(blocks - whole.values).max() < 1e-12
    assert whole.negative == found.negative > 0


def test_the_step_lowers_the_exact_loss_as_its_curvature_says(saddle):
    point, found = saddle
    W_out, W_in = factors(point)
    root = np.sqrt(point.eigenvalues)
    P = W_out / root
    left = found.step_M @ P / root
    right = (P.T @ found.step_M @ (np.eye(16) - P @ P.T)) / root[:, None]

    def total(s):
        M = (W_out + s * left) @ (W_in + s * right)
        return 16 * exact_loss(M, point.b + s * found.step_b, 0.1).loss

    h = 3e-3
    curvature = np.dot([-1, 16, -30, 16, -1], [total(s * h) for s in range(-2, 3)]) / (12 * h * h)
    assert found.lowest + found.error_estimate < 0
    assert abs(curvature - found.lowest) < 1e-6
    assert total(0.3) < total(0.0)


def test_with_room_for_all_each_output_has_the_curvatures_of_its_row_times_its_importance():
    M, b = np.array([[1.0, -0.3], [0.2, 0.8]]), np.array([0.05, -0.1])
    law, weights = Features(2, 0.3, importance=[1.0, 5.0]), (1.0, 5.0)
    found = curvatures(np.eye(2), M, b, law, frequencies=2048)
    rows = [row_hessian(M[i], i, b[i], 0.3, frequencies=4096) for i in range(2)]
    values = [w * np.linalg.eigvalsh(row.hessian) for w, row in zip(weights, rows, strict=True)]
    np.testing.assert_allclose(found.values, np.sort(np.concatenate(values)), rtol=1e-9)
    slopes = [w * row.gradient for w, row in zip(weights, rows, strict=True)]
    assert found.slope == pytest.approx(np.linalg.norm(slopes), rel=1e-9)


def test_rows_that_are_none_of_the_rug_are_refused(saddle):
    for rows, shown in (([-1, 3], "-1"), ([3, 16], "16"), ([3, 3], "3, 3"), ([0.5, 1.0], "0.5")):
        point = dataclasses.replace(saddle[0], rows=np.array(rows), eigenvalues=np.ones(len(rows)))
        with pytest.raises(
            ValueError, match=rf"`point\.rows` must be distinct integers from 0 to 15.*{shown}"
        ):
            rug_hessian(point)
