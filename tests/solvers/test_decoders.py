"""Best decoders against searches of another kind, message passing against its state evolution."""

import numpy as np
import pytest
from scipy import optimize, stats

from superposition.solvers import decoders, rug
from superposition.solvers.results import Status
from superposition.theory import decoders as theory
from superposition.theory import rug as macroscopic
from superposition.theory.features import VALUES, Features

KINDS = ("affine", "soft", "hard", "relu", "jumprelu", "bayes")


def test_the_best_relu_is_that_of_the_rug():
    rng = np.random.default_rng(0)
    p, ratio = 10 ** rng.uniform(-9, 0, 12), 10 ** rng.uniform(-1.5, 0, 12)
    found, best = decoders.optimum(p, macroscopic.sigma(p, ratio), "relu"), rug.optimum(p, ratio)
    np.testing.assert_allclose(found.loss, best.loss, rtol=1e-9)
    np.testing.assert_allclose(found.a, best.a, rtol=1e-4)


CHANNELS = [(1e-3, 0.03), (0.05, 0.22), (0.3, 0.6)]


@pytest.mark.parametrize(
    ("values", "p", "s"),
    [  # every other law of the values at one channel; the others in the slow suite
        pytest.param(values, *channel, marks=[pytest.mark.slow] * ((2 * i + j) % 6 != 0))
        for i, values in enumerate(VALUES)
        for j, channel in enumerate(CHANNELS)
    ],
)
def test_no_search_finds_a_better_jumprelu(values, p, s):
    found = decoders.optimum(p, s, values=values)
    at = [found.theta, found.a, found.b] if np.isfinite(found.theta) else [-50.0, found.a, found.b]
    assert theory.jumprelu_loss(*at, s, p, values=values) == pytest.approx(found.loss, rel=1e-9, abs=0)

    def loss(x):
        return theory.jumprelu_loss(x[0] * s, x[1], x[2] * s, s, p, values=values)

    for start in ([0.5, 0.8, 0.0], [3.0, 1.0, 0.0], [5.0, 1.2, -1.0]):
        other = optimize.minimize(loss, start, method="Nelder-Mead", options={"maxfev": 400})
        assert other.fun >= found.loss * (1 - 1e-9)


# A law with bounds, one with an atom and one of both signs.
FEW = ("uniform", "rectified-normal", "normal")


@pytest.mark.parametrize(("points", "laws"), [(1, FEW), pytest.param(24, VALUES, marks=pytest.mark.slow)])
def test_decoders_are_in_order(points, laws):
    rng = np.random.default_rng(1)
    for values in laws:
        p, s = 10 ** rng.uniform(-6, -0.1, points), 10 ** rng.uniform(-3, 0, points)
        loss = {kind: decoders.optimum(p, s, kind, values=values).loss for kind in KINDS}
        above = 1 + 1e-12
        assert np.all(loss["bayes"] <= loss["jumprelu"] * above)
        assert np.all(loss["jumprelu"] <= np.minimum(loss["relu"], loss["hard"]) * above)
        assert np.all(loss["relu"] <= loss["soft"] * above)
        if values not in ("symmetric", "normal"):  # no ReLU is affine
            assert np.all(loss["relu"] <= loss["affine"] * above)


