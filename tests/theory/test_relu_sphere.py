"""The Thomson limit: its energy against the exact loss, its bounds against all that is tried, polytopes."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from superposition.theory import relu
from superposition.theory.loss import class_loss
from superposition.theory.relu import polytopes, sphere

SEEDS = st.integers(0, 2**32 - 1)
ROUNDING = 1e-13


def random_points(seed, n, m):
    W = np.random.default_rng(seed).normal(size=(n, m))
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def pairwise_energy(W, b=0.0):
    """Return the energy by its definition, pair by pair."""
    return math.fsum(max(float(u @ v) + b, 0.0) ** 2 for u, v in itertools.permutations(W, 2))


# --- The energy and the loss -------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 7), st.integers(1, 4), st.floats(-1.0, 0.5))
def test_energy_is_its_definition(seed, n, m, bias):
    W = random_points(seed, n, m)
    want = pairwise_energy(W, bias)
    assert sphere.thomson_energy(W, bias) == pytest.approx(want, abs=ROUNDING * n * n * m)


@given(SEEDS, st.integers(1, 6), st.integers(0, 3), st.integers(1, 4))
def test_one_sparse_loss_on_the_sphere(seed, n, dropped, m):
    W = np.concatenate([random_points(seed, n, m), np.zeros((dropped, m))])
    expected = (sphere.thomson_energy(W) + dropped) / 3
    assert class_loss(W, 0.0, 1) == pytest.approx(expected, abs=ROUNDING * (n + dropped) ** 2)


def test_obtuse_pair_loss():
    for c in (-1.0, -0.7, -0.2, 0.0):  # below and above the kink apart, for quadrature's sake
        below, above = (
            integrate.dblquad(lambda x, y, c=c: (x - max(x + c * y, 0.0)) ** 2, 0, 1, *ends)[0]
            for ends in ((0, lambda y, c=c: -c * y), (lambda y, c=c: -c * y, 1))
        )
        assert sphere.obtuse_pair_loss(c) == pytest.approx(below + above, abs=1e-13)


@given(SEEDS, st.integers(1, 6), st.integers(1, 3))
def test_common_norm(seed, n, m):
    W = random_points(seed, n, m)
    energy = sphere.thomson_energy(W)
    square, loss = map(float, relu.derive_common_norm().evaluate({"n": n, "E": energy}, 20))
    assert sphere.common_norm_loss(n, energy) == pytest.approx(loss, abs=1e-14 * n)
    assert class_loss(W * math.sqrt(square), 0.0, 1) == pytest.approx(loss, abs=ROUNDING * n * n)
    for factor in (0.9, 1.1):
        assert class_loss(W * math.sqrt(square * factor), 0.0, 1) >= loss - ROUNDING * n * n


def test_code_loss():
    for k in (5, 6, 9):
        mu = math.cos(2 * math.pi / k)
        square, bias, loss = map(float, relu.derive_code_loss().evaluate({"mu": mu}))
        assert sphere.code_loss(k, mu) == pytest.approx(k * loss, rel=1e-13, abs=0)
        at_best = class_loss(polytopes.polygon(k) * math.sqrt(square), bias, 1)
        assert sphere.code_loss(k, mu) == pytest.approx(at_best, rel=1e-12, abs=0)


# --- Bounds ------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 5), st.integers(1, 20), st.floats(-1.0, 0.0), st.booleans())
def test_no_arrangement_goes_below_the_bound(seed, m, n, bias, clustered):
    W = random_points(seed, n, m)
    if clustered:  # near the minimum, points coincide
        W = W[np.random.default_rng(seed).integers(0, n, n)]
    bound = sphere.thomson_bound(n, m, bias)
    assert bound >= 0
    assert sphere.thomson_energy(W, bias) >= bound - ROUNDING * n * n


def test_bound_at_its_ends():
    n = np.arange(1, 40)
    for m in (1, 2, 3, 7):
        np.testing.assert_array_equal(sphere.thomson_bound(n, m) > 0, n > 2 * m)
    # On a line the best is half the points on each side.
    even = np.arange(2, 20, 2)
    line = [sphere.thomson_energy(np.repeat([[1.0], [-1.0]], k // 2, axis=0)) for k in even]
    np.testing.assert_allclose(sphere.thomson_bound(even, 1), line, rtol=1e-14)
    # Codes that exist have energy 0 at the bias that frees them.
    for name in ("hexagon", "icosahedron", "24-cell", "rectified 5-cell", "demipenteract"):
        W = polytopes.polytope(name)
        largest = np.max((W @ W.T)[np.triu_indices(len(W), 1)])
        assert sphere.thomson_bound(*W.shape, -largest) == 0


# --- Polytopes ---------------------------------------------------------------------------------------------

ENERGIES = {
    "triangle": 0, "pentagon": 5 * (3 - math.sqrt(5)) / 4, "hexagon": 3,
    "heptagon": 7 * (2 + 1 / math.cos(math.pi / 7)) / 4, "tetrahedron": 0,
    "square antiprism": (80 - 32 * math.sqrt(2)) / 17, "tricapped prism": 63 / 17,
    "bicapped antiprism": (56 + 32 * math.sqrt(2)) / 17, "cube": 8 / 3, "icosahedron": 12,
    "cuboctahedron": 12, "dodecahedron": 140 / 3, "5-cell": 0, "rectified 5-cell": 5 / 3, "24-cell": 48,
    "demipenteract": 32 / 5,
}  # fmt: skip


def test_polytopes():
    assert set(ENERGIES) == set(polytopes.POLYTOPES)
    for name, energy in ENERGIES.items():
        W = polytopes.polytope(name)
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1, atol=1e-15)
        assert np.linalg.matrix_rank(W) == W.shape[1]
        assert len(np.unique(W.round(9), axis=0)) == len(W)
        assert pairwise_energy(W) == pytest.approx(energy, abs=1e-13 * len(W)), name


def test_heights():
    bare, bare_energy, capped, capped_energy = relu.derive_antiprism().expression
    prism, prism_energy = relu.derive_tricapped_prism().expression
    for name, square, energy in [
        ("square antiprism", bare, bare_energy),
        ("bicapped antiprism", capped, capped_energy),
        ("tricapped prism", prism, prism_energy),
    ]:
        W = polytopes.polytope(name)
        assert np.isclose(np.abs(W[:, 2]), math.sqrt(square), rtol=0, atol=1e-15).any()
        assert pairwise_energy(W) == pytest.approx(float(energy), rel=1e-14, abs=0)


def test_polygons_and_simplices():
    for k in range(3, 17):
        with mpmath.workdps(50):
            exact = float(k * sum(max(mpmath.cos(2 * mpmath.pi * j / k), 0) ** 2 for j in range(1, k)))
        assert polytopes.polygon_energy(k) == pytest.approx(exact, rel=1e-14, abs=2e-15)
        assert pairwise_energy(polytopes.polygon(k)) == pytest.approx(exact, abs=1e-14 * k)
    for m in range(1, 8):
        W = polytopes.simplex(m)
        np.testing.assert_allclose(W @ W.T, (1 + 1 / m) * np.eye(m + 1) - 1 / m, atol=1e-15)
