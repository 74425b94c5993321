"""The Thomson limit: its energy against the exact loss, its bounds against all that is tried, polytopes."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize

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


def obtuse_points(seed, m):
    """Return unit vectors without acute angles: random blocks, orthogonal to each other, then rotated."""
    rng = np.random.default_rng(seed)
    blocks, left = [], m
    while left:
        rank = int(rng.integers(1, left + 1))
        left -= rank
        k = rank + int(rng.integers(0, 2))
        if k == rank:
            blocks.append(np.eye(rank))
            continue
        # I - N of a random symmetric N >= 0 with largest eigenvalue 1 is a Gram matrix of rank k - 1.
        N = rng.uniform(0.1, 1.0, (k, k))
        N = np.triu(N, 1) + np.triu(N, 1).T
        values, vectors = np.linalg.eigh(np.eye(k) - N / np.linalg.eigvalsh(N)[-1])
        blocks.append((vectors * np.sqrt(np.maximum(values, 0)))[:, 1:])
    W = np.zeros((sum(map(len, blocks)), m))
    row = column = 0
    for block in blocks:
        W[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return W @ np.linalg.qr(rng.normal(size=(m, m)))[0]


# --- The energy and the loss -------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 7), st.integers(1, 4), st.floats(-1.0, 0.5))
def test_energy_is_its_definition_and_has_its_symmetries(seed, n, m, bias):
    W = random_points(seed, n, m)
    energy = sphere.thomson_energy(W, bias)
    slack = ROUNDING * n * n * m
    assert energy == pytest.approx(pairwise_energy(W, bias), abs=slack)
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(m, m)))[0]
    assert sphere.thomson_energy(rng.permutation(W @ turn), bias) == pytest.approx(energy, abs=slack)


@given(SEEDS, st.integers(1, 6), st.integers(0, 3), st.integers(1, 4))
def test_one_sparse_loss_on_the_sphere(seed, n, dropped, m):
    W = np.concatenate([random_points(seed, n, m), np.zeros((dropped, m))])
    expected = (sphere.thomson_energy(W) + dropped) / 3
    assert class_loss(W, 0.0, 1) == pytest.approx(expected, abs=ROUNDING * (n + dropped) ** 2)


@pytest.mark.parametrize("c", [-1.0, -0.7, -0.2, 0.0])
def test_obtuse_pair_loss(c):
    # Below and above the kink apart, for quadrature's sake.
    def error(x, y):
        return (x - max(x + c * y, 0.0)) ** 2

    below, _ = integrate.dblquad(error, 0, 1, 0, lambda y: -c * y)
    above, _ = integrate.dblquad(error, 0, 1, lambda y: -c * y, 1)
    assert sphere.obtuse_pair_loss(c) == pytest.approx(below + above, abs=1e-13)


@given(SEEDS, st.integers(1, 5))
def test_second_class_without_acute_angles(seed, m):
    W = obtuse_points(seed, m)
    n = len(W)
    assert n <= 2 * m
    assert sphere.thomson_energy(W) < ROUNDING
    inner = np.minimum(np.maximum(W @ W.T, -1.0), 0.0)
    pairs = [sphere.obtuse_pair_loss(inner[i, j]) for i, j in itertools.permutations(range(n), 2)]
    # Rounding leaves eigenvalues of 1e-16, and their roots 1e-8 in the inner products.
    slack = 1e-7 * n * n
    if n > 1:
        assert class_loss(W, 0.0, 2) == pytest.approx(math.fsum(pairs), abs=slack)
    assert math.fsum(pairs) >= max(n - m, 0) / 3 - slack


def test_second_class_of_antipodal_pairs_and_simplices():
    for n, m in [(3, 2), (5, 3), (6, 3), (7, 5)]:
        axes = np.eye(m)
        W = np.concatenate([axes, -axes[: n - m]])
        assert class_loss(W, 0.0, 2) == pytest.approx(max(n - m, 0) / 3, abs=1e-14)
    for k in range(2, 7):
        assert class_loss(polytopes.simplex(k - 1), 0.0, 2) == pytest.approx(
            k * (2 * k - 3) / (6 * (k - 1) ** 2), abs=1e-14
        )


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 4, 5, 6])
def test_no_block_is_cheaper_than_an_antipodal_pair(k):
    above = np.triu_indices(k, 1)
    rng = np.random.default_rng(0)

    def cost(x):
        N = np.zeros((k, k))
        N[above] = x * x
        N += N.T
        N /= np.linalg.eigvalsh(N)[-1]
        return np.sum(2 * N**2 - N**3) / 6

    least = min(
        optimize.minimize(cost, rng.random(len(above[0])), options={"maxiter": 500}).fun for _ in range(12)
    )
    assert 1 / 3 - 1e-9 < least < 1 / 3 + 1e-4


COMMON_NORM = relu.derive_common_norm().numeric()


@given(SEEDS, st.integers(1, 6), st.integers(1, 3))
def test_common_norm(seed, n, m):
    W = random_points(seed, n, m)
    energy = sphere.thomson_energy(W)
    square, loss = COMMON_NORM(n, energy).ravel()
    assert sphere.common_norm_loss(n, energy) == pytest.approx(loss, abs=1e-14 * n)
    assert class_loss(W * math.sqrt(square), 0.0, 1) == pytest.approx(loss, abs=ROUNDING * n * n)
    for factor in (0.9, 1.1):
        assert class_loss(W * math.sqrt(square * factor), 0.0, 1) >= loss - ROUNDING * n * n


def test_equal_interference_does_not_make_equal_lengths_best():
    decagon = polytopes.polygon(10)
    common = sphere.common_norm_loss(10, sphere.thomson_energy(decagon))
    assert common == pytest.approx(2, rel=1e-13)
    pentagon = sphere.common_norm_loss(5, polytopes.polygon_energy(5)) + 5 / 3
    assert pentagon < common - 0.06
    # The pentagon's own matrix is positive definite: there they are best, and the decagon's is not.
    least = [np.linalg.eigvalsh(np.maximum(W @ W.T, 0) ** 2)[0] for W in (polytopes.polygon(5), decagon)]
    assert least[0] > 0.1
    assert least[1] < -0.01


@pytest.mark.parametrize("k", [5, 6, 9])
def test_code_loss(k):
    W = polytopes.polygon(k)
    mu = math.cos(2 * math.pi / k)
    square, bias, loss = map(float, relu.derive_code_loss().evaluate({"mu": mu}))
    assert sphere.code_loss(k, mu) == pytest.approx(k * loss, rel=1e-14)
    at_best = class_loss(W * math.sqrt(square), bias, 1)
    assert at_best == pytest.approx(sphere.code_loss(k, mu), rel=1e-12)
    assert at_best < k / 3


# --- Bounds ------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 5), st.integers(1, 20), st.floats(-1.0, 0.0), st.booleans())
def test_no_arrangement_goes_below_the_bound(seed, m, n, bias, clustered):
    W = random_points(seed, n, m)
    if clustered:  # near the minimum, points coincide
        W = W[np.random.default_rng(seed).integers(0, n, n)]
    bound = sphere.thomson_bound(n, m, bias)
    assert bound >= 0
    assert sphere.thomson_energy(W, bias) >= bound - ROUNDING * n * n


def test_the_parabola_of_the_bound_is_0_at_minus_1_and_a_tangent_of_the_kernel_at_1_over_u_minus_1():
    derived = relu.derive_thomson_bound()
    (h, *_), (_, _, t, u, c) = derived.expression, derived.symbols
    touch = 1 / u - 1
    assert sympy.simplify(h.subs(c, -1)) == 0
    assert sympy.simplify((h - (c - t) ** 2).subs(c, touch)) == 0
    assert sympy.simplify(sympy.diff(h - (c - t) ** 2, c).subs(c, touch)) == 0


@given(st.integers(1, 8), st.integers(1, 60), st.floats(0.0, 0.9))
def test_parabola_is_below_the_kernel(m, n, t):
    """The proof's conditions, at the best u: below the kernel, coefficients of c and c^2 not negative."""
    if n * (1 - m * t) <= 2 * m * (1 - t):
        assert sphere.thomson_bound(n, m, -t) == 0
        return
    u = m * (n - 2) / (n * (m + 1) - 4 * m)
    assert 0.5 <= u <= 1 / (1 + t)
    c = np.linspace(-1, 1, 801)
    h = (c - t) ** 2 - (1 + t) ** 2 * (u * c - 1 + u) ** 2
    assert np.all(h <= np.maximum(c - t, 0) ** 2 + 1e-14)
    assert 1 - (1 + t) ** 2 * u**2 >= -1e-15
    assert (1 + t) ** 2 * u * (1 - u) - t >= -1e-15


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