@pytest.mark.parametrize("values", ["normal", "symmetric"])
def test_the_best_relu_of_values_of_both_signs(values):
    """Of all ReLUs a (y - theta)_+, theta scanned and a in closed form; an affine decoder may lose less."""
    v, weights = np.polynomial.legendre.leggauss(1000)
    v, weights = (v, weights / 2) if values == "symmetric" else (9 * v, 9 * weights * stats.norm.pdf(9 * v))
    v = np.append(v, 0.0)  # a feature that is off
    for p, s in [(1e-3, 0.1), (0.1, 0.03), (0.5, 0.23), (1.0, 3.0)]:
        found, mass = decoders.optimum(p, s, "relu", values=values), np.append(p * weights, 1 - p)
        assert found.b == pytest.approx(-found.a * found.theta, rel=1e-12, abs=1e-12)
        theta = np.append(np.linspace(-2, 2, 401), s * np.linspace(-6, 6, 601))
        x = (v - theta[:, None]) / s
        share, height = stats.norm.cdf(x), stats.norm.pdf(x)
        first, second = (x * share + height) @ (mass * v), ((x * x + 1) * share + x * height) @ mass
        with np.errstate(invalid="ignore", divide="ignore"):
            loss = mass @ v**2 - first**2 / second
        # the scan's step is at most 0.02 sigma
        assert found.loss <= np.nanmin(loss) <= found.loss * (1 + 1e-4)
    affine, relu = (decoders.optimum(0.5, 0.23, kind, values=values).loss for kind in ("affine", "relu"))
    assert affine < 0.5 * relu


@pytest.mark.parametrize(("cases", "laws"), [(1, FEW), pytest.param(40, VALUES, marks=pytest.mark.slow)])
def test_no_threshold_is_better(cases, laws):
    """Brute force over thresholds beyond noise and values; p close to 0 and to 1, noise narrow and wide."""
    rng = np.random.default_rng(8)
    for values in laws:
        for k in range(cases):
            p, s = 10 ** rng.uniform(-4, 0), 10 ** rng.uniform(-2.5, 2.5)
            p = p if k % 2 else 1 - 0.3 * p
            theta = np.append(s * np.linspace(-40, 40, 41), np.linspace(-11, 14, 26))
            for kind in ("soft", "hard"):
                b = -theta if kind == "soft" else 0.0
                least = theory.jumprelu_loss(theta, 1.0, b, s, p, values=values).min()
                assert decoders.optimum(p, s, kind, values=values).loss <= least * (1 + 1e-9)


def test_a_feature_that_is_constant_loses_nothing():
    for kind in ("affine", "relu", "jumprelu", "bayes"):
        assert decoders.optimum(1.0, 0.3, kind, values="binary").loss == 0.0
    assert decoders.optimum(1.0, 0.3, "hard", values="binary").loss > 0.0


def test_the_topk_that_keeps_all_is_the_affine_decoder():
    best, affine = decoders.topk_optimum(9, 0.3, 0.5, k=9), decoders.optimum(0.3, 0.5, "affine")
    assert (best.a, best.b, best.loss) == pytest.approx((affine.a, affine.b, affine.loss), rel=1e-9)


@pytest.mark.slow
def test_the_best_topk_is_the_best_of_all_k():
    for n, p, s in [(40, 0.05, 0.1), (9, 0.9, 0.5)]:
        every = [decoders.topk_optimum(n, p, s, k=k).loss for k in range(1, n + 1)]
        best = decoders.topk_optimum(n, p, s)
        assert best.k == 1 + int(np.argmin(every))
        assert best.loss == min(every)
        assert best.loss == pytest.approx(theory.topk_loss(best.k, n, best.a, best.b, s, p), rel=1e-12)
        for a, b in [(1.01, 0.0), (0.99, 0.0), (1.0, 0.01 * s), (1.0, -0.01 * s)]:
            assert theory.topk_loss(best.k, n, a * best.a, best.b + b, s, p) > best.loss


# --- Iteration ----------------------------------------------------------------------------------------------


def projections(n, m, rng):
    yield "orthogonal", rug.rug_matrix(n, m, rng)
    yield "gaussian", rng.normal(size=(m, n)) / np.sqrt(m)


