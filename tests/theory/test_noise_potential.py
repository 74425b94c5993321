"""The loss averaged over hidden noise and its force on sparsity, against listing, 50 digits and slopes."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy

from superposition.theory import noise as theory
from superposition.theory.noise import relu

from ..oracles import differences, spread_simplex

ROUNDING = 1e-13
OVERLAPS = np.array([-1.0, -0.5, -0.2, 0.0, 0.1, 0.8])
PARTS = ("on", "mean", "second", "on_noise", "mean_noise")


def listed(g, w, std, excess_kurtosis):
    """All five means by listing every state of a three-point noise."""
    size, share = math.sqrt(excess_kurtosis + 3), 1 / (excess_kurtosis + 3)
    points = [(-size * std, share / 2), (0.0, 1 - share), (size * std, share / 2)]
    xi, p = np.moveaxis(np.array(list(itertools.product(points, repeat=len(w)))), 2, 0)
    p = p.prod(axis=1)
    y = g[:, None] + xi @ w
    out, on = np.maximum(y, 0), y > 0
    return on @ p, out @ p, out**2 @ p, (on * p) @ xi, (out * p) @ xi


@pytest.mark.parametrize(
    ("noise", "kurtosis"), [("bipolar", -2.0), ("three-point", -2.0), ("three-point", 1.5)]
)
def test_discrete_noise_is_listed(noise, kurtosis):
    given = None if noise == "bipolar" else kurtosis
    for m in (1, 2, 5):
        w = np.random.default_rng(m).normal(size=m + 1)
        w[0] = 0.0  # a neuron that the output does not use
        got = theory.relu_moments(OVERLAPS, w, noise, 0.3, excess_kurtosis=given)
        for name, exact in zip(PARTS, listed(OVERLAPS, w, 0.3, kurtosis), strict=True):
            np.testing.assert_allclose(getattr(got, name), exact, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("noise", "kurtosis", "m"), [("bipolar", None, 14), ("three-point", -1.0, 9), ("three-point", 0.5, 10)]
)
def test_discrete_noise_is_inverted(monkeypatch, noise, kurtosis, m):
    """What is done beyond 40 weights, on few enough to list them; the bounds are those of the docstring."""
    w = np.random.default_rng(1).normal(size=m)
    w[0] = 0.0
    exact = theory.relu_moments(OVERLAPS, w, noise, 0.2, excess_kurtosis=kurtosis)
    monkeypatch.setattr(relu, "MOST_STATES", 0)
    got, spread = (
        theory.relu_moments(OVERLAPS, w, noise, 0.2, excess_kurtosis=kurtosis),
        0.2 * np.linalg.norm(w),
    )
    assert np.abs(got.mean - exact.mean).max() < 3e-5 * spread
    assert np.abs(got.second - exact.second).max() < 3e-9 * spread**2
    assert np.abs(got.mean_noise - exact.mean_noise).max() < 3e-5 * 0.2 * spread
    np.testing.assert_array_equal(got.mean_noise[:, 0], 0)


def density_of_sum(noise, w, std):
    """Density of W.xi for one or two weights, at 30 digits."""
    if noise == "laplace":
        b = [abs(x) * std / mpmath.sqrt(2) for x in w]
        if len(b) == 1:
            return lambda y: mpmath.exp(-abs(y) / b[0]) / (2 * b[0])
        terms = [(b[0], 1), (b[1], -1)]
        return lambda y: (
            sum(s * x * mpmath.exp(-abs(y) / x) for x, s in terms) / (2 * (b[0] ** 2 - b[1] ** 2))
        )
    low, high = sorted([abs(x) * std * mpmath.sqrt(3) for x in w] + [mpmath.mpf(0)])[-2:]
    if not low:
        return lambda y: (abs(y) < high) / (2 * high)
    return lambda y: max(mpmath.mpf(0), min(low, (low + high - abs(y)) / 2)) / (2 * low * high)


@pytest.mark.parametrize("noise", ["uniform", "laplace"])
@pytest.mark.parametrize("w", [[0.9], [0.8, -0.3]])
def test_smooth_noise_is_integrated(noise, w):
    std = 0.4
    got = theory.relu_moments(OVERLAPS, w, noise, std)
    with mpmath.workdps(30):
        density = density_of_sum(noise, w, mpmath.mpf(std))
        for i, g in enumerate(OVERLAPS):
            edges = [-g, 0.0, 20.0] if noise == "laplace" else [-g, 0.0]
            ends = [math.sqrt(3) * std * abs(sum(e * abs(x) for e, x in zip(sign, w, strict=True)))
                    for sign in itertools.product([1, -1], repeat=len(w))]  # fmt: skip
            points = sorted({max(x, -g) for x in [*edges, *ends, *(-e for e in ends)]})
            for k, value in ((1, got.mean[i]), (2, got.second[i])):
                exact = mpmath.quad(lambda y, g=g, k=k: (g + y) ** k * density(y), points)
                assert value == pytest.approx(float(exact), abs=2e-9 * std)


@pytest.mark.parametrize("method", ["exact", "edgeworth", "normal"])
def test_products_with_noise_are_derivatives(method):
    w = np.array([0.7, -0.4, 0.2, 0.35, 0.11])
    for noise in ("bipolar", "uniform", "normal", "laplace"):
        got = theory.relu_moments(OVERLAPS, w, noise, 0.3, method=method)

        def parts(w, noise=noise):
            means = theory.relu_moments(OVERLAPS, w, noise, 0.3, method=method)
            return np.array([means.second / 2, means.mean])

        # Central differences: rounding 1e-16/h, curvature h^2.
        by_second, by_mean = np.swapaxes(differences(parts, w, 1e-5), 0, 1)
        np.testing.assert_allclose(got.mean_noise.T, by_second, rtol=0, atol=1e-9)
        np.testing.assert_allclose(got.on_noise.T, by_mean, rtol=0, atol=1e-8)
        # Nor does noise reach an output without weights.
        assert theory.noise_averaged_loss(np.zeros((2, 3)), noise, 0.1, method=method) == 2
        got = theory.relu_moments([-0.5, 0.0, 0.5], [0.0, 0.0], noise, 0.3, method=method)
        np.testing.assert_array_equal([got.mean, got.second], [[0, 0, 0.5], [0, 0, 0.25]])
        assert not np.any([got.mean_noise, got.on_noise])


def test_normal_closed_form_at_50_digits():
    derived = theory.derive_normal_relu()
    functions = [sympy.lambdify(derived.symbols, e, "mpmath") for e in derived.expression]
    g = np.concatenate([-np.geomspace(30, 1e-12, 12), np.geomspace(1e-12, 30, 12)])
    got = theory.relu_moments(g, [1.0], "normal", 1.0)
    with mpmath.workdps(800):  # the derived forms cancel e^-450
        for i, x in enumerate(g):
            for part, function in zip(PARTS[:3], functions, strict=True):
                # Below 0 a rounding of z is one of z^2.
                assert getattr(got, part)[i] == pytest.approx(
                    float(function(mpmath.mpf(x), mpmath.mpf(1))), rel=4e-15 * max(1, x**2), abs=1e-300
                )


def test_edgeworth_is_derived_and_of_first_order():
    at = {"g": -0.1, "s": 1.0, "sigma": 0.2, "p4": 0.25, "kurtosis": -2.0}
    edgeworth, normal = (
        theory.relu_moments(-0.1, np.full(4, 0.5), "bipolar", 0.2, method=method).second
        for method in ("edgeworth", "normal")
    )
    derived = theory.derive_edgeworth().evaluate(at)
    assert float(edgeworth - normal) == pytest.approx(float(derived), rel=1e-12, abs=0)
    # Weights in general position: what is left falls like the fourth norm squared, 1/m^2.
    errors = []
    for m in (16, 64):
        w = np.sqrt(np.linspace(0.5, 1.5, m) / m)
        exact, first = (
            theory.relu_moments(-0.8, w, "uniform", 1.0, method=k).second for k in ("exact", "edgeworth")
        )
        errors.append(float(exact - first))
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.2)


# --- Many encodings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "edgeworth"])
def test_gradient_is_the_slope_of_the_loss(method):
    W = np.random.default_rng(6).normal(size=(3, 4)) / 2
    for noise in ("bipolar", "laplace"):

        def loss(W, noise=noise):
            return theory.noise_averaged_loss(W, noise, 0.4, method=method)

        got = theory.noise_averaged_gradient(W, noise, 0.4, method=method)
        # Rounding of a loss near 5, over the step: 1e-9.
        np.testing.assert_allclose(got, differences(loss, W, 1e-6), rtol=0, atol=1e-8)


def test_without_noise_the_loss_is_the_plain_one():
    W = np.random.default_rng(7).normal(size=(4, 3))
    overlap = W @ W.T
    plain = np.sum((np.maximum(overlap, 0) - np.eye(4)) ** 2)
    assert theory.noise_averaged_loss(W, "normal", 0.0) == pytest.approx(plain, rel=ROUNDING, abs=0)
    force = 4 * (np.maximum(overlap, 0) - np.eye(4)) @ W
    for noise in ("bipolar", "normal", "laplace"):
        np.testing.assert_allclose(theory.noise_averaged_gradient(W, noise, 0.0), force, atol=1e-12)


def test_potential_of_encodings_of_unlike_lengths_is_the_first_order_in_the_kurtosis():
    """Noise turns no output of a feature itself: its overlap is 6 standard deviations off, or more."""
    W, std = np.linspace(0.8, 1.6, 4)[:, None] * spread_simplex(4, 20), 0.13
    first, none = (
        theory.noise_averaged_loss(W, "bipolar", std, method=method) for method in ("edgeworth", "normal")
    )
    assert theory.effective_potential(W, std, -2.0) == pytest.approx(first - none, rel=1e-4)
    # The quartic potential of each encoding's own rate.
    own = -np.sum(W**4, axis=1) / 4
    rates = theory.sparsifying_rate(W, std, -2.0)
    assert rates @ own == pytest.approx(first - none, rel=1e-4)
    assert np.all(theory.sparsifying_rate(-W[[0, 1]] * [[1], [-1]], std, -2.0) < 0)  # positive overlaps


def test_noise_that_reaches_nothing_leaves_the_plain_loss():
    # The overlap is 1e130 standard deviations from the threshold.
    for noise in ("normal", "bipolar", "uniform", "laplace"):
        assert theory.noise_averaged_loss([[2.0, 0.0]], noise, 1e-130) == 9.0
    gradient = theory.noise_averaged_gradient([[2.0, 0.0]], "normal", 1e-130)
    np.testing.assert_array_equal(gradient, [[24.0, 0.0]])
    moments = theory.relu_moments([1e100, -1e100, 1.0], [1e-200], "normal", 1.0, method="edgeworth")
    np.testing.assert_array_equal(moments.mean, [1e100, 0.0, 1.0])
    np.testing.assert_array_equal(moments.on, [1.0, 0.0, 1.0])


def test_long_encodings_have_a_potential():
    assert theory.effective_potential([[1e80, 0.0], [0.0, 1.0]], 0.1, -1.0) == 0.0
    W = np.array([[0.6, -0.8], [-0.8, 0.6]])
    for scale in (1e-60, 1e60):  # z stays if the noise grows with the weights
        grown = theory.effective_potential(scale * W, scale * 0.5, -1.0)
        assert grown == pytest.approx(
            scale**4 * theory.effective_potential(W, 0.5, -1.0), rel=ROUNDING, abs=0
        )
    with pytest.raises(ValueError, match=r"`W` must have finite lengths; got 1e\+308"):
        theory.sparsifying_rate(np.full((2, 9), 1e308), 0.1, -1.0)