@given(SEEDS, st.integers(1, 4), st.integers(1, 8))
def test_antipodal_sets(seed, m, half):
    W = random_points(seed, half, m)
    W = np.concatenate([W, -W])
    assert sphere.thomson_energy(W) >= max(2 * half * (half - m) / m, 0.0) - ROUNDING * half**2


@pytest.mark.parametrize(
    "name", ["hexagon", "cube", "icosahedron", "cuboctahedron", "dodecahedron", "24-cell"]
)
def test_antipodal_tight_frames_reach_their_bound(name):
    W = polytopes.polytope(name)
    n, m = W.shape
    assert sphere.thomson_energy(W) == pytest.approx(n * (n - 2 * m) / (2 * m), rel=1e-13)


# --- Polytopes ---------------------------------------------------------------------------------------------

ENERGIES = {
    "triangle": 0,
    "pentagon": 5 * (3 - math.sqrt(5)) / 4,
    "hexagon": 3,
    "heptagon": 7 * (2 + 1 / math.cos(math.pi / 7)) / 4,
    "tetrahedron": 0,
    "square antiprism": (80 - 32 * math.sqrt(2)) / 17,
    "tricapped prism": 63 / 17,
    "bicapped antiprism": (56 + 32 * math.sqrt(2)) / 17,
    "cube": 8 / 3,
    "icosahedron": 12,
    "cuboctahedron": 12,
    "dodecahedron": 140 / 3,
    "5-cell": 0,
    "rectified 5-cell": 5 / 3,
    "24-cell": 48,
    "demipenteract": 32 / 5,
}