@pytest.mark.parametrize("values", ["uniform", pytest.param("half-normal", marks=pytest.mark.slow)])
def test_message_passing_follows_its_state_evolution(values):
    """Two-sided tests at 1e-4 of the mean squared error of ten runs of 2048 features after each step."""
    n, steps = 2048, 4
    for p, ratio in [(0.05, 0.25), (0.05, 0.08)]:
        errors = {"orthogonal": [], "gaussian": []}
        for seed in range(10):
            rng = np.random.default_rng([seed, int(100 * ratio)])
            (x,) = Features(n, p, values).sample(1, rng)
            for name, A in projections(n, int(ratio * n), rng):
                runs = [decoders.message_passing(A, A @ x, p, values=values, steps=k) for k in (1, steps)]
                errors[name].append([np.mean((run.x - x) ** 2) for run in runs])
        for name, found in errors.items():
            law = decoders.state_evolution(p, int(ratio * n) / n, projection=name, values=values, steps=steps)
            for got, want in zip(np.transpose(found), law.path[[0, -1]], strict=True):
                assert stats.ttest_1samp(got, want).pvalue > 1e-4, (p, ratio, name)


@pytest.mark.parametrize(
    ("p", "values"),
    [(0.02, "uniform")]
    + [
        pytest.param(p, values, marks=pytest.mark.slow)
        for p, values in ((0.1, "binary"), (0.2, "exponential"), (0.3, "normal"), (1e-4, "uniform"))
    ],
)
def test_above_the_line_all_is_recovered_and_below_it_not(p, values):
    line = decoders.recovery_ratio(p, values=values)
    s = np.geomspace(1e-5, 5, 4000)
    grid = np.max(theory.bayes_loss(p, s[::40], values=values) / s[::40] ** 2)
    assert grid <= line * (1 + 1e-8)
    assert grid > line * 0.99
    for projection in ("orthogonal", "gaussian"):
        above, below = (
            decoders.state_evolution(p, line * by, values=values, projection=projection, steps=1000)
            for by in (1.1, 0.9)
        )
        assert above.status is Status.CONVERGED
        assert above.loss == 0.0
        assert below.loss > 1e-3 * p
        # a fixed point of both kinds: m = ratio sigma^2
        assert below.loss == pytest.approx(line * 0.9 * below.sigma[-1] ** 2, rel=1e-5)


def test_a_rug_of_many_features_is_decoded_exactly():
    rng = np.random.default_rng(3)
    (x,) = Features(2**15, 0.05).sample(1, rng)
    R = rug.rug_matrix(2**15, 2**13, rng)
    found = decoders.message_passing(R, R @ x, 0.05)
    assert found.status is Status.CONVERGED
    assert np.abs(found.x - x).max() < 1e-5
    M = rug.random_projector(256, 128, rng=rng)
    (x,) = Features(256, 0.05).sample(1, rng)
    assert np.abs(decoders.message_passing(M, M @ x, 0.05).x - x).max() < 1e-4


def test_what_is_not_a_projection_is_said_to_diverge():
    rng = np.random.default_rng(0)
    A = 6 * rng.normal(size=(100, 400)) / 10 + 3.0
    (x,) = Features(400, 0.2).sample(1, rng)
    found = decoders.message_passing(A, A @ x, 0.2)
    assert found.status is Status.DIVERGED
    assert np.isfinite(found.x).all()


def test_attainable():
    law = Features(16, 0.05, "exponential", 2.0, importance=3.0)
    found = decoders.attainable(law, 0.25)
    assert found.decoder == ("affine", "soft", "hard", "relu", "jumprelu", "bayes", "topk", "iterated")
    s = found.sigma
    assert s**2 == pytest.approx((0.05 * 2 - 0.05**2) * 3)
    assert found.loss[5] == pytest.approx(12 * theory.bayes_loss(0.05, s, values="exponential"))
    assert str(found).count("\n") == 8
    assert found.recovery_ratio == decoders.recovery_ratio(0.05, values="exponential")
    assert np.all(found.error_estimate <= 1e-8 * found.loss + 1e-300)
    assert decoders.attainable(0.05, 0.25).loss[3] == pytest.approx(rug.optimum(0.05, 0.25).loss, rel=1e-9)
