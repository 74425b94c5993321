"""Sphere packings of the ReLU model: derivatives, known minima, bounds, brute force, true minimisers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag

from superposition.solvers import parallel
from superposition.solvers.minimise import minimise
from superposition.solvers.relu import geometry, represented, sphere_check, thomson
from superposition.solvers.relu.sphere import bounds
from superposition.solvers.relu.sphere.arrange import energy_and_gradient, energy_hessian
from superposition.solvers.relu.sphere.bounds import linear_programming_bound
from superposition.theory.loss import class_loss
from superposition.theory.relu import code_loss, polytopes, thomson_bound, thomson_energy

from ..oracles import differences

SEEDS = st.integers(0, 2**32 - 1)
PENTAGON = 5 * (3 - math.sqrt(5)) / 4


def random_points(rng, n, m):
    W = rng.normal(size=(n, m))
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# --- Derivatives -------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 7), st.integers(1, 4), st.floats(-0.9, 0.0))
def test_gradient_by_complex_step(seed, n, m, bias):
    W = np.random.default_rng(seed).normal(size=(n, m))
    energy, G = energy_and_gradient(W, bias)
    assert energy == pytest.approx(thomson_energy(W, bias), rel=1e-13, abs=1e-13)
    off = ~np.eye(n, dtype=bool)
    for i, k in itertools.product(range(n), range(m)):
        V = W.astype(complex)
        V[i, k] += 1e-30j
        C = V @ V.T + bias
        step = np.sum(C[off & (C.real > 0)] ** 2).imag / 1e-30
        assert G[i, k] == pytest.approx(step, rel=1e-11, abs=1e-11)


@given(SEEDS, st.integers(2, 6), st.integers(2, 4), st.floats(-0.5, 0.0))
def test_hessian_by_differences_of_the_gradient(seed, n, m, bias):
    W = random_points(np.random.default_rng(seed), n, m)
    if np.min(np.abs((W @ W.T + bias)[np.triu_indices(n, 1)])) < 1e-4:
        return  # the second derivative jumps within the step

    def slope(W):
        """Return the gradient of the energy by the rows of W, of which only directions matter."""
        lengths = np.linalg.norm(W, axis=1, keepdims=True)
        W = W / lengths
        _, G = energy_and_gradient(W, bias)
        return ((G - np.sum(G * W, axis=1, keepdims=True) * W) / lengths).ravel()

    difference = differences(slope, W, 1e-5).reshape(n * m, n * m)
    tangent = np.eye(n * m) - block_diag(*[np.outer(w, w) for w in W])
    # Central differences: h^2 times third derivatives.
    np.testing.assert_allclose(
        energy_hessian(W, bias), tangent @ difference @ tangent, atol=1e-8 * n * (1 + n)
    )


def curvatures(W):
    """Return the eigenvalues of the Hessian, at contacts the mean of both sides."""
    return np.linalg.eigvalsh(0.5 * (energy_hessian(W, 1e-7) + energy_hessian(W, -1e-7)))


def test_curvature_of_a_saddle_and_of_minima():
    # All points on the equator of the sphere: out of the plane it goes down.
    assert curvatures(np.c_[polytopes.polygon(7), np.zeros(7)])[0] < -0.1
    for name in ("pentagon", "square antiprism", "rectified 5-cell", "demipenteract"):
        W = polytopes.polytope(name)
        n, m = W.shape
        found = curvatures(W)
        flat = np.abs(found) < 1e-6  # lengths and rotations
        assert flat.sum() == n + m * (m - 1) // 2
        assert np.all(found[~flat] > 0.01)
    # A pentagon and the poles: five contacts with each.
    both = np.concatenate([np.c_[polytopes.polygon(5), np.zeros(5)], [[0, 0, 1], [0, 0, -1]]])
    assert curvatures(both)[0] > -1e-6
    # Free of interference: nothing bends.
    assert not energy_hessian(np.array([[1.0, 0, 0], [-1.0, 0, 0]]), 0.0).any()


# --- Minima ------------------------------------------------------------------------------------------------

KNOWN = {
    (5, 2): (PENTAGON, "pentagon"), (6, 2): (3.0, "hexagon"), (10, 2): (4 * PENTAGON + 10, "2 x pentagon"),
    (4, 2): (0.0, "2 antipodal pairs"), (6, 3): (0.0, "3 antipodal pairs"),
    (7, 3): (PENTAGON, "antipodal pair + pentagon"),
    (8, 3): ((80 - 32 * math.sqrt(2)) / 17, "square antiprism"), (9, 3): (63 / 17, "tricapped prism"),
    (10, 3): ((56 + 32 * math.sqrt(2)) / 17, "bicapped antiprism"), (10, 4): (5 / 3, "rectified 5-cell"),
    (12, 4): (84 / 19, "12 in 4"), (12, 5): (5 / 3, "antipodal pair + rectified 5-cell"),
    (16, 5): (32 / 5, "demipenteract"), (5, 1): (8.0, "5 in 1 at 2 positions"),
}  # fmt: skip


@pytest.mark.parametrize("m", range(1, 6))
def test_known_minima(m):
    for (n, dimensions), (energy, name) in KNOWN.items():
        if dimensions == m:
            assert_minimum(n, m, energy, name)


def assert_minimum(n, m, energy, name):
    found = thomson(n, m, starts=12)
    assert found.energy == pytest.approx(energy, abs=1e-12 * n)
    assert found.geometry.name == name
    assert found.gradient_norm <= 1e-12 * n
    assert found.hits >= 4
    assert curvatures(found.W)[0] > -1e-6
    np.testing.assert_allclose(np.linalg.norm(found.W, axis=1), 1, atol=1e-14)
    assert thomson_energy(found.W) == pytest.approx(found.energy, abs=1e-13 * n * n)
    assert found.energies.min() >= found.energy - 1e-6 * (1 + energy)
    assert found.gradient_norms.shape == found.energies.shape == (12,)
    assert thomson_bound(n, m) <= linear_programming_bound(n, m) + 1e-7 * n * n
    assert linear_programming_bound(n, m) <= energy + 1e-9


def test_positions_coincide():
    """The minimum is no packing: with many features on a circle five directions are taken, over and over."""
    for n in (8, 11, 13):
        found = thomson(n, 2, starts=24)
        assert found.geometry.positions == 5
        assert found.energy < polytopes.polygon_energy(n) - 0.15
    found = thomson(12, 3, starts=48)
    assert found.geometry.positions == 9
    assert found.energy == pytest.approx(11.0974101, abs=1e-6)
    assert found.energy < 12.0 - 0.9  # the icosahedron's


def test_a_bias_frees_the_codes_it_reaches():
    for k in (5, 6, 7, 9):
        mu = math.cos(2 * math.pi / k)
        assert thomson(k, 2, -mu - 1e-9, starts=12).energy < 1e-12
        assert thomson(k + 1, 2, -mu, starts=12).energy > 1e-3  # not one point more


def test_the_numbers_do_not_depend_on_threads_or_on_how_the_seed_comes(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", lambda: 3)
    many = thomson(9, 3, starts=6, rng=3)
    monkeypatch.setattr(parallel, "_threads", lambda: 1)
    one = thomson(9, 3, starts=6, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(many.energies, one.energies)
    np.testing.assert_array_equal(many.W, one.W)


# --- Geometry ----------------------------------------------------------------------------------------------


def test_names_survive_rotation_scale_and_order():
    for name in polytopes.POLYTOPES:
        rng, W = np.random.default_rng(1), polytopes.polytope(name)
        n, m = W.shape
        turned = rng.permutation(W @ np.linalg.qr(rng.normal(size=(m, m)))[0]) * rng.uniform(0.5, 2, (n, 1))
        assert geometry(turned).name == name
        assert geometry(np.repeat(turned, 2, axis=0)).name == f"2 x {name}"
        padded, pole = np.pad(turned, ((0, 0), (0, 1))), np.eye(1, m + 1, m)
        both = geometry(np.concatenate([padded, pole, -2 * pole])).parts
        assert both == tuple(sorted([name, "antipodal pair"]))
        assert geometry(np.concatenate([padded, 0 * pole])).name == name


def test_geometry():
    found = geometry([[1, 0], [2, 0], [0, 3], [0, -1], [1, 1]])
    np.testing.assert_allclose(found.inner, [-1, -math.sqrt(0.5), 0, math.sqrt(0.5), 1], atol=1e-15)
    np.testing.assert_array_equal(found.counts, [1, 1, 4, 3, 1])
    np.testing.assert_allclose(found.dimensionality, [0.4, 0.4, 0.4, 0.4, 1 / 3])
    assert (found.positions, found.antipodal, found.name) == (4, 1, "5 in 2 at 4 positions")
    assert geometry(np.eye(3)).name == "3 singles"
    assert geometry(np.eye(3)).antipodal == 0
    alone = geometry([[2.0, 0.0]])
    assert (alone.name, alone.inner.size, alone.dimensionality.tolist()) == ("single", 0, [1.0])


# --- Bounds by programming ---------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 5), st.integers(1, 14), st.floats(-0.9, 0.0), st.integers(1, 10))
def test_linear_programming_bound_holds(seed, m, n, bias, degree):
    rng = np.random.default_rng(seed)
    W = random_points(rng, n, m)[rng.integers(0, n, n)]
    bound = linear_programming_bound(n, m, bias, degree=degree)
    assert 0 <= bound <= thomson_energy(W, bias) + 1e-11 * n * n
    if degree >= 2:
        assert bound >= thomson_bound(n, m, bias) - 1e-6 * n * n


def test_pentagons_are_optimal():
    for q in (1, 2, 3, 5):
        exact = q * q * (5 + PENTAGON) - 5 * q
        W = np.repeat(polytopes.polygon(5), q, axis=0)
        assert thomson_energy(W) == pytest.approx(exact, rel=1e-13, abs=0)
        assert exact - 1e-6 * q * q <= linear_programming_bound(5 * q, 2) <= exact + 1e-9


def test_a_program_that_is_not_solved_is_no_bound(monkeypatch):
    failed = bounds.optimize.OptimizeResult(x=None, message="out of time")
    monkeypatch.setattr(bounds.optimize, "linprog", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="the linear program was not solved: out of time"):
        linear_programming_bound(5, 2)


# --- True minimisers ---------------------------------------------------------------------------------------


def test_minimisers_of_rare_features_are_stationary_and_say_their_loss():
    for bias in (False, "common", True):
        found = minimise(6, 2, 0, bias=bias, starts=4)
        assert found.gradient_norm < 1e-6
        assert 6 * found.loss == pytest.approx(class_loss(found.W, found.b, 1), rel=1e-13, abs=0)
        assert np.all(found.b <= 0)
        assert {False: np.all(found.b == 0), "common": np.ptp(found.b) == 0, True: True}[bias]
        assert found.losses.min() == pytest.approx(found.loss, rel=1e-12, abs=0)


def test_the_second_class_decides_where_the_energy_does_not():
    p = 0.1
    for n, m in ((3, 2), (4, 3)):
        found = minimise(n, m, p, starts=2)
        # p^2 (n - m)/3, up to corrections of relative order p.
        assert n * found.loss / p**2 == pytest.approx((n - m) / 3, rel=p)
        assert geometry(found.W).parts.count("antipodal pair") == n - m
        assert np.linalg.norm(found.W, axis=1) == pytest.approx(np.ones(n), abs=0.01)


def test_features_that_are_too_many_are_dropped():
    found = minimise(5, 2, 0.3, starts=6)
    kept = represented(found.W, found.b)
    assert kept.sum() in (4, 5)
    assert geometry(found.W[kept]).antipodal == 2
    np.testing.assert_array_equal(represented([[1.0], [1e-4], [0.1]], [0.0, 1.0, 0.0]), [True, False, True])
    short, bias = [[0.9e-3], [1.1e-3], [0.02]], [0.1, 0.1, 1e-3]  # lengths from 1e-3 on, if the output is
    np.testing.assert_array_equal(represented(short, bias), [False, True, True])


# --- Beside the minimisers ---------------------------------------------------------------------------------


def test_sphere_check():
    for n, m, same, with_bias in ((5, 2, True, "pentagon"), (6, 2, False, "hexagon"), (8, 3, True, "8 in 3")):
        found = sphere_check(n, m, starts=4)
        losses = [found.biased.loss, found.unbiased.loss, found.common_loss, found.unit_loss]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(losses))
        assert n * found.unit_loss == pytest.approx(class_loss(found.sphere.W, 0.0, 1), rel=1e-12, abs=0)
        assert (found.unbiased_gap < 1e-4) == same
        assert geometry(found.biased.W).name == with_bias
        W = found.biased.W[np.linalg.norm(found.biased.W, axis=1) > 0]
        assert n * found.biased.loss <= code_loss(n, np.max(np.triu(geometry(W).inner, 0)))
    assert math.isnan(sphere_check(8, 2, starts=4).biased_gap)  # where features are dropped