@pytest.mark.parametrize("name", polytopes.POLYTOPES)
def test_polytopes(name):
    W = polytopes.polytope(name)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1, atol=1e-15)
    assert np.linalg.matrix_rank(W) == W.shape[1]
    assert len(np.unique(W.round(9), axis=0)) == len(W)
    assert pairwise_energy(W) == pytest.approx(ENERGIES[name], abs=1e-13 * len(W))


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
        assert pairwise_energy(W) == pytest.approx(float(energy), rel=1e-14)


@pytest.mark.parametrize("k", range(3, 17))
def test_polygon_energy(k):
    with mpmath.workdps(50):
        inner = [mpmath.cos(2 * mpmath.pi * j / k) for j in range(1, k)]
        exact = float(k * sum(max(c, 0) ** 2 for c in inner))
    assert polytopes.polygon_energy(k) == pytest.approx(exact, rel=1e-14, abs=2e-15)
    assert pairwise_energy(polytopes.polygon(k)) == pytest.approx(exact, abs=1e-14 * k)


@pytest.mark.parametrize("m", range(1, 8))
def test_simplex(m):
    W = polytopes.simplex(m)
    np.testing.assert_allclose(W @ W.T, (1 + 1 / m) * np.eye(m + 1) - 1 / m, atol=1e-15)
